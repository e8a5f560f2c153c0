"""Names that anybody can guess and grep: classes of two words or more, each name used once."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import ROOT, Module, load

# All of the source is parsed, which takes a while where other tests share the machine.
pytestmark = pytest.mark.timeout(120)

# The values that everybody in the field knows; a class has another name only where it is the thing itself.
CORE_NAMES = frozenset(
    {
        "Account",
        "Belief",
        "Clock",
        "Config",
        "Evidence",
        "Fill",
        "Forecast",
        "Forecaster",
        "Gate",
        "Intent",
        "Ledger",
        "Message",
        "Order",
        "Outbox",
        "Passage",
        "Position",
        "Prompt",
        "Question",
        "Quote",
        "Registry",
        "Resolution",
        "Round",
        "Score",
        "Step",
        "Target",
        "Trial",
    }
)
MODULES = [*load(ROOT, "bot"), *load(ROOT, "plugins")]
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")


def public_classes(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each public class at the top of a module."""
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield module.name, node.name


def one_word(modules: Iterable[Module]) -> list[str]:
    """Return the classes with a name of one word, but for the core names, as "module.Name"."""
    return [
        f"{module}.{name}"
        for module, name in public_classes(modules)
        if name not in CORE_NAMES and len(WORD.findall(name)) < 2
    ]


def shared_names(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the names that several public classes have, with their modules."""
    places = defaultdict(list)
    for module, name in public_classes(modules):
        places[name].append(module)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_has_a_name_of_two_words_or_a_core_name() -> None:
    assert one_word(MODULES) == []


def test_at_most_forty_names_are_core_names_and_each_is_a_class() -> None:
    assert len(CORE_NAMES) <= 40
    counted = Counter(name for _, name in public_classes(MODULES))
    assert {name: counted[name] for name in CORE_NAMES} == dict.fromkeys(CORE_NAMES, 1)


def test_no_two_public_classes_share_a_name() -> None:
    assert shared_names(MODULES) == {}


def test_bot_has_no_loose_module() -> None:
    loose = {path.name for path in (ROOT / "bot").glob("*.py")}
    assert loose == {"__init__.py"}


def test_a_class_of_one_word_is_found() -> None:
    planted = [Module(name="bot.x", text="class Purse: ...\nclass TrialLimits: ...\nclass _Own: ...\nclass Order: ...")]
    assert one_word(planted) == ["bot.x.Purse"]


def test_a_name_that_two_classes_have_is_found() -> None:
    planted = [Module(name=name, text="class TrialLimits: ...") for name in ("bot.x", "bot.y")]
    assert shared_names(planted) == {"TrialLimits": ["bot.x", "bot.y"]}
