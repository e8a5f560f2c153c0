"""The network: HTTP clients for reads and for writes, WebSockets, rate limits, and guarded reading of the open web."""

from functools import cache

from bot.core.light_imports import import_without


@cache
def load_httpx() -> None:
    """Load httpx without its command line, for which it loads pygments and rich: 3.5 MB. Call it before an import."""
    import_without("httpx", "pygments")
