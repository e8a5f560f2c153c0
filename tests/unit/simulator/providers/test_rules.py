"""The table of rules: each rule names doubles that exist, and each is broken on purpose by a test."""

import importlib
import pkgutil
import re
from pathlib import Path

import bot.simulator.providers
from bot.simulator.providers.provider_double import ProviderDouble
from bot.simulator.providers.refusal_rules import RULES

PACKAGE = bot.simulator.providers
TESTS = Path(__file__).parent


def doubles() -> set[str]:
    """Return the names of all doubles that are shipped."""
    modules = [
        importlib.import_module(f"{PACKAGE.__name__}.{one.name}") for one in pkgutil.iter_modules(PACKAGE.__path__)
    ]
    found = {name: one for module in modules for name, one in vars(module).items() if isinstance(one, type)}
    return {name for name, one in found.items() if issubclass(one, ProviderDouble) and name not in BASES}


BASES = {"ProviderDouble", "SimpleProviderDouble"}


def test_each_of_the_47_rules_is_enforced_by_a_double_or_says_why_not() -> None:
    assert [*RULES] == [f"P-{number}" for number in range(1, 48)]
    assert [name for name, rule in RULES.items() if not (rule.doubles or rule.reason)] == []


def test_the_doubles_of_the_table_are_those_that_are_shipped() -> None:
    assert {name for rule in RULES.values() for name in rule.doubles} == doubles()


def test_each_rule_is_broken_on_purpose_by_a_test() -> None:
    reported = "\n".join(path.read_text() for path in TESTS.glob("test_*.py") if path != Path(__file__))
    broken = set(re.findall(r'"(P-\d+)"', reported))
    assert {name for name, rule in RULES.items() if rule.doubles} - broken == set()
