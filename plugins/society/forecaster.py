"""The court as a forecaster: agents retrieve, argue, deliberate and vote, and the jury's pooled vote is the forecast.

Source: Li, Orlovskiy, Ellis, Kachinthaya, Jaggi, Zheng, Forecasting with Societies of Agents (2024). Rollouts are the
engine's trials; the trial context provides models, tools, budgets, guards and the record.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from bot.api import PluginContext, Question, Step, TrialContext
from plugins.society.court_session import CourtSession
from plugins.society.settings import CourtSettings


@asynccontextmanager
async def open_court(settings: CourtSettings, _place: PluginContext) -> AsyncIterator[CourtForecaster]:
    """Open the court; it holds no connection: the trial context provides models and tools."""
    yield CourtForecaster(settings)


class CourtForecaster:
    """Implements the interface Forecaster. All state of a trial belongs to its stream of steps."""

    def __init__(self, settings: CourtSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step per move; raises after the last one if there is no answer."""
        async with aclosing(CourtSession(question, context, self.settings).moves()) as steps:
            async for step in steps:
                yield step
