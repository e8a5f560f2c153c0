"""Solo on the real desk, ledger and gateway: forecast, repeated, made anew, and replayed with nobody asked."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.clock import SeededRandom
from bot.domain.forecast import Forecast
from bot.domain.prediction import Binary
from bot.domain.prompt import Completion, Prompt
from bot.domain.question import Crowd, Question
from bot.evaluation.replay import replay_forecast
from bot.jobs.learn import Teacher
from bot.jobs.policy import Reforecast
from bot.jobs.sitting import Means, begin
from bot.testing.desk import offered
from bot.testing.llm import ScriptedLlm
from plugins.solo.forecaster import Solo
from plugins.solo.settings import SoloSettings
from tests.plugins.solo.cases import evidence, move, search, submit, update
from tests.unit.sittings import SCHOOL, Theatre, open_theatre, question

SOLO = "solo"


def plays(prompt: Prompt) -> Completion:
    """Return what both main and critic say: who is asked for criticism gives it."""
    if offered(prompt) == ["criticise"]:
        return move("criticise", criticism="The base rate was left out.")
    line = (
        search(),
        update(0.4, evidence_for=evidence("search_1_result_1")),
        move("feedback", doubt="?"),
        submit(0.62),
    )
    return line[sum(message.speaker == "assistant" for message in prompt.messages)]


@pytest.fixture
async def theatre(tmp_path: Path) -> AsyncIterator[Theatre]:
    async with open_theatre(tmp_path, ScriptedLlm(turns=[plays])) as theatre:
        theatre.forecasters[SOLO] = Solo(SoloSettings())
        yield theatre


async def forecast(theatre: Theatre, asked: Question, why: str = "stale") -> Forecast:
    await theatre.record(asked)
    means = Means(
        ledger=theatre.ledger,
        teacher=Teacher(ledger=theatre.ledger, archives=(), schools={SOLO: SCHOOL}, clock=theatre.clock),
        calibrator=theatre.calibrator,
        policy=Reforecast(),
        clock=theatre.clock,
        random=SeededRandom(1),
        benches=theatre.workshop(),
    )
    return await (await begin(means, theatre.seat(SOLO, trials=1), asked, why)).forecast()


async def actions(theatre: Theatre, made: Forecast) -> list[str]:
    trace = await theatre.ledger.forecasts.trace(made.id)
    assert trace.forecast is not None
    told = await replay_forecast(
        trace, theatre.seat(SOLO, trials=1), theatre.workshop(sealed=True), SeededRandom(1), None
    )
    assert told.is_identical
    assert told.raw == made.raw
    return [step.step.action.name for trial in trace.trials for step in trial.steps]


async def test_a_forecast_stands_for_its_window_and_each_replay_comes_to_the_same(theatre: Theatre) -> None:
    asked = question()
    first = await forecast(theatre, asked)
    requests = len(theatre.llm.requests)
    await theatre.clock.advance(timedelta(days=2).total_seconds())
    second = await forecast(theatre, asked)
    assert (first.raw, second.raw) == ({"outcome": Binary(0.62)},) * 2
    assert len(theatre.llm.requests) == requests == 5
    assert await actions(theatre, first) == ["web_search", "update", "feedback", "submit"]
    assert await actions(theatre, second) == ["repeat"]
    # Two days and one more are beyond the window of what was thought, though the repeat is a day old.
    await theatre.clock.advance(timedelta(days=1).total_seconds())
    assert await actions(theatre, await forecast(theatre, asked)) == ["web_search", "update", "feedback", "submit"]


async def test_a_person_a_moved_price_and_another_text_each_have_it_made_anew(theatre: Theatre) -> None:
    asked = question()
    await forecast(theatre, asked)
    moved = question(crowd=Crowd(prediction=Binary(0.6), at=theatre.clock.now()))
    for changed, why in ((asked, "asked for"), (moved, "stale"), (question(criteria="As the station says."), "stale")):
        await theatre.clock.advance(3600.0)
        assert (await actions(theatre, await forecast(theatre, changed, why)))[-1] == "submit"
