"""Parses series, events and markets: decimals as text, times in RFC 3339; anything else is refused.

Prices are dollars of a contract of 1 dollar. A record with an unknown word or a missing field raises
MalformedDataError, and the caller leaves that record out. Source: docs/facts/kalshi.md#market-fields.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from bot.api import MalformedDataError

JsonRecord = Mapping[str, object]

ACTIVE, FINALIZED = "active", "finalized"
# Trading ended, and the outcome is not final.
SETTLING_STATUSES = frozenset({"closed", "determined", "disputed", "amended"})
STATUSES = frozenset({"initialized", ACTIVE, "inactive", FINALIZED}) | SETTLING_STATUSES
RESULTS = frozenset({"", "yes", "no", "scalar"})
_STRIKE_FIELDS = ("strike_type", "floor_strike", "cap_strike", "functional_strike")
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiFeeTerms:
    """How fees are calculated: the type, and the multiplier of the rate; None where it is missing."""

    type: str
    multiplier: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiSeries:
    """A series of events; ``sources`` are lines for a person, in a fixed order."""

    ticker: str
    category: str
    sources: tuple[str, ...]
    terms_url: str
    fees: KalshiFeeTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRange:
    """Prices from ``start`` to ``end`` are multiples of ``step`` away from ``start``."""

    start: Decimal
    end: Decimal
    step: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiMarket:
    """One market. ``bid`` and ``ask`` are the best prices of YES, None without size; ``value`` is what YES paid."""

    ticker: str
    status: str
    result: str
    value: Decimal | None
    title: str
    label: str
    rules: str
    strike: str
    opens_at: datetime | None
    closes_at: datetime
    resolves_at: datetime
    settled_at: datetime | None
    bid: Decimal | None
    ask: Decimal | None
    volume: Decimal
    exchange_index: int
    price_ranges: tuple[PriceRange, ...]

    @property
    def is_open(self) -> bool:
        """Whether it is open or paused, so that its outcome is not known."""
        return self.status in {ACTIVE, "inactive"}

    def mid_price(self, max_spread: Decimal) -> float | None:
        """Return the midpoint of bid and ask; None if one is missing, they cross, or they are too far apart."""
        return mid_price(self.bid, self.ask, max_spread) if self.status == ACTIVE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiEvent:
    """An event with its markets; ``complaints`` are those of markets that cannot be read."""

    ticker: str
    series: str
    title: str
    sub_title: str
    is_exclusive: bool
    sources: tuple[str, ...]
    fee_type: str
    fee_multiplier: Decimal | None
    markets: tuple[KalshiMarket, ...]
    complaints: tuple[str, ...]

    def fees(self, series: KalshiSeries) -> KalshiFeeTerms:
        """Return its fees: those of the series, unless it has its own."""
        multiplier = series.fees.multiplier if self.fee_multiplier is None else self.fee_multiplier
        return KalshiFeeTerms(type=self.fee_type or series.fees.type, multiplier=multiplier)

    def with_markets(self, records: Iterable[JsonRecord]) -> "KalshiEvent":
        """Return the event with these markets too, where it does not have them."""
        known = {market.ticker for market in self.markets}
        markets, complaints = _parse_markets(one for one in records if one.get("ticker") not in known)
        return replace(self, markets=(*self.markets, *markets), complaints=(*self.complaints, *complaints))


def mid_price(bid: Decimal | None, ask: Decimal | None, max_spread: Decimal) -> float | None:
    """Return the midpoint of bid and ask; None if one is missing, they cross, or they are too far apart."""
    if bid is None or ask is None:
        return None
    return float((bid + ask) / 2) if Decimal(0) < ask - bid <= max_spread else None


def parse_series(record: JsonRecord) -> KalshiSeries:
    """Parse a series; raises MalformedDataError."""
    multiplier = record.get("fee_multiplier")
    return KalshiSeries(
        ticker=_required_text(record, "ticker", "a series"),
        category=_text(record, "category"),
        sources=_source_lines(record),
        terms_url=_text(record, "contract_terms_url"),
        fees=KalshiFeeTerms(type=_text(record, "fee_type"), multiplier=_plain_number(multiplier)),
    )


def parse_event(record: JsonRecord) -> KalshiEvent:
    """Parse an event and its markets; raises MalformedDataError if the event itself cannot be read."""
    ticker = _required_text(record, "event_ticker", "an event")
    exclusive, children = record.get("mutually_exclusive"), record.get("markets")
    if not isinstance(exclusive, bool) or not isinstance(children, list):
        message = f"{ticker}: mutually_exclusive or the markets are missing"
        raise MalformedDataError(message)
    markets, complaints = _parse_markets(children)
    return KalshiEvent(
        ticker=ticker,
        series=_required_text(record, "series_ticker", ticker),
        title=_required_text(record, "title", ticker),
        sub_title=_text(record, "sub_title"),
        is_exclusive=exclusive,
        sources=_source_lines(record),
        fee_type=_text(record, "fee_type_override"),
        fee_multiplier=_plain_number(record.get("fee_multiplier_override")),
        markets=markets,
        complaints=complaints,
    )


def _parse_markets(records: Iterable[object]) -> tuple[tuple[KalshiMarket, ...], tuple[str, ...]]:
    """Return the markets that can be read, and complaints about the others."""
    markets: list[KalshiMarket] = []
    complaints: list[str] = []
    for record in records:
        try:
            markets.append(parse_market(record if isinstance(record, Mapping) else {}))
        except MalformedDataError as error:
            complaints.append(str(error))
    return tuple(markets), tuple(complaints)


def parse_market(record: JsonRecord) -> KalshiMarket:
    """Parse a market of two sides that pays 1 dollar; raises MalformedDataError for any other."""
    ticker = _required_text(record, "ticker", "a market")
    status, result = _text(record, "status"), _text(record, "result")
    if status not in STATUSES or result not in RESULTS:
        message = f"{ticker}: unknown status {status!r} or result {result!r}"
        raise MalformedDataError(message)
    if _text(record, "market_type") != "binary" or record.get("mve_collection_ticker"):
        message = f"{ticker}: not a market of its own with the sides yes and no"
        raise MalformedDataError(message)
    if parse_decimal(record, "notional_value_dollars", ticker) != ONE:
        message = f"{ticker}: a contract does not pay 1 dollar"
        raise MalformedDataError(message)
    closes_at = _required_moment(record, "close_time", ticker)
    latest = _required_moment(record, "latest_expiration_time", ticker)
    expected = _moment(record, "expected_expiration_time", ticker)
    value = record.get("settlement_value_dollars")
    return KalshiMarket(
        ticker=ticker,
        status=status,
        result=result,
        value=None if value in (None, "") else parse_decimal(record, "settlement_value_dollars", ticker),
        title=_text(record, "title"),
        label=_text(record, "yes_sub_title"),
        rules=_join_rules(record),
        strike=", ".join(f"{name} {record[name]}" for name in _STRIKE_FIELDS if record.get(name) not in (None, "")),
        opens_at=_moment(record, "open_time", ticker),
        closes_at=closes_at,
        resolves_at=min(expected or latest, latest),
        settled_at=_moment(record, "settlement_ts", ticker),
        bid=_quote(record, "yes_bid", ticker),
        ask=_quote(record, "yes_ask", ticker),
        volume=parse_decimal(record, "volume_fp", ticker),
        exchange_index=_exchange_index(record, ticker),
        price_ranges=_price_ranges(record, ticker),
    )


def parse_decimal(record: JsonRecord, name: str, what: str) -> Decimal:
    """Return a finite decimal that is given as text; raises MalformedDataError."""
    return parse_decimal_text(record.get(name), f"{what}: {name}")


def parse_decimal_text(value: object, what: str) -> Decimal:
    """Return a finite decimal that is given as text; raises MalformedDataError."""
    try:
        number = Decimal(value) if isinstance(value, str) and value.isascii() and "_" not in value else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite():
        message = f"{what} is {value!r:.60}, not a number as text"
        raise MalformedDataError(message)
    return number


def _quote(record: JsonRecord, side: str, ticker: str) -> Decimal | None:
    """Return a best price; without size it is no quote."""
    if f"{side}_size_fp" not in record:
        return None
    price = parse_decimal(record, f"{side}_dollars", ticker)
    size = parse_decimal(record, f"{side}_size_fp", ticker)
    return price if size > 0 and 0 < price < 1 else None


def _price_ranges(record: JsonRecord, ticker: str) -> tuple[PriceRange, ...]:
    rows = record.get("price_ranges")
    if not isinstance(rows, list) or not rows:
        message = f"{ticker}: price_ranges are missing"
        raise MalformedDataError(message)
    ranges: list[PriceRange] = []
    for row in rows:
        fields = row if isinstance(row, Mapping) else {}
        start, end, step = (parse_decimal(fields, name, ticker) for name in ("start", "end", "step"))
        if step <= 0 or end <= start:
            message = f"{ticker}: price_ranges have no steps"
            raise MalformedDataError(message)
        ranges.append(PriceRange(start=start, end=end, step=step))
    return tuple(ranges)


def _join_rules(record: JsonRecord) -> str:
    parts = [_text(record, "rules_primary"), _text(record, "rules_secondary")]
    if (early := _text(record, "early_close_condition")) and record.get("can_close_early") is True:
        parts.append(f"It may close early: {early}")
    return "\n\n".join(part for part in parts if part)


def _source_lines(record: JsonRecord) -> tuple[str, ...]:
    rows = record.get("settlement_sources")
    fields = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return tuple(sorted(f"{_text(row, 'name')} {_text(row, 'url')}".strip() for row in fields))


def _exchange_index(record: JsonRecord, ticker: str) -> int:
    value = record.get("exchange_index", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{ticker}: exchange_index is {value!r:.60}"
        raise MalformedDataError(message)
    return value


def _plain_number(value: object) -> Decimal | None:
    """Return a number of either form, None for anything else: without a multiplier nothing is traded."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and number >= 0 else None


def _text(record: JsonRecord, name: str) -> str:
    value = record.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _required_text(record: JsonRecord, name: str, what: str) -> str:
    if not (text := _text(record, name)):
        message = f"{what}: {name} is missing"
        raise MalformedDataError(message)
    return text


def _moment(record: JsonRecord, name: str, what: str) -> datetime | None:
    value = record.get(name)
    if value in (None, ""):
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = f"{what}: {name} is {value!r:.60}, not a moment with a time zone"
        raise MalformedDataError(message)
    return moment.astimezone(UTC)


def _required_moment(record: JsonRecord, name: str, what: str) -> datetime:
    if (moment := _moment(record, name, what)) is None:
        message = f"{what}: {name} is missing"
        raise MalformedDataError(message)
    return moment
