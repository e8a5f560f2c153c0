"""What a person does on a page: sign in, reject and halt; and how a page follows the ledger by itself."""

import sqlite3
from contextlib import closing

from playwright.sync_api import Browser, expect

from bot.core.operator_requests import AnswerApproval, HaltSubmissions
from bot.execution.gate.kill_switch import STOP_FILE, read_halt_reason
from bot.store.ledger import LEDGER_FILE
from bot.store.requests import pending_requests
from tests.browser.conftest import OPERATOR_TOKEN, DashboardServer, WatchedPage, opened_page


def sign_in(window: WatchedPage, token: str) -> None:
    window.open("/login")
    window.page.fill("#token", token)
    window.page.get_by_role("button", name="Sign in").click()


def test_an_operator_signs_in_rejects_and_halts(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard) as window:
        window.open("/")
        assert window.page.get_by_role("button", name="Halt everything").count() == 0
        sign_in(window, OPERATOR_TOKEN)
        expect(window.page.locator(".who .name")).to_have_text("olga")
        assert window.page.get_by_role("button", name="Approve").count() == 0
        window.page.get_by_role("button", name="Reject").click()
        window.page.get_by_label("Reason").fill("smoke")
        window.page.get_by_role("button", name="Halt everything").click()
        expect(window.page.get_by_role("status").first).to_contain_text("Everything is halted")
        # A page that is only followed shows it too.
        expect(window.page.locator("#halt-heading + .state")).to_contain_text("smoke (olga)")
        window.page.get_by_role("button", name="Sign out").click()
        expect(window.page.locator(".who a")).to_have_text("Sign in")
        assert window.complaints == []
    kinds = {type(one.read()) for one in pending_requests(dashboard.folder)}
    assert kinds == {AnswerApproval, HaltSubmissions}
    assert read_halt_reason(dashboard.folder.parent / STOP_FILE) == "smoke (olga)"


def test_a_page_follows_the_ledger(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard) as window:
        window.open("/jobs")
        expect(window.page.locator("#live-state")).to_have_text("live")
        window.page.evaluate("window.marked = true")
        with closing(sqlite3.connect(dashboard.folder / LEDGER_FILE)) as connection, connection:
            connection.execute(
                "insert into event (at, kind, text) values ('2026-03-01T12:00:00.000000Z', 'news', ?)",
                ["<img src=x onerror='window.owned=9'>fresh"],
            )
        expect(window.page.locator("main")).to_contain_text("fresh", timeout=20_000)
        # It was not loaded again, and what came in is text.
        assert window.page.evaluate("window.marked") is True
        assert window.page.evaluate("window.owned") is None
        assert window.complaints == []
        assert window.outside == []
