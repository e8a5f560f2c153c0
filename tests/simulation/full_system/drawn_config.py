"""Draws the configuration of a seed from the settings models themselves, so that a new setting is drawn unasked.

All models of ``bot.config`` and of the plugins in use are walked field by field. Each field has a random stream of its
own, named by seed and key: a new setting moves the draws of no other one. Hypothesis is not used for this: its
strategies also draw constants of the modules that happen to be imported, so one seed would not be one configuration.

A number is drawn near its default, between the bounds of its field, or from ``RANGES`` where only some values matter in
a simulated world; a choice from its options. Texts, paths, addresses and secrets have no range and are not drawn; what
the simulation sets itself, and ``PINNED``, stays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.plugin_specs import PluginTableName
from bot.core.submissions import ExecutionMode

if TYPE_CHECKING:
    import numpy as np
    from pydantic.fields import FieldInfo

    from bot.plugin_system.registry import Registry

KeyPath = tuple[str, ...]
# Keys that keep their value, and why.
PINNED: Mapping[str, str] = {
    "log": "what is logged is for people, and writing it takes as long as the simulation",
    "http": "there is no proxy on the simulated network",
    "daemon.watch_questions": "a watched price takes most of a simulated day's work: the seed draws it",
    "venues.*.paper.cash": "the checks of paper books begin with it",
    "venues.manifold.settings.environment": "only one environment has an account",
    "venues.manifold.settings.scan": "without it no question is found",
    "venues.manifold.settings.kinds": "the markets of the simulation are of few kinds",
    "venues.manifold.settings.currencies": "all its markets are in mana",
    "venues.manifold.settings.max_markets": "a question that is left out is neither forecast nor resolved in time",
    "venues.manifold.settings.max_answers": "a question that is left out is neither forecast nor resolved in time",
    "venues.manifold.settings.min_liquidity": "a question that is left out is neither forecast nor resolved in time",
    "venues.manifold.settings.min_volume": "a question that is left out is neither forecast nor resolved in time",
    "venues.manifold.settings.min_bettors": "a question that is left out is neither forecast nor resolved in time",
    "venues.manifold.settings.closes_within_h": "a question that is left out is neither forecast nor resolved in time",
    "venues.metaculus.settings.kinds": "a question that is left out is neither forecast nor resolved in time",
    "venues.metaculus.settings.closes_within_h": "a question that is left out is neither forecast nor resolved in time",
    "venues.metaculus.settings.expires_after_h": "the checks take the newest forecast for the one in force",
    "venues.polymarket.settings.wallet_type": "the account of the simulation has one wallet",
    "venues.polymarket.settings.max_pages": "a question that is left out is neither forecast nor resolved in time",
    "venues.polymarket.settings.page_size": "a question that is left out is neither forecast nor resolved in time",
    "venues.polymarket.settings.max_options": "a question that is left out is neither forecast nor resolved in time",
    "venues.polymarket.settings.ends_within_d": "a question that is left out is neither forecast nor resolved in time",
    "venues.forecastbench": "rounds are the same whatever is set, and its file is signed with names",
    "forecasters.*.clairvoyant": "the configuration refuses one that submits, and of others nothing would happen",
    "forecasters.blf": "the prompts that the simulated model reads are those of its defaults",
    "research": "the simulated press is read with the default bounds",
}
# Of keys whose whole range says nothing: how often they are drawn, and between which values.
RANGES: Mapping[str, tuple[float, float, float]] = {
    "caps.per_order": (0.8, 3.0, 10.0),
    "caps.per_question": (0.5, 5.0, 15.0),
    "caps.per_event": (0.5, 5.0, 15.0),
    "caps.per_creator": (0.2, 12.0, 60.0),
    "caps.per_category": (0.4, 6.0, 20.0),
    "caps.per_day": (0.7, 15.0, 60.0),
    "caps.total": (0.4, 10.0, 50.0),
    "caps.orders_per_hour": (0.35, 1.0, 5.0),
    "caps.daily_loss": (0.5, 0.3, 10.0),
    "caps.drawdown": (0.5, 0.5, 15.0),
    "caps.unknown_writes": (0.3, 0.0, 4.0),
    "trading.kelly": (1.0, 0.15, 1.0),
    "trading.edge": (0.4, 0.005, 0.1),
    "trading.band": (0.25, 0.05, 0.4),
    "trading.divergence": (0.25, 0.2, 1.2),
    "trading.stop_loss": (0.3, 0.05, 0.6),
    "trading.take_profit": (0.3, 0.05, 0.6),
    "trading.cooldown_h": (0.4, 1.0, 48.0),
    "trading.shrink": (0.4, 0.05, 0.6),
    "bankroll.per_pass": (0.2, 0.002, 0.1),
    "bankroll.per_question": (0.2, 0.001, 0.05),
    "bankroll.per_event": (0.2, 0.001, 0.05),
    "bankroll.per_day": (0.2, 0.004, 0.2),
    "bankroll.min_stake": (0.3, 0.5, 4.0),
    "venues.*.approval_h": (0.7, 0.3, 12.0),
    "venues.*.close_margin_s": (0.6, 60.0, 14_400.0),
    "venues.*.settings.close_margin_s": (0.2, 30.0, 3_600.0),
    "venues.polymarket.settings.ends_after_h": (0.3, 0.5, 6.0),
    "paper.delay_s": (0.3, 0.0, 60.0),
    "policy.stale_after_h": (0.8, 2.0, 24.0),
    "policy.min_gap_h": (0.4, 0.2, 6.0),
    "policy.price_move": (0.5, 0.1, 0.6),
    "alerts.loss_share": (0.5, 0.002, 0.1),
    "daemon.lease_s": (0.5, 30.0, 900.0),
    # Fewer or slower ones would not do all that is due in the pause between two passes of the simulation.
    "daemon.concurrency": (0.4, 6.0, 16.0),
    "limits.seconds": (0.4, 120.0, 900.0),
    "limits.steps": (0.3, 2.0, 12.0),
    "forecasters.*.trials": (0.5, 1.0, 4.0),
    "forecasters.drifter*.settings.fails_share": (0.4, 0.05, 0.6),
    "forecasters.drifter*.settings.slips_share": (0.4, 0.2, 0.7),
    "forecasters.drifter*.settings.turns_every_h": (0.8, 3.0, 15.0),
    "forecasters.drifter*.settings.lingers_share": (0.4, 0.2, 0.7),
    "forecasters.drifter*.settings.boldness": (0.4, 0.3, 9.0),
    "forecasters.drifter*.settings.thinks_s": (0.7, 5.0, 60.0),
    "llm.budget.day_usd": (0.7, 0.05, 2.0),
    "llm.budget.question_usd": (0.5, 0.02, 1.0),
    "llm.providers.*.day_usd": (0.8, 0.02, 0.3),
    "llm.providers.*.per_minute": (0.3, 20.0, 200.0),
    "venues.manifold.settings.resolve_after_s": (0.5, 601.0, 5_400.0),
    "llm.budget.run_usd": (0.0, 0.0, 0.0),
    "llm.budget.ask_above_usd": (0.0, 0.0, 0.0),
    "venues.polymarket.settings.paper_settle_s": (0.5, 60.0, 20_000.0),
    "venues.polymarket.settings.paper_refusal_share": (0.3, 0.01, 0.3),
    "venues.polymarket.settings.paper_restart_share": (0.3, 0.01, 0.2),
    "venues.polymarket.settings.paper_failure_share": (0.3, 0.01, 0.3),
}
# How often any other field of a section is drawn: drawn itself for each section of a seed. And how often some are whose
# default hides a part of the program.
SHARES = (0.0, 0.1, 0.4)
OFTEN: Mapping[str, float] = {"venues.metaculus.comment": 0.8, "alerts.letter_day": 0.6}
# Which keys a change in mid-run may change: by the documentation each ends the arm records of its venue, or of all.
CHANGEABLE = ("caps.", "trading.", "bankroll.", "close_margin_s", "approval_h")
CHANGEABLE_FOR_ALL = ("policy.", "limits.")
# One change in so many is of settings that all venues share.
SHARED_CHANGES = 1 / 3
# One change in so many excludes questions by so many words of their titles: most questions that were forecast.
EXCLUDES, EXCLUDED_COUNT = 1 / 4, 5
# And one in so many lets a person approve what was sent unasked before, or the other way around.
OTHER_MODE = 1 / 6
EXCLUDED_NOUNS = ("lamp", "row", "bridge", "cup", "harbour", "ship", "race")
MOST_TRIES = 20
_LITTLE = 1e-3
_UNDRAWN = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One key that is changed in mid-run; ``venues`` are those whose arm records end with it, empty for all."""

    key: str
    value: object
    venues: tuple[str, ...]
    tables: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnConfig:
    """The tables of a configuration, and which values in them were drawn, by dotted key."""

    tables: Mapping[str, Any]
    drawn: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTable:
    """One table of the configuration: its key, and the model that validates it."""

    key: KeyPath
    model: type[BaseModel]


