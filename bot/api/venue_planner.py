"""What the author of a venue's planner uses.

Called in this order: ``planner``, ``plan_order``.

``VenueSpec.planner`` is entered once. After each forecast ``OrderPlanner.plan_order`` turns a ``TradeProposal`` into an
``OrderPlan``, which the gate checks. ``ClosingPlanner.plan_closing`` sells a position that is to be closed.
"""

from bot.core.interfaces import ClosingPlanner, FeeSchedule, OrderPlanner
from bot.core.orders import (
    Account,
    ClosingProposal,
    ContractSide,
    OpenOrder,
    Order,
    OrderPlan,
    OrderSide,
    Position,
    SizingPolicy,
    TradeProposal,
)
from bot.execution.book_planner import ContractQuote, OrderBookPlanner
from bot.execution.order_book import (
    BookLevel,
    BookWalkResult,
    LevelFill,
    OrderBook,
    ShareFees,
    levels_within_limit,
    subtract_consumed,
    walk_levels,
)
from bot.execution.order_sizing import (
    ContractMarket,
    LegBelief,
    OrderSizer,
    SizedOrder,
    describe_sized_order,
    has_sale,
    other_leg,
    price_of_yes,
    size_closing_sale,
)
from bot.stats.kelly import (
    HeldShares,
    KellyBankroll,
    PayoffScenarios,
    ShareOffer,
    kelly_shares,
    marginal_utility,
    payoff_scenarios,
    rescale_beliefs,
    share_value,
    shrink_to_market,
    sum_held_shares,
)

__all__ = [
    "Account",
    "BookLevel",
    "BookWalkResult",
    "ClosingPlanner",
    "ClosingProposal",
    "ContractMarket",
    "ContractQuote",
    "ContractSide",
    "FeeSchedule",
    "HeldShares",
    "KellyBankroll",
    "LegBelief",
    "LevelFill",
    "OpenOrder",
    "Order",
    "OrderBook",
    "OrderBookPlanner",
    "OrderPlan",
    "OrderPlanner",
    "OrderSide",
    "OrderSizer",
    "PayoffScenarios",
    "Position",
    "ShareFees",
    "ShareOffer",
    "SizedOrder",
    "SizingPolicy",
    "TradeProposal",
    "describe_sized_order",
    "has_sale",
    "kelly_shares",
    "levels_within_limit",
    "marginal_utility",
    "other_leg",
    "payoff_scenarios",
    "price_of_yes",
    "rescale_beliefs",
    "share_value",
    "shrink_to_market",
    "size_closing_sale",
    "subtract_consumed",
    "sum_held_shares",
    "walk_levels",
]
