import json
from pathlib import Path
from typing import Any

import pytest

from bot.api import MalformedDataError, Round
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.forecast_file import parse_forecast_file
from plugins.forecastbench.settings import ForecastBenchSettings


@pytest.fixture
def asked() -> Round:
    """The sample round of 2026-05-24: 15 market rows, 111 dataset rows, all 41 up to 90 days resolved."""
    return ForecastBenchArchive(ForecastBenchSettings(), Path("sample")).read_round("2026-05-24")


@pytest.fixture
def rows(asked: Round) -> list[dict[str, Any]]:
    """A complete file."""
    return [
        {
            "id": question.source_id,
            "source": question.source,
            "forecast": 0.4,
            "resolution_date": target.key if question.family == "dataset" else None,
        }
        for question in asked.questions
        for target in question.targets
    ]


def file(rows: list[Any]) -> dict[str, Any]:
    return {"organization": "Others", "model": "m", "question_set": "2026-05-24-llm.json", "forecasts": rows}


def test_a_complete_file_has_no_complaint(asked: Round, rows: list[dict[str, Any]]) -> None:
    sheet = parse_forecast_file(file(rows), name="x.json", asked=asked)
    assert (sheet.name, sheet.author, sheet.round) == ("x.json", "Others", "2026-05-24")
    assert len(sheet.probabilities) == len(rows) == 15 + 13 * 8 + 7
    assert set(sheet.probabilities.values()) == {0.4}
    assert sheet.dropped_rows == ()


def test_sources_are_read_in_any_case(asked: Round, rows: list[dict[str, Any]]) -> None:
    upper = [row | {"source": row["source"].upper()} for row in rows]
    assert parse_forecast_file(file(upper), name="x", asked=asked).dropped_rows == ()


def test_any_date_of_a_market_row_is_overwritten(asked: Round, rows: list[dict[str, Any]]) -> None:
    dated = [row | {"resolution_date": row["resolution_date"] or "2030-01-01"} for row in rows]
    assert parse_forecast_file(file(dated), name="x", asked=asked).dropped_rows == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"forecast": None}, "not in [0, 1]"),
        ({"forecast": 1.01}, "not in [0, 1]"),
        ({"forecast": float("nan")}, "not in [0, 1]"),
        ({"forecast": "0.5"}, "not in [0, 1]"),
        ({"forecast": True}, "not in [0, 1]"),
        ({"source": "oracle"}, "not known"),
        ({"id": 5}, "not a text"),
        ({"source": "fred", "resolution_date": "2026-05-25"}, "not due date + horizon"),
        ({"source": "fred", "resolution_date": None}, "not due date + horizon"),
    ],
)
def test_a_row_that_the_rules_drop_is_a_complaint(
    changes: dict[str, Any], reason: str, asked: Round, rows: list[dict[str, Any]]
) -> None:
    sheet = parse_forecast_file(file([*rows, rows[0] | changes]), name="x", asked=asked)
    assert len(sheet.probabilities) == len(rows)
    assert len(sheet.dropped_rows) == 1
    assert f"row {len(rows) + 1}: " in sheet.dropped_rows[0]
    assert reason in sheet.dropped_rows[0]


def test_a_second_market_row_is_a_complaint(asked: Round, rows: list[dict[str, Any]]) -> None:
    sheet = parse_forecast_file(file([*rows, rows[0] | {"forecast": 0.9}]), name="x", asked=asked)
    assert "second row" in sheet.dropped_rows[0]
    assert set(sheet.probabilities.values()) == {0.4}


