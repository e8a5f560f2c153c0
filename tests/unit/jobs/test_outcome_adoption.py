"""A person's word for what is in doubt."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from bot.core.errors import NotFoundError, RequestRejectedError
from bot.core.operator_requests import AdoptIntent
from bot.core.submissions import ExecutionMode, Intent, IntentState
from bot.store.submissions import OutcomeAdoption
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.test_privileged_requests import SignedRequestFixture
from tests.unit.jobs.trading_fixture import TradingFixture


class UnansweredOrderFixture(SignedRequestFixture):
    """An office with one order that got no answer."""

    async def begin(self) -> None:
        self.trading_fixture.bound(ExecutionMode.LIVE)
        await self.trading_fixture.arm()
        self.trading_fixture.broker.lose_next_reply()
        await self.trading_fixture.forecast("rain")
        await self.trading_fixture.submit()
        self.intent = (await self.of(IntentState.UNKNOWN)).id

    async def of(self, state: IntentState) -> Intent:
        [row] = await self.jobs_fixture.ledger.submissions.batches(states=[state])
        [item] = await self.jobs_fixture.ledger.submissions.intents(VENUE, "me", row.batch)
        return item.intent

    async def state(self) -> IntentState:
        return (await self.jobs_fixture.ledger.submissions.get(self.intent)).state


@pytest.fixture
async def doubt(jobs_fixture: JobsFixture) -> AsyncIterator[UnansweredOrderFixture]:
    doubt = UnansweredOrderFixture(TradingFixture.of(jobs_fixture))
    await doubt.begin()
    yield doubt
    assert (await jobs_fixture.ledger.permissions.verify()).sound


async def test_what_is_there_is_taken_over_under_its_name_with_a_row_in_the_audit(
    doubt: UnansweredOrderFixture,
) -> None:
    said = await doubt.ask(AdoptIntent, intent=doubt.intent, reference="bet 7", reason="seen on the site")
    assert said == f"order {doubt.intent}: exists at the venue as bet 7, according to ann"
    assert await doubt.state() is IntentState.ACKED
    [row] = await doubt.jobs_fixture.ledger.permissions.recent_audit_rows(limit=1)
    assert (row.kind, row.actor, row.venue) == ("adopt", "ann", VENUE)
    assert "bet 7" in str(dict(row.body))
    assert "seen on the site" in str(dict(row.body))


async def test_what_is_not_there_frees_what_it_might_have_cost(doubt: UnansweredOrderFixture) -> None:
    await doubt.ask(AdoptIntent, intent=doubt.intent, absent=True)
    assert await doubt.state() is IntentState.SUPERSEDED
    assert await doubt.jobs_fixture.ledger.permissions.unsettled_cost(VENUE, "me", paper=False) == 0.0
    with pytest.raises(RequestRejectedError, match="settled; there is nothing to adopt"):
        await doubt.ask(AdoptIntent, intent=doubt.intent, absent=True)


async def test_what_is_still_on_its_way_is_left_to_the_program(doubt: UnansweredOrderFixture) -> None:
    await doubt.trading_fixture.forecast("snow")
    await doubt.trading_fixture.submit(flush=False)
    waiting = await doubt.of(IntentState.PLANNED)
    with pytest.raises(RequestRejectedError, match=f"order {waiting.id} is planned; foxcast run settles it first"):
        await doubt.ask(AdoptIntent, intent=waiting.id, absent=True)
    await doubt.jobs_fixture.ledger.submissions.begin_attempt([waiting.id], at=doubt.jobs_fixture.clock.now())
    with pytest.raises(RequestRejectedError, match=f"order {waiting.id} is sending; foxcast run settles it first"):
        await doubt.ask(AdoptIntent, intent=waiting.id, absent=True)


async def test_the_outbox_is_asked_where_one_is_open(doubt: UnansweredOrderFixture) -> None:
    asked: list[OutcomeAdoption] = []

    async def adopt(adoption: OutcomeAdoption) -> None:
        asked.append(adoption)

    doubt.adopt = adopt
    await doubt.ask(AdoptIntent, intent=doubt.intent, absent=True)
    assert [(one.intent, one.state, one.by) for one in asked] == [(doubt.intent, IntentState.ABSENT, "ann")]
    assert await doubt.state() is IntentState.UNKNOWN


async def test_an_unknown_name_is_said_to_be_one(doubt: UnansweredOrderFixture) -> None:
    with pytest.raises(NotFoundError):
        await doubt.ask(AdoptIntent, intent="nothing", absent=True)


@pytest.mark.parametrize("fields", [{}, {"reference": " "}, {"reference": "a", "absent": True}])
def test_one_thing_must_be_said(jobs_fixture: JobsFixture, fields: dict[str, str | bool]) -> None:
    with pytest.raises(ValueError, match="state either the reference"):
        AdoptIntent(by="ann", asked_at=jobs_fixture.clock.now() + timedelta(), intent="x", **fields)  # type: ignore[arg-type]
