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
    ContextExceeded,
    FoxcastError,
    HttpRefusal,
    QuotaExhausted,
    Rejected,
    ServerUnreachable,
    Unauthorized,
    Unavailable,
)

SHOWN_CHARS = 300
FULL = 429
BROKE = 402
# What servers with strict types say of a field that they don't know, or whose type they don't.
_UNFIT = 422
_TRY_AGAIN = frozenset({408, 409, 425, 429})

# The account has no money, or has used up what it may use; some say so with the status of a rate limit.
_QUOTA = re.compile(
    r"insufficient_quota|credit_balance_exhausted|organization_spend_limit_exceeded|project_spend_limit_exceeded"
    r"|organization_usage_limit_exceeded|enforced_spend_limit_reached|billing_error|exceeded_current_quota_error"
    r"|\"Arrearage\"|insufficient[_ ](?:balance|credits?|funds)|credit balance is too low|monthly spending limit"
    r"|used all available credits|billing_hard_limit_reached",
    re.IGNORECASE,
)
# Of a day, or of nothing at all: the next day is no wait for a forecast.
_QUOTA_OF_A_DAY = re.compile(r"PerDay|limit:\s*0\b|\"quotaValue\":\s*\"0\"")
_IN_FLIGHT = re.compile(r"in_flight_budget")
_BAD_KEY = re.compile(r"API_KEY_INVALID|API key not valid|invalid x-api-key|Incorrect API key", re.IGNORECASE)
_MODERATED = re.compile(r"flagged|moderation", re.IGNORECASE)
_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size_error|prompt is too long|maximum context length|maximum prompt length"
    r"|context size|context window|input token count.{0,40}exceeds|exceeds the maximum number of (?:input )?tokens"
    r"|exceeded model token limit|Range of input length|Prompt exceeds max length|too large for model",
    re.IGNORECASE,
)
# What a provider signed or encrypted came back altered, or not at all.
_STATE = re.compile(
    r"thought[_ ]signature|MISSING_THOUGHT|invalid `?signature`?|`thinking`|redacted_thinking|cannot be modified"
    r"|bound to a different conversation|reasoning_content|reasoning_details|invalid_encrypted_content"
    r"|encrypted content.{0,60}verified|required '?reasoning'? item|required following item"
    r"|extra_forbidden|property '\w+' is unsupported",
    re.IGNORECASE,
)
_NO_AUTO = re.compile(r"--enable-auto-tool-choice")
_CHOICE = re.compile(r"tool[_ -]choice|forces tool use", re.IGNORECASE)
_WAIT = re.compile(r"\"retryDelay\":\s*\"(\d+(?:\.\d+)?)s\"|retry in (\d+(?:\.\d+)?) ?s", re.IGNORECASE)
_OVERLOADED = re.compile(r"overloaded|server_error|internal_error|api_error|rate_limit|slow_down", re.IGNORECASE)


class StateRefused(Rejected):
    """The provider refused a message that should have gone back as it came. The same call without it may be taken.

    ``sure`` is false where it may have refused something else.
    """

    def __init__(self, message: str, *, sure: bool = True) -> None:
        """Keep how sure it is."""
        super().__init__(message)
        self.sure = sure


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRemedy:
    """What a person can do, in words for the messages of errors.

    ``key`` is the variable of the key, ``choice`` the setting of the tool choice, ``reached`` where the address is set.
    ``clean`` takes secrets out of what a provider says.
    """

    key: str = ""
    choice: str = ""
    reached: str = ""
    clean: Callable[[str], str] = str

    @property
    def refused(self) -> str:
        """What to do about a key that was refused."""
        return f"the key was refused; set {self.key} to one that the provider takes for this model"

    @property
    def broke(self) -> str:
        """What to do about an account that is empty."""
        return f"the account has no money or no quota left; top it up, or set {self.key} to the key of another one"


def fault(
    refusal: HttpRefusal, *, shown: str, remedy: FaultRemedy, wait_s: float | None = None, named: bool = True
) -> FoxcastError:
    """Return the error that an answer other than 200 stands for; ``wait_s`` is what its headers ask for.

    ``named`` says that its status is worth telling.
    """
    status, text = refusal.status, remedy.clean(refusal.body)
    said = ": ".join(filter(None, (shown, f"status {status}" if named else "", message_in(text))))
    if found := _account_fault(status, text, said=said, shown=shown, remedy=remedy):
        error: FoxcastError = found
    elif status in _TRY_AGAIN or status >= 500 or (status == BROKE and _IN_FLIGHT.search(text)):
        error = Unavailable(said, retry_after_s=_asked_s(text, wait_s, status))
    else:
        error = _request_fault(status, text, said=said, remedy=remedy)
    error.refusal = HttpRefusal(status=status, body=text)
    return error


