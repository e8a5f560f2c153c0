"""What starting costs and what a test may reach: checked on the running interpreter, not by reading source."""

import socket
import subprocess
import sys

import pytest
from pytest_socket import SocketConnectBlockedError

# Each takes between 0.1 s and several seconds to load; most commands need none of them.
HEAVY = ("apscheduler", "httpx", "litellm", "numpy", "scipy", "sqlite_utils", "websockets")

LOADED = "import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"


def _loaded_by(module: str) -> set[str]:
    command = [sys.executable, "-c", LOADED.format(module=module)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_the_command_line_loads_nothing_heavy() -> None:
    assert _loaded_by("bot.cli.main") & set(HEAVY) == set()


def test_the_launcher_loads_nothing_of_the_program_before_it_is_called() -> None:
    assert _loaded_by("foxcast") & {"bot", "plugins"} == set()


def test_a_heavy_import_would_be_seen() -> None:
    assert "numpy" in _loaded_by("bot.stats.arrays")


def test_no_test_connects_beyond_this_machine() -> None:
    # 192.0.2.1 is reserved for documentation (RFC 5737), so nothing answers even if the guard fails.
    with (
        socket.socket() as outward,
        pytest.warns(UserWarning, match=r"192\.0\.2\.1"),
        pytest.raises(SocketConnectBlockedError),
    ):
        outward.connect(("192.0.2.1", 80))


def test_a_test_may_connect_on_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
