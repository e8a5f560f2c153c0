import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from bot.core.errors import ConfigError, PluginError
from bot.plugin_system.discovery import (
    PluginCandidate,
    PluginOrigin,
    built_in_plugins,
    choose_plugin,
    discover_plugins,
    single_file_plugin,
)

EXPLODING = "raise AssertionError('imported')"


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(EXPLODING)


def candidate(name: str, where: str) -> PluginCandidate:
    return PluginCandidate(name=name, origin=PluginOrigin.FILE, where=where, load=lambda: None)


def test_packages_and_modules_in_the_folder_are_built_in_plugins(tmp_path: Path) -> None:
    write(tmp_path, "lantern/__init__.py", "lantern/client.py", "oracle.py", "__init__.py")
    assert [plugin.name for plugin in built_in_plugins(tmp_path)] == ["lantern", "oracle"]


def test_a_plugin_on_a_shelf_is_known_by_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "search/__init__.py", "search/seeker.py", "notify/__init__.py", "notify/bell/__init__.py")
    assert [plugin.name for plugin in built_in_plugins(tmp_path)] == ["bell", "seeker"]


def test_what_is_no_public_module_is_no_plugin(tmp_path: Path) -> None:
    write(tmp_path, "_shared.py", "_inner/__init__.py", "data_only/readme.py", "README.md", "two words.py", ".x.py")
    assert list(built_in_plugins(tmp_path)) == []


def test_the_plugins_that_come_with_the_program_are_found_and_not_imported() -> None:
    before = set(sys.modules)
    found = {plugin.name: plugin for plugin in discover_plugins()}
    assert found["forecastbench"].origin is PluginOrigin.BUILT_IN
    assert not {name for name in set(sys.modules) - before if name.startswith("plugins")}


@pytest.mark.parametrize("other", ["plugins/__init__.py", "plugins.py"])
def test_another_package_of_that_name_does_not_hide_them_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    write(tmp_path, other)
    monkeypatch.delitem(sys.modules, "plugins", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"built-in plugins in .* are hidden") as refused:
        discover_plugins()
    assert str(tmp_path / other) in str(refused.value)


def test_a_folder_of_that_name_that_is_no_package_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "plugins/mine.py")
    monkeypatch.delitem(sys.modules, "plugins", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    names = {plugin.name for plugin in discover_plugins()}
    assert "baseline" in names
    assert "mine" not in names


def test_installed_plugins_are_exactly_the_entry_points_of_the_group() -> None:
    installed = [plugin.name for plugin in discover_plugins() if plugin.origin is PluginOrigin.INSTALLED]
    assert installed == sorted(point.name for point in entry_points(group="foxcast"))


def test_a_file_is_named_like_itself_and_not_imported(tmp_path: Path) -> None:
    write(tmp_path, "mine.py")
    (plugin,) = [plugin for plugin in discover_plugins([tmp_path / "mine.py"]) if plugin.origin is PluginOrigin.FILE]
    assert (plugin.name, plugin.where) == ("mine", str(tmp_path / "mine.py"))


@pytest.mark.parametrize("name", ["absent.py", "notes.txt", "folder.py"])
def test_a_file_that_is_no_python_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ConfigError, match=name):
        single_file_plugin(tmp_path / name)


def test_a_file_that_fails_leaves_no_half_made_module(tmp_path: Path) -> None:
    write(tmp_path, "mine.py")
    before = set(sys.modules)
    with pytest.raises(AssertionError, match="imported"):
        single_file_plugin(tmp_path / "mine.py").load()
    assert set(sys.modules) == before


def test_a_name_that_nothing_answers_to_is_refused_with_the_nearest_and_where_it_was_looked_for() -> None:
    with pytest.raises(ConfigError, match="there is no plugin lantren; did you mean lantern") as caught:
        choose_plugin("lantren", [candidate("lantern", "a.py"), candidate("oracle", "b.py")])
    for place in ("package plugins", "entry points foxcast", "plugin_files"):
        assert place in str(caught.value)


def test_a_name_that_two_answer_to_is_refused_with_both() -> None:
    with pytest.raises(PluginError, match=r"a\.py.*b\.py"):
        choose_plugin("lantern", [candidate("lantern", "a.py"), candidate("lantern", "b.py")])
