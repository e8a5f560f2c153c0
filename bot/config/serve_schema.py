"""The table of config.toml about callers that ask for forecasts and read results over HTTP."""

from pathlib import Path
from typing import Self

from pydantic import Field

from bot.config.base_schema import ConfigName, ConfigSection


class CallerTable(ConfigSection):
    """One caller of the API."""

    token_file: Path
    """A file of mode 600 with the token that its requests carry (`Authorization: Bearer ...`)."""

    reads: bool = False
    """Let it read all questions, forecasts, beliefs, scores and health; otherwise only its own forecasts."""

    per_minute: int = Field(default=60, ge=1, le=100_000)
    """Requests a minute; more are refused with status 429."""

    running: int = Field(default=4, ge=1, le=1000)
    """Forecasts at the same time; more are refused with status 429."""

    day_usd: float = Field(default=1.0, ge=0, le=1e6)
    """US dollars a day (UTC) for models; a forecast that may cost more than the rest is refused with status 429."""


class ServeSection(ConfigSection):
    """What others may ask over HTTP at the address of `[web]`."""

    forecaster: ConfigName | None = None
    """The forecaster of asked questions. Unset: `foxcast serve` takes the first that uses models, else the first, and
    the daemon answers no questions."""

    deadline_s: float = Field(default=30.0, ge=0, le=600)
    """Seconds that a request waits for its forecast, unless it says less; then it gets status 202 and an address to
    poll."""

    callers: dict[ConfigName, CallerTable] = Field(default_factory=dict)
    """One table for each caller. Without any, only programs of this machine can ask, if `[web]` has no token either."""

    def located(self, folder: Path) -> Self:
        """Return the section with relative paths resolved in the folder of the file."""
        callers = {
            name: caller.model_copy(update={"token_file": folder / caller.token_file.expanduser()})
            for name, caller in self.callers.items()
        }
        return self.model_copy(update={"callers": callers})
