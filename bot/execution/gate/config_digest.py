"""Digests of the configuration and of the credentials that an arm record is bound to.

A change of either ends the permission to submit.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from bot.config.plugin_settings import load_plugin_settings, recordable_settings
from bot.config.schema import Config, RoleSection
from bot.config.venue_schema import ChooseTable
from bot.core.errors import ConfigError
from bot.core.ids import sha256_hex
from bot.core.plugin_specs import ConfigurableSpec, ForecasterSpec, PluginTableName
from bot.core.submissions import LIVE_MODES
from bot.core.values import Json
from bot.execution.gate.access_control import scrypt_hash

# The sections that decide what is forecast and submitted; the others concern no venue, or another one.
_SHARED_SECTIONS = ("seed", "plugin_files", "limits", "policy", "calibration", "research")


# Keys of the venue's own table about its paper book, its other forecasters, and how often it is read.
_IGNORED_VENUE_KEYS = frozenset({"settings", "paper", "discover_every_s", "forecasters", "choose"})


# Keys of a model about its prices.
_IGNORED_MODEL_KEYS = frozenset({"free", "price_in", "price_cached", "price_written", "price_out"})


_UNREADABLE = "cannot be read"


# What the enabled plugins offer that a table of config configures.
OfferedSpecs = Callable[[PluginTableName], Iterable[ConfigurableSpec[Any]]]


def config_digest(config: Config, venue: str, offered: OfferedSpecs) -> str:
    """Return the digest of all settings that decide what is submitted to the venue, regardless of their origin.

    It holds the mode, account, caps, trading, margins and settings of the venue; the forecasters whose forecasts are
    submitted there and those that they build on, with their tables and settings; the roles that these may ask, and
    the roles that no forecaster claims, with the models that play them; every search engine and data source in use;
    and the sections ``seed``, ``limits``, ``policy``, ``calibration`` and ``research``. Settings count as they are in
    effect.

    It does not hold other venues, forecasters that are scored but never submitted, logs, timings of the daemon,
    notifiers, budgets, prices and rates of models, the paper book, and the folder of the configuration. What is unclear
    is included: an irrelevant change only ends an arm record, but a missed one would allow what nobody armed.

    For a live venue a dot and a slow hash of its secrets follow: it distinguishes different secrets and reveals nothing
    else.
    """
    venue_specs = [spec for spec in offered(PluginTableName.VENUES) if spec.name == venue]
    submitting = _submitting_forecasters(config, venue, offered)
    roles = _used_roles(config, submitting, offered)
    providers = {model.partition(":")[0] for role in roles.values() for model in (role.model, role.fallback) if model}
    used = [
        *venue_specs,
        *(spec for spec in offered(PluginTableName.FORECASTERS) if spec.name in submitting),
        *(spec for kind in (PluginTableName.SEARCH, PluginTableName.DATA) for spec in offered(kind)),
        *(spec for spec in offered(PluginTableName.MODELS) if spec.name in providers),
    ]
    plain: dict[str, Json] = {
        "venue": venue,
        "mode": config.mode_of(venue),
        "table": _venue_table(config, venue, known=bool(venue_specs)),
        "shared": config.model_dump(mode="json", include={*_SHARED_SECTIONS}),
        "forecasters": {name: _forecaster_table(config, name, used) for name in sorted(submitting)},
        "roles": {name: role.model_dump(mode="json") for name, role in sorted(roles.items())},
        "models": _used_models(config, roles),
        "settings": {
            f"{spec.table}.{spec.name}": [_settings_class_path(spec), _effective_settings(spec, config)]
            for spec in used
        },
    }
    public = sha256_hex(
        json.dumps(_relative_paths(f"{config.sources.folder}/", plain), sort_keys=True, default=str).encode()
    )
    secrets = [*_spec_secrets(venue_specs, config)] if config.mode_of(venue) in LIVE_MODES else []
    return f"{public}.{_hash_secrets(venue, secrets)}" if secrets else public


def is_same_public_config(given: str, current: str) -> bool:
    """Return whether both digests are of the same configuration; ``given`` may lack the secrets of the venue.

    The person who arms a venue need not have the keys of the daemon.
    """
    public, _, secrets = given.partition(".")
    current_public, _, current_secrets = current.partition(".")
    return public == current_public and secrets in {"", current_secrets}


def _submitting_forecasters(config: Config, venue: str, offered: OfferedSpecs) -> set[str]:
    """Return the forecasters whose forecasts are submitted for a venue, and all that they build on."""
    table = config.venues.get(venue)
    waiting = [] if table is None else [table.forecasters[0], *(item.forecasters[0] for item in table.choose)]
    specs = {spec.name: spec for spec in _forecaster_specs(offered)}
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        spec = specs.get(name)
        if name not in found and spec is not None and spec.members is not None:
            with suppress(ConfigError):
                waiting += spec.members(load_plugin_settings(spec, config))
        found.add(name)
    return found


def _used_roles(config: Config, submitting: Collection[str], offered: OfferedSpecs) -> dict[str, RoleSection]:
    """Return the roles used for submitted forecasts; a role that only other forecasters use is left out."""
    asked: list[str] = []
    others: list[str] = []
    for spec in _forecaster_specs(offered):
        (asked if spec.name in submitting else others).extend((*spec.roles, *spec.optional_roles))
    return {
        name: role
        for name, role in config.llm.roles.items()
        if _matches_any(name, asked) or not _matches_any(name, others)
    }


def _forecaster_specs(offered: OfferedSpecs) -> list[ForecasterSpec[Any]]:
    return [spec for spec in offered(PluginTableName.FORECASTERS) if isinstance(spec, ForecasterSpec)]


def _matches_any(role: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(role, pattern) for pattern in patterns)


def _used_models(config: Config, roles: Mapping[str, RoleSection]) -> dict[str, Json]:
    """Return the config tables of the models in these roles, without their prices."""
    used = {model for role in roles.values() for model in (role.model, role.fallback) if model}
    tables = {name: table for name, table in config.llm.models.items() if name in used}
    return {
        name: table.model_dump(mode="json", exclude={*_IGNORED_MODEL_KEYS}) for name, table in sorted(tables.items())
    }


def _venue_table(config: Config, venue: str, *, known: bool) -> Json:
    """Return a venue's table with its submitting forecasters only; raw settings only if its plugin is unknown."""
    table = config.venues.get(venue)
    if table is None:
        return None
    lead = [table.forecasters[0], *([_choice_criteria(item), item.forecasters[0]] for item in table.choose)]
    raw = {} if known else {"settings": table.settings}
    return {**table.model_dump(mode="json", exclude={*_IGNORED_VENUE_KEYS}), **raw, "lead": lead}


