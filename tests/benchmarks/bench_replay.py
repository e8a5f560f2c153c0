"""How fast forecasts are made and replayed: BLF on long prompts, sat through for real with a scripted model."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

from bot.clock import SeededRandom
from bot.config.model import DeskSection
from bot.desk.combine import Pool
from bot.domain.forecast import Limits
from bot.domain.inquiry import Charge
from bot.domain.prompt import Message, Prompt, Speaker
from bot.domain.question import Question
from bot.domain.research import Hit
from bot.domain.step import Step
from bot.ids import digest
from bot.jobs.sitting import Seat
from bot.lab.replay import replay
from bot.ports import Desk
from bot.store.forecasts import Trace
from bot.store.trials import TrialRecord
from bot.testing.llm import ScriptedLlm
from tests.benchmarks.figures import Size, peak_mb, say
from tests.unit.sittings import BLF, Playing, Theatre, open_theatre, question, thoughts

TRIALS, STEPS = 5, 10
# About 20,000 tokens to begin with, and 7,000 more with each search: 90,000 in the end.
BACKGROUND_CHARS, SNIPPET_CHARS, RESULTS = 80_000, 2_800, 10
DESK = DeskSection(snippet_chars=SNIPPET_CHARS, results=RESULTS)


def main(size: Size) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder), size.pick(40, 1)))


async def _measure(folder: Path, forecasts: int) -> None:
    believed = [0.3 + 0.05 * step for step in range(STEPS)]
    async with open_theatre(folder, ScriptedLlm(turns=[thoughts(*believed)])) as theatre:
        theatre.section = DESK
        theatre.limits = Limits(steps=STEPS + 1)
        theatre.engine.hits = [_hit(number) for number in range(RESULTS)]
        questions = [_long(number) for number in range(forecasts)]
        started, processor = time.perf_counter(), time.process_time()
        made = [await theatre.forecast(asked, trials=TRIALS) for asked in questions]
        took, used = time.perf_counter() - started, time.process_time() - processor
        steps = forecasts * TRIALS * STEPS
        read = [len(message.text) for message in theatre.llm.requests[-1].prompt.messages]
        say("the last prompt of a trial", f"{sum(read) / 4000:.0f},000 tokens at 4 characters each")
        say(
            f"sat through, {steps:,} steps",
            f"{took:.1f} s, {steps / took:,.0f} steps/s, CPU {1000 * used / steps:.2f} ms a step",
        )
        say(
            "ledger",
            f"{theatre.path.stat().st_size / 1e6:.0f} MB, {theatre.path.stat().st_size / steps / 1e3:.1f} kB a step",
        )
        await _replay(theatre, [forecast.id for forecast in made])
        await _ask(theatre, trials=forecasts)
    say("memory", f"{peak_mb():.0f} MB at most")


async def _ask(theatre: Theatre, *, trials: int) -> None:
    """Ask through the desk alone: conversations that grow as those of BLF do, with the answers on record each time."""
    question = _long(0)
    told = [_text(f"told {step}", RESULTS * SNIPPET_CHARS) for step in range(STEPS)]
    processor = time.process_time()
    for trial in range(1, trials + 1):
        charge = Charge(scope="asking", ref=str(question.ref), venue=question.ref.venue, forecaster=BLF, trial=trial)
        bench = await theatre.workshop().bench(
            question, charge=charge, cutoff=theatre.clock.now(), limits=theatre.limits
        )
        messages = [Message(speaker=Speaker.USER, text=question.background)]
        for step in range(STEPS):
            prompt = Prompt(messages=tuple(messages), tools=tuple(bench.tools), stable=len(messages))
            answer = await bench.ask("main", prompt, seed=trial)
            messages.append(Message(speaker=Speaker.ASSISTANT, calls=answer.completion.calls))
            messages.append(Message(speaker=Speaker.TOOL, text=told[step], answers=answer.completion.calls[0].id))
    used = time.process_time() - processor
    say("asked through the desk, no forecaster and no tool", f"CPU {1000 * used / (trials * STEPS):.2f} ms an answer")


async def _replay(theatre: Theatre, ids: list[str]) -> None:
    seat, workshop, random = theatre.seat(trials=TRIALS), theatre.workshop(sealed=True), SeededRandom(1)
    asked = len(theatre.llm.requests)
    started, processor = time.perf_counter(), time.process_time()
    traces = [await theatre.ledger.forecasts.trace(name) for name in ids]
    reading = time.perf_counter() - started
    told = [await replay(trace, seat, workshop, random, None) for trace in traces]
    took, used = time.perf_counter() - started, time.process_time() - processor
    steps = sum(one.steps for one in told)
    if not all(one.identical for one in told) or len(theatre.llm.requests) != asked:
        message = "a replay differed from its record, or asked a model"
        raise RuntimeError(message)
    say("replayed by BLF, reading included", f"{steps / took:,.0f} steps/s, CPU {1000 * used / steps:.2f} ms a step")
    say("replayed by BLF, steps at hand", f"{steps / (took - reading):,.0f} steps/s")
    started = time.perf_counter()
    for trace in traces:
        for record in trace.trials:
            await _compare(trace, record)
    say("run and compared, no forecaster", f"{steps / (time.perf_counter() - started):,.0f} steps/s")


async def _compare(trace: Trace, record: TrialRecord) -> None:
    """Replay one trial by a forecaster that knows its steps: what the engine costs beside any forecaster."""

    async def recite(question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        for logged in record.steps:
            yield logged.step

    seat = Seat(name=BLF, forecaster=Playing(recite), trials=1, pool=Pool.MEAN, limits=Limits(steps=STEPS + 1))
    told = await replay(replace(trace, trials=(record,)), seat, None, SeededRandom(1), None)
    if told.trials[0].discrepancy is not None:
        message = "a step that was recited differs from itself"
        raise RuntimeError(message)


def _long(number: int) -> Question:
    asked = question(f"rain-{number}", crowd=None)
    return replace(asked, background=_text(f"background {number}", BACKGROUND_CHARS))


def _hit(number: int) -> Hit:
    text = _text(f"hit {number}", SNIPPET_CHARS)
    return Hit(url=f"https://news.example/{number}", title=f"News {number}", snippet=text, published_at=None)


def _text(name: str, chars: int) -> str:
    """Return text of about that length that is not made of repetitions."""
    words = (digest(f"{name} {place}".encode())[:7] for place in range(chars // 8))
    return " ".join(words)
