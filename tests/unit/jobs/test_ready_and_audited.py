from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.domain.submission import IntentState, Mode
from bot.errors import ContractError, Unauthorized
from bot.gate.readiness import MAX_OFFSET_S, Readiness, clock_fault, doubt_fault
from bot.jobs.audited import Auditing, export_head
from bot.jobs.ready import Credentials, Preparing, make_ready
from bot.store import stops
from bot.store.audit import HEAD_FILE, AuditRow, Head, read_head
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.jobs.market import Shopfloor
from tests.unit.store.test_audit import tamper


def preparing(floor: Shopfloor, readiness: Readiness, *, prove: Credentials | None = None) -> Preparing:
    house = floor.house
    return Preparing(
        readiness=readiness,
        ledger=house.ledger,
        path=house.path / "ledger.sqlite",
        lanes={VENUE: floor.lane},
        clock=house.clock,
        offset=lambda: 0.2,
        started_at=house.clock.now(),
        credentials={} if prove is None else {VENUE: prove},
    )


def test_nothing_counts_as_ready_before_it_was_looked_at() -> None:
    assert Readiness().lacking(VENUE) == (
        "credentials: was not looked at yet",
        "reconciliation: was not looked at yet",
        "clock: was not looked at yet",
        "database: was not looked at yet",
        "audit: was not looked at yet",
    )


@pytest.mark.parametrize("offset", [0.0, MAX_OFFSET_S, -MAX_OFFSET_S])
def test_a_clock_within_bounds_is_good(offset: float) -> None:
    assert clock_fault(offset) == ""


@pytest.mark.parametrize("offset", [None, MAX_OFFSET_S + 0.1, -MAX_OFFSET_S - 0.1])
def test_a_clock_that_is_off_or_that_nobody_compared_is_not(offset: float | None) -> None:
    assert clock_fault(offset)


def test_a_few_doubts_are_borne_and_those_of_an_earlier_run_are_not() -> None:
    assert doubt_fault(0, 3) == ""
    assert "4 submissions are without a known outcome" in doubt_fault(0, 4)
    assert doubt_fault(0, 4, most=4) == ""
    assert "1 submissions of an earlier run" in doubt_fault(1, 1)


async def test_a_live_venue_becomes_ready_once_all_was_looked_at(house: House) -> None:
    floor, readiness = Shopfloor.of(house), Readiness()
    floor.bound(Mode.LIVE)
    assert await make_ready(preparing(floor, readiness)) == "lantern: ready"
    assert readiness.lacking(VENUE) == ()


async def test_paper_needs_nothing(house: House) -> None:
    assert await make_ready(preparing(Shopfloor.of(house), Readiness())) == "nothing is live"


