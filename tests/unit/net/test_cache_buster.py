from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bot.net.urls import CacheBuster
from bot.testing.clock import FakeClock


@given(steps=st.lists(st.floats(-7200.0, 7200.0), min_size=1, max_size=20))
def test_no_stamp_comes_twice_wherever_the_clock_is_set(steps: list[float]) -> None:
    clock = FakeClock()
    stamps, told = CacheBuster(clock), []
    for step in steps:
        clock.set_wall_clock(step)
        told.append(stamps.next_ms())
    assert all(earlier < later for earlier, later in pairwise(told))
    assert all(stamp >= round(clock.now().timestamp() * 1000) for stamp in told[-1:])
