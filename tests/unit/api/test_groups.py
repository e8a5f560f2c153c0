"""Each name of the plugin API is in the group of what an author writes with it, and in one group only."""

import importlib
import pkgutil
from collections import Counter
from types import ModuleType

import bot.api
from bot.core.plugin_specs import BaseSpec, ConfigurableSpec

GROUPS = {one.name: importlib.import_module(f"bot.api.{one.name}") for one in pkgutil.iter_modules(bot.api.__path__)}
OFFERED = {name: value for name, value in vars(bot.api).items() if name[0].isalpha()}
# These serve the package itself.
INTERNAL = {"TYPE_CHECKING", "NoReturn", "RENAMED_NAMES", *GROUPS}


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
    assert {f"{kind.removesuffix('Spec').lower()}" for kind in specs} == GROUPS.keys() - {"common"}
    assert all(spec in GROUPS[spec.removesuffix("Spec").lower()].__all__ for spec in specs)
    assert all(
        one.__name__ in specs for one in ConfigurableSpec.__subclasses__() if one.__module__ == BaseSpec.__module__
    )


def test_each_group_says_in_which_order_its_things_are_called() -> None:
    def names_in(text: str, group: ModuleType) -> set[str]:
        return {name for name in group.__all__ if f"``{name}" in text}

    assert {kind: bool(names_in(group.__doc__ or "", group)) for kind, group in GROUPS.items()} == dict.fromkeys(
        GROUPS, True
    )
