"""Contract kit for readers of a venue whose content the author knows: expected prices, times, kinds and outcomes.

Each failure says what an author probably did wrong, and where to look.
"""

# ruff: noqa: S101 - pytest is made of assert
import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from bot.core.errors import FoxcastError
from bot.core.interfaces import HttpClient
from bot.core.outcomes import BinaryOutcome, Outcome, Resolution, VoidOutcome
from bot.core.plugin_specs import PluginContext, PluginSettings, VenueSpec
from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.questions import Question, QuestionRef
from bot.core.values import Json
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient

ExpectedQuestion = tuple[float | None, datetime | None, str]
# A reader that makes more requests than this on a venue of a few questions does not stop by itself.
MAX_REQUESTS = 1000
PRICE_TOLERANCE = 1e-6
BAD_RECORD: Mapping[str, Json] = {"id": "planted-by-the-kit", "note": "this record has no other field"}


class QuestionListContract:
    """What every reader must do on pages that the author wrote down.

    ``pages`` is the web by address, ``outcome_pages`` the same once the questions of ``outcomes`` are resolved (or
    override the fixtures ``context`` and ``outcome_context``). ``expected`` is by key the price (probability of the
    crowd; of a choice that of its first option; None for none), ``closes_at``, and the kind ("binary", "choice" or
    "curve") of **every** question that must be listed: give at least two pages, and set ``has_pages`` to False only
    where a venue has none. ``outcomes`` is by key what is expected of those that are resolved. ``events`` is by key the
    event, the group whose cap an order counts for. ``cursor_field`` is the field of a page, if any, that names
    the next one. The event loop is never held for more than ``max_pause_s``.
    """

    spec: ClassVar[VenueSpec[Any]]
    settings: ClassVar[PluginSettings]
    pages: ClassVar[Mapping[str, bytes | Exception]] = {}
    outcome_pages: ClassVar[Mapping[str, bytes | Exception] | None] = None
    ignored_parameter: ClassVar[str] = ""
    expected: ClassVar[Mapping[str, ExpectedQuestion]]
    outcomes: ClassVar[Mapping[str, Outcome]] = {}
    events: ClassVar[Mapping[str, str]] = {}
    has_pages: ClassVar[bool] = True
    cursor_field: ClassVar[str] = ""
    max_pause_s: ClassVar[float] = 0.5

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return self._context_of(self.pages, tmp_path)

    @pytest.fixture
    def outcome_context(self, context: PluginContext) -> PluginContext:
        return context if self.outcome_pages is None else self._context_of(self.outcome_pages, context.folder)

    def _context_of(self, pages: Mapping[str, bytes | Exception], folder: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(), http=FakeHttpClient(pages, idle=self.ignored_parameter), folder=folder)

    async def test_all_expected_questions_are_listed_and_no_others(self, context: PluginContext) -> None:
        listed = await self._list_questions(context)
        keys = [question.ref.key for question in listed]
        wrong = {question.ref.venue for question in listed} - {self.spec.name}
        assert not wrong, (
            f"questions are listed under the venue {', '.join(sorted(wrong))}, but this one is {self.spec.name!r}: "
            "look at QuestionRef(venue, key)"
        )
        twice = sorted({key for key in keys if keys.count(key) > 1})
        assert not twice, f"listed more than once: {twice}. Use a key that is unique at the venue, and skip repetitions"
        missing = sorted(set(self.expected) - set(keys))
        assert not missing, (
            f"not listed: {missing}. Does the reader ask for the pages after the first, with the cursor of the last "
            "one? Does no filter drop them, and are they not left out as unreadable (a time without a zone, a price "
            "outside [0, 1])?"
        )
        more = sorted(set(keys) - set(self.expected))
        assert not more, (
            f"listed, but not in `expected`: {more}. Leave out questions that are closed or resolved, or add them"
        )

    async def test_the_pages_are_more_than_one(self, context: PluginContext) -> None:
        if not self.has_pages:
            pytest.skip("this venue lists everything in one answer")
        client = _CountingClient(context.http)
        await self._list_questions(replace(context, http=client))
        assert client.count > 1, (
            "everything was listed with one request, so this kit cannot see whether the reader follows its cursor: "
            "put a second page into `pages`, or set has_pages = False"
        )

    async def test_prices_are_those_of_the_page(self, context: PluginContext) -> None:
        for question in await self._list_questions(context):
            wanted, found = self.expected.get(question.ref.key, (None,))[0], _price_of(question)
            if question.ref.key in self.expected:
                assert _prices_agree(wanted, found), _explain_price(question.ref.key, wanted, found)

    async def test_closing_times_are_those_of_the_page(self, context: PluginContext) -> None:
        for question in await self._list_questions(context):
            wanted = self.expected.get(question.ref.key, (None, question.closes_at, ""))[1]
            assert wanted == question.closes_at, (
                f"{question.ref}: closes_at is {question.closes_at}, expected {wanted}. Which field of the record says "
                "when trading ends? It is often not the one of the resolution; mind its unit and zone"
            )

    async def test_kinds_are_those_of_the_page(self, context: PluginContext) -> None:
        for question in await self._list_questions(context):
            wanted = self.expected.get(question.ref.key, (None, None, question.shape.kind))[2]
            assert wanted == question.shape.kind, (
                f"{question.ref} is read as {question.shape.kind}, expected {wanted}: look at how its shape is chosen"
            )

    async def test_events_are_named_so_that_their_cap_binds(self, context: PluginContext) -> None:
        for question in await self._list_questions(context):
            wanted, found = self.events.get(question.ref.key, ""), question.event
            assert found == wanted or not wanted, (
                f"{question.ref}: event is {found!r}, expected {wanted!r}. Without it the cap of an event "
                "never binds, and orders on questions that win or lose together are not added up"
            )

    async def test_outcomes_are_those_of_the_page(self, context: PluginContext, outcome_context: PluginContext) -> None:
        asked = {question.ref: question for question in await self._list_questions(context)}
        async with self.spec.reader(self.settings, outcome_context) as venue:
            found = [one async for one in venue.resolutions(tuple(asked))]
        early = sorted({one.ref.key for one in found} - set(self.outcomes))
        assert not early, f"has an outcome, but is not in `outcomes`: {early}. Is an open question taken for resolved?"
        missing = sorted(set(self.outcomes) - {one.ref.key for one in found})
        assert not missing, f"no outcome is read of {missing}: does resolutions() ask for all that are pending?"
        for one in found:
            assert one.outcome == self.outcomes[one.ref.key], _explain_outcome(one, self.outcomes[one.ref.key])

    async def test_a_question_that_is_gone_costs_no_other_outcome(
        self, context: PluginContext, outcome_context: PluginContext
    ) -> None:
        asked = [question.ref for question in await self._list_questions(context)]
        gone = QuestionRef(self.spec.name, f"{asked[0].key}9")
        async with self.spec.reader(self.settings, outcome_context) as venue:
            try:
                found = {one.ref.key async for one in venue.resolutions((gone, *asked))}
            except (FoxcastError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                pytest.fail(
                    f"one question that the venue does not have any more ended all outcomes ({error}): those after it "
                    "would never be read. Catch NotFoundError and MalformedDataError for each question, and log them"
                )
        lost = sorted(set(self.outcomes) - found)
        assert not lost, f"one question that the venue does not have any more cost also the outcomes of {lost}"

    async def test_a_record_that_cannot_be_read_costs_that_record_only(self, context: PluginContext) -> None:
        poisoned = replace(context, http=_PoisoningClient(context.http))
        try:
            keys = {question.ref.key for question in await self._list_questions(poisoned)}
        except (FoxcastError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            pytest.fail(
                f"one record without the usual fields ended the whole listing ({type(error).__name__}: {error}). Read "
                "each record in a try of its own, leave out what cannot be read, and log the first ones"
            )
        lost = sorted(set(self.expected) - keys)
        assert not lost, f"one record that cannot be read cost also {lost}: leave out that record, not its page"

    async def test_pages_without_an_end_are_not_followed_for_ever(self, context: PluginContext) -> None:
        client = _EndlessClient(context.http, self.cursor_field)
        with contextlib.suppress(FoxcastError):
            await self._list_questions(replace(context, http=client))

    async def test_reading_does_not_hold_the_event_loop(self, context: PluginContext) -> None:
        pauses = []
        for _ in range(3):
            pauses.append(await _measure_pause(lambda: self._list_questions(context)))
            if pauses[-1] <= self.max_pause_s:
                return
        pytest.fail(
            f"the reader held the event loop for {min(pauses):.2f} s: everything else of the program waited. Look for "
            "time.sleep, requests, urllib, open files or long parsing; use context.http, context.clock.sleep and "
            "asyncio.to_thread"
        )

    async def _list_questions(self, context: PluginContext) -> list[Question]:
        async with self.spec.reader(self.settings, context) as venue:
            try:
                return [question async for question in venue.questions()]
            except ValueError as error:
                pytest.fail(
                    f"the reader made an impossible question: {error}. Times need a zone (datetime.fromtimestamp(..., "
                    "UTC)), and prices are probabilities from 0 to 1, not percents or cents"
                )


def _price_of(question: Question) -> float | None:
    match question.crowd.prediction if question.crowd else None:
        case BinaryPrediction(probability=price):
            return price
        case ChoicePrediction(probabilities=prices):
            option = getattr(question.shape, "options", ("",))[0]
            return prices.get(option)
    return None


def _prices_agree(wanted: float | None, found: float | None) -> bool:
    if wanted is None or found is None:
        return wanted is found
    return math.isclose(wanted, found, abs_tol=PRICE_TOLERANCE)


def _explain_price(key: str, wanted: float | None, found: float | None) -> str:
    text = f"{key}: the crowd's price is {found}, expected {wanted}"
    if wanted is None or found is None:
        return f"{text}. Is its price read, and only where there is one?"
    causes = {
        1.0 - wanted: "that is the price of the other side (NO): look at which side the field is of",
        wanted / 100: "it was divided by 100 twice, or is no percent: look at the unit of the field",
        wanted * 100: "it is a percent: divide by 100",
    }
    known = [cause for price, cause in causes.items() if math.isclose(price, found, abs_tol=PRICE_TOLERANCE)]
    return f"{text}: {known[0]}" if known else f"{text}. Look at which field, which side and which option is read"


def _explain_outcome(found: Resolution, wanted: Outcome) -> str:
    text = f"{found.ref}: the outcome is {found.outcome}, expected {wanted}"
    if isinstance(wanted, VoidOutcome):
        return f"{text}: the venue cancelled it, which is VoidOutcome, and no side wins"
    if isinstance(found.outcome, BinaryOutcome) and isinstance(wanted, BinaryOutcome):
        return f"{text}: is the outcome of the other side read?"
    return f"{text}. Look at the field that names the winner"


class _CountingClient:
    """Implements HttpClient on another one; yields to the event loop, and stops a reader that never ends."""

    def __init__(self, inner: HttpClient) -> None:
        self.inner = inner
        self.count = 0

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return await self._answer(url, lambda: self.inner.get(url, max_bytes=max_bytes, headers=headers))

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return await self._answer(
            url, lambda: self.inner.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)
        )

    async def _answer(self, url: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        self.count += 1
        if self.count > MAX_REQUESTS:
            pytest.fail(
                f"the reader made more than {MAX_REQUESTS} requests to a venue whose pages never end: bound the number "
                "of pages, and stop at a cursor that was seen before"
            )
        await _let_others_run(0.0)
        return self.change(url, await ask())

    def change(self, url: str, body: bytes) -> bytes:
        """Return the body that the reader gets."""
        return body


class _PoisoningClient(_CountingClient):
    """Puts a record that cannot be read in front of the longest list of every page that is JSON."""

    def change(self, url: str, body: bytes) -> bytes:
        page = _parse_json(body)
        found = page if isinstance(page, list) else _longest_list(page)
        if not found or not isinstance(found[0], dict):
            return body
        found.insert(0, dict(BAD_RECORD))
        return json.dumps(page).encode()


class _EndlessClient(_CountingClient):
    """Answers every request for a path as the first one, under a new cursor each time."""

    def __init__(self, inner: HttpClient, cursor_field: str) -> None:
        super().__init__(inner)
        self._cursor_field = cursor_field
        self._bodies: dict[str, bytes] = {}

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        path = urlsplit(url).path

        async def repeat() -> bytes:
            if path not in self._bodies:
                self._bodies[path] = await self.inner.get(url, max_bytes=max_bytes, headers=headers)
            return self._bodies[path]

        return await self._answer(url, repeat)

    def change(self, url: str, body: bytes) -> bytes:
        page = _parse_json(body)
        if isinstance(page, dict) and page.get(self._cursor_field):
            cursor = str(page[self._cursor_field])
            glue = "&again=" if "?" in cursor else "?again=" if cursor.startswith("http") else "-"
            page[self._cursor_field] = f"{cursor}{glue}{self.count}"
            return json.dumps(page).encode()
        return body


def _parse_json(body: bytes) -> Any:  # noqa: ANN401 - whatever the page holds
    try:
        return json.loads(body)
    except ValueError:
        return None


def _longest_list(page: object) -> list[Any]:
    lists = [one for one in page.values() if isinstance(one, list)] if isinstance(page, dict) else []
    return max(lists, key=len, default=[])


async def _let_others_run(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


async def _measure_pause(work: Callable[[], Awaitable[object]]) -> float:
    """Return the longest time in seconds for which nothing else could run."""
    loop, moments = asyncio.get_running_loop(), list[float]()
    pending: asyncio.Handle = loop.call_soon(moments.clear)

    def tick() -> None:
        nonlocal pending
        moments.append(loop.time())
        pending = loop.call_later(0.005, tick)

    pending = loop.call_soon(tick)
    try:
        await _let_others_run(0.01)
        await work()
        await _let_others_run(0.01)
    finally:
        pending.cancel()
    return max(after - before for before, after in pairwise(moments))
