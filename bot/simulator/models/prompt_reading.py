"""What a simulated model finds in its conversation.

The question, the sources that tools returned, and its own moves.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, datetime
from typing import Any

from bot.core.light_dataclass import dataclass

ChatMessage = Mapping[str, Any]

# The result of each call of an answer except its first.
_NOT_RUN = "Not run: "

_FENCE = re.compile(r'<untrusted-([0-9a-f]+) label="([^"]*)">\n(.*?)\n</untrusted-\1>', re.DOTALL)
_DATED_ADDRESS = re.compile(r"^(https?://\S+)(?: \((?:as of )?(\d{4}-\d{2}-\d{2}|no date)\))?$", re.MULTILINE)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
WRITTEN_DATE = re.compile(
    r"\b(\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4})\b"
)
_ROW = re.compile(r"^(\d{4}-\d{2}-\d{2}),(-?\d[\d.e+-]*)$", re.MULTILINE)
_SECTION = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_TARGET = re.compile(
    r"^- (\S.*?)(?: \((?:on (\d{4}-\d{2}-\d{2}), )?(?:\d+ days? (?:ahead|back)|the same day)\))?$", re.MULTILINE
)
_RANGE = re.compile(r"Unit: (.+?); range from (\S+) \((open|closed)\) to (\S+) \((open|closed)\)")
_CROWD = re.compile(r"crowd's estimate was: (.+?)\.(?:\n|$| Depart)")
_SHARE = re.compile(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)( ?%)?")
_RATE = re.compile(r"(\d+(?:\.\d+)?) ?% (?:came true|were yes)|were yes: (\d+(?:\.\d+)?) ?%")
# The form in which simulated models quote to each other, so that nothing is counted twice and everything by its age.
QUOTED = re.compile(r"\[([^\[\]\n]{1,300}), (\d{4}-\d{2}-\d{2}|no date)\] ([^\n\[\]]+)")
_SERIES = re.compile(r"\bseries ([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSource:
    """A text that a tool returned; ``day`` is its date, None where it has none.

    ``is_quoted``: a model that works on the question quoted it, so it is about that.
    """

    label: str
    url: str
    title: str
    day: date | None
    text: str
    is_quoted: bool = False

    @property
    def name(self) -> str:
        """The name that evidence gives as its source."""
        return self.url or self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTable:
    """A table of days and values that a tool returned, in order of time."""

    label: str
    rows: tuple[tuple[date, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQuestion:
    """A question as the prompt states it; what the prompt does not state is empty or None.

    ``targets`` are the days of the question, by key, in order; "" is the only one where no key is stated. ``crowd``
    holds probabilities by option ("" for yes), or values by level of a quantile ("p50").
    """

    title: str
    background: str = ""
    criteria: str = ""
    options: tuple[str, ...] = ()
    targets: Mapping[str, date | None] = field(default_factory=lambda: {"": None})
    cutoff: date | None = None
    crowd: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None
    unit: str = ""
    low: str = ""
    high: str = ""
    open_high: bool = False
    series: str = ""

    @property
    def text(self) -> str:
        """All texts of the question."""
        return f"{self.title}\n{self.background}\n{self.criteria}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousMove:
    """An earlier move."""

    name: str
    arguments: Mapping[str, Any]
    result: str = ""


def message_text(message: ChatMessage) -> str:
    """Return the text of a message, of several parts as well."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def first_user_text(messages: Sequence[ChatMessage]) -> str:
    """Return the first message of the user."""
    return next((message_text(one) for one in messages if one.get("role") == "user"), "")


def without_fences(text: str) -> str:
    """Return a text without the marks of fences."""
    return _FENCE.sub(lambda found: found[3], text)


