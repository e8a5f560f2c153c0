"""Arm records: whether a lane may be used for more than paper now, and if not, what is to be done about it."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from bot.config.llm_schema import RoleSection
from bot.config.plugin_settings import load_plugin_settings, recordable_settings
from bot.config.schema import Config
from bot.config.venue_schema import ChooseTable
from bot.domain.permission import Arm
from bot.domain.step import Json
from bot.errors import ConfigError
from bot.gate.case import LIVE_MODES, Lane
from bot.gate.tokens import scrypt
from bot.ids import digest
from bot.specs import Configurable, ForecasterSpec, Table

# What decides what is forecast and what leaves; everything else of config.toml concerns no lane, or another one.
_SHARED = ("seed", "plugin_files", "limits", "policy", "calibration", "desk")
# Of the venue's own table: what concerns its paper book, who else forecasts, and how often it is read.
_ASIDE = frozenset({"settings", "paper", "discover_every_s", "forecasters", "choose"})
# Of a model: its prices, and that nothing is paid for it.
_PRICES = frozenset({"free", "price_in", "price_cached", "price_written", "price_out"})
_UNREADABLE = "cannot be read"

# What the enabled plugins offer that a table of config configures.
Offered = Callable[[Table], Iterable[Configurable[Any]]]


def config_digest(config: Config, venue: str, offered: Offered) -> str:
    """Return the digest of all that decides what leaves for the venue; where the values come from is no part of it.

    It holds the mode, account, caps, trading, margins and settings of the venue; the forecasters whose forecasts leave
    there and those that they build on, with their tables and settings; the roles that these may ask, and the roles that
    no forecaster claims, with the models that play them; every search engine and data source in use; and the sections
    ``seed``, ``limits``, ``policy``, ``calibration`` and ``desk``. Settings count as they are in effect.

    It does not hold other venues, forecasters that are scored beside and never leave, logs, timings of the daemon,
    notifiers, budgets, prices and rates of models, the paper book, and where the configuration lies. What is in doubt
    is held: a change too many ends an arm record, one too few would let something else leave under it.

    After a dot comes, for a live venue, whose secrets are used there: a slow hash that tells them apart and nothing
    else.
    """
    own = [spec for spec in offered(Table.VENUES) if spec.name == venue]
    leading = _leading(config, venue, offered)
    roles = _roles(config, leading, offered)
    providers = {model.partition(":")[0] for role in roles.values() for model in (role.model, role.fallback) if model}
    used = [
        *own,
        *(spec for spec in offered(Table.FORECASTERS) if spec.name in leading),
        *(spec for kind in (Table.SEARCH, Table.DATA) for spec in offered(kind)),
        *(spec for spec in offered(Table.MODELS) if spec.name in providers),
    ]
    plain: dict[str, Json] = {
        "venue": venue,
        "mode": config.mode_of(venue),
        "table": _table(config, venue, known=bool(own)),
        "shared": config.model_dump(mode="json", include={*_SHARED}),
        "forecasters": {name: _forecaster(config, name, used) for name in sorted(leading)},
        "roles": {name: role.model_dump(mode="json") for name, role in sorted(roles.items())},
        "models": _models(config, roles),
        "settings": {f"{spec.table}.{spec.name}": [_made_by(spec), _in_effect(spec, config)] for spec in used},
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


def _leading(config: Config, venue: str, offered: Offered) -> set[str]:
    """Return the forecasters whose forecasts leave for a venue, and all that they build on."""
    table = config.venues.get(venue)
    waiting = [] if table is None else [table.forecasters[0], *(one.forecasters[0] for one in table.choose)]
    specs = {spec.name: spec for spec in _forecasters(offered)}
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        spec = specs.get(name)
        if name not in found and spec is not None and spec.members is not None:
            with suppress(ConfigError):
                waiting += spec.members(load_plugin_settings(spec, config))
        found.add(name)
    return found


def _roles(config: Config, leading: Collection[str], offered: Offered) -> dict[str, RoleSection]:
    """Return the roles that may be asked for a forecast that leaves; one that only others ask is left out."""
    asked: list[str] = []
    others: list[str] = []
    for spec in _forecasters(offered):
        (asked if spec.name in leading else others).extend((*spec.roles, *spec.may_ask))
    return {name: role for name, role in config.llm.roles.items() if _fits(name, asked) or not _fits(name, others)}


def _forecasters(offered: Offered) -> list[ForecasterSpec[Any]]:
    return [spec for spec in offered(Table.FORECASTERS) if isinstance(spec, ForecasterSpec)]


def _fits(role: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(role, pattern) for pattern in patterns)


def _models(config: Config, roles: Mapping[str, RoleSection]) -> dict[str, Json]:
    """Return what config says of the models that play the roles, but for what they cost."""
    players = {model for role in roles.values() for model in (role.model, role.fallback) if model}
    said = {name: table for name, table in config.llm.models.items() if name in players}
    return {name: table.model_dump(mode="json", exclude={*_PRICES}) for name, table in sorted(said.items())}


def _table(config: Config, venue: str, *, known: bool) -> Json:
    """Return the table of a venue with those who lead there alone; its raw settings only where no plugin is known."""
    table = config.venues.get(venue)
    if table is None:
        return None
    lead = [table.forecasters[0], *([_when(one), one.forecasters[0]] for one in table.choose)]
    raw = {} if known else {"settings": table.settings}
    return {**table.model_dump(mode="json", exclude={*_ASIDE}), **raw, "lead": lead}


def _when(chosen: ChooseTable) -> Json:
    return chosen.model_dump(mode="json", exclude={"forecasters"})


def _forecaster(config: Config, name: str, used: Iterable[Configurable[Any]]) -> Json:
    known = any(spec.table is Table.FORECASTERS and spec.name == name for spec in used)
    return config.forecaster_table(name).model_dump(mode="json", exclude={"settings"} if known else None)


def _made_by(spec: Configurable[Any]) -> str:
    """Return which code offers a thing: another plugin may offer another one under its name."""
    return f"{spec.settings.__module__}.{spec.settings.__qualname__}"


def _in_effect(spec: Configurable[Any], config: Config) -> Json:
    """Return the settings of a plugin, but for secrets; which model answers under another key is the same."""
    try:
        return recordable_settings(load_plugin_settings(spec, config))
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
            yield from _hidden(spec.name, load_plugin_settings(spec, config))
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
