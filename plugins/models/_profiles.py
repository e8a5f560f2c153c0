"""What each family of models takes: its wire format, how deep thinking is asked for, what must not be sent.

One table for both providers of this folder. The first row whose pattern fits the beginning of a model's name counts,
so exceptions stand above the rule. What no row knows is sent as configured and left to the server.
Sources: the public documents of OpenAI (deployment checklist, reasoning), Anthropic (models, extended and adaptive
thinking), Google (thinking, thought signatures), xAI, DeepSeek, Moonshot, Alibaba Cloud, Z.AI, Mistral and OpenRouter,
as of November 2026.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import get_args

from bot.api import ConfigError, ModelDefaults, ReasoningEffort


class WireFormat(StrEnum):
    """The form of requests and replies; ``LIBRARY`` is whatever litellm translates chat messages into."""

    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"
    CHAT = "chat"
    LIBRARY = "library"


class ThinkingStyle(StrEnum):
    """Where the effort stands in a request."""

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
    # "enable_thinking": true, "thinking_budget": 16000
    FLAG = "flag"


class SchemaForm(StrEnum):
    """How an answer of a given JSON schema can be asked for; ``TEXT`` is an instruction alone."""

    SCHEMA = "schema"
    OBJECT = "object"
    TEXT = "text"


# From the least thinking to the most; "none" is no thinking at all.
SCALE = get_args(ReasoningEffort)
LOW_TO_HIGH = ("low", "medium", "high")
LOW_TO_XHIGH = (*LOW_TO_HIGH, "xhigh")
LOW_TO_MAX = (*LOW_TO_XHIGH, "max")
DEEP = "high"
# Thinking counts as output, and at high effort a single step of it takes up to 20,000 tokens.
THINKING_TOKENS = 32_000
PLAIN_TOKENS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What a model takes.

    ``efforts`` are the levels that it knows, None where nobody knows them, so that any is sent as written; ``effort``
    is the one for hard problems; ``off`` says that thinking can be switched off. ``state`` says that its replies hold
    reasoning that must come back. Without ``sampling`` neither temperature nor seed is sent. ``one_call`` says that it
    can be told to make one call at a time; ``schema`` how it is asked for an answer of a given form.

    The rest is for chat completions. ``stand_in`` names what fills in for reasoning that a message of another model
    does not have; ``unwanted`` are fields of its own messages that it refuses; ``short_ids`` are call ids of nine
    letters and digits, in which case it refuses a user's message right after a tool's; ``upstream`` is for a router
    that leaves out what a server does not take unless told not to; ``marks`` are for a beginning that stays;
    ``keep_earlier`` is the field that makes it read its earlier reasoning; ``strict`` asks for schemas in OpenAI's
    strict form.
    """

    wire: WireFormat = WireFormat.CHAT
    thinking: ThinkingStyle = ThinkingStyle.EFFORT
    efforts: tuple[str, ...] | None = None
    effort: str | None = None
    off: bool = True
    state: bool = False
    max_tokens: int = PLAIN_TOKENS
    sampling: bool = True
    seed_field: str = "seed"
    limit_field: str = "max_tokens"
    one_call: bool = True
    schema: SchemaForm = SchemaForm.SCHEMA
    stand_in: str = ""
    strict: bool = False
    unwanted: tuple[str, ...] = ()
    short_ids: bool = False
    upstream: bool = False
    marks: bool = False
    keep_earlier: str = ""

    def level(self, wanted: str | None, shown: str) -> str | None:
        """Return the effort as this model knows it, None where nothing is to be said of it, "none" for no thinking.

        A level that it lacks becomes the next lower one, so that nothing is dearer than asked for, or its lowest. For a
        model that takes no effort nothing is said: the effort of a role holds for its fallback too.
        Raises ConfigError for a model that cannot be kept from thinking, and for a word that is no level.
        """
        if wanted is None or (self.efforts is None and wanted != "none"):
            return wanted
        known = self.efforts or ()
        if wanted == "none":
            if self.thinking is ThinkingStyle.NONE and self.off:
                return None
            if not self.off:
                least = f"; its least effort is {known[0]!r}" if known else ""
                raise ConfigError(_refusal(shown, 'effort = "none": this model cannot be kept from thinking' + least))
            return wanted
        if wanted in known:
            return wanted
        if wanted not in SCALE:
            levels = f"its levels, which are {', '.join(known)}" if known else f"these: {', '.join(SCALE)}"
            raise ConfigError(_refusal(shown, f"effort = {wanted!r} is none of {levels}"))
        if not known:
            return None
        lower = [level for level in known if SCALE.index(level) < SCALE.index(wanted)]
        return lower[-1] if lower else known[0]

    def defaults(self) -> ModelDefaults:
        """Return what is recommended where config says nothing."""
        return ModelDefaults(max_tokens=self.max_tokens, effort=self.effort)


