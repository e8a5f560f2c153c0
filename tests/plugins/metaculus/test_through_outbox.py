"""The writer behind the real outbox and ledger: what is on record before a byte leaves, and what comes of faults."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bot.api import BinaryPrediction, ExecutionMode, Intent, IntentAction, IntentState
from bot.core.submissions import SendDecision
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.simulator.faults import FaultDetails, RequestFault
from bot.store.ledger import Ledger, open_ledger
from bot.store.submissions import BatchRow
from plugins.metaculus.question_names import VENUE, question_ref
from plugins.metaculus.writer import MAX_SEND_AGE_S, SETTLEMENT_DELAY_S, WRITE_DEADLINE_S
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.recorded_forecasts import record_forecast

UNTIL_PROOF_S = MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S + 1.0
IN_A_WHILE_S = 301.0


@dataclass(frozen=True, slots=True)
class OutboxSetup:
    """A ledger with its outbox, in live mode, in front of the site."""

    site: MetaculusFixture
    ledger: Ledger
    outbox: Outbox
    path: Path

    async def plan(self, there: Any, probability: float) -> Intent:
        """A new forecast of a question, decided to leave."""
        now = self.site.clock.now()
        question = await self.site.reader.find_question(question_ref(there.post, there.id).key)
        await self.ledger.questions.record([question], seen_at=now)
        forecast = await record_forecast(self.ledger, question, {"outcome": BinaryPrediction(probability)}, now)
        intent = Intent(
            id=f"intent-{forecast.id}",
            account="default",
            ref=question.ref,
            forecast=forecast.id,
            action=IntentAction.FORECAST,
            predictions=forecast.predictions,
            batch=f"intent-{forecast.id}",
        )
        return await self.decide(intent)

    async def decide(self, intent: Intent) -> Intent:
        send = SendDecision(intent=intent, mode=ExecutionMode.LIVE, why="armed")
        await self.ledger.submissions.decide(forecast_id=intent.forecast, decision=send, at=self.site.clock.now())
        return intent

    async def state(self, intent: Intent) -> IntentState:
        return (await self.ledger.submissions.get(intent.id)).state

    def on_record(self) -> list[tuple[str, str]]:
        """The state of each intent and the tag of its attempt, as another process reads them now."""
        with closing(sqlite3.connect(self.path)) as database:
            sql = "select i.state, a.tag from intent i left join attempt a on a.intent = i.id order by i.id"
            return [(str(state), str(tag)) for state, tag in database.execute(sql)]


@pytest.fixture
async def desk(site: MetaculusFixture, tmp_path: Path) -> AsyncIterator[OutboxSetup]:
    async def at_once(_: BatchRow, __: datetime) -> bool:
        return True

    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=site.clock.now()) as ledger:
        outbox = Outbox(
            ledger=ledger,
            submitters={VENUE: site.writer},
            clock=site.clock,
            kill_switch=KillSwitch(stop_file=tmp_path / "STOP", ledger_file=path),
            is_batch_ready=at_once,
            modes={VENUE: ExecutionMode.LIVE},
        )
        yield OutboxSetup(site, ledger, outbox, path)


async def test_mc_s10_the_intent_is_durable_before_the_request_leaves(desk: OutboxSetup) -> None:
    rain = desk.site.fake.world.add_question()
    await desk.plan(rain, 0.7)
    seen: list[tuple[str, str]] = []
    watch = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: seen.extend(desk.on_record()))
    desk.site.fake.faults.schedule(watch, method="POST")
    assert await desk.outbox.flush() == 1
    [(state, tag)] = seen
    assert state == IntentState.SENDING
    assert tag.startswith("forecast-")
    assert len(desk.site.ours(rain)) == 1


@pytest.mark.parametrize("fault", [RequestFault.DROPPED_AFTER, RequestFault.ERROR_AFTER, RequestFault.PAGE_AFTER])
async def test_mc_c3_what_arrived_without_an_answer_is_found_and_not_sent_again(
    desk: OutboxSetup, fault: RequestFault
) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    desk.site.fake.faults.schedule(fault, method="POST")
    assert await desk.outbox.flush() == 0
    assert await desk.state(intent) is IntentState.UNKNOWN
    assert await desk.outbox.flush() == 0, "in doubt, nothing is sent"
    assert await desk.outbox.reconcile() == 1
    assert await desk.state(intent) is IntentState.ACKED
    assert await desk.outbox.reconcile() == 0
    assert len(rain.forecasts_of(desk.site.bot.id)) == 1


@pytest.mark.parametrize("fault", [RequestFault.DROPPED_BEFORE, RequestFault.ERROR_BEFORE, RequestFault.PAGE_BEFORE])
async def test_mc_c3_what_did_not_arrive_is_sent_once_more_when_its_absence_is_proof(
    desk: OutboxSetup, fault: RequestFault
) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    desk.site.fake.faults.schedule(fault, method="POST")
    await desk.outbox.flush()
    assert await desk.outbox.reconcile() == 0, "it may still take effect"
    desk.site.clock.set_wall_clock(UNTIL_PROOF_S)
    assert await desk.outbox.reconcile() == 1
    desk.site.clock.set_wall_clock(IN_A_WHILE_S)
    assert await desk.outbox.flush() == 1
    assert await desk.state(intent) is IntentState.ACKED
    assert len(rain.forecasts_of(desk.site.bot.id)) == 1


async def test_a_comment_goes_after_its_forecast_and_never_twice(desk: OutboxSetup) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    said = replace(intent, id="said", batch="said", action=IntentAction.COMMENT, text="Because of the wind.")
    await desk.decide(said)
    desk.site.fake.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/api/comments/create/")
    await desk.outbox.flush()
    assert await desk.state(said) is IntentState.UNKNOWN
    await desk.outbox.reconcile()
    await desk.outbox.flush()
    assert await desk.state(said) is IntentState.ACKED
    assert desk.site.writes() == ["/api/questions/forecast/", "/api/comments/create/"]
    assert len(desk.site.fake.state.comments) == 1


async def test_a_question_that_closed_meanwhile_is_refused_and_nothing_is_written(desk: OutboxSetup) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    desk.site.fake.world.close(rain)
    assert await desk.outbox.flush() == 0
    assert await desk.state(intent) is IntentState.REFUSED
    assert desk.site.writes() == []
