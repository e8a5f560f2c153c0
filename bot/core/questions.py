"""Questions, their targets, crowd forecasts and price quotes, and which changes make a different question.

A question is different if title, criteria, background, kind, options, range, scale, bounds, unit, targets or dates
change; the crowd, facts such as a volume, tags and the address may change.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, Self

from bot.core.light_dataclass import dataclass
from bot.core.predictions import ChoiceShape, CurveShape, Prediction, QuestionShape, prediction_mismatch
from bot.core.values import require_timezone

SINGLE_TARGET = "outcome"
# The round of a question that comes in none.
NO_ROUND = "-"


# Facts that are fields of a question, by the names under which the ledger stores them and prompts list them.
FACT_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "category": "category",
        "creator": "creator",
        "creator_name": "creator_name",
        "event": "event",
        "id": "source_id",
        "label": "label",
        "market": "market",
        "market_closes_at": "market_closes_at",
        "slug": "slug",
        "spot_at": "spot_at",
        "training": "allows_training",
        "weight": "weight",
    }
)
_FACT_FIELD_NAMES = frozenset(FACT_FIELDS.values())
_read_fact_fields = attrgetter(*FACT_FIELDS.values())
_MOMENTS = ("opens_at", "closes_at", "as_of", "spot_at", "market_closes_at")
_TRAINING_FORBIDDEN = "no"


@dataclass(frozen=True, slots=True, order=True)
class QuestionRef:
    """The name of a question everywhere in Foxcast, written ``venue:key``."""

    venue: str
    key: str

    def __post_init__(self) -> None:
        """Refuse names that cannot be parsed back from their text."""
        if not self.venue or not self.key or ":" in self.venue:
            message = f"question reference {self.venue!r}, {self.key!r} needs a venue without ':' and a key"
            raise ValueError(message)
        str(self).encode()  # a lone surrogate is a ValueError, because no file could contain the name

    def __str__(self) -> str:
        return f"{self.venue}:{self.key}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``venue:key``; raises ValueError for anything else."""
        venue, _, key = text.partition(":")
        return cls(venue, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One scored event of a question, for example one resolution date of a series.

    ``key`` is unique within its question; ``resolves_at`` is when the outcome is scheduled to be known;
    ``horizon_days`` is the forecast horizon that the venue reports, if any.
    """

    key: str = SINGLE_TARGET
    resolves_at: datetime | None = None
    horizon_days: int | None = None

    def __post_init__(self) -> None:
        """Check the key; the question checks the moment, so that its error names the question."""
        if not self.key:
            message = "a target needs a key"
            raise ValueError(message)
        self.key.encode()  # a lone surrogate is a ValueError, as above


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdForecast:
    """The belief of others: a market price or community forecast of one question at one moment.

    ``spread`` is the difference between the best prices of buyers and sellers, in probability, and ``liquidity`` what
    the venue reports under that name, in its currency; None where the venue has none. The question checks them, so that
    an error names the question.
    """

    prediction: Prediction
    at: datetime
    explanation: str = ""
    spread: float | None = None
    liquidity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as one venue states it at one moment.

    ``family`` groups questions that are scored together (a market and a data series, say), ``source`` is where the
    venue got the question from, ``series`` is the same for questions that repeat an earlier one (the unit of
    resampling), ``batch`` names forecasts that must be submitted together, ``as_of`` is the moment after which nothing
    may inform the forecast, if the venue sets one, and ``facts`` are further data of the venue under names that its
    plugin documents. ``tags`` and ``tournaments`` are the venue's short names (slugs, ids) of the question's
    categories; a change of them does not make it another question. All moments are time-zone aware. Raises ValueError
    for a question without targets, with targets of the same key, or with a crowd that does not fit the shape.
    """

    ref: QuestionRef
    title: str
    shape: QuestionShape
    targets: tuple[Target, ...]
    background: str = ""
    criteria: str = ""
    url: str | None = None
    source: str = ""
    family: str = ""
    series: str = ""
    batch: str | None = None
    opens_at: datetime | None = None
    closes_at: datetime | None = None
    as_of: datetime | None = None
    crowd: CrowdForecast | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    tournaments: tuple[str, ...] = ()
    event: str = ""
    creator: str = ""
    category: str = ""
    market: str = ""
    slug: str = ""
    creator_name: str = ""
    label: str = ""
    source_id: str = ""
    weight: float | None = None
    spot_at: datetime | None = None
    market_closes_at: datetime | None = None
    allows_training: bool = True
    kind: Literal["question"] = "question"

    def __post_init__(self) -> None:
        """Check targets, moments, crowd and facts, and freeze the facts."""
        name = str(self.ref)
        for field_name in _MOMENTS:
            if (moment := getattr(self, field_name)) is not None:
                require_timezone(f"{name}: {field_name}", moment)
        if not _has_plain_facts(self):
            for fault in _fact_faults(self):
                message = f"{name}: {fault}"
                raise ValueError(message)
        keys = sorted([target.key for target in self.targets])
        if not keys or (len(keys) > 1 and len(set(keys)) < len(keys)):
            message = f"{name}: needs at least one target, all with different keys, got {keys}"
            raise ValueError(message)
        for target in self.targets:
            if target.resolves_at is not None:
                require_timezone(f"{name}: resolves_at of target {target.key!r}", target.resolves_at)
        if self.crowd is not None:
            self._check_crowd(self.crowd)
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    def _check_crowd(self, crowd: CrowdForecast) -> None:
        require_timezone(f"{self.ref}: crowd.at", crowd.at)
        if why := prediction_mismatch(crowd.prediction, self.shape):
            message = f"{self.ref}: the crowd's {why}"
            raise ValueError(message)
        # Where offers cross, it is below 0.
        if crowd.spread is not None and not -1.0 <= crowd.spread <= 1.0:
            message = f"{self.ref}: crowd.spread {crowd.spread} is no difference of probabilities; divide by 100"
            raise ValueError(message)

    @property
    def without_metadata(self) -> Self:
        """The content of the question, without its crowd and categories, which may change."""
        if self.crowd is None and self.tags == () and self.tournaments == ():
            return self
        return replace(self, crowd=None, tags=(), tournaments=())

    @property
    def published_facts(self) -> Mapping[str, str]:
        """The facts, with those that are fields, as texts by name: what the ledger stores and prompts list."""
        facts = dict(self.facts)
        for name, value in zip(FACT_FIELDS, _read_fact_fields(self), strict=True):
            # Most of them are not given.
            if value != "" and value is not None and (text := _format_fact(value)):
                facts[name] = text
        return dict(sorted(facts.items()))

    def to_stored(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields for the ledger: its content, and so the version of a question, has them among the facts."""
        rest = {name: value for name, value in plain.items() if name not in _FACT_FIELD_NAMES}
        facts = self.published_facts
        return {**rest, "facts": facts} if facts else rest

    @staticmethod
    def upgrade_stored(stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a stored question; a stored fact of another type than its field is left out."""
        fields, facts = dict[str, Any](), dict(stored.get("facts", {}))
        for name in FACT_FIELDS.keys() & facts.keys():
            with suppress(ValueError):
                value = _parse_fact(name, str(facts.pop(name)))
                fields[FACT_FIELDS[name]] = value.isoformat() if isinstance(value, datetime) else value
        return {**stored, **fields, "facts": facts} if facts or fields else stored

    def target(self, key: str) -> Target:
        """Return the target of that key; raises KeyError if there is none."""
        for target in self.targets:
            if target.key == key:
                return target
        raise KeyError(key)


def split_facts(facts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a question that a person wrote as facts, and the other facts.

    A moment without a time zone is in UTC. Raises ValueError, which names the fact, for a text of another type.
    """
    fields = dict[str, Any]()
    for name in FACT_FIELDS.keys() & facts.keys():
        try:
            fields[FACT_FIELDS[name]] = _parse_fact(name, facts[name])
        except ValueError as error:
            message = f"facts.{name}: {error}"
            raise ValueError(message) from error
    return fields, {name: text for name, text in facts.items() if name not in FACT_FIELDS}


def _parse_fact(name: str, text: str) -> str | float | bool | datetime:
    """Return the value of the field of a fact; raises ValueError for text of another type."""
    match name:
        case "weight":
            with suppress(ValueError):
                if 0.0 <= (weight := float(text)) < math.inf:
                    return weight
            message = f"{text!r} is not a number from 0"
            raise ValueError(message)
        case "spot_at" | "market_closes_at":
            with suppress(ValueError):
                moment = datetime.fromisoformat(text)
                return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            message = f"{text!r} is not a moment such as 2026-12-31T18:00:00Z"
            raise ValueError(message)
        case "training":
            return text != _TRAINING_FORBIDDEN
    return text


def _format_fact(value: str | float | bool | datetime | None) -> str:  # noqa: FBT001 - the value of a field
    match value:
        case None | True:
            return ""
        case False:
            return _TRAINING_FORBIDDEN
        case datetime():
            return value.isoformat()
        case str():
            return value
    return str(value).removesuffix(".0")


def _has_plain_facts(question: Question) -> bool:
    """Say whether nothing can be wrong with the facts, as of nearly all questions: all are texts or not given."""
    texts = (
        *(question.category, question.creator, question.creator_name, question.event, question.source_id),
        *(question.label, question.market, question.slug),
    )
    return (
        {*map(type, texts)} == {str}
        and question.weight is None
        and question.allows_training is True
        and type(question.tags) is type(question.tournaments) is tuple
        and FACT_FIELDS.keys().isdisjoint(question.facts.keys())
    )


def _fact_faults(question: Question) -> Iterator[str]:
    """Yield what is wrong with the facts of a question, and with the fields that the ledger stores as facts."""
    for name in sorted(FACT_FIELDS.keys() & question.facts.keys()):
        yield f"facts[{name!r}] is the field Question.{FACT_FIELDS[name]}; the engine does not read it from facts"
    for field_name in ("tags", "tournaments"):
        if isinstance(getattr(question, field_name), str):
            yield f"{field_name} is one text; give a tuple of them"
    for field_name in FACT_FIELDS.values():
        value: object = getattr(question, field_name)
        match field_name:
            case "weight":
                is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value < math.inf
                fits, wanted = value is None or is_number, "a number from 0"
            case "allows_training":
                fits, wanted = isinstance(value, bool), "True or False"
            case "spot_at" | "market_closes_at":
                continue
            case _:
                fits, wanted = isinstance(value, str), "a text"
        if not fits:
            yield f"{field_name} is {value!r}, which is not {wanted}"


# Moments closer than this are equal, because one of two readings may be rounded.
_MOMENT_TOLERANCE = timedelta(minutes=1)
# Points of a grid closer than this share of its range are equal.
_POINT_TOLERANCE = 1e-9
# Steps of a linear scale differ by no more than this share of them.
_EVEN_STEP_TOLERANCE = 1e-6
_MAX_SHOWN_CHARS = 80


def describe_changes(before: Question, now: Question) -> tuple[str, ...]:
    """Return the changes of the question, one plain clause each; none if a forecast of ``before`` is still valid."""
    return (
        *_text_changes(before, now),
        *_shape_changes(before.shape, now.shape),
        *_date_changes(before, now),
    )


def _text_changes(before: Question, now: Question) -> Iterator[str]:
    if before.title != now.title:
        yield f'the title was "{_shorten(before.title)}" and is "{_shorten(now.title)}" now'
    if before.criteria != now.criteria:
        yield "the resolution criteria changed"
    if before.background != now.background:
        yield "the description changed"


def _shape_changes(before: QuestionShape, now: QuestionShape) -> Iterator[str]:
    match before, now:
        case ChoiceShape(), ChoiceShape():
            yield from _option_changes(before.options, now.options)
        case CurveShape(), CurveShape():
            yield from _scale_changes(before, now)
        case _ if before.kind != now.kind:
            yield f"the kind was {_kind_name(before)} and is {_kind_name(now)} now"


def _option_changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    for option in now:
        if option not in before:
            yield f'option "{_shorten(option)}" was added'
    for option in before:
        if option not in now:
            yield f'option "{_shorten(option)}" was removed'


def _scale_changes(before: CurveShape, now: CurveShape) -> Iterator[str]:
    was, is_ = _format_range(before), _format_range(now)
    slack = _POINT_TOLERANCE * (before.grid[-1] - before.grid[0])
    if any(abs(old - new) > slack for old, new in zip(_grid_ends(before), _grid_ends(now), strict=True)):
        yield f"the range was {was} and is {is_} now"
    elif (
        len(before.grid) == len(now.grid)
        and _grids_differ(before.grid, now.grid, slack)
        and _scale_name(before) == _scale_name(now)
    ):
        yield f"the zero point of the {_scale_name(now)} scale changed"
    if _scale_name(before) != _scale_name(now):
        yield f"the scale was {_scale_name(before)} and is {_scale_name(now)} now"
    if len(before.grid) != len(now.grid):
        yield f"the range was cut into {len(before.grid) - 1} steps and is cut into {len(now.grid) - 1} now"
    if before.unit != now.unit:
        yield f'the unit was "{before.unit}" and is "{now.unit}" now'
    for side, old, new in (
        ("lower", before.open_lower, now.open_lower),
        ("upper", before.open_upper, now.open_upper),
    ):
        if old != new:
            yield f"the {side} bound was {_bound_name(old)} and is {_bound_name(new)} now"


def _date_changes(before: Question, now: Question) -> Iterator[str]:
    was, is_ = ({target.key: target.resolves_at for target in one.targets} for one in (before, now))
    yield from (f'target "{key}" was added' for key in is_ if key not in was)
    yield from (f'target "{key}" was removed' for key in was if key not in is_)
    for key in was:
        if key in is_ and _moments_differ(was[key], is_[key]):
            name = f'target "{key}"' if len(was) > 1 else "it"
            yield f"{name} was to be resolved {_format_moment(was[key])} and is {_format_moment(is_[key])} now"
    if _moments_differ(before.closes_at, now.closes_at):
        yield f"it was to close {_format_moment(before.closes_at)} and closes {_format_moment(now.closes_at)} now"


def _moments_differ(before: datetime | None, now: datetime | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= _MOMENT_TOLERANCE


def _grids_differ(before: Sequence[float], now: Sequence[float], slack: float) -> bool:
    return any(abs(old - new) > slack for old, new in zip(before, now, strict=True))


def _grid_ends(shape: CurveShape) -> tuple[float, float]:
    return shape.grid[0], shape.grid[-1]


def _scale_name(shape: CurveShape) -> str:
    """Return the kind of scale: linear or logarithmic."""
    steps = [after - before for before, after in pairwise(shape.grid)]
    mean = (shape.grid[-1] - shape.grid[0]) / len(steps)
    return "linear" if max(abs(step - mean) for step in steps) <= _EVEN_STEP_TOLERANCE * mean else "logarithmic"


def _format_range(shape: CurveShape) -> str:
    low, high = shape.grid[0], shape.grid[-1]
    if shape.unit == "date":
        return f"{_format_day(low)} to {_format_day(high)}"
    return f"{low:.10g} to {high:.10g}"


def _format_day(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.10g}"


def _format_moment(at: datetime | None) -> str:
    return "at no fixed time" if at is None else f"on {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _bound_name(is_open: bool) -> str:  # noqa: FBT001 - maps each value to a word
    return "open" if is_open else "closed"


def _kind_name(shape: QuestionShape) -> str:
    return {"binary": "yes or no", "choice": "a choice", "curve": "a number or a date"}[shape.kind]


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_SHOWN_CHARS else f"{flat[: _MAX_SHOWN_CHARS - 1]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One price of one question at one moment, as a venue's feed reports it."""

    ref: QuestionRef
    prediction: Prediction
    at: datetime

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone(f"{self.ref}: at of a quote", self.at)
