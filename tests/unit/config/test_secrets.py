"""Secrets in the keyring of the desktop, read through the real library with backends of its own."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import Field, SecretStr

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings, settings_key
from bot.config.settings_report import list_origins
from bot.core.errors import ConfigError
from bot.core.interfaces import Forecaster
from bot.core.plugin_specs import ForecasterSpec, PluginContext, PluginSettings
from bot.core.redaction import REDACTION_MARK, redact_known_secrets

HUSH = "hush-hush-and-more"


class OracleSettings(PluginSettings):
    token: SecretStr = SecretStr("")
    keys: dict[str, SecretStr] = Field(default_factory=dict)


def open_oracle(settings: PluginSettings, workplace: PluginContext) -> AbstractAsyncContextManager[Forecaster]:
    raise AssertionError


SPEC = ForecasterSpec(name="oracle", summary="Knows", settings=OracleSettings, open=open_oracle)
Read = Callable[..., Any]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def settings(toml: str, **variables: str) -> OracleSettings:
        file = tmp_path / "config.toml"
        file.write_text(f"[forecasters.oracle.settings]\n{toml}\n")
        named = {f"FOXCAST_FORECASTERS__ORACLE__SETTINGS__{name}": value for name, value in variables.items()}
        return load_plugin_settings(SPEC, load_config(file, named))

    return settings


@pytest.fixture
def library() -> Iterator[ModuleType]:
    keyring = pytest.importorskip("keyring", reason="the extra keyring is not installed")
    before = keyring.get_keyring()
    yield keyring
    keyring.set_keyring(before)


@pytest.fixture
def held(library: ModuleType) -> dict[tuple[str, str], str]:
    """What a keyring in memory holds by service and name; it is the one in use."""
    kept: dict[tuple[str, str], str] = {}
    backend = pytest.importorskip("keyring.backend")

    class Memory(backend.KeyringBackend):  # type: ignore[misc, name-defined]  # the library is optional
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            kept[service, username] = password

    library.set_keyring(Memory())
    return kept


def test_a_secret_may_come_from_the_keyring_and_is_known_as_one(read: Read, held: dict[tuple[str, str], str]) -> None:
    held["foxcast", "oracle"] = f"{HUSH}\n"
    held["foxcast/eu", "front"] = "another-one-of-them"
    settings = read('token_keyring = "foxcast/oracle"\nkeys.front_keyring = "foxcast/eu/front"')
    assert settings.token.get_secret_value() == HUSH
    assert settings.keys["front"].get_secret_value() == "another-one-of-them"
    assert read("", TOKEN_KEYRING="foxcast/oracle").token.get_secret_value() == HUSH  # noqa: S106 - a name
    assert redact_known_secrets(f"x {HUSH}") == f"x {REDACTION_MARK}"


def test_config_show_names_the_line_of_the_keyring_and_masks_the_value(
    read: Read, held: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    held["foxcast", "oracle"] = HUSH
    settings = read('token_keyring = "foxcast/oracle"')
    config = load_config(tmp_path / "config.toml", {})
    [row] = [one for one in list_origins(config, {settings_key(SPEC): settings}) if one.key.endswith(".token")]
    assert row.source.endswith("config.toml:2")
    assert HUSH not in row.value


def test_a_name_that_the_keyring_does_not_have_is_told_with_the_command_that_adds_it(
    read: Read, held: dict[tuple[str, str], str]
) -> None:
    held["foxcast", "other"] = HUSH
    with pytest.raises(ConfigError, match="has no such entry; run: keyring set foxcast oracle"):
        read('token_keyring = "foxcast/oracle"')


def test_a_machine_without_a_keyring_is_told_of_the_other_ways(read: Read, library: ModuleType) -> None:
    fail = pytest.importorskip("keyring.backends.fail")
    library.set_keyring(fail.Keyring())
    with pytest.raises(ConfigError, match=r"token_keyring: there is no keyring here.*a file that only you can read"):
        read('token_keyring = "foxcast/oracle"')


def test_the_null_backend_has_nothing(read: Read, library: ModuleType) -> None:
    null = pytest.importorskip("keyring.backends.null")
    library.set_keyring(null.Keyring())
    with pytest.raises(ConfigError, match="has no such entry"):
        read('token_keyring = "foxcast/oracle"')


def test_a_backend_that_breaks_is_told_by_the_kind_of_its_error_alone(read: Read, library: ModuleType) -> None:
    backend = pytest.importorskip("keyring.backend")

    class Broken(backend.KeyringBackend):  # type: ignore[misc, name-defined]  # as above
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            raise RuntimeError(HUSH)

        def set_password(self, service: str, username: str, password: str) -> None:
            raise RuntimeError(HUSH)

    library.set_keyring(Broken())
    with pytest.raises(ConfigError, match=r"failed \(RuntimeError\); unlock it") as caught:
        read('token_keyring = "foxcast/oracle"')
    assert HUSH not in str(caught.value)


def test_without_the_package_the_extra_is_named(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(
        ConfigError, match=r"token_keyring: needs the package keyring: pip install 'foxcast\[keyring\]'"
    ):
        read('token_keyring = "foxcast/oracle"')


@pytest.mark.parametrize("place", ["oracle", "/oracle", "foxcast/", ""])
def test_a_place_without_two_names_is_refused(read: Read, place: str) -> None:
    with pytest.raises(ConfigError, match='token_keyring: should be "SERVICE/NAME"'):
        read(f'token_keyring = "{place}"')


def test_a_secret_from_two_places_is_refused(read: Read, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(HUSH)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="is set twice, also by token_keyring; keep one of them"):
        read('token_file = "token"\ntoken_keyring = "foxcast/oracle"')
    with pytest.raises(ConfigError, match="is set twice, also by token_keyring; keep one of them"):
        read('token_keyring = "foxcast/oracle"', TOKEN=HUSH)