def _choice_criteria(chosen: ChooseTable) -> Json:
    return chosen.model_dump(mode="json", exclude={"forecasters"})


def _forecaster_table(config: Config, name: str, used: Iterable[ConfigurableSpec[Any]]) -> Json:
    known = any(spec.table is PluginTableName.FORECASTERS and spec.name == name for spec in used)
    return config.forecaster_table(name).model_dump(mode="json", exclude={"settings"} if known else None)


def _settings_class_path(spec: ConfigurableSpec[Any]) -> str:
    """Return the path of the settings class: another plugin may offer something else under the same name."""
    return f"{spec.settings.__module__}.{spec.settings.__qualname__}"


def _effective_settings(spec: ConfigurableSpec[Any], config: Config) -> Json:
    """Return the settings of a plugin without secrets; another key for the same model changes nothing."""
    try:
        return recordable_settings(load_plugin_settings(spec, config))
    except ConfigError:
        return _UNREADABLE


def _relative_paths(folder: str, value: Json) -> Json:
    """Return the value with paths relative to the folder of the configuration."""
    match value:
        case str():
            return value.removeprefix(folder)
        case list():
            return [_relative_paths(folder, item) for item in value]
        case dict():
            return {name: _relative_paths(folder, item) for name, item in value.items()}
    return value


def credentials_digest(config: Config, spec: ConfigurableSpec[Any]) -> str:
    """Return a slow hash of the secrets in a venue's settings; it only shows whether they are the same."""
    secrets = [*_spec_secrets([spec], config)]
    return _hash_secrets(spec.name, secrets) if secrets else ""


def _spec_secrets(specs: Iterable[ConfigurableSpec[Any]], config: Config) -> Iterator[str]:
    for spec in specs:
        try:
            yield from _nested_secrets(spec.name, load_plugin_settings(spec, config))
        except ConfigError:
            yield _UNREADABLE


def _nested_secrets(name: str, value: object) -> Iterator[str]:
    """Yield each secret inside a value, with its name."""
    match value:
        case SecretStr() | SecretBytes():
            yield f"{name}={value.get_secret_value()!r}"
        case BaseModel():
            # Not dict(value): a setting named "keys" would be taken for the method.
            yield from _nested_secrets(name, dict(iter(value)))
        case Mapping():
            for key, item in sorted(value.items(), key=str):
                yield from _nested_secrets(f"{name}.{key}", item)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _nested_secrets(f"{name}.{index}", item)


def _hash_secrets(venue: str, secrets: list[str]) -> str:
    """Return a slow hash, from which even a short secret is hard to guess."""
    return scrypt_hash("\n".join(secrets).encode(), f"foxcast arm {venue}".encode()).hex()
