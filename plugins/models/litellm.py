"""Models of the many named providers, through the library litellm: ``litellm:anthropic/...``, ``litellm:gemini/...``.

The library takes seconds to import, so it is imported by the first call, in a thread. Its retries, caches, routers and
telemetry stay off: it asks once. Its replies have no bound on their size before they are read.
"""

import asyncio
import hashlib
import json
import logging
import os
import re
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import ModuleType
from typing import Any, NoReturn

from pydantic import Field, SecretStr

from bot.api import (
    Completion,
    ContractError,
    Llm,
    ModelSpec,
    Price,
    Prompt,
    Rejected,
    Sampling,
    ServerUnreachable,
    Settings,
    Unauthorized,
    Unavailable,
    Workplace,
    hookimpl,
)
from plugins.models._chat import BROKE, FULL, MAX_REPLY_BYTES, choice, completion, messages, refused, sampled

NAME = "litellm"
# Must stand in the environment before the import: no list of prices and no list of headers is fetched from the network,
# and no .env file of a parent folder is read into our environment, which is what the library's default mode does.
GUARDS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
# Providers that bill a repeated beginning less only where it is marked.
_MARKED = frozenset({"anthropic", "bedrock", "vertex_ai"})
_SHOWN_CHARS = 300
# Prices of prompts of more than so many thousand tokens.
_LONG = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
# Variables in which the library looks for keys, and what follows the question mark of an address, where some providers
# want theirs. Values shorter than this are words.
_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]*")
_SECRET_CHARS = 8


class LitellmSettings(Settings):
    """Keys and addresses by the provider's name in the library, the part of a model before the slash.

    Without a key the library looks for one in its own variables. ``drop_params`` leaves out what a model does not
    take, instead of refusing the call; a seed is always left out then, because it is a wish and no order.
    """

    keys: dict[str, SecretStr] = Field(default_factory=dict)
    base_urls: dict[str, str] = Field(default_factory=dict)
    drop_params: bool = False
    deadline_s: float = Field(default=1800.0, gt=0, le=86_400)


