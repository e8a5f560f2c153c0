"""The configuration as frozen values: all tables of config.toml but those of venues.

A Config reads no file and no environment: ``bot.config.loader`` does, and ``bot.config.plugin_settings`` validates the
settings of plugins.
"""

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from bot.config.alert_schema import AlertsSection, NotifierTable
from bot.config.base_schema import ConfigName, ConfigSection, HostName, Hours, ModelName, PluginTable, Seconds
from bot.config.serve_schema import ServeSection
from bot.config.sources import ConfigSources
from bot.config.venue_schema import VenueTable
from bot.config.web_schema import WebSection
from bot.core.language_models import ModelDialect, ReasoningEffort
from bot.core.plugin_specs import PluginTableName
from bot.core.proxy_settings import ProxySettings, check_proxy_url
from bot.core.submissions import LIVE_MODES, ExecutionMode


class LogLevel(StrEnum):
    """The lowest severity of events that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log events are written: for people or for machines."""

    CONSOLE = "console"
    JSON = "json"


class LogSection(ConfigSection):
    """What is logged, and how."""

    level: LogLevel = LogLevel.INFO
    """The lowest level that is logged."""

    format: LogFormat = LogFormat.CONSOLE
    """`console` for people, `json` for machines."""


class HttpSection(ConfigSection):
    """How this program connects to other servers; by default directly, independent of the environment.

    A password in ``proxy`` is never shown. With ``trust_env`` the environment sets the proxies if ``proxy`` is unset
    (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), and certificate authorities (SSL_CERT_FILE, SSL_CERT_DIR).
    """

    proxy: Annotated[str, AfterValidator(check_proxy_url)] | None = Field(default=None, repr=False)
    """Address of an HTTP proxy, such as `http://name:password@host:3128`; hosts of this machine are connected to
    directly. Unset: none."""

    trust_env: bool = False
    """Take proxies and certificate authorities from the environment, such as HTTPS_PROXY and SSL_CERT_FILE."""

    connections: int = Field(default=1000, ge=1, le=20_000)
    """Connections in use at the same time, for reading and for models; further requests wait."""

    @property
    def proxies(self) -> ProxySettings:
        """The proxy settings for clients."""
        return ProxySettings(url=self.proxy, trust_env=self.trust_env)


class DaemonSection(ConfigSection):
    """How often each job runs and how much runs at once."""

    concurrency: int | None = Field(default=None, ge=1, le=10_000)
    """Questions that are forecast at the same time at most; unset: as many as keep the models busy, up to 1,500."""

    lease_s: Seconds = 900.0
    """Seconds after which a question taken by a run that died is free again."""

    requests_every_s: Seconds = 5.0
    """Seconds between checks for requests of other commands, such as lock, unlock and forecast."""

    discover_every_s: Seconds = 900.0
    """Seconds between searches for new and changed questions, unless the venue or its plugin says otherwise."""

    forecast_every_s: Seconds = 60.0
    """Seconds between passes that forecast the questions that are due."""

    submit_every_s: Seconds = 60.0
    """Seconds between passes that submit what was decided, or write it to the paper book."""

    reconcile_every_s: Seconds = 300.0
    """Seconds between checks of submissions whose outcome is unknown."""

    resolve_every_s: Seconds = 3600.0
    """Seconds between searches for outcomes."""

    score_every_s: Seconds = 3600.0
    """Seconds between passes that score what has resolved."""

    backup_every_s: Seconds = 3600.0
    """Seconds between backups of the ledger and the paper books."""

    backup_gb: float = Field(default=20.0, gt=0, le=1e6)
    """Gigabytes that all backups may take together; the oldest are deleted beyond that, or beyond half of the disk."""

    evidence_days: int | None = Field(default=None, ge=7, le=100_000)
    """Days after which the evidence of a resolved question (pages, exchanges, prompts, steps) is deleted; unset: never.
    Numbers, decisions and scores stay."""

    min_free_mb: float = Field(default=500.0, ge=0, le=1e9)
    """Free megabytes of the disk below which no search for questions, forecast or submission begins; 0: no limit."""

    watch_questions: int = Field(default=200, ge=0, le=10_000)
    """How many prices of each venue are watched as they move, soonest close first; 0 watches none."""

    watch_step: float = Field(default=0.05, gt=0)
    """The smallest price move, in log-odds, that is recorded."""


