"""Messages, docstrings and comments of the source are plain English, and name only classes that exist."""

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.architecture.mannerisms import PLAIN_ENGLISH, find_mannerisms
from tests.architecture.source import ROOT, Module, load

# All of the source is parsed, which takes a while where other tests share the machine.
pytestmark = pytest.mark.timeout(120)

MODULES = [*load(ROOT, "bot"), *load(ROOT, "plugins")]
# Texts that are data: pages that attack readers, an invented press, words of real services, and prompts.
DATA = {
    "bot.simulator.hidden_text_pages": "pages that hide instructions",
    "bot.simulator.hostile_pages": "pages that hide instructions",
    "bot.simulator.hostile_responses": "pages that hide instructions",
    "bot.simulator.world.themes": "texts of invented questions",
}
# What a docstring says that code raises or implements, and further names of the same list.
CLAIM = re.compile(
    r"\b(?:[Rr]aises?|[Ii]mplements)\s+((?:``)?[A-Z]\w+(?:``)?(?:(?:,\s+(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+)[A-Z]\w+)*)"
)
# A word such as PaperBook is a name of code, but for names of products and of other people's code.
CODE_WORD = re.compile(r"(?<![\w./`])[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")
PROPER_NAMES = frozenset(
    {
        "AgentSocieties",
        "AskNews",
        "CamelCase",
        "DashScope",
        "DeepSeek",
        "DuckDuckGo",
        "ForecastBench",
        "FullMarket",
        "InternalServerError",
        "IntervalTrigger",
        "LiteMarket",
        "MediaWiki",
        "OpenRouter",
        "WebSockets",
    }
)
SQL = re.compile(r"\s*(?:select |insert into |create |update \w+ set |delete from |with \w+ as |where |drop |pragma )")


def is_inside(module: Module, packages: Iterable[str]) -> bool:
    return any(f"{module.name}.".startswith(f"{package}.") for package in packages)


def string_texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each string with more than one word: messages, docstrings, constant parts of f-strings."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.strip()
            if re.search(r"\s", text) and not SQL.match(text):
                yield node.lineno, text


@cache
def comment_texts(module: Module) -> tuple[tuple[int, str], ...]:
    """Return (line, text) of each comment."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return tuple((token.start[0], token.string.lstrip("#: ")) for token in tokens if token.type == tokenize.COMMENT)


def docstring_texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def mannered(module: Module) -> list[str]:
    """Return each mannerism in the texts of a module, with its place."""
    texts = [*string_texts(module), *comment_texts(module)]
    return [f"{module.name}:{line} {word}" for line, text in sorted(texts) for word in find_mannerisms(text)]


def code_names(modules: Iterable[Module]) -> set[str]:
    """Return the names of classes, built-in ones included, and all other names that modules use."""
    names = set(dir(builtins))
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).rpartition(".")[2])
            elif isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
    return names


def unknown_names(module: Module, known: set[str]) -> list[str]:
    """Return each name of a class in docstrings and comments that does not exist."""
    found = []
    for line, text in [*docstring_texts(module), *comment_texts(module)]:
        names = {name for claim in CLAIM.findall(text) for name in re.findall(r"[A-Z]\w+", claim)}
        names |= {word for word in CODE_WORD.findall(re.sub(r"https?://\S+", "", text)) if word not in PROPER_NAMES}
        found += [f"{module.name}:{line} {name}" for name in sorted(names - known)]
    return found


def test_texts_of_the_source_are_plain_english() -> None:
    found = [place for module in MODULES if not is_inside(module, DATA) for place in mannered(module)]
    assert found == []


def test_names_of_classes_in_docstrings_and_comments_exist() -> None:
    known = code_names(MODULES)
    assert [place for module in MODULES for place in unknown_names(module, known)] == []


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError("nobody was told of it")',
        'message = f"what stands at {venue} is not known"',
        '"""Whoever asks waits."""',
        "x = 1  # what came of it",
        'log.info("settled 2 doubts")',
        '"""Implements the port Clock."""',
        'text = "the order may leave."',
    ],
)
def test_a_mannerism_in_a_text_is_found(source: str) -> None:
    assert len(mannered(Module(name="bot.x", text=source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        'kind = "doubt"',
        '"""Return ``told`` as it is."""',
        'query = "select seat from told where till > 1"',
        'text = "the intent is in doubt, and the two cannot be told apart"',
        'text = "connect to the port of the server"',
    ],
)
def test_code_and_plain_words_are_free(source: str) -> None:
    assert mannered(Module(name="bot.x", text=source)) == []


def test_every_mannerism_has_its_plain_english() -> None:
    assert all(PLAIN_ENGLISH.values())
    assert all(re.compile(pattern) for pattern in PLAIN_ENGLISH)


def test_a_name_of_a_missing_class_is_found() -> None:
    text = '"""Return it; raises ValueError, Unheard or TypeError, as a LostThing does."""'
    known = code_names([])
    assert unknown_names(Module(name="bot.x", text=text), known) == ["bot.x:1 LostThing", "bot.x:1 Unheard"]
