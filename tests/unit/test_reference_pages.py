"""docs/settings.md and docs/commands.md are what `make docs` writes, and every setting is described."""

import re
from collections.abc import Sequence

import pytest

from bot.cli.main import COMMANDS
from bot.config.settings_report import SettingDescription
from bot.forecasting.question_admission import MAX_PLACES
from bot.plugin_system.registry import Registry
from tests.reference_pages import DOCS, commands_page, describe_all_settings, enable_all_plugins, settings_page

# All plugins are imported.
pytestmark = pytest.mark.timeout(120)

MAX_DESCRIPTION_CHARS = 220


@pytest.fixture(scope="module")
def registry() -> Registry:
    return enable_all_plugins()


@pytest.fixture(scope="module")
def settings(registry: Registry) -> Sequence[SettingDescription]:
    return [setting for _, settings in describe_all_settings(registry) for setting in settings]


def test_every_setting_has_a_description(settings: Sequence[SettingDescription]) -> None:
    assert [setting.name for setting in settings if not setting.description] == []
    assert len(settings) > 400


def test_a_description_is_a_short_text(settings: Sequence[SettingDescription]) -> None:
    texts = {setting.name: setting.description for setting in settings}
    assert [name for name, text in texts.items() if len(text) > MAX_DESCRIPTION_CHARS] == []


def test_the_limit_of_questions_under_way_is_named(settings: Sequence[SettingDescription]) -> None:
    (text,) = [setting.description for setting in settings if setting.name == "daemon.concurrency"]
    assert text.endswith(f"up to {MAX_PLACES:,}.")


def test_a_setting_that_may_be_unset_says_what_that_means(settings: Sequence[SettingDescription]) -> None:
    optional = [setting for setting in settings if setting.default == "unset"]
    assert [setting.name for setting in optional if "unset:" not in setting.description.lower()] == []
    assert len(optional) > 40


def test_the_page_of_settings_is_up_to_date(registry: Registry) -> None:
    assert (DOCS / "settings.md").read_text() == settings_page(registry), "run: make docs"


def test_the_page_of_commands_is_up_to_date(registry: Registry) -> None:
    assert (DOCS / "commands.md").read_text() == commands_page(registry), "run: make docs"


def test_the_page_of_commands_names_every_command(registry: Registry) -> None:
    page = commands_page(registry)
    expected = [*(f"## foxcast {name}\n" for name in COMMANDS), "## foxcast orders show\n", "## foxcast court\n"]
    assert [line for line in expected if line not in page] == []


def test_no_help_text_has_brackets_that_the_terminal_takes_for_markup(registry: Registry) -> None:
    texts = re.findall(r"(?<![\\\w])\[([a-z_.]+)\](?!\()", commands_page(registry))
    # The library behind the texts adds this one, and shows it.
    assert {*texts} <= {"required"}
