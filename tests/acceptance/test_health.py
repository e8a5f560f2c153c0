"""Whether others can see from outside that a bot works, is degraded, or died: with the real daemon."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CONFIG, CommandResult, FoxcastInstallation, installed

UNREACHABLE = """
plugins = ["manifold", "baseline"]

[venues.manifold]
forecasters = ["baseline"]

[venues.manifold.settings]
base_url = "http://127.0.0.1:9"
"""
PATIENCE_S = 60.0

pytestmark = pytest.mark.timeout(180)


@contextmanager
def daemon(foxcast: FoxcastInstallation) -> Iterator[subprocess.Popen[str]]:
    """Run the daemon until the block ends."""
    process = subprocess.Popen(
        [COMMAND, "run"],
        cwd=foxcast.folder,
        env=foxcast.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def check_until(foxcast: FoxcastInstallation, code: int) -> CommandResult:
    """Run the check until it ends with this code."""
    end = time.monotonic() + PATIENCE_S
    while (found := foxcast("status", "--check")).code != code:
        assert time.monotonic() < end, found
    return found


def wait_for_daemon(foxcast: FoxcastInstallation) -> None:
    """Wait until the daemon has started: from then on it records why it ends."""
    end = time.monotonic() + PATIENCE_S
    while (found := foxcast("status", "--check", "--json").json)["daemon"] != "running":
        assert time.monotonic() < end, found


def findings(foxcast: FoxcastInstallation, check: str, *, code: int) -> list[dict[str, str]]:
    """Return what the doctor says of one check, given its exit code."""
    answer = foxcast("doctor", "--json")
    assert answer.code == code, answer
    return [one for one in json.loads(answer.out) if one["check"] == check]


def test_a_running_daemon_is_healthy_a_stopped_one_is_not_running_and_a_killed_one_died(tmp_path: Path) -> None:
    foxcast = installed(tmp_path)
    assert foxcast("status", "--check") == CommandResult(3, "not running\n", "")
    with daemon(foxcast) as process:
        heartbeat = tmp_path / "state" / "paper" / "heartbeat.json"
        end = time.monotonic() + PATIENCE_S
        while not heartbeat.exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        assert check_until(foxcast, 0).out == "healthy\n"
        answer = foxcast("status", "--check", "--json").json
        assert answer == {"state": "healthy", "daemon": "running", "problems": []}
        assert findings(foxcast, "daemon", code=0)[0]["verdict"] == "ok"
        process.send_signal(signal.SIGKILL)
        process.wait()
        dead = foxcast("status", "--check")
        assert dead.code == 3
        assert dead.out.startswith("not running\ncritical: the daemon died; its last heartbeat was at ")
        assert dead.out.endswith("start it again: foxcast run\n")
        assert "problem: the daemon died" in foxcast("status").out
        [found] = findings(foxcast, "daemon", code=1)
        assert (found["verdict"], found["remedy"]) == ("fail", "start it again: foxcast run")
    with daemon(foxcast):
        # While it starts, the last heartbeat is still that of the killed one.
        wait_for_daemon(foxcast)
    # It was asked to stop, and nothing is wrong.
    assert foxcast("status", "--check") == CommandResult(3, "not running\n", "")
    assert "problem" not in foxcast("status").out
    assert findings(foxcast, "daemon", code=0)[0]["verdict"] == "ok"
    [run] = [one for one in foxcast("status", "--json").json["runs"] if one["job"] == "forecast"]
    assert run["ok"]


def test_after_the_only_venue_failed_every_command_says_so(tmp_path: Path) -> None:
    foxcast = installed(tmp_path, UNREACHABLE)
    assert foxcast("run", "--once").code == 3
    status = foxcast("status")
    assert "problem: manifold could not be read: http://127.0.0.1:9/" in status.out
    [found] = findings(foxcast, "venue", code=1)
    assert found["verdict"] == "fail"
    assert found["found"].startswith("manifold could not be read: ")
    check = foxcast("status", "--check")
    assert check.code == 3
    assert "warning: manifold could not be read" in check.out
    with daemon(foxcast):
        degraded = check_until(foxcast, 1)
    assert degraded.out.startswith("degraded\nwarning: manifold could not be read")


def test_a_watcher_sees_health_and_metrics_of_a_daemon_over_http(tmp_path: Path) -> None:
    foxcast = installed(tmp_path, CONFIG + '\n[web]\nlisten = "127.0.0.1:0"\n[log]\nformat = "json"\n')
    with daemon(foxcast) as process, httpx.Client(timeout=PATIENCE_S) as client:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
        root = next(line["address"] for line in lines if line["event"] == "dashboard, health, metrics and API")
        address = f"{root}healthz"
        # What it logs from here on must not fill the pipe.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        end = time.monotonic() + PATIENCE_S
        while (ready := client.get(address)).status_code != 200:
            assert time.monotonic() < end, ready.text
            time.sleep(0.2)
        assert ready.json() == {"status": "healthy", "problems": []}
        assert client.get(f"{address}/live").status_code == 200
        text = client.get(address.replace("/healthz", "/metrics")).text
        families = {family.name for family in text_string_to_metric_families(text)}
        assert {"foxcast_healthy", "foxcast_queue", "foxcast_job_seconds"} <= families
        # The page comes from the daemon's own loop: a daemon that is paused does not answer.
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(httpx.TimeoutException):
            client.get(address, timeout=1.0)
        process.send_signal(signal.SIGCONT)


def test_a_service_is_written_for_this_configuration(tmp_path: Path) -> None:
    foxcast = installed(tmp_path)
    shown = foxcast("service", "install", "--print")
    assert f'ExecStart="{COMMAND}" "--config" "{tmp_path}/config.toml" "run"' in shown.out
    assert not (tmp_path / "state").exists()
    done = foxcast("service", "install")
    assert done.code == 0
    unit = tmp_path / ".config" / "systemd" / "user" / "foxcast.service"
    assert unit.read_text() == shown.out
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert "systemctl --user enable --now foxcast.service" in done.out
    foxcast.config.unlink()
    assert foxcast("service", "install").is_refusal(2, "a service needs a configuration file")
