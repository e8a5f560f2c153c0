"""Ten steps of each forecaster with each provider's strict double: nothing is refused, and every prefix is shared."""

from pathlib import Path

import pytest

from bot.core.forecasts import TrialEnd
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.models.simulated_model import SimulatedModel
from bot.testing.model_server import play_moves
from tests.benchmarks.bench_prompts import PLANS
from tests.integration.provider_installations import FAMILIES, MINDS, rain_question, served

pytestmark = [
    pytest.mark.xdist_group("strict providers"),
    # The library says this of its own types, once in each process.
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    # Its import takes seconds, more on a busy machine.
    pytest.mark.timeout(120),
]

NINE = [("web_search", {"query": f"rain {number}"}) for number in range(1, 10)]


@pytest.mark.parametrize("family", FAMILIES)
async def test_ten_steps_of_blf_are_taken_without_a_refusal(family: str, tmp_path: Path) -> None:
    async with served(tmp_path, FAMILIES[family], play_moves(*NINE)) as opened:
        trace = await opened.forecast("blf", rain_question())
        trial = trace.trials[0].trial
        assert opened.double.refusals == [], opened.spoken_of()
        assert trial is not None
        assert (trial.end, trial.steps) == (TrialEnd.FINISHED, 10), trial.detail
        assert (opened.double.prefix_breaks, {*opened.double.shared_prefixes}) == (0, {1.0})


@pytest.mark.parametrize("mind", MINDS)
@pytest.mark.parametrize("family", ["openai", "anthropic", "gemini", "deepseek", "openrouter", "vllm"])
async def test_every_forecaster_is_answered_without_a_refusal(family: str, mind: str, tmp_path: Path) -> None:
    async with served(tmp_path, FAMILIES[family], SimulatedModel(habits=ModelBehaviour()).answer) as opened:
        trace = await opened.forecast(mind, rain_question())
        assert opened.double.refusals == [], opened.spoken_of()
        assert [record.trial.end for record in trace.trials if record.trial] == [TrialEnd.FINISHED]
        assert opened.double.prefix_breaks == 0


@pytest.mark.parametrize("mind", MINDS)
async def test_of_a_trial_at_full_length_four_fifths_come_from_the_cache(mind: str, tmp_path: Path) -> None:
    script = PLANS.get(mind, SimulatedModel(habits=ModelBehaviour()).answer)
    async with served(tmp_path, FAMILIES["openai"], script) as opened:
        await opened.forecast(mind, rain_question())
        assert opened.double.refusals == []
        assert opened.double.cacheable_share >= 0.8
