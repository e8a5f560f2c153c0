"""The plan of one demo, and the two configurations that it writes: its own, and one for the real venues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.config.venue_schema import BankrollSection
from bot.core.light_dataclass import dataclass
from bot.simulator.environment import to_toml

if TYPE_CHECKING:
    from pathlib import Path

    from bot.simulator.environment import SimulatedEnvironment

# The same world every time: texts of questions hold dates.
START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR_S, DAY_S = 3_600.0, 86_400.0
# The world is a week old when Foxcast starts: that morning a round of the benchmark is published.
WARM_UP_DAYS = 7
# How long the daemon watches prices over sockets, which costs as much as a week of everything else.
WATCHED_S = 2_400.0
# The days that pass in about half a minute on two cores, and the time limit in real seconds.
DEFAULT_DAYS, DEFAULT_QUESTIONS, LIMIT_S = 28, 150, 50.0
# In this world questions of three venues are over within the first days; it was chosen for that, not for any score.
DEFAULT_SEED = 9
FORECASTERS = ("blf", "baseline")
CONFIG, REAL_CONFIG, LOG_FILE = "config.toml", "real.toml", "log.txt"
# Used together with the second of them.
REAL_STATE = "state"
# Caps for one order, a day and all orders: less than would be bought, so that the demo shows what they hold back.
CAPS = {"per_order": 20.0, "per_day": 60.0, "total": 1_000.0}
# Limits for a first account at a real venue, which is one of 1,000 on paper: amounts, and shares of its worth.
REAL_CAPS = {"per_order": 25.0, "per_question": 50.0, "per_day": 100.0, "daily_loss": 100.0, "drawdown": 250.0}

_CONFIG_HEADER = """\
# Made by foxcast demo. All of it is a simulation: invented questions, news, crowds and accounts, and a model that plays
# by rule. Its servers ended with the demo; the commands that read what happened work on.
"""
_REAL_CONFIG_HEADER = """\
# Made by foxcast demo: the same configuration for the real venues, on paper. Nothing is sent.
# Copy it out of this folder first, which the next demo makes anew. Most venues need no key to be read; where one needs
# an account, its table is a comment below.
#   foxcast --config real.toml config show     what holds, and where it comes from
#   foxcast --config real.toml doctor          what is missing
#   foxcast --config real.toml run --once      one pass over open questions
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """One demo: ``size`` questions a year, forecast for ``days``, in ``limit_s`` seconds of real time at most."""

    folder: Path
    seed: int = DEFAULT_SEED
    days: int = DEFAULT_DAYS
    size: int = DEFAULT_QUESTIONS
    limit_s: float = LIMIT_S

    @property
    def begun(self) -> datetime:
        """When Foxcast starts in the world."""
        return START + timedelta(days=WARM_UP_DAYS)

    def settings(self) -> dict[str, Any]:
        """Return the part of this configuration that people decide: the pace of weeks that pass in seconds."""
        return {
            "mode": "live",
            "state": ".",
            "seed": self.seed,
            "log": {"level": "info"},
            "daemon": {
                "requests_every_s": 6 * HOUR_S,
                "discover_every_s": DAY_S,
                "forecast_every_s": 12 * HOUR_S,
                # Twice as often as forecasts become due: a round is found, forecast and sent within its one day.
                "submit_every_s": 6 * HOUR_S,
                "reconcile_every_s": DAY_S,
                "resolve_every_s": DAY_S,
                "score_every_s": 12 * HOUR_S,
                "backup_every_s": 14 * DAY_S,
                "watch_questions": 12,
            },
            "policy": {"stale_after_h": 336.0, "near_close_h": [24.0], "min_gap_h": 12.0, "price_move": 1.5},
            # One trial for each forecast, so that the weeks pass in seconds; the default is five.
            "forecasters": {FORECASTERS[0]: {"trials": 1}},
        }


def demo_config(environment: SimulatedEnvironment, plan: DemoPlan) -> dict[str, Any]:
    """Return the configuration of the demo.

    venues that can be written to are live, the one with signatures is on paper.
    """
    venues = {
        name: {"forecasters": [*FORECASTERS], "discover_every_s": DAY_S, **_demo_venue(name, environment)}
        for name in environment.layout.venues
    }
    base = {**environment.config, "plugins": [*environment.config["plugins"], *FORECASTERS]}
    return merge_tables(merge_tables(base, plan.settings()), {"venues": venues})


def _demo_venue(venue: str, environment: SimulatedEnvironment) -> dict[str, Any]:
    own: dict[str, Any] = {"mode": "live" if venue in environment.writable else "paper"}
    if venue in environment.trading:
        own["caps"] = dict(CAPS)
    return own


def write_configs(environment: SimulatedEnvironment, plan: DemoPlan) -> None:
    """Write both files into the folder."""
    own = demo_config(environment, plan)
    (plan.folder / CONFIG).write_text(f"{_CONFIG_HEADER}\n{to_toml(own)}", encoding="utf-8")
    (plan.folder / REAL_CONFIG).write_text(
        f"{_REAL_CONFIG_HEADER}\n{''.join(_real_config_parts(environment, plan))}", encoding="utf-8"
    )


def _real_config_parts(environment: SimulatedEnvironment, plan: DemoPlan) -> Iterator[str]:
    """Yield the parts: those without a key, then those with a key, as comments."""
    real = environment.real
    free = {name: table for name, table in real.venues.items() if name not in real.with_key}
    table = {
        "mode": "paper",
        "state": f"{REAL_STATE}/real",
        "seed": plan.seed,
        "plugins": [*free, FORECASTERS[-1]],
        "venues": {
            name: {"forecasters": [FORECASTERS[-1]], **_stake_limits(name, environment), **table}
            for name, table in free.items()
        },
    }
    yield to_toml(table)
    yield f"\n# With a key: add it to plugins, and {FORECASTERS[0]!r} once a model is named below.\n".replace("'", '"')
    for name in real.with_key:
        venue = {
            "venues": {name: {"forecasters": [*FORECASTERS], **_stake_limits(name, environment), **real.venues[name]}}
        }
        yield _comment_out(to_toml(venue))
    yield "\n# A model for the forecaster that reads and thinks, and what may be spent on it; see config.toml.\n"
    yield _comment_out(real.model)


def _stake_limits(venue: str, environment: SimulatedEnvironment) -> dict[str, Any]:
    """Return the limits for a real venue that takes orders.

    all of them are written out, so that they can be changed.
    """
    if venue not in environment.trading:
        return {}
    return {"caps": dict(REAL_CAPS), "bankroll": BankrollSection().model_dump()}


def _comment_out(text: str) -> str:
    return "".join(f"# {line}\n" if line else "" for line in text.splitlines())


def merge_tables(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables as one; where both have a value that is no table, the second wins."""
    both = dict(base)
    for key, value in more.items():
        known = both.get(key)
        both[key] = merge_tables(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return both
