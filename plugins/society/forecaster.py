"""The court as a forecaster: agents retrieve, argue, deliberate and vote, and the jury's pooled vote is the forecast.

Source: Li, Orlovskiy, Ellis, Kachinthaya, Jaggi, Zheng, Forecasting with Societies of Agents (2024). Rollouts are the
engine's trials; models, tools, budgets, guards and the record are the desk's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from bot.api import Desk, Question, Step, Workplace
from plugins.society.hearing import Hearing
from plugins.society.pacing import paced
from plugins.society.settings import CourtSettings


@asynccontextmanager
async def open_court(settings: CourtSettings, _place: Workplace) -> AsyncIterator[Court]:
    """Open the court; it holds no connection: models and tools are the desk's."""
    yield Court(settings)


class Court:
    """Implements the port Forecaster. Everything that a trial knows lives in its stream."""

    def __init__(self, settings: CourtSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield one step per move, or several moves in one where the engine allows fewer steps than there are moves.

        Raises after the last one where nobody gave an answer.
        """
        hearing = Hearing(question, desk, self.settings)
        async with aclosing(paced(hearing.moves(), hearing.planned, max(1, desk.limits.steps))) as steps:
            async for step in steps:
                yield step
