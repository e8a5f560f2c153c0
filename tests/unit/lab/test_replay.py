"""Replays of forecasts that were really sat through: nobody is asked, and nothing may differ unnoticed."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from bot.clock import SeededRandom
from bot.lab.replay import Replayed, replay
from bot.testing.llm import ScriptedLlm
from tests.unit.sittings import Theatre, open_theatre, question, thoughts


@pytest.fixture
async def theatre(tmp_path: Path) -> AsyncIterator[Theatre]:
    llm = ScriptedLlm(turns=[thoughts(0.3, 0.55, 0.7)])
    async with open_theatre(tmp_path, llm) as theatre:
        yield theatre


async def again(theatre: Theatre, forecast_id: str, **seat: object) -> Replayed:
    trace = await theatre.ledger.forecasts.trace(forecast_id)
    return await replay(trace, theatre.seat(**seat), theatre.workshop(sealed=True), SeededRandom(1), None)


async def test_a_forecast_comes_to_the_same_number_and_nobody_is_asked(theatre: Theatre) -> None:
    forecast = await theatre.forecast(question())
    asked, searched = len(theatre.llm.requests), len(theatre.engine.searched)
    told = await again(theatre, forecast.id)
    assert told.identical
    assert (told.raw, told.steps) == (forecast.raw, 6)
    assert (len(theatre.llm.requests), len(theatre.engine.searched)) == (asked, searched)
    assert (asked, searched) == (6, 4)
