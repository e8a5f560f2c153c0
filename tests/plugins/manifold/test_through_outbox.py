"""The writer behind the real outbox and ledger: what is on record before a byte leaves, and what follows a crash."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from bot.api import BinaryPrediction, ExecutionMode, Intent, IntentAction, IntentState, PaperBookContext
from bot.core.interfaces import VenueSubmitter
from bot.core.submissions import SendDecision, SubmissionBatch
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.jobs.foreign_writes import FOREIGN_WRITES, ForeignWriteCheck
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_state import FakeManifoldMarket
from bot.store import permissions
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow
from plugins.manifold.market_state import to_milliseconds
from plugins.manifold.paper_market import open_paper
from plugins.manifold.settings import VENUE
from tests.blank_ledger import open_blank_ledger
from tests.order_intents import make_intent
from tests.plugins.manifold.fixture import ManifoldFixture, order_of
from tests.recorded_forecasts import record_forecast

# Longer than an order lives, and what is under way and in caches.
UNTIL_PROOF_S = 1_000.0
IN_A_WHILE_S = 301.0


@dataclass(frozen=True, slots=True)
class OutboxSetup:
    """A ledger with its outbox in front of the venue."""

    manifold: ManifoldFixture
    ledger: Ledger
    path: Path

    def outbox(self, submitter: VenueSubmitter | None = None, mode: ExecutionMode = ExecutionMode.LIVE) -> Outbox:
        """A new one, as of a process that has just begun."""

        async def at_once(_: BatchRow, __: datetime) -> bool:
            return True

        return Outbox(
            ledger=self.ledger,
            submitters={VENUE: submitter or self.manifold.writer()},
            clock=self.manifold.clock,
            kill_switch=KillSwitch(stop_file=self.path.parent / "STOP", ledger_file=self.path),
            is_batch_ready=at_once,
            modes={VENUE: mode},
        )

    async def plan(self, market: FakeManifoldMarket, name: str, mode: ExecutionMode = ExecutionMode.LIVE) -> Intent:
        """An order of its own, decided to leave."""
        now = self.manifold.clock.now()
        question = await self.manifold.question(market)
        await self.ledger.questions.record([question], seen_at=now)
        forecast = await record_forecast(self.ledger, question, {"outcome": BinaryPrediction(0.7)}, now)
        intent = Intent(
            id=name,
            account="default",
            ref=question.ref,
            forecast=forecast.id,
            action=IntentAction.ORDER,
            predictions=forecast.predictions,
            batch=name,
            order=order_of(market),
        )
        send = SendDecision(intent=intent, mode=mode, why="armed")
        await self.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=now)
        return intent

    async def state(self, intent: Intent) -> IntentState:
        return (await self.ledger.submissions.get(intent.id)).state

    def on_record(self) -> list[tuple[str, str, str]]:
        """State, order and tag of the request of each intent, as another process reads them now."""
        with closing(sqlite3.connect(self.path)) as database:
            sql = (
                "select i.state, i.order_body, a.tag from intent i left join attempt a on a.intent = i.id order by i.id"
            )
            return [(str(state), str(body), str(tag)) for state, body, tag in database.execute(sql)]

    def bets(self) -> int:
        return len(self.manifold.venue.ledger.effects("bet", account=self.manifold.ada.id))


@pytest.fixture
async def outbox_setup(manifold: ManifoldFixture, tmp_path: Path) -> AsyncIterator[OutboxSetup]:
    path = tmp_path / "ledger.sqlite"
    async with open_blank_ledger(path, now=manifold.clock.now()) as ledger:
        yield OutboxSetup(manifold, ledger, path)


async def test_mf_s6_the_order_and_its_request_are_durable_before_it_leaves(outbox_setup: OutboxSetup) -> None:
    rain = outbox_setup.manifold.world.add_market()
    await outbox_setup.plan(rain, "one")
    seen: list[tuple[str, str, str]] = []
    watch = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: seen.extend(outbox_setup.on_record()))
    outbox_setup.manifold.venue.faults.schedule(watch, method="POST", path="/v0/bet")
    assert await outbox_setup.outbox().flush() == 1
    [(state, body, tag)] = seen
    assert state == IntentState.SENDING
    known, sent = json.loads(body), json.loads(outbox_setup.manifold.asked("/v0/bet", "POST")[0].body)
    assert (known["contract"], known["leg"].upper()) == (sent["contractId"], sent["outcome"])
    assert (known["stake"], float(known["terms"]["limit_prob"])) == (sent["amount"], sent["limitProb"])
    made_ms, expires_ms = tag.split("-")
    assert int(expires_ms) == sent["expiresAt"]
    assert 0 <= int(made_ms) - to_milliseconds(outbox_setup.manifold.clock.now()) < 1_000


@pytest.mark.parametrize("fault", [RequestFault.DROPPED_AFTER, RequestFault.DROPPED_BEFORE])
async def test_mf_c4_what_is_unknown_is_read_back_before_the_first_new_bet(
    outbox_setup: OutboxSetup, fault: RequestFault
) -> None:
    rain, snow = outbox_setup.manifold.world.add_market("Rain?"), outbox_setup.manifold.world.add_market("Snow?")
    old = await outbox_setup.plan(rain, "old")
    outbox_setup.manifold.venue.faults.schedule(fault, method="POST", path="/v0/bet")
    await outbox_setup.outbox().flush()
    assert await outbox_setup.state(old) is IntentState.UNKNOWN
    # The process ends here, and the next one begins with what is not known.
    outbox_setup.manifold.clock.set_wall_clock(UNTIL_PROOF_S)
    new = await outbox_setup.plan(snow, "new")
    outbox_setup.manifold.venue.requests.clear()
    outbox = outbox_setup.outbox()
    await outbox.recover()
    await outbox.reconcile()
    assert await outbox_setup.state(old) is not IntentState.UNKNOWN
    await outbox.flush()
    assert await outbox_setup.state(new) is IntentState.ACKED
    paths = [(one.method, one.path) for one in outbox_setup.manifold.venue.requests]
    assert paths.index(("GET", "/v0/bets")) < paths.index(("POST", "/v0/bet"))
    arrived = fault is RequestFault.DROPPED_AFTER
    outbox_setup.manifold.clock.set_wall_clock(IN_A_WHILE_S)
    await outbox.flush()
    # An order of so long ago is decided on anew, not sent again.
    assert await outbox_setup.state(old) is (IntentState.ACKED if arrived else IntentState.SUPERSEDED)
    assert outbox_setup.bets() == 1 + arrived
    assert outbox_setup.manifold.venue.ledger.doubled_effects("bet", lambda effect: effect.subject) == {}


async def test_mf_x1_on_paper_nothing_is_posted(outbox_setup: OutboxSetup, tmp_path: Path) -> None:
    rain = outbox_setup.manifold.world.add_market()
    intent = await outbox_setup.plan(rain, "one", ExecutionMode.PAPER)
    place = PaperBookContext(
        clock=outbox_setup.manifold.clock, http=outbox_setup.manifold.http, folder=tmp_path, cash=1000.0, delay_s=0.0
    )
    async with open_paper(outbox_setup.manifold.with_settings(dry_run=True, comments=True), place) as book:
        outbox = outbox_setup.outbox(book, ExecutionMode.PAPER)
        assert await outbox.flush() == 1
        assert await outbox_setup.state(intent) is IntentState.ACKED
        await outbox.reconcile()
    assert [one for one in outbox_setup.manifold.venue.requests if one.method != "GET"] == []
    assert outbox_setup.manifold.venue.ledger.effects() == []


def test_mf_x1_a_dry_run_is_an_option_that_is_off(manifold: ManifoldFixture) -> None:
    assert not manifold.settings.dry_run
    assert not manifold.settings.comments


def foreign_check(here: OutboxSetup, *, hand_trading: bool = False) -> ForeignWriteCheck:
    policy = ExecutionPolicy(
        venue=VENUE,
        mode=ExecutionMode.LIVE,
        primary_forecaster="solo",
        account="default",
        hand_trading=hand_trading,
    )
    return ForeignWriteCheck(
        ledger=here.ledger,
        clock=here.manifold.clock,
        execution_policies={VENUE: policy},
        submitters={VENUE: here.manifold.writer()},
        since=here.manifold.clock.now(),
    )


async def halts(here: OutboxSetup) -> list[str]:
    return [halt.why for halt in await here.ledger.permissions.read(permissions.list_active_halts)]


async def bet_by_hand(here: OutboxSetup, name: str) -> None:
    """A bet of the same account that the ledger knows nothing of."""
    market = here.manifold.world.add_market(name)
    question = await here.manifold.question(market)
    intent = make_intent(question, order_of(market), name)
    batch = SubmissionBatch(key=name, intents=(intent,), questions=(question,))
    writer = here.manifold.writer()
    sealed = replace(batch, sealed=tuple(await writer.seal_requests(batch)))
    [receipt] = await writer.submit(sealed)
    assert receipt.state is IntentState.ACKED


async def test_a_bet_that_the_ledger_does_not_know_halts_the_venue_until_a_person_resumes(
    outbox_setup: OutboxSetup,
) -> None:
    await bet_by_hand(outbox_setup, "Before the folder was made?")
    outbox_setup.manifold.clock.advance_without_waking(60)
    check = foreign_check(outbox_setup)
    await outbox_setup.plan(outbox_setup.manifold.world.add_market(), "own")
    await outbox_setup.outbox().flush()
    assert await check.check_venue(VENUE) == ""
    assert await halts(outbox_setup) == []

    await bet_by_hand(outbox_setup, "By whom?")
    outbox_setup.manifold.clock.advance_without_waking(60)
    assert await foreign_check(outbox_setup, hand_trading=True).check_venue(VENUE) == ""
    assert await halts(outbox_setup) == []
    assert await check.check_venue(VENUE) == ""
    [why] = await halts(outbox_setup)
    assert why.startswith(f"{FOREIGN_WRITES}: a bet of ")
    assert "hand_trading = true in [venues.manifold]" in why
    assert await check.check_venue(VENUE) == ""
    assert await halts(outbox_setup) == [why]

    now = outbox_setup.manifold.clock.now()
    await outbox_setup.ledger.permissions.write(
        lambda database: permissions.resume_submissions(database, VENUE, by="ada", at=now)
    )
    assert await check.check_venue(VENUE) == ""
    assert await halts(outbox_setup) == []


async def test_an_own_bet_without_an_answer_is_not_taken_for_that_of_another(outbox_setup: OutboxSetup) -> None:
    check = foreign_check(outbox_setup)
    await outbox_setup.plan(outbox_setup.manifold.world.add_market(), "own")
    outbox_setup.manifold.venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/v0/bet")
    await outbox_setup.outbox().flush()
    assert outbox_setup.bets() == 1
    assert await check.check_venue(VENUE) == ""
    assert await halts(outbox_setup) == []
    await outbox_setup.manifold.clock.advance(UNTIL_PROOF_S)
    await outbox_setup.outbox().reconcile()
    assert await check.check_venue(VENUE) == ""
    assert await halts(outbox_setup) == []


async def test_a_bet_that_the_list_of_the_venue_shows_late_halts_it_too(outbox_setup: OutboxSetup) -> None:
    check = foreign_check(outbox_setup)
    await bet_by_hand(outbox_setup, "By whom?")
    outbox_setup.manifold.clock.advance_without_waking(60)
    without_it = FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: [])
    outbox_setup.manifold.venue.faults.schedule(without_it, method="GET", path="/v0/bets")
    assert await check.check_venue(VENUE) == ""
    assert await halts(outbox_setup) == []
    outbox_setup.manifold.clock.advance_without_waking(60)
    assert await check.check_venue(VENUE) == ""
    assert len(await halts(outbox_setup)) == 1


async def test_a_list_that_cannot_be_read_is_told_and_nothing_is_concluded(outbox_setup: OutboxSetup) -> None:
    check = foreign_check(outbox_setup)
    await bet_by_hand(outbox_setup, "By whom?")
    outbox_setup.manifold.clock.advance_without_waking(60)
    outbox_setup.manifold.venue.faults.schedule(RequestFault.TRUNCATED, method="GET", path="/v0/bets")
    assert (await check.check_venue(VENUE)).startswith("what it did cannot be read (")
    assert await halts(outbox_setup) == []
    assert await check.check_venue(VENUE) == ""
    assert len(await halts(outbox_setup)) == 1
