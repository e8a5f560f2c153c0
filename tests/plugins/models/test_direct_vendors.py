"""Vendors that are called directly: at the addresses that litellm knows, with the requests that it would send."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from pydantic import SecretStr

from bot.core.language_models import (
    Message,
    MessageRole,
    Prompt,
    ReasoningEffort,
    SamplingSettings,
    ToolCall,
)
from bot.testing.http import FakeHttpClient
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from bot.testing.model_contract import KEY, QUESTION, SCHEMA, SEARCH
from plugins.models._litellm_library import load_library
from plugins.models._profiles import EFFORT_VENDORS, HOSTING_VENDORS
from plugins.models._vendors import (
    VENDOR_ADDRESSES,
    VENDOR_FILE,
    VendorAddress,
    library_file,
    listed_addresses,
    sent_model_name,
    vendor_address,
)
from plugins.models.litellm import LitellmProvider, LitellmSettings
from tests.plugins.models.test_litellm import FakeLibraryEndpoint, opened

pytestmark = [
    # The library says this of its own types, once in each process.
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    # Its import takes seconds, more on a busy machine.
    pytest.mark.timeout(120),
]


# Their addresses are not asked for by name, but by the class of their form.
BY_FORM = {"cometapi", "minimax", "ovhcloud"}


# What the library refuses before sending, for models that are not on its list: these vendors decide themselves.
REFUSED_BY_LIBRARY = {
    "deepinfra": {"seed"},
    "featherless_ai": {"seed", "tools", "tool_choice", "response_format"},
    "fireworks_ai": {"tool_choice"},
    "inception": {"seed"},
    "nscale": {"seed", "tools", "tool_choice"},
    "sambanova": {"seed", "tools", "tool_choice"},
    "volcengine": {"response_format"},
}


@pytest.mark.parametrize("vendor", HOSTING_VENDORS)
def test_a_hosting_vendor_is_called_as_the_library_would(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known, library = VENDOR_ADDRESSES[vendor], load_library()
    if vendor in BY_FORM:
        config = library.utils.ProviderConfigManager.get_provider_chat_config("m", library.LlmProviders(vendor))
        for variable in (*known.base_variables, *known.key_variables):
            monkeypatch.delenv(variable, raising=False)
        url = config.get_complete_url(None, None, "m", {}, {})
        assert url == f"{known.base_address(None, '')}/chat/completions"
    else:
        check_address(vendor, known, monkeypatch)
    # What such a profile sends is on its list; an effort is not.
    supported = library.get_supported_openai_params(model=f"{vendor}/some-model")
    sent = {"max_tokens", "temperature", "seed", "tools", "tool_choice", "response_format"}
    assert sent - {*supported} == REFUSED_BY_LIBRARY.get(vendor, set())
    assert "reasoning_effort" not in supported


@pytest.mark.parametrize("vendor", [*EFFORT_VENDORS, "codestral", "qwencloud", "qwen_ai_platform"])
def test_a_vendor_of_another_profile_is_found_where_the_library_finds_it(
    vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_address(vendor, VENDOR_ADDRESSES[vendor], monkeypatch)


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "kimi-fast", "routers/own", "models/own", "accounts/a/models/m", "a#b"]
)
def test_fireworks_gets_the_path_of_a_model_as_from_the_library(name: str) -> None:
    library = load_library()
    config = library.utils.ProviderConfigManager.get_provider_chat_config(name, library.LlmProviders("fireworks_ai"))
    sent = config.transform_request(name, [{"role": "user", "content": "x"}], {}, {}, {})
    assert sent_model_name("fireworks_ai", name) == sent["model"]
    assert sent_model_name("deepinfra", name) == name


@pytest.mark.parametrize("name", ["abcd1234", "zai-org/GLM-5"])
def test_a_deployment_of_ones_own_has_an_address_of_its_own(name: str) -> None:
    found = load_library().get_llm_provider(model=f"baseten/{name}")[3]
    assert VENDOR_ADDRESSES["baseten"].base_address(None, "", name) == found
    assert VENDOR_ADDRESSES["baseten"].base_address("https://mine.example", "", name) == "https://mine.example"


def check_address(vendor: str, known: VendorAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare an address, and the variables of address and keys, with what the library finds."""
    library = load_library()
    for variable in (*known.base_variables, *known.key_variables):
        monkeypatch.delenv(variable, raising=False)
    for variable in reversed(known.key_variables):
        monkeypatch.setenv(variable, f"key in {variable}")
        name, found, key, address = library.get_llm_provider(model=f"{vendor}/maker/some-model")
        assert (name, found, key, address) == ("maker/some-model", vendor, f"key in {variable}", known.base)
        assert known.api_key(None) == key
    for variable in known.base_variables:
        monkeypatch.setenv(variable, "https://elsewhere.example/v1")
        assert library.get_llm_provider(model=f"{vendor}/some-model")[3] == known.base_address(None, "")


