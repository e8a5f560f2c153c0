"""What a plugin hands over: inert, typed descriptions. Nothing runs until a factory is entered."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo

from bot.domain.research import SeriesModel, SourcePolicy
from bot.domain.wire import Rate
from bot.errors import HttpRefusal
from bot.ports import (
    Archive,
    Clock,
    DataSource,
    Forecaster,
    Http,
    Learner,
    Llm,
    Notifier,
    PageSource,
    Planner,
    PriceFeed,
    SearchEngine,
    Sockets,
    Submitter,
    Venue,
    Wire,
)

if TYPE_CHECKING:
    from bot.domain.learning import Fitted

API_VERSION = 1

# In which a model that thinks at high effort gives most of its answers.
CALL_SECONDS = 60.0


# Two underscores in a row separate the parts of an environment variable, so a name has none.
NAME_PATTERN = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"


class Table(StrEnum):
    """The tables of config.toml that hold what plugins offer."""

    VENUES = "venues"
    FORECASTERS = "forecasters"
    SEARCH = "search"
    DATA = "data"
    MODELS = "models"
    NOTIFIERS = "notifiers"


class Can(StrEnum):
    """What a venue or engine is able to do; callers and tests branch on these, never on names."""

    SUBMIT = "submit"
    COMMENT = "comment"
    WITHDRAW = "withdraw"
    PAPER = "paper"
    TRADE = "trade"
    PUSH_PRICES = "push prices"
    ARCHIVE = "archive"
    LEARN = "learn"
    SEARCH_BEFORE_DATE = "search before date"
    SEARCH_TEXT = "search text"
    SERIES = "series"
    PAGES = "pages"
    VINTAGES = "vintages"
    ASK_MODELS = "ask models"


class Settings(BaseModel):
    """The parent of every plugin's settings: frozen, unknown keys refused, secrets as SecretStr."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)


