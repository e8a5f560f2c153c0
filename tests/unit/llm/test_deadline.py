"""How the time of a request is divided among models. All times are virtual seconds."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from bot.llm.deadline import RequestDeadline
from bot.testing.event_loop import VirtualClock, run_in_virtual_time


@pytest.mark.parametrize(
    ("role_s", "caller_s", "has_fallback", "share_s"),
    [
        # The shorter deadline counts, and the last model gets all of it.
        (100.0, 60.0, False, 60.0),
        (40.0, 60.0, False, 40.0),
        # A model with a fallback gets half, at least a second, and never more than there is.
        (100.0, 60.0, True, 30.0),
        (40.0, 60.0, True, 20.0),
        (1.5, 60.0, True, 1.0),
        (0.5, 60.0, True, 0.5),
    ],
)
def test_a_model_is_stopped_when_its_share_of_the_time_is_used_up(
    role_s: float, caller_s: float, share_s: float, *, has_fallback: bool
) -> None:
    async def main(clock: VirtualClock) -> tuple[float, bool, float]:
        deadline = RequestDeadline(role_s=role_s, caller_s=caller_s)
        with suppress(TimeoutError):
            async with deadline.next_share((lambda: True) if has_fallback else None):
                await clock.sleep(1000.0)
        assert deadline.has_alternative() is has_fallback
        stopped_at = clock.monotonic()
        with suppress(TimeoutError):
            async with deadline.next_share():
                await clock.sleep(1000.0)
        return stopped_at, deadline.share_expired, clock.monotonic()

    stopped_at, expired, over_at = run_in_virtual_time(main)
    assert expired
    assert [stopped_at, over_at] == pytest.approx([share_s, min(role_s, caller_s)])


def always() -> bool:
    return True


@pytest.mark.parametrize(("fallback", "usual_s"), [(None, 100.0), (always, 50.0)])
def test_a_model_had_its_fair_share_from_half_of_its_usual_time_on(
    fallback: Callable[[], bool] | None, usual_s: float
) -> None:
    """Usual is the time of the role, or half of it where a fallback follows, whatever the caller allows."""

    async def main(clock: VirtualClock) -> list[bool]:
        deadline = RequestDeadline(role_s=100.0, caller_s=10.0)
        waited_s, found = (usual_s / 2 - 0.1, usual_s / 2, usual_s), []
        with suppress(TimeoutError):
            async with deadline.next_share(fallback):
                # It still has time.
                found = [deadline.had_fair_share(seconds) for seconds in waited_s]
                await clock.sleep(1000.0)
        return found + [deadline.had_fair_share(seconds) for seconds in waited_s]

    assert run_in_virtual_time(main) == [False] * 3 + [False, True, True]


@pytest.mark.parametrize(("role_s", "caller_s", "alone"), [(5.0, 4.0, True), (5.0, 5.0, False), (4.0, 5.0, False)])
def test_only_a_caller_with_less_time_than_the_role_runs_out_alone(
    role_s: float, caller_s: float, *, alone: bool
) -> None:
    async def main(clock: VirtualClock) -> list[tuple[bool, bool]]:
        deadline = RequestDeadline(role_s=role_s, caller_s=caller_s)
        await clock.sleep(3.9)
        found = [(deadline.is_over, deadline.caller_ran_out)]
        await clock.sleep(min(role_s, caller_s) - 3.9)
        return [*found, (deadline.is_over, deadline.caller_ran_out)]

    assert run_in_virtual_time(main) == [(False, False), (True, alone)]


@pytest.mark.parametrize(
    ("caller_s", "left_s", "over_at"),
    [
        # Of ten seconds of the role four were used before the pause of five, so that six are left at nine.
        (30.0, 6.0, 15.0),
        (12.0, 3.0, 12.0),
        # The caller's time runs out during the pause.
        (7.0, None, 7.0),
    ],
)
def test_a_pause_counts_as_time_of_the_caller_only(caller_s: float, left_s: float | None, over_at: float) -> None:
    async def main(clock: VirtualClock) -> tuple[float | None, float, bool]:
        deadline, left = RequestDeadline(role_s=10.0, caller_s=caller_s), None
        with suppress(TimeoutError):
            async with deadline.next_share():
                await clock.sleep(4.0)
                with deadline.pause_role_time():
                    await clock.sleep(5.0)
                left = deadline.remaining_s
                await clock.sleep(1000.0)
        return left, clock.monotonic(), deadline.is_over

    left, ended_at, is_over = run_in_virtual_time(main)
    assert is_over
    assert ended_at == pytest.approx(over_at)
    assert left == (None if left_s is None else pytest.approx(left_s))
