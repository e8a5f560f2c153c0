"""URLs without secrets for errors and logs, loopback hosts, and query values that bypass caches."""

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from bot.core.interfaces import Clock


@lru_cache(maxsize=256)
def loggable_url(url: str) -> str:
    """Return an address without user name, query and fragment, which may hold keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_loopback_host(host: str) -> bool:
    """Return whether a host is an address of the loopback interface, or its name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class CacheBuster:
    """Milliseconds of a clock, never the same value twice.

    An address that contains one is new, so no cache has a response for it.
    """

    def __init__(self, clock: Clock) -> None:
        """Keep the clock; the first value is the time of the first call."""
        self._clock = clock
        self._last_ms = 0

    def next_ms(self) -> int:
        """Return the time in milliseconds, or the last value plus one if that is later."""
        self._last_ms = max(round(self._clock.now().timestamp() * 1000), self._last_ms + 1)
        return self._last_ms
