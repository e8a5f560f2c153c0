"""The settings of this venue; every field is explained by the text below it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from bot.api import LocalPath, PluginSettings

# Encrypted, or on this machine.
HTTP_ADDRESS = r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))"
SOCKET_ADDRESS = r"^(wss://|ws://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))"
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
HexAddress = Annotated[str, Field(pattern=r"^(0x[0-9a-fA-F]{40})?$")]


class PolymarketReadingSettings(PluginSettings):
    """Which markets to read, and the addresses of the venue; nothing here needs a key."""

    tags: tuple[Slug, ...] = ()
    """Only markets with one of these tags, by slug such as `politics`; empty: all."""

    grouping: Literal["choice", "markets"] = "choice"
    """An event with exactly one winner becomes one question with options (`choice`), or one question for each market
    (`markets`)."""

    min_volume: float = Field(default=10_000.0, ge=0)
    """The least volume of a market so far, in dollars."""

    min_liquidity: float = Field(default=1_000.0, ge=0)
    """The least liquidity in the order books of a market, in dollars."""

    ends_after_h: float = Field(default=2.0, ge=0)
    """Only markets that are scheduled to end in more than this many hours."""

    ends_within_d: float = Field(default=365.0, gt=0, le=36_500)
    """Only markets that are scheduled to end within this many days."""

    max_options: int = Field(default=40, ge=2, le=500)
    """The largest number of open outcomes of an event that becomes one question; larger events are left out."""

    max_pages: int = Field(default=5, ge=1, le=500)
    """Pages of markets that are read for each tag, those traded most today first."""

    page_size: int = Field(default=50, ge=1, le=100)
    """Markets of one page; the site allows 100."""

    max_spread: float = Field(default=0.10, gt=0, lt=1)
    """The largest difference of best ask and best bid; a wider order book has no price."""

    feed_age_s: float = Field(default=300.0, ge=30)
    """Seconds without a price update after which an order book is read again to compare."""

    gamma_url: str = Field(default="https://gamma-api.polymarket.com", pattern=HTTP_ADDRESS)
    """Address of the service that describes markets."""

    clob_url: str = Field(default="https://clob.polymarket.com", pattern=HTTP_ADDRESS)
    """Address of the service for order books and orders."""

    data_url: str = Field(default="https://data-api.polymarket.com", pattern=HTTP_ADDRESS)
    """Address of the service for resolutions and past prices."""

    site_url: str = Field(default="https://polymarket.com", pattern=HTTP_ADDRESS)
    """Address of the site, for links and for the list of regions that may trade."""

    socket_url: str = Field(default="wss://ws-subscriptions-clob.polymarket.com", pattern=SOCKET_ADDRESS)
    """Address of the stream of prices."""

    test_host: str | None = Field(default=None, min_length=1)
    """For tests: HOST:PORT of the only server that may be asked; unset: no such limit."""

    @model_validator(mode="after")
    def _require_test_host(self) -> Self:
        """Refuse addresses that are not at the test host."""
        if self.test_host is not None:
            for name in ("gamma_url", "clob_url", "data_url", "site_url", "socket_url"):
                if urlsplit(getattr(self, name)).netloc != self.test_host:
                    message = f"{name} is not at test_host, {self.test_host}"
                    raise ValueError(message)
        return self


class PolymarketTradingSettings(PolymarketReadingSettings):
    """How orders are written, and how the paper book fills them; neither needs a key."""

    order_type: Literal["FAK", "FOK", "GTD"] = "FAK"
    """`FAK` takes what is offered within the limit and drops the rest; `FOK` takes all or nothing; `GTD` rests at its
    own price, without fee or certainty. Sales are always FAK."""

    order_lifetime_s: float = Field(default=3600.0, ge=240, le=7 * 86_400)
    """Seconds after which a resting order ends; it counts as ended a minute before."""

    max_book_age_s: float = Field(default=21_600.0, ge=30)
    """Seconds without a change after which an order book is too old to trade on."""

    paper_queue: Literal["optimistic", "neutral", "strict"] = "neutral"
    """When a resting paper order fills: after those before it (`neutral`), at once (`optimistic`), or only on trades
    beyond its price (`strict`)."""

    paper_settle_s: float = Field(default=600.0, ge=0, le=7 * 86_400)
    """On paper, seconds after an outcome until its shares are paid."""

    paper_refusal_share: float = Field(default=0.0, ge=0, le=1)
    """On paper, the share of orders that are refused."""

    paper_restart_share: float = Field(default=0.0, ge=0, le=1)
    """On paper, the share of ten-minute windows in which the exchange restarts and takes no order."""

    paper_failure_share: float = Field(default=0.0, ge=0, le=1)
    """On paper, the share of matched orders that fail on chain afterwards."""

    paper_seed: str = Field(default="foxcast", max_length=100)
    """On paper, the seed that decides which orders and windows fail."""


class PolymarketSettings(PolymarketTradingSettings):
    """All settings of the venue; those of the account are only used if it is live."""

    programs: ClassVar[Sequence[str]] = ("signer_python",)

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "book_age_s": "max_book_age_s",
        "liquidity_min": "min_liquidity",
        "most_options": "max_options",
        "most_pages": "max_pages",
        "paper_failed": "paper_failure_share",
        "paper_refused": "paper_refusal_share",
        "paper_restarting": "paper_restart_share",
        "spread_max": "max_spread",
        "volume_min": "min_volume",
    }

    key_file: LocalPath | None = None
    """A file with the private key that signs orders (0x and 64 hexadecimal digits); only the signer process opens it.
    Unset: paper only."""

    wallet: HexAddress = ""
    """Address that holds the money; for accounts since April 2026 the deposit wallet."""

    wallet_type: Literal["deposit", "safe", "proxy", "eoa"] = "deposit"
    """Kind of that wallet; accounts since the end of April 2026 have a deposit wallet."""

    api_key: SecretStr | None = None
    """API key of the account at the exchange, with `api_secret` and `api_passphrase`; unset: derived by the signer."""

    api_secret: SecretStr | None = None
    """API secret of that key; unset: derived by the signer."""

    api_passphrase: SecretStr | None = None
    """Passphrase of that key; unset: derived by the signer."""

    attested: bool = False
    """You declare that you may trade here under the venue's terms, where you live and where this runs; nothing is
    traded without it."""

    signer_python: LocalPath | None = None
    """The Python that runs the signer, of the environment of `make signer`; unset: the one that runs Foxcast."""

    signer_per_order: float = Field(default=10.0, gt=0)
    """Dollars that the signer allows for one purchase, whatever it is asked."""

    signer_per_day: float = Field(default=50.0, gt=0)
    """Dollars that the signer allows for the purchases of one day (UTC)."""
