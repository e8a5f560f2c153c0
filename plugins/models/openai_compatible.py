"""Models behind any chat-completions endpoint: your own server, or a provider that uses this form.

A model is named ``openai_compatible:ENDPOINT/MODEL``, the endpoint as in the settings. One request a call, nothing
else: the gateway handles deadlines, retries, budgets and records. A base URL may be inside this machine or its network;
only the configuration names it. The profiles of well-known vendors are found by their host, or by ``vendor``.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import ip_address
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import structlog
from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from bot.api import (
    ConfigError,
    FoxcastError,
    HttpClient,
    Json,
    ModelCompletion,
    ModelDefaults,
    ModelProvider,
    ModelSpec,
    ModelUsage,
    PluginContext,
    PluginSettings,
    Prompt,
    ReasoningEffort,
    RequestRejectedError,
    SamplingSettings,
    SetupChoice,
    SetupValue,
    TokenPrice,
    hookimpl,
)
from plugins.models._access_check import AccessCheck
from plugins.models._profiles import ModelProfile, ThinkingStyle, WireFormat, model_profile
from plugins.models._provider_errors import (
    ErrorRemedy,
    ModelStateRefusedError,
    state_refusal_report,
    translate_http_error,
)
from plugins.models._vendors import HOSTED_VENDORS, key_path, request_url, vendor_of_host
from plugins.models._wire_call import ANSWER_NAME, MAX_REPLY_BYTES, WireCall, WireReply, merge_body
from plugins.models._wire_chat import answer_tool, chat_body, read_chat, require_complete_prompt, unwrap_answer_tool

log = structlog.get_logger(__name__)

NAME = "openai_compatible"
# Settings of an endpoint that do not change the answer; headers are checked one by one.
_SETTINGS_WITHOUT_EFFECT = {
    *("api_key", "key_header", "headers", "cache_marks", "deadline_s", "prices"),
    *("max_tokens", "effort", "detect_cut_prompts"),
}
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie|session|password", re.IGNORECASE)
# As in environment variables, where two underscores in a row separate the parts.
EndpointName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=60)]
_CUT_PROMPT_ADVICE = (
    "Give it a longer context: for Ollama set num_ctx in the Modelfile, or OLLAMA_CONTEXT_LENGTH where it is started; "
    "if its count is wrong, set detect_cut_prompts = false for the endpoint"
)


class TokenPriceSettings(PluginSettings):
    """What one model costs."""

    tokens_in: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million input tokens."""

    tokens_cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars per million tokens read from a cache; unset: as other input tokens."""

    tokens_written: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars per million tokens written to a cache; unset: as other input tokens."""

    tokens_out: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million output tokens."""

    def price(self) -> TokenPrice:
        """Return the price as the engine represents it."""
        cached = self.tokens_in if self.tokens_cached is None else self.tokens_cached
        return TokenPrice(
            tokens_in=self.tokens_in,
            tokens_cached=cached,
            tokens_out=self.tokens_out,
            tokens_written=self.tokens_written,
        )


class EndpointSettings(PluginSettings):
    """One endpoint and its habits."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "notices_cuts": "detect_cut_prompts",
    }

    base_url: str
    """Address of the endpoint, such as `http://127.0.0.1:8080/v1`."""

    api_key: SecretStr | None = None
    """The API key; unset: none is sent."""

    key_header: str = "Authorization"
    """The header that carries the key."""

    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Further headers of every request."""

    body: dict[str, Any] = Field(default_factory=dict)
    """Fields that are added to the body of every request, and that win over others."""

    vendor: str = ""
    """The vendor whose profile the endpoint has, as litellm names vendors; empty: found by the host."""

    api: Literal["chat", "responses"] | None = None
    """The form of requests; unset: as the vendor needs, else `chat`."""

    schemas: Literal["json_schema", "tool"] = "json_schema"
    """How a JSON schema is sent: as `json_schema`, or as the schema of the only `tool`."""

    strict_schemas: bool = False
    """Ask the endpoint to keep to schemas strictly."""

    tools: bool = True
    """The endpoint takes tools."""

    tool_choice: Literal["auto", "required"] = "auto"
    """`required` demands a tool call, for servers that cannot leave the choice to the model.

    Reasoning models refuse it.
    """

    one_call_at_a_time: bool = True
    """Ask for one tool call at a time, where the vendor lets one ask."""

    limit_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The field that holds the limit of output tokens; unset: as the vendor needs."""

    effort_field: Literal["reasoning_effort", "reasoning"] | None = None
    """The field that holds the reasoning effort; unset: as the vendor needs."""

    echo: Literal["all", "plain"] = "all"
    """The parts of a model's earlier answers that are sent back.

    `all`, or `plain` words and calls, for servers that refuse other fields.
    """

    cache_marks: bool = False
    """Mark the messages that stay the same, for servers that cache what is marked."""

    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Output tokens of roles that set none; unset: as recommended for the model."""

    effort: ReasoningEffort | None = None
    """Reasoning effort of roles that set none; unset: as recommended for the model."""

    detect_cut_prompts: bool = True
    """Fail a call whose prompt the server plainly truncated."""

    deadline_s: float = Field(default=1800.0, gt=0, le=86_400)
    """Seconds of one request at most; the role's own limit is usually shorter."""

    prices: dict[str, TokenPriceSettings] = Field(default_factory=dict)
    """Prices of models, by the name of the model."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_names(cls, given: Any) -> Any:  # noqa: ANN401 - any value of config
        if isinstance(given, dict) and "forces_calls" in given:
            message = 'forces_calls is now tool_choice: write tool_choice = "auto" (the default) or "required"'
            raise ValueError(message)
        return given

    @field_validator("vendor")
    @classmethod
    def _require_known_vendor(cls, vendor: str) -> str:
        if vendor and vendor not in HOSTED_VENDORS:
            message = f"should be one of {', '.join(sorted(HOSTED_VENDORS))}, or be removed"
            raise ValueError(message)
        return vendor

    @field_validator("base_url")
    @classmethod
    def _require_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
            message = "should be an address such as http://127.0.0.1:8080/v1, without user name and query"
            raise ValueError(message)
        return url.rstrip("/")

    @model_validator(mode="after")
    def _require_encrypted_key(self) -> "EndpointSettings":
        secret = self.api_key is not None or "authorization" in {name.lower() for name in self.headers}
        if secret and self.base_url.startswith("http:") and not _is_loopback(urlsplit(self.base_url).hostname or ""):
            message = "base_url: the key would be sent unencrypted; use https, or an endpoint on this machine"
            raise ValueError(message)
        return self

    def place(self) -> str:
        """Return a digest of all that decides who answers and how, without keys."""
        decides = self.model_dump(mode="json", exclude=_SETTINGS_WITHOUT_EFFECT)
        decides["headers"] = {
            name.lower(): text for name, text in self.headers.items() if not _SECRET_HEADER.search(name)
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]

    def profile(self, name: str) -> ModelProfile:
        """Return what a model behind this endpoint accepts: the profile of its vendor, and the settings here."""
        vendor = self.vendor or vendor_of_host(urlsplit(self.base_url).hostname or "")
        known = model_profile(vendor, name)
        native = known.wire is WireFormat.RESPONSES
        wire = WireFormat(self.api or ("responses" if native else "chat"))
        style = known.thinking
        if self.effort_field is not None and style is not ThinkingStyle.NONE:
            style = ThinkingStyle.REASONING if self.effort_field == "reasoning" else ThinkingStyle.EFFORT
        elif wire is WireFormat.RESPONSES and style is not ThinkingStyle.NONE:
            style = ThinkingStyle.REASONING
        elif known.wire not in {WireFormat.CHAT, wire}:
            # The compatible form of a vendor that has its own form too.
            style = ThinkingStyle.NONE if style is ThinkingStyle.NONE else ThinkingStyle.EFFORT
        limit = "max_completion_tokens" if native and not known.takes_sampling else known.limit_field
        return replace(
            known,
            wire=wire,
            thinking=style,
            limit_field=self.limit_field or limit,
            single_call=known.single_call and self.one_call_at_a_time,
            cache_marks=known.cache_marks or self.cache_marks,
            reasoning_placeholder="signature" if known.wire is WireFormat.GEMINI else known.reasoning_placeholder,
            max_tokens=self.max_tokens or known.max_tokens,
            effort=self.effort or known.effort,
            strict=self.strict_schemas,
        )

    def request_headers(self) -> Mapping[str, str]:
        """Return the headers of a request, the key among them."""
        if self.api_key is None:
            return self.headers
        prefix = "Bearer " if self.key_header.lower() == "authorization" else ""
        return {**self.headers, self.key_header: prefix + self.api_key.get_secret_value()}


SendCallback = Callable[[WireCall], Awaitable[WireReply]]
WireFunctions = tuple[Callable[[WireCall], dict[str, Json]], Callable[[bytes, WireCall], WireReply]]


@cache
def _wire_functions(wire: WireFormat) -> WireFunctions:
    """Return what writes the body of a call and what reads the reply; a form that no model has is not loaded."""
    if wire is WireFormat.RESPONSES:
        from plugins.models._wire_responses import read_responses, responses_body  # noqa: PLC0415 - see above

        return responses_body, read_responses
    if wire is WireFormat.MESSAGES:
        from plugins.models._wire_messages import messages_body, read_messages  # noqa: PLC0415 - see above

        return messages_body, read_messages
    if wire is WireFormat.GEMINI:
        from plugins.models._wire_gemini import gemini_body, read_gemini  # noqa: PLC0415 - see above

        return gemini_body, read_gemini
    return chat_body, read_chat


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Where calls go: ``body`` holds the additions of config, ``deadline_s`` is the maximum time of one call."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    deadline_s: float
    body: Mapping[str, Json] = field(default_factory=dict)

    async def send(self, call: WireCall, http: HttpClient) -> WireReply:
        """Send a call once and return the reply; raises what a provider may raise, and ModelStateRefusedError."""
        form, read = _wire_functions(call.profile.wire)
        body = merge_body(form(call), self.body)
        try:
            raw = await http.post(
                self.url, body, max_bytes=MAX_REPLY_BYTES, headers=self.headers, deadline_s=self.deadline_s
            )
        except FoxcastError as error:
            raise translate_http_error(error, shown=call.display_name, remedy=call.error_remedy) from error
        return read(raw, call)


async def send_with_state_retry(call: WireCall, send: SendCallback, *, hint: str = "") -> WireReply:
    """Return the reply to a call, which is repeated without signed and encrypted parts where those are refused.

    The model's earlier messages are then rebuilt from their text and calls, which all families accept; it reasons anew.
    ``hint`` is what else a person could do. Raises RequestRejectedError where that is refused as well.
    """
    try:
        return await send(call)
    except ModelStateRefusedError as error:
        if not call.has_native_messages:
            raise _state_refusal(error, hint) from error
        log.warning(
            "an earlier message was refused; repeating the request without its signed parts",
            model=call.display_name,
            why=str(error),
        )
    try:
        return await send(call.without_native_messages())
    except ModelStateRefusedError as error:
        raise _state_refusal(error, hint) from error


def _state_refusal(error: ModelStateRefusedError, hint: str) -> RequestRejectedError:
    return state_refusal_report(error, hint) if error.is_certain else RequestRejectedError(str(error))


def with_cost(reply: WireReply, price: TokenPrice | None) -> ModelCompletion:
    """Return the completion with its cost, where the provider reported none and a price is known."""
    completion = reply.completion
    if completion.cost_usd is not None or price is None:
        return completion
    return replace(completion, cost_usd=usage_cost(price, completion.usage, reply.cache_written_tokens))


def usage_cost(price: TokenPrice, usage: ModelUsage, written: int) -> float:
    """Return the cost in US dollars; of the input tokens, ``written`` went into the provider's cache."""
    tier = price
    if price.long is not None and price.long_from is not None and usage.tokens_in > price.long_from:
        tier = price.long
    extra = 0.0 if tier.tokens_written is None else max(0.0, tier.tokens_written - tier.tokens_in)
    return price.usage_cost(usage) + written * extra / 1e6


