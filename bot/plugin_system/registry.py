"""Loads the enabled plugins and collects their specs; a broken plugin is kept with the reason.

Only this module calls pluggy. With pluggy, one hook that raises discards the results of the others, so each plugin is
registered and called separately. The members of a forecaster are also found here, with the order in which they run.
"""

import inspect
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

import pluggy

from bot.config.loader import check_plugin_names, describe_place
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.config.trust import plugin_files_objection
from bot.core.errors import ConfigError, FoxcastError, NotFoundError, PluginError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import suggest_names
from bot.core.plugin_specs import (
    API_VERSION,
    BaseSpec,
    CommandSpec,
    ConfigurableSpec,
    DataSpec,
    ForecasterSpec,
    JobSpec,
    ModelSpec,
    NotifierSpec,
    PluginSettings,
    PluginTableName,
    SearchSpec,
    VenueSpec,
)
from bot.plugin_system import hook_specs
from bot.plugin_system.discovery import PluginCandidate, choose_plugin, discover_plugins

PROJECT_NAME = "foxcast"
HOOK_SPECS: Mapping[str, type[BaseSpec]] = {
    "foxcast_venues": VenueSpec,
    "foxcast_forecasters": ForecasterSpec,
    "foxcast_search_engines": SearchSpec,
    "foxcast_data_sources": DataSpec,
    "foxcast_models": ModelSpec,
    "foxcast_notifiers": NotifierSpec,
    "foxcast_commands": CommandSpec,
    "foxcast_jobs": JobSpec,
}
T = TypeVar("T", bound=BaseSpec)


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plugin that config enables and that cannot be used, with the reason."""

    plugin: PluginCandidate
    error: PluginError

    @property
    def reason(self) -> str:
        """The fault, in one line."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class OfferedSpec(Generic[T]):
    """A spec and the plugin it comes from."""

    spec: T
    plugin: PluginCandidate


