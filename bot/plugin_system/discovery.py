"""Finds the plugins that could be enabled, without importing any of them.

Built-in ones are in the package plugins, installed ones in the entry-point group foxcast, and single files are listed
in config.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from bot.core.child_process import INSTALLATION_FOLDER
from bot.core.errors import ConfigError, PluginError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import suggest_names
from bot.plugin_system.renamed_names import RENAMED_PLUGINS

ENTRY_POINT_GROUP = "foxcast"
BUILT_IN_PACKAGE = "plugins"
BUILT_IN_FOLDER = INSTALLATION_FOLDER / BUILT_IN_PACKAGE
# A configuration for one run that needs no key and no network.
BUILT_IN_CONFIG = BUILT_IN_FOLDER / "built_in.toml"
# Folders of plugins of one kind, one file or package each; a plugin in them has the name of its module.
PLUGIN_FOLDERS = frozenset({"search", "data", "models", "notify"})


class PluginOrigin(StrEnum):
    """Where a plugin comes from."""

    BUILT_IN = "built-in"
    INSTALLED = "installed"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCandidate:
    """A plugin that was found; ``where`` is its file, for an installed one its distribution and module."""

    name: str
    origin: PluginOrigin
    where: str
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.origin} plugin {self.name} ({self.where})"


def discover_plugins(files: Sequence[Path] = (), *, objection: str = "") -> tuple[PluginCandidate, ...]:
    """Return all plugins that could be enabled, ordered by name; imports none of them.

    With an ``objection`` the code of single files is not run: loading one raises PluginError with it. Raises
    ConfigError for a missing file, and PluginError where another package hides the built-in plugins.
    """
    found = (
        *built_in_plugins(_built_in_folder()),
        *installed_plugins(),
        *(single_file_plugin(path, objection) for path in files),
    )
    return tuple(sorted(found, key=lambda candidate: (candidate.name, candidate.origin, candidate.where)))


def built_in_plugins(folder: Path) -> Iterator[PluginCandidate]:
    """Yield the plugins in the folder of the package ``plugins``, including its folders by kind."""
    for module, path in _plugin_modules(folder, BUILT_IN_PACKAGE):
        if path.is_dir() and path.name in PLUGIN_FOLDERS:
            yield from (_built_in_plugin(inner, where) for inner, where in _plugin_modules(path, module))
        else:
            yield _built_in_plugin(module, path)


def installed_plugins() -> Iterator[PluginCandidate]:
    """Yield the plugins of installed distributions."""
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        where = f"{_distribution_name(point)}, {point.value}"
        yield PluginCandidate(name=point.name, origin=PluginOrigin.INSTALLED, where=where, load=point.load)


def single_file_plugin(path: Path, objection: str = "") -> PluginCandidate:
    """Return the plugin in a file, named like the file; raises ConfigError if there is no such Python file.

    Its code is not run if there is an ``objection``.
    """
    if path.suffix != ".py" or not path.is_file():
        message = f"plugin_files: there is no Python file {path}"
        raise ConfigError(message)
    load: Callable[[], object] = partial(_refuse_to_load, objection) if objection else partial(_load_file, path)
    return PluginCandidate(name=path.stem, origin=PluginOrigin.FILE, where=str(path), load=load)


def choose_plugin(name: str, candidates: Sequence[PluginCandidate]) -> PluginCandidate:
    """Return the one candidate of that name.

    Raises ConfigError for a name that no plugin has, and PluginError for one that two have.
    """
    match [candidate for candidate in candidates if candidate.name == name]:
        case [candidate]:
            return candidate
        case [] if name in RENAMED_PLUGINS:
            message = f"the plugin {name} is now {RENAMED_PLUGINS[name]}"
            raise ConfigError(message)
        case []:
            suggestion = suggest_names(name, {candidate.name for candidate in candidates})
            message = (
                f"there is no plugin {name}; {suggestion} (looked in the package {BUILT_IN_PACKAGE}, "
                f"in the entry points {ENTRY_POINT_GROUP} of installed distributions, and in plugin_files)"
            )
            raise ConfigError(message)
        case duplicates:
            message = f"two plugins are called {name}: {' and '.join(map(str, duplicates))}; remove or rename one"
            raise PluginError(message)


def _built_in_folder() -> Path:
    found = importlib.util.find_spec(BUILT_IN_PACKAGE)
    origin = Path(found.origin).resolve() if found and found.origin else None
    if origin != BUILT_IN_FOLDER / "__init__.py":
        message = (
            f"the built-in plugins in {BUILT_IN_FOLDER} are hidden: the package {BUILT_IN_PACKAGE} is imported from "
            f"{origin or 'nowhere'}; rename that one, or remove its folder from PYTHONPATH"
        )
        raise PluginError(message)
    return BUILT_IN_FOLDER


def _plugin_modules(folder: Path, package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if is_module and path.stem.isidentifier() and not path.name.startswith("_"):
            yield f"{package}.{path.stem}", path


def _built_in_plugin(module: str, path: Path) -> PluginCandidate:
    name = module.rpartition(".")[2]
    return PluginCandidate(
        name=name, origin=PluginOrigin.BUILT_IN, where=str(path), load=partial(importlib.import_module, module)
    )


def _distribution_name(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"


def _refuse_to_load(objection: str) -> NoReturn:
    raise PluginError(objection)


def _load_file(path: Path) -> ModuleType:
    name = f"foxcast_file_{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path)
    # Dataclasses and pydantic look up their module while they are being defined.
    sys.modules[name] = module
    try:
        SourceFileLoader(name, str(path)).exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
