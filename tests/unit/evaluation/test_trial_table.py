"""Tables of trials as files: what is read, and which files are refused."""

from pathlib import Path

import pandas as pd
import pytest

from bot.core.errors import MalformedDataError, NotFoundError
from bot.evaluation.trial_table import EventKey, apply_published_outcomes, read_trial_tables, round_rows
from bot.stats.blending import SourceKind
from tests.unit.evaluation.trial_table_files import random_table, write_table
from tests.unit.testing.correct_venue import LanternArchive


def test_a_table_is_read_row_by_row(tmp_path: Path) -> None:
    frame = random_table()
    table = read_trial_tables([write_table(frame, tmp_path / "t.csv.gz")])
    assert len(table.rows) == len(frame)
    first, raw = table.rows[0], frame.iloc[0]
    assert first.event == EventKey("2026-01-04", "exchange", "q0", "")
    assert (first.forecast, first.outcome, first.price) == (raw.forecast, raw.resolved_to, raw.market_value)
    assert first.trials == (raw.trial_1, raw.trial_2, raw.trial_3)
    assert first.usage == {"n_steps": 3.0}


def test_the_kind_of_a_source_follows_from_its_prices_and_days(tmp_path: Path) -> None:
    frame = random_table()
    frame.loc[frame.source == "tournament", "market_value"] = None
    # Published files hold the last value of a series in the column of the price.
    frame.loc[frame.source == "river", "market_value"] = 37.5
    table = read_trial_tables([write_table(frame, tmp_path / "t.csv")])
    assert table.kinds == {
        "exchange": SourceKind.PRICED,
        "tournament": SourceKind.TOURNAMENT,
        "river": SourceKind.SERIES,
    }
    assert {row.price for row in table.rows if row.event.source == "river"} == {None}
    assert {table.family(row.event) for row in table.rows if row.event.source == "river"} == {"dataset"}


def test_unresolved_rows_have_no_outcome_and_rows_without_a_number_are_left_out(tmp_path: Path) -> None:
    frame = random_table().astype({"resolved": object})
    frame.loc[0, "resolved"] = "False"
    frame.loc[1, ["forecast", "trial_1", "trial_2", "trial_3"]] = None
    frame.loc[2, "forecast"] = None
    table = read_trial_tables([write_table(frame, tmp_path / "t.csv")])
    assert table.rows[0].outcome is None
    assert len(table.rows) == len(frame) - 1
    # The row without a forecast of its own has the logit mean of its trials.
    odds = [t / (1 - t) for t in frame.loc[2, ["trial_1", "trial_2", "trial_3"]]]
    pooled = (odds[0] * odds[1] * odds[2]) ** (1 / 3)
    assert table.rows[1].forecast == pytest.approx(pooled / (1 + pooled))


@pytest.mark.parametrize(
    ("forecast", "submitted", "stuck"),
    [(0.5, True, True), (0.31, False, True), (0.31, True, False), (0.3, False, False)],
)
def test_a_run_is_stuck_at_one_half_or_at_its_price_without_an_answer(
    tmp_path: Path, *, forecast: float, submitted: bool, stuck: bool
) -> None:
    frame = random_table().head(1).assign(forecast=forecast, submitted=submitted, market_value=0.31)
    (row,) = read_trial_tables([write_table(frame, tmp_path / "t.csv")]).rows
    assert row.is_stuck is stuck


def test_a_value_that_is_no_probability_is_refused_with_its_line(tmp_path: Path) -> None:
    frame = random_table()
    frame.loc[3, "forecast"] = 1.2
    path = write_table(frame, tmp_path / "t.csv")
    with pytest.raises(MalformedDataError, match=r"t\.csv line 5: 1\.2 is not in \[0, 1\]"):
        read_trial_tables([path])


@pytest.mark.parametrize("column", ["forecast_due_date", "resolution_date"])
def test_a_day_that_is_no_date_is_refused_with_its_line(tmp_path: Path, column: str) -> None:
    frame = random_table()
    frame.loc[2, column] = "spring"
    path = write_table(frame, tmp_path / "t.csv")
    with pytest.raises(MalformedDataError, match=r"t\.csv line 4: Invalid isoformat string: 'spring'"):
        read_trial_tables([path])


def test_a_table_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path = write_table(random_table(), tmp_path / "t.csv")
    with pytest.raises(MalformedDataError, match="model has two rows for 2026-01-04 exchange q0; name each table once"):
        read_trial_tables([path, path])


def test_files_of_another_form_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "broken.csv.gz").write_text("no gzip")
    with pytest.raises(MalformedDataError, match="needs rows with the columns method, forecast_due_date"):
        read_trial_tables([tmp_path / "other.csv"])
    with pytest.raises(MalformedDataError, match="is no table of trials"):
        read_trial_tables([tmp_path / "broken.csv.gz"])
    with pytest.raises(NotFoundError, match="there is no table"):
        read_trial_tables([tmp_path / "missing.csv"])


def test_published_outcomes_replace_those_of_the_table(tmp_path: Path) -> None:
    archive = LanternArchive()
    a_round = archive.read_round("0")
    (question,) = a_round.questions
    answers = {(question.ref.key, target.key): 0.3 for target in question.targets}
    (row,) = round_rows(a_round, "mine", answers)
    assert (row.forecast, row.outcome) == (0.3, 1.0)
    frame = pd.DataFrame(
        [
            {
                "method": "other",
                "forecast_due_date": row.event.round,
                "source": row.event.source,
                "id": row.event.question,
                "resolution_date": "2026-01-09",
                "forecast": 0.8,
                "resolved_to": 0.0,
            }
        ]
    )
    table = read_trial_tables([write_table(frame, tmp_path / "t.csv")])
    published = apply_published_outcomes(table, [a_round])
    assert published.changed == 1
    assert [one.outcome for one in published.table.rows] == [1.0]
    assert published.table.rows[0].day == row.day
