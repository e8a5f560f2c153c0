"""What each family of models accepts: its wire format, how reasoning effort is set, which fields must not be sent.

One table for both providers of this folder. The first row whose pattern fits the beginning of a model's name counts, so
exceptions come before the rule. For an unknown model everything is sent as configured, and the server decides. Sources:
the public documents of OpenAI (deployment checklist, reasoning), Anthropic (models, extended and adaptive thinking),
Google (thinking, thought signatures), xAI, DeepSeek, Moonshot, Alibaba Cloud, Z.AI, Mistral and OpenRouter, as of
November 2026.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import get_args

from bot.api import ConfigError, ModelDefaults, ReasoningEffort


class WireFormat(StrEnum):
    """The form of requests and replies; ``LIBRARY`` means that litellm translates chat messages."""

    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"
    CHAT = "chat"
    LIBRARY = "library"


class ThinkingStyle(StrEnum):
    """The field of the effort in a request."""

    NONE = "none"
    # "reasoning_effort": "high"
    EFFORT = "effort"
    # "reasoning": {"effort": "high"}
    REASONING = "reasoning"
    # "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}
    ADAPTIVE = "adaptive"
    # "thinking": {"type": "enabled", "budget_tokens": 16000}
    BUDGET = "budget"
    # "thinkingConfig": {"thinkingLevel": "high"}
    LEVEL = "level"
    # "thinkingConfig": {"thinkingBudget": 16000}
    TOKENS = "tokens"
    # "thinking": {"type": "enabled"}
    SWITCH = "switch"
    # "thinking": {"type": "enabled"}, "reasoning_effort": "high"
    SWITCH_EFFORT = "switch and effort"
    # "reasoning_effort": "high", or "reasoning": {"enabled": false}
    TOGGLE = "toggle"
    # "enable_thinking": true, "thinking_budget": 16000
    FLAG = "flag"


class SchemaSupport(StrEnum):
    """How an answer of a given JSON schema can be requested; ``TEXT`` is an instruction alone."""

    SCHEMA = "schema"
    OBJECT = "object"
    TEXT = "text"


# From the least reasoning to the most; "none" is no reasoning at all.
EFFORT_SCALE = get_args(ReasoningEffort)
LOW_TO_HIGH = ("low", "medium", "high")
LOW_TO_XHIGH = (*LOW_TO_HIGH, "xhigh")
LOW_TO_MAX = (*LOW_TO_XHIGH, "max")
DEFAULT_EFFORT = "high"
# Reasoning counts as output, and at high effort a single step of it takes up to 20,000 tokens.
THINKING_TOKENS = 32_000
PLAIN_TOKENS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What a model accepts.

    ``efforts`` are the levels that it knows, None where they are unknown, so that any is sent as written; ``effort`` is
    the one for hard problems; ``can_disable_thinking`` says that reasoning can be switched off. ``returns_reasoning``
    says that its replies hold reasoning that must be sent back. Without ``takes_sampling`` neither temperature nor seed
    is sent. ``single_call`` says that it can be limited to one call at a time; ``schema`` how an answer of a given form
    is requested.

    The rest is for chat completions. ``reasoning_placeholder`` replaces the reasoning that a message of another model
    does not have; ``refused_fields`` are fields of its own messages that it refuses; ``short_call_ids`` are call ids of
    nine letters and digits, in which case it refuses a user's message right after a tool's; ``requires_parameters`` is
    for a router that drops fields that a server does not accept unless it is forbidden to; ``cache_marks`` are for a
    beginning that stays; ``keep_earlier`` is the field that makes it read its earlier reasoning; ``strict`` requests
    schemas in OpenAI's strict form.
    """

    wire: WireFormat = WireFormat.CHAT
    thinking: ThinkingStyle = ThinkingStyle.EFFORT
    efforts: tuple[str, ...] | None = None
    effort: str | None = None
    can_disable_thinking: bool = True
    returns_reasoning: bool = False
    max_tokens: int = PLAIN_TOKENS
    takes_sampling: bool = True
    seed_field: str = "seed"
    limit_field: str = "max_tokens"
    single_call: bool = True
    schema: SchemaSupport = SchemaSupport.SCHEMA
    reasoning_placeholder: str = ""
    strict: bool = False
    refused_fields: tuple[str, ...] = ()
    short_call_ids: bool = False
    requires_parameters: bool = False
    cache_marks: bool = False
    keep_earlier: str = ""

    def effort_level(self, wanted: str | None, shown: str) -> str | None:
        """Return the effort as this model knows it, None where nothing is sent, "none" for no reasoning.

        A level that it lacks becomes the next lower one, so that the cost never exceeds the requested level, or its
        lowest. For a model without efforts nothing is sent: the effort of a role applies to its fallback too. Raises
        ConfigError for a model whose reasoning cannot be switched off, and for an unknown level.
        """
        if wanted is None or (self.efforts is None and wanted != "none"):
            return wanted
        known = self.efforts or ()
        if wanted == "none":
            if self.thinking is ThinkingStyle.NONE and self.can_disable_thinking:
                return None
            if not self.can_disable_thinking:
                least = f"; its least effort is {known[0]!r}" if known else ""
                raise ConfigError(
                    _effort_message(shown, 'effort = "none": reasoning cannot be switched off for this model' + least)
                )
            return wanted
        if wanted in known:
            return wanted
        if wanted not in EFFORT_SCALE:
            levels = f"its levels, which are {', '.join(known)}" if known else f"these: {', '.join(EFFORT_SCALE)}"
            raise ConfigError(_effort_message(shown, f"effort = {wanted!r} is none of {levels}"))
        if not known:
            return None
        lower = [level for level in known if EFFORT_SCALE.index(level) < EFFORT_SCALE.index(wanted)]
        return lower[-1] if lower else known[0]

    def model_defaults(self) -> ModelDefaults:
        """Return what is recommended where config sets nothing."""
        return ModelDefaults(max_tokens=self.max_tokens, effort=self.effort)


