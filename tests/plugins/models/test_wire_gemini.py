"""Google's generateContent: the documented request, parts that go back as they came, and what a reply means."""

from typing import Any

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.errors import ConfigError, FoxcastError, MalformedDataError, ServiceUnavailableError
from bot.core.language_models import FinishReason, ModelCompletion
from plugins.models._provider_errors import ModelStateRefusedError
from plugins.models._wire_gemini import gemini_body, read_gemini
from tests.plugins.models.wire_calls import (
    QUESTION,
    SCHEMA,
    SEARCH,
    SUBMIT,
    SYSTEM,
    as_sent,
    foreign,
    reply_of,
    results,
    spoken,
    tool_result,
    user,
    wire_call,
)

PRO = "gemini/gemini-3.1-pro-preview"
ARGON = "gemini/gemini-4-argon"
SIGNED = {"functionCall": {"id": "fc1", "name": "search", "args": {"q": "x"}}, "thoughtSignature": "Eqo/+= "}
# The first of several calls is signed, and a signature may stand on a text.
PARTS = [
    {"text": "I wonder.", "thought": True},
    SIGNED,
    {"functionCall": {"id": "fc2", "name": "search", "args": {"b": 1.0, "a": None}}},
    {"functionCall": {"id": "fc3", "name": "submit", "args": {}}, "odd": [1]},
    {"text": "", "thoughtSignature": "Zzz"},
]


def reply(parts: Any, reason: str = "STOP", **more: Any) -> bytes:
    content = {"role": "model", **({} if parts is None else {"parts": parts})}
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 40,
        "totalTokenCount": 143,
    }
    candidate = {"content": content, "finishReason": reason, "index": 0}
    return reply_of({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x", **more})


def read(parts: Any, reason: str = "STOP", model: str = PRO) -> ModelCompletion:
    return read_gemini(reply(parts, reason), wire_call(model, tools=(SEARCH,))).completion


def test_the_second_request_is_the_documented_one() -> None:
    # Source: Google, "Thought signatures".
    answer = read([SIGNED])
    call = wire_call(PRO, SYSTEM, QUESTION, spoken(answer), *results(answer), tools=(SEARCH, SUBMIT), effort="high")
    body = as_sent(gemini_body(call))
    assert body["contents"] == [
        {"role": "user", "parts": [{"text": "Q"}]},
        {"role": "model", "parts": [SIGNED]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "fc1", "name": "search", "response": {"content": "..."}}}],
        },
    ]
    assert body["systemInstruction"] == {"parts": [{"text": "Forecast."}]}
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    config = body["generationConfig"]
    assert (config["maxOutputTokens"], config["thinkingConfig"]["thinkingLevel"]) == (32_000, "high")
    assert not config.keys() & {"temperature", "topP", "seed"}
    # Lengths of texts are no part of what it knows, and an object without properties is refused.
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "search",
                    "description": "Search the web.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": {"q": {"type": "string"}},
                        "required": ["q"],
                    },
                },
                {"name": "submit", "description": "End."},
            ]
        }
    ]


def test_all_parts_go_back_in_their_order_and_unchanged_for_three_steps() -> None:
    conversation = [QUESTION]
    for _ in range(3):
        answer = read(PARTS, model=ARGON)
        conversation += [spoken(answer), *results(answer)]
    contents = as_sent(gemini_body(wire_call(ARGON, *conversation, tools=(SEARCH, SUBMIT))))["contents"]
    assert [one["parts"] for one in contents if one["role"] == "model"] == [PARTS] * 3
    answered = [
        [(part["functionResponse"]["id"], part["functionResponse"]["name"]) for part in one["parts"]]
        for one in contents[2::2]
    ]
    assert answered == [[("fc1", "search"), ("fc2", "search"), ("fc3", "submit")]] * 3


def test_results_are_in_the_order_of_the_calls_and_what_is_said_after_them_follows() -> None:
    answer = read(PARTS)
    first, second, third = results(answer)
    call = wire_call(PRO, QUESTION, spoken(answer), third, first, second, user("Only submit counts."), tools=(SEARCH,))
    turn = as_sent(gemini_body(call))["contents"][-1]["parts"]
    assert [part.get("functionResponse", {}).get("id") for part in turn] == ["fc1", "fc2", "fc3", None]
    assert turn[-1] == {"text": "Only submit counts."}


def test_a_call_without_an_id_is_answered_without_one() -> None:
    bare = {"functionCall": {"name": "search", "args": {"q": "x"}}, "thoughtSignature": "S"}
    conversation = [QUESTION]
    ids = []
    for _ in range(2):
        call = wire_call("gemini/gemini-2.5-pro", *conversation, tools=(SEARCH,))
        answer = read_gemini(reply([bare, bare]), call).completion
        ids += [made.id for made in answer.calls]
        conversation += [spoken(answer), *results(answer)]
    assert len(set(ids)) == 4
    sent = gemini_body(wire_call("gemini/gemini-2.5-pro", *conversation, tools=(SEARCH,)))
    assert '"id"' not in str(as_sent(sent)).replace("'", '"')


