"""A market at one moment: pools, orders in line and own shares, as planner, paper book and records see it.

Read from the venue's FullMarket and its open limit orders. Records that are not of the documented form are left out
and counted where they are orders; a market without a price is an error.
Source: venue document, sections 4.2, 5 and 8.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bot.api import ContractError, Leg
from plugins.manifold.arbitrage import Board
from plugins.manifold.book import Resting
from plugins.manifold.cpmm import Pool
from plugins.manifold.scale import Scale

TRADED = frozenset({"BINARY", "MULTIPLE_CHOICE", "PSEUDO_NUMERIC", "MULTI_NUMERIC", "DATE", "NUMBER"})
# The market makers whose arithmetic is known here; there are newer ones, with a weight ``p`` for each answer.
MAKERS = frozenset({"cpmm-1", "cpmm-multi-1"})
WHOLE = ""
# Linked prices sum to 1 but for rounding; further off, the answers were not read at one moment.
_TORN = 0.02


def contract_of(market: str, answer: str = WHOLE) -> str:
    """Return the name of what is traded: the market's id, or ``market/answer``."""
    return f"{market}/{answer}" if answer else market


def parts_of(contract: str) -> tuple[str, str]:
    """Return the ids of market and answer ("" for none) of a contract."""
    market, _, answer = contract.partition("/")
    return market, answer


