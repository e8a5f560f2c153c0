"""Alerts to real programs: what they get, what they do not get, and how they can fail."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from bot.api import AlertLevel, NotificationMessage, ServiceUnavailableError
from bot.testing.clock import START
from plugins.notify.command import CommandChannel, CommandSettings

HOSTILE = "$(touch pwned); `touch pwned` && touch pwned\n| touch pwned"
MESSAGE = NotificationMessage(subject=HOSTILE, text=HOSTILE, level=AlertLevel.CRITICAL, id="b" * 24, at=START)
RECORD = """
import json, os, sys
json.dump({"stdin": json.load(sys.stdin), "env": dict(os.environ), "args": sys.argv[2:]}, open(sys.argv[1], "w"))
"""


async def run(*command: str, timeout_s: float = 20.0) -> None:
    await CommandChannel(CommandSettings(run=command, timeout_s=timeout_s)).notify(MESSAGE)


async def test_the_program_gets_the_alert_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOXCAST_MODELS__LITELLM__SETTINGS__KEY", "sk-very-secret")
    monkeypatch.chdir(tmp_path)
    await run(sys.executable, "-c", RECORD, "found.json", "--urgent")
    found = json.loads((tmp_path / "found.json").read_text())
    fields = {"id": "b" * 24, "at": START.isoformat(), "level": "critical", "subject": HOSTILE, "text": HOSTILE}
    assert found["stdin"] == fields
    assert {f"ALERT_{name.upper()}": text for name, text in fields.items()}.items() <= found["env"].items()
    assert found["args"] == ["--urgent"]
    assert not [name for name in found["env"] if name.startswith("FOXCAST_")]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.exit('no such pager')", "exit code 1: no such pager"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
        ("import sys; sys.stderr.write('x' * 1_000_000 + ' the end'); sys.exit(3)", "exit code 3: .* the end"),
    ],
)
async def test_a_program_that_fails_is_quoted(code: str, why: str) -> None:
    with pytest.raises(ServiceUnavailableError, match=why):
        await run(sys.executable, "-c", code)


async def test_a_program_that_reads_nothing_is_fine() -> None:
    await run(sys.executable, "-c", "import os; os.close(0)")


async def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(ServiceUnavailableError, match=r"/no/such/pager cannot be run: No such file"):
        await run("/no/such/pager")


async def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    marker = tmp_path / "lives"
    child = f"import pathlib, time; time.sleep(1); pathlib.Path({str(marker)!r}).touch()"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    with pytest.raises(ServiceUnavailableError, match=r"did not end within 0\.5 s"):
        await run(sys.executable, "-c", parent, timeout_s=0.5)
    await asyncio.sleep(1.2)
    assert not marker.exists()
