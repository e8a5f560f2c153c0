"""What of its prompts a forecaster sends anew: a ten-step trial with each provider's strict double, then each mind."""

import asyncio
import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.core.beliefs import ModelUsage
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.models.simulated_model import SimulatedModel
from bot.testing.model_server import ReplyScript, play_moves
from tests.benchmarks.figures import MeasureSize, say
from tests.integration.provider_installations import FAMILIES, MINDS, rain_question, served

NINE = [("web_search", {"query": f"rain {number}"}) for number in range(1, 10)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShare:
    """What one forecast sent; ``shared`` is the least share of a request that the next one of its talk repeats."""

    calls: int
    shared: float
    uncached: float
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    refused: int

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, shared prefix {self.shared:.2f} at the least, {self.uncached:.0%} sent anew, "
            f"{self.tokens_in:,} tokens in ({self.tokens_in - self.tokens_cached:,} uncached), "
            f"{self.tokens_out:,} out, "
            f"{self.refused} refused"
        )


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    warnings.filterwarnings("ignore", category=UserWarning)
    families = [*FAMILIES][: size.pick(len(FAMILIES), 1)]
    for family in families:
        say(f"ten steps of blf, {family}", str(asyncio.run(_measured(family, "blf", play_moves(*NINE)))))
    for mind in MINDS[: size.pick(len(MINDS), 1)]:
        figures = asyncio.run(_measured("openai", mind, SimulatedModel(habits=ModelBehaviour()).answer))
        say(f"one forecast of {mind}, openai, simulated model", str(figures))
    five = asyncio.run(_measured("openai", "blf", play_moves(*NINE), trials=size.pick(5, 2)))
    say(f"{size.pick(5, 2)} trials of blf on one question, openai", str(five))


async def _measured(family: str, name: str, script: ReplyScript, *, trials: int = 1) -> PromptShare:
    with TemporaryDirectory() as folder:
        async with served(Path(folder), FAMILIES[family], script, trials=trials) as opened:
            trace = await opened.forecast(name, rain_question())
            double = opened.double
            used = sum((one.trial.usage for one in trace.trials if one.trial is not None), ModelUsage())
            return PromptShare(
                calls=len(double.requests),
                shared=min(double.shared_prefixes, default=1.0),
                uncached=double.uncached_share,
                tokens_in=used.tokens_in,
                tokens_cached=used.tokens_cached,
                tokens_out=used.tokens_out,
                refused=len(double.refusals),
            )
