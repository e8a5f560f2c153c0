"""The library litellm itself: how it is loaded, its prices, and calls that it translates.

It takes seconds to import, so it is imported by the first call that it translates, in a thread. Its retries, caches,
routers and telemetry stay off: it sends one request. Its replies have no size limit before they are read.

What its switches bring, in CPU of one call with six tools, 3.7 ms as we first used it (litellm 1.101.6): without
``turn_off_message_logging`` 2.8 ms, for it copies each reply to redact logs that have no reader here; ``no-log``,
``disable_token_counter``, ``disable_streaming_logging``, ``disable_end_user_cost_tracking`` and
``disable_aiohttp_transport`` nothing. 2.4 ms of the rest are the OpenAI SDK, which it uses for such a vendor; our own
client takes 0.24 ms. What most of it costs is left out where ``_library_form`` suffices.

Its import took 208 MB, of which 41 were an encoding of tiktoken, which is now loaded when something is counted with it.
15 were its models of pydantic, which are now built when they are used. 16 more are its tokenizer for Claude, parsed and
as text, and 4 are what httpx loads for its command line: no setting leaves these out.
"""

import json
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import Any, NoReturn, cast

from pydantic import BaseModel

from bot.api import (
    AuthenticationError,
    HttpErrorResponse,
    MalformedDataError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
    TokenPrice,
)
from plugins.models._provider_errors import MAX_SHOWN_CHARS, ErrorRemedy, provider_error
from plugins.models._vendors import library_file
from plugins.models._wire_call import MAX_REPLY_BYTES, WireCall, WireReply
from plugins.models._wire_chat import chat_messages, parse_chat_reply, response_format, tool_fields

# Must be in the environment before the import: then no list of prices and no list of headers is fetched from the
# network, and no .env file of a parent folder is read into our environment, which is what the library's default mode
# does.
QUIET_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
# The list of prices that the library brings and, offline, uses.
PRICE_FILE = "model_prices_and_context_window_backup.json"
LIBRARY_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
# Vendors that bill a repeated beginning less only where it is marked.
CACHE_MARK_VENDORS = frozenset({"bedrock", "vertex_ai"})
_FIRST_ERROR_STATUS = 400
# The one of tiktoken with which the library estimates tokens.
_ENCODING = "cl100k_base"
# Prices of prompts of more than so many thousand tokens.
_LONG_PROMPT_KEY = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_MISSING_KEY_PATTERN = re.compile(
    r"missing (?:\w+ )?(?:api[ _]?key|credentials)|api[_ ]key (?:client option )?must be set", re.IGNORECASE
)


def load_library() -> ModuleType:
    """Import the library, silent and offline."""
    os.environ.update(QUIET_SETTINGS)
    _defer_encoding()
    with _deferred_models():
        import litellm  # seconds and 110 MB, which most vendors do not need

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    # Each call is a copy of our own, so it need not copy all tools again.
    litellm.safe_memory_mode = True
    # The callbacks that would get its logs; with none, what redacts messages for them is only work.
    for callbacks in (litellm.callbacks, litellm.success_callback, litellm.failure_callback, litellm.input_callback):
        callbacks.clear()
    for name in LIBRARY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Warnings at the first call of each process, about the library's own types.
    warnings.filterwarnings("ignore", message="Item '.*' on TypedDict class", category=UserWarning)
    return litellm


@contextmanager
def _deferred_models() -> Iterator[None]:
    """Let pydantic build each model that is defined meanwhile when it is first used (``defer_build``).

    The library defines hundreds, and a call uses a few: 15 MB and a fifth of the CPU of its import.
    """
    # Subclasses inherit it.
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]


class _DeferredEncoding:
    """The encoding that the library loads with its import, for its estimates: loaded by the first that needs it."""

    def __getattr__(self, name: str) -> object:
        from tiktoken import Encoding, registry  # noqa: PLC0415 - comes with the library, which is late

        if not isinstance(registry.ENCODINGS.get(_ENCODING), Encoding):
            registry.ENCODINGS.pop(_ENCODING, None)
        return getattr(registry.get_encoding(_ENCODING), name)


def _defer_encoding() -> None:
    """Leave out 40 MB and half a second: vendors count the tokens of a call themselves."""
    from tiktoken import registry  # noqa: PLC0415 - as above

    registry.ENCODINGS.setdefault(_ENCODING, cast("Any", _DeferredEncoding()))


# Prices


def read_price_list() -> Mapping[str, Mapping[str, Any]]:
    """Return the list of prices that the library brings, by model, read from its file: the import is not needed."""
    prices: Mapping[str, Mapping[str, Any]] = json.loads(library_file(PRICE_FILE).read_bytes())
    return prices


