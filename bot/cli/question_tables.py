"""The tables of a question file, and how they become a question."""

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from bot.domain.curves import curve_through
from bot.domain.invisible import visible
from bot.domain.prediction import (
    Binary,
    BinaryShape,
    Choice,
    ChoiceShape,
    Curve,
    CurveShape,
    Prediction,
    Shape,
)
from bot.domain.question import Crowd, Question, QuestionRef, Target

DATE = "date"
POINTS = 201
LONGEST = 200_000
# Names of files and columns are made of keys.
_NO_NAME = frozenset("/\\ \u00a0")


def moment_of(value: object) -> datetime:
    """Return a date, a moment or the text of one, in UTC unless it says otherwise; raises ValueError with the form."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        read = None
    if isinstance(read, datetime):
        return read if read.tzinfo else read.replace(tzinfo=UTC)
    if isinstance(read, date):
        return datetime(read.year, read.month, read.day, tzinfo=UTC)
    message = f"should be a moment such as 2026-12-31 or 2026-12-31T18:00:00Z, and is {str(value)[:40]!r}"
    raise ValueError(message)


def _key_of(text: str) -> str:
    if text != visible(text) or not text.isprintable() or text.startswith(".") or not _NO_NAME.isdisjoint(text):
        message = 'should have printable characters alone, no blanks, slashes or dot in front; such as "rain-in-paris"'
        raise ValueError(message)
    return text


def _target_of(value: object) -> object:
    return value if isinstance(value, dict) else {"resolves_at": value}


Text = Annotated[str, StringConstraints(max_length=LONGEST, strict=True)]
Line = Annotated[str, StringConstraints(max_length=1000, min_length=1, strip_whitespace=True, strict=True)]
When = Annotated[datetime, BeforeValidator(moment_of)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
# A number, or where the question asks for a date, a date.
Point: TypeAlias = Number | datetime | date | str


class Part(BaseModel):
    """A table: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ShapeTable(Part):
    """What is asked for: yes or no, one of the ``options``, or a number or date on a grid.

    The grid is given point by point, or as a ``range`` that is divided evenly into ``points``.
    """

    kind: Literal["binary", "choice", "number", "date"] = "binary"
    options: tuple[Line, ...] = Field(default=(), max_length=500)
    grid: tuple[Point, ...] = Field(default=(), max_length=10_000)
    range: tuple[Point, Point] | None = None
    points: int = Field(default=POINTS, strict=True, ge=2, le=10_000)
    unit: Annotated[str, StringConstraints(max_length=100)] = ""
    open_lower: bool = False
    open_upper: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> "ShapeTable":
        self.shape()
        return self

    def shape(self) -> Shape:
        """Return the shape; raises ValueError that says what is missing, too much, or out of order."""
        curved = self.kind in {"number", DATE}
        unused = {*({"grid", "range", "points", "unit", "open_lower", "open_upper"} if not curved else ())}
        unused |= {"options"} if self.kind != "choice" else set()
        if odd := sorted(unused & self.model_fields_set):
            message = f"{', '.join(odd)} is nothing that a {self.kind} question has; take it out, or change kind"
            raise ValueError(message)
        if self.kind == "binary":
            return BinaryShape()
        if self.kind == "choice":
            return ChoiceShape(options=self.options)
        return self._curve()

    def value(self, point: Point) -> float:
        """Return a point of the grid as a number: a date is seconds since 1970; raises ValueError."""
        if self.kind == DATE:
            return moment_of(point).timestamp()
        if isinstance(point, float | int):
            return float(point)
        message = f'{str(point)!r} is no number; for dates write kind = "date"'
        raise ValueError(message)

    def _curve(self) -> CurveShape:
        if self.kind == DATE and self.unit:
            message = "unit is for numbers; take it out"
            raise ValueError(message)
        if (self.range is None) == (not self.grid):
            message = f"a {self.kind} needs either grid = [...] or range = [LOW, HIGH]"
            raise ValueError(message)
        if self.grid and "points" in self.model_fields_set:
            message = "points divides a range, and goes with no grid; take it out"
            raise ValueError(message)
        return CurveShape(
            grid=tuple(map(self.value, self.grid)) or self._even(),
            unit=DATE if self.kind == DATE else self.unit,
            open_lower=self.open_lower,
            open_upper=self.open_upper,
        )

    def _even(self) -> tuple[float, ...]:
        low, high = (self.value(point) for point in self.range or ())
        if low >= high:
            message = "range should go from the lower to the higher bound"
            raise ValueError(message)
        steps = self.points - 1
        return (*(low + (high - low) * index / steps for index in range(steps)), high)


