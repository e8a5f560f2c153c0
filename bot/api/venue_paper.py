"""What the author of a venue's paper book uses.

Called in this order: ``paper``, ``read_submissions``, ``account``, ``seal_requests``, ``submit``, ``settle``,
``advance``.

``VenueSpec.paper`` is entered once; it is a writer that writes nothing to the venue. At the end of each pass ``settle``
pays for what was resolved, ``advance`` matches orders that rest, and ``payout_per_share`` says what a resolved position
pays.
"""

from bot.core.interfaces import PaperTradingSubmitter
from bot.core.plugin_specs import PaperBookContext
from bot.execution.paper.book_market import OrderBookPaperMarket, fill_from_book, pay_winning_side
from bot.execution.paper.forecast_book import PaperForecastBook, forecast_coverage, open_forecast_book
from bot.execution.paper.paper_book import PaperBook, PaperBookTerms, open_paper_book
from bot.execution.paper.paper_market import (
    EarlierPaperOrder,
    FillRequest,
    FillResult,
    PaperFill,
    PaperMarket,
    RemainderState,
)
from bot.store.reported_outcomes import ReportedOutcomes, load_reported_outcomes, save_reported_outcomes

__all__ = [
    "EarlierPaperOrder",
    "FillRequest",
    "FillResult",
    "OrderBookPaperMarket",
    "PaperBook",
    "PaperBookContext",
    "PaperBookTerms",
    "PaperFill",
    "PaperForecastBook",
    "PaperMarket",
    "PaperTradingSubmitter",
    "RemainderState",
    "ReportedOutcomes",
    "fill_from_book",
    "forecast_coverage",
    "load_reported_outcomes",
    "open_forecast_book",
    "open_paper_book",
    "pay_winning_side",
    "save_reported_outcomes",
]
