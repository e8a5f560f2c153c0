"""No venue without its kits: whatever a built-in venue can do, some test class of this folder has the kit for it."""

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.core.interfaces import QuestionReader, SealingSubmitter
from bot.core.plugin_specs import PaperBookContext, PluginSettings, VenueSpec, VenueWriterContext
from bot.plugin_system.discovery import PluginOrigin, discover_plugins
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FakeWriteClient
from bot.testing.planner_contract import OrderPlannerContract
from bot.testing.price_feed_contract import PriceFeedContract
from bot.testing.question_list_contract import QuestionListContract
from bot.testing.submitter_contracts import SealingSubmitterContract, SubmitterContract
from bot.testing.trading_contract import TradingSubmitterContract
from bot.testing.venue_contracts import ArchiveContract, QuestionReaderContract, VenueContract

WRITER, PAPER = "writer", "paper"
Need = tuple[type, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedVenue:
    """What only shows when a venue is opened: whether its reader finds, and which of its halves seal."""

    finds: bool = False
    seals: frozenset[str] = frozenset()


def built_in() -> list[VenueSpec[Any]]:
    modules = [candidate.load() for candidate in discover_plugins() if candidate.origin is PluginOrigin.BUILT_IN]
    return [spec for module in modules if hasattr(module, "foxcast_venues") for spec in module.foxcast_venues()]


def kit_classes() -> list[type]:
    names = [path.stem for path in sorted(Path(__file__).parent.glob("test_*.py"))]
    modules = [importlib.import_module(f"tests.contracts.{name}") for name in names]
    return [
        found
        for module in modules
        for name, found in inspect.getmembers(module, inspect.isclass)
        if name.startswith("Test") and found.__module__ == module.__name__
    ]


def needs(spec: VenueSpec[Any], opened: OpenedVenue) -> Iterator[Need]:
    """Yield the kits that a venue has to keep, and for which half of it."""
    yield VenueContract, ""
    # What has rounds is read from files, whose content ArchiveContract checks.
    if spec.archive is None:
        yield QuestionListContract, ""
    if opened.finds:
        yield QuestionReaderContract, ""
    if spec.archive is not None:
        yield ArchiveContract, ""
    if spec.prices is not None:
        yield PriceFeedContract, ""
    if spec.planner is not None:
        yield OrderPlannerContract, ""
    for part, factory in ((WRITER, spec.writer), (PAPER, spec.paper)):
        if factory is None:
            continue
        if spec.planner is not None:
            yield TradingSubmitterContract, part
            continue
        yield SubmitterContract, part
        if part in opened.seals:
            yield SealingSubmitterContract, part


def lacking(spec: VenueSpec[Any], opened: OpenedVenue, classes: Iterable[type]) -> list[str]:
    """Return what is not tested."""
    own = [one for one in classes if getattr(getattr(one, "spec", None), "name", "") == spec.name]
    return [
        f"{spec.name}: no test class with {kit.__name__}{f' for its {part}' if part else ''}"
        for kit, part in needs(spec, opened)
        if not any(issubclass(one, kit) and getattr(one, "part", "") == part for one in own)
    ]


async def opened(spec: VenueSpec[Any], settings: PluginSettings, folder: Path) -> OpenedVenue:
    place: Mapping[str, Any] = {"clock": FakeClock(), "http": FakeHttpClient({}), "folder": folder}
    seals = set()
    async with AsyncExitStack() as stack:
        writing = VenueWriterContext(**place, wire=FakeWriteClient())
        reader = await stack.enter_async_context(spec.reader(settings, writing))
        halves = []
        if spec.writer is not None and spec.planner is None:
            halves.append((WRITER, spec.writer(settings, writing)))
        if spec.paper is not None and spec.planner is None:
            halves.append((PAPER, spec.paper(settings, PaperBookContext(**place, cash=1.0, delay_s=0.0))))
        for part, half in halves:
            if isinstance(await stack.enter_async_context(half), SealingSubmitter):
                seals.add(part)
    return OpenedVenue(finds=isinstance(reader, QuestionReader), seals=frozenset(seals))


def settings_of(spec: VenueSpec[Any], classes: Sequence[type]) -> PluginSettings:
    found = [one for one in classes if issubclass(one, VenueContract) and one.spec.name == spec.name]
    assert found, f"{spec.name}: no test class with VenueContract"
    return found[0].settings


@pytest.mark.parametrize("spec", built_in(), ids=lambda spec: spec.name)
async def test_whatever_a_venue_can_do_is_held_to_its_kit(spec: VenueSpec[Any], tmp_path: Path) -> None:
    classes = kit_classes()
    found = await opened(spec, settings_of(spec, classes), tmp_path)
    assert lacking(spec, found, classes) == []


def test_all_built_in_venues_are_looked_at() -> None:
    assert {spec.name for spec in built_in()} == {"forecastbench", "kalshi", "manifold", "metaculus", "polymarket"}


# The test is tested: a venue that can all, and its classes one by one taken away.


def invented(**changes: Any) -> VenueSpec[Any]:
    trading, archived = (
        next(spec for spec in built_in() if spec.name == name) for name in ("manifold", "forecastbench")
    )
    return replace(trading, **({"name": "lantern", "archive": archived.archive} | changes))


NOTHING = dict.fromkeys(("writer", "paper", "planner", "prices", "archive"))


def kit_class(kit: type, spec: VenueSpec[Any], part: str) -> type:
    return type("TestIt", (kit,), {"spec": spec, "part": part})


@pytest.mark.parametrize(("changes", "kits"), [({}, 7), ({"planner": None}, 8)], ids=["trading", "standing"])
def test_a_venue_that_lacks_a_kit_is_named(changes: Mapping[str, Any], kits: int) -> None:
    spec = invented(**changes)
    known = OpenedVenue(finds=True, seals=frozenset({WRITER, PAPER}))
    wanted = list(needs(spec, known))
    classes = [kit_class(kit, spec, part) for kit, part in wanted]
    assert len(wanted) == kits
    assert lacking(spec, known, classes) == []
    for place, (kit, part) in enumerate(wanted):
        [missing] = lacking(spec, known, classes[:place] + classes[place + 1 :])
        assert kit.__name__ in missing
        assert part in missing


def test_the_class_of_another_venue_does_not_count() -> None:
    spec = invented(**NOTHING)
    other = kit_class(VenueContract, replace(spec, name="torch"), "")
    assert lacking(spec, OpenedVenue(), [other]) == [
        "lantern: no test class with VenueContract",
        "lantern: no test class with QuestionListContract",
    ]


def test_what_cannot_be_done_needs_no_kit() -> None:
    assert list(needs(invented(**NOTHING), OpenedVenue())) == [(VenueContract, ""), (QuestionListContract, "")]