def _effort_message(shown: str, what: str) -> str:
    return f"{shown}: {what} (set it in [llm.roles])"


def _thinking_profile(
    wire: WireFormat, thinking: ThinkingStyle, efforts: tuple[str, ...] | None, **more: object
) -> ModelProfile:
    """Return the profile of a reasoning model."""
    base = ModelProfile(
        wire=wire,
        thinking=thinking,
        efforts=efforts,
        effort=DEFAULT_EFFORT if efforts is None or DEFAULT_EFFORT in efforts else None,
        returns_reasoning=True,
        max_tokens=THINKING_TOKENS,
        takes_sampling=False,
    )
    return replace(base, **more)  # type: ignore[arg-type]  # names of its fields, by keyword


_R, _M, _G, _C = WireFormat.RESPONSES, WireFormat.MESSAGES, WireFormat.GEMINI, WireFormat.CHAT
_NONE, _SWITCH = ThinkingStyle.NONE, ThinkingStyle.SWITCH
_PLAIN = ModelProfile(thinking=_NONE, efforts=())


def _openai(efforts: tuple[str, ...] | None, **more: object) -> ModelProfile:
    return _thinking_profile(_R, ThinkingStyle.REASONING, efforts, **more)


def _claude(efforts: tuple[str, ...] | None, **more: object) -> ModelProfile:
    return _thinking_profile(_M, ThinkingStyle.ADAPTIVE, efforts, **more)


def _gemini(efforts: tuple[str, ...], **more: object) -> ModelProfile:
    return _thinking_profile(_G, ThinkingStyle.LEVEL, efforts, can_disable_thinking=False, **more)


def _chat(thinking: ThinkingStyle, efforts: tuple[str, ...], **more: object) -> ModelProfile:
    return _thinking_profile(
        _C,
        thinking,
        efforts,
        reasoning_placeholder="reasoning_content",
        single_call=False,
        schema=SchemaSupport.OBJECT,
        **more,
    )


