"""A user's own question as a TOML or JSON file: its tables, their validation, and the question made of them.

Messages say what to correct.
"""

import json
import math
import re
import stat
import tomllib
import unicodedata
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from bot.config.key_lines import KeyPath
from bot.config.validation import FAULT_TEXTS, TYPE_NAMES, annotation_at, dotted_key, field_names, known_key
from bot.core.distributions import curve_from_quantiles
from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.plain_text import strip_invisible, suggest_names
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target, split_facts

DATE_KIND = "date"


DEFAULT_GRID_POINTS = 201


MAX_TEXT_CHARS = 200_000


# Keys become names of files and columns.
_FORBIDDEN_KEY_CHARS = frozenset("/\\ \u00a0")


def parse_moment(value: object) -> datetime:
    """Return a date, a time or its text as a time, UTC unless it has an offset; raises ValueError with the format."""
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(parsed, datetime):
            aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
            # In UTC it must still be in a year from 1 to 9999.
            aware.astimezone(UTC)
            return aware
    except (ValueError, OverflowError):
        parsed = None
    if isinstance(parsed, date):
        return datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC)
    message = f"should be a time such as 2026-12-31 or 2026-12-31T18:00:00Z, not {str(value)[:40]!r}"
    raise ValueError(message)


def _validate_key(text: str) -> str:
    if (
        text != strip_invisible(text)
        or not text.isprintable()
        or text.startswith(".")
        or not _FORBIDDEN_KEY_CHARS.isdisjoint(text)
    ):
        message = 'should have only printable characters, no blanks, slashes or leading dot; such as "rain-in-paris"'
        raise ValueError(message)
    return text


def _wrap_target(value: object) -> object:
    return value if isinstance(value, dict) else {"resolves_at": value}


LongText = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS, strict=True)]


TextLine = Annotated[str, StringConstraints(max_length=1000, min_length=1, strip_whitespace=True, strict=True)]


MomentValue = Annotated[datetime, BeforeValidator(parse_moment)]


FiniteNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]


ProbabilityValue = Annotated[float, Field(strict=True, ge=0, le=1)]


# A number, or a date if the question asks for a date.
GridPoint: TypeAlias = FiniteNumber | datetime | date | str