def test_vendors_of_the_librarys_own_file_are_found_where_it_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = listed_addresses()
    named = json.loads(library_file(VENDOR_FILE).read_bytes())
    # One sends its key in a header of its own, the other one bounds the temperature: the library does that.
    assert {vendor for vendor in named if vendor_address(vendor) is None} == {"sarvam", "scx-ai"}
    for vendor, known in listed.items():
        check_address(vendor, known, monkeypatch)


CONVERSATION = (
    Message(speaker=MessageRole.SYSTEM, text="Forecast."),
    Message(speaker=MessageRole.USER, text="Rain?"),
    Message(
        speaker=MessageRole.ASSISTANT,
        text="",
        calls=(ToolCall(id="call_1", name="search", arguments='{"query": "x"}'),),
    ),
    Message(speaker=MessageRole.TOOL, text="It rains.", answers="call_1"),
)


# The reference of chat completions: a reply with a text.
CHAT_REPLY = {
    "id": "1",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
}


async def ask_both(model: str, prompt: Prompt, sampling: SamplingSettings, **effort: str) -> Sequence[ReceivedRequest]:
    """Return the same request as it arrives from our client and from the library, which gets the fields of ours."""
    vendor = model.partition("/")[0]
    recording = FakeLibraryEndpoint(ScriptedResponse(body=json.dumps(CHAT_REPLY).encode()))
    async with LoopbackServer(recording) as server:
        base = f"{server.address}/v1"
        chosen = LitellmSettings(keys={vendor: SecretStr(KEY)}, base_urls={vendor: base})
        async with opened(chosen) as llm:
            assert (await llm.complete(model, prompt, sampling)).text == "yes"
            fields = json.loads(recording.asked[0].body) | effort
            fields = {name: value for name, value in fields.items() if name not in {"model", "reasoning"}}
            library = await cast("LitellmProvider", llm).load_library()
            refused = [*REFUSED_BY_LIBRARY.get(vendor, ())]
            fields["allowed_openai_params"] = [name for name in refused if name in fields]
            reply = await library.acompletion(model=model, api_key=KEY, api_base=base, max_retries=0, **fields)
            assert reply.choices[0].message.content == "yes"
    return recording.asked


def sent_body(received: ReceivedRequest) -> dict[str, Any]:
    """Return a body without what the library leaves out: no text, and for DeepInfra a choice left to the model."""
    body: dict[str, Any] = json.loads(received.body)
    if body.get("tool_choice") == "auto":
        del body["tool_choice"]
    for message in body["messages"]:
        if message.get("content", "") is None:
            del message["content"]
    return body


# Vendors whose requests are compared in both forms. Of the seed and of tools the library knows less than some of them.
MOVED = (
    *("baseten", "codestral", "cometapi", "deepinfra", "featherless_ai", "fireworks_ai", "inception", "minimax"),
    *("nscale", "ovhcloud", "qwen_ai_platform", "qwencloud", "sambanova", "volcengine"),
)


