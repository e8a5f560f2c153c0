"""Models of the many named vendors: ``litellm:anthropic/...``, ``litellm:gemini/...``, named as the library does.

The vendors that ``_vendors`` knows are called directly, in their own form, with a body that we write and a reply that
we parse. Their prices are read from the list that litellm brings, so the library is not even imported for them. For all
others litellm translates (``acompletion``), and `foxcast doctor` says so. Why litellm does not carry all of them: a
model's messages must be sent back unchanged, and in litellm 1.101.6, measured against a recording endpoint,

- ``anthropic_messages`` drops thinking blocks whose text is empty, signature included, which is how newer models send
  them; and after a refused signature it drops all thinking and repeats the request silently;
- ``agenerate_content`` fails in a plain install, for it imports ``fastapi``;
- ``aresponses`` rebuilds each item in types of its own, without what has no value;
- ``acompletion`` refuses tools, before sending, for models of hosting vendors that are not on its list of prices; it
  loses the effort of DeepSeek, refuses it for Z.AI, DashScope and Mistral before sending, strips
  ``reasoning_content`` for Mistral and vLLM and ``reasoning_details`` for OpenRouter, and knows neither the effort nor
  the ids of Gemini models that are not on its list.

Official SDKs, and the model layers of pydantic-ai and any-llm, were considered too. Each would be one more dependency
that retries and parses on its own, and none limits the size of what it reads. Four forms as pure functions are less.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from pydantic import Field, SecretStr

from bot.api import (
    AuthenticationError,
    HttpClient,
    ModelCompletion,
    ModelDefaults,
    ModelProvider,
    ModelSpec,
    PluginContext,
    PluginSettings,
    Prompt,
    SamplingSettings,
    ServiceUnavailableError,
    SetupChoice,
    SetupValue,
    TokenPrice,
    hookimpl,
)
from plugins.models._access_check import AccessCheck
from plugins.models._library_form import library_form
from plugins.models._litellm_library import (
    CACHE_MARK_VENDORS,
    library_request,
    listed_price,
    load_library,
    raise_library_error,
    read_library_reply,
    read_price_list,
)
from plugins.models._profiles import ModelProfile, WireFormat, hosted_profile, library_profile, model_profile
from plugins.models._provider_errors import ErrorRemedy
from plugins.models._vendors import (
    VENDOR_ADDRESSES,
    VendorAddress,
    key_path,
    request_url,
    sent_model_name,
    vendor_address,
)
from plugins.models._wire_call import WireCall, WireReply
from plugins.models._wire_chat import require_complete_prompt
from plugins.models.openai_compatible import ModelEndpoint, send_with_state_retry, with_cost

NAME = "litellm"
_KEY_VARIABLE_PREFIX = "FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__"
# Variables in which the library looks for keys, and the text after the question mark of an address, where some vendors
# expect theirs. Shorter values are words.
_SECRET_SUFFIXES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_URL_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]*")
_MIN_SECRET_CHARS = 8
_CUT_PROMPT_ADVICE = (
    "Serve it with a longer context: num_ctx in [models.litellm.settings.bodies], or OLLAMA_CONTEXT_LENGTH."
)


class LitellmSettings(PluginSettings):
    """Keys and addresses by the vendor's name in litellm, the part of a model's name before the slash."""

    keys: dict[str, SecretStr] = Field(default_factory=dict)
    """API keys by vendor; unset: from the variables that litellm uses."""

    base_urls: dict[str, str] = Field(default_factory=dict)
    """Addresses by vendor; unset: the vendor's own."""

    bodies: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Fields that are added to the body of every request, by vendor, and that win over others."""

    drop_params: bool = False
    """Drop parameters that a model refuses instead of refusing the call, for vendors that litellm translates for."""

    deadline_s: float = Field(default=1800.0, gt=0, le=86_400)
    """Seconds of one request at most; the role's own limit is usually shorter."""


