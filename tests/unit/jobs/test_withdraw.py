"""Forecasts taken back: by a person, through the outbox, and by the policy where they went stale."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from bot.domain.question import QuestionRef
from bot.domain.request import WithdrawForecast
from bot.domain.submission import IntentAction, IntentState, Mode
from bot.errors import Rejected
from bot.gate.case import Lane
from bot.jobs.permit import Permitting, permit
from bot.jobs.withdraw import StaleWithdrawing, withdraw_stale
from bot.paper.standing import StandingBook, open_standing
from bot.testing.forecaster import ScriptedForecaster, say
from tests.unit.jobs.conftest import FIRST, VENUE, House, question

REF = QuestionRef(VENUE, "rain")
DAY = timedelta(days=1)


@dataclass
class Paper:
    """The house with a book of forecasts that stand."""

    house: House
    book: StandingBook
    lane: Lane

    async def stands(self) -> float | None:
        """The probability that stands now, by the book's own account."""
        found = await self.book.stood(REF, "me", self.house.clock.now())
        return None if found is None else getattr(found.predictions["outcome"], "probability", None)

    async def passes(self, said: float = 0.3) -> None:
        self.house.forecasters[FIRST] = ScriptedForecaster(say(said))
        await self.house.discover()
        await self.house.forecast()
        await self.house.submit()

    async def ask(self, **changes: Any) -> str:
        parts = Permitting(
            ledger=self.house.ledger,
            clock=self.house.clock,
            stop_file=self.house.path / "STOP",
            lanes={VENUE: self.lane},
            withdrawing=frozenset({VENUE}),
        )
        request = WithdrawForecast(by="ann", asked_at=self.house.clock.now(), ref=REF, reason="a mistake")
        return await permit(replace(parts, **changes), request)

    async def stale(self, *, after: timedelta) -> int:
        parts = StaleWithdrawing(
            ledger=self.house.ledger,
            lanes={VENUE: self.lane},
            clock=self.house.clock,
            stale_after=after,
            patience=timedelta(hours=1),
        )
        return await withdraw_stale(parts)


@pytest.fixture
async def paper(house: House) -> AsyncIterator[Paper]:
    house.venue.offer(question(now=house.clock.now()))
    async with open_standing(house.path / "book", house.clock) as book:
        house.book = book  # type: ignore[assignment] # the outbox takes any submitter
        yield Paper(house, book, Lane(venue=VENUE, mode=Mode.PAPER, primary=FIRST, account="me"))


async def test_what_stands_is_withdrawn_with_the_next_pass_and_a_later_forecast_stands_again(paper: Paper) -> None:
    await paper.passes()
    assert await paper.stands() == 0.3
    assert f"foxcast lock {REF}" in await paper.ask()
    assert await paper.stands() == 0.3
    await paper.house.clock.advance(60.0)
    await paper.house.submit()
    assert await paper.stands() is None
    standing = await paper.house.ledger.submissions.standing(REF, "me", paper=True)
    assert standing is not None
    assert (standing.action, dict(standing.predictions)) == (IntentAction.WITHDRAW, {})
    row = await paper.house.ledger.submissions.get(standing.id)
    assert row.state is IntentState.ACKED
    [audited] = await paper.house.ledger.leave.audited(limit=9)
    assert (audited.kind, audited.actor, audited.body["reason"]) == ("withdraw", "ann", "a mistake")
    # The same forecast may stand again, since nothing does.
    await paper.house.clock.advance(4 * DAY.total_seconds())
    await paper.passes()
    assert await paper.stands() == 0.3


async def test_asking_twice_for_what_is_gone_says_so(paper: Paper) -> None:
    with pytest.raises(Rejected, match="no forecast of it stands at lantern"):
        await paper.ask()
    await paper.passes()
    await paper.ask()
    with pytest.raises(Rejected, match="no forecast of it stands at lantern"):
        await paper.ask()


async def test_where_nothing_stands_until_it_is_withdrawn_nothing_can_be(paper: Paper) -> None:
    await paper.passes()
    with pytest.raises(Rejected, match="lantern has no forecasts that stand"):
        await paper.ask(withdrawing=frozenset())
    with pytest.raises(Rejected, match="lantern is off"):
        await paper.ask(lanes={VENUE: replace(paper.lane, mode=Mode.OFF)})


async def test_a_stale_forecast_that_was_not_renewed_is_withdrawn_once(paper: Paper) -> None:
    await paper.passes()
    await paper.house.clock.advance((2 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 0
    await paper.house.clock.advance(timedelta(hours=2).total_seconds())
    assert await paper.stale(after=2 * DAY) == 1
    await paper.house.submit()
    assert await paper.stands() is None
    assert await paper.stale(after=2 * DAY) == 0


async def test_a_forecast_that_was_renewed_or_whose_question_closed_stays(paper: Paper) -> None:
    await paper.passes()
    await paper.house.clock.advance((4 * DAY).total_seconds())
    # The new one says the same, so nothing new leaves: the one that stands is as good as new.
    await paper.passes()
    assert await paper.stale(after=2 * DAY) == 0
    await paper.house.clock.advance((7 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 0
    assert await paper.stands() == 0.3
