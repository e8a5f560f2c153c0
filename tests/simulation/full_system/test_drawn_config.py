"""The configuration of a seed is drawn from the settings models, whatever fields they have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from bot.config.base_schema import ConfigSection
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.plugin_system.registry import Registry, load_registry
from bot.simulator.environment import to_toml
from tests.simulation.full_system.drawn_config import (
    PINNED,
    RANGES,
    SettingsTable,
    draw_change,
    draw_config,
    draw_table,
    is_drawable,
    key_matches,
    list_tables,
    pinned_reason,
)
from tests.simulation.full_system.plan import WIDE, SimulationPlan, draw_traits, simulation_tables

NAMES = ("manifold", "metaculus", "polymarket", "forecastbench")
TABLES = {
    "plugins": [*NAMES, "blf", "sandbox", "openai_compatible"],
    "venues": {name: {"forecasters": ["blf"]} for name in NAMES},
    "forecasters": {"blf": {}, "drifter": {}},
    "llm": {"providers": {"openai_compatible": {}}},
}
SEEDS = range(1, 13)


class BeforeSection(ConfigSection):
    """Some settings."""

    pace: float = Field(default=8.0, gt=0)
    bold: bool = False


class AfterSection(ConfigSection):
    """The same with one more in between."""

    pace: float = Field(default=8.0, gt=0)
    brand_new: int = Field(default=5, ge=2, le=9)
    bold: bool = False


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return load_registry(_loaded(TABLES, tmp_path_factory.mktemp("drawn")))


def test_the_same_seed_draws_the_same_and_each_is_a_valid_configuration(registry: Registry, tmp_path: Path) -> None:
    drawn = [draw_config(seed, TABLES, registry) for seed in SEEDS]
    assert [one.drawn for one in drawn] == [draw_config(seed, TABLES, registry).drawn for seed in SEEDS]
    assert len({to_toml(one.tables) for one in drawn}) == len(SEEDS)
    for one in drawn:
        caps = _loaded(one.tables, tmp_path).venues["manifold"].caps
        assert caps.model_dump(exclude_unset=True) == one.tables["venues"]["manifold"].get("caps", {})


def test_a_new_setting_is_drawn_within_its_bounds_and_moves_no_other_draw() -> None:
    before = [draw_table(seed, SettingsTable(key=("new",), model=BeforeSection), {}) for seed in range(1, 60)]
    after = [draw_table(seed, SettingsTable(key=("new",), model=AfterSection), {}) for seed in range(1, 60)]
    found = [one.pop("brand_new") for one in after if "brand_new" in one]
    assert after == before
    assert len(set(found)) > 3
    assert all(isinstance(value, int) and 2 <= value <= 9 for value in found)


def test_what_the_simulation_sets_itself_and_what_is_pinned_stays(registry: Registry) -> None:
    set_here = {**TABLES, "venues": {"manifold": {"forecasters": ["blf"], "caps": {"per_order": 7.0}}}}
    for seed in SEEDS:
        found = draw_config(seed, set_here, registry)
        assert found.tables["venues"]["manifold"]["caps"]["per_order"] == 7.0
        assert not [key for key in found.drawn if pinned_reason(key)]


def test_each_pin_and_each_range_is_of_a_field_that_would_be_drawn(registry: Registry) -> None:
    fields = {*_fields(registry)}
    assert [pattern for pattern in PINNED if not any(key_matches(key, pattern, below=True) for key in fields)] == []
    others = [pattern for pattern in RANGES if not any(key_matches(key, pattern) for key in fields)]
    assert [pattern for pattern in others if "drifter" not in pattern] == []


def test_most_fields_that_have_a_range_come_up_within_some_hundred_seeds(registry: Registry) -> None:
    seen = {key for seed in range(1, 201) for key in draw_config(seed, TABLES, registry).drawn}
    never = {key for key in _fields(registry) if pinned_reason(key) is None} - seen
    assert {key for key in never if not key.startswith("llm.budget.")} == set()


def test_one_bound_alone_is_tight_in_some_seeds() -> None:
    seen = set()
    for seed in range(1, 200):
        traits = draw_traits(SimulationPlan(seed=seed))
        if traits.tight is None:
            continue
        venues: dict[str, Any] = {name: {"settings": {}} for name in traits.modes}
        tables = simulation_tables(traits, {"plugins": [], "venues": venues, "llm": {"models": {}}})
        for table in [tables["venues"][name] for name in ("manifold", "polymarket") if name in traits.modes]:
            caps = {f"caps.{name}": value for name, value in table["caps"].items() if value < WIDE}
            shares = {name: value for name, value in table["bankroll"].items() if name != "min_stake" and value < 1.0}
            bounds = {*caps, *(f"bankroll.{name}" for name in shares)} - {"caps.per_order", "caps.orders_per_hour"}
            assert bounds == {traits.tight[0]}
        seen.add(traits.tight[0])
    assert len(seen) > 5


def test_some_lives_are_killed_while_forecasts_are_under_way() -> None:
    endings = [one for seed in range(1, 50) for one in draw_traits(SimulationPlan(seed=seed)).endings]
    cut = [one for one in endings if one.calls]
    assert 1 / 10 < len(cut) / len(endings) < 1 / 4
    assert {one.manner for one in cut} == {"kill"}
    assert 1 / 4 < sum(one.pause_s > 3_600.0 for one in cut) / len(cut) < 3 / 4


def test_a_change_is_of_one_key_and_names_the_venues_whose_permission_it_ends(registry: Registry) -> None:
    kinds = set()
    for seed in SEEDS:
        before = draw_config(seed, TABLES, registry).tables
        change = draw_change(seed, before, registry, live=NAMES[:2])
        assert change is not None
        differing = {*_leaves(before)} ^ {*_leaves(change.tables)}
        assert {key for key, _ in differing} == {change.key}
        assert {*change.venues} <= {*NAMES[:2]}
        assert change.venues == ((change.key.split(".")[1],) if change.key.startswith("venues.") else ())
        kinds.add(change.key.split(".")[0])
    assert len(kinds) > 1


def _loaded(tables: dict[str, object] | object, folder: Path) -> Config:
    assert isinstance(tables, dict)
    (folder / "config.toml").write_text(to_toml(tables), encoding="utf-8")
    return load_config(folder / "config.toml", {})


def _fields(registry: Registry) -> Iterator[str]:
    """Yield all keys with a range, pinned or not, but those that the tables have already."""
    for table in list_tables(TABLES, registry):
        for name, info in table.model.model_fields.items():
            key = ".".join((*table.key, name))
            if is_drawable(key, info):
                yield key


def _leaves(tables: object, key: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    if not isinstance(tables, dict):
        yield ".".join(key), str(tables)
        return
    for name, value in tables.items():
        yield from _leaves(value, (*key, name))
