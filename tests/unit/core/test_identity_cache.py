from functools import partial

from bot.core.identity_cache import IdentityCache, WeakIdentityCache, WeakReferable


def test_what_was_made_of_the_same_objects_is_found_and_of_equal_ones_is_made_anew() -> None:
    cache: IdentityCache[int] = IdentityCache()
    first, equal, made = ["a"], ["a"], iter(range(9))
    assert [cache.find((one,), lambda: next(made)) for one in (first, equal, first)] == [0, 1, 0]
    assert cache.find((first,), lambda: next(made), key="other") == 2
    assert cache.find((first, equal), lambda: next(made)) == 3


def test_the_oldest_is_forgotten_first_and_no_kept_object_can_lose_its_identity() -> None:
    cache: IdentityCache[str] = IdentityCache(entries=2)
    # Each list is gone at once unless the cache keeps it; its address would then be that of the next one.
    assert [cache.find(([number],), partial(str, number)) for number in range(9)] == [*map(str, range(9))]
    first, second, third = [1], [2], [3]
    made = iter("abcdefgh")
    assert [cache.find((one,), lambda: next(made)) for one in (first, second, third)] == ["a", "b", "c"]
    assert [cache.find((one,), lambda: next(made)) for one in (third, second, first)] == ["c", "b", "d"]


class FakeSource(WeakReferable):
    """One that is equal to all others."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_what_is_made_of_an_object_is_known_until_the_object_is_gone() -> None:
    cache: WeakIdentityCache[FakeSource, str] = WeakIdentityCache()
    made: list[str] = []

    def make(source: FakeSource) -> str:
        made.append(source.text)
        return source.text.upper()

    first, equal = FakeSource("a"), FakeSource("b")
    assert [cache.find(one, make) for one in (first, equal, first, equal)] == ["A", "B", "A", "B"]
    assert made == ["a", "b"]
    del first
    assert len(cache) == 1
    # Each of these is gone at once, and the next one may get its address.
    assert [cache.find(FakeSource(str(number)), make) for number in range(9)] == [*map(str, range(9))]
    assert len(cache) == 1
