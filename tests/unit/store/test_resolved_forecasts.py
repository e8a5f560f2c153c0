"""What forecasters said of targets that are resolved: each last word once, and nothing that was not known before."""

from dataclasses import replace
from datetime import timedelta

from bot.core.beliefs import Belief, Step, StepAction
from bot.core.forecasts import ForecasterSetup, Trial, TrialEnd, TrialLimits
from bot.core.learning import ResolvedForecast
from bot.core.outcomes import BinaryOutcome, Resolution, VoidOutcome
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, Target
from tests.unit.store.conftest import NOON, LedgerFixture, step

DAY = timedelta(days=1)
LATE = NOON + 99 * DAY


async def pasts(ledger_fixture: LedgerFixture, *names: str, days: int = 99) -> list[ResolvedForecast]:
    return await ledger_fixture.ledger.learning.read_resolved_forecasts(names or ("plain",), NOON + days * DAY)


async def test_the_last_word_on_a_resolved_target_stands_beside_its_outcome(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question, 0.2)
    later = await ledger_fixture.forecast(question, 0.4, now=NOON + DAY, cutoff=NOON + DAY)
    resolution = await ledger_fixture.resolve(question, 1.0)
    (past,) = await pasts(ledger_fixture)
    assert (past.forecast, past.forecaster, past.question) == (later.id, "plain", question)
    assert (past.prediction, past.outcome, past.resolution) == (BinaryPrediction(0.4), BinaryOutcome(1.0), resolution)
    assert past.cutoff == NOON + DAY


async def test_what_models_said_is_kept_raw(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    forecast = replace(ledger_fixture.answer(question, running, 0.3), predictions={"outcome": BinaryPrediction(0.9)})
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=None)
    await ledger_fixture.resolve(question, 0.0)
    assert [past.prediction for past in await pasts(ledger_fixture)] == [BinaryPrediction(0.3)]


async def test_only_what_was_known_before_the_moment_is_told(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question)
    await ledger_fixture.resolve(question, 1.0, days=10)
    assert [len(await pasts(ledger_fixture, days=days)) for days in (9, 10, 11)] == [0, 0, 1]


async def test_nothing_is_told_of_open_and_of_void_questions(ledger_fixture: LedgerFixture) -> None:
    void = await ledger_fixture.ask("snow")
    await ledger_fixture.forecast(void)
    gone = Resolution(ref=void.ref, target="outcome", outcome=VoidOutcome("withdrawn"), resolved_at=NOON + DAY)
    await ledger_fixture.ledger.resolutions.record([gone], seen_at=NOON)
    await ledger_fixture.forecast(await ledger_fixture.ask("hail"))
    assert await pasts(ledger_fixture) == []


async def test_pasts_come_in_the_order_in_which_they_became_known_and_of_the_named_forecasters(
    ledger_fixture: LedgerFixture,
) -> None:
    for key, forecaster, days in (("rain", "plain", 30), ("snow", "other", 20), ("hail", "third", 10)):
        question = await ledger_fixture.ask(key)
        await ledger_fixture.forecast(question, forecaster=forecaster)
        await ledger_fixture.resolve(question, 1.0, days=days)
    found = await pasts(ledger_fixture, "plain", "other")
    assert [(past.question.ref.key, past.forecaster) for past in found] == [("snow", "other"), ("rain", "plain")]


async def test_each_target_that_resolved_is_a_past_of_its_own(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(targets=(Target(key="a"), Target(key="b")))
    await ledger_fixture.forecast(question)
    await ledger_fixture.resolve(question, 1.0, target="b")
    assert [past.resolution.target for past in await pasts(ledger_fixture)] == ["b"]


async def test_a_forecast_after_close_or_outcome_is_no_past(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(closes_at=NOON + DAY)
    await ledger_fixture.forecast(question, cutoff=NOON + 2 * DAY, now=NOON + 2 * DAY)
    await ledger_fixture.resolve(question, 1.0)
    other = await ledger_fixture.ask("snow")
    await ledger_fixture.forecast(other, cutoff=NOON + 2 * DAY, now=NOON + 2 * DAY)
    await ledger_fixture.resolve(other, 1.0, days=1)
    assert await pasts(ledger_fixture) == []


async def test_who_saw_the_future_and_who_may_not_teach_is_left_out(ledger_fixture: LedgerFixture) -> None:
    forbidden = await ledger_fixture.ask("snow", allows_training=False)
    await ledger_fixture.forecast(forbidden)
    await ledger_fixture.resolve(forbidden, 1.0)
    seen = await ledger_fixture.ask("hail")
    setup = ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits(), clairvoyant=True)
    await ledger_fixture.forecast(seen, setup=setup)
    await ledger_fixture.resolve(seen, 1.0)
    allowed = await ledger_fixture.ask("rain")
    await ledger_fixture.forecast(allowed, setup=replace(setup, clairvoyant=False))
    await ledger_fixture.resolve(allowed, 1.0)
    assert [past.question.ref.key for past in await pasts(ledger_fixture)] == ["rain"]


async def test_reason_and_notes_come_from_the_trials(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    await _logged(ledger_fixture, running.id, 1, step(0.3))
    note = replace(step(0.3), action=StepAction(name="keep_lesson", arguments={"text": "June is dry"}))
    odd = replace(step(0.3), action=StepAction(name="keep_lesson", arguments={"text": 7}))
    for number, logged in enumerate((note, odd), start=2):
        await _logged(ledger_fixture, running.id, number, logged)
    await _end(ledger_fixture, running.id, question)
    await ledger_fixture.ledger.forecasts.complete(ledger_fixture.answer(question, running, 0.3), next_due=None)
    await ledger_fixture.resolve(question, 0.0)
    (past,) = await pasts(ledger_fixture)
    assert (past.reason, past.notes) == ("it was dry", ("June is dry",))


async def _logged(ledger_fixture: LedgerFixture, forecast: str, number: int, logged: Step) -> None:
    await ledger_fixture.ledger.forecasts.log_step(forecast, trial=1, number=number, step=logged, at=NOON)


async def _end(ledger_fixture: LedgerFixture, forecast: str, question: Question) -> None:
    belief = Belief(predictions={target.key: BinaryPrediction(0.3) for target in question.targets}, reason="it was dry")
    for number, found in ((1, belief), (2, None)):
        trial = Trial(number=number, end=TrialEnd.FINISHED, belief=found, steps=3)
        await ledger_fixture.ledger.forecasts.end_trial(forecast, trial, at=NOON)


async def test_what_was_said_without_a_look_ahead_counts_though_a_look_ahead_came_later(
    ledger_fixture: LedgerFixture,
) -> None:
    honest = ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits())
    question = await ledger_fixture.ask("rain")
    await ledger_fixture.forecast(question, 0.3, setup=honest)
    later = NOON + timedelta(hours=1)
    await ledger_fixture.forecast(question, 0.99, setup=replace(honest, clairvoyant=True), now=later, cutoff=later)
    await ledger_fixture.resolve(question, 1.0)
    assert [past.prediction for past in await pasts(ledger_fixture)] == [BinaryPrediction(0.3)]
    answered = await ledger_fixture.ledger.scores.read_calibration_columns(
        "plain", "market", before=NOON + timedelta(days=99)
    )
    assert answered.raw == (0.3,)
