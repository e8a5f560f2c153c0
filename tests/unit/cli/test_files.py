"""Whether a file can be written is known before the work, and the asking leaves nothing behind."""

from pathlib import Path

import pytest

from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.core.errors import ConfigError


@pytest.mark.parametrize("name", ["nowhere/x.json", "file/x.json", ".", "long" * 100])
def test_what_cannot_be_written_is_refused_before_and_when_it_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"^--json .* cannot be written: "):
        require_writable(tmp_path / name, "--json")
    with pytest.raises(ConfigError, match=" cannot be written: "):
        write_json({}, tmp_path / name)


def test_asking_makes_no_file_and_leaves_that_which_is_there(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("mine")
    for place in (tmp_path / "old.json", tmp_path / "new.json", STDOUT, None):
        require_writable(place, "--json")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.json": "mine"}