_CLAUDE_BUDGET = _thinking_profile(_M, ThinkingStyle.BUDGET, LOW_TO_MAX, takes_sampling=True)
_CLAUDE_PLAIN = replace(_PLAIN, wire=_M, schema=SchemaSupport.TEXT)
_GEMINI_TOKENS = _thinking_profile(_G, ThinkingStyle.TOKENS, LOW_TO_HIGH)
_GROK = _thinking_profile(_R, _NONE, (), effort=None, can_disable_thinking=False)
_GROK_PLAIN = replace(_PLAIN, wire=_R)
_KIMI = {"limit_field": "max_completion_tokens"}
# In thinking mode it accepts JSON only where a text instruction asks for it.
_QWEN = _thinking_profile(
    _C, ThinkingStyle.FLAG, LOW_TO_HIGH, keep_earlier="preserve_thinking", schema=SchemaSupport.TEXT
)
_KEEPS_THINKING = {"keep_earlier": "clear_thinking"}
_MISTRAL = replace(
    _PLAIN, seed_field="random_seed", short_call_ids=True, refused_fields=("reasoning_content", "reasoning")
)
_MISTRAL_DEEP = replace(
    _MISTRAL,
    thinking=ThinkingStyle.EFFORT,
    efforts=("high",),
    effort=DEFAULT_EFFORT,
    returns_reasoning=True,
    max_tokens=THINKING_TOKENS,
)

ProfileRows = Sequence[tuple[str, ModelProfile]]

