"""The shape of the configuration: plain frozen values, made from nothing but what is handed in.

Building a ``Config`` reads no file and no environment; ``bot.config.load`` does that. What belongs to one plugin stays
a raw table here and is checked by the plugin's own settings model in ``bot.config.plugin_settings``.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from bot.config.choose import ChooseTable, require_reachable
from bot.config.llm import LlmSection
from bot.config.section import HostName, Hours, Name, Seconds, Section
from bot.config.sources import Sources
from bot.domain.question import Question
from bot.domain.submission import Mode
from bot.specs import Table


class LogLevel(StrEnum):
    """From what severity on events are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log events are written: for people or for machines."""

    CONSOLE = "console"
    JSON = "json"


class LogSection(Section):
    """What is logged, and how."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.CONSOLE


class DaemonSection(Section):
    """How often each job runs and how much runs at once; times in seconds.

    At each venue with a price feed the prices of so many ``watch_questions`` are watched as they move, the soonest to
    close first (0: none); one that moves by less than ``watch_step`` in log-odds is not written down. Of copies of the
    ledger, the oldest go where all together would take more than ``backup_gb`` gigabytes.
    """

    concurrency: int = Field(default=16, ge=1, le=1000)
    lease_s: Seconds = 900.0
    attend_every_s: Seconds = 5.0
    discover_every_s: Seconds = 900.0
    forecast_every_s: Seconds = 60.0
    submit_every_s: Seconds = 60.0
    reconcile_every_s: Seconds = 300.0
    resolve_every_s: Seconds = 3600.0
    score_every_s: Seconds = 3600.0
    backup_every_s: Seconds = 3600.0
    backup_gb: float = Field(default=20.0, gt=0, le=1e6)
    watch_questions: int = Field(default=200, ge=0, le=10_000)
    watch_step: float = Field(default=0.05, gt=0)


class LimitsSection(Section):
    """Where one trial is stopped, and how many trials must count; tokens are in and out together, None is no limit.

    ``steps`` is for forecasters that do not say how many they take, ``seconds`` for those that do not need more.
    Where fewer than the share ``least_trials`` of a question's trials count there is no forecast of it.
    """

    steps: int = Field(default=10, ge=1, le=10_000)
    seconds: Seconds = 600.0
    tokens: int | None = Field(default=None, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)
    least_trials: float = Field(default=0.5, ge=0, le=1)


class PolicySection(Section):
    """When a question is forecast again; times in hours, ``price_move`` in log-odds. One that changed is, at once.

    With ``withdraw_stale`` a forecast that stands at a venue is withdrawn there where it was stale for ``min_gap_h``
    and no new one came.
    """

    stale_after_h: Hours = 72.0
    near_close_h: tuple[Hours, ...] = (24.0, 2.0)
    price_move: float = Field(default=0.5, gt=0)
    min_gap_h: Hours = 1.0
    withdraw_stale: bool = False


class CalibrationUse(StrEnum):
    """What moves the numbers of forecasters: nothing, or what the gate for calibrators has let through."""

    IDENTITY = "identity"
    GATED = "gated"


class CalibrationSection(Section):
    """How forecasts are calibrated."""

    use: CalibrationUse = CalibrationUse.IDENTITY


class PluginTable(Section):
    """What config says of one thing that a plugin offers; only its settings model knows what ``settings`` may hold."""

    # What stands in the file. A secret written here by mistake is refused later, so it must not show in a repr.
    settings: dict[str, Any] = Field(default_factory=dict, repr=False)


Amount = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


class CapsSection(Section):
    """The most that may be at stake at one venue, in its currency, in paper too; None is no limit of this kind.

    What is in doubt counts as spent. ``daily_loss`` and ``drawdown`` halt the venue until a person resumes it; more
    than ``doubts`` writes without a known outcome halt it until they are read back.
    """

    per_order: Amount | None = None
    per_question: Amount | None = None
    per_event: Amount | None = None
    per_creator: Amount | None = None
    per_category: Amount | None = None
    per_day: Amount | None = None
    total: Amount | None = None
    orders_per_hour: int | None = Field(default=None, ge=0)
    daily_loss: Amount | None = None
    drawdown: Amount | None = None
    doubts: int = Field(default=3, ge=0, le=1000)

    @model_validator(mode="after")
    def _can_be_used(self) -> "CapsSection":
        wider = {name: getattr(self, name) for name in ("per_question", "per_event", "per_creator", "per_category")}
        wider |= {"per_day": self.per_day, "total": self.total}
        for name, most in wider.items():
            if self.per_order is not None and most is not None and self.per_order > most:
                message = f"per_order = {self.per_order:g} is more than {name} = {most:g}, so it could never be used"
                raise ValueError(message)
        return self


