"""A person's word for what is in doubt."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from bot.domain.request import AdoptIntent
from bot.domain.submission import Intent, IntentState, Mode
from bot.errors import NotFound, Rejected
from bot.store.submissions import Adoption
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.jobs.market import Shopfloor
from tests.unit.jobs.test_permit import Office


class Doubt(Office):
    """An office with one order that got no answer."""

    async def begin(self) -> None:
        self.floor.bound(Mode.LIVE)
        await self.floor.arm()
        self.floor.broker.drop_reply()
        await self.floor.forecast("rain")
        await self.floor.submit()
        self.intent = (await self.of(IntentState.UNKNOWN)).id

    async def of(self, state: IntentState) -> Intent:
        [row] = await self.house.ledger.submissions.batches(states=[state])
        [item] = await self.house.ledger.submissions.intents(VENUE, "me", row.batch)
        return item.intent

    async def state(self) -> IntentState:
        return (await self.house.ledger.submissions.get(self.intent)).state


@pytest.fixture
async def doubt(house: House) -> AsyncIterator[Doubt]:
    doubt = Doubt(Shopfloor.of(house))
    await doubt.begin()
    yield doubt
    assert (await house.ledger.leave.verify()).sound


async def test_what_is_there_is_taken_over_under_its_name_with_a_row_in_the_audit(doubt: Doubt) -> None:
    said = await doubt.ask(AdoptIntent, intent=doubt.intent, reference="bet 7", reason="seen on the site")
    assert said == f"order {doubt.intent}: stands at the venue as bet 7, ann says so"
    assert await doubt.state() is IntentState.ACKED
    [row] = await doubt.house.ledger.leave.audited(limit=1)
    assert (row.kind, row.actor, row.venue) == ("adopt", "ann", VENUE)
    assert "bet 7" in str(dict(row.body))
    assert "seen on the site" in str(dict(row.body))


async def test_what_is_not_there_frees_what_it_might_have_cost(doubt: Doubt) -> None:
    await doubt.ask(AdoptIntent, intent=doubt.intent, absent=True)
    assert await doubt.state() is IntentState.SUPERSEDED
    assert await doubt.house.ledger.leave.waiting(VENUE, "me", paper=False) == 0.0
    with pytest.raises(Rejected, match="settled; there is nothing to say about it"):
        await doubt.ask(AdoptIntent, intent=doubt.intent, absent=True)


async def test_what_is_still_on_its_way_is_left_to_the_program(doubt: Doubt) -> None:
    await doubt.floor.forecast("snow")
    await doubt.floor.submit(flush=False)
    waiting = await doubt.of(IntentState.PLANNED)
    with pytest.raises(Rejected, match=f"order {waiting.id} is planned; foxcast run settles it first"):
        await doubt.ask(AdoptIntent, intent=waiting.id, absent=True)
    await doubt.house.ledger.submissions.begin_attempt([waiting.id], at=doubt.house.clock.now())
    with pytest.raises(Rejected, match=f"order {waiting.id} is sending; foxcast run settles it first"):
        await doubt.ask(AdoptIntent, intent=waiting.id, absent=True)


async def test_the_outbox_is_asked_where_one_is_open(doubt: Doubt) -> None:
    asked: list[Adoption] = []

    async def adopt(adoption: Adoption) -> None:
        asked.append(adoption)

    doubt.adopt = adopt
    await doubt.ask(AdoptIntent, intent=doubt.intent, absent=True)
    assert [(one.intent, one.state, one.by) for one in asked] == [(doubt.intent, IntentState.ABSENT, "ann")]
    assert await doubt.state() is IntentState.UNKNOWN


async def test_an_unknown_name_is_said_to_be_one(doubt: Doubt) -> None:
    with pytest.raises(NotFound):
        await doubt.ask(AdoptIntent, intent="nothing", absent=True)


@pytest.mark.parametrize("fields", [{}, {"reference": " "}, {"reference": "a", "absent": True}])
def test_one_thing_must_be_said(house: House, fields: dict[str, str | bool]) -> None:
    with pytest.raises(ValueError, match="say under which name"):
        AdoptIntent(by="ann", asked_at=house.clock.now() + timedelta(), intent="x", **fields)  # type: ignore[arg-type]
