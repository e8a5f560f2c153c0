"""Pages of questions: every question is on one page of each order, whatever is filtered, searched or cut short."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlite_utils import Database

from bot.store.question_pages import (
    QuestionListEntry,
    QuestionPage,
    QuestionPageRequest,
    QuestionSort,
    list_question_venues,
    read_price_series,
    read_question_page,
    read_question_versions,
)
from bot.store.questions import QuestionState
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)


def _read(request: QuestionPageRequest, database: Database) -> QuestionPage:
    return read_question_page(database, request)


async def read_all(story: LedgerFixture, **asked: Any) -> list[list[QuestionListEntry]]:
    """Return the questions of all pages."""
    pages, after = [], ""
    while True:
        request = QuestionPageRequest(now=NOON, after=after, **asked)
        page = await story.ledger.questions.readers.run(partial(_read, request))
        pages.append([*page.questions])
        if page.next_page is None:
            return pages
        after = page.next_page


def keys(pages: Sequence[Sequence[QuestionListEntry]]) -> list[str]:
    return [one.row.ref.key for page in pages for one in page]


async def grow(story: LedgerFixture) -> None:
    """Seven questions: closing each day from two days ago on, but the last two, which never close."""
    for number in range(7):
        closes_at = None if number >= 5 else NOON + (number - 2) * DAY
        question = await story.ask(
            f"q{number}", closes_at=closes_at, title=f"Will {'rain' if number % 2 else 'snow'} fall?"
        )
        await story.forecast(question, 0.1 * number, now=NOON + timedelta(minutes=number))
    await story.resolve(story.question("q0", closes_at=NOON - 2 * DAY, title="Will snow fall?"), 1.0)


async def test_each_order_lists_every_question_once(ledger_fixture: LedgerFixture) -> None:
    await grow(ledger_fixture)
    for limit in (1, 2, 3, 7, 50):
        assert keys(await read_all(ledger_fixture, limit=limit)) == [f"q{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
        soonest = keys(await read_all(ledger_fixture, limit=limit, sort=QuestionSort.CLOSES))
        assert soonest == [f"q{number}" for number in range(7)]
        latest = keys(await read_all(ledger_fixture, limit=limit, sort=QuestionSort.CLOSED))
        assert latest == ["q4", "q3", "q2", "q1", "q0", "q5", "q6"]


async def test_a_question_is_listed_at_its_newest_forecast(ledger_fixture: LedgerFixture) -> None:
    await grow(ledger_fixture)
    again = ledger_fixture.question("q2", closes_at=NOON, title="Will snow fall?")
    await ledger_fixture.forecast(again, 0.9, now=NOON + timedelta(hours=1))
    pages = await read_all(ledger_fixture, limit=2)
    assert keys(pages) == ["q2", "q6", "q5", "q4", "q3", "q1", "q0"]
    assert [probability for _, probability in pages[0][0].beliefs["plain"]] == pytest.approx([0.2, 0.9])
    assert [probability for _, probability in pages[0][0].prices] == [0.25]


async def test_filters(ledger_fixture: LedgerFixture) -> None:
    await grow(ledger_fixture)
    for sort in QuestionSort:
        found = {
            state: sorted(keys(await read_all(ledger_fixture, state=state, sort=sort, limit=2)))
            for state in QuestionState
        }
        assert found == {
            QuestionState.OPEN: ["q3", "q4", "q5", "q6"],
            QuestionState.CLOSED: ["q1", "q2"],
            QuestionState.RESOLVED: ["q0"],
        }
        assert sorted(keys(await read_all(ledger_fixture, text="RAIN will", sort=sort))) == ["q1", "q3", "q5"]
        assert keys(await read_all(ledger_fixture, venue="elsewhere", sort=sort)) == []
        # A sign of a pattern is a letter like any other.
        assert keys(await read_all(ledger_fixture, text="%", sort=sort)) == []
    assert keys(await read_all(ledger_fixture, text="lantern:q3")) == ["q3"]
    assert await ledger_fixture.ledger.questions.readers.run(list_question_venues) == ["lantern"]


async def test_a_search_that_is_cut_short_continues_where_it_stopped(ledger_fixture: LedgerFixture) -> None:
    await grow(ledger_fixture)
    for sort in QuestionSort:
        pages = await read_all(ledger_fixture, text="snow", sort=sort, scanned=2, limit=50)
        assert len(pages) > 1
        assert sorted(keys(pages)) == ["q0", "q2", "q4", "q6"]


async def test_an_unknown_place_is_refused(ledger_fixture: LedgerFixture) -> None:
    request = QuestionPageRequest(now=NOON, after="nowhere")
    with pytest.raises(ValueError, match="begin with the first one"):
        await ledger_fixture.ledger.questions.readers.run(lambda database: read_question_page(database, request))


async def test_prices_and_versions_are_the_newest_in_order(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask("q0")
    for number in (1, 2):
        changed = ledger_fixture.question("q0", background=f"Text {number}.")
        await ledger_fixture.ledger.questions.record([changed], seen_at=NOON + number * DAY)
    readers, ref = ledger_fixture.ledger.questions.readers, str(question.ref)
    versions = await readers.run(lambda database: read_question_versions(database, ref, 2))
    assert [(at, one.background) for at, one in versions] == [(NOON + DAY, "Text 1."), (NOON + 2 * DAY, "Text 2.")]
    assert await readers.run(lambda database: read_price_series(database, ref, 9)) == [
        (NOON - timedelta(hours=1), 0.25)
    ]
