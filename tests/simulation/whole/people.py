"""What people do to a running Foxcast: arm, disarm, halt, resume, put a STOP file there, and set the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.domain.request import ArmVenue, DisarmVenue, Halt, Request, Resume
from bot.gate.brake import STOP_FILE, pull, release
from bot.store.requests import ask
from tests.simulation.whole.plan import HOUR_S
from tests.simulation.whole.stalls import CAPS

if TYPE_CHECKING:
    import numpy as np

    from bot.ports import Clock
    from bot.testing.loop import VirtualClock
    from tests.simulation.whole.life import Lives

ADA = "ada"
STEPS_S = (60.0, -60.0, 3_600.0, -3_600.0)
ARMED_DAYS = 31


@dataclass(slots=True, kw_only=True)
class People:
    """One thing after the other, with hours between; ``machine`` is the clock that they set, ``clock`` true time.

    ``stopped_s`` is when the STOP file was put where it is, None while it is not there.
    """

    lives: Lives
    clock: Clock
    machine: VirtualClock
    stream: np.random.Generator
    live: tuple[str, ...]
    did: Counter[str] = field(default_factory=Counter)
    stopped_s: float | None = None
    _ahead_s: float = 0.0

    async def act(self) -> None:
        """Do one thing after the other, for ever, and make good each of them."""
        doing: tuple[tuple[str, Callable[[], object]], ...] = (
            ("clock set", self._set_clock),
            ("stop file", self._stop),
            ("halt", self._halt),
            ("halt of one venue", self._halt_one),
            ("disarmed", self._disarm),
        )
        while True:
            await self.clock.sleep(float(self.stream.exponential(4.0 * HOUR_S)))
            name, do = doing[int(self.stream.integers(len(doing)))]
            self.did[name] += 1
            do()
            await self.clock.sleep(float(self.stream.exponential(HOUR_S)))
            self.make_good()

    def make_good(self) -> None:
        """Set the clock right, take the STOP file away, resume and arm all."""
        self.machine.step(-self._ahead_s)
        self._ahead_s = 0.0
        release(self.lives.home / "state" / STOP_FILE)
        self.stopped_s = None
        self._ask(Resume(by=ADA, asked_at=self.machine.now()))
        for venue in self.live:
            self._arm(venue)

    def _set_clock(self) -> None:
        self._ahead_s = STEPS_S[int(self.stream.integers(len(STEPS_S)))]
        self.machine.step(self._ahead_s)

    def _stop(self) -> None:
        pull(self.lives.home / "state" / STOP_FILE, "ada wants quiet")
        self.stopped_s = self.clock.monotonic()

    def _halt(self) -> None:
        self._ask(Halt(by=ADA, asked_at=self.machine.now(), reason="ada looks into it"))

    def _halt_one(self) -> None:
        self._ask(Halt(by=ADA, asked_at=self.machine.now(), reason="ada looks there", venue=self._any()))

    def _disarm(self) -> None:
        self._ask(DisarmVenue(by=ADA, asked_at=self.machine.now(), venue=self._any()))

    def _arm(self, venue: str) -> None:
        lane = self.lives.lane(venue)
        money = CAPS if venue == "manifold" else {}
        request = ArmVenue(
            by=ADA,
            asked_at=self.machine.now(),
            venue=lane.venue,
            account=lane.account,
            config=lane.digest,
            until=self.machine.now() + timedelta(days=ARMED_DAYS),
            per_order=money.get("per_order"),
            per_day=money.get("per_day"),
            total=money.get("total"),
        )
        self._ask(request)

    def _any(self) -> str:
        return self.live[int(self.stream.integers(len(self.live)))]

    def _ask(self, request: Request) -> None:
        folder = self.lives.home / "state" / "live"
        folder.mkdir(parents=True, exist_ok=True)
        ask(folder, request, at=self.machine.now())