# By vendor, as litellm names them.
_PROFILES_BY_VENDOR: dict[str, ProfileRows] = {
    "openai": (
        (r"gpt-oss", _thinking_profile(_C, ThinkingStyle.EFFORT, LOW_TO_HIGH, can_disable_thinking=False)),
        # Azure refuses the older field for the whole family.
        (r"gpt-5-chat", replace(_PLAIN, limit_field="max_completion_tokens")),
        (r"gpt-5-pro", _openai(("high",), can_disable_thinking=False)),
        (r"gpt-[5-9][\d.]*-pro", _openai(("medium", "high", "xhigh"), can_disable_thinking=False)),
        (r"o\d", _openai(LOW_TO_HIGH, can_disable_thinking=False, single_call=False)),
        (r"gpt-6\.1-sol", _openai(LOW_TO_MAX, can_disable_thinking=False)),
        (r"gpt-6-astra", _openai(LOW_TO_XHIGH, can_disable_thinking=False)),
        (r"gpt-6|gpt-5\.[2-9]", _openai(LOW_TO_XHIGH)),
        (r"gpt-5\.1", _openai(LOW_TO_HIGH)),
        (r"gpt-5", _openai(("minimal", *LOW_TO_HIGH), can_disable_thinking=False)),
        (r"gpt-([7-9]|\d\d)|codex", _openai(None)),
        (r"gpt-|chatgpt-", _PLAIN),
        # For any other model behind an address that was set for this vendor.
        (r"", ModelProfile()),
    ),
    "anthropic": (
        (r"claude-(fable|mythos)", _claude(LOW_TO_MAX, can_disable_thinking=False)),
        (r"claude-[a-z]+-5-[5-9](?!\d)", _claude(LOW_TO_MAX, can_disable_thinking=False)),
        (r"claude-[a-z]+-5(?!\d)|claude-opus-4-[78](?!\d)", _claude(LOW_TO_MAX)),
        (r"claude-[a-z]+-4-6(?!\d)", _claude((*LOW_TO_HIGH, "max"))),
        (r"claude-[a-z]+-4-5(?!\d)", _CLAUDE_BUDGET),
        (r"claude-[a-z]+-4(?!\d)|claude-3-7", replace(_CLAUDE_BUDGET, schema=SchemaSupport.TEXT)),
        (r"claude-3-5", _CLAUDE_PLAIN),
        (r"claude-(3|2|instant)", replace(_CLAUDE_PLAIN, max_tokens=4_096)),
        (r"", _claude(None)),
    ),
    "gemini": (
        (r"gemini-2\.5-pro", replace(_GEMINI_TOKENS, can_disable_thinking=False)),
        (r"gemini-2\.5", _GEMINI_TOKENS),
        (r"gemini-[12]|gemma|learnlm", replace(_PLAIN, wire=_G, schema=SchemaSupport.TEXT)),
        (r"gemini-3-pro", _gemini(("low", "high"))),
        (r"gemini-3.*flash", _gemini(("minimal", *LOW_TO_HIGH))),
        (r"", _gemini(LOW_TO_HIGH)),
    ),
    "xai": (
        (r".*non-reasoning|grok-[12]|grok-3(?!-mini)", _GROK_PLAIN),
        (r"grok-3-mini", _openai(("low", "high"), can_disable_thinking=False)),
        (r"grok-4\.3", _openai(LOW_TO_HIGH)),
        (r"grok-4\.5", _openai(LOW_TO_HIGH, can_disable_thinking=False)),
        (r"grok-(4\.[6-9](?!\d)|[5-9])", _openai(LOW_TO_XHIGH, can_disable_thinking=False)),
        (r"", _GROK),
    ),
    "deepseek": (
        (r"deepseek-chat", replace(_PLAIN, schema=SchemaSupport.OBJECT, single_call=False)),
        (r"deepseek-(reasoner|r1)", _chat(_NONE, (), effort=None, can_disable_thinking=False)),
        # The vendor treats medium and xhigh as high.
        (r"", _chat(ThinkingStyle.SWITCH_EFFORT, LOW_TO_MAX)),
    ),
    "moonshot": (
        # Its default is max, which is expensive.
        (r"kimi-k3", _chat(ThinkingStyle.EFFORT, ("low", "high", "max"), can_disable_thinking=False, **_KIMI)),
        (r"kimi-k2\.6", _chat(_SWITCH, ("high",), keep_earlier="keep", **_KIMI)),
        (r"kimi-k2\.5", _chat(_SWITCH, ("high",), **_KIMI)),
        (r"kimi-k2[.\-](7|thinking)", _chat(_NONE, (), effort=None, can_disable_thinking=False, **_KIMI)),
        (r"kimi-k2|moonshot-v1", replace(_PLAIN, schema=SchemaSupport.OBJECT, single_call=False)),
        (r"", _chat(_NONE, (), effort=None, can_disable_thinking=False, **_KIMI)),
    ),
    "dashscope": (
        (r"qwen.*instruct|qwen-(turbo|long)", replace(_PLAIN, schema=SchemaSupport.OBJECT)),
        (r"qwq|qwen.*thinking", replace(_QWEN, thinking=_NONE, efforts=(), effort=None, can_disable_thinking=False)),
        (r"", _QWEN),
    ),
    "zai": (
        (
            r"glm-(5\.[3-9]|[6-9])",
            _chat(ThinkingStyle.SWITCH_EFFORT, ("low", "high", "max"), can_disable_thinking=False, **_KEEPS_THINKING),
        ),
        (r"glm-(4\.[5-9]|5)", _chat(_SWITCH, ("high",), **_KEEPS_THINKING)),
        (r"", replace(_PLAIN, schema=SchemaSupport.OBJECT, single_call=False)),
    ),
    "mistral": (
        (r"mistral-medium-3[.\-]5|mistral-small-(4|26)", _MISTRAL_DEEP),
        (
            r"magistral",
            replace(_MISTRAL, returns_reasoning=True, can_disable_thinking=False, max_tokens=THINKING_TOKENS),
        ),
        (r"", _MISTRAL),
    ),
    # Others are hosted models as at other hosts.
    "together_ai": (
        (r"openai/gpt-oss", _thinking_profile(_C, ThinkingStyle.EFFORT, LOW_TO_HIGH, can_disable_thinking=False)),
        (r"deepseek-ai/deepseek-v4-pro", _thinking_profile(_C, ThinkingStyle.TOGGLE, ("high", "max"))),
        (
            r"moonshotai/kimi-k3|zai-org/glm-5\.2|minimaxai/minimax-m3|nvidia/nemotron-3-ultra|qwen/qwen3\.(5-9b|6-plus)",
            _thinking_profile(_C, ThinkingStyle.TOGGLE, LOW_TO_HIGH),
        ),
    ),
    "groq": (
        (
            r"openai/gpt-oss",
            _thinking_profile(
                _C, ThinkingStyle.EFFORT, LOW_TO_HIGH, can_disable_thinking=False, refused_fields=("reasoning_content",)
            ),
        ),
        (r"", replace(_PLAIN, refused_fields=("reasoning_content", "reasoning"))),
    ),
}
# Vendors as a router names them, and as they are named here.
_ROUTER_VENDORS = {
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "google": "gemini",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "openai": "openai",
    "qwen": "dashscope",
    "x-ai": "xai",
    "z-ai": "zai",
}
ROUTER = "openrouter"
# Vendors of open models that the library would call by the OpenAI SDK without changing anything: it lists no effort and
# no single call for them, or only for some models.
HOSTING_VENDORS = (
    *("ai21_chat", "cerebras", "empower", "friendliai", "galadriel", "github", "hyperbolic", "lambda_ai", "meta_llama"),
    *("modelscope", "nebius", "novita", "nvidia_nim", "tencent", "together_ai", "vercel_ai_gateway", "wandb"),
    *("baseten", "cometapi", "featherless_ai", "minimax", "nscale", "ovhcloud", "sambanova", "volcengine"),
)
# Those that document an effort for the models that reason; each refuses it for others.
EFFORT_VENDORS = ("deepinfra", "fireworks_ai", "inception")
# Vendors with the models of another one.
_VENDOR_FAMILIES = {
    "azure": "openai",
    "codestral": "mistral",
    "qwencloud": "dashscope",
    "qwen_ai_platform": "dashscope",
}
# Families that litellm serves under names of its own, in clouds.
_CLOUD_MODELS = re.compile(
    r"claude-[a-z]+-[4-9]|gemini-[2-9]|gpt-[5-9]|deepseek-v[4-9]|kimi-k[2-9]|(^|[/.])o[134]", re.IGNORECASE
)


