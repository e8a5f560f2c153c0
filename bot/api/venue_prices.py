"""What the author of a venue's price feed uses.

Called in this order: ``prices``, ``quotes``.

``VenueSpec.prices`` is entered once. ``PriceFeed.quotes`` yields ``Quote`` after ``Quote`` for as long as the daemon
runs; it is opened again after silence, and when there are other questions to watch.
"""

from bot.core.interfaces import PriceFeed, WebSocketClient, WebSocketConnection
from bot.core.plugin_specs import PriceFeedContext
from bot.core.questions import Quote

__all__ = [
    "PriceFeed",
    "PriceFeedContext",
    "Quote",
    "WebSocketClient",
    "WebSocketConnection",
]