def draw_config(seed: int, tables: Mapping[str, Any], registry: Registry) -> DrawnConfig:
    """Return the tables with all that is drawn for the seed; what they have already stays."""
    drawn: dict[str, object] = {}
    found: dict[str, Any] = _copy_tables(tables)
    for table in list_tables(tables, registry):
        values = draw_table(seed, table, _value_at(found, table.key))
        for name, value in values.items():
            _set_value(found, (*table.key, name), value)
            drawn[".".join((*table.key, name))] = value
    return DrawnConfig(tables=found, drawn=drawn)


def draw_change(
    seed: int, tables: Mapping[str, Any], registry: Registry, *, live: Collection[str]
) -> ConfigChange | None:
    """Return one change that ends arm records of live venues, and the tables after it; None if none could be drawn."""
    stream = SeededRandom(seed).stream("config change")
    places = [
        (table, name, info)
        for table in list_tables(tables, registry)
        for name, info in table.model.model_fields.items()
        if ".".join((*table.key, name)).startswith(CHANGEABLE_FOR_ALL)
        or (
            table.key[:1] == ("venues",)
            and table.key[1] in live
            and ".".join((*table.key[2:], name)).startswith(CHANGEABLE)
        )
    ]
    drawn = stream.random() if live else 1.0
    if drawn < EXCLUDES + OTHER_MODE:
        venue = sorted(live)[int(stream.integers(len(live)))]
        if drawn >= EXCLUDES:
            is_live = tables["venues"][venue].get("mode") == ExecutionMode.LIVE
            other = ExecutionMode.APPROVE if is_live else ExecutionMode.LIVE
            return _changed(tables, ("venues", venue, "mode"), other.value)
        words = [str(noun) for noun in stream.permutation(EXCLUDED_NOUNS)[:EXCLUDED_COUNT]]
        return _changed(tables, ("venues", venue, "exclude", "words"), words)
    if stream.random() < SHARED_CHANGES:
        places = [place for place in places if ".".join((*place[0].key, place[1])).startswith(CHANGEABLE_FOR_ALL)]
    for _ in range(MOST_TRIES):
        table, name, info = places[int(stream.integers(len(places)))]
        key = (*table.key, name)
        value, before = draw_field(stream, ".".join(key), info), _value_at(tables, table.key)
        if value in (_UNDRAWN, before.get(name, info.default)) or _is_section(info.annotation):
            continue
        if _faults(table.model, {**before, name: value}, {name}):
            continue
        return _changed(tables, key, value)
    return None