class QuestionFileTable(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ShapeTable(QuestionFileTable):
    """The kind of answer: yes or no, one of the ``options``, or a number or date on a grid.

    The grid is a list of points, or a ``range`` that is divided evenly into ``points``.
    """

    kind: Literal["binary", "choice", "number", "date"] = "binary"
    options: tuple[TextLine, ...] = Field(default=(), max_length=500)
    grid: tuple[GridPoint, ...] = Field(default=(), max_length=10_000)
    range: tuple[GridPoint, GridPoint] | None = None
    points: int = Field(default=DEFAULT_GRID_POINTS, strict=True, ge=2, le=10_000)
    unit: Annotated[str, StringConstraints(max_length=100)] = ""
    open_lower: bool = False
    open_upper: bool = False

    @model_validator(mode="after")
    def _check_shape(self) -> "ShapeTable":
        self.shape()
        return self

    def shape(self) -> QuestionShape:
        """Return the shape; raises ValueError that says what is missing, unused or in the wrong order."""
        curved = self.kind in {"number", DATE_KIND}
        unused = {*({"grid", "range", "points", "unit", "open_lower", "open_upper"} if not curved else ())}
        unused |= {"options"} if self.kind != "choice" else set()
        if wrong := sorted(unused & self.model_fields_set):
            message = f"a {self.kind} question has no {', '.join(wrong)}; remove it, or change kind"
            raise ValueError(message)
        if self.kind == "binary":
            return BinaryShape()
        if self.kind == "choice":
            return ChoiceShape(options=self.options)
        return self._curve_shape()

    def value(self, point: GridPoint) -> float:
        """Return a point of the grid as a number: a date is seconds since 1970; raises ValueError."""
        if self.kind == DATE_KIND:
            return parse_moment(point).timestamp()
        if isinstance(point, float | int):
            return float(point)
        message = f'{str(point)!r} is not a number; for dates set kind = "date"'
        raise ValueError(message)

    def _curve_shape(self) -> CurveShape:
        if self.kind == DATE_KIND and self.unit:
            message = "unit is for numbers; remove it"
            raise ValueError(message)
        if (self.range is None) == (not self.grid):
            message = f"a {self.kind} needs either grid = [...] or range = [LOW, HIGH]"
            raise ValueError(message)
        if self.grid and "points" in self.model_fields_set:
            message = "points divides a range and cannot be used with grid; remove it"
            raise ValueError(message)
        return CurveShape(
            grid=tuple(map(self.value, self.grid)) or self._divide_range(),
            unit=DATE_KIND if self.kind == DATE_KIND else self.unit,
            open_lower=self.open_lower,
            open_upper=self.open_upper,
        )

    def _divide_range(self) -> tuple[float, ...]:
        low, high = (self.value(point) for point in self.range or ())
        if low >= high:
            message = "range should go from the lower to the higher bound"
            raise ValueError(message)
        steps = self.points - 1
        return (*(low + (high - low) * index / steps for index in range(steps)), high)


class TargetTable(QuestionFileTable):
    """One scored event: named by its date, unless it has a ``key``."""

    key: TextLine | None = None
    resolves_at: MomentValue | None = None

    @model_validator(mode="after")
    def _check_key(self) -> "TargetTable":
        if self.key is None and self.resolves_at is None:
            message = "a target needs resolves_at or a key"
            raise ValueError(message)
        return self

    def target(self) -> Target:
        """Return the target."""
        day = "" if self.resolves_at is None else self.resolves_at.astimezone(UTC).date().isoformat()
        return Target(key=self.key or day, resolves_at=self.resolves_at)


class CrowdTable(QuestionFileTable):
    """A forecast by others, in one of the forms, and its time."""

    probability: ProbabilityValue | None = None
    probabilities: dict[str, ProbabilityValue] | None = None
    cdf: tuple[ProbabilityValue, ...] | None = None
    quantiles: dict[str, GridPoint] | None = None
    at: MomentValue | None = None
    explanation: LongText = ""

    def prediction(self, table: ShapeTable, shape: QuestionShape) -> Prediction:
        """Return the prediction; raises ValueError for a form that does not fit the shape."""
        expected = {"binary": "probability", "choice": "probabilities"}.get(shape.kind, "quantiles or cdf")
        given = {"probability", "probabilities", "cdf", "quantiles"} & self.model_fields_set
        if len(given) != 1 or not given <= {*expected.split(" or ")}:
            message = f"crowd: the crowd of a {table.kind} question is given by {expected}, and by nothing else"
            raise ValueError(message)
        if self.probability is not None:
            return BinaryPrediction(self.probability)
        if self.probabilities is not None:
            return ChoicePrediction(self.probabilities)
        return self._curve_prediction(table, shape)

    def _curve_prediction(self, table: ShapeTable, shape: QuestionShape) -> CurvePrediction:
        if self.cdf is not None or not isinstance(shape, CurveShape):
            return CurvePrediction(self.cdf or ())
        try:
            levels = {float(level): table.value(point) for level, point in (self.quantiles or {}).items()}
            return curve_from_quantiles(levels, shape)
        except ValueError as error:
            message = f'crowd.quantiles: {error}; write them as {{ "0.1" = ..., "0.5" = ..., "0.9" = ... }}'
            raise ValueError(message) from error


class QuestionTable(QuestionFileTable):
    """A whole file."""

    title: TextLine
    key: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_validate_key)] | None = None
    criteria: LongText = ""
    background: LongText = ""
    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$", max_length=2000)] | None = None
    source: Annotated[str, StringConstraints(max_length=100)] = ""
    closes_at: MomentValue | None = None
    as_of: MomentValue | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    shape: ShapeTable = ShapeTable()
    targets: tuple[Annotated[TargetTable, BeforeValidator(_wrap_target)], ...] = Field(default=(), max_length=100)
    crowd: CrowdTable | None = None

    def question(self, ref: QuestionRef, *, now: datetime) -> Question:
        """Return the question; raises ValueError."""
        shape = self.shape.shape()
        if self.as_of is not None and self.as_of > now:
            message = "as_of: is in the future; remove it to forecast with everything known now"
            raise ValueError(message)
        given: dict[str, Any] = self.model_dump(
            include={"title", "criteria", "background", "url", "source", "closes_at", "as_of"}
        )
        fields, facts = split_facts(self.facts)
        return Question(
            **given,
            **fields,
            facts=facts,
            ref=ref,
            shape=shape,
            targets=tuple(table.target() for table in self.targets) or (Target(),),
            family=self.shape.kind,
            crowd=self._crowd_forecast(shape, now),
        )

    def _crowd_forecast(self, shape: QuestionShape, now: datetime) -> CrowdForecast | None:
        if self.crowd is None:
            return None
        cutoff = self.as_of or now
        at = self.crowd.at or cutoff
        if at > cutoff:
            message = f"crowd.at: {at.isoformat()} is after {cutoff.isoformat()}, the cutoff of the forecast"
            raise ValueError(message)
        prediction = self.crowd.prediction(self.shape, shape)
        return CrowdForecast(prediction=prediction, at=at, explanation=self.crowd.explanation)


FILE_VENUE = "file"


FILE_SUFFIXES = (".toml", ".json")


MAX_BYTES = 1024 * 1024


MAX_KEY_CHARS = 80


# So much an error shows at most: lines, and characters of a key and of its fault.
MAX_FAULTS, MAX_FAULT_CHARS = 30, 300


# No valid key has more than three parts, and the time of the parser grows with the square of their number.
_KEY_PART = r"(?:[\w-]++|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+')"


_DEEP_KEY = re.compile(rf"(?<![\w\\-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{16}}")


