"""What was made of objects that never change, found by their identity: tools, schemas and messages of prompts."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar
from weakref import ref

MadeT = TypeVar("MadeT")
ObjectT = TypeVar("ObjectT")

DEFAULT_ENTRIES = 256


class IdentityCache(Generic[MadeT]):
    """Keeps the last ``entries`` values, each with the objects that it was made of.

    An object that is kept cannot lose its identity to another one.
    """

    def __init__(self, entries: int = DEFAULT_ENTRIES) -> None:
        """Start empty."""
        self._most = entries
        self._values: dict[tuple[Hashable, ...], tuple[tuple[object, ...], MadeT]] = {}

    def find(self, objects: tuple[object, ...], make: Callable[[], MadeT], *, key: Hashable = None) -> MadeT:
        """Return what was made of these very objects and an equal ``key``, or make it now."""
        identity = (key, *map(id, objects))
        known = self._values.get(identity)
        if known is None:
            if len(self._values) >= self._most:
                del self._values[next(iter(self._values))]
            known = self._values[identity] = (objects, make())
        return known[1]


class WeakReferable:
    """A base of classes with slots whose objects may be in a ``WeakIdentityCache``."""

    __slots__ = ("__weakref__",)


class WeakIdentityCache(Generic[ObjectT, MadeT]):
    """Keeps what was made of each object for as long as the object lives; that must not hold the object itself."""

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[int, tuple[ref[ObjectT], MadeT]] = {}

    def __len__(self) -> int:
        """Return how many objects are known."""
        return len(self._values)

    def find(self, source: ObjectT, make: Callable[[ObjectT], MadeT]) -> MadeT:
        """Return what was made of this very object, or make it now."""
        identity = id(source)
        known = self._values.get(identity)
        if known is None:
            known = ref(source, partial(self._forget, identity)), make(source)
            self._values[identity] = known
        return known[1]

    def _forget(self, identity: int, _: ref[ObjectT]) -> None:
        del self._values[identity]
