"""The shape of the configuration: plain frozen values, made from nothing but what is handed in.

Building a ``Config`` reads no file and no environment; ``bot.config.load`` does that. What belongs to one plugin stays
a raw table here and is checked by the plugin's own settings model in ``bot.config.plugin_settings``.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints

from bot.config.sources import Sources
from bot.domain.submission import Mode
from bot.specs import NAME_PATTERN, Table

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=60)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86_400)]
Hours = Annotated[float, Field(ge=0, le=366 * 24)]


class Section(BaseModel):
    """A table of config.toml: frozen, unknown keys refused, values kept out of error texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


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
    """How often each job runs and how much runs at once; times in seconds."""

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


class LimitsSection(Section):
    """Where one trial is stopped; tokens are those in and out together, None is no limit."""

    steps: int = Field(default=10, ge=1, le=10_000)
    seconds: Seconds = 600.0
    tokens: int | None = Field(default=None, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)


class PolicySection(Section):
    """When a question is forecast again; times in hours, ``price_move`` in log-odds. A changed text always counts."""

    stale_after_h: Hours = 72.0
    near_close_h: tuple[Hours, ...] = (24.0, 2.0)
    price_move: float = Field(default=0.5, gt=0)
    min_gap_h: Hours = 1.0


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


class VenueTable(PluginTable):
    """One venue: its mode where it differs from the common one, and who forecasts; the first one's forecast leaves."""

    mode: Mode | None = None
    forecasters: tuple[Name, ...] = Field(min_length=1)
    account: str = Field(default="default", min_length=1, max_length=100)


class ForecasterTable(PluginTable):
    """One forecaster: how many independent trials a forecast has, and how they become one answer."""

    trials: int = Field(default=1, ge=1, le=1000)
    aggregate: Literal["logit-mean", "mean", "median", "shrink"] = "logit-mean"


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
    notifiers: dict[Name, PluginTable] = Field(default_factory=dict)

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
            Table.NOTIFIERS: self.notifiers,
        }
        return tables[kind]