def listed_price(prices: Mapping[str, Mapping[str, Any]], model: str) -> TokenPrice | None:
    """Return the price of a model on the library's list, None where it has none there."""
    found = _list_entry(prices, model)
    if found is None:
        return None
    read, written = found.get("input_cost_per_token"), found.get("output_cost_per_token")
    # A missing price and a price of zero look the same on the list; only config declares a model free.
    if read is None or written is None or not (read or written):
        return None
    short = _entry_price(found, "")
    steps = sorted(int(step[1]) for name in found if (step := _LONG_PROMPT_KEY.fullmatch(name)))
    if not steps:
        return short
    # Of several steps the dearest counts from the first one on.
    dearest = max((_entry_price(found, f"_above_{step}k_tokens") for step in steps), key=lambda price: price.tokens_in)
    return replace(short, long_from=steps[0] * 1000, long=dearest)


def _list_entry(prices: Mapping[str, Mapping[str, Any]], model: str) -> Mapping[str, Any] | None:
    """Return the entry of a model, also where the list omits its vendor.

    The library's own look-up sends requests to some servers.
    """
    if model in prices:
        return prices[model]
    vendor, _, name = model.partition("/")
    found = prices.get(name)
    return found if found is not None and str(found.get("litellm_provider", "")).startswith(vendor) else None


def _entry_price(found: Mapping[str, Any], step: str) -> TokenPrice:
    """Return the prices of one step of an entry; a missing price is that of the first step."""

    def usd(kind: str) -> float | None:
        price = found.get(f"{kind}{step}")
        price = found.get(kind) if price is None else price
        return None if price is None else price * 1e6

    read, cached = usd("input_cost_per_token") or 0.0, usd("cache_read_input_token_cost")
    return TokenPrice(
        tokens_in=read,
        tokens_cached=read if cached is None else cached,
        tokens_out=usd("output_cost_per_token") or 0.0,
        tokens_written=usd("cache_creation_input_token_cost"),
    )


# Calls that the library translates


def library_fields(call: WireCall, library: ModuleType) -> dict[str, Any]:
    """Return the messages and fields of a call in the library's form, which is that of chat completions.

    A seed is only a wish, so it is omitted where the model is not known to accept it. The choice of a tool is left to
    the model, which is the default of all vendors.
    """
    supported, sampling = _supported_fields(library, call.model), call.sampling
    wanted: dict[str, Any] = {"max_tokens": sampling.max_tokens}
    if call.profile.takes_sampling:
        seed = sampling.seed if "seed" in supported else None
        wanted |= {"temperature": sampling.temperature, "seed": seed}
    if sampling.effort is not None:
        wanted["reasoning_effort"] = sampling.effort
    offered = tool_fields(call) if call.prompt.tools else {}
    taken = {name: value for name, value in offered.items() if name == "tools" or name in supported}
    fields = {"messages": chat_messages(call), **wanted, **taken, **response_format(call)}
    # Our own copy: the library changes messages and schemas in place, for some vendors.
    copied: dict[str, Any] = json.loads(json.dumps(fields))
    return copied


@lru_cache(maxsize=128)
def _supported_fields(library: ModuleType, model: str) -> frozenset[str]:
    # The library takes a twentieth of the CPU of a call to find them.
    return frozenset(library.get_supported_openai_params(model=model) or ())


def library_request(call: WireCall, library: ModuleType) -> dict[str, Any]:
    """Return the arguments of the library's function that makes a call."""
    return {
        "model": call.model,
        **library_fields(call, library),
        **_single_request(call.model.partition("/")[0]),
    }


def _single_request(vendor: str) -> dict[str, Any]:
    """Return the arguments with which the library sends one request, never a second one that may be billed too.

    Two names for the same; either alone keeps the other's default for some vendors. Where the library forgets the
    second one before it uses the OpenAI SDK, that would send three requests.
    """
    from litellm.constants import openai_compatible_providers  # the library is late

    forgotten = {"allowed_openai_params": ["max_retries"]} if vendor in openai_compatible_providers else {}
    return {"num_retries": 0, "max_retries": 0, **forgotten}


def read_library_reply(
    reply: Any,  # noqa: ANN401 - the library's own type is late
    call: WireCall,
    *,
    cost: float | None,
) -> WireReply:
    """Return what a reply of the library says; raises MalformedDataError for one without its documented form."""
    raw: dict[str, Any] = reply.model_dump(warnings=False)
    for chosen in raw.get("choices") or ():
        message = chosen.get("message") or {}
        message["refusal"] = (message.get("provider_specific_fields") or {}).get("refusal")
        chosen["message"] = _without_empty_fields(message)
    answer = parse_chat_reply({**raw, "error": None, "usage": _usage_with_cost(raw.get("usage"), cost)}, call)
    said_all = answer.completion
    size = len(said_all.text) + len(said_all.thinking) + sum(len(made.arguments) for made in said_all.calls)
    if size > MAX_REPLY_BYTES:
        message = f"{call.display_name}: the reply is larger than {MAX_REPLY_BYTES} bytes"
        raise MalformedDataError(message)
    return answer