@lru_cache(maxsize=256)
def model_profile(vendor: str, name: str) -> ModelProfile:
    """Return the profile of a model at a vendor, both as litellm names them.

    A vendor that is not in the table gets the neutral one: chat completions, everything sent as configured.
    """
    if vendor == ROUTER:
        maker, _, rest = name.partition("/")
        return _router_profile(_ROUTER_VENDORS.get(maker.lower(), ""), rest)
    vendor = _VENDOR_FAMILIES.get(vendor, vendor)
    if vendor in EFFORT_VENDORS:
        hosted = hosted_profile(name)
        effort = None if hosted.takes_sampling else DEFAULT_EFFORT
        return replace(hosted, thinking=ThinkingStyle.EFFORT, efforts=None, effort=effort)
    plain = name.lower().removeprefix("anthropic.")
    # Some write a version with a dot where others write a dash.
    plain = plain.replace(".", "-") if vendor == "anthropic" else plain
    return next(
        (profile for pattern, profile in _PROFILES_BY_VENDOR.get(vendor, ()) if re.match(pattern, plain)),
        hosted_profile(name) if vendor in HOSTING_VENDORS else ModelProfile(),
    )


def hosted_profile(name: str) -> ModelProfile:
    """Return the profile of a model at a vendor that hosts the models of others, all in the same form."""
    deep = bool(_CLOUD_MODELS.search(name))
    tokens = THINKING_TOKENS if deep else PLAIN_TOKENS
    return replace(_PLAIN, single_call=False, max_tokens=tokens, takes_sampling=not deep)


def library_profile(name: str) -> ModelProfile:
    """Return the profile of a model that litellm translates for.

    It knows which fields to drop, so few are needed here.
    """
    deep = bool(_CLOUD_MODELS.search(name))
    tokens = THINKING_TOKENS if deep else PLAIN_TOKENS
    return ModelProfile(
        wire=WireFormat.LIBRARY, effort=DEFAULT_EFFORT if deep else None, max_tokens=tokens, takes_sampling=not deep
    )


def _router_profile(vendor: str, name: str) -> ModelProfile:
    """Return the profile of a model behind a router, which translates efforts and passes reasoning on as details."""
    behind = model_profile(vendor, name) if vendor else ModelProfile()
    takes = behind.thinking is not ThinkingStyle.NONE
    efforts = behind.efforts if behind.efforts is None else tuple(level for level in behind.efforts if level != "max")
    return ModelProfile(
        thinking=ThinkingStyle.REASONING if takes else ThinkingStyle.NONE,
        efforts=efforts,
        effort=behind.effort,
        can_disable_thinking=behind.can_disable_thinking,
        returns_reasoning=behind.returns_reasoning,
        max_tokens=behind.max_tokens,
        takes_sampling=behind.takes_sampling and behind.wire is WireFormat.CHAT,
        # It drops fields that a server does not accept, unless it is forbidden to; so optional fields are not sent.
        single_call=False,
        requires_parameters=True,
        cache_marks=vendor == "anthropic",
    )
