"""The settings of this venue; every field is explained by the text below it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr

from bot.api import PluginSettings

VENUE = "manifold"
MANA, CASH = "MANA", "CASH"

MarketKind = Literal["binary", "multiple_choice", "pseudo_numeric", "number", "date", "legacy_number"]
# Part of an address or of a query.
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldAddresses:
    """The addresses of one of the venue's two environments, each without a slash at the end."""

    api: str
    socket: str
    site: str


ADDRESSES_BY_ENVIRONMENT = {
    "production": ManifoldAddresses(
        api="https://api.manifold.markets", socket="wss://api.manifold.markets/ws", site="https://manifold.markets"
    ),
    "development": ManifoldAddresses(
        api="https://api.dev.manifold.markets",
        socket="wss://api.dev.manifold.markets/ws",
        site="https://dev.manifold.markets",
    ),
}


class ManifoldSettings(PluginSettings):
    """The account, the environment of the venue, and which markets to read."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "most": "max_markets",
        "most_answers": "max_answers",
        "terms": "search_terms",
        "tokens": "currencies",
    }

    environment: Literal["production", "development"] = "production"
    """`production`, or the venue's own `development` world for trying things out; each has its accounts, keys and
    markets."""

    key: SecretStr | None = None
    """API key of the bot's account; unset: reading and paper only."""

    development_key: SecretStr | None = None
    """API key of the account in the development world; unset: reading and paper only."""

    username: str = ""
    """The account that the key must belong to; empty: nothing is written."""

    markets: tuple[Slug, ...] = ()
    """Markets to forecast regardless of the filters, by id or slug."""

    scan: bool = True
    """Look for markets; false forecasts only those named in `markets`."""

    topics: tuple[Slug, ...] = ()
    """Only markets of these topics, by slug; empty: all."""

    creators: tuple[Slug, ...] = ()
    """Only markets of these creators, by username; empty: all."""

    search_terms: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Only markets that a search for one of these texts finds; empty: all."""

    kinds: Annotated[tuple[MarketKind, ...], Field(min_length=1)] = (
        "binary",
        "multiple_choice",
        "pseudo_numeric",
        "number",
        "date",
    )
    """Kinds of markets to forecast; `legacy_number` are old ones that cannot be made any more."""

    currencies: Annotated[tuple[Literal["MANA", "CASH"], ...], Field(min_length=1)] = ("MANA",)
    """Currencies whose markets are forecast."""

    min_liquidity: float = Field(default=100.0, ge=0)
    """The least liquidity of a market, in mana; by default what a new market starts with."""

    min_volume: float = Field(default=0.0, ge=0)
    """The least volume of a market so far, in its currency."""

    min_bettors: int = Field(default=10, ge=0)
    """The least number of bettors of a market."""

    closes_within_h: float | None = Field(default=None, gt=0)
    """Only markets that close within this many hours; unset: all, also those that never close."""

    close_margin_s: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds before a close in which a market is not found and nothing is sent; one found before may be renewed."""

    max_markets: int = Field(default=100, ge=1, le=2_000)
    """The largest number of markets; each needs a request of its own."""

    max_answers: int = Field(default=20, ge=1, le=500)
    """The largest number of answers of a market whose answers are questions of their own; the most traded ones."""

    prefer: Literal["bettors", "closing", "volume", "newest"] = "bettors"
    """Which markets come first where there are more: `bettors` (most), `closing` (soonest), `volume` (most today) or
    `newest`."""

    resolve_after_s: float = Field(default=900.0, gt=600, le=604_800)
    """Seconds after which a resolution counts; creators may undo theirs for ten minutes."""

    order_lifetime_s: float = Field(default=60.0, ge=45, le=86_400)
    """Seconds after which a resting limit order ends."""

    dry_run: bool = False
    """Ask the venue what an order would do before it is placed, and drop it where that is worse than planned."""

    comments: bool = False
    """Post comments; each costs 1 mana and is public."""

    base_url: str | None = Field(default=None, pattern=r"^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?$")
    """Address of another server on this machine in place of the venue, for tests; unset: the venue."""

    @property
    def addresses(self) -> ManifoldAddresses:
        """The addresses in use."""
        if self.base_url is None:
            return ADDRESSES_BY_ENVIRONMENT[self.environment]
        socket = f"ws{self.base_url.removeprefix('http')}/ws"
        return ManifoldAddresses(api=self.base_url, socket=socket, site=ADDRESSES_BY_ENVIRONMENT[self.environment].site)

    @property
    def key_name(self) -> str:
        """The name of the setting that holds the key in use."""
        return "key" if self.environment == "production" else "development_key"

    @property
    def key_in_use(self) -> SecretStr | None:
        """The key of the environment in use."""
        return self.key if self.environment == "production" else self.development_key
