"""A market at one moment.

Pools, limit orders and own shares, for planner, paper book and records, and how it is read for trading. Orders that are
not of the documented form are skipped and counted; a market without a price is an error. Source:
docs/facts/manifold.md#market-objects, #account and #arithmetic.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bot.api import ContractSide, MalformedDataError, NotFoundError, RequestRejectedError
from plugins.manifold.book_walk import RestingLimitOrder
from plugins.manifold.cpmm import CpmmPool
from plugins.manifold.market_simulation import SimulatedMarket
from plugins.manifold.numeric_scale import ManifoldScale

TRADED_TYPES = frozenset({"BINARY", "MULTIPLE_CHOICE", "PSEUDO_NUMERIC", "MULTI_NUMERIC", "DATE", "NUMBER"})


# The supported market makers; there are newer ones, with a weight ``p`` for each answer.
KNOWN_MECHANISMS = frozenset({"cpmm-1", "cpmm-multi-1"})


WHOLE_MARKET = ""


# Linked prices sum to 1 except for rounding; otherwise the answers were not read at one moment.
_MAX_PRICE_SUM_ERROR = 0.02


def contract_name(market: str, answer: str = WHOLE_MARKET) -> str:
    """Return the name of what is traded: the market's id, or ``market/answer``."""
    return f"{market}/{answer}" if answer else market


def split_contract(contract: str) -> tuple[str, str]:
    """Return the ids of market and answer ("" for none) of a contract."""
    market, _, answer = contract.partition("/")
    return market, answer


