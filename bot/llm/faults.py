"""What an error of a provider means for money and for the queue, and how an error that is not ours is written down.

The text of a foreign error may hold whatever its library knew, an address with a key in it for instance, so it never
comes into our own messages: they are on record for ever.
"""

from collections.abc import Iterator
from pathlib import PurePath

from bot.errors import ContractError, ServerUnreachable, Unauthorized, Unavailable


def may_be_billed(error: BaseException) -> bool:
    """Say whether a request that ended in this error may have been worked on.

    It ended without an answer that can be read (ContractError), or it broke off: Unavailable with a TimeoutError or a
    lost connection behind it. A connection that was refused carried no request.
    """
    if isinstance(error, ContractError):
        return True
    return isinstance(error, Unavailable) and any(_broke_off(cause) for cause in _behind(error))


def never_left(error: BaseException) -> bool:
    """Say whether no request was sent at all: there was no key, or no connection."""
    return is_unreached(error) or (isinstance(error, Unauthorized) and not error.sent)


def is_unreached(error: BaseException) -> bool:
    """Say whether no connection was made: ServerUnreachable, or Unavailable with a refused connection behind it."""
    if isinstance(error, ServerUnreachable):
        return True
    return isinstance(error, Unavailable) and any(isinstance(one, ConnectionRefusedError) for one in _behind(error))


def is_busy(error: BaseException) -> bool:
    """Say whether a provider asked for patience, with or without saying how long: it is there, and full."""
    return isinstance(error, Unavailable) and error.retry_after_s is not None


def named(error: BaseException) -> str:
    """Return the type of an error that is not ours and the line that raised it, without its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}{where}"


def _broke_off(cause: BaseException) -> bool:
    return isinstance(cause, TimeoutError | ConnectionError) and not isinstance(cause, ConnectionRefusedError)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yield what led to an error, as a traceback shows it."""
    seen = {id(error)}
    while (cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        if id(cause) in seen:
            return
        seen.add(id(cause))
        yield cause
        error = cause
