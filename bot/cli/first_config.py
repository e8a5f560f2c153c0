"""The first `config.toml`: which choices the plugins offer, and the text that only has what differs from defaults."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import Any

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.config.secrets import find_variable
from bot.config.sources import variable_name
from bot.core.errors import ConfigError, StoreError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import strip_invisible
from bot.core.plugin_specs import ConfigurableSpec, ForecasterSpec, PluginTableName
from bot.core.setup_choices import SetupChoice, SetupValue
from bot.core.values import Json
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE
from bot.plugin_system.discovery import discover_plugins
from bot.plugin_system.registry import Registry, build_registry, load_registry

HEADER = """\
# Written by `foxcast init`; only what differs from the defaults is here. `foxcast config show` lists all values, and
# `foxcast config show --explain KEY` says what one means. Everything stays on paper until you set a mode:
# docs/going-live.md.
"""
# For people who begin: less than the default.
DAY_USD = 5.0
# The helper role without which questions of an earlier day get no pages.
MAIN_ROLE = "main"
# Stands for a secret while the text is validated; nothing else contains it.
_MISSING_SECRET = "foxcast-init-secret-is-missing"  # noqa: S105 - no secret


@dataclass(frozen=True, slots=True)
class OfferedChoice:
    """A choice, and the plugin and spec that it belongs to."""

    plugin: str
    spec: ConfigurableSpec[Any]
    choice: SetupChoice


def load_offered_plugins() -> Registry:
    """Return the registry of all plugins that are there, except those whose names are ambiguous or that fail."""
    found = discover_plugins()
    names = [plugin.name for plugin in found]
    return build_registry(Config(plugins=tuple(name for name in names if names.count(name) == 1)), found)


def list_choices(registry: Registry, table: PluginTableName) -> dict[str, OfferedChoice]:
    """Return the choices of venues or of models, by name."""
    specs = registry.specs_of_table(table)
    return {
        choice.name: OfferedChoice(specs.plugin_of(spec.name).name, spec, choice)
        for spec in specs
        for choice in spec.setup
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstConfig:
    """All decisions: a venue or none (own questions), a model or none, and the answers by choice and name of value.

    ``model`` is the full name, ``provider:name``. A secret without an answer gets an empty file, unless ``known`` says
    that the environment has it.
    """

    registry: Registry
    venue: OfferedChoice | None
    provider: OfferedChoice | None
    model: str = ""
    answers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    known: frozenset[tuple[str, str]] = frozenset()

    @property
    def choices(self) -> Iterator[OfferedChoice]:
        """The choices in use."""
        return (one for one in (self.venue, self.provider) if one is not None)

    @property
    def secret_files(self) -> dict[str, str]:
        """The content of each key file, by its name."""
        return {
            secret_file_name(one.choice, value): self.answers.get((one.choice.name, value.name), "")
            for one in self.choices
            for value in one.choice.values
            if value.secret and (one.choice.name, value.name) not in self.known
        }

    def text(self) -> str:
        """Return the text of the file."""
        forecasters = self._forecasters()
        used = [spec for spec in self._helpers() if self.provider is not None]
        names = [*forecasters, *used]
        plugins = [self.registry.specs_of_table(spec.table).plugin_of(spec.name).name for spec in names]
        chosen = [one.plugin for one in self.choices]
        ordered = dict.fromkeys([*chosen[: self.venue is not None], *plugins, *chosen[self.venue is not None :]])
        sections = [*self._sections(forecasters)]
        return "\n".join([HEADER + f"plugins = {_toml(list(ordered))}", *sections, ""])

    def _forecasters(self) -> list[ForecasterSpec[Any]]:
        """Return the forecasters, the one to be submitted first: those that combine others, then those with models."""
        usable = [
            spec
            for spec in self.registry.forecasters
            if spec.first_config and (self.provider is not None or not (spec.asks_models or spec.members))
        ]
        return sorted(usable, key=lambda spec: (spec.members is None, not spec.asks_models))

    def _helpers(self) -> Iterator[ConfigurableSpec[Any]]:
        yield from (spec for spec in self.registry.search_engines if spec.first_config)
        yield from (spec for spec in self.registry.data_sources if spec.first_config)

    def _sections(self, forecasters: list[ForecasterSpec[Any]]) -> Iterator[str]:
        names = [spec.name for spec in forecasters]
        if self.venue is not None:
            comment = "The forecasts of the first one are submitted; the others are recorded for comparison."
            table: dict[str, Json] = {"forecasters": list(names), **self.venue.choice.table}
            yield _section(f"venues.{self.venue.spec.name}", table, comment)
            yield from self._settings_sections(self.venue)
        for spec in forecasters:
            if spec.members is not None:
                members: dict[str, Json] = {"members": [one.name for one in forecasters if one.members is None]}
                comment = "Its answer is theirs together, weighted by what resolves."
                yield _section(f"forecasters.{spec.name}.settings", members, comment)
        if self.provider is not None:
            yield from self._model_sections(self.provider)

    def _model_sections(self, provider: OfferedChoice) -> Iterator[str]:
        yield _section(f"llm.roles.{MAIN_ROLE}", {"model": self.model}, "The model that thinks.")
        comment = "Questions of an earlier day: drops pages that are newer. A smaller model is enough."
        yield _section(f"llm.roles.{FILTER_ROLE}", {"model": self.model}, comment)
        if provider.choice.is_local:
            comment = "Your own server costs nothing; small models follow a JSON schema better than they call tools."
            yield _section(f'llm.models."{self.model}"', {"dialect": "json", "free": True}, comment)
        else:
            comment = "US dollars: never more a day (UTC) for models."
            yield _section("llm.budget", {"day_usd": DAY_USD}, comment)
        yield from self._settings_sections(provider)

    def _settings_sections(self, one: OfferedChoice) -> Iterator[str]:
        """Yield the tables of the settings of a plugin, with key files in place of secrets."""
        tables: dict[str, dict[str, Json]] = {}
        for value in one.choice.values:
            path, _, name = value.key.rpartition(".")
            entry = self._entry(one, value)
            if entry is not None:
                tables.setdefault(path, {})[f"{name}_file" if value.secret else name] = entry
        for name, fixed in one.choice.settings.items():
            tables.setdefault("", {})[name] = fixed
        for path, entries in tables.items():
            parts = filter(None, [one.spec.table.value, one.spec.name, "settings", path])
            comment = "A key file is readable by you alone." if any(name.endswith("_file") for name in entries) else ""
            yield _section(".".join(parts), entries, comment)

    def _entry(self, one: OfferedChoice, value: SetupValue) -> Json:
        """Return what is written for a value, None where the default or the environment has it."""
        place = one.choice.name, value.name
        if value.secret:
            return None if place in self.known else secret_file_name(one.choice, value)
        answer = self.answers.get(place, value.default).strip()
        if not answer:
            return None
        written: Json = [part.strip() for part in answer.split(",") if part.strip()] if value.is_list else answer
        known = one.spec.settings.model_fields.get(value.key)
        default = None if known is None else known.default
        return None if written == ([*map(str, default)] if isinstance(default, tuple) else default) else written


def secret_file_name(choice: SetupChoice, value: SetupValue) -> str:
    """Return the name of the file of a secret."""
    return f"{choice.name}.{value.name}"


def has_secret_in_environment(one: OfferedChoice, value: SetupValue) -> str | None:
    """Return the variable that holds a secret already, None for none."""
    own = variable_name((one.spec.table.value, one.spec.name, "settings", *value.key.split(".")))
    return find_variable((own, *value.variables))


def require_plain(name: str, answer: str) -> str:
    """Return an answer without invisible characters at its ends; raises ConfigError for some inside."""
    text = answer.strip()
    if text != strip_invisible(text) or not text.isprintable():
        message = f"{name} has characters that cannot be seen; type it again"
        raise ConfigError(message)
    return text


def validate_text(first: FirstConfig) -> None:
    """Load the text in a folder that is removed again; raises ConfigError with a line for each fault."""
    with tempfile.TemporaryDirectory(prefix="foxcast-init-") as name:
        folder = Path(name)
        path = folder / "config.toml"
        files = {file: content or _MISSING_SECRET for file, content in first.secret_files.items()}
        for file, content in {path.name: first.text(), **files}.items():
            create_file(folder / file, content, mode=0o600)
        try:
            config = load_config(path)
            registry = load_registry(config)
            for spec in chain.from_iterable(map(registry.specs_of_table, PluginTableName)):
                load_plugin_settings(spec, config)
        except ConfigError as error:
            message = str(error).replace(f"{folder}{os.sep}", "")
            raise ConfigError(message) from error


def create_file(path: Path, text: str, *, mode: int) -> None:
    """Create a file that is not there yet, durably; raises ConfigError if it is, and StoreError if it cannot be."""
    try:
        with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
    except FileExistsError as error:
        message = f"{path} exists and is not overwritten"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise StoreError(message) from error


def _section(name: str, entries: Mapping[str, Json], comment: str = "") -> str:
    lines = [f"{key} = {_toml(value)}" for key, value in entries.items()]
    return "\n".join(["", *([f"# {comment}"] if comment else []), f"[{name}]", *lines])


def _toml(value: Json) -> str:
    """Return a value as TOML; texts as basic strings, whose escapes are those of JSON."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def iter_values(choices: Iterable[OfferedChoice], *, secret: bool) -> Iterator[tuple[OfferedChoice, SetupValue]]:
    """Yield the secret values, or the others, of some choices."""
    yield from ((one, value) for one in choices for value in one.choice.values if value.secret is secret)