class TargetTable(Part):
    """One scored event: named by its date, unless it has a ``key``."""

    key: Line | None = None
    resolves_at: When | None = None

    @model_validator(mode="after")
    def _is_named(self) -> "TargetTable":
        if self.key is None and self.resolves_at is None:
            message = "a target needs resolves_at or a key"
            raise ValueError(message)
        return self

    def target(self) -> Target:
        """Return the target."""
        day = "" if self.resolves_at is None else self.resolves_at.astimezone(UTC).date().isoformat()
        return Target(key=self.key or day, resolves_at=self.resolves_at)


class CrowdTable(Part):
    """What others believe, in one of the forms, and when they did."""

    probability: Share | None = None
    probabilities: dict[str, Share] | None = None
    cdf: tuple[Share, ...] | None = None
    quantiles: dict[str, Point] | None = None
    at: When | None = None
    explanation: Text = ""

    def prediction(self, table: ShapeTable, shape: Shape) -> Prediction:
        """Return what they believe; raises ValueError for a form that does not answer the shape."""
        wanted = {"binary": "probability", "choice": "probabilities"}.get(shape.kind, "quantiles or cdf")
        given = {"probability", "probabilities", "cdf", "quantiles"} & self.model_fields_set
        if len(given) != 1 or not given <= {*wanted.split(" or ")}:
            message = f"crowd: a {table.kind} question has a crowd with {wanted}, and nothing beside"
            raise ValueError(message)
        if self.probability is not None:
            return Binary(self.probability)
        if self.probabilities is not None:
            return Choice(self.probabilities)
        return self._curve(table, shape)

    def _curve(self, table: ShapeTable, shape: Shape) -> Curve:
        if self.cdf is not None or not isinstance(shape, CurveShape):
            return Curve(self.cdf or ())
        try:
            levels = {float(level): table.value(point) for level, point in (self.quantiles or {}).items()}
            return curve_through(levels, shape)
        except ValueError as error:
            message = f'crowd.quantiles: {error}; write them as {{ "0.1" = ..., "0.5" = ..., "0.9" = ... }}'
            raise ValueError(message) from error


class QuestionTable(Part):
    """A whole file."""

    title: Line
    key: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_key_of)] | None = None
    criteria: Text = ""
    background: Text = ""
    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$", max_length=2000)] | None = None
    source: Annotated[str, StringConstraints(max_length=100)] = ""
    closes_at: When | None = None
    as_of: When | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    shape: ShapeTable = ShapeTable()
    targets: tuple[Annotated[TargetTable, BeforeValidator(_target_of)], ...] = Field(default=(), max_length=100)
    crowd: CrowdTable | None = None

    def question(self, ref: QuestionRef, *, now: datetime) -> Question:
        """Return the question; raises ValueError."""
        shape = self.shape.shape()
        if self.as_of is not None and self.as_of > now:
            message = "as_of: lies in the future; leave it out to forecast with all that is known now"
            raise ValueError(message)
        given: dict[str, Any] = self.model_dump(
            include={"title", "criteria", "background", "url", "source", "closes_at", "as_of", "facts"}
        )
        return Question(
            **given,
            ref=ref,
            shape=shape,
            targets=tuple(table.target() for table in self.targets) or (Target(),),
            family=self.shape.kind,
            crowd=self._crowd(shape, now),
        )

    def _crowd(self, shape: Shape, now: datetime) -> Crowd | None:
        if self.crowd is None:
            return None
        known_at = self.as_of or now
        at = self.crowd.at or known_at
        if at > known_at:
            message = f"crowd.at: {at.isoformat()} is after {known_at.isoformat()}, up to which all is known"
            raise ValueError(message)
        prediction = self.crowd.prediction(self.shape, shape)
        return Crowd(prediction=prediction, at=at, explanation=self.crowd.explanation)