class LitellmProvider:
    """Implements ``bot.api.ModelProvider``."""

    def __init__(self, settings: LitellmSettings, http: HttpClient) -> None:
        self._settings = settings
        self._http = http
        self._loading = asyncio.Lock()
        self._library: ModuleType | None = None
        # By model, as far as they were looked up: the whole list is large.
        self._prices: dict[str, TokenPrice | None] = {}

    async def price(self, model: str) -> TokenPrice | None:
        """Return the price on litellm's own list; None for a model that it does not know."""
        async with self._loading:
            # One reads the list, which takes 20 MB, for all that wait.
            if model not in self._prices:
                vendor, _, name = model.partition("/")
                listed = f"{vendor}/{sent_model_name(vendor, name)}" if name else model
                self._prices[model] = listed_price(await asyncio.to_thread(read_price_list), listed)
            return self._prices[model]

    def defaults(self, model: str) -> ModelDefaults:
        """Return what is recommended for a model where config sets nothing."""
        return self._profile(model).model_defaults()

    def place(self, model: str) -> str:
        """Return a digest of the vendor's configuration, or nothing where config leaves all to the library."""
        vendor = model.partition("/")[0]
        added = self._settings.bodies.get(vendor)
        decides = [
            self._settings.base_urls.get(vendor, ""),
            "drop" * self._settings.drop_params,
            json.dumps(added, sort_keys=True) if added else "",
        ]
        return hashlib.sha256(" ".join(filter(None, decides)).encode()).hexdigest()[:16] if any(decides) else ""

    def call_path(self, model: str) -> str | None:
        """Return how the model is called where that costs more than usual: through the library."""
        if self._profile(model).wire is not WireFormat.LIBRARY:
            return None
        return "the library litellm translates each call: seconds at the first one, and more CPU and memory"

    async def lacks(self, model: str) -> str | None:
        """Return what to set where there is no key for a vendor that only accepts keys."""
        vendor = model.partition("/")[0]
        if vendor in self._settings.keys:
            return None
        if (known := self._address(vendor)) is not None:
            return (
                f"no key; set {_key_variable(model)}" if known.key_variables and known.api_key(None) is None else None
            )
        library = await self.load_library()
        missing = library.validate_environment(model=model)["missing_keys"]
        # It does not know all names that it looks up itself. Where more than a key is missing, there may be other
        # credentials: a role of the machine, or your own server, which needs none.
        beginning = vendor.partition("_")[0].upper()
        names = [name for name in os.environ if name.startswith(beginning) and name.endswith(_SECRET_SUFFIXES)]
        keys_alone = all(name.endswith("_API_KEY") for name in missing)
        if not missing or not keys_alone or any(os.environ[name] for name in names):
            return None
        return f"no key; set {_key_variable(model)}"

    async def check_access(self, model: str) -> str:
        """Ask the vendor whether it accepts the key and lists the model, for nothing; see ``AccessCheck``."""
        vendor, _, name = model.partition("/")
        known = self._address(vendor)
        if known is None:
            return "its key can only be checked by asking the model"
        base, key = self._address_and_key(f"{NAME}:{model}", vendor, known, name)
        check = AccessCheck(
            display_name=f"{NAME}:{model}",
            name=sent_model_name(vendor, name),
            base_url=base,
            wire=self._profile(model).wire,
            headers=known.request_headers(key),
            remedy=self._error_remedy(vendor),
            key_path=key_path(vendor),
        )
        return await check.run(self._http)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        """Return the answer of a model; raises ConfigError for an effort that it does not accept."""
        profile = self._profile(model)
        vendor, _, name = model.partition("/")
        call = WireCall(
            model=model,
            name=sent_model_name(vendor, name),
            display_name=f"{NAME}:{model}",
            adapter=f"{NAME}/{profile.wire}",
            prompt=prompt,
            sampling=sampling,
            profile=profile,
            error_remedy=self._error_remedy(vendor),
        )
        if (known := self._address(vendor)) is None:
            reply = await send_with_state_retry(call, self._send_through_library)
            require_complete_prompt(call, reply.completion.usage, where=_CUT_PROMPT_ADVICE)
            return reply.completion
        endpoint = self._endpoint(call, vendor, known)
        reply = await send_with_state_retry(call, lambda asked: endpoint.send(asked, self._http))
        return with_cost(reply, await self.price(model))

    async def aclose(self) -> None:
        """Close the connections and the worker that the library opened on this event loop."""
        if self._library is None:
            return
        from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
        from litellm.llms.custom_httpx.async_client_cleanup import (
            close_litellm_async_clients,
        )

        with suppress(RuntimeError):  # A worker of an earlier event loop has ended with that loop.
            await GLOBAL_LOGGING_WORKER.stop()
        await close_litellm_async_clients()  # type: ignore[no-untyped-call]  # the library does not annotate it
        self._library.in_memory_llm_clients_cache.flush_cache()

    async def load_library(self) -> ModuleType:
        """Return the library, imported in a thread; ``aclose`` closes what it opened since."""
        async with self._loading:
            if self._library is None:
                self._library = await asyncio.to_thread(load_library)
            return self._library

    def _address(self, vendor: str) -> VendorAddress | None:
        """Return where a vendor is called directly, None where the library calls it."""
        known = vendor_address(vendor)
        # A version is an argument of the library for Azure: the API that we call has none.
        is_old = known is not None and (known.needs_library or "api_version" in self._settings.bodies.get(vendor, {}))
        return None if is_old else known

    def _profile(self, model: str) -> ModelProfile:
        vendor, _, name = model.partition("/")
        if self._address(vendor) is None:
            return replace(library_profile(name), cache_marks=vendor in CACHE_MARK_VENDORS)
        return model_profile(vendor, name) if vendor in VENDOR_ADDRESSES else hosted_profile(name)

    def _configured_key(self, vendor: str) -> str | None:
        key = self._settings.keys.get(vendor)
        return None if key is None else key.get_secret_value()

    def _endpoint(self, call: WireCall, vendor: str, known: VendorAddress) -> ModelEndpoint:
        """Return the target of a call that we send ourselves.

        Raises AuthenticationError where there is no key for it.
        """
        base, key = self._address_and_key(call.display_name, vendor, known, call.name)
        return ModelEndpoint(
            url=request_url(base, call.profile.wire, call.name),
            headers=known.request_headers(key),
            deadline_s=self._settings.deadline_s,
            body=self._settings.bodies.get(vendor, {}),
        )

    def _address_and_key(
        self, display_name: str, vendor: str, known: VendorAddress, name: str
    ) -> tuple[str, str | None]:
        key = known.api_key(self._configured_key(vendor))
        if key is None and known.key_variables:
            message = f"{display_name}: no key; set {_key_variable(vendor)}"
            raise AuthenticationError(message, sent=False)
        setting = f"base_urls.{vendor} in [models.{NAME}.settings]"
        return known.base_address(self._settings.base_urls.get(vendor), setting, name), key

    async def _send_through_library(self, call: WireCall) -> WireReply:
        """Send the request through the library, which knows the forms of some more vendors."""
        library = await self.load_library()
        vendor, deadline_s = call.model.partition("/")[0], self._settings.deadline_s
        settings = {
            "api_key": self._configured_key(vendor),
            "api_base": self._settings.base_urls.get(vendor),
            "drop_params": self._settings.drop_params,
            **self._settings.bodies.get(vendor, {}),
        }
        try:
            if (form := library_form(call, library, settings)) is None:
                request = {**library_request(call, library), "timeout": deadline_s, **settings}
                # The library's own time-out counts per operation of the socket.
                async with asyncio.timeout(deadline_s):
                    reply = await library.acompletion(**request)
        except TimeoutError as error:
            message = f"{call.display_name}: no complete answer within {deadline_s:g} s"
            raise ServiceUnavailableError(message) from error
        except Exception as error:  # noqa: BLE001 - the library raises errors of a dozen others; each becomes one of ours
            raise_library_error(error, library, shown=call.display_name, remedy=call.error_remedy)
        if form is not None:
            return await form.send(call, self._http, library, deadline_s=deadline_s)
        cost = reply._hidden_params.get("response_cost")  # noqa: SLF001 - where the library documents it
        return read_library_reply(reply, call, cost=cost)

    def _error_remedy(self, vendor: str) -> ErrorRemedy:
        base = self._settings.base_urls.get(vendor)
        where = f"base_urls.{vendor} in [models.{NAME}.settings]" + (f", now {base}" if base else "")
        return ErrorRemedy(key_variable=_key_variable(vendor), address_setting=where, redact=self._redact)

    def _redact(self, text: str) -> str:
        """Return a text without our keys, those in the environment, and the queries of addresses."""
        configured = [key.get_secret_value() for key in self._settings.keys.values()]
        found = [value for name, value in os.environ.items() if name.upper().endswith(_SECRET_SUFFIXES)]
        for secret in sorted({*configured, *found}, key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) >= _MIN_SECRET_CHARS else text
        return _URL_QUERY.sub(r"\1?***", text)