def _changed(tables: Mapping[str, Any], key: KeyPath, value: object) -> ConfigChange:
    changed = _copy_tables(tables)
    _set_value(changed, key, value)
    venues = (key[1],) if key[0] == "venues" else ()
    return ConfigChange(key=".".join(key), value=value, venues=venues, tables=changed)


def list_tables(tables: Mapping[str, Any], registry: Registry) -> Iterator[SettingsTable]:
    """Yield all tables that the configuration may have: those of the engine, and those of the plugins in use."""
    yield from _list_sections((), Config, tables)
    for kind in PluginTableName:
        for spec in registry.specs_of_table(kind):
            yield SettingsTable(key=(str(kind), spec.name, "settings"), model=spec.settings)


def _list_sections(key: KeyPath, model: type[BaseModel], tables: Mapping[str, Any]) -> Iterator[SettingsTable]:
    yield SettingsTable(key=key, model=model)
    for name, info in model.model_fields.items():
        below = tables.get(name, {})
        if _is_section(info.annotation):
            assert isinstance(info.annotation, type)
            yield from _list_sections((*key, name), info.annotation, below)
        elif get_origin(info.annotation) is dict and _is_section(section := get_args(info.annotation)[1]):
            for one, table in below.items():
                yield from _list_sections((*key, name, one), section, table)


