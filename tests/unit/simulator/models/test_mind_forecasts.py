"""A simulated mind under BLF with the real trial tools: what it believes of a world's questions and was shown."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from bot.core.beliefs import belief_mismatch
from bot.core.forecasts import TrialEnd
from bot.core.predictions import BinaryPrediction, CurvePrediction
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.world.news import NewsGenerator
from bot.simulator.world.questions import AnswerKind, SimulatedQuestion, outcome_day
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.stats.calibration import calibration_rows, fit_platt
from tests.integration.engine_fixture import RecordedRun, answers_to_calls
from tests.unit.simulator.models.model_fixture import (
    START,
    FakeNewsSearchEngine,
    offer_series,
    open_model_fixture,
    question_of,
    set_day,
)

WORLD = SimulatedWorld(seed=5, start=START)
PAPERS = FakeNewsSearchEngine(news=NewsGenerator(world=WORLD))
HOUSE = Path(__file__).resolve().parents[4]
# What a request may hold. Source: the API reference of chat completions.
FIELDS = {
    "model",
    "messages",
    "max_tokens",
    "temperature",
    "seed",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
}


@dataclass(frozen=True)
class JudgedForecast:
    """One forecast with what was true and what the crowd said at the time."""

    ask: SimulatedQuestion
    day: float
    played: RecordedRun

    @property
    def true(self) -> float:
        chance = WORLD.true_probability(self.ask, self.day)
        assert isinstance(chance, float)
        return chance

    @property
    def crowd(self) -> float:
        price = WORLD.crowd_price(self.ask, self.day)
        assert isinstance(price, float)
        return price


def expected_brier(message: float, true: float) -> float:
    """Return what a forecast scores on the average, where the event has a true probability."""
    return true * (1.0 - message) ** 2 + (1.0 - true) * message**2


def some(form: AnswerKind, count: int) -> list[SimulatedQuestion]:
    """Return questions that are still open in their midst: some are settled before."""
    return [ask for ask in WORLD.questions if ask.answer_kind is form and outcome_day(ask) > midway(ask)][:count]


def midway(ask: SimulatedQuestion) -> float:
    return min(ask.closes - 0.5, ask.opens + 0.6 * (ask.last_day - ask.opens))


async def forecasts(
    folder: Path, asks: Sequence[SimulatedQuestion], habits: ModelBehaviour | None = None
) -> list[JudgedForecast]:
    made = []
    async with open_model_fixture(folder, habits) as (engine, server):
        for ask in asks:
            day = midway(ask)
            set_day(engine, PAPERS, day)
            offer_series(engine, WORLD, day)
            made.append(JudgedForecast(ask, day, await engine.play(question_of(WORLD, ask, day))))
        bodies = [request.body for request in server.asked]
    assert all(set(body) <= FIELDS for body in bodies)
    return made


@pytest.mark.timeout(120)
async def test_over_questions_it_beats_the_crowd_and_not_the_truth(tmp_path: Path) -> None:
    made = await forecasts(tmp_path, some(AnswerKind.BINARY, 30))
    assert [one.played.trial.end for one in made] == [TrialEnd.FINISHED] * 30
    own_score = fmean(expected_brier(one.played.probability, one.true) for one in made)
    crowd = fmean(expected_brier(one.crowd, one.true) for one in made)
    truth = fmean(expected_brier(one.true, one.true) for one in made)
    assert truth < own_score < crowd
    moved = [len({one.belief.predictions["outcome"] for one in forecast.played.steps}) for forecast in made]
    # Belief moves as evidence comes, and evidence is named with where it was read.
    assert sum(count >= 3 for count in moved) >= 20
    evidence = [
        item
        for one in made
        if (belief := one.played.trial.belief) is not None
        for item in (*belief.evidence_for, *belief.evidence_against)
    ]
    assert len(evidence) >= 30
    assert {item.source.startswith("https://press.example/") for item in evidence} == {True, False}


@pytest.mark.timeout(120)
async def test_what_an_overconfident_mind_says_is_pulled_back_by_a_fit(tmp_path: Path) -> None:
    asks = some(AnswerKind.BINARY, 12)
    sober, bold = ModelBehaviour(noise=0.0), ModelBehaviour(noise=0.0, log_odds_factor=2.5)
    message = {}
    for name, habits in (("sober", sober), ("bold", bold)):
        (tmp_path / name).mkdir()
        made = await forecasts(tmp_path / name, asks, habits)
        message[name] = [one.played.probability for one in made]
        true = [one.true for one in made]
    slopes = {name: fit_platt(calibration_rows(reported, true)).slope for name, reported in message.items()}
    assert slopes["bold"] < 0.8 * slopes["sober"]
    mapped = fit_platt(calibration_rows(message["bold"], true)).apply(message["bold"])
    before, after = (
        fmean(map(expected_brier, reported, true)) for reported in (message["bold"], [float(p) for p in mapped])
    )
    assert after < before


@pytest.mark.timeout(120)
@pytest.mark.parametrize("dialect", ["tools", "json"])
async def test_every_form_of_question_is_answered_in_its_own_form(dialect: str, tmp_path: Path) -> None:
    async with open_model_fixture(tmp_path, dialect=dialect) as (engine, server):
        for form in AnswerKind:
            ask = next(one for one in WORLD.questions if one.answer_kind is form and one.opens > 30.0 and one.series)
            set_day(engine, PAPERS, midway(ask))
            offer_series(engine, WORLD, midway(ask))
            asked = question_of(WORLD, ask, midway(ask))
            played = await engine.play(asked)
            assert (form, played.trial.end, played.trial.detail) == (form, TrialEnd.FINISHED, "")
            assert [belief_mismatch(step.belief, asked) for step in played.steps] == [None] * len(played.steps)
            assert {"series_history", "web_search", "submit"} <= set(played.actions)
            # Nothing that it sent had to be asked for again or was left out.
            assert [step.remarks[1:] for step in played.steps[:1]] == [()]
            assert all(step.remarks == () for step in played.steps[1:])
            assert "belief kept" not in "".join(step.observation.text for step in played.steps)
        assert all(ids == reported for one in server.asked for ids, reported in answers_to_calls(one.body))
        assert server.crashes == []


async def test_a_number_lies_where_the_series_and_the_crowd_expect_it(tmp_path: Path) -> None:
    async with open_model_fixture(tmp_path, ModelBehaviour(noise=0.0)) as (engine, _):
        gains = []
        for ask in [one for one in some(AnswerKind.NUMBER, 20) if one.opens > 40.0][:8]:
            day = midway(ask)
            set_day(engine, PAPERS, day)
            offer_series(engine, WORLD, day)
            asked = question_of(WORLD, ask, day)
            belief = (await engine.play(asked)).trial.belief
            assert belief is not None
            assert asked.crowd is not None
            message, crowd, scale = belief.predictions["outcome"], asked.crowd.prediction, ask.scale
            assert isinstance(message, CurvePrediction)
            assert isinstance(crowd, CurvePrediction)
            assert scale is not None
            true = WORLD.true_cdf(ask, day, np.linspace(scale.low, scale.high, 101))
            gains.append(float(np.mean((np.array(crowd.cdf) - true) ** 2 - (np.array(message.cdf) - true) ** 2)))
    assert fmean(gains) > -0.002


async def test_the_same_world_is_forecast_the_same_way_again(tmp_path: Path) -> None:
    reported = []
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
        made = await forecasts(tmp_path / name, some(AnswerKind.BINARY, 4))
        reported.append([[dict(step.action.arguments) for step in one.played.steps] for one in made])
    assert reported[0] == reported[1]


async def test_several_trials_differ_by_their_noise_and_only_by_it(tmp_path: Path) -> None:
    (ask,) = some(AnswerKind.BINARY, 1)
    finals: dict[float, set[float]] = {}
    for noise in (0.0, 0.5):
        (tmp_path / str(noise)).mkdir()
        async with open_model_fixture(tmp_path / str(noise), ModelBehaviour(noise=noise)) as (engine, _):
            set_day(engine, PAPERS, midway(ask))
            played = await engine.play(question_of(WORLD, ask, midway(ask)), trials=3)
            finals[noise] = {
                prediction.probability
                for one in played.trace.trials
                if one.trial is not None and one.trial.belief is not None
                for prediction in one.trial.belief.predictions.values()
                if isinstance(prediction, BinaryPrediction)
            }
    assert (len(finals[0.0]), len(finals[0.5])) == (1, 3)


async def test_a_request_holds_nothing_of_the_world_but_what_was_published(tmp_path: Path) -> None:
    """Every article in the prompts is one that was out on the day, in its words of the day."""
    ask = next(one for one in WORLD.questions if one.answer_kind is AnswerKind.BINARY and one.opens > 30.0)
    day = midway(ask)
    async with open_model_fixture(tmp_path) as (engine, server):
        set_day(engine, PAPERS, day)
        await engine.play(question_of(WORLD, ask, day))
        texts = json.dumps([dict(one.body) for one in server.asked], ensure_ascii=False)
    later = [
        version.text
        for article in PAPERS.news.articles(ask.key)
        for version in article.versions
        if version.day > day and version.text != article.at(day).text
    ]
    assert later
    assert not any(text in texts for text in later)
    assert not any(word in texts for word in ("signal", "latent", "chance_of", "X-Simulation"))


def test_a_mind_can_reach_no_world() -> None:
    """Its modules import the language, readers of prompts and models' protocol: nothing that knows what is true."""
    trees = [ast.parse(path.read_text()) for path in (HOUSE / "bot/simulator/models").glob("*.py")]
    modules = [node.module or "" for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {module for module in modules if module.startswith("bot.simulator.world")} == {
        "bot.simulator.world.news_language"
    }
