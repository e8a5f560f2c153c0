"""The Manifold venue: markets in play money. Questions and prices in, limit orders out.

The key of a question is what is traded: the id of its market, or ``MARKET/ANSWER`` where the answers of a market
resolve by themselves and each is a question of its own. A market where one answer wins is one question, its options
named by the texts of the answers; a pseudo-numeric one is a number between its ends, both closed.

Facts of a question (all texts): ``market`` and ``event`` (the market's id), ``creator`` (its id) and ``creator_name``,
``category`` (its first topic), ``type`` (the venue's outcome type), ``mechanism``, ``token``, ``slug``; of one answer
also ``answer`` (its id), ``label`` (its text) and ``midpoint`` (of a number, or of a date in milliseconds). The pool at
the moment of reading is in the explanation of the crowd, and with each order in the state of the market it was planned
on.

Reading, prices and paper need no key. Everything that is asked or written counts against one budget of 240 requests a
minute, half of what the venue allows to one address; bets go one at a time.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.api import Can, Planner, Rate, VenueSpec, Workplace, hookimpl
from plugins.manifold.check import check
from plugins.manifold.client import Client
from plugins.manifold.comments import FEE
from plugins.manifold.feed import open_prices
from plugins.manifold.paper import open_paper
from plugins.manifold.planner import ManifoldPlanner
from plugins.manifold.settings import VENUE, ManifoldSettings
from plugins.manifold.venue import open_reader
from plugins.manifold.writer import open_writer

PER_MINUTE = 240
WRITES_PER_MINUTE = 30


def rates_of(settings: ManifoldSettings) -> Sequence[Rate]:
    """Return the budget of everything, and the queue of what is written."""
    place = settings.place
    return (
        Rate(name=f"{VENUE} all", prefixes=(f"{place.api}/", place.socket), count=PER_MINUTE, per_s=60.0, burst=20),
        Rate(
            name=f"{VENUE} writes",
            prefixes=(f"{place.api}/",),
            count=WRITES_PER_MINUTE,
            per_s=60.0,
            methods=frozenset({"POST"}),
            burst=5,
            at_once=1,
        ),
    )


@asynccontextmanager
async def open_planner(settings: ManifoldSettings, workplace: Workplace) -> AsyncIterator[Planner]:
    """Open what turns beliefs into orders."""
    yield ManifoldPlanner(Client(settings, workplace.http, workplace.clock))


@hookimpl
def foxcast_venues() -> list[VenueSpec[ManifoldSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Markets in play money on everything: questions, prices as they move, and limit orders",
            abilities=frozenset({Can.SUBMIT, Can.COMMENT, Can.PAPER, Can.TRADE, Can.PUSH_PRICES}),
            settings=ManifoldSettings,
            hosts=("manifold.markets",),
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            prices=open_prices,
            planner=open_planner,
            check=check,
            rates=rates_of,
            comments_by_event=True,
            comment_fee=lambda settings: FEE if settings.comments else None,
        )
    ]
