"""SIGKILL the outbox at its commits and writes, over fake venues that lose, delay and repeat: ``make crash``.

Each story is a ledger with forecasts that must leave, and a venue on the loopback interface that goes on while lives of
the program come and go. Some lives are not armed, some find the brake pulled, one story in five is on paper: in none
of those may a byte be written. In the end every effect at the venue has one intent, every intent has at most one
effect, what was acknowledged is there, and the ledger keeps all its rules.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bot.clock import SeededRandom
from bot.domain.forecast import Forecast
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.store.audit import verify
from bot.store.checks import full_check
from bot.store.database import open_reader
from bot.store.forecasts import Opening
from bot.store.invariants import INVARIANTS
from bot.store.ledger import open_ledger
from bot.testing.venues.faults import Fault, Faults, Trouble
from bot.testing.venues.kit import FakeVenue, serve
from bot.testing.venues.metaculus import FakeMetaculus
from tests.crash.bazaar import Bazaar
from tests.crash.outbox_lives import TOKEN, FastClock, Life, told
from tests.crash.story import Violation

QUESTIONS = 5
START = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
# A request that is lost is known to be lost two minutes later: within a second.
FACTOR = 150.0
MOST_LIVES = 150
# A story that nobody kills has some 60 moments. Most lives die early, so that recovery itself is killed, too.
SOON, LATE, MOSTLY = 12, 60, 0.85
LATEST_S = 80.0
QUIET_READINGS = 0.7
VENUES = ("bazaar", "metaculus")
# One story in so many is on paper; so there is one for each venue in turn.
PAPER = 5
RATES = {
    Fault.DROPPED_BEFORE: 0.05,
    Fault.DROPPED_AFTER: 0.12,
    Fault.LATE: 0.35,
    Fault.ERROR_BEFORE: 0.04,
    Fault.ERROR_AFTER: 0.05,
    Fault.TRUNCATED: 0.04,
    Fault.PAGE_AFTER: 0.03,
    Fault.TOO_MANY: 0.03,
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the campaign did."""

    kills: int = 0
    stories: int = 0
    intents: int = 0
    effects: int = 0
    parked: int = 0
    quiet: int = 0
    took_s: float = 0.0
    where: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        points = ", ".join(f"{count} {where}" for where, count in sorted(self.where.items()))
        return (
            f"{self.kills} kills ({points}), {self.stories} stories, {self.intents} intents, {self.effects} effects, "
            f"0 doubled, 0 lost, {self.parked} parked, {sum(self.faults.values())} faults, 0 writes in {self.quiet} "
            f"lives on paper, unarmed or halted, {self.took_s:.0f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many kills, and where chance begins."""

    kills: int
    seed: int


@dataclass(slots=True, kw_only=True)
class Scene:
    """One story: its folder, its venue and what a life of it is told."""

    folder: Path
    fake: FakeVenue
    life: Life
    chance: random.Random
    mode: str

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.sqlite"

    @property
    def stop(self) -> Path:
        return self.folder / "STOP"

    def writes(self) -> int:
        """How many requests that change something were heard."""
        return sum(heard.method != "GET" for heard in self.fake.requests)


class Lingering(Faults):
    """Late effects come when the program has long given them up, and still before a request expires."""

    def __init__(self, stream: np.random.Generator) -> None:
        super().__init__(stream, RATES)
        self._wait = stream

    def pick(self, method: str, path: str) -> Trouble | None:
        # Readings are many and writes are few; it is at writes that faults tell.
        if method == "GET" and self._wait.random() < QUIET_READINGS:
            return None
        trouble = super().pick(method, path)
        if trouble is None or trouble.fault is not Fault.LATE:
            return trouble
        return replace(trouble, wait_s=float(self._wait.uniform(1.0, LATEST_S)))


class Zygote:
    """The process that forks lives."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def live(self, life: Life) -> str:
        """Return how a life ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{told(life)}\n".encode())
        await self._process.stdin.drain()
        return (await self._process.stdout.readline()).decode().strip()

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


def campaign(plan: Plan, folder: Path) -> Tally:
    """Kill and check until the number of kills is reached and the last story is finished; raises Violation."""
    return asyncio.run(_campaign(plan, folder))


async def _campaign(plan: Plan, folder: Path) -> Tally:
    chance, tally, began = random.Random(plan.seed), Tally(), time.monotonic()
    command = [sys.executable, "-m", "tests.crash.outbox_lives"]
    pipe = asyncio.subprocess.PIPE
    zygote = Zygote(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=_root()))
    try:
        while tally.kills < plan.kills:
            place = folder / f"story {tally.stories}"
            await _tell(zygote, place, chance, tally)
            shutil.rmtree(place)
    finally:
        await zygote.close()
    tally.took_s = time.monotonic() - began
    return tally


