"""The Manifold venue: markets in play money. Reads questions and prices, writes limit orders.

The key of a question is what is traded: the id of its market, or ``MARKET/ANSWER`` if the answers of a market resolve
independently and each is a separate question. A market where one answer wins is one question, its options named by the
texts of the answers; a pseudo-numeric one is a number between its ends, both closed.

The event of a question is its market, its category the first topic. Its facts (all texts): ``type`` (the venue's
outcome type), ``mechanism``, ``token``; of one answer also ``answer`` (its id) and ``midpoint`` (of a number, or of a
date in milliseconds). The pool at the moment of reading is in the explanation of the crowd, and with each order in the
state of the market it was planned on.

Reading, prices and paper need no key. All requests share one rate limit of 240 a minute, half of what the venue allows
per address; bets are sent one at a time.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.api import OrderPlanner, PluginContext, RateLimit, SetupChoice, SetupValue, ShareFees, VenueSpec, hookimpl
from plugins.manifold.account import check_account
from plugins.manifold.api_client import ManifoldClient
from plugins.manifold.cpmm import fee_per_share
from plugins.manifold.paper_market import open_paper
from plugins.manifold.planner import ManifoldPlanner
from plugins.manifold.price_feed import open_price_feed
from plugins.manifold.reader import open_reader
from plugins.manifold.settings import VENUE, ManifoldSettings
from plugins.manifold.write_requests import COMMENT_FEE
from plugins.manifold.writer import open_writer

REQUESTS_PER_MINUTE = 240
WRITES_PER_MINUTE = 30


def rate_limits(settings: ManifoldSettings) -> Sequence[RateLimit]:
    """Return the rate limit of all requests, and that of writes."""
    addresses = settings.addresses
    return (
        RateLimit(
            name=f"{VENUE} all",
            prefixes=(f"{addresses.api}/", addresses.socket),
            count=REQUESTS_PER_MINUTE,
            per_s=60.0,
            burst=20,
        ),
        RateLimit(
            name=f"{VENUE} writes",
            prefixes=(f"{addresses.api}/",),
            count=WRITES_PER_MINUTE,
            per_s=60.0,
            methods=frozenset({"POST"}),
            burst=5,
            max_in_flight=1,
        ),
    )


SETUP = SetupChoice(
    name=VENUE,
    title="Manifold: markets in play money, on paper without a key",
    values=(SetupValue(name="topics", key="topics", prompt="Topics, by slug; none: all", default="ai", is_list=True),),
    settings={"min_bettors": 20},
)


@asynccontextmanager
async def open_planner(settings: ManifoldSettings, context: PluginContext) -> AsyncIterator[OrderPlanner]:
    """Open the order planner."""
    yield ManifoldPlanner(ManifoldClient(settings, context.http, context.clock))


@hookimpl
def foxcast_venues() -> list[VenueSpec[ManifoldSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Markets in play money on everything: questions, prices as they move, and limit orders",
            settings=ManifoldSettings,
            setup=(SETUP,),
            hosts=("manifold.markets",),
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            prices=open_price_feed,
            planner=open_planner,
            fees=lambda _question, _order: ShareFees(formula=fee_per_share),
            check=check_account,
            rates=rate_limits,
            comments_by_event=True,
            comment_fee=lambda settings: COMMENT_FEE if settings.comments else None,
        )
    ]
