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
    trading_fixture: TradingFixture, readiness: LiveReadiness, *, prove: CredentialCheck | None = None
) -> ReadinessContext:
    jobs_fixture = trading_fixture.jobs_fixture
    return ReadinessContext(
        readiness=readiness,
        ledger=jobs_fixture.ledger,
        path=jobs_fixture.path / "ledger.sqlite",
        execution_policies={VENUE: trading_fixture.execution_policy},
        clock=jobs_fixture.clock,
        clock_skew=lambda: 0.2,
        started_at=jobs_fixture.clock.now(),
        credentials={} if prove is None else {VENUE: prove},
    )


def test_nothing_counts_as_ready_before_it_was_looked_at() -> None:
    assert LiveReadiness().missing_requirements(VENUE) == (
        "credentials: was not checked yet",
        "reconciliation: was not checked yet",
        "account: was not checked yet",
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


async def test_a_live_venue_becomes_ready_once_all_was_looked_at(jobs_fixture: JobsFixture) -> None:
    trading_fixture, readiness = TradingFixture.of(jobs_fixture), LiveReadiness()
    trading_fixture.bound(ExecutionMode.LIVE)
    assert await check_readiness(preparing(trading_fixture, readiness)) == "lantern: ready"
    assert readiness.missing_requirements(VENUE) == ()


async def test_paper_needs_nothing(jobs_fixture: JobsFixture) -> None:
    assert await check_readiness(preparing(TradingFixture.of(jobs_fixture), LiveReadiness())) == "nothing is live"


async def test_credentials_are_proved_until_they_are_good_and_then_left_alone(jobs_fixture: JobsFixture) -> None:
    trading_fixture, readiness = TradingFixture.of(jobs_fixture), LiveReadiness()
    trading_fixture.bound(ExecutionMode.LIVE)
    answers: list[Exception | str] = [AuthenticationError("token refused"), KeyError("odd"), "account me"]

    async def prove() -> Sequence[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    parts = preparing(trading_fixture, readiness, prove=prove)
    assert "credentials: token refused" in await check_readiness(parts)
    assert "credentials: cannot be verified (KeyError)" in await check_readiness(parts)
    assert await check_readiness(parts) == "lantern: ready"
    assert await check_readiness(parts) == "lantern: ready"
    assert answers == []


async def test_doubts_of_an_earlier_run_must_be_settled_first(jobs_fixture: JobsFixture) -> None:
    trading_fixture, readiness = TradingFixture.of(jobs_fixture), LiveReadiness()
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.arm()
    trading_fixture.broker.lose_next_reply()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    await jobs_fixture.clock.advance(60)
    assert "1 submissions of an earlier run" in await check_readiness(preparing(trading_fixture, readiness))
    [row] = await jobs_fixture.ledger.submissions.batches(states=[IntentState.UNKNOWN])
    [item] = await jobs_fixture.ledger.submissions.intents(VENUE, "me", row.batch)
    await jobs_fixture.ledger.submissions.move_intent(
        item.intent.id, IntentState.ACKED, detail="", at=jobs_fixture.clock.now()
    )
    assert await check_readiness(preparing(trading_fixture, readiness)) == "lantern: ready"


async def test_what_a_paper_book_does_not_know_keeps_no_live_venue_waiting(jobs_fixture: JobsFixture) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.broker.lose_next_reply()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    trading_fixture.bound(ExecutionMode.LIVE)
    await jobs_fixture.clock.advance(60)
    assert await check_readiness(preparing(trading_fixture, LiveReadiness())) == "lantern: ready"


@pytest.mark.parametrize(("asked_of", "told"), [(True, "clock: has not been compared"), (False, "lantern: ready")])
async def test_a_clock_is_compared_where_a_venue_is_asked_at_all(
    jobs_fixture: JobsFixture,
    asked_of: bool,  # noqa: FBT001 - a case
    told: str,
) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.bound(ExecutionMode.LIVE)

    async def prove() -> Sequence[str]:
        return ()

    parts = replace(
        preparing(trading_fixture, LiveReadiness(), prove=prove if asked_of else None), clock_skew=lambda: None
    )
    assert told in await check_readiness(parts)


def auditing(jobs_fixture: JobsFixture) -> AuditExportContext:
    return AuditExportContext(ledger=jobs_fixture.ledger, folder=jobs_fixture.path, clock=jobs_fixture.clock)


async def act(jobs_fixture: JobsFixture, count: int = 1) -> None:
    for _ in range(count):
        row = AuditRow(at=jobs_fixture.clock.now(), kind="halt", venue="", actor="ann", body={"reason": "odd"})
        await jobs_fixture.ledger.permissions.write_with_audit(lambda _: None, row)


async def test_the_head_is_exported_and_follows_the_chain(jobs_fixture: JobsFixture) -> None:
    assert await verify_and_export_audit(auditing(jobs_fixture)) == "0 rows verified"
    assert not (jobs_fixture.path / AUDIT_HEAD_FILE).exists()
    await act(jobs_fixture, 2)
    assert await verify_and_export_audit(auditing(jobs_fixture)) == "2 rows verified"
    await act(jobs_fixture)
    await verify_and_export_audit(auditing(jobs_fixture))
    assert read_exported_head(jobs_fixture.path / AUDIT_HEAD_FILE) == await jobs_fixture.ledger.permissions.head()


async def test_a_chain_that_was_shortened_stops_everything_and_keeps_the_old_head(jobs_fixture: JobsFixture) -> None:
    await act(jobs_fixture, 3)
    await verify_and_export_audit(auditing(jobs_fixture))
    head = read_exported_head(jobs_fixture.path / AUDIT_HEAD_FILE)
    tamper(jobs_fixture.path / "ledger.sqlite", "delete from audit where seq = 3")
    with pytest.raises(MalformedDataError, match="everything is halted: the audit is broken"):
        await verify_and_export_audit(auditing(jobs_fixture))
    [stop] = await jobs_fixture.ledger.permissions.read(permissions.list_active_halts)
    assert stop.venue == permissions.ALL_VENUES
    assert read_exported_head(jobs_fixture.path / AUDIT_HEAD_FILE) == head


async def test_nothing_is_sent_while_the_audit_is_broken_and_only_what_is_live_waits_for_it(
    jobs_fixture: JobsFixture,
) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.readiness = LiveReadiness()
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.arm()
    await act(jobs_fixture, 3)
    tamper(jobs_fixture.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 2")
    told = await check_readiness(preparing(trading_fixture, trading_fixture.readiness))
    assert "lantern: audit: is broken: row 2 was changed after it was written; compare it with a backup" in told
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    assert trading_fixture.bought() == []
    assert "audit: is broken" in (await trading_fixture.whys())[-1]
    trading_fixture.bound(ExecutionMode.PAPER)
    await trading_fixture.forecast("snow")
    assert (await trading_fixture.submit()).startswith("1 planned")


async def test_what_was_planned_before_the_audit_was_found_broken_does_not_leave(jobs_fixture: JobsFixture) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    assert (await trading_fixture.submit(flush=False)).startswith("1 planned")
    await act(jobs_fixture)
    tamper(jobs_fixture.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 1")
    await check_readiness(preparing(trading_fixture, trading_fixture.readiness))
    await trading_fixture.submit()
    assert trading_fixture.bought() == []


async def test_a_chain_that_is_mended_is_verified_as_a_whole_before_anything_is_sent_again(
    jobs_fixture: JobsFixture,
) -> None:
    trading_fixture, readiness = TradingFixture.of(jobs_fixture), LiveReadiness()
    trading_fixture.bound(ExecutionMode.LIVE)
    await act(jobs_fixture, 3)
    ledger = jobs_fixture.path / "ledger.sqlite"
    tamper(ledger, "update audit set actor = 'bob' where seq in (1, 3)")
    assert "row 1 was changed" in await check_readiness(preparing(trading_fixture, readiness))
    assert readiness.verified_audit_head == AuditHead()
    tamper(ledger, "update audit set actor = 'ann' where seq = 1")
    assert "row 3 was changed" in await check_readiness(preparing(trading_fixture, readiness))
    tamper(ledger, "update audit set actor = 'ann' where seq = 3")
    assert await check_readiness(preparing(trading_fixture, readiness)) == "lantern: ready"
    assert readiness.verified_audit_head == await jobs_fixture.ledger.permissions.head()


async def test_after_the_first_look_what_is_new_is_verified_and_the_row_before_it(jobs_fixture: JobsFixture) -> None:
    trading_fixture, readiness = TradingFixture.of(jobs_fixture), LiveReadiness()
    trading_fixture.bound(ExecutionMode.LIVE)
    await act(jobs_fixture, 2)
    assert await check_readiness(preparing(trading_fixture, readiness)) == "lantern: ready"
    await act(jobs_fixture, 2)
    tamper(jobs_fixture.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 4")
    assert "row 4 was changed" in await check_readiness(preparing(trading_fixture, readiness))


async def test_a_tail_that_was_cut_off_or_a_head_that_is_none_is_found_before_anything_is_sent(
    jobs_fixture: JobsFixture,
) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.bound(ExecutionMode.LIVE)
    await act(jobs_fixture, 3)
    await verify_and_export_audit(auditing(jobs_fixture))
    tamper(jobs_fixture.path / "ledger.sqlite", "delete from audit where seq = 3")
    assert "its tail was cut off" in await check_readiness(preparing(trading_fixture, LiveReadiness()))
    (jobs_fixture.path / AUDIT_HEAD_FILE).write_bytes(b"{}")
    assert "is not an exported head of the audit log" in await check_readiness(
        preparing(trading_fixture, LiveReadiness())
    )
