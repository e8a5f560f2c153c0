"""The configuration as frozen values.

Building a Config reads no file and no environment; bot.config.loader does that, and bot.config.plugin_settings checks
the settings of plugins.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr

from bot.config.base_schema import ConfigName, ConfigSection, HostName, Hours, PluginTable, Seconds
from bot.config.llm_schema import LlmSection
from bot.config.sources import ConfigSources
from bot.config.venue_schema import (
    VenueTable,
)
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


class LogSection(ConfigSection):
    """What is logged, and how."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.CONSOLE


class DaemonSection(ConfigSection):
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


class LimitsSection(ConfigSection):
    """Where one trial is stopped, and how many trials must count; tokens are in and out together, None is no limit.

    ``steps`` is for forecasters that do not say how many they take, ``seconds`` for those that do not need more.
    Where fewer than the share ``least_trials`` of a question's trials count there is no forecast of it.
    """

    steps: int = Field(default=10, ge=1, le=10_000)
    seconds: Seconds = 600.0
    tokens: int | None = Field(default=None, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)
    least_trials: float = Field(default=0.5, ge=0, le=1)


class PolicySection(ConfigSection):
    """When a question is forecast again; times in hours, ``price_move`` in log-odds. One that changed is, at once.

    With ``withdraw_stale`` a forecast that stands at a venue is withdrawn there where it was stale for ``min_gap_h``
    and no new one came.
    """

    stale_after_h: Hours = 72.0
    near_close_h: tuple[Hours, ...] = (24.0, 2.0)
    price_move: float = Field(default=0.5, gt=0)
    min_gap_h: Hours = 1.0
    withdraw_stale: bool = False


class CalibrationMode(StrEnum):
    """What moves the numbers of forecasters: nothing, or what the gate for calibrators has let through."""

    IDENTITY = "identity"
    GATED = "gated"


class CalibrationSection(ConfigSection):
    """How forecasts are calibrated."""

    use: CalibrationMode = CalibrationMode.IDENTITY


class SourcePolicyTable(ConfigSection):
    """How questions of one source are worked on; what is left out is as the data plugin that serves it says."""

    tools: tuple[str, ...] | None = None
    first: str | None = None
    searches: int | None = Field(default=None, ge=0)
    bypass: bool = False
    advice: str = Field(default="", max_length=4000)


class ResearchSection(ConfigSection):
    """What forecasters may use. ``search`` names the engines in the order they are tried; () is every enabled one.

    All lengths are in characters. ``snippet_chars``: what a search shows of each result. ``text_chars``: what is kept
    of the text of a result, and what the filter and the summariser read of it or of a page. ``page_chars``: what
    ``lookup_url`` shows of a page at a time. ``passage_chars``: a section of a reference work, or a summary. ``filter``
    concerns questions of an earlier day alone. ``blocked_hosts`` are never read, even where a question names them.
    """

    search: tuple[ConfigName, ...] = ()
    results: int = Field(default=10, ge=1, le=20)
    snippet_chars: int = Field(default=500, ge=50, le=10_000)
    text_chars: int = Field(default=10_000, ge=200, le=200_000)
    page_chars: int = Field(default=10_000, ge=200, le=200_000)
    passage_chars: int = Field(default=20_000, ge=200, le=200_000)
    filter: bool = True
    blocked_hosts: tuple[HostName, ...] = ()
    sources: dict[str, SourcePolicyTable] = Field(default_factory=dict)


class ForecasterTable(PluginTable):
    """One forecaster: how many independent trials a forecast has, and how they become one answer.

    ``uses`` names the forecaster that this one is a variant of, with settings of its own. ``calibration`` replaces the
    common one. ``clairvoyant`` takes all guards away, to see what knowing the future would be worth: such a forecast is
    scored and never leaves.

    ``steps``, ``seconds`` and ``least_trials`` replace what the forecaster needs and ``[limits]`` says. Where it asks
    models, its other trials wait ``warm_start_s`` seconds at most for the first step of the first one, so that they
    find their common prompt in the provider's cache; 0 starts all at once.
    """

    uses: ConfigName | None = None
    calibration: CalibrationMode | None = None
    clairvoyant: bool = False
    trials: int | None = Field(default=None, ge=1, le=1000)
    aggregate: Literal["logit-mean", "mean", "median", "shrink"] = "logit-mean"
    steps: int | None = Field(default=None, ge=1, le=10_000)
    seconds: Seconds | None = None
    least_trials: float | None = Field(default=None, ge=0, le=1)
    warm_start_s: float = Field(default=30.0, ge=0, le=3600)


class Config(ConfigSection):
    """Everything the operator decides. Paths are as loaded: absolute, relative ones beside the file they stand in."""

    mode: Mode = Mode.PAPER
    state: Path = Path("state")
    seed: int = Field(default=1, ge=0)
    plugins: tuple[ConfigName, ...] = ()
    plugin_files: tuple[Path, ...] = ()
    log: LogSection = LogSection()
    daemon: DaemonSection = DaemonSection()
    limits: LimitsSection = LimitsSection()
    policy: PolicySection = PolicySection()
    calibration: CalibrationSection = CalibrationSection()
    venues: dict[ConfigName, VenueTable] = Field(default_factory=dict)
    forecasters: dict[ConfigName, ForecasterTable] = Field(default_factory=dict)
    search: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    data: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    models: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    notifiers: dict[ConfigName, PluginTable] = Field(default_factory=dict)
    llm: LlmSection = LlmSection()
    desk: ResearchSection = ResearchSection()

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

    def mode_of(self, venue: str) -> Mode:
        """Return the mode of a venue: its own, else the common one; off for a venue without a table."""
        table = self.venues.get(venue)
        if table is None:
            return Mode.OFF
        return self.mode if table.mode is None else table.mode

    def forecaster_table(self, name: str) -> ForecasterTable:
        """Return the table of a forecaster, or its defaults where config has none."""
        return self.forecasters.get(name, ForecasterTable())

    def plugin_table(self, kind: Table, name: str) -> PluginTable:
        """Return what config says of one thing that a plugin offers, or an empty table where it says nothing."""
        return self.plugin_tables(kind).get(name, PluginTable())

    def plugin_tables(self, kind: Table) -> Mapping[str, PluginTable]:
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
