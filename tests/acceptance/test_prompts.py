"""Prompt files as a person reads, copies and replaces them."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed

ROOT = Path(__file__).resolve().parents[2]
ASKING = ("blf", "court", "team", "solo", "orchestra")
LONE = """
from bot.api import ForecasterSpec, PluginSettings, hookimpl

@hookimpl
def foxcast_forecasters():
    return [
        ForecasterSpec(name="lone", summary="One file", settings=PluginSettings, open=print, roles=("main",))
    ]
"""
CONFIG = 'plugins = ["blf", "society", "team", "solo", "orchestra", "baseline"]\n'


@pytest.fixture
def forecasters(tmp_path: Path) -> FoxcastInstallation:
    """An installation with all forecasters that ask models, and one that does not."""
    return installed(tmp_path, CONFIG)


@pytest.mark.parametrize("name", ASKING)
def test_every_file_of_a_forecaster_is_shown(
    name: str, forecasters: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(forecasters, "prompts", "show", name)
    assert (answer.code, answer.err) == (0, "")
    package = {"court": "society"}.get(name, name)
    folders = (ROOT / "plugins" / package / "prompts", ROOT / "bot" / "forecasting" / "agent" / "prompts")
    shipped = [path for folder in folders for path in folder.rglob("*.txt")]
    assert len(shipped) > 8
    for path in shipped:
        assert path.read_text().rstrip("\n") in answer.out


def test_a_copied_and_edited_file_is_what_is_shown(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    copied = run_command(forecasters, "prompts", "copy", "blf", str(folder))
    assert (copied.code, copied.err) == (0, "")
    setting = f"prompts = '{folder}'"
    assert setting in copied.out
    edited = folder / "short.txt"
    edited.write_text(f"{edited.read_text()}Think of the base rate.\n")
    forecasters.config.write_text(f"{CONFIG}[forecasters.blf.settings]\n{setting}\n")
    assert run_command(forecasters, "prompts", "show", "blf", "short.txt").out.endswith("Think of the base rate.\n")
    again = run_command(forecasters, "prompts", "copy", "blf", str(folder))
    assert "existed and were kept" in again.out
    assert edited.read_text().endswith("Think of the base rate.\n")


def test_what_has_no_prompts_or_no_such_file_is_refused(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    assert run_command(forecasters, "prompts", "show", "baseline").is_refusal(8, "baseline", "asks no model")
    assert run_command(forecasters, "prompts", "show", "nobody").is_refusal(8, "nobody", "blf")
    assert run_command(forecasters, "prompts", "show", "blf", "lop.txt").is_refusal(8, "lop.txt", "loop.txt")
    assert run_command(forecasters, "prompts", "copy", "court", str(tmp_path / "x")).is_refusal(2, "no setting prompts")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_cannot_be_written_and_a_plugin_without_a_folder_are_refused(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    (tmp_path / "taken").touch()
    answer = run_command(forecasters, "prompts", "copy", "blf", str(tmp_path / "taken"))
    assert answer.is_refusal(2, "taken cannot be written", "name another folder")
    (tmp_path / "lone.py").write_text(LONE)
    forecasters.config.write_text('plugins = ["lone"]\nplugin_files = ["lone.py"]\n')
    assert run_command(forecasters, "prompts", "show", "lone").is_refusal(8, "lone has no prompt files")
