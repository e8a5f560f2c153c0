"""Times that mark what is asked, so that no cache has an answer to it."""

from bot.ports import Clock


class Stamps:
    """Milliseconds of a clock, but never the same twice.

    Under an address with one in it nothing was ever asked before, so no cache has an old answer to it.
    """

    def __init__(self, clock: Clock) -> None:
        """Keep the clock; the first stamp is the time at which it is asked for."""
        self._clock = clock
        self._last_ms = 0

    def next_ms(self) -> int:
        """Return the time in milliseconds, or one more than the last time where that is later."""
        self._last_ms = max(round(self._clock.now().timestamp() * 1000), self._last_ms + 1)
        return self._last_ms