class TradingSection(Section):
    """When a belief becomes an order, and how large.

    ``kelly`` is the share of the full Kelly stake, ``shrink`` moves the belief towards the market in log-odds first,
    ``edge`` is the least gain per share after fees, ``band`` the prices that are traded at, ``divergence`` the distance
    from the market, in log-odds, beyond which a person must look first (None: none).

    A position is sold whatever the belief once selling it would bring less than what it cost by the share ``stop_loss``
    of that, or more by the share ``take_profit`` (None: never). Its question is not bought for ``stay_out_h`` hours
    after that, nor after a person closed it.
    """

    kelly: Probability = 0.25
    shrink: Probability = 0.0
    edge: Probability = 0.03
    band: tuple[Probability, Probability] = (0.03, 0.97)
    divergence: float | None = Field(default=None, gt=0)
    stop_loss: float | None = Field(default=None, gt=0, le=1)
    take_profit: float | None = Field(default=None, gt=0)
    stay_out_h: float = Field(default=168.0, ge=0, le=366 * 24)

    @model_validator(mode="after")
    def _has_a_band(self) -> "TradingSection":
        if self.band[0] >= self.band[1]:
            message = f"band = [{self.band[0]:g}, {self.band[1]:g}] holds no price; the first must be below the second"
            raise ValueError(message)
        return self


Share = Annotated[float, Field(gt=0, le=1)]


class BankrollSection(Section):
    """How large stakes may be beside each other: shares of what the account is worth, 1 is no limit of this kind.

    ``per_pass`` is for all that one pass buys, the others for what is at stake in one question, in one event, by the
    orders of one day (UTC) and in all. ``correlation`` is that of the legs of one event: at 1 they count as one bet
    that is won or lost as a whole, at 0 as so many bets. A stake that would be less than ``least``, in the venue's
    currency, is left for a later pass.
    """

    per_pass: Share = 0.10
    per_question: Share = 0.05
    per_event: Share = 0.10
    per_day: Share = 0.25
    total: Share = 0.75
    correlation: Probability = 1.0
    least: Amount = 1.0


class PaperSection(Section):
    """The paper book: the cash it is begun with, and the seconds after which an order meets the market."""

    cash: float = Field(default=1000.0, gt=0)
    delay_s: float = Field(default=2.0, ge=0, le=3600)


class VenueTable(PluginTable):
    """One venue: its mode where it differs from the common one, and who forecasts; the first one's forecast leaves.

    ``choose`` names others for some of its questions; the first table that fits a question counts.

    Nothing leaves in the last ``close_margin_s`` before a question closes. ``approval_h`` is how long a person's
    approval is waited for, and how long it holds. ``discover_every_s`` replaces that of the daemon.
    """

    mode: Mode | None = None
    forecasters: tuple[Name, ...] = Field(min_length=1)
    choose: Annotated[tuple[ChooseTable, ...], AfterValidator(require_reachable)] = ()
    account: str = Field(default="default", min_length=1, max_length=100)
    comment: bool = False
    close_margin_s: float = Field(default=60.0, ge=0, le=30 * 86_400)
    approval_h: Hours = 12.0
    discover_every_s: Seconds | None = None
    caps: CapsSection = CapsSection()
    trading: TradingSection = TradingSection()
    bankroll: BankrollSection = BankrollSection()
    paper: PaperSection = PaperSection()

    @property
    def everyone(self) -> tuple[str, ...]:
        """All who forecast some of its questions, each once."""
        chosen = (name for table in self.choose for name in table.forecasters)
        return tuple(dict.fromkeys((*self.forecasters, *chosen)))

    def forecasters_of(self, question: Question) -> tuple[str, ...]:
        """Return who forecasts a question, the one whose forecast leaves first."""
        return next((table.forecasters for table in self.choose if table.fits(question)), self.forecasters)


class PolicyTable(Section):
    """How questions of one source are worked on; what is left out is as the data plugin that serves it says."""

    tools: tuple[str, ...] | None = None
    first: str | None = None
    searches: int | None = Field(default=None, ge=0)
    bypass: bool = False
    advice: str = Field(default="", max_length=4000)


