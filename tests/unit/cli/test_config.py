"""Which secrets are given: named with their variables, and never shown."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.cli.config import PluginSecret, list_plugin_secrets
from bot.config.loader import load_config
from bot.plugin_system.registry import load_registry

NOT_SHOWN = "nobody-may-see-this"
CONFIG = """
plugins = ["tavily", "fred", "litellm", "openai_compatible", "baseline"]

[llm.roles.main]
model = "litellm:gemini/some-model"
fallback = "openai_compatible:local/small"

[models.openai_compatible.settings.endpoints.local]
base_url = "http://127.0.0.1:9/v1"

[models.openai_compatible.settings.endpoints.other]
base_url = "http://127.0.0.1:9/v1"

[data.fred.settings]
key_file = "fred.key"
"""
TAVILY = "FOXCAST_SEARCH__TAVILY__SETTINGS__KEY"
GEMINI = "FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__GEMINI"


def told(folder: Path, text: str = CONFIG, **environ: str) -> dict[str, PluginSecret]:
    file = folder / "config.toml"
    file.write_text(text)
    config = load_config(file, environ)
    with capture_logs():
        return {secret.variable: secret for secret in list_plugin_secrets(config, load_registry(config))}


def test_every_secret_of_an_enabled_plugin_is_named_with_its_variable(tmp_path: Path) -> None:
    endpoints = "FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS"
    assert told(tmp_path).keys() == {
        TAVILY,
        "FOXCAST_DATA__FRED__SETTINGS__KEY",
        # No key is in config: the model of a role names the provider.
        GEMINI,
        f"{endpoints}__LOCAL__API_KEY",
        f"{endpoints}__OTHER__API_KEY",
    }


def test_what_is_set_says_how_and_what_is_missing_whether_it_is_needed(tmp_path: Path) -> None:
    secrets = told(tmp_path, **{GEMINI: NOT_SHOWN})
    assert secrets[GEMINI].state == "set"
    assert secrets[TAVILY].state == "not set, and needed"
    assert secrets["FOXCAST_DATA__FRED__SETTINGS__KEY"].state == f"set, by {tmp_path / 'config.toml'}:15"
    assert secrets["FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__LOCAL__API_KEY"].state == "not set"
    assert NOT_SHOWN not in str(secrets)


def test_a_file_may_be_named_by_a_variable_and_an_empty_variable_gives_nothing(tmp_path: Path) -> None:
    file = f"{TAVILY}_FILE"
    assert told(tmp_path, **{file: "key"})[TAVILY].state == f"set, by env {file}"
    assert told(tmp_path, **{TAVILY: " "})[TAVILY].state == "not set, and needed"


def test_a_file_is_named_for_a_secret_inside_a_table_too(tmp_path: Path) -> None:
    place = '"http://127.0.0.1:9/v1"\n'
    text = CONFIG.replace(place, f'{place}api_key_file = "local.key"\n', 1)
    secrets = told(tmp_path, text, **{f"{GEMINI}_FILE": "gemini.key"})
    local = secrets["FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__LOCAL__API_KEY"]
    assert local.state == f"set, by {tmp_path / 'config.toml'}:10"
    assert secrets[GEMINI].state == f"set, by env {GEMINI}_FILE"
    assert not [name for name in secrets if name.endswith("_FILE")]


@pytest.mark.parametrize("plugins", ['["baseline"]', "[]"])
def test_plugins_without_secrets_have_none(tmp_path: Path, plugins: str) -> None:
    assert told(tmp_path, f"plugins = {plugins}\n") == {}
