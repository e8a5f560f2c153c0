from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from bot.core.errors import NotFoundError, RequestRejectedError
from bot.core.permissions import ApprovalState, ArmRecord, SubmissionApproval, UserRole
from bot.core.submissions import HoldDecision
from bot.store import permissions
from bot.store.permissions import ALL_VENUES, PrincipalRecord, SubmissionHalt
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)


def arm(name: str = "one", **changes: Any) -> ArmRecord:
    given: dict[str, Any] = {
        "id": name,
        "venue": "lantern",
        "account": "us",
        "config": "digest",
        "by": "ann",
        "armed_at": NOON,
        "until": NOON + 24 * HOUR,
        "per_order": 1.0,
        "per_day": 2.5,
        "total": 10.0,
    }
    return ArmRecord(**(given | changes))


async def newest(ledger_fixture: LedgerFixture) -> ArmRecord | None:
    return (await ledger_fixture.ledger.permissions.read_status({"lantern": "us"}, now=NOON)).arms.get("lantern")


async def test_an_arm_record_comes_back_as_it_was_given(ledger_fixture: LedgerFixture) -> None:
    assert await newest(ledger_fixture) is None
    await ledger_fixture.ledger.permissions.write(lambda database: permissions.add_arm_record(database, arm()))
    assert await newest(ledger_fixture) == arm()


async def test_the_newest_record_holds_and_ends_those_before_it(ledger_fixture: LedgerFixture) -> None:
    later = arm("two", armed_at=NOON + HOUR, per_order=None)
    for one in (arm(), later, later):
        await ledger_fixture.ledger.permissions.write(partial(permissions.add_arm_record, arm=one))
    assert await newest(ledger_fixture) == later
    assert ledger_fixture.rows("select count(*), count(disarmed_at) from arm") == [(2, 1)]


async def test_disarming_ends_what_holds_and_says_whether_anything_did(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.permissions.write(lambda database: permissions.add_arm_record(database, arm()))
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.disarm_venue(database, "torch", at=NOON)
        )
        == 0
    )
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.disarm_venue(database, "lantern", at=NOON + HOUR)
        )
        == 1
    )
    assert await newest(ledger_fixture) == replace(arm(), disarmed_at=NOON + HOUR)
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.disarm_venue(database, "lantern", at=NOON + HOUR)
        )
        == 0
    )


async def test_stops_stand_until_they_are_resumed(ledger_fixture: LedgerFixture) -> None:
    here, all_over = (
        SubmissionHalt(venue="lantern", at=NOON, why="odd"),
        SubmissionHalt(venue=ALL_VENUES, at=NOON, why="storm", by="ann"),
    )
    for stop in (here, all_over, here):
        await ledger_fixture.ledger.permissions.write(partial(permissions.add_halt, halt=stop))
    assert await ledger_fixture.ledger.permissions.read(permissions.list_active_halts) == [here, all_over]
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.resume_submissions(database, "lantern", by="ann", at=NOON)
        )
        == 1
    )
    assert await ledger_fixture.ledger.permissions.read(permissions.list_active_halts) == [all_over]
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.resume_submissions(database, None, by="ann", at=NOON)
        )
        == 1
    )
    assert await ledger_fixture.ledger.permissions.read(permissions.list_active_halts) == []
    assert ledger_fixture.rows("select distinct resumed_by from halt") == [("ann",)]


@pytest.mark.parametrize(
    ("stop", "venue", "held"), [("", "lantern", True), ("lantern", "lantern", True), ("torch", "lantern", False)]
)
def test_a_stop_holds_its_venue_or_all(stop: str, venue: str, held: bool) -> None:  # noqa: FBT001 - a column of the table
    assert SubmissionHalt(venue=stop, at=NOON, why="odd").applies_to(venue) == held


async def asked(ledger_fixture: LedgerFixture, **changes: Any) -> SubmissionApproval:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    hold = HoldDecision(why="waits", until=NOON + HOUR)
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    given: dict[str, Any] = {
        "id": "abc123",
        "forecast": forecast.id,
        "venue": "lantern",
        "cost": 3.5,
        "state": ApprovalState.ASKED,
        "asked_at": NOON,
        "expires_at": NOON + 12 * HOUR,
        "shown": {"why": "mode approve"},
    }
    approval = SubmissionApproval(**(given | changes))
    await ledger_fixture.ledger.permissions.write(lambda database: permissions.request_approval(database, approval))
    return approval


async def answer(
    ledger_fixture: LedgerFixture, approval: SubmissionApproval, state: ApprovalState, *, after: timedelta = HOUR
) -> None:
    answered = replace(approval, state=state, by="ann")
    await ledger_fixture.ledger.permissions.write(
        lambda database: permissions.answer_approval(database, answered, at=NOON + after)
    )


async def test_an_approval_is_asked_and_answered_and_its_forecast_comes_before_the_gate_again(
    ledger_fixture: LedgerFixture,
) -> None:
    approval = await asked(ledger_fixture)
    assert await ledger_fixture.ledger.permissions.approvals() == [approval]
    later = NOON + timedelta(minutes=1)
    assert await ledger_fixture.ledger.forecasts.held(9, now=later) == []
    await answer(ledger_fixture, approval, ApprovalState.APPROVED, after=timedelta(minutes=1))
    assert [one.id for one in await ledger_fixture.ledger.forecasts.held(9, now=later)] == [approval.forecast]
    found = await ledger_fixture.ledger.permissions.approval(approval.forecast)
    assert found == replace(approval, state=ApprovalState.APPROVED, by="ann")
    assert await ledger_fixture.ledger.permissions.approvals() == []
    assert await ledger_fixture.ledger.permissions.approvals(everything=True) == [found]


