"""What the errors of vendors, routers and servers mean: whose turn it is, and whether waiting helps."""

import json
from typing import Any

import pytest

from bot.core.errors import (
    AuthenticationError,
    ContextLengthExceededError,
    FoxcastError,
    HttpErrorResponse,
    NotFoundError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
)
from plugins.models._provider_errors import (
    ErrorRemedy,
    ModelStateRefusedError,
    error_message,
    provider_error,
    translate_http_error,
)

REMEDY = ErrorRemedy(
    key_variable="THE_KEY", tool_choice_setting="[table] tool_choice", address_setting="base_url in [table]"
)


def openai(message: str, **more: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


def anthropic(message: str, kind: str = "invalid_request_error", **more: Any) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"}


def google(code: int, message: str, *details: Any) -> Any:
    return {"error": {"code": code, "message": message, "status": "INVALID_ARGUMENT", "details": [*details]}}


def quota(**violation: str) -> Any:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}
FULL = "You exceeded your current quota, please check your plan and billing details."
TRIMMED = (
    "messages.3.content.4: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
)
FC_ITEM = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."

# Status and body as vendors document or send them -> what it means.
FAULTS: dict[str, tuple[int, Any, type[FoxcastError]]] = {
    "OpenAI quota": (429, openai(FULL, type="insufficient_quota", code="insufficient_quota"), QuotaExhaustedError),
    "OpenAI spend": (429, openai("Limit", code="organization_spend_limit_exceeded"), QuotaExhaustedError),
    "OpenAI rate": (429, openai("Rate limit reached", code="rate_limit_exceeded"), ServiceUnavailableError),
    "Anthropic spend": (
        429,
        anthropic("x", "rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        QuotaExhaustedError,
    ),
    "Anthropic rate": (
        429,
        anthropic("This request would exceed your rate limit", "rate_limit_error"),
        ServiceUnavailableError,
    ),
    "Anthropic credit": (
        400,
        anthropic("Your credit balance is too low to access the Anthropic API."),
        QuotaExhaustedError,
    ),
    "Anthropic billing": (402, anthropic("x", "billing_error"), QuotaExhaustedError),
    "Anthropic overloaded": (529, anthropic("Overloaded", "overloaded_error"), ServiceUnavailableError),
    "Google minute": (
        429,
        google(429, FULL, quota(quotaId="GenerateRequestsPerMinutePerProject"), RETRY),
        ServiceUnavailableError,
    ),
    "Google day": (
        429,
        google(429, FULL, quota(quotaId="GenerateRequestsPerDayPerProjectPerModel"), RETRY),
        QuotaExhaustedError,
    ),
    "Google none": (429, google(429, f"{FULL} Quota exceeded for metric: x, limit: 0"), QuotaExhaustedError),
    "Google key": (400, google(400, "API key not valid. Please pass a valid API key."), AuthenticationError),
    "Google overloaded": (503, google(503, "The model is overloaded."), ServiceUnavailableError),
    "Google list": (503, [google(503, "The model is overloaded.")], ServiceUnavailableError),
    "DeepSeek balance": (402, openai("Insufficient Balance"), QuotaExhaustedError),
    "Moonshot balance": (429, openai("x", type="exceeded_current_quota_error"), QuotaExhaustedError),
    "DashScope account": (400, openai("Access denied", code="Arrearage"), QuotaExhaustedError),
    "OpenRouter credits": (402, {"error": {"code": 402, "message": "Insufficient credits"}}, QuotaExhaustedError),
    "OpenRouter in flight": (
        402,
        {"error": {"code": 402, "message": "x", "metadata": {"limit_source": "openrouter_in_flight_budget"}}},
        ServiceUnavailableError,
    ),
    "OpenRouter moderation": (403, {"error": {"code": 403, "message": "Your input was flagged"}}, RequestRejectedError),
    "a conflict": (409, openai("Conflict"), ServiceUnavailableError),
    "a bad key": (401, openai("Incorrect API key provided"), AuthenticationError),
    "too long for OpenAI": (400, openai("x", code="context_length_exceeded"), ContextLengthExceededError),
    "too long for Anthropic": (
        400,
        anthropic("prompt is too long: 210000 tokens > 200000 maximum"),
        ContextLengthExceededError,
    ),
    "too long for Google": (
        400,
        google(400, "The input token count (9) exceeds the maximum number of tokens allowed"),
        ContextLengthExceededError,
    ),
    "too long for llama.cpp": (
        400,
        openai("the request exceeds the available context size", type="exceed_context_size_error"),
        ContextLengthExceededError,
    ),
    "too long for vLLM": (
        400,
        openai("This model's maximum context length is 8192 tokens. However, you requested 9000"),
        ContextLengthExceededError,
    ),
    "too long for xAI": (
        400,
        {"code": "x", "error": "This model's maximum prompt length is 131072"},
        ContextLengthExceededError,
    ),
    "Anthropic blocks": (400, anthropic(TRIMMED), ModelStateRefusedError),
    "Anthropic signature": (
        400,
        anthropic("messages.1.content.0: Invalid `signature` in `thinking` block"),
        ModelStateRefusedError,
    ),
    "Anthropic prefix": (400, anthropic("The block is bound to a different conversation"), ModelStateRefusedError),
    "Google signature": (400, google(400, "Corrupted thought signature."), ModelStateRefusedError),
    "Google no signature": (
        400,
        google(400, "Function call is missing a thought_signature in functionCall parts."),
        ModelStateRefusedError,
    ),
    "OpenAI item": (400, openai(FC_ITEM), ModelStateRefusedError),
    "OpenAI content": (400, openai("x", code="invalid_encrypted_content"), ModelStateRefusedError),
    "DeepSeek reasoning": (
        400,
        openai("The `reasoning_content` in the thinking mode must be passed back"),
        ModelStateRefusedError,
    ),
    "Kimi reasoning": (
        400,
        openai("thinking is enabled but reasoning_content is missing in message 2"),
        ModelStateRefusedError,
    ),
    "Groq field": (400, openai("'messages.1' : property 'reasoning' is unsupported"), ModelStateRefusedError),
    "Mistral field": (
        422,
        {"message": {"detail": [{"type": "extra_forbidden", "loc": ["x"]}]}},
        ModelStateRefusedError,
    ),
    "a wrapped signature": (
        400,
        {
            "error": {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {"provider_name": "Google", "raw": "Corrupted thought signature."},
            }
        },
        ModelStateRefusedError,
    ),
    "a forced call": (
        400,
        anthropic("Thinking may not be enabled when tool_choice forces tool use."),
        RequestRejectedError,
    ),
    "no such model": (404, openai("The model `x` does not exist"), RequestRejectedError),
    "xAI effort": (
        400,
        {"code": "Client specified an invalid argument", "error": "Model x does not support reasoningEffort"},
        RequestRejectedError,
    ),
    "LM Studio": (400, {"error": "Something is wrong"}, RequestRejectedError),
    "no body": (400, None, RequestRejectedError),
    "a page": (502, "<html>Bad gateway</html>", ServiceUnavailableError),
}


def made(status: int, body: Any, wait_s: float | None = None) -> FoxcastError:
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    return provider_error(HttpErrorResponse(status=status, body=text), shown="x:m", remedy=REMEDY, wait_s=wait_s)


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_says_who_must_act(name: str) -> None:
    status, body, kind = FAULTS[name]
    error = made(status, body)
    assert type(error) is kind
    assert str(error).startswith("x:m: ")
    assert error.refusal is not None
    assert error.refusal.status == status


def test_how_long_to_wait_is_taken_from_where_it_is_told() -> None:
    def wait_s(name: str, headers_s: float | None = None) -> float | None:
        error = made(*FAULTS[name][:2], headers_s)
        assert isinstance(error, ServiceUnavailableError)
        return error.retry_after_s

    assert wait_s("Google minute") == 34.4
    assert wait_s("OpenAI rate", 7.0) == 7.0
    # A full provider that does not say asks for patience; one that fails does not.
    assert (wait_s("OpenAI rate"), wait_s("a page")) == (0.0, None)


def test_messages_say_what_to_do() -> None:
    assert "add some, or set THE_KEY" in str(made(*FAULTS["DeepSeek balance"][:2]))
    assert "the key was refused; set THE_KEY" in str(made(*FAULTS["a bad key"][:2]))
    assert 'set [table] tool_choice = "auto"' in str(made(*FAULTS["a forced call"][:2]))
    no_parser = openai('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    assert 'set [table] tool_choice = "required"' in str(made(400, no_parser))
    assert "check the name of the model" in str(made(*FAULTS["no such model"][:2]))
    assert "(Google: Corrupted thought signature.)" in str(made(*FAULTS["a wrapped signature"][:2]))


def test_secrets_are_taken_out() -> None:
    remedy = ErrorRemedy(redact=lambda message: message.replace("sk-secret", "***"))
    error = provider_error(HttpErrorResponse(status=400, body='{"error": "bad sk-secret"}'), shown="x", remedy=remedy)
    assert "sk-secret" not in f"{error} {error.refusal}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": {"message": "a\\n b"}}', "a b"),
        ('{"error": "text"}', "text"),
        ('{"detail": "text"}', "text"),
        ('[{"error": {"message": "text"}}]', "text"),
        ("not JSON", "not JSON"),
        ('{"odd": 1}', '{"odd": 1}'),
        ("[" * 100_000, "[" * 300),
    ],
)
def test_the_words_for_people_are_found(text: str, message: str) -> None:
    assert error_message(text) == message


def test_an_error_without_an_answer_keeps_its_kind() -> None:
    reported = {
        kind: translate_http_error(kind("it failed"), shown="x:m", remedy=REMEDY)
        for kind in (ServiceUnavailableError, ServerUnreachableError, NotFoundError, RequestRejectedError)
    }
    assert all(type(error) is kind for kind, error in reported.items())
    assert str(reported[ServerUnreachableError]) == "x:m: it failed (base_url in [table])"
