"""Scores of choices and curves, and the rows that reports are made from."""

import io
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from math import inf
from pathlib import Path

import numpy as np
import pytest

from bot.cli.output.console import SafeConsole, to_json_text
from bot.cli.output.score_report import print_kinds, print_report
from bot.cli.show import print_question_record, question_record_to_json
from bot.config.schema import Config
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, VoidOutcome
from bot.core.predictions import BinaryShape, CurveShape, QuestionShape
from bot.core.questions import Question, QuestionRef
from bot.evaluation.group_scores import score_group
from bot.evaluation.ledger_scores import rows_by_forecaster
from bot.evaluation.question_record import load_question_record
from bot.evaluation.score_report import ScoreInterval, build_report, kind_reports
from bot.evaluation.score_rows import BinaryScoreRow, RuleScoreRow
from bot.evaluation.value_text import describe_outcome
from bot.store.ledger import ReadOnlyState
from bot.store.scores import ScoreFilter
from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger
from tests.row_scores import read_row_scores, rule_scores_by_forecaster
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.test_score_kinds import forecast_all, resolve
from tests.unit.store.conftest import NOON, LedgerFixture

Printer = Callable[[SafeConsole], None]


@pytest.fixture
async def records(tmp_path: Path) -> AsyncIterator[ReadOnlyState]:
    """One question of each kind, forecast, resolved and scored."""
    clock = FakeClock()
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
        jobs_fixture = JobsFixture(ledger=ledger, path=tmp_path, clock=clock)
        await forecast_all(jobs_fixture)
        await resolve(jobs_fixture, rain=BinaryOutcome(1.0), colour=ChoiceOutcome("blue"), snow=NumericOutcome(25.0))
        await jobs_fixture.score()
        yield ReadOnlyState(config=Config(), folder=tmp_path, ledger=ledger)


def print_to_text(printer: Printer) -> str:
    console = SafeConsole(file=io.StringIO(), width=200, markup=False, highlight=False)
    printer(console)
    assert isinstance(console.file, io.StringIO)
    return re.sub(" +", " ", console.file.getvalue())


async def graded(records: ReadOnlyState) -> list[RuleScoreRow]:
    return rule_scores_by_forecaster(await read_row_scores(records.ledger, ScoreFilter()))["first"]


async def test_the_standings_tell_each_kind_by_its_rules_with_the_crowd_beside_it(records: ReadOnlyState) -> None:
    kinds = kind_reports(await graded(records), rng=np.random.default_rng(1))
    said = print_to_text(lambda console: print_kinds(console, kinds, prefix="first: "))
    assert "first: 1 resolved choice\n" in said
    # 0.78 against the crowd's 0.56: 0.22 worse.
    assert "Brier (0 to 2) lower 0.7800 - 0.5600 1 -0.2200 -" in said
    assert "first: 1 resolved curve\n" in said
    assert re.search(r"baseline higher -8\.59 - - - -", said)  # 50 * ln(0.2 / (0.95 / 4))


async def test_a_report_of_curves_alone_has_no_empty_tables(records: ReadOnlyState) -> None:
    curves = [row for row in await graded(records) if row.kind == "curve"]
    report = build_report([], graded=curves, rng=np.random.default_rng(1))
    said = print_to_text(lambda console: print_report(console, report, title="A report"))
    assert "1 resolved curve\n" in said
    assert "Curves by source" in said
    assert "market" not in said
    assert "choices" not in said
    plain = json.loads(to_json_text(report.to_json()))
    assert plain["kinds"]["curve"]["n"] == 1
    assert plain["kinds"]["curve"]["scores"].keys() == {"crps", "curve baseline"}


async def test_missing_answers_are_told(records: ReadOnlyState) -> None:
    [choice] = [row for row in await graded(records) if row.kind == "choice"]
    missing = RuleScoreRow(
        **{name: getattr(choice, name) for name in RuleScoreRow.__dataclass_fields__ if name != "imputed"}, imputed=True
    )
    kinds = kind_reports([choice, missing], rng=np.random.default_rng(1))
    said = print_to_text(lambda console: print_kinds(console, kinds))
    assert "2 resolved choices, 1 of them missing and counted as uniform forecasts" in said


DEPTH = CurveShape(grid=(0.0, 40.0), unit="cm", open_lower=True, open_upper=True)
DATES = CurveShape(grid=(0.0, 86_400.0), unit="date", open_upper=True)