class LimitsSection(ConfigSection):
    """The limits of one trial. A stopped trial counts if it has stated a belief on evidence."""

    steps: int = Field(default=10, ge=1, le=10_000)
    """Steps of one trial, for a forecaster that does not state how many it needs."""

    seconds: Seconds = 600.0
    """Seconds of one trial, for a forecaster that does not need more."""

    tokens: int | None = Field(default=None, ge=1)
    """Tokens of one trial, input and output together; unset: no limit."""

    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars that one trial may cost; unset: no limit."""

    min_trial_share: float = Field(default=0.5, ge=0, le=1)
    """The smallest share of a question's trials that must finish for a forecast."""


class PolicySection(ConfigSection):
    """When a question is forecast again. A question that changed is forecast at once."""

    stale_after_h: Hours = 72.0
    """Hours after the last forecast when a question is forecast again."""

    near_close_h: tuple[Hours, ...] = (24.0, 2.0)
    """Hours before its close when a question is forecast again."""

    price_move: float = Field(default=0.5, gt=0)
    """A move of the market price, in log-odds, that causes a new forecast."""

    min_gap_h: Hours = 1.0
    """The minimum hours between two forecasts of a question, unless the question itself changed."""

    withdraw_stale: bool = False
    """Withdraw a submitted forecast that has been stale for `min_gap_h` hours and was not renewed."""


class PairsSection(ConfigSection):
    """How questions of different venues that ask the same are found and used.

    No model is asked unless one plays the role ``matcher``. Prices of pairs inform forecasts; nothing is ever traded or
    netted because of them.
    """

    enabled: bool = True
    """Look for pairs where several venues are in use."""

    use: Literal["confirmed", "judged", "matched"] = "confirmed"
    """Whose prices forecasters get: pairs that a person confirmed; `judged`: also those that the model of the role
    `matcher` calls the same; `matched`: also those that are the same by all checks of their titles and dates."""

    every_s: Seconds = 900.0
    """Seconds between passes that match questions and compare the prices of pairs."""

    questions: int = Field(default=2000, ge=10, le=20_000)
    """Open questions of each venue that are compared, soonest close first."""

    judged_per_pass: int = Field(default=10, ge=0, le=1000)
    """Pairs that the model of the role `matcher` judges in one pass."""


class CalibrationMode(StrEnum):
    """How forecasts are corrected: not at all, or by calibrators that passed the calibration gate."""

    IDENTITY = "identity"
    GATED = "gated"


class CalibrationSection(ConfigSection):
    """How forecasts are calibrated."""

    use: CalibrationMode = CalibrationMode.IDENTITY
    """`identity` leaves forecasts as they are; `gated` corrects them once outcomes show twice that it helps."""


class SourcePolicyTable(ConfigSection):
    """How questions of one source are researched; unset keys: as the data plugin for the source says."""

    tools: tuple[str, ...] | None = None
    """Tools that a forecaster may use on these questions; unset: all."""

    first: str | None = None
    """The tool that must be used before all others; unset: none."""

    searches: int | None = Field(default=None, ge=0)
    """Web searches of one trial; unset: no limit."""

    bypass: bool = False
    """Use the estimate of the first tool as the answer, and ask no model."""

    advice: str = Field(default="", max_length=4000)
    """Advice that models are shown with the question."""


