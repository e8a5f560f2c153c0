"""The library litellm itself: how it is loaded, what it knows of prices, and calls that it translates.

It takes seconds to import, so it is imported by the first call, in a thread. Its retries, caches, routers and telemetry
stay off: it asks once. Its replies have no bound on their size before they are read.
"""

import json
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NoReturn

from bot.api import ContractError, HttpRefusal, Price, Rejected, ServerUnreachable, Unauthorized, Unavailable
from plugins.models._chat_reply import chat_reply
from plugins.models._faults import SHOWN_CHARS, FaultRemedy, fault
from plugins.models._wire_call import MAX_REPLY_BYTES, WireCall, WireReply
from plugins.models._wire_chat import chat_messages, response_format, tools_offered

# Must stand in the environment before the import: no list of prices and no list of headers is fetched from the network,
# and no .env file of a parent folder is read into our environment, which is what the library's default mode does.
GUARDS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
# Vendors that bill a repeated beginning less only where it is marked.
MARKED = frozenset({"bedrock", "vertex_ai"})
# Prices of prompts of more than so many thousand tokens.
_LONG = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_NO_KEY = re.compile(
    r"missing (?:\w+ )?(?:api[ _]?key|credentials)|api[_ ]key (?:client option )?must be set", re.IGNORECASE
)


def load() -> ModuleType:
    """Import the library, silent and offline."""
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


# Prices


def listed_price(prices: Mapping[str, Mapping[str, Any]], model: str) -> Price | None:
    """Return the price of a model on the library's list, None where it has none there."""
    found = _listed(prices, model)
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


def _listed(prices: Mapping[str, Mapping[str, Any]], model: str) -> Mapping[str, Any] | None:
    """Return the entry of a model, also where the list leaves its vendor out.

    The library's own look-up asks some servers over the network.
    """
    if model in prices:
        return prices[model]
    vendor, _, name = model.partition("/")
    found = prices.get(name)
    return found if found is not None and str(found.get("litellm_provider", "")).startswith(vendor) else None


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


# Calls that the library translates


