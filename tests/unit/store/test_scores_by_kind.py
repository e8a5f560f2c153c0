"""Scores of choices and curves in the ledger: what scoring reads, and what it writes."""

from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest

from bot.core.forecasts import Forecast
from bot.core.outcomes import ChoiceOutcome, NumericOutcome, Outcome, Resolution, Score, VoidOutcome
from bot.core.predictions import (
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import CrowdForecast, Question
from bot.store.scores import ScoreFilter
from tests.row_scores import read_row_scores
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)
COLOURS = ChoiceShape(options=("red", "blue"))
DEPTH = CurveShape(grid=(0.0, 1.0, 2.0), unit="cm", open_upper=True)
RED = ChoicePrediction({"red": 0.7, "blue": 0.3})
DEEP = CurvePrediction((0.0, 0.3, 0.9))


async def ask(
    ledger_fixture: LedgerFixture, key: str, shape: ChoiceShape | CurveShape, crowd: Prediction | None = None
) -> Question:
    shown = None if crowd is None else CrowdForecast(prediction=crowd, at=NOON)
    return await ledger_fixture.ask(key, shape=shape, crowd=shown)


async def forecast(ledger_fixture: LedgerFixture, question: Question, said: Prediction, *, days: int = 0) -> Forecast:
    now = NOON + days * DAY
    running = await ledger_fixture.begin(question, now=now, cutoff=now)
    answer = ledger_fixture.answer(question, running, 0.5, made_at=now)
    given = replace(answer, raw={"outcome": said}, predictions={"outcome": said})
    await ledger_fixture.ledger.forecasts.complete(given, next_due=None)
    return given


async def resolve(ledger_fixture: LedgerFixture, question: Question, outcome: Outcome, *, days: int = 2) -> None:
    known = Resolution(ref=question.ref, target="outcome", outcome=outcome, resolved_at=NOON + days * DAY)
    await ledger_fixture.ledger.resolutions.record([known], seen_at=NOON)


async def score_all(ledger_fixture: LedgerFixture, **values: float) -> None:
    items = await ledger_fixture.ledger.scores.to_score(10)
    scores = [
        Score(forecast=item.forecast, target=item.target, rule=rule.replace("_", " "), value=value)
        for item in items
        for rule, value in values.items()
    ]
    await ledger_fixture.ledger.scores.record(items, scores, at=NOON)


@pytest.mark.parametrize(
    ("shape", "said", "outcome"),
    [(COLOURS, RED, ChoiceOutcome("red")), (DEPTH, DEEP, NumericOutcome(1.5)), (DEPTH, DEEP, NumericOutcome(inf))],
    ids=["choice", "curve", "beyond"],
)
async def test_scoring_is_given_the_shape_as_it_was_asked(
    ledger_fixture: LedgerFixture, shape: ChoiceShape | CurveShape, said: Prediction, outcome: Outcome
) -> None:
    question = await ask(ledger_fixture, "snow", shape, crowd=said)
    await forecast(ledger_fixture, question, said)
    other = replace(shape, options=("red", "blue", "green")) if shape is COLOURS else replace(DEPTH, unit="m")
    await ledger_fixture.ledger.questions.record([replace(question, shape=other, crowd=None)], seen_at=NOON + DAY)
    await resolve(ledger_fixture, question, outcome)
    [item] = await ledger_fixture.ledger.scores.to_score(10)
    assert (item.shape, item.prediction, item.crowd, item.outcome) == (shape, said, said, outcome)


async def test_the_last_word_before_close_and_outcome_has_its_values_by_rule(ledger_fixture: LedgerFixture) -> None:
    question = await ask(ledger_fixture, "snow", DEPTH)
    await forecast(ledger_fixture, question, DEEP)
    second = await forecast(ledger_fixture, question, DEEP, days=1)
    await forecast(ledger_fixture, question, DEEP, days=3)
    await resolve(ledger_fixture, question, NumericOutcome(1.5))
    await score_all(ledger_fixture, crps=0.1, curve_baseline=20.0)
    [row] = await read_row_scores(ledger_fixture.ledger, ScoreFilter())
    assert (row.forecast, row.kind, dict(row.values)) == (second.id, "curve", {"crps": 0.1, "curve baseline": 20.0})
    assert (row.ref, row.source, row.family, row.batch) == (question.ref, "almanac", "market", "2026-03-01")
    assert (row.cutoff, row.horizon_days) == (NOON + DAY, None)


async def test_values_come_back_to_the_last_digit(ledger_fixture: LedgerFixture) -> None:
    question = await ask(ledger_fixture, "snow", DEPTH)
    await forecast(ledger_fixture, question, DEEP)
    await resolve(ledger_fixture, question, NumericOutcome(1.5))
    await score_all(ledger_fixture, crps=0.1 + 0.2)
    [row] = await read_row_scores(ledger_fixture.ledger, ScoreFilter())
    assert row.values["crps"] == 0.1 + 0.2


async def test_yes_or_no_void_and_what_no_rule_could_judge_are_left_out(ledger_fixture: LedgerFixture) -> None:
    rain = await ledger_fixture.ask("rain")
    await ledger_fixture.forecast(rain)
    await ledger_fixture.resolve(rain, 1.0)
    await score_all(ledger_fixture, brier=0.49)
    for key, outcome in (("void", VoidOutcome("ambiguous")), ("odd", NumericOutcome(-5.0))):
        question = await ask(ledger_fixture, key, DEPTH)
        await forecast(ledger_fixture, question, DEEP)
        await resolve(ledger_fixture, question, outcome)
    await score_all(ledger_fixture)
    assert await ledger_fixture.ledger.scores.to_score(10) == []
    assert await read_row_scores(ledger_fixture.ledger, ScoreFilter()) == ()


async def test_a_correction_replaces_the_values_when_it_is_scored(ledger_fixture: LedgerFixture) -> None:
    question = await ask(ledger_fixture, "colour", COLOURS)
    await forecast(ledger_fixture, question, RED)
    await resolve(ledger_fixture, question, ChoiceOutcome("red"))
    await score_all(ledger_fixture, choice_brier=0.18)
    await resolve(ledger_fixture, question, ChoiceOutcome("blue"))
    assert await read_row_scores(ledger_fixture.ledger, ScoreFilter()) == ()
    await score_all(ledger_fixture, choice_brier=0.98)
    [row] = await read_row_scores(ledger_fixture.ledger, ScoreFilter())
    assert dict(row.values) == {"choice brier": 0.98}


async def test_the_rows_can_be_narrowed_as_those_of_yes_or_no(ledger_fixture: LedgerFixture) -> None:
    for key, shape, said, outcome in (
        ("colour", COLOURS, RED, ChoiceOutcome("red")),
        ("snow", DEPTH, DEEP, NumericOutcome(1.5)),
    ):
        question = await ask(ledger_fixture, key, shape)
        await forecast(ledger_fixture, question, said, days=int(key == "snow"))
        await resolve(ledger_fixture, question, outcome)
    await score_all(ledger_fixture, crps=0.1)

    async def keys(**chosen: object) -> list[str]:
        found = await read_row_scores(ledger_fixture.ledger, ScoreFilter(**chosen))  # type: ignore[arg-type]
        return [row.ref.key for row in found]

    assert await keys() == ["colour", "snow"]
    assert await keys(since=NOON + DAY) == ["snow"]
    assert await keys(until=NOON + DAY) == ["colour"]
    assert await keys(venue="elsewhere") == await keys(forecaster="other") == await keys(family="data") == []
