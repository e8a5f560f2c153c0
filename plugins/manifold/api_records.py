"""The venue's records, parsed tolerantly: optional fields may be missing, unknown values are kept as text or ignored.

Source: docs/facts/manifold.md#market-objects and #account.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bot.api import MalformedDataError, replace_invisible

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9000_MS = 221_845_392_000_000


def from_milliseconds(milliseconds: float) -> datetime:
    """Return the moment of a timestamp in milliseconds, clamped to the supported years."""
    return _EPOCH + timedelta(milliseconds=min(max(milliseconds, 0.0), _YEAR_9000_MS))


def _number_to_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _require_finite(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        message = "should be a finite number"
        raise ValueError(message)
    return value


RecordText = Annotated[str, BeforeValidator(_number_to_text)]
FiniteNumber = Annotated[float, BeforeValidator(_require_finite)]


class ManifoldRecord(BaseModel):
    """The base of the records: unknown fields are ignored, and null is the same as missing."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class ManifoldPoolRecord(ManifoldRecord):
    """Shares of both sides in a pool."""

    yes: FiniteNumber = Field(alias="YES")
    no: FiniteNumber = Field(alias="NO")


class ManifoldAnswerRecord(ManifoldRecord):
    """An answer of a FullMarket; the list of answers has ``prob`` instead of ``probability``."""

    id: str = Field(min_length=1)
    index: int = 0
    text: RecordText = ""
    prob: FiniteNumber | None = Field(default=None, validation_alias=AliasChoices("probability", "prob"))
    volume: FiniteNumber | None = None
    midpoint: FiniteNumber | None = None
    pool: ManifoldPoolRecord | None = None
    resolution: RecordText | None = None
    resolution_time: FiniteNumber | None = Field(default=None, alias="resolutionTime")
    resolution_prob: FiniteNumber | None = Field(default=None, alias="resolutionProbability")


class ManifoldMarketRecord(ManifoldRecord):
    """A LiteMarket or a FullMarket; ``answers`` are separate records, each parsed separately."""

    id: str = Field(min_length=1)
    question: RecordText
    type: RecordText = Field(alias="outcomeType")
    mechanism: RecordText | None = None
    token: RecordText | None = None
    slug: RecordText | None = None
    url: RecordText | None = None
    creator: RecordText | None = Field(default=None, alias="creatorId")
    creator_name: RecordText | None = Field(default=None, alias="creatorUsername")
    created: FiniteNumber | None = Field(default=None, alias="createdTime")
    closes: FiniteNumber | None = Field(default=None, alias="closeTime")
    resolved: bool | None = Field(default=None, alias="isResolved")
    resolution: RecordText | None = None
    resolution_time: FiniteNumber | None = Field(default=None, alias="resolutionTime")
    resolution_prob: FiniteNumber | None = Field(default=None, alias="resolutionProbability")
    text: RecordText | None = Field(default=None, alias="textDescription")
    description: Any = None
    groups: list[RecordText] | None = Field(default=None, alias="groupSlugs")
    prob: FiniteNumber | None = Field(default=None, alias="probability")
    pool: ManifoldPoolRecord | None = None
    p: FiniteNumber | None = None
    low: FiniteNumber | None = Field(default=None, alias="min")
    high: FiniteNumber | None = Field(default=None, alias="max")
    logarithmic: bool | None = Field(default=None, alias="isLogScale")
    liquidity: FiniteNumber | None = Field(default=None, alias="totalLiquidity")
    volume: FiniteNumber | None = None
    day_volume: FiniteNumber | None = Field(default=None, alias="volume24Hours")
    bettors: int | None = Field(default=None, alias="uniqueBettorCount")
    one_wins: bool | None = Field(default=None, alias="shouldAnswersSumToOne")
    answers: list[Any] | None = None

    @property
    def is_linked(self) -> bool:
        """Whether exactly one of the answers wins."""
        return self.one_wins is not False

    @property
    def is_resolved(self) -> bool:
        """Whether the market as a whole has an outcome."""
        return bool(self.resolved) or self.resolution is not None


class ManifoldFillRecord(ManifoldRecord):
    """A part of a bet that was traded."""

    matched: str | None = Field(default=None, alias="matchedBetId")
    amount: FiniteNumber
    shares: FiniteNumber
    timestamp: FiniteNumber | None = None


class ManifoldBetRecord(ManifoldRecord):
    """A bet in a list (``id``), or in the response to one (``betId``). Sales have negative amount and shares."""

    id: str = Field(default="", validation_alias=AliasChoices("id", "betId"))
    contract: str = Field(alias="contractId", min_length=1)
    answer: str | None = Field(default=None, alias="answerId")
    outcome: str = Field(pattern="^(YES|NO)$")
    amount: FiniteNumber
    whole: FiniteNumber | None = Field(default=None, alias="orderAmount")
    shares: FiniteNumber
    limit: FiniteNumber | None = Field(default=None, alias="limitProb")
    filled: bool | None = Field(default=None, alias="isFilled")
    cancelled: bool | None = Field(default=None, alias="isCancelled")
    redemption: bool | None = Field(default=None, alias="isRedemption")
    created: FiniteNumber = Field(alias="createdTime")
    expires: FiniteNumber | None = Field(default=None, alias="expiresAt")
    before: FiniteNumber | None = Field(default=None, alias="probBefore")
    after: FiniteNumber | None = Field(default=None, alias="probAfter")
    fills: list[ManifoldFillRecord] | None = None


class ManifoldAccountRecord(ManifoldRecord):
    """The account of a key."""

    id: str = Field(min_length=1)
    username: RecordText = ""
    balance: FiniteNumber
    is_bot: bool | None = Field(default=None, alias="isBot")


RecordT = TypeVar("RecordT", bound=ManifoldRecord)


def parse_record(kind: type[RecordT], record: object, name: str) -> RecordT:
    """Parse a record; raises MalformedDataError that names it and its first error."""
    if not isinstance(record, Mapping):
        message = f"{name} is not an object"
        raise MalformedDataError(message)
    try:
        return kind.model_validate({key: value for key, value in record.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        message = f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise MalformedDataError(message) from error


def record_name(record: object, kind: str = "market") -> str:
    """Return the name of a record for messages, with at most 40 visible characters of its id."""
    found = record.get("id") if isinstance(record, Mapping) else None
    return f"{kind} {replace_invisible(str(found)[:40])}" if isinstance(found, str | int) else f"a {kind} without an id"
