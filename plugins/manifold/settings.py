"""What an operator may set for this venue; every field is explained by the text below it."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, SecretStr

from bot.api import Settings

VENUE = "manifold"
MANA, CASH = "MANA", "CASH"

Kind = Literal["binary", "multiple_choice", "pseudo_numeric", "number", "date", "legacy_number"]
# What becomes part of an address or of a query.
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The addresses of one of the venue's two worlds, each without a slash at the end."""

    api: str
    socket: str
    site: str


PLACES = {
    "production": Place(
        api="https://api.manifold.markets", socket="wss://api.manifold.markets/ws", site="https://manifold.markets"
    ),
    "development": Place(
        api="https://api.dev.manifold.markets",
        socket="wss://api.dev.manifold.markets/ws",
        site="https://dev.manifold.markets",
    ),
}


class ManifoldSettings(Settings):
    """Whose account, in which of the venue's two worlds, and which markets."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    environment: Literal["production", "development"] = "production"
    """Which world: the real one, or the venue's own for trying things out. Each has its accounts, keys and markets."""

    key: SecretStr | None = None
    """The API key of the bot's account. Reading and paper need none."""

    development_key: SecretStr | None = None
    """The same for the development world; neither is ever sent to the other."""

    username: str = ""
    """The account that the key must belong to. Without it nothing is written."""

    markets: tuple[Slug, ...] = ()
    """Markets to forecast whatever the filters say, by id or slug."""

    scan: bool = True
    """Whether to look for markets; if not, only the ones named in ``markets`` are forecast."""

    topics: tuple[Slug, ...] = ()
    """Only markets of these topics (groups), by slug. Left out: all."""

    creators: tuple[Slug, ...] = ()
    """Only markets of these creators, by username. Left out: all."""

    terms: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Only markets that a search for one of these texts finds. Left out: all."""

    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = (
        "binary",
        "multiple_choice",
        "pseudo_numeric",
        "number",
        "date",
    )
    """Which kinds of markets. ``legacy_number`` are old ones that cannot be made any more."""

    tokens: Annotated[tuple[Literal["MANA", "CASH"], ...], Field(min_length=1)] = ("MANA",)
    """Which currencies."""

    min_liquidity: float = Field(default=100.0, ge=0)
    """Only markets with so much liquidity, in mana: the least that one is made with today. Thinner ones are neither
    forecast nor traded on."""

    min_volume: float = Field(default=0.0, ge=0)
    """Only markets on which so much was bet."""

    min_bettors: int = Field(default=10, ge=0)
    """Only markets on which so many have bet."""

    closes_within_h: float | None = Field(default=None, gt=0)
    """Only markets that close within so many hours; left out: all, also those that never do."""

    close_margin_s: float = Field(default=60.0, ge=0, le=86_400)
    """Nothing is forecast or bet in the last seconds before a market closes."""

    most: int = Field(default=100, ge=1, le=2_000)
    """So many markets at most; the text of each is a request of its own."""

    most_answers: int = Field(default=20, ge=1, le=500)
    """So many answers at most of a market whose answers are questions of their own; the most traded ones."""

    prefer: Literal["bettors", "closing", "volume", "newest"] = "bettors"
    """Which markets come first where there are more: most bettors, soonest close, most volume of the day, newest."""

    resolve_after_s: float = Field(default=900.0, gt=600, le=604_800)
    """How old a resolution must be to count: creators may undo theirs for ten minutes."""

    order_lifetime_s: float = Field(default=60.0, ge=45, le=86_400)
    """How long what is left of a limit order rests. Every order has an end."""

    dry_run: bool = False
    """Ask the venue what an order would do before it is placed, and leave it where that is worse than planned."""

    comments: bool = False
    """Whether comments are posted. Each costs 1 mana and is public."""

    base_url: str | None = Field(default=None, pattern=r"^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?$")
    """Another server on this machine in place of the venue, for trying things out."""

    @property
    def place(self) -> Place:
        """The addresses in use."""
        if self.base_url is None:
            return PLACES[self.environment]
        socket = f"ws{self.base_url.removeprefix('http')}/ws"
        return Place(api=self.base_url, socket=socket, site=PLACES[self.environment].site)

    @property
    def key_name(self) -> str:
        """The name of the setting that holds the key in use."""
        return "key" if self.environment == "production" else "development_key"

    @property
    def key_in_use(self) -> SecretStr | None:
        """The key of the world in use."""
        return self.key if self.environment == "production" else self.development_key
