"""Checks whether recorded outcomes are those of the venues, and whether any is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.simulator.venues.metaculus_scores import account_scores
from bot.store.serialization import parse_timestamp
from tests.ledger_checks import Row
from tests.simulation.full_system.plan import PACES

if TYPE_CHECKING:
    from decimal import Decimal

    from bot.simulator.venues import metaculus_state, polymarket_state
    from bot.simulator.venues.manifold_state import FakeManifoldMarket
    from tests.simulation.full_system.fake_venues import SimulationVenues

RECORDED = "select ref, target, kind, value, seen_at from resolution order by id"
SCORED = "select ref, rule, value from venue_score"
FORECAST = "select ref, min(made_at) as made_at from forecast where state = 'done' group by ref"
SAME = 1e-9
# By so much the clock that people set may be behind.
SET_BACK = timedelta(hours=1, minutes=2)
# A job that looks for outcomes this often has failed or was killed once at most before it read one.
READ_WITHIN = timedelta(seconds=2.0 * PACES["resolve"])
CALLED = {"yes": 1.0, "no": 0.0, "YES": 1.0, "NO": 0.0}
CALLED_OFF = frozenset({"annulled", "ambiguous", "CANCEL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _VenueOutcome:
    """What a venue has of a question: since when its outcome, and which where it is yes or no, a share or void.

    Some are not shown to everybody.
    """

    since: datetime | None
    told: tuple[str, float | None] | None = None
    shown: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeChecks:
    """Judges outcomes by the state of the venues; ``undone`` are those that were taken back, with the last time.

    ``slower`` is how many times slower than at a common pace jobs run.
    """

    bridges: SimulationVenues
    undone: Mapping[str, datetime]
    now: datetime
    slower: float

    def judge(self, recorded: Collection[Row], forecast: Collection[Row]) -> Iterator[str]:
        """Say what is wrong with the rows of ``RECORDED``, and what is missing of the questions of ``FORECAST``."""
        current = {(row["ref"], row["target"]): row for row in recorded}
        yield from self._withdrawn(current.values())
        for row in recorded:
            known = self._known(row["ref"])
            if known is None:
                continue
            reported = f"outcome: {row['ref']} was taken for {row['kind']} {row['value']} at {row['seen_at']}"
            if known.since is None or parse_timestamp(row["seen_at"]) < known.since - SET_BACK:
                yield f"{reported}, and has had an outcome since {known.since or 'never'}"
            elif row is current[row["ref"], row["target"]] and known.told not in {None, (row["kind"], row["value"])}:
                yield f"{reported}, and was {known.told}"
        there = {row["ref"] for row in recorded}
        late = self.now - READ_WITHIN * self.slower - SET_BACK
        # Outcomes are looked for of what has a forecast.
        waiting = {row["ref"]: parse_timestamp(row["made_at"]) for row in forecast if row["ref"] not in there}
        for ref, made_at in sorted(waiting.items()):
            known = self._known(ref)
            if known is not None and known.shown and known.since is not None and max(known.since, made_at) < late:
                yield f"outcome: {ref} has had one since {known.since}, and none is on record"

    def _withdrawn(self, current: Collection[Row]) -> Iterator[str]:
        """An outcome that was taken back is not kept, and the one that followed is on record."""
        late = self.now - READ_WITHIN * self.slower - SET_BACK
        for row in current:
            undone_at = self.undone.get(_name_at_venue(row["ref"]))
            known = None if undone_at is None else self._at_venue(row["ref"])
            if undone_at is None or known is None or not known.shown or max(undone_at, known.since or undone_at) > late:
                continue
            reported = f"outcome: {row['ref']} is {row['kind']} {row['value']} on record"
            if known.since is None and row["kind"] != "void":
                yield f"{reported}, and that was taken back at {undone_at}"
            elif known.since is not None and known.told not in {None, (row["kind"], row["value"])}:
                yield f"{reported}, and has been {known.told} since {known.since}"

    def judge_scores(self, scored: Collection[Row]) -> Iterator[str]:
        """Say which rows of ``SCORED`` are not what the venue tells of the forecasts of one of its accounts."""
        for row in scored:
            state = None if self.bridges.metaculus is None else self.bridges.metaculus.state
            number = row["ref"].rsplit(":", 1)[-1]
            if state is None or f"metaculus:{number}" in self.undone:
                continue
            question, key = state.questions[int(number)], f"{row['rule'].replace(' ', '_')}_score"
            name = "coverage" if row["rule"] == "coverage" else key
            reported = [account_scores(question, user, state.users).get(name) for user in state.users]
            if not any(value is not None and abs(value - row["value"]) < SAME for value in reported):
                yield f"score: {row['rule']} of {row['ref']} is {row['value']} on record, and {reported} at the venue"

    def _known(self, ref: str) -> _VenueOutcome | None:
        """Return what the venue has of a question, None where nobody can say."""
        return None if _name_at_venue(ref) in self.undone else self._at_venue(ref)

    def _at_venue(self, ref: str) -> _VenueOutcome | None:
        """Return what the venue has of a question, whether or not that was ever another outcome."""
        venue, name = _name_at_venue(ref).split(":", 1)
        if venue == "manifold" and self.bridges.manifold is not None:
            return _market_outcome(self.bridges.manifold.state.markets[name])
        if venue == "metaculus" and self.bridges.metaculus is not None:
            return _question_outcome(self.bridges.metaculus.state, int(name))
        if venue == "polymarket" and self.bridges.polymarket is not None:
            return _condition_outcome(self.bridges.polymarket.state, name)
        return None


def _name_at_venue(ref: str) -> str:
    """Return the name by which outcomes that were taken back are known."""
    venue, key = ref.split(":", 1)
    return f"{venue}:{key.rsplit(':', 1)[-1]}"


def _market_outcome(market: FakeManifoldMarket) -> _VenueOutcome:
    since = market.resolution_time
    return _VenueOutcome(
        since=None if since is None else datetime.fromtimestamp(since / 1000, UTC),
        told=_outcome_of_resolution(market.resolution) if market.type == "BINARY" else None,
    )


def _question_outcome(state: metaculus_state.FakeMetaculusState, number: int) -> _VenueOutcome:
    question = state.questions[number]
    return _VenueOutcome(
        since=None if question.resolution is None else question.resolution_set,
        told=_outcome_of_resolution(question.resolution) if question.type == "binary" else None,
        # The venue does not show the outcome to an account that forecast nothing; those of people are not ours.
        shown=any(question.forecasts_of(user.id) for user in state.users.values() if user.is_bot),
    )


def _condition_outcome(state: polymarket_state.FakePolymarketState, name: str) -> _VenueOutcome:
    markets = [one for one in state.markets.values() if name in {one.condition, one.event}]
    ends = [one.resolved_at for one in markets if one.resolved_at is not None]
    won = [one.resolved_at for one in markets if one.resolved_at is not None and one.payouts and one.payouts[0] == 1]
    # Of several markets one may end for nothing long before it is known which of them wins, or that none does.
    since = min(won) if won else max(ends) if ends and len(ends) == len(markets) else None
    alone = markets[0] if len(markets) == 1 and markets[0].condition == name else None
    return _VenueOutcome(
        since=None if since is None else datetime.fromtimestamp(since, UTC),
        told=None if alone is None else _outcome_of_payouts(alone.payouts),
    )


def _outcome_of_resolution(resolution: str | None) -> tuple[str, float | None] | None:
    if resolution in CALLED_OFF:
        return "void", None
    return ("happened", CALLED[resolution]) if resolution in CALLED else None


def _outcome_of_payouts(payouts: tuple[Decimal, Decimal] | None) -> tuple[str, float | None] | None:
    if payouts is None:
        return None
    return ("happened", float(payouts[0])) if any(payouts) else ("void", None)
