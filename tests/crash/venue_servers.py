"""The other side of a kill scenario: a fake venue on the loopback interface, and what it knows for certain."""

from __future__ import annotations

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.core.clock import SeededRandom, SystemClock
from bot.core.ids import sha256_hex
from bot.core.plugin_specs import PluginContext
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.net.client import RetryingHttpClient
from bot.simulator.fake_service import FakeService, ServedService
from bot.simulator.faults import FaultSchedule
from bot.simulator.request_log import LoggedRequest
from bot.simulator.venues import manifold_responses
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.simulator.venues.manifold_state import FakeManifoldBet, FakeManifoldMarket
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakePolymarketUser
from bot.store.intents import ORDER_SERIALIZER
from plugins.manifold.market_parser import parse_market
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings
from tests.crash.kill_points import FastClock
from tests.crash.kill_scenario import InvariantViolation
from tests.crash.reading import read_rows
from tests.crash.unprotected_exchange import UnprotectedExchange
from tests.crash.venue_clients import CASH, COST, DOLLARS, KEY, TOKEN, USERNAME, VENUE_CLIENTS
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, KINDS, key_file, order_of
from tests.plugins.polymarket.writer_fixture import KEY as DOLLAR_KEY

QUESTIONS = 5
CENT = 1e-6
# Some markets fill an order of the campaign at once, some leave a rest of it: pools of these depths at one half.
DEPTHS = (40.0, 60.0, 80.0, 120.0, 50.0)


class ScenarioVenue(ABC):
    """A venue of one story. ``fake`` is served; ``trades`` says whether what leaves costs something."""

    name: str
    fake: FakeService
    trades = False

    @abstractmethod
    async def questions(self, served: ServedService, folder: Path) -> list[Question]:
        """Make the questions there, and return them as they are read; what lives must know is noted in the folder."""

    @abstractmethod
    def effects(self, ledger: Path) -> Counter[str]:
        """Return how often each intent took effect, by its name; what no intent caused is under "?"."""

    @abstractmethod
    def judge(self, ledger: Path) -> None:
        """Hold the venue's books against the ledger at the end; raises Violation."""

    def writes(self) -> list[LoggedRequest]:
        """Return the requests that ask for an effect."""
        return [one for one in self.fake.requests if one.method != "GET"]

    def heard(self) -> set[str]:
        """Return what the audit must name of all that was written there: digests of requests, or tags."""
        return {sha256_hex(one.body) for one in self.writes()}

    def change_world(self, _: random.Random) -> None:
        """Let the world move a little."""
        return


def _require(fine: bool, message: str) -> None:  # noqa: FBT001 - an assertion with a message
    if not fine:
        raise InvariantViolation(message)


class _StakeRecorder(FakeService):
    """Remembers the most that was ever at stake: looked at with each effect."""

    most = 0.0

    def record_effect(
        self, by: LoggedRequest, kind: str, *, subject: str, account: str | None = None, **detail: object
    ) -> None:
        super().record_effect(by, kind, subject=subject, account=account, **detail)
        self.most = max(self.most, self.exposed())

    @abstractmethod
    def exposed(self) -> float:
        """Return what is spent or held back now."""


class _RecordedExchange(_StakeRecorder, UnprotectedExchange):
    def exposed(self) -> float:
        now = self.now_ms()
        return COST * len([effect for effect in self.ledger.effects("order") if effect.detail["expires"] > now])


class ExchangeScenarioVenue(ScenarioVenue):
    """Orders that are placed as often as they come, and fill nothing."""

    name, trades = "bazaar", True

    def __init__(self, clock: FastClock, faults: FaultSchedule) -> None:
        self.fake: _RecordedExchange = _RecordedExchange(clock, faults=faults)

    async def questions(self, served: ServedService, folder: Path) -> list[Question]:
        return [_question(QuestionRef("bazaar", f"{number}")) for number in range(QUESTIONS)]

    def effects(self, ledger: Path) -> Counter[str]:
        return Counter(effect.detail["intent"] for effect in self.fake.ledger.effects("order"))

    def judge(self, ledger: Path) -> None:
        _require_within("bazaar", self.fake.most)


