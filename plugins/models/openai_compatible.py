"""Models behind any chat-completions endpoint: a server of one's own, or a provider that speaks this form.

A model is named ``openai_compatible:ENDPOINT/MODEL``, the endpoint as in the settings. One request a call, nothing
else: deadlines, retries, budgets and records are the gateway's. A base URL may be inside this machine or its network;
only the configuration names it. The habits of well-known vendors are known by their host, or by ``vendor``.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from bot.api import (
    Completion,
    ConfigError,
    Http,
    Llm,
    ModelDefaults,
    ModelSpec,
    Price,
    Prompt,
    ReasoningEffort,
    Sampling,
    Settings,
    Workplace,
    hookimpl,
)
from plugins.models._chat_reply import require_uncut, unwrapped
from plugins.models._exchange import WireEndpoint, exchanged, priced
from plugins.models._faults import FaultRemedy
from plugins.models._profiles import ModelProfile, ThinkingStyle, WireFormat, profile_of
from plugins.models._vendors import HOSTED, url_of, vendor_at
from plugins.models._wire_call import ANSWER, WireCall
from plugins.models._wire_chat import answer_tool

NAME = "openai_compatible"
# Settings of an endpoint that change nothing about what is answered; headers are looked at one by one.
_IDLE = {
    *("api_key", "key_header", "headers", "cache_marks", "deadline_s", "prices"),
    *("max_tokens", "effort", "notices_cuts"),
}
_SECRET = re.compile("auth|key|token|secret|cookie|session|password", re.IGNORECASE)
# As in environment variables, where two underscores in a row separate the parts.
EndpointName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=60)]
_CUT = (
    "Give it a longer context: for Ollama set num_ctx in the Modelfile, or OLLAMA_CONTEXT_LENGTH where it is started; "
    "if its count is wrong, set notices_cuts = false for the endpoint"
)


class PriceSettings(Settings):
    """US dollars per million tokens; those cached, or written to a cache, cost as much as others unless said."""

    tokens_in: float = Field(ge=0, allow_inf_nan=False)
    tokens_cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tokens_written: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tokens_out: float = Field(ge=0, allow_inf_nan=False)

    def price(self) -> Price:
        """Return the price as the engine knows it."""
        cached = self.tokens_in if self.tokens_cached is None else self.tokens_cached
        return Price(
            tokens_in=self.tokens_in,
            tokens_cached=cached,
            tokens_out=self.tokens_out,
            tokens_written=self.tokens_written,
        )


class EndpointSettings(Settings):
    """One endpoint and its habits.

    ``body`` is added to every request and wins over what we send. ``vendor`` names whose habits it has, as litellm
    names vendors; by the host where left out. ``api``: the form of requests, by the vendor where left out, else chat.
    ``schemas``: does it take a JSON schema, or is the schema to be dressed as the only tool? ``tool_choice``:
    "required" demands a tool call, for servers that cannot leave the choice to the model; models that think refuse it.
    ``echo``: does what the model said go back as it came, or only its words and calls, for servers that refuse fields
    they don't know? ``cache_marks``: is it told which messages will stay as they are? ``max_tokens`` and ``effort`` are
    for roles that set none. ``notices_cuts``: is a call given up whose prompt the server plainly cut? ``deadline_s`` is
    an outer bound; the gateway's own is usually shorter.
    """

    base_url: str
    api_key: SecretStr | None = None
    key_header: str = "Authorization"
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    body: dict[str, Any] = Field(default_factory=dict)
    vendor: str = ""
    api: Literal["chat", "responses"] | None = None
    schemas: Literal["json_schema", "tool"] = "json_schema"
    strict_schemas: bool = False
    tools: bool = True
    tool_choice: Literal["auto", "required"] = "auto"
    one_call_at_a_time: bool = True
    limit_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    effort_field: Literal["reasoning_effort", "reasoning"] | None = None
    echo: Literal["all", "plain"] = "all"
    cache_marks: bool = False
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    effort: ReasoningEffort | None = None
    notices_cuts: bool = True
    deadline_s: float = Field(default=1800.0, gt=0, le=86_400)
    prices: dict[str, PriceSettings] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _has_new_names(cls, given: Any) -> Any:  # noqa: ANN401 - whatever stands in config
        if isinstance(given, dict) and "forces_calls" in given:
            message = 'forces_calls is now tool_choice: write tool_choice = "auto" (the default) or "required"'
            raise ValueError(message)
        return given

    @field_validator("vendor")
    @classmethod
    def _is_known(cls, vendor: str) -> str:
        if vendor and vendor not in HOSTED:
            message = f"should be one of {', '.join(sorted(HOSTED))}, or be left out"
            raise ValueError(message)
        return vendor

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
            message = "should be an address such as http://127.0.0.1:8080/v1, without user name and query"
            raise ValueError(message)
        return url.rstrip("/")

    @model_validator(mode="after")
    def _keeps_the_key_secret(self) -> "EndpointSettings":
        secret = self.api_key is not None or "authorization" in {name.lower() for name in self.headers}
        if secret and self.base_url.startswith("http:") and not _is_loopback(urlsplit(self.base_url).hostname or ""):
            message = "base_url: the key would cross the network in clear; use https, or an endpoint on this machine"
            raise ValueError(message)
        return self

    def place(self) -> str:
        """Return a digest of all that decides who answers and how, without keys."""
        decides = self.model_dump(mode="json", exclude=_IDLE)
        decides["headers"] = {name.lower(): text for name, text in self.headers.items() if not _SECRET.search(name)}
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]

    def profile(self, name: str) -> ModelProfile:
        """Return what a model behind this endpoint takes: the habits of its vendor, and what is set here."""
        vendor = self.vendor or vendor_at(urlsplit(self.base_url).hostname or "")
        known = profile_of(vendor, name)
        native = known.wire is WireFormat.RESPONSES
        wire = WireFormat(self.api or ("responses" if native else "chat"))
        style = known.thinking
        if self.effort_field is not None and style is not ThinkingStyle.NONE:
            style = ThinkingStyle.REASONING if self.effort_field == "reasoning" else ThinkingStyle.EFFORT
        elif wire is WireFormat.RESPONSES and style is not ThinkingStyle.NONE:
            style = ThinkingStyle.REASONING
        elif known.wire not in {WireFormat.CHAT, wire}:
            # The compatible form of a vendor with one of its own.
            style = ThinkingStyle.NONE if style is ThinkingStyle.NONE else ThinkingStyle.EFFORT
        limit = "max_completion_tokens" if native and not known.sampling else known.limit_field
        return replace(
            known,
            wire=wire,
            thinking=style,
            limit_field=self.limit_field or limit,
            one_call=known.one_call and self.one_call_at_a_time,
            marks=known.marks or self.cache_marks,
            stand_in="signature" if known.wire is WireFormat.GEMINI else known.stand_in,
            max_tokens=self.max_tokens or known.max_tokens,
            effort=self.effort or known.effort,
            strict=self.strict_schemas,
        )

    def all_headers(self) -> Mapping[str, str]:
        """Return the headers of a request, the key among them."""
        if self.api_key is None:
            return self.headers
        prefix = "Bearer " if self.key_header.lower() == "authorization" else ""
        return {**self.headers, self.key_header: prefix + self.api_key.get_secret_value()}


class OpenAiCompatibleSettings(Settings):
    """The endpoints by the names that models are named with."""

    endpoints: dict[EndpointName, EndpointSettings] = Field(default_factory=dict)


class OpenAiCompatible:
    """Implements ``bot.api.Llm`` over the workplace's HTTP."""

    def __init__(self, settings: OpenAiCompatibleSettings, workplace: Workplace) -> None:
        self._endpoints = settings.endpoints
        self._http: Http = workplace.http

    async def price(self, model: str) -> Price | None:
        """Return the price that config names for a model."""
        endpoint, name = self._find(model)
        found = endpoint.prices.get(name)
        return None if found is None else found.price()

    def defaults(self, model: str) -> ModelDefaults:
        """Return what is recommended for a model where config says nothing of it."""
        endpoint, name = self._find(model)
        return endpoint.profile(name).defaults()

    def place(self, model: str) -> str:
        """Return a digest of the endpoint as configured: the same model behind another one is another model."""
        return self._find(model)[0].place()

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        """Return the answer of a model; raises ConfigError for what the endpoint does not take."""
        endpoint, name = self._find(model)
        if prompt.tools and not endpoint.tools:
            message = f"{NAME}: the endpoint of {name} takes no tools; set its dialect to json in [llm.models]"
            raise ConfigError(message)
        dressed = prompt.schema is not None and endpoint.schemas == "tool"
        profile = endpoint.profile(name)
        call = WireCall(
            model=model,
            name=name,
            shown=f"{NAME}:{model}",
            adapter=f"{NAME}/{profile.wire}",
            prompt=_dressed(prompt) if dressed else prompt,
            sampling=sampling,
            profile=profile,
            tool_choice=endpoint.tool_choice,
            remedy=_remedy(model),
        )
        to = WireEndpoint(
            url=url_of(endpoint.base_url, profile.wire, name),
            headers=endpoint.all_headers(),
            deadline_s=endpoint.deadline_s,
            body=endpoint.body,
        )
        asked = call.plain() if endpoint.echo == "plain" else call
        hint = '; or set echo = "plain" for this endpoint' if endpoint.echo == "all" else ""
        reply = await exchanged(asked, lambda one: to.send(one, self._http), hint=hint)
        if endpoint.notices_cuts:
            require_uncut(call, reply.completion.usage, where=_CUT)
        return priced(unwrapped(reply) if dressed else reply, await self.price(model))

    def _find(self, model: str) -> tuple[EndpointSettings, str]:
        where, _, name = model.partition("/")
        if where not in self._endpoints or not name:
            known = ", ".join(sorted(self._endpoints)) or "none"
            message = (
                f"{NAME}:{model} names no endpoint: write {NAME}:ENDPOINT/MODEL, with an endpoint of "
                f"[models.{NAME}.settings.endpoints] (there: {known})"
            )
            raise ConfigError(message)
        return self._endpoints[where], name


