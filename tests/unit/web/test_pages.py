"""The pages without a browser: each answers, shows what the ledger has, and keeps what others wrote as text.

The same pages in a real browser: tests/browser.
"""

import asyncio
import re
import time
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message

from bot.core.clock import SystemClock
from bot.core.orders import Account, ContractSide, Position
from bot.core.redaction import register_secrets, temporary_secrets
from bot.daemon.web_server import GRACE_S, serve_app
from bot.jobs.resolution import ScoringContext, score_forecasts
from bot.store import permissions
from bot.store.audit_log import AuditRow
from bot.store.ledger import LEDGER_FILE
from bot.store.permissions import SubmissionHalt
from bot.testing.clock import FakeClock
from bot.web.app import create_web_app
from bot.web.live_updates import MAX_STREAMS, POLL_S, UpdateStreams
from bot.web.page_context import PAGES
from bot.web.page_rendering import question_link, render_template, web_link
from bot.web.record_pages import AUDIT_ROWS
from bot.web.watched_state import WatchedState
from tests.browser.hostile_ledger import ATTACKS, HOSTILE_KEY, SCRIPT_ADDRESS, write_hostile_ledger
from tests.unit.store.conftest import LedgerFixture
from tests.unit.web.conftest import NOON, WatchedDaemon

# What the templates themselves have: one script, one sheet, one icon.
OWN_TAGS = re.compile(r"<(?:script|link|iframe|img|base|style|form)\b[^>]*>")
OWN = re.compile(r'<(?:script src="/assets/|link rel="(?:icon|stylesheet)" href="/assets/|form [^>]*action="/)')


@pytest.mark.parametrize("path", [*(path for path, _ in PAGES), question_link(f"lantern:{HOSTILE_KEY}"), "/login"])
async def test_a_page_of_a_hostile_ledger_holds_only_our_own_markup(daemon: WatchedDaemon, path: str) -> None:
    daemon.beat()
    await write_hostile_ledger(daemon.ledger, daemon.folder, NOON)
    page = await daemon.get(path)
    assert page.status_code == 200
    assert [tag for tag in OWN_TAGS.findall(page.text) if not OWN.match(tag)] == []
    for attack in ATTACKS[:4]:
        assert attack not in page.text
    assert f'href="{SCRIPT_ADDRESS}' not in page.text


@pytest.mark.parametrize("path", [path for path, _ in PAGES])
async def test_a_page_of_an_empty_ledger_says_so(daemon: WatchedDaemon, path: str) -> None:
    page = await daemon.get(path)
    assert page.status_code == 200
    assert re.search(r"Nothing|No |not |0</b>", page.text)


async def test_the_first_page_says_what_is_wrong(daemon: WatchedDaemon) -> None:
    daemon.beat()
    daemon.clock.advance_without_waking(120.0)
    halt = SubmissionHalt(venue="lantern", at=NOON, why="api_key=abcdefgh12345678")
    await daemon.ledger.permissions.write(lambda database: permissions.add_halt(database, halt))
    page = await daemon.get("/")
    assert "2 problems" in page.text
    assert "Running without a heartbeat" in page.text
    assert "abcdefgh12345678" not in page.text


async def test_a_question_shows_beliefs_evidence_changes_and_scores(daemon: WatchedDaemon) -> None:
    question = await write_hostile_ledger(daemon.ledger, daemon.folder, NOON)
    text = (await daemon.get(question_link(question.ref))).text
    for part in ("Belief over steps", "Evidence for", "step limit", "hold: ", "Resolution criteria", "and more"):
        assert part in text
    resolved = (await daemon.get("/question?ref=lantern:resolved")).text
    # (0.8 - 1) squared.
    assert ">0.0400<" in resolved
    assert "buy 20.00 yes" in resolved


async def test_older_forecasts_have_their_own_page(daemon: WatchedDaemon) -> None:
    story = LedgerFixture(daemon.ledger, daemon.folder / "ledger.sqlite")
    question = await story.ask()
    first = await story.forecast(question, 0.3)
    await story.forecast(question, 0.7, now=NOON + timedelta(days=1), cutoff=NOON)
    newest = (await daemon.get(question_link(question.ref))).text
    assert "plain: 70.0%" in newest
    older = await daemon.get(f"/question?ref={question.ref}&forecast={first.id}")
    assert "plain: 30.0%" in older.text
    assert (await daemon.get(f"/question?ref=lantern:other&forecast={first.id}")).status_code == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/question?ref=lantern:none", 404),
        ("/question?ref=none", 400),
        ("/question?ref=lantern:x&forecast=none", 404),
        ("/questions?state=strange", 400),
        ("/questions?after=strange", 400),
        ("/audit?before=-1", 400),
        ("/costs?days=1000", 400),
        ("/forecasters?days=1000", 400),
        ("/assets/../app.py", 404),
        ("/assets/none.css", 404),
        ("/nothing", 404),
    ],
)
async def test_a_page_that_does_not_exist_says_so(daemon: WatchedDaemon, path: str, status: int) -> None:
    assert (await daemon.get(path)).status_code == status


