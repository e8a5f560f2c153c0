"""The model blocks of docs/models.md, as shown, run against strict doubles to a forecast that is submitted."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bot.simulator.providers.anthropic import AnthropicDouble
from bot.simulator.providers.gemini import GeminiDouble
from bot.simulator.providers.local_servers import LlamaCppDouble
from bot.simulator.providers.model_gateways import OpenRouterDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.simulator.providers.provider_double import ProviderDouble
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from bot.testing.model_server import ReplyScript, play_moves
from tests.acceptance.conftest import installed

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
WHOLE = '[venues.forecastbench]\nforecasters = ["blf"]\n'
SEARCHED = play_moves(("web_search", {"query": "what was decided"}), ("web_search", {"query": "what is usual"}))
NEWS = {"web": {"results": [{"title": "News", "url": "https://news.example/1", "description": "Nothing new."}]}}
LITELLM = "FOXCAST_MODELS__LITELLM__SETTINGS__"
DOUBLES: Mapping[str, Callable[[ReplyScript], ProviderDouble]] = {
    "gemini": GeminiDouble,
    "openai": OpenAiDouble,
    "anthropic": AnthropicDouble,
    "openrouter": OpenRouterDouble,
    "local": lambda script: LlamaCppDouble(script, window=131_072),
}


def model_blocks() -> list[str]:
    """Return the TOML blocks of the page that name a main model."""
    blocks = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "[llm.roles.main]" in block]


def main_model(block: str) -> str:
    """Return the main model of a block."""
    found = re.search(r'^\[llm\.roles\.main\]\nmodel = "([^"]+)"', block, re.MULTILINE)
    assert found is not None, block
    return found[1]


@asynccontextmanager
async def provided(names: set[str]) -> AsyncIterator[tuple[Mapping[str, ProviderDouble], Mapping[str, str]]]:
    """Serve these providers and a search engine; yield the doubles and the variables that lead to them."""

    def news(received: ReceivedRequest) -> ScriptedResponse:
        return ScriptedResponse(body=json.dumps(NEWS).encode())

    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(LoopbackServer(news))
        doubles = {name: await stack.enter_async_context(DOUBLES[name](SEARCHED)) for name in names}
        environment = {
            # Data come from public servers, which no test asks.
            "FOXCAST_PLUGINS": '["forecastbench", "blf", "litellm", "openai_compatible", "brave"]',
            "FOXCAST_VENUES__FORECASTBENCH__FORECASTERS": '["blf"]',
            "FOXCAST_FORECASTERS__BLF__TRIALS": "1",
            "FOXCAST_SEARCH__BRAVE__SETTINGS__KEY": "sk-canary-search",
            "FOXCAST_SEARCH__BRAVE__SETTINGS__BASE_URL": engine.address,
            "FOXCAST_LLM__BUDGET__ASK_ABOVE_USD": "1000",
            "FOXCAST_LLM__BUDGET__DAY_USD": "1000",
        }
        for name, double in doubles.items():
            if name == "local":
                environment["FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__LOCAL__BASE_URL"] = double.base_url
            else:
                environment[f"{LITELLM}BASE_URLS__{name.upper()}"] = double.base_url
                environment[f"{LITELLM}KEYS__{name.upper()}"] = f"sk-canary-{name}"
        yield doubles, environment


@pytest.mark.timeout(180)
@pytest.mark.parametrize("block", model_blocks(), ids=main_model)
async def test_a_model_block_of_the_page_forecasts_and_submits(block: str, tmp_path: Path) -> None:
    names = set(re.findall(r'"(?:litellm|openai_compatible):([a-z]+)/', block))
    async with provided(names) as (doubles, environment):
        foxcast = installed(tmp_path, "").with_environment(**environment)
        foxcast.config.write_text(block if block.startswith("plugins") else WHOLE + block)
        # In a thread: the servers that it asks are in this one.
        done = await asyncio.to_thread(foxcast, "run", "--once", timeout=150)
        refusals = [f"{one.rule} {one.message}" for double in doubles.values() for one in double.refusals]
        assert refusals == []
        assert done.code == 0, done.err[-3000:]
        assert re.search(r"\b30 forecasts made", done.out), done.out
        assert re.search(r"\b30 (acknowledged|submitted)", done.out), done.out
        assert "failed" not in done.out
        assert all(double.prefix_breaks == 0 for double in doubles.values())


def test_the_page_shows_the_providers_that_people_use() -> None:
    assert {re.split(r"[:/]", main_model(block))[1] for block in model_blocks()} >= {
        *("gemini", "openai", "anthropic", "openrouter", "local"),
    }
