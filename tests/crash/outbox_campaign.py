"""Kills the outbox at its commits and writes, over fake venues that lose, delay and repeat: ``make crash``."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bot.core.clock import SeededRandom
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import FaultDetails, FaultSchedule, RequestFault
from bot.store.ledger import open_ledger
from tests import campaign_log
from tests.crash import invariant_checks
from tests.crash.invariant_checks import CheckedScenario
from tests.crash.kill_points import FastClock
from tests.crash.kill_scenario import InvariantViolation
from tests.crash.mutants import MUTANTS
from tests.crash.outbox_processes import ENDLESS, UNSTABLE, ProcessPlan, encode_life
from tests.crash.reading import read_rows
from tests.crash.scenario_forecasts import begin
from tests.crash.venue_servers import SCENARIO_VENUES

MODULE = "tests.crash.outbox_campaign"
START = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
# A request that is lost is known to be lost two minutes later: within two seconds.
FACTOR = 60.0
MOST_LIVES = 150
# A story that nobody kills has some 60 moments. Most lives die early, so that recovery itself is killed, too.
SOON, LATE, MOSTLY = 14, 60, 0.85
LATEST_S = 60.0
QUIET_READINGS = 0.7
UNARMED, HALTED, ALONE = 0.1, 0.1, 0.3
# After so many lives there are newer forecasts.
NEWS_AT, REVISIONS = 4, 3
STIR_S = 8.0
SIDE_BY_SIDE = 8
# Of each venue in turn: one story live, one on paper, two live, and so on.
VENUES = tuple(SCENARIO_VENUES)
PAPER = 4
RATES = {
    RequestFault.DROPPED_BEFORE: 0.05,
    RequestFault.DROPPED_AFTER: 0.12,
    RequestFault.LATE: 0.35,
    RequestFault.ERROR_BEFORE: 0.04,
    RequestFault.ERROR_AFTER: 0.05,
    RequestFault.TRUNCATED: 0.04,
    RequestFault.PAGE_AFTER: 0.03,
    RequestFault.TOO_MANY: 0.03,
}
# A halt over writes with unknown outcomes ends by itself, so a life may write after it.
_STOPS = "select 1 from halt where resumed_at is null and end_condition = 'person'"
_SUMS = "select count(*) as intents, total(state = 'in doubt') as parked from intent"
_STOPPED = "select count(*) as stops from halt"
_FILLS = "select count(*) as fills from fill"
_WHY = {f"exit {ENDLESS}": "I9: it does not come to an end", f"exit {UNSTABLE}": "I11: reading back twice changes it"}


@dataclass(slots=True, kw_only=True)
class OutboxCampaignCounts:
    """What the campaign did."""

    kills: int = 0
    scenarios: Counter[str] = field(default_factory=Counter)
    intents: int = 0
    effects: int = 0
    fills: int = 0
    parked: int = 0
    stops: int = 0
    quiet: int = 0
    took_s: float = 0.0
    where: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        points = ", ".join(f"{count} {where}" for where, count in sorted(self.where.items()))
        scenarios = ", ".join(f"{count} {name}" for name, count in sorted(self.scenarios.items()))
        return (
            f"{self.kills} kills ({points}), stories: {scenarios}; {self.intents} intents, {self.effects} effects, "
            f"{self.fills} fills, 0 doubled, 0 lost, {self.parked} parked, {self.stops} stops, "
            f"{sum(self.faults.values())} faults, 0 writes in {self.quiet} lives on paper, unarmed, halted or stopped, "
            f"{self.took_s:.0f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCampaignPlan:
    """How many kills, where chance begins, and how the program is broken, if it is.

    ``stories``, where given, is how many there are instead, from number ``first`` on. ``kill_points`` are the moments
    at which the first lives of a story end, by its number; where it is None, they are drawn.
    """

    seed: int
    kills: int = 0
    stories: int | None = None
    mutant: str = ""
    side_by_side: int = SIDE_BY_SIDE
    first: int = 0
    kill_points: Callable[[int], Sequence[int]] | None = None


@dataclass(slots=True, kw_only=True)
class OutboxScenario:
    """One running scenario: the plan of its processes, and how chance decides."""

    case: CheckedScenario
    life: ProcessPlan
    chance: random.Random
    kill_points: Sequence[int] | None = None

    @property
    def stop(self) -> Path:
        return self.case.folder / "STOP"


class LateEffectFaults(FaultSchedule):
    """Late effects come when the program has long given them up, and still before a request expires."""

    def __init__(self, stream: np.random.Generator) -> None:
        super().__init__(stream, RATES)
        self._wait = stream

    def next_fault(self, method: str, path: str) -> FaultDetails | None:
        # Readings are many and writes are few; it is at writes that faults tell.
        if method == "GET" and self._wait.random() < QUIET_READINGS:
            return None
        details = super().next_fault(method, path)
        if details is None or details.fault is not RequestFault.LATE:
            return details
        return replace(details, wait_s=float(self._wait.uniform(1.0, LATEST_S)))


class ForkServer:
    """The process that forks lives, of several stories at once."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def begin(cls) -> ForkServer:
        command = [sys.executable, "-m", "tests.crash.outbox_processes"]
        pipe = asyncio.subprocess.PIPE
        # In a group of its own, which ends as one.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, cwd=_root(), start_new_session=True
        )
        return cls(process)

    async def live(self, life: ProcessPlan) -> str:
        """Return how a life ended."""
        assert self._process.stdin is not None
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[life.scenario] = ended
        self._process.stdin.write(f"{encode_life(life)}\n".encode())
        await self._process.stdin.drain()
        return await ended

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := (await self._process.stdout.readline()).decode():
            scenario, _, ended = line.strip().partition(" ")
            self._report_end(int(scenario), ended)
        for story_left in [*self._waiting]:
            self._report_end(story_left, "nobody: the process that forks lives is gone")

    def _report_end(self, scenario: int, ended: str) -> None:
        waiting = self._waiting.pop(scenario)
        if not waiting.done():
            waiting.set_result(ended)

    async def close(self) -> None:
        """End it, and the lives of stories that nobody follows any more."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._listening


def campaign(plan: OutboxCampaignPlan, folder: Path) -> OutboxCampaignCounts:
    """Kill and check until the number of kills is reached and all stories are finished; raises Violation."""
    tally, violation = hunt(plan, folder)
    if violation is not None:
        raise violation
    return tally


def hunt(plan: OutboxCampaignPlan, folder: Path) -> tuple[OutboxCampaignCounts, InvariantViolation | None]:
    """Return what was done until the plan was fulfilled, or until the first violation, which is returned, too."""
    tally, began = OutboxCampaignCounts(), time.monotonic()
    try:
        asyncio.run(_campaign(plan, folder, tally))
    except ExceptionGroup as group:
        if not isinstance(group.exceptions[0], InvariantViolation):
            raise
        return tally, group.exceptions[0]
    finally:
        tally.took_s = time.monotonic() - began
    return tally, None


async def _campaign(plan: OutboxCampaignPlan, folder: Path, tally: OutboxCampaignCounts) -> None:
    fork_server = await ForkServer.begin()
    numbers = iter(range(plan.first, sys.maxsize if plan.stories is None else plan.first + plan.stories))

    async def scenarios() -> None:
        for number in numbers:
            await _run_scenario(fork_server, number, plan, folder, tally)
            if plan.stories is None and tally.kills >= plan.kills:
                return

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.side_by_side):
                group.create_task(scenarios())
    finally:
        await fork_server.close()


async def _run_scenario(
    fork_server: ForkServer, number: int, plan: OutboxCampaignPlan, folder: Path, tally: OutboxCampaignCounts
) -> None:
    chance = random.Random(f"{plan.seed} {number}")
    paper = number // len(VENUES) % (PAPER if plan.kill_points is None else 2) == 1
    clock = FastClock(began=time.time(), factor=FACTOR, start=START)
    faults = LateEffectFaults(SeededRandom(chance.getrandbits(32)).stream("faults"))
    ground = SCENARIO_VENUES[VENUES[number % len(VENUES)]](clock, faults)
    case = CheckedScenario(folder=folder / f"story {number}", ground=ground, paper=paper)
    await asyncio.to_thread(case.folder.mkdir, parents=True)
    async with serve_service(ground.fake) as served:
        async with open_ledger(case.ledger, now=clock.now()) as ledger:
            await begin(ledger, await ground.questions(served, case.folder), clock.now())
        life = ProcessPlan(
            scenario=number,
            number=0,
            ledger=str(case.ledger),
            venue=ground.name,
            url=served.url,
            kill_at=None,
            armed=True,
            mode="paper" if paper else "live",
            began=clock.began,
            factor=FACTOR,
            start=START,
            notes=str(case.folder / "notes.txt"),
            mutant=plan.mutant,
        )
        points = None if plan.kill_points is None else plan.kill_points(number)
        scenario = OutboxScenario(case=case, life=life, chance=chance, kill_points=points)
        stirring = asyncio.create_task(_change_world(scenario, clock))
        try:
            await _run_processes(fork_server, scenario, tally)
            await _run_last_process(fork_server, scenario, clock)
        finally:
            stirring.cancel()
        effects = await asyncio.to_thread(invariant_checks.done, case)
    _count_effects(scenario, effects, faults, tally)
    await asyncio.to_thread(shutil.rmtree, case.folder)


async def _change_world(scenario: OutboxScenario, clock: FastClock) -> None:
    chance = random.Random(scenario.chance.random())
    while True:
        await clock.sleep(STIR_S)
        scenario.case.ground.change_world(chance)


async def _run_processes(fork_server: ForkServer, scenario: OutboxScenario, tally: OutboxCampaignCounts) -> None:
    """Let lives begin and end until one ends by itself, free to do what it wants."""
    case, chance = scenario.case, scenario.chance
    if scenario.kill_points is not None:
        await _run_killed_at(fork_server, scenario, scenario.kill_points, tally)
        return
    for number in range(1, MOST_LIVES):
        armed, halted, alone = chance.random() > UNARMED, chance.random() < HALTED, chance.random() < ALONE
        scenario.stop.touch() if halted else scenario.stop.unlink(missing_ok=True)
        stopped = alone and bool(await asyncio.to_thread(read_rows, case.ledger, _STOPS))
        if case.paper or not armed or halted or stopped:
            case.quiet.add(number)
        life = replace(
            scenario.life,
            number=number,
            armed=armed,
            resumes=not alone,
            revisions=min(1 + number // NEWS_AT, REVISIONS) if case.ground.name == "metaculus" else 1,
            kill_at=chance.randrange(SOON if chance.random() < MOSTLY else LATE),
        )
        ended = await fork_server.live(life)
        tally.kills += ended == "killed"
        _require_ended(scenario, ended)
        await asyncio.to_thread(invariant_checks.sound, case)
        invariant_checks.quiet(case)
        if ended == "exit 0" and armed and not halted and not alone:
            break
    scenario.stop.unlink(missing_ok=True)


async def _run_killed_at(
    fork_server: ForkServer, scenario: OutboxScenario, kill_points: Sequence[int], tally: OutboxCampaignCounts
) -> None:
    """Let one life after the other end at its moment."""
    for number, moment in enumerate(kill_points, 1):
        if scenario.case.paper:
            scenario.case.quiet.add(number)
        ended = await fork_server.live(replace(scenario.life, number=number, kill_at=moment))
        tally.kills += ended == "killed"
        _require_ended(scenario, ended)
        await asyncio.to_thread(invariant_checks.sound, scenario.case)
        invariant_checks.quiet(scenario.case)


async def _run_last_process(fork_server: ForkServer, scenario: OutboxScenario, clock: FastClock) -> None:
    """A venue in order, and a life that nobody kills: whatever is open comes to its end."""
    scenario.case.ground.fake.faults.clear()
    await clock.sleep(LATEST_S + 1.0)
    if scenario.case.paper:
        scenario.case.quiet.add(MOST_LIVES)
    ended = await fork_server.live(replace(scenario.life, number=MOST_LIVES))
    invariant_checks.require(ended == "exit 0", f"{_WHY.get(ended, ended)} {_notes(scenario)[-1:]}", scenario.case)


def _count_effects(
    scenario: OutboxScenario, effects: Counter[str], faults: FaultSchedule, tally: OutboxCampaignCounts
) -> None:
    case = scenario.case
    [sums], [stopped] = read_rows(case.ledger, _SUMS), read_rows(case.ledger, _STOPPED)
    tally.where.update(line for line in _notes(scenario) if not line.startswith("error"))
    tally.scenarios[f"{case.ground.name} on paper" if case.paper else case.ground.name] += 1
    tally.intents += sums["intents"]
    tally.parked += int(sums["parked"])
    tally.stops += stopped["stops"]
    tally.effects += sum(effects.values())
    tally.fills += read_rows(case.ledger, _FILLS)[0]["fills"]
    tally.quiet += len(case.quiet)
    tally.faults.update({str(fault): count for fault, count in faults.injected.items()})


def _require_ended(scenario: OutboxScenario, ended: str) -> None:
    fine = ended in {"killed", "exit 0"}
    invariant_checks.require(
        fine, f"a life ended by itself: {_WHY.get(ended, ended)} {_notes(scenario)[-1:]}", scenario.case
    )


def _notes(scenario: OutboxScenario) -> list[str]:
    path = Path(scenario.life.notes)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _root() -> Path:
    return Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign that the command line asks for; 1 after a violation, or for a mutant that lives."""
    parser = argparse.ArgumentParser(description="Kill the outbox at every commit and write; nothing leaves twice.")
    parser.add_argument("--kills", type=int, default=200, help="so many; of each mutant, so many at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE, help="stories at a time")
    parser.add_argument("--keep", action="store_true", help="add what came of it to state/simulations")
    parser.add_argument("--mutants", nargs="*", choices=[*MUTANTS], help="these, or all, one after the other")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="foxcast-outbox-"))
    plan = OutboxCampaignPlan(kills=given.kills, seed=given.seed, side_by_side=given.side_by_side)
    if given.mutants is not None:
        living = [name for name in given.mutants or MUTANTS if not _is_caught(replace(plan, mutant=name), folder)]
        shutil.rmtree(folder)
        return int(bool(living))
    try:
        tally = campaign(plan, folder)
    except InvariantViolation as violation:
        if given.keep:
            campaign_log.record_campaign(MODULE, {}, [f"seed {given.seed}: {violation}"])
        sys.stderr.write(f"violation with seed {given.seed}, kept in {folder}: {violation}\n")
        return 1
    shutil.rmtree(folder)
    if given.keep:
        counts = {"kills at commits and writes": tally.kills, "effects at venues after them": tally.effects}
        campaign_log.record_campaign(MODULE, counts)
    sys.stdout.write(f"{tally}\n")
    return 0


def _is_caught(plan: OutboxCampaignPlan, folder: Path) -> bool:
    tally, violation = hunt(plan, folder / plan.mutant)
    # One that cannot live proves nothing.
    died = violation is not None and "ended by itself: exit 1" in str(violation)
    why = str(violation).partition(f": {folder}")[0][:150]
    fields = "LIVES" if violation is None else f"{'DIED' if died else 'caught'} ({why})"
    text = (
        f"{plan.mutant}, {MUTANTS[plan.mutant].description}: {fields} after {tally.kills} kills, {tally.took_s:.0f} s\n"
    )
    sys.stdout.write(text)
    sys.stdout.flush()
    return violation is not None and not died


if __name__ == "__main__":
    sys.exit(main())
