"""Questions of every kind from the first command to the scores: the numbers are worked out by hand here."""

from math import log
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import CommandResult, FoxcastInstallation, InProcessCommand, installed

PLUGIN = Path(__file__).with_name("fake_archive_venue.py")
CONFIG = f"""
plugins = ["fake_archive_venue"]
plugin_files = ["{PLUGIN}"]

[venues.meadow]
forecasters = ["gardener"]
"""
# The squared distances of 0.2, 0.5 and 0.3 from what happened, the third option.
CHOICE = {"choice brier": 0.78, "choice log": -log(0.3), "choice baseline": 100 * (1 + log(0.3) / log(3))}
# A line from 0 to 0.8. At 0.625: 0.64 * 0.625^3 / 3 + (0.5^3 - 0.2^3) / 2.4; beyond the upper end: 0.64 / 3.
CRPS = (0.64 * 0.625**3 / 3 + (0.5**3 - 0.2**3) / 2.4, 0.64 / 3)
# The mass of one of four steps, and of the tail, next to the flat forecast's.
BASELINE = (50 * log(0.2 / (0.95 / 4)), 50 * log(0.2 / 0.05))
CURVE = {"crps": sum(CRPS) / 2, "curve baseline": sum(BASELINE) / 2}


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> tuple[FoxcastInstallation, CommandResult]:
    """The meadow after one pass, and what the pass said."""
    foxcast = installed(tmp_path_factory.mktemp("meadow"), CONFIG)
    return foxcast, foxcast("run", "--once")


def means(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        kind: {rule: span["estimate"] for rule, span in found["scores"].items()}
        for kind, found in report["kinds"].items()
    }


def test_one_pass_forecasts_and_scores_all_kinds(passed: tuple[FoxcastInstallation, CommandResult]) -> None:
    _, answer = passed
    assert (answer.code, answer.err.count("Traceback")) == (0, 0)
    assert "7 predictions scored" in answer.out
    assert "gardener: Brier Index of 2 resolved predictions" in answer.out
    assert "gardener: 1 resolved choice" in answer.out
    assert "gardener: 2 resolved curves" in answer.out


def test_the_ledger_has_the_scores_of_each_kind(
    passed: tuple[FoxcastInstallation, CommandResult], run_command: InProcessCommand
) -> None:
    report = run_command(passed[0], "score", "--json", "-").json
    # 0.7^2 for rain, 0.05^2 for the quarter of shade.
    assert (report["market"]["n"], report["market"]["brier"]) == (2, pytest.approx((0.49 + 0.0025) / 2))
    found = means(report)
    assert found["choice"] == pytest.approx(CHOICE)
    assert found["curve"] == pytest.approx(CURVE)
    # The crowd's 0.16 + 0.04 + 0.36 is better by 0.22.
    assert report["kinds"]["choice"]["crowd"]["gains"]["choice brier"]["estimate"] == pytest.approx(-0.22)
    reported = run_command(passed[0], "score").out
    assert "gardener: 2 resolved curves" in reported


def test_show_tells_the_scores_of_one_question(
    passed: tuple[FoxcastInstallation, CommandResult], run_command: InProcessCommand
) -> None:
    [grass] = run_command(passed[0], "show", "grass", "--json").json["forecasts"]
    assert grass["scores"]["outcome"] == pytest.approx({"crps": CRPS[1], "curve baseline": BASELINE[1]})
    [butterfly] = run_command(passed[0], "show", "butterfly", "--json").json["forecasts"]
    assert butterfly["scores"] == {"outcome": {}}
    snow = run_command(passed[0], "show", "snow").out
    assert "CRPS" in snow
    assert "CDF of" not in snow
    assert "10%: " in snow


def test_a_pass_tells_curves_by_their_quantiles_and_outcomes_in_their_unit(
    passed: tuple[FoxcastInstallation, CommandResult],
) -> None:
    reported = passed[1].out
    assert "CDF of" not in reported
    assert "10%: " in reported
    assert "25 cm" in reported
    assert "inf" not in reported.split()


def test_a_backtest_gives_the_scores_that_the_ledger_has(
    passed: tuple[FoxcastInstallation, CommandResult], run_command: InProcessCommand
) -> None:
    foxcast = passed[0]
    report = run_command(foxcast, "backtest", "--forecaster", "gardener", "--rounds", ".", "--json", "-").json
    assert report["kinds"] == run_command(foxcast, "score", "--json", "-").json["kinds"]
    assert (report["market"]["n"], [*report["by_round"]]) == (2, ["2026-01-01"])
    reported = run_command(foxcast, "backtest", "--forecaster", "gardener", "--rounds", ".").out
    assert "gardener on 1 rounds of meadow" in reported
    assert "2 resolved curves" in reported


def test_the_ledger_is_sound(passed: tuple[FoxcastInstallation, CommandResult], run_command: InProcessCommand) -> None:
    assert run_command(passed[0], "db", "check").code == 0