@asynccontextmanager
async def open_openai_compatible(settings: OpenAiCompatibleSettings, workplace: Workplace) -> AsyncIterator[Llm]:
    """Open nothing: connections are the workplace's."""
    yield OpenAiCompatible(settings, workplace)


@hookimpl
def foxcast_models() -> list[ModelSpec[OpenAiCompatibleSettings]]:
    """Offer the provider."""
    return [
        ModelSpec(
            name=NAME,
            summary="Models behind a chat-completions endpoint: local servers and most providers",
            settings=OpenAiCompatibleSettings,
            open=open_openai_compatible,
        )
    ]


def _variable(model: str) -> str:
    """Return the variable that holds the key of a model's endpoint."""
    return f"FOXCAST_MODELS__{NAME.upper()}__SETTINGS__ENDPOINTS__{model.partition('/')[0].upper()}__API_KEY"


def _remedy(model: str) -> FaultRemedy:
    table = f"[models.{NAME}.settings.endpoints.{model.partition('/')[0]}]"
    return FaultRemedy(key=_variable(model), choice=f"{table} tool_choice", reached=f"base_url in {table}")


def _dressed(prompt: Prompt) -> Prompt:
    return replace(prompt, schema=None, tools=(answer_tool(prompt),), allowed=(ANSWER,))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
