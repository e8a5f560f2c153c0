"""The list of questions: filters, search, order, and pages that continue where the last one ended."""

from enum import StrEnum
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from bot.store.question_pages import QuestionPageRequest, QuestionSort, list_question_venues, read_question_page
from bot.store.questions import QuestionState
from bot.web.page_context import DashboardContext, PageRequestError
from bot.web.page_rendering import page_link
from bot.web.question_cells import question_cells

MAX_SEARCH_CHARS = 200
SORTS = (
    (QuestionSort.FORECAST, "Last forecast"),
    (QuestionSort.CLOSES, "Closing soonest"),
    (QuestionSort.CLOSED, "Closing latest"),
)
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


async def show_questions(context: DashboardContext, request: Request) -> Response:
    """Answer with a page of the list."""
    readers, query = context.state.ledger.questions.readers, request.query_params
    asked = QuestionPageRequest(
        now=context.state.clock.now(),
        venue=query.get("venue") or None,
        state=parse_choice(QuestionState, query.get("state")),
        text=query.get("q", "").strip()[:MAX_SEARCH_CHARS],
        sort=parse_choice(QuestionSort, query.get("sort")) or QuestionSort.FORECAST,
        after=query.get("after", ""),
    )
    try:
        page = await readers.run(lambda database: read_question_page(database, asked))
    except ValueError as error:
        raise PageRequestError(str(error)) from error
    filters = {
        "q": asked.text or None,
        "venue": asked.venue,
        "state": None if asked.state is None else asked.state.value,
        "sort": asked.sort.value,
    }
    values = {
        "rows": [question_cells(context, one) for one in page.questions],
        "asked": asked,
        "venues": await readers.run(list_question_venues),
        "states": [one.value for one in QuestionState],
        "sorts": [(one.value, text) for one, text in SORTS],
        "is_partial": page.is_partial,
        "first_link": page_link("/questions", **filters) if asked.after else None,
        "next_link": None if page.next_page is None else page_link("/questions", **filters, after=page.next_page),
    }
    return await context.respond(request, "questions.html", values)


def parse_choice(kind: type[ChoiceT], text: str | None) -> ChoiceT | None:
    """Return the member that a value of a query names, None for an empty one; raises PageRequestError."""
    if not text:
        return None
    try:
        return kind(text)
    except ValueError as error:
        names = ", ".join(one.value for one in kind)
        message = f"{text!r} is not one of {names}"
        raise PageRequestError(message) from error