def _beside_config(path: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / path.expanduser()


# A path in settings: relative ones are meant beside config.toml, wherever the program was started.
LocalPath = Annotated[Path, AfterValidator(_beside_config)]

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What a factory is given besides its settings: time, bounded HTTP, and a folder of its own."""

    clock: Clock
    http: Http
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePlace(Workplace):
    """What the factory of a price feed is given."""

    sockets: Sockets


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPlace(Workplace):
    """What the factory of a paper book is given: ``cash`` to begin with, and after how long an order meets the market.

    ``currency`` and ``cash`` count once, when the book is begun.
    """

    cash: float
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPlace(Workplace):
    """What the factory of a live writer is given; nothing else holds a wire."""

    wire: Wire


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The head of all specs: name as used in config, a one-line summary, and the API version it was built for."""

    name: str
    summary: str
    abilities: frozenset[Can] = frozenset()
    api_version: int = API_VERSION

    def __post_init__(self) -> None:
        """Refuse a name that config and environment variables could not hold, and a summary of none or many lines."""
        if not re.fullmatch(NAME_PATTERN, self.name):
            message = f"the name {self.name!r} should be lower-case letters, digits and single underscores"
            raise ValueError(message)
        if not self.summary.strip() or "\n" in self.summary:
            message = f"{self.name}: the summary should be one line"
            raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class Configurable(Spec, Generic[S]):
    """The head of what has a table in config.toml, ``[<table>.<name>]``, and settings in it."""

    table: ClassVar[Table]
    settings: type[S]


@dataclass(frozen=True, kw_only=True)
class VenueSpec(Configurable[S]):
    """A venue: its reader, and where it has them its paper book, writer, price feed and archive of past rounds.

    ``archive`` reads past rounds in a folder; ``archive_folder`` tells which one the settings themselves name, if any.
    ``hosts`` are the venue's own hosts: what stands there gives the answer away, so no forecaster reads it.
    ``planner`` is there where forecasts become orders; its paper book is then a PaperTrader and its writer a Trader.
    ``rates`` bound what is asked of the venue, by reader, feed and writer together. ``check`` proves the credentials
    before anything is written, and returns what a person should know; it raises Unauthorized or Rejected.
    ``discover_every`` is after how long it must be read again where its questions are open for less than config waits.
    ``comment_fee`` is what one comment costs there under these settings, None where they let none pass;
    ``comments_by_event`` says that questions of one event share the place of comments, and get one in all.
    ``refuses_credentials`` tells an answer about our credentials from one about a single item; so many
    ``final_refusals`` within ten minutes mean that nothing more is asked until they are renewed.
    """

    table: ClassVar[Table] = Table.VENUES
    hosts: tuple[str, ...] = ()
    discover_every: timedelta | None = None
    reader: Callable[[S, Workplace], AbstractAsyncContextManager[Venue]]
    paper: Callable[[S, PaperPlace], AbstractAsyncContextManager[Submitter]] | None = None
    writer: Callable[[S, WriterPlace], AbstractAsyncContextManager[Submitter]] | None = None
    prices: Callable[[S, PricePlace], AbstractAsyncContextManager[PriceFeed]] | None = None
    planner: Callable[[S, Workplace], AbstractAsyncContextManager[Planner]] | None = None
    check: Callable[[S, Workplace], Awaitable[Sequence[str]]] | None = None
    rates: Callable[[S], Sequence[Rate]] = field(default=lambda _: ())
    archive: Callable[[S, Path], Archive] | None = None
    archive_folder: Callable[[S], Path | None] = field(default=lambda _: None)
    comment_fee: Callable[[S], float | None] = field(default=lambda _: 0.0)
    comments_by_event: bool = False
    refuses_credentials: Callable[[HttpRefusal], bool] = field(default=lambda refusal: refusal.status == 401)
    final_refusals: int = 1


@dataclass(frozen=True, kw_only=True)
class ForecasterSpec(Configurable[S]):
    """A forecaster; ``learner`` and ``shipped`` are there if it learns from outcomes.

    ``shipped`` returns the parameters that come with the package, each usable for cutoffs at or after its ``before``.
    ``trials`` is how many independent trials a forecast has where config does not say; ``steps`` returns how many steps
    a trial takes at most under these settings, and ``seconds`` how long it may take (CALL_SECONDS for each call that
    waits for the one before): its limits, where config has none for it. ``roles`` are those in which it cannot do
    without a model, and ``may_ask`` those that it asks where a model plays them (``juror_*`` for any number of jurors).
    ``members`` returns the names of other forecasters whose answers it builds on: they forecast before it, and unless
    it asks models itself it reads them with the tool ``peer_forecasts`` (``bot.desk.peers``).
    """

    table: ClassVar[Table] = Table.FORECASTERS
    open: Callable[[S, Workplace], AbstractAsyncContextManager[Forecaster]]
    learner: Callable[[S], Learner] | None = None
    shipped: Callable[[], Sequence[Fitted]] = field(default=tuple)
    trials: int = 1
    steps: Callable[[S], int] | None = None
    seconds: Callable[[S], float] | None = None
    roles: tuple[str, ...] = ()
    may_ask: tuple[str, ...] = ()
    members: Callable[[S], Sequence[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class SearchSpec(Configurable[S]):
    """A search engine."""

    table: ClassVar[Table] = Table.SEARCH
    open: Callable[[S, Workplace], AbstractAsyncContextManager[SearchEngine]]


@dataclass(frozen=True, kw_only=True)
class DataSpec(Configurable[S]):
    """A source of time series (``open``), or of pages with a past (``pages``).

    ``serves`` names the sources of questions (``Question.source``) it is for, ``policy`` how those are worked on,
    ``model`` how its series are extrapolated.
    """

    table: ClassVar[Table] = Table.DATA
    open: Callable[[S, Workplace], AbstractAsyncContextManager[DataSource]] | None = None
    pages: Callable[[S, Workplace], AbstractAsyncContextManager[PageSource]] | None = None
    serves: frozenset[str] = frozenset()
    policy: SourcePolicy = field(default_factory=SourcePolicy)
    model: SeriesModel = field(default_factory=SeriesModel)


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Configurable[S]):
    """A provider of language models. One that ``converses`` asks a person on the terminal, which is left to it then."""

    table: ClassVar[Table] = Table.MODELS
    converses: bool = False
    open: Callable[[S, Workplace], AbstractAsyncContextManager[Llm]]


@dataclass(frozen=True, kw_only=True)
class NotifierSpec(Configurable[S]):
    """A channel to a person."""

    table: ClassVar[Table] = Table.NOTIFIERS
    open: Callable[[S, Workplace], AbstractAsyncContextManager[Notifier]]


@dataclass(frozen=True, kw_only=True)
class CommandSpec(Spec):
    """A command ``foxcast NAME``: a function whose annotated parameters become its options."""

    run: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class JobSpec(Spec):
    """Work to be done every so often by the daemon; returns one line about what it did."""

    every: timedelta
    run: Callable[[Workplace], Awaitable[str]]
