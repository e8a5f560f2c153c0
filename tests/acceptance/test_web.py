"""The dashboard of the real daemon: a person signs in with a token and halts it from a page; and what is refused."""

import re
import time
from collections.abc import Callable

import httpx
import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand
from tests.acceptance.test_health import daemon

PATIENCE_S = 60.0
pytestmark = pytest.mark.timeout(180)


def wait_for(found: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < end
        time.sleep(0.2)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code == 200
    except httpx.TransportError:
        return False


def test_an_operator_halts_the_daemon_from_its_page(new_installation: FoxcastInstallation, free_tcp_port: int) -> None:
    foxcast = new_installation
    web = f'\n[web]\nlisten = "127.0.0.1:{free_tcp_port}"\n\n[daemon]\nrequests_every_s = 0.2\n'
    foxcast.config.write_text(foxcast.config.read_text() + web)
    assert foxcast("run", "--once").code == 0
    token = foxcast("principal", "add", "anna", "--role", "approver").out.strip()
    address = f"http://127.0.0.1:{free_tcp_port}"
    with daemon(foxcast), httpx.Client(base_url=address, headers={"origin": address}, timeout=30) as client:
        wait_for(lambda: answers(client))
        assert client.post("/login", data={"token": token}).status_code == 303
        page = client.get("/").text
        assert re.search("[Rr]unning, started", page)
        secret = page.partition('name="csrf" value="')[2].partition('"')[0]
        halted = client.post("/halt", data={"csrf": secret, "reason": "smoke"}, follow_redirects=True)
        assert "Halted: smoke (anna)" in halted.text
        # The daemon handled the request as that of the command, with a row in the audit.
        wait_for(lambda: ">anna<" in client.get("/audit").text)
    assert "smoke" in foxcast("status").out
    assert "halt" in foxcast("audit", "show").out


def test_what_cannot_be_served_is_one_line(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(new_installation, "web").is_refusal(8, "there is no ledger", "foxcast run --once")
    assert run_command(new_installation, "web", "--listen", "0.0.0.0:8420").is_refusal(2, "--listen", "token_file")
    assert run_command(new_installation, "web", "--listen", "nowhere").is_refusal(2, "--listen", "host and a port")
