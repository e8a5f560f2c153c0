"""The simulated world at the fake venues: what is asked, traded and settled there is what the world says."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from bot.api import BinaryPrediction, PluginContext
from bot.core.outcomes import BinaryOutcome
from bot.simulator.venues.forecastbench_bridge import ForecastBenchBridge
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_bridge import ManifoldBridge
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.metaculus_bridge import MetaculusBridge
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_bridge import PolymarketBridge
from bot.simulator.venues.world_bridge import VenueBridge, WorldRunner
from bot.simulator.world.question_generation import BENCHMARK, FORECASTING_CONTEST, PLAY_MONEY_MARKET, REAL_MONEY_MARKET
from bot.simulator.world.questions import AnswerKind, QuestionEnding, SimulatedQuestion, outcome_day
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.forecastbench.reader import open_reader
from plugins.forecastbench.settings import ForecastBenchSettings

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class BridgedWorld:
    world: SimulatedWorld
    clock: FakeClock
    fair: ManifoldBridge
    contest: MetaculusBridge
    exchange: PolymarketBridge
    bench: ForecastBenchBridge
    bridges: WorldRunner

    async def advance_to(self, day: float, *, step: float = 0.5) -> None:
        self.bridges.advance()
        while (now := self.world.calendar.day_of(self.clock.now())) < day:
            await self.clock.advance(min(step, day - now) * DAY_S)
            self.bridges.advance()

    def ended_questions(
        self, bridge: str, day: float, fate: QuestionEnding = QuestionEnding.RESOLVED
    ) -> list[SimulatedQuestion]:
        """Return what has been resolved by the day."""
        asks = [ask for ask in self.world.questions if ask.venue_kind == bridge and ask.ending is fate]
        return [ask for ask in asks if max(ask.closes, outcome_day(ask)) < day - 3.0]


@cache
def simulated_world() -> SimulatedWorld:
    """Return the world, which is the same however often it is asked."""
    return SimulatedWorld(seed=21, start=START, size=120)


@pytest.fixture
def bridged_world(request: pytest.FixtureRequest, tmp_path: Path) -> BridgedWorld:
    """The world at all four venues, or at the one that a test looks at."""
    clock, world = FakeClock(START), simulated_world()
    fair = ManifoldBridge(world=world, venue=FakeManifold(clock))
    contest = MetaculusBridge(world=world, venue=FakeMetaculus(clock))
    exchange = PolymarketBridge(world=world, venue=FakePolymarket(clock))
    bench = ForecastBenchBridge(world=world, folder=tmp_path)
    bridges: dict[str, VenueBridge] = {
        PLAY_MONEY_MARKET: fair,
        FORECASTING_CONTEST: contest,
        REAL_MONEY_MARKET: exchange,
        BENCHMARK: bench,
    }
    kinds = [request.param] if hasattr(request, "param") else [*bridges]
    runner = WorldRunner(
        world=world,
        clock=clock,
        bridges={kind: bridges[kind] for kind in kinds},
        daily_actions=(bench.settle,) if BENCHMARK in kinds else (),
    )
    return BridgedWorld(
        world=world, clock=clock, fair=fair, contest=contest, exchange=exchange, bench=bench, bridges=runner
    )


@pytest.mark.parametrize("bridged_world", [PLAY_MONEY_MARKET], indirect=True)
async def test_markets_follow_the_crowd_by_trades_and_end_with_the_truth(bridged_world: BridgedWorld) -> None:
    await bridged_world.advance_to(12.0)
    world, now = bridged_world.world, bridged_world.fair.venue.now_ms()
    binary = [
        ask for ask in world.open(12.0) if ask.venue_kind == PLAY_MONEY_MARKET and ask.answer_kind is AnswerKind.BINARY
    ]
    traded = [
        (ask, bridged_world.fair.markets[ask.key]) for ask in binary if bridged_world.fair.markets[ask.key].is_open(now)
    ]
    assert len(traded) > 3
    for ask, market in traded:
        price = world.crowd_price(ask, 12.0)
        assert isinstance(price, float)
        assert market.pool.prob == pytest.approx(min(0.99, max(0.01, price)), abs=0.02)
    await bridged_world.advance_to(90.0)
    opened = [ask for ask in world.questions if ask.venue_kind == PLAY_MONEY_MARKET and ask.opens <= 90.0]
    assert bridged_world.fair.markets.keys() == {ask.key for ask in opened}
    assert len(bridged_world.fair.venue.state.bets) > 100
    ended_questions = bridged_world.ended_questions(PLAY_MONEY_MARKET, 90.0)
    assert {ask.answer_kind for ask in ended_questions} == {AnswerKind.BINARY, AnswerKind.CHOICE, AnswerKind.NUMBER}
    for ask in ended_questions:
        market, truth = bridged_world.fair.markets[ask.key], world.outcome_of(ask)
        if isinstance(truth, bool):
            assert market.resolution == ("YES" if truth else "NO")
        elif isinstance(truth, str):
            assert [answer.text for answer in market.answers if answer.id == market.resolution] == [truth]
        else:
            assert market.scale is not None
            assert market.resolution_prob is not None
            span = market.scale.high - market.scale.low
            assert market.scale.low + span * market.resolution_prob == pytest.approx(truth)


@pytest.mark.parametrize("bridged_world", [FORECASTING_CONTEST], indirect=True)
async def test_a_tournament_has_every_form_groups_and_a_community(bridged_world: BridgedWorld) -> None:
    await bridged_world.advance_to(90.0)
    world, questions = bridged_world.world, bridged_world.contest.questions
    opened = [ask for ask in world.questions if ask.venue_kind == FORECASTING_CONTEST and ask.opens <= 90.0]
    assert questions.keys() == {ask.key for ask in opened}
    assert {one.type for one in questions.values()} == {"binary", "multiple_choice", "numeric", "date"}
    groups = [post for post in bridged_world.contest.venue.state.posts.values() if post.group is not None]
    assert groups
    assert all(len(post.questions) == 3 for post in groups)
    for ask in opened:
        # People who have forecast: all of the community, unless the question ended within hours.
        assert {forecast.author for forecast in questions[ask.key].forecasts} == {
            user.id for user in bridged_world.contest.people
        }
    for ask in bridged_world.ended_questions(FORECASTING_CONTEST, 90.0):
        resolution, truth = questions[ask.key].resolution, world.outcome_of(ask)
        assert resolution is not None
        if isinstance(truth, bool):
            assert resolution == ("yes" if truth else "no")
        elif isinstance(truth, str):
            assert resolution == truth
        elif truth == math.inf:
            assert resolution == "above_upper_bound"
        elif ask.answer_kind is AnswerKind.DATE:
            assert world.calendar.day_of(datetime.fromisoformat(resolution)) == pytest.approx(truth)
        else:
            assert float(resolution) == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("bridged_world", [REAL_MONEY_MARKET], indirect=True)
async def test_an_exchange_has_books_around_the_price_and_one_winner_an_event(bridged_world: BridgedWorld) -> None:
    await bridged_world.advance_to(120.0)
    world = bridged_world.world
    winners: Mapping[bool, Decimal] = {True: Decimal(1), False: Decimal(0)}
    for ask in bridged_world.ended_questions(REAL_MONEY_MARKET, 120.0):
        markets, truth = bridged_world.exchange.markets[ask.key], world.outcome_of(ask)
        for option, market in markets.items():
            assert market.payouts is not None
            assert market.payouts[0] == winners[truth is True or truth == option]
    for ask in world.open(120.0):
        for option, market in bridged_world.exchange.markets.get(ask.key, {}).items():
            if market.trades_now:
                price = world.crowd_price(ask, 120.0)
                wanted = price[option] if isinstance(price, Mapping) else price
                assert float(max(market.bids)) < float(min(market.asks))
                middle = float(max(market.bids) + min(market.asks)) / 2.0
                assert middle == pytest.approx(min(0.97, max(0.03, wanted)), abs=0.02)


async def test_what_is_annulled_late_or_revised_ends_so_everywhere(bridged_world: BridgedWorld) -> None:
    await bridged_world.advance_to(330.0, step=4.0)
    annulled = [
        ask
        for bridge in (PLAY_MONEY_MARKET, FORECASTING_CONTEST, REAL_MONEY_MARKET)
        for ask in bridged_world.ended_questions(bridge, 330.0, QuestionEnding.ANNULLED)
    ]
    assert annulled
    for ask in annulled:
        if ask.venue_kind == PLAY_MONEY_MARKET:
            assert bridged_world.fair.markets[ask.key].resolution == "CANCEL"
        elif ask.venue_kind == FORECASTING_CONTEST:
            assert bridged_world.contest.questions[ask.key].resolution == "annulled"
        else:
            assert {one.settled for one in bridged_world.exchange.markets[ask.key].values()} == {Decimal("0.5")}
    revised = bridged_world.ended_questions(REAL_MONEY_MARKET, 325.0, QuestionEnding.REVISED)
    for ask in revised:
        truth = bridged_world.world.outcome_of(ask)
        for option, market in bridged_world.exchange.markets[ask.key].items():
            assert market.was_disputed
            assert market.settled == (1 if truth is True or truth == option else 0)
    for ask in bridged_world.ended_questions(FORECASTING_CONTEST, 325.0, QuestionEnding.REVISED):
        if ask.answer_kind is AnswerKind.BINARY:
            assert bridged_world.contest.questions[ask.key].resolution == (
                "yes" if bridged_world.world.outcome_of(ask) else "no"
            )


@pytest.mark.parametrize("bridged_world", [BENCHMARK], indirect=True)
async def test_rounds_are_read_by_the_plugin_and_settled_by_the_series(
    bridged_world: BridgedWorld, tmp_path: Path
) -> None:
    await bridged_world.advance_to(50.0)
    world = bridged_world.world
    settings = ForecastBenchSettings(source=tmp_path, rounds="all")
    context = PluginContext(clock=bridged_world.clock, http=FakeHttpClient({}), folder=tmp_path)
    async with open_reader(settings, context) as reader:
        questions = {question.ref: question async for question in reader.questions()}
        outcomes = [resolution async for resolution in reader.resolutions([*questions])]
    assert {question.batch for question in questions.values()} == {"2026-03-08", "2026-04-05"}
    for question in questions.values():
        if question.family == "dataset":
            assert len(question.targets) == 5
            assert question.source_id in world.series_by_name
            assert question.source_id in question.background
        else:
            ask = world.by_key[question.source_id]
            assert question.crowd is not None
            assert isinstance(question.crowd.prediction, BinaryPrediction)
            frozen = max(ask.opens, world.calendar.day_of(question.crowd.at))
            assert question.crowd.prediction.probability == pytest.approx(world.crowd_price(ask, frozen), abs=1e-4)
    assert {resolution.ref for resolution in outcomes} <= questions.keys()
    dated = [one for one in outcomes if questions[one.ref].family == "dataset"]
    # Of the first round 7 and 30 days are over, of the second 7.
    assert len({one.target for one in dated}) == 3
    for one in dated:
        strip = world.series_by_name[questions[one.ref].source_id]
        due = world.calendar.day_of(datetime.fromisoformat(f"{questions[one.ref].batch}T00:00:00+00:00"))
        day = world.calendar.day_of(datetime.fromisoformat(f"{one.target}T00:00:00+00:00"))
        assert isinstance(one.outcome, BinaryOutcome)
        if strip.value(day) != strip.value(due):
            assert one.outcome.value == float(strip.value(day) > strip.value(due))
    assert any(questions[one.ref].family == "market" for one in outcomes)


def test_the_world_goes_on_when_nobody_looked_for_a_while() -> None:
    clock, world = FakeClock(START + timedelta(days=200)), SimulatedWorld(seed=22, start=START, size=60)
    fair = ManifoldBridge(world=world, venue=FakeManifold(clock))
    WorldRunner(world=world, clock=clock, bridges={PLAY_MONEY_MARKET: fair}).advance()
    assert fair.markets.keys() == {
        ask.key for ask in world.questions if ask.venue_kind == PLAY_MONEY_MARKET and ask.opens <= 200.0
    }
    assert any(market.resolved for market in fair.markets.values())