class ResearchSection(ConfigSection):
    """What forecasters may search and read."""

    search: tuple[ConfigName, ...] = ()
    """Search engines in the order they are tried; empty: every enabled one."""

    results: int = Field(default=10, ge=1, le=20)
    """Results of one search."""

    snippet_chars: int = Field(default=500, ge=50, le=10_000)
    """Characters that a search shows of each result."""

    text_chars: int = Field(default=10_000, ge=200, le=200_000)
    """Characters of the text of a result that are kept, and that the filter and the summariser read of a result or
    page."""

    page_chars: int = Field(default=10_000, ge=200, le=200_000)
    """Characters of a page that `lookup_url` shows at a time."""

    passage_chars: int = Field(default=20_000, ge=200, le=200_000)
    """Characters of a section of a reference work, or of a summary."""

    filter: bool = True
    """Let the role `filter` drop results that are newer than the cutoff, for questions of an earlier day."""

    blocked_hosts: tuple[HostName, ...] = ()
    """Hosts that are never read; hosts of venues are blocked too, except pages that the criteria of a question name."""

    series: Path | None = None
    """A folder with series that `foxcast data snapshot` kept; backtests of its rounds read them from there. Unset:
    none."""

    sources: dict[str, SourcePolicyTable] = Field(default_factory=dict)
    """One table for each source of questions with its own policy; unset keys: as the data plugin says."""

    def located(self, folder: Path) -> "ResearchSection":
        """Return the section with a relative path resolved in the folder of the file."""
        return self if self.series is None else self.model_copy(update={"series": folder / self.series.expanduser()})


class ForecasterTable(PluginTable):
    """One forecaster: how many independent trials a forecast has, and how they are combined."""

    uses: ConfigName | None = None
    """The forecaster that this one is a variant of; unset: the forecaster of this name."""

    calibration: CalibrationMode | None = None
    """How its forecasts are calibrated; unset: as in `[calibration]`."""

    clairvoyant: bool = False
    """Remove all guards against knowledge of the future; such a forecast is scored and never submitted."""

    trials: int | None = Field(default=None, ge=1, le=1000)
    """Independent trials of one forecast; unset: as many as the forecaster recommends."""

    aggregate: Literal["logit-mean", "mean", "median", "shrink"] = "logit-mean"
    """How trials are combined; `shrink` moves their mean towards the market price or the base rate where they disagree,
    by weights that are tuned on what had resolved before."""

    steps: int | None = Field(default=None, ge=1, le=10_000)
    """Steps of one trial; unset: as many as the forecaster needs."""

    seconds: Seconds | None = None
    """Seconds of one trial; unset: as in `[limits]`, or more where the forecaster needs it."""

    min_trial_share: float | None = Field(default=None, ge=0, le=1)
    """The smallest share of trials that must finish for a forecast; unset: as in `[limits]`."""

    warm_start_s: float = Field(default=30.0, ge=0, le=3600)
    """Seconds that other trials wait for the first step of the first trial, so that the provider has cached the prompt;
    0: none."""


class RoleSection(ConfigSection):
    """Which model plays a role, and how."""

    model: ModelName
    """The model that plays the role, as `PROVIDER:NAME`; the provider as in `[models]`."""

    fallback: ModelName | None = None
    """The model that is asked if the first one fails or was replaced; unset: none."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; unset: the model's own, which is usually best."""

    effort: ReasoningEffort | None = None
    """How much the model thinks; `none` switches thinking off. Unset: as its provider recommends."""

    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Tokens of one answer, thinking included; unset: as its provider recommends, else 16,000."""

    timeout_s: Seconds = 600.0
    """Seconds of one call with all its retries; time spent waiting for the budget does not count."""


class ModelSection(ConfigSection):
    """What is known about one model. A price that is set here replaces that of the provider."""

    dialect: ModelDialect = ModelDialect.TOOLS
    """`tools` for native tool calls; `json` for one object under a JSON schema, which small models need."""

    free: bool = False
    """The model costs nothing; a model without a price is used only if it is free."""

    price_in: float | None = Field(default=None, ge=0)
    """US dollars per million input tokens; unset: the provider's list price."""

    price_cached: float | None = Field(default=None, ge=0)
    """US dollars per million tokens read from the provider's cache; unset: the list price."""

    price_written: float | None = Field(default=None, ge=0)
    """US dollars per million tokens written to the provider's cache; unset: the list price."""

    price_out: float | None = Field(default=None, ge=0)
    """US dollars per million output tokens; unset: the list price."""

    knowledge_cutoff: date | None = None
    """The last day of its training data; unset: as published. Backtests mark outcomes known by then."""


