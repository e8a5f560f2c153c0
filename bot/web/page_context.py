"""What every page of the dashboard shares: the ledger, the viewer, and how a page is answered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar
from zlib import crc32

from starlette.requests import Request
from starlette.responses import Response

from bot.core.errors import FoxcastError
from bot.core.light_dataclass import dataclass
from bot.execution.gate.access_control import PrivilegedAction, is_allowed
from bot.store.ledger import ReadOnlyState
from bot.web.access import SessionStore, WebSession, cookie_name, is_still_known
from bot.web.page_rendering import render_template
from bot.web.svg_charts import SERIES_COLOURS, series_style
from bot.web.watched_state import TimedCache, WatchedState

PAGES: Sequence[tuple[str, str]] = (
    ("/", "Now"),
    ("/questions", "Questions"),
    ("/forecasters", "Forecasters"),
    ("/portfolio", "Portfolio"),
    ("/costs", "Costs"),
    ("/audit", "Audit"),
    ("/jobs", "Jobs"),
)
EVENTS_PATH = "/events"
ValueT = TypeVar("ValueT")
# So many pages are made at once; the daemon needs its readers too.
MAX_RENDERINGS = 2


class PageRequestError(FoxcastError):
    """A page was asked for with values that it does not know."""


@dataclass(slots=True, kw_only=True)
class DashboardContext:
    """The state that pages show; ``token`` is that of the server."""

    state: WatchedState
    sessions: SessionStore
    token: str | None
    version: str
    assets: str
    kept: dict[tuple[str, ...], TimedCache[Any]] = field(default_factory=dict)
    renderings: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_RENDERINGS))

    async def keep(self, key: tuple[str, ...], read: Callable[[], Awaitable[ValueT]], *, kept_s: float) -> ValueT:
        """Return what was read for this key within the last seconds, else read it: many viewers cost as much as one."""
        if key not in self.kept:
            self.kept[key] = TimedCache(self.state.clock, read, kept_s)
        cache: TimedCache[ValueT] = self.kept[key]
        cache.read = read
        return await cache.get()

    @property
    def records(self) -> ReadOnlyState:
        """The ledger as the queries of commands take it."""
        return ReadOnlyState(config=self.state.config, folder=self.state.folder, ledger=self.state.ledger)

    async def find_session(self, request: Request) -> WebSession | None:
        """Return the session of a request, None without one or after its principal was revoked."""
        cookie = request.cookies.get(cookie_name(request))
        session = self.sessions.find(cookie)
        if session is None or not session.name:
            return session
        if is_still_known(session, await self.state.ledger.permissions.principals()):
            return session
        self.sessions.sign_out(cookie)
        return None

    async def respond(
        self, request: Request, template: str, values: Mapping[str, Any], *, status: int = 200, live: bool = False
    ) -> Response:
        """Answer with a template; ``live``: the page follows what the daemon does."""
        session = await self.find_session(request)
        notice, level = (session and session.notice) or ("", "")
        if session is not None:
            session.notice = None
        shared = {
            "pages": PAGES,
            "here": request.url.path,
            "now": self.state.clock.now(),
            "version": self.version,
            "assets": self.assets,
            "viewer": None if session is None else session.name or "reader",
            "csrf": "" if session is None else session.form_secret,
            "notice": notice,
            "notice_level": level,
            "live": EVENTS_PATH if live else "",
            "may_halt": may_act(session, PrivilegedAction.REJECT),
            "may_reject": may_act(session, PrivilegedAction.REJECT),
            "may_approve": may_act(session, PrivilegedAction.APPROVE),
        }
        return render_template(template, {**shared, **values}, status=status)

    def forecaster_style(self, name: str) -> str:
        """Return the class of the colour of a forecaster, the same on every page."""
        known = sorted({one for venue in self.state.config.venues.values() for one in venue.forecasters})
        return series_style(known.index(name) if name in known else crc32(name.encode()) % SERIES_COLOURS)


def may_act(session: WebSession | None, action: PrivilegedAction) -> bool:
    """Return whether a session may do this; without a principal's token nothing may be done here, also no halt."""
    return session is not None and session.role is not None and is_allowed(session.role, action)
