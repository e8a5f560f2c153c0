"""The provider for chat-completions endpoints keeps the contract, and the habits of its endpoints."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.beliefs import ModelUsage
from bot.core.errors import AuthenticationError, ConfigError, ServiceUnavailableError
from bot.core.interfaces import ModelProvider
from bot.core.language_models import FinishReason, ModelCompletion, Prompt, SamplingSettings, TokenPrice
from bot.core.plugin_specs import PluginContext, PluginSettings
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.model_contract import KEY, QUESTION, SAMPLING, SCHEMA, SEARCH, SUBMIT, ModelProviderContract
from bot.testing.model_server import ScriptedModelServer, ScriptedReply, reply_error, reply_text, reply_tool_calls
from plugins.models.openai_compatible import (
    EndpointSettings,
    OpenAiCompatibleSettings,
    foxcast_models,
    open_openai_compatible,
)

(SPEC,) = foxcast_models()
MODEL = "local/some/model"


class TestOpenAiCompatible(ModelProviderContract):
    spec = SPEC
    model = MODEL

    def settings_for(self, base_url: str) -> PluginSettings:
        return settings(base_url, api_key=KEY)


def settings(base_url: str, **habits: Any) -> OpenAiCompatibleSettings:
    return OpenAiCompatibleSettings.model_validate({"endpoints": {"local": {"base_url": base_url, **habits}}})


@asynccontextmanager
async def asking(server: ScriptedModelServer, **habits: Any) -> AsyncIterator[ModelProvider]:
    async with opened_with(settings(server.base_url, **habits)) as llm:
        yield llm


@asynccontextmanager
async def opened_with(chosen: OpenAiCompatibleSettings) -> AsyncIterator[ModelProvider]:
    from bot.core.clock import SeededRandom, SystemClock
    from bot.net.client import RetryingHttpClient

    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
        context = PluginContext(clock=SystemClock(), http=http, folder=Path())
        async with open_openai_compatible(chosen, context) as llm:
            yield llm


async def body_of(prompt: Prompt = QUESTION, sampling: SamplingSettings = SAMPLING, **habits: Any) -> Mapping[str, Any]:
    async with ScriptedModelServer(reply_text("x")) as server, asking(server, **habits) as llm:
        await llm.complete(MODEL, prompt, sampling)
    return server.requests[0].body


async def answer_to(reply: ScriptedReply, prompt: Prompt = QUESTION, **habits: Any) -> ModelCompletion:
    async with ScriptedModelServer(reply) as server, asking(server, **habits) as llm:
        return await llm.complete(MODEL, prompt, SAMPLING)


async def test_the_request_is_what_the_endpoint_documents() -> None:
    assert await body_of() == {
        "model": "some/model",
        "messages": [{"role": "user", "content": "Will it rain?"}],
        "max_tokens": 64,
    }


async def test_habits_of_an_endpoint_are_kept() -> None:
    effort = SamplingSettings(max_tokens=5, effort="low")
    body = await body_of(
        sampling=effort,
        limit_field="max_completion_tokens",
        effort_field="reasoning",
        body={"provider": {"x": 1}},
    )
    assert (body["max_completion_tokens"], body["reasoning"], body["provider"]) == (5, {"effort": "low"}, {"x": 1})
    assert "max_tokens" not in body
    assert (await body_of(sampling=effort))["reasoning_effort"] == "low"


async def test_a_call_can_be_demanded_where_a_server_cannot_leave_the_choice() -> None:
    prompt = Prompt(messages=QUESTION.messages, tools=(SEARCH, SUBMIT))
    body = await body_of(prompt, tool_choice="required", one_call_at_a_time=False)
    assert body["tool_choice"] == "required"
    assert "parallel_tool_calls" not in body
    named = await body_of(replace(prompt, allowed=("submit",)), tool_choice="required")
    assert named["tool_choice"] == {"type": "function", "function": {"name": "submit"}}
    assert named["tools"] == body["tools"]


def test_the_former_name_of_the_choice_is_refused_with_the_present_one() -> None:
    with pytest.raises(ValidationError, match=r"forces_calls is now tool_choice"):
        settings("https://models.example/v1", forces_calls=False)


async def test_a_schema_may_be_asked_for_strictly() -> None:
    body = await body_of(Prompt(messages=QUESTION.messages, schema=SCHEMA), strict_schemas=True)
    # The strict form wants every object closed.
    strict = {**SCHEMA, "additionalProperties": False}
    assert body["response_format"]["json_schema"] == {"name": "answer", "schema": strict, "strict": True}


async def test_a_schema_can_be_dressed_as_the_only_tool() -> None:
    prompt = Prompt(messages=QUESTION.messages, schema=SCHEMA)
    body = await body_of(prompt, schemas="tool")
    assert "response_format" not in body
    assert body["tools"][0]["function"]["parameters"] == SCHEMA
    answer = await answer_to(reply_tool_calls(("answer", {"percent": 4})), prompt, schemas="tool")
    assert (answer.text, answer.calls, answer.finish) == ('{"percent": 4}', (), FinishReason.STOP)


async def test_a_beginning_that_stays_is_marked_where_the_endpoint_wants_it() -> None:
    prompt = Prompt(messages=QUESTION.messages, stable=1)
    (message,) = (await body_of(prompt, cache_marks=True))["messages"]
    assert message["content"] == [
        {"type": "text", "text": "Will it rain?", "cache_control": {"type": "ephemeral"}},
    ]


async def test_tools_on_an_endpoint_without_them_are_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="dialect"):
        await body_of(Prompt(messages=QUESTION.messages, tools=(SEARCH,)), tools=False)


async def test_own_prices_are_used() -> None:
    prices = {"some/model": {"tokens_in": 2.0, "tokens_cached": 0.5, "tokens_out": 10.0}}
    reply = ScriptedReply(text="x", tokens_in=1_000_000, tokens_cached=600_000, tokens_out=100_000)
    # 400,000 fresh tokens at 2, 600,000 cached at 0.5 and 100,000 written at 10 dollars a million.
    assert (await answer_to(reply, prices=prices)).cost_usd == pytest.approx(0.8 + 0.3 + 1.0)
    async with ScriptedModelServer(reply_text("x")) as server, asking(server, prices=prices) as llm:
        assert await llm.price(MODEL) == TokenPrice(tokens_in=2.0, tokens_cached=0.5, tokens_out=10.0)
        assert await llm.price("local/other") is None


async def test_cached_tokens_cost_as_others_unless_said() -> None:
    prices = {"some/model": {"tokens_in": 2.0, "tokens_out": 10.0}}
    async with ScriptedModelServer(reply_text("x")) as server, asking(server, prices=prices) as llm:
        assert await llm.price(MODEL) == TokenPrice(tokens_in=2.0, tokens_cached=2.0, tokens_out=10.0)


def raw(**usage: Any) -> ScriptedReply:
    import json

    body = {"choices": [{"message": {"content": "x" * 10}, "finish_reason": "stop"}], **usage}
    return ScriptedReply(raw=json.dumps(body).encode())


async def test_the_cost_that_a_router_names_is_kept() -> None:
    answer = await answer_to(raw(usage={"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.25}))
    assert answer.cost_usd == 0.25


async def test_cached_tokens_come_in_another_field_too() -> None:
    answer = await answer_to(raw(usage={"prompt_tokens": 30, "completion_tokens": 1, "prompt_cache_hit_tokens": 20}))
    assert answer.usage == ModelUsage(calls=1, tokens_in=30, tokens_cached=20, tokens_out=1)


async def test_tokens_that_nobody_counted_are_estimated_and_not_free() -> None:
    # 13 characters asked and 10 answered, at 4 a token, rounded up.
    assert (await answer_to(raw())).usage == ModelUsage(calls=1, tokens_in=4, tokens_out=3)


@pytest.mark.parametrize(
    "reply",
    [
        raw(usage={"prompt_tokens": -1, "completion_tokens": 1}),
        raw(usage={"prompt_tokens": 1.5, "completion_tokens": 1}),
        raw(usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": -1}),
        ScriptedReply(raw=b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 1, "cost": NaN}}'),
        ScriptedReply(raw=b"[" * 100_000),
    ],
    ids=["negative", "fraction", "negative cost", "cost of NaN", "deep nesting"],
)
async def test_odd_amounts_break_the_contract(reply: ScriptedReply) -> None:
    from bot.core.errors import MalformedDataError

    with pytest.raises(MalformedDataError, match="local/some/model"):
        await answer_to(reply)


async def test_an_error_in_a_choice_is_told_as_what_it_is() -> None:
    body = b'{"choices": [{"error": {"message": "upstream is down", "code": 502}, "finish_reason": "error"}]}'
    with pytest.raises(ServiceUnavailableError, match="upstream is down"):
        await answer_to(ScriptedReply(raw=body))


async def test_content_in_parts_is_joined_without_its_thoughts() -> None:
    body = b'{"choices": [{"message": {"content": [{"type": "thinking"}, {"type": "text", "text": "4"}]}}]}'
    assert (await answer_to(ScriptedReply(raw=body))).text == "4"


async def test_a_call_without_an_id_gets_one() -> None:
    body = b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "a"}}]}, "finish_reason": "stop"}]}'
    answer = await answer_to(ScriptedReply(raw=body))
    assert (answer.calls[0].id, answer.calls[0].arguments, answer.finish) == ("call_1", "", FinishReason.CALLS)


@pytest.mark.parametrize("model", ["local", "local/", "elsewhere/model", ""])
async def test_a_model_without_an_endpoint_is_a_fault_of_the_configuration(model: str) -> None:
    context = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=Path())
    async with open_openai_compatible(settings("https://models.example/v1"), context) as llm:
        with pytest.raises(ConfigError, match="configured: local"):
            await llm.complete(model, QUESTION, SAMPLING)


async def test_a_key_can_travel_in_a_header_of_another_name() -> None:
    async with ScriptedModelServer(reply_text("x")) as server, asking(server, api_key=KEY, key_header="api-key") as llm:
        await llm.complete(MODEL, QUESTION, SAMPLING)
    headers = server.requests[0].headers
    assert (headers["api-key"], headers.get("authorization")) == (KEY, None)


@pytest.mark.parametrize(
    "url", ["http://models.example/v1", "http://10.0.0.7:8000/v1", "http://127.0.0.1.evil.example"]
)
def test_a_key_does_not_leave_this_machine_in_clear(url: str) -> None:
    with pytest.raises(ValidationError, match="unencrypted"):
        EndpointSettings(base_url=url, api_key=KEY)  # type: ignore[arg-type]  # pydantic makes the secret
    with pytest.raises(ValidationError, match="unencrypted"):
        EndpointSettings(base_url=url, headers={"authorization": KEY})
    assert EndpointSettings(base_url=url).api_key is None


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/v1", "http://[::1]:1/v1", "http://localhost:1/v1", "https://models.example/v1/"]
)
def test_a_key_may_go_to_this_machine_or_under_tls(url: str) -> None:
    chosen = EndpointSettings(base_url=url, api_key=KEY)  # type: ignore[arg-type]  # as above
    assert chosen.request_headers() == {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "url", ["", "models.example/v1", "file:///etc/passwd", "https://u:p@x.example", "https://x/?k=1"]
)
def test_a_base_url_is_an_address(url: str) -> None:
    with pytest.raises(ValidationError, match="should be an address"):
        EndpointSettings(base_url=url)


def written(tmp_path: Path, extra: str = "") -> Path:
    file = tmp_path / "config.toml"
    file.write_text(f'[models.openai_compatible.settings.endpoints.local]\nbase_url = "https://x.example/v1"\n{extra}')
    return file


def test_the_key_of_an_endpoint_comes_from_the_environment(tmp_path: Path) -> None:
    variable = "FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__LOCAL__API_KEY"
    config = load_config(written(tmp_path), environ={variable: KEY})
    found = load_plugin_settings(SPEC, config).endpoints["local"]
    assert found.base_url == "https://x.example/v1"
    assert found.request_headers() == {"Authorization": f"Bearer {KEY}"}


def test_the_key_of_an_endpoint_is_refused_in_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, f'api_key = "{KEY}"'), environ={})
    with pytest.raises(ConfigError, match="a secret must not be in this file") as caught:
        load_plugin_settings(SPEC, config)
    assert KEY not in str(caught.value)


def test_where_a_model_is_served_is_the_endpoint_without_its_keys() -> None:
    def place(base_url: str = "https://one.example/v1", **habits: Any) -> str:
        return settings(base_url, **habits).endpoints["local"].place()

    same = [
        place(),
        place(api_key=KEY),
        place(headers={"Authorization": KEY, "X-Session-Token": KEY}),
        place(deadline_s=5.0, cache_marks=True, prices={"some/model": {"tokens_in": 1.0, "tokens_out": 2.0}}),
    ]
    other = [
        place("https://two.example/v1"),
        place(body={"top_k": 1}),
        place(body={"top_k": 2}),
        place(headers={"X-Region": "eu"}),
        place(schemas="tool"),
        place(strict_schemas=True),
    ]
    assert len(set(same)) == 1
    assert len({*same, *other}) == 1 + len(other)


async def test_the_price_of_filling_a_cache_can_be_told() -> None:
    prices = {"some/model": {"tokens_in": 3.0, "tokens_written": 3.75, "tokens_out": 15.0}}
    async with opened_with(settings("http://127.0.0.1:1/v1", prices=prices)) as llm:
        reported = await llm.price(MODEL)
    assert reported == TokenPrice(tokens_in=3.0, tokens_cached=3.0, tokens_out=15.0, tokens_written=3.75)


@pytest.mark.parametrize("status", [401, 402, 403])
async def test_refused_credentials_are_told_with_the_variable_and_what_to_do(status: int) -> None:
    async with ScriptedModelServer(reply_error(status)) as server, asking(server, api_key=KEY) as llm:
        with pytest.raises(AuthenticationError) as raised:
            await llm.complete(MODEL, QUESTION, SAMPLING)
    variable = "FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__LOCAL__API_KEY"
    does = f"add some, or set {variable} to" if status == 402 else f"the key was refused; set {variable} to one"
    assert str(raised.value).partition("(")[0].count(does) == 1
