"""The records of the venue as they are parsed, each by itself, so that a bad one costs no other.

What is not listed is ignored: the production site sends more than the open-source one. Source: venue document,
section 3; absent keys and nulls are normal.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bot.api import ContractError


def _aware(moment: datetime) -> datetime:
    try:
        return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except OverflowError as error:
        message = f"{moment} is before or after all years"
        raise ValueError(message) from error


Moment = Annotated[datetime, AfterValidator(_aware)]
Name = Annotated[int, Field(ge=1)]


class _Raw(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class RawScaling(_Raw):
    """The range of a continuous question; ``continuous_range`` are the values at which its CDF is read."""

    range_min: float | None = None
    range_max: float | None = None
    zero_point: float | None = None
    continuous_range: Any = None


class RawQuestion(_Raw):
    """What is forecast. Crowd and own forecasts are parsed where they are needed, so that they cost no question."""

    id: Name
    type: str
    status: str
    title: str = ""
    label: str | None = None
    unit: str | None = None
    options: tuple[str, ...] | None = None
    all_options_ever: tuple[str, ...] | None = None
    options_history: Any = None
    open_time: Moment | None = None
    scheduled_close_time: Moment | None = None
    actual_close_time: Moment | None = None
    scheduled_resolve_time: Moment | None = None
    spot_scoring_time: Moment | None = None
    actual_resolve_time: Moment | None = None
    resolution_set_time: Moment | None = None
    resolution: str | None = None
    open_lower_bound: bool | None = None
    open_upper_bound: bool | None = None
    inbound_outcome_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    scaling: RawScaling | None = None
    description: str | None = None
    resolution_criteria: str | None = None
    fine_print: str | None = None
    question_weight: float | None = None
    default_score_type: str | None = None
    default_aggregation_method: str | None = None
    aggregations: Any = None
    my_forecasts: Any = None


class RawGroup(_Raw):
    """Several questions under one text, which they do not repeat."""

    questions: tuple[Any, ...]
    description: str | None = None
    resolution_criteria: str | None = None
    fine_print: str | None = None


class RawConditional(_Raw):
    """A question asked twice: as it would be after one outcome of another question, and after the other."""

    condition: Any
    condition_child: Any
    question_yes: Any
    question_no: Any


class RawPost(_Raw):
    """A page with exactly one of a question, a group, a conditional, or a notebook."""

    id: Name
    title: str = ""
    slug: str | None = None
    user_permission: str | None = None
    projects: Any = None
    question: Any = None
    group_of_questions: Any = None
    conditional: Any = None


class RawForecast(_Raw):
    """A forecast that stood or stands; times in seconds since 1970, None or one to come while it does."""

    start_time: float
    end_time: float | None = None
    forecast_values: tuple[float | None, ...]


class RawMine(_Raw):
    """Our own forecasts on one question."""

    history: tuple[RawForecast, ...] = ()
    latest: RawForecast | None = None


class RawAggregate(_Raw):
    """What all forecasters together say, where that is shown; centers of curves are places between 0 and 1."""

    start_time: float
    forecaster_count: int | None = None
    centers: tuple[float | None, ...] | None = None
    forecast_values: tuple[float | None, ...] | None = None


class RawMe(_Raw):
    """The account of a token."""

    id: Name
    username: str = ""
    is_bot: bool = False
    is_primary_bot: bool | None = None
    api_access_tier: str | None = None
    api_forecasting_access: str | None = None


class RawTournament(_Raw):
    """A tournament."""

    id: Name
    name: str = ""
    slug: str | None = None
    is_ongoing: bool | None = None
    user_permission: str | None = None
    forecasting_end_date: Moment | None = None


class RawEntry(_Raw):
    """The place of an account on a leaderboard; what is excluded has none that counts."""

    score: float
    rank: int | None = None
    excluded: bool = False
    coverage: float | None = None
    contribution_count: int | None = None
    take: float | None = None
    prize: float | None = None


class RawLeaderboard(_Raw):
    """A leaderboard of a tournament; ``userEntry`` is that of the account that asks."""

    score_type: str = ""
    is_primary_leaderboard: bool | None = None
    entries: tuple[Any, ...] = ()
    user_entry: RawEntry | None = Field(default=None, alias="userEntry")


class RawComment(_Raw):
    """A comment; of a private one nobody else knows."""

    id: Name
    on_post: int | None = None
    text: str = ""
    is_private: bool = False
    is_soft_deleted: bool = False
    created_at: Moment | None = None


R = TypeVar("R", bound=_Raw)


def parsed(kind: type[R], raw: object, what: str) -> R:
    """Read one record; raises ContractError that names it, and which of its fields are odd, but not what they hold."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        fields = ", ".join(sorted({".".join(map(str, found["loc"][:2])) or "it" for found in error.errors()}))
        message = f"{what}: {fields} not as documented"
        raise ContractError(message) from error


def number_of(raw: object) -> str:
    """Return the id of a record for people, also of a broken one."""
    return str(raw.get("id", "without id"))[:40] if isinstance(raw, Mapping) else "that is no object"


def is_sequence(value: object) -> bool:
    """Say whether a value is a JSON list."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
