"""The account of the key: cash, positions, orders and fills, and its check before trading.

Only cash on the first shard of the exchange counts; money on another one cannot be spent here. Source:
docs/facts/kalshi.md#account.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

import structlog

from bot.api import (
    Account,
    AuthenticationError,
    ContractSide,
    Fill,
    MalformedDataError,
    NotFoundError,
    OpenOrder,
    OrderSide,
    PluginContext,
    Position,
    RequestRejectedError,
    ServiceUnavailableError,
)
from plugins.kalshi.api_client import CANCELS_PER_S, ORDERS_PER_S, READS_PER_S, KalshiClient, QueryParameters
from plugins.kalshi.market_parser import ONE, JsonRecord, parse_decimal
from plugins.kalshi.planner import CURRENCY, read_sale_price
from plugins.kalshi.settings import KalshiSettings
from plugins.kalshi.signing import KalshiSigner

log = structlog.get_logger(__name__)

SHARD = 0
# What a request costs: docs/facts/kalshi.md#account.
TOKENS, TOKENS_OF_CANCEL = 10, 2
_MAX_PAGES = 50
# An account is read again so often while its cash changes.
MAX_HOLDING_READS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """What the venue allows this account, in tokens a second; most requests cost 10 tokens, a cancellation 2."""

    tier: str
    read_rate: Decimal
    write_rate: Decimal


class KalshiAccountReader:
    """Reads the account of the key."""

    def __init__(self, settings: KalshiSettings, context: PluginContext, signer: KalshiSigner) -> None:
        self._clock = context.clock
        self._client = KalshiClient(settings, context.http, context.clock, signer)

    async def read_account(self) -> Account:
        """Return the account as it is now; raises ServiceUnavailableError if any part cannot be read."""
        cash, orders, rows = await self._read_holdings()
        positions = [await self._position(row) for row in rows]
        return Account(
            at=self._clock.now(),
            currency=CURRENCY,
            cash=float(cash),
            positions=tuple(one for one in positions if one.shares > 0),
            orders=tuple(orders),
            redeems=True,
        )

    async def _read_holdings(self) -> tuple[Decimal, list[OpenOrder], list[JsonRecord]]:
        """Return cash, orders and rows of positions as they were at one moment.

        An order that is filled between two readings would count twice, in the cash and as a position.
        """
        cash = await self.cash()
        for _ in range(MAX_HOLDING_READS):
            before = cash
            orders = [parse_open_order(row) async for row in self.rows("orders", {"status": "resting"})]
            rows = [row async for row in self.rows("positions", {"count_filter": "position"}, "market_positions")]
            cash = await self.cash()
            if cash == before:
                return cash, orders, rows
        message = "the cash of the account changed each time that it was read"
        raise ServiceUnavailableError(message)

    async def cash(self) -> Decimal:
        """Return the dollars that can be spent."""
        answer = await self._client.get_signed("portfolio/balance")
        rows = answer.get("balance_breakdown")
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("exchange_index") == SHARD:
                return parse_decimal(row, "balance", "the balance")
        message = f"portfolio/balance: no balance of shard {SHARD}"
        raise MalformedDataError(message)

    async def usage_limits(self) -> UsageLimits:
        """Return the limits of requests of this account."""
        answer = await self._client.get_signed("account/limits")
        rates = {}
        for name in ("read", "write"):
            bucket = answer.get(name)
            rate = bucket.get("refill_rate") if isinstance(bucket, dict) else None
            if isinstance(rate, bool) or not isinstance(rate, int | float):
                message = f"account/limits: no refill_rate of {name}"
                raise MalformedDataError(message)
            rates[name] = Decimal(str(rate))
        return UsageLimits(tier=str(answer.get("usage_tier")), read_rate=rates["read"], write_rate=rates["write"])

    async def rows(
        self, path: str, query: QueryParameters, name: str = "", *, since: datetime | None = None
    ) -> AsyncIterator[JsonRecord]:
        """Yield the rows of a list of the portfolio to its end; raises MalformedDataError if it has none."""
        asked: dict[str, str | int] = {"limit": 1000, **query}
        if since is not None:
            asked["min_ts"] = int(since.timestamp())
        for _ in range(_MAX_PAGES):
            answer = await self._client.get_signed(f"portfolio/{path}", asked)
            rows = answer.get(name or path)
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                message = f"portfolio/{path}: the response has no list of {name or path}"
                raise MalformedDataError(message)
            for row in rows:
                yield row
            cursor = answer.get("cursor")
            if not cursor:
                return
            if not isinstance(cursor, str) or cursor == asked.get("cursor") or not rows:
                break
            asked["cursor"] = cursor
        message = f"portfolio/{path}: the list has no end"
        raise MalformedDataError(message)

    async def fills(self, ticker: str, order_id: str, order_leg: ContractSide, side: OrderSide) -> tuple[Fill, ...]:
        """Return the fills of an order, each once."""
        found: dict[str, Fill] = {}
        async for row in self.rows("fills", {"ticker": ticker, "order_id": order_id}):
            if row.get("order_id") == order_id:
                fill = parse_fill(row, order_leg, side)
                found[fill.reference] = fill
        return tuple(found.values())

    async def _position(self, row: JsonRecord) -> Position:
        ticker = str(row.get("ticker", ""))
        count = parse_decimal(row, "position_fp", ticker)
        cost, fees = (parse_decimal(row, name, ticker) for name in ("market_exposure_dollars", "fees_paid_dollars"))
        position = Position(
            contract=ticker,
            leg=ContractSide.YES if count > 0 else ContractSide.NO,
            shares=float(abs(count)),
            # The cost of the shares, with the fees of all orders on the market.
            paid=float(cost + fees),
            mark=float(cost / abs(count)) if count else None,
            is_unpriced=True,
        )
        try:
            mark = await read_sale_price(self._client, ticker, position.leg, position.shares)
        except (NotFoundError, MalformedDataError, RequestRejectedError) as error:
            log.warning("a position keeps its last mark", market=ticker, error=str(error))
            return position
        return replace(position, mark=mark, is_unpriced=False)


def require_limits(limits: UsageLimits) -> None:
    """Raise AuthenticationError if the venue allows fewer tokens than ``rate_limits`` may use."""
    least = READS_PER_S * TOKENS, ORDERS_PER_S * TOKENS + CANCELS_PER_S * TOKENS_OF_CANCEL
    if limits.read_rate < least[0] or limits.write_rate < least[1]:
        message = (
            f"the account may use {limits.read_rate:f} tokens a second to read and {limits.write_rate:f} to write "
            f"(tier {limits.tier}), and Foxcast may need {least[0]} and {least[1]}: ask the venue for a higher tier"
        )
        raise AuthenticationError(message, sent=False)


def parse_open_order(row: JsonRecord) -> OpenOrder:
    """Parse a resting order: a bid buys YES, an ask buys NO."""
    name, ticker = _text(row, "order_id"), _text(row, "ticker")
    leg = ContractSide.YES if row.get("book_side") == "bid" else ContractSide.NO
    price, count = parse_decimal(row, f"{leg}_price_dollars", name), parse_decimal(row, "remaining_count_fp", name)
    return OpenOrder(
        id=name,
        contract=ticker,
        leg=leg,
        side=OrderSide.BUY,
        limit=float(price),
        shares=float(count),
        reserves=float(price * count),
    )


def parse_fill(row: JsonRecord, leg: ContractSide, side: OrderSide) -> Fill:
    """Parse a fill as one of an order on that leg; raises MalformedDataError."""
    name = _text(row, "fill_id")
    count, fee = parse_decimal(row, "count_fp", name), parse_decimal(row, "fee_cost", name)
    yes = parse_decimal(row, "yes_price_dollars", name)
    price = yes if leg is ContractSide.YES else ONE - yes
    value = count * price
    return Fill(
        reference=name,
        at=parse_moment_text(_text(row, "created_time"), name),
        shares=float(count),
        price=float(price),
        cash=float(-value - fee if side is OrderSide.BUY else value - fee),
        fee=float(fee),
    )


def parse_moment_text(value: str, what: str) -> datetime:
    """Return a moment in RFC 3339; raises MalformedDataError."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = f"{what}: {value!r:.60} is not a moment with a time zone"
        raise MalformedDataError(message)
    return moment


async def check_account(settings: KalshiSettings, context: PluginContext) -> Sequence[str]:
    """Return what a person should know; nothing is written.

    Raises AuthenticationError if the owner has not attested, the key is missing, the venue refuses key or clock, or it
    allows fewer requests than Foxcast sends.
    """
    account = KalshiAccountReader(settings, context, KalshiSigner(settings, context.clock))
    cash, limits = await account.cash(), await account.usage_limits()
    require_limits(limits)
    findings = [
        f"{settings.environment}: {cash:.2f} dollars on shard {SHARD} of the exchange",
        f"usage tier {limits.tier}: {limits.read_rate:f} tokens a second to read, {limits.write_rate:f} to write",
    ]
    return findings if cash else [*findings, "no dollars there: money on other shards does not count"]


def _text(row: JsonRecord, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        message = f"a row of the portfolio has no {name}"
        raise MalformedDataError(message)
    return value
