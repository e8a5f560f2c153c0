"""The Kalshi venue: reads its markets and trades them on paper without a key; only live trading needs one.

The key of a question is the ticker of its market, or ``event:TICKER`` for an event with at most one winner, which has
an option for none of its markets. A market that is settled between yes and no is void.

The category of a question is that of its series. Its facts (all texts): ``series`` (a ticker), ``tickers``: as JSON,
the ticker of the market by option ("" where there are none), and ``fee_rate``: that of takers, missing where the
formula of the fees is unknown.
"""

from bot.api import SetupChoice, SetupValue, VenueSpec, hookimpl
from plugins.kalshi.account import check_account
from plugins.kalshi.api_client import rate_limits
from plugins.kalshi.order_books import order_fees
from plugins.kalshi.paper_market import open_paper
from plugins.kalshi.planner import open_planner
from plugins.kalshi.price_feed import open_price_feed
from plugins.kalshi.questions import VENUE
from plugins.kalshi.reader import open_reader
from plugins.kalshi.settings import KalshiSettings
from plugins.kalshi.writer import open_writer

SETUP = SetupChoice(
    name=VENUE,
    title="Kalshi: markets in dollars, on paper without a key",
    values=(
        SetupValue(
            name="categories", key="categories", prompt="Categories; none: all", default="Politics", is_list=True
        ),
    ),
    settings={"ends_within_d": 90},
)


@hookimpl
def foxcast_venues() -> list[VenueSpec[KalshiSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="A regulated exchange of contracts in dollars on politics, economy, weather and much else",
            settings=KalshiSettings,
            setup=(SETUP,),
            hosts=("kalshi.com", "kalshi.co"),
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            check=check_account,
            prices=open_price_feed,
            planner=open_planner,
            fees=order_fees,
            rates=rate_limits,
            # A request that waited too long was signed too early, which says nothing about the key.
            is_credential_refusal=lambda refusal: refusal.status == 401 and "timestamp_expired" not in refusal.body,
        )
    ]
