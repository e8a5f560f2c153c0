"""What plugins declare: typed specs of their parts, and the contexts that their factories receive.

Nothing runs until a factory is entered.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo

from bot.core.beliefs import Step
from bot.core.errors import HttpErrorResponse
from bot.core.interfaces import (
    Clock,
    DataSource,
    Forecaster,
    HttpClient,
    ModelProvider,
    NotificationChannel,
    OrderPlanner,
    PageSource,
    ParameterLearner,
    PriceFeed,
    RoundArchive,
    SearchEngine,
    VenueReader,
    VenueSubmitter,
    WebSocketClient,
    WriteClient,
)
from bot.core.research import SeriesModel, SourcePolicy
from bot.core.transcripts import TrialTranscript
from bot.core.venue_http import RateLimit

if TYPE_CHECKING:
    from bot.core.learning import FittedParameters

API_VERSION = 1

# The time in which a model with high reasoning effort gives most of its answers.
MODEL_CALL_SECONDS = 60.0


# Two underscores in a row separate the parts of an environment variable, so a name has none.
NAME_PATTERN = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"


class PluginTableName(StrEnum):
    """The tables of config.toml that configure plugins."""

    VENUES = "venues"
    FORECASTERS = "forecasters"
    SEARCH = "search"
    DATA = "data"
    MODELS = "models"
    NOTIFIERS = "notifiers"


class PluginSettings(BaseModel):
    """The parent of every plugin's settings: frozen, unknown keys refused, secrets as SecretStr.

    A string below a field describes it: ``foxcast config show --explain KEY`` and docs/settings.md print it.
    ``renamed_keys`` are old names of fields with the new ones: an old name is refused, and ``foxcast config upgrade``
    rewrites it.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
        use_attribute_docstrings=True,
    )


