from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from bot.core.errors import MalformedDataError
from bot.core.outcomes import BinaryOutcome, Resolution, Score, VoidOutcome
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Target
from bot.core.submissions import ExecutionMode
from bot.store.scores import ScorablePrediction, ScoreFilter
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)


def brier(item: ScorablePrediction) -> Score:
    assert isinstance(item.prediction, BinaryPrediction)
    assert isinstance(item.outcome, BinaryOutcome)
    value = (item.prediction.probability - item.outcome.value) ** 2
    return Score(forecast=item.forecast, target=item.target, rule="brier", value=value)


async def score_all(ledger_fixture: LedgerFixture) -> list[ScorablePrediction]:
    items = await ledger_fixture.ledger.scores.to_score(100)
    await ledger_fixture.ledger.scores.record(items, [brier(item) for item in items], at=NOON)
    return items


async def test_a_resolved_forecast_is_to_be_scored_with_all_that_scoring_needs(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(targets=(Target(key="a", horizon_days=7), Target(key="b", horizon_days=30)))
    forecast = await ledger_fixture.forecast(question, 0.3)
    assert await ledger_fixture.ledger.scores.to_score(10) == []
    await ledger_fixture.resolve(question, 1.0, target="b")
    (item,) = await ledger_fixture.ledger.scores.to_score(10)
    assert (item.forecast, item.ref, item.target, item.horizon_days) == (forecast.id, question.ref, "b", 30)
    assert (item.family, item.source) == ("market", "almanac")
    assert (item.prediction, item.crowd, item.outcome) == (
        BinaryPrediction(0.3),
        BinaryPrediction(0.25),
        BinaryOutcome(1.0),
    )
    assert (item.made_at, item.cutoff) == (NOON, NOON)


async def test_what_is_scored_is_not_scored_again(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question, 0.3)
    await ledger_fixture.resolve(question, 1.0)
    await score_all(ledger_fixture)
    assert await ledger_fixture.ledger.scores.to_score(10) == []
    # (0.3 - 1)^2 = 0.49
    assert ledger_fixture.rows("select probability, crowd_probability, outcome, round(score, 12) from scored") == [
        (0.3, 0.25, 1.0, 0.49)
    ]


async def test_a_corrected_outcome_is_scored_anew_and_only_the_new_score_counts(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question, 0.3)
    await ledger_fixture.resolve(question, 1.0)
    await score_all(ledger_fixture)
    await ledger_fixture.resolve(question, 0.0)
    assert ledger_fixture.rows("select * from scored") == []
    await score_all(ledger_fixture)
    assert ledger_fixture.rows("select round(score, 12) from scored") == [(0.09,)]
    assert ledger_fixture.rows("select count(*) from score") == [(2,)]


async def test_a_correction_between_reading_and_recording_is_not_taken_for_scored(
    ledger_fixture: LedgerFixture,
) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question, 0.3)
    await ledger_fixture.resolve(question, 1.0)
    items = await ledger_fixture.ledger.scores.to_score(10)
    await ledger_fixture.resolve(question, 0.0)
    await ledger_fixture.ledger.scores.record(items, [brier(item) for item in items], at=NOON)
    assert [item.outcome for item in await ledger_fixture.ledger.scores.to_score(10)] == [BinaryOutcome(0.0)]


async def test_a_void_outcome_is_settled_without_a_score(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question)
    void = Resolution(ref=question.ref, target="outcome", outcome=VoidOutcome("withdrawn"), resolved_at=NOON)
    await ledger_fixture.ledger.resolutions.record([void], seen_at=NOON)
    items = await ledger_fixture.ledger.scores.to_score(10)
    assert [item.outcome for item in items] == [VoidOutcome("withdrawn")]
    await ledger_fixture.ledger.scores.record(items, [], at=NOON)
    assert await ledger_fixture.ledger.scores.to_score(10) == []


