"""Watches a simulation from outside, with the venues' own books: nothing may be heard that must not be said.

What is judged while it runs is here, what is judged in the end in ``verdict``. The numbers are those of the invariants
of the reliability programme.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.gate.brake import STOP_FILE
from bot.testing.venues.manifold_state import Bet
from bot.testing.venues.record import Heard
from tests.simulation.whole.stalls import CAPS, KEY, TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.whole.life import Lives
    from tests.simulation.whole.people import People
    from tests.simulation.whole.stalls import Stalls

CENT = 1e-6
# What was let go before the STOP file came may be on its way for so long: a write's whole deadline.
UNDER_WAY_S = 60.0
# A plan that is older than two minutes is not sent.
PLANNED_BEFORE_MIN = 3
# So much of the ledger and of what is kept beside it may lie on the disk after a month.
MOST_BYTES = 200_000_000


@dataclass(slots=True, kw_only=True)
class Observer:
    """Sees what venues hear as they hear it; ``violations`` is what must not have been."""

    stalls: Stalls
    modes: Mapping[str, str]
    lives: Lives | None = None
    people: People | None = None
    violations: list[str] = field(default_factory=list)
    writes: int = 0
    _heard: Counter[str] = field(default_factory=Counter)
    most_at_stake: float = 0.0
    _seen: int = 0
    _days: dict[str, str] = field(default_factory=dict)
    _lists: tuple[list[Heard], ...] = ()

    def __post_init__(self) -> None:
        self._lists = tuple(venue.requests for venue in self.stalls.all.values())

    def look(self) -> None:
        """Judge what was heard since the last look."""
        # Asked at each turn of the loop: most have nothing to see.
        if sum(map(len, self._lists)) == self._seen:
            return
        self._seen = sum(map(len, self._lists))
        for name, venue in self.stalls.all.items():
            seen = self._heard[name]
            self._heard[name] = len(venue.requests)
            for heard in venue.requests[seen:]:
                if heard.method != "GET":
                    self.writes += 1
                    self._judge_write(name, heard)
        self._judge_stakes()

    def leave(self, folder: Path) -> None:
        """Judge the files that a life left."""
        size = 0
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            raw = path.read_bytes()
            size += len(raw)
            if any(secret.encode() in raw for secret in (KEY, TOKEN)):
                self.violations.append(f"I8: a secret is in {path.relative_to(folder)}")
        if size > MOST_BYTES:
            self.violations.append(f"I10: a life left {size / 1e6:.0f} MB")

    def _judge_write(self, name: str, heard: Heard) -> None:
        if self.modes[name] != "live":
            self.violations.append(f"I4: {name} is on paper and heard {heard.method} {heard.path}")
        if is_cancel(heard):
            return
        stopped_s = None if self.people is None else self.people.stopped_s
        lives = self.lives
        if stopped_s is None or lives is None or heard.at_s <= stopped_s + UNDER_WAY_S:
            return
        if (lives.home / "state" / STOP_FILE).exists():
            self.violations.append(f"I4: {name} heard {heard.path} at {heard.at_s:.0f} s, stopped at {stopped_s:.0f} s")

    def _judge_stakes(self) -> None:
        """Judge what is at stake with each order: none is above its cap, and no day above its own.

        Days are those of the clock that Foxcast looks at; the first minutes of one are left out, since an order may
        have been planned the day before.
        """
        effects = self.stalls.manifold.ledger.effects("bet", account=self.stalls.trader)
        people = self.people
        if len(effects) == len(self._days) or people is None:
            return
        at = people.machine.now()
        for effect in effects[len(self._days) :]:
            self._days[effect.subject] = "" if at.hour == 0 and at.minute < PLANNED_BEFORE_MIN else f"{at:%Y-%m-%d}"
            amount = float(effect.detail["asked"]["amount"])
            if amount > CAPS["per_order"] + CENT:
                self.violations.append(f"I3: an order of {amount:g}, and {CAPS['per_order']:g} may be")
        day, now = f"{at:%Y-%m-%d}", self.stalls.manifold.now_ms()
        stake = sum(_stake(self.stalls.manifold.state.bets[bet], now) for bet, of in self._days.items() if of == day)
        self.most_at_stake = max(self.most_at_stake, stake)
        if stake > CAPS["per_day"] + CENT:
            self.violations.append(f"I3: {stake:.2f} is at stake on {day}, and {CAPS['per_day']:g} may be")


def _stake(bet: Bet, now_ms: int) -> float:
    return bet.order_amount if bet.rests(now_ms) and not bet.expired(now_ms) else bet.amount


def is_cancel(heard: Heard) -> bool:
    """Say whether a write takes something back, which halts let pass."""
    return "cancel" in heard.path or heard.method == "DELETE"
