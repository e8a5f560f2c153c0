"""The writer behind the real outbox and ledger: what is on record before a byte leaves, and what comes of faults."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bot.api import Binary, Intent, IntentAction, IntentState, Mode
from bot.domain.submission import Send
from bot.gate.brake import Brake
from bot.outbox.outbox import Outbox
from bot.store.ledger import Ledger, open_ledger
from bot.store.submissions import BatchRow
from bot.testing.records import forecast_on_record
from bot.testing.venues.faults import Fault, Trouble
from plugins.metaculus.terms import VENUE, ref_of
from plugins.metaculus.writer import DEADLINE_S, FRESH_S, SETTLE_S
from tests.plugins.metaculus.conftest import Site

UNTIL_PROOF_S = FRESH_S + DEADLINE_S + SETTLE_S + 1.0
IN_A_WHILE_S = 301.0


@dataclass(frozen=True, slots=True)
class Desk:
    """A ledger with its outbox, in live mode, in front of the site."""

    site: Site
    ledger: Ledger
    outbox: Outbox
    path: Path

    async def plan(self, there: Any, probability: float) -> Intent:
        """A new forecast of a question, decided to leave."""
        now = self.site.clock.now()
        question = await self.site.reader.find(ref_of(there.post, there.id).key)
        await self.ledger.questions.record([question], seen_at=now)
        forecast = await forecast_on_record(self.ledger, question, {"outcome": Binary(probability)}, now)
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
        send = Send(intent=intent, mode=Mode.LIVE, why="armed")
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
async def desk(site: Site, tmp_path: Path) -> AsyncIterator[Desk]:
    async def at_once(_: BatchRow, __: datetime) -> bool:
        return True

    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=site.clock.now()) as ledger:
        outbox = Outbox(
            ledger=ledger,
            submitters={VENUE: site.writer},
            clock=site.clock,
            brake=Brake(stop_file=tmp_path / "STOP", ledger=path),
            ready=at_once,
            modes={VENUE: Mode.LIVE},
        )
        yield Desk(site, ledger, outbox, path)


async def test_mc_s10_the_intent_is_durable_before_the_request_leaves(desk: Desk) -> None:
    rain = desk.site.fake.world.add_question()
    await desk.plan(rain, 0.7)
    seen: list[tuple[str, str]] = []
    watch = Trouble(fault=Fault.MEANWHILE, meanwhile=lambda: seen.extend(desk.on_record()))
    desk.site.fake.faults.next(watch, method="POST")
    assert await desk.outbox.flush() == 1
    [(state, tag)] = seen
    assert state == IntentState.SENDING
    assert tag.startswith("forecast-")
    assert len(desk.site.ours(rain)) == 1


@pytest.mark.parametrize("fault", [Fault.DROPPED_AFTER, Fault.ERROR_AFTER, Fault.PAGE_AFTER])
async def test_mc_c3_what_arrived_without_an_answer_is_found_and_not_sent_again(desk: Desk, fault: Fault) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    desk.site.fake.faults.next(fault, method="POST")
    assert await desk.outbox.flush() == 0
    assert await desk.state(intent) is IntentState.UNKNOWN
    assert await desk.outbox.flush() == 0, "in doubt, nothing is sent"
    assert await desk.outbox.reconcile() == 1
    assert await desk.state(intent) is IntentState.ACKED
    assert await desk.outbox.reconcile() == 0
    assert len(rain.of(desk.site.bot.id)) == 1


@pytest.mark.parametrize("fault", [Fault.DROPPED_BEFORE, Fault.ERROR_BEFORE, Fault.PAGE_BEFORE])
async def test_mc_c3_what_did_not_arrive_is_sent_once_more_when_its_absence_is_proof(desk: Desk, fault: Fault) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    desk.site.fake.faults.next(fault, method="POST")
    await desk.outbox.flush()
    assert await desk.outbox.reconcile() == 0, "it may still take effect"
    desk.site.clock.step(UNTIL_PROOF_S)
    assert await desk.outbox.reconcile() == 1
    desk.site.clock.step(IN_A_WHILE_S)
    assert await desk.outbox.flush() == 1
    assert await desk.state(intent) is IntentState.ACKED
    assert len(rain.of(desk.site.bot.id)) == 1


async def test_a_comment_goes_after_its_forecast_and_never_twice(desk: Desk) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    said = replace(intent, id="said", batch="said", action=IntentAction.COMMENT, text="Because of the wind.")
    await desk.decide(said)
    desk.site.fake.faults.next(Fault.DROPPED_AFTER, method="POST", path="/api/comments/create/")
    await desk.outbox.flush()
    assert await desk.state(said) is IntentState.UNKNOWN
    await desk.outbox.reconcile()
    await desk.outbox.flush()
    assert await desk.state(said) is IntentState.ACKED
    assert desk.site.writes() == ["/api/questions/forecast/", "/api/comments/create/"]
    assert len(desk.site.fake.state.comments) == 1


async def test_a_question_that_closed_meanwhile_is_refused_and_nothing_is_written(desk: Desk) -> None:
    rain = desk.site.fake.world.add_question()
    intent = await desk.plan(rain, 0.7)
    desk.site.fake.world.close(rain)
    assert await desk.outbox.flush() == 0
    assert await desk.state(intent) is IntentState.REFUSED
    assert desk.site.writes() == []
