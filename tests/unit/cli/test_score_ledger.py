"""From the table of scored predictions to the rows that reports are made from."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from bot.cli.score import rows_by_forecaster
from bot.core.questions import Question
from bot.evaluation.group_scores import score_group
from bot.evaluation.score_rows import BinaryScoreRow
from bot.store.ledger import open_ledger
from bot.store.scores import ScoreFilter
from tests.unit.store.conftest import NOON, LedgerFixture


async def rows(tmp_path: Path, *, series: str) -> list[BinaryScoreRow]:
    """One question asked again in 40 rounds, always answered 0.8, with a run of outcomes for each half."""
    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=NOON) as ledger:
        scribe = LedgerFixture(ledger, path)
        for number in range(40):
            question: Question = await scribe.ask(f"{number:02}/rain", series=series.format(number=number % 4))
            await scribe.forecast(question, 0.8)
            await scribe.resolve(question, float(number % 4 < 2))
        table = await ledger.scores.read_binary_columns(ScoreFilter(until=NOON + timedelta(days=1)))
    return [scored.row for scored in rows_by_forecaster(table)["plain"]]


async def test_questions_of_a_series_are_one_unit_of_the_bootstrap(tmp_path: Path) -> None:
    found = await rows(tmp_path, series="rain in town {number}")
    assert {row.series for row in found} == {f"lantern:almanac/rain in town {number}" for number in range(4)}


async def test_questions_without_a_series_stand_for_themselves(tmp_path: Path) -> None:
    assert {row.series for row in await rows(tmp_path, series="")} == {
        f"lantern:almanac/{number:02}/rain" for number in range(40)
    }


async def test_repeated_questions_do_not_make_an_interval_narrower(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "series").mkdir()
    alone = score_group(await rows(tmp_path / "alone", series=""), np.random.default_rng(1)).brier_index
    series = score_group(await rows(tmp_path / "series", series="town {number}"), np.random.default_rng(1)).brier_index
    assert series.estimate == pytest.approx(alone.estimate)
    # Four independent things instead of forty: wider by about the root of ten.
    assert series.high - series.low > 2 * (alone.high - alone.low)
