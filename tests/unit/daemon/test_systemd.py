import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.daemon.health import SystemdNotifier


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.settimeout(2)
        yield made


def test_states_arrive_as_datagrams(listener: socket.socket, tmp_path: Path) -> None:
    listener.bind(str(tmp_path / "notify"))
    supervisor = SystemdNotifier(str(tmp_path / "notify"))
    supervisor.notify("READY=1")
    supervisor.notify("WATCHDOG=1")
    assert [listener.recv(64), listener.recv(64)] == [b"READY=1", b"WATCHDOG=1"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has an abstract namespace for sockets")
def test_an_abstract_address_begins_with_an_at_sign(listener: socket.socket, tmp_path: Path) -> None:
    name = f"foxcast{tmp_path.as_posix()}"
    listener.bind(f"\0{name}")
    SystemdNotifier(f"@{name}").notify("STOPPING=1")
    assert listener.recv(64) == b"STOPPING=1"


def test_a_deaf_supervisor_is_logged_once(tmp_path: Path) -> None:
    supervisor = SystemdNotifier(str(tmp_path / "nobody"))
    with capture_logs() as logs:
        supervisor.notify("READY=1")
        supervisor.notify("WATCHDOG=1")
    assert [entry["event"] for entry in logs] == ["supervisor does not listen"]


@pytest.mark.parametrize("address", [None, ""])
def test_without_an_address_nothing_is_said(address: str | None) -> None:
    with capture_logs() as logs:
        SystemdNotifier(address).notify("READY=1")
    assert logs == []
