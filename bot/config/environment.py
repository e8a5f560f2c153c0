"""Environment variables: one sets one value, ``FOXCAST_VENUES__LANTERN__MODE`` sets ``mode`` in ``[venues.lantern]``.

pydantic-settings ignores a misspelt name silently, so all names with the prefix are compared with the model first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from bot.config.sources import VARIABLE_DELIMITER, VARIABLE_PREFIX, EnvironmentVariable, KeyPath, variable_name
from bot.config.validation import annotation_at, current_key, field_names, is_table, leaf_keys
from bot.core.errors import ConfigError
from bot.core.nearest_names import nearest_names, suggest_names

# Where config.toml is, and the token of whoever calls: the variables that are no settings.
CONFIG_VARIABLE = "FOXCAST_CONFIG"
TOKEN_VARIABLE = "FOXCAST_TOKEN"  # noqa: S105 - a name
NON_SETTINGS = frozenset({CONFIG_VARIABLE, TOKEN_VARIABLE})


def read_variables(environ: Mapping[str, str]) -> dict[KeyPath, EnvironmentVariable]:
    """Return our variables by the key that each sets; raises ConfigError for an empty one and a pair like ``a``, ``A``.

    An empty value is a forgotten one far more often than an empty text: as a path it would mean the working folder.
    """
    found: dict[KeyPath, EnvironmentVariable] = {}
    for name, value in sorted(environ.items()):
        if not name.upper().startswith(VARIABLE_PREFIX) or name.upper() in NON_SETTINGS:
            continue
        if not value:
            message = f"env {name}: is empty; give it a value or unset it"
            raise ConfigError(message)
        key = tuple(name[len(VARIABLE_PREFIX) :].lower().split(VARIABLE_DELIMITER))
        if key in found:
            message = f"env {found[key].name} and {name} set the same value; unset one of them"
            raise ConfigError(message)
        found[key] = EnvironmentVariable(name=name, value=value)
    return found


def find_unknown_variables(
    model: type[BaseModel], variables: Mapping[KeyPath, EnvironmentVariable], under: KeyPath = ()
) -> Iterator[str]:
    """Yield one line for each variable that sets nothing in the model, which stands under the given key."""
    for key, variable in variables.items():
        full = (*under, *key)
        if (current := current_key(full, {under: model} if under else {})) != full:
            yield f"env {variable.name}: is now {variable_name(current)}"
        elif (end := _unknown_part(model, key)) is not None:
            better = _likely_keys(model, key, end)
            hint = better and f"did you mean {' or '.join(variable_name((*under, *other)) for other in better)}?"
            hint = hint or suggest_names(str(key[end]), field_names(annotation_at(model, key[:end])) or ())
            yield f"env {variable.name}: there is no such setting; {hint}"
        elif is_table(annotation_at(model, key)):
            example = variable_name((*under, *key, min(field_names(annotation_at(model, key)) or ("<key>",))))
            yield f"env {variable.name}: names a whole table; name one value in it, such as {example}"


def find_misnamed_tables(written: Mapping[str, Any], variables: Mapping[KeyPath, EnvironmentVariable]) -> Iterator[str]:
    """Yield one line for each variable of a table that the file does not have, but has under nearly that name."""
    for key, variable in variables.items():
        tables = written.get(str(key[0]))
        if len(key) < 3 or not isinstance(tables, Mapping) or key[1] in tables:
            continue
        if near := nearest_names(str(key[1]), tables):
            better = " or ".join(variable_name((key[0], other, *key[2:])) for other in near)
            yield f"env {variable.name}: the file has no [{key[0]}.{key[1]}]; did you mean {better}?"


def decode_variables(model: type[BaseModel], variables: Mapping[KeyPath, EnvironmentVariable]) -> dict[str, Any]:
    """Return the values of the variables as a nested table; raises ConfigError for a list that is not JSON.

    Source: pydantic-settings decodes lists and tables as JSON and leaves plain values as text for validation.
    """
    table: dict[str, Any] = {}
    for key, variable in variables.items():
        try:
            table = merge_tables(table, _VariableSource(model, key, variable.value)())
        except SettingsError as error:
            message = f'env {variable.name}: should be JSON, a list such as ["one", "two"]'
            raise ConfigError(message) from error
    return table


class _VariableSource(EnvSettingsSource):
    """Reads one variable that is handed in instead of the environment of the process."""

    def __init__(self, model: type[BaseModel], key: KeyPath, value: str) -> None:
        reader = type("Reader", (model, BaseSettings), {"model_config": SettingsConfigDict(extra="ignore")})
        super().__init__(reader, env_nested_delimiter=VARIABLE_DELIMITER)
        self.env_vars = {_joined_key(key): value}


def merge_tables(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with the other's values laid over it, table by table."""
    merged = dict(table)
    for name, value in other.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = merge_tables(below, value)
        else:
            merged[name] = value
    return merged


def _unknown_part(model: type[BaseModel], key: KeyPath) -> int | None:
    """Return the index of the first part that the model does not know."""
    for end, part in enumerate(key):
        valid = field_names(annotation_at(model, key[:end]))
        if valid is not None and part not in valid:
            return end
    return None


def _likely_keys(model: type[BaseModel], key: KeyPath, end: int) -> list[KeyPath]:
    """Return likely keys: with another name in the place of the stray one, else others that look alike as a whole."""
    here = nearest_names(str(key[end]), field_names(annotation_at(model, key[:end])) or ())
    if here:
        return [(*key[:end], name, *key[end + 1 :]) for name in here]
    whole = {_joined_key(leaf): leaf for leaf in leaf_keys(model, key)}
    return [whole[name] for name in nearest_names(_joined_key(key), whole)]


def _joined_key(key: KeyPath) -> str:
    return VARIABLE_DELIMITER.join(map(str, key))
