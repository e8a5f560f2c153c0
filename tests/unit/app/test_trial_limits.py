"""The limits of trials: a person's word for a forecaster, else what it needs, else the common defaults."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.app.app import open_backtest_forecaster
from bot.app.forecaster_requirements import limit_warnings, trial_limits
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.forecasts import TrialLimits
from bot.plugin_system.registry import Registry, load_registry
from bot.testing.clock import FakeClock

ALL = ("baseline", "blf", "court", "team", "solo", "orchestra", "blend")
PLUGINS = 'plugins = ["baseline", "blf", "society", "team", "solo", "orchestra", "blend"]\n'


def opened(folder: Path, text: str = "") -> tuple[Config, Registry]:
    file = folder / "config.toml"
    file.write_text(PLUGINS + text)
    config = load_config(file, {})
    return config, load_registry(config)


def limits(folder: Path, text: str = "") -> dict[str, tuple[int, float]]:
    config, registry = opened(folder, text)
    found = {name: trial_limits(config, registry, name) for name in ALL}
    return {name: (one.steps, one.seconds) for name, one in found.items()}


def test_a_forecaster_has_the_steps_and_the_time_that_it_needs(tmp_path: Path) -> None:
    found = limits(tmp_path)
    # 600 s is the common default, which those that need less keep.
    assert found == {
        "baseline": (found["baseline"][0], 600.0),
        "blf": (10, 600.0),
        "court": (12, 600.0),
        # Three members with twelve joint steps, in each of which a member is asked four times in a row.
        "team": (3 * 12, 12 * 4 * 60.0),
        "solo": (15, 900.0),
        "orchestra": (54, 3240.0),
        "blend": (1, 600.0),
    }


def test_what_is_needed_follows_the_settings(tmp_path: Path) -> None:
    text = '[forecasters.court.settings]\nscenario = "full"\n[forecasters.team.settings]\nmembers = 5\nsteps = 9\n'
    found = limits(tmp_path, text)
    # 28 calls that wait for each other: the five jurors are asked side by side.
    assert found["court"] == (40, 28 * 60.0)
    assert found["team"] == (45, 9 * 4 * 60.0)


def test_the_common_defaults_are_replaced_and_never_cut_a_forecaster_short(tmp_path: Path) -> None:
    found = limits(tmp_path, "[limits]\nsteps = 3\nseconds = 30\n")
    assert (found["team"], found["solo"]) == ((36, 2880.0), (15, 900.0))
    # More time than it needs is no harm.
    assert limits(tmp_path, "[limits]\nseconds = 4000\n")["team"] == (36, 4000.0)


def test_a_persons_word_for_a_forecaster_wins_and_too_little_is_a_warning(tmp_path: Path) -> None:
    text = "[forecasters.team]\nsteps = 6\nseconds = 100\n[forecasters.solo]\nsteps = 30\nseconds = 5000\n"
    assert limits(tmp_path, text)["team"] == (6, 100.0)
    assert limits(tmp_path, text)["solo"] == (30, 5000.0)
    config, registry = opened(tmp_path, text)
    steps, seconds = limit_warnings(config, registry, (*ALL, "team"))
    assert steps.startswith("[forecasters.team] steps = 6 is less than the 36 that a trial of team takes at most")
    assert seconds.startswith("[forecasters.team] seconds = 100 is less than the 2880 that a trial of team may take")


def test_tokens_and_cost_are_bounded_for_all(tmp_path: Path) -> None:
    config, registry = opened(tmp_path, "[limits]\ntokens = 9000\ncost_usd = 0.5\n")
    assert trial_limits(config, registry, "solo") == TrialLimits(steps=15, seconds=900.0, tokens=9000, cost_usd=0.5)


@pytest.mark.parametrize(
    ("text", "least", "warm"),
    [
        ("", 0.5, 30.0),
        ("[limits]\nmin_trial_share = 0.8\n", 0.8, 30.0),
        (
            "[limits]\nmin_trial_share = 0.8\n[forecasters.baseline]\nmin_trial_share = 0.0\nwarm_start_s = 0\n",
            0.0,
            0.0,
        ),
    ],
)
async def test_a_seat_has_its_share_and_its_warm_start(tmp_path: Path, text: str, least: float, warm: float) -> None:
    config, registry = opened(tmp_path, text)
    async with open_backtest_forecaster(config, registry, "baseline", clock=FakeClock()) as backtest:
        assert (backtest.forecaster.min_trial_share, backtest.forecaster.warm_start_s) == (least, warm)


@pytest.mark.parametrize(("line", "count"), [("steps = 1", 0), ("", 0)])
async def test_who_needs_nothing_is_not_warned_of(tmp_path: Path, line: str, count: int) -> None:
    config, registry = opened(tmp_path, f"[forecasters.baseline]\n{line}\n")
    with capture_logs() as logs:
        async with open_backtest_forecaster(config, registry, "baseline", clock=FakeClock()):
            pass
    assert len(logs) == count