class OpenAiCompatibleSettings(PluginSettings):
    """The endpoints of this provider."""

    endpoints: dict[EndpointName, EndpointSettings] = Field(default_factory=dict)
    """The endpoints, by the names that models are named with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What is the same in all calls of a model: ``name`` is that at its server."""

    name: str
    display_name: str
    adapter: str
    settings: EndpointSettings
    profile: ModelProfile
    endpoint: ModelEndpoint
    error_remedy: ErrorRemedy
    price: TokenPrice | None


class OpenAiCompatibleProvider:
    """Implements ``bot.api.ModelProvider`` over the HTTP client of the plugin context."""

    def __init__(self, settings: OpenAiCompatibleSettings, context: PluginContext) -> None:
        self._endpoints = settings.endpoints
        self._http: HttpClient = context.http
        self._models: dict[str, ServedModel] = {}

    async def price(self, model: str) -> TokenPrice | None:
        """Return the price that config names for a model."""
        return self._served_model(model).price

    def defaults(self, model: str) -> ModelDefaults:
        """Return what is recommended for a model where config sets nothing."""
        return self._served_model(model).profile.model_defaults()

    def place(self, model: str) -> str:
        """Return a digest of the endpoint as configured: the same model behind another one is another model."""
        return self._find_endpoint(model)[0].place()

    async def check_access(self, model: str) -> str:
        """Ask the endpoint whether it accepts the key and lists the model, for nothing; see ``AccessCheck``."""
        endpoint, name = self._find_endpoint(model)
        check = AccessCheck(
            display_name=f"{NAME}:{model}",
            name=name,
            base_url=endpoint.base_url,
            wire=WireFormat.CHAT,
            headers=endpoint.request_headers(),
            remedy=_error_remedy(model),
            key_path=key_path(vendor_of_host(urlsplit(endpoint.base_url).hostname or "")),
        )
        return await check.run(self._http)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        """Return the answer of a model; raises ConfigError for what the endpoint does not accept."""
        served = self._served_model(model)
        settings = served.settings
        if prompt.tools and not settings.tools:
            message = f"{NAME}: the endpoint of {served.name} accepts no tools; set its dialect to json in [llm.models]"
            raise ConfigError(message)
        dressed = prompt.schema is not None and settings.schemas == "tool"
        call = WireCall(
            model=model,
            name=served.name,
            display_name=served.display_name,
            adapter=served.adapter,
            prompt=_with_answer_tool(prompt) if dressed else prompt,
            sampling=sampling,
            profile=served.profile,
            tool_choice=settings.tool_choice,
            error_remedy=served.error_remedy,
        )
        asked = call.without_native_messages() if settings.echo == "plain" else call
        hint = '; or set echo = "plain" for this endpoint' if settings.echo == "all" else ""
        reply = await send_with_state_retry(asked, lambda one: served.endpoint.send(one, self._http), hint=hint)
        if settings.detect_cut_prompts:
            require_complete_prompt(call, reply.completion.usage, where=_CUT_PROMPT_ADVICE)
        return with_cost(unwrap_answer_tool(reply) if dressed else reply, served.price)

    def _served_model(self, model: str) -> ServedModel:
        served = self._models.get(model)
        if served is None:
            served = self._models[model] = self._find_model(model)
        return served

    def _find_model(self, model: str) -> ServedModel:
        settings, name = self._find_endpoint(model)
        profile, price = settings.profile(name), settings.prices.get(name)
        return ServedModel(
            name=name,
            display_name=f"{NAME}:{model}",
            adapter=f"{NAME}/{profile.wire}",
            settings=settings,
            profile=profile,
            endpoint=ModelEndpoint(
                url=request_url(settings.base_url, profile.wire, name),
                headers=settings.request_headers(),
                deadline_s=settings.deadline_s,
                body=settings.body,
            ),
            error_remedy=_error_remedy(model),
            price=None if price is None else price.price(),
        )

    def _find_endpoint(self, model: str) -> tuple[EndpointSettings, str]:
        where, _, name = model.partition("/")
        if where not in self._endpoints or not name:
            known = ", ".join(sorted(self._endpoints)) or "none"
            message = (
                f"{NAME}:{model} names no endpoint: write {NAME}:ENDPOINT/MODEL, with an endpoint of "
                f"[models.{NAME}.settings.endpoints] (configured: {known})"
            )
            raise ConfigError(message)
        return self._endpoints[where], name