async def test_scores_costs_and_the_gain_over_the_baseline(daemon: WatchedDaemon) -> None:
    story = LedgerFixture(daemon.ledger, daemon.folder / "ledger.sqlite")
    for number in range(6):
        question = await story.ask(f"q{number}", closes_at=NOON + timedelta(days=1))
        await story.forecast(question, 0.9, forecaster="fox")
        await story.forecast(question, 0.5, forecaster="baseline")
        await story.resolve(question, 1.0)
    await score_forecasts(ScoringContext(ledger=daemon.ledger, clock=daemon.clock))
    reservation = story.reservation(forecaster="fox", scope="one", worst_usd=0.5)
    await daemon.ledger.calls.reserve(reservation)
    await daemon.ledger.calls.settle(reservation.id, story.settlement(0.12))
    board = (await daemon.get("/forecasters?days=all")).text
    # Brier scores of 0.1 squared and 0.5 squared.
    assert ">0.0100<" in board
    assert ">0.2500<" in board
    assert 'class="good-text">+' in board
    assert ">0.12<" in board
    costs = (await daemon.get("/costs")).text
    assert "house:small" in costs
    # 1000 tokens in and 50 out.
    assert ">1,050<" in costs


async def test_positions_and_caps(daemon: WatchedDaemon) -> None:
    held = Position(ref=None, contract="market 7", leg=ContractSide.YES, shares=10.0, paid=4.0, mark=0.5)
    for hour, cash in enumerate((100.0, 104.0)):
        account = Account(at=NOON + timedelta(hours=hour), currency="COIN", cash=cash, positions=(held,))
        await daemon.ledger.readings.add("lantern", "default", account, paper=True)
    page = (await daemon.get("/portfolio")).text
    assert ">109.00<" in page
    assert "market 7" in page
    assert "+1.00" in page
    assert "Equity at lantern over time" in page


async def test_the_audit_is_read_in_pages(daemon: WatchedDaemon) -> None:
    rows = [
        AuditRow(at=NOON, kind="halt", venue="lantern", actor="olga", body={"why": f"reason {number}."})
        for number in range(AUDIT_ROWS + 2)
    ]
    await daemon.ledger.permissions.write_with_audit(lambda _: None, *rows)
    newest = (await daemon.get("/audit")).text
    assert "reason 101." in newest
    assert "reason 1." not in newest
    assert 'href="/audit?before=3"' in newest
    oldest = (await daemon.get("/audit?before=3")).text
    assert "reason 1." in oldest
    assert "Older rows" not in oldest


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/b?c=d", "https://a.example/b?c=d"),
        ("http://a.example", "http://a.example"),
        ("HTTPS://a.example/", "HTTPS://a.example/"),
        ("javascript:alert(1)", ""),
        ("  javascript:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//a.example/", ""),
        ("/etc/passwd", ""),
        ("https://[", ""),
        ("https:", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_only_addresses_of_the_web_become_links(url: str | None, shown: str) -> None:
    assert web_link(url) == shown


async def test_open_streams_end_with_the_server(daemon: WatchedDaemon) -> None:
    state = WatchedState(
        config=daemon.config, folder=daemon.folder, ledger=daemon.ledger, clock=SystemClock(), clock_skew=lambda: None
    )
    app = create_web_app(state, token=None)
    async with httpx.AsyncClient() as client:
        async with serve_app(app, "127.0.0.1", 0, before_end=app.state.close_streams) as port:
            request = client.build_request("GET", f"http://127.0.0.1:{port}/events")
            stream = await client.send(request, stream=True)
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 5000"
            await daemon.ledger.events.add_event("news", "something", at=NOON)
            assert [await anext(lines) for _ in range(2)] == ["", "event: changed"]
            begun = time.perf_counter()
        # It does not wait for the end of the grace that it gives to answers.
        assert time.perf_counter() - begun < GRACE_S
        assert [line async for line in lines] == ["data: 1", ""]
        await stream.aclose()


async def test_a_change_right_after_the_headers_is_reported(tmp_path: Path) -> None:
    async def never() -> Message:
        return await asyncio.Future[Message]()

    clock = FakeClock()
    streams = UpdateStreams(tmp_path, tmp_path, clock)
    response = await streams.respond(Request({"type": "http"}, never))
    assert isinstance(response, StreamingResponse)
    (tmp_path / LEDGER_FILE).write_text("changed")
    parts = aiter(response.body_iterator)
    assert await anext(parts) == "retry: 5000\n\n"
    coming = asyncio.ensure_future(anext(parts))
    await asyncio.sleep(0.01)
    await clock.advance(POLL_S)
    assert await asyncio.wait_for(coming, 5) == "event: changed\ndata: 1\n\n"


async def test_too_many_streams_are_refused_for_good(tmp_path: Path, daemon: WatchedDaemon) -> None:
    streams = UpdateStreams(tmp_path, tmp_path, daemon.clock, count=MAX_STREAMS)
    # A browser asks no more after 204.
    assert (await streams.respond(None)).status_code == 204  # type: ignore[arg-type] # looked at by a stream only


def test_what_a_template_shows_has_no_secret_and_nothing_hidden() -> None:
    with temporary_secrets():
        register_secrets("k-secret-123456")
        shared = dict.fromkeys(("pages", "here", "version", "assets", "viewer", "csrf", "notice", "live"), "")
        values = {"heading": None, "text": "k-secret-123456 a\u202eb", "now": NOON}
        page = bytes(render_template("message.html", shared | values).body)
    assert "secret-123456" not in page.decode()
    assert "a\ufffdb" in page.decode()
    assert "<h1>None" not in page.decode()
