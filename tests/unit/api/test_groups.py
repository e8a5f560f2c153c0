"""Each name of the plugin API is in the group of what an author writes with it, and in one group only."""

import dataclasses
import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest

import bot.api
from bot.core.plugin_specs import BaseSpec, ConfigurableSpec, VenueSpec

GROUPS = {one.name: importlib.import_module(f"bot.api.{one.name}") for one in pkgutil.iter_modules(bot.api.__path__)}
OFFERED = {name: value for name, value in vars(bot.api).items() if name[0].isalpha()}
# These serve the package itself.
INTERNAL = {"TYPE_CHECKING", "NoReturn", "RENAMED_NAMES", *GROUPS}
VENUE_PARTS = {name for name in GROUPS if name.startswith("venue_")}
# The names of all kinds of plugins, and of a venue as a whole, have no order of their own.
ORDERED = sorted(GROUPS.keys() - {"common", "venue"})
PAGE = Path(__file__).parents[3] / "docs" / "writing-a-plugin.md"


def documented_order(group: str) -> list[str]:
    """Return what the docstring of a group says is called, in its order."""
    [said] = re.findall(r"^Called in this order: ([^.]*)\.$", GROUPS[group].__doc__ or "", re.MULTILINE)
    return re.findall(r"``(\w+)``", said)


def test_each_name_is_in_one_group_and_offered() -> None:
    counted = Counter(name for group in GROUPS.values() for name in group.__all__)
    assert {name: times for name, times in counted.items() if times > 1} == {}
    assert OFFERED.keys() - INTERNAL == counted.keys()


def test_a_group_exports_all_that_it_imports() -> None:
    for group in GROUPS.values():
        imported = {name for name in vars(group) if name[0].isalpha()}
        assert imported == set(group.__all__), group.__name__


def test_each_spec_is_in_the_group_of_its_kind() -> None:
    specs = {name for name, value in OFFERED.items() if isinstance(value, type) and issubclass(value, BaseSpec)}
    assert {f"{kind.removesuffix('Spec').lower()}" for kind in specs} == GROUPS.keys() - VENUE_PARTS - {"common"}
    assert all(spec in GROUPS[spec.removesuffix("Spec").lower()].__all__ for spec in specs)
    assert all(
        one.__name__ in specs for one in ConfigurableSpec.__subclasses__() if one.__module__ == BaseSpec.__module__
    )


@pytest.mark.parametrize("group", ORDERED)
def test_what_a_group_says_is_called_exists(group: str) -> None:
    classes = [value for name in GROUPS[group].__all__ if isinstance(value := OFFERED[name], type)]
    classes += [VenueSpec] if group in VENUE_PARTS else []
    known = {name for one in classes for name in dir(one)}
    known |= {field.name for one in classes if dataclasses.is_dataclass(one) for field in dataclasses.fields(one)}
    order = documented_order(group)
    assert order
    assert [name for name in order if name not in known] == []


def test_the_page_for_authors_gives_the_order_of_each_group() -> None:
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines()]
    rows = {
        group: re.findall(r"`(\w+)`", row[2])
        for row in cells
        if len(row) == 3
        for group in re.findall(r"`(\w+)`", row[1])
        if group in ORDERED
    }
    assert rows == {group: documented_order(group) for group in ORDERED}
