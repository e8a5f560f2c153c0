"""The folder of a plugin: it exists when it is handed over, is that plugin's own, and only its owner can read it."""

import stat
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import ConfigError, StoreError
from bot.core.plugin_specs import BaseSpec, DataSpec, ForecasterSpec, JobSpec, PluginSettings, SearchSpec, VenueSpec
from bot.store.backups import BACKUP_FOLDER
from tests.unit.app.test_plugin_factory import outfitter


def specs(name: str) -> list[BaseSpec]:
    """Return specs of several kinds with one name, as plugins of different authors may have them."""
    given: dict[str, Any] = {"name": name, "summary": "A reef", "settings": PluginSettings}
    return [
        VenueSpec(reader=None, **given),  # type: ignore[arg-type]
        ForecasterSpec(open=None, **given),  # type: ignore[arg-type]
        SearchSpec(open=None, **given),  # type: ignore[arg-type]
        DataSpec(**given),
        JobSpec(name=name, summary="A reef", every=None, run=None),  # type: ignore[arg-type]
    ]


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


async def test_plugins_of_one_name_have_folders_of_their_own_that_only_their_owner_reads(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        factory = outfitter(tmp_path, stack)
        folders = [factory.plugin_context(spec).folder for spec in specs("reef")]
        for folder in folders:
            (folder / "kept.txt").write_text(str(folder))
        assert len(set(folders)) == len(folders)
        assert [mode(folder) for folder in folders] == [0o700] * len(folders)
    assert [(folder / "kept.txt").read_text() for folder in folders] == [str(folder) for folder in folders]
    assert not any(one.is_relative_to(other) for one in folders for other in folders if one != other)


async def test_the_folder_of_a_venue_is_that_of_its_paper_book_and_is_restricted(tmp_path: Path) -> None:
    (tmp_path / "reef").mkdir(mode=0o755)
    async with AsyncExitStack() as stack:
        venue, *_ = specs("reef")
        folder = outfitter(tmp_path, stack).plugin_context(venue).folder
    assert (folder, mode(folder)) == (tmp_path / "reef", 0o700)


async def test_a_command_without_a_state_folder_gets_a_temporary_one_and_leaves_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "state"
    async with AsyncExitStack() as stack:
        factory = replace(outfitter(tmp_path, stack), folder=missing)
        folders = [factory.plugin_context(spec).folder for spec in specs("reef")]
        assert [mode(folder) for folder in folders] == [0o700] * len(folders)
    assert [folder for folder in (missing, *folders) if folder.exists()] == []


async def test_a_venue_with_the_name_of_a_folder_of_the_engine_is_refused(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        venue, *others = specs(BACKUP_FOLDER)
        factory = outfitter(tmp_path, stack)
        with pytest.raises(ConfigError, match="the venue backups cannot have that name"):
            factory.plugin_context(venue)
        assert all(factory.plugin_context(spec).folder.is_dir() for spec in others)


async def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "reef").symlink_to(elsewhere)
    async with AsyncExitStack() as stack:
        venue, *_ = specs("reef")
        with pytest.raises(StoreError, match="reef is a symbolic link, and should be a folder; remove it"):
            outfitter(tmp_path, stack).plugin_context(venue)
