"""How many questions are forecast at the same time: as many as keep the models busy, and no more.

The simplest rule that wastes no slot (work-conserving, as schedulers call it): another question is begun as soon as
the models would get more requests than the begun ones make. Their later requests go first, so few are begun and these
are finished soon. A moment between two requests is no room: it counts once it lasted a fifth of a second.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
# Questions at the same time where no model bounds them, and where nothing else does.
PLACES_WITHOUT_MODELS = 16
# More than the 1,000 requests that a provider gets at most by default: those of others wait while some work here.
MAX_PLACES = 1500
# Room must last so long, and is looked for this often.
ROOM_WINDOW_S = 0.2
POLL_S = 0.05
# Questions that begin in one instant take turns at every step, and their requests then come at one instant again and
# again: so no more than this many begin in one.
MAX_BEGUN_AT_ONCE = 20
# A process that wakes up this late has too much to do for more than the usual places, until it wakes up in time: every
# step of a question takes tens of turns of the event loop, each of which lasts about as long. Each time that it is late
# half as many as before may begin in one instant, and each time that it is not, so many more.
MAX_LATENESS_S = 0.03
GROWTH_IN_TIME = 2
# A process that may begin no more than so many was late again and again.
BUSY_BEGUN_AT_ONCE = MAX_BEGUN_AT_ONCE // 4


class ModelLoad(Protocol):
    """What the models do now: ``bot.llm.request_load``; its attributes are set here."""

    is_process_busy: bool
    is_question_limit_reached: bool

    def room(self) -> int:
        """Return how many more calls would get a slot soon; zero or less where calls wait already."""
        ...

    def open_calls(self, scope: str) -> int:
        """Return how many calls of a question are open."""
        ...


@dataclass(slots=True, eq=False)
class AdmittedQuestion:
    """A question under way. Until its first step it has room for ``trials`` calls, which may follow at any moment."""

    trials: int
    scope: str = ""
    has_stepped: bool = False


class QuestionAdmission:
    """The questions under way in one process; ``most`` is the setting, and without ``load`` no model bounds them."""

    def __init__(self, *, clock: Clock, load: ModelLoad | None = None, most: int | None = None) -> None:
        """Start with none."""
        self._clock = clock
        self._load = load
        self._most = most or (PLACES_WITHOUT_MODELS if load is None else MAX_PLACES)
        self._running: set[AdmittedQuestion] = set()
        self._rooms: deque[tuple[float, int]] = deque()
        self._is_late = False
        self._begun_at_once = MAX_BEGUN_AT_ONCE
        self._ended = asyncio.Event()
        self._ended_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the setting permits no more questions, whatever the models do."""
        return len(self._running) >= self._most

    def room(self, *, trials: int) -> int:
        """Return how many questions of so many trials may be begun now; one at least where none is under way."""
        free = self._most - len(self._running)
        if self._load is None or free <= 0:
            return max(0, free)
        now, calls = self._clock.monotonic(), self._call_room(self._load)
        self._rooms.append((now, calls))
        while self._rooms[0][0] < now - ROOM_WINDOW_S:
            self._rooms.popleft()
        if self._is_late and len(self._running) >= PLACES_WITHOUT_MODELS:
            return 0
        least = min(calls for _, calls in self._rooms)
        return min(free, self._begun_at_once, max(math.ceil(least / max(1, trials)), 0 if self._running else 1))

    def begin(self, *, trials: int) -> AdmittedQuestion:
        """Count a question as under way, with the calls that it makes at the same time: 0 if it asks no model."""
        question = AdmittedQuestion(trials)
        self._running.add(question)
        self._report_limit()
        return question

    def end(self, question: AdmittedQuestion) -> None:
        """Count a question as ended; who waits is woken."""
        self._running.discard(question)
        self._report_limit()
        if not self._ended.is_set():
            self._ended_at = self._clock.monotonic()
            self._ended.set()

    async def wait(self, timeout_s: float | None = POLL_S) -> None:
        """Wait until a question ends, or for so long; notes whether this process is late."""
        if not self._ended.is_set():
            due_at = self._clock.monotonic() + (timeout_s or 0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._ended.wait()
                due_at = self._ended_at
            self._record_lateness(self._clock.monotonic() - due_at)
        self._ended.clear()

    async def wait_for_room(self, *, trials: int) -> int:
        """Wait until questions of so many trials may be begun; return how many."""
        while not (room := self.room(trials=trials)):
            await self.wait()
        return room

    def _record_lateness(self, late_s: float) -> None:
        self._is_late = late_s > MAX_LATENESS_S
        if self._is_late:
            self._begun_at_once = max(1, self._begun_at_once // 2)
        else:
            self._begun_at_once = min(MAX_BEGUN_AT_ONCE, self._begun_at_once + GROWTH_IN_TIME)
        if self._load is not None:
            self._load.is_process_busy = self._begun_at_once <= BUSY_BEGUN_AT_ONCE and self._load.room() > 0

    def _report_limit(self) -> None:
        if self._load is not None:
            self._load.is_question_limit_reached = self.is_full

    def _call_room(self, load: ModelLoad) -> int:
        begun = (one for one in self._running if not one.has_stepped)
        return load.room() - sum(max(0, one.trials - load.open_calls(one.scope)) for one in begun)


async def map_admitted(
    work: Callable[[ItemT, AdmittedQuestion], Awaitable[ResultT]],
    items: Sequence[ItemT],
    *,
    admission: QuestionAdmission,
    trials: int,
) -> list[ResultT]:
    """Run the work on each item, begun in order as there is room; the first failure cancels the rest and is raised."""

    async def run(item: ItemT) -> ResultT:
        admitted = admission.begin(trials=trials)
        try:
            return await work(item, admitted)
        finally:
            admission.end(admitted)

    tasks: list[asyncio.Task[ResultT]] = []
    try:
        async with asyncio.TaskGroup() as group:
            while len(tasks) < len(items):
                room = await admission.wait_for_room(trials=trials)
                tasks += [group.create_task(run(item)) for item in items[len(tasks) : len(tasks) + room]]
                # They begin, and Ctrl-C is heard even if none of them ever waits.
                await admission.wait(POLL_S if len(tasks) < len(items) else 0.0)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
