"""Typed specs that plugins declare, and the contexts that their factories receive.

A spec runs nothing; only a factory does.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo

from bot.core.beliefs import Step
from bot.core.errors import HttpErrorResponse
from bot.core.forecasts import TrialTranscript
from bot.core.interfaces import (
    Clock,
    DataSource,
    FeeSchedule,
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
from bot.core.light_dataclass import dataclass
from bot.core.research import SeriesModel, SourcePolicy
from bot.core.setup_choices import SetupChoice
from bot.core.venue_http import RateLimit

if TYPE_CHECKING:
    from bot.core.learning import FittedParameters, TrainingExample
    from bot.core.orders import Order
    from bot.core.questions import Question

API_VERSION = 1
# The time in which a model with high reasoning effort gives most of its answers.
MODEL_CALL_SECONDS = 60.0
# Two underscores in a row separate the parts of an environment variable, so a name may not have them.
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
    rewrites it. ``programs`` are the fields that name a program that is run, which a user must trust first.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {}
    programs: ClassVar[Sequence[str]] = ()

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
    )


def _relative_to_config(path: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / path.expanduser()


# A path in settings: relative ones are relative to the folder of config.toml, wherever the program was started.
LocalPath = Annotated[Path, AfterValidator(_relative_to_config)]
S = TypeVar("S", bound=PluginSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginContext:
    """What a factory receives in addition to its settings: time, bounded HTTP, and a folder of its own.

    The folder exists, nothing else writes to it, and only its owner can read it. A command that cannot write to the
    state folder gives a temporary one.
    """

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

    ``cash`` is the initial cash, which is used once, when the book is created. An order is matched with the market
    after ``delay_s``.
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
        """Refuse a name that is invalid in config or environment variables, and a summary that is not one line."""
        if not re.fullmatch(NAME_PATTERN, self.name):
            message = f"the name {self.name!r} should be lower-case letters, digits and single underscores"
            raise ValueError(message)
        if not self.summary.strip() or "\n" in self.summary:
            message = f"{self.name}: the summary should be one line"
            raise ValueError(message)

    @property
    def abilities(self) -> tuple[str, ...]:
        """Its abilities, in words for a person."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ConfigurableSpec(BaseSpec, Generic[S]):
    """The base of specs with a table in config.toml, ``[<table>.<name>]``, that has settings.

    `foxcast init` offers the ``setup`` choices of venues and model providers. It enables what is for a ``first_config``
    without a question, because it needs no key: forecasters, and where a model is used, search engines and data.
    """

    table: ClassVar[PluginTableName]
    settings: type[S]
    setup: tuple[SetupChoice, ...] = ()
    first_config: bool = False


# The fees of an order on a question; it may raise a FoxcastError where the question does not say them.
OrderFees = Callable[["Question", "Order"], FeeSchedule]


@dataclass(frozen=True, kw_only=True)
class VenueSpec(ConfigurableSpec[S]):
    """A venue: its reader, and optionally its paper book, writer, price feed and archive of past rounds.

    ``archive`` reads past rounds in a folder; ``archive_folder`` returns the folder that the settings name, if any.
    ``read_history`` returns the resolved questions in JSON of the venue's API, each with the moment it was asked.
    ``hosts`` are the venue's own hosts: their pages reveal the answer, so no forecaster reads them. ``planner`` is set
    if forecasts become orders; then the paper book is a PaperTradingSubmitter and the writer a TradingSubmitter, and
    ``fees`` returns the fees of an order on a question: the gate computes them itself, whatever the planner says.
    ``rates`` limit the requests of reader, feed and writer together. ``check`` verifies the credentials before anything
    is written, and returns notes for a person; it raises AuthenticationError or RequestRejectedError.
    ``discover_every`` is the interval of discovery if questions are open for a shorter time than that of config.
    ``withdraws`` says that the writer can withdraw forecasts. ``forecast_lifetime`` returns after which time a forecast
    lapses there under these settings, None for never: an equal one is then sent again. ``comment_fee`` is set if a text
    can be posted with a forecast: the cost of one under these settings, None if they allow none; with
    ``comments_by_event`` all questions of one event get one comment together. ``is_credential_refusal`` distinguishes
    refused credentials from a refusal of one item; after this many ``final_refusals`` within ten minutes no request is
    sent until they are renewed.
    """

    table: ClassVar[PluginTableName] = PluginTableName.VENUES
    hosts: tuple[str, ...] = ()
    discover_every: timedelta | None = None
    reader: Callable[[S, PluginContext], AbstractAsyncContextManager[VenueReader]]
    paper: Callable[[S, PaperBookContext], AbstractAsyncContextManager[VenueSubmitter]] | None = None
    writer: Callable[[S, VenueWriterContext], AbstractAsyncContextManager[VenueSubmitter]] | None = None
    prices: Callable[[S, PriceFeedContext], AbstractAsyncContextManager[PriceFeed]] | None = None
    planner: Callable[[S, PluginContext], AbstractAsyncContextManager[OrderPlanner]] | None = None
    fees: OrderFees | None = None
    check: Callable[[S, PluginContext], Awaitable[Sequence[str]]] | None = None
    rates: Callable[[S], Sequence[RateLimit]] = field(default=lambda _: ())
    archive: Callable[[S, Path], RoundArchive] | None = None
    archive_folder: Callable[[S], Path | None] = field(default=lambda _: None)
    read_history: Callable[[Any], Iterable[TrainingExample]] | None = None
    withdraws: bool = False
    forecast_lifetime: Callable[[S], timedelta | None] | None = None
    comment_fee: Callable[[S], float | None] | None = None
    comments_by_event: bool = False
    is_credential_refusal: Callable[[HttpErrorResponse], bool] = field(default=lambda refusal: refusal.status == 401)
    final_refusals: int = 1

    def __post_init__(self) -> None:
        """Refuse a planner without fees."""
        super().__post_init__()
        if self.planner is not None and self.fees is None:
            message = (
                f"{self.name}: a venue with a planner needs fees, such as "
                "fees=lambda question, order: ShareFees() where it takes none"
            )
            raise ValueError(message)

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

    ``shipped_parameters`` returns the parameters in the package, each usable for cutoffs at or after its ``before``.
    ``trials`` is the number of independent trials of a forecast if config sets none. ``steps`` returns the maximum
    number of steps of a trial under these settings, and ``seconds`` its maximum time (``MODEL_CALL_SECONDS`` for each
    sequential call); both are limits if config sets none. ``roles`` are the roles that need a model, and
    ``optional_roles`` those that are asked only if a model plays them (``juror_*`` for any number of jurors); a
    forecaster without either asks no model. ``members`` returns the names of other forecasters whose answers it
    combines: they forecast before it, and unless it asks models itself it reads them with the tool ``peer_forecasts``
    (``bot.forecasting.peers``). ``transcript`` formats the steps of a trial for a person (``foxcast transcript``);
    without it they are shown one by one.
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
    """A search engine; without ``bounds_dates`` it cannot limit results to a time, so it is for live questions only."""

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

    ``question_sources`` are the sources of questions (``Question.source``) that it serves, ``policy`` is how those are
    researched, and ``model`` how its series are extrapolated.
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

    With ``is_interactive`` it asks a person on the terminal, which nothing else may use then.
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
