"""One provider as it is asked: through its queue, its breaker, and again after a wait where that may help."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.config.model import ProviderSection
from bot.domain.prompt import Completion
from bot.errors import ContractError, FoxcastError, Unavailable
from bot.llm.admission import Queue
from bot.llm.breaker import Breaker, Turn, Verdict
from bot.llm.call import Call
from bot.llm.errands import Alarm
from bot.llm.roles import name_of
from bot.ports import Clock, Llm, Random

if TYPE_CHECKING:
    import numpy as np

# Waits between attempts are drawn from zero to the first one doubled each time, at most the longest.
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a caller waits: ``whole_s`` is what its role allows, ``limit`` the deadline of this very inquiry."""

    whole_s: float
    limit: asyncio.Timeout

    @property
    def left_s(self) -> float:
        """What is left of it, in seconds."""
        when = self.limit.when()
        return 0.0 if when is None else when - asyncio.get_running_loop().time()


class Line:
    """The way to one provider."""

    def __init__(self, name: str, llm: Llm, section: ProviderSection, *, world: "World") -> None:
        """Open the queue, with the breaker closed."""
        self.name = name
        self.llm = llm
        self._section = section
        self._world = world
        self._queue = Queue(section, clock=world.clock)
        self._breaker = Breaker(after=section.break_after, rest_s=section.break_s, clock=world.clock)
        self._jitter: np.random.Generator | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request could be sent now."""
        return self._breaker.wait_s == 0.0

    def require_open(self) -> None:
        """Raise Unavailable while the provider is left alone."""
        if not self.is_open:
            raise self._resting()

    async def complete(self, call: Call, patience: Patience) -> Completion:
        """Ask until there is an answer, at most so often as configured and never past the deadline.

        Raises what the provider raises, Unavailable while it is left alone, and ContractError for a provider that fails
        in a way no provider may. What may have been billed is not asked again.
        """
        while True:
            try:
                return await self._attempt(call, patience)
            except Unavailable as error:
                wait_s = self._wait_s(call.attempts, error.retry_after_s or 0.0)
                spent = call.attempts >= self._section.attempts or call.doubtful
                if spent or not self.is_open or wait_s >= patience.left_s:
                    raise
            await self._world.clock.sleep(wait_s)

    async def _attempt(self, call: Call, patience: Patience) -> Completion:
        async with self._queue.place():
            self.require_open()
            await call.begin()
            passage = self._breaker.enter()
            if passage is None:
                raise self._resting()
            verdict = Verdict.NONE
            sent_at = self._world.clock.monotonic()
            call.attempts, call.doubtful = call.attempts + 1, True
            try:
                completion = await self._ask(call)
                verdict = Verdict.ALIVE
            except FoxcastError as error:
                verdict = Verdict.FAILED if isinstance(error, Unavailable) else Verdict.ALIVE
                call.doubtful = _may_be_billed(error)
                raise
            except asyncio.CancelledError:
                # A deadline shorter than the role's own tells about the caller, not about the provider.
                waited_s = self._world.clock.monotonic() - sent_at
                if patience.limit.expired() and waited_s >= patience.whole_s / 2:
                    verdict = Verdict.FAILED
                raise
            finally:
                call.latency_s = self._world.clock.monotonic() - sent_at
                self._tell(self._breaker.leave(passage, verdict))
            return completion

    async def _ask(self, call: Call) -> Completion:
        order = call.order
        try:
            return await self.llm.complete(name_of(order.model), order.prompt, order.sampling)
        except TimeoutError as error:
            message = f"{order.model}: the provider gave up waiting"
            raise Unavailable(message) from error
        except FoxcastError:
            raise
        except Exception as error:
            message = f"{order.model}: its provider failed with {type(error).__name__}: {error}"
            raise ContractError(message) from error

    def _resting(self) -> Unavailable:
        wait_s = self._breaker.wait_s
        message = f"{self.name} failed {self._section.break_after} times in a row and is left alone for {wait_s:.0f} s"
        return Unavailable(message, retry_after_s=wait_s)

    def _tell(self, turn: Turn) -> None:
        if turn is Turn.OPENED:
            text = (
                f"{self._section.break_after} requests in a row failed. It is left alone for {self._section.break_s:g} "
                "s and then tried again; meanwhile the fallbacks of roles answer, where they have another provider."
            )
            self._world.alarm.tell(f"breaker {self.name}", f"Provider {self.name} does not answer", text)

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        if self._jitter is None:
            self._jitter = self._world.random.stream("llm", "jitter", self.name)
        ceiling = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a line needs besides its provider."""

    clock: Clock
    random: Random
    alarm: Alarm


def _may_be_billed(error: FoxcastError) -> bool:
    """Say whether the request may have been worked on: it ended without an answer that can be read, or without end."""
    return isinstance(error, ContractError) or (
        isinstance(error, Unavailable) and isinstance(error.__cause__, TimeoutError)
    )
