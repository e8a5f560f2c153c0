"""One provider as it is asked: through its queue, past its breaker, and again after a wait where that may help."""

import asyncio
from typing import TYPE_CHECKING

from bot.config.model import ProviderSection
from bot.domain.prompt import Completion
from bot.errors import ContractError, FoxcastError, Unauthorized, Unavailable
from bot.llm.admission import Queue
from bot.llm.breaker import Passage, Verdict
from bot.llm.call import Call
from bot.llm.faults import is_busy, may_be_billed, named
from bot.llm.lane import Lane, World
from bot.llm.patience import Patience
from bot.llm.place import place_of
from bot.llm.roles import name_of
from bot.ports import Llm

if TYPE_CHECKING:
    import numpy as np

# Waits between attempts are drawn from zero to the first one doubled each time, at most the longest.
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


class Line:
    """The way to one provider. Its queue is one; each server behind it, named before a slash, has a lane of its own."""

    def __init__(self, name: str, llm: Llm, section: ProviderSection, *, world: World) -> None:
        """Open the queue."""
        self.name = name
        self.llm = llm
        self._section = section
        self._world = world
        self._queue = Queue(section, clock=world.clock)
        self._lanes: dict[str, Lane] = {}
        self._lane_of: dict[str, Lane] = {}
        self._places: dict[str, str] = {}
        self._jitter: np.random.Generator | None = None

    def is_open(self, model: str) -> bool:
        """Say whether the server of a model is not left alone."""
        return self._lane(model).is_open

    def place(self, model: str) -> str:
        """Return where a model is served, as far as the provider tells."""
        if model not in self._places:
            self._places[model] = place_of(self.llm, model)
        return self._places[model]

    async def ready(self, model: str, patience: Patience) -> None:
        """Wait until a model may be asked; raises Unavailable as ``Lane.ready`` does."""
        lane = self._lane(model)
        if not lane.is_clear:
            await lane.ready(patience)

    async def complete(self, call: Call, patience: Patience) -> Completion:
        """Ask until there is an answer, within the time there is.

        What fails is tried as often as configured. To be asked to wait is no failure: who has nobody else to ask waits
        and asks again. What may have been billed is asked again as often as the call says, within the same attempts.
        Raises what the provider raises, Unavailable while it is left alone, and ContractError for a provider that fails
        in a way no provider may.
        """
        lane = self._lane(call.order.model)
        failures = 0
        while True:
            try:
                return await self._attempt(call, lane, patience)
            except Unavailable as error:
                failures += not is_busy(error)
                if call.doubtful or self._gives_up(call, failures, lane, patience):
                    raise
                wait_s = self._wait_s(failures) if error.retry_after_s is None else error.retry_after_s
                if max(wait_s, lane.wait_s) >= patience.left_s:
                    raise
            await self._world.clock.sleep(wait_s)

    async def _attempt(self, call: Call, lane: Lane, patience: Patience) -> Completion:
        while True:
            await lane.ready(patience)
            async with self._queue.place():
                passage = await self._passage(call, lane)
                if passage is not None:
                    return await self._send(call, lane, passage, patience)

    async def _passage(self, call: Call, lane: Lane) -> Passage | None:
        """Return leave to send a request that is on record, or None where the lane was closed meanwhile."""
        if not lane.is_clear:
            return None
        await call.begin()
        return lane.enter()

    def _gives_up(self, call: Call, failures: int, lane: Lane, patience: Patience) -> bool:
        if patience.elsewhere():
            return call.attempts >= self._section.attempts or not lane.is_open
        return failures >= self._section.attempts

    async def _send(self, call: Call, lane: Lane, passage: Passage, patience: Patience) -> Completion:
        verdict = Verdict.NONE
        sent_at = self._world.clock.monotonic()
        call.attempts, call.doubtful = call.attempts + 1, True
        try:
            completion = await self._ask(call)
            verdict = Verdict.ALIVE
        except FoxcastError as error:
            call.doubtful = may_be_billed(error)
            # What has no key never left.
            call.attempts -= isinstance(error, Unauthorized) and not error.sent
            verdict = Verdict.FAILED if isinstance(error, Unavailable) else Verdict.ALIVE
            if isinstance(error, Unavailable) and is_busy(error):
                verdict = Verdict.NONE
                lane.pause(error, sent_at=sent_at)
            raise
        except asyncio.CancelledError:
            # A deadline shorter than the role's own tells about the caller, not about the provider.
            if patience.was_fair(self._world.clock.monotonic() - sent_at):
                verdict = Verdict.FAILED
            raise
        finally:
            call.latency_s = self._world.clock.monotonic() - sent_at
            lane.leave(passage, verdict)
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
            message = f"{order.model}: its provider failed with {named(error)}"
            raise ContractError(message) from error

    def _lane(self, model: str) -> Lane:
        if model not in self._lane_of:
            server, slash, _ = name_of(model).partition("/")
            name = f"{self.name}:{server}" if slash else self.name
            if name not in self._lanes:
                self._lanes[name] = Lane(name, self._section, world=self._world)
            self._lane_of[model] = self._lanes[name]
        return self._lane_of[model]

    def _wait_s(self, failures: int) -> float:
        if self._jitter is None:
            self._jitter = self._world.random.stream("llm", "jitter", self.name)
        ceiling = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failures - 1))
        return float(self._jitter.uniform(0.0, ceiling))
