"""A real browser, and the dashboard of a hostile ledger, served by another thread of this process."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.permissions import UserRole
from bot.core.questions import Question
from bot.daemon.web_server import serve_app
from bot.execution.gate.access_control import hash_token
from bot.store import permissions
from bot.store.database import instance_lock
from bot.store.heartbeat import DaemonHeartbeat, write_heartbeat
from bot.store.ledger import LEDGER_FILE, open_ledger, state_folder
from bot.store.permissions import PrincipalRecord
from bot.web.app import create_web_app
from bot.web.watched_state import WatchedState
from tests.browser.hostile_ledger import utc_now, write_hostile_ledger

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
OPERATOR_TOKEN, APPROVER_TOKEN = "fox_operator-of-a-test", "fox_approver-of-a-test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            # Each test begins with the start of a browser where others share the cores.
            item.add_marker(pytest.mark.timeout(120))
            item.add_marker(pytest.mark.xdist_group("browser"))
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="needs a browser: apt-get install chromium"))


@dataclass
class DashboardServer:
    """The address of the dashboard, the state folder behind it, and its first question."""

    address: str
    folder: Path
    question: Question
    errors: list[str] = field(default_factory=list)


@contextmanager
def serving(folder: Path) -> Iterator[DashboardServer]:
    """Serve the dashboard as a daemon does, until the block ends."""
    started, stop, found = threading.Event(), threading.Event(), []

    async def serve() -> None:
        now = utc_now()
        config = Config.model_validate({"state": folder, "venues": {"lantern": {"forecasters": ["fox"]}}})
        place = state_folder(config)
        with instance_lock(place, started_at=now):
            async with open_ledger(place / LEDGER_FILE, now=now) as ledger:
                question = await write_hostile_ledger(ledger, place, now)
                for name, role, token in (
                    ("anna", UserRole.APPROVER, APPROVER_TOKEN),
                    ("olga", UserRole.OPERATOR, OPERATOR_TOKEN),
                ):
                    kept = hash_token(token)
                    person = PrincipalRecord(name=name, role=role, salt=kept.salt, hash=kept.hash, made_at=now)
                    await ledger.permissions.write(partial(permissions.add_principal, principal=person))
                write_heartbeat(place, DaemonHeartbeat(at=now))
                state = WatchedState(
                    config=config, folder=place, ledger=ledger, clock=SystemClock(), clock_skew=lambda: None
                )
                app = create_web_app(state, token=None)
                async with serve_app(app, "127.0.0.1", 0, before_end=app.state.close_streams) as port:
                    found.append(DashboardServer(f"http://127.0.0.1:{port}", place, question))
                    started.set()
                    await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="dashboard")
    thread.start()
    try:
        while not started.wait(0.1):
            assert thread.is_alive(), "the dashboard did not start"
        yield found[0]
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    with serving(tmp_path_factory.mktemp("dashboard")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Not for longer than a module: the library keeps an event loop running, with which no test of ours can have one.
    with sync_playwright() as playwright:
        # The tests of a container run as root, where the browser's sandbox does not start.
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass
class WatchedPage:
    """A page of the browser with all that it asked for and complained about."""

    page: Page
    address: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._keep_complaint)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def _keep_complaint(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    @property
    def outside(self) -> list[str]:
        """The requests to any other place."""
        return [url for url in self.requests if not url.startswith(f"{self.address}/")]

    def open(self, path: str) -> int:
        """Load a page and return its status."""
        response = self.page.goto(f"{self.address}{path}", wait_until="load")
        assert response is not None
        return response.status

    def links(self) -> list[str]:
        """The pages of ours that this one links to."""
        found: list[str] = self.page.eval_on_selector_all("a[href^='/']", "all => all.map(a => a.getAttribute('href'))")
        return found


@contextmanager
def opened_page(browser: Browser, dashboard: DashboardServer, **options: object) -> Iterator[WatchedPage]:
    """Open a window of its own, with the given options of the browser."""
    given = {"viewport": DESKTOP, **options}
    context = browser.new_context(**given)  # type: ignore[arg-type] # options of the library by name
    try:
        yield WatchedPage(context.new_page(), dashboard.address)
    finally:
        context.close()
