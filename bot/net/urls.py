"""URLs without their secrets for errors and logs.

Hosts of this machine, and query values that no cache has an answer to.
"""

import ipaddress
from urllib.parse import urlsplit

from bot.core.interfaces import Clock


def loggable_url(url: str) -> str:
    """Return an address without user name, query and fragment, which may hold keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_loopback_host(host: str) -> bool:
    """Say whether a host is an address of the loopback interface, or the name that stands for it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class CacheBuster:
    """Milliseconds of a clock, but never the same twice.

    Under an address with one in it nothing was ever asked before, so no cache has an old answer to it.
    """

    def __init__(self, clock: Clock) -> None:
        """Keep the clock; the first stamp is the time at which it is asked for."""
        self._clock = clock
        self._last_ms = 0

    def next_ms(self) -> int:
        """Return the time in milliseconds, or one more than the last time where that is later."""
        self._last_ms = max(round(self._clock.now().timestamp() * 1000), self._last_ms + 1)
        return self._last_ms
