"""The direction of imports: the tables below are the design, the tests hold the code to them."""

import pytest

from tests.architecture.rules import cycles, forbidden_imports, strays, unplaced, upward_imports
from tests.architecture.source import ROOT, Module, load

# From low to high; a module imports its own component and lower layers, never its own layer or a higher one.
LAYERS = (
    ("bot.core",),
    ("bot.config", "bot.net", "bot.stats"),
    ("bot.plugin_system", "bot.store"),
    ("bot.llm",),
    ("bot.execution", "bot.forecasting"),
    ("bot.evaluation", "bot.jobs"),
    ("bot.alerts",),
    ("bot.api", "bot.app", "bot.daemon"),
    ("bot.web",),
    ("bot.cli",),
)
# The package itself is a docstring; test kit and simulator may use everything and nothing of bot may use them.
OUTSIDE_LAYERS = {"bot", "bot.testing", "bot.simulator"}

BOT = load(ROOT, "bot")
PLUGINS = load(ROOT, "plugins")
ENGINE = [module for module in BOT if module.component not in OUTSIDE_LAYERS]
API = [module for module in ENGINE if module.component == "bot.api"]


def test_every_component_of_bot_has_a_layer() -> None:
    assert unplaced(ENGINE, LAYERS) == []


def test_bot_imports_point_to_lower_layers() -> None:
    assert upward_imports(ENGINE, LAYERS) == []


def test_bot_imports_neither_plugins_nor_tests_nor_the_test_kit_nor_the_api_for_plugins() -> None:
    assert forbidden_imports(ENGINE, ("plugins", "tests", "bot.testing", "bot.simulator")) == []
    assert forbidden_imports([module for module in ENGINE if module not in API], ("bot.api",)) == []


def test_the_test_kit_imports_neither_plugins_nor_tests() -> None:
    assert forbidden_imports([module for module in BOT if module not in ENGINE], ("plugins", "tests")) == []


def test_a_plugin_imports_only_the_api_and_itself() -> None:
    assert strays(PLUGINS, homes=("bot", "plugins", "tests"), allowed=("bot.api",)) == []


def test_there_is_no_import_cycle() -> None:
    assert cycles([*BOT, *PLUGINS]) == []


def test_the_package_bot_is_a_docstring() -> None:
    (package,) = [module for module in BOT if module.name == "bot"]
    assert len(package.tree.body) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import bot.app.app",
        "from bot.app.app import app",
        "from bot.app.app import open_app",
        "def late():\n    from bot.app.app import open_app",
        "if TYPE_CHECKING:\n    from bot.app.app import FoxcastApp",
        "import bot.forecasting",
    ],
)
def test_an_upward_or_sideways_import_is_found(source: str) -> None:
    assert len(upward_imports([Module(name="bot.execution.gate.caps", text=source)], LAYERS)) == 1


@pytest.mark.parametrize(
    "source", ["import bot.execution.gate.arm", "from bot.core.beliefs import Belief", "import json"]
)
def test_a_downward_or_inner_import_is_allowed(source: str) -> None:
    assert upward_imports([Module(name="bot.execution.gate.caps", text=source)], LAYERS) == []


def test_a_component_without_a_layer_is_found() -> None:
    assert unplaced([Module(name="bot.helpers.text", text="")], LAYERS) == ["bot.helpers"]


@pytest.mark.parametrize("source", ["import plugins", "from plugins.blf import prompts", "from tests import conftest"])
def test_a_forbidden_import_is_found(source: str) -> None:
    assert len(forbidden_imports([Module(name="bot.app.app", text=source)], ("plugins", "tests"))) == 1


@pytest.mark.parametrize("source", ["import plugins.society", "from bot.core import beliefs", "from bot import apiary"])
def test_a_stray_import_of_a_plugin_is_found(source: str) -> None:
    planted = Module(name="plugins.blf.prompts", text=source)
    assert len(strays([planted], homes=("bot", "plugins"), allowed=("bot.api",))) == 1


# The modules of the referee of the simulation, which import each other and nothing else of the project.
REFEREE = ("account_values", "effect_rules", "loss_referee", "referee", "referee_facts")


@pytest.mark.parametrize("source", ["from bot.api import Belief", "from plugins.blf import prompts", "import numpy"])
def test_a_plugin_may_use_the_api_itself_and_libraries(source: str) -> None:
    planted = Module(name="plugins.blf.forecaster", text=source)
    assert strays([planted], homes=("bot", "plugins"), allowed=("bot.api",)) == []


def test_a_cycle_through_a_late_import_is_found() -> None:
    first = Module(name="bot.a", text="from bot.b import thing")
    second = Module(name="bot.b", text="def late():\n    import bot.c")
    third = Module(name="bot.c", text="from bot import a")
    assert len(cycles([first, second, third])) == 1
    assert cycles([first, second]) == []


def test_the_referee_of_the_simulation_shares_no_code_with_what_it_judges() -> None:
    names = {f"tests.simulation.full_system.{name}" for name in REFEREE}
    parts = [one for one in load(ROOT, "tests") if one.name in names]
    found = forbidden_imports(parts, ("bot", "plugins", "tests"))
    assert len(parts) == len(names)
    assert [one for one in found if not any(f" imports {name}." in one for name in names)] == []
