"""How a simulated model works with others.

It chooses from lists, leads subagents, reports, argues, judges, and is a juror.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.simulator.models.evidence_weighing import LogOddsReading, is_instruction, relevance
from bot.simulator.models.opinion import SimulatedOpinion
from bot.simulator.models.prompt_reading import ChatMessage, fenced_parts, message_text

MoveSchema = Mapping[str, Any]
PlannedMove = tuple[str, Mapping[str, Any]]

SUBMIT, REPORT = "submit", "report_results"
CREATE_SUBAGENT, RUN_ALL, CRITIC, SHARED_MEMORY = "create_subagent", "run_subagents", "critic", "shared_memory"
HELPERS = ("reader", "digger")
SEARCH_FOR = "Search for:"
_OPTION = re.compile(r"^([A-Z])\. (.+)$", re.MULTILINE)
_SEARCHED = re.compile(r"^Searched: (.+)$", re.MULTILINE)
_READ = re.compile(r"^Read: (.+)$", re.MULTILINE)
_GOAL = re.compile(r"\bsub-goal (\w+)")
_ASKED = re.compile(rf"{SEARCH_FOR} ([^\n]+)")
# The order of actions, where they are offered: report, look at numbers, read, search, state, finish.
_ORDER = (r"^send a message", r"^use series_history", r"^open the page", r"^read ", r"^search the web", r"^state ")
_PEOPLE = ("Ana Brook", "Ben Carver", "Cleo Dunn", "Dov Ember", "Eda Frost", "Finn Gale", "Gia Holt", "Hal Ivers")
_CALLINGS = ("statistician", "nurse", "reporter", "engineer", "farmer", "teacher", "lawyer", "shopkeeper")
_PLACES = ("a city in the north", "a village in the south", "a port in the east", "a town in the west")


def closing_move(offers: Mapping[str, MoveSchema]) -> str:
    """Return the move that ends the work: the answer, a report, or the first one offered."""
    return next((name for name in (SUBMIT, REPORT) if name in offers), next(iter(offers)))


def last_message_text(messages: Sequence[ChatMessage]) -> str:
    """Return the last message to the model."""
    return message_text(messages[-1]) if messages else ""


def shown_text(messages: Sequence[ChatMessage]) -> str:
    """Return all that a conversation has shown to the model, in order."""
    return "\n\n".join(message_text(one) for one in messages if one.get("role") in {"user", "tool"})


def requested_searches(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the searches that the task requests."""
    return [
        words.strip() for one in messages if one.get("role") == "user" for words in _ASKED.findall(message_text(one))
    ]


def choose_action(
    messages: Sequence[ChatMessage], queries: Sequence[str], *, searches: int, pages: int
) -> Mapping[str, str]:
    """Return the letter of one of the listed actions, with the words that it needs."""
    shown = shown_text(messages)
    listed = dict(_OPTION.findall(shown))
    done = [part.strip() for found in _SEARCHED.findall(shown) for part in found.split(" | ") if part.strip() != "none"]
    read = [part for found in _READ.findall(shown) for part in found.split(", ") if part != "none"]
    left = [query for query in queries if query not in done]
    for action in _ORDER:
        if (action.startswith("^search") and (not left or len(done) >= searches)) or (
            "open" in action and len(read) >= pages
        ):
            continue
        letter = next((letter for letter, text in listed.items() if re.search(action, text)), None)
        if letter is not None:
            return {"option": letter, "words": left[0][:400] if action.startswith("^search") else ""}
    return {"option": [*listed][-1] if listed else "A", "words": ""}


def lead_subagents(offers: Mapping[str, MoveSchema], queries: Sequence[str]) -> Iterator[PlannedMove]:
    """Yield the moves of a leader: make two helpers, run them on different searches, ask a critic."""
    if CREATE_SUBAGENT not in offers and RUN_ALL not in offers:
        return
    for name in HELPERS:
        yield CREATE_SUBAGENT, {"name": name, "kind": "researcher"}
    if RUN_ALL in offers:
        tasks = [f"Find out how things stand, with dates and sources. {SEARCH_FOR} {query}" for query in queries]
        yield RUN_ALL, {"runs": [{"name": name, "task": task} for name, task in zip(HELPERS, tasks, strict=False)]}


