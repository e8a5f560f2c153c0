"""The Polymarket venue: its markets in, forecasts against their books; nothing needs a key but live trading.

The key of a question is the condition of its market, or ``event:NUMBER`` for an event where exactly one outcome wins.
Yes is the outcome with index 0, whatever it is called; its name then stands in the title. Outcomes are payouts: a half
for either side is a half, and what pays neither side is void. ``Other`` stands for every outcome without a market.

Facts of a question (all texts): ``market`` (the condition; of an event the name of its group), ``event`` (the number
of the event, whose markets stand or fall together), ``category`` (the first tag), ``slug``, ``group``, ``rules`` (a
digest of the rules), ``version`` (v1 or v2, which tells the family of ids), and ``contracts``: as JSON, by option (""
where there are none), market, tokens, version, fees and delay of what can be traded. Of a single market also ``id``
(the condition), ``gamma`` (its number), ``tokens``, ``outcomes`` (their names as JSON), ``delay_s``, ``fees`` (the
schedule as JSON, null where trading is free). None of them moves with the market: ticks and least sizes are in its
book. The explanation of the crowd's price names the book it was read from.

Orders are written on the books as they are read then; ``terms`` says what an order of this venue carries. On paper
they meet the book that stands when they arrive, and nothing is sent.
"""

from bot.api import Can, VenueSpec, hookimpl
from plugins.polymarket.check import check
from plugins.polymarket.feed import open_feed
from plugins.polymarket.paper_market import open_paper
from plugins.polymarket.planner import open_planner
from plugins.polymarket.questions import VENUE
from plugins.polymarket.rates import rates_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.venue import open_reader
from plugins.polymarket.writer import open_writer


@hookimpl
def foxcast_venues() -> list[VenueSpec[PolymarketSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Markets on politics, sports, economy and much else, forecast against their order books",
            abilities=frozenset({Can.SUBMIT, Can.PAPER, Can.TRADE, Can.PUSH_PRICES}),
            settings=PolymarketSettings,
            hosts=("polymarket.com",),
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            prices=open_feed,
            planner=open_planner,
            check=check,
            rates=rates_of,
            # After the first one the secrets that were derived are derived anew.
            final_refusals=2,
        )
    ]
