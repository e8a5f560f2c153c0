"""The configuration as frozen values.

Building a Config reads no file and no environment; bot.config.loader does that, and bot.config.plugin_settings checks
the settings of plugins.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr

from bot.config.base_schema import ConfigName, ConfigSection, HostName, Hours, PluginTable, Seconds
from bot.config.llm_schema import LlmSection
from bot.config.sources import ConfigSources
from bot.config.venue_schema import VenueTable
from bot.core.plugin_specs import PluginTableName
from bot.core.proxy_settings import ProxySettings, check_proxy_url
from bot.core.submissions import ExecutionMode


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


class LogSection(ConfigSection):
    """What is logged, and how."""

    level: LogLevel = LogLevel.INFO
    """The least severe level that is logged."""

    format: LogFormat = LogFormat.CONSOLE
    """`console` for people, `json` for machines."""


class HttpSection(ConfigSection):
    """How this program connects to other servers; by default directly, whatever the environment says.

    A password in ``proxy`` is shown nowhere. With ``trust_env`` the environment names the proxies where ``proxy`` is
    left out (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), and certificate authorities (SSL_CERT_FILE, SSL_CERT_DIR).
    """

    proxy: Annotated[str, AfterValidator(check_proxy_url)] | None = Field(default=None, repr=False)
    """Address of an HTTP proxy, such as `http://name:password@host:3128`; hosts of this machine are connected to
    directly. Unset: none."""

    trust_env: bool = False
    """Take proxies and certificate authorities from the environment, such as HTTPS_PROXY and SSL_CERT_FILE."""

    @property
    def proxies(self) -> ProxySettings:
        """The proxies as every client takes them."""
        return ProxySettings(url=self.proxy, trust_env=self.trust_env)


class DaemonSection(ConfigSection):
    """How often each job runs and how much runs at once."""

    concurrency: int = Field(default=16, ge=1, le=1000)
    """How many questions are forecast at the same time."""

    lease_s: Seconds = 900.0
    """Seconds after which a question taken by a run that died is free again."""

    requests_every_s: Seconds = 5.0
    """Seconds between looks for requests of other commands, such as lock, unlock and forecast."""

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
    """Seconds between backups of the ledger and the paper books; 24 hourly and 30 daily copies are kept."""

    backup_gb: float = Field(default=20.0, gt=0, le=1e6)
    """Gigabytes that all backups may take together; the oldest are deleted beyond that, or beyond half of the disk."""

    watch_questions: int = Field(default=200, ge=0, le=10_000)
    """How many prices of each venue are watched as they move, soonest close first; 0 watches none."""

    watch_step: float = Field(default=0.05, gt=0)
    """The smallest price move, in log-odds, that is recorded."""


class LimitsSection(ConfigSection):
    """Where one trial is stopped. It counts if it has finished by then, or has stated a belief on evidence."""

    steps: int = Field(default=10, ge=1, le=10_000)
    """Steps of one trial, for a forecaster that does not say how many it takes."""

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
    """The least hours between two forecasts of a question, unless the question itself changed."""

    withdraw_stale: bool = False
    """Withdraw a submitted forecast that has been stale for `min_gap_h` hours and was not renewed."""


class CalibrationMode(StrEnum):
    """What moves the numbers of forecasters: nothing, or what the gate for calibrators has let through."""

    IDENTITY = "identity"
    GATED = "gated"


class CalibrationSection(ConfigSection):
    """How forecasts are calibrated."""

    use: CalibrationMode = CalibrationMode.IDENTITY
    """`identity` leaves forecasts as they are; `gated` corrects them once outcomes show twice that it helps."""


class SourcePolicyTable(ConfigSection):
    """How questions of one source are worked on; what is unset is as the data plugin that serves it says."""

    tools: tuple[str, ...] | None = None
    """Tools that a forecaster may use on these questions; unset: all."""

    first: str | None = None
    """The tool that is used before any other; unset: none."""

    searches: int | None = Field(default=None, ge=0)
    """Web searches of one trial; unset: no limit."""

    bypass: bool = False
    """Take the first tool's estimate as the answer, and ask no model."""

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
    """Characters that are kept of the text of a result, and that the filter and the summariser read of a result or
    page."""

    page_chars: int = Field(default=10_000, ge=200, le=200_000)
    """Characters of a page that `lookup_url` shows at a time."""

    passage_chars: int = Field(default=20_000, ge=200, le=200_000)
    """Characters of a section of a reference work, or of a summary."""

    filter: bool = True
    """Let the role `filter` drop results that are newer than the cutoff, on questions of an earlier day."""

    blocked_hosts: tuple[HostName, ...] = ()
    """Hosts that are never read; hosts of all venues are blocked too, except pages that a question's criteria name."""

    sources: dict[str, SourcePolicyTable] = Field(default_factory=dict)
    """One table for each source of questions that is worked on in its own way; unset keys: as the data plugin says."""


