"""Environment variables: one sets one value, ``FOXCAST_VENUES__LANTERN__MODE`` sets ``mode`` in ``[venues.lantern]``.

pydantic-settings ignores a misspelt name silently, so all names with the prefix are compared with the model first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from bot.config.document import Key
from bot.config.nearest import instead, nearest
from bot.config.shape import at, is_table, leaves, names
from bot.config.sources import DELIMITER, PREFIX, Variable, variable_name
from bot.errors import ConfigError

# Where config.toml is, and the token of whoever calls: the variables that are no settings.
CONFIG_VARIABLE = "FOXCAST_CONFIG"
TOKEN_VARIABLE = "FOXCAST_TOKEN"  # noqa: S105 - a name
NO_SETTINGS = frozenset({CONFIG_VARIABLE, TOKEN_VARIABLE})


def read_variables(environ: Mapping[str, str]) -> dict[Key, Variable]:
    """Return our variables by the key that each sets; raises ConfigError for an empty one and a pair like ``a``, ``A``.

    An empty value is a forgotten one far more often than an empty text: as a path it would mean the working folder.
    """
    found: dict[Key, Variable] = {}
    for name, value in sorted(environ.items()):
        if not name.upper().startswith(PREFIX) or name.upper() in NO_SETTINGS:
            continue
        if not value:
            message = f"env {name}: is empty; give it a value or unset it"
            raise ConfigError(message)
        key = tuple(name[len(PREFIX) :].lower().split(DELIMITER))
        if key in found:
            message = f"env {found[key].name} and {name} set the same value; unset one of them"
            raise ConfigError(message)
        found[key] = Variable(name=name, value=value)
    return found


def misspelt(model: type[BaseModel], variables: Mapping[Key, Variable], under: Key = ()) -> Iterator[str]:
    """Yield one line for each variable that sets nothing in the model, which stands under the given key."""
    for key, variable in variables.items():
        if (end := _stray(model, key)) is not None:
            better = _better(model, key, end)
            hint = better and f"did you mean {' or '.join(variable_name((*under, *other)) for other in better)}?"
            hint = hint or instead(str(key[end]), names(at(model, key[:end])) or ())
            yield f"env {variable.name}: there is no such setting; {hint}"
        elif is_table(at(model, key)):
            example = variable_name((*under, *key, min(names(at(model, key)) or ("<key>",))))
            yield f"env {variable.name}: names a whole table; name one value in it, such as {example}"


def strangers(written: Mapping[str, Any], variables: Mapping[Key, Variable]) -> Iterator[str]:
    """Yield one line for each variable of a table that the file does not have, but has under nearly that name."""
    for key, variable in variables.items():
        tables = written.get(str(key[0]))
        if len(key) < 3 or not isinstance(tables, Mapping) or key[1] in tables:
            continue
        if near := nearest(str(key[1]), tables):
            better = " or ".join(variable_name((key[0], other, *key[2:])) for other in near)
            yield f"env {variable.name}: the file has no [{key[0]}.{key[1]}]; did you mean {better}?"


def decode(model: type[BaseModel], variables: Mapping[Key, Variable]) -> dict[str, Any]:
    """Return the values of the variables as a nested table; raises ConfigError for a list that is not JSON.

    Source: pydantic-settings decodes lists and tables as JSON and leaves plain values as text for validation.
    """
    table: dict[str, Any] = {}
    for key, variable in variables.items():
        try:
            table = overlay(table, _Source(model, key, variable.value)())
        except SettingsError as error:
            message = f'env {variable.name}: should be JSON, a list such as ["one", "two"]'
            raise ConfigError(message) from error
    return table


class _Source(EnvSettingsSource):
    """Reads one variable that is handed in instead of the environment of the process."""

    def __init__(self, model: type[BaseModel], key: Key, value: str) -> None:
        reader = type("Reader", (model, BaseSettings), {"model_config": SettingsConfigDict(extra="ignore")})
        super().__init__(reader, env_nested_delimiter=DELIMITER)
        self.env_vars = {_tail(key): value}


def overlay(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with the other's values laid over it, table by table."""
    merged = dict(table)
    for name, value in other.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = overlay(below, value)
        else:
            merged[name] = value
    return merged


def _stray(model: type[BaseModel], key: Key) -> int | None:
    """Return the index of the first part that the model does not know."""
    for end, part in enumerate(key):
        valid = names(at(model, key[:end]))
        if valid is not None and part not in valid:
            return end
    return None


def _better(model: type[BaseModel], key: Key, end: int) -> list[Key]:
    """Return likely keys: with another name in the place of the stray one, else others that look alike as a whole."""
    here = nearest(str(key[end]), names(at(model, key[:end])) or ())
    if here:
        return [(*key[:end], name, *key[end + 1 :]) for name in here]
    whole = {_tail(leaf): leaf for leaf in leaves(model, key)}
    return [whole[name] for name in nearest(_tail(key), whole)]


def _tail(key: Key) -> str:
    return DELIMITER.join(map(str, key))
