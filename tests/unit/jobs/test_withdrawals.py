"""Forecasts taken back: by a person, through the outbox, and by the policy where they went stale."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.core.errors import RequestRejectedError
from bot.core.operator_requests import WithdrawForecast
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, IntentAction, IntentState
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.paper.forecast_book import PaperForecastBook, open_forecast_book
from bot.jobs.privileged_requests import PrivilegedRequestContext, handle_privileged_request
from bot.jobs.withdrawals import StaleWithdrawalContext, withdraw_stale_forecasts
from bot.store.forecasts import ForecastStart
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture, question
from tests.unit.jobs.test_forecast_apart import wanted

REF = QuestionRef(VENUE, "rain")
DAY = timedelta(days=1)


@dataclass
class WithdrawalFixture:
    """The house with a book of forecasts that stand."""

    jobs_fixture: JobsFixture
    book: PaperForecastBook
    execution_policy: ExecutionPolicy

    async def stands(self) -> float | None:
        """The probability that stands now, by the book's own account."""
        found = await self.book.active_forecast(REF, "me", self.jobs_fixture.clock.now())
        return None if found is None else getattr(found.predictions["outcome"], "probability", None)

    async def passes(self, said: float = 0.3) -> None:
        self.jobs_fixture.forecasters[FIRST] = ScriptedForecaster(believe_yes(said))
        await self.jobs_fixture.discover()
        await self.jobs_fixture.forecast()
        await self.jobs_fixture.submit()

    async def ask(self, **changes: Any) -> str:
        parts = PrivilegedRequestContext(
            ledger=self.jobs_fixture.ledger,
            clock=self.jobs_fixture.clock,
            stop_file=self.jobs_fixture.path / "STOP",
            execution_policies={VENUE: self.execution_policy},
            withdrawal_venues=frozenset({VENUE}),
        )
        request = WithdrawForecast(by="ann", asked_at=self.jobs_fixture.clock.now(), ref=REF, reason="a mistake")
        return await handle_privileged_request(replace(parts, **changes), request)

    async def stale(self, *, after: timedelta) -> int:
        parts = StaleWithdrawalContext(
            ledger=self.jobs_fixture.ledger,
            execution_policies={VENUE: self.execution_policy},
            clock=self.jobs_fixture.clock,
            stale_after=after,
            grace_period=timedelta(hours=1),
        )
        return await withdraw_stale_forecasts(parts)


@pytest.fixture
async def paper(jobs_fixture: JobsFixture) -> AsyncIterator[WithdrawalFixture]:
    jobs_fixture.venue.add_questions(question(now=jobs_fixture.clock.now()))
    async with open_forecast_book(jobs_fixture.path / "book", jobs_fixture.clock) as book:
        jobs_fixture.book = book  # type: ignore[assignment] # the outbox takes any submitter
        yield WithdrawalFixture(
            jobs_fixture,
            book,
            ExecutionPolicy(venue=VENUE, mode=ExecutionMode.PAPER, primary_forecaster=FIRST, account="me"),
        )


async def test_what_stands_is_withdrawn_with_the_next_pass_and_a_later_forecast_stands_again(
    paper: WithdrawalFixture,
) -> None:
    await paper.passes()
    assert await paper.stands() == 0.3
    assert f"foxcast lock {REF}" in await paper.ask()
    assert await paper.stands() == 0.3
    await paper.jobs_fixture.clock.advance(60.0)
    await paper.jobs_fixture.submit()
    assert await paper.stands() is None
    standing = await paper.jobs_fixture.ledger.submissions.read_standing(REF, "me", paper=True)
    assert standing is not None
    assert (standing.action, dict(standing.predictions)) == (IntentAction.WITHDRAW, {})
    row = await paper.jobs_fixture.ledger.submissions.get(standing.id)
    assert row.state is IntentState.ACKED
    [audited] = await paper.jobs_fixture.ledger.permissions.recent_audit_rows(limit=9)
    assert (audited.kind, audited.actor, audited.body["reason"]) == ("withdraw", "ann", "a mistake")
    # The same forecast may stand again, since nothing does.
    await paper.jobs_fixture.clock.advance(4 * DAY.total_seconds())
    await paper.passes()
    assert await paper.stands() == 0.3


