"""What venues tell of forecasts that left, and what resolved without a score of ours."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bot.core.forecasts import Forecast
from bot.core.outcomes import BinaryOutcome, ContestStanding, Outcome, Resolution, VoidOutcome
from bot.core.questions import Question
from bot.core.submissions import ExecutionMode, IntentState, WriteReceipt
from bot.store.scores import ScoreFilter
from tests.unit.store.conftest import NOON, LedgerFixture
from tests.unit.store.test_scores import score_all

DAY = timedelta(days=1)
ALL = ScoreFilter()


async def left(ledger_fixture: LedgerFixture, forecast: Forecast, mode: ExecutionMode = ExecutionMode.LIVE) -> None:
    """The forecast left, and was acknowledged."""
    send = replace(ledger_fixture.send(forecast), mode=mode)
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    await ledger_fixture.ledger.submissions.begin_attempt([send.intent.id], at=NOON)
    receipt = WriteReceipt(intent=send.intent.id, state=IntentState.ACKED)
    await ledger_fixture.ledger.submissions.settle([receipt], at=NOON)


async def tell(
    ledger_fixture: LedgerFixture,
    question: Question,
    scores: Mapping[str, float],
    outcome: Outcome | None = None,
    days: int = 40,
) -> None:
    """The venue tells an outcome, with its scores of our forecast."""
    told = Resolution(
        ref=question.ref,
        target="outcome",
        outcome=outcome or BinaryOutcome(1.0),
        resolved_at=NOON + days * DAY,
        scores=scores,
    )
    await ledger_fixture.ledger.resolutions.record([told], seen_at=NOON)
    await ledger_fixture.ledger.venue_scores.record([told], account="us", at=NOON)


async def test_a_question_of_yes_or_no_has_the_scores_of_its_venue_beside_the_forecast_that_left(
    ledger_fixture: LedgerFixture,
) -> None:
    question = await ledger_fixture.ask(weight=0.5)
    forecast = await ledger_fixture.forecast(question, 0.8)
    await left(ledger_fixture, forecast)
    await tell(ledger_fixture, question, {})
    assert await ledger_fixture.ledger.venue_scores.scored(ALL) == []
    await tell(ledger_fixture, question, {"peer": 12.5, "coverage": 0.75})
    [item] = await ledger_fixture.ledger.venue_scores.scored(ALL)
    assert (item.venue, item.account, item.ref, item.forecaster) == ("lantern", "us", question.ref, "plain")
    assert (item.prediction, item.weight) == (forecast.predictions["outcome"], 0.5)
    assert item.values == {"peer": 12.5, "coverage": 0.75}
    # What is not told any more goes: the outcome was undone there, say.
    await tell(ledger_fixture, question, {}, VoidOutcome("undone"))
    assert ledger_fixture.rows("select count(*) from venue_score") == [(0,)]


async def test_of_a_venue_that_tells_scores_no_question_that_left_drops_out(ledger_fixture: LedgerFixture) -> None:
    told, untold, void = [await ledger_fixture.ask(key) for key in ("rain", "snow", "hail")]
    for question in (told, untold, void):
        await left(ledger_fixture, await ledger_fixture.forecast(question))
    await tell(ledger_fixture, told, {"peer": 1.0})
    await tell(ledger_fixture, untold, {})
    await tell(ledger_fixture, void, {}, VoidOutcome("annulled"))
    found = await ledger_fixture.ledger.venue_scores.scored(ALL)
    assert {item.ref.key: dict(item.values) for item in found} == {"rain": {"peer": 1.0}, "snow": {}, "hail": {}}
    assert await ledger_fixture.ledger.venue_scores.scored(ScoreFilter(paper=True)) == []
    assert await ledger_fixture.ledger.venue_scores.scored(ScoreFilter(venue="harbour")) == []


async def test_the_forecast_that_stood_at_the_moment_that_counts_is_the_one_that_is_shown(
    ledger_fixture: LedgerFixture,
) -> None:
    question = await ledger_fixture.ask(spot_at=NOON + 2 * DAY)
    for days, probability in ((1, 0.2), (3, 0.9)):
        forecast = await ledger_fixture.forecast(question, probability, now=NOON + days * DAY, cutoff=NOON + days * DAY)
        await left(ledger_fixture, forecast)
    await tell(ledger_fixture, question, {"spot peer": 3.0})
    [item] = await ledger_fixture.ledger.venue_scores.scored(ALL)
    assert getattr(item.prediction, "probability", None) == 0.2


async def test_standings_are_those_that_were_told_last(ledger_fixture: LedgerFixture) -> None:
    first = ContestStanding(contest="aib", name="AIB", rule="spot peer", points=10.0, rank=3, entrants=9)
    second = replace(first, points=20.0, rank=1)
    for standings in ([first], [second]):
        await ledger_fixture.ledger.venue_scores.keep_standings("lantern", "us", standings, at=NOON)
    [told] = await ledger_fixture.ledger.venue_scores.standings()
    assert (told.venue, told.account, told.standing) == ("lantern", "us", second)
    await ledger_fixture.ledger.venue_scores.keep_standings("lantern", "us", [], at=NOON)
    assert await ledger_fixture.ledger.venue_scores.standings("lantern") == []


async def test_what_resolved_without_a_score_of_ours_says_why(ledger_fixture: LedgerFixture) -> None:
    spot = NOON + DAY
    late: dict[str, Any] = {"now": NOON + 2 * DAY, "cutoff": NOON + 2 * DAY}
    scored, void, spotted = (
        await ledger_fixture.ask("rain"),
        await ledger_fixture.ask("snow"),
        await ledger_fixture.ask("hail", spot_at=spot),
    )
    closed, known = await ledger_fixture.ask("fog", closes_at=NOON + DAY), await ledger_fixture.ask("sun")
    await ledger_fixture.forecast(scored)
    await ledger_fixture.forecast(void)
    for question in (spotted, closed, known):
        await ledger_fixture.forecast(question, **late)
    for question in (scored, spotted, closed):
        await tell(ledger_fixture, question, {})
    await tell(ledger_fixture, known, {}, days=1)
    await tell(ledger_fixture, void, {}, VoidOutcome("annulled"))
    waits = {item.ref.key: item.why for item in await ledger_fixture.ledger.venue_scores.unscored(ALL)}
    assert waits.pop("rain") == "not scored yet"
    await ledger_fixture.ledger.scores.record(
        [item for item in await ledger_fixture.ledger.scores.to_score(100) if item.ref == void.ref], [], at=NOON
    )
    expected = {
        "snow": "void: annulled",
        "hail": "forecast after the time at which its venue scores",
        "fog": "forecast after it had closed",
        "sun": "forecast after its outcome was known",
    }
    assert waits == expected
    await score_all(ledger_fixture)
    assert {item.ref.key: item.why for item in await ledger_fixture.ledger.venue_scores.unscored(ALL)} == expected
