"""The callers of the API: whose token a request carries, how often it may ask, and what its forecasts may cost."""

import hmac
from collections import deque
from collections.abc import Mapping
from dataclasses import field

from starlette.requests import Request

from bot.config.secrets import read_api_token
from bot.config.serve_schema import CallerTable, ServeSection
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass

# Who asks where no caller has a table, and with the token of the server.
LOCAL_CALLER = "local"
MINUTE_S = 60.0


class ApiRefusal(Exception):
    """The request gets this status and sentence."""

    def __init__(self, status: int, text: str, *, retry_after_s: int | None = None) -> None:
        """Keep what is answered."""
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(slots=True, kw_only=True)
class ApiCaller:
    """One caller; ``limits`` is None for the operator, whom only the budgets of the engine bound."""

    name: str
    limits: CallerTable | None
    _asked_s: deque[float] = field(default_factory=deque)

    @property
    def reads_all(self) -> bool:
        """Whether it may read what others asked for, and all that is on record."""
        return self.limits is None or self.limits.reads

    def require_reading(self) -> None:
        """Raise ApiRefusal for a caller that may only ask."""
        if not self.reads_all:
            text = f"{self.name} may only ask for forecasts; set reads = true in [serve.callers.{self.name}]"
            raise ApiRefusal(403, text)

    def count_request(self, now_s: float) -> None:
        """Count a request; raises ApiRefusal above the rate."""
        if self.limits is None:
            return
        while self._asked_s and now_s - self._asked_s[0] >= MINUTE_S:
            self._asked_s.popleft()
        if len(self._asked_s) >= self.limits.per_minute:
            wait_s = max(1, round(MINUTE_S - (now_s - self._asked_s[0])))
            text = f"more than {self.limits.per_minute} requests a minute; ask again in {wait_s} s"
            raise ApiRefusal(429, text, retry_after_s=wait_s)
        self._asked_s.append(now_s)


@dataclass(slots=True, kw_only=True)
class CallerDirectory:
    """All callers and their tokens; ``server_token`` is that of the whole server."""

    clock: Clock
    callers: Mapping[str, ApiCaller]
    tokens: Mapping[str, str] = field(repr=False)
    server_token: str | None = field(default=None, repr=False)
    _local: ApiCaller = field(default_factory=lambda: ApiCaller(name=LOCAL_CALLER, limits=None))

    def admit(self, request: Request) -> ApiCaller:
        """Return who asks, and count the request; raises ApiRefusal for an unknown token and above the rate."""
        caller = self._find_caller(request)
        caller.count_request(self.clock.monotonic())
        return caller

    def _find_caller(self, request: Request) -> ApiCaller:
        if (header := request.headers.get("authorization")) is not None:
            kind, _, given = header.partition(" ")
            return self._find_by_token(given.strip() if kind.lower() == "bearer" else "")
        # Without a token the gate of the server has checked the name under which it was reached.
        if self.server_token is None and not self.callers:
            return self._local
        text = "this address needs the token of a caller: Authorization: Bearer ..."
        raise ApiRefusal(401, text)

    def _find_by_token(self, given: str) -> ApiCaller:
        if not given:
            text = "write the token as: Authorization: Bearer ..."
            raise ApiRefusal(401, text)
        # All are compared, so that the time says nothing about the place.
        found = [name for name, token in self.tokens.items() if hmac.compare_digest(token.encode(), given.encode())]
        if found:
            return self.callers[found[0]]
        if self.server_token is not None and hmac.compare_digest(self.server_token.encode(), given.encode()):
            return self._local
        text = "the token is unknown"
        raise ApiRefusal(401, text)


def open_caller_directory(section: ServeSection, clock: Clock, *, server_token: str | None) -> CallerDirectory:
    """Read the tokens; raises ConfigError for a file that is missing, empty or readable by others."""
    return CallerDirectory(
        clock=clock,
        callers={name: ApiCaller(name=name, limits=table) for name, table in section.callers.items()},
        tokens={name: read_api_token(table.token_file) or "" for name, table in section.callers.items()},
        server_token=server_token,
    )
