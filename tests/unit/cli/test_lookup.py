"""Whose forecast a question's name means, where several forecasters made one."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from bot.app import Records
from bot.cli.lookup import find_forecast
from bot.config.schema import Config
from bot.domain.belief import Belief
from bot.domain.prediction import Binary
from bot.domain.question import Question
from bot.domain.step import Action, Observation, Step
from bot.errors import NotFound
from bot.ports import Desk
from bot.testing.llm import ScriptedLlm
from tests.unit.sittings import Playing, Theatre, open_theatre, question, thoughts


async def free(asked: Question, desk: Desk) -> AsyncGenerator[Step, None]:
    """Forecast without a model."""
    yield Step(action=Action(name="think"), observation=Observation(), belief=Belief(predictions={"outcome": HALF}))


HALF = Binary(0.5)


@pytest.fixture
async def theatre(tmp_path: Path) -> AsyncIterator[Theatre]:
    async with open_theatre(tmp_path, ScriptedLlm(turns=[thoughts(0.3, 0.7)])) as theatre:
        theatre.forecasters |= {"free": Playing(free), "idle": Playing(free)}
        yield theatre


def records(theatre: Theatre, *forecasters: str) -> Records:
    venues = {"lantern": {"forecasters": list(forecasters)}} if forecasters else {}
    config = Config.model_validate({"venues": venues})
    return Records(config=config, folder=theatre.path.parent, ledger=theatre.ledger)


async def test_a_question_means_its_venues_first_forecaster_whoever_came_last(theatre: Theatre) -> None:
    for name in ("free", "blf", "idle"):
        await theatre.forecast(question(), name)
    assert (await find_forecast(records(theatre, "free", "blf"), "rain")).forecaster == "free"
    # One that has not forecast cannot be meant.
    assert (await find_forecast(records(theatre, "absent"), "rain")).forecaster == "blf"


async def test_else_it_means_the_last_one_that_heard_a_model(theatre: Theatre) -> None:
    first = await theatre.forecast(question(), "blf")
    await theatre.forecast(question(), "free")
    assert (await find_forecast(records(theatre), "rain")).id == first.id


async def test_where_nobody_heard_a_model_it_is_the_last_one(theatre: Theatre) -> None:
    for name in ("free", "idle"):
        await theatre.forecast(question(), name)
    assert (await find_forecast(records(theatre), "rain")).forecaster == "idle"


async def test_a_forecaster_that_is_named_decides(theatre: Theatre) -> None:
    for name in ("blf", "free"):
        await theatre.forecast(question(), name)
    assert (await find_forecast(records(theatre, "blf"), "rain", "free")).forecaster == "free"
    with pytest.raises(NotFound, match="fre has not forecast lantern:rain; did you mean free"):
        await find_forecast(records(theatre, "blf"), "rain", "fre")


async def test_the_beginning_of_an_id_has_a_least_length_which_is_told(theatre: Theatre) -> None:
    made = await theatre.forecast(question(), "blf")
    assert (await find_forecast(records(theatre), made.id[:6])).id == made.id
    with pytest.raises(NotFound, match=r"of a forecast's id give at least 6 characters"):
        await find_forecast(records(theatre), made.id[:4])
    with pytest.raises(NotFound) as unknown:
        await find_forecast(records(theatre), "thaw")
    assert "characters" not in str(unknown.value)
