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


async def pasts(scribe: LedgerFixture, *names: str, days: int = 99) -> list[ResolvedForecast]:
    return await scribe.ledger.learning.read_resolved_forecasts(names or ("plain",), NOON + days * DAY)


async def test_the_last_word_on_a_resolved_target_stands_beside_its_outcome(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    await scribe.forecast(question, 0.2)
    later = await scribe.forecast(question, 0.4, now=NOON + DAY, cutoff=NOON + DAY)
    resolution = await scribe.resolve(question, 1.0)
    (past,) = await pasts(scribe)
    assert (past.forecast, past.forecaster, past.question) == (later.id, "plain", question)
    assert (past.prediction, past.outcome, past.resolution) == (BinaryPrediction(0.4), BinaryOutcome(1.0), resolution)
    assert past.cutoff == NOON + DAY


async def test_what_models_said_is_kept_raw(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    forecast = replace(scribe.answer(question, running, 0.3), predictions={"outcome": BinaryPrediction(0.9)})
    await scribe.ledger.forecasts.complete(forecast, next_due=None)
    await scribe.resolve(question, 0.0)
    assert [past.prediction for past in await pasts(scribe)] == [BinaryPrediction(0.3)]


async def test_only_what_was_known_before_the_moment_is_told(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    await scribe.forecast(question)
    await scribe.resolve(question, 1.0, days=10)
    assert [len(await pasts(scribe, days=days)) for days in (9, 10, 11)] == [0, 0, 1]


async def test_nothing_is_told_of_open_and_of_void_questions(scribe: LedgerFixture) -> None:
    void = await scribe.ask("snow")
    await scribe.forecast(void)
    gone = Resolution(ref=void.ref, target="outcome", outcome=VoidOutcome("withdrawn"), resolved_at=NOON + DAY)
    await scribe.ledger.resolutions.record([gone], seen_at=NOON)
    await scribe.forecast(await scribe.ask("hail"))
    assert await pasts(scribe) == []


async def test_pasts_come_in_the_order_in_which_they_became_known_and_of_the_named_forecasters(
    scribe: LedgerFixture,
) -> None:
    for key, forecaster, days in (("rain", "plain", 30), ("snow", "other", 20), ("hail", "third", 10)):
        question = await scribe.ask(key)
        await scribe.forecast(question, forecaster=forecaster)
        await scribe.resolve(question, 1.0, days=days)
    found = await pasts(scribe, "plain", "other")
    assert [(past.question.ref.key, past.forecaster) for past in found] == [("snow", "other"), ("rain", "plain")]


async def test_each_target_that_resolved_is_a_past_of_its_own(scribe: LedgerFixture) -> None:
    question = await scribe.ask(targets=(Target(key="a"), Target(key="b")))
    await scribe.forecast(question)
    await scribe.resolve(question, 1.0, target="b")
    assert [past.resolution.target for past in await pasts(scribe)] == ["b"]


async def test_a_forecast_after_close_or_outcome_is_no_past(scribe: LedgerFixture) -> None:
    question = await scribe.ask(closes_at=NOON + DAY)
    await scribe.forecast(question, cutoff=NOON + 2 * DAY, now=NOON + 2 * DAY)
    await scribe.resolve(question, 1.0)
    other = await scribe.ask("snow")
    await scribe.forecast(other, cutoff=NOON + 2 * DAY, now=NOON + 2 * DAY)
    await scribe.resolve(other, 1.0, days=1)
    assert await pasts(scribe) == []


async def test_who_saw_the_future_and_who_may_not_teach_is_left_out(scribe: LedgerFixture) -> None:
    forbidden = await scribe.ask("snow", facts={"training": "no"})
    await scribe.forecast(forbidden)
    await scribe.resolve(forbidden, 1.0)
    seen = await scribe.ask("hail")
    setup = ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits(), clairvoyant=True)
    await scribe.forecast(seen, setup=setup)
    await scribe.resolve(seen, 1.0)
    allowed = await scribe.ask("rain")
    await scribe.forecast(allowed, setup=replace(setup, clairvoyant=False))
    await scribe.resolve(allowed, 1.0)
    assert [past.question.ref.key for past in await pasts(scribe)] == ["rain"]


async def test_reason_and_notes_come_from_the_trials(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    await _logged(scribe, running.id, 1, step(0.3))
    note = replace(step(0.3), action=StepAction(name="keep_lesson", arguments={"text": "June is dry"}))
    odd = replace(step(0.3), action=StepAction(name="keep_lesson", arguments={"text": 7}))
    for number, logged in enumerate((note, odd), start=2):
        await _logged(scribe, running.id, number, logged)
    await _end(scribe, running.id, question)
    await scribe.ledger.forecasts.complete(scribe.answer(question, running, 0.3), next_due=None)
    await scribe.resolve(question, 0.0)
    (past,) = await pasts(scribe)
    assert (past.reason, past.notes) == ("it was dry", ("June is dry",))


async def _logged(scribe: LedgerFixture, forecast: str, number: int, logged: Step) -> None:
    await scribe.ledger.forecasts.log_step(forecast, trial=1, number=number, step=logged, at=NOON)


async def _end(scribe: LedgerFixture, forecast: str, question: Question) -> None:
    belief = Belief(predictions={target.key: BinaryPrediction(0.3) for target in question.targets}, reason="it was dry")
    for number, found in ((1, belief), (2, None)):
        trial = Trial(number=number, end=TrialEnd.FINISHED, belief=found, steps=3)
        await scribe.ledger.forecasts.end_trial(forecast, trial, at=NOON)


async def test_what_was_said_without_a_look_ahead_counts_though_a_look_ahead_came_later(scribe: LedgerFixture) -> None:
    honest = ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits())
    question = await scribe.ask("rain")
    await scribe.forecast(question, 0.3, setup=honest)
    later = NOON + timedelta(hours=1)
    await scribe.forecast(question, 0.99, setup=replace(honest, clairvoyant=True), now=later, cutoff=later)
    await scribe.resolve(question, 1.0)
    assert [past.prediction for past in await pasts(scribe)] == [BinaryPrediction(0.3)]
    answered = await scribe.ledger.scores.read_calibration_columns("plain", "market", before=NOON + timedelta(days=99))
    assert answered.raw == (0.3,)