def draw_table(seed: int, table: SettingsTable, known: Mapping[str, Any]) -> dict[str, object]:
    """Return drawn values for the fields of a table, such that its model takes them."""
    for attempt in range(MOST_TRIES):
        values: dict[str, object] = {}
        chance = SeededRandom(seed)
        share = SHARES[int(chance.stream("config", *table.key).integers(len(SHARES)))]
        for name, info in table.model.model_fields.items():
            key = ".".join((*table.key, name))
            often, *_ = _range_of(key) or (OFTEN.get(key, share),)
            if name in known or pinned_reason(key) is not None or often == 0.0:
                continue
            stream = chance.stream("config", key, str(attempt))
            if stream.random() >= often:
                continue
            if (value := draw_field(stream, key, info)) is not _UNDRAWN:
                values[name] = value
        if not _faults(table.model, {**known, **values}, values):
            return values
    return {}


@cache
def pinned_reason(key: str) -> str | None:
    """Return why a key keeps its value, None if it may be drawn."""
    return next((why for pattern, why in PINNED.items() if key_matches(key, pattern, below=True)), None)


def draw_field(stream: np.random.Generator, key: str, info: FieldInfo) -> object:
    """Return a value for a field, ``_UNDRAWN`` if it has no range."""
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if (values := _range_of(key)) is not None:
        return _between(stream, info, values[1:])
    return _draw_value(stream, info.annotation, [*info.metadata], default)


def is_drawable(key: str, info: FieldInfo) -> bool:
    """Say whether there is anything to draw for a field."""
    return draw_field(SeededRandom(0).stream("drawable"), key, info) is not _UNDRAWN


@cache
def _range_of(key: str) -> tuple[float, float, float] | None:
    return next((values for pattern, values in RANGES.items() if key_matches(key, pattern)), None)


def key_matches(key: str, pattern: str, *, below: bool = False) -> bool:
    """Say whether a key is that of a pattern, or ends with it; ``below``: or is inside the table of that key."""
    names, parts = key.split("."), pattern.split(".")
    places = [0] if below else range(len(names) - len(parts) + 1)
    for first in places:
        part = names[first : first + len(parts)]
        ends = below or first + len(parts) == len(names)
        if ends and len(part) == len(parts) and all(map(_is_name, part, parts)):
            return True
    return False


