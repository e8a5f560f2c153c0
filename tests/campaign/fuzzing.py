"""Feeds mutated samples to parsers: each input is read, or refused with a clear error; anything else is a finding."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError
from tests.campaign.fuzz_targets import FuzzTarget, ReadInput, list_targets
from tests.campaign.input_mutation import Mutate, mutate

# One input may take so much processor time, and so long at all.
SLOW_S, ENDLESS_S = 3.0, 60
ROOT = Path(__file__).resolve().parents[2]


class EndlessInputError(Exception):
    """An input was not read within a minute."""


@dataclass(slots=True)
class FuzzCounts:
    """How many inputs were read, how many of them refused with a clear error, and each kind of finding once."""

    inputs: int = 0
    refused: int = 0
    findings: dict[str, str] = field(default_factory=dict)
    repeated: Counter[str] = field(default_factory=Counter)


def fuzz(target: FuzzTarget, folder: Path, *, first: int, count: int, deadline: float) -> FuzzCounts:
    """Read the inputs from number ``first`` on, ``count`` of them or until ``deadline`` (``time.monotonic()``)."""
    return asyncio.run(_fuzz(target, folder, range(first, first + count), deadline))


async def _fuzz(target: FuzzTarget, folder: Path, numbers: range, deadline: float) -> FuzzCounts:
    counts, read = FuzzCounts(), target.open(folder)
    bodies = await _count_bodies(read)
    with _alarm():
        for number in numbers:
            if time.monotonic() >= deadline:
                break
            await _read_one(target, read, counts, number, bodies)
    return counts


async def _count_bodies(read: ReadInput) -> int:
    """Return how many bodies are read of samples as they are; raises what they are refused with."""
    seen: list[int] = []

    def keep(body: bytes) -> bytes:
        seen.append(len(body))
        return body

    await read(keep)
    return len(seen)


async def _read_one(target: FuzzTarget, read: ReadInput, counts: FuzzCounts, number: int, bodies: int) -> None:
    began = time.thread_time()
    counts.inputs += 1
    signal.alarm(ENDLESS_S)
    try:
        await read(_mutation_of(target.name, number, bodies))
    except FoxcastError as error:
        counts.refused += 1
        if why := unclear_reason(error):
            _note(counts, target, number, f"{why} {_place_of(error)}", repr(error)[:300])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        kind = f"{type(error).__name__} {_place_of(error)}"
        _note(counts, target, number, kind, f"{error}"[:300])
    signal.alarm(0)
    if (took_s := time.thread_time() - began) > SLOW_S:
        _note(counts, target, number, "slow", f"it took {took_s:.1f} s")


def _mutation_of(name: str, number: int, bodies: int) -> Mutate:
    """Return what mutates one of the bodies of this input, or each of them."""
    chance, seen = random.Random(f"{name} {number}"), iter(range(10**9))
    only = chance.randrange(bodies + 1) if bodies > 1 else 0

    def mutation(body: bytes) -> bytes:
        place = next(seen)
        return mutate(chance, body) if only in {place, bodies} else body

    return mutation


def unclear_reason(error: FoxcastError) -> str:
    """Return what is wrong with the text of an error, "" if a person can read it."""
    text = str(error)
    if not text.strip():
        return "an error without a text"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "an error that cannot be printed"
    return "an error longer than a page" if len(text) > 10_000 else ""


def _place_of(error: BaseException) -> str:
    """Return the last line of our own code that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if any(f"/{room}/" in one.filename for room in ("bot", "plugins"))]
    last = (own or frames)[-1]
    return f"at {Path(last.filename).relative_to(ROOT) if own else Path(last.filename).name}:{last.lineno}"


def _note(counts: FuzzCounts, target: FuzzTarget, number: int, kind: str, text: str) -> None:
    counts.repeated[kind] += 1
    counts.findings.setdefault(kind, f"{target.name} input {number}: {kind}: {text}")


@contextmanager
def _alarm() -> Iterator[None]:
    def end(*_: object) -> None:
        message = f"not read within {ENDLESS_S} s"
        raise EndlessInputError(message)

    before = signal.signal(signal.SIGALRM, end)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    """Read inputs, a slice of each target's in turn; 1 after a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="how many inputs there were before, over all targets")
    parser.add_argument("--inputs", type=int, default=50_000, help="how many now, over all targets")
    parser.add_argument("--target", help="only targets whose name has this in it, with inputs numbered from --first")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    targets = [one for one in list_targets() if asked.target is None or asked.target in one.name]
    share = 1 if asked.target else len(targets)
    inputs = refused = findings = 0
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="foxcast-fuzz-") as folder:
            first, count = asked.first // share, max(1, asked.inputs // len(targets))
            counts = fuzz(target, Path(folder), first=first, count=count, deadline=math.inf)
        inputs, refused, findings = inputs + counts.inputs, refused + counts.refused, findings + len(counts.findings)
        for kind, text in counts.findings.items():
            shown = text.encode("utf-8", "backslashreplace").decode()
            sys.stdout.write(f"FOUND {shown} ({counts.repeated[kind]} times)\n")
    sys.stdout.write(f"{inputs} inputs, {refused} refused, {findings} findings\n")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
