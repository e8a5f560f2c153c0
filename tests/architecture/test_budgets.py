"""Budgets of size and shape. A budget is a habit, not a goal: an exception is listed here with its reason."""

from collections.abc import Collection, Iterable
from functools import cache

import pytest

from tests.architecture.rules import overloaded, oversized
from tests.architecture.source import ROOT, Module, load

# Most files have 100 to 400 lines; nothing is split to meet a number.
SIZES = {"file_lines": 600, "function_lines": 60}
# Full names are better than a bundle without behaviour: up to eight parameters, by keyword beyond two.
LOADS = {"complexity": 10, "nesting": 3, "parameters": 8}

# All of the source is parsed, which takes a while where other tests share the machine.
pytestmark = pytest.mark.timeout(120)

# "module has ..." or "module.function has ..." up to the word has -> why it may.
EXCEPTIONS: dict[str, str] = {
    "tests.simulation.full_system.omission_checks": "rules of one class, which share what passes have done",
    "tests.simulation.full_system.world_record": "one record of the world, which all of its parts fill",
}

MODULES = [*load(ROOT, "foxcast"), *load(ROOT, "bot"), *load(ROOT, "plugins"), *load(ROOT, "tests")]


def _subjects(faults: Iterable[str]) -> set[str]:
    return {fault.partition(" has ")[0] for fault in faults}


def _unexcused(faults: Collection[str]) -> list[str]:
    return [fault for fault in faults if fault.partition(" has ")[0] not in EXCEPTIONS]


@cache
def _large() -> tuple[str, ...]:
    return tuple(oversized(MODULES, **SIZES))


@cache
def _loaded() -> tuple[str, ...]:
    return tuple(overloaded(MODULES, **LOADS))


def test_files_and_functions_keep_their_size() -> None:
    assert _unexcused(_large()) == []


def test_functions_keep_their_branches_nesting_and_parameters() -> None:
    assert _unexcused(_loaded()) == []


def test_every_exception_is_still_needed() -> None:
    assert EXCEPTIONS.keys() - _subjects([*_large(), *_loaded()]) == set()


def test_a_long_file_and_a_long_function_are_found() -> None:
    long = Module(name="bot.long", text="def f():\n" + "    x = 1\n" * 60 + "\n" * 540)
    assert [*oversized([long], **SIZES)] == ["bot.long has 601 lines", "bot.long.f has 61 lines"]
    short = Module(name="bot.short", text="def f():\n" + "    x = 1\n" * 59 + "\n" * 540)
    assert [*oversized([short], **SIZES)] == []


def test_an_eleventh_branch_is_found() -> None:
    nine = "def f(x):\n" + "    if x: pass\n" * 9
    assert [*overloaded([Module(name="bot.x", text=nine)], **LOADS)] == []
    ten = nine + "    for y in x: pass\n"
    assert [*overloaded([Module(name="bot.x", text=ten)], **LOADS)] == ["bot.x.f has 11 branches"]


def test_a_fourth_nested_block_is_found() -> None:
    deep = "async def f(x):\n for y in x:\n  async with y:\n   try:\n    while y: pass\n   finally: pass\n"
    assert [*overloaded([Module(name="bot.x", text=deep)], **LOADS)] == ["bot.x.f has 4 nested blocks"]


def test_an_elif_does_not_nest_and_an_inner_function_counts_by_itself() -> None:
    flat = "def f(x):\n if x: pass\n elif x: pass\n elif x: pass\n elif x: pass\n else:\n  if x: pass\n"
    inner = "def f(x):\n for y in x:\n  for z in y:\n   def g():\n    for a in z:\n     for b in a: pass\n"
    for source in (flat, inner):
        assert [*overloaded([Module(name="bot.x", text=source)], **LOADS)] == []


def test_a_ninth_parameter_is_found_and_self_is_free() -> None:
    method = "class A:\n def f(self, a, /, b, *, c, d, e, g, h, i): pass\n"
    assert [*overloaded([Module(name="bot.x", text=method)], **LOADS)] == []
    function = "def f(a, /, b, *, c, d, e, g, h, i, j): pass\n"
    assert [*overloaded([Module(name="bot.x", text=function)], **LOADS)] == ["bot.x.f has 9 parameters"]
