"""``python -m tests.scoreboard``: what simulations and campaigns kept, added up. See ``make scoreboard``.

Every figure is from runs that happened; each line of those files says of which commit and command it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tests.simulation.full_system.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "state"
KNOWN = Path(__file__).with_name("violations.toml")
# Faults that hand the program something that no venue says.
BAD_INPUTS = frozenset(
    {
        "duplicated",
        "enlarged",
        "garbled",
        "reordered",
        "truncated",
        "web page after the effect",
        "web page before the effect",
    }
)
PEOPLE = ("clock set", "stop file", "halt", "disarmed")
# Memory is reported of runs that last so long at least: below, it is that of the libraries.
SOAKED_DAYS = 100.0

Line = Mapping[str, Any]


def main() -> int:
    """Write state/scoreboard.json, say it as a table; return 1 for open violations, unlike traces, or nothing kept."""
    parser = argparse.ArgumentParser(prog="make scoreboard", description=__doc__)
    parser.add_argument("--folder", type=Path, default=STATE / "simulations", help="where simulations keep their lines")
    parser.add_argument("--to", type=Path, default=STATE / "scoreboard.json", help="the file to write")
    asked = parser.parse_args()
    lines = [*_lines(asked.folder)]
    if not lines:
        sys.stderr.write(f"{asked.folder} has no simulations: run make simulate first\n")
        return 1
    board = build_scoreboard(lines, tomllib.loads(KNOWN.read_text(encoding="utf-8"))["found"])
    asked.to.write_text(json.dumps(board, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(markdown_table(board))
    again = board["repeated"]
    return 1 if board["violations"]["open"] or again["same"] < again["runs"] else 0


def build_scoreboard(lines: Sequence[Line], known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up simulations; one that was run again, on the same commit, counts once, and its trace is compared."""
    twins = {(line["commit"], line["seed"]): line for line in lines if "twins" in line}
    campaigns = [line for line in lines if "campaign" in line]
    forms = [line for line in lines if "metamorphic" in line and line["mutant"] is None]
    lines = [line for line in lines if not {"twins", "campaign", "metamorphic"} & line.keys()]
    sound = [line for line in lines if line["mutant"] is None]
    once = {_key(line): line for line in sound}
    violations = [(line, text) for line in [*sound, *twins.values(), *forms] for text in line["violations"]]
    unknown: list[dict[str, Any]] = [
        {"seed": line["seed"], "commit": line["commit"], "says": text}
        for line, text in violations
        if not any(_fits(one, line, text) for one in known)
    ]
    unknown += [
        {"command": line["command"], "commit": line["commit"], "says": text}
        for line in campaigns
        for text in line["violations"]
    ]
    faults = _added(line["faults"] for line in once.values())
    return {
        "commits": sorted({line["commit"] for line in sound}),
        "commands": sorted({line["command"] for line in lines}),
        "simulations": len(once),
        "seeds": len({line["seed"] for line in once.values()}),
        "days": round(sum(line["days"] for line in once.values()), 1),
        "cpu_s": round(sum(line["cpu_s"] for line in once.values()), 1),
        "worldly": sum(line["worldly"] for line in once.values()),
        "ends": _added(line["ends"] for line in once.values()),
        "requests": sum(line["requests"] for line in once.values()),
        "effects": _added(line["effects"] for line in once.values()),
        "faults": {kind: count for kind, count in faults.items() if not kind.startswith(PEOPLE)},
        "bad inputs": {kind: count for kind, count in faults.items() if kind in BAD_INPUTS},
        "people": {kind: count for kind, count in faults.items() if kind.startswith(PEOPLE)},
        "violations": {"known": [*known], "open": unknown},
        "repeated": _repeated(sound),
        "decisions compared": sum(line["twins"] for line in twins.values()),
        "acts compared": sum(line["compared"] for line in forms),
        "memory": [
            _memory(line) for line in once.values() if line["days"] >= SOAKED_DAYS and len(line["memory_mb"]) >= 4
        ],
        "most in use": _most(line["peak"] for line in once.values()),
        "mutants": _mutants(lines),
        "campaigns": _added(line["counts"] for line in campaigns),
    }