class ProviderSection(ConfigSection):
    """How many requests one provider gets, and what it may cost a day."""

    concurrency: int = Field(default=1000, ge=1, le=10_000)
    """Requests at the same time at most; how many fewer is learned from its answers."""

    per_minute: int | None = Field(default=None, ge=1)
    """Requests a minute; unset: no limit."""

    day_usd: float | None = Field(default=None, gt=0)
    """US dollars a day (UTC); unset: as in `[llm.budget]`."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Attempts of one call, each after a longer wait; a response that asks to wait is no failure."""

    lost_retries: int = Field(default=1, ge=0, le=10)
    """How often a request without a complete response is sent again, although it may be billed twice."""

    break_after: int = Field(default=5, ge=1)
    """Consecutive failures after which no request is sent to the provider for a while."""

    break_s: Seconds = 30.0
    """Seconds in which no request is sent to a failing provider."""


class BudgetSection(ConfigSection):
    """What may be spent on models. Calls in flight count with their maximum cost.

    ``question_usd`` has room for five trials that concurrently ask for 32,000 tokens each at 20 dollars per million
    (0.72 with a long prompt, so 3.60), and for the cost of such a forecast until then.
    """

    question_usd: float | None = Field(default=5.0, gt=0)
    """US dollars of one forecast of one question."""

    run_usd: float | None = Field(default=None, gt=0)
    """US dollars of one run; unset: no limit."""

    day_usd: float | None = Field(default=20.0, gt=0)
    """US dollars of one day (UTC)."""

    ask_above_usd: float = Field(default=5.0, ge=0)
    """US dollars of expected cost above which a run needs a person's confirmation (`--yes`)."""


class HealthSection(ConfigSection):
    """When the fallback of a role replaces its model, judged by the latest trials of the model in the role."""

    window: int = Field(default=30, ge=1)
    """How many of the latest trials in the role are judged; half as many questions, with any number of trials."""

    min_trials: int = Field(default=10, ge=1)
    """The minimum number of trials for a decision."""

    submit_rate: float = Field(default=0.8, ge=0, le=1)
    """The minimum share of trials that end by submitting an answer."""

    unparsed: float = Field(default=0.3, ge=0, le=1)
    """The largest share of moves that could not be parsed."""

    unparsed_beliefs: float = Field(default=0.5, ge=0, le=1)
    """The largest share of belief updates that could not be parsed."""

    errors: float = Field(default=0.5, ge=0, le=1)
    """The largest share of trials in which a request failed finally."""

    even_answers: float = Field(default=0.5, ge=0, le=1)
    """The largest share of answers of exactly 0.5."""

    belief_gap: float = Field(default=0.1, ge=0, le=1)
    """The largest mean difference between the last belief and the submitted probability."""

    hours: Hours = 24.0
    """Hours that a replaced model stays replaced."""

    @model_validator(mode="after")
    def _require_reachable_minimum(self) -> "HealthSection":
        if self.min_trials > self.window:
            message = (
                f"min_trials = {self.min_trials} trials are more than window = {self.window}, so no model would ever "
                "be replaced; set min_trials to at most window"
            )
            raise ValueError(message)
        return self


class LlmSection(ConfigSection):
    """Which model plays which role, what models cost, and what may be spent."""

    roles: dict[ConfigName, RoleSection] = Field(default_factory=dict)
    """One table for each role, with the model that plays it."""

    models: dict[ModelName, ModelSection] = Field(default_factory=dict)
    """One table for each model whose data the provider does not give or gives wrongly."""

    providers: dict[ConfigName, ProviderSection] = Field(default_factory=dict)
    """One table for each provider whose limits differ from the defaults."""

    budget: BudgetSection = BudgetSection()
    """What may be spent on models."""

    health: HealthSection = HealthSection()
    """When a model is replaced by the fallback of its role."""


