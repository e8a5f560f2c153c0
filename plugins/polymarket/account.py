"""The account: free dollars, confirmed shares, resting orders and settling matches.

Open orders reserve their dollars only at the venue's discretion, and a match moves money seconds later on chain; both
are counted as reserved here. Positions are those the Data API shows, which are confirmed; a position in a decided
market remains until its owner redeems it, which Foxcast never does, and is marked at its payout. The venue's own
figures of gain exclude fees (its official client says so of ``entry_cost_usdc``: "fee-exclusive"). Source:
docs/facts/polymarket.md#orders, #data-api and #wallets.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

import structlog

from bot.api import (
    Account,
    Clock,
    ContractSide,
    FoxcastError,
    ListedWrite,
    MalformedDataError,
    OpenOrder,
    OrderSide,
    Position,
    ServiceUnavailableError,
    VenueReportedGain,
    walk_levels,
)
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.exchange_session import ExchangeSession
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.json_values import parse_decimal, parse_flag, parse_moment, parse_record, parse_text
from plugins.polymarket.market_parser import PolymarketContract, parse_market, parse_v2_token
from plugins.polymarket.order_books import PolymarketOrderBook
from plugins.polymarket.order_terms import CURRENCY
from plugins.polymarket.questions import question_ref
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.write_requests import UNITS_PER_DOLLAR, OrderMatch, order_end, parse_matches

log = structlog.get_logger(__name__)

# The codes of wallet types in orders.
SIGNATURE_TYPES = {"eoa": 0, "proxy": 1, "safe": 2, "deposit": 3}
# A match that is neither confirmed nor failed after this time no longer settles.
MAX_SETTLEMENT_TIME = timedelta(days=1)
# An account is read again so often while its matches settle.
MAX_HOLDING_READS = 5
# Closed positions are read only this often, since their number grows.
CLOSED_POSITIONS_INTERVAL_S = 3600.0
_MIN_SHARES = Decimal("0.000001")

JsonRow = Mapping[str, object]


class PolymarketAccountReader:
    """Reads the account of the wallet."""

    def __init__(
        self, settings: PolymarketSettings, clock: Clock, client: PolymarketClient, session: ExchangeSession
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._client = client
        self._session = session
        self._contracts: dict[str, PolymarketContract] = {}
        self._closed: tuple[float, list[JsonRow]] | None = None
        # What a share of each token that had a book would have brought the last time, None without a buyer.
        self._bids: dict[str, float | None] = {}

    def remember_contract(self, contract: PolymarketContract) -> None:
        """Remember the contract of a market, so that it need not be read."""
        self._contracts[contract.market] = contract

    async def read_account(self) -> Account:
        """Return the account as it is now; raises if any part cannot be read."""
        # Orders first, so that matches between the two readings are among the trades.
        open_orders = await self.open_orders()
        parts, balance, rows = await self._read_holdings()
        positions = await self._positions(rows)
        await self._read_contracts(
            {*(parse_text(row.get("market")) for row in open_orders), *(part.market for part in parts)}
        )
        orders = self._open_orders(open_orders, _settling_matches(parts))
        return Account(
            at=self._clock.now(),
            currency=CURRENCY,
            cash=float(balance) - sum(order.reserves for order in orders),
            positions=tuple(positions),
            orders=tuple(orders),
            gains=tuple(_venue_gains([*rows, *await self._closed_position_rows()])),
        )

    async def _read_holdings(self) -> tuple[list[OrderMatch], Decimal, list[JsonRow]]:
        """Return matches, dollars and positions as they were at one moment.

        A match that is confirmed between two readings would count twice, as one that settles and as a position.
        """
        parts = await self.recent_matches()
        for _ in range(MAX_HOLDING_READS):
            balance, rows, settling = await self.balance(), await self._position_rows(), _settling_matches(parts)
            if not settling or _settling_matches(parts := await self.recent_matches()) == settling:
                return parts, balance, rows
        message = "matches of the account settled each time that it was read"
        raise ServiceUnavailableError(message)

    async def balance(self) -> Decimal:
        """Return the dollars of the wallet, including those reserved by orders."""
        return (await self.collateral())[0]

    async def collateral(self) -> tuple[Decimal, Decimal | None]:
        """Return the dollars of the wallet, and the smallest allowance of an exchange contract."""
        kind = SIGNATURE_TYPES[self._settings.wallet_type]
        fields = parse_record(
            await self._session.get("balance-allowance", {"asset_type": "COLLATERAL", "signature_type": kind})
        )
        balance = parse_decimal(fields.get("balance"))
        if balance is None:
            message = "balance-allowance: no balance"
            raise MalformedDataError(message)
        allowed = [parse_decimal(value) for value in parse_record(fields.get("allowances")).values()]
        known = [value for value in allowed if value is not None]
        return balance / UNITS_PER_DOLLAR, min(known) / UNITS_PER_DOLLAR if known else None

    async def open_orders(self, market: str | None = None) -> list[JsonRow]:
        """Return the resting orders, as the venue lists them."""
        return await self._session.read_rows("data/orders", {} if market is None else {"market": market})

    async def recent_matches(self) -> list[OrderMatch]:
        """Return the recent matches of the account's orders."""
        since = self._clock.now() - MAX_SETTLEMENT_TIME
        return await self.read_matches({"after": int(since.timestamp())})

    async def read_matches(self, query: Mapping[str, str | int]) -> list[OrderMatch]:
        """Return the matches of the account's orders that a query selects."""
        wallet = self._settings.wallet
        rows = await self._session.read_rows("data/trades", {"maker_address": wallet, **query})
        return [part for row in rows for part in parse_matches(row, wallet)]

    async def list_orders(self, since: datetime) -> list[ListedWrite]:
        """Return the orders that were placed since a moment and rest, and those that were traded since then."""
        found: dict[str, ListedWrite] = {}
        # Orders first, so that matches between the two readings are among the trades.
        for row in await self.open_orders():
            at = parse_moment(row.get("created_at")) or self._clock.now()
            if at >= since:
                order, market = (parse_text(row.get(name)).lower() for name in ("id", "market"))
                text = f"an order to {parse_text(row.get('side')).lower()} on market {market}"
                found[order] = ListedWrite(reference=order, contract=market, at=at, text=text)
        for part in await self.read_matches({"after": int(since.timestamp())}):
            text = f"a trade to {part.side} {part.shares:f} shares of market {part.market}"
            found.setdefault(part.order, ListedWrite(reference=part.order, contract=part.market, at=part.at, text=text))
        return [*found.values()]

    async def fees(self, market: str) -> TakerFees:
        """Return the taker fees of a market."""
        await self._read_contracts({market})
        contract = self._contracts.get(market)
        if contract is None:
            message = f"market {market}: its terms cannot be read"
            raise MalformedDataError(message)
        return TakerFees.from_schedule(contract.fees, market)

    async def _read_contracts(self, markets: Iterable[str]) -> None:
        unknown = sorted({market.lower() for market in markets} - self._contracts.keys())
        for closed in (False, True):
            missing = [name for name in unknown if name not in self._contracts]
            for row in await self._client.markets_by_condition(missing, closed=closed) if missing else ():
                market = parse_market(row)
                if market.tokens:
                    self._contracts[market.condition] = market.contract

    def _token_side(self, market: str, token: str) -> ContractSide:
        contract = self._contracts.get(market.lower())
        if contract is not None and token in {contract.yes, contract.no}:
            return ContractSide.YES if token == contract.yes else ContractSide.NO
        newer = parse_v2_token(token)
        if newer is None:
            message = f"an order on token {token} of market {market}: its side is unknown"
            raise MalformedDataError(message)
        return ContractSide.YES if newer[2] == 0 else ContractSide.NO

    def _open_orders(self, rows: Iterable[JsonRow], settling: Iterable[OrderMatch]) -> list[OpenOrder]:
        found = [self._parse_resting_order(row) for row in rows]
        held: dict[str, list[OrderMatch]] = {}
        for part in settling:
            held.setdefault(part.order, []).append(part)
        return [*found, *(self._settling_order(order, parts) for order, parts in held.items())]

    def _parse_resting_order(self, row: JsonRow) -> OpenOrder:
        number, market, token = (parse_text(row.get(name)) for name in ("id", "market", "asset_id"))
        price, size, matched = (parse_decimal(row.get(name)) for name in ("price", "original_size", "size_matched"))
        if not number or price is None or size is None:
            message = f"open order {number or 'without id'}: price or size are missing"
            raise MalformedDataError(message)
        remaining = size - (matched or Decimal(0))
        side = OrderSide(parse_text(row.get("side")).lower())
        return OpenOrder(
            id=number,
            contract=market.lower(),
            leg=self._token_side(market, token),
            side=side,
            limit=float(price),
            shares=float(remaining),
            reserves=float(price * remaining) if side is OrderSide.BUY else 0.0,
            expires_at=order_end(row),
        )

    def _settling_order(self, order: str, parts: list[OrderMatch]) -> OpenOrder:
        """Return the matched but unsettled part of an order, as an order that reserves its dollars."""
        first = parts[0]
        contract = self._contracts.get(first.market)
        fees = TakerFees() if contract is None else TakerFees.from_schedule(contract.fees, first.market)
        amounts = [part.amount_and_fee(fees) for part in parts]
        shares, dollars = sum(part.shares for part in parts), sum(amount for amount, _ in amounts)
        return OpenOrder(
            id=f"{order} (matched)",
            contract=first.market,
            leg=self._token_side(first.market, first.token),
            side=first.side,
            limit=float(dollars / shares),
            shares=float(shares),
            reserves=float(sum(amount + fee for amount, fee in amounts)) if first.side is OrderSide.BUY else 0.0,
        )

    async def _position_rows(self, **more: str) -> list[JsonRow]:
        query: dict[str, str | int] = {"user": self._settings.wallet, "limit": 100, **more}
        return [row async for row in self._client.read_rows("positions", query)]

    async def _closed_position_rows(self) -> list[JsonRow]:
        """Return the closed positions, as they were listed within the last hour."""
        now_s = self._clock.monotonic()
        if self._closed is None or now_s - self._closed[0] >= CLOSED_POSITIONS_INTERVAL_S:
            try:
                self._closed = (now_s, await self._position_rows(status="CLOSED"))
            except FoxcastError as error:
                # They do not affect the account itself.
                log.warning("the venue's own gains cannot be read", error=str(error))
                return [] if self._closed is None else self._closed[1]
        return self._closed[1]

    async def _positions(self, rows: Iterable[JsonRow]) -> list[Position]:
        # A row that is there twice is one position.
        by_token = {parse_text(row.get("token_id")): row for row in rows}
        held = [row for row in by_token.values() if (parse_decimal(row.get("current_size")) or 0) > _MIN_SHARES]
        running = [parse_text(row.get("token_id")) for row in held if parse_flag(row.get("redeemable")) is not True]
        books = await self._client.books(running) if running else {}
        sizes = {parse_text(row.get("token_id")): parse_decimal(row.get("current_size")) or Decimal(0) for row in held}
        self._bids |= {token: _sale_price(book, sizes[token]) for token, book in books.items()}
        return [_parse_position(row, self._bids) for row in held]