class ForecasterTable(PluginTable):
    """One forecaster: how many independent trials a forecast has, and how they become one answer."""

    uses: ConfigName | None = None
    """The forecaster that this one is a variant of; unset: the forecaster of this name."""

    calibration: CalibrationMode | None = None
    """How its forecasts are calibrated; unset: as in `[calibration]`."""

    clairvoyant: bool = False
    """Remove all guards against knowledge of the future; such a forecast is scored and never submitted."""

    trials: int | None = Field(default=None, ge=1, le=1000)
    """Independent trials of one forecast; unset: as many as the forecaster recommends."""

    aggregate: Literal["logit-mean", "mean", "median", "shrink"] = "logit-mean"
    """How trials become one answer; `shrink` moves their mean towards the market price or the base rate."""

    steps: int | None = Field(default=None, ge=1, le=10_000)
    """Steps of one trial; unset: as many as the forecaster needs."""

    seconds: Seconds | None = None
    """Seconds of one trial; unset: as in `[limits]`, or more where the forecaster needs it."""

    min_trial_share: float | None = Field(default=None, ge=0, le=1)
    """The smallest share of trials that must finish for a forecast; unset: as in `[limits]`."""

    warm_start_s: float = Field(default=30.0, ge=0, le=3600)
    """Seconds that other trials wait for the first step of the first one, to find their prompt in the provider's cache;
    0: none."""


class Config(ConfigSection):
    """Everything the operator decides. Paths are as loaded: absolute, relative ones beside the file they stand in."""

    mode: ExecutionMode = ExecutionMode.PAPER
    """What venues are used for, unless their own table says otherwise."""

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

    limits: LimitsSection = LimitsSection()
    """Where one trial of a forecaster is stopped."""

    policy: PolicySection = PolicySection()
    """When a question is forecast again."""

    calibration: CalibrationSection = CalibrationSection()
    """Whether outcomes correct what forecasters say."""

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

    notifiers: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    """One table for each notifier that has settings."""

    llm: LlmSection = LlmSection()
    """Which model plays which role, what models cost, and what may be spent."""

    research: ResearchSection = ResearchSection()
    """What forecasters may search and read."""

    _sources: ConfigSources = PrivateAttr(default_factory=ConfigSources)

    @property
    def sources(self) -> ConfigSources:
        """Where the values come from."""
        return self._sources

    def with_sources(self, sources: ConfigSources) -> "Config":
        """Return the same decisions with their sources, and with relative paths made absolute beside the file."""
        placed = self.model_copy(
            update={
                "state": sources.folder / self.state.expanduser(),
                "plugin_files": tuple(sources.folder / file.expanduser() for file in self.plugin_files),
            }
        )
        placed._sources = sources  # noqa: SLF001 - an attribute of this very class
        return placed

    def mode_of(self, venue: str) -> ExecutionMode:
        """Return the mode of a venue: its own, else the common one; off for a venue without a table."""
        table = self.venues.get(venue)
        if table is None:
            return ExecutionMode.OFF
        return self.mode if table.mode is None else table.mode

    def forecaster_table(self, name: str) -> ForecasterTable:
        """Return the table of a forecaster, or its defaults where config has none."""
        return self.forecasters.get(name, ForecasterTable())

    def plugin_table(self, kind: PluginTableName, name: str) -> PluginTable:
        """Return what config says of one thing that a plugin offers, or an empty table where it says nothing."""
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
