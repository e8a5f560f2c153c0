"""A world with all its servers: what it says of itself is a configuration that the real plugins understand."""

import tomllib
from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.plugin_system.registry import load_registry
from bot.simulator.demo.configuration import CONFIG, REAL_CONFIG, DemoPlan, demo_config, merge_tables, write_configs
from bot.simulator.environment import (
    SECRETS,
    VENUES,
    EnvironmentLayout,
    SimulatedEnvironment,
    open_environment,
    to_toml,
)
from bot.simulator.network import NetworkEventLoop
from bot.testing.clock import START
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

WEEK_S = 7 * 86_400.0


def stood(folder: Path, *, venues: tuple[str, ...] = VENUES, weeks: int = 0) -> SimulatedEnvironment:
    """Return a stand as it was after so many weeks."""

    async def main(clock: VirtualClock) -> SimulatedEnvironment:
        layout = EnvironmentLayout(seed=2, start=START, folder=folder, size=12, venues=venues)
        async with open_environment(clock, layout) as stand:
            for _ in range(weeks):
                await clock.sleep(WEEK_S)
                stand.world_runner.advance()
            write_configs(stand, DemoPlan(folder=folder))
            return stand

    return run_in_virtual_time(main, make=NetworkEventLoop)


def test_the_configuration_is_one_and_every_plugin_takes_its_settings(tmp_path: Path) -> None:
    stood(tmp_path)
    config = load_config(tmp_path / CONFIG, {})
    registry = load_registry(config)
    assert registry.broken == ()
    assert {name: config.mode_of(name).value for name in VENUES} == {
        "manifold": "live",
        "metaculus": "live",
        "polymarket": "paper",
        "forecastbench": "live",
    }


def test_the_configuration_for_the_real_venues_is_on_paper_and_knows_no_server_of_here(tmp_path: Path) -> None:
    stood(tmp_path)
    text = (tmp_path / REAL_CONFIG).read_text()
    config = load_config(tmp_path / REAL_CONFIG, {})
    assert load_registry(config).broken == ()
    assert {config.mode_of(name).value for name in config.venues} == {"paper"}
    assert "127.0.0.1" not in text
    assert not [secret for secret in SECRETS.values() if secret in text]
    # What needs a key is whole as well, once its comment is taken off.
    commented = "\n".join(
        line[2:] for line in text.splitlines() if line.startswith(("# [", "# token", "# tour", "# fore"))
    )
    assert tomllib.loads(commented)["venues"].keys() == {"metaculus"}


def test_every_server_speaks_of_the_same_world(tmp_path: Path) -> None:
    stand = stood(tmp_path, weeks=1)
    assert stand.venues.keys() == {"manifold", "metaculus", "polymarket"}
    assert stand.served.keys() == {"press", "mind", *stand.venues}
    assert len({served.url for served in stand.served.values()}) == 5
    assert [*(tmp_path / "rounds" / "question_sets").iterdir()]
    assert stand.request_count == 0
    assert stand.metaculus_account is not None


def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    stood(tmp_path)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in SECRETS} == {0o600}


def test_a_stand_may_have_some_of_the_venues(tmp_path: Path) -> None:
    stand = stood(tmp_path, venues=("polymarket",), weeks=1)
    assert (stand.writable, stand.trading, stand.manifold_account, stand.metaculus_account) == (
        (),
        ("polymarket",),
        "",
        None,
    )
    assert demo_config(stand, DemoPlan(folder=tmp_path))["venues"].keys() == {"polymarket"}
    assert not (tmp_path / "rounds").exists()


@pytest.mark.parametrize(
    "table",
    [
        {"a": 1, "b": {"c": 'x\n"y" \\ ü', "d": [1, 2.5], "e": {"f": True, "g h:i": {"j": []}}}},
        {"x": {}, "y": {"z": 1e-7, "n": -3}},
    ],
)
def test_tables_are_written_as_they_are_read(table: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(table)) == {name: value for name, value in table.items() if value != {}}


def test_the_second_table_wins_and_both_are_left_as_they_were() -> None:
    one, other = {"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 3}, "e": 4}
    assert merge_tables(one, other) == {"a": 1, "b": {"c": 1, "d": 3}, "e": 4}
    assert (one, other) == ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 3}, "e": 4})
