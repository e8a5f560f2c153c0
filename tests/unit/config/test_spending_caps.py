"""Caps of a venue that contradict each other."""

from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.core.errors import ConfigError

CAPS = '[venues.lake]\nforecasters = ["heron"]\n[venues.lake.caps]\nper_day = 10.0\nper_order = '


def test_a_cap_of_an_order_above_another_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"{CAPS}50.0\n")
    with pytest.raises(ConfigError, match="per_order = 50 is more than per_day = 10"):
        load_config(file, {})
    file.write_text(f"{CAPS}10.0\n")
    assert load_config(file, {}).venues["lake"].caps.per_order == 10.0
