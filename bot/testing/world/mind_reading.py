"""What a reader finds in a conversation: the question that is asked, what was looked up so far, and by which moves.

It reads the messages of a request as a model gets them and knows nothing else: no ledger, no world, no truth.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

Message = Mapping[str, Any]

# What answers each call of an answer but its first.
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
# How minds of this kind quote to each other, so that nothing is counted twice and everything by its age.
QUOTED = re.compile(r"\[([^\[\]\n]{1,300}), (\d{4}-\d{2}-\d{2}|no date)\] ([^\n\[\]]+)")
_SERIES = re.compile(r"\bseries ([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text that a tool brought; ``day`` is the date that it carries, None where it carries none.

    ``vouched``: somebody who works on the question quoted it, so it is about that.
    """

    label: str
    url: str
    title: str
    day: date | None
    text: str
    vouched: bool = False

    @property
    def name(self) -> str:
        """What evidence names as its source."""
        return self.url or self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of days and values that a tool brought, in order of time."""

    label: str
    rows: tuple[tuple[date, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A question as the prompt tells it; what the prompt does not tell is empty or None.

    ``targets`` are the days that are asked about, by key, in order; "" is the only one where no key is told. ``crowd``
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
        """All that is told of the question."""
        return f"{self.title}\n{self.background}\n{self.criteria}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A move that was made before."""

    name: str
    arguments: Mapping[str, Any]
    brought: str = ""


def said(message: Message) -> str:
    """Return the text of a message, of several parts as well."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def opening(messages: Sequence[Message]) -> str:
    """Return the first message of the user."""
    return next((said(one) for one in messages if one.get("role") == "user"), "")


def unfenced(text: str) -> str:
    """Return a text without the marks of fences."""
    return _FENCE.sub(lambda found: found[3], text)


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the content of each fence."""
    for found in _FENCE.finditer(text):
        yield found[2], found[3]


def task_of(messages: Sequence[Message]) -> Task:
    """Return the question that a conversation begins with."""
    first = opening(messages)
    parts = _sections(first)
    given = dict(fenced(first))
    asked = parts.get("What is asked for", "")
    title = given.get("question") or unfenced(parts.get("Question", first)).strip().split("\n")[0]
    background = given.get("background", "")
    reach = _RANGE.search(asked)
    options = tuple(given["options"].split("\n")) if "options" in given else ()
    found = _CROWD.search(parts.get("Crowd", ""))
    rate = _RATE.search(parts.get("Prior", ""))
    series = _SERIES.search(background)
    return Task(
        title=title,
        background=background,
        criteria=given.get("resolution criteria", ""),
        options=options,
        targets=_targets(asked),
        cutoff=iso(parts.get("Date", "")),
        crowd=_crowd(found[1], options) if found else {},
        rate=float(rate[1] or rate[2]) / 100.0 if rate else None,
        unit="" if reach is None or reach[1] == "none" else reach[1],
        low=reach[2] if reach else "",
        high=reach[4] if reach else "",
        open_high=reach is not None and reach[5] == "open",
        series=series[1] if series else "",
    )


def sources_of(messages: Sequence[Message]) -> list[Source]:
    """Return what tools brought or was laid before the reader, in order, and at last what others quote.

    A page that was read stands for the excerpt of it.
    """
    found: dict[str, Source] = {}
    for label, content, asked in _texts(messages):
        if _ROW.search(content):
            continue
        source = _source(label, QUOTED.sub("", content), asked)
        known = found.get(source.name)
        found[source.name] = source if known is None else _joined(known, source)
    return [*found.values(), *quoted_in(messages)]


def tables_of(messages: Sequence[Message]) -> list[Table]:
    """Return the tables that tools brought, in order."""
    found: dict[Table, None] = {}
    for label, content, _ in _texts(messages):
        rows = tuple((date.fromisoformat(row[1]), float(row[2])) for row in _ROW.finditer(content))
        if rows:
            found[Table(label=label, rows=tuple(sorted(rows)))] = None
    return [*found]


def quoted_in(messages: Sequence[Message]) -> list[Source]:
    """Return what others quote, in the form in which minds of this kind do: source, date, sentence."""
    heard = (said(one) for one in messages if one.get("role") in {"user", "tool"})
    found = {quote[3].strip(): quote for text in heard for quote in QUOTED.finditer(text)}
    return [
        Source(label=quote[1], url="", title="", day=iso(quote[2]), text=text, vouched=True)
        for text, quote in found.items()
    ]