def _refusal(shown: str, what: str) -> str:
    return f"{shown}: {what} (set it in [llm.roles])"


def _deep(wire: WireFormat, thinking: ThinkingStyle, efforts: tuple[str, ...] | None, **more: object) -> ModelProfile:
    """Return the profile of a model that thinks."""
    base = ModelProfile(
        wire=wire,
        thinking=thinking,
        efforts=efforts,
        effort=DEEP if efforts is None or DEEP in efforts else None,
        state=True,
        max_tokens=THINKING_TOKENS,
        sampling=False,
    )
    return replace(base, **more)  # type: ignore[arg-type]  # names of its fields, by keyword


_R, _M, _G, _C = WireFormat.RESPONSES, WireFormat.MESSAGES, WireFormat.GEMINI, WireFormat.CHAT
_NONE, _SWITCH = ThinkingStyle.NONE, ThinkingStyle.SWITCH
_PLAIN = ModelProfile(thinking=_NONE, efforts=())


def _openai(efforts: tuple[str, ...] | None, **more: object) -> ModelProfile:
    return _deep(_R, ThinkingStyle.REASONING, efforts, **more)


def _claude(efforts: tuple[str, ...] | None, **more: object) -> ModelProfile:
    return _deep(_M, ThinkingStyle.ADAPTIVE, efforts, **more)


def _gemini(efforts: tuple[str, ...], **more: object) -> ModelProfile:
    return _deep(_G, ThinkingStyle.LEVEL, efforts, off=False, **more)


def _chat(thinking: ThinkingStyle, efforts: tuple[str, ...], **more: object) -> ModelProfile:
    return _deep(_C, thinking, efforts, stand_in="reasoning_content", one_call=False, schema=SchemaForm.OBJECT, **more)


_CLAUDE_BUDGET = _deep(_M, ThinkingStyle.BUDGET, LOW_TO_MAX, sampling=True)
_CLAUDE_PLAIN = replace(_PLAIN, wire=_M, schema=SchemaForm.TEXT)
_GEMINI_TOKENS = _deep(_G, ThinkingStyle.TOKENS, LOW_TO_HIGH)
_GROK = _deep(_R, _NONE, (), effort=None, off=False)
_GROK_PLAIN = replace(_PLAIN, wire=_R)
_KIMI = {"limit_field": "max_completion_tokens"}
# In thinking mode it refuses every form of JSON that is asked for otherwise than in words.
_QWEN = _deep(_C, ThinkingStyle.FLAG, LOW_TO_HIGH, keep_earlier="preserve_thinking", schema=SchemaForm.TEXT)
_KEEPS = {"keep_earlier": "clear_thinking"}
_MISTRAL = replace(_PLAIN, seed_field="random_seed", short_ids=True, unwanted=("reasoning_content", "reasoning"))
_MISTRAL_DEEP = replace(
    _MISTRAL, thinking=ThinkingStyle.EFFORT, efforts=("high",), effort=DEEP, state=True, max_tokens=THINKING_TOKENS
)

Rows = Sequence[tuple[str, ModelProfile]]