def _relative_to_config(path: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / path.expanduser()


# A path in settings: relative ones are relative to the folder of config.toml, wherever the program was started.
LocalPath = Annotated[Path, AfterValidator(_relative_to_config)]

S = TypeVar("S", bound=PluginSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginContext:
    """What a factory receives in addition to its settings: time, bounded HTTP, and a folder of its own."""

    clock: Clock
    http: HttpClient
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFeedContext(PluginContext):
    """What the factory of a price feed receives."""

    sockets: WebSocketClient


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBookContext(PluginContext):
    """What the factory of a paper book receives.

    ``cash`` to begin with, and the delay after which an order meets the market.

    ``currency`` and ``cash`` apply once, when the book is created.
    """

    cash: float
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueWriterContext(PluginContext):
    """What the factory of a live writer receives; nothing else holds a write client."""

    wire: WriteClient


@dataclass(frozen=True, kw_only=True)
class BaseSpec:
    """The base of all specs: name as used in config, a one-line summary, and the API version it was built for."""

    name: str
    summary: str
    api_version: int = API_VERSION

    def __post_init__(self) -> None:
        """Refuse a name that config and environment variables could not hold, and a summary of none or many lines."""
        if not re.fullmatch(NAME_PATTERN, self.name):
            message = f"the name {self.name!r} should be lower-case letters, digits and single underscores"
            raise ValueError(message)
        if not self.summary.strip() or "\n" in self.summary:
            message = f"{self.name}: the summary should be one line"
            raise ValueError(message)

    @property
    def abilities(self) -> tuple[str, ...]:
        """Its abilities, in words for a person, as its fields say."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ConfigurableSpec(BaseSpec, Generic[S]):
    """The base of specs that have a table in config.toml, ``[<table>.<name>]``, with settings in it."""

    table: ClassVar[PluginTableName]
    settings: type[S]


@dataclass(frozen=True, kw_only=True)
class VenueSpec(ConfigurableSpec[S]):
    """A venue: its reader, and if it has them its paper book, writer, price feed and archive of past rounds.

    ``archive`` reads past rounds in a folder; ``archive_folder`` tells which one the settings themselves name, if any.
    ``hosts`` are the venue's own hosts: their pages give the answer away, so no forecaster reads them.
    ``planner`` is there where forecasts become orders; its paper book is then a PaperTradingSubmitter
    and its writer a TradingSubmitter.
    ``rates`` bound what is asked of the venue, by reader, feed and writer together. ``check`` proves the credentials
    before anything is written, and returns what a person should know; it raises AuthenticationError or
    RequestRejectedError.
    ``discover_every`` is after how long it must be read again where its questions are open for less than config waits.
    ``withdraws`` says that its writer withdraws forecasts that stand. ``comment_fee`` is there where a text may go with
    a forecast: what one costs under these settings, None where they let none pass;
    ``comments_by_event`` says that questions of one event share the place of comments, and get one in all.
    ``is_credential_refusal`` tells an answer about our credentials from one about a single item; so many
    ``final_refusals`` within ten minutes mean that nothing more is asked until they are renewed.
    """

    table: ClassVar[PluginTableName] = PluginTableName.VENUES
    hosts: tuple[str, ...] = ()
    discover_every: timedelta | None = None
    reader: Callable[[S, PluginContext], AbstractAsyncContextManager[VenueReader]]
    paper: Callable[[S, PaperBookContext], AbstractAsyncContextManager[VenueSubmitter]] | None = None
    writer: Callable[[S, VenueWriterContext], AbstractAsyncContextManager[VenueSubmitter]] | None = None
    prices: Callable[[S, PriceFeedContext], AbstractAsyncContextManager[PriceFeed]] | None = None
    planner: Callable[[S, PluginContext], AbstractAsyncContextManager[OrderPlanner]] | None = None
    check: Callable[[S, PluginContext], Awaitable[Sequence[str]]] | None = None
    rates: Callable[[S], Sequence[RateLimit]] = field(default=lambda _: ())
    archive: Callable[[S, Path], RoundArchive] | None = None
    archive_folder: Callable[[S], Path | None] = field(default=lambda _: None)
    withdraws: bool = False
    comment_fee: Callable[[S], float | None] | None = None
    comments_by_event: bool = False
    is_credential_refusal: Callable[[HttpErrorResponse], bool] = field(default=lambda refusal: refusal.status == 401)
    final_refusals: int = 1

    @property
    def abilities(self) -> tuple[str, ...]:
        """Its abilities, in words for a person."""
        offered = {
            "submit": self.writer,
            "comment": self.comment_fee,
            "withdraw": self.withdraws,
            "paper": self.paper,
            "trade": self.planner,
            "push prices": self.prices,
            "archive": self.archive,
        }
        return tuple(name for name, part in offered.items() if part)


@dataclass(frozen=True, kw_only=True)
class ForecasterSpec(ConfigurableSpec[S]):
    """A forecaster; ``learner`` and ``shipped_parameters`` are set if it learns from outcomes.

    ``shipped_parameters`` returns the parameters that come with the package, each usable for cutoffs at or after its
    ``before``. ``trials`` is how many independent trials a forecast has where config does not say; ``steps`` returns
    how many steps a trial takes at most under these settings, and ``seconds`` how long it may take (CALL_SECONDS for
    each call that waits for the one before): its limits, where config has none for it. ``roles`` are those in which it
    cannot do without a model, and ``optional_roles`` those that it asks where a model plays them (``juror_*`` for any
    number of jurors); one that names neither asks no model. ``members`` returns the names of other forecasters whose
    answers it builds on: they forecast before it, and unless it asks models itself it reads them with the tool
    ``peer_forecasts`` (``bot.forecasting.peers``). ``transcript`` returns the steps of a trial as a person reads them
    (``foxcast transcript``); without it they are shown one by one.
    """

    table: ClassVar[PluginTableName] = PluginTableName.FORECASTERS
    open: Callable[[S, PluginContext], AbstractAsyncContextManager[Forecaster]]
    learner: Callable[[S], ParameterLearner] | None = None
    shipped_parameters: Callable[[], Sequence[FittedParameters]] = field(default=tuple)
    trials: int = 1
    steps: Callable[[S], int] | None = None
    seconds: Callable[[S], float] | None = None
    roles: tuple[str, ...] = ()
    optional_roles: tuple[str, ...] = ()
    members: Callable[[S], Sequence[str]] | None = None
    transcript: Callable[[Sequence[Step]], TrialTranscript] | None = None

    @property
    def asks_models(self) -> bool:
        """Whether it asks language models."""
        return bool(self.roles or self.optional_roles)

    @property
    def abilities(self) -> tuple[str, ...]:
        """Its abilities, in words for a person."""
        offered = {"ask models": self.asks_models, "learn": self.learner}
        return tuple(name for name, part in offered.items() if part)


@dataclass(frozen=True, kw_only=True)
class SearchSpec(ConfigurableSpec[S]):
    """A search engine; one that ``bounds_dates`` returns results from before a moment, others serve live questions."""

    table: ClassVar[PluginTableName] = PluginTableName.SEARCH
    open: Callable[[S, PluginContext], AbstractAsyncContextManager[SearchEngine]]
    bounds_dates: bool = False

    @property
    def abilities(self) -> tuple[str, ...]:
        """Its abilities, in words for a person."""
        return ("search before date",) if self.bounds_dates else ()


@dataclass(frozen=True, kw_only=True)
class DataSpec(ConfigurableSpec[S]):
    """A source of time series (``open``), or of pages with a history (``pages``).

    ``question_sources`` names the sources of questions (``Question.source``) it is for, ``policy`` how those are worked
    on, ``model`` how its series are extrapolated.
    """

    table: ClassVar[PluginTableName] = PluginTableName.DATA
    open: Callable[[S, PluginContext], AbstractAsyncContextManager[DataSource]] | None = None
    pages: Callable[[S, PluginContext], AbstractAsyncContextManager[PageSource]] | None = None
    question_sources: frozenset[str] = frozenset()
    policy: SourcePolicy = field(default_factory=SourcePolicy)
    model: SeriesModel = field(default_factory=SeriesModel)

    @property
    def abilities(self) -> tuple[str, ...]:
        """Its abilities, in words for a person."""
        return tuple(name for name, part in {"series": self.open, "pages": self.pages}.items() if part)


@dataclass(frozen=True, kw_only=True)
class ModelSpec(ConfigurableSpec[S]):
    """A provider of language models.

    One that ``is_interactive`` asks a person on the terminal, which nothing else uses then.
    """

    table: ClassVar[PluginTableName] = PluginTableName.MODELS
    is_interactive: bool = False
    open: Callable[[S, PluginContext], AbstractAsyncContextManager[ModelProvider]]


@dataclass(frozen=True, kw_only=True)
class NotifierSpec(ConfigurableSpec[S]):
    """A channel to a person."""

    table: ClassVar[PluginTableName] = PluginTableName.NOTIFIERS
    open: Callable[[S, PluginContext], AbstractAsyncContextManager[NotificationChannel]]


@dataclass(frozen=True, kw_only=True)
class CommandSpec(BaseSpec):
    """A command ``foxcast NAME``: a function whose annotated parameters become its options."""

    run: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class JobSpec(BaseSpec):
    """Work that the daemon repeats at an interval; returns one line about what it did."""

    every: timedelta
    run: Callable[[PluginContext], Awaitable[str]]