def fenced_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the content of each fence."""
    for found in _FENCE.finditer(text):
        yield found[2], found[3]


def read_question(messages: Sequence[ChatMessage]) -> PromptQuestion:
    """Return the question that a conversation begins with."""
    first = first_user_text(messages)
    parts = _split_sections(first)
    given = dict(fenced_parts(first))
    asked = parts.get("What is asked for", "")
    title = given.get("question") or without_fences(parts.get("Question", first)).strip().split("\n")[0]
    background = given.get("background", "")
    reach = _RANGE.search(asked)
    options = tuple(given["options"].split("\n")) if "options" in given else ()
    found = _CROWD.search(parts.get("Crowd", ""))
    rate = _RATE.search(parts.get("Prior", ""))
    series = _SERIES.search(background)
    return PromptQuestion(
        title=title,
        background=background,
        criteria=given.get("resolution criteria", ""),
        options=options,
        targets=_parse_targets(asked),
        cutoff=first_iso_date(parts.get("Date", "")),
        crowd=_parse_crowd(found[1], options) if found else {},
        rate=float(rate[1] or rate[2]) / 100.0 if rate else None,
        unit="" if reach is None or reach[1] == "none" else reach[1],
        low=reach[2] if reach else "",
        high=reach[4] if reach else "",
        open_high=reach is not None and reach[5] == "open",
        series=series[1] if series else "",
    )


def read_sources(messages: Sequence[ChatMessage]) -> list[PromptSource]:
    """Return the texts that tools returned or that the prompt contains, in order, and finally quotes of others.

    A page that was read replaces its excerpt.
    """
    found: dict[str, PromptSource] = {}
    for label, content, asked in _labelled_texts(messages):
        if _ROW.search(content):
            continue
        source = _make_source(label, QUOTED.sub("", content), asked)
        known = found.get(source.name)
        found[source.name] = source if known is None else _join_sources(known, source)
    return [*found.values(), *quoted_sources(messages)]


def read_tables(messages: Sequence[ChatMessage]) -> list[PromptTable]:
    """Return the tables that tools returned, in order."""
    found: dict[PromptTable, None] = {}
    for label, content, _ in _labelled_texts(messages):
        rows = tuple((date.fromisoformat(row[1]), float(row[2])) for row in _ROW.finditer(content))
        if rows:
            found[PromptTable(label=label, rows=tuple(sorted(rows)))] = None
    return [*found]


def quoted_sources(messages: Sequence[ChatMessage]) -> list[PromptSource]:
    """Return the quotes of others, in the form that simulated models use: source, date, sentence."""
    texts = (message_text(one) for one in messages if one.get("role") in {"user", "tool"})
    found = {quote[3].strip(): quote for text in texts for quote in QUOTED.finditer(text)}
    return [
        PromptSource(label=quote[1], url="", title="", day=first_iso_date(quote[2]), text=text, is_quoted=True)
        for text, quote in found.items()
    ]


def _labelled_texts(messages: Sequence[ChatMessage]) -> Iterator[tuple[str, str, str]]:
    """Yield label and content of each fence, with the requested address, if there was one."""
    for step in previous_moves(messages):
        for label, content in fenced_parts(step.result):
            yield label, content, str(step.arguments.get("url", ""))
    laid = (one for message in messages if message.get("role") == "user" for one in fenced_parts(message_text(message)))
    for label, content in laid:
        # Of a prompt itself only articles and tables count: all else is the question, or words of others.
        if _DATED_ADDRESS.search(content) or label.startswith("series "):
            yield label, content, ""


def previous_moves(messages: Sequence[ChatMessage]) -> list[PreviousMove]:
    """Return the moves of the model, each with its result."""
    done: list[PreviousMove] = []
    names: dict[str, tuple[str, Mapping[str, Any]]] = {}
    last: tuple[str, Mapping[str, Any]] | None = None
    begun = False
    for message in messages:
        match message.get("role"):
            case "assistant":
                names |= _parse_calls(message)
                last = _parse_move(message_text(message))
            case "tool" if not message_text(message).startswith(_NOT_RUN):
                name, arguments = names.get(str(message.get("tool_call_id")), ("", {}))
                done.append(PreviousMove(name=name, arguments=arguments, result=message_text(message)))
            case "user":
                if begun and last is not None:
                    done.append(PreviousMove(name=last[0], arguments=last[1], result=message_text(message)))
                begun, last = True, None
    return done


def first_iso_date(text: str) -> date | None:
    """Return the first date in a text, as it is written in records; None where there is none."""
    found = _ISO.search(text)
    try:
        return date.fromisoformat(found[0]) if found else None
    except ValueError:
        return None


def last_written_date(text: str) -> date | None:
    """Return the last date in a text, as it is written in newspapers; None where there is none."""
    for words in reversed(WRITTEN_DATE.findall(text)):
        try:
            return datetime.strptime(f"{words} +0000", "%d %B %Y %z").date()
        except ValueError:
            continue
    return None


def parse_probability(text: str) -> float | None:
    """Return a probability that is written as a fraction or in percent; None where there is none."""
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found[1]) / (100.0 if found[2] else 1.0)
    return value if 0.0 <= value <= 1.0 else None


def _split_sections(text: str) -> Mapping[str, str]:
    # Headings inside a fence belong to somebody else.
    headings = [one for one in _SECTION.finditer(text) if not _is_inside_fence(text, one.start())]
    ends = [one.start() for one in headings[1:]] + [len(text)]
    return {head[1].strip(): text[head.end() : end].strip() for head, end in zip(headings, ends, strict=False)}


def _is_inside_fence(text: str, place: int) -> bool:
    return any(found.start() < place < found.end() for found in _FENCE.finditer(text))


def _parse_targets(asked: str) -> Mapping[str, date | None]:
    listed = {found[1]: first_iso_date(found[2] or found[1]) for found in _TARGET.finditer(_FENCE.sub("", asked))}
    return listed or {"": first_iso_date(asked.partition("decided on")[2])}


def _parse_crowd(text: str, options: Sequence[str]) -> Mapping[str, str]:
    if options:
        places = {option: text.find(option) for option in sorted(options, key=len, reverse=True)}
        texts_by_option = {
            option: text[place + len(option) :].partition(",")[0] for option, place in places.items() if place >= 0
        }
        return {option: value.strip() for option, value in texts_by_option.items()}
    pairs = re.findall(r"(p\d+) ([^,]+)", text)
    return dict(pairs) if pairs else {"": text.strip()}


def _join_sources(known: PromptSource, more: PromptSource) -> PromptSource:
    """Return one source for two texts from it."""
    text = known.text if more.text in known.text else f"{known.text}\n{more.text}"
    return replace(known, day=known.day or more.day, text=text)


def _make_source(label: str, content: str, asked: str) -> PromptSource:
    head = content.partition("\n")[0]
    address = _DATED_ADDRESS.search(content)
    # Below the title, or the title and a heading; an address farther down belongs to the text.
    if address is None or content.count("\n", 0, address.start()) > 2:
        url = asked if label.startswith("page") else ""
        return PromptSource(label=label, url=url, title=head, day=None, text=content)
    return PromptSource(
        label=label,
        url=address[1],
        title=head,
        day=first_iso_date(address[2] or ""),
        text=content[address.end() :].strip(),
    )


def _parse_calls(message: ChatMessage) -> dict[str, tuple[str, Mapping[str, Any]]]:
    made = {}
    for one in message.get("tool_calls") or ():
        called = one.get("function") or {}
        made[str(one.get("id"))] = (str(called.get("name")), _parse_table(str(called.get("arguments") or "")))
    return made


def _parse_move(text: str) -> tuple[str, Mapping[str, Any]] | None:
    table = _parse_table(text)
    arguments = table.get("arguments", {})
    named = isinstance(table.get("action"), str) and isinstance(arguments, dict)
    return (table["action"], arguments) if named else None


def _parse_table(text: str) -> Mapping[str, Any]:
    try:
        table = json.loads(text)
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}
