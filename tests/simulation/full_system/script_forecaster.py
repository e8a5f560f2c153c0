"""The forecaster of scripted worlds, a plugin: it says what the script says of a question at that hour."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.api import (
    Belief,
    BinaryPrediction,
    ChoicePrediction,
    ConfidenceLevel,
    Forecaster,
    ForecasterSpec,
    PluginContext,
    PluginSettings,
    Prediction,
    Question,
    Step,
    StepAction,
    StepObservation,
    TrialContext,
    hookimpl,
)
from tests.simulation.full_system.world_record import PAID_CALLS

THINKS_S = 20.0


class ScriptForecasterSettings(PluginSettings):
    """Where the script is."""

    script: Path
    """A JSON file: when it begins, and by title the beliefs from each hour on."""


class ScriptForecaster:
    """Reads its answers."""

    def __init__(self, settings: ScriptForecasterSettings) -> None:
        script = json.loads(settings.script.read_text(encoding="utf-8"))
        self._start = datetime.fromisoformat(script["start"])
        self._beliefs: dict[str, list[Any]] = script["beliefs"]

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step."""
        loop = asyncio.get_running_loop()
        PAID_CALLS.append({"question": str(question.ref), "from_s": loop.time()})
        await asyncio.sleep(THINKS_S)
        hours = (context.cutoff - self._start).total_seconds() / 3_600.0
        said = [belief for from_h, belief in self._beliefs[question.title] if from_h <= hours][-1]
        prediction: Prediction = ChoicePrediction(said) if isinstance(said, dict) else BinaryPrediction(said)
        yield Step(
            action=StepAction(name="read", arguments={}),
            observation=StepObservation(text=question.title),
            belief=Belief(
                predictions={target.key: prediction for target in question.targets},
                confidence=ConfidenceLevel.MEDIUM,
                reason="the script says so",
            ),
            final=True,
        )


@asynccontextmanager
async def _open(settings: ScriptForecasterSettings, _: PluginContext) -> AsyncIterator[Forecaster]:
    yield ScriptForecaster(settings)


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[ScriptForecasterSettings]]:
    """Return the forecaster."""
    return [ForecasterSpec(name="scripted", summary="reads its answers", settings=ScriptForecasterSettings, open=_open)]