async def test_credentials_are_proved_until_they_are_good_and_then_left_alone(house: House) -> None:
    floor, readiness = Shopfloor.of(house), Readiness()
    floor.bound(Mode.LIVE)
    answers: list[Exception | str] = [Unauthorized("token refused"), KeyError("odd"), "account me"]

    async def prove() -> Sequence[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    parts = preparing(floor, readiness, prove=prove)
    assert "credentials: token refused" in await make_ready(parts)
    assert "credentials: cannot be proved (KeyError)" in await make_ready(parts)
    assert await make_ready(parts) == "lantern: ready"
    assert await make_ready(parts) == "lantern: ready"
    assert answers == []


async def test_doubts_of_an_earlier_run_must_be_settled_first(house: House) -> None:
    floor, readiness = Shopfloor.of(house), Readiness()
    floor.bound(Mode.LIVE)
    await floor.arm()
    floor.broker.drop_reply()
    await floor.forecast("rain")
    await floor.submit()
    await house.clock.advance(60)
    assert "1 submissions of an earlier run" in await make_ready(preparing(floor, readiness))
    [row] = await house.ledger.submissions.batches(states=[IntentState.UNKNOWN])
    [item] = await house.ledger.submissions.intents(VENUE, "me", row.batch)
    await house.ledger.submissions.mark(item.intent.id, IntentState.ACKED, detail="", at=house.clock.now())
    assert await make_ready(preparing(floor, readiness)) == "lantern: ready"


async def test_what_a_paper_book_does_not_know_keeps_no_live_venue_waiting(house: House) -> None:
    floor = Shopfloor.of(house)
    floor.broker.drop_reply()
    await floor.forecast("rain")
    await floor.submit()
    floor.bound(Mode.LIVE)
    await house.clock.advance(60)
    assert await make_ready(preparing(floor, Readiness())) == "lantern: ready"


@pytest.mark.parametrize(("asked_of", "told"), [(True, "clock: has not been compared"), (False, "lantern: ready")])
async def test_a_clock_is_compared_where_a_venue_is_asked_at_all(house: House, asked_of: bool, told: str) -> None:  # noqa: FBT001 - a case
    floor = Shopfloor.of(house)
    floor.bound(Mode.LIVE)

    async def prove() -> Sequence[str]:
        return ()

    parts = replace(preparing(floor, Readiness(), prove=prove if asked_of else None), offset=lambda: None)
    assert told in await make_ready(parts)


def auditing(house: House) -> Auditing:
    return Auditing(ledger=house.ledger, folder=house.path, clock=house.clock)


async def act(house: House, count: int = 1) -> None:
    for _ in range(count):
        row = AuditRow(at=house.clock.now(), kind="halt", venue="", actor="ann", body={"reason": "odd"})
        await house.ledger.leave.act(lambda _: None, row)


async def test_the_head_is_exported_and_follows_the_chain(house: House) -> None:
    assert await export_head(auditing(house)) == "0 rows verified"
    assert not (house.path / HEAD_FILE).exists()
    await act(house, 2)
    assert await export_head(auditing(house)) == "2 rows verified"
    await act(house)
    await export_head(auditing(house))
    assert read_head(house.path / HEAD_FILE) == await house.ledger.leave.head()


async def test_a_chain_that_was_shortened_stops_everything_and_keeps_the_old_head(house: House) -> None:
    await act(house, 3)
    await export_head(auditing(house))
    head = read_head(house.path / HEAD_FILE)
    tamper(house.path / "ledger.sqlite", "delete from audit where seq = 3")
    with pytest.raises(ContractError, match="everything stopped: the audit is broken"):
        await export_head(auditing(house))
    [stop] = await house.ledger.leave.read(stops.standing)
    assert stop.venue == stops.EVERYWHERE
    assert read_head(house.path / HEAD_FILE) == head


async def test_nothing_is_sent_while_the_audit_is_broken_and_only_what_is_live_waits_for_it(house: House) -> None:
    floor = Shopfloor.of(house)
    floor.readiness = Readiness()
    floor.bound(Mode.LIVE)
    await floor.arm()
    await act(house, 3)
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 2")
    told = await make_ready(preparing(floor, floor.readiness))
    assert "lantern: audit: is broken: row 2 was changed after it was written; compare it with a backup" in told
    await floor.forecast("rain")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    assert floor.bought() == []
    assert "audit: is broken" in (await floor.whys())[-1]
    floor.bound(Mode.PAPER)
    await floor.forecast("snow")
    assert (await floor.submit()).startswith("1 planned")


async def test_what_was_planned_before_the_audit_was_found_broken_does_not_leave(house: House) -> None:
    floor = Shopfloor.of(house)
    floor.bound(Mode.LIVE)
    await floor.arm()
    await floor.forecast("rain")
    assert (await floor.submit(flush=False)).startswith("1 planned")
    await act(house)
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 1")
    await make_ready(preparing(floor, floor.readiness))
    await floor.submit()
    assert floor.bought() == []


async def test_a_chain_that_is_mended_is_verified_as_a_whole_before_anything_is_sent_again(house: House) -> None:
    floor, readiness = Shopfloor.of(house), Readiness()
    floor.bound(Mode.LIVE)
    await act(house, 3)
    ledger = house.path / "ledger.sqlite"
    tamper(ledger, "update audit set actor = 'bob' where seq in (1, 3)")
    assert "row 1 was changed" in await make_ready(preparing(floor, readiness))
    assert readiness.verified == Head()
    tamper(ledger, "update audit set actor = 'ann' where seq = 1")
    assert "row 3 was changed" in await make_ready(preparing(floor, readiness))
    tamper(ledger, "update audit set actor = 'ann' where seq = 3")
    assert await make_ready(preparing(floor, readiness)) == "lantern: ready"
    assert readiness.verified == await house.ledger.leave.head()


async def test_after_the_first_look_what_is_new_is_verified_and_the_row_before_it(house: House) -> None:
    floor, readiness = Shopfloor.of(house), Readiness()
    floor.bound(Mode.LIVE)
    await act(house, 2)
    assert await make_ready(preparing(floor, readiness)) == "lantern: ready"
    await act(house, 2)
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 4")
    assert "row 4 was changed" in await make_ready(preparing(floor, readiness))


async def test_a_tail_that_was_cut_off_or_a_head_that_is_none_is_found_before_anything_is_sent(house: House) -> None:
    floor = Shopfloor.of(house)
    floor.bound(Mode.LIVE)
    await act(house, 3)
    await export_head(auditing(house))
    tamper(house.path / "ledger.sqlite", "delete from audit where seq = 3")
    assert "its tail was cut off" in await make_ready(preparing(floor, Readiness()))
    (house.path / HEAD_FILE).write_bytes(b"{}")
    assert "holds no head of an audit" in await make_ready(preparing(floor, Readiness()))
