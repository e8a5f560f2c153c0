"""One simulation: the real daemon, real venues' doubles with faults, days of virtual time, kills, and an observer."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bot.clock import SeededRandom
from bot.domain.request import ArmVenue
from bot.gate.lanes import lane_in
from bot.config.load import load_config
from bot.store.requests import ask
from bot.testing.loop import Trace, simulate
from bot.testing.network import NetworkLoop
from tests.simulation.whole.life import Lives
from tests.simulation.whole.stalls import DAY_S, KEY, TOKEN, USERNAME, Weather, open_stalls

if TYPE_CHECKING:
    from bot.testing.loop import VirtualClock

START = datetime(2026, 3, 1, tzinfo=UTC)
HERE = Path(__file__).parent
CONFIG = """
plugins = ["manifold", "metaculus", "drifter"]
plugin_files = ["{here}/drifter.py"]
mode = "live"
state = "HOME/state"

[log]
level = "error"

[daemon]
attend_every_s = 300
discover_every_s = 1800
forecast_every_s = 600
submit_every_s = 300
reconcile_every_s = 300
resolve_every_s = 7200
score_every_s = 43200
backup_every_s = 86400

[venues.manifold]
forecasters = ["drifter"]
[venues.manifold.caps]
per_order = 40.0
per_day = 300.0
[venues.manifold.settings]
base_url = "{manifold}"
key_file = "../manifold.key"
username = "{username}"
min_bettors = 0

[venues.metaculus]
forecasters = ["drifter"]
[venues.metaculus.settings]
base_url = "{metaculus}"
token_file = "../metaculus.token"
tournaments = ["sample-aib"]
"""


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a simulation."""

    seed: int
    days: float
    lives: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how rough."""

    seed: int
    days: float = 3.0
    faulty: bool = True
    kills: int = 6


def run(plan: Plan, root: Path) -> Report:
    """Run one simulation in an empty folder."""
    report = Report(seed=plan.seed, days=plan.days)

    async def main(clock: VirtualClock) -> None:
        await _story(plan, root, clock, report)

    simulate(main, start=START, make=NetworkLoop)
    return report


async def _story(plan: Plan, root: Path, clock: VirtualClock, report: Report) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, NetworkLoop)
    chance = SeededRandom(plan.seed)
    async with open_stalls(clock, chance, faulty=plan.faulty) as stalls:
        weather = Weather(stalls=stalls, clock=clock, stream=chance.stream("weather"))
        weather.begin()
        urls = {name: served.url for name, served in stalls.served.items()}
        config = CONFIG.format(here=HERE, username=USERNAME, **urls)
        for name, secret in {"manifold.key": KEY, "metaculus.token": TOKEN}.items():
            (root / name).touch(mode=0o600)
            (root / name).write_text(secret, encoding="utf-8")
        lives = Lives(clock=clock, loop=loop, root=root, config=config)
        blowing = asyncio.ensure_future(weather.blow())
        kills = chance.stream("kills")
        end_s = plan.days * DAY_S
        for _ in range(plan.kills):
            if clock.monotonic() < end_s:
                _arm(lives, clock, config)
                await lives.live(until_s=end_s, kill_in=int(kills.integers(1, 12_000)))
                await clock.sleep(float(kills.exponential(600.0)))
        blowing.cancel()
        stalls.calm()
        _arm(lives, clock, config)
        await lives.live(until_s=max(end_s, clock.monotonic()) + 7_200.0, kill_in=None)
        trace = Trace()
        for name, venue in stalls.all.items():
            report.faults.update({f"{fault}": count for fault, count in venue.faults.injected.items()})
            report.requests += len(venue.requests)
            report.effects.update(f"{name} {effect.kind}" for effect in venue.ledger.effects())
            for heard in venue.requests:
                trace.add(name, heard.at_s, heard.method, heard.target, heard.body)
                if dump := __import__("os").environ.get("DUMP"):
                    open(dump, "a").write(f"{name} {heard.at_s:.3f} {heard.method} {heard.target} {heard.body!r}\n")
            report.violations += [f"{name}: {one}" for one in venue.judge.violations]
            report.violations += [f"{name} itself: {one!r}" for one in venue.crashes]
    report.violations += [f"somebody asked for {host}:{port}" for host, port in loop.refused]
    report.lives, report.turns, report.trace = lives.ends, loop.turns, trace.digest()


def _arm(lives: Lives, clock: VirtualClock, config: str) -> None:
    """Leave requests to arm all venues where the next life finds them."""
    folder = lives.root / (f"heir-{lives.number}" if lives.number else "life-1")
    (folder / "state" / "live").mkdir(parents=True, exist_ok=True)
    path = folder / "config.toml"
    path.write_text(config.replace("HOME", str(lives.root / f"life-{lives.number + 1}")), encoding="utf-8")
    loaded = load_config(path)
    for name in loaded.venues:
        lane = lane_in(loaded, name)
        until = clock.now() + timedelta(days=30)
        money = {"per_order": 40.0, "per_day": 300.0, "total": 2_000.0} if name == "manifold" else {}
        request = ArmVenue(
            by="ada",
            asked_at=clock.now(),
            venue=lane.venue,
            account=lane.account,
            config=lane.digest,
            until=until,
            **money,
        )
        ask(folder / "state" / "live", request, at=clock.now())
