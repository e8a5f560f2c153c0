"""The settings of one plugin, from its table in config.toml, from the environment, and from where secrets are kept.

A secret comes from the environment, from a file that only its owner can read (``<key>_file`` names it), or from the
keyring (``<key>_keyring`` names the entry); the key may be nested. A secret in config.toml is refused, because that
file is shared, copied and committed. Each secret is registered with ``bot.core.redaction`` when it is read.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.config.key_lines import KeyPath
from bot.config.loader import decode_variables, find_unknown_variables, merge_tables
from bot.config.schema import Config
from bot.config.secrets import read_secret
from bot.config.sources import (
    FILE_SUFFIX,
    KEYRING_SUFFIX,
    SECRET_SUFFIXES,
    URL_LOGIN,
    ConfigSources,
    EnvironmentVariable,
)
from bot.config.upgrade import rename_keys
from bot.config.validation import (
    ConfigFaults,
    annotation_at,
    dotted_key,
    field_names,
    find_secrets,
    is_secret,
    may_hold_secrets,
    validate_settings,
)
from bot.core.errors import ConfigError
from bot.core.plugin_specs import ConfigurableSpec, S
from bot.core.redaction import register_secrets, register_url_passwords

# Names of HTTP headers that hold secrets.
_SECRET_HEADER = re.compile(r"(?i)(?:^|[-_])(?:authorization|api[-_]?key|token|secret|password|passphrase|cookie)$")


def load_plugin_settings(spec: ConfigurableSpec[S], config: Config) -> S:
    """Return the validated settings of one part of a plugin; raises ConfigError with a line for each fault."""
    model, under = spec.settings, settings_key(spec)
    problems = ConfigFaults(model, config.sources, under)
    written = config.plugin_table(spec.table, spec.name).settings
    pointers = {key: str(value) for key, value in _iter_leaf_values(written) if is_secret_pointer(model, key)}
    written = _remove_keys(written, pointers)
    for key, _ in find_secrets(model, written):
        problems.add(key, f"a secret must not be in this file; {problems.remedy(key)}")
    if problems:
        raise problems.to_error()

    variables = _variables_under(config.sources, under)
    pointers |= {key: variable.value for key, variable in variables.items() if is_secret_pointer(model, key)}
    variables = {key: variable for key, variable in variables.items() if key not in pointers}
    secrets = {}
    for pointer, path in pointers.items():
        if (key := _pointer_target(pointer)) in variables or key in secrets:
            problems.add(key, f"is set twice, also by {pointer[-1]}; keep one of them")
            continue
        secrets[key] = read_secret(pointer, path, problems)
    if problems:
        raise problems.to_error()

    if faults := list(find_unknown_variables(model, variables, under)):
        raise ConfigError("\n".join(faults))
    values: Any = merge_tables(written, decode_variables(model, variables))
    for key, secret in secrets.items():
        values = _set_value(values, key, secret)
    hidden = [value for _, value in find_secrets(model, values) if isinstance(value, str)]
    register_secrets(*hidden, *_iter_named_secrets(values))
    for _, value in _iter_leaf_values(values):
        register_url_passwords(str(value))
    return validate_settings(model, values, written=written, problems=problems, hidden=hidden)


def recordable_settings(settings: BaseModel) -> dict[str, Any]:
    """Return all settings but secrets as JSON values, to be recorded."""
    plain: dict[str, Any] = settings.model_dump(mode="json", fallback=str)
    plain = _remove_keys(plain, [key for key, _ in find_secrets(type(settings), plain)])
    return {name: _mask_logins(value) for name, value in plain.items()}


def restore_settings(spec: ConfigurableSpec[S], config: Config, plain: Mapping[str, Any]) -> S:
    """Return recorded settings with the secrets of the present configuration, because secrets are not recorded.

    Settings that were renamed since then get their new names. Raises ConfigError for a setting that this version of the
    plugin does not have, and for a missing secret.
    """
    model = spec.settings
    values = rename_keys(plain, {(): model})
    if may_hold_secrets(model):
        for key, secret in find_secrets(model, load_plugin_settings(spec, config).model_dump()):
            values = _set_value(values, key, secret)
    try:
        return model.model_validate(values, context={"folder": config.sources.folder})
    except ValidationError as error:
        faults = "; ".join(f"{dotted_key(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_url=False))
        message = f"the recorded settings of {spec.name} do not fit the installed plugin: {faults}"
        raise ConfigError(message) from None


def settings_key(spec: ConfigurableSpec[S]) -> KeyPath:
    """Return the key of the settings of one part of a plugin."""
    return (spec.table, spec.name, "settings")


def _variables_under(sources: ConfigSources, under: KeyPath) -> Mapping[KeyPath, EnvironmentVariable]:
    depth = len(under)
    return {key[depth:]: variable for key, variable in sources.variables.items() if key[:depth] == under}


def is_secret_pointer(model: type[BaseModel], key: KeyPath) -> bool:
    """Return whether the key names the place of a secret; False for a field of exactly that name."""
    last = key[-1]
    if not isinstance(last, str) or last in SECRET_SUFFIXES or not last.endswith(SECRET_SUFFIXES):
        return False
    return last not in (field_names(annotation_at(model, key[:-1])) or ()) and is_secret(
        annotation_at(model, _pointer_target(key))
    )


def _pointer_target(pointer: KeyPath) -> KeyPath:
    """Return the key of the secret that a pointer such as ``token_file`` is for."""
    return (*pointer[:-1], secret_key_name(str(pointer[-1])))


def secret_key_name(name: str) -> str:
    """Return the name of the secret that a pointer such as ``token_file`` is for."""
    return name.removesuffix(FILE_SUFFIX) if name.endswith(FILE_SUFFIX) else name.removesuffix(KEYRING_SUFFIX)


def _iter_leaf_values(value: object, key: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield the plain values inside tables and lists with their keys."""
    if isinstance(value, Mapping):
        parts: Iterable[tuple[str | int, object]] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        yield key, value
        return
    for part, inside in parts:
        yield from _iter_leaf_values(inside, (*key, part))


def _iter_named_secrets(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield values whose names look like those of secrets, such as the headers of a request."""
    for key, value in _iter_leaf_values(values):
        if isinstance(value, str) and _SECRET_HEADER.search(str(key[-1])):
            yield from {value, value.split()[-1] if value.split() else value}


def _remove_keys(value: Any, keys: Collection[KeyPath], under: KeyPath = ()) -> Any:  # noqa: ANN401 - any value of a table
    """Return the value without the parts at the given keys."""
    if isinstance(value, Mapping):
        return {
            name: _remove_keys(part, keys, (*under, name)) for name, part in value.items() if (*under, name) not in keys
        }
    if isinstance(value, list):
        return [_remove_keys(part, keys, (*under, index)) for index, part in enumerate(value)]
    return value


def _set_value(value: Any, key: KeyPath, secret: object) -> Any:  # noqa: ANN401 - any value of a table
    """Return the value with the secret at the key; missing tables are added."""
    if not key:
        return secret
    first, rest = key[0], key[1:]
    if isinstance(value, list) and isinstance(first, int):
        return [_set_value(part, rest, secret) if index == first else part for index, part in enumerate(value)]
    table = value if isinstance(value, Mapping) else {}
    return {**table, first: _set_value(table.get(first), rest, secret)}


def _mask_logins(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    """Return the value without the logins in addresses."""
    if isinstance(value, Mapping):
        return {name: _mask_logins(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_mask_logins(part) for part in value]
    return URL_LOGIN.sub("***@", value) if isinstance(value, str) else value
