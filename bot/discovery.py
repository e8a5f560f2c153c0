"""Finds the plugins that could be enabled, of three kinds, without importing any of them.

Built-in ones are found by listing the folder of the package ``plugins``, installed ones by the entry-point group
``foxcast``, single files by the list in config. Importing is left to the registry, for those that config enables.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from bot.core.nearest_names import suggest_names
from bot.errors import ConfigError, PluginError

GROUP = "foxcast"
BUILT_IN = "plugins"
# Folders of plugins of one kind, one file or package each; a module in them is known by its own name.
SHELVES = frozenset({"search", "data", "models", "notify"})


class Kind(StrEnum):
    """Where a plugin comes from."""

    BUILT_IN = "built-in"
    INSTALLED = "installed"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that was found; ``where`` is its file, for an installed one its distribution and module."""

    name: str
    kind: Kind
    where: str
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.kind} plugin {self.name} ({self.where})"


def discover(files: Sequence[Path] = ()) -> tuple[Candidate, ...]:
    """Return all plugins that could be enabled, ordered by name; imports none of them."""
    found = (*built_in(_package_folder()), *installed(), *map(single_file, files))
    return tuple(sorted(found, key=lambda candidate: (candidate.name, candidate.kind, candidate.where)))


def built_in(folder: Path | None) -> Iterator[Candidate]:
    """Yield the plugins in the folder of the package ``plugins``, those in its shelves included."""
    for module, path in _modules(folder, BUILT_IN):
        if path.is_dir() and path.name in SHELVES:
            yield from (_built_in(inner, where) for inner, where in _modules(path, module))
        else:
            yield _built_in(module, path)


def installed() -> Iterator[Candidate]:
    """Yield the plugins of installed distributions."""
    for point in metadata.entry_points(group=GROUP):
        where = f"{_distribution(point)}, {point.value}"
        yield Candidate(name=point.name, kind=Kind.INSTALLED, where=where, load=point.load)


def single_file(path: Path) -> Candidate:
    """Return the plugin in a file, named like the file; raises ConfigError where there is no such Python file."""
    if path.suffix != ".py" or not path.is_file():
        message = f"plugin_files: there is no Python file {path}"
        raise ConfigError(message)
    return Candidate(name=path.stem, kind=Kind.FILE, where=str(path), load=partial(_load_file, path))


def choose(name: str, candidates: Sequence[Candidate]) -> Candidate:
    """Return the one candidate of that name.

    Raises ConfigError for a name that nothing answers to, and PluginError for one that two answer to.
    """
    match [candidate for candidate in candidates if candidate.name == name]:
        case [candidate]:
            return candidate
        case []:
            suggestion = suggest_names(name, {candidate.name for candidate in candidates})
            message = (
                f"there is no plugin {name}; {suggestion} (looked in "
                f"the package {BUILT_IN}, in the entry points {GROUP} of installed distributions, and in plugin_files)"
            )
            raise ConfigError(message)
        case several:
            message = f"two plugins are called {name}: {' and '.join(map(str, several))}; remove or rename one"
            raise PluginError(message)


def _package_folder() -> Path | None:
    found = importlib.util.find_spec(BUILT_IN)
    locations = found.submodule_search_locations if found else None
    return Path(next(iter(locations))) if locations else None


def _modules(folder: Path | None, package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()) if folder else ():
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if is_module and path.stem.isidentifier() and not path.name.startswith("_"):
            yield f"{package}.{path.stem}", path


def _built_in(module: str, path: Path) -> Candidate:
    name = module.rpartition(".")[2]
    return Candidate(name=name, kind=Kind.BUILT_IN, where=str(path), load=partial(importlib.import_module, module))


def _distribution(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"


def _load_file(path: Path) -> ModuleType:
    name = f"foxcast_file_{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path)
    # Dataclasses and pydantic look their module up while they are being defined.
    sys.modules[name] = module
    try:
        SourceFileLoader(name, str(path)).exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
