import socket
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.daemon.health import LoopWatchdog, StallDetector, SystemdNotifier
from bot.daemon.runner import DaemonLimits


def test_silence_is_counted_in_looks_without_a_new_sign() -> None:
    silence = StallDetector(5.0)
    assert [silence.update(signs) for signs in (0, 0, 0, 1, 1, 2)] == [0.0, 5.0, 10.0, 0.0, 5.0, 0.0]


def test_a_first_look_finds_no_silence_whatever_the_count() -> None:
    assert StallDetector(5.0).update(17) == 0.0


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


WATCH = DaemonLimits(heartbeat_s=0.01, check_every_s=0.01, wake_after_s=0.03, abort_after_s=0.06)


class FakeProcessControl:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.dead = threading.Event()

    def wakeup(self) -> None:
        self.calls.append("wakeup")

    def die(self) -> None:
        self.calls.append("die")
        self.dead.set()


def test_a_silent_loop_is_woken_and_then_ends_the_process() -> None:
    witness = FakeProcessControl()
    with LoopWatchdog(WATCH, signs=lambda: 1, wakeup=witness.wakeup, end_process=witness.die):
        assert witness.dead.wait(2.0)
    assert witness.calls[:4] == ["wakeup", "wakeup", "wakeup", "die"]


def test_a_loop_with_signs_of_life_is_left_alone() -> None:
    witness, signs, looked = FakeProcessControl(), count(), threading.Event()

    def sign() -> int:
        number = next(signs)
        if number == 10:
            looked.set()
        return number

    with LoopWatchdog(WATCH, signs=sign, wakeup=witness.wakeup, end_process=witness.die):
        assert looked.wait(2.0)
    assert witness.calls == []


def test_the_thread_ends_with_the_block() -> None:
    witness = FakeProcessControl()
    with LoopWatchdog(DaemonLimits(), signs=lambda: 1, wakeup=witness.wakeup, end_process=witness.die):
        assert "watchdog" in {thread.name for thread in threading.enumerate()}
    assert "watchdog" not in {thread.name for thread in threading.enumerate()}
