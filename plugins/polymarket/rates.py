"""How often the venue is asked: hundreds of times below what it allows, as it slows down before it refuses.

Source: venue document, section 10.
"""

from collections.abc import Sequence

from bot.api import Rate
from plugins.polymarket.settings import ReadingSettings

READS = frozenset({"GET"})
WRITES = frozenset({"POST"})
CANCELS = frozenset({"DELETE"})


def rates_of(settings: ReadingSettings) -> Sequence[Rate]:
    """Return the pace of each interface: reading, ordering and cancelling have their own."""
    clob = settings.clob_url.rstrip("/")
    gamma, data, site, socket = (
        f"{url.rstrip('/')}/" for url in (settings.gamma_url, settings.data_url, settings.site_url, settings.socket_url)
    )
    return (
        # One at a time: a slow answer is the venue's first sign that it is too much.
        Rate(name="polymarket_gamma", prefixes=(gamma,), count=2, per_s=1.0, at_once=1),
        Rate(name="polymarket_data", prefixes=(data,), count=2, per_s=1.0, at_once=1),
        # The two of the exchange are five a second together.
        Rate(name="polymarket_clob", prefixes=(f"{clob}/",), methods=READS, count=4, per_s=1.0, at_once=2),
        Rate(name="polymarket_books", prefixes=(f"{clob}/books",), methods=WRITES, count=1, per_s=1.0, at_once=1),
        # Both /order and /orders.
        Rate(name="polymarket_orders", prefixes=(f"{clob}/order",), methods=WRITES, count=1, per_s=10.0, at_once=1),
        Rate(name="polymarket_cancels", prefixes=(f"{clob}/",), methods=CANCELS, count=2, per_s=1.0),
        Rate(name="polymarket_site", prefixes=(f"{site}api/",), count=1, per_s=1.0),
        Rate(name="polymarket_sockets", prefixes=(socket,), count=5, per_s=10.0, burst=5),
    )