def _texts(messages: Sequence[Message]) -> Iterator[tuple[str, str, str]]:
    """Yield label and content of what is fenced, with the address that was asked for, if one was."""
    for step in steps_of(messages):
        for label, content in fenced(step.brought):
            yield label, content, str(step.arguments.get("url", ""))
    laid = (one for message in messages if message.get("role") == "user" for one in fenced(said(message)))
    for label, content in laid:
        # Of what a prompt itself holds, articles and tables: all else is the question, or words of others.
        if _DATED_ADDRESS.search(content) or label.startswith("series "):
            yield label, content, ""


def steps_of(messages: Sequence[Message]) -> list[Done]:
    """Return the moves of the model, each with what came of it."""
    done: list[Done] = []
    names: dict[str, tuple[str, Mapping[str, Any]]] = {}
    last: tuple[str, Mapping[str, Any]] | None = None
    begun = False
    for message in messages:
        match message.get("role"):
            case "assistant":
                names |= _calls(message)
                last = _move(said(message))
            case "tool" if not said(message).startswith(_NOT_RUN):
                name, arguments = names.get(str(message.get("tool_call_id")), ("", {}))
                done.append(Done(name=name, arguments=arguments, brought=said(message)))
            case "user":
                if begun and last is not None:
                    done.append(Done(name=last[0], arguments=last[1], brought=said(message)))
                begun, last = True, None
    return done


def iso(text: str) -> date | None:
    """Return the first date in a text, as it is written in records; None where there is none."""
    found = _ISO.search(text)
    try:
        return date.fromisoformat(found[0]) if found else None
    except ValueError:
        return None


def written_date(text: str) -> date | None:
    """Return the last date in a text, as it is written in newspapers; None where there is none."""
    for words in reversed(WRITTEN_DATE.findall(text)):
        try:
            return datetime.strptime(f"{words} +0000", "%d %B %Y %z").date()
        except ValueError:
            continue
    return None


def share(text: str) -> float | None:
    """Return a probability that is written as a fraction or in percent; None where it is none."""
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found[1]) / (100.0 if found[2] else 1.0)
    return value if 0.0 <= value <= 1.0 else None


def _sections(text: str) -> Mapping[str, str]:
    # Titles inside of a fence are somebody else's.
    heads = [one for one in _SECTION.finditer(text) if not _inside(text, one.start())]
    ends = [one.start() for one in heads[1:]] + [len(text)]
    return {head[1].strip(): text[head.end() : end].strip() for head, end in zip(heads, ends, strict=False)}


def _inside(text: str, place: int) -> bool:
    return any(found.start() < place < found.end() for found in _FENCE.finditer(text))


def _targets(asked: str) -> Mapping[str, date | None]:
    listed = {found[1]: iso(found[2] or found[1]) for found in _TARGET.finditer(_FENCE.sub("", asked))}
    return listed or {"": iso(asked.partition("decided on")[2])}


def _crowd(text: str, options: Sequence[str]) -> Mapping[str, str]:
    if options:
        places = {option: text.find(option) for option in sorted(options, key=len, reverse=True)}
        told = {option: text[place + len(option) :].partition(",")[0] for option, place in places.items() if place >= 0}
        return {option: value.strip() for option, value in told.items()}
    pairs = re.findall(r"(p\d+) ([^,]+)", text)
    return dict(pairs) if pairs else {"": text.strip()}


def _joined(known: Source, more: Source) -> Source:
    """Return one source of two texts from it."""
    text = known.text if more.text in known.text else f"{known.text}\n{more.text}"
    return replace(known, day=known.day or more.day, text=text)


def _source(label: str, content: str, asked: str) -> Source:
    head = content.partition("\n")[0]
    address = _DATED_ADDRESS.search(content)
    # Below the title, or the title and a heading; an address farther down belongs to the text.
    if address is None or content.count("\n", 0, address.start()) > 2:
        url = asked if label.startswith("page") else ""
        return Source(label=label, url=url, title=head, day=None, text=content)
    return Source(
        label=label, url=address[1], title=head, day=iso(address[2] or ""), text=content[address.end() :].strip()
    )


def _calls(message: Message) -> dict[str, tuple[str, Mapping[str, Any]]]:
    made = {}
    for one in message.get("tool_calls") or ():
        called = one.get("function") or {}
        made[str(one.get("id"))] = (str(called.get("name")), _table(str(called.get("arguments") or "")))
    return made


def _move(text: str) -> tuple[str, Mapping[str, Any]] | None:
    told = _table(text)
    arguments = told.get("arguments", {})
    named = isinstance(told.get("action"), str) and isinstance(arguments, dict)
    return (told["action"], arguments) if named else None


def _table(text: str) -> Mapping[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
