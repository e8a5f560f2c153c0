"""How much of what a slow model permits is used: 2 s a call, so many requests at the same time, whole programs.

The provider's ceiling in config bounds the requests, and questions are begun as they are needed to keep that many in
flight. How many requests a model gets is learned, so the program runs twice in the same folder. The first run starts
with what a new user has, and shows how long it takes to have that many in flight. The second one, on new questions,
starts with what was learned. Its share is how many are in flight on average from then on until no further question is
left, divided by how many may be. The whole is the least time that all calls need, divided by the time from the first
request to the last answer: it includes the burst at the beginning and the tail.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import MeasureSize
from tests.benchmarks.whole_programs import (
    PEER,
    MockProvider,
    ProgramRun,
    ProgramWork,
    machine_load,
    measure_foxcast,
    measure_peer,
    run_foxcast_in,
    say_columns,
    say_row,
    serve_models,
)

# By requests that the provider permits: the goal, and how many questions are asked for each of them.
GOALS = {200: ("98 %", 3), 400: ("95 %", 2), 1000: ("80 %", 2)}
SHIPPED_QUESTIONS = 60
# How many are in flight counts as full from this share on.
FULL_SHARE = 0.95
# The first run asks so many questions for each at once: those that end before all slots are in use, and these.
LEARNING_SHARE = 1.25


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    quick = size is MeasureSize.QUICK
    delay_s = 0.05 if quick else 2.0
    say_columns()
    with serve_models() as server:
        _say_shipped(server, ProgramWork(questions=4 if quick else SHIPPED_QUESTIONS, delay_s=delay_s))
        for permitted, (wanted, rounds) in ({4: ("98 %", 2)} if quick else GOALS).items():
            work = ProgramWork(questions=rounds * permitted, delay_s=delay_s, permitted=permitted)
            _say_share(server, work, wanted)


def _say_shipped(server: MockProvider, work: ProgramWork) -> None:
    """Say how many questions a minute are answered with the settings that a program is shipped with."""
    load = machine_load()
    shown = {"foxcast": _per_minute(measure_foxcast(server, work), work)}
    if PEER.exists():
        shown["peer"] = _per_minute(measure_peer(server, work), work)
    say_row(f"{work.delay_s:g} s model, as shipped", **shown, wanted="more", load=load)


def _per_minute(done: ProgramRun, work: ProgramWork) -> str:
    taken_s = _taken_s(done, work)
    return f"{60 * work.questions / taken_s:.1f} questions/min, {work.requests / taken_s:.1f} calls/s"


def _say_share(server: MockProvider, work: ProgramWork, wanted: str) -> None:
    permitted, load = work.permitted or 1, machine_load()
    what, learning = f"{work.delay_s:g} s model, {permitted} at once", work.resized(round(LEARNING_SHARE * permitted))
    with TemporaryDirectory() as place:
        first = run_foxcast_in(Path(place), server, learning)
        say_row(f"{what}, the first run", foxcast=_show_ramp(first, learning), load=load)
        load, work = machine_load(), replace(work, earlier=learning.questions)
        done = run_foxcast_in(Path(place), server, work)
    shown, whole = {"foxcast": _show_share(done, work)}, {"foxcast": _show_whole(done, work)}
    if PEER.exists():
        peer = measure_peer(server, work)
        shown["peer"], whole["peer"] = _show_share(peer, work), _show_whole(peer, work)
    say_row(f"{what}, from then on", **shown, wanted=wanted, load=load)
    say_row(f"{what}, burst and tail included", **whole, load=load)
    say_row(f"{what}, peak of memory", foxcast=f"{done.used.peak_mb:.0f} MB", load=load)


def _show_ramp(done: ProgramRun, work: ProgramWork) -> str:
    """Show after how long that many were in flight, or how many there were at most."""
    flying = _in_flight(done.arrivals, work.delay_s)
    full = _first_full(flying, work)
    if full is None:
        return f"never full: {max(flying)} requests at most, {work.requests / _taken_s(done, work):.0f} calls/s"
    return f"full after {done.arrivals[full] - done.arrivals[0]:.1f} s"


def _show_share(done: ProgramRun, work: ProgramWork) -> str:
    """Show the share between burst and tail; where all were never in flight, what follows the first answers."""
    flying, permitted = _in_flight(done.arrivals, work.delay_s), work.permitted or 1
    full = _first_full(flying, work)
    begin = bisect_right(done.arrivals, done.arrivals[0] + work.delay_s) if full is None else full
    # The peer begins all in one instant: what counts there are the last requests of the questions that are left.
    end = min(done.begun_by, work.requests - permitted) or work.requests - permitted
    since, until = done.arrivals[begin], done.arrivals[end]
    mean = _mean_in_flight(done.arrivals, work.delay_s, since=since, until=until)
    share = f"{100 * mean / permitted:.1f} %, {(end - begin) / (until - since):.0f} calls/s"
    return f"{share}, CPU {100 * done.used.cpu_s / done.used.wall_s:.0f} %"


def _show_whole(done: ProgramRun, work: ProgramWork) -> str:
    taken_s, ideal_s = _taken_s(done, work), work.requests * work.delay_s / (work.permitted or 1)
    return f"{100 * ideal_s / taken_s:.1f} %, {work.requests / taken_s:.0f} calls/s"


def _first_full(flying: Sequence[int], work: ProgramWork) -> int | None:
    """Return the number of the first request at which as many are in flight as may be, None where there is none."""
    return next((number for number, count in enumerate(flying) if count >= FULL_SHARE * (work.permitted or 1)), None)


def _in_flight(arrivals: Sequence[float], delay_s: float) -> list[int]:
    """Return how many requests are in flight at the arrival of each: the server takes the same time for all."""
    return [number + 1 - bisect_right(arrivals, at - delay_s) for number, at in enumerate(arrivals)]


def _mean_in_flight(arrivals: Sequence[float], delay_s: float, *, since: float, until: float) -> float:
    """Return how many requests are in flight on average between two times."""
    return sum(max(0.0, min(at + delay_s, until) - max(at, since)) for at in arrivals) / (until - since)


def _taken_s(done: ProgramRun, work: ProgramWork) -> float:
    """Return the seconds from the first request to the last answer."""
    return done.arrivals[-1] + work.delay_s - done.arrivals[0]
