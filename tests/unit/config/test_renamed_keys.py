"""Old names of settings are refused with the new ones, wherever they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings, restore_settings
from bot.config.schema import Config
from bot.config.settings_report import describe_settings, find_setting, parse_key
from bot.config.validation import RENAMED_KEYS
from bot.core.errors import ConfigError
from bot.core.plugin_specs import PluginSettings, PluginTableName
from bot.plugin_system.registry import Registry
from plugins.polymarket.settings import PolymarketSettings
from tests.reference_pages import enable_all_plugins

# All plugins are imported.
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return enable_all_plugins()


def subclasses(kind: type[PluginSettings]) -> Iterator[type[PluginSettings]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def refusal(folder: Path, text: str, **environ: str) -> str:
    (folder / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(folder / "config.toml", environ)
    return str(caught.value)


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_an_old_key_of_the_engine_is_gone_and_the_new_one_is_there(old: str, new: str) -> None:
    known = describe_settings(Config)
    assert find_setting(known, parse_key(old)) is None
    assert find_setting(known, (*parse_key(old)[:-1], new)) is not None


def test_old_keys_of_plugins_are_gone_and_the_new_ones_are_there(registry: Registry) -> None:
    assert len(registry.venues) > 2
    ours = [kind for kind in subclasses(PluginSettings) if kind.__module__.startswith("plugins.")]
    renaming = [kind for kind in ours if "renamed_keys" in vars(kind)]
    assert len(renaming) > 8
    for kind in renaming:
        assert kind.renamed_keys.keys() & kind.model_fields.keys() == set()
        assert {*kind.renamed_keys.values()} <= kind.model_fields.keys()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[daemon]\nattend_every_s = 5\n", 2, "daemon.attend_every_s: is now requests_every_s"),
        ("[desk]\nresults = 5\n", 1, "desk: is now research"),
        ('[venues.x]\nforecasters = ["y"]\ncaps = {doubts = 1}\n', 3, "venues.x.caps.doubts: is now unknown_writes"),
        ("[llm.health]\n\nhalf = 0.1", 3, "llm.health.half: is now even_answers"),
    ],
)
def test_an_old_key_in_the_file_is_refused_with_the_new_one_and_the_remedy(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    file = tmp_path / "config.toml"
    assert refusal(tmp_path, text) == f"{file}:{line}: {words}; `foxcast config upgrade {file}` rewrites the file"


def test_an_old_name_of_a_variable_is_refused_with_the_new_one(tmp_path: Path) -> None:
    said = refusal(tmp_path, "", FOXCAST_DAEMON__ATTEND_EVERY_S="5", FOXCAST_DESK__RESULTS="3")
    assert said.splitlines() == [
        "env FOXCAST_DAEMON__ATTEND_EVERY_S: is now FOXCAST_DAEMON__REQUESTS_EVERY_S",
        "env FOXCAST_DESK__RESULTS: is now FOXCAST_RESEARCH__RESULTS",
    ]


def plugin_refusal(folder: Path, registry: Registry, key: tuple[str, str], text: str, **environ: str) -> str:
    (folder / "config.toml").write_text(text)
    spec = registry.specs_of_table(PluginTableName(key[0]))[key[1]]
    with pytest.raises(ConfigError) as caught:
        load_plugin_settings(spec, load_config(folder / "config.toml", environ))
    return str(caught.value)


def test_an_old_key_of_a_plugin_is_refused_with_the_new_one(tmp_path: Path, registry: Registry) -> None:
    text = '[venues.polymarket]\nforecasters = ["x"]\n[venues.polymarket.settings]\nmost_pages = 3\n'
    said = plugin_refusal(tmp_path, registry, ("venues", "polymarket"), text)
    assert "config.toml:4: venues.polymarket.settings.most_pages: is now max_pages; `foxcast config upgrade" in said
    variable = "FOXCAST_VENUES__POLYMARKET__SETTINGS__MOST_PAGES"
    said = plugin_refusal(
        tmp_path, registry, ("venues", "polymarket"), text.partition("[venues.polymarket.s")[0], **{variable: "3"}
    )
    assert said == f"env {variable}: is now FOXCAST_VENUES__POLYMARKET__SETTINGS__MAX_PAGES"


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (
            ("forecasters", "team"),
            '[forecasters.team.settings]\ngoals = [{name = "a", ask = "b", words = "c"}]\n',
            "forecasters.team.settings.goals[0].words: is now search_words",
        ),
        (
            ("models", "openai_compatible"),
            '[models.openai_compatible.settings.endpoints.x]\nbase_url = "http://127.0.0.1"\nnotices_cuts = true\n',
            "models.openai_compatible.settings.endpoints.x.notices_cuts: is now detect_cut_prompts",
        ),
    ],
)
def test_an_old_key_inside_lists_and_tables_of_a_plugin_is_refused(
    tmp_path: Path, registry: Registry, key: tuple[str, str], text: str, words: str
) -> None:
    assert words in plugin_refusal(tmp_path, registry, key, text)


def test_settings_on_record_under_an_old_name_are_read(registry: Registry) -> None:
    plain: dict[str, Any] = {"most_pages": 3, "tags": ["politics"]}
    settings = restore_settings(registry.venues["polymarket"], Config(), plain)
    assert isinstance(settings, PolymarketSettings)
    assert (settings.max_pages, settings.tags) == (3, ("politics",))
