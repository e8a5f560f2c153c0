"""What the edge cache of a fake venue forgets, so that a year of answers does not fill the memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bot.simulator.edge_cache import CapturedResponse, EdgeCache
from bot.testing.clock import FakeClock

MOST = 100
PATHS = ("/a", "/b", "/c", "/d")


def answer(size: int, *, status: int = 200, age: str = "") -> CapturedResponse:
    """Return an answer of so many bytes."""
    return CapturedResponse(status=status, headers=(("cache-control", age),) if age else (), body=b"x" * size)


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.integers(0, MOST + 10))))
def test_the_answers_that_came_last_are_kept_as_far_as_there_is_room(noted: list[tuple[str, int]]) -> None:
    edge = EdgeCache(FakeClock(), most_bytes=MOST)
    for path, size in noted:
        edge.remember(path, answer(size))
    kept = {path: len(old.body) for path in PATHS if (old := edge.get_stale(path)) is not None}
    assert sum(len(path) + size for path, size in kept.items()) <= MOST
    assert kept.items() <= dict(noted).items()
    room, newest = MOST, dict[str, int]()
    for path, size in reversed(noted):
        room -= len(path) + size
        if room < 0:
            break
        newest.setdefault(path, size)
    assert newest.items() <= kept.items()


def test_an_error_takes_no_room_and_leaves_what_is_known() -> None:
    edge = EdgeCache(FakeClock(), most_bytes=MOST)
    edge.remember("/a", answer(90))
    edge.remember("/a", answer(90, status=500))
    edge.remember("/b", answer(90, status=404))
    assert (edge.get_stale("/a"), edge.get_stale("/b")) == (answer(90), None)


def test_a_cleared_cache_has_all_its_room_again() -> None:
    edge = EdgeCache(FakeClock(), most_bytes=MOST)
    edge.remember("/a", answer(90))
    edge.clear()
    edge.remember("/b", answer(60))
    edge.remember("/c", answer(30))
    assert [edge.get_stale(path) is None for path in ("/a", "/b", "/c")] == [True, False, False]


async def test_what_is_too_large_to_keep_is_asked_for_each_time() -> None:
    edge, asked = EdgeCache(FakeClock(), most_bytes=MOST), []

    async def ask(size: int) -> CapturedResponse:
        asked.append(size)
        return answer(size, age="max-age=5")

    for size in (MOST, MOST, 10, 10):
        assert await edge.get(f"/{size}", lambda size=size: ask(size)) == answer(size, age="max-age=5")  # type: ignore[misc]
    assert asked == [MOST, MOST, 10]
