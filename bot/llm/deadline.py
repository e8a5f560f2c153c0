"""The deadline of one request, and the share of the time that each model gets, so that a fallback has time left."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A model with a fallback gets half of the time left, and at least this much.
MIN_SHARE_S = 1.0
# Less than this counts as no time, because timers of a simulated loop may fire a little early.
MIN_TIME_LEFT_S = 1e-3


class RequestDeadline:
    """The time of one request: ``role_s`` is what its role allows; both are in seconds from now."""

    def __init__(self, *, role_s: float, caller_s: float) -> None:
        """Begin now."""
        now = _loop_time()
        self.role_s = role_s
        self._role_ends = now + role_s
        self._caller_ends = now + caller_s
        self._share_timeout: asyncio.Timeout | None = None
        self._full_share_s = role_s
        self._alternative_check: Callable[[], bool] | None = None

    @property
    def remaining_s(self) -> float:
        """The time left for the model that is being asked."""
        when = None if self._share_timeout is None else self._share_timeout.when()
        return (self._ends_at if when is None else when) - _loop_time()

    @property
    def is_over(self) -> bool:
        """Whether no time is left for any model."""
        return self._ends_at - _loop_time() < MIN_TIME_LEFT_S

    @property
    def caller_ran_out(self) -> bool:
        """Whether only the deadline of the caller has passed, which says nothing about the models."""
        return self.is_over and self._caller_ends < self._role_ends

    @property
    def share_expired(self) -> bool:
        """Whether the share of the model that is being asked is used up."""
        return self._share_timeout is not None and self._share_timeout.expired()

    def has_alternative(self) -> bool:
        """Return whether another model could take the prompt now."""
        return self._alternative_check is not None and self._alternative_check()

    def had_fair_share(self, waited_s: float) -> bool:
        """Return whether a model that was abandoned after so many seconds had at least half of its usual time."""
        return self.share_expired and waited_s >= self._full_share_s / 2

    def next_share(self, is_alternative_available: Callable[[], bool] | None = None) -> asyncio.Timeout:
        """Return the share of the next model, to be entered now; it raises TimeoutError when it is used up.

        ``is_alternative_available``, if another model follows, returns whether that one could take the prompt now.
        """
        left_s = max(0.0, self._ends_at - _loop_time())
        self._alternative_check = is_alternative_available
        self._full_share_s = self.role_s if is_alternative_available is None else self.role_s / 2
        part_s = left_s if is_alternative_available is None else min(left_s, max(MIN_SHARE_S, left_s / 2))
        self._share_timeout = asyncio.timeout(part_s)
        return self._share_timeout

    @contextmanager
    def pause_role_time(self) -> Iterator[None]:
        """Stop the time of the role while entered; the time of the caller continues."""
        limit, began = self._share_timeout, _loop_time()
        when = None if limit is None else limit.when()
        if limit is None or when is None:
            message = "only a share can be paused"
            raise RuntimeError(message)
        limit.reschedule(self._caller_ends)
        try:
            yield
        finally:
            waited_s = _loop_time() - began
            self._role_ends += waited_s
            if not limit.expired():
                limit.reschedule(min(self._caller_ends, when + waited_s))

    @property
    def _ends_at(self) -> float:
        return min(self._role_ends, self._caller_ends)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
