"""Ten steps of each forecaster with each provider's strict double: nothing is refused, and every prefix is shared."""

from pathlib import Path

import pytest

from bot.domain.forecast import TrialEnd
from bot.testing.model_server import moves
from bot.testing.world.habits import Habits
from bot.testing.world.mind import Mind
from tests.integration.providers import FAMILIES, MINDS, rain, served

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
    async with served(tmp_path, FAMILIES[family], moves(*NINE)) as opened:
        trace = await opened.forecast("blf", rain())
        trial = trace.trials[0].trial
        assert opened.double.refusals == [], opened.spoken_of()
        assert trial is not None
        assert (trial.end, trial.steps) == (TrialEnd.FINISHED, 10), trial.detail
        assert (opened.double.prefix_breaks, {*opened.double.shared_prefixes}) == (0, {1.0})


@pytest.mark.parametrize("mind", MINDS)
@pytest.mark.parametrize("family", ["openai", "anthropic", "gemini", "deepseek", "openrouter", "vllm"])
async def test_every_forecaster_is_answered_without_a_refusal(family: str, mind: str, tmp_path: Path) -> None:
    async with served(tmp_path, FAMILIES[family], Mind(habits=Habits()).answer) as opened:
        trace = await opened.forecast(mind, rain())
        assert opened.double.refusals == [], opened.spoken_of()
        assert [record.trial.end for record in trace.trials if record.trial] == [TrialEnd.FINISHED]
        assert opened.double.prefix_breaks == 0
