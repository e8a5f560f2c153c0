"""Tells a hang from a pause."""


class Silence:
    """How long no sign of life came, counted in looks and not by the clock.

    A process that was itself paused (SIGSTOP, a suspended machine) does not look meanwhile, so that it is not taken
    for hung when it goes on, although both its clocks have moved.
    """

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self._signs: int | None = None
        self._looks = 0

    def look(self, signs: int) -> float:
        """Return the silence in seconds, given how many signs of life there were so far; call it every look_s."""
        self._looks = self._looks + 1 if signs == self._signs else 0
        self._signs = signs
        return self._looks * self._look_s
