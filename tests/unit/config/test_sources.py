"""The config.toml that comes with the program shows every key there is, with the value that it has when left out."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from bot.config.schema import Config
from bot.core.plugin_specs import PluginTableName

FILE = Path(__file__).resolve().parents[3] / "config.toml"
TABLE = re.compile(r"^(?:# )?\[([a-z][\w.\"/:-]*[\w\"])\]\s*(?:#.*)?$", re.IGNORECASE)
KEY = re.compile(r"^(?:# )?([a-z]\w*) = (\S.*)$")
# What plugins offer has tables by name, and settings of its own.
NAMED = {
    *(table.value for table in PluginTableName),
    "llm.roles",
    "llm.models",
    "llm.providers",
    "research.sources",
    "serve.callers",
}


def shown() -> dict[tuple[str, str], str]:
    """Return each key of the file, commented or not, by its table; names that a user chooses are ``*``."""
    found, table = dict[tuple[str, str], str](), ""
    for line in FILE.read_text().splitlines():
        if head := TABLE.match(line):
            table = general(head[1])
        elif pair := KEY.match(line):
            found.setdefault((table, pair[1]), pair[2])
    return found


def general(table: str) -> str:
    for named in NAMED:
        if table.startswith(f"{named}."):
            rest = table.removeprefix(f"{named}.")
            rest = rest.partition('".')[2] if rest.startswith('"') else rest.partition(".")[2]
            return ".".join(filter(None, (named, "*", rest)))
    return table


def keys(model: type[BaseModel], table: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield table, key and default of all that config knows; tables of plugins' own settings are not its."""
    for name, field in model.model_fields.items():
        place = f"{table}.{name}" if table else name
        inner = sections(field.annotation)
        if inner is not None:
            yield from keys(inner, f"{place}.*" if get_origin(field.annotation) is dict else place)
        elif name != "settings":
            yield table, name, field.get_default(call_default_factory=True)


def sections(annotation: Any) -> type[BaseModel] | None:
    of = get_args(annotation)[-1] if get_origin(annotation) is dict else annotation
    return of if isinstance(of, type) and issubclass(of, BaseModel) else None


# Keys for which the file shows something else on purpose.
ELSE = {("", "plugins"), ("venues.*", "comment"), ("forecasters.*", "clairvoyant"), ("llm.models.*", "free")}
ALL = sorted({(table, key): default for table, key, default in keys(Config)}.items(), key=lambda item: item[0])


def test_the_walk_knows_what_there_is() -> None:
    there = {place for place, _ in ALL}
    assert {("", "mode"), ("venues.*", "forecasters"), ("venues.*.caps", "drawdown"), ("llm.roles.*", "model")} <= there
    assert ("venues.*", "settings") not in there


@pytest.mark.parametrize("place", [place for place, _ in ALL], ids=lambda place: ".".join(filter(None, place)))
def test_every_key_is_shown(place: tuple[str, str]) -> None:
    assert place in shown()


@pytest.mark.parametrize(
    ("table", "key", "default"),
    [(*place, default) for place, default in ALL if isinstance(default, bool | int | float | tuple)],
    ids=str,
)
def test_the_value_shown_is_the_one_of_what_is_left_out(table: str, key: str, default: Any) -> None:
    if (table, key) in ELSE:
        return
    value = tomllib.loads(f"value = {shown()[table, key]}")["value"]
    assert value == (list(default) if isinstance(default, tuple) else default)


def test_every_key_that_is_shown_is_one() -> None:
    known = {place for place, _ in ALL}
    strange = [place for place in shown() if place not in known and not place[0].endswith(".settings")]
    assert strange == []
