"""The contract kit on planners that sell positions: both venues that trade."""

import pytest

from bot.api import ClosingPlanner, ClosingWish, Leg, Position
from bot.testing.contracts import ClosingContract
from plugins.manifold.planner import ManifoldPlanner
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.settings import TradingSettings
from tests.plugins.manifold.replies import Readable as Fair
from tests.plugins.manifold.replies import answer, choice
from tests.plugins.manifold.test_sales import closing as on_manifold
from tests.plugins.polymarket.test_sales import closing as on_polymarket
from tests.plugins.polymarket.trading import Readable, a_book, held


class TestManifold(ClosingContract):
    @pytest.fixture
    async def planner(self) -> ClosingPlanner:
        return ManifoldPlanner(Fair(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2))))

    @pytest.fixture
    async def wish(self) -> ClosingWish:
        return on_manifold(Position(contract="m2/b", leg=Leg.NO, shares=40.0, paid=28.0, option="Option b"))


class TestPolymarket(ClosingContract):
    @pytest.fixture
    async def planner(self) -> ClosingPlanner:
        return PolymarketPlanner(TradingSettings(), Readable.of(a_book(bids=(("0.55", "30"), ("0.50", "100")))))

    @pytest.fixture
    async def wish(self) -> ClosingWish:
        return on_polymarket(held(77.77), has=5.0)
