"""Reads the configuration: defaults, then config.toml, then the environment; all faults are told at once."""

import os
from collections.abc import Mapping
from pathlib import Path

from bot.config.document import Document, Key, read_document
from bot.config.environment import CONFIG_VARIABLE, decode, misspelt, overlay, read_variables, strangers
from bot.config.model import Config
from bot.config.problems import Problems
from bot.config.sources import Sources
from bot.config.validate import validate
from bot.errors import ConfigError

DEFAULT_FILE = Path("config.toml")


def load_config(path: Path | None, environ: Mapping[str, str] = os.environ) -> Config:
    """Return the checked configuration; the environment is that of this process, unless another is handed in.

    The file is the given one, else the one that FOXCAST_CONFIG names, else ./config.toml where it exists; otherwise
    the defaults hold. Raises ConfigError with one line for each fault, naming its key, its file and line or variable,
    and the nearest valid name. What a plugin's own settings may hold is checked later, when the plugin is loaded.
    """
    sources = Sources(document=_document(path, environ), variables=read_variables(environ))
    written = sources.document.table
    if faults := [*misspelt(Config, sources.variables), *strangers(written, sources.variables)]:
        raise ConfigError("\n".join(faults))
    ours = {key: variable for key, variable in sources.variables.items() if not _in_settings(key)}
    values = overlay(written, decode(Config, ours))
    return validate(Config, values, written=written, problems=Problems(Config, sources)).placed(sources)


def _in_settings(key: Key) -> bool:
    """Tell whether the key stands in a plugin's own settings: these are decoded with the plugin's own model."""
    return key[2:3] == ("settings",)


def _document(path: Path | None, environ: Mapping[str, str]) -> Document:
    if path is not None:
        return read_document(path)
    if environ.get(CONFIG_VARIABLE):
        return read_document(Path(environ[CONFIG_VARIABLE]))
    return read_document(DEFAULT_FILE) if DEFAULT_FILE.exists() else Document()
