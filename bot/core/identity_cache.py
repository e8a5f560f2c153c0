"""What was made of objects that never change, found by their identity: tools, schemas and messages of prompts."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MadeT = TypeVar("MadeT")

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