async def test_a_forecast_completed_after_the_outcome_came_is_scored_too(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.resolve(question, 1.0)
    await ledger_fixture.forecast(question)
    assert len(await ledger_fixture.ledger.scores.to_score(10)) == 1


async def test_a_score_of_something_else_is_refused(ledger_fixture: LedgerFixture) -> None:
    stray = Score(forecast="0" * 24, target="outcome", rule="brier", value=0.0)
    with pytest.raises(MalformedDataError, match="not among those to score"):
        await ledger_fixture.ledger.scores.record([], [stray], at=NOON)


async def test_the_table_has_the_last_word_before_close_and_outcome(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(closes_at=NOON + 3 * DAY)
    for day, probability in ((0, 0.1), (1, 0.2), (4, 0.9)):
        await ledger_fixture.forecast(question, probability, cutoff=NOON + day * DAY, now=NOON + day * DAY)
    await ledger_fixture.resolve(question, 1.0, days=2)
    table = await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    assert (table.probability, table.outcome, table.crowd) == ((0.2,), (1.0,), (0.25,))
    assert (table.batch, table.source, table.family, table.ref) == (
        ("2026-03-01",), ("almanac",), ("market",), (question.ref,)
    )  # fmt: skip
    assert table.cutoff == (NOON + DAY,)


@pytest.mark.parametrize(("spot", "probability"), [(None, 0.4), (NOON + 3 * DAY, 0.3)])
async def test_what_stood_when_a_venue_scores_is_what_counts(
    ledger_fixture: LedgerFixture, spot: datetime | None, probability: float
) -> None:
    question = await ledger_fixture.ask(spot_at=spot)
    for days, said in ((1, 0.2), (3, 0.3), (4, 0.4)):
        await ledger_fixture.forecast(question, said, now=NOON + days * DAY, cutoff=NOON + days * DAY)
    await ledger_fixture.resolve(question, 1.0)
    rows = await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    assert rows.probability == (probability,)
    answered = await ledger_fixture.ledger.scores.read_calibration_columns("plain", "market", before=NOON + 99 * DAY)
    assert answered.raw == (probability,)


async def test_a_forecast_of_the_past_counts_by_its_cutoff(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(closes_at=NOON + DAY)
    await ledger_fixture.forecast(question, 0.4, cutoff=NOON, now=NOON + 99 * DAY)
    await ledger_fixture.resolve(question, 0.0, days=2)
    assert len(await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter())) == 1


async def test_what_went_on_paper_and_what_went_for_real_can_be_told_apart(ledger_fixture: LedgerFixture) -> None:
    for key, mode in (("rain", ExecutionMode.PAPER), ("snow", ExecutionMode.LIVE), ("hail", None)):
        question = await ledger_fixture.ask(key)
        forecast = await ledger_fixture.forecast(question)
        if mode is not None:
            send = replace(ledger_fixture.send(forecast), mode=mode)
            await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
        await ledger_fixture.resolve(question, 1.0)

    async def refs(*, paper: bool | None) -> set[str]:
        return {
            ref.key for ref in (await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter(paper=paper))).ref
        }

    assert await refs(paper=True) == {"rain"}
    assert await refs(paper=False) == {"snow"}
    assert await refs(paper=None) == {"rain", "snow", "hail"}


async def test_the_table_can_be_narrowed(ledger_fixture: LedgerFixture) -> None:
    rain = await ledger_fixture.ask("rain")
    snow = await ledger_fixture.ask("snow", source="radio", family="data", batch="2026-03-15", crowd=None)
    for question in (rain, snow):
        await ledger_fixture.forecast(question)
        await ledger_fixture.resolve(question, 1.0)
    await ledger_fixture.forecast(rain, 0.7, forecaster="other", cutoff=NOON + DAY, now=NOON + DAY)

    async def keys(**chosen: object) -> list[tuple[str, str]]:
        rows = await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter(**chosen))  # type: ignore[arg-type]
        return [(ref.key, forecaster) for ref, forecaster in zip(rows.ref, rows.forecaster, strict=True)]

    everything = [("rain", "plain"), ("snow", "plain"), ("rain", "other")]
    assert await keys() == everything
    assert await keys(forecaster="other") == everything[2:]
    assert await keys(source="radio") == await keys(family="data") == await keys(batch="2026-03-15") == everything[1:2]
    assert await keys(since=NOON + DAY) == everything[2:]
    assert await keys(until=NOON + DAY) == everything[:2]
    assert await keys(venue="elsewhere") == []


async def test_columns_become_arrays_of_numbers_with_nan_where_there_was_no_crowd(
    ledger_fixture: LedgerFixture,
) -> None:
    question = await ledger_fixture.ask(crowd=None)
    await ledger_fixture.forecast(question)
    await ledger_fixture.resolve(question, 1.0)
    table = await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    assert np.isnan(np.array(table.crowd, dtype=float)).all()
