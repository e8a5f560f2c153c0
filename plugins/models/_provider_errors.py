"""What an error of a model provider means, whatever form it has: who must act, and whether waiting helps.

Providers agree neither on statuses nor on fields, and routers wrap one form into another. So the whole text of an error
is searched for the codes and sentences that vendors document or send.
Sources: error references of OpenAI, Anthropic, Google (``google.rpc``), DeepSeek, Moonshot, Z.AI, Alibaba Cloud, xAI,
Mistral and OpenRouter; the servers llama.cpp, vLLM, LM Studio and Ollama.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bot.api import (
    AuthenticationError,
    ContextLengthExceededError,
    FoxcastError,
    HttpErrorResponse,
    QuotaExhaustedError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
)

MAX_SHOWN_CHARS = 300
TOO_MANY_REQUESTS = 429
PAYMENT_REQUIRED = 402
# What strictly typed servers say about an unknown field, or one of another type.
_UNPROCESSABLE = 422
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})

# The account has no money, or has reached its limit; some report that with the status of a rate limit.
_QUOTA_PATTERN = re.compile(
    r"insufficient_quota|credit_balance_exhausted|organization_spend_limit_exceeded|project_spend_limit_exceeded"
    r"|organization_usage_limit_exceeded|enforced_spend_limit_reached|billing_error|exceeded_current_quota_error"
    r"|\"Arrearage\"|insufficient[_ ](?:balance|credits?|funds)|credit balance is too low|monthly spending limit"
    r"|used all available credits|billing_hard_limit_reached",
    re.IGNORECASE,
)
# A daily limit, or no allowance at all: a forecast cannot wait until the next day.
_DAILY_QUOTA_PATTERN = re.compile(r"PerDay|limit:\s*0\b|\"quotaValue\":\s*\"0\"")
_IN_FLIGHT_PATTERN = re.compile(r"in_flight_budget")
_BAD_KEY_PATTERN = re.compile(r"API_KEY_INVALID|API key not valid|invalid x-api-key|Incorrect API key", re.IGNORECASE)
_MODERATION_PATTERN = re.compile(r"flagged|moderation", re.IGNORECASE)
_CONTEXT_LENGTH_PATTERN = re.compile(
    r"context_length_exceeded|exceed_context_size_error|prompt is too long|maximum context length|maximum prompt length"
    r"|context size|context window|input token count.{0,40}exceeds|exceeds the maximum number of (?:input )?tokens"
    r"|exceeded model token limit|Range of input length|Prompt exceeds max length|too large for model",
    re.IGNORECASE,
)
# A part that a provider signed or encrypted was changed, or is missing.
_MODEL_STATE_PATTERN = re.compile(
    r"thought[_ ]signature|MISSING_THOUGHT|invalid `?signature`?|`thinking`|redacted_thinking|cannot be modified"
    r"|bound to a different conversation|reasoning_content|reasoning_details|invalid_encrypted_content"
    r"|encrypted content.{0,60}verified|required '?reasoning'? item|required following item"
    r"|extra_forbidden|property '\w+' is unsupported",
    re.IGNORECASE,
)
_NO_AUTO_CHOICE_PATTERN = re.compile(r"--enable-auto-tool-choice")
_TOOL_CHOICE_PATTERN = re.compile(r"tool[_ -]choice|forces tool use", re.IGNORECASE)
_RETRY_DELAY_PATTERN = re.compile(r"\"retryDelay\":\s*\"(\d+(?:\.\d+)?)s\"|retry in (\d+(?:\.\d+)?) ?s", re.IGNORECASE)


class ModelStateRefusedError(RequestRejectedError):
    """The provider refused a message that should have been sent back unchanged. The same call without it may succeed.

    ``sure`` is false where it may have refused something else.
    """

    def __init__(self, message: str, *, sure: bool = True) -> None:
        """Keep how sure it is."""
        super().__init__(message)
        self.is_certain = sure


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRemedy:
    """What a person can do, in words for the messages of errors.

    ``key_variable`` is the variable of the key, ``tool_choice_setting`` the setting of the tool choice,
    ``address_setting`` the setting of the address. ``redact`` removes secrets from the provider's text.
    """

    key_variable: str = ""
    tool_choice_setting: str = ""
    address_setting: str = ""
    redact: Callable[[str], str] = str

    @property
    def bad_key_advice(self) -> str:
        """What to do about a key that was refused."""
        return f"the key was refused; set {self.key_variable} to one that the provider accepts for this model"

    @property
    def empty_account_advice(self) -> str:
        """What to do about an account that is empty."""
        return f"the account has no money or no quota; add some, or set {self.key_variable} to the key of another one"


def provider_error(
    refusal: HttpErrorResponse, *, shown: str, remedy: ErrorRemedy, wait_s: float | None = None, named: bool = True
) -> FoxcastError:
    """Return the error for a response other than 200; ``wait_s`` is the wait in its headers.

    ``named`` says that its status is shown.
    """
    status, text = refusal.status, remedy.redact(refusal.body)
    message = ": ".join(filter(None, (shown, f"status {status}" if named else "", error_message(text))))
    if found := _account_error(status, text, message=message, shown=shown, remedy=remedy):
        error: FoxcastError = found
    elif (
        status in _RETRYABLE_STATUSES
        or status >= 500
        or (status == PAYMENT_REQUIRED and _IN_FLIGHT_PATTERN.search(text))
    ):
        error = ServiceUnavailableError(message, retry_after_s=_retry_after_s(text, wait_s, status))
    else:
        error = _request_error(status, text, message=message, remedy=remedy)
    error.refusal = HttpErrorResponse(status=status, body=text)
    return error


def translate_http_error(error: FoxcastError, *, shown: str, remedy: ErrorRemedy) -> FoxcastError:
    """Return an error of a request over HTTP with the name of the model that was asked."""
    wait_s = error.retry_after_s if isinstance(error, ServiceUnavailableError) else None
    if error.refusal is not None and error.refusal.status >= 400:
        return provider_error(error.refusal, shown=shown, remedy=remedy, wait_s=wait_s)
    if isinstance(error, ServerUnreachableError):
        return ServerUnreachableError(
            f"{shown}: {error}" + (f" ({remedy.address_setting})" if remedy.address_setting else "")
        )
    if isinstance(error, ServiceUnavailableError):
        return ServiceUnavailableError(f"{shown}: {error}", retry_after_s=wait_s)
    return type(error)(f"{shown}: {error}")


def raise_provider_error(text: str, *, shown: str, remedy: ErrorRemedy) -> NoReturn:
    """Raise the error within a response of status 200; one that names no status may pass."""
    raise provider_error(
        HttpErrorResponse(status=error_status(text), body=text), shown=shown, remedy=remedy, named=False
    )


def error_status(text: str) -> int:
    """Return the status that an error within a response names, or means."""
    found = re.search(r"\"code\":\s*\"?(\d{3})\b", text)
    if found and 400 <= int(found[1]) < 600:
        return int(found[1])
    if (
        _CONTEXT_LENGTH_PATTERN.search(text)
        or _MODEL_STATE_PATTERN.search(text)
        or "invalid_request" in text
        or "invalid_prompt" in text
    ):
        return 400
    return TOO_MANY_REQUESTS if _QUOTA_PATTERN.search(text) or re.search("rate_limit|slow_down", text) else 503


def error_message(text: str) -> str:
    """Return the message for people in an error, in one line, wherever its form has it; else its beginning."""
    try:
        found = _error_words(json.loads(text))
    except (ValueError, RecursionError):
        found = ""
    # Half a pair of surrogates, which JSON can hold, could not be printed.
    printable = (found or text).encode("utf-8", "replace").decode()
    return " ".join(printable.split())[:MAX_SHOWN_CHARS]


def state_refusal_report(error: ModelStateRefusedError, hint: str = "") -> RequestRejectedError:
    """Return the error for a refused message as it should be reported."""
    what = "The model's earlier message was sent back altered: this is a fault of the adapter, please report it"
    return RequestRejectedError(f"{error}. {what}{hint}")


def _error_words(value: Any) -> str:  # noqa: ANN401 - JSON of no known form
    if isinstance(value, list):
        return _error_words(value[0]) if value else ""
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else ""
    inner = value.get("error")
    parts = [_error_words(inner)] if isinstance(inner, Mapping | str | list) else []
    parts += [_error_words(value.get(name)) for name in ("message", "detail", "msg")]
    raw = value.get("metadata")
    if isinstance(raw, Mapping) and raw.get("raw"):
        # A router wraps the message of the server behind it.
        parts.append(f"({raw.get('provider_name', 'upstream')}: {error_message(str(raw['raw']))})")
    return " ".join(dict.fromkeys(part for part in parts if part))


def _account_error(status: int, text: str, *, message: str, shown: str, remedy: ErrorRemedy) -> FoxcastError | None:
    """Return the error where the key or the account is the cause."""
    detail = f"({message.removeprefix(f'{shown}: ')})"
    if (status == PAYMENT_REQUIRED and not _IN_FLIGHT_PATTERN.search(text)) or (
        400 <= status < 500 and _QUOTA_PATTERN.search(text)
    ):
        return QuotaExhaustedError(f"{shown}: {remedy.empty_account_advice} {detail}")
    if status == TOO_MANY_REQUESTS and _DAILY_QUOTA_PATTERN.search(text):
        return QuotaExhaustedError(f"{shown}: {remedy.empty_account_advice} {detail}")
    if status == 403 and _MODERATION_PATTERN.search(text):
        return RequestRejectedError(message)
    if status in {401, 403} or (status == 400 and _BAD_KEY_PATTERN.search(text)):
        return AuthenticationError(f"{shown}: {remedy.bad_key_advice} {detail}")
    return None


def _request_error(status: int, text: str, *, message: str, remedy: ErrorRemedy) -> FoxcastError:
    if _CONTEXT_LENGTH_PATTERN.search(text):
        return ContextLengthExceededError(message)
    if _TOOL_CHOICE_PATTERN.search(text):
        return RequestRejectedError(message + _choice_remedy(text, remedy))
    if _MODEL_STATE_PATTERN.search(text):
        return ModelStateRefusedError(message)
    if status == _UNPROCESSABLE:
        return ModelStateRefusedError(message, sure=False)
    if status in {404, 410}:
        return RequestRejectedError(f"{message}; check the name of the model, and the address")
    return RequestRejectedError(message)


def _choice_remedy(text: str, remedy: ErrorRemedy) -> str:
    if not remedy.tool_choice_setting:
        return ""
    if _NO_AUTO_CHOICE_PATTERN.search(text):
        return (
            ". This server cannot leave the choice of a tool to the model; "
            f'set {remedy.tool_choice_setting} = "required"'
        )
    return f'. Leave the choice of a tool to the model: set {remedy.tool_choice_setting} = "auto"'


def _retry_after_s(text: str, wait_s: float | None, status: int) -> float | None:
    """Return how long to wait, by headers or text; a busy provider that does not say returns zero."""
    if wait_s:
        return wait_s
    if found := _RETRY_DELAY_PATTERN.search(text):
        return float(found[1] or found[2])
    return 0.0 if status == TOO_MANY_REQUESTS else wait_s
