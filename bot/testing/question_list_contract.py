"""Contract kit for readers of a venue whose content the author knows: expected prices, times, kinds and outcomes.

Each failure says what an author probably did wrong, and where to look.
"""

# ruff: noqa: S101 - pytest is made of assert
import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from bot.core.errors import FoxcastError, ServiceUnavailableError
from bot.core.interfaces import HttpClient
from bot.core.outcomes import BinaryOutcome, Outcome, Resolution, VoidOutcome
from bot.core.plugin_specs import PluginContext, PluginSettings, VenueSpec
from bot.core.questions import Question, QuestionRef
from bot.core.values import Json
from bot.testing.clock import FakeClock
from bot.testing.expected_values import (
    ExpectedPrice,
    explain_time,
    require_detail,
    require_plausible,
    require_prices,
)
from bot.testing.http import FakeHttpClient

ExpectedQuestion = tuple[ExpectedPrice, datetime | None, str]
# A reader that makes more requests than this on a venue of a few questions does not stop by itself.
MAX_REQUESTS = 1000
CLOCK_TOLERANCE = timedelta(minutes=1)
BAD_RECORD: Mapping[str, Json] = {"id": "planted-by-the-kit", "note": "this record has no other field"}


class QuestionListContract:
    """What every reader must do on pages that the author wrote down.

    ``pages`` is the web by address, ``outcome_pages`` the same once the questions of ``outcomes`` are resolved (or
    override the fixtures ``context`` and ``outcome_context``). ``expected`` is by key the price (probability of the
    crowd; of a choice those of all options by name; None for none), ``closes_at``, and the kind ("binary", "choice" or
    "curve") of **every** question that must be listed: give at least two pages, and set ``has_pages`` to False only
    where a venue has none. ``outcomes`` is by key what is expected of those that are resolved, ``resolved_at`` since
    when it is known. ``events`` is by key the event, the group whose cap an order counts for. ``details`` are by key
    further values: those of any field of Question, and of ``expected_values.QUESTION_DETAILS``; a curve needs its
    "range". ``cursor_field`` is the field of a page, if any, that names the next one. The event loop is never held for
    more than ``max_pause_s``.
    """

    spec: ClassVar[VenueSpec[Any]]
    settings: ClassVar[PluginSettings]
    pages: ClassVar[Mapping[str, bytes | Exception]] = {}
    outcome_pages: ClassVar[Mapping[str, bytes | Exception] | None] = None
    ignored_parameter: ClassVar[str] = ""
    expected: ClassVar[Mapping[str, ExpectedQuestion]]
    outcomes: ClassVar[Mapping[str, Outcome]] = {}
    resolved_at: ClassVar[Mapping[str, datetime]] = {}
    events: ClassVar[Mapping[str, str]] = {}
    details: ClassVar[Mapping[str, Mapping[str, object]]] = {}
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
        assert not keys or not set(keys).isdisjoint(self.expected), (
            f"no key is one of `expected`: {sorted(keys)} are listed. The key in QuestionRef(venue, key) is the "
            "venue's own id of the question, which never changes, and by which its outcome is asked for"
        )
        missing = sorted(set(self.expected) - set(keys))
        assert not missing, (
            f"not listed: {missing}. Does the reader ask for the pages after the first, with the cursor of the last "
            "one? Does no filter drop them, and are they not left out as unreadable (a time without a zone or in "
            "milliseconds, a price or spread outside [0, 1])?"
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

    async def test_no_page_is_read_twice(self, context: PluginContext) -> None:
        client = _CountingClient(context.http)
        await self._list_questions(replace(context, http=client))
        twice = sorted({url for url in client.urls if client.urls.count(url) > 1})
        assert not twice, (
            f"read more than once for one list: {twice}. Take the cursor of the page that was just read, and stop "
            "where there is none"
        )

    async def test_a_record_on_two_pages_is_listed_once(self, context: PluginContext) -> None:
        questions = await self._list_questions(replace(context, http=_RepeatingClient(context.http)))
        keys = [question.ref.key for question in questions]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        assert not twice, (
            f"listed more than once: {twice}. A record moves to the next page when another one is added while pages "
            "are read: remember the keys that were listed"
        )

    async def test_a_second_listing_shows_the_same(
        self, context: PluginContext, outcome_context: PluginContext
    ) -> None:
        async with self.spec.reader(self.settings, context) as venue:
            first, second = [[question.ref async for question in venue.questions()] for _ in range(2)]
        lost = sorted(ref.key for ref in set(first) - set(second))
        assert not lost, f"listed the first time, but not the second: {lost}. What was seen belongs to one listing"
        async with self.spec.reader(self.settings, outcome_context) as venue:
            once, again = [[found.ref async for found in venue.resolutions(first)] for _ in range(2)]
        lost = sorted(ref.key for ref in set(once) - set(again))
        assert not lost, f"the outcome of {lost} is read only the first time that it is asked for"

    async def test_prices_are_those_of_the_page(self, context: PluginContext) -> None:
        for question in await self._list_questions(context):
            if question.ref.key in self.expected:
                require_prices(question, self.expected[question.ref.key][0])

    async def test_closing_times_are_those_of_the_page(self, context: PluginContext) -> None:
        for question in await self._list_questions(context):
            wanted, found = self.expected.get(question.ref.key, (None, question.closes_at, ""))[1], question.closes_at
            assert wanted == found, (
                f"{question.ref}: closes_at is {found}, expected {wanted}{explain_time(found, wanted)}. Which field "
                "of the record says when trading ends? It is often not that of the resolution; mind its unit and zone"
            )

    async def test_times_are_plausible(self, context: PluginContext, outcome_context: PluginContext) -> None:
        now, questions = context.clock.now(), await self._list_questions(context)
        for question in questions:
            assert question.closes_at is None or question.closes_at > now, (
                f"{question.ref} is listed, though trading ended at {question.closes_at}: leave out what is over, "
                "whatever its status says"
            )
            times = {"opens_at": question.opens_at, "as_of": question.as_of}
            times |= {f"target {target.key!r}: resolves_at": target.resolves_at for target in question.targets}
            if question.crowd is not None:
                times["crowd.at"] = question.crowd.at
                assert question.crowd.at <= now + CLOCK_TOLERANCE, (
                    f"{question.ref}: crowd.at is {question.crowd.at}, but it is {now}: it is when the price was read "
                    "(context.clock.now()) or last changed, not when the question ends"
                )
            require_plausible(question.ref, times)
        async with self.spec.reader(self.settings, outcome_context) as venue:
            async for found in venue.resolutions([question.ref for question in questions]):
                require_plausible(found.ref, {"resolved_at": found.resolved_at})

    async def test_details_are_those_of_the_page(self, context: PluginContext) -> None:
        curves = {key for key, (_, _, kind) in self.expected.items() if kind == "curve"}
        missing = sorted(key for key in curves if "range" not in self.details.get(key, {}))
        assert not missing, f'give the range of {missing} in `details`, such as {{"range": (0.0, 100.0)}}'
        for question in await self._list_questions(context):
            for name, wanted in self.details.get(question.ref.key, {}).items():
                require_detail(question, name, wanted)

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
        names = [(one.ref.key, one.target) for one in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        assert not twice, f"two outcomes are read of one target: {twice}. Each target has one outcome, read once"
        early = sorted({one.ref.key for one in found} - set(self.outcomes))
        assert not early, f"has an outcome, but is not in `outcomes`: {early}. Is an open question taken for resolved?"
        missing = sorted(set(self.outcomes) - {one.ref.key for one in found})
        assert not missing, f"no outcome is read of {missing}: does resolutions() ask for all that are pending?"
        for one in found:
            assert one.outcome == self.outcomes[one.ref.key], _explain_outcome(one, self.outcomes[one.ref.key])
            known_at = self.resolved_at.get(one.ref.key, one.resolved_at)
            assert one.resolved_at == known_at, (
                f"{one.ref}: resolved_at is {one.resolved_at}, expected {known_at}"
                f"{explain_time(one.resolved_at, known_at)}. Which field says since when the outcome is known? "
                "Scores and lessons count from then"
            )

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

    async def test_an_outage_is_not_taken_for_open_questions(
        self, context: PluginContext, outcome_context: PluginContext
    ) -> None:
        asked = [question.ref for question in await self._list_questions(context)]
        error = ServiceUnavailableError("the kit: the venue cannot be reached")
        async with self.spec.reader(self.settings, replace(outcome_context, http=_FailingClient(error))) as venue:
            try:
                found = [one.ref.key async for one in venue.resolutions(asked)]
            except ServiceUnavailableError:
                return
        pytest.fail(
            f"context.http raised ServiceUnavailableError, and resolutions() swallowed it (it yields {found}): let it "
            "pass, else an outage looks as if nothing were resolved. Only NotFoundError and MalformedDataError are "
            "about one question"
        )

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
        self.urls: list[str] = []

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        self.urls.append(url)
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


class _FailingClient(_CountingClient):
    """Raises an error for every request."""

    def __init__(self, error: FoxcastError) -> None:
        super().__init__(FakeHttpClient({}))
        self._error = error

    async def _answer(self, url: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        raise self._error


class _PoisoningClient(_CountingClient):
    """Puts a record that cannot be read in front of the longest list of every page that is JSON."""

    def change(self, url: str, body: bytes) -> bytes:
        page = _parse_json(body)
        found = page if isinstance(page, list) else _longest_list(page)
        if not found or not isinstance(found[0], dict):
            return body
        found.insert(0, dict(BAD_RECORD))
        return json.dumps(page).encode()


class _RepeatingClient(_CountingClient):
    """Puts the last record of every page in front of the next page of the same path."""

    def __init__(self, inner: HttpClient) -> None:
        super().__init__(inner)
        self._last_records: dict[str, Any] = {}

    def change(self, url: str, body: bytes) -> bytes:
        page, path = _parse_json(body), urlsplit(url).path
        records = page if isinstance(page, list) else _longest_list(page)
        if not records or not isinstance(records[-1], dict):
            return body
        last, self._last_records[path] = self._last_records.get(path), records[-1]
        if last is None:
            return body
        records.insert(0, last)
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
