"""What markets paid: three sources in the order in which they are trusted, and outcomes of questions from it.

A payout is a pair, not a winner: halves and nothing for either side are real. What the socket says of resolutions is
no source here, nor is a scheduled end. Source: venue document, section 4.4.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

import structlog

from bot.api import Chosen, Clock, ContractError, Happened, NotFound, Outcome, Rejected, Void
from plugins.polymarket.books import ONE
from plugins.polymarket.client import Record
from plugins.polymarket.groups import Group, Names
from plugins.polymarket.parse import RESOLVED, SETTLING, Market, market_of
from plugins.polymarket.raw import decimal_of, flag_of, list_of, moment_of, record_of, text_of

log = structlog.get_logger(__name__)

MILLIONTHS = Decimal(1_000_000)
HALF = Decimal("0.5")
_ALL, _NONE = Decimal("0.999"), Decimal("0.001")
_NEAR = Decimal("0.000002")

Pair = tuple[Decimal, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payout:
    """What a share of either outcome pays, since when that is known, and who says so."""

    pair: Pair
    at: datetime
    source: str

    @property
    def value(self) -> Decimal | None:
        """What index 0 pays where both together pay 1; None for a market that pays anything else."""
        return self.pair[0] if abs(sum(self.pair) - ONE) <= _NEAR else None


class Reads(Protocol):
    """What is asked about resolutions."""

    async def resolutions(self, conditions: Iterable[str]) -> Mapping[str, Record]:
        """Return how markets stand with the oracle, by condition."""
        ...

    async def markets_by_condition(self, conditions: Iterable[str], *, closed: bool) -> Collection[Record]:
        """Return those that are open, or those that are closed."""
        ...

    async def long_market(self, condition: str) -> Record:
        """Return a market as the exchange has it; raises NotFound."""
        ...


async def payouts(client: Reads, conditions: Collection[str], clock: Clock) -> dict[str, Payout]:
    """Return what the given markets paid, as far as it stands; one that is proposed or disputed does not."""
    wanted = list(dict.fromkeys(conditions))
    rows = await client.resolutions(wanted)
    now = clock.now()
    found = {condition: payout for condition, row in rows.items() if (payout := _by_oracle(row, now)) is not None}
    left = [condition for condition in wanted if condition not in found and not _waits(rows.get(condition))]
    markets = await _described(client, left)
    for condition, market in markets.items():
        if (payout := _by_description(market, now)) is not None:
            found[condition] = payout
    for condition in left:
        known = markets.get(condition)
        undecided = known is None or (known.closed and known.oracle not in SETTLING)
        if condition in found or not undecided:
            continue
        if (told := await _by_exchange(client, condition, known, now)) is not None:
            found[condition] = told
    return found


def pair_of(row: Record) -> Pair | None:
    """Return the payouts of a row of the oracle, in shares of 1; None where there are none yet."""
    listed = [decimal_of(item) for item in list_of(row.get("payouts")) or ()]
    if len(listed) == 2 and listed[0] is not None and listed[1] is not None:
        pair = (listed[0] / MILLIONTHS, listed[1] / MILLIONTHS)
        # Both together pay one, or neither pays anything; whatever else is said is no payout.
        sound = all(0 <= part <= 1 for part in pair) and (not any(pair) or abs(sum(pair) - ONE) <= _NEAR)
        return pair if sound else None
    price = decimal_of(row.get("price"))
    # 69 stands for a price that is not set.
    return None if price is None or not 0 <= price <= 1 else (price, ONE - price)


def strict_pair(market: Market) -> Pair | None:
    """Return the payouts that display prices tell of a resolved market: one all, one nothing, or nothing for both."""
    if not (market.closed and market.oracle == RESOLVED) or len(market.prices) != 2:
        return None
    first, second = market.prices
    if first is None or second is None:
        return None
    if first == second == 0:
        return first, second
    if max(first, second) >= _ALL and min(first, second) <= _NONE:
        return (ONE, Decimal(0)) if first > second else (Decimal(0), ONE)
    return None


def outcome_of_market(payout: Payout) -> Outcome:
    """Return the outcome of a question about one market."""
    value = payout.value
    return Void(_paid(payout)) if value is None else Happened(float(value))


def outcome_of_group(group: Group, paid: Mapping[str, Payout], names: Names) -> tuple[Outcome, datetime] | None:
    """Return the outcome of a question about an event and since when it is known, None while it is open.

    It is known once one market paid all; where every market paid nothing, none of the named outcomes came true. Markets
    that were options when it was asked count too, though the event may not list them any more.
    """
    asked = names.conditions(group.home.id)
    everything = dict.fromkeys([*(market.condition for market in group.children), *sorted(asked)])
    winners = [name for name in everything if name in paid and paid[name].value == ONE]
    if len(winners) == 1:
        [winner] = winners
        otherwise = names.otherwise(group.home.id, winner)
        return Chosen(names.option(group, winner), otherwise=otherwise), paid[winner].at
    if len(winners) > 1:
        won = {names.option(group, name): 1.0 for name in winners}
        return Void(f"{len(winners)} outcomes won", won), max(paid[name].at for name in winners)
    if not group.whole:
        # Whoever is missing may be the winner.
        return None
    told = asked | {market.condition for market in group.children if market.active or market.closed}
    known = {name: paid[name] for name in everything if name in told and name in paid}
    if not known or len(known) < len(told):
        return None
    at = max(payout.at for payout in known.values())
    odd = {names.option(group, name): payout for name, payout in known.items() if payout.value != 0}
    if odd:
        shares = {option: float(payout.pair[0]) for option, payout in odd.items() if payout.pair[0] > 0}
        return Void("; ".join(f"{option} {_paid(payout)}" for option, payout in odd.items()), shares), at
    return (Chosen(names.rest(group.home.id)) if group.other else Void("no outcome of it won")), at


def _paid(payout: Payout) -> str:
    first, second = payout.pair
    return f"pays {first.normalize():f} and {second.normalize():f}"


def _waits(row: Record | None) -> bool:
    """Say whether the oracle is about to decide: then nothing else is believed."""
    return row is not None and text_of(row.get("status")).lower() in SETTLING


def _by_oracle(row: Record, now: datetime) -> Payout | None:
    if text_of(row.get("status")).lower() != RESOLVED:
        return None
    pair = pair_of(row)
    if pair is None:
        return None
    at = moment_of(row.get("resolved_at")) or moment_of(row.get("last_update_timestamp")) or now
    return Payout(pair=pair, at=at, source="oracle")


async def _described(client: Reads, conditions: Collection[str]) -> dict[str, Market]:
    """Ask for closed markets and for open ones, since neither query finds both."""
    if not conditions:
        return {}
    found: dict[str, Market] = {}
    for closed in (True, False):
        for record in await client.markets_by_condition(conditions, closed=closed):
            try:
                market = market_of(record)
            except ContractError as error:
                log.warning("an outcome is left out", error=str(error))
                continue
            found.setdefault(market.condition, market)
    return found


def _by_description(market: Market, now: datetime) -> Payout | None:
    pair = strict_pair(market)
    return None if pair is None else Payout(pair=pair, at=market.closed_at or now, source="description")


async def _by_exchange(client: Reads, condition: str, market: Market | None, now: datetime) -> Payout | None:
    """Return what the exchange says, matched by token, else by name: its own order means nothing."""
    try:
        said = await client.long_market(condition)
    except (NotFound, Rejected, ContractError) as error:
        log.info("the exchange tells no outcome", market=condition, error=str(error))
        return None
    at = (market.closed_at if market is not None else None) or now
    if not flag_of(said.get("closed")):
        return None
    if flag_of(said.get("is_50_50_outcome")):
        return Payout(pair=(HALF, HALF), at=at, source="exchange")
    won = [record_of(token) for token in list_of(said.get("tokens")) or () if flag_of(record_of(token).get("winner"))]
    if len(won) != 1:
        return None
    tokens, labels = ((), ("yes", "no")) if market is None else (market.tokens, market.labels)
    token, label = text_of(won[0].get("token_id")), text_of(won[0].get("outcome")).casefold()
    known = [name.casefold() for name in labels]
    if token in tokens:
        first = tokens.index(token) == 0
    elif label in known and known[0] != known[1]:
        first = known.index(label) == 0
    else:
        return None
    return Payout(pair=(ONE, Decimal(0)) if first else (Decimal(0), ONE), at=at, source="exchange")
