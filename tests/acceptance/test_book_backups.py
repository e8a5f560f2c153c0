"""``foxcast db`` where there is a paper book: one backup is one set, seen as a person sees it."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.acceptance.conftest import InProcessCommand, installed
from tests.acceptance.test_accounts import VENUE, trade


def cash_of(book: Path) -> int:
    with closing(sqlite3.connect(book)) as connection:
        return int(connection.execute("select cash from book").fetchone()[0])


def test_a_paper_book_is_backed_up_checked_and_restored_with_its_ledger(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path)
    folder = foxcast.folder / "state" / "paper"
    asyncio.run(trade(folder))
    book = folder / VENUE / "book.sqlite"
    before = cash_of(book)

    made = run_command(foxcast, "db", "backup", "--json").json
    assert [Path(one).name for one in made["books"]] == ["book.sqlite"]
    assert f"with the paper books {VENUE}/book.sqlite" in run_command(foxcast, "db", "backup").out
    assert [one["sound"] for one in run_command(foxcast, "db", "check", "--json").json["books"]] == [True]

    with closing(sqlite3.connect(book)) as connection, connection:
        connection.execute("update book set cash = cash + 1")
    checked = run_command(foxcast, "db", "check")
    assert checked.code == 1
    assert "the book is inconsistent" in checked.out

    answer = run_command(foxcast, "db", "restore", made["path"])
    assert answer.code == 0
    assert f"restored paper books: {VENUE}/book.sqlite" in answer.out
    assert cash_of(book) == before
    assert run_command(foxcast, "db", "check").code == 0

    shutil.rmtree(Path(made["path"]).with_suffix(".books"))
    assert run_command(foxcast, "db", "restore", made["path"]).is_refusal(5, "is incomplete", f"{VENUE}/book.sqlite")
