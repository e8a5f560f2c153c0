"""The order book of one token at one moment, best prices first, in exact decimals.

The venue sends bids ascending and asks descending, its own description says otherwise; here they are sorted, whatever
came. The book of NO mirrors that of YES: both are one pool, so depth is read from one of them and never added up.
Source: venue document, section 5.1.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, Self

from bot.api import ContractError, Json
from plugins.polymarket.raw import decimal_of, flag_of, list_of, moment_of, record_of, text_of

ONE = Decimal(1)
TICKS = tuple(Decimal(text) for text in ("0.1", "0.01", "0.005", "0.0025", "0.001", "0.0001"))
# Shares; what the venue asks for where a book does not say.
USUAL_MIN_SIZE = Decimal(5)


class Level(NamedTuple):
    """So many shares at one price."""

    price: Decimal
    size: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What can be sold (``bids``) and bought (``asks``) of a token, best first.

    ``at`` is when it last changed, by the venue's clock; ``hash`` is the venue's name for this state of it. ``tick``
    and ``min_size`` (shares of a resting order) hold now and may change. ``last_trade`` is in terms of YES, also in the
    book of NO.
    """

    token: str
    bids: tuple[Level, ...]
    asks: tuple[Level, ...]
    tick: Decimal
    min_size: Decimal
    at: datetime
    hash: str = ""
    neg_risk: bool = False
    market: str = ""
    last_trade: Decimal | None = field(default=None)

    @property
    def best_bid(self) -> Decimal | None:
        """The highest price at which somebody buys."""
        return self.bids[0].price if self.bids else None

    @property
    def best_ask(self) -> Decimal | None:
        """The lowest price at which somebody sells."""
        return self.asks[0].price if self.asks else None

    @property
    def crossed(self) -> bool:
        """Whether somebody buys at or above the price at which somebody sells, as books are for moments."""
        return bool(self.bids and self.asks and self.bids[0].price >= self.asks[0].price)

    @property
    def spread(self) -> Decimal | None:
        """Best ask less best bid, None where one is missing."""
        return self.asks[0].price - self.bids[0].price if self.bids and self.asks else None

    @property
    def mid(self) -> Decimal | None:
        """Halfway between best bid and ask; None for a book that is crossed or has one side only."""
        return None if self.crossed or not (self.bids and self.asks) else (self.bids[0].price + self.asks[0].price) / 2

    def mirrored(self, token: str) -> Self:
        """Return the same pool as the book of the opposite token: its asks are these bids from 1, and so on."""
        return type(self)(
            token=token,
            bids=tuple(Level(ONE - price, size) for price, size in self.asks),
            asks=tuple(Level(ONE - price, size) for price, size in self.bids),
            tick=self.tick,
            min_size=self.min_size,
            at=self.at,
            hash=self.hash,
            neg_risk=self.neg_risk,
            market=self.market,
            last_trade=self.last_trade,
        )

    def to_json(self) -> str:
        """Return the book as one line of JSON."""
        return json.dumps(self.to_map(), ensure_ascii=False, separators=(",", ":"))

    def to_map(self) -> dict[str, Json]:
        """Return the book as JSON holds it, prices and sizes as text so that no digit is lost."""
        return {
            "token": self.token,
            "bids": [[str(price), str(size)] for price, size in self.bids],
            "asks": [[str(price), str(size)] for price, size in self.asks],
            "tick": str(self.tick),
            "min_size": str(self.min_size),
            "at": self.at.isoformat(),
            "hash": self.hash,
            "neg_risk": self.neg_risk,
            "market": self.market,
            "last_trade": None if self.last_trade is None else str(self.last_trade),
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote; raises ContractError for anything else."""
        try:
            kept = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = "this is no book: not JSON"
            raise ContractError(message) from error
        return cls.from_map(record_of(kept))

    @classmethod
    def from_map(cls, kept: Mapping[str, object]) -> Self:
        """Read what ``to_map`` returned; raises ContractError for anything else."""
        token, at = text_of(kept.get("token")), moment_of(kept.get("at"))
        tick, min_size = decimal_of(kept.get("tick")), decimal_of(kept.get("min_size"))
        if not token or at is None or tick is None or min_size is None:
            message = "this is no book: token, at, tick or min_size is missing"
            raise ContractError(message)
        return cls(
            token=token,
            bids=levels_of(kept.get("bids"), highest_first=True),
            asks=levels_of(kept.get("asks"), highest_first=False),
            tick=tick,
            min_size=min_size,
            at=at,
            hash=text_of(kept.get("hash")),
            neg_risk=flag_of(kept.get("neg_risk")) or False,
            market=text_of(kept.get("market")),
            last_trade=decimal_of(kept.get("last_trade")),
        )


def parse_book(raw: object, *, tick: Decimal | None = None) -> Book:
    """Read the venue's form of a book, as ``GET /book``, ``POST /books`` and frames ``book`` have it.

    ``tick`` is for a book that does not say it. Raises ContractError, with the token, for a book without token, time or
    tick, and for prices or sizes that are none.
    """
    said = record_of(raw)
    token = text_of(said.get("asset_id")) or text_of(said.get("token_id"))
    if not token:
        message = "a book without a token"
        raise ContractError(message)
    at = moment_of(said.get("timestamp"))
    step = decimal_of(said.get("tick_size")) or tick
    if at is None or step is None or not 0 < step < 1:
        message = f"book of {token}: timestamp or tick_size not as documented"
        raise ContractError(message)
    try:
        bids = levels_of(said.get("bids"), highest_first=True)
        asks = levels_of(said.get("asks"), highest_first=False)
    except ContractError as error:
        message = f"book of {token}: {error}"
        raise ContractError(message) from error
    min_size = decimal_of(said.get("min_order_size"))
    return Book(
        token=token,
        bids=bids,
        asks=asks,
        tick=step,
        min_size=USUAL_MIN_SIZE if min_size is None else min_size,
        at=at,
        hash=text_of(said.get("hash")),
        neg_risk=flag_of(said.get("neg_risk")) or False,
        market=text_of(said.get("market")),
        last_trade=decimal_of(said.get("last_trade_price")),
    )


def levels_of(raw: object, *, highest_first: bool) -> tuple[Level, ...]:
    """Return one side of a book, sorted; empty levels are left out, a price that comes twice counts once, the last.

    Raises ContractError for a price outside (0, 1) and a size that is none.
    """
    found: dict[Decimal, Decimal] = {}
    for item in _side(raw):
        pair = (item.get("price"), item.get("size")) if isinstance(item, Mapping) else list_of(item) or ()
        price, size = (decimal_of(value) for value in pair) if len(pair) == 2 else (None, None)
        if price is None or size is None or size < 0 or not 0 < price < 1:
            message = f"{str(item)[:80]} is no level"
            raise ContractError(message)
        found[price] = size
    ordered = sorted(found.items(), reverse=highest_first)
    return tuple(Level(price, size) for price, size in ordered if size)


def _side(raw: object) -> list[object]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        message = "a side of the book is no list"
        raise ContractError(message)
    return raw
