"""How fast forecasts are made and replayed: BLF on long and on ordinary prompts, sat through with a scripted model.

A replay is reported in its parts: what is read, what BLF costs on that, and what the engine itself costs.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Self

from bot.config.schema import ResearchSection
from bot.core.beliefs import Step
from bot.core.clock import SeededRandom
from bot.core.forecasts import TrialLimits
from bot.core.ids import sha256_hex
from bot.core.interfaces import TrialContext
from bot.core.language_models import CostAttribution, Message, MessageRole, Prompt
from bot.core.questions import Question
from bot.core.research import SearchResult
from bot.evaluation.explanation import read_recorded_calls
from bot.evaluation.replay import replay_forecast
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.trial_tools import GuardedTrialContext
from bot.store.forecasts import ForecastTrace
from bot.store.trials import TrialRecord
from bot.testing.models import ScriptedModelProvider
from tests.benchmarks.figures import MeasureSize, peak_mb, say
from tests.unit.forecast_run_fixture import (
    BLF,
    ForecastRunFixture,
    FunctionForecaster,
    model_with_beliefs,
    open_forecast_runs,
    question,
)

TRIALS, STEPS, RESULTS = 5, 10, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayScript:
    """How much there is to read: characters of the question's background, and of each of the results of a search."""

    name: str
    background: int
    snippet: int

    @property
    def research(self) -> ResearchSection:
        return ResearchSection(snippet_chars=self.snippet, results=RESULTS)


# About 20,000 tokens to begin with, and 7,000 more with each search: more than 70,000 in the end.
LONG = ReplayScript(name="long prompts", background=80_000, snippet=2_800)
# A market's rules, and results as the tools show them unless it is configured otherwise.
USUAL = ReplayScript(name="usual prompts", background=4_000, snippet=ResearchSection().snippet_chars)


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    for script in (LONG, USUAL):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_measure(Path(folder), script, size.pick(40, 1)))
    say("memory", f"{peak_mb():.0f} MB at most")


@dataclass(slots=True)
class _Watch:
    """A stretch of work: how long it took, on the clock and on the processors, in milliseconds a step."""

    steps: int
    wall: float = 0.0
    used: float = 0.0

    def __enter__(self) -> Self:
        self.wall, self.used = perf_counter(), process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.used = perf_counter() - self.wall, process_time() - self.used

    def __str__(self) -> str:
        return f"{self.steps / self.wall:,.0f} steps/s, CPU {1000 * self.used / self.steps:.3f} ms a step"


async def _measure(folder: Path, script: ReplayScript, forecasts: int) -> None:
    async with _open_runs(folder, script) as runs:
        steps = forecasts * TRIALS * STEPS
        with _Watch(steps) as watch:
            ids = [(await runs.forecast(_asked(number, script), trials=TRIALS)).id for number in range(forecasts)]
        read = sum(len(message.text) for message in runs.llm.requests[-1].prompt.messages)
        say(script.name, f"{read / 4000:.0f},000 tokens at 4 characters each in the last prompt of a trial")
        say(f"sat through, {steps:,} steps", str(watch))
        size = runs.path.stat().st_size
        say("ledger", f"{size / 1e6:.0f} MB, {size / steps / 1e3:.1f} kB a step")
        await _replayed(runs, ids, steps)
        await _recited(runs, ids, steps)
        await _verified(runs, ids, steps)
        await _answered(runs, script, trials=forecasts)


@asynccontextmanager
async def _open_runs(folder: Path, script: ReplayScript) -> AsyncIterator[ForecastRunFixture]:
    believed = [0.3 + 0.05 * step for step in range(STEPS)]
    async with open_forecast_runs(folder, ScriptedModelProvider(turns=[model_with_beliefs(*believed)])) as runs:
        runs.section = script.research
        runs.limits = TrialLimits(steps=STEPS + 1)
        runs.engine.hits = [_hit(number, script) for number in range(RESULTS)]
        yield runs


async def _replayed(runs: ForecastRunFixture, ids: Sequence[str], steps: int) -> None:
    """Run the forecaster again on the record, one forecast after the other, as ``foxcast replay`` does with one."""
    configured, tool_factory, random = (
        runs.configure_forecaster(trials=TRIALS),
        runs.make_tool_factory(sealed=True),
        SeededRandom(1),
    )
    asked = len(runs.llm.requests)
    with _Watch(steps) as whole:
        told = [await replay_forecast(await _trace(runs, name), configured, tool_factory, random, None) for name in ids]
    again = sum(one.steps for one in told)
    if not all(one.is_identical for one in told) or again != steps or len(runs.llm.requests) != asked:
        message = "a replay differed from its record, or asked a model"
        raise RuntimeError(message)
    with _Watch(steps) as reading_steps:
        for name in ids:
            await _trace(runs, name)
    with _Watch(steps) as reading_told:
        for name in ids:
            for trial in range(1, TRIALS + 1):
                await runs.ledger.recordings.read_trial(name, trial, {"opening", "dialect", "model", "tool"})
    rest = 1000 * (whole.used - reading_steps.used - reading_told.used) / steps
    say("replayed by BLF, reading included", str(whole))
    say("of this reading the steps", str(reading_steps))
    say("of this reading what was told, each document checked by its digest", str(reading_told))
    say("of this BLF, its prompts digested, each step compared", f"CPU {rest:.3f} ms a step")


