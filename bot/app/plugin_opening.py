"""Opens one part of a plugin so that its errors name it; a part that cannot be opened stops no other."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from typing import Any, TypeVar

import structlog

from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    PluginError,
    ServiceUnavailableError,
    describe_error,
)
from bot.core.language_models import ModelCompletion, Prompt, SamplingSettings, TokenPrice
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import BaseSpec, ConfigurableSpec

OPENING_TIME_LIMIT_S = 60.0
OpeningError = PluginError | ServiceUnavailableError | AuthenticationError
T = TypeVar("T")

log = structlog.get_logger(__name__)


@asynccontextmanager
async def enter_plugin(
    spec: ConfigurableSpec[Any],
    opener: Callable[[], AbstractAsyncContextManager[T]],
    *,
    limit_s: float = OPENING_TIME_LIMIT_S,
) -> AsyncIterator[T]:
    """Enter what a factory of a plugin returns; its errors say which part of which plugin cannot be opened.

    An error while it is closed is logged. Raises ConfigError as the factory raises it, ServiceUnavailableError or
    AuthenticationError where a later attempt may succeed, and PluginError for everything else.
    """
    part = describe_part(spec)
    try:
        manager = opener()
        async with asyncio.timeout(limit_s):
            opened = await _enter(manager)
    except (Exception, SystemExit) as error:
        raise _opening_error(part, error, limit_s) from error
    try:
        yield opened
    finally:
        try:
            await manager.__aexit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything; the others are closed all the same
            log.warning("a part of a plugin did not close", part=part, error=describe_error(error))


async def _enter(manager: AbstractAsyncContextManager[T]) -> T:
    returned: object = manager
    if not isinstance(returned, AbstractAsyncContextManager):
        message = (
            f"its factory returned {type(returned).__name__}, not an async context manager; write it as an async "
            "generator with one yield, under @asynccontextmanager"
        )
        raise PluginError(message)
    opened = await manager.__aenter__()
    if opened is None:
        message = "its factory yielded None"
        raise PluginError(message)
    return opened


def _opening_error(part: str, error: BaseException, limit_s: float) -> FoxcastError:
    text = f"the {part} cannot be opened: {describe_error(error)}"
    if isinstance(error, ServiceUnavailableError):
        return ServiceUnavailableError(text, retry_after_s=error.retry_after_s)
    if isinstance(error, TimeoutError):
        return ServiceUnavailableError(f"the {part} cannot be opened: its factory took over {limit_s:g} s")
    if isinstance(error, AuthenticationError):
        return AuthenticationError(text, sent=error.sent)
    if isinstance(error, ConfigError) and not isinstance(error, PluginError):
        return error
    if not isinstance(error, FoxcastError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text += f" ({last.filename}:{last.lineno})"
    return PluginError(text)


def describe_part(spec: BaseSpec) -> str:
    """Return the kind and name of a part, such as ``venue NAME``."""
    return f"{type(spec).__name__.removesuffix('Spec').lower()} {spec.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningFault:
    """A part of a plugin that could not be opened; ``retry`` opens it once more, and closes it."""

    spec: ConfigurableSpec[Any]
    error: OpeningError
    retry: Callable[[], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class OpeningRetry:
    """A job for a part that could not be opened: it fails as the part did, then tries again until that succeeds.

    Then ``reopen`` is called, since the others were put together without the part. The first run reports what is
    known, so that a single pass fails too.
    """

    fault: OpeningFault
    reopen: Callable[[], None]
    _is_reported: bool = field(default=False, init=False)

    async def retry_opening(self) -> str:
        """Run the job once; raises what opening the part raises."""
        if not self._is_reported:
            self._is_reported = True
            raise self.fault.error
        await self.fault.retry()
        self.reopen()
        return f"the {describe_part(self.fault.spec)} can be opened now, so the daemon starts again with it"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnopenedProvider:
    """Stands for a model provider that could not be opened: every request fails, so that other models are asked."""

    error: OpeningError

    async def price(self, model: str) -> TokenPrice | None:
        """Return None: the price is unknown."""
        return None

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        """Raise ServiceUnavailableError with the reason."""
        raise ServiceUnavailableError(str(self.error))
