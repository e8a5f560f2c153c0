"""How much of what a slow model permits is used: 2 s a call, so many questions in work at once, whole programs.

The share is the least time that the calls need with so many in flight, divided by the time from the first request to
the last answer: it includes the ramp at the beginning and the tail.
"""

from tests.benchmarks.figures import MeasureSize
from tests.benchmarks.whole_programs import (
    PEER,
    MockProvider,
    ProgramRun,
    ProgramWork,
    machine_load,
    measure_foxcast,
    measure_peer,
    say_columns,
    say_row,
    serve_models,
)

# By questions in work at once: the goal, and how many questions are asked for each of them.
GOALS = {200: ("98 %", 3), 400: ("95 %", 2), 1000: ("80 %", 2)}
SHIPPED_QUESTIONS = 60


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    quick = size is MeasureSize.QUICK
    delay_s = 0.05 if quick else 2.0
    say_columns()
    with serve_models() as server:
        _say_shipped(server, ProgramWork(questions=4 if quick else SHIPPED_QUESTIONS, delay_s=delay_s))
        for at_once, (wanted, rounds) in ({4: ("98 %", 2)} if quick else GOALS).items():
            work = ProgramWork(questions=rounds * at_once, delay_s=delay_s, at_once=at_once)
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
    load, at_once = machine_load(), work.at_once or 1
    ideal_s = work.requests * work.delay_s / at_once
    shown = {"foxcast": _show_share(measure_foxcast(server, work), work, ideal_s)}
    if PEER.exists():
        shown["peer"] = _show_share(measure_peer(server, work), work, ideal_s)
    say_row(f"{work.delay_s:g} s model, {at_once} at once", **shown, wanted=wanted, load=load)


def _show_share(done: ProgramRun, work: ProgramWork, ideal_s: float) -> str:
    taken_s = _taken_s(done, work)
    return f"{100 * ideal_s / taken_s:.1f} %, CPU {100 * done.used.cpu_s / done.used.wall_s:.0f} %"


def _taken_s(done: ProgramRun, work: ProgramWork) -> float:
    """Return the seconds from the first request to the last answer."""
    return done.arrivals[-1] + work.delay_s - done.arrivals[0]
