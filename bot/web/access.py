"""Who may read and who may act: the token of the server, sessions of people who signed in, and checks of each request.

Without a token only this machine can connect, and only under its own name, so that a page in a browser cannot read it
through a name that it controls (DNS rebinding). With a token a program sends it with each request
(``Authorization: Bearer ...``), and a person signs in once, with it or with the token of a principal. A request that
changes something needs the session of a principal, the secret of its form, and the origin of our own pages.
"""

import asyncio
import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.core.errors import AuthenticationError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.permissions import UserRole
from bot.execution.gate.access_control import create_random_key, find_token_owner, hash_token
from bot.store.ledger import Ledger
from bot.store.permissions import PrincipalRecord

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 100
# Guessing is hopeless at 256 bits; this keeps the attempts from using the processor.
FAILED_LOGIN_DELAY_S = 1.0
LOGIN_PATH, ASSET_PREFIX, API_PREFIX = "/login", "/assets/", "/api/"
REFUSAL_HEADERS: Mapping[str, str] = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(slots=True, kw_only=True)
class WebSession:
    """A person who signed in; ``name`` is "" and ``role`` None for the token of the server, which only reads.

    ``key`` proves requests to the daemon, ``form_secret`` is in each form, ``notice`` is shown once (text, level).
    """

    name: str
    role: UserRole | None
    expires_at_s: float
    key: str = field(default="", repr=False)
    form_secret: str = field(default_factory=create_random_key, repr=False)
    notice: tuple[str, str] | None = None


@dataclass(slots=True)
class SessionStore:
    """The sessions of this process, by the secret in their cookie; a restart ends them all."""

    clock: Clock
    _sessions: OrderedDict[str, WebSession] = field(default_factory=OrderedDict)
    _login: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def sign_in(self, token: str, *, server_token: str | None, ledger: Ledger) -> str | None:
        """Return the cookie of a new session for a token that is known, None for any other."""
        async with self._login:
            session = await self._make_session(token, server_token, ledger)
            if session is None:
                await self.clock.sleep(FAILED_LOGIN_DELAY_S)
                return None
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.popitem(last=False)
        cookie = create_random_key()
        self._sessions[cookie] = session
        return cookie

    def find(self, cookie: str | None) -> WebSession | None:
        """Return the session of a cookie while it lasts."""
        found = self._sessions.get(cookie or "")
        if found is None or found.expires_at_s > self.clock.monotonic():
            return found
        self.sign_out(cookie)
        return None

    def sign_out(self, cookie: str | None) -> None:
        """End the session of a cookie."""
        self._sessions.pop(cookie or "", None)

    async def _make_session(self, token: str, server_token: str | None, ledger: Ledger) -> WebSession | None:
        expires_at_s = self.clock.monotonic() + SESSION_S
        if server_token is not None and hmac.compare_digest(token.encode(), server_token.encode()):
            return WebSession(name="", role=None, expires_at_s=expires_at_s)
        principals = await ledger.permissions.principals()
        try:
            owner = await asyncio.to_thread(find_token_owner, token, principals)
        except AuthenticationError:
            return None
        key = (await asyncio.to_thread(hash_token, token, owner.salt)).hash
        return WebSession(name=owner.name, role=owner.role, key=key, expires_at_s=expires_at_s)


@dataclass(frozen=True, slots=True)
class AccessGate:
    """Middleware that refuses requests under a foreign name, and those without a token or session where one is needed.

    ``hosts`` are further names under which the server is reached, such as that of a proxy.
    """

    app: ASGIApp
    token: str | None
    sessions: SessionStore
    hosts: frozenset[str] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 400, 401 or a redirection to the page for signing in."""
        refusal = self._find_refusal(Request(scope)) if scope["type"] == "http" else None
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def _find_refusal(self, request: Request) -> Response | None:
        if self.token is not None and has_bearer_token(request, self.token):
            return None
        if request.url.path.startswith(API_PREFIX) and "authorization" in request.headers:
            return None  # the token of a caller, which the API knows
        if not self._is_known_host(request.headers.get("host", "")):
            text = "this name is unknown here; add it to [web] hosts, or use the address of the server\n"
            return PlainTextResponse(text, 400, dict(REFUSAL_HEADERS))
        path = request.url.path
        is_open = self.token is None or path == LOGIN_PATH or path.startswith((ASSET_PREFIX, API_PREFIX))
        if is_open or self.sessions.find(request.cookies.get(cookie_name(request))) is not None:
            return None
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN_PATH, 303, dict(REFUSAL_HEADERS))
        headers = {**REFUSAL_HEADERS, "www-authenticate": "Bearer"}
        return PlainTextResponse("this address needs a token: Authorization: Bearer ...\n", 401, headers)

    def _is_known_host(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name in LOCAL_NAMES or name.lower() in self.hosts:
            return True
        # No name service stands between a browser and an address in numbers.
        return self.token is not None and _is_address(name)


def has_bearer_token(request: Request, token: str) -> bool:
    """Return whether a request carries this token in its header."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie; browsers share cookies between the ports of a host."""
    _, port = request.scope.get("server") or ("", 0)
    return f"foxcast_session_{port}"


def form_objection(request: Request, session: WebSession | None, given: str) -> str | None:
    """Return why a form that changes something is refused; None if it comes from one of our own pages."""
    if reason := origin_objection(request):
        return reason
    if session is None:
        return "sign in first"
    if not hmac.compare_digest(given.encode(), session.form_secret.encode()):
        return "the form is outdated; load the page again"
    return None


def origin_objection(request: Request) -> str | None:
    """Return why a form is refused that does not come from our own pages; None if it does."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    _, found, of_host = origin.partition("://")
    if found and of_host == host:
        return None
    return "the request comes from another site"


def is_still_known(session: WebSession, principals: list[PrincipalRecord]) -> bool:
    """Return whether the principal of a session has still the same role and token."""
    return any((one.name, one.role, one.hash) == (session.name, session.role, session.key) for one in principals)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
