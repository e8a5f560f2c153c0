"""Both providers with a real small model: real tokens, real truncation, no key. What it says is of no account."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]  # ships none
import psutil
import pytest

from bot.core.clock import SeededRandom, SystemClock
from bot.core.interfaces import ModelProvider
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelCompletion,
    Prompt,
    SamplingSettings,
    ToolDefinition,
)
from bot.core.plugin_specs import PluginContext
from bot.net.client import RetryingHttpClient
from plugins.models.litellm import LitellmSettings, open_litellm
from plugins.models.openai_compatible import OpenAiCompatibleSettings, open_openai_compatible
from tests.model.conftest import SmallModel

pytestmark = [
    pytest.mark.xdist_group("small model"),
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
]

PROVIDERS = ("openai_compatible", "litellm")
# Bounds on integers, lengths and lists are kept by the server's grammar; those on fractions are not.
BELIEF: dict[str, Any] = {
    "type": "object",
    "properties": {
        "percent": {"type": "integer", "minimum": 0, "maximum": 100},
        "confidence": {"type": "string", "enum": ["low", "medium", "high"]},
        "reasons": {"type": "array", "maxItems": 2, "items": {"type": "string", "minLength": 1, "maxLength": 40}},
    },
    "required": ["percent", "confidence", "reasons"],
    "additionalProperties": False,
}


def action(name: str, **parts: Any) -> dict[str, Any]:
    properties = {"action": {"const": name}, **parts}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


SEARCH = action("search", query={"type": "string", "minLength": 1, "maxLength": 40})
SUBMIT = action("submit", percent={"type": "integer", "minimum": 0, "maximum": 100})
UNION = {"anyOf": [SEARCH, SUBMIT]}


@asynccontextmanager
async def opened(provider: str, model: SmallModel) -> AsyncIterator[tuple[ModelProvider, str]]:
    """Open a provider on the model; yield it with the name it knows the model by."""
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
        place = PluginContext(clock=SystemClock(), http=http, folder=Path())
        if provider == "litellm":
            chosen = LitellmSettings.model_validate(
                {"keys": {"openai": "none"}, "base_urls": {"openai": model.base_url}}
            )
            async with open_litellm(chosen, place) as llm:
                yield llm, f"openai/{model.name}"
        else:
            local = OpenAiCompatibleSettings.model_validate({"endpoints": {"local": {"base_url": model.base_url}}})
            async with open_openai_compatible(local, place) as llm:
                yield llm, f"local/{model.name}"


async def ask(
    provider: str, model: SmallModel, *, max_tokens: int = 120, seed: int = 1, **form: Any
) -> ModelCompletion:
    question = "Will it rain in Paris tomorrow? Answer with a forecast."
    prompt = Prompt(messages=(Message(speaker=MessageRole.USER, text=question),), **form)
    async with opened(provider, model) as (llm, name):
        return await llm.complete(name, prompt, SamplingSettings(max_tokens=max_tokens, temperature=0.7, seed=seed))


def test_it_listens_on_this_machine_only_and_is_well(small_model: SmallModel) -> None:
    health = small_model.base_url.removesuffix("/v1") + "/health"
    assert httpx.get(health, trust_env=False).json() == {"status": "ok"}
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(small_model.pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert set(listening) == {"127.0.0.1"}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("schema", [BELIEF, UNION], ids=["belief", "union"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_an_answer_under_a_schema_fits_it_or_was_cut(
    small_model: SmallModel, provider: str, schema: dict[str, Any], seed: int
) -> None:
    answer = await ask(provider, small_model, schema=schema, seed=seed)
    assert answer.usage.calls == 1
    assert answer.usage.tokens_in > 0
    assert 0 < answer.usage.tokens_out <= 120
    if answer.finish is FinishReason.LENGTH:
        assert answer.usage.tokens_out == 120
    else:
        assert answer.finish is FinishReason.STOP
        jsonschema.validate(json.loads(answer.text), schema)


@pytest.mark.parametrize(("offered", "name"), [(SEARCH, "search"), (SUBMIT, "submit")], ids=["search", "submit"])
async def test_only_the_action_that_is_offered_is_taken(
    small_model: SmallModel, offered: dict[str, Any], name: str
) -> None:
    answer = await ask("openai_compatible", small_model, schema={"anyOf": [offered]})
    assert answer.finish is FinishReason.STOP
    assert json.loads(answer.text)["action"] == name


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_tool_that_the_server_drops_ends_in_an_answer_and_no_exception(
    small_model: SmallModel, provider: str
) -> None:
    tool = ToolDefinition(name="search", description="Search the web.", parameters={"type": "object", "properties": {}})
    answer = await ask(provider, small_model, tools=(tool,), max_tokens=40)
    assert answer.finish in {FinishReason.STOP, FinishReason.LENGTH, FinishReason.CALLS}
    assert bool(answer.calls) == (answer.finish is FinishReason.CALLS) or answer.finish is FinishReason.LENGTH


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cut_answer_says_so(small_model: SmallModel, provider: str) -> None:
    answer = await ask(provider, small_model, max_tokens=5)
    assert (answer.finish, answer.usage.tokens_out) == (FinishReason.LENGTH, 5)


async def test_nobody_knows_its_price(small_model: SmallModel) -> None:
    async with opened("litellm", small_model) as (llm, name):
        assert await llm.price(name) is None
