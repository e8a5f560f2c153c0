from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.core.errors import AuthenticationError, MalformedDataError
from bot.core.submissions import ExecutionMode, IntentState
from bot.execution.gate.readiness import MAX_CLOCK_SKEW_S, LiveReadiness, clock_fault, unsettled_fault
from bot.jobs.ledger_maintenance import AuditExportContext, verify_and_export_audit
from bot.jobs.live_readiness import CredentialCheck, ReadinessContext, check_readiness
from bot.store import permissions
from bot.store.audit_log import AUDIT_HEAD_FILE, AuditHead, AuditRow, read_exported_head
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture
from tests.unit.store.test_audit_log import tamper


def preparing(
    floor: TradingFixture, readiness: LiveReadiness, *, prove: CredentialCheck | None = None
) -> ReadinessContext:
    house = floor.house
    return ReadinessContext(
        readiness=readiness,
        ledger=house.ledger,
        path=house.path / "ledger.sqlite",
        execution_policies={VENUE: floor.execution_policy},
        clock=house.clock,
        clock_skew=lambda: 0.2,
        started_at=house.clock.now(),
        credentials={} if prove is None else {VENUE: prove},
    )


def test_nothing_counts_as_ready_before_it_was_looked_at() -> None:
    assert LiveReadiness().missing_requirements(VENUE) == (
        "credentials: was not checked yet",
        "reconciliation: was not checked yet",
        "clock: was not checked yet",
        "database: was not checked yet",
        "audit: was not checked yet",
    )


@pytest.mark.parametrize("offset", [0.0, MAX_CLOCK_SKEW_S, -MAX_CLOCK_SKEW_S])
def test_a_clock_within_bounds_is_good(offset: float) -> None:
    assert clock_fault(offset) == ""


@pytest.mark.parametrize("offset", [None, MAX_CLOCK_SKEW_S + 0.1, -MAX_CLOCK_SKEW_S - 0.1])
def test_a_clock_that_is_off_or_that_nobody_compared_is_not(offset: float | None) -> None:
    assert clock_fault(offset)


def test_a_few_doubts_are_borne_and_those_of_an_earlier_run_are_not() -> None:
    assert unsettled_fault(0, 3) == ""
    assert "4 submissions are without a known outcome" in unsettled_fault(0, 4)
    assert unsettled_fault(0, 4, limit=4) == ""
    assert "1 submissions of an earlier run" in unsettled_fault(1, 1)


async def test_a_live_venue_becomes_ready_once_all_was_looked_at(house: JobsFixture) -> None:
    floor, readiness = TradingFixture.of(house), LiveReadiness()
    floor.bound(ExecutionMode.LIVE)
    assert await check_readiness(preparing(floor, readiness)) == "lantern: ready"
    assert readiness.missing_requirements(VENUE) == ()


async def test_paper_needs_nothing(house: JobsFixture) -> None:
    assert await check_readiness(preparing(TradingFixture.of(house), LiveReadiness())) == "nothing is live"


