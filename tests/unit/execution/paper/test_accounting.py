"""What is wrong with a paper book is found, each in words, by the sums of what was booked."""

from pathlib import Path

import pytest
from sqlite_utils import Database

from bot.execution.paper import accounting
from bot.execution.paper.paper_book import PAPER_BOOK_FILE
from bot.testing.paper_market import FakePaperMarket
from tests.unit.execution.paper.paper_book_fixture import open_paper_book_fixture, order


# Ten shares cost 4.00 and a fee of 0.10 of the 100.00 that there were, in millionths.
@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ([], []),
        # A book of an older program has no totals.
        (["drop table total"], []),
        (
            ["update total set amount = amount + 1 where name = 'fees'"],
            ["the total of fees is 100001, its rows sum to 100000"],
        ),
        (
            ["delete from total where name = 'cash'", "update book set cash = 1"],
            [
                "cash is 1, its postings sum to 0",
                "all postings sum to -95900000",
                "the total of cash is 0, its rows sum to 95900000",
            ],
        ),
        # No fees were paid, so none need be among the totals.
        (["update fill set fee = 0", "delete from total where name = 'fees'"], []),
        (
            ["update book set cash = cash - 1"],
            ["cash is 95899999, its postings sum to 95900000"],
        ),
        (
            ["update position set shares = shares + 1"],
            ["the position rain yes is 10000001 for 4100000, its postings 10000000 for 4100000"],
        ),
    ],
)
async def test_each_fault_of_a_book_is_named(tmp_path: Path, changes: list[str], faults: list[str]) -> None:
    market = FakePaperMarket(prices={"rain": 0.4}, fee=0.01)
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
    database = Database(tmp_path / PAPER_BOOK_FILE)
    for change in changes:
        database.execute(change)
    assert accounting.find_faults(database) == faults
    database.conn.rollback()
    database.close()
