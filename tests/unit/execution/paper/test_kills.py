"""A paper book under SIGKILL at every commit: before it, within it, after it; then the story is told to its end."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.core.orders import Account
from bot.execution.paper import accounting
from bot.execution.paper.book_database import PAPER_BOOK_MIGRATIONS, open_book_database
from bot.execution.paper.paper_book import PAPER_BOOK_FILE
from bot.testing.clock import START
from tests.unit.execution.paper.kill_recovery import PLACES, tell

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def nursery() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.execution.paper.kill_recovery"],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process
        process.kill()


def killed(nursery: "subprocess.Popen[str]", folder: Path, at: int, place: str) -> list[str]:
    """Let the story be told until the kill; return what was acknowledged by then."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{folder} {at} {place}\n")
    nursery.stdin.flush()
    said: list[str] = []
    for line in nursery.stdout:
        if line.startswith("ended"):
            assert line.split() == ["ended", "-9"]
            return said
        said.append(line.strip())
    raise AssertionError(said)


async def faults(folder: Path) -> list[str]:
    async with open_book_database(folder / PAPER_BOOK_FILE, PAPER_BOOK_MIGRATIONS, now=START) as file:
        return await file.writer.run(accounting.find_faults)


def reported(account: Account) -> tuple[object, ...]:
    return account.cash, account.positions, account.orders


@pytest.mark.parametrize("place", PLACES)
async def test_a_kill_at_any_commit_loses_nothing_and_doubles_nothing(
    nursery: "subprocess.Popen[str]", tmp_path: Path, place: str
) -> None:
    whole, writes = await tell(tmp_path / "whole")
    assert writes > 15
    for at in range(1, writes + 1):
        folder = tmp_path / str(at)
        killed(nursery, folder, at, place)
        assert await faults(folder) == []
        account, _ = await tell(folder)
        assert reported(account) == reported(whole), at
        assert await faults(folder) == []


async def test_a_second_kill_while_it_recovers_changes_nothing_either(
    nursery: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    whole, writes = await tell(tmp_path / "whole")
    for at in range(3, writes, 4):
        folder = tmp_path / f"twice-{at}"
        killed(nursery, folder, at, "after")
        killed(nursery, folder, 2, "within")
        account, _ = await tell(folder)
        assert reported(account) == reported(whole), at
