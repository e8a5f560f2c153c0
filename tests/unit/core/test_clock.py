from datetime import UTC, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bot.core.clock import SeededRandom, SystemClock

# The unit separator stands between labels.
labels = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x1f"), max_size=5), max_size=3)


def test_the_time_of_the_system_is_aware_and_in_utc() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert first.tzinfo is UTC
    assert timedelta() <= second - first < timedelta(seconds=10)
    assert clock.monotonic() <= clock.monotonic()


async def test_a_sleep_lasts_as_long_as_it_was_asked_to() -> None:
    clock = SystemClock()
    start = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - start >= 0.01


@given(seed=st.integers(0, 2**64), first=labels, second=labels)
def test_chance_belongs_to_seed_and_labels_whatever_was_drawn_before(
    seed: int, first: list[str], second: list[str]
) -> None:
    random = SeededRandom(seed)
    random.stream("another").random(3)
    drawn = random.stream(*first).random()
    assert drawn == SeededRandom(seed).stream(*first).random()
    assert (drawn == random.stream(*second).random()) == (first == second)
    assert drawn != SeededRandom(seed + 1).stream(*first).random()


@given(seed=st.integers(0, 2**64), first=labels, second=labels)
def test_a_seed_of_31_bits_belongs_to_seed_and_labels(seed: int, first: list[str], second: list[str]) -> None:
    drawn = SeededRandom(seed).draw_seed(*first)
    assert 0 <= drawn < 2**31
    assert (drawn == SeededRandom(seed).draw_seed(*second)) == (first == second)
    assert drawn != SeededRandom(seed + 1).draw_seed(*first)
