import asyncio
import os
import signal
from pathlib import Path

import pytest

from bot.cli.run import halt_on_signal


async def until_seen(folder: Path) -> bool:
    file = folder / "STOP"
    for _ in range(10_000):
        if file.exists():
            return True
        await asyncio.sleep(0)
    return False


async def test_a_signal_halts_everything(tmp_path: Path) -> None:
    stop = tmp_path / "state" / "STOP"
    with halt_on_signal(stop):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert await until_seen(stop.parent)
    assert stop.read_text() == "SIGUSR1\n"


async def test_a_stop_file_that_cannot_be_made_does_not_end_the_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("no folder")
    with halt_on_signal(tmp_path / "state" / "STOP"):
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(100):
            await asyncio.sleep(0)
    assert "cannot halt" in capsys.readouterr().out


async def test_outside_the_block_the_signal_is_nobodys(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with halt_on_signal(tmp_path / "STOP"):
        assert signal.getsignal(signal.SIGUSR1) != before
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