class SpecCollection(Generic[T]):
    """All specs of one kind by name."""

    def __init__(self, kind: type[T], offers: Iterable[OfferedSpec[Any]]) -> None:
        """Keep the offers of that kind."""
        self._kind = kind
        self._offers: dict[str, OfferedSpec[T]] = {
            offer.spec.name: offer for offer in offers if isinstance(offer.spec, kind)
        }

    def __getitem__(self, name: str) -> T:
        """Return the spec of that name; raises NotFoundError with the nearest names."""
        return self._offer(name).spec

    def __contains__(self, name: object) -> bool:
        return name in self._offers

    def __iter__(self) -> Iterator[T]:
        return iter([offer.spec for offer in self._offers.values()])

    def __len__(self) -> int:
        return len(self._offers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of their plugins in config."""
        return tuple(self._offers)

    def plugin_of(self, name: str) -> PluginCandidate:
        """Return the plugin that the spec comes from; raises NotFoundError with the nearest names."""
        return self._offer(name).plugin

    def without(self, names: Collection[str]) -> "SpecCollection[T]":
        """Return the collection without these names."""
        return SpecCollection(self._kind, [offer for name, offer in self._offers.items() if name not in names])

    def _offer(self, name: str) -> OfferedSpec[T]:
        if name not in self._offers:
            message = f"no enabled plugin offers a {_kind_name(self._kind)} {name}; {suggest_names(name, self._offers)}"
            raise NotFoundError(message)
        return self._offers[name]


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The specs of the enabled plugins, and all candidates; ``broken`` are enabled ones that cannot be used."""

    venues: SpecCollection[VenueSpec[Any]]
    forecasters: SpecCollection[ForecasterSpec[Any]]
    search_engines: SpecCollection[SearchSpec[Any]]
    data_sources: SpecCollection[DataSpec[Any]]
    models: SpecCollection[ModelSpec[Any]]
    notifiers: SpecCollection[NotifierSpec[Any]]
    commands: SpecCollection[CommandSpec]
    jobs: SpecCollection[JobSpec]
    found: tuple[PluginCandidate, ...]
    enabled: tuple[PluginCandidate, ...]
    broken: tuple[BrokenPlugin, ...]

    def specs_of_table(self, table: PluginTableName) -> SpecCollection[Any]:
        """Return the specs that a table of config.toml configures."""
        collections: dict[PluginTableName, SpecCollection[Any]] = {
            PluginTableName.VENUES: self.venues,
            PluginTableName.FORECASTERS: self.forecasters,
            PluginTableName.SEARCH: self.search_engines,
            PluginTableName.DATA: self.data_sources,
            PluginTableName.MODELS: self.models,
            PluginTableName.NOTIFIERS: self.notifiers,
        }
        return collections[table]

    def specs_of_plugin(self, plugin: PluginCandidate) -> list[BaseSpec]:
        """Return what a plugin offers, in the order of the kinds; a forecaster that config derives is of its plugin."""
        collections: tuple[SpecCollection[Any], ...] = (
            self.venues,
            self.forecasters,
            self.search_engines,
            self.data_sources,
            self.models,
            self.notifiers,
            self.commands,
            self.jobs,
        )
        return [spec for specs in collections for spec in specs if specs.plugin_of(spec.name) is plugin]

    def without_forecasters(self, errors: Mapping[str, FoxcastError]) -> "Registry":
        """Return the registry without forecasters that cannot be opened, as if their plugins were broken."""
        broken = [
            BrokenPlugin(plugin=self.forecasters.plugin_of(name), error=PluginError(str(error)))
            for name, error in errors.items()
        ]
        return replace(self, forecasters=self.forecasters.without(errors), broken=(*self.broken, *broken))


def load_registry(config: Config) -> Registry:
    """Import the plugins that config enables, and check that its tables name existing parts.

    A plugin that cannot be used is recorded as broken and does not stop the others. Raises ConfigError for a plugin or
    table name that does not exist, and PluginError for a plugin name that two plugins have.
    """
    return build_registry(config, find_plugins(config))


def find_plugins(config: Config) -> tuple[PluginCandidate, ...]:
    """Return all plugins that could be enabled; single files that the user did not trust cannot be loaded."""
    objection = plugin_files_objection(config.plugin_files, config.sources)
    return discover_plugins(config.plugin_files, objection=objection)


def build_registry(config: Config, found: Sequence[PluginCandidate]) -> Registry:
    """Do the same as ``load_registry`` with the given candidates."""
    enabled = tuple(_enabled_plugin(config, index, found) for index in range(len(config.plugins)))
    offers, broken = _collect_specs(dict.fromkeys(enabled))
    offers += _forecaster_variants(config, offers)
    registry = Registry(
        venues=SpecCollection(VenueSpec, offers),
        forecasters=SpecCollection(ForecasterSpec, offers),
        search_engines=SpecCollection(SearchSpec, offers),
        data_sources=SpecCollection(DataSpec, offers),
        models=SpecCollection(ModelSpec, offers),
        notifiers=SpecCollection(NotifierSpec, offers),
        commands=SpecCollection(CommandSpec, offers),
        jobs=SpecCollection(JobSpec, offers),
        found=tuple(found),
        enabled=enabled,
        broken=broken,
    )
    # The specs of a broken plugin are unknown, so an unknown table may belong to it.
    if not broken:
        offered = {table: registry.specs_of_table(table).names for table in PluginTableName}
        check_plugin_names(config, offered, disabled={plugin.name for plugin in found} - set(config.plugins))
    return registry


def find_offering_plugin(found: Iterable[PluginCandidate], kind: type[BaseSpec], name: str) -> str | None:
    """Return which of these plugins offers a spec of that kind and name, None if none does; imports all of them."""
    offers, _ = _collect_specs(found)
    return next(
        (offer.plugin.name for offer in offers if isinstance(offer.spec, kind) and offer.spec.name == name), None
    )


def _enabled_plugin(config: Config, index: int, found: Sequence[PluginCandidate]) -> PluginCandidate:
    try:
        return choose_plugin(config.plugins[index], found)
    except ConfigError as error:
        message = f"{describe_place(config, 'plugins', index)}{error}"
        raise type(error)(message) from error


def _collect_specs(enabled: Iterable[PluginCandidate]) -> tuple[list[OfferedSpec[Any]], tuple[BrokenPlugin, ...]]:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(hook_specs)
    offers: list[OfferedSpec[Any]] = []
    broken: list[BrokenPlugin] = []
    for plugin in enabled:
        try:
            offered = [OfferedSpec(spec=spec, plugin=plugin) for spec in _plugin_specs(manager, plugin)]
            _refuse_duplicates(offers, offered)
        except PluginError as error:
            broken.append(BrokenPlugin(plugin=plugin, error=error))
        else:
            offers += offered
    return offers, tuple(broken)


def _forecaster_variants(config: Config, offers: Sequence[OfferedSpec[Any]]) -> list[OfferedSpec[Any]]:
    """Return the forecasters that config derives from others, with their own names and settings."""
    offered = {offer.spec.name: offer for offer in offers if isinstance(offer.spec, ForecasterSpec)}
    variants = []
    for name, table in config.forecasters.items():
        if table.uses is None:
            continue
        if name in offered:
            message = f"{describe_place(config, 'forecasters', name, 'uses')}a plugin offers {name} itself"
            raise ConfigError(message)
        if table.uses in offered:
            origin = offered[table.uses]
            variants.append(OfferedSpec(spec=replace(origin.spec, name=name), plugin=origin.plugin))
    return variants


def _plugin_specs(manager: pluggy.PluginManager, plugin: PluginCandidate) -> list[BaseSpec]:
    """Return the specs of one plugin; it is registered only while its hooks are called."""
    with _wrap_plugin_errors("it cannot be imported"):
        module = plugin.load()
    _check_hooks(manager, module)
    try:
        with _wrap_plugin_errors("its hooks cannot be registered"):
            manager.register(module, plugin.name)
            manager.check_pending()
        callers = manager.get_hookcallers(module) or ()
        return [spec for caller in callers if caller.name in HOOK_SPECS for spec in _call_hook(caller)]
    finally:
        if manager.is_registered(module):
            manager.unregister(module)


def _check_hooks(manager: pluggy.PluginManager, module: object) -> None:
    """Refuse faults that pluggy would accept or explain badly."""
    has_hooks = False
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        if options is not None:
            has_hooks = True
            _check_hook(options["specname"] or name, options, getattr(module, name))
        elif name.startswith(f"{PROJECT_NAME}_") and inspect.isroutine(getattr(module, name)):
            message = f"{name} is not marked with @hookimpl, so it would never be called"
            raise PluginError(message)
    if not has_hooks:
        message = "it offers nothing: no function is marked with @hookimpl"
        raise PluginError(message)


def _check_hook(hook: str, options: Mapping[str, Any], function: Callable[..., object]) -> None:
    if hook not in HOOK_SPECS and not options["optionalhook"]:
        message = f"there is no hook {hook}; {suggest_names(hook, HOOK_SPECS)}"
        raise PluginError(message)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        message = f"{hook} is async; a hook only returns specs, so write it as a plain function"
        raise PluginError(message)
    if options["wrapper"] or options["hookwrapper"]:
        message = f"{hook} is a wrapper; each plugin is called separately, so there is nothing to wrap"
        raise PluginError(message)


def _call_hook(caller: pluggy.HookCaller) -> list[BaseSpec]:
    kind = HOOK_SPECS[caller.name]
    with _wrap_plugin_errors(f"{caller.name} failed"):
        # Only one plugin is registered. pluggy drops None, and a generator does its work only when it is read.
        answers = [list(answer) if isinstance(answer, Iterable) else answer for answer in caller()]
    if len(answers) < len(caller.get_hookimpls()):
        answers.append(None)
    specs: list[BaseSpec] = []
    for answer in answers:
        wrong = [spec for spec in answer if not isinstance(spec, kind)] if isinstance(answer, list) else [answer]
        if wrong or not isinstance(answer, list):
            message = f"{caller.name} should return a list of {kind.__name__}, not {type(wrong[0]).__name__}"
            raise PluginError(message)
        specs += answer
    for spec in specs:
        _check_spec(spec)
    return specs


def _check_spec(spec: BaseSpec) -> None:
    if spec.api_version != API_VERSION:
        message = f"{spec.name} is built for plugin API {spec.api_version}, this Foxcast has {API_VERSION}"
        raise PluginError(message)
    if isinstance(spec, ConfigurableSpec) and not _is_settings_class(spec.settings):
        message = f"the settings of {spec.name} should be a class made from PluginSettings"
        raise PluginError(message)


def _is_settings_class(model: object) -> bool:
    return isinstance(model, type) and issubclass(model, PluginSettings)


def _refuse_duplicates(offers: Iterable[OfferedSpec[Any]], offered: Iterable[OfferedSpec[Any]]) -> None:
    """Refuse a name that an earlier plugin offers already, so that a name is never ambiguous."""
    taken = {(type(offer.spec), offer.spec.name): offer.plugin for offer in offers}
    for offer in offered:
        key = (type(offer.spec), offer.spec.name)
        if key in taken:
            message = (
                f"the {_kind_name(key[0])} {offer.spec.name} is offered twice, by {taken[key]} and by {offer.plugin}"
            )
            raise PluginError(message)
        taken[key] = offer.plugin


@contextmanager
def _wrap_plugin_errors(what: str) -> Iterator[None]:
    """Turn any error of a plugin into a PluginError with its place."""
    try:
        yield
    except (Exception, SystemExit) as error:  # A plugin may raise anything, and a script may even exit.
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())
        message = f"{what}: {type(error).__name__}: {text} ({last.filename}:{last.lineno})"
        raise PluginError(message) from error