class DeskSection(Section):
    """What forecasters may use. ``search`` names the engines in the order they are tried; () is every enabled one.

    All lengths are in characters. ``snippet_chars``: what a search shows of each result. ``text_chars``: what is kept
    of the text of a result, and what the filter and the summariser read of it or of a page. ``page_chars``: what
    ``lookup_url`` shows of a page at a time. ``passage_chars``: a section of a reference work, or a summary. ``filter``
    concerns questions of an earlier day alone. ``blocked_hosts`` are never read, even where a question names them.
    """

    search: tuple[Name, ...] = ()
    results: int = Field(default=10, ge=1, le=20)
    snippet_chars: int = Field(default=500, ge=50, le=10_000)
    text_chars: int = Field(default=10_000, ge=200, le=200_000)
    page_chars: int = Field(default=10_000, ge=200, le=200_000)
    passage_chars: int = Field(default=20_000, ge=200, le=200_000)
    filter: bool = True
    blocked_hosts: tuple[HostName, ...] = ()
    sources: dict[str, PolicyTable] = Field(default_factory=dict)


class ForecasterTable(PluginTable):
    """One forecaster: how many independent trials a forecast has, and how they become one answer.

    ``uses`` names the forecaster that this one is a variant of, with settings of its own. ``calibration`` replaces the
    common one. ``clairvoyant`` takes all guards away, to see what knowing the future would be worth: such a forecast is
    scored and never leaves.

    ``steps``, ``seconds`` and ``least_trials`` replace what the forecaster needs and ``[limits]`` says. Where it asks
    models, its other trials wait ``warm_start_s`` seconds at most for the first step of the first one, so that they
    find their common prompt in the provider's cache; 0 starts all at once.
    """

    uses: Name | None = None
    calibration: CalibrationUse | None = None
    clairvoyant: bool = False
    trials: int | None = Field(default=None, ge=1, le=1000)
    aggregate: Literal["logit-mean", "mean", "median", "shrink"] = "logit-mean"
    steps: int | None = Field(default=None, ge=1, le=10_000)
    seconds: Seconds | None = None
    least_trials: float | None = Field(default=None, ge=0, le=1)
    warm_start_s: float = Field(default=30.0, ge=0, le=3600)


class Config(Section):
    """Everything the operator decides. Paths are as loaded: absolute, relative ones beside the file they stand in."""

    mode: Mode = Mode.PAPER
    state: Path = Path("state")
    seed: int = Field(default=1, ge=0)
    plugins: tuple[Name, ...] = ()
    plugin_files: tuple[Path, ...] = ()
    log: LogSection = LogSection()
    daemon: DaemonSection = DaemonSection()
    limits: LimitsSection = LimitsSection()
    policy: PolicySection = PolicySection()
    calibration: CalibrationSection = CalibrationSection()
    venues: dict[Name, VenueTable] = Field(default_factory=dict)
    forecasters: dict[Name, ForecasterTable] = Field(default_factory=dict)
    search: dict[Name, PluginTable] = Field(default_factory=dict)
    data: dict[Name, PluginTable] = Field(default_factory=dict)
    models: dict[Name, PluginTable] = Field(default_factory=dict)
    notifiers: dict[Name, PluginTable] = Field(default_factory=dict)
    llm: LlmSection = LlmSection()
    desk: DeskSection = DeskSection()

    _sources: Sources = PrivateAttr(default_factory=Sources)

    @property
    def sources(self) -> Sources:
        """Where the values come from."""
        return self._sources

    def placed(self, sources: Sources) -> "Config":
        """Return the same decisions with their sources, and with relative paths made absolute beside the file."""
        placed = self.model_copy(
            update={
                "state": sources.folder / self.state.expanduser(),
                "plugin_files": tuple(sources.folder / file.expanduser() for file in self.plugin_files),
            }
        )
        placed._sources = sources  # noqa: SLF001 - an attribute of this very class
        return placed

    def mode_of(self, venue: str) -> Mode:
        """Return the mode of a venue: its own, else the common one; off for a venue without a table."""
        table = self.venues.get(venue)
        if table is None:
            return Mode.OFF
        return self.mode if table.mode is None else table.mode

    def forecaster(self, name: str) -> ForecasterTable:
        """Return the table of a forecaster, or its defaults where config has none."""
        return self.forecasters.get(name, ForecasterTable())

    def table(self, kind: Table, name: str) -> PluginTable:
        """Return what config says of one thing that a plugin offers, or an empty table where it says nothing."""
        return self.tables(kind).get(name, PluginTable())

    def tables(self, kind: Table) -> Mapping[str, PluginTable]:
        """Return all tables of a kind by name."""
        tables: dict[Table, Mapping[str, PluginTable]] = {
            Table.VENUES: self.venues,
            Table.FORECASTERS: self.forecasters,
            Table.SEARCH: self.search,
            Table.DATA: self.data,
            Table.MODELS: self.models,
            Table.NOTIFIERS: self.notifiers,
        }
        return tables[kind]
