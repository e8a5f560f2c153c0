"""Prompt files: templates in the folder prompts of a package, filled in by name.

A file of the same name in the user's folder replaces the shipped one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template


def fill_role_prompt(name: str, **values: str) -> str:
    """Return the text ``prompts/<name>.txt`` with its placeholders filled; raises KeyError for one without a value."""
    return Template(role_prompt_source(name)).substitute(values)


@cache
def role_prompt_source(name: str) -> str:
    """Return the text with its placeholders: its digest is the version of the text."""
    return files("bot.forecasting").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")


# The package of the prompts that all forecasters share.
SHARED_PACKAGE = "bot.forecasting.agent"


SUFFIX = ".txt"


# The folder of the forecaster whose trial runs in this context.
_FOLDER: ContextVar[Path | None] = ContextVar("prompt_folder", default=None)


@contextmanager
def prompt_folder_in_use(folder: Path | None) -> Iterator[None]:
    """Let the files of a folder replace shipped ones in all prompts of the block."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def current_prompt_folder() -> Path | None:
    """Return the folder in use, None for the shipped files alone."""
    return _FOLDER.get()


def load_template(package: str, name: str, folder: Path | None = None) -> Template:
    """Return a prompt file as a template, without its last line break: that of the folder if it has that name.

    The folder is the given one, else the one in use. A file is read once; later changes take effect at the next start.
    """
    return _read_template(package, name, folder or current_prompt_folder())


@cache
def _read_template(package: str, name: str, folder: Path | None) -> Template:
    own = None if folder is None else folder / f"{name}{SUFFIX}"
    shipped = files(package) / "prompts" / f"{name}{SUFFIX}"
    source: Traversable = shipped if own is None or not own.is_file() else own
    return Template(source.read_text(encoding="utf-8").rstrip("\n"))


def fill_prompt(package: str, name: str, /, *, folder: Path | None = None, **values: object) -> str:
    """Return a prompt file with its placeholders filled in, cached; for texts that many trials share."""
    return _fill_prompt(package, name, folder or current_prompt_folder(), **values)


@lru_cache(maxsize=256)
def _fill_prompt(package: str, name: str, of_folder: Path | None, /, **values: object) -> str:
    return _read_template(package, name, of_folder).substitute(values)


def join_prompt_sources(
    package: str, *names: str, shared: tuple[str, ...] = (), compacts: bool = False, folder: Path | None = None
) -> str:
    """Return prompt files of a package and the shared ones unchanged: their digest is the version of the prompts.

    ``shared`` names those that are used besides the question, the line of a turn and the reminder; ``compacts`` says
    that notes are shortened, which has its own prompt.
    """
    return _join_sources(package, names, shared, folder or current_prompt_folder(), compacts=compacts)


@lru_cache(maxsize=64)
def _join_sources(
    package: str, names: tuple[str, ...], shared: tuple[str, ...], folder: Path | None, *, compacts: bool
) -> str:
    common = (*shared, "question", "turn", "repair", *(("compact",) if compacts else ()))
    texts = [*((package, name) for name in names), *((SHARED_PACKAGE, name) for name in common)]
    return "\n\n".join(
        f"==== {name}{SUFFIX}\n{_read_template(source, name, folder).template}" for source, name in texts
    )


def check_prompt_folder(package: str, folder: Path) -> Path:
    """Return the folder if each of its files can replace a prompt of the package or a shared one.

    Such a file has the name of a shipped one and the same placeholders. Raises ValueError that names the file and the
    mistake. Hidden files are ignored.
    """
    if not folder.is_dir():
        message = f"{folder} is not a folder; name a folder with prompt files, or remove the setting prompts"
        raise ValueError(message)
    shipped = list_prompt_files(package)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or any(part.startswith(".") for part in name.split("/")):
            continue
        _require_known(path, name, shipped)
        _require_placeholders(path, load_template(shipped[name], name.removesuffix(SUFFIX)))
        # Read now: changes while the program runs are not checked.
        load_template(shipped[name], name.removesuffix(SUFFIX), folder)
    return folder


def list_prompt_files(package: str) -> Mapping[str, str]:
    """Return the package of each prompt file that a forecaster of a package uses: its own, then the shared ones."""
    own = dict.fromkeys(sorted(_prompt_names(files(package) / "prompts")), package)
    shared = dict.fromkeys(sorted(_prompt_names(files(SHARED_PACKAGE) / "prompts")), SHARED_PACKAGE)
    return {**own, **{name: source for name, source in shared.items() if name not in own}}


def _prompt_names(folder: Traversable, under: str = "") -> Iterator[str]:
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            yield from _prompt_names(entry, f"{under}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield f"{under}{entry.name}"


def _require_known(path: Path, name: str, shipped: Mapping[str, str]) -> None:
    if name not in shipped:
        near = difflib.get_close_matches(name, shipped, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"valid: {', '.join(sorted(shipped))}"
        message = f"{path}: there is no prompt of that name; {remedy}"
        raise ValueError(message)


def _require_placeholders(path: Path, shipped: Template) -> None:
    try:
        own = Template(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read as UTF-8 text: {error}"
        raise ValueError(message) from error
    if not own.is_valid():
        message = f"{path} has a $ that begins no placeholder; write $$ for the sign itself"
        raise ValueError(message)
    wanted, found = set(shipped.get_identifiers()), set(own.get_identifiers())
    if missing := sorted(wanted - found):
        message = f"{path}: the placeholder ${missing[0]} is missing; it needs {_list_placeholders(wanted)}"
        raise ValueError(message)
    if unknown := sorted(found - wanted):
        message = f"{path}: unknown placeholder ${unknown[0]}; allowed: {_list_placeholders(wanted) or 'none'}"
        raise ValueError(message)


def _list_placeholders(names: set[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(names))
