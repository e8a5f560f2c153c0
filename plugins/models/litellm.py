"""Models of the many named vendors: ``litellm:anthropic/...``, ``litellm:gemini/...``, named as the library does.

The vendors of ``_vendors`` are asked directly, in their own form, with a body that we write and a reply that we read.
For all others litellm translates (``acompletion``), and it knows the prices of all. Why litellm does not carry all of
them: what a model said must come back as it came, and in litellm 1.101.6, measured against a recording endpoint,

- ``anthropic_messages`` drops thinking blocks whose text is empty, signature included, which is how newer models send
  them; and after a refused signature it drops all thinking and asks again without a word;
- ``agenerate_content`` fails in a plain install, for it imports ``fastapi``;
- ``aresponses`` rebuilds each item in types of its own, without what has no value;
- ``acompletion`` loses the effort of DeepSeek, refuses it for Z.AI, DashScope and Mistral before sending, strips
  ``reasoning_content`` for Mistral and vLLM and ``reasoning_details`` for OpenRouter, and knows neither the effort nor
  the ids of Gemini models that are not on its list.

Official SDKs, and the model layers of pydantic-ai and any-llm, were weighed too. Each would be one more dependency that
retries and parses on its own, and none bounds what it reads. Four forms as pure functions are less.
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
    Completion,
    Http,
    Llm,
    ModelDefaults,
    ModelSpec,
    Price,
    Prompt,
    Sampling,
    Settings,
    Unauthorized,
    Unavailable,
    Workplace,
    hookimpl,
)
from plugins.models._chat_reply import require_uncut
from plugins.models._exchange import WireEndpoint, exchanged, priced
from plugins.models._faults import FaultRemedy
from plugins.models._library import MARKED, library_request, listed_price, load, read_library, translate
from plugins.models._profiles import ModelProfile, WireFormat, library_profile, profile_of
from plugins.models._vendors import VENDORS, url_of
from plugins.models._wire_call import WireCall, WireReply

NAME = "litellm"
_VARIABLE = "FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__"
# Variables in which the library looks for keys, and what follows the question mark of an address, where some vendors
# want theirs. Values shorter than this are words.
_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]*")
_SECRET_CHARS = 8
_CUT = "Serve it with a longer context: num_ctx in [models.litellm.settings.bodies], or OLLAMA_CONTEXT_LENGTH."


class LitellmSettings(Settings):
    """Keys and addresses by the vendor's name in litellm, the part of a model before the slash.

    Without a key it is looked for in the variables that litellm uses. ``bodies`` are added to every request of a vendor
    and win over what we send. ``drop_params`` concerns vendors that litellm translates for: it leaves out what a model
    does not take, instead of refusing the call.
    """

    keys: dict[str, SecretStr] = Field(default_factory=dict)
    base_urls: dict[str, str] = Field(default_factory=dict)
    bodies: dict[str, dict[str, Any]] = Field(default_factory=dict)
    drop_params: bool = False
    deadline_s: float = Field(default=1800.0, gt=0, le=86_400)


class Litellm:
    """Implements ``bot.api.Llm``."""

    def __init__(self, settings: LitellmSettings, http: Http) -> None:
        self._settings = settings
        self._http = http
        self._loading = asyncio.Lock()
        self._library: ModuleType | None = None

    async def price(self, model: str) -> Price | None:
        """Return the price on litellm's own list; None for a model that it does not know."""
        return listed_price((await self._loaded()).model_cost, model)

    def defaults(self, model: str) -> ModelDefaults:
        """Return what is recommended for a model where config says nothing."""
        return _profile(model).defaults()

    def place(self, model: str) -> str:
        """Return a digest of what config says of the vendor, or nothing where it leaves all to the library."""
        vendor = model.partition("/")[0]
        added = self._settings.bodies.get(vendor)
        decides = [
            self._settings.base_urls.get(vendor, ""),
            "drop" * self._settings.drop_params,
            json.dumps(added, sort_keys=True) if added else "",
        ]
        return hashlib.sha256(" ".join(filter(None, decides)).encode()).hexdigest()[:16] if any(decides) else ""

    async def lacks(self, model: str) -> str | None:
        """Return what to set where there is no key for a vendor that has nothing but keys."""
        vendor = model.partition("/")[0]
        if vendor in self._settings.keys:
            return None
        if (known := VENDORS.get(vendor)) is not None:
            return f"no key; set {_variable(model)}" if known.keys and known.key(None) is None else None
        library = await self._loaded()
        missing = library.validate_environment(model=model)["missing_keys"]
        # It does not know all names under which it looks itself. Where more than a key is missing, there may be other
        # ways in: a role of the machine, or a server of one's own that asks for none.
        beginning = vendor.partition("_")[0].upper()
        names = [name for name in os.environ if name.startswith(beginning) and name.endswith(_SECRET_NAMES)]
        keys_alone = all(name.endswith("_API_KEY") for name in missing)
        if not missing or not keys_alone or any(os.environ[name] for name in names):
            return None
        return f"no key; set {_variable(model)}"

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        """Return the answer of a model; raises ConfigError for an effort that it does not take."""
        profile = _profile(model)
        vendor, _, name = model.partition("/")
        call = WireCall(
            model=model,
            name=name,
            shown=f"{NAME}:{model}",
            adapter=f"{NAME}/{profile.wire}",
            prompt=prompt,
            sampling=sampling,
            profile=profile,
            remedy=self._remedy(vendor),
        )
        if profile.wire is WireFormat.LIBRARY:
            reply = await exchanged(call, self._translated)
            require_uncut(call, reply.completion.usage, where=_CUT)
            return reply.completion
        endpoint = self._endpoint(call, vendor)
        reply = await exchanged(call, lambda asked: endpoint.send(asked, self._http))
        return priced(reply, await self.price(model))

    async def aclose(self) -> None:
        """Close the connections and the worker that the library opened on this event loop."""
        if self._library is None:
            return
        from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
        from litellm.llms.custom_httpx.async_client_cleanup import (
            close_litellm_async_clients,
        )

        with suppress(RuntimeError):  # a worker of an earlier event loop has ended with it
            await GLOBAL_LOGGING_WORKER.stop()
        await close_litellm_async_clients()  # type: ignore[no-untyped-call]  # the library does not annotate it
        self._library.in_memory_llm_clients_cache.flush_cache()

    async def _loaded(self) -> ModuleType:
        async with self._loading:
            if self._library is None:
                self._library = await asyncio.to_thread(load)
            return self._library

    def _key(self, vendor: str) -> str | None:
        key = self._settings.keys.get(vendor)
        return None if key is None else key.get_secret_value()

    def _endpoint(self, call: WireCall, vendor: str) -> WireEndpoint:
        """Return where a call goes that we send ourselves; raises Unauthorized where there is no key for it."""
        known, setting = VENDORS[vendor], f"base_urls.{vendor} in [models.{NAME}.settings]"
        key = known.key(self._key(vendor))
        if key is None and known.keys:
            message = f"{call.shown}: no key; set {_variable(call.model)}"
            raise Unauthorized(message, sent=False)
        base = known.address(self._settings.base_urls.get(vendor), setting)
        return WireEndpoint(
            url=url_of(base, call.profile.wire, call.name),
            headers=known.headers_with(key),
            deadline_s=self._settings.deadline_s,
            body=self._settings.bodies.get(vendor, {}),
        )

    async def _translated(self, call: WireCall) -> WireReply:
        """Ask through the library, which speaks the forms of some more vendors."""
        library = await self._loaded()
        vendor, deadline_s = call.model.partition("/")[0], self._settings.deadline_s
        request = {
            **library_request(call, library.get_supported_openai_params(model=call.model) or ()),
            "api_key": self._key(vendor),
            "api_base": self._settings.base_urls.get(vendor),
            "drop_params": self._settings.drop_params,
            "timeout": deadline_s,
            **self._settings.bodies.get(vendor, {}),
        }
        try:
            # The library's own time-out counts per operation of the socket.
            async with asyncio.timeout(deadline_s):
                reply = await library.acompletion(**request)
        except TimeoutError as error:
            message = f"{call.shown}: no complete answer within {deadline_s:g} s"
            raise Unavailable(message) from error
        except Exception as error:  # noqa: BLE001 - the library raises errors of a dozen others; each becomes one of ours
            translate(error, library, shown=call.shown, remedy=call.remedy)
        return read_library(reply, call)

    def _remedy(self, vendor: str) -> FaultRemedy:
        base = self._settings.base_urls.get(vendor)
        where = f"base_urls.{vendor} in [models.{NAME}.settings]" + (f", now {base}" if base else "")
        return FaultRemedy(key=_variable(vendor), reached=where, clean=self._cleaned)

    def _cleaned(self, said: str) -> str:
        """Return a text without our keys, those that the environment holds, and the queries of addresses."""
        configured = [key.get_secret_value() for key in self._settings.keys.values()]
        found = [value for name, value in os.environ.items() if name.upper().endswith(_SECRET_NAMES)]
        for secret in sorted({*configured, *found}, key=len, reverse=True):
            said = said.replace(secret, "***") if len(secret) >= _SECRET_CHARS else said
        return _QUERY.sub(r"\1?***", said)


@asynccontextmanager
async def open_litellm(settings: LitellmSettings, workplace: Workplace) -> AsyncIterator[Llm]:
    """Hand out the provider; the library is imported by its first call, its connections are closed here."""
    provider = Litellm(settings, workplace.http)
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
        )
    ]


def _profile(model: str) -> ModelProfile:
    vendor, _, name = model.partition("/")
    if vendor in VENDORS:
        return profile_of(vendor, name)
    return replace(library_profile(name), marks=vendor in MARKED)


def _variable(model: str) -> str:
    """Return the variable that holds the key of a model's vendor."""
    return f"{_VARIABLE}{model.partition('/')[0].upper()}"
