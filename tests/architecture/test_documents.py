"""The documents are short, in plain words, and name only what exists: pages, commands, settings, files and classes."""

import builtins
import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.main import get_command

import bot.api
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_plugin_command
from bot.cli.main import COMMANDS, app
from bot.cli.question_file import read_question
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.config.venue_schema import BankrollSection, CapsSection
from bot.jobs.privileged_requests import MAX_ARMED_TIME
from bot.plugin_system.registry import Registry, load_registry
from tests.architecture.mannerisms import find_mannerisms
from tests.architecture.pages import DocumentPage, broken_link, load_pages, missing_name
from tests.architecture.source import ROOT

README_LINES, PAGE_LINES, TUTORIAL_LINES = 200, 250, 300
PAGES = load_pages(ROOT)
BY_PATH = {page.path: page for page in PAGES}
MODULE_PATH = re.compile(r"(?:bot|plugins|tests)/[\w./-]+")
DOTTED_NAME = re.compile(r"bot\.[a-z_]+(?:\.\w+)*")
# Pages that show settings by name.
USER_PAGES = tuple(
    page
    for page in PAGES
    if page.path.stem in {"README", "venues", "models", "forecasters", "going-live", "operations"}
)
# What plugins add, for commands and settings that come with them.
PLUGINS = (
    "plugins = ['forecastbench', 'manifold', 'polymarket', 'metaculus', 'baseline', 'blf', 'society', 'team', 'solo', "
    "'orchestra', 'blend', 'litellm', 'openai_compatible', 'terminal', 'brave', 'fred', 'yahoo', 'dbnomics']\n"
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """The plugins that the documents speak of."""
    return load_registry(load_config(plugin_config(tmp_path_factory.mktemp("documents")), {}))


def plugin_config(folder: Path, text: str = "") -> Path:
    path = folder / "config.toml"
    path.write_text((PLUGINS if "plugins = " not in text else "") + text)
    return path


def test_readme_is_read_in_ten_minutes_and_each_page_in_one_sitting() -> None:
    lines = {page.name: len(page.text.splitlines()) for page in PAGES}
    assert lines.pop("README.md") <= README_LINES
    # Pages to look things up in, which `make docs` writes.
    assert {lines.pop(f"docs/{name}.md") > PAGE_LINES for name in ("settings", "commands")} == {True}
    most = {"docs/venue-tutorial.md": TUTORIAL_LINES, "docs/venue-tutorial-orders.md": TUTORIAL_LINES}
    assert {name: count for name, count in lines.items() if count > most.get(name, PAGE_LINES)} == {}


def test_every_link_leads_somewhere() -> None:
    faults = [broken_link(page, link, BY_PATH) for page in PAGES for link in page.links]
    assert len(faults) > 50
    assert [fault for fault in faults if fault is not None] == []


def test_a_broken_link_is_found() -> None:
    page = PAGES[0]
    assert broken_link(page, "docs/nowhere.md", BY_PATH) == "README.md: docs/nowhere.md does not exist"
    assert broken_link(page, "docs/venues.md#nothing", BY_PATH) is not None
    assert broken_link(page, "docs/venues.md#manifold", BY_PATH) is None


def test_every_page_is_reached_from_readme() -> None:
    linked = {(page.path.parent / link.partition("#")[0]).resolve() for page in PAGES for link in page.links}
    assert [page.name for page in PAGES[1:] if page.path not in linked and page.name != "docs/README.md"] == []


def test_no_page_has_mannerisms() -> None:
    found = {page.name: find_mannerisms(page.prose) for page in PAGES}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("text", ["It was told so.", "Take back leave to submit.", "what came of it", "it goes on"])
def test_a_mannerism_is_found(text: str) -> None:
    assert find_mannerisms(text)


def test_decisions_are_sorted_with_the_newest_first() -> None:
    (page,) = [page for page in PAGES if page.name == "docs/decisions.md"]
    days = [date.fromisoformat(day) for day in re.findall(r"^## (\S+)$", page.prose, re.MULTILINE)]
    assert len(days) > 2
    assert days == sorted(set(days), reverse=True)


def test_every_file_that_is_named_exists() -> None:
    named = [(page.name, path) for page in PAGES for code in page.code for path in MODULE_PATH.findall(code)]
    assert len(named) > 30
    assert [one for one in named if not (ROOT / one[1]).exists()] == []


def test_every_name_of_the_engine_exists() -> None:
    named = {(page.name, name) for page in PAGES for code in page.code for name in DOTTED_NAME.findall(code)}
    assert len(named) > 80
    assert [one for one in sorted(named) if missing_name(ROOT, one[1])] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    assert missing_name(ROOT, "bot.core.questions.Riddle")
    assert missing_name(ROOT, "bot.kitchen")
    assert not missing_name(ROOT, "bot.core.questions.Question")


def test_architecture_names_every_room() -> None:
    (page,) = [page for page in PAGES if page.name == "docs/architecture.md"]
    rooms = {f"bot/{path.name}" for path in (ROOT / "bot").iterdir() if (path / "__init__.py").exists()}
    assert rooms - set(re.findall(r"^\| `(bot/\w+)` \|", page.prose, re.MULTILINE)) == set()


def test_the_page_about_plugins_names_classes_of_the_api() -> None:
    (page,) = [page for page in PAGES if page.name == "docs/writing-a-plugin.md"]
    kits = "".join(path.read_text("utf-8") for path in (ROOT / "bot" / "testing").glob("*_contract*.py"))
    named = {name for code in page.code for name in re.findall(r"^([A-Z][a-z]+[A-Z]\w+)(?:\.|$)", code)}
    assert len(named) > 25
    unknown = {name for name in named if not hasattr(bot.api, name) and not hasattr(builtins, name)}
    assert {name for name in unknown - {"SecretStr"} if f"class {name}" not in kits} == set()


def shown_commands(page: DocumentPage, program: str) -> Iterator[list[str]]:
    """Yield what a page shows of a program, as words without the program's name."""
    lines = [line.removeprefix("$ ") for block in page.blocks("console") for line in block.splitlines()]
    for text in [*(line for line in lines if line.startswith(program)), *page.code]:
        if text.startswith(f"{program} "):
            yield shlex.split(text.split("  #")[0].split("  ")[0].replace('..."', '"'))[1:]


def shown_command(name: str, config: Path) -> Any:
    """Return the command of that name, of the program or of a plugin; None where there is none."""
    if name in COMMANDS:
        entry = COMMANDS[name]
        return get_command(getattr(importlib.import_module(entry.module), entry.app))
    plugin_command = load_plugin_command(config, name)
    return None if plugin_command is None else get_command(plugin_command)


def unknown_parts(words: list[str], config: Path) -> list[str]:
    """Return the parts of a command that the program does not know: its name, a subcommand's, or options."""
    group = get_command(app)
    options = {option for parameter in group.params for option in parameter.opts}
    while words and words[0].startswith("--"):
        name, *words = words
        if name not in options:
            return [name]
        words = words[1:] if name == "--config" else words
    if not words or words[0].isupper() or words[0].startswith("<"):
        return []
    command = shown_command(words[0], config)
    if command is None:
        return [words[0]]
    words = words[1:]
    options |= {option for parameter in command.params for option in parameter.opts}
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        inner = command.commands.get(words[0])
        if inner is None:
            return [words[0]]
        command, words = inner, words[1:]
        options |= {option for parameter in command.params for option in parameter.opts}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]


