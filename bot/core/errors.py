"""One tree of errors; each class says who must act. Catch only what you can handle.

::

    FoxcastError
    ├── ConfigError                         operator: correct config.toml, an environment variable or an argument
    │   └── PluginError                     operator or plugin author: the plugin cannot be loaded as configured
    ├── AuthenticationError                 operator: renew the credentials; the plugin stops until then
    │   └── QuotaExhaustedError             operator: the account has no money or quota; waiting does not help
    ├── ServiceUnavailableError             nobody: wait, then try again (``retry_after_s`` if the service named it)
    │   └── ServerUnreachableError          operator: start the server, correct its address, or check the network
    ├── RequestRejectedError                nobody: this one item was refused with a reason; skip it
    │   ├── BudgetExhaustedError            operator: a budget of config.toml does not allow the call
    │   └── ContextLengthExceededError      nobody: the conversation is too long for the model; it can only be ended
    ├── TrialLimitReachedError              nobody: a loop reached a limit of its own before it submitted
    ├── MalformedDataError                  developer: a service or plugin broke its documented form
    ├── LeakError                           researcher: data from after the cutoff was about to be used
    ├── NotFoundError                       operator: no such question, forecast or file
    └── StoreError                          operator: the database, the disk or the backup needs attention
        └── StateFolderLockedError          operator: another Foxcast uses this state folder
"""

from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_foreign_message, redact_message


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpErrorResponse:
    """An HTTP response other than 200: its status and the beginning of its body, without the keys of the request."""

    status: int
    body: str


class FoxcastError(Exception):
    """The root of all errors that Foxcast raises on purpose.

    ``refusal`` is the response that the error describes, where a request got one other than 200.
    """

    refusal: HttpErrorResponse | None = None


class ConfigError(FoxcastError):
    """A setting, environment variable or argument cannot be used; the message names it and the remedy."""


class PluginError(ConfigError):
    """A plugin cannot be loaded or does not follow the hook specifications."""


class AuthenticationError(FoxcastError):
    """The service refused the credentials; ``sent`` is False if there are none, so that no request was sent."""

    def __init__(self, message: str = "", *, sent: bool = True) -> None:
        """Keep whether a request was sent."""
        super().__init__(message)
        self.sent = sent


class QuotaExhaustedError(AuthenticationError):
    """The credentials are valid and the account has no money or quota left, so every further request fails."""


class ServiceUnavailableError(FoxcastError):
    """The service cannot answer now; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """Keep the requested wait in seconds, if the service named one."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServerUnreachableError(ServiceUnavailableError):
    """No connection was made, so nothing was sent: no server listens, the name is unknown, or there is no network."""


class RequestRejectedError(FoxcastError):
    """One item was refused with a reason; the others are unaffected."""


class BudgetExhaustedError(RequestRejectedError):
    """A budget does not allow the call; the model was not asked."""


class ContextLengthExceededError(RequestRejectedError):
    """The conversation is longer than the model accepts."""


class TrialLimitReachedError(FoxcastError):
    """A loop ended at a limit before it submitted; its last belief counts where it was stated after evidence.

    ``limit`` is "steps", "tokens", "time", "repeats" (the same call again and again) or "context".
    """

    def __init__(self, message: str, *, limit: str) -> None:
        """Keep the name of the limit."""
        super().__init__(message)
        self.limit = limit


class MalformedDataError(FoxcastError):
    """An answer does not have its documented form."""


class LeakError(FoxcastError):
    """Something from after the cutoff would have reached a forecast, a fit or a backtest."""


class NotFoundError(FoxcastError):
    """Nothing has the given name or id."""


class StoreError(FoxcastError):
    """The database or its disk needs a person's attention."""


class StateFolderLockedError(StoreError):
    """Another process uses this state folder."""


_ERROR_NAMES = frozenset(
    error_class.__name__
    for error_class in (
        ConfigError,
        PluginError,
        AuthenticationError,
        QuotaExhaustedError,
        ServiceUnavailableError,
        ServerUnreachableError,
        RequestRejectedError,
        BudgetExhaustedError,
        ContextLengthExceededError,
        TrialLimitReachedError,
        MalformedDataError,
        LeakError,
        NotFoundError,
        StoreError,
        StateFolderLockedError,
    )
)


def describe_error(error: BaseException) -> str:
    """Return an error for a person, without secrets: of a FoxcastError only the message, of others also the type."""
    if isinstance(error, FoxcastError):
        return redact_message(str(error)) or type(error).__name__
    return describe_error_with_type(error)


def describe_error_with_type(error: BaseException) -> str:
    """Return an error with its type and without secrets; a foreign error also without possible secrets."""
    text = f"{type(error).__name__}: {error}"
    return redact_message(text) if isinstance(error, FoxcastError) else redact_foreign_message(text)


def strip_error_type(text: str) -> str:
    """Return a recorded error for a person: without its class if that is one of this module."""
    name, colon, message = text.partition(": ")
    return message if colon and message and name in _ERROR_NAMES else text
