"""Who may read the dashboard and who may act: names of the server, tokens, sessions, and forms of other sites."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache, partial

import httpx
import pytest

from bot.core.operator_requests import AnswerApproval, HaltSubmissions
from bot.core.permissions import ApprovalState, SubmissionApproval, UserRole
from bot.execution.gate.access_control import hash_token, verify_request_proof
from bot.execution.gate.kill_switch import STOP_FILE, read_halt_reason
from bot.store import permissions
from bot.store.permissions import PrincipalRecord
from bot.store.requests import pending_requests, request_text
from bot.web.access import SESSION_S
from bot.web.app import create_web_app
from bot.web.watched_state import WatchedState
from tests.unit.store.conftest import LedgerFixture
from tests.unit.web.conftest import NOON, TOKEN, WatchedDaemon

OWN = "http://127.0.0.1:8420"
TOKENS = {UserRole.APPROVER: "fox_approver", UserRole.OPERATOR: "fox_operator", UserRole.VIEWER: "fox_viewer"}
APPROVAL = "feedfacefeedface"


@asynccontextmanager
async def visitor(daemon: WatchedDaemon, *, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A browser, as far as cookies go."""
    state = WatchedState(
        config=daemon.config, folder=daemon.folder, ledger=daemon.ledger, clock=daemon.clock, clock_skew=lambda: None
    )
    transport = httpx.ASGITransport(create_web_app(state, token=token, hosts=["fox.example"]))
    headers = {"accept": "text/html", "origin": OWN}
    async with httpx.AsyncClient(transport=transport, base_url=OWN, headers=headers) as client:
        yield client


# A hash is meant to take long.
hash_once = cache(hash_token)


async def add_principals(daemon: WatchedDaemon) -> None:
    for role, token in TOKENS.items():
        kept = hash_once(token)
        person = PrincipalRecord(name=role.value, role=role, salt=kept.salt, hash=kept.hash, made_at=NOON)
        await daemon.ledger.permissions.write(partial(permissions.add_principal, principal=person))


async def ask_approval(daemon: WatchedDaemon) -> None:
    story = LedgerFixture(daemon.ledger, daemon.folder / "ledger.sqlite")
    forecast = await story.forecast(await story.ask())
    approval = SubmissionApproval(
        id=APPROVAL,
        forecast=forecast.id,
        venue="lantern",
        cost=5.0,
        state=ApprovalState.ASKED,
        asked_at=NOON,
        expires_at=NOON + timedelta(hours=1),
        shown={"title": "Rain"},
    )
    await daemon.ledger.permissions.write(lambda database: permissions.request_approval(database, approval))


async def while_time_passes(daemon: WatchedDaemon, answer: Coroutine[None, None, httpx.Response]) -> httpx.Response:
    """Return the answer to a request that waits for the clock: nobody handles requests here."""
    task = asyncio.create_task(answer)
    while not task.done():
        await asyncio.sleep(0.002)
        await daemon.clock.advance(0.2)
    return await task


async def sign_in(client: httpx.AsyncClient, token: str) -> str:
    """Sign in and return the secret of the forms."""
    answer = await client.post("/login", data={"token": token})
    assert answer.status_code == 303
    page = (await client.get("/")).text
    return page.partition('name="csrf" value="')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("host", "token", "status"),
    [
        ("127.0.0.1:8420", None, 200),
        ("localhost", None, 200),
        ("[::1]:8420", None, 200),
        ("fox.example", None, 200),
        ("evil.example", None, 400),
        ("127.0.0.1.evil.example:8420", None, 400),
        ("192.168.1.5:8420", None, 400),
        ("", None, 400),
        # With a token others may connect, but only by a number or a name that is known.
        ("192.168.1.5:8420", TOKEN, 303),
        ("evil.example", TOKEN, 400),
    ],
)
async def test_only_known_names_of_the_server_are_answered(
    daemon: WatchedDaemon, host: str, token: str | None, status: int
) -> None:
    async with visitor(daemon, token=token) as client:
        assert (await client.get("/questions", headers={"host": host})).status_code == status


async def test_every_answer_has_the_policy(daemon: WatchedDaemon) -> None:
    async with visitor(daemon) as client:
        for path in ("/", "/questions", "/question?ref=no:such", "/question?ref=x", "/login", "/assets/dashboard.css"):
            policy = (await client.get(path)).headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy


async def test_with_a_token_one_signs_in_to_read(daemon: WatchedDaemon) -> None:
    async with visitor(daemon, token=TOKEN) as client:
        refused = await client.get("/questions")
        assert (refused.status_code, refused.headers["location"]) == (303, "/login")
        assert (await client.get("/login")).status_code == 200
        assert (await client.get("/assets/dashboard.css")).status_code == 200
        wrong = await while_time_passes(daemon, client.post("/login", data={"token": "wrong"}))
        assert wrong.status_code == 403
        answer = await client.post("/login", data={"token": TOKEN})
        cookie = answer.headers["set-cookie"].lower()
        assert answer.status_code == 303
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/questions")).status_code == 200
        daemon.clock.advance_without_waking(SESSION_S + 1)
        assert (await client.get("/questions")).status_code == 303


