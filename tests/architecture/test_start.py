"""What starting costs and what a test may reach: checked on the running interpreter, not by reading source."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_socket import SocketConnectBlockedError

# Each takes between 0.1 s and several seconds to load; most commands need none of them.
HEAVY = ("aiohttp", "apscheduler", "httpx", "litellm", "numpy", "scipy", "sqlite_utils", "websockets")

LOADED = "import sys, {module}; print(*sorted(sys.modules))"
# Commands that people and scripts run often: with half a second in all, their imports may take little of it.
READING = ("status", "doctor", "orders", "portfolio", "costs", "questions", "show", "approvals", "audit")
NOT_FOR_READING = {*HEAVY, "pandas", "matplotlib"} - {"sqlite_utils"}


def _loaded_by(module: str, *, whole: bool = False) -> set[str]:
    """Return the packages that importing a module loads, or with ``whole`` the modules."""
    command = [sys.executable, "-c", LOADED.format(module=module)]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {name if whole else name.partition(".")[0] for name in names}


def test_the_command_line_loads_nothing_heavy() -> None:
    assert _loaded_by("bot.cli.main") & set(HEAVY) == set()


def test_commands_that_only_read_load_neither_the_daemon_nor_what_is_heavy() -> None:
    loaded = _loaded_by(", ".join(f"bot.cli.{command}" for command in READING), whole=True)
    assert {name.partition(".")[0] for name in loaded} & NOT_FOR_READING == set()
    running = ("bot.app", "bot.jobs", "bot.llm.gateway", "bot.daemon", "bot.execution.outbox")
    assert [name for name in loaded if name.startswith(running)] == []


def test_a_daemon_starts_without_numpy() -> None:
    # It takes 13 MB, which a forecast of probabilities does not need.
    assert _loaded_by("bot.cli.run, bot.cli.forecast, plugins.blf.forecaster") & {"numpy", "scipy"} == set()


def test_a_daemon_starts_without_tables_and_colours(tmp_path: Path) -> None:
    # rich takes 5 MB; it is loaded for the summary of a pass, and with it for the logs of a program that is no daemon.
    (tmp_path / "config.toml").write_text('plugins = ["blf", "openai_compatible"]\n')
    command = [sys.executable, "-X", "importtime", "-m", "foxcast", "run"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "no venue is configured" in done.stderr
    assert {"structlog.dev", "bot.app.app", "plugins.models._wire_chat"} <= loaded
    assert [name for name in loaded if name.startswith(("rich.", "pygments.", "numpy.", "apscheduler."))] == []


def test_the_api_of_plugins_loads_nothing_heavy() -> None:
    # Doctor and the start of the daemon load every enabled plugin.
    modules = "forecaster, venue_planner, venue_prices, venue_submitter, data, job, model, notifier, search"
    assert _loaded_by(", ".join(f"bot.api.{name}" for name in modules.split(", "))) & NOT_FOR_READING == set()


def test_sqlite_utils_hides_pandas_from_nobody_else() -> None:
    assert "pandas" in _loaded_by("bot.store, pandas")


WRITE = """write_client as used, contextlib
with contextlib.suppress(AttributeError):
    used.HttpWriteClient(rates=None).send(None, max_bytes=1, deadline_s=1).send(None)
import sys"""


@pytest.mark.parametrize(
    "use",
    [
        "web.addresses as used; used.parse_fetch_target('https://example.org/')",
        "connections as used; used.HttpClientPool(used.ProxySettings(), connections=1).client_for('https://a.example/')",
        "connections as used; used.create_tls_context(used.ProxySettings(trust_env=True))",
        WRITE,
    ],
    ids=["page", "pool", "environment", "write"],
)
def test_httpx_comes_without_its_command_line(use: str) -> None:
    loaded = _loaded_by(f"bot.net.{use}")
    assert "httpx" in loaded
    assert loaded & {"pygments", "rich"} == set()


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
