"""The Polymarket venue: reads its markets, forecasts against their order books; only live trading needs a key.

The key of a question is the condition of its market, or ``event:NUMBER`` for an event where exactly one outcome wins.
Yes is the outcome with index 0, with its name in the title if it is not Yes. Outcomes are payouts: a half for either
side is a half, and a market that pays neither side is void. ``Other`` stands for every outcome without a market.

The market of a question is its condition (of an event the name of its group), its event the number of the event, whose
markets share their outcome, and its category the first tag. Its facts (all texts): ``group``, ``rules`` (a digest of
the rules), ``version`` (v1 or v2, which tells the family of ids), and ``contracts``: as JSON, by option ("" where there
are none), market, tokens, version, fees and delay of what can be traded. Of a single market also ``gamma`` (its
number), ``tokens``, ``outcomes`` (their names as JSON), ``delay_s``, ``fees`` (the schedule as JSON, null where trading
is free). None of them moves with the market: ticks and least sizes are in its book. The
explanation of the crowd's price names the book it was read from.

Orders are planned on the current books; ``order_terms`` describes the terms of an order. On paper they meet the book at
their arrival, and nothing is sent.
"""

from bot.api import SetupChoice, SetupValue, VenueSpec, hookimpl
from plugins.polymarket.account_check import check_account
from plugins.polymarket.api_client import rate_limits
from plugins.polymarket.fees import order_fees
from plugins.polymarket.paper_market import open_paper
from plugins.polymarket.planner import open_planner
from plugins.polymarket.price_feed import open_price_feed
from plugins.polymarket.questions import VENUE
from plugins.polymarket.reader import open_reader
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.writer import open_writer

SETUP = SetupChoice(
    name=VENUE,
    title="Polymarket: markets in dollars, on paper without a key",
    values=(SetupValue(name="tags", key="tags", prompt="Tags, by slug; none: all", default="politics", is_list=True),),
    settings={"ends_within_d": 90},
)


@hookimpl
def foxcast_venues() -> list[VenueSpec[PolymarketSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Markets on politics, sports, economy and much else, forecast against their order books",
            settings=PolymarketSettings,
            setup=(SETUP,),
            hosts=("polymarket.com",),
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            prices=open_price_feed,
            planner=open_planner,
            fees=order_fees,
            check=check_account,
            rates=rate_limits,
            # After the first one the derived secrets are derived again.
            final_refusals=2,
        )
    ]
