"""What goes over the wire and comes back, as the writers of venues see it; and how often they may."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. Headers may hold keys and are in no repr, log or error.

    ``takes_back`` says that it ends something there, as a cancel or a withdrawal does: that may leave also while all is
    halted.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    takes_back: bool = False

    def __post_init__(self) -> None:
        """Freeze the headers."""
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What was answered, whatever its status; the names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Freeze the headers."""
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most ``count`` requests in any ``per_s`` seconds, at most ``at_once`` in flight, evenly spaced after a burst.

    It holds for requests whose method is in ``methods`` (all where empty) and whose URL begins with one of
    ``prefixes``; a request falls under every rate it matches. ``name`` is unique; what was used is remembered under it
    across restarts.
    """

    name: str
    prefixes: tuple[str, ...]
    count: int
    per_s: float
    methods: frozenset[str] = frozenset()
    burst: int = 1
    at_once: int | None = None