class Litellm:
    """Implements ``bot.api.Llm``."""

    def __init__(self, settings: LitellmSettings) -> None:
        self._settings = settings
        self._loading = asyncio.Lock()
        self._library: ModuleType | None = None

    async def price(self, model: str) -> Price | None:
        library = await self._loaded()
        found = _listed(library.model_cost, model)
        if found is None:
            return None
        read, written = found.get("input_cost_per_token"), found.get("output_cost_per_token")
        # A list that says nothing and one that says zero are told apart by nobody; free is what config declares free.
        if read is None or written is None or not (read or written):
            return None
        short = _priced(found, "")
        steps = sorted(int(step[1]) for name in found if (step := _LONG.fullmatch(name)))
        if not steps:
            return short
        # Of several steps the dearest counts from the first one on.
        dearest = max((_priced(found, f"_above_{step}k_tokens") for step in steps), key=lambda price: price.tokens_in)
        return replace(short, long_from=steps[0] * 1000, long=dearest)

    def place(self, model: str) -> str:
        """Return a digest of what config says of the provider, or nothing where it leaves all to the library."""
        decides = [self._settings.base_urls.get(model.partition("/")[0], ""), "drop" * self._settings.drop_params]
        return hashlib.sha256(" ".join(decides).encode()).hexdigest()[:16] if any(decides) else ""

    async def lacks(self, model: str) -> str | None:
        """Return what to set where the library finds no key for a provider that has nothing but keys."""
        provider = model.partition("/")[0]
        if provider in self._settings.keys:
            return None
        library = await self._loaded()
        missing = library.validate_environment(model=model)["missing_keys"]
        # It does not know all names under which it looks itself. Where more than a key is missing, there may be other
        # ways in: a role of the machine, or a server of one's own that asks for none.
        beginning = provider.partition("_")[0].upper()
        names = [name for name in os.environ if name.startswith(beginning) and name.endswith(_SECRET_NAMES)]
        keys_alone = all(name.endswith("_API_KEY") for name in missing)
        if not missing or not keys_alone or any(os.environ[name] for name in names):
            return None
        return f"no key; set {_variable(model)}"

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        library = await self._loaded()
        deadline_s = self._settings.deadline_s
        request = self._request(library, model, prompt, sampling)
        try:
            # The library's own time-out counts per operation of the socket.
            async with asyncio.timeout(deadline_s):
                reply = await library.acompletion(**request)
        except TimeoutError as error:
            message = f"{NAME}:{model}: no complete answer within {deadline_s:g} s"
            raise Unavailable(message) from error
        except Exception as error:  # noqa: BLE001 - the library raises errors of a dozen others; each becomes one of ours
            _translate(error, library, shown=f"{NAME}:{model}", secrets=self._secrets())
        return _completion(reply, f"{NAME}:{model}", prompt)

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

    def _secrets(self) -> list[str]:
        """Return what no message may show: our keys, and what the library may have found in its variables."""
        configured = [key.get_secret_value() for key in self._settings.keys.values()]
        found = [value for name, value in os.environ.items() if name.upper().endswith(_SECRET_NAMES)]
        return sorted({one for one in (*configured, *found) if len(one) >= _SECRET_CHARS}, key=len, reverse=True)

    async def _loaded(self) -> ModuleType:
        async with self._loading:
            if self._library is None:
                self._library = await asyncio.to_thread(_load)
            return self._library

    def _request(self, library: ModuleType, model: str, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        provider = model.partition("/")[0]
        key = self._settings.keys.get(provider)
        supported = library.get_supported_openai_params(model=model) or ()
        wanted = sampled(sampling)
        if "seed" not in supported:
            wanted.pop("seed", None)
        if prompt.tools and "parallel_tool_calls" in supported:
            wanted["parallel_tool_calls"] = False
        if sampling.effort is not None:
            wanted["reasoning_effort"] = sampling.effort
        return {
            "model": model,
            "messages": messages(prompt, marked=provider in _MARKED),
            "max_tokens": sampling.max_tokens,
            **wanted,
            # Of our own: the library changes schemas in place, for one provider or another.
            **json.loads(json.dumps(choice(prompt))),
            "api_key": None if key is None else key.get_secret_value(),
            "api_base": self._settings.base_urls.get(provider),
            "drop_params": self._settings.drop_params,
            "timeout": self._settings.deadline_s,
            # Two names for the same in the library; either alone leaves the other's default for some providers.
            "num_retries": 0,
            "max_retries": 0,
        }


@asynccontextmanager
async def open_litellm(settings: LitellmSettings, _: Workplace) -> AsyncIterator[Llm]:
    """Hand out the provider; the library is imported by its first call, its connections are closed here."""
    provider = Litellm(settings)
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


def _load() -> ModuleType:
    os.environ.update(GUARDS)
    import litellm  # seconds and 160 MB; most commands never call a model

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Said once by the first call of each process, about its own types.
    warnings.filterwarnings("ignore", message="Item '.*' on TypedDict class", category=UserWarning)
    return litellm


def _listed(prices: Mapping[str, Mapping[str, Any]], model: str) -> Mapping[str, Any] | None:
    """Return the entry of a model, also where the list leaves its provider out.

    The library's own look-up asks some servers over the network.
    """
    if model in prices:
        return prices[model]
    provider, _, name = model.partition("/")
    found = prices.get(name)
    return found if found is not None and str(found.get("litellm_provider", "")).startswith(provider) else None


def _completion(reply: Any, shown: str, prompt: Prompt) -> Completion:  # noqa: ANN401 - the library's own type is late
    raw: dict[str, Any] = reply.model_dump(warnings=False)
    for chosen in raw.get("choices") or ():
        said = chosen.get("message") or {}
        said["refusal"] = (said.get("provider_specific_fields") or {}).get("refusal")
    cost = reply._hidden_params.get("response_cost")  # noqa: SLF001 - where the library documents it
    answer = completion({**raw, "usage": _counted(raw.get("usage"), cost)}, shown=shown, prompt=prompt)
    size = len(answer.text) + len(answer.thinking) + sum(len(call.arguments) for call in answer.calls)
    if size > MAX_REPLY_BYTES:
        message = f"{shown}: the reply is larger than {MAX_REPLY_BYTES} bytes"
        raise ContractError(message)
    return answer


def _counted(usage: dict[str, Any] | None, cost: float | None) -> dict[str, Any] | None:
    """Return the usage with the library's own reckoning of the cost; it makes up zeros where a server told nothing."""
    if not usage or not (usage.get("prompt_tokens") or usage.get("completion_tokens")):
        return None
    return {**usage, "cost": cost}


def _priced(found: Mapping[str, Any], step: str) -> Price:
    """Return the prices of one step of an entry; what has no price of its own there has that of the first step."""

    def usd(kind: str) -> float | None:
        told = found.get(f"{kind}{step}")
        told = found.get(kind) if told is None else told
        return None if told is None else told * 1e6

    read, cached = usd("input_cost_per_token") or 0.0, usd("cache_read_input_token_cost")
    return Price(
        tokens_in=read,
        tokens_cached=read if cached is None else cached,
        tokens_out=usd("output_cost_per_token") or 0.0,
        tokens_written=usd("cache_creation_input_token_cost"),
    )


_VARIABLE = "FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__"
_NO_KEY = re.compile(
    r"missing (?:\w+ )?(?:api[ _]?key|credentials)|api[_ ]key (?:client option )?must be set", re.IGNORECASE
)


def _variable(model: str) -> str:
    """Return the variable that holds the key of a model's provider."""
    return f"{_VARIABLE}{model.partition('/')[0].upper()}"


def _translate(error: Exception, library: ModuleType, *, shown: str, secrets: Sequence[str]) -> NoReturn:
    """Raise ours: by the status where the provider answered, by the cause where the network failed, else by class.

    The library says InternalServerError, with a status of its own making, also for a broken answer and a lost
    connection.
    """
    said = _said(error, secrets)
    message = f"{shown}: {said[:_SHOWN_CHARS]}"
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None and _NO_KEY.search(said):
        # Nothing left: the library found no key, in our settings or in the environment.
        message = f"{shown}: no key; set {_variable(shown.partition(':')[2])}"
        raise Unauthorized(message, sent=False) from None
    exceptions = library.exceptions
    causes = list(_causes(error))
    if isinstance(error, exceptions.Timeout) or any(_is_transport(cause) for cause in causes):
        _raise_lost(error, causes, shown=shown, said=said)
    if headers is not None and not isinstance(error, exceptions.APIConnectionError):
        status = int(error.status_code)  # type: ignore[attr-defined]  # each of its errors has
        if status not in {401, BROKE, 403}:
            _raise_status(status, message, headers)
    else:
        status = 0
    unauthorized = (exceptions.AuthenticationError, exceptions.PermissionDeniedError)
    unavailable = (exceptions.ServiceUnavailableError, exceptions.BadGatewayError)
    rejected = (exceptions.BadRequestError, exceptions.NotFoundError, exceptions.UnprocessableEntityError)
    if isinstance(error, exceptions.RateLimitError):
        raise Unavailable(message, retry_after_s=0.0) from None
    if status or isinstance(error, unauthorized):
        what = refused(_variable(shown.partition(":")[2]), broke=status == BROKE)
        message = f"{shown}: {what} ({said[:_SHOWN_CHARS]})"
        raise Unauthorized(message) from None
    for ours, theirs in ((Unavailable, unavailable), (Rejected, rejected)):
        if isinstance(error, theirs):
            raise ours(message) from None
    raise ContractError(message) from error


def _said(error: Exception, secrets: Sequence[str]) -> str:
    """Return the text of an error in a line, without keys and without the queries of addresses."""
    said = " ".join(str(error).split("Traceback")[0].split())
    for secret in secrets:
        said = said.replace(secret, "***")
    return _QUERY.sub(r"\1?***", said)


def _raise_lost(error: Exception, causes: Sequence[BaseException], *, shown: str, said: str) -> NoReturn:
    """Raise what a connection that was lost, or never made, means: what never left cannot be billed."""
    if any(_is_unsent(cause) for cause in causes):
        message = f"{shown}: cannot be reached: look at the network and at base_urls ({said[:_SHOWN_CHARS]})"
        raise ServerUnreachable(message) from None
    message = f"{shown}: the connection was lost ({said[:_SHOWN_CHARS]})"
    raise Unavailable(message) from ConnectionResetError(type(error).__name__)


def _raise_status(status: int, message: str, headers: Mapping[str, str]) -> NoReturn:
    """Raise what a status that has nothing to do with keys means, as ``bot.http`` does for everyone else."""
    if status in {408, 425, 429} or status >= 500:
        asked = headers.get("retry-after", "")
        unsaid = 0.0 if status == FULL else None
        raise Unavailable(message, retry_after_s=float(asked) if asked.isdigit() else unsaid) from None
    raise Rejected(message) from None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_transport(error: BaseException) -> bool:
    """Tell a lost connection from other trouble."""
    transport = {"httpx.TransportError", "openai.APIConnectionError", "aiohttp.ClientError", "builtins.OSError"}
    return not transport.isdisjoint(_names(error))


def _is_unsent(error: BaseException) -> bool:
    """Say whether there never was a connection that could carry a request."""
    unsent = {
        *("httpx.ConnectError", "httpx.ConnectTimeout", "httpx.PoolTimeout", "httpx.UnsupportedProtocol"),
        *("aiohttp.ClientConnectorError", "aiohttp.ConnectionTimeoutError"),
        *("builtins.ConnectionRefusedError", "socket.gaierror"),
    }
    return not unsent.isdisjoint(_names(error))


def _names(error: BaseException) -> set[str]:
    """Return the names of an error's classes: their libraries are not ours to import."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