async def _recited(runs: ForecastRunFixture, ids: Sequence[str], steps: int) -> None:
    """Run a forecaster that knows its steps: what it costs the engine to run, check and compare any."""
    # From another reading, so that no step is compared with itself.
    scores = [await _trace(runs, name) for name in ids]
    with _Watch(steps) as watch:
        traces = [await _recite(await _trace(runs, score.id), score) for score in scores]
    say("run again and compared, no forecaster, reading included", str(watch))
    with _Watch(steps) as watch:
        for trace, score in zip(traces, scores, strict=True):
            await _recite(trace, score)
    say("run again and compared, no forecaster, steps at hand", str(watch))


async def _recite(trace: ForecastTrace, score: ForecastTrace) -> ForecastTrace:
    for recorded, known in zip(trace.trials, score.trials, strict=True):
        await _recite_trial(trace, recorded, known)
    return trace


async def _recite_trial(trace: ForecastTrace, recorded: TrialRecord, known: TrialRecord) -> None:
    async def recite(question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        for logged in known.steps:
            yield logged.step

    configured = ConfiguredForecaster(
        name=BLF,
        implementation=FunctionForecaster(recite),
        trials=1,
        pool=PoolingMethod.MEAN,
        limits=TrialLimits(steps=STEPS + 1),
    )
    told = await replay_forecast(replace(trace, trials=(recorded,)), configured, None, SeededRandom(1), None)
    if told.trials[0].discrepancy is not None or told.steps != len(recorded.steps):
        message = "a step that was recited differs from itself"
        raise RuntimeError(message)


async def _verified(runs: ForecastRunFixture, ids: Sequence[str], steps: int) -> None:
    """Read all that forecasts rest on, down to the documents, each checked by its digest; no code is run again."""
    traces = [await _trace(runs, name) for name in ids]
    with _Watch(steps) as watch:
        chains = [await read_recorded_calls(runs.ledger, trace) for trace in traces]
    if sum(len(chain.calls) for chain in chains) != steps:
        message = "a step rests on no call to a model"
        raise RuntimeError(message)
    say("chain verified from the record, steps at hand", str(watch))


async def _answered(runs: ForecastRunFixture, script: ReplayScript, *, trials: int) -> None:
    """Ask through the trial tools alone: conversations that grow as those of BLF do, each answer on record."""
    asked = _asked(0, script)
    told = [_text(f"told {step}", RESULTS * script.snippet) for step in range(STEPS)]
    with _Watch(trials * STEPS) as watch:
        for trial in range(1, trials + 1):
            charge = CostAttribution(
                scope="asking", ref=str(asked.ref), venue=asked.ref.venue, forecaster=BLF, trial=trial
            )
            bench = await runs.make_tool_factory().open_trial(
                asked,
                GuardedTrialContext(
                    forecast="asking",
                    cutoff=runs.clock.now(),
                    trial=trial,
                    fitted=None,
                    random=SeededRandom(1),
                    limits=runs.limits,
                ),
                charge=charge,
            )
            messages = [Message(speaker=MessageRole.USER, text=asked.background)]
            for step in range(STEPS):
                prompt = Prompt(messages=tuple(messages), tools=tuple(bench.tools), stable=len(messages))
                answer = await bench.ask_model("main", prompt, seed=trial)
                messages.append(Message(speaker=MessageRole.ASSISTANT, calls=answer.completion.calls))
                messages.append(
                    Message(speaker=MessageRole.TOOL, text=told[step], answers=answer.completion.calls[0].id)
                )
    say("asked through the trial context, no forecaster and no tool", str(watch))


async def _trace(runs: ForecastRunFixture, name: str) -> ForecastTrace:
    return await runs.ledger.forecasts.trace(name)


def _asked(number: int, script: ReplayScript) -> Question:
    asked = question(f"rain-{number}", crowd=None)
    return replace(asked, background=_text(f"background {number}", script.background))


def _hit(number: int, script: ReplayScript) -> SearchResult:
    text = _text(f"hit {number}", script.snippet)
    return SearchResult(url=f"https://news.example/{number}", title=f"News {number}", snippet=text, published_at=None)


def _text(name: str, chars: int) -> str:
    """Return text of about that length that is not made of repetitions."""
    words = (sha256_hex(f"{name} {place}".encode())[:7] for place in range(chars // 8))
    return " ".join(words)