def markdown_table(board: Mapping[str, Any]) -> str:
    """Return the board as a table of Markdown."""
    rows = [*_rows(board)]
    return "\n".join(["| What | Figure |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]) + "\n"


def _rows(board: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ends, violations = board["ends"], board["violations"]
    yield "Simulated", f"{board['days']:g} days of {board['seeds']} seeds ({board['worldly']} with press and model)"
    yield "Speed", f"{board['cpu_s'] / max(board['days'], 1e-9):.1f} s of processor time a day"
    yield "Lives ended", _counts_text(ends)
    yield "Heard by the servers", f"{board['requests']:,} requests; took effect: {_counts_text(board['effects'])}"
    yield "Faults", f"{sum(board['faults'].values()):,}: {_counts_text(board['faults'])}"
    yield "Bad inputs among them", f"{sum(board['bad inputs'].values()):,} answers that no venue gives"
    yield "What people did", _counts_text(board["people"])
    known = [one for one in violations["known"] if not one.get("observer", False)]
    mended = sum(bool(one["mended"]) for one in known)
    yield (
        "Violations",
        f"{mended} found and mended, {len(known) - mended} known, {len(violations['open'])} not looked into",
    )
    yield "Run again, same trace", f"{board['repeated']['same']} of {board['repeated']['runs']}"
    yield "Decided alike on paper and live", f"{board['decisions compared']:,} decisions compared"
    yield "Alike in another form of the world", f"{board['acts compared']:,} acts compared"
    for one in board["memory"]:
        quarters = ", ".join(f"{mb:.0f}" for mb in one["quarters_mb"])
        yield f"Memory, seed {one['seed']}", f"{quarters} MB in the quarters of {one['days']:.0f} days (medians)"
    yield "Most in use at once", _counts_text(board["most in use"])
    mutants = board["mutants"]
    found = [f"{name} ({seed})" for name, seed in sorted(mutants.items()) if seed is not None]
    yield "Planted bugs found (by seed)", f"{len(found)} of {len(mutants)}: {', '.join(found) or '-'}"
    yield "Real processes and pages", _counts_text(board["campaigns"])
    yield "Commits", ", ".join(board["commits"])


def _lines(folder: Path) -> Iterator[Line]:
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            line: Line = json.loads(text)
            yield line


def _key(line: Line) -> tuple[object, ...]:
    return (line["commit"], line["seed"], line["asked_days"], line["calm"])


def _fits(one: Mapping[str, Any], line: Line, text: str) -> bool:
    is_then = line["commit"] in one.get("commits", ()) and line.get("asked_days") == one["days"]
    return is_then and line["seed"] in one["seeds"] and any(part in text for part in one["says"])


def _repeated(lines: Sequence[Line]) -> dict[str, int]:
    traces = defaultdict(list)
    for line in lines:
        traces[_key(line)].append(line["trace"])
    again = [found for found in traces.values() if len(found) > 1]
    return {"runs": len(again), "same": sum(len(set(found)) == 1 for found in again)}


def _memory(line: Line) -> dict[str, Any]:
    """Return what is held in each quarter of the run: the median of its days."""
    held = [mb for _, mb in sorted((int(day), mb) for day, mb in line["memory_mb"].items())]
    cuts = [len(held) * quarter // 4 for quarter in range(5)]
    return {
        "seed": line["seed"],
        "days": line["days"],
        "quarters_mb": [median(held[begin:end]) for begin, end in pairwise(cuts)],
    }


def _mutants(lines: Sequence[Line]) -> dict[str, int | None]:
    """Return which seed found each planted bug first on the commit on which it was looked for last, None for none."""
    found: dict[str, int | None] = dict.fromkeys(MUTANTS)
    last = {line["mutant"]: line["commit"] for line in lines}
    for line in lines:
        name, seed = line["mutant"], line["seed"]
        if name is not None and line["violations"] and line["commit"] == last[name]:
            found[name] = min(seed, found.get(name) or seed)
    return found


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total.most_common())


def _most(peaks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    most: dict[str, int] = {}
    for peak in peaks:
        for name, count in peak.items():
            most[name] = max(most.get(name, 0), count)
    return most


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "-"


if __name__ == "__main__":
    raise SystemExit(main())
