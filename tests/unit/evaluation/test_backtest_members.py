"""Backtests of forecasters that build on others: members first, each once, and nothing of what resolved later."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from bot.core.beliefs import Belief, PriorSource, Step, StepAction, StepObservation, TrialPrior
from bot.core.clock import SeededRandom
from bot.core.forecasts import Trial, TrialEnd, TrialLimits
from bot.core.interfaces import Forecaster, TrialContext
from bot.core.learning import Round
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction, Prediction
from bot.core.questions import CrowdForecast, Question
from bot.evaluation.backtest import BacktestHistory, BacktestSubject, BacktestWindow, RoundPeerFactory, run_backtests
from bot.evaluation.backtest_rows import history_records
from bot.evaluation.trial_table import make_table_of_trials, parse_trial_records, round_day
from bot.forecasting.aggregation import PoolingMethod, combine_trials
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.parameter_fitting import ForecasterTraining, best_parameters
from bot.forecasting.peers import has_not_moved
from plugins.blend.forecaster import BlendForecaster
from plugins.blend.settings import BlendSettings
from plugins.blend.weights import BlendLearner
from tests.unit.testing.correct_venue import START, LanternArchive, outcome, question

DAY = timedelta(days=1)
ROUNDS, QUESTIONS = 4, 30
SETTINGS = BlendSettings(members=("good", "bad"))


class NoisyForecaster:
    """Says a number that depends on the question alone, and counts how often it is asked."""

    def __init__(self, name: str, *, skill: float) -> None:
        self.name = name
        self.skill = skill
        self.asked: list[str] = []

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        self.asked.append(str(question.ref))
        logit = self.skill * truth(question) + stream(self.name, str(question.ref)).normal()
        belief = Belief(
            predictions={t.key: BinaryPrediction(float(1 / (1 + np.exp(-logit)))) for t in question.targets}
        )
        yield Step(action=StepAction(name="say"), observation=StepObservation(), belief=belief, final=True)


def stream(*labels: str) -> np.random.Generator:
    return SeededRandom(8).stream(*labels)


def truth(asked: Question) -> float:
    return float(stream("truth", str(asked.ref)).normal())


class ManyRounds(LanternArchive):
    """Rounds of thirty questions, a week apart; outcomes are known six days, or a month, after their round."""

    def __init__(self, *, flipped_from: int | None = None) -> None:
        """Turn all outcomes around that are known on this day or later, counted from the start."""
        self.flipped_from = flipped_from

    def round_keys(self) -> Sequence[str]:
        return [f"2026-0{number + 1}-01" for number in range(ROUNDS)]

    def read_round(self, key: str) -> Round:
        number = self.round_keys().index(key)
        asked = tuple(question(number * QUESTIONS + place) for place in range(QUESTIONS))
        return Round(
            key=key,
            as_of=START + 7 * number * DAY,
            questions=asked,
            resolutions=tuple(
                self._resolution(one, 7 * number + (6 if place % 2 else 30)) for place, one in enumerate(asked)
            ),
        )

    def _resolution(self, asked: Question, day: int) -> Resolution:
        value = float(stream("outcome", str(asked.ref)).random() < 1 / (1 + np.exp(-2 * truth(asked))))
        if self.flipped_from is not None and day >= self.flipped_from:
            value = 1.0 - value
        return replace(outcome(0, outcome=BinaryOutcome(value)), ref=asked.ref, resolved_at=START + day * DAY)


def configured(name: str, forecaster: Forecaster, members: tuple[str, ...] = ()) -> ConfiguredForecaster:
    return ConfiguredForecaster(
        name=name,
        implementation=forecaster,
        trials=1,
        pool=PoolingMethod.MEAN,
        limits=TrialLimits(),
        members=members,
    )


class PairedRounds(ManyRounds):
    """Rounds in which each question is asked by two sources, with prices of the day before the round.

    Where ``late_price`` is set, every second question of the second source has that price, of an hour after the round.
    """

    def __init__(self, *, flipped_from: int | None = None, late_price: float | None = None) -> None:
        super().__init__(flipped_from=flipped_from)
        self.late_price = late_price

    def read_round(self, key: str) -> Round:
        a_round = super().read_round(key)
        return replace(a_round, questions=tuple(map(self._paired, range(QUESTIONS), a_round.questions)))

    def _paired(self, place: int, asked: Question) -> Question:
        event, source = divmod(place, 2)
        day = asked.as_of or START
        late = self.late_price is not None and source == 1 and event % 2 == 0
        price = self.late_price if late and self.late_price is not None else 1 / (1 + np.exp(-truth(asked)))
        at = START + (int(asked.ref.key) // QUESTIONS * 7 - 1) * DAY
        crowd = CrowdForecast(
            prediction=BinaryPrediction(float(price)), at=at + (DAY + timedelta(hours=1) if late else timedelta(0))
        )
        title = f"Will the lamp of keeper {event} burn before 2027?"
        return replace(asked, title=title, source=f"source {source}", crowd=crowd, as_of=day)


async def run(
    archive: ManyRounds, settings: BlendSettings = SETTINGS
) -> tuple[BacktestHistory, Mapping[str, NoisyForecaster]]:
    history = BacktestHistory()
    members = {"good": NoisyForecaster("good", skill=2.0), "bad": NoisyForecaster("bad", skill=0.0)}
    training = ForecasterTraining(learner=BlendLearner(settings), shipped_parameters=())
    subjects = [
        BacktestSubject(configured_forecaster=configured(name, one), fit_parameters=lambda _: None)
        for name, one in members.items()
    ]
    blend = BacktestSubject(
        configured_forecaster=configured("blend", BlendForecaster(settings), ("good", "bad")),
        fit_parameters=lambda one: best_parameters(
            "blend",
            training,
            [],
            before=one.as_of,
            pasts=history.resolved_forecasts(settings.answering, one.as_of),
        ),
        tool_factory=RoundPeerFactory(history),
    )
    found = await run_backtests(
        archive,
        [*subjects, blend],
        BacktestWindow(),
        random=SeededRandom(1),
        progress=lambda _: None,
        history=history,
    )
    assert {name: len(rows.binary) for name, rows in found.items()} == dict.fromkeys(found, ROUNDS * QUESTIONS)
    return history, members


def answers_before(history: BacktestHistory, day: int) -> list[float]:
    return [
        prediction.probability
        for (name, key), made in history.forecasts.items()
        if name == "blend" and next(one for one in history.rounds if one.key == key).as_of <= START + day * DAY
        for prediction in made.predictions.values()
        if isinstance(prediction, BinaryPrediction)
    ]


async def test_members_are_asked_once_and_the_blend_learns_from_round_to_round() -> None:
    history, members = await run(ManyRounds())
    assert all(len(one.asked) == len(set(one.asked)) == ROUNDS * QUESTIONS for one in members.values())
    table = make_table_of_trials(parse_trial_records(history_records(history), "here"))
    first, last = (
        [event for event in table.by_method["blend"] if event.round == round_day(one)]
        for one in (history.rounds[0], history.rounds[-1])
    )

    def slope(event: object) -> tuple[float, float, float]:
        rows = (table.by_method[name][event].forecast for name in ("good", "bad", "blend"))  # type: ignore[index]
        good, bad, blend = (float(np.log(p / (1 - p))) for p in rows)
        return good, bad, blend

    good, bad, blend = slope(first[0])
    assert blend == pytest.approx(0.575 * (good + bad))
    design = np.array([slope(event) for event in last])
    weights = np.linalg.lstsq(design[:, :2], design[:, 2], rcond=None)[0]
    assert weights[0] > weights[1] + 0.01


@pytest.mark.parametrize("number", range(1, ROUNDS))
async def test_no_outcome_that_is_known_later_changes_a_forecast(number: int) -> None:
    cutoff = 7 * number
    before, _ = await run(ManyRounds())
    after, _ = await run(ManyRounds(flipped_from=cutoff))
    assert answers_before(before, cutoff) == answers_before(after, cutoff)
    earlier, _ = await run(ManyRounds(flipped_from=cutoff - 1))
    assert answers_before(before, cutoff) != answers_before(earlier, cutoff)


PAIRED = BlendSettings(members=("good", "elsewhere"))


@pytest.mark.parametrize("number", range(1, ROUNDS))
async def test_with_prices_elsewhere_no_later_outcome_changes_a_forecast(number: int) -> None:
    cutoff = 7 * number
    before, _ = await run(PairedRounds(), PAIRED)
    after, _ = await run(PairedRounds(flipped_from=cutoff), PAIRED)
    assert answers_before(before, cutoff) == answers_before(after, cutoff)
    earlier, _ = await run(PairedRounds(flipped_from=cutoff - 1), PAIRED)
    assert answers_before(before, cutoff) != answers_before(earlier, cutoff)


async def test_the_price_elsewhere_is_a_member_unless_it_is_of_after_the_cutoff() -> None:
    low, high = [(await run(PairedRounds(late_price=price), PAIRED))[0] for price in (0.01, 0.99)]
    assert [one.predictions for one in low.forecasts.values()] == [one.predictions for one in high.forecasts.values()]
    newest = low.rounds[-1]
    found = low.find_forecast("elsewhere", newest.questions[2])
    assert not isinstance(found, str)
    assert newest.questions[3].crowd is not None
    assert found.predictions == {"outcome": newest.questions[3].crowd.prediction}
    missing = "no other venue is known to ask the same and to have a price"
    assert low.find_forecast("elsewhere", newest.questions[0]) == missing
    # In the first round the weights are the prior ones.
    first = low.rounds[0]
    late, timely, other = first.questions[0].ref, first.questions[2].ref, first.questions[3].crowd
    good, blend = (low.forecasts[name, first.key].predictions for name in ("good", "blend"))
    assert other is not None
    assert logit(blend[timely, "outcome"]) == pytest.approx(
        0.575 * (logit(good[timely, "outcome"]) + logit(other.prediction))
    )
    assert logit(blend[late, "outcome"]) == pytest.approx(1.15 * logit(good[late, "outcome"]))


def logit(prediction: Prediction) -> float:
    assert isinstance(prediction, BinaryPrediction)
    return float(np.log(prediction.probability / (1 - prediction.probability)))


class ScatteredForecaster:
    """Says in each trial what it knows, with much noise of its own."""

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        noise = 3.0 * context.stream("noise").normal()
        said = BinaryPrediction(float(1 / (1 + np.exp(-truth(question) - noise))))
        belief = Belief(predictions={t.key: said for t in question.targets})
        yield Step(action=StepAction(name="say"), observation=StepObservation(), belief=belief, final=True)


class ManySources(ManyRounds):
    """The questions of a round are of fifteen sources, so that many blocks resolve between two rounds."""

    def read_round(self, key: str) -> Round:
        a_round = super().read_round(key)
        asked = tuple(replace(one, source=f"source {place // 2}") for place, one in enumerate(a_round.questions))
        return replace(a_round, questions=asked)


async def run_shrunk(archive: ManyRounds) -> BacktestHistory:
    history = BacktestHistory()
    forecaster = replace(configured("blend", ScatteredForecaster()), trials=3, pool=PoolingMethod.SHRINK)
    subject = BacktestSubject(configured_forecaster=forecaster, fit_parameters=lambda _: None)
    await run_backtests(
        archive, [subject], BacktestWindow(), random=SeededRandom(1), progress=lambda _: None, history=history
    )
    return history


async def test_shrinkage_is_tuned_on_earlier_rounds_and_no_later_outcome_changes_a_forecast() -> None:
    before = await run_shrunk(ManySources())
    last = 7 * (ROUNDS - 1)
    assert answers_before(before, last) == answers_before(await run_shrunk(ManySources(flipped_from=last)), last)
    assert answers_before(before, last) != answers_before(await run_shrunk(ManySources(flipped_from=last - 1)), last)
    # In the first round nothing is known, so the weights are the default ones.
    first, newest = before.rounds[0], before.rounds[-1]
    for a_round, is_default in ((first, True), (newest, False)):
        made = before.forecasts["blend", a_round.key]
        default = [combine_trials(one, made.trials[one.ref], PoolingMethod.SHRINK) for one in a_round.questions]
        answers = [{"outcome": made.predictions[one.ref, "outcome"]} for one in a_round.questions]
        assert (answers == default) == is_default


async def test_the_rows_hold_every_forecast_with_its_outcome_and_scores() -> None:
    history, _ = await run(ManyRounds())
    records = history_records(history)
    assert len(records) == 3 * ROUNDS * QUESTIONS
    first = records[0]
    assert first["method"] == "good"
    assert first["forecast"] == first["trial_1"]
    error = (float(first["forecast"]) - float(first["resolved_to"])) ** 2
    assert first["scores"] == f'{{"brier": {error!r}}}'


def trial(belief: float, prior: float | None, *, stated: bool = True) -> Trial:
    return Trial(
        number=1,
        end=TrialEnd.FINISHED,
        belief=Belief(predictions={"outcome": BinaryPrediction(belief)}, stated=stated),
        steps=3,
        prior=None if prior is None else TrialPrior(PriorSource.CROWD, BinaryPrediction(prior)),
    )


def test_only_trials_that_all_end_where_they_started_got_stuck() -> None:
    assert has_not_moved([trial(0.3, 0.3)])
    assert has_not_moved([trial(0.3, 0.3), trial(0.3, 0.3)])
    assert not has_not_moved([trial(0.3, 0.3), trial(0.4, 0.3)])
    assert not has_not_moved([trial(0.3, None)])
    assert not has_not_moved([])


async def test_a_member_that_got_stuck_is_no_answer() -> None:
    history, _ = await run(ManyRounds())
    newest = history.rounds[-1]
    asked = newest.questions[0]
    made = history.forecasts["good", newest.key]
    stuck = replace(made, trials={asked.ref: [trial(0.3, 0.3)]})
    history.record(newest, "good", stuck)
    assert history.find_forecast("good", asked) == "it did not move from its starting point"
    assert not isinstance(history.find_forecast("bad", asked), str)
    assert history.find_forecast("nobody", asked) == "it has no forecast of this question"