@pytest.mark.parametrize(
    ("outcome", "shape", "words"),
    [
        (NumericOutcome(1234.5), DEPTH, "1234.5 cm"),
        (NumericOutcome(inf), DEPTH, "above 40 cm"),
        (NumericOutcome(-inf), DEPTH, "below 0 cm"),
        (NumericOutcome(90_000.0), DATES, "1970-01-02"),
        (NumericOutcome(inf), DATES, "above 1970-01-02"),
        (VoidOutcome("ambiguous"), DATES, "void (ambiguous)"),
        (BinaryOutcome(1.0), BinaryShape(), "yes"),
        (None, DEPTH, "-"),
    ],
)
def test_an_outcome_is_told_in_the_unit_of_the_question(
    outcome: Outcome | None, shape: QuestionShape, words: str
) -> None:
    assert describe_outcome(outcome, shape) == words


@pytest.mark.parametrize(
    ("key", "columns", "values"),
    [
        ("rain", "outcome Brier", "yes 0.4900"),
        ("colour", "outcome Brier (0 to 2) log score baseline", "blue 0.7800 1.2040 -9.59"),
        # The line from 0 to 0.8, the outcome at 0.625: 0.64 * 0.625^3 / 3 + (0.5^3 - 0.2^3) / 2.4.
        ("snow", "outcome CRPS baseline", "25 cm 0.1008 -8.59"),
    ],
)
async def test_show_has_the_scores_of_the_kind(records: ReadOnlyState, key: str, columns: str, values: str) -> None:
    found = await load_question_record(records, QuestionRef(VENUE, key))
    said = print_to_text(lambda console: print_question_record(console, found))
    assert columns in said
    assert values in said


async def test_the_json_of_show_names_each_rule(records: ReadOnlyState) -> None:
    rules = {}
    for key in ("rain", "colour", "snow"):
        plain = json.loads(
            to_json_text(question_record_to_json(await load_question_record(records, QuestionRef(VENUE, key))))
        )
        rules[key] = plain["forecasts"][0]["scores"]["outcome"].keys()
    assert rules == {
        "rain": {"brier"},
        "colour": {"choice brier", "choice log", "choice baseline"},
        "snow": {"crps", "curve baseline"},
    }


async def test_options_have_the_order_of_their_question_on_paper_and_in_json(records: ReadOnlyState) -> None:
    found = await load_question_record(records, QuestionRef(VENUE, "colour"))
    text = to_json_text(question_record_to_json(found))
    # The answers, the crowd, the beliefs and the history.
    in_turn = re.findall(r'"(red|green|blue)": 0', text)
    assert len(in_turn) >= 9
    assert in_turn == ["red", "green", "blue"] * (len(in_turn) // 3)
    said = print_to_text(lambda console: print_question_record(console, found))
    assert re.search(r"red [\d.]+%, green [\d.]+%, blue [\d.]+%", said)
    assert not re.search(r"(green|blue) [\d.]+%, red", said)


async def test_show_says_what_a_question_is_filed_under(records: ReadOnlyState) -> None:
    found = await load_question_record(records, QuestionRef(VENUE, "rain"))
    assert "tags:" not in print_to_text(lambda console: print_question_record(console, found))
    filed = replace(found.question, tags=("wet", "cold"), tournaments=("autumn",), category="weather")
    said = print_to_text(lambda console: print_question_record(console, replace(found, question=filed)))
    assert "tags: wet, cold\ntournaments: autumn\ncategory: weather\n" in said


async def rows(tmp_path: Path, *, series: str) -> list[BinaryScoreRow]:
    """One question asked again in 40 rounds, always answered 0.8, with a run of outcomes for each half."""
    path = tmp_path / "ledger.sqlite"
    async with open_blank_ledger(path, now=NOON) as ledger:
        ledger_fixture = LedgerFixture(ledger, path)
        for number in range(40):
            question: Question = await ledger_fixture.ask(f"{number:02}/rain", series=series.format(number=number % 4))
            await ledger_fixture.forecast(question, 0.8)
            await ledger_fixture.resolve(question, float(number % 4 < 2))
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
    assert width(series) > 2 * width(alone)


def width(span: ScoreInterval) -> float:
    assert span.low is not None
    assert span.high is not None
    return span.high - span.low


async def test_one_resolved_question_has_no_interval(tmp_path: Path) -> None:
    (row,) = (await rows(tmp_path, series=""))[:1]
    found = score_group([row], np.random.default_rng(1))
    assert (found.brier_index.low, found.brier_index.high) == (None, None)
    assert found.crowd is not None
    assert found.crowd.gain.low is None