EXAMPLES = {"title": 'title = "Will it rain in Paris on 24 December 2026?"'}


def read_question(path: Path, *, now: datetime) -> Question:
    """Return the question of a file; ``now`` is the time of the crowd's forecast, unless the file gives one.

    Raises NotFoundError for a missing file, and MalformedDataError, with a line for each fault that names file, key and
    remedy, for a file that is not in the documented format.
    """
    table = validate_question(path, _parse_file(path))
    try:
        key = table.key or title_to_key(table.title)
        return table.question(QuestionRef(FILE_VENUE, key), now=now)
    except ValueError as error:
        message = f"{path}: {str(error).removeprefix(f'{FILE_VENUE}:')[:MAX_FAULT_CHARS]}"
        raise MalformedDataError(message) from error


def title_to_key(title: str) -> str:
    """Return a title as a key: lower-case letters and digits of any script with hyphens between; raises ValueError."""
    words = re.findall(r"\w+", strip_invisible(unicodedata.normalize("NFKC", title)).casefold().replace("_", " "))
    joined = "-".join(words)
    if not joined:
        message = 'title: has no letter or digit to make a key from; add one, such as key = "rain-in-paris"'
        raise ValueError(message)
    return joined[:MAX_KEY_CHARS].rstrip("-")


def _parse_file(path: Path) -> Any:  # noqa: ANN401 - the edge of JSON and TOML
    text = read_text(path)
    is_json = path.suffix.lower() == ".json"
    if not is_json and (deep := _DEEP_KEY.search(text)) is not None:
        line = text.count("\n", 0, deep.start()) + 1
        message = f"{path}: line {line}: no key of a question has so many parts; remove the dots"
        raise MalformedDataError(message)
    try:
        return json.loads(text) if is_json else tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path}: is not valid TOML: {error}; texts need quotes, and the name of a JSON file ends in .json"
    except json.JSONDecodeError as error:
        message = f"{path}: is not valid JSON: {error}"
    except RecursionError:
        message = f"{path}: is nested too deeply for a question"
    except ValueError as error:  # a date such as 2026-02-30
        message = f"{path}: {error}"
    raise MalformedDataError(message)


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file; raises NotFoundError, and MalformedDataError for one that is too large or no UTF-8."""
    try:
        # Opening a pipe waits for a writer, and a device may never end.
        if not stat.S_ISREG(path.stat().st_mode):
            message = f"{path}: is not a regular file; name a .toml or .json file"
            raise NotFoundError(message)
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}; name a question, an address, or a .toml or .json file"
        raise NotFoundError(message) from error
    if len(content) > max_bytes:
        message = f"{path}: is larger than {max_bytes} bytes; shorten its texts"
        raise MalformedDataError(message)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise MalformedDataError(message) from error


def validate_question(path: Path | str, plain: Any) -> QuestionTable:  # noqa: ANN401 - as it was parsed
    """Return a checked table; raises MalformedDataError with a line for each fault that begins with the path."""
    if not isinstance(plain, dict):
        message = f"{path}: should be one table (in JSON an object) with a title"
        raise MalformedDataError(message)
    try:
        return QuestionTable.model_validate(plain)
    except ValidationError as error:
        lines = _fault_lines(path, error.errors(include_url=False))
    # Without its cause: pydantic repeats the whole file.
    raise MalformedDataError("\n".join(lines)) from None


def _fault_lines(path: Path | str, faults: list[ErrorDetails]) -> list[str]:
    """Return the first fault of each key: a key with several possible types has a fault for each of them."""
    lines: dict[KeyPath, str] = {}
    for fault in faults:
        key = known_key(QuestionTable, fault["loc"])
        shown = (str(path), dotted_key(key)[:MAX_FAULT_CHARS], _fault_text(key, fault)[:MAX_FAULT_CHARS])
        lines.setdefault(key, ": ".join(filter(None, shown)))
    found = [*lines.values()]
    more = [f"{path}: and {len(found) - MAX_FAULTS} more faults"] if len(found) > MAX_FAULTS else []
    return [*found[:MAX_FAULTS], *more]


def _fault_text(key: KeyPath, fault: ErrorDetails) -> str:
    given = fault["input"]
    if isinstance(given, float) and math.isnan(given):
        # NaN violates whichever limit is checked first.
        return "should be a number (found nan)"
    message = fault["msg"].removeprefix("Value error, ")
    kind, text = fault["type"], FAULT_TEXTS.get(fault["type"], message.removeprefix("Input "))
    if kind == "extra_forbidden":
        known = field_names(annotation_at(QuestionTable, key[:-1])) or ()
        return f"there is no such key; {suggest_names(str(key[-1]), known)}"
    if kind == "missing":
        example = EXAMPLES.get(str(key[-1]))
        return f"is missing; add {example}" if example else "is missing"
    if kind.endswith(("_type", "_parsing")):
        return f"{text} (found {TYPE_NAMES.get(type(fault['input']), 'something else')})"
    return text
