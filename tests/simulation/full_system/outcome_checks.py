"""Checks whether recorded outcomes are those of the venues, and whether any is missing."""

from __future__ import annotations

import json
import math
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
    from bot.simulator.venues.metaculus_state import FakeMetaculusComment
    from tests.simulation.full_system.fake_venues import SimulationVenues

RECORDED = "select ref, target, kind, value, body, seen_at, resolved_at from resolution order by id"
ASKED = """
select q.ref, q.title, q.closes_at, v.body,
  (select p.probability from price p where p.id = (select max(o.id) from price o where o.ref = q.ref)) as price
from question q join question_version v on v.version = q.version
"""
SCORED = "select ref, rule, value from venue_score"
FORECAST = "select ref, min(made_at) as made_at from forecast where state = 'done' group by ref"
SAME = 1e-9
# A close may be in whole seconds, and a price rounded.
ONE_SECOND, PRICE_SLACK = timedelta(seconds=1.0), 1e-3
# By so much the clock that people set may be behind.
SET_BACK = timedelta(hours=1, minutes=2)
# A job that looks for outcomes this often has failed or was killed once at most before it read one.
READ_WITHIN = timedelta(seconds=2.0 * PACES["resolve"])
# A question gets one comment in a day, whose hours people may set back.
COMMENTED_AGAIN = timedelta(hours=21)
CALLED = {"yes": 1.0, "no": 0.0, "YES": 1.0, "NO": 0.0}
CALLED_OFF = frozenset({"annulled", "ambiguous", "CANCEL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _VenueOutcome:
    """What a venue has of a question: since when its outcome, and which where it is yes or no, a share or void.

    Some are not shown to everybody.
    """

    since: datetime | None
    told: tuple[str, float | str | None] | None = None
    shown: bool = True
    known_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedQuestion:
    """What a venue asks: when it closes, its options, and the price of YES, None where it is not looked at here."""

    title: str
    closes_at: datetime | None
    options: Collection[str] = ()
    price: float | None = None


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
            is_current = row is current[row["ref"], row["target"]]
            if is_current and known.known_at is not None and row.get("resolved_at"):
                counted = parse_timestamp(row["resolved_at"])
                if abs(counted - known.known_at) > ONE_SECOND:
                    yield f"{reported}, counts as known at {counted}, and was at {known.known_at}"
            if known.since is None or parse_timestamp(row["seen_at"]) < known.since - SET_BACK:
                yield f"{reported}, and has had an outcome since {known.since or 'never'}"
            elif row is current[row["ref"], row["target"]] and known.told not in {None, _recorded_as(row)}:
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
            elif known.since is not None and known.told not in {None, _recorded_as(row)}:
                yield f"{reported}, and has been {known.told} since {known.since}"

    def since(self, refs: Collection[str]) -> dict[str, datetime]:
        """Return since when each of these questions has an outcome that its venue shows and never took back."""
        known = {ref: self._known(ref) for ref in refs}
        return {ref: one.since for ref, one in known.items() if one and one.shown and one.since}

    def judge_scores(self, scored: Collection[Row]) -> Iterator[str]:
        """Say which rows of ``SCORED`` are not what the venue tells of the forecasts of one of its accounts."""
        late = self.now - READ_WITHIN * self.slower - SET_BACK
        for row in scored:
            state = None if self.bridges.metaculus is None else self.bridges.metaculus.state
            number = row["ref"].rsplit(":", 1)[-1]
            if state is None:
                continue
            # After an outcome that was corrected, those of the last one are read again.
            undone_at = self.undone.get(f"metaculus:{number}")
            since = state.questions[int(number)].resolution_set
            if undone_at is not None and (since is None or max(undone_at, since) > late):
                continue
            question, key = state.questions[int(number)], f"{row['rule'].replace(' ', '_')}_score"
            name = "coverage" if row["rule"] == "coverage" else key
            reported = [account_scores(question, user, state.users).get(name) for user in state.users]
            if not any(value is not None and abs(value - row["value"]) < SAME for value in reported):
                yield f"score: {row['rule']} of {row['ref']} is {row['value']} on record, and {reported} at the venue"

    def judge_comments(self) -> Iterator[str]:
        """Say which comment of Foxcast is there twice, or follows another one on its post within a day."""
        state, account = self.bridges.metaculus, self.bridges.environment.metaculus_account
        before: dict[int, FakeMetaculusComment] = {}
        said: set[tuple[int, str]] = set()
        for one in () if state is None or account is None else state.state.comments_of(account.id, None, private=True):
            # The newest comes first.
            later = before.get(one.post)
            if later is not None and later.created - one.created < COMMENTED_AGAIN:
                what = f"{one.created} and {later.created}, {one.text[:40]!r} and {later.text[:40]!r}"
                yield f"comments: post {one.post} of metaculus has comments of {what}"
            elif (one.post, one.text) in said:
                yield f"comments: post {one.post} of metaculus has the comment {one.text[:60]!r} twice"
            before[one.post] = one
            said.add((one.post, one.text))

    def judge_questions(self, recorded: Collection[Row], since: datetime) -> Iterator[str]:
        """Say which question that is open at a venue is not on record as it has been there since a moment."""
        rows = {row["ref"]: row for row in recorded}
        for ref, asked in self._asked(since):
            row = rows.get(ref)
            if row is None:
                yield f"questions: {ref}, {asked.title!r}, is open at its venue, and not on record"
                continue
            shape, closes = json.loads(row["body"])["shape"], row["closes_at"] and parse_timestamp(row["closes_at"])
            is_same_close = closes == asked.closes_at or (
                closes is not None and asked.closes_at is not None and abs(closes - asked.closes_at) < ONE_SECOND
            )
            if row["title"] != asked.title or not is_same_close:
                what = f"{row['title']!r} and closes at {row['closes_at']}"
                yield f"questions: {ref} is {what} on record, and is {asked.title!r} and closes at {asked.closes_at}"
            if asked.options and {*shape.get("options", ())} != {*asked.options}:
                yield f"questions: {ref} has the options {shape.get('options')} on record, and has {asked.options}"
            if asked.price is not None and (row["price"] is None or abs(row["price"] - asked.price) > PRICE_SLACK):
                yield f"questions: the newest price of {ref} is {row['price']} on record, and is {asked.price:.4f}"

    def _asked(self, since: datetime) -> Iterator[tuple[str, _AskedQuestion]]:
        """Yield the questions that have been open and unchanged since a moment, those whose form is known here."""
        late = self.now + SET_BACK
        if self.bridges.manifold is not None:
            at = since.timestamp() * 1000.0
            for market in self.bridges.manifold.state.markets.values():
                closes = None if market.closes is None else datetime.fromtimestamp(market.closes / 1000, UTC)
                is_known = market.type == "BINARY" or (market.type == "MULTIPLE_CHOICE" and market.sums_to_one)
                is_old = market.created < at and all(edited < at for edited, _ in market.edits)
                if is_known and is_old and not market.resolved and (closes is None or closes > late):
                    is_still = market.type == "BINARY" and (market.last_bet or 0) < at
                    yield (
                        f"manifold:{market.id}",
                        _AskedQuestion(
                            title=market.question, closes_at=closes, price=market.pool.prob if is_still else None
                        ),
                    )
        if self.bridges.metaculus is not None:
            for question in self.bridges.metaculus.state.questions.values():
                is_old = max([question.open, question.created, *(edited for edited, _ in question.edits)]) < since
                is_open = question.resolution is None and question.close > late
                if is_old and is_open and not question.label:
                    asked = _AskedQuestion(
                        title=question.title, closes_at=question.scheduled_close, options=question.options or ()
                    )
                    yield f"metaculus:{question.post}:{question.id}", asked
        if self.bridges.polymarket is not None:
            for other in self.bridges.polymarket.state.markets.values():
                is_old = max(other.created, other.updated) < since.timestamp()
                closes = datetime.fromtimestamp(other.end, UTC)
                if is_old and other.trades_now and not other.neg_risk and closes > late:
                    yield f"polymarket:{other.condition}", _AskedQuestion(title=other.question, closes_at=closes)

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
        told=_outcome_of_market(market) if market.type == "BINARY" else _answer_of_market(market),
    )


def _outcome_of_market(market: FakeManifoldMarket) -> tuple[str, float | None] | None:
    """Return what a market of yes or no paid; a price that is shown with YES or NO says nothing."""
    if market.resolution == "MKT":
        return "happened", market.resolution_prob
    return _outcome_of_resolution(market.resolution)


def _answer_of_market(market: FakeManifoldMarket) -> tuple[str, float | str | None] | None:
    """Return the answer that won a list of linked ones, void where it was called off or several answers share it."""
    if market.resolution in {*CALLED_OFF, "CHOOSE_MULTIPLE"}:
        return "void", None
    won = market.answer(market.resolution) if market.sums_to_one else None
    return None if won is None else ("chosen", won.text)


def _recorded_as(row: Row) -> tuple[str, float | str | None]:
    """Return what is on record: an option, a number, a share of YES, or nothing."""
    return row["kind"], json.loads(row["body"])["option"] if row["kind"] == "chosen" and row.get("body") else row[
        "value"
    ]


def _question_outcome(state: metaculus_state.FakeMetaculusState, number: int) -> _VenueOutcome:
    question = state.questions[number]
    return _VenueOutcome(
        since=None if question.resolution is None else question.resolution_set,
        told=_outcome_of_question(question),
        # The later of when it was true and when it was entered.
        known_at=max((one for one in (question.resolved, question.resolution_set) if one is not None), default=None),
        # The venue does not show the outcome to an account that forecast nothing; those of people are not ours.
        shown=any(question.forecasts_of(user.id) for user in state.users.values() if user.is_bot),
    )


def _outcome_of_question(question: metaculus_state.FakeMetaculusQuestion) -> tuple[str, float | str | None] | None:
    """Return what came true by the text of a resolution, which the type of its question says how to read."""
    text = question.resolution
    if question.type == "multiple_choice" and text in (question.all_options_ever or ()):
        return "chosen", text
    if text in CALLED_OFF or question.type == "binary":
        return _outcome_of_resolution(text)
    if question.type == "numeric" and text is not None and question.scaling is not None:
        scale = question.scaling
        value = {"above_upper_bound": math.inf, "below_lower_bound": -math.inf}.get(text)
        value = float(text) if value is None else value
        # A value at an end may count as beyond it.
        return ("landed", value) if math.isinf(value) or scale.low < value < scale.high else None
    return None


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
