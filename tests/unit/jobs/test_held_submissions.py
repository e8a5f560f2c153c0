"""What was held, or planned, under other circumstances: asked about again, it leaves under the rules of today."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from bot.core.operator_requests import ArmVenue, HaltSubmissions, ResumeSubmissions
from bot.core.submissions import ExecutionMode, IntentState
from bot.execution.gate.gate import PreSendCheck
from bot.jobs.live_readiness import check_readiness, refresh_readiness
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.jobs.submission import RunStart
from bot.store import permissions
from bot.store.requests import REFUSED_FOLDER, REQUEST_FOLDER, send_request
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.test_live_readiness import preparing
from tests.unit.jobs.test_privileged_requests import SignedRequestFixture
from tests.unit.jobs.trading_fixture import TradingFixture

ARM: dict[str, Any] = {"per_order": 20.0, "per_day": 50.0, "total": 100.0}


@pytest.fixture
async def office(jobs_fixture: JobsFixture) -> AsyncIterator[SignedRequestFixture]:
    office = SignedRequestFixture(TradingFixture.of(jobs_fixture))
    yield office
    assert (await jobs_fixture.ledger.permissions.verify()).sound


async def test_what_was_held_unarmed_leaves_with_the_first_pass_after_arming(office: SignedRequestFixture) -> None:
    await office.trading_fixture.forecast("rain")
    assert await office.trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await office.ask(ArmVenue, **ARM)
    assert await office.trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_what_a_halt_held_leaves_with_the_first_pass_after_resuming(office: SignedRequestFixture) -> None:
    await office.ask(ArmVenue, **ARM)
    await office.ask(HaltSubmissions, reason="odd", venue=VENUE)
    await office.trading_fixture.forecast("rain")
    assert await office.trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await office.jobs_fixture.clock.advance(1)
    await office.ask(ResumeSubmissions)
    assert await office.trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


@pytest.mark.parametrize("lost", [4, 1])
async def test_what_was_found_before_a_stop_holds_nothing_back_after_it(
    office: SignedRequestFixture, lost: int
) -> None:
    trading_fixture, ledger = office.trading_fixture, office.jobs_fixture.ledger
    parts = preparing(trading_fixture, trading_fixture.readiness)
    trading_fixture.look = partial(refresh_readiness, parts)
    await office.ask(ArmVenue, per_order=20.0, per_day=100.0, total=100.0)
    for _ in range(lost):
        trading_fixture.broker.lose_next_reply()
    await trading_fixture.forecast("a", "b", "c", "d")
    await trading_fixture.submit()
    await check_readiness(parts)
    assert bool(trading_fixture.readiness.missing_requirements(VENUE)) is (lost == 4)
    # What nobody knew is known, and a person who does not wait for that says so.
    await trading_fixture.forecast("rain")
    if lost == 4:
        assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
        await office.jobs_fixture.clock.advance(1)
        await office.ask(ResumeSubmissions)
    assert (await trading_fixture.submit()).endswith("1 acknowledged")
    assert (await ledger.submissions.count_unsettled(VENUE, now=office.jobs_fixture.clock.now())).blocking == lost % 4


async def test_what_writes_without_an_outcome_held_leaves_with_the_first_pass_after_they_were_read_back(
    office: SignedRequestFixture,
) -> None:
    trading_fixture = office.trading_fixture
    parts = preparing(trading_fixture, trading_fixture.readiness)
    trading_fixture.look = partial(refresh_readiness, parts)
    await office.ask(ArmVenue, per_order=20.0, per_day=100.0, total=100.0)
    for _ in range(4):
        trading_fixture.broker.lose_next_reply()
    await trading_fixture.forecast("a", "b", "c", "d")
    await trading_fixture.submit()
    await check_readiness(parts)
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await office.jobs_fixture.clock.advance(1)
    assert await trading_fixture.outbox.reconcile() == 4
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_credentials_that_failed_are_proved_again_after_a_resume(office: SignedRequestFixture) -> None:
    trading_fixture, asked = office.trading_fixture, list[str]()

    async def prove() -> list[str]:
        asked.append("proved")
        return []

    trading_fixture.look = partial(
        refresh_readiness, preparing(trading_fixture, trading_fixture.readiness, prove=prove)
    )
    await office.ask(ArmVenue, **ARM)
    trading_fixture.readiness.credentials[VENUE] = "the token is refused"
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await office.jobs_fixture.clock.advance(1)
    await office.ask(ResumeSubmissions)
    assert (await trading_fixture.submit(), asked) == ("1 planned, 0 held, 1 acknowledged", ["proved"])


async def test_a_clock_that_was_set_holds_what_the_next_pass_decides_until_it_is_right(
    office: SignedRequestFixture,
) -> None:
    trading_fixture, ahead_s = office.trading_fixture, [0.2]
    parts = replace(preparing(trading_fixture, trading_fixture.readiness), clock_skew=lambda: ahead_s[-1])
    trading_fixture.look = partial(refresh_readiness, parts)
    await office.ask(ArmVenue, **ARM)
    await check_readiness(parts)
    ahead_s.append(60.0)
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    ahead_s.append(0.2)
    await office.jobs_fixture.clock.advance(601)
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_a_new_run_asks_about_everything_that_is_held_and_no_later_pass_does(
    office: SignedRequestFixture,
) -> None:
    trading_fixture = office.trading_fixture
    await office.ask(ArmVenue, **ARM)
    trading_fixture.wants.edge = 0.0
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    begin = RunStart()
    assert await trading_fixture.submit(begin=begin) == "0 planned, 1 held, 0 acknowledged"
    assert await trading_fixture.submit(begin=begin) == "0 planned, 0 held, 0 acknowledged"
    trading_fixture.wants.edge = 0.1
    assert await trading_fixture.submit(begin=RunStart()) == "1 planned, 0 held, 1 acknowledged"


async def test_what_waits_is_told_with_the_reason_that_most_of_it_has(office: SignedRequestFixture) -> None:
    await office.trading_fixture.forecast("rain", "snow")
    told = await office.trading_fixture.told()
    assert told.startswith("0 planned, 2 held, 0 acknowledged; 2 wait: lantern is not armed")


async def test_an_intent_planned_under_an_earlier_arm_record_is_planned_anew_under_the_new_one(
    office: SignedRequestFixture,
) -> None:
    trading_fixture = office.trading_fixture
    await office.ask(ArmVenue, **ARM)
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit(flush=False) == "1 planned, 0 held, 0 acknowledged"
    await office.jobs_fixture.clock.advance(1)
    await office.ask(ArmVenue, per_order=1.0, per_day=1.0, total=1.0)
    await trading_fixture.outbox.flush()
    assert trading_fixture.bought() == []
    await trading_fixture.submit()
    assert trading_fixture.bought() == [1.0]


async def test_an_arm_record_that_comes_while_an_order_is_planned_binds_it(office: SignedRequestFixture) -> None:
    trading_fixture = office.trading_fixture
    await office.ask(ArmVenue, **ARM)

    async def meanwhile() -> None:
        await office.jobs_fixture.clock.advance(1)
        await office.ask(ArmVenue, per_order=1.0, per_day=1.0, total=1.0)
        trading_fixture.wants.meanwhile = None

    trading_fixture.wants.meanwhile = meanwhile
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    assert trading_fixture.bought() == []


async def test_a_plan_is_not_fresh_because_the_clock_was_set_back(office: SignedRequestFixture) -> None:
    trading_fixture = office.trading_fixture
    await office.ask(ArmVenue, **ARM)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit(flush=False)
    [row] = await office.jobs_fixture.ledger.submissions.batches(states=[IntentState.PLANNED])
    [item] = await office.jobs_fixture.ledger.submissions.intents(VENUE, "me", row.batch)
    recheck = trading_fixture.outbox.pre_send_check
    assert isinstance(recheck, PreSendCheck)
    assert await recheck(item.intent) is None
    await office.jobs_fixture.clock.advance(-60)
    assert await recheck(item.intent) is not None


async def test_what_was_stopped_after_a_resume_was_asked_stays_stopped(office: SignedRequestFixture) -> None:
    stop = office.jobs_fixture.path / "STOP"
    early = office.request(ResumeSubmissions)
    await office.jobs_fixture.clock.advance(600)
    await office.ask(HaltSubmissions, reason="bob saw something")
    written = (office.jobs_fixture.clock.now() - timedelta(seconds=5)).timestamp()
    os.utime(stop, (written, written))
    send_request(office.jobs_fixture.path, early, at=early.asked_at)
    await office.jobs_fixture.clock.advance(1)
    parts = OperatorRequestContext(
        folder=office.jobs_fixture.path,
        ledger=office.jobs_fixture.ledger,
        clock=office.jobs_fixture.clock,
        privileged_requests=office.parts,
    )
    await handle_requests(parts)
    assert len(await office.standing()) == 1
    assert stop.exists()
    await office.ask(ResumeSubmissions)
    assert await office.standing() == []
    assert not stop.exists()


async def test_a_halt_that_waited_ends_with_the_resume_that_was_asked_after_it(office: SignedRequestFixture) -> None:
    folder, clock = office.jobs_fixture.path, office.jobs_fixture.clock
    for kind, more in ((HaltSubmissions, {"reason": "bob looks there"}), (ResumeSubmissions, {})):
        request = office.request(kind, venue=VENUE, **more)
        send_request(folder, request, at=request.asked_at)
        await clock.advance(60)
    # Only now a daemon runs.
    parts = OperatorRequestContext(
        folder=folder, ledger=office.jobs_fixture.ledger, clock=clock, privileged_requests=office.parts
    )
    assert await handle_requests(parts) == "2 requests done"
    assert await office.standing() == []


@pytest.mark.parametrize("odd", ['{"kind":"arm","proof":"é"}', "[" * 5000, "\x00", '{"kind":"resume","by":1}'])
async def test_a_halt_is_done_whatever_else_waits(office: SignedRequestFixture, odd: str) -> None:
    folder = office.jobs_fixture.path / REQUEST_FOLDER
    folder.mkdir()
    (folder / "0000.json").write_text(odd)
    halt = office.request(HaltSubmissions, reason="odd", venue=VENUE)
    send_request(office.jobs_fixture.path, halt, at=halt.asked_at)
    parts = OperatorRequestContext(
        folder=office.jobs_fixture.path,
        ledger=office.jobs_fixture.ledger,
        clock=office.jobs_fixture.clock,
        privileged_requests=office.parts,
    )
    assert await handle_requests(parts) == "1 requests done, 1 refused"
    assert [one.venue for one in await office.standing()] == [VENUE]
    assert len([*(folder / REFUSED_FOLDER).iterdir()]) == 1


async def test_a_loss_that_the_first_reading_shows_holds_before_anything_is_bought(
    office: SignedRequestFixture,
) -> None:
    trading_fixture, ledger = office.trading_fixture, office.jobs_fixture.ledger
    trading_fixture.bound(ExecutionMode.LIVE, daily_loss=100.0)
    await office.ask(ArmVenue, **ARM)
    trading_fixture.broker.cash = 1000.0
    await ledger.readings.add(VENUE, "me", await trading_fixture.broker.account(), paper=False)
    await office.jobs_fixture.clock.advance(60)
    trading_fixture.broker.cash = 100.0
    await trading_fixture.forecast("rain", "snow")
    assert await trading_fixture.submit() == "0 planned, 2 held, 0 acknowledged"
    assert trading_fixture.bought() == []
    [stop] = await ledger.permissions.read(permissions.list_active_halts)
    assert "900.00 was lost today" in stop.why


async def test_markets_that_were_read_for_the_joint_sizes_a_while_ago_are_read_again_before_each_order(
    office: SignedRequestFixture,
) -> None:
    trading_fixture = office.trading_fixture
    await office.ask(ArmVenue, **ARM)
    sent: list[int] = []

    async def meanwhile() -> None:
        sent.append(len(trading_fixture.bought()))
        await trading_fixture.jobs_fixture.clock.advance(20)

    trading_fixture.wants.meanwhile = meanwhile
    await trading_fixture.forecast("rain", "snow", "fog")
    assert await trading_fixture.submit() == "3 planned, 0 held, 3 acknowledged"
    assert sent == [0, 0, 0, 0, 1, 2]
