"""Backtests and scores against figures worked out from the published files, here or by others."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand
from tests.acceptance.published_rounds import SAMPLE, brier_index, resolved

STABLE_KEYS = {"market", "dataset", "overall", "by_source", "by_round", "by_horizon", "intervals"}
CELL_KEYS = {"n", "base_rate", "brier", "brier_index"}
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def report(foxcast: FoxcastInstallation) -> dict[str, Any]:
    """The backtest of a forecaster that repeats the crowd, on the bundled rounds."""
    answer = foxcast("backtest", "--forecaster", "steady", "--rounds", "sample", "--json", "-")
    assert (answer.code, answer.err) == (0, "")
    found: dict[str, Any] = answer.json
    return found


def test_a_backtest_scores_what_plain_arithmetic_gives(report: dict[str, Any]) -> None:
    rows = [*resolved(SAMPLE)]
    market = [row.price - row.outcome for row in rows if row.price is not None]
    dataset = [0.5 - row.outcome for row in rows if row.price is None]
    assert (report["market"]["n"], report["dataset"]["n"]) == (len(market), len(dataset))
    assert report["market"]["brier_index"] == pytest.approx(brier_index(market), abs=TOLERANCE)
    assert report["dataset"]["brier_index"] == pytest.approx(50.0, abs=TOLERANCE)
    assert report["overall"]["mean_of_indices"] == pytest.approx((brier_index(market) + 50.0) / 2, abs=TOLERANCE)
    assert report["crowd"]["brier_index"] == pytest.approx(report["market"]["brier_index"], abs=TOLERANCE)
    assert report["by_round"].keys() == {row.due for row in rows}
    assert report["by_source"].keys() == {row.source for row in rows}


def test_a_report_keeps_to_the_documented_keys(report: dict[str, Any]) -> None:
    assert report.keys() >= STABLE_KEYS
    cells = [report["market"], report["dataset"], *report["by_source"].values(), *report["by_horizon"].values()]
    assert all(cell.keys() == CELL_KEYS for cell in cells)
    assert all(block.keys() == {"market", "dataset", "overall"} for block in report["by_round"].values())
    assert report["overall"].keys() == {"mean_of_indices", "index_of_mean_brier"}
    for span in report["intervals"].values():
        assert 0.0 <= span["low"] <= span["estimate"] <= span["high"] <= 100.0


def test_a_report_that_could_not_be_written_is_refused_before_the_work(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    # That nobody is called so would come out with the work.
    answer = run_command(
        foxcast, "backtest", "--forecaster", "nobody", "--rounds", "sample", "--json", "nowhere/x.json"
    )
    assert answer.is_refusal(2, "--json nowhere/x.json cannot be written")


def test_what_was_written_scores_as_the_backtest_does(
    foxcast: FoxcastInstallation, report: dict[str, Any], tmp_path: Path, run_command: InProcessCommand
) -> None:
    written = sorted((foxcast.folder / "state" / "paper" / "forecastbench" / "forecast_sets").glob("*.json"))
    place = tmp_path / "report.json"
    answer = run_command(foxcast, "score", "--rounds", SAMPLE, "--forecasts", *written, "--json", place)
    found = json.loads(place.read_text())
    assert answer.code == 0
    assert "Brier Index by file" in answer.out
    assert {key: found[key] for key in STABLE_KEYS} == {key: report[key] for key in STABLE_KEYS}
    assert found["by_file"].keys() == {str(path) for path in written}
    assert all(one["missing"] == 0.0 for one in found["by_file"].values())


def test_a_missing_row_counts_as_one_half_and_is_told(
    foxcast: FoxcastInstallation, tmp_path: Path, run_command: InProcessCommand
) -> None:
    (written,) = (foxcast.folder / "state" / "paper" / "forecastbench" / "forecast_sets").glob("2026-06-21*.json")
    forecasts = json.loads(written.read_text())
    left_out = next(row for row in resolved(SAMPLE) if row.due == "2026-06-21" and row.price is not None)
    forecasts["forecasts"] = [row for row in forecasts["forecasts"] if row["id"] != left_out.id]
    file = tmp_path / written.name
    file.write_text(json.dumps(forecasts))
    found = run_command(foxcast, "score", "--rounds", SAMPLE, "--forecasts", file, "--json", "-").json
    rows = [row for row in resolved(SAMPLE) if row.due == "2026-06-21" and row.price is not None]
    errors = [(0.5 if row == left_out else row.price or 0.0) - row.outcome for row in rows]
    assert found["market"]["brier_index"] == pytest.approx(brier_index(errors), abs=TOLERANCE)
    assert found["imputed"] == 1
    assert any("1 of" in note for note in found["notes"])


def test_the_ledger_scores_as_the_backtest_does(
    foxcast: FoxcastInstallation, report: dict[str, Any], run_command: InProcessCommand
) -> None:
    found = run_command(foxcast, "score", "--json", "-").json
    assert found["forecaster"] == "steady"
    for key in ("market", "dataset", "overall"):
        assert found[key] == pytest.approx(report[key])
    for key in ("by_source", "by_horizon"):
        assert found[key].keys() == report[key].keys()
        assert all(found[key][name] == pytest.approx(cell) for name, cell in report[key].items())
    beside = found["standings"]["family"]["market"]
    assert beside["crowd"]["n"] == beside["n"]
    assert beside["crowd"]["gain"]["estimate"] == pytest.approx(0.0, abs=TOLERANCE)
    assert found["standings"]["family"]["dataset"]["crowd"] is None


def test_scores_of_the_ledger_are_chosen_by_forecaster_venue_and_day(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    output = run_command(foxcast, "score", "--venue", "forecastbench").out
    assert all(part in output for part in ("By venue", "By source", "By horizon", "[95 %]", "crowd"))
    answer = run_command(foxcast, "score", "--since", "2030-01-01")
    assert answer.code == 0
    assert "nothing selected has resolved yet" in answer.out
    chosen = run_command(foxcast, "score", "--source", "fred", "--json", "-").json
    assert chosen["by_source"].keys() == {"fred"}


def test_unknown_forecasters_and_sources_are_refused_with_the_nearest_names(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    refused = run_command(foxcast, "score", "--forecaster", "stead")
    assert refused.is_refusal(2, "--forecaster stead: there is no such forecaster", "did you mean steady?")
    refused = run_command(foxcast, "score", "--source", "fread")
    assert refused.is_refusal(2, "--source fread: there is no such source", "did you mean fred?")


def test_scores_of_the_ledger_have_their_calibration_as_table_and_plot(
    foxcast: FoxcastInstallation, tmp_path: Path, run_command: InProcessCommand
) -> None:
    answer = run_command(foxcast, "score", "--plot", tmp_path / "c.svg", "--json", tmp_path / "s.json")
    assert "Reliability of forecasts" in answer.out
    assert "Calibration" in (tmp_path / "c.svg").read_text()
    found = json.loads((tmp_path / "s.json").read_text())
    assert sum(row["n"] for row in found["reliability"]["rows"]) == found["market"]["n"] + found["dataset"]["n"]


def test_files_of_two_authors_are_compared_and_not_pooled(
    foxcast: FoxcastInstallation, tmp_path: Path, run_command: InProcessCommand
) -> None:
    (written,) = (foxcast.folder / "state" / "paper" / "forecastbench" / "forecast_sets").glob("2026-06-21*.json")
    others = json.loads(written.read_text())
    others["organization"] = "Others"
    for row in others["forecasts"]:
        row["forecast"] = 0.9 * row["forecast"]
    file = tmp_path / f"{written.name.removesuffix('.json')}.2.json"
    file.write_text(json.dumps(others))
    answer = run_command(
        foxcast, "score", "--rounds", SAMPLE, "--forecasts", written, file, "--json", tmp_path / "s.json"
    )
    assert answer.code == 0, answer.err
    assert "Paired comparisons on identical events" in answer.out
    found = json.loads((tmp_path / "s.json").read_text())
    first, second = found["by_group"].values()
    assert first["market"]["n"] == second["market"]["n"] == found["market"]["n"]
    (compared,) = found["comparison"]["rows"]
    assert compared["market_difference"]["estimate"] == pytest.approx(
        second["market"]["brier_index"] - first["market"]["brier_index"]
    )


def test_a_window_of_rounds_includes_its_ends(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    command = ("backtest", "--forecaster", "steady", "--rounds", "sample", "--json", "-")
    found = run_command(foxcast, *command, "--from", "2026-06-07", "--to", "2026-06-07").json
    assert found["by_round"].keys() == {"2026-06-07"}


def test_a_fit_uses_only_what_was_known_and_says_where_it_comes_from(
    foxcast: FoxcastInstallation, tmp_path: Path, run_command: InProcessCommand
) -> None:
    place = tmp_path / "steady.json"
    answer = run_command(foxcast, "fit", "steady", "--rounds", SAMPLE, "--before", "2026-06-21", "--out", place)
    fitted = json.loads(place.read_text())
    known = [row for row in resolved(SAMPLE) if row.date < "2026-06-21"]
    assert answer.code == 0
    assert f"{len(known)} outcomes" in answer.out
    assert fitted["examples"] == fitted["payload"]["count"] == len(known)
    assert fitted["before"].startswith("2026-06-21T00:00:00")
    assert fitted["provenance"].keys() == {"rounds", "inputs", "foxcast", "command"}


def test_the_crowd_on_real_rounds_scores_as_published_for_it(
    new_installation: FoxcastInstallation, shared: Path
) -> None:
    expected = json.loads((shared / "venues" / "forecastbench_expected.json").read_text())["crowd_emp"]
    rounds = shared / "data" / "forecastbench"
    command = ("backtest", "--forecaster", "steady", "--rounds", rounds, "--from", "2025-10-26", "--json", "-")
    found = new_installation(*command, timeout=60).json
    assert found["market"]["n"] == expected["pooled"]["market"]["n"]
    assert found["dataset"]["n"] == expected["pooled"]["dataset"]["n"]
    assert found["market"]["brier_index"] == pytest.approx(expected["pooled"]["market"]["brier_index"], abs=TOLERANCE)
    for due, block in found["by_round"].items():
        theirs = expected["by_date"][due]["market"]
        assert (block["market"]["n"], block["market"]["brier_index"]) == (
            theirs["n"],
            pytest.approx(theirs["brier_index"], abs=TOLERANCE),
        )


def test_the_tranches_of_the_paper_score_as_it_says(
    new_installation: FoxcastInstallation, shared: Path, run_command: InProcessCommand
) -> None:
    expected = json.loads((shared / "venues" / "forecastbench_expected.json").read_text())["blf_tranches"]
    data = shared / "data" / "forecastbench"
    (new_installation.folder / "question_sets").symlink_to(data / "question_sets")
    (new_installation.folder / "resolution_sets").symlink_to(data / "resolution_sets_asof_2026-04-11")
    window = ("--from", "2025-10-26", "--to", "2025-11-09")
    found = run_command(
        new_installation, "backtest", "--forecaster", "steady", "--rounds", ".", *window, "--json", "-"
    ).json["by_round"]
    for tranche in ("A", "B"):
        market = found[expected[tranche]["date"]]["market"]
        assert market["n"] == 100
        assert market["brier_index"] == pytest.approx(expected[tranche]["market"]["brier_index"], abs=TOLERANCE)
