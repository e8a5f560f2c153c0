"""The enabled plugins as typed shelves; broken ones are kept with their reason. pluggy does not leave this file.

pluggy collects inert descriptions once, at start. Its calls are untyped, an ``async def`` hook comes back un-awaited,
and one raising implementation throws away the results of the others, so each plugin is registered and asked by itself.
"""

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import pluggy

from bot import hookspecs
from bot.config.loader import check_plugin_names, describe_place
from bot.config.schema import Config
from bot.core.nearest_names import suggest_names
from bot.discovery import Candidate, choose, discover
from bot.errors import ConfigError, NotFound, PluginError
from bot.specs import (
    API_VERSION,
    CommandSpec,
    Configurable,
    DataSpec,
    ForecasterSpec,
    JobSpec,
    ModelSpec,
    NotifierSpec,
    SearchSpec,
    Settings,
    Spec,
    Table,
    VenueSpec,
)

PROJECT = "foxcast"
HOOKS: Mapping[str, type[Spec]] = {
    "foxcast_venues": VenueSpec,
    "foxcast_forecasters": ForecasterSpec,
    "foxcast_search_engines": SearchSpec,
    "foxcast_data_sources": DataSpec,
    "foxcast_models": ModelSpec,
    "foxcast_notifiers": NotifierSpec,
    "foxcast_commands": CommandSpec,
    "foxcast_jobs": JobSpec,
}

T = TypeVar("T", bound=Spec)


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that config enables and that cannot be used, with the reason."""

    plugin: Candidate
    error: PluginError

    @property
    def reason(self) -> str:
        """What is wrong, in one line."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class Offer(Generic[T]):
    """A spec and the plugin it comes from."""

    spec: T
    plugin: Candidate


