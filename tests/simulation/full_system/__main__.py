"""``python -m tests.simulation.full_system``: simulations of the whole daemon, by seed. See ``make simulate``."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import SimpleQueue
from pathlib import Path

import structlog

from tests.campaign_log import FOLDER, append_line, run_origin
from tests.simulation.full_system.event_coverage import build_report, describe_report
from tests.simulation.full_system.metamorphic import RELATIONS, MetamorphicRuns
from tests.simulation.full_system.mutants import ALL_MUTANTS, MUTANTS, OUTSIDE_MUTANTS, break_process
from tests.simulation.full_system.paper_live_comparison import decision_differences
from tests.simulation.full_system.plan import SimulationPlan
from tests.simulation.full_system.report_log import report_line
from tests.simulation.full_system.simulation import SimulationReport, run_simulation

MODULE = "tests.simulation.full_system"
MOST_SHOWN = 6
ALL = "all"
# Memory, where the machine has a folder of it.
SHM = Path("/dev/shm")  # noqa: S108 - a folder in it is made anew, with a name of its own


def main() -> int:
    """Run what is asked for; return 1 where something was violated."""
    asked = _parse_arguments()
    if asked.mutant == ALL:
        return _each_mutant(asked)
    if asked.metamorphic is not None:
        return _check_relations(asked)
    seeds = [asked.seed] if asked.seed is not None else list(range(asked.first, asked.first + asked.seeds))
    plans = [
        SimulationPlan(
            seed=seed,
            days=asked.days,
            lives=asked.lives,
            faulty=not asked.calm,
            people=not asked.calm,
            closing=not asked.calm,
            mutant=asked.mutant,
        )
        for seed in seeds
    ]
    if asked.twins:
        return _compare_twins(plans, asked.keep)
    began = time.monotonic()
    violated: list[int] = []
    events: list[Counter[str]] = []
    days, values = 0.0, run_origin(MODULE)
    for report, took_s in _run_plans(plans, asked.jobs, asked.dump, asked.place):
        days += report.days
        events.append(report.events)
        if asked.keep:
            append_line(FOLDER / f"{asked.keep}.jsonl", {**values, **report_line(report, took_s)})
        _print_report(report, took_s, verbose=asked.seed is not None)
        if report.violations:
            violated.append(report.plan.seed)
            if asked.until_found:
                break
    took_s = time.monotonic() - began
    sys.stdout.write(
        f"{len(plans)} seeds, {days:.1f} days, {len(violated)} violated {violated or ''}"
        f" in {took_s:.1f} s: {days / took_s:.2f} days a second\n"
    )
    is_covered = (
        asked.mutant is not None or asked.seed is not None or asked.calm or _report_coverage(days, events, asked)
    )
    return 1 if violated or not is_covered else 0


def _report_coverage(days: float, events: list[Counter[str]], asked: argparse.Namespace) -> bool:
    """Say how often what came up, and keep it; return False if a long programme did not meet what it should."""
    report = build_report(days, events)
    sys.stdout.writelines(f"{line}\n" for line in describe_report(report))
    if asked.keep:
        path = FOLDER / f"{asked.keep}-coverage.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(f"coverage: kept in {path}\n")
    return not report.fails


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed alone, and say all about it")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--days", type=float, default=3.0, help="simulated days of each seed")
    parser.add_argument("--lives", type=int, default=6, help="how many lives end before their time")
    parser.add_argument("--calm", action="store_true", help="no faults, and nobody who halts or sets clocks")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument(
        "--mutant",
        type=_check_mutants,
        metavar="NAME[,NAME ...]",
        help="break the program in this way, or in several at once; 'all' is each in turn",
    )
    parser.add_argument(
        "--metamorphic",
        nargs="*",
        choices=sorted(RELATIONS),
        metavar="RELATION",
        help=f"play scripted worlds in other forms and compare the results instead: {', '.join(RELATIONS)}",
    )
    parser.add_argument("--twins", action="store_true", help="compare what is decided on paper and live instead")
    parser.add_argument("--until-found", action="store_true", help="end at the first violation")
    parser.add_argument("--keep", metavar="NAME", help="add what came of each to state/simulations/NAME.jsonl")
    parser.add_argument("--place", type=int, help="of one job: which processor it keeps to, counted from 0")
    parser.add_argument("--dump", type=Path, help="write every line of the trace to this file")
    asked = parser.parse_args()
    if asked.seeds < 1 or asked.jobs < 1 or not asked.days > 0.0:
        parser.error("--seeds and --jobs are 1 at least, and --days more than 0")
    return asked


def _check_mutants(names: str) -> str:
    unknown = sorted({*names.split(",")} - {*ALL_MUTANTS})
    if unknown and names != ALL:
        message = f"no bug is named {', '.join(unknown)}; there are: {', '.join(sorted(ALL_MUTANTS))}"
        raise argparse.ArgumentTypeError(message)
    return names


def _each_mutant(asked: argparse.Namespace) -> int:
    """Look for each planted bug until it is found; return how many were not."""
    options = ["--seeds", str(asked.seeds), "--first", str(asked.first), "--days", str(asked.days), "--until-found"]
    options += ["--keep", asked.keep] if asked.keep else []

    places = [*range(asked.jobs)]

    def found(mutant: str) -> bool:
        place = places.pop()
        command = [sys.executable, "-m", MODULE, *options, "--mutant", mutant, "--place", str(place)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        places.append(place)
        sys.stdout.write(f"{mutant}: {done.stdout.splitlines()[-1] if done.stdout else done.stderr[-500:]}\n")
        sys.stdout.flush()
        # One that comes to no verdict has found nothing.
        return done.returncode == 1 and " violated [" in done.stdout

    with ThreadPoolExecutor(asked.jobs) as pool:
        names = [*MUTANTS, *OUTSIDE_MUTANTS]
        hidden = [mutant for mutant, was in zip(names, pool.map(found, names), strict=True) if not was]
    sys.stdout.write(
        f"{len(names) - len(hidden)} of {len(names)} planted bugs found; not: {', '.join(hidden) or '-'}\n"
    )
    return len(hidden)


def _check_relations(asked: argparse.Namespace) -> int:
    """Play each seed in all forms that are asked for; return 1 where results do not map."""
    _silence_logs()
    if asked.mutant is not None:
        break_process(asked.mutant)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    return int(sum(_broken_relations(asked, seed) for seed in seeds) > 0)


def _broken_relations(asked: argparse.Namespace, seed: int) -> int:
    """Return how many relations do not hold for a seed; one in which nothing happened shows nothing."""
    broken = 0
    with _temporary_folder() as root:
        runs = MetamorphicRuns(seed=seed, root=root)
        for name in asked.metamorphic or RELATIONS:
            compared, found = runs.differences(RELATIONS[name])
            broken += bool(found or not compared)
            line = {"metamorphic": name, "compared": compared, "seed": seed, "mutant": asked.mutant}
            if asked.keep:
                append_line(FOLDER / f"{asked.keep}.jsonl", {**run_origin(MODULE), **line, "violations": found})
            sys.stdout.write(f"seed {seed}, {name}: {compared} acts compared, {len(found)} differ\n")
            sys.stdout.writelines(f"  VIOLATED {one}\n" for one in found[:MOST_SHOWN])
            sys.stdout.flush()
    return broken


def _compare_twins(plans: list[SimulationPlan], name: str | None) -> int:
    differing = 0
    _silence_logs()
    for plan in plans:
        with _temporary_folder() as root:
            compared, found = decision_differences(plan, root)
        if name:
            append_line(
                FOLDER / f"{name}.jsonl",
                {**run_origin(MODULE), "twins": compared, "seed": plan.seed, "violations": found},
            )
        sys.stdout.write(f"seed {plan.seed}: {compared} decisions compared, {len(found)} differ\n")
        sys.stdout.writelines(f"  VIOLATED {one}\n" for one in found)
        differing += bool(found)
    return 1 if differing else 0


def _run_plans(
    plans: list[SimulationPlan], jobs: int, dump: Path | None, place: int | None
) -> Iterator[tuple[SimulationReport, float]]:
    if jobs <= 1:
        _pin_to_processor(os.getpid() if place is None else place)
        yield from (_run_plan(plan, dump) for plan in plans)
        return
    places: SimpleQueue[int] = SimpleQueue()
    for number in range(jobs):
        places.put(number)
    with ProcessPoolExecutor(jobs, initializer=_pin_worker, initargs=(places,)) as pool:
        try:
            yield from pool.map(_run_plan, plans)
        finally:
            pool.shutdown(cancel_futures=True)


def _pin_worker(places: SimpleQueue[int]) -> None:
    _pin_to_processor(places.get())


def _pin_to_processor(place: int) -> None:
    """Keep to one processor: its threads take turns, and waking one elsewhere takes a third of the time."""
    if sys.platform == "linux":
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[place % len(processors)]})


def _run_plan(plan: SimulationPlan, dump: Path | None = None) -> tuple[SimulationReport, float]:
    _silence_logs()
    if plan.mutant is not None:
        break_process(plan.mutant)
    began = time.process_time()
    with _temporary_folder() as root:
        report = run_simulation(plan, root, tell=dump is not None)
    took_s = time.process_time() - began
    if dump is not None:
        dump.write_text("\n".join([*report.told, ""]), encoding="utf-8")
        report.told.clear()
    return report, took_s


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="foxcast-", dir=SHM if SHM.is_dir() else None) as folder:
        yield Path(folder)


def _silence_logs() -> None:
    """Hide thousands of lines about what goes wrong on purpose, and look for garbage less often."""
    # What an earlier simulation left must go first: what is frozen is never looked at again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


def _print_report(report: SimulationReport, took_s: float, *, verbose: bool) -> None:
    plan = report.plan
    sides = ", ".join(f"{name} {mode}" for name, mode in report.modes.items()) + (", a world" * report.worldly)
    sys.stdout.write(
        f"seed {plan.seed} ({sides}): {report.days:.2f} days, {len(report.lives)} lives, {report.requests} requests,"
        f" {report.effects.total()} effects, {report.faults.total()} faults, {report.turns} turns,"
        f" trace {report.trace[:16]}, {took_s:.1f} s of CPU\n"
    )
    if verbose:
        sys.stdout.write(f"  lives: {report.lives}\n  faults: {dict(report.faults)}\n")
        sys.stdout.write(f"  effects: {dict(report.effects)}\n  trace: {report.trace}\n")
        sys.stdout.write(f"  memory in MB by day: {report.memory_mb}\n  most in use: {report.peak}\n")
    # Of several bugs each may have its own.
    shown = report.violations if verbose or plan.mutant else report.violations[:MOST_SHOWN]
    for violation in shown:
        sys.stdout.write(f"  VIOLATED {violation}\n")
    if len(shown) < len(report.violations):
        sys.stdout.write(f"  and {len(report.violations) - len(shown)} more\n")
    if report.violations:
        mutant = f" MUTANT={plan.mutant}" if plan.mutant else ""
        arguments = [] if plan.lives == SimulationPlan(seed=plan.seed).lives else [f"--lives {plan.lives}"]
        arguments += [] if plan.faulty else ["--calm"]
        more = f" SIMULATE_ARGS='{' '.join(arguments)}'" if arguments else ""
        sys.stdout.write(f"  again with: make simulate SEED={plan.seed} DAYS={plan.days:g}{mutant}{more}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