# By vendor, as litellm names them.
_ROWS: dict[str, Rows] = {
    "openai": (
        (r"gpt-oss", _deep(_C, ThinkingStyle.EFFORT, LOW_TO_HIGH, off=False)),
        (r"gpt-5-chat", _PLAIN),
        (r"gpt-5-pro", _openai(("high",), off=False)),
        (r"gpt-[5-9][\d.]*-pro", _openai(("medium", "high", "xhigh"), off=False)),
        (r"o\d", _openai(LOW_TO_HIGH, off=False, one_call=False)),
        (r"gpt-6\.1-sol", _openai(LOW_TO_MAX, off=False)),
        (r"gpt-6-astra", _openai(LOW_TO_XHIGH, off=False)),
        (r"gpt-6|gpt-5\.[2-9]", _openai(LOW_TO_XHIGH)),
        (r"gpt-5\.1", _openai(LOW_TO_HIGH)),
        (r"gpt-5", _openai(("minimal", *LOW_TO_HIGH), off=False)),
        (r"gpt-([7-9]|\d\d)|codex", _openai(None)),
        (r"gpt-|chatgpt-", _PLAIN),
        # Whatever else stands behind an address that was set for this vendor.
        (r"", ModelProfile()),
    ),
    "anthropic": (
        (r"claude-(fable|mythos)", _claude(LOW_TO_MAX, off=False)),
        (r"claude-[a-z]+-5-[5-9](?!\d)", _claude(LOW_TO_MAX, off=False)),
        (r"claude-[a-z]+-5(?!\d)|claude-opus-4-[78](?!\d)", _claude(LOW_TO_MAX)),
        (r"claude-[a-z]+-4-6(?!\d)", _claude((*LOW_TO_HIGH, "max"))),
        (r"claude-[a-z]+-4-5(?!\d)", _CLAUDE_BUDGET),
        (r"claude-[a-z]+-4(?!\d)|claude-3-7", replace(_CLAUDE_BUDGET, schema=SchemaForm.TEXT)),
        (r"claude-3-5", _CLAUDE_PLAIN),
        (r"claude-(3|2|instant)", replace(_CLAUDE_PLAIN, max_tokens=4_096)),
        (r"", _claude(None)),
    ),
    "gemini": (
        (r"gemini-2\.5-pro", replace(_GEMINI_TOKENS, off=False)),
        (r"gemini-2\.5", _GEMINI_TOKENS),
        (r"gemini-[12]|gemma|learnlm", replace(_PLAIN, wire=_G, schema=SchemaForm.TEXT)),
        (r"gemini-3-pro", _gemini(("low", "high"))),
        (r"gemini-3.*flash", _gemini(("minimal", *LOW_TO_HIGH))),
        (r"", _gemini(LOW_TO_HIGH)),
    ),
    "xai": (
        (r".*non-reasoning|grok-[12]|grok-3(?!-mini)", _GROK_PLAIN),
        (r"grok-3-mini", _openai(("low", "high"), off=False)),
        (r"grok-4\.3", _openai(LOW_TO_HIGH)),
        (r"grok-4\.5", _openai(LOW_TO_HIGH, off=False)),
        (r"grok-(4\.[6-9](?!\d)|[5-9])", _openai(LOW_TO_XHIGH, off=False)),
        (r"", _GROK),
    ),
    "deepseek": (
        (r"deepseek-chat", replace(_PLAIN, schema=SchemaForm.OBJECT, one_call=False)),
        (r"deepseek-(reasoner|r1)", _chat(_NONE, (), effort=None, off=False)),
        # The vendor takes medium and xhigh for high.
        (r"", _chat(ThinkingStyle.SWITCH_EFFORT, LOW_TO_MAX)),
    ),
    "moonshot": (
        # Its default is max, which is dear.
        (r"kimi-k3", _chat(ThinkingStyle.EFFORT, ("low", "high", "max"), off=False, **_KIMI)),
        (r"kimi-k2\.6", _chat(_SWITCH, ("high",), keep_earlier="keep", **_KIMI)),
        (r"kimi-k2\.5", _chat(_SWITCH, ("high",), **_KIMI)),
        (r"kimi-k2[.\-](7|thinking)", _chat(_NONE, (), effort=None, off=False, **_KIMI)),
        (r"kimi-k2|moonshot-v1", replace(_PLAIN, schema=SchemaForm.OBJECT, one_call=False)),
        (r"", _chat(_NONE, (), effort=None, off=False, **_KIMI)),
    ),
    "dashscope": (
        (r"qwen.*instruct|qwen-(turbo|long)", replace(_PLAIN, schema=SchemaForm.OBJECT)),
        (r"qwq|qwen.*thinking", replace(_QWEN, thinking=_NONE, efforts=(), effort=None, off=False)),
        (r"", _QWEN),
    ),
    "zai": (
        (r"glm-(5\.[3-9]|[6-9])", _chat(ThinkingStyle.SWITCH_EFFORT, ("low", "high", "max"), off=False, **_KEEPS)),
        (r"glm-(4\.[5-9]|5)", _chat(_SWITCH, ("high",), **_KEEPS)),
        (r"", replace(_PLAIN, schema=SchemaForm.OBJECT, one_call=False)),
    ),
    "mistral": (
        (r"mistral-medium-3[.\-]5|mistral-small-(4|26)", _MISTRAL_DEEP),
        (r"magistral", replace(_MISTRAL, state=True, off=False, max_tokens=THINKING_TOKENS)),
        (r"", _MISTRAL),
    ),
    "groq": (
        (r"openai/gpt-oss", _deep(_C, ThinkingStyle.EFFORT, LOW_TO_HIGH, off=False, unwanted=("reasoning_content",))),
        (r"", replace(_PLAIN, unwanted=("reasoning_content", "reasoning"))),
    ),
}
# Vendors as a router names them, and as they are named here.
_ROUTED = {
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
# Families that litellm serves under names of its own, in clouds.
_IN_CLOUDS = re.compile(
    r"claude-[a-z]+-[4-9]|gemini-[2-9]|gpt-[5-9]|deepseek-v[4-9]|kimi-k[2-9]|(^|[/.])o[134]", re.IGNORECASE
)


@lru_cache(maxsize=256)
def profile_of(vendor: str, name: str) -> ModelProfile:
    """Return the profile of a model at a vendor, both as litellm names them.

    A vendor that is not in the table gets the neutral one: chat completions, everything sent as configured.
    """
    if vendor == ROUTER:
        maker, _, rest = name.partition("/")
        return _routed(_ROUTED.get(maker.lower(), ""), rest)
    plain = name.lower().removeprefix("anthropic.")
    # Some write a version with a dot where others write a dash.
    plain = plain.replace(".", "-") if vendor == "anthropic" else plain
    return next((profile for pattern, profile in _ROWS.get(vendor, ()) if re.match(pattern, plain)), ModelProfile())


def library_profile(name: str) -> ModelProfile:
    """Return the profile of a model that litellm translates for: it knows what to leave out, so little is said here."""
    deep = bool(_IN_CLOUDS.search(name))
    tokens = THINKING_TOKENS if deep else PLAIN_TOKENS
    return ModelProfile(wire=WireFormat.LIBRARY, effort=DEEP if deep else None, max_tokens=tokens, sampling=not deep)


def _routed(vendor: str, name: str) -> ModelProfile:
    """Return the profile of a model behind a router, which translates efforts and passes reasoning on as details."""
    behind = profile_of(vendor, name) if vendor else ModelProfile()
    takes = behind.thinking is not ThinkingStyle.NONE
    efforts = behind.efforts if behind.efforts is None else tuple(level for level in behind.efforts if level != "max")
    return ModelProfile(
        thinking=ThinkingStyle.REASONING if takes else ThinkingStyle.NONE,
        efforts=efforts,
        effort=behind.effort,
        off=behind.off,
        state=behind.state,
        max_tokens=behind.max_tokens,
        sampling=behind.sampling and behind.wire is WireFormat.CHAT,
        # It drops what a server does not take, unless it is told not to; so it is told nothing that can be spared.
        one_call=False,
        upstream=True,
        marks=vendor == "anthropic",
    )