class Shelf(Generic[T]):
    """All specs of one kind by name."""

    def __init__(self, kind: type[T], offers: Iterable[Offer[Any]]) -> None:
        """Keep the offers of that kind."""
        self._kind = kind
        self._offers: dict[str, Offer[T]] = {offer.spec.name: offer for offer in offers if isinstance(offer.spec, kind)}

    def __getitem__(self, name: str) -> T:
        """Return the spec of that name; raises NotFound with the nearest names."""
        return self._offer(name).spec

    def __contains__(self, name: object) -> bool:
        return name in self._offers

    def __iter__(self) -> Iterator[T]:
        return iter([offer.spec for offer in self._offers.values()])

    def __len__(self) -> int:
        return len(self._offers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which config enables their plugins."""
        return tuple(self._offers)

    def provider(self, name: str) -> Candidate:
        """Return the plugin that the spec comes from; raises NotFound with the nearest names."""
        return self._offer(name).plugin

    def _offer(self, name: str) -> Offer[T]:
        if name not in self._offers:
            message = f"no enabled plugin offers a {_title(self._kind)} {name}; {suggest_names(name, self._offers)}"
            raise NotFound(message)
        return self._offers[name]


@dataclass(frozen=True, kw_only=True)
class Registry:
    """What the enabled plugins offer, and all that was found; ``broken`` names the enabled ones that cannot be used."""

    venues: Shelf[VenueSpec[Any]]
    forecasters: Shelf[ForecasterSpec[Any]]
    search_engines: Shelf[SearchSpec[Any]]
    data_sources: Shelf[DataSpec[Any]]
    models: Shelf[ModelSpec[Any]]
    notifiers: Shelf[NotifierSpec[Any]]
    commands: Shelf[CommandSpec]
    jobs: Shelf[JobSpec]
    found: tuple[Candidate, ...]
    enabled: tuple[Candidate, ...]
    broken: tuple[Broken, ...]

    def configurable(self, table: Table) -> Shelf[Any]:
        """Return the shelf of what a table of config.toml configures."""
        shelves: dict[Table, Shelf[Any]] = {
            Table.VENUES: self.venues,
            Table.FORECASTERS: self.forecasters,
            Table.SEARCH: self.search_engines,
            Table.DATA: self.data_sources,
            Table.MODELS: self.models,
            Table.NOTIFIERS: self.notifiers,
        }
        return shelves[table]


def load_registry(config: Config) -> Registry:
    """Import and ask the plugins that config enables, and check that its tables name what there is.

    A plugin that cannot be used is noted as broken and stops nothing. Raises ConfigError for a plugin or table name
    that nothing answers to, and PluginError for a plugin name that two answer to.
    """
    return assemble(config, discover(config.plugin_files))


def assemble(config: Config, found: Sequence[Candidate]) -> Registry:
    """Do as ``load_registry`` with the given candidates."""
    enabled = tuple(_named(config, index, found) for index in range(len(config.plugins)))
    offers, broken = _collect(dict.fromkeys(enabled))
    offers += _variants(config, offers)
    registry = Registry(
        venues=Shelf(VenueSpec, offers),
        forecasters=Shelf(ForecasterSpec, offers),
        search_engines=Shelf(SearchSpec, offers),
        data_sources=Shelf(DataSpec, offers),
        models=Shelf(ModelSpec, offers),
        notifiers=Shelf(NotifierSpec, offers),
        commands=Shelf(CommandSpec, offers),
        jobs=Shelf(JobSpec, offers),
        found=tuple(found),
        enabled=enabled,
        broken=broken,
    )
    # A broken plugin cannot say what it offers, so while there is one, an unknown table may be its own.
    if not broken:
        offered = {table: registry.configurable(table).names for table in Table}
        check_plugin_names(config, offered, dormant={plugin.name for plugin in found} - set(config.plugins))
    return registry


def bringer(found: Iterable[Candidate], kind: type[Spec], name: str) -> str | None:
    """Return which of these plugins offers something of that kind and name, None where none does; imports them all."""
    offers, _ = _collect(found)
    return next((one.plugin.name for one in offers if isinstance(one.spec, kind) and one.spec.name == name), None)


def _named(config: Config, index: int, found: Sequence[Candidate]) -> Candidate:
    try:
        return choose(config.plugins[index], found)
    except ConfigError as error:
        message = f"{describe_place(config, 'plugins', index)}{error}"
        raise type(error)(message) from error


def _collect(enabled: Iterable[Candidate]) -> tuple[list[Offer[Any]], tuple[Broken, ...]]:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    offers: list[Offer[Any]] = []
    broken: list[Broken] = []
    for plugin in enabled:
        try:
            offered = [Offer(spec=spec, plugin=plugin) for spec in _ask(manager, plugin)]
            _refuse_duplicates(offers, offered)
        except PluginError as error:
            broken.append(Broken(plugin=plugin, error=error))
        else:
            offers += offered
    return offers, tuple(broken)


def _variants(config: Config, offers: Sequence[Offer[Any]]) -> list[Offer[Any]]:
    """Return the forecasters that config makes of others, under names and with settings of their own."""
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
            variants.append(Offer(spec=replace(origin.spec, name=name), plugin=origin.plugin))
    return variants


def _ask(manager: pluggy.PluginManager, plugin: Candidate) -> list[Spec]:
    """Return all that one plugin offers; it is registered only while it is asked."""
    with _blamed("it cannot be imported"):
        module = plugin.load()
    _check_hooks(manager, module)
    try:
        with _blamed("its hooks cannot be registered"):
            manager.register(module, plugin.name)
            manager.check_pending()
        callers = manager.get_hookcallers(module) or ()
        return [spec for caller in callers if caller.name in HOOKS for spec in _call(caller)]
    finally:
        if manager.is_registered(module):
            manager.unregister(module)


def _check_hooks(manager: pluggy.PluginManager, module: object) -> None:
    """Refuse what pluggy would let pass or explain badly."""
    marked = False
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        if options is not None:
            marked = True
            _check_hook(options["specname"] or name, options, getattr(module, name))
        elif name.startswith(f"{PROJECT}_") and inspect.isroutine(getattr(module, name)):
            message = f"{name} is not marked with @hookimpl, so it would never be asked"
            raise PluginError(message)
    if not marked:
        message = "it offers nothing: no function is marked with @hookimpl"
        raise PluginError(message)


def _check_hook(hook: str, options: Mapping[str, Any], function: Callable[..., object]) -> None:
    if hook not in HOOKS and not options["optionalhook"]:
        message = f"there is no hook {hook}; {suggest_names(hook, HOOKS)}"
        raise PluginError(message)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        message = f"{hook} is async; a hook only describes, so write it as a plain function"
        raise PluginError(message)
    if options["wrapper"] or options["hookwrapper"]:
        message = f"{hook} is a wrapper; each plugin is asked by itself, so there is nothing to wrap"
        raise PluginError(message)


def _call(caller: pluggy.HookCaller) -> list[Spec]:
    kind = HOOKS[caller.name]
    with _blamed(f"{caller.name} failed"):
        # Only one plugin is registered. pluggy drops None, and a generator does its work only when it is read.
        answers = [list(answer) if isinstance(answer, Iterable) else answer for answer in caller()]
    if len(answers) < len(caller.get_hookimpls()):
        answers.append(None)
    specs: list[Spec] = []
    for answer in answers:
        odd = [spec for spec in answer if not isinstance(spec, kind)] if isinstance(answer, list) else [answer]
        if odd or not isinstance(answer, list):
            message = f"{caller.name} should return a list of {kind.__name__}, not {type(odd[0]).__name__}"
            raise PluginError(message)
        specs += answer
    for spec in specs:
        _check_spec(spec)
    return specs


def _check_spec(spec: Spec) -> None:
    if spec.api_version != API_VERSION:
        message = f"{spec.name} is built for plugin API {spec.api_version}, this Foxcast has {API_VERSION}"
        raise PluginError(message)
    if isinstance(spec, Configurable) and not _is_settings(spec.settings):
        message = f"the settings of {spec.name} should be a class made from Settings"
        raise PluginError(message)


def _is_settings(model: object) -> bool:
    return isinstance(model, type) and issubclass(model, Settings)


def _refuse_duplicates(offers: Iterable[Offer[Any]], offered: Iterable[Offer[Any]]) -> None:
    """Leave a name to the plugin that config enables first: which of two is meant must not depend on luck."""
    taken = {(type(offer.spec), offer.spec.name): offer.plugin for offer in offers}
    for offer in offered:
        key = (type(offer.spec), offer.spec.name)
        if key in taken:
            message = f"the {_title(key[0])} {offer.spec.name} is offered twice, by {taken[key]} and by {offer.plugin}"
            raise PluginError(message)
        taken[key] = offer.plugin


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Turn whatever foreign code raises into a PluginError that says where."""
    try:
        yield
    except (Exception, SystemExit) as error:  # foreign code may raise anything, and a script may even exit
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())
        message = f"{what}: {type(error).__name__}: {said} ({last.filename}:{last.lineno})"
        raise PluginError(message) from error


def _title(kind: type[Spec]) -> str:
    return kind.__name__.removesuffix("Spec").lower()