async def _tell(zygote: Zygote, place: Path, chance: random.Random, tally: Tally) -> None:
    venue = VENUES[tally.stories % len(VENUES)]
    mode = "paper" if tally.stories % PAPER == PAPER - 1 else "live"
    clock = FastClock(began=time.time(), factor=FACTOR, start=START)
    faults = Lingering(SeededRandom(chance.getrandbits(32)).stream("faults"))
    fake = Bazaar(clock, faults=faults) if venue == "bazaar" else FakeMetaculus(clock, faults=faults, limits=())
    await asyncio.to_thread(place.mkdir, parents=True)
    async with serve(fake) as served:
        await _make(place / "ledger.sqlite", _questions(fake, clock), clock)
        life = Life(
            ledger=str(place / "ledger.sqlite"),
            venue=venue,
            url=served.url,
            kill_at=None,
            armed=True,
            mode=mode,
            began=clock._began,  # noqa: SLF001 - the lives' clock is this one
            factor=FACTOR,
            start=START,
            notes=str(place / "notes.txt"),
        )
        scene = Scene(folder=place, fake=fake, life=life, chance=chance, mode=mode)
        await _lives(zygote, scene, tally)
        await _last(zygote, scene)
        await asyncio.to_thread(_judge, scene, tally)
    tally.stories += 1
    tally.faults.update({str(fault): count for fault, count in faults.injected.items()})


async def _lives(zygote: Zygote, scene: Scene, tally: Tally) -> None:
    """Let lives begin and end until one ends by itself, armed and free to write."""
    for _ in range(MOST_LIVES):
        armed, halted = scene.chance.random() > 0.1, scene.chance.random() < 0.1
        scene.stop.touch() if halted else scene.stop.unlink(missing_ok=True)
        kill_at = scene.chance.randrange(SOON if scene.chance.random() < MOSTLY else LATE)
        before = scene.writes()
        ended = await zygote.live(replace(scene.life, armed=armed, kill_at=kill_at))
        tally.kills += ended == "killed"
        if not armed or halted or scene.mode == "paper":
            tally.quiet += 1
            if scene.writes() != before:
                message = f"{scene.writes() - before} writes on paper, unarmed or halted: {scene.folder}"
                raise Violation(message)
        elif ended == "exit 0":
            break
        _require_ended(scene, ended)
        await asyncio.to_thread(_sound, scene)
        if scene.mode == "paper" and ended == "exit 0" and armed and not halted:
            break
    scene.stop.unlink(missing_ok=True)


async def _last(zygote: Zygote, scene: Scene) -> None:
    """A venue in order, and a life that nobody kills: whatever is open comes to its end."""
    scene.fake.faults.clear()
    await scene.fake.clock.sleep(LATEST_S + 1.0)
    ended = await zygote.live(scene.life)
    if ended != "exit 0":
        _require_ended(scene, ended)
        message = f"what was begun does not come to an end ({ended}): {scene.folder} {_notes(scene)[-1:]}"
        raise Violation(message)


