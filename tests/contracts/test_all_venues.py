"""No venue without its kits: whatever a built-in venue can do, some test class of this folder has the kit for it."""

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.discovery import Kind, discover
from bot.ports import Finder, Sealer
from bot.specs import Can, PaperPlace, Settings, VenueSpec, WriterPlace
from bot.testing.clock import FakeClock
from bot.testing.contracts import ArchiveContract, SubmitterContract, VenueContract
from bot.testing.feed_contract import FinderContract, PriceFeedContract
from bot.testing.http import DictHttp
from bot.testing.sealer_contract import SealerContract, TraderContract
from bot.testing.wires import MemoryWire

WRITER, PAPER = "writer", "paper"
Need = tuple[type, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What only shows when a venue is opened: whether its reader finds, and which of its halves seal."""

    finds: bool = False
    seals: frozenset[str] = frozenset()


def built_in() -> list[VenueSpec[Any]]:
    modules = [candidate.load() for candidate in discover() if candidate.kind is Kind.BUILT_IN]
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


def needs(spec: VenueSpec[Any], opened: Opened) -> Iterator[Need]:
    """Yield the kits that a venue has to keep, and for which half of it."""
    yield VenueContract, ""
    if opened.finds:
        yield FinderContract, ""
    if Can.ARCHIVE in spec.abilities:
        yield ArchiveContract, ""
    if Can.PUSH_PRICES in spec.abilities:
        yield PriceFeedContract, ""
    for part, ability in ((WRITER, Can.SUBMIT), (PAPER, Can.PAPER)):
        if ability not in spec.abilities:
            continue
        if Can.TRADE in spec.abilities:
            yield TraderContract, part
            continue
        yield SubmitterContract, part
        if part in opened.seals:
            yield SealerContract, part


def lacking(spec: VenueSpec[Any], opened: Opened, classes: Iterable[type]) -> list[str]:
    """Return what is not tested."""
    own = [one for one in classes if getattr(getattr(one, "spec", None), "name", "") == spec.name]
    return [
        f"{spec.name}: no test class with {kit.__name__}{f' for its {part}' if part else ''}"
        for kit, part in needs(spec, opened)
        if not any(issubclass(one, kit) and getattr(one, "part", "") == part for one in own)
    ]


async def opened(spec: VenueSpec[Any], settings: Settings, folder: Path) -> Opened:
    place: Mapping[str, Any] = {"clock": FakeClock(), "http": DictHttp({}), "folder": folder}
    seals = set()
    async with AsyncExitStack() as stack:
        writing = WriterPlace(**place, wire=MemoryWire())
        reader = await stack.enter_async_context(spec.reader(settings, writing))
        halves = []
        if spec.writer is not None and Can.TRADE not in spec.abilities:
            halves.append((WRITER, spec.writer(settings, writing)))
        if spec.paper is not None and Can.TRADE not in spec.abilities:
            halves.append((PAPER, spec.paper(settings, PaperPlace(**place, cash=1.0, delay_s=0.0))))
        for part, half in halves:
            if isinstance(await stack.enter_async_context(half), Sealer):
                seals.add(part)
    return Opened(finds=isinstance(reader, Finder), seals=frozenset(seals))


def settings_of(spec: VenueSpec[Any], classes: Sequence[type]) -> Settings:
    found = [one for one in classes if issubclass(one, VenueContract) and one.spec.name == spec.name]
    assert found, f"{spec.name}: no test class with VenueContract"
    return found[0].settings


@pytest.mark.parametrize("spec", built_in(), ids=lambda spec: spec.name)
async def test_whatever_a_venue_can_do_is_held_to_its_kit(spec: VenueSpec[Any], tmp_path: Path) -> None:
    classes = kit_classes()
    found = await opened(spec, settings_of(spec, classes), tmp_path)
    assert lacking(spec, found, classes) == []


def test_all_built_in_venues_are_looked_at() -> None:
    assert {spec.name for spec in built_in()} == {"forecastbench", "manifold", "metaculus", "polymarket"}


def test_every_ability_of_a_venue_has_a_kit_or_is_one_of_a_kit() -> None:
    # Comments and withdrawals go through the writer, and whether it is a trader is told by the same ability.
    with_kit = {Can.ARCHIVE, Can.PUSH_PRICES, Can.SUBMIT, Can.PAPER, Can.TRADE, Can.COMMENT, Can.WITHDRAW}
    assert {ability for spec in built_in() for ability in spec.abilities} <= with_kit


# The test is tested: a venue that can all, and its classes one by one taken away.

ABLE = frozenset({Can.SUBMIT, Can.PAPER, Can.TRADE, Can.PUSH_PRICES, Can.ARCHIVE})


def invented(abilities: frozenset[Can]) -> VenueSpec[Any]:
    spec = next(spec for spec in built_in() if spec.name == "manifold")
    return replace(spec, name="lantern", abilities=abilities)


def kit_class(kit: type, spec: VenueSpec[Any], part: str) -> type:
    return type("TestIt", (kit,), {"spec": spec, "part": part})


@pytest.mark.parametrize("abilities", [ABLE, ABLE - {Can.TRADE}], ids=["trading", "standing"])
def test_a_venue_that_lacks_a_kit_is_named(abilities: frozenset[Can]) -> None:
    spec = invented(abilities)
    known = Opened(finds=True, seals=frozenset({WRITER, PAPER}))
    wanted = list(needs(spec, known))
    classes = [kit_class(kit, spec, part) for kit, part in wanted]
    assert len(wanted) == (6 if Can.TRADE in abilities else 8)
    assert lacking(spec, known, classes) == []
    for place, (kit, part) in enumerate(wanted):
        [told] = lacking(spec, known, classes[:place] + classes[place + 1 :])
        assert kit.__name__ in told
        assert part in told


def test_the_class_of_another_venue_does_not_count() -> None:
    spec = invented(frozenset())
    other = kit_class(VenueContract, replace(spec, name="torch"), "")
    assert lacking(spec, Opened(), [other]) == ["lantern: no test class with VenueContract"]


def test_what_cannot_be_done_needs_no_kit() -> None:
    assert list(needs(invented(frozenset()), Opened())) == [(VenueContract, "")]
