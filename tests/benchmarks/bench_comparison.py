"""The table of speed: Foxcast, its peer and the floor at the same work, in pairs that take turns, and what is wanted.

A figure is the least of the pairs with their median. CPU a question is what more questions add, so the start is no
part of it. What is wanted are the goals of the project, not measurements.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import ROOT, MeasureSize, say
from tests.benchmarks.whole_programs import (
    DIRECT_VENDOR,
    LIBRARY_VENDOR,
    OWN_CLIENT,
    PEER,
    TRANSLATED_VENDOR,
    MockProvider,
    ProgramRun,
    ProgramWork,
    machine_load,
    measure_foxcast,
    measure_peer,
    run_foxcast,
    say_columns,
    say_row,
    serve_models,
    show_values,
)

MANY = 3_200
AT_ONCE = 16
LONG_RESULT_CHARS = 2_000
# How many times the floor is wanted at most.
WANTED_RATIO = 1.6
MODELS = {
    "our own client": OWN_CLIENT,
    "litellm, called directly": DIRECT_VENDOR,
    "litellm, which translates": TRANSLATED_VENDOR,
    "litellm, which calls itself": LIBRARY_VENDOR,
}

# For each program one list a pair, with a run for each number of questions.
PairedRuns = Mapping[str, list[list[ProgramRun]]]


def main(size: MeasureSize) -> None:
    """Measure and print the rows."""
    say_columns()
    pairs, counts = size.pick(3, 1), (size.pick(100, 2), size.pick(400, 6))
    with serve_models() as server:
        if size is MeasureSize.QUICK:
            # Few programs: does each kind of measurement still work?
            _say_floor(server, counts)
            _say_starts(server, {"our own client": OWN_CLIENT}, pairs)
            return
        _say_costs(server, pairs, counts)
        _say_starts(server, MODELS, pairs)
        _say_floor(server, counts)
        load, many = machine_load(), (counts[0], MANY)
        found = _run_pairs(server, ProgramWork(questions=1, at_once=AT_ONCE), many, pairs=1)
        peaks = {name: show_values([runs[-1].used.peak_mb for runs in taken], "MB", 0) for name, taken in found.items()}
        _say_found(f"CPU a question, {many[1]:,} in one run", _added(found, many), wanted="as above", load=load)
        say_row(f"peak of memory, {many[1]:,} in one run", **peaks, wanted="80 MB", load=load)


def _say_costs(server: MockProvider, pairs: int, counts: tuple[int, int]) -> None:
    """Say what a question costs beyond the start, for each way to a model and each kind of work."""
    plain = [ProgramWork(questions=1, at_once=AT_ONCE, model=model) for model in MODELS.values()]
    long = ProgramWork(questions=1, at_once=AT_ONCE, results=10, chars=LONG_RESULT_CHARS)
    trials = ProgramWork(questions=1, at_once=AT_ONCE, calls=1, trials=5)
    wanted = ("11 ms", "20 ms", "20 ms", "less", "16 ms", "18 ms")
    names = (*MODELS, "10 long results a search", "5 trials of one call")
    for what, work, goal in zip(names, (*plain, long, trials), wanted, strict=True):
        load = machine_load()
        # Other work is none of the peer's.
        found = _run_pairs(server, work, counts, pairs=pairs, with_peer=work is plain[0])
        _say_found(f"CPU a question: {what}", _added(found, counts), wanted=goal, load=load)
        if work is plain[0] and found["foxcast"][-1][0].threads:
            few, more = found["foxcast"][-1]
            parts = {
                name: 1000 * (used - few.threads.get(name, 0.0)) / (counts[1] - counts[0])
                for name, used in more.threads.items()
            }
            say("   of these, by thread", ", ".join(f"{name} {ms:.1f} ms" for name, ms in parts.items()))


def _run_pairs(
    server: MockProvider, work: ProgramWork, counts: Sequence[int], *, pairs: int, with_peer: bool = True
) -> PairedRuns:
    """Run both programs in turn, each with these numbers of questions."""
    programs = {"foxcast": measure_foxcast} | ({"peer": measure_peer} if with_peer and PEER.exists() else {})
    found: dict[str, list[list[ProgramRun]]] = {name: [] for name in programs}
    for _ in range(pairs):
        for name, measure in programs.items():
            found[name].append([measure(server, work.resized(count)) for count in counts])
    return found


def _added(found: PairedRuns, counts: Sequence[int]) -> dict[str, list[float]]:
    """Return the milliseconds of CPU that each question beyond the first number adds, by program, one a pair."""
    more = counts[-1] - counts[0]
    return {
        name: [1000 * (runs[-1].used.cpu_s - runs[0].used.cpu_s) / more for runs in taken]
        for name, taken in found.items()
    }


def _say_found(what: str, found: Mapping[str, Sequence[float]], *, wanted: str, load: str, unit: str = "ms") -> None:
    say_row(what, **{name: show_values(values, unit) for name, values in found.items()}, wanted=wanted, load=load)


def _say_starts(server: MockProvider, models: Mapping[str, str], pairs: int) -> None:
    """Say how long it takes from the start of a process to its first request, and its peak with one question."""
    for what, model in models.items():
        load, (seconds, memory) = machine_load(), ("0.8 s", "80 MB") if model == OWN_CLIENT else ("2.5 s", "200 MB")
        found = _run_pairs(
            server, ProgramWork(questions=1, model=model), [1], pairs=pairs, with_peer=model == OWN_CLIENT
        )
        first = {name: show_values([runs[0].arrivals[0] for runs in taken], "s", 2) for name, taken in found.items()}
        peak = {name: show_values([runs[0].used.peak_mb for runs in taken], "MB", 0) for name, taken in found.items()}
        say_row(f"start to first work: {what}", **first, wanted=seconds, load=load)
        say_row(f"peak of memory with one question: {what}", **peak, wanted=memory, load=load)


def _say_floor(server: MockProvider, counts: tuple[int, int]) -> None:
    """Say what the same requests and rows cost without a program, and how many times that the program and parts cost.

    The writer thread of the ledger is compared with bare sqlite3, posts of our client with those of bare httpx.
    """
    load, work = machine_load(), ProgramWork(questions=counts[0], at_once=AT_ONCE)
    small = measure_foxcast(server, work)
    work = work.resized(counts[1])
    with run_foxcast(server, work) as (done, folder), TemporaryDirectory() as empty:
        kept = folder / "state" / "paper"
        given = {
            "url": f"{server.base_url(work)}/chat/completions",
            "bodies": server.get("/bodies"),
            "questions": work.questions,
            "at_once": AT_ONCE,
            "ledger": str(kept / "ledger.sqlite"),
            "evidence": str(kept / "ledger-evidence.sqlite"),
            "folder": empty,
        }
        command = [sys.executable, "-m", "tests.benchmarks.floor_program"]
        floor = json.loads(
            subprocess.run(
                command, input=json.dumps(given), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
            ).stdout
        )
    whole = 1000 * (done.used.cpu_s - small.used.cpu_s) / (counts[1] - counts[0])
    writer_s = done.threads.get("ledger-writer", 0.0) - small.threads.get("ledger-writer", 0.0)
    writer = 1000 * writer_s / (counts[1] - counts[0])
    parts = (
        ("floor: a question's requests by our client and by bare httpx", floor["our client"], floor["httpx"]),
        ("floor: the same by our client and by bare aiohttp", floor["our client"], floor["aiohttp"]),
        (f"floor: its {floor['rows']:.0f} rows by our writer and by bare sqlite3", writer, floor["sqlite3"]),
        ("floor: the whole question and bare httpx with bare sqlite3", whole, floor["httpx"] + floor["sqlite3"]),
        ("floor: the whole question and bare aiohttp with bare sqlite3", whole, floor["aiohttp"] + floor["sqlite3"]),
    )
    for what, ours, bare in parts:
        ratio = f"{bare:.1f} ms, {ours / bare:.1f} x"
        say_row(what, foxcast=f"{ours:.1f} ms", floor=ratio, wanted=f"{WANTED_RATIO} x", load=load)
