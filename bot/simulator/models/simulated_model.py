"""A simulated language model.

Reads the messages it is shown, searches and reads pages, and answers in the requested form.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from typing import Any

from bot.core.ids import sha256_hex
from bot.core.light_dataclass import dataclass
from bot.simulator.models.behaviour import AnswerBehaviour, AnswerFault, ModelBehaviour, apply_fault, draw_behaviour
from bot.simulator.models.collaboration import (
    CRITIC,
    RUN_ALL,
    SUBMIT,
    CollaborationAnswers,
    choose_action,
    closing_move,
    lead_subagents,
    requested_searches,
)
from bot.simulator.models.evidence_weighing import (
    is_instruction,
    ordered_probability,
    proper_names,
    relevance,
    topic_words,
)
from bot.simulator.models.opinion import OpinionBias, SimulatedOpinion, form_opinion
from bot.simulator.models.prompt_reading import (
    WRITTEN_DATE,
    ChatMessage,
    PreviousMove,
    PromptQuestion,
    PromptSource,
    fenced_parts,
    first_iso_date,
    first_user_text,
    last_written_date,
    message_text,
    previous_moves,
)
from bot.simulator.world.news_language import find_claims, find_figures
from bot.testing.json_schema import fill_schema, find_variant
from bot.testing.loopback_server import ScriptedResponse
from bot.testing.model_server import CompletionRequest, ScriptedReply, obey_demands

_NUMBERED = re.compile(r"^(?:Result|Text) (\d+):$", re.MULTILINE)


_SENTENCE = re.compile(r"(?<=[.!?])\s+")


_FUTURE_WORDS = re.compile(
    r"\b(?:will|would|by|due|expected|expects|until|plan\w*|schedul\w*|deadline|before|forecast\w*|may|might|could)\b"
    # The present tense of timetables.
    r"|\bis to\b|\bare to\b|\bvotes on\b|\b(?:plays?|meets?) the\b|\?",
    re.IGNORECASE,
)


_RESULT_WORDS = re.compile(
    r"\b(?:it|the matter|all|everything) (?:is|has been) (?:over|closed|decided|settled|known)\b|\bafter the fact\b",
    re.IGNORECASE,
)


_NOTE = re.compile(r"^- \[(.*?)\] (.*)$")


_NOTE_LIMIT = 4


_SUMMARY_SENTENCES = 12


def is_judging_task(schema: Mapping[str, Any] | None) -> bool:
    """Return whether numbered texts are to be judged, each with one of two words."""
    return _verdict_words(schema) is not None


def judge_texts(
    messages: Sequence[ChatMessage], schema: Mapping[str, Any], *, lenient: float = 0.0
) -> Mapping[str, Any]:
    """Return a verdict on each numbered text: the second word of the schema for texts from after the cutoff.

    A judge who is ``lenient`` lets that share of the late ones pass; which ones depends on the text alone.
    """
    clean, late = _verdict_words(schema) or ("keep", "drop")
    cutoff = first_iso_date("\n".join(message_text(one) for one in messages if one.get("role") == "system"))
    results = []
    for number, text in _numbered_texts(first_user_text(messages)):
        why = _leak_reason(text, cutoff)
        if why and not is_instruction(text) and _draw_from_text(text) < lenient:
            why = ""
        results.append(
            {"number": number, "verdict": late if why else clean, "reason": why or "no later event is reported"}
        )
    return {"results": results}


def summarize_sources(messages: Sequence[ChatMessage]) -> str | None:
    """Return a summary of sources, sentence by sentence with the label of each; None where no summary is requested."""
    found = [*fenced_parts(first_user_text(messages))]
    asked = " ".join(text for label, text in found if label in {"question", "request"})
    sources = [(label, text) for label, text in found if label not in {"question", "request", "resolution criteria"}]
    if not asked or not sources:
        return None
    task = PromptQuestion(title=asked)
    lines = [
        f"[{label}] {sentence}"
        for label, text in sources
        if not is_instruction(text) and relevance(task, text) >= 0.5
        for sentence in _SENTENCE.split(text)
        if find_claims(sentence) or find_figures(sentence)
    ]
    return "\n".join(lines[:_SUMMARY_SENTENCES]) or "The sources say nothing to the point."


def shorten_notes(messages: Sequence[ChatMessage]) -> Mapping[str, Any]:
    """Return the newest notes of each list, where notes are to be shortened."""
    lists: dict[str, list[Any]] = {"evidence_for": [], "evidence_against": [], "key_uncertainties": []}
    names = {"evidence for:": "evidence_for", "evidence against:": "evidence_against"}
    notes = "\n".join(text for label, text in fenced_parts(first_user_text(messages)) if label == "notes")
    current = "key_uncertainties"
    for line in notes.split("\n"):
        current = names.get(line, "key_uncertainties" if line == "open questions:" else current)
        if found := _NOTE.match(line):
            lists[current].append({"text": found[2], "source": found[1]})
        elif line.startswith("- "):
            lists["key_uncertainties"].append(line[2:])
    return {name: items[-_NOTE_LIMIT:] for name, items in lists.items()}


def _leak_reason(text: str, cutoff: date | None) -> str:
    """Return why a text is from after the cutoff, "" where it is not."""
    if is_instruction(text):
        return "it tries to steer its reader"
    if cutoff is None:
        return ""
    # Nobody asks for a forecast of a decided event, so a text with the outcome is from after the cutoff.
    if found := _RESULT_WORDS.search(text):
        return f"it tells an outcome: {found[0]}"
    for sentence in _SENTENCE.split(text):
        days = [day for one in WRITTEN_DATE.findall(sentence) if (day := last_written_date(one))]
        days += [day for one in re.findall(r"\d{4}-\d{2}-\d{2}", sentence) if (day := first_iso_date(one))]
        if any(day >= cutoff for day in days) and not _FUTURE_WORDS.search(sentence):
            return f"it tells of {max(days).isoformat()} as of something past"
    return ""


def _draw_from_text(text: str) -> float:
    """Return a number in [0, 1) that depends on the text alone."""
    return int(sha256_hex(text.encode("utf-8", "replace"))[:8], 16) / 16**8


def _verdict_words(schema: Mapping[str, Any] | None) -> tuple[str, str] | None:
    entry = ((schema or {}).get("properties") or {}).get("results", {}).get("items", {})
    words = entry.get("properties", {}).get("verdict", {}).get("enum", ())
    if len(words) != 2:
        return None
    late = next((word for word in words if word in {"drop", "leak"}), words[1])
    return next(word for word in words if word != late), late


def _numbered_texts(text: str) -> list[tuple[int, str]]:
    matches = [*_NUMBERED.finditer(text)]
    ends = [one.start() for one in matches[1:]] + [len(text)]
    return [(int(head[1]), text[head.end() : end]) for head, end in zip(matches, ends, strict=False)]


FieldSchema = Mapping[str, Any]


_MAX_EVIDENCE = 3


_EVIDENCE_CHARS = 240


@dataclass(frozen=True, kw_only=True)
class AnswerWriter:
    """Writes JSON for a schema. ``fixed_values`` are values by the name of their field, at any depth.

    ``stated`` is what was said before, so that evidence is stated once; ``queries`` are the searches so far, and
    ``messages`` the conversation.
    """

    opinion: SimulatedOpinion
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    stated: str = ""
    queries: Sequence[str] = ()
    messages: Sequence[ChatMessage] = ()

    def write(self, schema: FieldSchema) -> Any:  # noqa: ANN401 - any JSON
        """Return a value that fits the schema."""
        return self._fill_part("", schema)

    def _fill_part(self, name: str, schema: FieldSchema) -> Any:  # noqa: ANN401 - as above
        if name in self.fixed_values:
            return self.fixed_values[name]
        if (writer := self._fields.get(name)) is not None:
            return writer(schema)
        if "const" in schema or "properties" not in schema:
            return fill_schema(schema, {})
        wanted = {*schema.get("required", ()), *self.fixed_values, *self._fields}
        return {key: self._fill_part(key, part) for key, part in schema["properties"].items() if key in wanted}

    @property
    def _fields(self) -> Mapping[str, Callable[[FieldSchema], Any]]:
        return {
            **CollaborationAnswers(opinion=self.opinion, messages=self.messages).fields(),
            "probability": self._fill_probability,
            "percent": self._fill_probability,
            "probabilities": self._fill_shares,
            "percents": self._fill_shares,
            "quantiles": self._fill_quantiles,
            "update_reasoning": self._fill_text(self._write_reason),
            "reasoning": self._fill_text(self._write_reason),
            "reason": self._fill_text(self._write_reason),
            "base_rate_anchor": self._fill_text(lambda: self.opinion.anchor),
            "confidence": self._fill_confidence,
            "evidence_for": lambda schema: self._fill_evidence(schema, favours=True),
            "evidence_against": lambda schema: self._fill_evidence(schema, favours=False),
            "contradicted": lambda _: [],
            "key_uncertainties": lambda _: ["What the next reports will say."],
            "searches_tried": lambda _: [*self.queries][-5:],
        }

    def _fill_confidence(self, schema: FieldSchema) -> str | int:
        sure = self.opinion.confidence
        return sure if schema.get("type") != "integer" else {"low": 30, "medium": 60, "high": 85}[sure]

    def _fill_probability(self, schema: FieldSchema) -> Any:  # noqa: ANN401 - as above
        targets = schema.get("properties")
        if targets is None:
            return _probability_value(schema, self.opinion.probability_of(next(iter(self.opinion.task.targets))))
        return {target: _probability_value(one, self.opinion.probability_of(target)) for target, one in targets.items()}

    def _fill_shares(self, schema: FieldSchema) -> Any:  # noqa: ANN401 - as above
        parts: Mapping[str, FieldSchema] = schema.get("properties", {})
        options = self.opinion.task.options
        if parts and not set(parts) <= set(options) and all("properties" in one for one in parts.values()):
            return {target: self._fill_shares(one) for target, one in parts.items()}
        shares = self.opinion.option_probabilities()
        even = 1.0 / max(1, len(parts))
        return {option: _probability_value(one, shares.get(option, even)) for option, one in parts.items()}

    def _fill_quantiles(self, schema: FieldSchema, target: str | None = None) -> Any:  # noqa: ANN401 - as above
        parts: Mapping[str, FieldSchema] = schema.get("properties", {})
        if any("properties" in one for one in parts.values()):
            return {key: self._fill_quantiles(one, key) for key, one in parts.items()}
        chosen = next(iter(self.opinion.task.targets)) if target is None else target
        return {name: self.opinion.quantile(_quantile_level(name), chosen) for name in parts}

    def _fill_text(self, words: Callable[[], str]) -> Callable[[FieldSchema], str]:
        return lambda schema: words()[: int(schema.get("maxLength", 1000))]

    def _write_reason(self) -> str:
        found = [*self.opinion.claims()]
        pro = sum(favours for _, favours in found)
        return (
            f"(simulated) Started from: {self.opinion.anchor} {pro} of {len(found)} readings speak for it, "
            f"{len(found) - pro} against; weighed by age, that is what I believe now."
        )

    def _fill_evidence(self, schema: FieldSchema, *, favours: bool) -> list[dict[str, str]]:
        most = min(_MAX_EVIDENCE, int(schema.get("maxItems", _MAX_EVIDENCE)))
        fresh = [
            {"text": reading.words[:_EVIDENCE_CHARS], "source": reading.source[:200]}
            for reading, pro in self.opinion.claims()
            if pro is favours and reading.words[:40] not in self.stated
        ]
        return fresh[:most]


def _probability_value(schema: FieldSchema, probability: float) -> float | int | str:
    """Return a probability in the unit of the schema: a fraction, a percentage, or a small percentage as a text."""
    if "anyOf" in schema and 100.0 * probability < 1.0:
        return f"{100.0 * probability:.2g} %"
    plain = schema["anyOf"][0] if "anyOf" in schema else schema
    low, high = float(plain.get("minimum", 0.0)), float(plain.get("maximum", 1.0))
    if plain.get("type") == "integer" or high > 1.0:
        percent = min(max(high, 1.0), max(low, 100.0 * probability))
        # A whole number where that is precise enough: small percentages between 0 and 1 could be taken for fractions.
        return round(percent) if plain.get("type") == "integer" or 10.0 <= percent <= 90.0 else round(percent, 1)
    return min(high, max(low, round(probability, 4)))


def _quantile_level(name: str) -> float:
    """Return the probability of a field such as p95; the median for any other name."""
    digits = name.removeprefix("p")
    return min(0.999, max(0.001, float(digits) / 100.0)) if digits.replace(".", "", 1).isdigit() else 0.5


CHARS_PER_TOKEN = 4


MAX_TOKENS = 4096


UPDATE, FEEDBACK = "update", "feedback"


# Moves that need no words and return numbers.
_DATA_TOOLS = ("series_history", "market_history", "series_combo")


_QUERY_WORDS = 12


_MIN_RELEVANCE = 0.4


MoveSchema = Mapping[str, Any]


PlannedMove = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SimulatedModel:
    """Answers requests for completions, each from itself alone."""

    habits: ModelBehaviour = field(default_factory=ModelBehaviour)

    def answer(self, asked: CompletionRequest) -> ScriptedReply:
        """Return the completion of a request; its ``sent`` says how long it takes."""
        answer_behaviour = draw_behaviour(self.habits, asked.body, first_user_text(asked.messages))
        reply = (
            self._obey_instructions(asked, answer_behaviour)
            if answer_behaviour.fault is AnswerFault.OBEYS
            else self._reply_well(asked, answer_behaviour, None)
        )
        reply = _limit_tokens(apply_fault(reply, answer_behaviour), asked)
        return replace(reply, response=ScriptedResponse(delay_s=answer_behaviour.latency_s))

    def _obey_instructions(self, asked: CompletionRequest, answer_behaviour: AnswerBehaviour) -> ScriptedReply:
        """Follow the instructions in texts from outside: their tool calls, words, and the number to believe."""
        texts = [content for step in previous_moves(asked.messages) for _, content in fenced_parts(step.result)]
        demanded = next((number for text in reversed(texts) if (number := ordered_probability(text)) is not None), None)
        return obey_demands(lambda one: self._reply_well(one, answer_behaviour, demanded))(asked)

    def _reply_well(
        self, asked: CompletionRequest, answer_behaviour: AnswerBehaviour, forced: float | None
    ) -> ScriptedReply:
        schema, offers = asked.schema, offered_moves(asked)
        if schema is not None and is_judging_task(schema):
            return _text_reply(judge_texts(asked.messages, schema, lenient=self.habits.lenient))
        bent = OpinionBias(factor=self.habits.log_odds_factor, shift=self.habits.noise * answer_behaviour.deviate)
        opinion = form_opinion(asked.messages, bent, forced)
        if not offers:
            return self._reply_plainly(asked, opinion)
        done = previous_moves(asked.messages)
        name, arguments = self._choose_move(offers, opinion, done, asked)
        queries = [*_made_queries(done)]
        pen = AnswerWriter(
            opinion=opinion,
            fixed_values=arguments,
            stated=_stated_text(asked),
            queries=queries,
            messages=asked.messages,
        )
        written = pen.write(offers[name])
        if asked.tools:
            return ScriptedReply(calls=((name, json.dumps(written, ensure_ascii=False)),))
        return _text_reply(written)

    def _reply_plainly(self, asked: CompletionRequest, opinion: SimulatedOpinion) -> ScriptedReply:
        """Answer where no move is offered: in the requested form, or in words."""
        if asked.schema is not None:
            return _text_reply(AnswerWriter(opinion=opinion, messages=asked.messages).write(asked.schema))
        summary = summarize_sources(asked.messages)
        return ScriptedReply(
            text=summary or f"(simulated) I would say {opinion.probability_of():.0%}. {opinion.anchor}"
        )

    def _choose_move(
        self,
        offers: Mapping[str, MoveSchema],
        opinion: SimulatedOpinion,
        done: Sequence[PreviousMove],
        asked: CompletionRequest,
    ) -> PlannedMove:
        """Return the next move: look at numbers, search and read in turn, submit."""
        if len(offers) == 1:
            (name,) = offers
            return name, self._fill_only_move(name, offers[name], opinion, asked)
        queries = requested_searches(asked.messages) or search_queries(opinion.task)
        for plan in self._useful_moves(offers, opinion, done, queries):
            if plan[0] in offers and not any(
                one.name == plan[0] and _is_same_move(one.arguments, plan[1]) for one in done
            ):
                return plan
        return closing_move(offers), {}

    def _fill_only_move(
        self, name: str, schema: MoveSchema, opinion: SimulatedOpinion, asked: CompletionRequest
    ) -> Mapping[str, Any]:
        """Return the arguments of the only move offered."""
        if name == "keep_notes":
            return shorten_notes(asked.messages)
        if {"option", "words"} <= _argument_names(schema):
            habits, queries = self.habits, search_queries(opinion.task)
            return choose_action(asked.messages, queries, searches=habits.searches, pages=habits.pages)
        return _only_arguments(name, schema, opinion)

    def _useful_moves(
        self,
        offers: Mapping[str, MoveSchema],
        opinion: SimulatedOpinion,
        done: Sequence[PreviousMove],
        queries: Sequence[str],
    ) -> Iterator[PlannedMove]:
        """Yield useful moves, in order; moves that are not offered now, or were made, are skipped."""
        yield from lead_subagents(offers, queries)
        led = any(one.name == RUN_ALL for one in done)
        yield from () if led else self._look_moves(offers, opinion, done, queries)
        # Before the end: a belief, and a critic of it.
        yield UPDATE, {}
        yield from ((name, {}) for name in (FEEDBACK, CRITIC))

    def _look_moves(
        self,
        offers: Mapping[str, MoveSchema],
        opinion: SimulatedOpinion,
        done: Sequence[PreviousMove],
        queries: Sequence[str],
    ) -> Iterator[PlannedMove]:
        task = opinion.task
        if looks := [name for name in _DATA_TOOLS if name in offers]:
            if task.series and "name" in _argument_names(offers[looks[0]]):
                yield looks[0], {"name": task.series}
            elif len(task.targets) > 1 or looks[0] == "market_history":
                yield looks[0], {}
        searching = next((name for name, one in offers.items() if {"query", "queries"} & _argument_names(one)), None)
        reading = next((name for name, one in offers.items() if "url" in _argument_names(one)), None)
        read = sum(one.name == reading for one in done)
        for number, query in enumerate(queries[: self.habits.searches]):
            if searching is not None:
                yield searching, _query_arguments(offers[searching], query, task)
            # Half of the pages after the first search, the others after the last.
            most = self.habits.pages if number + 1 == self.habits.searches else (self.habits.pages + 1) // 2
            for source in _unread_sources(opinion, done, reading)[: max(0, most - read)]:
                if reading is not None:
                    yield reading, {"url": source.url}


def offered_moves(asked: CompletionRequest) -> Mapping[str, MoveSchema]:
    """Return the offered moves, by name: tools that can be called now, or branches that name an action."""
    if asked.tools:
        return asked.tools if asked.body.get("tool_choice") != "none" else {}
    schema = asked.schema or {}
    found = {}
    for branch in schema.get("anyOf") or (schema,):
        named = (branch.get("properties") or {}).get("action", {})
        name = named.get("const") or next(iter(named.get("enum", ())), None)
        if isinstance(name, str) and (one := find_variant(schema, name)) is not None:
            found[name] = one
    return found


def search_queries(task: PromptQuestion) -> list[str]:
    """Return search queries, best first: its words, its names with its options or terms, its names with others."""
    titled, names = topic_words(task.title), proper_names(task.title)
    terms = [word for word in topic_words(task.criteria) if word not in titled]
    options = [word for option in task.options for word in topic_words(option) if not word.isdigit()]
    more = [*names, *(options or terms)[: _QUERY_WORDS - 2]]
    texts = (titled[:_QUERY_WORDS], more, [*names, *topic_words(task.background)[:4]])
    return [*dict.fromkeys(" ".join(words) for words in texts if words)]


def _query_arguments(schema: MoveSchema, query: str, task: PromptQuestion) -> Mapping[str, Any]:
    if "queries" in _argument_names(schema):
        return {"queries": search_queries(task)}
    return {"query": query[:400]}


def _only_arguments(name: str, schema: MoveSchema, opinion: SimulatedOpinion) -> Mapping[str, Any]:
    """Return the arguments of the only move there is."""
    fields = _argument_names(schema)
    if name != SUBMIT and fields & {"query", "queries"}:
        queries = search_queries(opinion.task) or ["news"]
        return _query_arguments(schema, queries[0], opinion.task)
    return {}


def _unread_sources(opinion: SimulatedOpinion, done: Sequence[PreviousMove], reading: str | None) -> list[PromptSource]:
    """Return search results that are about the question and were not read: the most relevant and newest first."""
    read = {str(one.arguments.get("url")) for one in done if one.name == reading}
    unread = [one for one in opinion.sources if one.url and one.url not in read]
    rated = [(relevance(opinion.task, f"{one.title} {one.text}"), one.day or date.min, one) for one in unread]
    worth = [one for one in rated if one[0] >= _MIN_RELEVANCE]
    return [source for _, _, source in sorted(worth, key=lambda one: one[:2], reverse=True)]


def _argument_names(schema: MoveSchema) -> set[str]:
    """Return the names of the arguments of a move, in either dialect."""
    properties = schema.get("properties") or {}
    inner = (properties.get("arguments") or {}).get("properties") or {}
    return {*properties, *inner} - {"updated_belief", "arguments", "action"}


def _is_same_move(made: Mapping[str, Any], planned: Mapping[str, Any]) -> bool:
    return all(made.get(key) == value for key, value in planned.items())


def _made_queries(done: Sequence[PreviousMove]) -> Iterator[str]:
    for one in done:
        if isinstance(query := one.arguments.get("query"), str):
            yield query


def _stated_text(asked: CompletionRequest) -> str:
    """Return the model's earlier messages, unescaped as far as sentences need it."""
    spoken = [json.dumps(one, ensure_ascii=False) for one in asked.messages if one.get("role") == "assistant"]
    return "\n".join(spoken).replace("\\", "")


def _text_reply(value: Any) -> ScriptedReply:  # noqa: ANN401 - any JSON
    return ScriptedReply(text=json.dumps(value, ensure_ascii=False))


def _limit_tokens(reply: ScriptedReply, asked: CompletionRequest) -> ScriptedReply:
    """Count tokens, and stop where no more are allowed."""
    body = asked.body
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or MAX_TOKENS
    allowed = int(limit) * CHARS_PER_TOKEN
    spoken = (reply.text or "") + "".join(text for _, text in reply.calls) + (reply.refusal or "")
    tokens_in = max(1, len(json.dumps(body.get("messages", ()), ensure_ascii=False)) // CHARS_PER_TOKEN)
    if len(spoken) > allowed:
        calls = tuple((name, text[:allowed]) for name, text in reply.calls[:1])
        reply = replace(reply, text=(reply.text or "")[:allowed] or None, calls=calls, finish="length")
        spoken = spoken[:allowed]
    return replace(reply, tokens_in=tokens_in, tokens_out=max(1, len(spoken) // CHARS_PER_TOKEN))
