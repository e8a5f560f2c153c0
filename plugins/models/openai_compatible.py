"""Models behind any chat-completions endpoint: a server of one's own, or a provider that speaks this form.

A model is named ``openai_compatible:ENDPOINT/MODEL``, the endpoint as in the settings. One request a call, nothing
else: deadlines, retries, budgets and records are the gateway's. A base URL may be inside this machine or its network;
only the configuration names it.
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
    Json,
    Llm,
    ModelSpec,
    NotFound,
    Price,
    Prompt,
    Rejected,
    Sampling,
    Settings,
    Tool,
    Unauthorized,
    Workplace,
    hookimpl,
)
from plugins.models._chat import (
    ANSWER,
    BROKE,
    MAX_REPLY_BYTES,
    choice,
    completion,
    messages,
    refused,
    sampled,
    unwrapped,
)

NAME = "openai_compatible"
# As in environment variables, where two underscores in a row separate the parts.
# Settings of an endpoint that change nothing about what is answered; headers are looked at one by one.
_IDLE = {"api_key", "key_header", "headers", "cache_marks", "deadline_s", "prices"}
_SECRET = re.compile("auth|key|token|secret|cookie|session|password", re.IGNORECASE)
EndpointName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=60)]


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

    ``body`` is added to every request and wins over what we send. ``schemas``: does it take a JSON schema, or is the
    schema to be dressed as the only tool? ``forces_calls``: may a tool call be demanded (``tool_choice``)?
    ``cache_marks``: is it told which messages will stay as they are? ``deadline_s`` is an outer bound; the gateway's
    own is usually shorter.
    """

    base_url: str
    api_key: SecretStr | None = None
    key_header: str = "Authorization"
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    body: dict[str, Any] = Field(default_factory=dict)
    schemas: Literal["json_schema", "tool"] = "json_schema"
    strict_schemas: bool = False
    tools: bool = True
    forces_calls: bool = True
    one_call_at_a_time: bool = True
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    cache_marks: bool = False
    deadline_s: float = Field(default=1800.0, gt=0, le=86_400)
    prices: dict[str, PriceSettings] = Field(default_factory=dict)

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
        self._http = workplace.http

    async def price(self, model: str) -> Price | None:
        endpoint, name = self._find(model)
        found = endpoint.prices.get(name)
        return None if found is None else found.price()

    def place(self, model: str) -> str:
        """Return a digest of the endpoint as configured: the same model behind another one is another model."""
        return self._find(model)[0].place()

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        endpoint, name = self._find(model)
        dressed = bool(prompt.schema is not None and endpoint.schemas == "tool")
        request = _body(endpoint, name, _dressed(prompt) if dressed else prompt, sampling)
        try:
            raw = await self._http.post(
                f"{endpoint.base_url}/chat/completions",
                request,
                max_bytes=MAX_REPLY_BYTES,
                headers=endpoint.all_headers(),
                deadline_s=endpoint.deadline_s,
            )
        except NotFound as error:
            message = f"{NAME}:{model}: {error}; is the name of the model right, and the base_url?"
            raise Rejected(message) from error
        except Unauthorized as error:
            broke = f": status {BROKE}" in str(error)
            message = f"{NAME}:{model}: {refused(_variable(model), broke=broke)} ({error})"
            raise Unauthorized(message) from error
        answer = completion(raw, shown=f"{NAME}:{model}", prompt=prompt)
        if answer.cost_usd is None and (priced := endpoint.prices.get(name)) is not None:
            answer = replace(answer, cost_usd=priced.price().of(answer.usage))
        return unwrapped(answer) if dressed else answer

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


def _body(endpoint: EndpointSettings, model: str, prompt: Prompt, sampling: Sampling) -> dict[str, Json]:
    if prompt.tools and not endpoint.tools:
        message = f"{NAME}: the endpoint of {model} takes no tools; set its dialect to json in [llm.models]"
        raise ConfigError(message)
    body: dict[str, Json] = {
        "model": model,
        "messages": messages(prompt, marked=endpoint.cache_marks),
        endpoint.limit_field: sampling.max_tokens,
        **sampled(sampling),
        **_choice(endpoint, prompt),
    }
    if sampling.effort is not None:
        named: Json = {"effort": sampling.effort} if endpoint.effort_field == "reasoning" else sampling.effort
        body[endpoint.effort_field] = named
    return {**body, **endpoint.body}


def _choice(endpoint: EndpointSettings, prompt: Prompt) -> dict[str, Json]:
    chosen = choice(prompt)
    if prompt.tools and endpoint.one_call_at_a_time:
        chosen["parallel_tool_calls"] = False
    if prompt.tools and not endpoint.forces_calls:
        # What is not offered cannot be called: the one tool that is left stands alone.
        offered = [tool for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed]
        chosen |= choice(replace(prompt, tools=tuple(offered))) | {"tool_choice": "auto"}
    if isinstance(wanted := chosen.get("response_format"), dict) and endpoint.strict_schemas:
        schema = wanted["json_schema"]
        chosen["response_format"] = {**wanted, "json_schema": {**_table(schema), "strict": True}}
    return chosen


def _table(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _dressed(prompt: Prompt) -> Prompt:
    tool = Tool(name=ANSWER, description="Give the answer.", parameters=prompt.schema or {})
    return replace(prompt, schema=None, tools=(tool,), allowed=(ANSWER,))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
