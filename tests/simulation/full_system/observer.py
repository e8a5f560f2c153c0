"""Watches a simulation from outside, with the venues' own books, and judges every request that a venue receives."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bot.execution.gate.kill_switch import STOP_FILE
from bot.simulator.request_log import LoggedRequest, RequestEffect
from bot.testing.event_loop import EventTrace
from tests.ledger_checks import CENT, files_with_secrets
from tests.simulation.full_system import polymarket_orders

if TYPE_CHECKING:
    from pathlib import Path

    from bot.simulator.fake_service import FakeService
    from bot.simulator.venues.manifold_state import FakeManifoldBet
    from tests.simulation.full_system.daemon_lives import DaemonLives
    from tests.simulation.full_system.fake_venues import SimulationVenues
    from tests.simulation.full_system.operators import SimulatedOperators
    from tests.simulation.full_system.world_record import WorldRecord

# What was let go before the STOP file came may be on its way for so long: a write's whole deadline.
UNDER_WAY_S = 60.0
# A plan that is older than two minutes is not sent; an order of Polymarket may come two minutes after it was signed.
PLANNED_BEFORE_MIN: Mapping[str, int] = {"manifold": 3, "polymarket": 6}
# An order is signed soon after it was made: those made from this second of a day's last minute on are left out.
SIGNS_WITHIN_S = 30
# So much of the ledger and of what is kept next to it may lie on the disk after a month.
MOST_BYTES = 200_000_000
# Stands where a request stood that only read: a year has hundreds of thousands.
READ = LoggedRequest(
    number=0, method="GET", path="", query="", headers={}, body=b"", at=datetime(1970, 1, 1, tzinfo=UTC), at_s=0.0
)


@dataclass(slots=True, kw_only=True)
class VenueObserver:
    """Sees what venues hear as they hear it; ``violations`` is what must not have been.

    ``signed_a_day`` is how many dollars the signer may sign away, ``limits`` what orders at a venue may cost just now,
    by the names of caps. ``trace`` takes in all that servers hear; ``told`` keeps its lines where it is a list.
    """

    bridges: SimulationVenues
    modes: Mapping[str, str]
    limits: Callable[[str], Mapping[str, float]]
    signed_a_day: float = 0.0
    lives: DaemonLives | None = None
    people: SimulatedOperators | None = None
    record: WorldRecord | None = None
    violations: list[str] = field(default_factory=list)
    writes: int = 0
    trace: EventTrace = field(default_factory=EventTrace)
    told: list[str] | None = None
    most_at_stake: float = 0.0
    _heard: Counter[str] = field(default_factory=Counter)
    _effects: Counter[str] = field(default_factory=Counter)
    _seen: int = 0
    _days: dict[str, dict[str, str]] = field(default_factory=lambda: {"manifold": {}, "polymarket": {}})
    # When each write came, by the clock that Foxcast looks at.
    _came: dict[tuple[str, int], datetime] = field(default_factory=dict)
    _signed: dict[str, dict[bytes, float]] = field(default_factory=dict)
    _lists: tuple[list[LoggedRequest], ...] = ()
    # How many writes each venue heard since the STOP file is there.
    _stopped: tuple[float, Counter[str]] = (-1.0, Counter())

    def __post_init__(self) -> None:
        self._lists = tuple(venue.requests for venue in self.bridges.servers.values())

    def look(self) -> None:
        """Judge what was heard since the last look."""
        # Asked at each turn of the loop: most have nothing to see.
        if (seen := sum(map(len, self._lists))) == self._seen:
            return
        self._seen = seen
        for name, server in self.bridges.servers.items():
            first, self._heard[name] = self._heard[name], len(server.requests)
            for place in range(first, len(server.requests)):
                self._judge_request(name, server, place)
        if self.record is not None:
            self.record.look()
        self._judge_stakes()

    def note(self, *words: object) -> None:
        """Take something into the trace."""
        self.trace.add(*words)
        if self.told is not None:
            self.told.append(" ".join(map(str, words)))

    def leave(self, folder: Path) -> None:
        """Judge the files that a life left."""
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        self.violations += files_with_secrets(folder, self.bridges.secrets)
        if size > MOST_BYTES:
            self.violations.append(f"I10: a life left {size / 1e6:.0f} MB")

    def _judge_request(self, name: str, server: FakeService, place: int) -> None:
        heard = server.requests[place]
        body = hashlib.sha256(heard.body).hexdigest()[:16] if heard.body else ""
        self.note(name, f"{heard.at_s:.6f}", heard.method, heard.target, body)
        is_one = name in self.modes and is_write(server, heard)
        if self.record is not None:
            self.record.saw_request(name, heard, is_write=is_one)
        if not is_one:
            server.requests[place] = READ
            return
        self.writes += 1
        if self.people is not None:
            self._came[name, heard.number] = self.people.machine.now()
        self._judge_write(name, heard)
        if self.people is not None and not is_cancel(heard) and heard.path != polymarket_orders.LOGIN:
            self.people.saw_write()

    def _judge_write(self, name: str, heard: LoggedRequest) -> None:
        if self.modes[name] != "live":
            self.violations.append(f"I4: {name} is on paper and heard {heard.method} {heard.path}")
        if name == "polymarket" and heard.path == "/order" and not is_cancel(heard):
            self._judge_signed(heard)
        self._judge_arm(name, heard)
        stopped_s = None if self.people is None else self.people.stopped_s
        if is_cancel(heard) or stopped_s is None or self.lives is None:
            return
        if not (self.lives.home / "state" / STOP_FILE).exists():
            return
        if self._stopped[0] != stopped_s:
            self._stopped = (stopped_s, Counter())
        self._stopped[1][name] += 1
        what = f"I4: {name} heard {heard.path} at {heard.at_s:.0f} s, stopped at {stopped_s:.0f} s"
        if heard.at_s > stopped_s + UNDER_WAY_S:
            self.violations.append(what)
        elif self._stopped[1][name] > 1:
            self.violations.append(f"{what}, and it is not the first since: one may be under way")

    def _judge_arm(self, name: str, heard: LoggedRequest) -> None:
        """Judge a write by whether somebody armed the venue since its configuration was changed."""
        people = self.people
        if people is None or is_cancel(heard) or heard.path == polymarket_orders.LOGIN or name not in people.unarmed:
            return
        what = f"I4: {name} heard {heard.path} at {heard.at_s:.0f} s"
        self.violations.append(f"{what}, and was not armed since {people.unarmed[name]}")

    def _judge_stakes(self) -> None:
        """Judge what is at stake with each order: none is above its cap, and no day above its own.

        Days are those of the clock that Foxcast looks at, when an order came; the first minutes of one are left out,
        since it may have been planned the day before.
        """
        people, manifold, exchange = self.people, self.bridges.manifold, self.bridges.polymarket
        if people is None:
            return
        if manifold is not None:
            bets, now = manifold.state.bets, manifold.now_ms()
            fresh = [one for one in self._fresh("manifold", manifold) if one.kind == "bet"]
            fresh = [one for one in fresh if one.account == self.bridges.trader]
            self._judge_days("manifold", fresh, lambda name: _stake(bets[name], now), _asked)
        if exchange is not None:
            state = exchange.state
            self._judge_days(
                "polymarket",
                [one for one in self._fresh("polymarket", exchange) if one.kind == "order"],
                lambda name: polymarket_orders.money_at_risk(state.orders[name], state),
                lambda effect: polymarket_orders.maximum_cost(state.orders[effect.subject]),
            )

    def _fresh(self, name: str, venue: FakeService) -> Sequence[RequestEffect]:
        """Return the effects at a venue since they were last asked for."""
        found = venue.ledger.effects(since=self._effects[name])
        self._effects[name] += len(found)
        return found

    def _judge_days(
        self,
        venue: str,
        fresh: Sequence[RequestEffect],
        stake: Callable[[str], float],
        asked: Callable[[RequestEffect], float],
    ) -> None:
        if not fresh:
            return
        days, limits = self._days[venue], self.limits(venue)
        for effect in fresh:
            at = self._came[venue, effect.request]
            days[effect.subject] = "" if at.hour == 0 and at.minute < PLANNED_BEFORE_MIN[venue] else f"{at:%Y-%m-%d}"
            if (amount := asked(effect)) > limits["per_order"] + CENT:
                self.violations.append(f"I3: an order of {amount:g} at {venue}, and {limits['per_order']:g} may be")
        for day in sorted({days[effect.subject] for effect in fresh} - {""}):
            at_stake = sum(stake(name) for name, of in days.items() if of == day)
            self.most_at_stake = max(self.most_at_stake, at_stake)
            if at_stake > limits["per_day"] + CENT:
                what = f"{at_stake:.2f} is at stake at {venue} on {day}"
                self.violations.append(f"I3: {what}, {limits['per_day']:g} may be")

    def _judge_signed(self, heard: LoggedRequest) -> None:
        """Judge what the signer has signed: of the orders made on a day of its clock no more than it may."""
        made = polymarket_orders.signing_time(heard)
        if made.second >= SIGNS_WITHIN_S and (made.hour, made.minute) == (23, 59):
            return
        day = self._signed.setdefault(f"{made:%Y-%m-%d}", {})
        day[polymarket_orders.sealed_bytes(heard)] = polymarket_orders.signed_dollars(heard)
        if sum(day.values()) > self.signed_a_day + CENT:
            self.violations.append(f"I3: {sum(day.values()):.2f} dollars were signed away on {made:%Y-%m-%d}")


def _asked(effect: RequestEffect) -> float:
    return float(effect.detail["asked"]["amount"])


def _stake(bet: FakeManifoldBet, now_ms: int) -> float:
    return bet.order_amount if bet.is_resting(now_ms) and not bet.expired(now_ms) else bet.amount


def is_write(server: FakeService, heard: LoggedRequest) -> bool:
    """Say whether a request asks for an effect."""
    # Manifold is asked at the same path what an order would do.
    return heard.method != "GET" and heard.path not in server.READ_PATHS and b'"dryRun": true' not in heard.body


def is_cancel(heard: LoggedRequest) -> bool:
    """Say whether a write takes something back, which halts let pass."""
    return "cancel" in heard.path or heard.method == "DELETE"