def milliseconds(moment: datetime) -> float:
    """Return a moment as the venue writes it."""
    return moment.timestamp() * 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerState:
    """One answer of a market, or the market itself (``id`` "") where it has none."""

    id: str
    pool: Pool
    text: str = ""
    index: int = 0
    resolved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What the account holds of one answer."""

    answer: str
    yes: float = 0.0
    no: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketState:
    """A market as it was read at ``read_at``; ``linked`` where the prices of its answers sum to 1.

    ``skipped`` counts orders that were not of the documented form, ``closes_ms`` is None where it does not close.
    """

    market: str
    outcome_type: str
    answers: tuple[AnswerState, ...]
    read_at: datetime
    linked: bool = False
    orders: tuple[Resting, ...] = ()
    own: tuple[Shares, ...] = ()
    scale: Scale | None = None
    closes_ms: float | None = None
    resolved: bool = False
    skipped: int = 0

    @classmethod
    def from_api(
        cls, full_market: Mapping[str, Any], bets: Sequence[Mapping[str, Any]], *, read_at: datetime, user: str = ""
    ) -> Self:
        """Read a FullMarket and its open limit orders; orders of ``user`` are nobody's to be met.

        Raises ContractError, with the id of the market, where it has no price.
        """
        market = full_market.get("id")
        try:
            raw = _Market.model_validate(full_market)
            answers = _answers(raw)
        except (ValidationError, ValueError) as error:
            message = f"market {market}: {_short(error)}"
            raise ContractError(message) from error
        orders = [order for bet in bets if (order := _order(bet)) is not None]
        met = [o for o in orders if o.user != user or not user]
        return cls(
            market=raw.id,
            outcome_type=raw.outcome_type,
            answers=answers,
            read_at=read_at,
            linked=bool(raw.answers) and raw.sums_to_one,
            orders=tuple(o for o in met if o.answer in {answer.id for answer in answers}),
            scale=_scale(raw),
            closes_ms=raw.closes,
            resolved=raw.resolved,
            skipped=len(bets) - len(orders),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote; raises ContractError for anything else."""
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            message = f"this is no state of a market: {_short(error)}"
            raise ContractError(message) from error

    def to_json(self) -> str:
        """Return the state as one line of JSON."""
        fields = asdict(self) | {"read_at": self.read_at.isoformat()}
        return json.dumps(fields, allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    @property
    def names(self) -> Mapping[str, AnswerState]:
        """The answers under the names of the options of a question about the whole market."""
        return dict(zip(option_names([answer.text for answer in self.answers]), self.answers, strict=True))

    def answer(self, name: str) -> AnswerState | None:
        """Return the answer of that id ("" for the market itself), if there is one."""
        return next((answer for answer in self.answers if answer.id == name), None)

    def board(self, *, now: datetime | None = None) -> Board:
        """Return what can be traded on, with the orders that have not expired; answers that are decided are not."""
        return Board(
            pools={answer.id: answer.pool for answer in self.answers if not answer.resolved},
            orders=self.orders,
            linked=self.linked,
            now_ms=milliseconds(now or self.read_at),
        )

    def closed(self, *, now: datetime) -> str | None:
        """Say why nothing can be traded on it, or None."""
        if self.resolved:
            return "the market is resolved"
        if self.closes_ms is not None and self.closes_ms <= milliseconds(now):
            return "the market is closed"
        total = math.fsum(answer.pool.probability for answer in self.answers)
        if self.linked and abs(total - 1.0) > _TORN:
            return f"the prices of the answers sum to {total:.3f}: it was read in the middle of a trade"
        return None

    def without(self, order_ids: Collection[str]) -> Self:
        """Return the state without some orders: the own ones are not to be met."""
        return replace(self, orders=tuple(order for order in self.orders if order.id not in order_ids))

    def knowing(self, balances: Mapping[str, float]) -> Self:
        """Return the state with what the owners of orders have."""
        return replace(self, orders=tuple(replace(o, balance=balances.get(o.user, o.balance)) for o in self.orders))

    def owning(self, own: Sequence[Shares]) -> Self:
        """Return the state with what the account holds."""
        return replace(self, own=tuple(own))


def option_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return different names for answers in their order: their texts, numbered where two would be the same."""
    names: list[str] = []
    for text in texts:
        base = text.strip() or "(no text)"
        name, number = base, 2
        while name in names:
            name, number = f"{base} ({number})", number + 1
        names.append(name)
    return tuple(names)


class _Sides(BaseModel):
    yes: float = Field(alias="YES")
    no: float = Field(alias="NO")


class _Answer(BaseModel):
    id: str = Field(min_length=1)
    pool: _Sides
    text: str = ""
    index: int = 0
    resolution: str | None = None


class _Market(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    outcome_type: str = Field(alias="outcomeType")
    mechanism: str | None = None
    pool: _Sides | None = None
    p: float | None = None
    answers: list[_Answer] | None = None
    sums_to_one: bool = Field(default=True, alias="shouldAnswersSumToOne")
    resolved: bool = Field(default=False, alias="isResolved")
    closes: float | None = Field(default=None, alias="closeTime")
    low: float | None = Field(default=None, alias="min")
    high: float | None = Field(default=None, alias="max")
    logarithmic: bool = Field(default=False, alias="isLogScale")


class _Bet(BaseModel):
    id: str
    user: str = Field(alias="userId")
    answer: str | None = Field(default=None, alias="answerId")
    outcome: str = Field(pattern="^(YES|NO)$")
    limit: float = Field(alias="limitProb", gt=0.0, lt=1.0)
    whole: float = Field(alias="orderAmount", ge=0.0, allow_inf_nan=False)
    spent: float = Field(default=0.0, alias="amount", ge=0.0, allow_inf_nan=False)
    created: float = Field(alias="createdTime")
    expires: float | None = Field(default=None, alias="expiresAt")
    filled: bool = Field(default=False, alias="isFilled")
    cancelled: bool = Field(default=False, alias="isCancelled")


def _answers(raw: _Market) -> tuple[AnswerState, ...]:
    if raw.mechanism is not None and raw.mechanism not in MAKERS:
        message = f"the mechanism {raw.mechanism} is not known here"
        raise ValueError(message)
    if raw.answers:
        # An answer that comes twice is one.
        in_order = sorted({answer.id: answer for answer in raw.answers}.values(), key=lambda answer: answer.index)
        return tuple(
            AnswerState(
                id=answer.id,
                pool=Pool(answer.pool.yes, answer.pool.no),
                text=answer.text,
                index=answer.index,
                resolved=answer.resolution is not None,
            )
            for answer in in_order
        )
    if raw.pool is None or raw.p is None:
        message = f"a {raw.outcome_type} without pool, p or answers has no price"
        raise ValueError(message)
    return (AnswerState(id=WHOLE, pool=Pool(raw.pool.yes, raw.pool.no, raw.p)),)


def _scale(raw: _Market) -> Scale | None:
    if raw.outcome_type != "PSEUDO_NUMERIC" or raw.low is None or raw.high is None or raw.low >= raw.high:
        return None
    return Scale(low=raw.low, high=raw.high, logarithmic=raw.logarithmic)


def _order(raw: Mapping[str, Any]) -> Resting | None:
    try:
        bet = _Bet.model_validate(raw)
    except ValidationError:
        return None
    over = bet.filled or bet.cancelled
    return Resting(
        id=bet.id,
        user=bet.user,
        leg=Leg.YES if bet.outcome == "YES" else Leg.NO,
        limit=bet.limit,
        remaining=0.0 if over else max(bet.whole - bet.spent, 0.0),
        created=bet.created,
        expires=bet.expires,
        answer=bet.answer or WHOLE,
    )


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
