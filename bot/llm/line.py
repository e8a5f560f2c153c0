"""One provider as it is asked: through its queue, past its breaker, and again after a wait where that may help."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.config.llm_schema import ProviderSection
from bot.domain.prompt import Completion, ModelDefaults
from bot.errors import ContractError, FoxcastError, QuotaExhausted, Unavailable
from bot.llm.admission import Queue
from bot.llm.breaker import Passage, Verdict
from bot.llm.call import Call
from bot.llm.defaults import defaults_of
from bot.llm.faults import is_busy, is_unreached, may_be_billed, named, never_left
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
# A server that cannot be reached is tried so much later each time: a restart is over by then, a wrong address is not.
UNREACHED_WAITS_S = (1.0, 2.0)


@dataclass(slots=True)
class _Tries:
    """How often one call failed: with an answer of failure or none, and before anything was sent."""

    failures: int = 0
    unreached: int = 0


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
        self._defaults: dict[str, ModelDefaults] = {}
        self._jitter: np.random.Generator | None = None

    def is_open(self, model: str) -> bool:
        """Say whether the server of a model is not left alone."""
        return self._lane(model).is_open

    def place(self, model: str) -> str:
        """Return where a model is served, as far as the provider tells."""
        if model not in self._places:
            self._places[model] = place_of(self.llm, model)
        return self._places[model]

    def defaults(self, model: str) -> ModelDefaults:
        """Return what the provider recommends for a model."""
        if model not in self._defaults:
            self._defaults[model] = defaults_of(self.llm, model)
        return self._defaults[model]

    async def ready(self, model: str, patience: Patience) -> None:
        """Wait until a model may be asked; raises Unavailable as ``Lane.ready`` does."""
        lane = self._lane(model)
        if not lane.is_clear:
            await lane.ready(patience)

    async def complete(self, call: Call, patience: Patience) -> Completion:
        """Ask until there is an answer, within the time there is.

        What fails is tried as often as configured. To be asked to wait is no failure: who has nobody else to ask waits
        and asks again. What may have been billed is asked again as often as the call says, within the same attempts.
        What could not be sent is tried again for three seconds; then nobody waits for this server until it is tried
        anew.
        Raises what the provider raises, Unavailable while it is left alone, and ContractError for a provider that fails
        in a way no provider may.
        """
        lane, tries = self._lane(call.order.model), _Tries()
        while True:
            try:
                return await self._attempt(call, lane, patience)
            except Unavailable as error:
                again = self._reach_again_s if is_unreached(error) else self._again_s
                wait_s = again(call, tries, patience, error)
                if wait_s is None or max(wait_s, lane.wait_s) >= patience.left_s:
                    raise
            await lane.sleep(wait_s)

    def _again_s(self, call: Call, tries: _Tries, patience: Patience, error: Unavailable) -> float | None:
        """Return after how many seconds a request that failed is sent again, or None where it is not."""
        tries.failures += not is_busy(error)
        if call.doubtful or self._gives_up(call, tries.failures, patience):
            return None
        return self._jittered_s(tries.failures) if error.retry_after_s is None else error.retry_after_s

    def _reach_again_s(self, call: Call, tries: _Tries, patience: Patience, error: Unavailable) -> float | None:
        """Return after how many seconds a server that could not be reached is tried again, or None, and shut it."""
        lane = self._lane(call.order.model)
        tries.unreached += 1
        last = min(self._section.attempts, 1 + len(UNREACHED_WAITS_S))
        if lane.is_open and tries.unreached < last:
            return UNREACHED_WAITS_S[tries.unreached - 1]
        lane.shut(error)
        return None

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

    def _gives_up(self, call: Call, failures: int, patience: Patience) -> bool:
        if patience.elsewhere():
            return call.attempts >= self._section.attempts or not self.is_open(call.order.model)
        return failures >= self._section.attempts

    async def _send(self, call: Call, lane: Lane, passage: Passage, patience: Patience) -> Completion:
        verdict, failed = Verdict.NONE, None
        sent_at = self._world.clock.monotonic()
        call.attempts, call.doubtful = call.attempts + 1, True
        try:
            completion = await self._ask(call)
            verdict = Verdict.ALIVE
        except FoxcastError as error:
            call.doubtful, failed = may_be_billed(error), error
            call.attempts -= never_left(error)
            verdict = _verdict(error, passage)
            if isinstance(error, QuotaExhausted):
                raise lane.exhaust(error) from error
            if isinstance(error, Unavailable) and is_busy(error):
                lane.pause(error, sent_at=sent_at)
            raise
        except asyncio.CancelledError:
            # A deadline shorter than the role's own tells about the caller, not about the provider.
            if patience.was_fair(self._world.clock.monotonic() - sent_at):
                verdict = Verdict.FAILED
            raise
        finally:
            call.latency_s = self._world.clock.monotonic() - sent_at
            lane.leave(passage, verdict, failed)
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

    def _jittered_s(self, failures: int) -> float:
        if self._jitter is None:
            self._jitter = self._world.random.stream("llm", "jitter", self.name)
        ceiling = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failures - 1))
        return float(self._jitter.uniform(0.0, ceiling))


def _verdict(error: FoxcastError, passage: Passage) -> Verdict:
    """Return what an error tells about a server. That nothing could be sent counts once the tries are over."""
    if not isinstance(error, Unavailable):
        return Verdict.ALIVE
    if is_unreached(error):
        return Verdict.FAILED if passage.probe else Verdict.NONE
    return Verdict.NONE if is_busy(error) else Verdict.FAILED