def _settling_matches(parts: Iterable[OrderMatch]) -> list[OrderMatch]:
    return [part for part in parts if not part.is_final]


def _venue_gains(rows: Iterable[JsonRow]) -> Iterator[VenueReportedGain]:
    """Yield the venue's gain on each market that it lists with both figures."""
    by_token = {parse_text(row.get("token_id")): row for row in rows}
    gains: dict[str, list[tuple[Decimal, bool]]] = {}
    for row in by_token.values():
        realised, open_ = parse_decimal(row.get("realized_pnl")), parse_decimal(row.get("unrealized_pnl"))
        market, size = parse_text(row.get("condition_id")).lower(), parse_decimal(row.get("current_size")) or Decimal(0)
        if market and realised is not None and open_ is not None:
            is_over = size <= _MIN_SHARES or parse_flag(row.get("redeemable")) is True
            gains.setdefault(market, []).append((realised + open_, is_over))
    for market, legs in gains.items():
        total, closed = sum(gain for gain, _ in legs), all(is_over for _, is_over in legs)
        yield VenueReportedGain(contract=market, gain=float(total), closed=closed, before_fees=True)


def _sale_price(book: PolymarketOrderBook, shares: Decimal) -> float | None:
    """Return the average price if all shares were sold at the bids, as on paper: those beyond the bids count as 0."""
    return float(walk_levels(book.bids, TakerFees(), shares=shares).value / shares) if book.bids else None