@dataclass(frozen=True, kw_only=True)
class CollaborationAnswers:
    """Fills in the fields that others request, one by one; ``messages`` are the conversation so far."""

    opinion: SimulatedOpinion
    messages: Sequence[ChatMessage]

    def fields(self) -> Mapping[str, Callable[[MoveSchema], Any]]:
        """Return the writers of fields by their names."""
        words = dict.fromkeys(
            ("statement", "findings", "draft", "criticism", "objections", "rationale"), self._write_statement
        )
        short = dict.fromkeys(("bottom_line", "verdict", "thoughts", "thought", "recommendations"), self._write_short)
        return {
            **words,
            **short,
            "missing": lambda _: "",
            "outside_reason": lambda _: "",
            "leaning": lambda _: "as it is",
            "task_status": lambda _: "complete" if self._find_quotes() else "partial",
            "criteria_restated": self._write_criteria,
            "ratings": self._rate_texts,
            "points": self._list_points,
            "facts": self._list_facts,
            "jurors": _list_jurors,
            "text": self._write_message,
        }

    def _read_documents(self) -> list[LogOddsReading]:
        """Return the documents that were read, the newest first; undated ones come last."""
        found = [reading for reading, _ in self.opinion.claims()]
        return sorted(found, key=lambda one: (one.day is None, -(one.day.toordinal() if one.day else 0)))

    def _find_quotes(self) -> list[str]:
        return [one.quote for one in self._read_documents()]

    def _write_statement(self, schema: MoveSchema) -> str:
        head = f"(simulated) {self._write_short(schema)}"
        return _cut_text(schema, "\n".join([head, *self._find_quotes()]))

    def _write_short(self, schema: MoveSchema) -> str:
        found = [*self.opinion.claims()]
        pro = sum(favours for _, favours in found)
        return _cut_text(schema, f"{pro} of {len(found)} readings speak for it and {len(found) - pro} against.")

    def _write_criteria(self, schema: MoveSchema) -> str:
        task = self.opinion.task
        days = ", ".join(str(day) for day in task.targets.values() if day)
        return _cut_text(schema, f"{task.criteria} It is decided on {days}, by the source that the criteria name.")

    def _rate_texts(self, schema: MoveSchema) -> list[dict[str, Any]]:
        """Return a rating of each numbered text."""
        fields: Mapping[str, MoveSchema] = schema.get("items", {}).get("properties", {})
        return [
            {
                "number": number,
                "finding": _cut_text(fields.get("finding", {}), self._write_finding(text)),
                "relevance": self._rate_relevance(fields.get("relevance", {}), text),
                "objectivity": 1 if is_instruction(text) else 8,
            }
            for number, text in enumerate(self._numbered_texts(), 1)
        ]

    def _numbered_texts(self) -> list[str]:
        """Return the contents of the numbered texts that are to be rated."""
        parts = fenced_parts(last_message_text(self.messages))
        return [content for label, content in parts if re.fullmatch(r"text \d+", label)]

    def _write_finding(self, text: str) -> str:
        return "; ".join(one.words for one in self._read_documents() if one.words in text) or "nothing"

    def _rate_relevance(self, schema: MoveSchema, text: str) -> int:
        low, high = int(schema.get("minimum", 1)), int(schema.get("maximum", 10))
        return round(low + (high - low) * min(1.0, relevance(self.opinion.task, text)))

    def _list_points(self, schema: MoveSchema) -> list[dict[str, str]]:
        """Return the points of a case: those of the model's assigned side, all where it has none."""
        side = self._assigned_side()
        wanted = [one for one, favours in self.opinion.claims() if side is None or favours is side]
        return [
            {"text": one.quote[:400], "source": one.source[:200]} for one in wanted[: int(schema.get("maxItems", 6))]
        ]

    def _assigned_side(self) -> bool | None:
        """Return whether the model argues for or against, as its instructions say last; None if it takes no side."""
        messages = (message_text(one) for one in self.messages if one.get("role") in {"system", "user"})
        found = re.findall(r"you argue for ([^.\n]+)", "\n".join(messages))
        return re.search(r"\b(?:no|not|low\w*|early|any other)\b", found[-1].casefold()) is None if found else None

    def _list_facts(self, schema: MoveSchema) -> list[dict[str, str]]:
        """Return the latest findings, each once; the first answers its search."""
        shown = shown_text(self.messages)
        state, _, news = shown.partition("You did this:")
        goals: Sequence[str] = schema.get("items", {}).get("properties", {}).get("settles", {}).get("enum", ())
        sought = next((name for name in _GOAL.findall(news) if name in goals), "none")
        facts: list[dict[str, str]] = []
        for reading, favours in self.opinion.claims():
            if reading.words in state or (reading.words not in news and reading.source != "series_history"):
                continue
            side = _choose_side(schema, reading, favours)
            facts.append(self._make_fact(reading, sought if not facts else "none", side))
        if "question itself" in shown and "criteria" in goals:
            text = f"What counts: {self.opinion.task.criteria}"[:400]
            side = next(iter(_side_words(schema)), "for")
            facts.append({"text": text, "source": "question", "settles": "criteria", "speaks": side})
        return facts[: int(schema.get("maxItems", 5))]

    def _make_fact(self, reading: LogOddsReading, settles: str, speaks: str) -> dict[str, str]:
        return {"text": reading.quote[:400], "source": reading.source[:300], "settles": settles, "speaks": speaks}

    def _write_message(self, schema: MoveSchema) -> str:
        """Return the newest finding that the others have not received yet."""
        shown = shown_text(self.messages)
        before, _, received = shown.partition("## Messages")
        shared, _, _ = before.partition("## You")
        new = [one.quote for one in self._read_documents() if one.words not in received and one.words not in shared]
        return _cut_text(schema, new[0]) if new else ""


