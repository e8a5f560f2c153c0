"""What one demo is to be, and the two configurations that it writes: its own, and the one for the real venues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.config.venue_schema import BankrollSection
from bot.testing.venues.stand import toml

if TYPE_CHECKING:
    from pathlib import Path

    from bot.testing.venues.stand import Stand

# The same world whenever it is asked for: texts of questions hold dates.
START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR_S, DAY_S = 3_600.0, 86_400.0
# The world is a week old when Foxcast comes to it: that morning a round of the benchmark is published.
AGE_DAYS = 7
# So long the daemon watches prices over sockets, which costs as much as a week of everything else.
WATCHED_S = 2_400.0
# What passes in about half a minute on two cores, and when it is ended at the latest, in real seconds.
DAYS, SIZE, LIMIT_S = 28, 150, 50.0
# In this world questions of three venues are over within the first days; it was chosen by that, not by any score.
SEED = 9
FORECASTERS = ("blf", "baseline")
CONFIG, REAL, LOG = "config.toml", "real.toml", "log.txt"
# Beside the second of them, wherever it is used.
REAL_STATE = "state"
# What one order, all of a day and all together may cost: less than would be bought, so that it shows what holds back.
CAPS = {"per_order": 20.0, "per_day": 60.0, "total": 1_000.0}
# What bounds a first account at a real venue, which is one of 1,000 on paper: amounts, and shares of what it is worth.
REAL_CAPS = {"per_order": 25.0, "per_question": 50.0, "per_day": 100.0, "daily_loss": 100.0, "drawdown": 250.0}

_HEAD = """\
# Made by foxcast demo. All of it is a simulation: invented questions, news, crowds and accounts, and a model that plays
# by rule. Its servers ended with the demo; the commands that read what happened work on.
"""
_REAL_HEAD = """\
# Made by foxcast demo: the same configuration for the real venues, on paper. Nothing is sent.
# Copy it out of this folder first, which the next demo makes anew. Most venues need no key to be read; where one needs
# an account, its table is a comment below.
#   foxcast --config real.toml config show     what holds, and where it comes from
#   foxcast --config real.toml doctor          what is missing
#   foxcast --config real.toml run --once      one pass over open questions
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One demo: ``size`` questions a year, forecast for ``days``, in ``limit_s`` seconds of real time at most."""

    folder: Path
    seed: int = SEED
    days: int = DAYS
    size: int = SIZE
    limit_s: float = LIMIT_S

    @property
    def begun(self) -> datetime:
        """When Foxcast comes to the world."""
        return START + timedelta(days=AGE_DAYS)

    def settings(self) -> dict[str, Any]:
        """Return what people decide in this configuration: the pace of weeks that pass in seconds."""
        return {
            "mode": "live",
            "state": ".",
            "seed": self.seed,
            "log": {"level": "info"},
            "daemon": {
                "attend_every_s": 6 * HOUR_S,
                "discover_every_s": DAY_S,
                "forecast_every_s": 12 * HOUR_S,
                # Twice for each time that is forecast: a round is found, forecast and sent within its one day.
                "submit_every_s": 6 * HOUR_S,
                "reconcile_every_s": DAY_S,
                "resolve_every_s": DAY_S,
                "score_every_s": 12 * HOUR_S,
                "backup_every_s": 14 * DAY_S,
                "watch_questions": 12,
            },
            "policy": {"stale_after_h": 336.0, "near_close_h": [24.0], "min_gap_h": 12.0, "price_move": 1.5},
            # One trial for each forecast, so that the weeks pass in seconds; it has five where nobody says otherwise.
            "forecasters": {FORECASTERS[0]: {"trials": 1}},
        }


def config_of(stand: Stand, plan: Plan) -> dict[str, Any]:
    """Return the configuration of the demo: venues that can be written to are live, the one that signs is on paper."""
    venues = {
        name: {"forecasters": [*FORECASTERS], "discover_every_s": DAY_S, **_own(name, stand)}
        for name in stand.layout.venues
    }
    base = {**stand.config, "plugins": [*stand.config["plugins"], *FORECASTERS]}
    return merged(merged(base, plan.settings()), {"venues": venues})


def _own(venue: str, stand: Stand) -> dict[str, Any]:
    own: dict[str, Any] = {"mode": "live" if venue in stand.writable else "paper"}
    if venue in stand.trading:
        own["caps"] = dict(CAPS)
    return own


def write_configs(stand: Stand, plan: Plan) -> None:
    """Write both files into the folder."""
    own = config_of(stand, plan)
    (plan.folder / CONFIG).write_text(f"{_HEAD}\n{toml(own)}", encoding="utf-8")
    (plan.folder / REAL).write_text(f"{_REAL_HEAD}\n{''.join(_real(stand, plan))}", encoding="utf-8")


def _real(stand: Stand, plan: Plan) -> Iterator[str]:
    """Yield the parts: what can be had without a key, then what needs one, as comments."""
    real = stand.real
    free = {name: table for name, table in real.venues.items() if name not in real.with_key}
    table = {
        "mode": "paper",
        "state": f"{REAL_STATE}/real",
        "seed": plan.seed,
        "plugins": [*free, FORECASTERS[-1]],
        "venues": {
            name: {"forecasters": [FORECASTERS[-1]], **_bounds(name, stand), **table} for name, table in free.items()
        },
    }
    yield toml(table)
    yield f"\n# With a key: add it to plugins, and {FORECASTERS[0]!r} once a model is named below.\n".replace("'", '"')
    for name in real.with_key:
        venue = {"venues": {name: {"forecasters": [*FORECASTERS], **_bounds(name, stand), **real.venues[name]}}}
        yield _commented(toml(venue))
    yield "\n# A model for the forecaster that reads and thinks, and what may be spent on it; see config.toml.\n"
    yield _commented(real.model)


def _bounds(venue: str, stand: Stand) -> dict[str, Any]:
    """Return what bounds the stakes at a real venue that takes orders: all of it is said, so that it can be changed."""
    if venue not in stand.trading:
        return {}
    return {"caps": dict(REAL_CAPS), "bankroll": BankrollSection().model_dump()}


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" if line else "" for line in text.splitlines())


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables as one; where both say something that is no table, the second wins."""
    both = dict(base)
    for key, value in more.items():
        known = both.get(key)
        both[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return both