def test_a_message_of_another_model_has_what_stands_for_a_signature() -> None:
    conversation = (
        QUESTION,
        foreign(("a", "search", '{"q": 1}'), ("b", "submit", "")),
        tool_result("a"),
        tool_result("b"),
    )
    contents = as_sent(gemini_body(wire_call(ARGON, *conversation, tools=(SEARCH, SUBMIT))))["contents"]
    first, second = contents[1]["parts"]
    assert first == {
        "functionCall": {"id": "a", "name": "search", "args": {"q": 1}},
        "thoughtSignature": "skip_thought_signature_validator",
    }
    assert second == {"functionCall": {"id": "b", "name": "submit", "args": {}}}
    answered = [part["functionResponse"] for part in contents[2]["parts"]]
    assert [(one["id"], one["name"]) for one in answered] == [("a", "search"), ("b", "submit")]
    older = as_sent(gemini_body(wire_call("gemini/gemini-2.5-pro", *conversation, tools=(SEARCH, SUBMIT))))
    assert "thoughtSignature" not in str(older)
    # Models before those with levels of thinking refuse ids.
    assert "'id'" not in str(older)


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-3.1-pro-preview", "xhigh", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "max", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "minimal", "includeThoughts": True}),
        ("gemini-4-argon", "minimal", {"thinkingLevel": "low", "includeThoughts": True}),
        ("gemini-2.5-pro", "high", {"thinkingBudget": 24_576, "includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-2.0-flash", "high", None),
        ("gemini-3.1-pro-preview", None, None),
    ],
)
def test_effort_is_said_in_the_words_of_the_model(model: str, effort: str | None, thinking: Any) -> None:
    body = gemini_body(wire_call(f"gemini/{model}", effort=effort))
    assert as_sent(body)["generationConfig"].get("thinkingConfig") == thinking


def test_what_cannot_be_is_said_before_anything_is_sent() -> None:
    for model in (PRO, "gemini/gemini-2.5-pro"):
        with pytest.raises(ConfigError, match="reasoning cannot be switched off"):
            gemini_body(wire_call(model, effort="none"))
    with pytest.raises(ConfigError, match="leaves no room to think"):
        gemini_body(wire_call("gemini/gemini-2.5-pro", effort="high", max_tokens=2_500))


def test_a_model_that_does_not_think_is_sampled_as_asked() -> None:
    body = as_sent(gemini_body(wire_call("gemini/gemini-2.0-flash", tools=(SEARCH,), temperature=0.3)))
    assert body["generationConfig"]["temperature"] == 0.3
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == "AUTO"
    assert "temperature" not in as_sent(gemini_body(wire_call(PRO, temperature=0.3)))["generationConfig"]


def test_a_schema_is_asked_for_in_the_part_that_is_taken() -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "kind": {"const": "a"}}, "additionalProperties": False}
    config = as_sent(gemini_body(wire_call(PRO, schema=schema)))["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == {
        "type": "object",
        "properties": {
            "p": {"type": "number", "minimum": 0, "maximum": 1},
            "why": {"type": "string"},
            "kind": {"enum": ["a"]},
        },
        "required": ["p"],
        "additionalProperties": False,
    }


def test_thoughts_are_output_that_is_told_beside_it() -> None:
    answer = read([{"text": "42"}])
    assert answer.usage == ModelUsage(calls=1, tokens_in=100, tokens_cached=60, tokens_out=43)
    assert answer.model == "gemini-x"


@pytest.mark.parametrize(
    ("reason", "parts", "finish"),
    [
        ("STOP", [{"text": "42"}], FinishReason.STOP),
        ("STOP", [SIGNED], FinishReason.CALLS),
        ("MAX_TOKENS", None, FinishReason.LENGTH),
        ("SAFETY", [{"text": "I"}], FinishReason.REFUSED),
        ("PROHIBITED_CONTENT", None, FinishReason.REFUSED),
        ("RECITATION", None, FinishReason.REFUSED),
    ],
)
def test_why_it_stopped(reason: str, parts: Any, finish: FinishReason) -> None:
    assert read(parts, reason).finish is finish


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "OTHER"])
def test_an_answer_that_broke_its_own_form_is_none(reason: str) -> None:
    answer = read([{"text": "call:search{"}], reason)
    assert (answer.finish, answer.text, answer.calls, answer.native) == (FinishReason.OTHER, "", (), None)
    assert answer.usage.tokens_out == 43


def test_a_blocked_prompt_is_refused() -> None:
    raw = b'{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}}'
    answer = read_gemini(raw, wire_call(PRO)).completion
    assert (answer.finish, answer.usage.tokens_in) == (FinishReason.REFUSED, 9)
    assert "PROHIBITED_CONTENT" in answer.text


def test_a_lost_signature_is_told_as_such() -> None:
    with pytest.raises(ModelStateRefusedError):
        read(None, "MISSING_THOUGHT_SIGNATURE")


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"{}", MalformedDataError),
        (b'{"candidates": [{"content": {"parts": [{"text": 1}]}}]}', MalformedDataError),
        (b'{"candidates": [{"content": {"parts": "x"}}]}', MalformedDataError),
        (
            b'{"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}',
            ServiceUnavailableError,
        ),
    ],
)
def test_another_form_breaks_the_contract_and_an_error_is_what_it_is(raw: bytes, kind: type[FoxcastError]) -> None:
    with pytest.raises(FoxcastError, match="litellm:gemini") as caught:
        read_gemini(raw, wire_call(PRO))
    assert type(caught.value) is kind


def test_the_vendors_own_types_hold_the_request() -> None:
    types: Any = pytest.importorskip("google.genai.types")
    answer = read(PARTS[:4])
    call = wire_call(PRO, SYSTEM, QUESTION, spoken(answer), *results(answer), tools=(SEARCH,), effort="high")
    body = as_sent(gemini_body(call))
    for content in (*body["contents"][:1], *body["contents"][2:], body["systemInstruction"]):
        types.Content.model_validate(content)
    types.Tool.model_validate(body["tools"][0])
    types.ToolConfig.model_validate(body["toolConfig"])
    types.GenerateContentConfig.model_validate(body["generationConfig"])