async def test_credentials_are_proved_until_they_are_good_and_then_left_alone(house: JobsFixture) -> None:
    floor, readiness = TradingFixture.of(house), LiveReadiness()
    floor.bound(ExecutionMode.LIVE)
    answers: list[Exception | str] = [AuthenticationError("token refused"), KeyError("odd"), "account me"]

    async def prove() -> Sequence[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    parts = preparing(floor, readiness, prove=prove)
    assert "credentials: token refused" in await check_readiness(parts)
    assert "credentials: cannot be verified (KeyError)" in await check_readiness(parts)
    assert await check_readiness(parts) == "lantern: ready"
    assert await check_readiness(parts) == "lantern: ready"
    assert answers == []


async def test_doubts_of_an_earlier_run_must_be_settled_first(house: JobsFixture) -> None:
    floor, readiness = TradingFixture.of(house), LiveReadiness()
    floor.bound(ExecutionMode.LIVE)
    await floor.arm()
    floor.broker.lose_next_reply()
    await floor.forecast("rain")
    await floor.submit()
    await house.clock.advance(60)
    assert "1 submissions of an earlier run" in await check_readiness(preparing(floor, readiness))
    [row] = await house.ledger.submissions.batches(states=[IntentState.UNKNOWN])
    [item] = await house.ledger.submissions.intents(VENUE, "me", row.batch)
    await house.ledger.submissions.move_intent(item.intent.id, IntentState.ACKED, detail="", at=house.clock.now())
    assert await check_readiness(preparing(floor, readiness)) == "lantern: ready"


async def test_what_a_paper_book_does_not_know_keeps_no_live_venue_waiting(house: JobsFixture) -> None:
    floor = TradingFixture.of(house)
    floor.broker.lose_next_reply()
    await floor.forecast("rain")
    await floor.submit()
    floor.bound(ExecutionMode.LIVE)
    await house.clock.advance(60)
    assert await check_readiness(preparing(floor, LiveReadiness())) == "lantern: ready"


@pytest.mark.parametrize(("asked_of", "told"), [(True, "clock: has not been compared"), (False, "lantern: ready")])
async def test_a_clock_is_compared_where_a_venue_is_asked_at_all(house: JobsFixture, asked_of: bool, told: str) -> None:  # noqa: FBT001 - a case
    floor = TradingFixture.of(house)
    floor.bound(ExecutionMode.LIVE)

    async def prove() -> Sequence[str]:
        return ()

    parts = replace(preparing(floor, LiveReadiness(), prove=prove if asked_of else None), clock_skew=lambda: None)
    assert told in await check_readiness(parts)


def auditing(house: JobsFixture) -> AuditExportContext:
    return AuditExportContext(ledger=house.ledger, folder=house.path, clock=house.clock)


async def act(house: JobsFixture, count: int = 1) -> None:
    for _ in range(count):
        row = AuditRow(at=house.clock.now(), kind="halt", venue="", actor="ann", body={"reason": "odd"})
        await house.ledger.permissions.write_with_audit(lambda _: None, row)


async def test_the_head_is_exported_and_follows_the_chain(house: JobsFixture) -> None:
    assert await verify_and_export_audit(auditing(house)) == "0 rows verified"
    assert not (house.path / AUDIT_HEAD_FILE).exists()
    await act(house, 2)
    assert await verify_and_export_audit(auditing(house)) == "2 rows verified"
    await act(house)
    await verify_and_export_audit(auditing(house))
    assert read_exported_head(house.path / AUDIT_HEAD_FILE) == await house.ledger.permissions.head()


async def test_a_chain_that_was_shortened_stops_everything_and_keeps_the_old_head(house: JobsFixture) -> None:
    await act(house, 3)
    await verify_and_export_audit(auditing(house))
    head = read_exported_head(house.path / AUDIT_HEAD_FILE)
    tamper(house.path / "ledger.sqlite", "delete from audit where seq = 3")
    with pytest.raises(MalformedDataError, match="everything is halted: the audit is broken"):
        await verify_and_export_audit(auditing(house))
    [stop] = await house.ledger.permissions.read(permissions.list_active_halts)
    assert stop.venue == permissions.ALL_VENUES
    assert read_exported_head(house.path / AUDIT_HEAD_FILE) == head


async def test_nothing_is_sent_while_the_audit_is_broken_and_only_what_is_live_waits_for_it(house: JobsFixture) -> None:
    floor = TradingFixture.of(house)
    floor.readiness = LiveReadiness()
    floor.bound(ExecutionMode.LIVE)
    await floor.arm()
    await act(house, 3)
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 2")
    told = await check_readiness(preparing(floor, floor.readiness))
    assert "lantern: audit: is broken: row 2 was changed after it was written; compare it with a backup" in told
    await floor.forecast("rain")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    assert floor.bought() == []
    assert "audit: is broken" in (await floor.whys())[-1]
    floor.bound(ExecutionMode.PAPER)
    await floor.forecast("snow")
    assert (await floor.submit()).startswith("1 planned")


async def test_what_was_planned_before_the_audit_was_found_broken_does_not_leave(house: JobsFixture) -> None:
    floor = TradingFixture.of(house)
    floor.bound(ExecutionMode.LIVE)
    await floor.arm()
    await floor.forecast("rain")
    assert (await floor.submit(flush=False)).startswith("1 planned")
    await act(house)
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 1")
    await check_readiness(preparing(floor, floor.readiness))
    await floor.submit()
    assert floor.bought() == []


async def test_a_chain_that_is_mended_is_verified_as_a_whole_before_anything_is_sent_again(house: JobsFixture) -> None:
    floor, readiness = TradingFixture.of(house), LiveReadiness()
    floor.bound(ExecutionMode.LIVE)
    await act(house, 3)
    ledger = house.path / "ledger.sqlite"
    tamper(ledger, "update audit set actor = 'bob' where seq in (1, 3)")
    assert "row 1 was changed" in await check_readiness(preparing(floor, readiness))
    assert readiness.verified_audit_head == AuditHead()
    tamper(ledger, "update audit set actor = 'ann' where seq = 1")
    assert "row 3 was changed" in await check_readiness(preparing(floor, readiness))
    tamper(ledger, "update audit set actor = 'ann' where seq = 3")
    assert await check_readiness(preparing(floor, readiness)) == "lantern: ready"
    assert readiness.verified_audit_head == await house.ledger.permissions.head()


async def test_after_the_first_look_what_is_new_is_verified_and_the_row_before_it(house: JobsFixture) -> None:
    floor, readiness = TradingFixture.of(house), LiveReadiness()
    floor.bound(ExecutionMode.LIVE)
    await act(house, 2)
    assert await check_readiness(preparing(floor, readiness)) == "lantern: ready"
    await act(house, 2)
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 4")
    assert "row 4 was changed" in await check_readiness(preparing(floor, readiness))


async def test_a_tail_that_was_cut_off_or_a_head_that_is_none_is_found_before_anything_is_sent(
    house: JobsFixture,
) -> None:
    floor = TradingFixture.of(house)
    floor.bound(ExecutionMode.LIVE)
    await act(house, 3)
    await verify_and_export_audit(auditing(house))
    tamper(house.path / "ledger.sqlite", "delete from audit where seq = 3")
    assert "its tail was cut off" in await check_readiness(preparing(floor, LiveReadiness()))
    (house.path / AUDIT_HEAD_FILE).write_bytes(b"{}")
    assert "is not an exported head of the audit log" in await check_readiness(preparing(floor, LiveReadiness()))
