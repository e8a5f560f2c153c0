"""Google's own client reads what the double answers, and what it sends back is taken."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from google.genai import Client, errors, types

from bot.simulator.providers.chat_requests import ReplyOverride
from bot.simulator.providers.gemini import GeminiDouble
from bot.testing.model_server import ReplyScript, reply_json, reply_tool_calls
from tests.unit.simulator.providers.gemini_client import ANSWER, FUNCTIONS, QUESTION, SYSTEM, plan

TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration.model_validate(FUNCTIONS[0]),
        types.FunctionDeclaration(name="submit", description="Answer.", parameters_json_schema=ANSWER),
    ]
)


def config(**more: Any) -> types.GenerateContentConfig:
    by_hand = types.AutomaticFunctionCallingConfig(disable=True)
    system = SYSTEM["parts"][0]["text"]
    return types.GenerateContentConfig(
        system_instruction=system, tools=[TOOL], automatic_function_calling=by_hand, **more
    )


@asynccontextmanager
async def serving(script: ReplyScript | None = None, *, key: str = "k") -> AsyncIterator[tuple[GeminiDouble, Any]]:
    """Serve the double to Google's client, over a connection of our own: by itself it would use one that warns."""
    async with GeminiDouble(script or plan(), key="k") as double, httpx.AsyncClient(trust_env=False) as http:
        options = types.HttpOptions(base_url=double.address, httpx_async_client=http)
        yield double, Client(api_key=key, http_options=options).aio.models


def question() -> types.Content:
    return types.Content.model_validate(QUESTION)


def answers(content: Any) -> list[types.Content]:
    responses = [
        types.FunctionResponse(id=one.id, name=one.name, response={"content": "It stayed dry."})
        for one in (part.function_call for part in content.parts)
        if one is not None
    ]
    return [types.Content(role="user", parts=[types.Part(function_response=one) for one in responses])]


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-2.5-pro", types.ThinkingConfig(thinking_budget=-1)),
        ("gemini-3.1-pro-preview", types.ThinkingConfig(thinking_level=types.ThinkingLevel.HIGH)),
        ("gemini-3.8-flash", types.ThinkingConfig(thinking_level=types.ThinkingLevel.HIGH, include_thoughts=True)),
        ("models/gemini-4-argon", None),
    ],
)
async def test_a_tool_loop_goes_on_with_the_content_as_the_client_gives_it(model: str, thinking: Any) -> None:
    validated = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.VALIDATED)
    settled = config(thinking_config=thinking, tool_config=types.ToolConfig(function_calling_config=validated))
    async with serving() as (double, models):
        contents = [question()]
        for _ in range(4):
            response = await models.generate_content(model=model, contents=contents, config=settled)
            candidate = response.candidates[0]
            assert (candidate.finish_reason, len(response.function_calls)) == (types.FinishReason.STOP, 1)
            assert response.usage_metadata.thoughts_token_count > 0
            contents += [candidate.content, *answers(candidate.content)]
        assert response.function_calls[0].name == "submit"
        assert response.usage_metadata.cached_content_token_count > 4096
    assert (double.refusals, double.prefix_breaks, double.altered_replies) == ([], 0, 0)


async def test_parallel_calls_and_structured_answers_are_read() -> None:
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with serving([both, reply_json({"p": 0.4})]) as (double, models):
        first = await models.generate_content(model="gemini-3.8-flash", contents=[question()], config=config())
        content = first.candidates[0].content
        assert [bool(part.thought_signature) for part in content.parts] == [True, False]
        settled = types.GenerateContentConfig(response_mime_type="application/json", response_json_schema=ANSWER)
        settled.tools = [TOOL]
        contents = [question(), content, *answers(content)]
        second = await models.generate_content(model="gemini-3.8-flash", contents=contents, config=settled)
        assert (second.text, double.asked[-1].schema) == ('{"p": 0.4}', ANSWER)


async def test_ends_without_an_answer_are_read() -> None:
    ends = {
        ReplyOverride.MALFORMED_CALL: types.FinishReason.MALFORMED_FUNCTION_CALL,
        ReplyOverride.EMPTY_LENGTH: types.FinishReason.MAX_TOKENS,
        ReplyOverride.SAFETY: types.FinishReason.SAFETY,
    }
    async with serving() as (double, models):
        double.override_next(*ends, ReplyOverride.BLOCKED_PROMPT)
        for finish in ends.values():
            response = await models.generate_content(model="gemini-4-argon", contents=[question()], config=config())
            assert (response.candidates[0].finish_reason, response.text) == (finish, None)
        blocked = await models.generate_content(model="gemini-4-argon", contents=[question()], config=config())
        assert (blocked.candidates, blocked.prompt_feedback.block_reason) == (
            None,
            types.BlockedReason.PROHIBITED_CONTENT,
        )


@pytest.mark.parametrize(
    ("switch", "kind", "code", "status"),
    [
        (ReplyOverride.OVERLOADED, errors.ServerError, 503, "UNAVAILABLE"),
        (ReplyOverride.RATE_LIMITED, errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        (ReplyOverride.QUOTA_EXHAUSTED, errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
    ],
)
async def test_faults_are_errors_of_the_client(switch: ReplyOverride, kind: Any, code: int, status: str) -> None:
    async with serving() as (double, models):
        double.override_next(switch)
        with pytest.raises(kind) as caught:
            await models.generate_content(model="gemini-4-argon", contents=[question()], config=config())
    assert (caught.value.code, caught.value.status) == (code, status)
    kinds = [one["@type"].rpartition(".")[2] for one in caught.value.details["error"].get("details", ())]
    assert kinds == ([] if code == 503 else ["QuotaFailure", "RetryInfo"])


async def test_refusals_are_errors_of_the_client() -> None:
    async with serving() as (double, models):
        response = await models.generate_content(model="gemini-4-argon", contents=[question()], config=config())
        content = response.candidates[0].content
        content.parts[0].thought_signature = None
        contents = [question(), content, *answers(content)]
        with pytest.raises(errors.ClientError) as caught:
            await models.generate_content(model="gemini-4-argon", contents=contents, config=config())
        assert (caught.value.status, double.refusals[-1].rule) == ("INVALID_ARGUMENT", "P-27")
        with pytest.raises(errors.ClientError) as caught:
            await models.generate_content(model="gemini-9", contents=[question()])
        assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    async with serving(key="other") as (_, models):
        with pytest.raises(errors.ClientError, match="API key not valid"):
            await models.generate_content(model="gemini-4-argon", contents=[question()])