async def test_the_token_of_the_server_changes_nothing(daemon: WatchedDaemon) -> None:
    await add_principals(daemon)
    async with visitor(daemon, token=TOKEN) as client:
        secret = await sign_in(client, TOKEN)
        assert (await client.post("/halt", data={"csrf": secret, "reason": "x"})).status_code == 403
        assert (await client.post("/halt", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 403
    assert not (daemon.config.state / STOP_FILE).exists()


async def test_an_operator_halts_everything(daemon: WatchedDaemon) -> None:
    await add_principals(daemon)
    async with visitor(daemon) as client:
        secret = await sign_in(client, TOKENS[UserRole.OPERATOR])
        form = {"csrf": secret, "reason": "smoke in\nthe house"}
        answer = await while_time_passes(daemon, client.post("/halt", data=form))
        assert answer.status_code == 303
        assert "Everything is halted" in (await client.get("/")).text
    assert read_halt_reason(daemon.config.state / STOP_FILE) == "smoke in the house (operator)"
    [request] = [one.read() for one in pending_requests(daemon.folder)]
    assert isinstance(request, HaltSubmissions)
    assert (request.by, request.reason, request.venue) == ("operator", "smoke in the house", "")


@pytest.mark.parametrize(
    ("path", "role", "status"),
    [
        ("/approve", UserRole.APPROVER, 303),
        ("/approve", UserRole.OPERATOR, 403),
        ("/reject", UserRole.OPERATOR, 303),
        ("/reject", UserRole.VIEWER, 403),
    ],
)
async def test_the_role_decides_who_answers_an_approval(
    daemon: WatchedDaemon, path: str, role: UserRole, status: int
) -> None:
    await add_principals(daemon)
    await ask_approval(daemon)
    async with visitor(daemon) as client:
        secret = await sign_in(client, TOKENS[role])
        form = {"csrf": secret, "approval": APPROVAL}
        answer = await while_time_passes(daemon, client.post(path, data=form))
        assert answer.status_code == status
    sent = [one.read() for one in pending_requests(daemon.folder)]
    assert len(sent) == (status == 303)
    for request in sent:
        assert isinstance(request, AnswerApproval)
        assert (request.by, request.approval, request.approved) == (role.value, APPROVAL, path == "/approve")
        principals = await daemon.ledger.permissions.principals()
        key = next(one.hash for one in principals if one.name == role.value)
        assert verify_request_proof(request.proof, key, request_text(request))


@pytest.mark.parametrize("path", ["/halt", "/approve", "/reject", "/logout"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://127.0.0.1:9999"])
async def test_a_form_of_another_site_changes_nothing(daemon: WatchedDaemon, path: str, origin: str) -> None:
    await add_principals(daemon)
    await ask_approval(daemon)
    async with visitor(daemon) as client:
        secret = await sign_in(client, TOKENS[UserRole.APPROVER])
        data = {"csrf": secret, "approval": APPROVAL, "reason": "x"}
        refused = await client.post(path, data=data, headers={"origin": origin})
        assert refused.status_code == 403
        # Nor does one without the secret of our forms, or with that of another session.
        for other in ("", "x", secret[:-1]):
            assert (await client.post(path, data={**data, "csrf": other})).status_code == 403
    assert pending_requests(daemon.folder) == []
    assert not (daemon.config.state / STOP_FILE).exists()


async def test_a_revoked_principal_can_do_nothing_more(daemon: WatchedDaemon) -> None:
    await add_principals(daemon)
    async with visitor(daemon) as client:
        secret = await sign_in(client, TOKENS[UserRole.OPERATOR])
        await daemon.ledger.permissions.write(
            lambda database: permissions.revoke_principal(database, "operator", at=NOON)
        )
        assert (await client.post("/halt", data={"csrf": secret, "reason": "x"})).status_code == 403
    assert not (daemon.config.state / STOP_FILE).exists()


async def test_forms_that_are_none_are_refused(daemon: WatchedDaemon) -> None:
    await add_principals(daemon)
    async with visitor(daemon) as client:
        secret = await sign_in(client, TOKENS[UserRole.OPERATOR])
        assert (await client.post("/halt", json={"csrf": secret, "reason": "x"})).status_code == 403
        assert (await client.post("/halt", data={"csrf": secret, "reason": "x" * 20_000})).status_code == 403
        assert (await client.post("/halt", data={"csrf": secret, "reason": "  "})).status_code == 403
        assert (await client.get("/halt")).status_code == 405
    assert not (daemon.config.state / STOP_FILE).exists()
