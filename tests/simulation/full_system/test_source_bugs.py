"""Planted bugs that are changed parts of the source: they change what is meant, and each part is still there."""

import ast
import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.simulation.full_system import mutants
from tests.source_mutations import break_source

SOURCE = """
LIMIT = 2
TWICE = 2 * LIMIT
OTHER = 7


def doubled() -> int:
    return 2 * LIMIT


DOUBLED = doubled()


class Shop:
    def sells(self, count: int) -> bool:
        if count < 0:
            return False
        return count <= LIMIT


async def price(count: "Unknown") -> int:
    return count * TWICE
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    (tmp_path / "planted_shop.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted_shop", raising=False)
    return importlib.import_module("planted_shop")


def test_a_changed_function_is_changed_for_all_who_know_it(shop: object) -> None:
    sells, price = shop.Shop().sells, shop.price  # type: ignore[attr-defined]
    break_source("planted_shop", "        if count < 0:\n            return False\n", "        print(count)\n")
    assert sells(-1)
    break_source("planted_shop", "return count * TWICE", "return count + TWICE")
    with pytest.raises(StopIteration) as found:
        price(3).send(None)
    assert found.value.value == 7


def test_a_changed_value_changes_those_that_are_made_of_it(shop: object) -> None:
    break_source("planted_shop", "LIMIT = 2", "LIMIT = 3")
    assert (shop.LIMIT, shop.TWICE, shop.OTHER, shop.DOUBLED) == (3, 6, 7, 6)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="not what it was"):
        break_source("planted_shop", "LIMIT = 9", "LIMIT = 3")


def test_each_planted_bug_is_of_a_part_that_is_there_and_can_be_read() -> None:
    for name, bug in mutants.SOURCE_BUGS.items():
        spec = find_spec(bug.module)
        assert spec is not None, name
        assert spec.origin is not None, name
        source = Path(spec.origin).read_text(encoding="utf-8")
        assert bug.part in source, name
        assert ast.dump(ast.parse(source.replace(bug.part, bug.by, 1))) != ast.dump(ast.parse(source)), name
        assert not (bug.seed and bug.defence), name
