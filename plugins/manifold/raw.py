"""The venue's records, read tolerantly: what is optional may be missing, what is unknown is kept as text or ignored.

Source: venue document, sections 4.2 and 5.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bot.api import ContractError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9000_MS = 221_845_392_000_000


def moment_of(milliseconds: float) -> datetime:
    """Return the moment that the venue writes as milliseconds, cut to the years that there are."""
    return _EPOCH + timedelta(milliseconds=min(max(milliseconds, 0.0), _YEAR_9000_MS))


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _finite(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        message = "should be a finite number"
        raise ValueError(message)
    return value


Text = Annotated[str, BeforeValidator(_text)]
Amount = Annotated[float, BeforeValidator(_finite)]


class Raw(BaseModel):
    """The parent of the records: unknown fields are ignored, and a field that is null is as good as missing."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class RawSides(Raw):
    """Shares of both sides in a pool."""

    yes: Amount = Field(alias="YES")
    no: Amount = Field(alias="NO")


class RawAnswer(Raw):
    """An answer of a FullMarket; as the database has it ``prob`` stands in for ``probability``."""

    id: str = Field(min_length=1)
    index: int = 0
    text: Text = ""
    prob: Amount | None = Field(default=None, validation_alias=AliasChoices("probability", "prob"))
    volume: Amount | None = None
    midpoint: Amount | None = None
    pool: RawSides | None = None
    resolution: Text | None = None
    resolution_time: Amount | None = Field(default=None, alias="resolutionTime")
    resolution_prob: Amount | None = Field(default=None, alias="resolutionProbability")


class RawMarket(Raw):
    """A LiteMarket or a FullMarket; ``answers`` are records of their own, each read by itself."""

    id: str = Field(min_length=1)
    question: Text
    type: Text = Field(alias="outcomeType")
    mechanism: Text | None = None
    token: Text | None = None
    slug: Text | None = None
    url: Text | None = None
    creator: Text | None = Field(default=None, alias="creatorId")
    creator_name: Text | None = Field(default=None, alias="creatorUsername")
    created: Amount | None = Field(default=None, alias="createdTime")
    closes: Amount | None = Field(default=None, alias="closeTime")
    resolved: bool | None = Field(default=None, alias="isResolved")
    resolution: Text | None = None
    resolution_time: Amount | None = Field(default=None, alias="resolutionTime")
    resolution_prob: Amount | None = Field(default=None, alias="resolutionProbability")
    text: Text | None = Field(default=None, alias="textDescription")
    description: Any = None
    groups: list[Text] | None = Field(default=None, alias="groupSlugs")
    prob: Amount | None = Field(default=None, alias="probability")
    pool: RawSides | None = None
    p: Amount | None = None
    low: Amount | None = Field(default=None, alias="min")
    high: Amount | None = Field(default=None, alias="max")
    logarithmic: bool | None = Field(default=None, alias="isLogScale")
    liquidity: Amount | None = Field(default=None, alias="totalLiquidity")
    volume: Amount | None = None
    day_volume: Amount | None = Field(default=None, alias="volume24Hours")
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


class RawFill(Raw):
    """A part of a bet that was traded."""

    matched: str | None = Field(default=None, alias="matchedBetId")
    amount: Amount
    shares: Amount
    timestamp: Amount | None = None


class RawBet(Raw):
    """A bet in a list (``id``), or the answer to one (``betId``). Sales have negative amount and shares."""

    id: str = Field(default="", validation_alias=AliasChoices("id", "betId"))
    contract: str = Field(alias="contractId", min_length=1)
    answer: str | None = Field(default=None, alias="answerId")
    outcome: str = Field(pattern="^(YES|NO)$")
    amount: Amount
    whole: Amount | None = Field(default=None, alias="orderAmount")
    shares: Amount
    limit: Amount | None = Field(default=None, alias="limitProb")
    filled: bool | None = Field(default=None, alias="isFilled")
    cancelled: bool | None = Field(default=None, alias="isCancelled")
    redemption: bool | None = Field(default=None, alias="isRedemption")
    created: Amount = Field(alias="createdTime")
    expires: Amount | None = Field(default=None, alias="expiresAt")
    before: Amount | None = Field(default=None, alias="probBefore")
    after: Amount | None = Field(default=None, alias="probAfter")
    fills: list[RawFill] | None = None


class RawMe(Raw):
    """The account of a key."""

    id: str = Field(min_length=1)
    username: Text = ""
    balance: Amount
    is_bot: bool | None = Field(default=None, alias="isBot")


R = TypeVar("R", bound=Raw)


def parsed(kind: type[R], record: object, name: str) -> R:
    """Read a record; raises ContractError that names it and its first fault."""
    if not isinstance(record, Mapping):
        message = f"{name} is not an object"
        raise ContractError(message)
    try:
        return kind.model_validate({key: value for key, value in record.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        message = f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise ContractError(message) from error


def name_of(record: object, kind: str = "market") -> str:
    """Return what a record is to be called in a complaint."""
    found = record.get("id") if isinstance(record, Mapping) else None
    return f"{kind} {found}" if isinstance(found, str | int) else f"a {kind} without an id"
