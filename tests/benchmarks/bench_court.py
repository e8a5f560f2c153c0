"""What a court costs with pages of real length: calls, tokens, what providers can cache, and seconds at 4 s a call.

The model server is OpenAI's strict double. A prompt is cacheable as far as it begins like one that was answered before
it was sent: tools first, then system and messages, 1,024 tokens at least, in steps of 128.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bot.app.app import open_app
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.forecasting.forecast_run import REQUESTED_REASON, begin_forecast
from bot.plugin_system.registry import load_registry
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.models.simulated_model import SimulatedModel
from bot.simulator.providers.openai import OpenAiDouble
from bot.testing.loopback_server import ScriptedResponse
from bot.testing.model_server import CompletionRequest, ScriptedReply
from tests.benchmarks.figures import MeasureSize, say
from tests.integration.provider_installations import FAMILIES, rain_question

CHARS_PER_TOKEN = 4
LEAST_TOKENS, TOKEN_STEP = 1024, 128
# How long the double takes for an answer, and the time of a real model that stands for.
DELAY_S, CALL_S = 0.25, 4.0
STATEMENT_CHARS = 1500
LIBRARY = """
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from bot.api import SearchResult, SearchSpec, PluginSettings, hookimpl

class Library:
    async def search(self, query, *, before, limit):
        at = datetime(2026, 1, 2, tzinfo=UTC)
        found = []
        for number in range(limit):
            name = f"{sum(map(ord, query)) % 997}-{number}"
            words = f"On day {number} the gauge {name} at Orly in Paris read {number} mm of rain. " * 150
            found.append(SearchResult(url=f"https://almanac.example/{name}", title=f"Rain {name}", snippet=words[:500],
                                      published_at=at, text=words[:10_000]))
        return found

@asynccontextmanager
async def open_library(settings, workplace):
    yield Library()

@hookimpl
def foxcast_search_engines():
    return [SearchSpec(name="library", summary="Long pages", bounds_dates=True, settings=PluginSettings,
                       open=open_library)]
"""
CONFIG = """
plugins = ["society", "litellm", "openai_compatible", "library"]
plugin_files = ["library.py"]
[forecasters.court.settings]
{settings}
"""
# The scenarios that come with the program, and the short one with all pages rated, as in the paper.
COURTS = {
    "ten": 'scenario = "ten"',
    "full": 'scenario = "full"',
    "ten with all pages rated": 'scenario = "ten"\nrate_pages = true',
}


@dataclass(slots=True)
class CountedRequests:
    """Answers as the simulated model, with statements of real length, and counts what each request repeats."""

    model: SimulatedModel = field(default_factory=lambda: SimulatedModel(habits=ModelBehaviour()))
    sent: list[tuple[float, str, bool]] = field(default_factory=list)

    def answer(self, asked: CompletionRequest) -> ScriptedReply:
        """Answer a request after the delay."""
        text = _prompt_text(asked.body)
        self.sent.append((perf_counter(), text, _is_rating(asked.body)))
        reply = self.model.answer(asked)
        calls = tuple((name, _lengthened(arguments)) for name, arguments in reply.calls)
        return replace(reply, calls=calls, response=ScriptedResponse(delay_s=DELAY_S))

    def cacheable_share(self, *, rating: bool) -> float:
        """Return the share of all characters that was answered before, with or without the calls that rate."""
        total = repeated = 0
        for number, (at, text, is_rating) in enumerate(self.sent):
            if is_rating and not rating:
                continue
            before = (one for when, one, _ in self.sent[:number] if when + DELAY_S <= at)
            longest = max((_common_chars(text, one) for one in before), default=0)
            tokens = longest // CHARS_PER_TOKEN // TOKEN_STEP * TOKEN_STEP
            repeated += tokens * CHARS_PER_TOKEN if tokens >= LEAST_TOKENS else 0
            total += len(text)
        return repeated / total if total else 0.0

    def tokens(self, *, rating: bool) -> int:
        """Return the tokens of all prompts, or only of those that rate."""
        return sum(len(text) for _, text, is_rating in self.sent if is_rating or not rating) // CHARS_PER_TOKEN

    @property
    def turns(self) -> int:
        """How many calls waited for one before them: those that were sent together count once."""
        turns, end = 0, 0.0
        for at, *_ in self.sent:
            if at >= end:
                turns, end = turns + 1, at + DELAY_S
        return turns


def main(size: MeasureSize) -> None:
    """Measure and print the courts."""
    for name in [*COURTS][: size.pick(len(COURTS), 1)]:
        counted = asyncio.run(_forecast(COURTS[name]))
        calls, rating = len(counted.sent), sum(is_rating for *_, is_rating in counted.sent)
        share, debate = (counted.cacheable_share(rating=rating) for rating in (True, False))
        say(f"court {name}", f"{calls} calls, {rating} of them ratings, {counted.turns * CALL_S:.0f} s")
        say(
            f"court {name}, prompts",
            f"{counted.tokens(rating=False):,} tokens, {counted.tokens(rating=True):,} of them in ratings",
        )
        say(f"court {name}, cacheable", f"{100 * share:.0f} % of all, {100 * debate:.0f} % without ratings")


async def _forecast(settings: str) -> CountedRequests:
    counted, family = CountedRequests(), FAMILIES["openai"]
    with TemporaryDirectory() as folder:
        async with OpenAiDouble(counted.answer) as double:
            file = Path(folder) / "config.toml"
            (file.parent / "library.py").write_text(LIBRARY)
            file.write_text(CONFIG.format(settings=settings) + family.config(double.base_url))
            loaded = load_config(file, family.environment)
            async with open_app(loaded, load_registry(loaded), clock=SystemClock(), only=("court",)) as app:
                await app.ledger.questions.record([question := rain_question()], seen_at=app.clock.now())
                run = await begin_forecast(app.forecast_context, app.forecasters["court"], question, REQUESTED_REASON)
                await run.run()
            if double.refusals:
                message = f"the double refused {len(double.refusals)} requests: {double.refusals[0].message}"
                raise RuntimeError(message)
    return counted


def _prompt_text(body: Mapping[str, Any]) -> str:
    """Return a request in the order in which providers cache it: tools, then messages."""
    messages: Sequence[Mapping[str, Any]] = body.get("messages", ())
    return json.dumps(body.get("tools", [])) + "\n".join(
        f"{one.get('role')} {one.get('content')} {one.get('tool_calls', '')}" for one in messages
    )


def _common_chars(one: str, other: str) -> int:
    """Return with how many equal characters two texts begin."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least


def _is_rating(body: Mapping[str, Any]) -> bool:
    return [tool["function"]["name"] for tool in body.get("tools", ())] == ["rate"]


def _lengthened(arguments: str) -> str:
    """Return the arguments of a call with a statement of real length."""
    given = json.loads(arguments)
    if "statement" in given:
        given["statement"] = (re.sub(r"\s+", " ", given["statement"]) + " It was so before." * 100)[:STATEMENT_CHARS]
    return json.dumps(given, ensure_ascii=False)
