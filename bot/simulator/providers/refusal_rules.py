"""The rules by which model providers refuse requests, and the fakes that enforce each."""

from collections.abc import Mapping

from bot.core.light_dataclass import dataclass

# Ollama refuses nothing.
ALL_DOUBLES = (
    "AnthropicDouble",
    "DeepSeekDouble",
    "GeminiCompatDouble",
    "GeminiDouble",
    "GlmDouble",
    "GrokDouble",
    "KimiDouble",
    "LlamaCppDouble",
    "LmStudioDouble",
    "MistralDouble",
    "OpenAiDouble",
    "OpenRouterDouble",
    "QwenDouble",
    "VllmDouble",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRule:
    """What is refused, and the names of the fakes that do so; without any, ``reason`` says why."""

    text: str
    doubles: tuple[str, ...] = ()
    reason: str = ""


def _make_rule(text: str, *doubles: str, reason: str = "") -> ProviderRule:
    return ProviderRule(text=text, doubles=doubles, reason=reason)


RULES: Mapping[str, ProviderRule] = {
    # All families
    "P-1": _make_rule("a call without a result directly after it, or a result for an unknown call", *ALL_DOUBLES),
    "P-2": _make_rule("a call's id or name, or the number of calls, differs from what was given", *ALL_DOUBLES),
    "P-3": _make_rule("a tool's name is odd or used twice, or there are more than 128 tools", *ALL_DOUBLES),
    "P-4": _make_rule("a tool choice without tools, or of a tool that is not offered", *ALL_DOUBLES),
    "P-5": _make_rule("an unknown top-level field", "AnthropicDouble", "GeminiDouble", "MistralDouble"),
    "P-6": _make_rule(
        "a request that does not begin with the one before it (counted, not refused)", *ALL_DOUBLES, "OllamaDouble"
    ),
    # OpenAI
    "P-7": _make_rule("function tools on chat completions while the model reasons", "OpenAiDouble"),
    "P-8": _make_rule("sampling parameters while the model reasons", "OpenAiDouble"),
    "P-9": _make_rule("max_tokens on a reasoning model", "OpenAiDouble"),
    "P-10": _make_rule("a call id over 40 characters (chat completions) or 64 (Responses)", "OpenAiDouble"),
    "P-11": _make_rule("reasoning items and their followers apart, or altered", "OpenAiDouble", "GrokDouble"),
    "P-12": _make_rule("a strict schema beyond the subset", "OpenAiDouble"),
    "P-13": _make_rule("an effort that the model does not have", "OpenAiDouble"),
    "P-14": _make_rule("parallel_tool_calls on models that do not take it", "OpenAiDouble"),
    "P-15": _make_rule("a prompt beyond the context window", *ALL_DOUBLES),
    # Anthropic
    "P-16": _make_rule("an assistant message whose blocks differ from those given", "AnthropicDouble"),
    "P-17": _make_rule(
        "a last assistant message with calls that lacks its thinking, in manual mode", "AnthropicDouble"
    ),
    "P-18": _make_rule("a thinking mode that the model does not have", "AnthropicDouble"),
    "P-19": _make_rule("a thinking budget under 1,024 or not under max_tokens", "AnthropicDouble"),
    "P-20": _make_rule("sampling parameters on newer models or while thinking", "AnthropicDouble"),
    "P-21": _make_rule("a forced tool choice where the model takes none", "AnthropicDouble"),
    "P-22": _make_rule("empty texts, prefilled answers, roles or results out of order", "AnthropicDouble"),
    "P-23": _make_rule("more than 4 cache marks, no max_tokens, tool blocks without tools", "AnthropicDouble"),
    "P-24": _make_rule("a thinking block after a changed system, tools or earlier message", "AnthropicDouble"),
    "P-25": _make_rule("a strict tool or format beyond the subset", "AnthropicDouble"),
    "P-26": _make_rule(
        "switches: overloaded, rate limits, spend limit, refusal, pause, thinking only", "AnthropicDouble"
    ),
    # Gemini
    "P-27": _make_rule("a step's first call without its thought signature", "GeminiDouble"),
    "P-28": _make_rule("a thought signature that was not given", "GeminiDouble"),
    "P-29": _make_rule("a call's id on models without them, or none where one was given", "GeminiDouble"),
    "P-30": _make_rule("a thinking level or budget that the model does not have", "GeminiDouble"),
    "P-31": _make_rule("a schema keyword beyond the subset", "GeminiDouble"),
    "P-32": _make_rule("function responses that do not match the calls, or out of place", "GeminiDouble"),
    "P-33": _make_rule("built-in search together with functions on older models", "GeminiDouble"),
    "P-34": _make_rule("switches: malformed call, no parts, safety, blocked prompt, rate limit", "GeminiDouble"),
    "P-35": _make_rule("a step's first call without its signature, compatible endpoint", "GeminiCompatDouble"),
    # Others
    "P-36": _make_rule("calls that come back without what the model thought", "DeepSeekDouble"),
    "P-37": _make_rule("a forced tool choice while the model thinks", "DeepSeekDouble"),
    "P-38": _make_rule("the same in Kimi's words, a temperature, two settings of thinking", "KimiDouble"),
    "P-39": _make_rule("a forced tool choice while the model thinks", "QwenDouble"),
    "P-40": _make_rule("a tool choice other than auto", "GlmDouble"),
    "P-41": _make_rule("stops and penalties on reasoning models, efforts that a model lacks", "GrokDouble"),
    "P-42": _make_rule("ids not of nine characters, a user after a tool, foreign fields", "MistralDouble"),
    "P-43": _make_rule("signed or encrypted reasoning missing or altered", "OpenRouterDouble"),
    "P-44": _make_rule("a tool choice that is an object", "LmStudioDouble"),
    "P-45": _make_rule("an automatic tool choice without a parser for calls", "VllmDouble"),
    "P-46": _make_rule("a prompt beyond the context, with both sizes", "LlamaCppDouble"),
    "P-47": _make_rule("nothing: a long prompt is cut from the front, with status 200", "OllamaDouble"),
}