def library_request(call: WireCall, supported: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of the library's function; ``supported`` are those that the model is known to take.

    A seed is a wish and no order, so it is left out where it is not taken. The choice of a tool is left to the model,
    which is what all vendors do where nothing is said of it.
    """
    sampling = call.sampling
    wanted: dict[str, Any] = {"max_tokens": sampling.max_tokens}
    if call.profile.sampling:
        seed = sampling.seed if "seed" in supported else None
        wanted |= {"temperature": sampling.temperature, "seed": seed}
    if sampling.effort is not None:
        wanted["reasoning_effort"] = sampling.effort
    offered = tools_offered(call) if call.prompt.tools else {}
    taken = {name: value for name, value in offered.items() if name == "tools" or name in supported}
    said = {**wanted, **taken, **response_format(call)}
    return {
        "model": call.model,
        # Of our own: the library changes messages and schemas in place, for one vendor or another.
        **json.loads(json.dumps({"messages": chat_messages(call), **said})),
        # Two names for the same in the library; either alone leaves the other's default for some vendors.
        "num_retries": 0,
        "max_retries": 0,
    }


def read_library(reply: Any, call: WireCall) -> WireReply:  # noqa: ANN401 - the library's own type is late
    """Return what a reply of the library says; raises ContractError for one without its documented form."""
    raw: dict[str, Any] = reply.model_dump(warnings=False)
    for chosen in raw.get("choices") or ():
        said = chosen.get("message") or {}
        said["refusal"] = (said.get("provider_specific_fields") or {}).get("refusal")
        chosen["message"] = _without_nothing(said)
    cost = reply._hidden_params.get("response_cost")  # noqa: SLF001 - where the library documents it
    answer = chat_reply({**raw, "error": None, "usage": _counted(raw.get("usage"), cost)}, call)
    said_all = answer.completion
    size = len(said_all.text) + len(said_all.thinking) + sum(len(made.arguments) for made in said_all.calls)
    if size > MAX_REPLY_BYTES:
        message = f"{call.shown}: the reply is larger than {MAX_REPLY_BYTES} bytes"
        raise ContractError(message)
    return answer


def _without_nothing(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without what the library adds and leaves empty: some servers refuse unknown fields."""
    fields = {name: value for name, value in (said.get("provider_specific_fields") or {}).items() if value is not None}
    kept = {name: value for name, value in said.items() if name != "provider_specific_fields"}
    return {**kept, **({"provider_specific_fields": fields} if fields else {})}


def _counted(usage: dict[str, Any] | None, cost: float | None) -> dict[str, Any] | None:
    """Return the usage with the library's own reckoning of the cost; it makes up zeros where a server told nothing."""
    if not usage or not (usage.get("prompt_tokens") or usage.get("completion_tokens")):
        return None
    return {**usage, "cost": cost}


# Errors


def translate(error: Exception, library: ModuleType, *, shown: str, remedy: FaultRemedy) -> NoReturn:
    """Raise ours: by the status where the provider answered, by the cause where the network failed, else by class.

    The library says InternalServerError, with a status of its own making, also for a broken answer and a lost
    connection.
    """
    said = remedy.clean(" ".join(str(error).split("Traceback")[0].split()))
    # Its own text lacks the codes for some vendors.
    body = getattr(error.__cause__ or error.__context__, "body", None)
    whole = f"{said} {json.dumps(body)}" if isinstance(body, dict) else said
    message = f"{shown}: {said[:SHOWN_CHARS]}"
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None and _NO_KEY.search(said):
        # Nothing left: the library found no key, in our settings or in the environment.
        message = f"{shown}: no key; set {remedy.key}"
        raise Unauthorized(message, sent=False) from None
    exceptions = library.exceptions
    causes = list(_causes(error))
    if isinstance(error, exceptions.Timeout) or any(_is_transport(cause) for cause in causes):
        _raise_lost(error, causes, message=f"{shown}: {{}} ({said[:SHOWN_CHARS]})", reached=remedy.reached)
    if headers is not None and not isinstance(error, exceptions.APIConnectionError):
        status = int(error.status_code)  # type: ignore[attr-defined]  # each of its errors has
        asked = headers.get("retry-after", "")
        wait_s = float(asked) if asked.isdigit() else None
        raise fault(HttpRefusal(status=status, body=whole), shown=shown, remedy=remedy, wait_s=wait_s) from None
    _raise_by_class(error, library, shown=shown, said=said, remedy=remedy)
    raise ContractError(message) from error


def _raise_by_class(error: Exception, library: ModuleType, *, shown: str, said: str, remedy: FaultRemedy) -> None:
    exceptions = library.exceptions
    statuses = {
        401: (exceptions.AuthenticationError, exceptions.PermissionDeniedError),
        429: (exceptions.RateLimitError,),
        503: (exceptions.ServiceUnavailableError, exceptions.BadGatewayError),
        400: (exceptions.BadRequestError, exceptions.NotFoundError, exceptions.UnprocessableEntityError),
    }
    if isinstance(error, exceptions.UnsupportedParamsError):
        message = f"{shown}: {said[:SHOWN_CHARS]}"
        raise Rejected(message) from None
    status = next((status for status, kinds in statuses.items() if isinstance(error, kinds)), None)
    if status is not None:
        raise fault(HttpRefusal(status=status, body=said), shown=shown, remedy=remedy) from None


def _raise_lost(error: Exception, causes: Sequence[BaseException], *, message: str, reached: str) -> NoReturn:
    """Raise what a connection that was lost, or never made, means: what never left cannot be billed.

    ``message`` has a place for what it is.
    """
    if any(_is_unsent(cause) for cause in causes):
        what = f"cannot be reached: look at the network and at {reached}"
        raise ServerUnreachable(message.replace("{}", what, 1)) from None
    lost = message.replace("{}", "the connection was lost", 1)
    raise Unavailable(lost) from ConnectionResetError(type(error).__name__)


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
