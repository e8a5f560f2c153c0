"""Which contract kits fit a part of a plugin, and test classes for those that need nothing of its author."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import (
    BaseSpec,
    CommandSpec,
    ConfigurableSpec,
    DataSpec,
    ForecasterSpec,
    ModelSpec,
    NotifierSpec,
    SearchSpec,
    VenueSpec,
)
from bot.core.predictions import BinaryShape
from bot.plugin_system.discovery import choose_plugin
from bot.plugin_system.registry import build_registry, find_plugins
from bot.testing.command_contract import CommandContract
from bot.testing.data_contract import ReferencePagesContract, TimeSeriesContract
from bot.testing.forecaster_contract import SAMPLE_QUESTIONS, ForecasterContract
from bot.testing.model_contract import ModelProviderContract
from bot.testing.notifier_contract import NotifierContract
from bot.testing.paper_book_contract import PaperBookContract
from bot.testing.planner_contract import OrderPlannerContract
from bot.testing.price_feed_contract import PriceFeedContract
from bot.testing.question_list_contract import QuestionListContract
from bot.testing.search_contract import SearchEngineContract
from bot.testing.spec_contract import PluginSpecContract
from bot.testing.submitter_contracts import SealingSubmitterContract, SubmitterContract
from bot.testing.trading_contract import TradingSubmitterContract
from bot.testing.venue_contracts import ArchiveContract, VenueContract


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingKit:
    """A kit for one spec; any of ``kits`` will do, and the first is the usual one.

    ``needs`` is what only its author can give, "" for a kit that runs as it is. ``side`` is "writer" or "paper" for a
    kit that a class must inherit for that part of a venue.
    """

    kits: tuple[type, ...]
    needs: str = ""
    side: str = ""

    @property
    def name(self) -> str:
        """The name of the usual kit."""
        return self.kits[0].__name__

    def is_inherited_by(self, test_class: type) -> bool:
        """Return whether a test class runs this kit."""
        return issubclass(test_class, self.kits) and (not self.side or getattr(test_class, "part", "") == self.side)


# The attribute of a test class that says what the kit was run on, if not on the plugin alone.
TESTED_ON = "tested_on"
SERVICE_ANSWER = "an answer of its service"
SIMPLE_KITS: dict[type[BaseSpec], FittingKit] = {
    CommandSpec: FittingKit(kits=(CommandContract,)),
    SearchSpec: FittingKit(kits=(SearchEngineContract,), needs=SERVICE_ANSWER),
    ModelSpec: FittingKit(kits=(ModelProviderContract,), needs="settings for an address, and the name of a model"),
    NotifierSpec: FittingKit(kits=(NotifierContract,), needs=SERVICE_ANSWER),
}


def list_fitting_kits(spec: BaseSpec) -> Iterator[FittingKit]:
    """Yield the kits that fit a spec, that of the spec itself first; none for a job."""
    if isinstance(spec, ConfigurableSpec):
        yield FittingKit(kits=(PluginSpecContract,))
    match spec:
        case VenueSpec():
            yield from _list_venue_kits(spec)
        case ForecasterSpec():
            needs = "the answers of its models" if spec.asks_models else ""
            yield FittingKit(
                kits=(ForecasterContract,), needs="the forecasts of its members" if spec.members else needs
            )
        case DataSpec():
            parts = {TimeSeriesContract: spec.open, ReferencePagesContract: spec.pages}
            yield from (FittingKit(kits=(kit,), needs=SERVICE_ANSWER) for kit, part in parts.items() if part)
        case CommandSpec() | SearchSpec() | ModelSpec() | NotifierSpec():
            yield SIMPLE_KITS[type(spec)]


def _list_venue_kits(spec: VenueSpec[Any]) -> Iterator[FittingKit]:
    yield FittingKit(kits=(VenueContract,), needs="pages of the venue")
    yield FittingKit(kits=(QuestionListContract,), needs="pages of the venue, and the questions expected of them")
    submitters: tuple[type, ...] = (SealingSubmitterContract, SubmitterContract)
    batches = "batches that the venue accepts and refuses"
    if spec.planner is not None:
        yield FittingKit(kits=(OrderPlannerContract,), needs="beliefs, and what must be bought under them")
        submitters = (TradingSubmitterContract, *submitters)
    if spec.paper is not None:
        books = submitters if spec.planner is None else (PaperBookContract, *submitters)
        yield FittingKit(kits=books, needs=batches, side="paper")
    if spec.writer is not None:
        yield FittingKit(kits=submitters, needs=batches, side="writer")
    if spec.prices is not None:
        yield FittingKit(kits=(PriceFeedContract,), needs="messages of its feed")
    if spec.archive is not None:
        yield FittingKit(kits=(ArchiveContract,), needs="a folder with rounds")


def make_test_classes(plugin_name: str, config_path: str) -> dict[str, type]:
    """Return a test class for each spec and kit of a plugin that needs nothing of its author, by its name.

    Forecasters are asked yes-or-no questions, since not all answer other ones. Where the settings of a spec cannot be
    loaded there is no class: that is reported by the check that opens it.
    """
    config = load_config(Path(config_path))
    config = config.model_copy(update={"plugins": tuple(dict.fromkeys((*config.plugins, plugin_name)))})
    registry = build_registry(config, find_plugins(config))
    made = {}
    for spec in registry.specs_of_plugin(choose_plugin(plugin_name, registry.found)):
        # The kit is what the class inherits, so it is of no module of kits itself.
        members: dict[str, object] = {"spec": spec, "__module__": plugin_name}
        if isinstance(spec, ConfigurableSpec):
            try:
                members["settings"] = load_plugin_settings(spec, config)
            except ConfigError:
                continue
        if isinstance(spec, ForecasterSpec):
            binary = tuple(question for question in SAMPLE_QUESTIONS if isinstance(question.shape, BinaryShape))
            members |= {"questions": binary, TESTED_ON: "yes-or-no questions"}
        kits = [kit.kits[0] for kit in list_fitting_kits(spec) if not kit.needs]
        for kit in kits:
            if not any(issubclass(other, kit) for other in kits if other is not kit):
                name = f"Test{type(spec).__name__}_{spec.name}_{kit.__name__}"
                made[name] = type(name, (kit,), dict(members))
    return made
