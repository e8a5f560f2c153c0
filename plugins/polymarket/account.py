"""What the account has: dollars that are free, shares that are confirmed, orders that rest and matches that settle.

Open orders hold their dollars back only at the venue's discretion, and a match moves money seconds later on chain; both
are counted as held here. Positions are those the Data interface shows, which are confirmed; one whose market is decided
stays until its owner has redeemed it, which Foxcast never does, and is marked at what it pays. The venue's own figures
of gain leave fees out (its official client says so of ``entry_cost_usdc``: "fee-exclusive").
Source: venue document, sections 5.2, 6 and 8.3.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal

import structlog

from bot.api import Account, Clock, ContractError, FoxcastError, Leg, OpenOrder, Position, Side, VenueGain
from plugins.polymarket.account_keys import Session
from plugins.polymarket.client import Client
from plugins.polymarket.fees import Fees
from plugins.polymarket.orders import MILLION, Part, ends_at, parts_of
from plugins.polymarket.parse import Contract, market_of, v2_id
from plugins.polymarket.questions import ref_of
from plugins.polymarket.raw import decimal_of, flag_of, record_of, text_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.terms import CURRENCY

log = structlog.get_logger(__name__)

# As orders say the type of a wallet.
KINDS = {"eoa": 0, "proxy": 1, "safe": 2, "deposit": 3}
# A match that is neither confirmed nor failed after so long is none that still settles.
SETTLES_WITHIN = timedelta(days=1)
# Positions that are no more are asked for so often: there are ever more of them.
CLOSED_EVERY_S = 3600.0
_DUST = Decimal("0.000001")

Row = Mapping[str, object]


class Holdings:
    """Reads the account of the wallet."""

    def __init__(self, settings: PolymarketSettings, clock: Clock, client: Client, session: Session) -> None:
        self._settings = settings
        self._clock = clock
        self._client = client
        self._session = session
        self._contracts: dict[str, Contract] = {}
        self._closed: tuple[float, list[Row]] | None = None

    def know(self, contract: Contract) -> None:
        """Remember what is traded on a market, so that it is not asked for."""
        self._contracts[contract.market] = contract

    async def account(self) -> Account:
        """Return what there is now; raises rather than leave anything out."""
        # Orders first: what is matched between the two readings is then among the trades.
        open_orders = await self.open_orders()
        parts, balance, rows = await self.recent(), await self.balance(), await self._rows()
        positions = await self._positions(rows)
        await self._learn({*(text_of(row.get("market")) for row in open_orders), *(part.market for part in parts)})
        orders = self._orders(open_orders, [part for part in parts if not part.is_over])
        return Account(
            at=self._clock.now(),
            currency=CURRENCY,
            cash=float(balance) - sum(order.reserves for order in orders),
            positions=tuple(positions),
            orders=tuple(orders),
            gains=tuple(_gains([*rows, *await self._gone()])),
        )

    async def balance(self) -> Decimal:
        """Return the dollars of the wallet, also those that orders hold."""
        return (await self.collateral())[0]

    async def collateral(self) -> tuple[Decimal, Decimal | None]:
        """Return the dollars of the wallet, and the least that an exchange contract may take of them."""
        kind = KINDS[self._settings.wallet_type]
        said = record_of(
            await self._session.get("balance-allowance", {"asset_type": "COLLATERAL", "signature_type": kind})
        )
        balance = decimal_of(said.get("balance"))
        if balance is None:
            message = "balance-allowance: no balance"
            raise ContractError(message)
        allowed = [decimal_of(value) for value in record_of(said.get("allowances")).values()]
        known = [value for value in allowed if value is not None]
        return balance / MILLION, min(known) / MILLION if known else None

    async def open_orders(self, market: str | None = None) -> list[Row]:
        """Return the orders that rest, as the venue shows them."""
        return await self._session.rows("data/orders", {} if market is None else {"market": market})

    async def recent(self) -> list[Part]:
        """Return what trades of late did to orders of the account."""
        since = self._clock.now() - SETTLES_WITHIN
        return await self.parts({"after": int(since.timestamp())})

    async def parts(self, asked: Mapping[str, str | int]) -> list[Part]:
        """Return what trades did to orders of the account, those that a query names."""
        wallet = self._settings.wallet
        rows = await self._session.rows("data/trades", {"maker_address": wallet, **asked})
        return [part for row in rows for part in parts_of(row, wallet)]

    async def fees(self, market: str) -> Fees:
        """Return what takers pay on a market."""
        await self._learn({market})
        contract = self._contracts.get(market)
        if contract is None:
            message = f"market {market}: its terms cannot be read"
            raise ContractError(message)
        return Fees.of(contract.fees, market)

    async def _learn(self, markets: Iterable[str]) -> None:
        unknown = sorted({market.lower() for market in markets} - self._contracts.keys())
        for closed in (False, True):
            wanted = [name for name in unknown if name not in self._contracts]
            for row in await self._client.markets_by_condition(wanted, closed=closed) if wanted else ():
                market = market_of(row)
                if market.tokens:
                    self._contracts[market.condition] = market.contract

    def _leg(self, market: str, token: str) -> Leg:
        contract = self._contracts.get(market.lower())
        if contract is not None and token in {contract.yes, contract.no}:
            return Leg.YES if token == contract.yes else Leg.NO
        newer = v2_id(token)
        if newer is None:
            message = f"an order on token {token} of market {market}: which side that is cannot be read"
            raise ContractError(message)
        return Leg.YES if newer[2] == 0 else Leg.NO

    def _orders(self, rows: Iterable[Row], settling: Iterable[Part]) -> list[OpenOrder]:
        found = [self._resting(row) for row in rows]
        held: dict[str, list[Part]] = {}
        for part in settling:
            held.setdefault(part.order, []).append(part)
        return [*found, *(self._settling(order, parts) for order, parts in held.items())]

    def _resting(self, row: Row) -> OpenOrder:
        number, market, token = (text_of(row.get(name)) for name in ("id", "market", "asset_id"))
        price, size, matched = (decimal_of(row.get(name)) for name in ("price", "original_size", "size_matched"))
        if not number or price is None or size is None:
            message = f"open order {number or 'without id'}: price or size are missing"
            raise ContractError(message)
        left = size - (matched or Decimal(0))
        side = Side(text_of(row.get("side")).lower())
        return OpenOrder(
            id=number,
            contract=market.lower(),
            leg=self._leg(market, token),
            side=side,
            limit=float(price),
            shares=float(left),
            reserves=float(price * left) if side is Side.BUY else 0.0,
            expires_at=ends_at(row),
        )

    def _settling(self, order: str, parts: list[Part]) -> OpenOrder:
        """Return what of an order was matched and is not settled, as an order that holds its dollars back."""
        first = parts[0]
        contract = self._contracts.get(first.market)
        fees = Fees() if contract is None else Fees.of(contract.fees, first.market)
        worth = [part.dollars(fees) for part in parts]
        shares, dollars = sum(part.shares for part in parts), sum(amount for amount, _ in worth)
        return OpenOrder(
            id=f"{order} (matched)",
            contract=first.market,
            leg=self._leg(first.market, first.token),
            side=first.side,
            limit=float(dollars / shares),
            shares=float(shares),
            reserves=float(sum(amount + fee for amount, fee in worth)) if first.side is Side.BUY else 0.0,
        )

    async def _rows(self, **more: str) -> list[Row]:
        asked: dict[str, str | int] = {"user": self._settings.wallet, "limit": 100, **more}
        return [row async for row in self._client.data("positions", asked)]

    async def _gone(self) -> list[Row]:
        """Return the positions that are no more, as they were listed within the hour."""
        now_s = self._clock.monotonic()
        if self._closed is None or now_s - self._closed[0] >= CLOSED_EVERY_S:
            try:
                self._closed = (now_s, await self._rows(status="CLOSED"))
            except FoxcastError as error:
                # They say nothing of what the account has.
                log.warning("the venue's own gains cannot be read", error=str(error))
                return [] if self._closed is None else self._closed[1]
        return self._closed[1]

    async def _positions(self, rows: Iterable[Row]) -> list[Position]:
        held = [row for row in rows if (decimal_of(row.get("current_size")) or 0) > _DUST]
        running = [text_of(row.get("token_id")) for row in held if flag_of(row.get("redeemable")) is not True]
        books = await self._client.books(running) if running else {}
        found = []
        for row in held:
            book = books.get(text_of(row.get("token_id")))
            bid = None if book is None or book.best_bid is None else float(book.best_bid)
            found.append(_position(row, bid))
        return found


def _gains(rows: Iterable[Row]) -> Iterator[VenueGain]:
    """Yield what the venue says was gained on each market that it lists with both figures."""
    by_token = {text_of(row.get("token_id")): row for row in rows}
    gains: dict[str, list[tuple[Decimal, bool]]] = {}
    for row in by_token.values():
        realised, open_ = decimal_of(row.get("realized_pnl")), decimal_of(row.get("unrealized_pnl"))
        market, size = text_of(row.get("condition_id")).lower(), decimal_of(row.get("current_size")) or Decimal(0)
        if market and realised is not None and open_ is not None:
            over = size <= _DUST or flag_of(row.get("redeemable")) is True
            gains.setdefault(market, []).append((realised + open_, over))
    for market, legs in gains.items():
        total, closed = sum(gain for gain, _ in legs), all(over for _, over in legs)
        yield VenueGain(contract=market, gain=float(total), closed=closed, before_fees=True)


def _position(row: Row, bid: float | None) -> Position:
    """Return a position as the Data interface shows it; one that is decided is marked at what it pays."""
    market, size = text_of(row.get("condition_id")).lower(), decimal_of(row.get("current_size"))
    index, paid = row.get("outcome_index"), decimal_of(row.get("entry_cost_usdc"))
    if not market or size is None or paid is None or index not in {0, 1}:
        message = f"position in {market or 'no market'}: size, cost or outcome_index are missing"
        raise ContractError(message)
    fees = decimal_of(row.get("entry_fees_usdc")) or Decimal(0)
    pays = decimal_of(row.get("current_price")) if flag_of(row.get("redeemable")) else None
    return Position(
        decided=pays is not None,
        contract=market,
        leg=Leg.YES if index == 0 else Leg.NO,
        shares=float(size),
        paid=float(paid + fees),
        # Of a market among several of one event, the question is that of the event.
        ref=None if flag_of(row.get("negative_risk")) else ref_of(market),
        mark=bid if pays is None else float(pays),
    )