def test_a_second_dataset_row_refuses_the_file(asked: Round, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(MalformedDataError, match="two rows"):
        parse_forecast_file(file([*rows, rows[-1]]), name="x", asked=asked)


def test_rows_that_were_not_asked_are_dropped(asked: Round, rows: list[dict[str, Any]]) -> None:
    sheet = parse_forecast_file(file([*rows, rows[0] | {"id": "unasked"}]), name="x", asked=asked)
    assert len(sheet.probabilities) == len(rows)
    assert "did not ask" in sheet.dropped_rows[0]


def test_combination_rows_are_one_complaint(asked: Round, rows: list[dict[str, Any]]) -> None:
    pairs = [{"id": ["a", "b"], "source": "fred", "direction": [1, -1], "forecast": 0.5}] * 4
    sheet = parse_forecast_file(file([*rows, *pairs]), name="x", asked=asked)
    assert sheet.dropped_rows == ("4 rows of combination questions are never scored",)


def test_exactly_five_percent_missing_is_borne(asked: Round, rows: list[dict[str, Any]]) -> None:
    unresolved = [row for row in rows if row["source"] == "wikipedia" and str(row["resolution_date"]) > "2026-09"]
    left_out = unresolved[:6]  # 6 of 126 rows are 4.8 %
    kept = [row for row in rows if row not in left_out]
    assert parse_forecast_file(file(kept), name="x", asked=asked).dropped_rows == ()


@pytest.mark.parametrize(
    ("source", "count", "group"),
    [
        ("wikipedia", 7, "7 of 126 all rows"),
        ("manifold", 1, "1 of 15 market rows"),
        ("yfinance", 3, "3 of 41 resolved"),
    ],
)
def test_a_file_with_more_missing_will_be_ignored(
    source: str, count: int, group: str, asked: Round, rows: list[dict[str, Any]]
) -> None:
    left_out = [row for row in rows if row["source"] == source]
    left_out = left_out[-count:] if source == "wikipedia" else left_out[:count]
    kept = [row for row in rows if row not in left_out]
    complaints = parse_forecast_file(file(kept), name="x", asked=asked).dropped_rows
    assert [text for text in complaints if f"will be ignored: {group}" in text]


def test_a_published_round_with_5_1_percent_missing_is_flagged(shared: Path, tmp_path: Path) -> None:
    archive = ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench")
    found = archive.read_round("2026-03-29")
    rows = [
        {
            "id": question.source_id,
            "source": question.source,
            "forecast": 0.4,
            "resolution_date": target.key if question.family == "dataset" else None,
        }
        for question in found.questions
        for target in question.targets
    ]
    dataset = [row for row in rows if row["resolution_date"] is not None]
    for missing, flagged in ((112, False), (115, True)):  # of 2,248 rows: 4.98 % and 5.1 %
        dropped = {id(row) for row in dataset[-missing:]}
        payload = file([row for row in rows if id(row) not in dropped]) | {"question_set": "2026-03-29-llm.json"}
        path = tmp_path / "others.json"
        path.write_text(json.dumps(payload))
        complaints = archive.read_forecast_file(path).dropped_rows
        assert any("of 2248 all rows" in text for text in complaints) is flagged


def test_without_the_question_set_nothing_can_be_called_missing(rows: list[dict[str, Any]]) -> None:
    sheet = parse_forecast_file(file(rows[:3]), name="x", asked=None)
    assert len(sheet.probabilities) == 3
    assert "not available" in sheet.dropped_rows[0]


@pytest.mark.parametrize("raw", [[], {}, {"forecasts": []}, {"question_set": "soon", "forecasts": []}])
def test_a_file_without_frame_is_refused(raw: object) -> None:
    with pytest.raises(MalformedDataError):
        parse_forecast_file(raw, name="x", asked=None)


def test_a_file_of_odd_rows_alone_is_told_in_brief(asked: Round) -> None:
    rows = [{"id": "x", "source": "y" * 10_000}] * 40_000
    complaints = parse_forecast_file(file(rows), name="x", asked=asked).dropped_rows
    assert complaints[100] == "39900 more complaints"
    assert max(map(len, complaints)) < 400
    # What the rules make of the file as a whole is not among the cut ones.
    assert complaints[101].startswith("will be ignored: 126 of 126 all rows")


def test_more_records_than_any_published_file_has_are_refused() -> None:
    with pytest.raises(MalformedDataError, match="50001 records"):
        parse_forecast_file(file([0] * 50_001), name="x", asked=None)