@pytest.mark.parametrize(
    ("model", "prompt"),
    [
        ("together_ai/maker/some-model", Prompt(messages=CONVERSATION, tools=(SEARCH,))),
        ("vercel_ai_gateway/maker/some-model", Prompt(messages=CONVERSATION, tools=(SEARCH,))),
        ("together_ai/maker/some-model", Prompt(messages=CONVERSATION[:2], schema=SCHEMA)),
        # The library refuses tools for models of this vendor that are not on its list of prices.
        ("poe/some-model", Prompt(messages=CONVERSATION[:2], schema=SCHEMA)),
        *(
            (f"{vendor}/maker/some-model", Prompt(messages=CONVERSATION, tools=(SEARCH,)))
            for vendor in MOVED
            # Whatever one allows: the library knows of no tools there.
            if vendor != "featherless_ai"
        ),
        *((f"{vendor}/maker/some-model", Prompt(messages=CONVERSATION[:2], schema=SCHEMA)) for vendor in MOVED),
    ],
    ids=lambda value: value if isinstance(value, str) else "schema" if value.schema else "tools",
)
async def test_the_library_sends_the_same_request_to_a_hosting_vendor(model: str, prompt: Prompt) -> None:
    ours, theirs = await ask_both(model, prompt, SamplingSettings(max_tokens=9, temperature=0.5, seed=4))
    assert ours.headers["authorization"] == theirs.headers["authorization"]
    assert (ours.method, ours.path) == (theirs.method, theirs.path) == ("POST", "/v1/chat/completions")
    assert sent_body(ours) == sent_body(theirs)


@pytest.mark.parametrize("name", ["my-deployment", "gpt-4.1", "gpt-5-chat"])
async def test_the_library_sends_the_same_request_to_azure(name: str) -> None:
    recording = FakeLibraryEndpoint(ScriptedResponse(body=json.dumps(CHAT_REPLY).encode()))
    prompt = Prompt(messages=CONVERSATION, tools=(SEARCH,))
    async with LoopbackServer(recording) as server:
        chosen = LitellmSettings(keys={"azure": SecretStr(KEY)}, base_urls={"azure": server.address})
        async with opened(chosen) as llm:
            await llm.complete(f"azure/{name}", prompt, SamplingSettings(max_tokens=9, temperature=0.5, seed=4))
            fields = json.loads(recording.asked[0].body)
            fields["model"] = f"azure/{name}"
            library = await cast("LitellmProvider", llm).load_library()
            versions = ({"api_version": version} for version in ("v1", "2024-10-21"))
            for version in versions:
                await library.acompletion(
                    **fields, **version, api_key=KEY, api_base=server.address, max_retries=0, drop_params=True
                )
    ours, new, old = recording.asked
    # Azure documents both headers for its v1 API: this one, and the one that the SDK of OpenAI sends.
    assert ours.headers["api-key"] == old.headers["api-key"] == KEY
    assert new.headers["authorization"] == f"Bearer {KEY}"
    assert ours.path == new.path == "/openai/v1/chat/completions"
    assert old.path == f"/openai/deployments/{name}/chat/completions?api-version=2024-10-21"
    assert sent_body(ours) == sent_body(new) == sent_body(old)


async def test_azure_is_called_directly_unless_a_version_or_another_login_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_direct(**given: Any) -> bool:
        return LitellmProvider(LitellmSettings.model_validate(given), FakeHttpClient({})).call_path("azure/m") is None

    for name in VENDOR_ADDRESSES["azure"].library_variables:
        monkeypatch.delenv(name, raising=False)
    assert is_direct()
    assert not is_direct(bodies={"azure": {"api_version": "2024-10-21"}})
    monkeypatch.setenv("AZURE_AD_TOKEN", "t" * 20)
    assert not is_direct()


@pytest.mark.parametrize(
    ("name", "effort"),
    [
        ("openai/gpt-oss-120b", "medium"),
        ("openai/gpt-oss-120b", "xhigh"),
        ("deepseek-ai/DeepSeek-V4-Pro", "low"),
        ("deepseek-ai/DeepSeek-V4-Pro", "max"),
        ("moonshotai/Kimi-K3", "high"),
        ("zai-org/GLM-5.2", "none"),
    ],
)
async def test_the_library_sends_the_same_effort_to_together(name: str, effort: ReasoningEffort) -> None:
    sampling = SamplingSettings(max_tokens=9, effort=effort)
    ours, theirs = await ask_both(f"together_ai/{name}", QUESTION, sampling, reasoning_effort=effort)
    assert sent_body(ours) == sent_body(theirs)
    assert {"reasoning_effort", "reasoning"} & sent_body(ours).keys()