def _side_words(schema: MoveSchema) -> Sequence[str]:
    """Return the sides that a fact may speak for."""
    words: Sequence[str] = schema.get("items", {}).get("properties", {}).get("speaks", {}).get("enum", ())
    return words


def _choose_side(schema: MoveSchema, reading: LogOddsReading, favours: bool) -> str:  # noqa: FBT001 - a verdict
    """Return the side that a reading names, else the first one if it favours the answer, and the last one if not."""
    words = _side_words(schema) or ("for", "against")
    return next((word for word in words if word in reading.quote), words[0] if favours else words[-1])


def _list_jurors(schema: MoveSchema) -> list[dict[str, str]]:
    """Return the requested number of profiles, no two alike."""
    count = int(schema.get("minItems", schema.get("maxItems", 3)))
    names = [*schema.get("items", {}).get("properties", {})]
    return [{name: _pick_trait(name, number) for name in names} for number in range(count)]


def _pick_trait(name: str, number: int) -> str:
    known = {
        "name": f"{_PEOPLE[number % len(_PEOPLE)]}{' ' * (number >= len(_PEOPLE))}{number // len(_PEOPLE) or ''}",
        "age": str(28 + 9 * number % 50),
        "profession": _CALLINGS[number % len(_CALLINGS)],
        "region": _PLACES[number % len(_PLACES)],
    }
    return known.get(name, f"{name} of a {_CALLINGS[(number + len(name)) % len(_CALLINGS)]}")


def _cut_text(schema: MoveSchema, text: str) -> str:
    """Return a text within its bounds; a quote that would be cut is omitted."""
    limit = int(schema.get("maxLength", 1000))
    lines = text.split("\n")
    while len(lines) > 1 and len("\n".join(lines)) > limit:
        lines.pop()
    return "\n".join(lines)[:limit]