async def test_a_withdrawal_that_waits_leaves_before_a_newer_forecast(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.ask()
    await paper.jobs_fixture.clock.advance(4 * DAY.total_seconds())
    # The newer forecast may be held for good, and then what was asked for must be done all the same.
    await paper.passes(0.6)
    assert await paper.stands() is None
    await paper.jobs_fixture.clock.advance(60.0)
    await paper.jobs_fixture.submit()
    assert await paper.stands() == 0.6


async def test_asking_twice_for_what_is_gone_says_so(paper: WithdrawalFixture) -> None:
    with pytest.raises(RequestRejectedError, match="no forecast of it is published at lantern"):
        await paper.ask()
    await paper.passes()
    await paper.ask()
    with pytest.raises(RequestRejectedError, match="no forecast of it is published at lantern"):
        await paper.ask()


async def test_where_nothing_stands_until_it_is_withdrawn_nothing_can_be(paper: WithdrawalFixture) -> None:
    await paper.passes()
    with pytest.raises(RequestRejectedError, match="lantern has no forecasts that can be withdrawn"):
        await paper.ask(withdrawal_venues=frozenset())
    with pytest.raises(RequestRejectedError, match="lantern is off"):
        await paper.ask(execution_policies={VENUE: replace(paper.execution_policy, mode=ExecutionMode.OFF)})


async def test_a_stale_forecast_that_was_not_renewed_is_withdrawn_once(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.jobs_fixture.clock.advance((2 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 0
    await paper.jobs_fixture.clock.advance(timedelta(hours=2).total_seconds())
    assert await paper.stale(after=2 * DAY) == 1
    await paper.jobs_fixture.submit()
    assert await paper.stands() is None
    assert await paper.stale(after=2 * DAY) == 0


async def test_a_withdrawal_that_the_venue_refused_is_not_planned_again_in_each_pass(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.jobs_fixture.clock.advance((3 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 1
    submissions, now = paper.jobs_fixture.ledger.submissions, paper.jobs_fixture.clock.now()
    standing = await submissions.read_standing(REF, "me", paper=True)
    assert standing is not None
    await submissions.refuse([standing.id], why="405: closed early", at=now)
    assert await paper.stale(after=2 * DAY) == 0
    await paper.passes(0.4)
    await paper.jobs_fixture.clock.advance((3 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 1


async def test_a_withdrawal_that_is_only_planned_is_not_logged_as_done(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.jobs_fixture.clock.advance((3 * DAY).total_seconds())
    with capture_logs() as logs:
        assert await paper.stale(after=2 * DAY) == 1
    assert await paper.stands() == 0.3
    [entry] = [one for one in logs if one.get("question") == str(REF)]
    assert entry["event"].startswith("withdrawal planned")


async def test_what_was_renewed_by_the_same_forecast_goes_stale_again(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.jobs_fixture.clock.advance((4 * DAY).total_seconds())
    await paper.passes()
    assert await paper.stale(after=2 * DAY) == 0
    await paper.jobs_fixture.clock.advance((3 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 1
    await paper.jobs_fixture.submit()
    assert await paper.stands() is None


async def test_a_forecast_that_a_person_only_wanted_to_see_renews_nothing(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.jobs_fixture.clock.advance((2 * DAY).total_seconds())
    await wanted(paper.jobs_fixture, submit=False)
    assert await paper.stands() == 0.3
    assert await paper.stale(after=DAY) == 1


@pytest.mark.parametrize(("since", "withdrawn"), [(timedelta(minutes=5), 0), (3 * DAY, 1)])
async def test_a_forecast_that_is_being_made_renews_it_and_one_that_was_broken_off_long_ago_does_not(
    paper: WithdrawalFixture, since: timedelta, withdrawn: int
) -> None:
    jobs_fixture = paper.jobs_fixture
    await paper.passes()
    await jobs_fixture.clock.advance((4 * DAY - since).total_seconds())
    asked, now = await jobs_fixture.ledger.questions.get(REF), jobs_fixture.clock.now()
    await jobs_fixture.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="stale", now=now)
    )
    await jobs_fixture.clock.advance(since.total_seconds())
    assert await paper.stale(after=2 * DAY) == withdrawn


async def test_a_forecast_that_was_renewed_or_whose_question_closed_stays(paper: WithdrawalFixture) -> None:
    await paper.passes()
    await paper.jobs_fixture.clock.advance((4 * DAY).total_seconds())
    # The new one says the same, so nothing new leaves: the one that stands is as good as new.
    await paper.passes()
    assert await paper.stale(after=2 * DAY) == 0
    await paper.jobs_fixture.clock.advance((7 * DAY).total_seconds())
    assert await paper.stale(after=2 * DAY) == 0
    assert await paper.stands() == 0.3