def test_every_command_that_is_shown_exists_with_its_options(tmp_path: Path) -> None:
    config = plugin_config(tmp_path)
    shown = [(page.name, words) for page in PAGES for words in shown_commands(page, "foxcast")]
    assert len(shown) > 80
    assert [(name, words) for name, words in shown if unknown_parts(words, config)] == []


@pytest.mark.parametrize(
    "text", ["run --twice", "dance", "db drop", "--confic my.toml run", "lab kitchen", "court --loud", "audit shew"]
)
def test_an_unknown_command_is_found(text: str, tmp_path: Path) -> None:
    assert len(unknown_parts(text.split(), plugin_config(tmp_path))) == 1


def test_every_make_target_that_is_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {words[0] for page in PAGES for words in shown_commands(page, "make")}
    assert len(shown) > 8
    assert shown - targets == set()


def config_blocks() -> list[Any]:
    """Return the TOML blocks that are configurations, each with the page that shows it."""
    # Other pages configure plugins that a reader writes; tests of their own execute them.
    written = {f"docs/{name}.md" for name in ("writing-a-plugin", "venue-tutorial", "venue-tutorial-orders")}
    pages = [page for page in PAGES if page.name not in written]
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in pages
        for number, block in enumerate(page.blocks("toml"))
        if not block.startswith("title")
    ]


@pytest.mark.parametrize("block", config_blocks())
def test_every_block_of_settings_is_a_configuration(block: str, tmp_path: Path) -> None:
    token = tmp_path / "metaculus.token"
    token.write_text("0123456789abcdef0123456789abcdef01234567")
    token.chmod(0o600)
    config = load_config(plugin_config(tmp_path, block), {})
    registry = load_registry(config)
    assert registry.broken == ()
    for name in config.venues:
        load_plugin_settings(registry.venues[name], config)
    for name in config.models:
        load_plugin_settings(registry.models[name], config)