class MetaculusScenarioVenue(ScenarioVenue):
    """Forecasts, of which the last one counts."""

    name = "metaculus"

    def __init__(self, clock: FastClock, faults: FaultSchedule) -> None:
        self.fake: FakeMetaculus = FakeMetaculus(clock, faults=faults, limits=())
        self._user = self.fake.world.add_user(USERNAME, token=TOKEN)

    async def questions(self, served: ServedService, folder: Path) -> list[Question]:
        there = [self.fake.world.add_question(f"Will it rain on day {number}?") for number in range(QUESTIONS)]
        return [
            _question(
                QuestionRef("metaculus", f"{one.post}:{one.id}"),
                title=one.title,
                background=one.description,
                criteria=one.criteria,
                targets=(Target(resolves_at=one.scheduled_resolve),),
                opens_at=one.open,
                closes_at=one.scheduled_close,
            )
            for one in there
        ]

    def effects(self, ledger: Path) -> Counter[str]:
        names = {_order_mark(row["ref"], row["probability"]): row["id"] for row in read_rows(ledger, _FORECAST_INTENTS)}
        return Counter(
            names.get(f"{effect.subject} {effect.detail['values'][-1]:.4f}", "?")
            for effect in self.fake.ledger.effects("forecast")
        )

    def judge(self, ledger: Path) -> None:
        """The newest forecast is in force."""
        for row in read_rows(ledger, _NEWEST):
            question = self.fake.state.questions[int(row["ref"].rsplit(":", 1)[1])]
            standing = question.forecasts_of(self._user.id)
            now = self.fake.now().timestamp()
            there = [one.values[-1] for one in standing if one.is_standing(now)]
            same = len(there) == 1 and there[0] is not None and abs(there[0] - row["probability"]) < CENT
            _require(same, f"{row['ref']} has {there}, and {row['probability']} was forecast last")


class _RecordedManifold(_StakeRecorder, FakeManifold):
    user = ""

    def exposed(self) -> float:
        now = self.now_ms()
        return sum(
            (bet.order_amount if bet.is_resting(now) and not bet.expired(now) else bet.amount) for bet in self.bets()
        )

    def bets(self) -> list[FakeManifoldBet]:
        return [bet for bet in self.state.bets.values() if bet.user == self.user and not bet.is_redemption]


class ManifoldScenarioVenue(ScenarioVenue):
    """Limit orders that fill at once, later, or never, and end."""

    name, trades = "manifold", True

    def __init__(self, clock: FastClock, faults: FaultSchedule) -> None:
        self.fake: _RecordedManifold = _RecordedManifold(clock, faults=faults, limits=())
        self._bot = self.fake.world.add_user(USERNAME, balance=CASH, key=KEY, is_bot=True)
        self.fake.user = self._bot.id
        self._markets: list[FakeManifoldMarket] = []

    async def questions(self, served: ServedService, folder: Path) -> list[Question]:
        world = self.fake.world
        self._markets = [world.add_market(f"Will it rain on day {n}?", liquidity=DEPTHS[n], prob=0.5) for n in range(5)]
        now = self.fake.now()
        base = "https://manifold.markets"
        rows = [manifold_responses.full_row(world.state, one, self.fake.now_ms(), base=base) for one in self._markets]
        return [question for row in rows for question in parse_market(row, now=now).questions]

    def effects(self, ledger: Path) -> Counter[str]:
        names = _by_expiry(ledger)
        return Counter(names.get(effect.detail["expires"], "?") for effect in self.fake.ledger.effects("bet"))

    def change_world(self, chance: random.Random) -> None:
        """Somebody bets against what rests of our orders."""
        world = self.fake.world
        bet = world.trade(
            world.crowd, chance.choice(self._markets), WantedTrade(outcome="NO", amount=chance.uniform(0.2, 3.0))
        )
        if not bet.is_filled:
            world.cancel(bet)

    def judge(self, ledger: Path) -> None:
        """Each fill is recorded once, what orders cost is what left the account, and the cap held at every moment."""
        bets = {bet.id: bet for bet in self.fake.bets()}
        for row in read_rows(ledger, _ORDERS):
            bet = bets.get(row["reference"])
            _require(bet is not None, f"{row['id']} is acknowledged as {row['reference']}, which is not there")
            if bet is not None:
                _same(f"cost of {row['id']}", row["cost"], bet.amount)
                _same(f"cash of the fills of {row['id']}", row["paid"], bet.amount)
                _same(f"shares of the fills of {row['id']}", row["shares"], bet.shares)
        spent = sum(bet.amount for bet in bets.values())
        _same("what left the account", CASH - self._bot.balance, spent)
        _require_within("manifold", self.fake.most)


class _RecordedPolymarket(_StakeRecorder, FakePolymarket):
    user: FakePolymarketUser | None = None

    def exposed(self) -> float:
        return 0.0 if self.user is None else CASH - float(self.user.cash)


