"""How long one inquiry may take, and how much of it each model gets, so that one that hangs leaves time for the next.

What is waited for the budget is nobody's fault: it counts for the caller, who has other things to do, and not for the
role.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A model that has another one behind it gets half of what is left, and at least this much.
LEAST_S = 1.0
# Less than this is no time: timers of a simulated loop may come early by a little.
MOMENT_S = 1e-3


class Patience:
    """The time of one inquiry: ``role_s`` is what its role allows; both are in seconds from now."""

    def __init__(self, *, role_s: float, caller_s: float) -> None:
        """Begin now."""
        now = _now()
        self.role_s = role_s
        self._role_ends = now + role_s
        self._caller_ends = now + caller_s
        self._limit: asyncio.Timeout | None = None
        self._fair_s = role_s
        self._elsewhere: Callable[[], bool] | None = None

    @property
    def left_s(self) -> float:
        """What is left for the model that is being asked."""
        when = None if self._limit is None else self._limit.when()
        return (self._ends if when is None else when) - _now()

    @property
    def over(self) -> bool:
        """Whether no time is left for any model."""
        return self._ends - _now() < MOMENT_S

    @property
    def hurried(self) -> bool:
        """Whether it was the caller who had no more time, which tells nothing about the models."""
        return self.over and self._caller_ends < self._role_ends

    @property
    def expired(self) -> bool:
        """Whether the share of the model that is being asked is used up."""
        return self._limit is not None and self._limit.expired()

    def elsewhere(self) -> bool:
        """Say whether another model could take the prompt now."""
        return self._elsewhere is not None and self._elsewhere()

    def was_fair(self, waited_s: float) -> bool:
        """Say whether a model that was given up after so many seconds had the time that models have in this role."""
        return self.expired and waited_s >= self._fair_s / 2

    def share(self, elsewhere: Callable[[], bool] | None = None) -> asyncio.Timeout:
        """Return the share of the next model, to be entered now; it raises TimeoutError when it is used up.

        ``elsewhere``, where another model comes after this one, says whether that one could take the prompt now.
        """
        left_s = max(0.0, self._ends - _now())
        self._elsewhere = elsewhere
        self._fair_s = self.role_s if elsewhere is None else self.role_s / 2
        part_s = left_s if elsewhere is None else min(left_s, max(LEAST_S, left_s / 2))
        self._limit = asyncio.timeout(part_s)
        return self._limit

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let only the caller's time pass while entered."""
        limit, began = self._limit, _now()
        when = None if limit is None else limit.when()
        if limit is None or when is None:
            message = "only a share can be paused"
            raise RuntimeError(message)
        limit.reschedule(self._caller_ends)
        try:
            yield
        finally:
            waited_s = _now() - began
            self._role_ends += waited_s
            if not limit.expired():
                limit.reschedule(min(self._caller_ends, when + waited_s))

    @property
    def _ends(self) -> float:
        return min(self._role_ends, self._caller_ends)


def _now() -> float:
    return asyncio.get_running_loop().time()