@asynccontextmanager
async def open_openai_compatible(
    settings: OpenAiCompatibleSettings, context: PluginContext
) -> AsyncIterator[ModelProvider]:
    """Open nothing: the plugin context owns the connections."""
    yield OpenAiCompatibleProvider(settings, context)


@hookimpl
def foxcast_models() -> list[ModelSpec[OpenAiCompatibleSettings]]:
    """Offer the provider."""
    return [
        ModelSpec(
            name=NAME,
            summary="Models behind a chat-completions endpoint: local servers and most providers",
            settings=OpenAiCompatibleSettings,
            open=open_openai_compatible,
            setup=(
                SetupChoice(
                    name="local",
                    title="A server of your own: llama.cpp, vLLM, Ollama, LM Studio",
                    values=(
                        SetupValue(
                            name="address",
                            key="endpoints.local.base_url",
                            prompt="Address of the server",
                            default="http://127.0.0.1:8080/v1",
                        ),
                    ),
                    is_local=True,
                ),
            ),
        )
    ]


def _key_variable(model: str) -> str:
    """Return the variable that holds the key of a model's endpoint."""
    return f"FOXCAST_MODELS__{NAME.upper()}__SETTINGS__ENDPOINTS__{model.partition('/')[0].upper()}__API_KEY"


def _error_remedy(model: str) -> ErrorRemedy:
    table = f"[models.{NAME}.settings.endpoints.{model.partition('/')[0]}]"
    return ErrorRemedy(
        key_variable=_key_variable(model),
        tool_choice_setting=f"{table} tool_choice",
        address_setting=f"base_url in {table}",
    )


def _with_answer_tool(prompt: Prompt) -> Prompt:
    return replace(prompt, schema=None, tools=(answer_tool(prompt),), allowed=(ANSWER_NAME,))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
