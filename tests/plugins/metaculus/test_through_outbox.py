"""The writer behind the real outbox and ledger: what is on record before a byte leaves, and the results of faults."""

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
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow
from plugins.metaculus.question_names import VENUE, question_ref
from plugins.metaculus.writer import MAX_SEND_AGE_S, SETTLEMENT_DELAY_S, WRITE_DEADLINE_S
from tests.blank_ledger import open_blank_ledger
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
async def outbox_setup(site: MetaculusFixture, tmp_path: Path) -> AsyncIterator[OutboxSetup]:
    async def at_once(_: BatchRow, __: datetime) -> bool:
        return True

    path = tmp_path / "ledger.sqlite"
    async with open_blank_ledger(path, now=site.clock.now()) as ledger:
        outbox = Outbox(
            ledger=ledger,
            submitters={VENUE: site.writer},
            clock=site.clock,
            kill_switch=KillSwitch(stop_file=tmp_path / "STOP", ledger_file=path),
            is_batch_ready=at_once,
            modes={VENUE: ExecutionMode.LIVE},
        )
        yield OutboxSetup(site, ledger, outbox, path)


async def test_mc_s10_the_intent_is_durable_before_the_request_leaves(outbox_setup: OutboxSetup) -> None:
    rain = outbox_setup.site.fake.world.add_question()
    await outbox_setup.plan(rain, 0.7)
    seen: list[tuple[str, str]] = []
    watch = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: seen.extend(outbox_setup.on_record()))
    outbox_setup.site.fake.faults.schedule(watch, method="POST")
    assert await outbox_setup.outbox.flush() == 1
    [(state, tag)] = seen
    assert state == IntentState.SENDING
    assert tag.startswith("forecast-")
    assert len(outbox_setup.site.ours(rain)) == 1


@pytest.mark.parametrize("fault", [RequestFault.DROPPED_AFTER, RequestFault.ERROR_AFTER, RequestFault.PAGE_AFTER])
async def test_mc_c3_what_arrived_without_an_answer_is_found_and_not_sent_again(
    outbox_setup: OutboxSetup, fault: RequestFault
) -> None:
    rain = outbox_setup.site.fake.world.add_question()
    intent = await outbox_setup.plan(rain, 0.7)
    outbox_setup.site.fake.faults.schedule(fault, method="POST")
    assert await outbox_setup.outbox.flush() == 0
    assert await outbox_setup.state(intent) is IntentState.UNKNOWN
    assert await outbox_setup.outbox.flush() == 0, "in doubt, nothing is sent"
    assert await outbox_setup.outbox.reconcile() == 1
    assert await outbox_setup.state(intent) is IntentState.ACKED
    assert await outbox_setup.outbox.reconcile() == 0
    assert len(rain.forecasts_of(outbox_setup.site.bot.id)) == 1


@pytest.mark.parametrize("fault", [RequestFault.DROPPED_BEFORE, RequestFault.ERROR_BEFORE, RequestFault.PAGE_BEFORE])
async def test_mc_c3_what_did_not_arrive_is_sent_once_more_when_its_absence_is_proof(
    outbox_setup: OutboxSetup, fault: RequestFault
) -> None:
    rain = outbox_setup.site.fake.world.add_question()
    intent = await outbox_setup.plan(rain, 0.7)
    outbox_setup.site.fake.faults.schedule(fault, method="POST")
    await outbox_setup.outbox.flush()
    assert await outbox_setup.outbox.reconcile() == 0, "it may still take effect"
    outbox_setup.site.clock.set_wall_clock(UNTIL_PROOF_S)
    assert await outbox_setup.outbox.reconcile() == 1
    outbox_setup.site.clock.set_wall_clock(IN_A_WHILE_S)
    assert await outbox_setup.outbox.flush() == 1
    assert await outbox_setup.state(intent) is IntentState.ACKED
    assert len(rain.forecasts_of(outbox_setup.site.bot.id)) == 1


async def test_a_comment_goes_after_its_forecast_and_never_twice(outbox_setup: OutboxSetup) -> None:
    rain = outbox_setup.site.fake.world.add_question()
    intent = await outbox_setup.plan(rain, 0.7)
    reported = replace(intent, id="said", batch="said", action=IntentAction.COMMENT, text="Because of the wind.")
    await outbox_setup.decide(reported)
    outbox_setup.site.fake.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/api/comments/create/")
    await outbox_setup.outbox.flush()
    assert await outbox_setup.state(reported) is IntentState.UNKNOWN
    await outbox_setup.outbox.reconcile()
    await outbox_setup.outbox.flush()
    assert await outbox_setup.state(reported) is IntentState.ACKED
    assert outbox_setup.site.writes() == ["/api/questions/forecast/", "/api/comments/create/"]
    assert len(outbox_setup.site.fake.state.comments) == 1


async def test_a_question_that_closed_meanwhile_is_refused_and_nothing_is_written(outbox_setup: OutboxSetup) -> None:
    rain = outbox_setup.site.fake.world.add_question()
    intent = await outbox_setup.plan(rain, 0.7)
    outbox_setup.site.fake.world.close(rain)
    assert await outbox_setup.outbox.flush() == 0
    assert await outbox_setup.state(intent) is IntentState.REFUSED
    assert outbox_setup.site.writes() == []