def _is_name(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _between(stream: np.random.Generator, info: FieldInfo, bounds: tuple[float, ...]) -> object:
    low, high = bounds
    value = math.exp(float(stream.uniform(math.log(max(low, 1e-3)), math.log(max(high, 1e-3)))))
    kinds = {part for part, _ in _parts_of(info.annotation, [])}
    if any(get_origin(kind) is tuple for kind in kinds):
        # Two bounds, as far from 0 as from 1.
        return [round(value, 4), round(1.0 - value, 4)]
    return max(round(value), math.ceil(low)) if int in kinds else round(value, 4)


def _draw_value(stream: np.random.Generator, annotation: object, metadata: list[object], default: object) -> object:
    for kind, more in _parts_of(annotation, metadata):
        low, high = _bounds_of(more)
        if kind is bool:
            return bool(stream.random() < 1 / 2)
        if get_origin(kind) is Literal:
            return get_args(kind)[int(stream.integers(len(get_args(kind))))]
        if isinstance(kind, type) and issubclass(kind, Enum):
            return str([*kind][int(stream.integers(len(kind)))].value)
        if kind is int or kind is float:
            return _draw_number(stream, kind, (low, high), default)
        if get_origin(kind) is tuple:
            return _draw_tuple(stream, get_args(kind), default)
    return _UNDRAWN


def _draw_number(
    stream: np.random.Generator, kind: type[int | float], bounds: tuple[float, float], default: object
) -> float | int:
    low, high = bounds
    if isinstance(default, int | float) and default and stream.random() < 2 / 3:
        value = float(default) * 2.0 ** float(stream.uniform(-2.0, 2.0))
    elif high < math.inf:
        value = float(stream.uniform(max(low, 0.0), min(high, max(low, 1.0) * 1e3)))
    else:
        value = math.exp(float(stream.uniform(math.log(max(low, 0.1)), math.log(max(10.0 * low, 100.0)))))
    value = float(min(max(value, low), high))
    return round(value) if kind is int else round(value, 6)


def _draw_tuple(stream: np.random.Generator, parts: tuple[object, ...], default: object) -> object:
    is_open = len(parts) == 2 and parts[1] is Ellipsis
    kinds = [parts[0]] * int(stream.integers(1, 4)) if is_open else [*parts]
    known = default if isinstance(default, tuple) else ()
    values = [
        _draw_value(stream, kind, [], known[place] if place < len(known) else None) for place, kind in enumerate(kinds)
    ]
    return _UNDRAWN if any(value is _UNDRAWN for value in values) or not values else values


def _parts_of(annotation: object, metadata: list[object]) -> Iterator[tuple[Any, list[object]]]:
    """Yield each plain type of an annotation with what is said about it, None left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        said = [one for item in more for one in getattr(item, "metadata", None) or [item]]
        yield from _parts_of(inner, [*metadata, *said])
    elif origin in {Union, UnionType}:
        for part in get_args(annotation):
            if part is not NoneType:
                yield from _parts_of(part, metadata)
    else:
        yield annotation, metadata


def _bounds_of(metadata: list[object]) -> tuple[float, float]:
    """Return the least and the largest value that a field takes; one that must be above its bound is so by a little."""
    low, high = -math.inf, math.inf
    for one in metadata:
        low = max(low, getattr(one, "ge", -math.inf), getattr(one, "gt", -math.inf) + _LITTLE)
        high = min(high, getattr(one, "le", math.inf), getattr(one, "lt", math.inf) - _LITTLE)
    return low, high


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _faults(model: type[BaseModel], values: Mapping[str, Any], drawn: Mapping[str, object] | set[str]) -> bool:
    """Say whether the model refuses the drawn values; what it says of others is decided with the whole file."""
    try:
        model.model_validate(dict(values))
    except ValidationError as error:
        return any(not fault["loc"] or fault["loc"][0] in drawn for fault in error.errors(include_url=False))
    return False


def _value_at(tables: Mapping[str, Any], key: KeyPath) -> dict[str, Any]:
    found: Any = tables
    for name in key:
        found = found.get(name, {})
    return dict(found)


def _set_value(tables: dict[str, Any], key: KeyPath, value: object) -> None:
    for name in key[:-1]:
        tables = tables.setdefault(name, {})
    tables[key[-1]] = value


def _copy_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copy_tables(value) if isinstance(value, Mapping) else value for name, value in tables.items()}
