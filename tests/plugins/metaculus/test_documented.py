"""What docs/venues.md and config.toml say about this venue is what the program takes."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from plugins.metaculus import foxcast_venues
from plugins.metaculus.settings import MetaculusSettings

ROOT = Path(__file__).resolve().parents[3]


def documented() -> dict[str, Any]:
    text = (ROOT / "docs" / "venues.md").read_text()
    [block] = [one for one in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[venues.metaculus]" in one]
    return tomllib.loads(block)


def commented() -> dict[str, Any]:
    """The table as it would be without the signs of comments in front of it."""
    lines = (ROOT / "config.toml").read_text().splitlines()
    first = lines.index("# [venues.metaculus]")
    last = next(n for n in range(first, len(lines)) if not lines[n].startswith("#"))
    return tomllib.loads("\n".join(line.removeprefix("# ") for line in lines[first:last]))


@pytest.mark.parametrize("table", [documented, commented])
def test_the_documented_settings_are_settings(table: Any) -> None:
    shown = dict(table()["venues"]["metaculus"]["settings"])
    assert shown.pop("token_file").endswith(".token")
    parsed = MetaculusSettings.model_validate({"token": "x" * 40, **shown})
    assert list(parsed.tournaments) == shown["tournaments"]


def test_mc_p3_the_documented_poll_interval_is_5_to_10_minutes() -> None:
    [spec] = foxcast_venues()
    assert spec.discover_every is not None
    interval_s = int(spec.discover_every.total_seconds())
    assert 300 <= interval_s <= 600
    assert f"looked for every {interval_s} seconds" in (ROOT / "docs" / "venues.md").read_text()
    assert f"It is read every {interval_s} s" in (ROOT / "config.toml").read_text()