def _judge(scene: Scene, tally: Tally) -> None:
    """Hold the ledger against the venue's own books."""
    _sound(scene)
    tally.where.update(line for line in _notes(scene) if not line.startswith("error"))
    intents = _rows(scene.ledger, "select id, state, ref, predictions, detail from intent order by seq")
    states = {name: state for name, state, *_ in intents}
    tally.intents += len(states)
    tally.parked += sum(state == "in doubt" for state in states.values())
    undone = _rows(scene.ledger, "select id from forecast where decided_at is null")
    if undone or not set(states.values()) <= {"acked", "superseded", "refused"}:
        message = f"left undone: {undone} {Counter(states.values())} in {scene.folder}"
        raise Violation(message)
    if scene.mode == "paper":
        if scene.writes():
            message = f"{scene.writes()} writes of a story on paper: {scene.folder}"
            raise Violation(message)
        return
    effects = _effects(scene)
    tally.effects += sum(effects.values())
    if doubled := {name: count for name, count in effects.items() if count > 1}:
        message = f"doubled: {doubled} in {scene.folder}"
        raise Violation(message)
    acked = {_mark(row) if scene.life.venue == "metaculus" else row[0] for row in intents if row[1] == "acked"}
    if acked != set(effects):
        message = f"acknowledged and not there, or there and not known: {acked ^ set(effects)} in {scene.folder}"
        raise Violation(message)
    wanted = _rows(scene.ledger, "select count(distinct ref) from forecast")[0][0]
    there = len({row[2] for row in intents if row[1] == "acked"})
    if there != wanted:
        message = f"{wanted - there} questions without an answer at the venue: {scene.folder}"
        raise Violation(message)


def _effects(scene: Scene) -> Counter[str]:
    if scene.life.venue == "bazaar":
        return Counter(effect.detail["intent"] for effect in scene.fake.ledger.effects("order"))
    found = scene.fake.ledger.effects("forecast")
    return Counter(f"{effect.subject} {effect.detail['values'][-1]:.4f}" for effect in found)


def _mark(row: Sequence[Any]) -> str:
    """Name a forecast as the venue's books do: each has a probability of its own."""
    _, _, ref, predictions, _ = row
    [probability] = [float(part) for part in predictions.replace("}", "").split(":") if part[0].isdigit()]
    return f"{ref.rsplit(':', 1)[1]} {probability:.4f}"


def _sound(scene: Scene) -> None:
    health = full_check(scene.ledger, INVARIANTS)
    if not health.sound:
        raise Violation(str(health.problems))
    with closing(open_reader(scene.ledger)) as database:
        verdict = verify(database)
    if not verdict.sound:
        raise Violation(verdict.why)


def _require_ended(scene: Scene, ended: str) -> None:
    if ended not in {"killed", "exit 0"}:
        message = f"a life ended by itself with {ended!r}: {_notes(scene)[-1:]} in {scene.folder}"
        raise Violation(message)


def _notes(scene: Scene) -> list[str]:
    path = Path(scene.life.notes)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def _questions(fake: FakeVenue, clock: FastClock) -> list[Question]:
    if not isinstance(fake, FakeMetaculus):
        return [_question(QuestionRef("bazaar", f"{number}")) for number in range(QUESTIONS)]
    fake.world.add_user("samplebot", token=TOKEN)
    there = [fake.world.add_question(f"Will it rain on day {number}?") for number in range(QUESTIONS)]
    return [_question(QuestionRef("metaculus", f"{one.post}:{one.id}")) for one in there]


def _question(ref: QuestionRef) -> Question:
    return Question(ref=ref, title=f"{ref}?", shape=BinaryShape(), targets=(Target(),))


async def _make(path: Path, questions: Sequence[Question], clock: FastClock) -> None:
    now = clock.now()
    async with open_ledger(path, now=now) as ledger:
        await ledger.questions.record(questions, seen_at=now)
        for number, question in enumerate(questions):
            running = await ledger.forecasts.begin(
                Opening(question=question, forecaster="plain", cutoff=now, why="new", now=now)
            )
            predictions = {"outcome": Binary(0.2 + 0.01 * number)}
            forecast = Forecast(
                id=running.id,
                ref=question.ref,
                version=running.version,
                forecaster="plain",
                revision=running.revision,
                cutoff=running.cutoff,
                made_at=now,
                why="new",
                raw=predictions,
                predictions=predictions,
            )
            await ledger.forecasts.complete(forecast, next_due=None)


def _root() -> Path:
    return Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign that the command line asks for; 1 after a violation."""
    parser = argparse.ArgumentParser(description="Kill the outbox at every commit and write; nothing leaves twice.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="foxcast-outbox-"))
    try:
        tally = campaign(Plan(kills=given.kills, seed=given.seed), folder)
    except Violation as violation:
        sys.stderr.write(f"violation with seed {given.seed}, kept in {folder}: {violation}\n")
        return 1
    shutil.rmtree(folder)
    sys.stdout.write(f"{tally}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
