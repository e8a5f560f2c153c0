"""What config says of the desk: hosts that are never read."""

import json
from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.config.schema import ResearchSection
from bot.core.errors import ConfigError


def desk_of(folder: Path, *hosts: str) -> ResearchSection:
    file = folder / "config.toml"
    file.write_text(f"[research]\nblocked_hosts = {json.dumps(hosts, ensure_ascii=False)}\n", encoding="utf-8")
    return load_config(file, {}).research


@pytest.mark.parametrize(
    "host", ["https://example.org", "example.org/", "example.org:80", "*.example.org", "", "a b", "-a.org", "a..b"]
)
def test_what_is_no_host_name_is_not_blocked_in_vain(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        desk_of(tmp_path, "ok.example", host)
    assert f"config.toml:2: research.blocked_hosts[1]: '{host}' is not a host name; write only the host" in str(
        caught.value
    )


def test_hosts_are_blocked_in_every_script(tmp_path: Path) -> None:
    hosts = ("example.org", "www.Example.org", "localhost", "10.0.0.1", "bücher.example", "xn--bcher-kva.example")
    assert desk_of(tmp_path, *hosts).blocked_hosts == hosts


@pytest.mark.parametrize("model", ["gpt", "prime", "Prime:big", "prime:a b", ":big", "prime:"])
def test_a_model_is_named_with_its_provider(tmp_path: Path, model: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[llm.roles.main]\nmodel = "{model}"\n')
    with pytest.raises(ConfigError, match=r'llm\.roles\.main\.model: should be "PROVIDER:NAME", with a provider of'):
        load_config(file, {})
