"""One tree of errors that say who must act; catch only what you can act on.

::

    FoxcastError
    ├── ConfigError          operator: mend config.toml, an environment variable or an argument
    │   └── PluginError      operator or plugin author: the plugin cannot be loaded as configured
    ├── Unauthorized         operator: renew the credentials; the plugin stops until then
    │   └── QuotaExhausted   operator: the account has no money or quota left; waiting does not help
    ├── Unavailable          nobody: wait, then try again (``retry_after_s`` where the other side said so)
    │   └── ServerUnreachable  operator: start the server, correct its address, or look at the network
    ├── Rejected             nobody: this one item was refused with a reason; skip it
    │   ├── BudgetExhausted  operator: a budget of config.toml does not allow the call
    │   └── ContextExceeded  nobody: the conversation is longer than the model takes; it can only be ended
    ├── LimitReached         nobody: a loop came to a limit of its own before it submitted
    ├── ContractError        developer: the other side, or a plugin, broke its documented form
    ├── LeakError            researcher: data from after the cutoff was about to be used
    ├── NotFound             operator: no such question, forecast or file
    └── StoreError           operator: the database, the disk or the backup needs attention
        └── InstanceLocked   operator: another Foxcast uses this state folder
"""

from dataclasses import dataclass

from bot.redact import foreign, said


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRefusal:
    """An HTTP answer other than 200: its status and the beginning of its body, with our keys hidden."""

    status: int
    body: str


class FoxcastError(Exception):
    """The root: whatever Foxcast raises on purpose.

    ``refusal`` is the answer that the error stands for, where a request got one that was no 200.
    """

    refusal: HttpRefusal | None = None


class ConfigError(FoxcastError):
    """A setting, environment variable or argument cannot be used; the message names it and the remedy."""


class PluginError(ConfigError):
    """A plugin cannot be loaded or does not keep to the hooks."""


class Unauthorized(FoxcastError):
    """The other side refused the credentials, or, where ``sent`` is false, there are none, and nobody was asked."""

    def __init__(self, message: str = "", *, sent: bool = True) -> None:
        """Keep whether anything left."""
        super().__init__(message)
        self.sent = sent


class QuotaExhausted(Unauthorized):
    """The credentials are good and the account has no money or no quota left, so every further request fails."""


class Unavailable(FoxcastError):
    """The other side cannot answer now; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """Keep the wait that the other side asked for, in seconds, if it named one."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServerUnreachable(Unavailable):
    """No connection was made, so nothing was sent: nobody listens, the name is unknown, or there is no network."""


class Rejected(FoxcastError):
    """One item was refused with a reason; the others are unaffected."""


class BudgetExhausted(Rejected):
    """A budget does not allow the call; the model was not asked."""


class ContextExceeded(Rejected):
    """The conversation is longer than the model takes."""


class LimitReached(FoxcastError):
    """A loop ended at a limit before it submitted; its last belief counts where it was stated after evidence.

    ``limit`` is "steps", "tokens", "time", "repeats" (the same call again and again) or "context".
    """

    def __init__(self, message: str, *, limit: str) -> None:
        """Keep which limit it was."""
        super().__init__(message)
        self.limit = limit


class ContractError(FoxcastError):
    """An answer does not have its documented form."""


class LeakError(FoxcastError):
    """Something from after the cutoff would have reached a forecast, a fit or a backtest."""


class NotFound(FoxcastError):
    """Nothing answers to the given name or id."""


class StoreError(FoxcastError):
    """The database or the disk below it needs a person."""


class InstanceLocked(StoreError):
    """Another process holds this state folder."""


_NAMES = frozenset(
    one.__name__
    for one in (
        ConfigError,
        PluginError,
        Unauthorized,
        QuotaExhausted,
        Unavailable,
        ServerUnreachable,
        Rejected,
        BudgetExhausted,
        ContextExceeded,
        LimitReached,
        ContractError,
        LeakError,
        NotFound,
        StoreError,
        InstanceLocked,
    )
)


def told(error: BaseException) -> str:
    """Return an error for a person, without secrets: the message of one of ours alone, a foreign one with its type."""
    if isinstance(error, FoxcastError):
        return said(str(error)) or type(error).__name__
    return named(error)


def named(error: BaseException) -> str:
    """Return an error with its type, without secrets, and of a foreign one without what may be one."""
    text = f"{type(error).__name__}: {error}"
    return said(text) if isinstance(error, FoxcastError) else foreign(text)


def unnamed(said: str) -> str:
    """Return what is on record of an error for a person: without the class, where it is one of ours."""
    name, colon, message = said.partition(": ")
    return message if colon and message and name in _NAMES else said
