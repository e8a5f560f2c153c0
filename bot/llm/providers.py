"""What providers report about a model without a request, and what their errors mean.

They report defaults, the location of a model, and missing setup.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import cast

from bot.config.schema import RoleSection
from bot.core.errors import (
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    ServerUnreachableError,
    ServiceUnavailableError,
)
from bot.core.interfaces import ModelProvider
from bot.core.language_models import ModelDefaults, SamplingSettings
from bot.llm.roles import bare_model_name

_OVERLOAD_STATUSES = frozenset({503, 504, 529})


def may_be_billed(error: BaseException) -> bool:
    """Return whether the provider may have worked on a request that ended in this error.

    Its answer could not be parsed (MalformedDataError), or it was interrupted: ServiceUnavailableError with a
    TimeoutError or a lost connection as its cause. After a refused connection no request was sent.
    """
    if isinstance(error, MalformedDataError):
        return True
    return isinstance(error, ServiceUnavailableError) and any(_lost_connection(cause) for cause in _error_causes(error))


def was_never_sent(error: BaseException) -> bool:
    """Return whether no request was sent at all: there was no key, or no connection."""
    return is_unreachable(error) or (isinstance(error, AuthenticationError) and not error.sent)


def is_unreachable(error: BaseException) -> bool:
    """Return whether no connection was made.

    ServerUnreachableError, or ServiceUnavailableError caused by a refused connection.
    """
    if isinstance(error, ServerUnreachableError):
        return True
    return isinstance(error, ServiceUnavailableError) and any(
        isinstance(one, ConnectionRefusedError) for one in _error_causes(error)
    )


def is_busy(error: BaseException) -> bool:
    """Return whether a provider asked for a pause, with or without its length: it is available and busy."""
    return isinstance(error, ServiceUnavailableError) and error.retry_after_s is not None


def is_overloaded(error: BaseException) -> bool:
    """Return whether a provider refused a request because there are too many: it asked for a pause, or is overloaded.

    503 and 504 are for that (RFC 9110, sections 15.6.4 and 15.6.5), and 529 is sent by some providers.
    """
    if not isinstance(error, ServiceUnavailableError):
        return False
    return is_busy(error) or (error.refusal is not None and error.refusal.status in _OVERLOAD_STATUSES)


def timed_out(error: BaseException) -> bool:
    """Return whether a request was sent and got no answer in time."""
    return isinstance(error, ServiceUnavailableError) and any(
        isinstance(cause, TimeoutError) for cause in _error_causes(error)
    )


def describe_foreign_error(error: BaseException) -> str:
    """Return the type of a foreign error and the line that raised it, without its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}{where}"


def _lost_connection(cause: BaseException) -> bool:
    return isinstance(cause, TimeoutError | ConnectionError) and not isinstance(cause, ConnectionRefusedError)


def _error_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, as a traceback shows them."""
    seen = {id(error)}
    while (cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        if id(cause) in seen:
            return
        seen.add(id(cause))
        yield cause
        error = cause


# Helper roles, and the reasoning effort in them unless config sets another one.
HELPER_ROLES = frozenset({"filter", "summariser"})
HELPER_EFFORT = "low"
# Enough for reasoning and an answer at moderate effort; with a limit below 4,000 reasoning models return empty answers.
FALLBACK_DEFAULTS = ModelDefaults(max_tokens=16_000)


def provider_defaults(llm: ModelProvider, model: str) -> ModelDefaults:
    """Return what a provider recommends for a model, ``provider:name``.

    16,000 tokens and no effort if it recommends nothing. Raises a FoxcastError of the provider, and MalformedDataError
    for any other error.
    """
    defaults = getattr(llm, "defaults", None)
    if defaults is None:
        return FALLBACK_DEFAULTS
    try:
        found = defaults(bare_model_name(model))
        usable = isinstance(found, ModelDefaults) and found.max_tokens > 0
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {describe_foreign_error(error)} when asked for its defaults"
        raise MalformedDataError(message) from error
    if not usable:
        message = f"{model}: its provider's defaults are {type(found).__name__}, or have no limit of tokens above 0"
        raise MalformedDataError(message)
    return cast("ModelDefaults", found)


def sampling_settings(
    role: str, table: RoleSection, recommended: ModelDefaults, *, seed: int | None = None
) -> SamplingSettings:
    """Return the sampling settings of a model in a role: those of the role's table, else the recommended ones.

    In the helper roles, which mostly read, a reasoning model uses low effort.
    """
    effort: str | None = table.effort
    if effort is None and recommended.effort is not None:
        effort = HELPER_EFFORT if role in HELPER_ROLES else recommended.effort
    return SamplingSettings(
        max_tokens=recommended.max_tokens if table.max_tokens is None else table.max_tokens,
        temperature=table.temperature,
        effort=effort,
        seed=seed,
    )


def model_location(llm: ModelProvider, model: str) -> str:
    """Return where a model is served, as the provider reports it; "" if it reports nothing.

    Raises a FoxcastError of the provider, and MalformedDataError for any other error.
    """
    place = getattr(llm, "place", None)
    if place is None:
        return ""
    try:
        location = place(bare_model_name(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {describe_foreign_error(error)} when asked where it is served"
        raise MalformedDataError(message) from error
    if not isinstance(location, str):
        message = f"{model}: its provider gives its location as {type(location).__name__}, not as text"
        raise MalformedDataError(message)
    return location


def describe_call_path(llm: ModelProvider, model: str) -> str | None:
    """Return what its provider reports of an expensive way to a model, ``provider:name``; None if there is nothing."""
    call_path = getattr(llm, "call_path", None)
    described = None if call_path is None else call_path(bare_model_name(model))
    return None if described is None else str(described)


async def find_missing_setup(llm: ModelProvider, model: str) -> str | None:
    """Return what is missing for a model, ``provider:name``, as its provider reports it; None if nothing is.

    Raises a FoxcastError of the provider, and MalformedDataError for any other error.
    """
    lacks = getattr(llm, "lacks", None)
    if lacks is None:
        return None
    try:
        missing = await lacks(bare_model_name(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {describe_foreign_error(error)} when asked what is missing"
        raise MalformedDataError(message) from error
    return None if missing is None else str(missing)
