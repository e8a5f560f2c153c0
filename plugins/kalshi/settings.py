"""The settings of this venue; every field is explained by the text below it."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from bot.api import LocalPath, PluginSettings

# Encrypted, or on this machine.
HTTP_ADDRESS = r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$)|$)"
# See docs/facts/kalshi.md#hosts.
API_ADDRESSES = {
    "production": "https://external-api.kalshi.com/trade-api/v2",
    "demo": "https://external-api.demo.kalshi.co/trade-api/v2",
}
SOCKET_ADDRESS = r"^(wss://|ws://(127\.0\.0\.1|localhost|\[::1\])([:/]|$)|$)"
SOCKET_ADDRESSES = {
    "production": "wss://external-api-ws.kalshi.com/trade-api/ws/v2",
    "demo": "wss://external-api-ws.demo.kalshi.co/trade-api/ws/v2",
}
SeriesTicker = Annotated[str, Field(pattern=r"^[A-Z0-9][A-Z0-9._-]*$", max_length=100)]


class KalshiSettings(PluginSettings):
    """Which markets to read and trade, and the address of the venue; only live trading needs a key."""

    series: tuple[SeriesTicker, ...] = ()
    """Only markets of these series, by ticker such as `KXFED`; empty: those of `categories`."""

    categories: tuple[str, ...] = ()
    """Only markets of these categories, such as `Politics`; empty: all. `series` has precedence."""

    grouping: Literal["choice", "markets"] = "choice"
    """An event with at most one winner becomes one question with options (`choice`), or one question for each market
    (`markets`)."""

    min_volume: float = Field(default=1_000.0, ge=0)
    """The least volume of a question so far, in contracts."""

    ends_after_h: float = Field(default=2.0, ge=0)
    """Only markets that close in more than this many hours."""

    ends_within_d: float = Field(default=365.0, gt=0, le=36_500)
    """Only markets that close within this many days."""

    max_options: int = Field(default=40, ge=2, le=500)
    """The largest number of open outcomes of an event that becomes one question; larger events are left out."""

    max_pages: int = Field(default=10, ge=1, le=500)
    """Pages of events that are read, for each series where `series` is set."""

    page_size: int = Field(default=200, ge=1, le=200)
    """Events of one page; the site allows 200."""

    max_spread: float = Field(default=0.10, gt=0, lt=1)
    """The largest difference of best ask and best bid; a wider order book has no price and is not traded on."""

    environment: Literal["production", "demo"] = "production"
    """The real exchange, or its `demo` with invented money and prices."""

    key_id: str = Field(default="", max_length=100, pattern=r"^[A-Za-z0-9-]*$")
    """The id of the API key of the account, valid in that environment; empty: paper only."""

    key_file: LocalPath | None = None
    """The file of that key, RSA in PEM as the venue gives it, readable by you alone; unset: paper only."""

    attested: bool = False
    """You declare that you may trade here under the venue's terms, where you live and where this runs; nothing is
    traded without it."""

    api_url: str = Field(default="", pattern=HTTP_ADDRESS)
    """Address of the API, up to and with `/trade-api/v2`; empty: that of `environment`."""

    socket_url: str = Field(default="", pattern=SOCKET_ADDRESS)
    """Address of the socket of prices, up to and with `/trade-api/ws/v2`; empty: that of `environment`."""

    test_host: str | None = Field(default=None, min_length=1)
    """For tests: HOST:PORT of the only server that may be asked; unset: no such limit."""

    @property
    def base_url(self) -> str:
        """The address of the API, without a slash at its end."""
        return (self.api_url or API_ADDRESSES[self.environment]).rstrip("/")

    @property
    def socket_address(self) -> str:
        """The address of the socket."""
        return self.socket_url or SOCKET_ADDRESSES[self.environment]

    @property
    def has_key(self) -> bool:
        """Whether requests can be signed."""
        return bool(self.attested and self.key_id and self.key_file)

    @model_validator(mode="after")
    def _require_test_host(self) -> Self:
        """Refuse an address that is not at the test host."""
        if self.test_host is not None and urlsplit(self.base_url).netloc != self.test_host:
            message = f"api_url is not at test_host, {self.test_host}"
            raise ValueError(message)
        return self
