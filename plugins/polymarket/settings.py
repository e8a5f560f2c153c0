"""What an operator may set for this venue; every field is explained by the text below it."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, model_validator

from bot.api import LocalPath, Settings

# Encrypted, or on this machine.
ADDRESS = r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))"
SOCKET_ADDRESS = r"^(wss://|ws://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))"
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
HexAddress = Annotated[str, Field(pattern=r"^(0x[0-9a-fA-F]{40})?$")]


class ReadingSettings(Settings):
    """Which markets, and where the venue is; nothing here needs a key."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    tags: tuple[Slug, ...] = ()
    """Only markets with one of these tags, by slug, such as ``politics``. Left out: all."""

    grouping: Literal["choice", "markets"] = "choice"
    """Events where exactly one outcome wins: one question with options, or one question for each of their markets."""

    volume_min: float = Field(default=10_000.0, ge=0)
    """The least that was traded in a market so far, in dollars."""

    liquidity_min: float = Field(default=1_000.0, ge=0)
    """The least that its books hold, in dollars."""

    ends_after_h: float = Field(default=2.0, ge=0)
    """Only markets that are scheduled to end in more than so many hours."""

    ends_within_d: float = Field(default=365.0, gt=0, le=36_500)
    """Only markets that are scheduled to end within so many days."""

    most_options: int = Field(default=40, ge=2, le=500)
    """Where ``grouping`` is ``choice``, events with more outcomes that can still win are left out."""

    most_pages: int = Field(default=5, ge=1, le=500)
    """So many pages are read at most, of each tag, those traded most today first."""

    page_size: int = Field(default=50, ge=1, le=100)
    """How many records a page has; the site takes no more than 100."""

    spread_max: float = Field(default=0.10, gt=0, lt=1)
    """Between best bid and best ask; a book that is wider has no price."""

    feed_age_s: float = Field(default=300.0, ge=30)
    """A book that did not move for so long, as the socket has it, is compared with what is read."""

    gamma_url: str = Field(default="https://gamma-api.polymarket.com", pattern=ADDRESS)
    """Where markets are described."""

    clob_url: str = Field(default="https://clob.polymarket.com", pattern=ADDRESS)
    """Where books and orders are."""

    data_url: str = Field(default="https://data-api.polymarket.com", pattern=ADDRESS)
    """Where resolutions and past prices are."""

    site_url: str = Field(default="https://polymarket.com", pattern=ADDRESS)
    """Where it is said which regions may trade; also what addresses of questions begin with."""

    socket_url: str = Field(default="wss://ws-subscriptions-clob.polymarket.com", pattern=SOCKET_ADDRESS)
    """Where prices are told as they move."""

    test_host: str | None = Field(default=None, min_length=1)
    """For tests: HOST:PORT; whatever is anywhere else is refused before a request leaves."""

    @model_validator(mode="after")
    def _is_at_the_test_host(self) -> Self:
        """Refuse addresses elsewhere."""
        if self.test_host is not None:
            for name in ("gamma_url", "clob_url", "data_url", "site_url", "socket_url"):
                if urlsplit(getattr(self, name)).netloc != self.test_host:
                    message = f"{name} is not at test_host, {self.test_host}"
                    raise ValueError(message)
        return self


class TradingSettings(ReadingSettings):
    """How orders are written, and how the paper book fills them; neither needs a key."""

    order_type: Literal["FAK", "FOK", "GTD"] = "FAK"
    """FAK takes what is offered within the limit and drops the rest, FOK takes all of it or nothing, GTD waits at a
    price of its own until others take it: no fee, and no certainty. What is given up is always sold as FAK."""

    order_lifetime_s: float = Field(default=3600.0, ge=240, le=7 * 86_400)
    """After how long an order that waits ends by itself; it counts as ended a minute before."""

    book_age_s: float = Field(default=21_600.0, ge=30)
    """A book in which nothing changed for so long is stale, and not traded on; some are quiet for hours."""

    paper_queue: Literal["optimistic", "neutral", "strict"] = "neutral"
    """On paper, an order that waits is filled by trades at its price once those before it are served (neutral), at once
    (optimistic), or only by trades beyond its price (strict)."""

    paper_settle_s: float = Field(default=600.0, ge=0, le=7 * 86_400)
    """On paper, so long after an outcome stands its shares are paid."""

    paper_refused: float = Field(default=0.0, ge=0, le=1)
    """On paper, the share of orders that are refused for no reason of theirs."""

    paper_restarting: float = Field(default=0.0, ge=0, le=1)
    """On paper, the share of ten-minute windows in which the exchange is restarting and takes no order."""

    paper_failed: float = Field(default=0.0, ge=0, le=1)
    """On paper, the share of matched orders that fail on chain afterwards and come to nothing."""

    paper_seed: str = Field(default="foxcast", max_length=100)
    """Which orders and windows those are; the same seed, the same ones."""


class PolymarketSettings(TradingSettings):
    """All settings of the venue; those of the account count only where it is live."""

    key_file: LocalPath | None = None
    """A file with the private key that signs orders (0x and 64 hexadecimal digits), readable by its owner alone. Only
    the signer, a process of its own, opens it."""

    wallet: HexAddress = ""
    """The address that holds the money: for accounts since April 2026 the deposit wallet, not the key's own address."""

    wallet_type: Literal["deposit", "safe", "proxy", "eoa"] = "deposit"
    """What kind of wallet that is; accounts made since the end of April 2026 have a deposit wallet."""

    api_key: SecretStr | None = None
    """The key of the account at the exchange, with ``api_secret`` and ``api_passphrase``. Left out: derived by the
    signer."""

    api_secret: SecretStr | None = None
    """See ``api_key``."""

    api_passphrase: SecretStr | None = None
    """See ``api_key``."""

    attested: bool = False
    """That you may trade here by the venue's terms, where you live and where this runs. Nothing is traded without."""

    signer_python: LocalPath | None = None
    """The Python of the signer, of an environment made from signer.lock. Left out: the one that runs Foxcast, with the
    extra ``polymarket``."""

    signer_per_order: float = Field(default=10.0, gt=0)
    """The signer signs no purchase of more dollars, whatever it is asked."""

    signer_per_day: float = Field(default=50.0, gt=0)
    """The signer signs purchases of no more dollars in one day (UTC), those of earlier runs counted."""
