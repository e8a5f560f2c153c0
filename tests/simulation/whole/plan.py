"""What a simulation is to be: its plan, and what is drawn from its seed alone, so that the seed says it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.clock import SeededRandom
from tests.simulation.whole.stalls import CAPS, USERNAME

if TYPE_CHECKING:
    import numpy as np

HERE = Path(__file__).parent
HOUR_S, DAY_S = 3_600.0, 86_400.0
# One in five watches prices: it follows them every few seconds, which takes most of a simulated day's work.
WATCHING = 1 / 5
PAPER = 1 / 4
# At the fastest pace: reading accounts back asks more of the venues than all else together.
RECONCILE_S = 3_600

_CONFIG = """
plugins = ["manifold", "metaculus", "drifter"]
plugin_files = ["{here}/drifter.py"]
mode = "live"
state = "HOME/state"

[log]
level = "error"

[daemon]
attend_every_s = 600
discover_every_s = {discover}
forecast_every_s = {forecast}
submit_every_s = {submit}
reconcile_every_s = {reconcile}
resolve_every_s = 14400
score_every_s = 43200
backup_every_s = 43200
watch_questions = {watched}

[venues.manifold]
mode = "{manifold_mode}"
forecasters = ["drifter"]
[venues.manifold.caps]
per_order = {per_order}
per_day = {per_day}
[venues.manifold.settings]
base_url = "{manifold}"
key_file = "../manifold.key"
username = "{username}"
min_bettors = 0

[venues.metaculus]
mode = "{metaculus_mode}"
forecasters = ["drifter"]
[venues.metaculus.settings]
base_url = "{metaculus}"
token_file = "../metaculus.token"
tournaments = ["sample-aib"]
"""

Manner = Literal["age", "kill", "kill at a write", "stop", "full disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, how rough, and what is broken in the program; ``people`` act on it, set clocks and fill disks."""

    seed: int
    days: float = 3.0
    lives: int = 6
    faulty: bool = True
    people: bool = True
    mutant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """How a life ends: after ``turns`` of the loop, counted from the ``writes``-th write on, or ``after_s`` seconds."""

    manner: Manner
    turns: int = 0
    writes: int = 0
    after_s: float = 0.0


OLD_AGE = Fate(manner="age")


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """What differs from seed to seed: sides of venues, pace of jobs, how often what goes wrong, ends of lives."""

    modes: Mapping[str, str]
    pace: float
    watched: int
    roughness: float
    fates: Sequence[Fate]


def temper_of(plan: Plan) -> Temper:
    """Draw what the seed says."""
    stream = SeededRandom(plan.seed).stream("temper")
    modes = {name: "paper" if stream.random() < PAPER else "live" for name in ("manifold", "metaculus")}
    if set(modes.values()) == {"paper"}:
        modes["manifold"] = "live"
    return Temper(
        modes=modes,
        pace=float(stream.choice([1.0, 2.0, 3.0])),
        watched=20 if stream.random() < WATCHING else 0,
        roughness=float(stream.uniform(0.3, 1.0)) if plan.faulty else 0.0,
        fates=[_fate(stream, plan) for _ in range(plan.lives)],
    )


def config_of(temper: Temper, urls: Mapping[str, str]) -> str:
    """Return the configuration, HOME standing for the folder of a life."""
    base = {"discover": 5_400, "forecast": 1_200, "submit": 1_200, "reconcile": RECONCILE_S}
    return _CONFIG.format(
        here=HERE,
        username=USERNAME,
        watched=temper.watched,
        manifold_mode=temper.modes["manifold"],
        metaculus_mode=temper.modes["metaculus"],
        **CAPS,
        **urls,
        **{name: seconds * temper.pace for name, seconds in base.items()},
    )


def _fate(stream: np.random.Generator, plan: Plan) -> Fate:
    """Draw an end; most are kills, and half of those near a write."""
    draw, most_s = float(stream.random()), plan.days * DAY_S * 2.0 / max(plan.lives, 1)
    turns, writes = int(stream.geometric(1 / 8)), int(stream.geometric(1 / 3))
    after_s = float(stream.uniform(0.0, most_s))
    match draw:
        case _ if draw < 0.35:
            return Fate(manner="kill at a write", turns=turns, writes=writes, after_s=after_s)
        case _ if draw < 0.5:
            # While it starts, or just after.
            return Fate(manner="kill", turns=int(stream.integers(1, 2_000)))
        case _ if draw < 0.75 or not plan.people:
            return Fate(manner="kill", turns=turns, after_s=after_s)
        case _ if draw < 0.9:
            return Fate(manner="stop", after_s=after_s)
        case _:
            return Fate(manner="full disk", after_s=after_s)
