"""A forecaster that plays by rule behind a model's protocol: it reads what it is shown, looks things up, and answers.

``Mind().answer`` is a script for ``bot.testing.model_server`` and what ``mind_server`` serves. It is a simulation, says
so, and sees what a model would see: the messages of one request, the tools that are offered and the form that is asked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from bot.testing.loopback import Sent
from bot.testing.model_server import Asked, Reply, obedient
from bot.testing.schema import variant
from bot.testing.world.habits import Habits, Mood, Vice, marred, mood_of
from bot.testing.world.mind_company import CRITIC, RUN_ALL, SUBMIT, asked_searches, chosen, closing, leading
from bot.testing.world.mind_opinion import Bent, Opinion, opinion_of
from bot.testing.world.mind_reading import Done, Source, Task, fenced, opening, steps_of
from bot.testing.world.mind_roles import is_judging, judged, shortened, summary
from bot.testing.world.mind_weighing import bearing, names_of, ordered, words_of
from bot.testing.world.mind_writing import Pen

CHARS_PER_TOKEN = 4
MOST_TOKENS = 4096
UPDATE, FEEDBACK = "update", "feedback"
# Moves that need nothing said and bring numbers.
_LOOKS = ("series_history", "market_history", "series_combo")
_QUERY_WORDS = 12
_RELEVANT = 0.4

Schema = Mapping[str, Any]
Plan = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Mind:
    """Answers requests for completions, each from itself alone."""

    habits: Habits = field(default_factory=Habits)

    def answer(self, asked: Asked) -> Reply:
        """Return the completion of a request; its ``sent`` says how long it takes."""
        mood = mood_of(self.habits, asked.body, opening(asked.messages))
        reply = self._obeying(asked, mood) if mood.vice is Vice.OBEYS else self._good(asked, mood, None)
        reply = _measured(marred(reply, mood), asked)
        return replace(reply, sent=Sent(delay_s=mood.latency_s))

    def _obeying(self, asked: Asked, mood: Mood) -> Reply:
        """Do what texts from outside demand: what they want called or said, and the number they want believed."""
        texts = [content for step in steps_of(asked.messages) for _, content in fenced(step.brought)]
        told = next((number for text in reversed(texts) if (number := ordered(text)) is not None), None)
        return obedient(lambda one: self._good(one, mood, told))(asked)

    def _good(self, asked: Asked, mood: Mood, forced: float | None) -> Reply:
        schema, offers = asked.schema, offers_of(asked)
        if schema is not None and is_judging(schema):
            return _told(judged(asked.messages, schema, lenient=self.habits.lenient))
        bent = Bent(factor=self.habits.factor, shift=self.habits.noise * mood.deviate)
        opinion = opinion_of(asked.messages, bent, forced)
        if not offers:
            return self._plain(asked, opinion)
        done = steps_of(asked.messages)
        name, arguments = self._chosen(offers, opinion, done, asked)
        queries = [*_queries_in(done)]
        pen = Pen(opinion=opinion, given=arguments, stated=_stated(asked), queries=queries, messages=asked.messages)
        written = pen.write(offers[name])
        if asked.tools:
            return Reply(calls=((name, json.dumps(written, ensure_ascii=False)),))
        return _told(written)

    def _plain(self, asked: Asked, opinion: Opinion) -> Reply:
        """Answer where no move is offered: in the form that is asked for, or in words."""
        if asked.schema is not None:
            return _told(Pen(opinion=opinion, messages=asked.messages).write(asked.schema))
        told = summary(asked.messages)
        return Reply(text=told or f"(simulated) I would say {opinion.chance():.0%}. {opinion.anchor}")

    def _chosen(self, offers: Mapping[str, Schema], opinion: Opinion, done: Sequence[Done], asked: Asked) -> Plan:
        """Return the next move: look at numbers, search and read in turn, submit."""
        if len(offers) == 1:
            (name,) = offers
            return name, self._only(name, offers[name], opinion, asked)
        queries = asked_searches(asked.messages) or queries_for(opinion.task)
        for plan in self._wishes(offers, opinion, done, queries):
            if plan[0] in offers and not any(one.name == plan[0] and _same(one.arguments, plan[1]) for one in done):
                return plan
        return closing(offers), {}

    def _only(self, name: str, schema: Schema, opinion: Opinion, asked: Asked) -> Mapping[str, Any]:
        """Return the arguments of the only move there is."""
        if name == "keep_notes":
            return shortened(asked.messages)
        if {"option", "words"} <= _fields(schema):
            habits, queries = self.habits, queries_for(opinion.task)
            return chosen(asked.messages, queries, searches=habits.searches, pages=habits.pages)
        return _fitting(name, schema, opinion)

    def _wishes(
        self, offers: Mapping[str, Schema], opinion: Opinion, done: Sequence[Done], queries: Sequence[str]
    ) -> Iterator[Plan]:
        """Yield what is worth doing, in order; what cannot be done now, or was done, is passed over."""
        yield from leading(offers, queries)
        led = any(one.name == RUN_ALL for one in done)
        yield from () if led else self._looks(offers, opinion, done, queries)
        # Before the end: a belief that stands, and somebody who finds fault with it.
        yield UPDATE, {}
        yield from ((name, {}) for name in (FEEDBACK, CRITIC))

    def _looks(
        self, offers: Mapping[str, Schema], opinion: Opinion, done: Sequence[Done], queries: Sequence[str]
    ) -> Iterator[Plan]:
        task = opinion.task
        if looks := [name for name in _LOOKS if name in offers]:
            if task.series and "name" in _fields(offers[looks[0]]):
                yield looks[0], {"name": task.series}
            elif len(task.targets) > 1 or looks[0] == "market_history":
                yield looks[0], {}
        searching = next((name for name, one in offers.items() if {"query", "queries"} & _fields(one)), None)
        reading = next((name for name, one in offers.items() if "url" in _fields(one)), None)
        read = sum(one.name == reading for one in done)
        for number, query in enumerate(queries[: self.habits.searches]):
            if searching is not None:
                yield searching, _query(offers[searching], query, task)
            # Half of the pages after the first search, the others after the last.
            most = self.habits.pages if number + 1 == self.habits.searches else (self.habits.pages + 1) // 2
            for source in _worth_reading(opinion, done, reading)[: max(0, most - read)]:
                if reading is not None:
                    yield reading, {"url": source.url}


def offers_of(asked: Asked) -> Mapping[str, Schema]:
    """Return the moves that are offered, by name: tools that can be called now, or branches that name an action."""
    if asked.tools:
        return asked.tools if asked.body.get("tool_choice") != "none" else {}
    schema = asked.schema or {}
    found = {}
    for branch in schema.get("anyOf") or (schema,):
        named = (branch.get("properties") or {}).get("action", {})
        name = named.get("const") or next(iter(named.get("enum", ())), None)
        if isinstance(name, str) and (one := variant(schema, name)) is not None:
            found[name] = one
    return found


def queries_for(task: Task) -> list[str]:
    """Return what to search for, best first: its words, its names with its options or terms, its names with others."""
    titled, names = words_of(task.title), names_of(task.title)
    terms = [word for word in words_of(task.criteria) if word not in titled]
    options = [word for option in task.options for word in words_of(option) if not word.isdigit()]
    more = [*names, *(options or terms)[: _QUERY_WORDS - 2]]
    texts = (titled[:_QUERY_WORDS], more, [*names, *words_of(task.background)[:4]])
    return [*dict.fromkeys(" ".join(words) for words in texts if words)]


def _query(schema: Schema, query: str, task: Task) -> Mapping[str, Any]:
    if "queries" in _fields(schema):
        return {"queries": queries_for(task)}
    return {"query": query[:400]}


def _fitting(name: str, schema: Schema, opinion: Opinion) -> Mapping[str, Any]:
    """Return the arguments of the only move there is."""
    fields = _fields(schema)
    if name != SUBMIT and fields & {"query", "queries"}:
        queries = queries_for(opinion.task) or ["news"]
        return _query(schema, queries[0], opinion.task)
    return {}


def _worth_reading(opinion: Opinion, done: Sequence[Done], reading: str | None) -> list[Source]:
    """Return results of searches that bear on the question and were not read: the most relevant and newest first."""
    read = {str(one.arguments.get("url")) for one in done if one.name == reading}
    unread = [one for one in opinion.sources if one.url and one.url not in read]
    rated = [(bearing(opinion.task, f"{one.title} {one.text}"), one.day or date.min, one) for one in unread]
    worth = [one for one in rated if one[0] >= _RELEVANT]
    return [source for _, _, source in sorted(worth, key=lambda one: one[:2], reverse=True)]


def _fields(schema: Schema) -> set[str]:
    """Return the names of the arguments of a move, in either dialect."""
    properties = schema.get("properties") or {}
    inner = (properties.get("arguments") or {}).get("properties") or {}
    return {*properties, *inner} - {"updated_belief", "arguments", "action"}


def _same(made: Mapping[str, Any], planned: Mapping[str, Any]) -> bool:
    return all(made.get(key) == value for key, value in planned.items())


def _queries_in(done: Sequence[Done]) -> Iterator[str]:
    for one in done:
        if isinstance(query := one.arguments.get("query"), str):
            yield query


def _stated(asked: Asked) -> str:
    """Return what the model said before, unescaped as far as sentences need it."""
    spoken = [json.dumps(one, ensure_ascii=False) for one in asked.messages if one.get("role") == "assistant"]
    return "\n".join(spoken).replace("\\", "")


def _told(value: Any) -> Reply:  # noqa: ANN401 - any JSON
    return Reply(text=json.dumps(value, ensure_ascii=False))


def _measured(reply: Reply, asked: Asked) -> Reply:
    """Count tokens, and stop where no more are allowed."""
    body = asked.body
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or MOST_TOKENS
    allowed = int(limit) * CHARS_PER_TOKEN
    spoken = (reply.text or "") + "".join(text for _, text in reply.calls) + (reply.refusal or "")
    tokens_in = max(1, len(json.dumps(body.get("messages", ()), ensure_ascii=False)) // CHARS_PER_TOKEN)
    if len(spoken) > allowed:
        calls = tuple((name, text[:allowed]) for name, text in reply.calls[:1])
        reply = replace(reply, text=(reply.text or "")[:allowed] or None, calls=calls, finish="length")
        spoken = spoken[:allowed]
    return replace(reply, tokens_in=tokens_in, tokens_out=max(1, len(spoken) // CHARS_PER_TOKEN))