async def test_an_answer_is_given_once_and_in_time(ledger_fixture: LedgerFixture) -> None:
    approval = await asked(ledger_fixture)
    with pytest.raises(RequestRejectedError, match="expired at 2026-03-02 00:00 UTC"):
        await answer(ledger_fixture, approval, ApprovalState.APPROVED, after=12 * HOUR)
    await answer(ledger_fixture, approval, ApprovalState.REJECTED)
    with pytest.raises(RequestRejectedError, match="abc123 is rejected already by ann"):
        await answer(ledger_fixture, approval, ApprovalState.APPROVED)


@pytest.mark.parametrize("name", ["zzz", "", "%", "_"])
async def test_a_name_that_is_no_approval_is_not_found(ledger_fixture: LedgerFixture, name: str) -> None:
    approval = await asked(ledger_fixture)
    with pytest.raises(NotFoundError, match="foxcast approvals"):
        await answer(ledger_fixture, replace(approval, id=name), ApprovalState.APPROVED)


async def test_the_beginning_of_an_id_is_enough(ledger_fixture: LedgerFixture) -> None:
    await answer(ledger_fixture, replace(await asked(ledger_fixture), id="abc"), ApprovalState.APPROVED)
    assert [one.state for one in await ledger_fixture.ledger.permissions.approvals(everything=True)] == [
        ApprovalState.APPROVED
    ]


async def test_approvals_expire_are_used_up_and_asked_again(ledger_fixture: LedgerFixture) -> None:
    approval = await asked(ledger_fixture)
    await answer(ledger_fixture, approval, ApprovalState.APPROVED)
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.expire_approvals(database, NOON + 11 * HOUR)
        )
        == 0
    )
    await ledger_fixture.ledger.permissions.write(
        lambda database: permissions.use_approval(database, approval.forecast)
    )
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.expire_approvals(database, NOON + 13 * HOUR)
        )
        == 0
    )
    again = replace(approval, id="def456", cost=4.0)
    await ledger_fixture.ledger.permissions.write(lambda database: permissions.request_approval(database, again))
    assert await ledger_fixture.ledger.permissions.approval(approval.forecast) == again
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.expire_approvals(database, NOON + 13 * HOUR)
        )
        == 1
    )


def person(name: str, role: UserRole) -> PrincipalRecord:
    return PrincipalRecord(name=name, role=role, salt="00", hash="11", made_at=NOON)


async def add(ledger_fixture: LedgerFixture, *people: PrincipalRecord) -> None:
    for one in people:
        await ledger_fixture.ledger.permissions.write(partial(permissions.add_principal, principal=one))


async def revoke(ledger_fixture: LedgerFixture, name: str) -> None:
    await ledger_fixture.ledger.permissions.write(
        lambda database: permissions.revoke_principal(database, name, at=NOON)
    )


async def test_the_first_principal_must_be_able_to_add_others(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(RequestRejectedError, match="must be an approver"):
        await add(ledger_fixture, person("bob", UserRole.VIEWER))
    await add(ledger_fixture, person("ann", UserRole.APPROVER), person("bob", UserRole.VIEWER))
    assert [one.name for one in await ledger_fixture.ledger.permissions.principals()] == ["ann", "bob"]


async def test_nobody_can_be_locked_out_by_taking_tokens_away(ledger_fixture: LedgerFixture) -> None:
    await add(ledger_fixture, person("ann", UserRole.APPROVER), person("bob", UserRole.OPERATOR))
    with pytest.raises(RequestRejectedError, match="ann is the last approver"):
        await revoke(ledger_fixture, "ann")
    await revoke(ledger_fixture, "bob")
    await revoke(ledger_fixture, "ann")
    assert await ledger_fixture.ledger.permissions.principals() == []


async def test_a_name_has_one_token_and_may_get_another_when_that_is_gone(ledger_fixture: LedgerFixture) -> None:
    await add(ledger_fixture, person("ann", UserRole.APPROVER), person("bob", UserRole.OPERATOR))
    with pytest.raises(RequestRejectedError, match="there is a principal bob"):
        await add(ledger_fixture, person("bob", UserRole.APPROVER))
    await revoke(ledger_fixture, "bob")
    with pytest.raises(NotFoundError, match="there is no principal bob"):
        await revoke(ledger_fixture, "bob")
    await add(ledger_fixture, person("bob", UserRole.APPROVER))


async def test_a_disarm_holds_though_the_clock_was_ahead_at_that_time(ledger_fixture: LedgerFixture) -> None:
    first, ahead = arm("first"), NOON + 99 * HOUR
    await ledger_fixture.ledger.permissions.write(lambda database: permissions.add_arm_record(database, first))
    assert (
        await ledger_fixture.ledger.permissions.write(
            lambda database: permissions.disarm_venue(database, "lantern", at=ahead)
        )
        == 1
    )
    assert await newest(ledger_fixture) == replace(first, disarmed_at=ahead)
    # Set right again, the clock is behind the first record, and the second one counts all the same.
    again = arm("second", armed_at=NOON - HOUR)
    await ledger_fixture.ledger.permissions.write(lambda database: permissions.add_arm_record(database, again))
    assert await newest(ledger_fixture) == again
