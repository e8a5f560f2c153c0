"""What of its prompts a forecaster sends anew: a ten-step trial with each provider's strict double, then each mind.

Each mind is measured with the simulated model, which needs few steps, and where a plan exists at full length. A request
counts as cached only from the 1,024 tokens on that providers ask for; every answer takes the same time, so that seconds
show what runs at the same time.
"""

import asyncio
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.core.beliefs import ModelUsage
from bot.core.values import Json
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.models.simulated_model import SimulatedModel
from bot.testing.loopback_server import ScriptedResponse
from bot.testing.model_server import CompletionRequest, ReplyFunction, ReplyScript, ScriptedReply, play_moves
from tests.benchmarks.figures import MeasureSize, say
from tests.integration.provider_installations import FAMILIES, MINDS, rain_question, served

NINE = [("web_search", {"query": f"rain {number}"}) for number in range(1, 10)]
ANSWER_S = 0.2
# US dollars per million tokens, as in the example of config.toml.
PRICE_IN, PRICE_CACHED, PRICE_OUT = 1.25, 0.31, 10.0


def _runs(*names: str) -> list[Json]:
    return [{"name": name, "task": f"look into {name}"} for name in names]


def _orchestra_plan() -> ReplyFunction:
    """Return an orchestra at work: two researchers, then an analyst and a forecaster, a critic, and the answer."""
    first, second = ("ann", "bob"), ("cid", "fay")
    kinds = {"ann": "researcher", "bob": "researcher", "cid": "analyst", "fay": "forecaster"}
    made = {name: ("create_subagent", {"name": name, "kind": kind}) for name, kind in kinds.items()}
    lead = play_moves(
        *(made[name] for name in first),
        ("run_subagents", {"runs": _runs(*first)}),
        *(made[name] for name in second),
        ("run_subagents", {"runs": _runs(*second)}),
        ("critic", {"draft": "It rains, 0.6."}),
        *NINE[:2],
    )
    research = play_moves(*NINE[:4], then="report_results")
    read = play_moves(("shared_memory", {"operation": "recent"}), then="report_results")

    def play(asked: CompletionRequest) -> ScriptedReply:
        texts = "\n".join(str(one.get("content")) for one in asked.messages)
        if "You lead a small group" in texts:
            return lead(asked)
        return (read if "You are cid." in texts or "You are fay." in texts else research)(asked)

    return play


PLANS: Mapping[str, ReplyFunction] = {
    "blf": play_moves(*NINE),
    "solo": play_moves(*NINE[:6], ("update", {}), ("think", {}), ("feedback", {"doubt": "the wind"}), *NINE[6:]),
    "orchestra": _orchestra_plan(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShare:
    """What one forecast sent; ``shared`` is the least share of a request that the next one of its talk repeats."""

    calls: int
    shared: float
    uncached: float
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cacheable: float
    seconds: float
    refused: int

    @property
    def cost_usd(self) -> float:
        """What all of it costs at the reference prices."""
        uncached = self.tokens_in - self.tokens_cached
        return (uncached * PRICE_IN + self.tokens_cached * PRICE_CACHED + self.tokens_out * PRICE_OUT) / 1e6

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, shared prefix {self.shared:.2f} at the least, {self.uncached:.0%} sent anew, "
            f"{self.tokens_in:,} tokens in ({self.tokens_in - self.tokens_cached:,} uncached), "
            f"{self.tokens_out:,} out, {self.cost_usd:.4f} USD, {self.cacheable:.1%} cacheable, {self.seconds:.1f} s, "
            f"{self.refused} refused"
        )


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    warnings.filterwarnings("ignore", category=UserWarning)
    families = [*FAMILIES][: size.pick(len(FAMILIES), 1)]
    for family in families:
        say(f"ten steps of blf, {family}", str(asyncio.run(_measured(family, "blf", play_moves(*NINE)))))
    for mind in MINDS[: size.pick(len(MINDS), 1)]:
        simulated = SimulatedModel(habits=ModelBehaviour(latency_s=ANSWER_S, latency_spread=0.0)).answer
        say(f"one forecast of {mind}, openai, simulated model", str(asyncio.run(_measured("openai", mind, simulated))))
        if (plan := PLANS.get(mind)) is not None:
            figures = asyncio.run(_measured("openai", mind, _delayed(plan)))
            say(f"one forecast of {mind} at full length, openai", str(figures))
    five = asyncio.run(_measured("openai", "blf", play_moves(*NINE), trials=size.pick(5, 2)))
    say(f"{size.pick(5, 2)} trials of blf on one question, openai", str(five))


async def _measured(family: str, name: str, script: ReplyScript, *, trials: int = 1) -> PromptShare:
    with TemporaryDirectory() as folder:
        async with served(Path(folder), FAMILIES[family], script, trials=trials) as opened:
            began = time.perf_counter()
            trace = await opened.forecast(name, rain_question())
            seconds = time.perf_counter() - began
            double = opened.double
            used = sum((one.trial.usage for one in trace.trials if one.trial is not None), ModelUsage())
            return PromptShare(
                calls=len(double.requests),
                shared=min(double.shared_prefixes, default=1.0),
                uncached=double.uncached_share,
                tokens_in=used.tokens_in,
                tokens_cached=used.tokens_cached,
                tokens_out=used.tokens_out,
                cacheable=double.cacheable_share,
                seconds=seconds,
                refused=len(double.refusals),
            )


def _delayed(script: ReplyFunction) -> ReplyFunction:
    """Let every answer take the same time."""
    return lambda asked: replace(script(asked), response=ScriptedResponse(delay_s=ANSWER_S))
