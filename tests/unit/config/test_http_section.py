"""The proxy in config: which addresses are taken, and that its password is shown nowhere."""

from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.config.schema import Config
from bot.config.settings_report import list_origins
from bot.core.errors import ConfigError
from bot.core.proxy_settings import ProxySettings
from bot.core.redaction import redact_known_secrets, temporary_secrets

PASSWORD = "tell-tale-77"  # noqa: S105 - of a test


def loaded(folder: Path, text: str, **variables: str) -> Config:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, variables)


def test_by_default_there_is_no_proxy_and_the_environment_does_not_count(tmp_path: Path) -> None:
    assert loaded(tmp_path, "", HTTPS_PROXY="http://127.0.0.1:9").http.proxies == ProxySettings()


@pytest.mark.parametrize(
    "proxy", ["http://proxy.test", "http://proxy.test:3128/", "https://[::1]:3128", "http://fox:secret@10.0.0.1:3128"]
)
def test_a_proxy_is_named_in_the_file_or_by_a_variable(proxy: str, tmp_path: Path) -> None:
    named = ProxySettings(url=proxy)
    assert loaded(tmp_path, f'[http]\nproxy = "{proxy}"\n').http.proxies == named
    assert loaded(tmp_path, "", FOXCAST_HTTP__PROXY=proxy).http.proxies == named


@pytest.mark.parametrize(
    "proxy",
    [
        "proxy.test:3128",
        f"socks5://fox:{PASSWORD}@proxy.test:1080",
        f"http://fox:{PASSWORD}@",
        f"http://fox:{PASSWORD}@proxy.test:99999",
        f"http://fox:{PASSWORD}@proxy.test:0",
        f"http://fox:{PASSWORD}@proxy.test/path",
        f"http://fox:{PASSWORD}@proxy.test?x=1",
        f"http://fox:{PASSWORD}@[::1",
        f"http://fox:{PASSWORD}@proxy.test:3128 ",
        "http://fox@proxy.test:3128",
    ],
)
def test_what_is_no_proxy_is_refused_without_its_password(proxy: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"config.toml:2: http.proxy: should (be the address of an HTTP|have)"
    ) as caught:
        loaded(tmp_path, f'[http]\nproxy = "{proxy}"\n')
    assert PASSWORD not in f"{caught.value!r} {caught.value}"


def test_the_password_is_shown_nowhere(tmp_path: Path) -> None:
    with temporary_secrets():
        config = loaded(tmp_path, f'[http]\nproxy = "http://fox:{PASSWORD}@proxy.test:3128"\ntrust_env = true\n')
        assert redact_known_secrets(f"it is {PASSWORD}") == "it is (secret-left-out)"
    rows = {row.key: row.value for row in list_origins(config)}
    assert (rows["http.proxy"], rows["http.trust_env"]) == ("http://***@proxy.test:3128", "true")
    assert PASSWORD not in f"{config!r} {config} {config.http.proxies!r}"
