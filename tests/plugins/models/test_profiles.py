"""What is known of each family of models, and where its vendor is."""

import pytest

from bot.core.errors import ConfigError
from bot.core.language_models import ModelDefaults
from bot.testing.http import FakeHttpClient
from plugins.models._profiles import WireFormat, library_profile, model_profile
from plugins.models._vendors import VENDOR_ADDRESSES, request_url
from plugins.models.litellm import LitellmProvider, LitellmSettings


@pytest.mark.parametrize(
    ("model", "wire", "tokens", "effort"),
    [
        ("openai/gpt-6-astra", "responses", 32_000, "high"),
        ("openai/gpt-5.6-sol", "responses", 32_000, "high"),
        ("openai/gpt-7", "responses", 32_000, "high"),
        ("openai/o4-mini", "responses", 32_000, "high"),
        ("openai/gpt-4o", "chat", 8_192, None),
        ("openai/whatever-is-behind-an-address", "chat", 8_192, None),
        ("anthropic/claude-opus-5-5", "messages", 32_000, "high"),
        ("anthropic/claude-opus-5.5", "messages", 32_000, "high"),
        ("anthropic/claude-3-5-haiku-latest", "messages", 8_192, None),
        ("gemini/gemini-3.1-pro-preview", "gemini", 32_000, "high"),
        ("gemini/gemini-4-argon", "gemini", 32_000, "high"),
        ("gemini/gemini-2.0-flash", "gemini", 8_192, None),
        ("xai/grok-4.6", "responses", 32_000, "high"),
        ("xai/grok-4.20-0309-non-reasoning", "responses", 8_192, None),
        ("deepseek/deepseek-v4-pro", "chat", 32_000, "high"),
        # Not its own default, max, which is dear.
        ("moonshot/kimi-k3", "chat", 32_000, "high"),
        ("dashscope/qwen4-max", "chat", 32_000, "high"),
        ("zai/glm-5.3", "chat", 32_000, "high"),
        ("mistral/mistral-medium-3-5", "chat", 32_000, "high"),
        ("mistral/mistral-large-3", "chat", 8_192, None),
        ("openrouter/anthropic/claude-opus-5.5", "chat", 32_000, "high"),
        ("openrouter/meta-llama/llama-4", "chat", 8_192, None),
        ("hosted_vllm/qwen3", "chat", 8_192, None),
        ("custom_openai/own-model", "chat", 8_192, None),
        ("vertex_ai/gemini-3.1-pro-preview", "library", 32_000, "high"),
        ("bedrock/us.anthropic.claude-opus-4-8", "library", 32_000, "high"),
        ("novita/qwen/qwen3-235b", "chat", 8_192, None),
        ("nebius/deepseek-ai/DeepSeek-V4", "chat", 32_000, None),
        ("azure/my-deployment", "chat", 8_192, None),
        ("azure/gpt-5.2", "responses", 32_000, "high"),
        ("fireworks_ai/deepseek-v4-pro", "chat", 32_000, "high"),
        ("sambanova/DeepSeek-V4", "chat", 32_000, None),
        ("qwencloud/qwen4-max", "chat", 32_000, "high"),
    ],
)
def test_what_is_recommended(model: str, wire: str, tokens: int, effort: str | None) -> None:
    llm = LitellmProvider(LitellmSettings(), FakeHttpClient({}))
    assert llm.defaults(model) == ModelDefaults(max_tokens=tokens, effort=effort)
    vendor, _, name = model.partition("/")
    profile = model_profile(vendor, name) if vendor in VENDOR_ADDRESSES else library_profile(name)
    assert profile.wire == wire
    # Models that think take no temperature and no seed, or ignore them; Claude and Mistral take one while they do not.
    assert profile.takes_sampling == (tokens == 8_192) or vendor == "mistral"


def test_a_level_that_a_model_lacks_is_the_next_lower_one() -> None:
    kimi = model_profile("moonshot", "kimi-k3")
    assert [kimi.effort_level(one, "x") for one in ("minimal", "low", "medium", "high", "xhigh", "max", None)] == [
        *("low", "low", "low", "high", "high", "max"),
        None,
    ]
    with pytest.raises(ConfigError, match=r"x: effort = 'deep' is none of its levels, which are low, high, max"):
        kimi.effort_level("deep", "x")
    # Nobody knows the levels of a server of one's own: what is set is sent.
    assert model_profile("hosted_vllm", "x").effort_level("deep", "x") == "deep"
    # The effort of a role holds for a fallback that takes none.
    assert model_profile("openai", "gpt-4o").effort_level("high", "x") is None
    with pytest.raises(ConfigError, match="none of these"):
        model_profile("openai", "gpt-4o").effort_level("deep", "x")


def test_addresses_are_those_of_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert request_url("https://a.example", WireFormat.MESSAGES, "m") == "https://a.example/v1/messages"
    assert request_url("https://a.example/v1", WireFormat.MESSAGES, "m") == "https://a.example/v1/messages"
    assert request_url("https://a.example/v1/messages", WireFormat.MESSAGES, "m") == "https://a.example/v1/messages"
    assert request_url("https://g/v1beta", WireFormat.GEMINI, "m") == "https://g/v1beta/models/m:generateContent"
    assert request_url("https://o/v1", WireFormat.RESPONSES, "m") == "https://o/v1/responses"
    assert request_url("https://o/v1", WireFormat.CHAT, "m") == "https://o/v1/chat/completions"
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    openai = VENDOR_ADDRESSES["openai"]
    assert openai.base_address(None, "") == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_API_BASE", "https://proxy.example/v1/")
    assert openai.base_address(None, "") == "https://proxy.example/v1"
    assert openai.base_address("https://mine.example", "") == "https://mine.example"
    with pytest.raises(ConfigError, match=r"set base_urls\.hosted_vllm"):
        VENDOR_ADDRESSES["hosted_vllm"].base_address(None, "base_urls.hosted_vllm")


def test_keys_go_where_each_vendor_wants_them() -> None:
    assert VENDOR_ADDRESSES["openai"].request_headers("k") == {"Authorization": "Bearer k"}
    assert VENDOR_ADDRESSES["anthropic"].request_headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert VENDOR_ADDRESSES["gemini"].request_headers("k") == {"x-goog-api-key": "k"}
    assert VENDOR_ADDRESSES["lm_studio"].request_headers(None) == {}
