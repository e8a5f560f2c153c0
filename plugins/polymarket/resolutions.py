"""Payouts of markets, from three sources in order of trust, and the outcomes of questions.

A payout is a pair, not a winner: halves and nothing for either side occur. Socket messages about resolutions are not a
source, nor is a scheduled end. Source: docs/facts/polymarket.md#resolution.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

import structlog

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    Clock,
    MalformedDataError,
    NotFoundError,
    Outcome,
    RequestRejectedError,
    VoidOutcome,
)
from plugins.polymarket.api_client import JsonRecord
from plugins.polymarket.event_groups import EventGroup, OptionNames
from plugins.polymarket.json_values import parse_decimal, parse_flag, parse_list, parse_moment, parse_record, parse_text
from plugins.polymarket.market_parser import RESOLVED_STATUS, SETTLING_STATUSES, PolymarketMarket, parse_market
from plugins.polymarket.order_books import ONE

log = structlog.get_logger(__name__)

MILLIONTHS = Decimal(1_000_000)
HALF_PAYOUT = Decimal("0.5")
_FULL_PRICE, _ZERO_PRICE = Decimal("0.999"), Decimal("0.001")
_PAYOUT_TOLERANCE = Decimal("0.000002")

PayoutPair = tuple[Decimal, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketPayout:
    """What a share of either outcome pays, since when it is known, and its source."""

    shares: PayoutPair
    at: datetime
    source: str

    @property
    def yes_payout(self) -> Decimal | None:
        """What index 0 pays if both together pay 1; None for a market that pays anything else."""
        return self.shares[0] if abs(sum(self.shares) - ONE) <= _PAYOUT_TOLERANCE else None


class ResolutionSource(Protocol):
    """The requests about resolutions."""

    async def resolutions(self, conditions: Iterable[str]) -> Mapping[str, JsonRecord]:
        """Return the oracle states of markets, by condition."""
        ...

    async def markets_by_condition(self, conditions: Iterable[str], *, closed: bool) -> Collection[JsonRecord]:
        """Return the open ones, or the closed ones."""
        ...

    async def exchange_market(self, condition: str) -> JsonRecord:
        """Return a market as the exchange has it; raises NotFoundError."""
        ...


async def read_payouts(client: ResolutionSource, conditions: Collection[str], clock: Clock) -> dict[str, MarketPayout]:
    """Return the final payouts of the given markets; proposed or disputed ones are not final."""
    unique = list(dict.fromkeys(conditions))
    rows = await client.resolutions(unique)
    now = clock.now()
    found = {
        condition: payout for condition, row in rows.items() if (payout := _payout_by_oracle(row, now)) is not None
    }
    missing = [condition for condition in unique if condition not in found and not _is_waiting(rows.get(condition))]
    markets = await _read_markets(client, missing)
    for condition, market in markets.items():
        if (payout := _payout_by_description(market, now)) is not None:
            found[condition] = payout
    for condition in missing:
        known = markets.get(condition)
        undecided = known is None or (known.closed and known.oracle not in SETTLING_STATUSES)
        if condition in found or not undecided:
            continue
        if (expected := await _payout_by_exchange(client, condition, known, now)) is not None:
            found[condition] = expected
    return found


def oracle_payouts(row: JsonRecord) -> PayoutPair | None:
    """Return the payouts of a row of the oracle, in shares of 1; None if there are none yet."""
    listed = [parse_decimal(item) for item in parse_list(row.get("payouts")) or ()]
    if len(listed) == 2 and listed[0] is not None and listed[1] is not None:
        pair = (listed[0] / MILLIONTHS, listed[1] / MILLIONTHS)
        # Both together pay one, or neither pays anything; anything else is invalid.
        is_valid = all(0 <= part <= 1 for part in pair) and (not any(pair) or abs(sum(pair) - ONE) <= _PAYOUT_TOLERANCE)
        return pair if is_valid else None
    price = parse_decimal(row.get("price"))
    # 69 means that a price is not set.
    return None if price is None or not 0 <= price <= 1 else (price, ONE - price)


def displayed_payouts(market: PolymarketMarket) -> PayoutPair | None:
    """Return the payouts of a resolved market by its display prices: all for one side, or nothing for both."""
    if not (market.closed and market.oracle == RESOLVED_STATUS) or len(market.prices) != 2:
        return None
    first, second = market.prices
    if first is None or second is None:
        return None
    if first == second == 0:
        return first, second
    if max(first, second) >= _FULL_PRICE and min(first, second) <= _ZERO_PRICE:
        return (ONE, Decimal(0)) if first > second else (Decimal(0), ONE)
    return None


def market_outcome(payout: MarketPayout) -> Outcome:
    """Return the outcome of a question about one market."""
    value = payout.yes_payout
    return VoidOutcome(_describe_payout(payout)) if value is None else BinaryOutcome(float(value))


def group_outcome(
    group: EventGroup, paid: Mapping[str, MarketPayout], names: OptionNames
) -> tuple[Outcome, datetime] | None:
    """Return the outcome of a question about an event and since when it is known, None while it is open.

    It is known once one market paid all; if every market paid nothing, none of the named outcomes came true. Markets
    that were options when it was forecast count too, even if the event no longer lists them.
    """
    asked_conditions = names.conditions(group.event.id)
    all_conditions = dict.fromkeys([*(market.condition for market in group.children), *sorted(asked_conditions)])
    winners = [name for name in all_conditions if name in paid and paid[name].yes_payout == ONE]
    if len(winners) == 1:
        [winner] = winners
        otherwise = names.former_names(group.event.id, winner)
        return ChoiceOutcome(names.current_name(group, winner), otherwise=otherwise), paid[winner].at
    if len(winners) > 1:
        won = {names.current_name(group, name): 1.0 for name in winners}
        return VoidOutcome(f"{len(winners)} outcomes won", won), max(paid[name].at for name in winners)
    if not group.is_complete:
        # A missing market may be the winner.
        return None
    expected = asked_conditions | {market.condition for market in group.children if market.active or market.closed}
    known = {name: paid[name] for name in all_conditions if name in expected and name in paid}
    if not known or len(known) < len(expected):
        return None
    at = max(payout.at for payout in known.values())
    partial = {names.current_name(group, name): payout for name, payout in known.items() if payout.yes_payout != 0}
    if partial:
        shares = {option: float(payout.shares[0]) for option, payout in partial.items() if payout.shares[0] > 0}
        return VoidOutcome(
            "; ".join(f"{option} {_describe_payout(payout)}" for option, payout in partial.items()), shares
        ), at
    return (
        ChoiceOutcome(names.other_option(group.event.id)) if group.other else VoidOutcome("no outcome of it won")
    ), at


def _describe_payout(payout: MarketPayout) -> str:
    first, second = payout.shares
    return f"pays {first.normalize():f} and {second.normalize():f}"


def _is_waiting(row: JsonRecord | None) -> bool:
    """Return whether the oracle is about to decide: then no other source counts."""
    return row is not None and parse_text(row.get("status")).lower() in SETTLING_STATUSES


def _payout_by_oracle(row: JsonRecord, now: datetime) -> MarketPayout | None:
    if parse_text(row.get("status")).lower() != RESOLVED_STATUS:
        return None
    pair = oracle_payouts(row)
    if pair is None:
        return None
    at = parse_moment(row.get("resolved_at")) or parse_moment(row.get("last_update_timestamp")) or now
    return MarketPayout(shares=pair, at=at, source="oracle")


async def _read_markets(client: ResolutionSource, conditions: Collection[str]) -> dict[str, PolymarketMarket]:
    """Read closed markets and open ones, since neither query finds both."""
    if not conditions:
        return {}
    found: dict[str, PolymarketMarket] = {}
    for closed in (True, False):
        for record in await client.markets_by_condition(conditions, closed=closed):
            try:
                market = parse_market(record)
            except MalformedDataError as error:
                log.warning("an outcome is skipped", error=str(error))
                continue
            found.setdefault(market.condition, market)
    return found


def _payout_by_description(market: PolymarketMarket, now: datetime) -> MarketPayout | None:
    pair = displayed_payouts(market)
    return None if pair is None else MarketPayout(shares=pair, at=market.closed_at or now, source="description")


async def _payout_by_exchange(
    client: ResolutionSource, condition: str, market: PolymarketMarket | None, now: datetime
) -> MarketPayout | None:
    """Return the payout of the exchange, matched by token, else by name: its order is meaningless."""
    try:
        fields = await client.exchange_market(condition)
    except (NotFoundError, RequestRejectedError, MalformedDataError) as error:
        log.info("the exchange has no outcome", market=condition, error=str(error))
        return None
    at = (market.closed_at if market is not None else None) or now
    if not parse_flag(fields.get("closed")):
        return None
    if parse_flag(fields.get("is_50_50_outcome")):
        return MarketPayout(shares=(HALF_PAYOUT, HALF_PAYOUT), at=at, source="exchange")
    won = [
        parse_record(token)
        for token in parse_list(fields.get("tokens")) or ()
        if parse_flag(parse_record(token).get("winner"))
    ]
    if len(won) != 1:
        return None
    tokens, labels = ((), ("yes", "no")) if market is None else (market.tokens, market.labels)
    token, label = parse_text(won[0].get("token_id")), parse_text(won[0].get("outcome")).casefold()
    known = [name.casefold() for name in labels]
    if token in tokens:
        first = tokens.index(token) == 0
    elif label in known and known[0] != known[1]:
        first = known.index(label) == 0
    else:
        return None
    return MarketPayout(shares=(ONE, Decimal(0)) if first else (Decimal(0), ONE), at=at, source="exchange")