def _parse_position(row: JsonRow, bids: Mapping[str, float | None]) -> Position:
    """Return a position as the Data API shows it; a decided one is marked at its payout.

    One without a book waits for its outcome: it keeps its last mark, or is marked at cost where none is known.
    """
    market, size = parse_text(row.get("condition_id")).lower(), parse_decimal(row.get("current_size"))
    index, paid = row.get("outcome_index"), parse_decimal(row.get("entry_cost_usdc"))
    if not market or size is None or paid is None or index not in {0, 1}:
        message = f"position in {market or 'no market'}: size, cost or outcome_index are missing"
        raise MalformedDataError(message)
    fees = parse_decimal(row.get("entry_fees_usdc")) or Decimal(0)
    pays = parse_decimal(row.get("current_price")) if parse_flag(row.get("redeemable")) else None
    token = parse_text(row.get("token_id"))
    is_known = token in bids
    bid = bids[token] if is_known else float((paid + fees) / size) if size else None
    return Position(
        decided=pays is not None,
        contract=market,
        leg=ContractSide.YES if index == 0 else ContractSide.NO,
        shares=float(size),
        paid=float(paid + fees),
        # If an event has several markets, the question is that of the event.
        ref=None if parse_flag(row.get("negative_risk")) else question_ref(market),
        mark=bid if pays is None else float(pays),
        is_unpriced=pays is None and not is_known,
    )