class Config(ConfigSection):
    """The whole configuration. Paths are absolute after loading: relative ones are in the folder of the file."""

    mode: ExecutionMode = ExecutionMode.PAPER
    """The mode of all venues whose own table sets none."""

    state: Path = Path("state")
    """The folder of the ledger, of backups and of everything else that must survive."""

    seed: int = Field(default=1, ge=0)
    """The seed of all random choices; the same seed gives the same forecasts."""

    plugins: tuple[ConfigName, ...] = ()
    """Names of the enabled plugins; no other is imported."""

    plugin_files: tuple[Path, ...] = ()
    """Python files that are plugins; a file's name without .py is the name of its plugin."""

    log: LogSection = LogSection()
    """What is logged, and how."""

    http: HttpSection = HttpSection()
    """How this program connects to other servers."""

    daemon: DaemonSection = DaemonSection()
    """How often each job runs."""

    alerts: AlertsSection = AlertsSection()
    """What is reported to people, and when."""

    web: WebSection = WebSection()
    """Where the daemon answers others."""

    serve: ServeSection = ServeSection()
    """Who may ask for forecasts there, and read results as JSON."""

    limits: LimitsSection = LimitsSection()
    """The limits of one trial of a forecaster."""

    policy: PolicySection = PolicySection()
    """When a question is forecast again."""

    calibration: CalibrationSection = CalibrationSection()
    """Whether forecasts are corrected by outcomes."""

    pairs: PairsSection = PairsSection()
    """How questions of different venues that ask the same are found and used."""

    venues: dict[ConfigName, VenueTable] = Field(default_factory=dict)
    """One table for each venue to be used."""

    forecasters: dict[ConfigName, ForecasterTable] = Field(default_factory=dict)
    """One table for each forecaster whose values differ from the defaults."""

    search: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    """One table for each search engine that has settings."""

    data: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    """One table for each data source that has settings."""

    models: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    """One table for each provider of models that has settings."""

    notifiers: dict[ConfigName, NotifierTable] = Field(default_factory=dict)
    """One table for each notifier to be used."""

    llm: LlmSection = LlmSection()
    """Which model plays which role, what models cost, and what may be spent."""

    research: ResearchSection = ResearchSection()
    """What forecasters may search and read."""

    _sources: ConfigSources = PrivateAttr(default_factory=ConfigSources)

    @property
    def sources(self) -> ConfigSources:
        """The sources of the values."""
        return self._sources

    def with_sources(self, sources: ConfigSources) -> "Config":
        """Return the configuration with its sources, and with relative paths resolved in the folder of the file."""
        located = self.model_copy(
            update={
                "state": sources.folder / self.state.expanduser(),
                "plugin_files": tuple(sources.folder / file.expanduser() for file in self.plugin_files),
                "web": self.web.located(sources.folder),
                "research": self.research.located(sources.folder),
                "serve": self.serve.located(sources.folder),
            }
        )
        located._sources = sources  # noqa: SLF001 - an attribute of this class
        return located

    def mode_of(self, venue: str) -> ExecutionMode:
        """Return the mode of a venue: its own, else the mode of all venues; off for a venue without a table."""
        table = self.venues.get(venue)
        if table is None:
            return ExecutionMode.OFF
        return self.mode if table.mode is None else table.mode

    def with_live_venues_on_paper(self) -> "Config":
        """Return this configuration with the mode ``paper`` for each venue that would submit to the real venue."""
        tables = {
            name: table.model_copy(update={"mode": ExecutionMode.PAPER}) if self.mode_of(name) in LIVE_MODES else table
            for name, table in self.venues.items()
        }
        return self.model_copy(update={"venues": tables})

    def forecaster_table(self, name: str) -> ForecasterTable:
        """Return the table of a forecaster; a table of defaults if config has none."""
        return self.forecasters.get(name, ForecasterTable())

    def plugin_table(self, kind: PluginTableName, name: str) -> PluginTable:
        """Return the table of one part of a plugin; an empty table if config has none."""
        return self.plugin_tables(kind).get(name, PluginTable())

    def plugin_tables(self, kind: PluginTableName) -> Mapping[str, PluginTable]:
        """Return all tables of a kind by name."""
        tables: dict[PluginTableName, Mapping[str, PluginTable]] = {
            PluginTableName.VENUES: self.venues,
            PluginTableName.FORECASTERS: self.forecasters,
            PluginTableName.SEARCH: self.search,
            PluginTableName.DATA: self.data,
            PluginTableName.MODELS: self.models,
            PluginTableName.NOTIFIERS: self.notifiers,
        }
        return tables[kind]
