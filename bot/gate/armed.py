"""Arm records: whether a lane may be used for more than paper now, and if not, what is to be done about it."""

import json
from datetime import datetime

from bot.config.model import Config
from bot.domain.permission import Arm
from bot.gate.case import Lane
from bot.ids import digest

# What changes nothing about what would leave, and how.
_APART = ("log", "daemon", "state", "notifiers", "venues", "mode")


def config_digest(config: Config, venue: str) -> str:
    """Return the digest of all that decides what leaves for the venue; where the values come from is no part of it.

    It holds the venue's own table and mode, and everything that makes forecasts; other venues, logs and timings are
    left out.
    """
    table = config.venues.get(venue)
    plain = {
        "venue": venue,
        "mode": config.mode_of(venue),
        "table": None if table is None else table.model_dump(mode="json"),
        "rest": config.model_dump(mode="json", exclude={*_APART}),
    }
    return digest(json.dumps(plain, sort_keys=True).encode())


def unarmed(lane: Lane, arm: Arm | None, now: datetime) -> str | None:
    """Say why nothing may leave by a live lane, or nothing if it is armed."""
    again = f"arm it with: foxcast arm {lane.venue} --for 24h"
    if arm is None:
        return f"{lane.venue} is not armed for {lane.mode} submissions; {again}"
    if arm.disarmed_at is not None:
        return f"{lane.venue} was disarmed at {arm.disarmed_at:%Y-%m-%d %H:%M} UTC; {again}"
    if now >= arm.until:
        return f"the arm record of {lane.venue} ended at {arm.until:%Y-%m-%d %H:%M} UTC; {again}"
    if now < arm.armed_at:
        return f"the arm record of {lane.venue} begins at {arm.armed_at:%Y-%m-%d %H:%M} UTC: the clock was set back"
    if arm.config != lane.digest:
        return f"the configuration of {lane.venue} was changed after it was armed; look at it, then {again}"
    return None


def without_amounts(lane: Lane, arm: Arm) -> str | None:
    """Say that a record does not bound what orders may cost."""
    if None in {arm.per_order, arm.per_day, arm.total}:
        options = "--per-order, --per-day and --total"
        return f"the arm record of {lane.venue} has no amounts, and its forecasts become orders; arm it with {options}"
    return None