@asynccontextmanager
async def open_litellm(settings: LitellmSettings, context: PluginContext) -> AsyncIterator[ModelProvider]:
    """Return the provider; the first call that the library translates imports it. Its connections are closed here."""
    provider = LitellmProvider(settings, context.http)
    try:
        yield provider
    finally:
        await provider.aclose()


@hookimpl
def foxcast_models() -> list[ModelSpec[LitellmSettings]]:
    """Offer the provider."""
    return [
        ModelSpec(
            name=NAME,
            summary="Models of many named providers, through the library litellm",
            settings=LitellmSettings,
            open=open_litellm,
            setup=tuple(_setup_choice(vendor, title, model) for vendor, title, model in _SETUP_CHOICES),
        )
    ]


# For `foxcast init`: models that can forecast, whose prices the library knows.
_SETUP_CHOICES = (
    ("openrouter", "OpenRouter: models of all vendors with one key", "moonshotai/kimi-k3"),
    ("openai", "OpenAI", "gpt-5.6-sol"),
    ("anthropic", "Anthropic", "claude-opus-4-8"),
    ("gemini", "Google Gemini", "gemini-3.1-pro-preview"),
)


def _setup_choice(vendor: str, title: str, model: str) -> SetupChoice:
    key = SetupValue(
        name="key",
        key=f"keys.{vendor}",
        prompt=f"API key of {title.partition(':')[0]}",
        secret=True,
        variables=VENDOR_ADDRESSES[vendor].key_variables,
    )
    return SetupChoice(name=vendor, title=title, values=(key,), model=model)


def _key_variable(model: str) -> str:
    """Return the variable that holds the key of a model's vendor: the vendor's own where its name fits in none."""
    vendor = model.partition("/")[0]
    if "-" in vendor and (known := vendor_address(vendor)) is not None:
        return known.key_variables[0]
    return f"{_KEY_VARIABLE_PREFIX}{vendor.upper()}"