def translated(error: FoxcastError, *, shown: str, remedy: FaultRemedy) -> FoxcastError:
    """Return an error of a request over HTTP as it reads for the model that was asked."""
    wait_s = error.retry_after_s if isinstance(error, Unavailable) else None
    if error.refusal is not None and error.refusal.status >= 400:
        return fault(error.refusal, shown=shown, remedy=remedy, wait_s=wait_s)
    if isinstance(error, ServerUnreachable):
        return ServerUnreachable(f"{shown}: {error}" + (f" ({remedy.reached})" if remedy.reached else ""))
    if isinstance(error, Unavailable):
        return Unavailable(f"{shown}: {error}", retry_after_s=wait_s)
    return type(error)(f"{shown}: {error}")


def raise_fault(text: str, *, shown: str, remedy: FaultRemedy) -> NoReturn:
    """Raise what an error within an answer of status 200 means; one that names no status may pass."""
    raise fault(HttpRefusal(status=status_in(text), body=text), shown=shown, remedy=remedy, named=False)


def status_in(text: str) -> int:
    """Return the status that an error within an answer names, or stands for."""
    found = re.search(r"\"code\":\s*\"?(\d{3})\b", text)
    if found and 400 <= int(found[1]) < 600:
        return int(found[1])
    if _CONTEXT.search(text) or _STATE.search(text) or "invalid_request" in text or "invalid_prompt" in text:
        return 400
    return FULL if _QUOTA.search(text) or re.search("rate_limit|slow_down", text) else 503


def message_in(text: str) -> str:
    """Return the words for people in an error, in one line, wherever its form has them; else its beginning."""
    try:
        said = _words(json.loads(text))
    except (ValueError, RecursionError):
        said = ""
    return " ".join((said or text).split())[:SHOWN_CHARS]


def as_rejected(error: StateRefused, hint: str = "") -> Rejected:
    """Return the error of a message that was refused as it should be reported."""
    what = "What the model had said came back altered or incomplete: this is a fault of the adapter, please report it"
    return Rejected(f"{error}. {what}{hint}")


def _words(value: Any) -> str:  # noqa: ANN401 - JSON of no known form
    if isinstance(value, list):
        return _words(value[0]) if value else ""
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else ""
    inner = value.get("error")
    parts = [_words(inner)] if isinstance(inner, Mapping | str | list) else []
    parts += [_words(value.get(name)) for name in ("message", "detail", "msg")]
    raw = value.get("metadata")
    if isinstance(raw, Mapping) and raw.get("raw"):
        # A router wraps what the server behind it said.
        parts.append(f"({raw.get('provider_name', 'upstream')}: {message_in(str(raw['raw']))})")
    return " ".join(dict.fromkeys(part for part in parts if part))


def _account_fault(status: int, text: str, *, said: str, shown: str, remedy: FaultRemedy) -> FoxcastError | None:
    """Return the error where key or account are at fault."""
    detail = f"({said.removeprefix(f'{shown}: ')})"
    if (status == BROKE and not _IN_FLIGHT.search(text)) or (400 <= status < 500 and _QUOTA.search(text)):
        return QuotaExhausted(f"{shown}: {remedy.broke} {detail}")
    if status == FULL and _QUOTA_OF_A_DAY.search(text):
        return QuotaExhausted(f"{shown}: {remedy.broke} {detail}")
    if status == 403 and _MODERATED.search(text):
        return Rejected(said)
    if status in {401, 403} or (status == 400 and _BAD_KEY.search(text)):
        return Unauthorized(f"{shown}: {remedy.refused} {detail}")
    return None


def _request_fault(status: int, text: str, *, said: str, remedy: FaultRemedy) -> FoxcastError:
    if _CONTEXT.search(text):
        return ContextExceeded(said)
    if _CHOICE.search(text):
        return Rejected(said + _choice_remedy(text, remedy))
    if _STATE.search(text):
        return StateRefused(said)
    if status == _UNFIT:
        return StateRefused(said, sure=False)
    if status in {404, 410}:
        return Rejected(f"{said}; is the name of the model right, and the address?")
    return Rejected(said)


def _choice_remedy(text: str, remedy: FaultRemedy) -> str:
    if not remedy.choice:
        return ""
    if _NO_AUTO.search(text):
        return f'. This server cannot leave the choice of a tool to the model; set {remedy.choice} = "required"'
    return f'. Leave the choice of a tool to the model: set {remedy.choice} = "auto"'


def _asked_s(text: str, wait_s: float | None, status: int) -> float | None:
    """Return how long to wait, as headers or text say; a full provider that says nothing of it says zero."""
    if wait_s:
        return wait_s
    if found := _WAIT.search(text):
        return float(found[1] or found[2])
    return 0.0 if status == FULL else wait_s