def _kind_name(kind: type[BaseSpec]) -> str:
    return kind.__name__.removesuffix("Spec").lower()


def direct_members(config: Config, registry: Registry, name: str) -> tuple[str, ...]:
    """Return the members of a forecaster, as its settings name them; () for most.

    One whose plugin is broken is skipped. Raises ConfigError for an unknown name, and for a clairvoyant one.
    """
    spec = registry.forecasters[name]
    named = tuple(dict.fromkeys(spec.members(load_plugin_settings(spec, config)))) if spec.members else ()
    if registry.broken:
        named = tuple(member for member in named if member in registry.forecasters)
    for member in named:
        if member not in registry.forecasters:
            others = [other for other in registry.forecasters.names if other != name]
            message = (
                f"forecasters.{name}: no enabled plugin offers its member {member!r}; {suggest_names(member, others)}"
            )
            raise ConfigError(message)
        if config.forecaster_table(member).clairvoyant and not config.forecaster_table(name).clairvoyant:
            message = f"forecasters.{name}: its member {member} is clairvoyant, so its forecasts are never combined"
            raise ConfigError(message)
    return named


def with_all_members(config: Config, registry: Registry, names: Iterable[str]) -> tuple[str, ...]:
    """Return the forecasters with all their members, each once and after its own members.

    Raises ConfigError for a circle of members.
    """
    ordered: dict[str, None] = {}
    for name in names:
        _add_with_members(config, registry, (name,), ordered)
    return tuple(ordered)


def _add_with_members(config: Config, registry: Registry, path: tuple[str, ...], ordered: dict[str, None]) -> None:
    for member in direct_members(config, registry, path[-1]):
        if member in path:
            message = f"forecasters.{path[0]} is a member of itself: {' -> '.join((*path, member))}; remove one of them"
            raise ConfigError(message)
        _add_with_members(config, registry, (*path, member), ordered)
    ordered.setdefault(path[-1])
