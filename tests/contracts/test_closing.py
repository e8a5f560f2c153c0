"""The contract kit on planners that sell positions: both venues that trade."""

import pytest

from bot.api import ClosingPlanner, ClosingProposal, ContractSide, Position
from bot.testing.venue_contracts import ClosingPlannerContract
from plugins.manifold.planner import ManifoldPlanner
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.settings import PolymarketTradingSettings
from tests.plugins.manifold.api_replies import FakeMarketReader as Fair
from tests.plugins.manifold.api_replies import answer, choice
from tests.plugins.manifold.test_sales import closing as on_manifold
from tests.plugins.polymarket.test_sales import closing as on_polymarket
from tests.plugins.polymarket.trading_inputs import FakePolymarketReader, a_book, held


class TestManifold(ClosingPlannerContract):
    @pytest.fixture
    async def planner(self) -> ClosingPlanner:
        return ManifoldPlanner(Fair(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2))))

    @pytest.fixture
    async def proposal(self) -> ClosingProposal:
        return on_manifold(Position(contract="m2/b", leg=ContractSide.NO, shares=40.0, paid=28.0, option="Option b"))


class TestPolymarket(ClosingPlannerContract):
    @pytest.fixture
    async def planner(self) -> ClosingPlanner:
        return PolymarketPlanner(
            PolymarketTradingSettings(), FakePolymarketReader.of(a_book(bids=(("0.55", "30"), ("0.50", "100"))))
        )

    @pytest.fixture
    async def proposal(self) -> ClosingProposal:
        return on_polymarket(held(77.77), has=5.0)