class PolymarketScenarioVenue(ScenarioVenue):
    """Signed orders that are matched at once or dropped, and name themselves by their hash."""

    name, trades = "polymarket", True

    def __init__(self, clock: FastClock, faults: FaultSchedule) -> None:
        self.fake: _RecordedPolymarket = _RecordedPolymarket(clock, faults=faults, limits=())
        self._user = self.fake.world.add_user(DOLLAR_KEY, kind=KINDS["deposit"])
        self.fake.world.give_key(self._user)
        self.fake.user = self._user

    async def questions(self, served: ServedService, folder: Path) -> list[Question]:
        given: dict[str, Any] = {
            **self.fake.addresses(served),
            "test_host": served.url.removeprefix("http://"),
            "key_file": str(key_file(folder.with_name(f"{folder.name} keys"))),
            "wallet": self._user.wallet,
            "attested": True,
            "signer_per_order": 500,
            "signer_per_day": 5_000,
            "ends_within_d": 3_650,
        }
        rates = dict(self.fake.faults.rates)
        self.fake.faults.rates.clear()
        markets = [self.fake.world.add_market(f"Rain on {n}?", fees=FEES, **BOOK) for n in range(QUESTIONS)]
        async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
            venue = PolymarketReader(
                PolymarketSettings(**given), PluginContext(clock=self.fake.clock, http=http, folder=folder)
            )
            found = [await venue.find_question(market.condition) for market in markets]
        self.fake.faults.rates.update(rates)
        orders = {one.ref.key: ORDER_SERIALIZER.encode(order_of(one)) for one in found}
        noted = json.dumps({"settings": given, "orders": orders})
        await asyncio.to_thread((folder / DOLLARS).write_text, noted, encoding="utf-8")
        return found

    def effects(self, ledger: Path) -> Counter[str]:
        names = {row["tag"]: row["intent"] for row in read_rows(ledger, _TAGS)}
        return Counter(names.get(effect.subject, "?") for effect in self.fake.ledger.effects("order"))

    def writes(self) -> list[LoggedRequest]:
        return [one for one in super().writes() if one.path == "/order"]

    def heard(self) -> set[str]:
        return {effect.subject for effect in self.fake.ledger.effects("order")}

    def judge(self, ledger: Path) -> None:
        """What orders cost is what left the account, and what they bought is there."""
        orders = read_rows(ledger, _ORDERS)
        _same("what left the account", sum(row["cost"] for row in orders), CASH - float(self._user.cash))
        _same("what was paid for fills", sum(row["paid"] for row in orders), CASH - float(self._user.cash))
        _same("shares", sum(row["shares"] for row in orders), float(sum(self._user.shares.values())))
        _require_within("polymarket", self.fake.most)


SCENARIO_VENUES: Mapping[str, Any] = {
    one.name: one
    for one in (ExchangeScenarioVenue, MetaculusScenarioVenue, ManifoldScenarioVenue, PolymarketScenarioVenue)
}

_FORECAST_INTENTS = """
select i.id, i.ref, p.probability from intent i join prediction p on p.forecast = i.forecast
where i.state <> 'superseded'
"""
_NEWEST = """
select f.ref, p.probability from forecast f join prediction p on p.forecast = f.id
where f.state = 'done' and f.revision = (select max(revision) from forecast where ref = f.ref)
"""
_TAGS = "select distinct intent, tag from attempt where tag <> ''"
_ORDERS = """
select i.id, i.cost, a.reference, (select coalesce(-sum(cash), 0) from fill where intent = i.id) as paid,
       (select coalesce(sum(shares), 0) from fill where intent = i.id) as shares
from intent i join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
where i.action = 'order' and i.state = 'acked'
"""


def _by_expiry(ledger: Path) -> dict[int, str]:
    return {int(row["tag"].rsplit("-", 1)[1]): row["intent"] for row in read_rows(ledger, _TAGS)}


def _order_mark(ref: str, probability: float) -> str:
    return f"{ref.rsplit(':', 1)[1]} {probability:.4f}"


def _same(what: str, one: float, other: float) -> None:
    _require(abs(one - other) <= CENT * max(1.0, abs(other)), f"{what}: {one} on record, {other} at the venue")


def _require_within(venue: str, most: float) -> None:
    cap = VENUE_CLIENTS[venue].cap
    _require(most <= cap + CENT, f"{most} was at stake at once, and {cap} may be")


def _question(ref: QuestionRef, **fields: Any) -> Question:
    return Question(**{"ref": ref, "title": f"{ref}?", "shape": BinaryShape(), "targets": (Target(),), **fields})