def _without_empty_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the empty fields that the library adds: some servers refuse unknown fields."""
    fields = {
        name: value for name, value in (message.get("provider_specific_fields") or {}).items() if value is not None
    }
    kept = {name: value for name, value in message.items() if name != "provider_specific_fields"}
    return {**kept, **({"provider_specific_fields": fields} if fields else {})}


def _usage_with_cost(usage: dict[str, Any] | None, cost: float | None) -> dict[str, Any] | None:
    """Return the usage with the library's own figure of the cost; it invents zeros where a server gave nothing."""
    if not usage or not (usage.get("prompt_tokens") or usage.get("completion_tokens")):
        return None
    return {**usage, "cost": cost}


# Errors


def raise_library_error(error: Exception, library: ModuleType, *, shown: str, remedy: ErrorRemedy) -> NoReturn:
    """Raise our error: by the status where the provider answered, by the cause where the network failed, else by class.

    The library uses InternalServerError, with a status of its own making, also for a broken answer and a lost
    connection.
    """
    error_text = remedy.redact(" ".join(str(error).split("Traceback")[0].split()))
    # Its own text lacks the codes for some vendors.
    body = getattr(error.__cause__ or error.__context__, "body", None)
    whole = f"{error_text} {json.dumps(body)}" if isinstance(body, dict) else error_text
    message = f"{shown}: {error_text[:MAX_SHOWN_CHARS]}"
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None and _MISSING_KEY_PATTERN.search(error_text):
        # Nothing was sent: the library found no key, in our settings or in the environment.
        message = f"{shown}: no key; set {remedy.key_variable}"
        raise AuthenticationError(message, sent=False) from None
    exceptions = library.exceptions
    causes = list(_error_causes(error))
    if isinstance(error, exceptions.Timeout) or any(_is_connection_error(cause) for cause in causes):
        _raise_connection_error(
            error, causes, message=f"{shown}: {{}} ({error_text[:MAX_SHOWN_CHARS]})", reached=remedy.address_setting
        )
    if headers is not None and not isinstance(error, exceptions.APIConnectionError):
        status = int(error.status_code)  # type: ignore[attr-defined]  # each of its errors has
        if status < _FIRST_ERROR_STATUS:
            # The vendor answered, and may bill, what the library could not read.
            raise MalformedDataError(message) from error
        asked, asked_ms = headers.get("retry-after", ""), headers.get("retry-after-ms", "")
        wait_s = float(asked_ms) / 1000.0 if asked_ms.isdigit() else float(asked) if asked.isdigit() else None
        raise provider_error(
            HttpErrorResponse(status=status, body=whole), shown=shown, remedy=remedy, wait_s=wait_s
        ) from None
    _raise_by_error_class(error, library, shown=shown, error_text=error_text, remedy=remedy)
    raise MalformedDataError(message) from error


def _raise_by_error_class(
    error: Exception, library: ModuleType, *, shown: str, error_text: str, remedy: ErrorRemedy
) -> None:
    exceptions = library.exceptions
    statuses = {
        401: (exceptions.AuthenticationError, exceptions.PermissionDeniedError),
        429: (exceptions.RateLimitError,),
        503: (exceptions.ServiceUnavailableError, exceptions.BadGatewayError),
        400: (exceptions.BadRequestError, exceptions.NotFoundError, exceptions.UnprocessableEntityError),
    }
    if isinstance(error, exceptions.UnsupportedParamsError):
        message = f"{shown}: {error_text[:MAX_SHOWN_CHARS]}"
        raise RequestRejectedError(message) from None
    status = next((status for status, kinds in statuses.items() if isinstance(error, kinds)), None)
    if status is not None:
        raise provider_error(HttpErrorResponse(status=status, body=error_text), shown=shown, remedy=remedy) from None


def _raise_connection_error(
    error: Exception, causes: Sequence[BaseException], *, message: str, reached: str
) -> NoReturn:
    """Raise the error for a lost or failed connection: a request that was never sent cannot be billed.

    ``message`` has a placeholder for the fault.
    """
    if any(_was_never_sent(cause) for cause in causes):
        what = f"cannot be reached: check the network and {reached}"
        raise ServerUnreachableError(message.replace("{}", what, 1)) from None
    lost = message.replace("{}", "the connection was lost", 1)
    raise ServiceUnavailableError(lost) from ConnectionResetError(type(error).__name__)


def _error_causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_connection_error(error: BaseException) -> bool:
    """Tell a lost connection from other failures."""
    transport = {"httpx.TransportError", "openai.APIConnectionError", "aiohttp.ClientError", "builtins.OSError"}
    return not transport.isdisjoint(_class_names(error))


def _was_never_sent(error: BaseException) -> bool:
    """Return whether there never was a connection that could carry a request."""
    unsent = {
        *("httpx.ConnectError", "httpx.ConnectTimeout", "httpx.PoolTimeout", "httpx.UnsupportedProtocol"),
        *("aiohttp.ClientConnectorError", "aiohttp.ConnectionTimeoutError"),
        *("builtins.ConnectionRefusedError", "socket.gaierror"),
    }
    return not unsent.isdisjoint(_class_names(error))


def _class_names(error: BaseException) -> set[str]:
    """Return the names of an error's classes: their libraries cannot be imported here."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
