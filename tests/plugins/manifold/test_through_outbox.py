"""The writer behind the real outbox and ledger: what is on record before a byte leaves, and what follows a crash."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from bot.api import Binary, Intent, IntentAction, IntentState, Mode, PaperPlace
from bot.domain.submission import Send
from bot.gate.brake import Brake
from bot.outbox.outbox import Outbox
from bot.ports import Submitter
from bot.store.ledger import Ledger, open_ledger
from bot.store.submissions import BatchRow
from bot.testing.records import forecast_on_record
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.venues.manifold_state import Market
from plugins.manifold.paper import open_paper
from plugins.manifold.settings import VENUE
from plugins.manifold.state import milliseconds
from tests.plugins.manifold.stand import Stand, order_of

# Longer than an order lives, and what is under way and in caches.
UNTIL_PROOF_S = 1_000.0
IN_A_WHILE_S = 301.0


@dataclass(frozen=True, slots=True)
class Desk:
    """A ledger with its outbox in front of the venue."""

    stand: Stand
    ledger: Ledger
    path: Path

    def outbox(self, submitter: Submitter | None = None, mode: Mode = Mode.LIVE) -> Outbox:
        """A new one, as of a process that has just begun."""

        async def at_once(_: BatchRow, __: datetime) -> bool:
            return True

        return Outbox(
            ledger=self.ledger,
            submitters={VENUE: submitter or self.stand.writer()},
            clock=self.stand.clock,
            brake=Brake(stop_file=self.path.parent / "STOP", ledger=self.path),
            ready=at_once,
            modes={VENUE: mode},
        )

    async def plan(self, market: Market, name: str, mode: Mode = Mode.LIVE) -> Intent:
        """An order of its own, decided to leave."""
        now = self.stand.clock.now()
        question = await self.stand.question(market)
        await self.ledger.questions.record([question], seen_at=now)
        forecast = await forecast_on_record(self.ledger, question, {"outcome": Binary(0.7)}, now)
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
        send = Send(intent=intent, mode=mode, why="armed")
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
        return len(self.stand.venue.ledger.effects("bet", account=self.stand.ada.id))


@pytest.fixture
async def desk(stand: Stand, tmp_path: Path) -> AsyncIterator[Desk]:
    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=stand.clock.now()) as ledger:
        yield Desk(stand, ledger, path)


async def test_mf_s6_the_order_and_its_request_are_durable_before_it_leaves(desk: Desk) -> None:
    rain = desk.stand.world.add_market()
    await desk.plan(rain, "one")
    seen: list[tuple[str, str, str]] = []
    watch = Trouble(fault=Fault.MEANWHILE, meanwhile=lambda: seen.extend(desk.on_record()))
    desk.stand.venue.faults.next(watch, method="POST", path="/v0/bet")
    assert await desk.outbox().flush() == 1
    [(state, body, tag)] = seen
    assert state == IntentState.SENDING
    known, sent = json.loads(body), json.loads(desk.stand.asked("/v0/bet", "POST")[0].body)
    assert (known["contract"], known["leg"].upper()) == (sent["contractId"], sent["outcome"])
    assert (known["terms"]["amount"], float(known["terms"]["limit_prob"])) == (sent["amount"], sent["limitProb"])
    made_ms, expires_ms = tag.split("-")
    assert int(expires_ms) == sent["expiresAt"]
    assert 0 <= int(made_ms) - milliseconds(desk.stand.clock.now()) < 1_000


@pytest.mark.parametrize("fault", [Fault.DROPPED_AFTER, Fault.DROPPED_BEFORE])
async def test_mf_c4_what_is_unknown_is_read_back_before_the_first_new_bet(desk: Desk, fault: Fault) -> None:
    rain, snow = desk.stand.world.add_market("Rain?"), desk.stand.world.add_market("Snow?")
    old = await desk.plan(rain, "old")
    desk.stand.venue.faults.next(fault, method="POST", path="/v0/bet")
    await desk.outbox().flush()
    assert await desk.state(old) is IntentState.UNKNOWN
    # The process ends here, and the next one begins with what is not known.
    desk.stand.clock.step(UNTIL_PROOF_S)
    new = await desk.plan(snow, "new")
    desk.stand.venue.requests.clear()
    outbox = desk.outbox()
    await outbox.recover()
    await outbox.reconcile()
    assert await desk.state(old) is not IntentState.UNKNOWN
    await outbox.flush()
    assert await desk.state(new) is IntentState.ACKED
    paths = [(one.method, one.path) for one in desk.stand.venue.requests]
    assert paths.index(("GET", "/v0/bets")) < paths.index(("POST", "/v0/bet"))
    arrived = fault is Fault.DROPPED_AFTER
    desk.stand.clock.step(IN_A_WHILE_S)
    await outbox.flush()
    # An order of so long ago is decided on anew, not sent again.
    assert await desk.state(old) is (IntentState.ACKED if arrived else IntentState.SUPERSEDED)
    assert desk.bets() == 1 + arrived
    assert desk.stand.venue.ledger.doubles("bet", lambda effect: effect.subject) == {}


async def test_mf_x1_on_paper_nothing_is_posted(desk: Desk, tmp_path: Path) -> None:
    rain = desk.stand.world.add_market()
    intent = await desk.plan(rain, "one", Mode.PAPER)
    place = PaperPlace(clock=desk.stand.clock, http=desk.stand.http, folder=tmp_path, cash=1000.0, delay_s=0.0)
    async with open_paper(desk.stand.with_settings(dry_run=True, comments=True), place) as book:
        outbox = desk.outbox(book, Mode.PAPER)
        assert await outbox.flush() == 1
        assert await desk.state(intent) is IntentState.ACKED
        await outbox.reconcile()
    assert [one for one in desk.stand.venue.requests if one.method != "GET"] == []
    assert desk.stand.venue.ledger.effects() == []


def test_mf_x1_a_dry_run_is_an_option_that_is_off(stand: Stand) -> None:
    assert not stand.settings.dry_run
    assert not stand.settings.comments
