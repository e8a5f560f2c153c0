"""Every page of a hostile ledger in a real Chromium: no script runs, nothing is loaded from elsewhere, all can use it.

Accessibility is judged by axe-core, the rules of Deque, which are not ours.
"""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from bot.web.page_context import PAGES
from bot.web.page_rendering import page_link, question_link
from tests.browser.conftest import PHONE, DashboardServer, WatchedPage, opened_page
from tests.browser.hostile_ledger import ATTACKS

MAX_PAGES = 60
OWNED = "() => window.owned"
# What an attack would have put into the page.
FOREIGN = (
    "script:not([src^='/assets/']), iframe, base, style, link[href*='outside'], img, [onerror], [onload], [onfocus]"
)
# The elements that reach beyond the window.
WIDE = """() => [...document.querySelectorAll('main *')].filter(
  one => one.getBoundingClientRect().right > document.documentElement.clientWidth
).map(one => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def walked(browser: Browser, dashboard: DashboardServer) -> Iterator[tuple[WatchedPage, dict[str, int]]]:
    """All pages that links lead to, from the first one on, each opened once."""
    with opened_page(browser, dashboard) as window:
        waiting: list[str] = ["/"]
        seen: dict[str, int] = {}
        while waiting and len(seen) < MAX_PAGES:
            path = waiting.pop(0)
            if path in seen or path.startswith("/assets/"):
                continue
            seen[path] = window.open(path)
            found = window.page.query_selector_all(FOREIGN)
            assert [one.evaluate("e => e.outerHTML") for one in found] == [], path
            assert window.page.evaluate(OWNED) is None, path
            waiting += window.links()
        yield window, seen


def test_all_pages_answer(walked: tuple[WatchedPage, dict[str, int]]) -> None:
    _, seen = walked
    assert {path: status for path, status in seen.items() if status != 200} == {}
    assert {path for path, _ in PAGES} <= seen.keys()
    assert sum(path.startswith("/question?") for path in seen) >= 4


def test_no_script_runs_and_nothing_comes_from_elsewhere(walked: tuple[WatchedPage, dict[str, int]]) -> None:
    window, _ = walked
    assert window.outside == []
    # A refusal by the policy would be a complaint: nothing is even tried.
    assert window.complaints == []


def test_attacks_are_shown_as_text(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard) as window:
        window.open(question_link(dashboard.question.ref))
        text = window.page.inner_text("main")
        assert ATTACKS[0] in text
        assert "{{ 7 * 7 }}" in text
        # Direction marks and letters without width are shown as what they are.
        assert "\u202e" not in text
        assert "\ufffdevil" in text
        addresses = window.page.eval_on_selector_all("main a", "all => all.map(a => a.href)")
        assert all(one.startswith(("http://", "https://")) for one in addresses)


def test_a_question_with_a_hostile_name_has_its_page(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard) as window:
        window.open("/questions")
        link = window.page.locator(f"a[href='{question_link(dashboard.question.ref)}']").first
        link.click()
        assert str(dashboard.question.ref) in window.page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_accessibility_error(browser: Browser, dashboard: DashboardServer, scheme: str) -> None:
    paths = [*(path for path, _ in PAGES), question_link(dashboard.question.ref), "/login", "/question?ref=no:such"]
    with opened_page(browser, dashboard, color_scheme=scheme) as window:
        found = {}
        for path in paths:
            window.open(path)
            # The policy of the page lets no script in from a test either, so axe is evaluated by the debugger.
            violations = Axe().run(window.page).response["violations"]
            found[path] = [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in violations]
        assert {path: faults for path, faults in found.items() if faults} == {}


def test_a_phone_shows_every_page_without_scrolling_sideways(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard, viewport=PHONE) as window:
        for path in (*(path for path, _ in PAGES), question_link(dashboard.question.ref)):
            window.open(path)
            wide = window.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, (path, window.page.evaluate(WIDE))


def test_pages_can_be_read_without_scripts(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard, java_script_enabled=False) as window:
        for path in (*(path for path, _ in PAGES), question_link(dashboard.question.ref)):
            assert window.open(path) == 200
            assert len(window.page.inner_text("main")) > 40
        window.open(page_link("/questions", q="changed"))
        assert window.page.locator("tbody tr").count() == 1


def test_the_keyboard_reaches_the_content_and_the_pages(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard) as window:
        window.open("/")
        window.page.keyboard.press("Tab")
        assert window.page.evaluate("document.activeElement.textContent") == "Skip to content"
        window.page.keyboard.press("Enter")
        assert window.page.evaluate("document.activeElement.id") == "content"


def test_a_phone_shows_the_name_of_the_page(browser: Browser, dashboard: DashboardServer) -> None:
    with opened_page(browser, dashboard, viewport=PHONE) as window:
        shown = 0
        for path, _ in PAGES:
            window.open(path)
            if name := window.page.query_selector("nav [aria-current]"):
                box = name.bounding_box()
                assert box is not None
                assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE["width"], path
                shown += 1
        assert shown > 4