def test_the_question_file_that_is_shown_is_one(tmp_path: Path) -> None:
    (block,) = [block for page in PAGES for block in page.blocks("toml") if block.startswith("title")]
    path = tmp_path / "question.toml"
    path.write_text(block)
    question = read_question(path, now=datetime(2026, 11, 1, tzinfo=UTC))
    assert str(question.ref) == "file:paris-rain"


def known_keys(registry: Registry) -> set[str]:
    """Return every key of config.toml, and of the settings of the plugins that the documents speak of."""
    shelves = (registry.venues, registry.forecasters, registry.models)
    specs = [shelf[name] for shelf in shelves for name in shelf.names]
    models: list[type[BaseModel]] = [Config, *(spec.settings for spec in specs)]
    keys: set[str] = set()
    seen: set[type[BaseModel]] = set()
    while models:
        model = models.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            keys.add(name)
            models += [kind for kind in _nested(field.annotation) if issubclass(kind, BaseModel)]
    return keys


def _nested(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _nested(part)


def test_every_setting_that_is_named_exists(registry: Registry) -> None:
    keys = known_keys(registry) | {"plugins", "uses"}
    text = r"^([a-z_]+) = "
    named = {(page.name, key) for page in USER_PAGES for code in page.code for key in re.findall(text, code)}
    assert len(named) > 12
    files = ("_file", "_keyring")
    assert [one for one in sorted(named) if one[1] not in keys and not one[1].endswith(files)] == []


def test_every_variable_that_is_named_is_a_setting(registry: Registry) -> None:
    keys = known_keys(registry)
    variable = r"FOXCAST_(\w+)"
    named = {name for page in PAGES for name in re.findall(variable, page.text)}
    assert len(named) > 6
    single = {"TOKEN", "CONFIG"}
    free = {"MANIFOLD", "FORECASTBENCH", "LITELLM", "BRAVE", "FRED", "EMBER", "GEMINI", "SETTINGS", "WEBHOOK"}
    parts = {(name, part) for name in named - single for part in name.split("__")}
    known = {key.upper() for key in keys} | free | {"KEY", "URL", "WEIGHT"}
    assert [one for one in sorted(parts) if one[1] not in known] == []


def test_planted_bugs_and_violations_are_as_many_as_the_page_says() -> None:
    from tests.simulation.full_system.mutants import MUTANTS

    (page,) = [page for page in PAGES if page.name == "docs/simulation.md"]
    assert set(MUTANTS) <= set(page.code)
    assert f"{len(MUTANTS)} bugs are planted" in page.prose
    assert f"{len(MUTANTS)} bugs are planted" in PAGES[0].prose
    found = tomllib.loads((ROOT / "tests" / "violations.toml").read_text("utf-8"))["found"]
    own = [one for one in found if not one.get("observer", False)]
    mended = sum(bool(one["mended"]) for one in own)
    assert f"| Violations | {mended} found and corrected, {len(own) - mended} known" in page.prose


def page_text(name: str) -> str:
    (page,) = [page for page in PAGES if page.name == name]
    return " ".join(page.text.split())


def test_exit_codes_are_those_of_the_program() -> None:
    codes = re.findall(r"\| (\d+) \|", page_text("docs/operations.md"))
    assert [int(code) for code in codes] == [code.value for code in ExitCode]


def test_figures_that_pages_state_are_those_of_the_program(registry: Registry) -> None:
    venues, live = page_text("docs/venues.md"), page_text("docs/going-live.md")
    manifold = registry.venues["manifold"]
    most = max(rate.count for rate in manifold.rates(manifold.settings()))
    assert f"within {most} requests a minute" in venues
    pause = registry.venues["metaculus"].discover_every
    assert pause is not None
    assert f"looked for every {pause.total_seconds():.0f} seconds" in venues
    assert f"lasts {MAX_ARMED_TIME.days} days at most" in live
    caps, shares = CapsSection(), BankrollSection()
    assert f"more than `unknown_writes` writes ({caps.unknown_writes}, in" in live
    assert (shares.per_pass, shares.per_question) == (0.1, 0.05)
    assert "a tenth per pass, a twentieth per question" in live
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.findall(r"--fail-under=(\d+)", makefile) == ["97", "97"]
    assert "holds `bot` and `plugins` to 97 %" in page_text("README.md")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    assert f"Python {needed.removeprefix('>=')} or newer" in page_text("README.md")
