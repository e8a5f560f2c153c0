"""The records of the venue, each parsed separately, so that a bad one does not affect others.

Unknown fields are ignored: the production site sends more than the open-source one. Source:
docs/facts/metaculus.md#objects; absent keys and nulls are normal.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bot.api import MalformedDataError


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except OverflowError as error:
        message = f"{moment} is before or after all years"
        raise ValueError(message) from error


AwareMoment = Annotated[datetime, AfterValidator(_to_utc)]
RecordNumber = Annotated[int, Field(ge=1)]


class _MetaculusRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class MetaculusScalingRecord(_MetaculusRecord):
    """The range of a continuous question; ``continuous_range`` are the values at which its CDF is read."""

    range_min: float | None = None
    range_max: float | None = None
    zero_point: float | None = None
    continuous_range: Any = None


class MetaculusQuestionRecord(_MetaculusRecord):
    """A question. Crowd and own forecasts are parsed where they are needed, so that bad ones do no harm."""

    id: RecordNumber
    type: str
    status: str
    title: str = ""
    label: str | None = None
    unit: str | None = None
    options: tuple[str, ...] | None = None
    all_options_ever: tuple[str, ...] | None = None
    options_history: Any = None
    open_time: AwareMoment | None = None
    scheduled_close_time: AwareMoment | None = None
    actual_close_time: AwareMoment | None = None
    scheduled_resolve_time: AwareMoment | None = None
    spot_scoring_time: AwareMoment | None = None
    actual_resolve_time: AwareMoment | None = None
    resolution_set_time: AwareMoment | None = None
    resolution: str | None = None
    open_lower_bound: bool | None = None
    open_upper_bound: bool | None = None
    inbound_outcome_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    scaling: MetaculusScalingRecord | None = None
    description: str | None = None
    resolution_criteria: str | None = None
    fine_print: str | None = None
    question_weight: float | None = None
    default_score_type: str | None = None
    default_aggregation_method: str | None = None
    aggregations: Any = None
    my_forecasts: Any = None


class MetaculusGroupRecord(_MetaculusRecord):
    """Several questions under one text, which they do not repeat."""

    questions: tuple[Any, ...]
    description: str | None = None
    resolution_criteria: str | None = None
    fine_print: str | None = None


class MetaculusConditionalRecord(_MetaculusRecord):
    """A question asked twice: given each outcome of another question."""

    condition: Any
    condition_child: Any
    question_yes: Any
    question_no: Any


class MetaculusPostRecord(_MetaculusRecord):
    """A page with exactly one of a question, a group, a conditional, or a notebook."""

    id: RecordNumber
    title: str = ""
    slug: str | None = None
    user_permission: str | None = None
    projects: Any = None
    question: Any = None
    group_of_questions: Any = None
    conditional: Any = None


class MetaculusForecastRecord(_MetaculusRecord):
    """A past or active forecast; times in seconds since 1970; while it is active its end is None or in the future."""

    start_time: float
    end_time: float | None = None
    forecast_values: tuple[float | None, ...]


class MetaculusOwnForecasts(_MetaculusRecord):
    """Our own forecasts on one question."""

    history: tuple[MetaculusForecastRecord, ...] = ()
    latest: MetaculusForecastRecord | None = None


class MetaculusAggregateRecord(_MetaculusRecord):
    """The community prediction, if shown; centers of curves are locations between 0 and 1."""

    start_time: float
    forecaster_count: int | None = None
    centers: tuple[float | None, ...] | None = None
    forecast_values: tuple[float | None, ...] | None = None


class MetaculusAccountRecord(_MetaculusRecord):
    """The account of a token."""

    id: RecordNumber
    username: str = ""
    is_bot: bool = False
    is_primary_bot: bool | None = None
    api_access_tier: str | None = None
    api_forecasting_access: str | None = None


class MetaculusTournamentRecord(_MetaculusRecord):
    """A tournament."""

    id: RecordNumber
    name: str = ""
    slug: str | None = None
    is_ongoing: bool | None = None
    user_permission: str | None = None
    forecasting_end_date: AwareMoment | None = None


class MetaculusLeaderboardEntry(_MetaculusRecord):
    """The rank of an account on a leaderboard; the rank of an excluded account does not count."""

    score: float
    rank: int | None = None
    excluded: bool = False
    coverage: float | None = None
    contribution_count: int | None = None
    take: float | None = None
    prize: float | None = None


class MetaculusLeaderboardRecord(_MetaculusRecord):
    """A leaderboard of a tournament; ``userEntry`` is that of the requesting account."""

    score_type: str = ""
    is_primary_leaderboard: bool | None = None
    entries: tuple[Any, ...] = ()
    user_entry: MetaculusLeaderboardEntry | None = Field(default=None, alias="userEntry")


class MetaculusCommentRecord(_MetaculusRecord):
    """A comment; a private one is visible to its author only."""

    id: RecordNumber
    on_post: int | None = None
    text: str = ""
    is_private: bool = False
    is_soft_deleted: bool = False
    created_at: AwareMoment | None = None


RecordT = TypeVar("RecordT", bound=_MetaculusRecord)


def parse_record(kind: type[RecordT], raw: object, name: str) -> RecordT:
    """Parse one record; raises MalformedDataError that names it and its invalid fields, but not their content."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        fields = ", ".join(sorted({".".join(map(str, found["loc"][:2])) or "it" for found in error.errors()}))
        message = f"{name}: {fields} not as documented"
        raise MalformedDataError(message) from error


def record_number(raw: object) -> str:
    """Return the id of a record for messages, also of a broken one."""
    return str(raw.get("id", "without id"))[:40] if isinstance(raw, Mapping) else "that is no object"


def is_sequence(value: object) -> bool:
    """Return whether a value is a JSON list."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
