"""Arm records: whether a lane may be used for more than paper now, and if not, what is to be done about it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from bot.config.model import Config
from bot.config.plugin_settings import recorded, settings_of
from bot.domain.permission import Arm
from bot.domain.step import Json
from bot.errors import ConfigError
from bot.gate.case import LIVE_MODES, Lane
from bot.gate.tokens import scrypt
from bot.ids import digest
from bot.specs import Configurable, Table

# What changes nothing about what would leave, and how; plugins' settings are told as they are in effect.
_APART = ("log", "daemon", "state", "notifiers", "venues", "mode")
_TABLES = (Table.FORECASTERS, Table.SEARCH, Table.DATA, Table.MODELS)
_UNREADABLE = "cannot be read"

# What the enabled plugins offer that a table of config configures.
Offered = Callable[[Table], Iterable[Configurable[Any]]]


def config_digest(config: Config, venue: str, offered: Offered) -> str:
    """Return the digest of all that decides what leaves for the venue; where the values come from is no part of it.

    It holds the venue's own table and mode, and everything that makes forecasts, with the settings of plugins as they
    are in effect; other venues, logs and timings are left out, and so is where the configuration lies. After a dot
    comes, for a live venue, whose secrets are used there: a slow hash that tells them apart and nothing else.
    """
    table = config.venues.get(venue)
    own = [spec for spec in offered(Table.VENUES) if spec.name == venue]
    used = [*own, *(spec for kind in _TABLES for spec in offered(kind))]
    rest = config.model_dump(mode="json", exclude={*_APART})
    plain: dict[str, Json] = {
        "venue": venue,
        "mode": config.mode_of(venue),
        "table": None if table is None else table.model_dump(mode="json", exclude={"settings"} if own else None),
        "rest": dict(_without_settings(rest, used)),
        "settings": {f"{spec.table}.{spec.name}": _in_effect(spec, config) for spec in used},
    }
    told = digest(json.dumps(_from(f"{config.sources.folder}/", plain), sort_keys=True, default=str).encode())
    hidden = [*_secrets(own, config)] if config.mode_of(venue) in LIVE_MODES else []
    return f"{told}.{_slow(venue, hidden)}" if hidden else told


def same_but_secrets(theirs: str, ours: str) -> bool:
    """Say whether a digest is that of the same configuration, made where no secrets of the venue are known, or these.

    Who arms need not have the keys that the daemon has.
    """
    public, _, hidden = theirs.partition(".")
    known, _, ours_hidden = ours.partition(".")
    return public == known and hidden in {"", ours_hidden}


def _without_settings(rest: Mapping[str, Any], used: Iterable[Configurable[Any]]) -> Mapping[str, Any]:
    """Return the tables without the raw settings of plugins that are told as they are in effect."""
    apart = {(spec.table.value, spec.name) for spec in used}
    return {
        kind: {
            name: {key: value for key, value in table.items() if key != "settings"} if (kind, name) in apart else table
            for name, table in tables.items()
        }
        if kind in {one.value for one in _TABLES}
        else tables
        for kind, tables in rest.items()
    }


def _in_effect(spec: Configurable[Any], config: Config) -> Json:
    """Return the settings of a plugin, but for secrets; which model answers under another key is the same."""
    try:
        return recorded(settings_of(spec, config))
    except ConfigError:
        return _UNREADABLE


def _from(folder: str, value: Json) -> Json:
    """Return what is told with the paths beside the configuration as they are from there, wherever it lies."""
    match value:
        case str():
            return value.removeprefix(folder)
        case list():
            return [_from(folder, one) for one in value]
        case dict():
            return {name: _from(folder, one) for name, one in value.items()}
    return value


def credentials_digest(config: Config, spec: Configurable[Any]) -> str:
    """Return a slow hash of the secrets in the settings of a venue, which tells them from others and nothing else."""
    hidden = [*_secrets([spec], config)]
    return _slow(spec.name, hidden) if hidden else ""


def _secrets(specs: Iterable[Configurable[Any]], config: Config) -> Iterator[str]:
    for spec in specs:
        try:
            yield from _hidden(spec.name, settings_of(spec, config))
        except ConfigError:
            yield _UNREADABLE


def _hidden(name: str, value: object) -> Iterator[str]:
    """Yield each secret inside a value, with its name."""
    match value:
        case SecretStr() | SecretBytes():
            yield f"{name}={value.get_secret_value()!r}"
        case BaseModel():
            yield from _hidden(name, dict(value))
        case Mapping():
            for key, one in sorted(value.items(), key=str):
                yield from _hidden(f"{name}.{key}", one)
        case list() | tuple():
            for index, one in enumerate(value):
                yield from _hidden(f"{name}.{index}", one)


def _slow(venue: str, hidden: list[str]) -> str:
    """Return a hash of secrets from which even a short one is not soon guessed."""
    return scrypt("\n".join(hidden).encode(), f"foxcast arm {venue}".encode()).hex()


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
        return (
            f"the configuration of {lane.venue} was changed after it was armed (what the environment and its keys say "
            f"of it counts, too); look at it, then {again}"
        )
    return None


def without_amounts(lane: Lane, arm: Arm) -> str | None:
    """Say that a record does not bound what orders may cost."""
    if None in {arm.per_order, arm.per_day, arm.total}:
        options = "--per-order, --per-day and --total"
        return f"the arm record of {lane.venue} has no amounts, and its forecasts become orders; arm it with {options}"
    return None