def to_milliseconds(moment: datetime) -> float:
    """Return a moment as the venue writes it."""
    return moment.timestamp() * 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerState:
    """One answer of a market, or the market itself (``id`` "") if it has none."""

    id: str
    pool: CpmmPool
    text: str = ""
    index: int = 0
    resolved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShares:
    """What the account holds of one answer."""

    answer: str
    yes: float = 0.0
    no: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldMarketState:
    """A market as it was read at ``read_at``; ``linked`` if the prices of its answers sum to 1.

    ``skipped`` counts orders that were not of the documented form, ``closes_ms`` is None if it does not close.
    """

    market: str
    outcome_type: str
    answers: tuple[AnswerState, ...]
    read_at: datetime
    linked: bool = False
    orders: tuple[RestingLimitOrder, ...] = ()
    own: tuple[AnswerShares, ...] = ()
    scale: ManifoldScale | None = None
    closes_ms: float | None = None
    resolved: bool = False
    skipped: int = 0

    @classmethod
    def from_api(
        cls, full_market: Mapping[str, Any], bets: Sequence[Mapping[str, Any]], *, read_at: datetime, user: str = ""
    ) -> Self:
        """Parse a FullMarket and its open limit orders, without those of ``user``.

        Raises MalformedDataError, with the id of the market, if it has no price.
        """
        market = full_market.get("id")
        try:
            raw = _MarketFields.model_validate(full_market)
            answers = _parse_answers(raw)
        except (ValidationError, ValueError) as error:
            message = f"market {market}: {_first_error(error)}"
            raise MalformedDataError(message) from error
        orders = [order for bet in bets if (order := _parse_limit_order(bet)) is not None]
        foreign = [o for o in orders if o.user != user or not user]
        return cls(
            market=raw.id,
            outcome_type=raw.outcome_type,
            answers=answers,
            read_at=read_at,
            linked=bool(raw.answers) and raw.sums_to_one,
            orders=tuple(o for o in foreign if o.answer in {answer.id for answer in answers}),
            scale=_parse_scale(raw),
            closes_ms=raw.closes,
            resolved=raw.resolved,
            skipped=len(bets) - len(orders),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse what ``to_json`` wrote; raises MalformedDataError for anything else."""
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            message = f"this is not a market state: {_first_error(error)}"
            raise MalformedDataError(message) from error

    def to_json(self) -> str:
        """Return the state as one line of JSON."""
        fields = asdict(self) | {"read_at": self.read_at.isoformat()}
        return json.dumps(fields, allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    @property
    def answers_by_option(self) -> Mapping[str, AnswerState]:
        """The answers under the names of the options of a question about the whole market."""
        return dict(zip(option_names([answer.text for answer in self.answers]), self.answers, strict=True))

    def answer(self, name: str) -> AnswerState | None:
        """Return the answer of that id ("" for the market itself), if there is one."""
        return next((answer for answer in self.answers if answer.id == name), None)

    def simulated_market(self, *, now: datetime | None = None) -> SimulatedMarket:
        """Return the market for simulations, with the orders that have not expired, without resolved answers."""
        return SimulatedMarket(
            pools={answer.id: answer.pool for answer in self.answers if not answer.resolved},
            orders=self.orders,
            is_linked=self.linked,
            now_ms=to_milliseconds(now or self.read_at),
        )

    def closed_reason(self, *, now: datetime) -> str | None:
        """Return why it cannot be traded, or None."""
        if self.resolved:
            return "the market is resolved"
        if self.closes_ms is not None and self.closes_ms <= to_milliseconds(now):
            return "the market is closed"
        total = math.fsum(answer.pool.probability for answer in self.answers)
        if self.linked and abs(total - 1.0) > _MAX_PRICE_SUM_ERROR:
            return f"the prices of the answers sum to {total:.3f}: it was read in the middle of a trade"
        return None

    def without_orders(self, order_ids: Collection[str]) -> Self:
        """Return the state without some orders, such as our own."""
        return replace(self, orders=tuple(order for order in self.orders if order.id not in order_ids))

    def with_balances(self, balances: Mapping[str, float]) -> Self:
        """Return the state with what the owners of orders have."""
        return replace(self, orders=tuple(replace(o, balance=balances.get(o.user, o.balance)) for o in self.orders))

    def with_own_shares(self, own: Sequence[AnswerShares]) -> Self:
        """Return the state with what the account holds."""
        return replace(self, own=tuple(own))


def option_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return unique names for answers in their order: their texts, numbered if two are the same."""
    names: list[str] = []
    for text in texts:
        base = text.strip() or "(no text)"
        name, number = base, 2
        while name in names:
            name, number = f"{base} ({number})", number + 1
        names.append(name)
    return tuple(names)


class _PoolFields(BaseModel):
    yes: float = Field(alias="YES")
    no: float = Field(alias="NO")


class _AnswerFields(BaseModel):
    id: str = Field(min_length=1)
    pool: _PoolFields
    text: str = ""
    index: int = 0
    resolution: str | None = None


class _MarketFields(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    outcome_type: str = Field(alias="outcomeType")
    mechanism: str | None = None
    pool: _PoolFields | None = None
    p: float | None = None
    answers: list[_AnswerFields] | None = None
    sums_to_one: bool = Field(default=True, alias="shouldAnswersSumToOne")
    resolved: bool = Field(default=False, alias="isResolved")
    closes: float | None = Field(default=None, alias="closeTime")
    low: float | None = Field(default=None, alias="min")
    high: float | None = Field(default=None, alias="max")
    logarithmic: bool = Field(default=False, alias="isLogScale")


class _LimitOrderFields(BaseModel):
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


def _parse_answers(raw: _MarketFields) -> tuple[AnswerState, ...]:
    if raw.mechanism is not None and raw.mechanism not in KNOWN_MECHANISMS:
        message = f"the mechanism {raw.mechanism} is not supported"
        raise ValueError(message)
    if raw.answers:
        # Repeated answers count once.
        in_order = sorted({answer.id: answer for answer in raw.answers}.values(), key=lambda answer: answer.index)
        return tuple(
            AnswerState(
                id=answer.id,
                pool=CpmmPool(answer.pool.yes, answer.pool.no),
                text=answer.text,
                index=answer.index,
                resolved=answer.resolution is not None,
            )
            for answer in in_order
        )
    if raw.pool is None or raw.p is None:
        message = f"a {raw.outcome_type} without pool, p or answers has no price"
        raise ValueError(message)
    return (AnswerState(id=WHOLE_MARKET, pool=CpmmPool(raw.pool.yes, raw.pool.no, raw.p)),)


def _parse_scale(raw: _MarketFields) -> ManifoldScale | None:
    if raw.outcome_type != "PSEUDO_NUMERIC" or raw.low is None or raw.high is None or raw.low >= raw.high:
        return None
    return ManifoldScale(low=raw.low, high=raw.high, logarithmic=raw.logarithmic)


def _parse_limit_order(raw: Mapping[str, Any]) -> RestingLimitOrder | None:
    try:
        bet = _LimitOrderFields.model_validate(raw)
    except ValidationError:
        return None
    is_closed = bet.filled or bet.cancelled
    return RestingLimitOrder(
        id=bet.id,
        user=bet.user,
        leg=ContractSide.YES if bet.outcome == "YES" else ContractSide.NO,
        limit=bet.limit,
        remaining=0.0 if is_closed else max(bet.whole - bet.spent, 0.0),
        created=bet.created,
        expires=bet.expires,
        answer=bet.answer or WHOLE_MARKET,
    )


def _first_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


# Orders further away are rarely reached, and each owner needs a request.
MAX_ORDER_OWNERS = 12


class ManifoldMarketSource(Protocol):
    """What planner and paper book read; every response is current, bypassing all caches."""

    async def market(self, market_id: str) -> Mapping[str, Any]:
        """Return the FullMarket; raises NotFoundError, ServiceUnavailableError."""
        ...

    async def orders(self, market_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the open limit orders of all users on all its answers; raises ServiceUnavailableError."""
        ...

    async def balances(self, user_ids: Collection[str]) -> Mapping[str, float]:
        """Return the balances of these users, without those that could not be read."""
        ...


async def read_market_state(
    client: ManifoldMarketSource, market_id: str, *, now: datetime, own_orders: Collection[str] = ()
) -> ManifoldMarketState:
    """Return the market as it is now, without our own orders.

    Raises RequestRejectedError if there is no such market, ServiceUnavailableError, and MalformedDataError if it has no
    price.
    """
    try:
        market = await client.market(market_id)
        orders = await client.orders(market_id)
    except NotFoundError as error:
        message = f"there is no market {market_id}: {error}"
        raise RequestRejectedError(message) from error
    state = ManifoldMarketState.from_api(market, orders, read_at=now).without_orders(own_orders)
    makers = nearest_order_owners(state)
    return state.with_balances(await client.balances(makers)) if makers else state


def nearest_order_owners(state: ManifoldMarketState, limit: int = MAX_ORDER_OWNERS) -> tuple[str, ...]:
    """Return the owners of the orders nearest to the price, each once."""
    prices = {answer.id: answer.pool.probability for answer in state.answers}
    nearest = sorted(
        (order for order in state.orders if order.remaining > 0.0),
        key=lambda order: (abs(order.limit - prices[order.answer]), order.created),
    )
    return tuple(dict.fromkeys(order.user for order in nearest))[:limit]
