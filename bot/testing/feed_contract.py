"""Contract kits for price feeds, and for readers that find one question by its name.

Subclass a kit in a test module under a name that begins with ``Test``, give its fixtures, and pytest runs it.
"""
# ruff: noqa: S101 - pytest is made of assert

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

import pytest

from bot.domain.prediction import Binary, Choice, Prediction, mismatch
from bot.domain.question import Question, QuestionRef
from bot.domain.research import Quote
from bot.errors import NotFound, Rejected, Unavailable
from bot.ports import Finder, PriceFeed
from bot.specs import VenueSpec

# In real seconds: a feed that has something to say says it well within these.
PATIENCE_S = 10.0
# Names that no venue gives: none may be looked for anywhere but at the venue, nor end in a crash.
ODD_NAMES = (
    "",
    "   ",
    "no-such-question-exists-here",
    "../../etc/passwd",
    "?x=1#y",
    "https://evil.example/questions/1",
    "https://evil.example\\@127.0.0.1/1",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "\x00",
    "\ud800",
    "-1",
    "9" * 400,
    "%2e%2e%2f",
    "x" * 5000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booth:
    """What the kit of price feeds has to work with.

    ``questions`` are those to be watched, ``others`` are not. ``move`` moves the price of a question at the other side
    and returns what must be quoted; ``silence`` stops it from saying anything, and lets the time pass after which
    silence is suspicious; ``now`` is its time.
    """

    feed: PriceFeed
    questions: Sequence[Question]
    others: Sequence[Question]
    move: Callable[[Question], Awaitable[Prediction]]
    silence: Callable[[], Awaitable[None]]
    now: Callable[[], datetime]
    tolerance: float = 1e-6


class PriceFeedContract:
    """What every price feed must do. The subclass gives the fixture ``booth``."""

    # Whose feed this is, so that a test can tell whether every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]

    async def test_a_move_is_quoted_as_it_is(self, booth: Booth) -> None:
        question = booth.questions[0]
        async with aclosing(_quotes(booth)) as quotes:
            await _listening(quotes, booth)
            quoted = await _until(quotes, question.ref, await booth.move(question), booth.tolerance)
        assert quoted is not None

    async def test_every_watched_question_is_quoted(self, booth: Booth) -> None:
        async with aclosing(_quotes(booth)) as quotes:
            await _listening(quotes, booth)
            for question in booth.questions:
                await _until(quotes, question.ref, await booth.move(question), booth.tolerance)

    async def test_only_what_is_watched_is_quoted(self, booth: Booth) -> None:
        watched = {question.ref for question in booth.questions}
        async with aclosing(_quotes(booth)) as quotes:
            await _listening(quotes, booth)
            for question in booth.others:
                await booth.move(question)
            last = booth.questions[0]
            wanted = await booth.move(last)
            heard = await _heard_until(quotes, last.ref, wanted, booth.tolerance)
        assert {quote.ref for quote in heard} <= watched

    async def test_quotes_fit_their_questions_and_have_a_time(self, booth: Booth) -> None:
        shapes = {question.ref: question.shape for question in booth.questions}
        async with aclosing(_quotes(booth)) as quotes:
            await _listening(quotes, booth)
            for question in booth.questions:
                wanted = await booth.move(question)
                quote = await _until(quotes, question.ref, wanted, booth.tolerance)
                assert mismatch(quote.prediction, shapes[quote.ref]) is None
                assert quote.at.utcoffset() is not None
                assert abs((quote.at - booth.now()).total_seconds()) < 3600

    async def test_silence_is_unavailability(self, booth: Booth) -> None:
        async with aclosing(_quotes(booth)) as quotes:
            await _listening(quotes, booth)
            quiet = asyncio.ensure_future(_drain(quotes))
            await booth.silence()
            with pytest.raises(Unavailable):
                async with asyncio.timeout(PATIENCE_S):
                    await quiet

    async def test_it_can_be_closed_and_opened_again(self, booth: Booth) -> None:
        for _ in range(2):
            async with aclosing(_quotes(booth)) as quotes:
                await _listening(quotes, booth)


class FinderContract:
    """What every reader that finds must do.

    The subclass gives the fixtures ``finder`` and ``reached`` (a function that returns the hosts that were asked so
    far) and ``hosts`` (those of the venue); ``unfit`` is the name of something that is there and cannot be forecast,
    None where there is no such thing.
    """

    # As above.
    spec: ClassVar[VenueSpec[Any]]

    @pytest.fixture
    def unfit(self) -> str | None:
        return None

    async def test_a_listed_question_is_found_by_its_key(self, finder: Finder) -> None:
        for question in await _listed(finder):
            found = await finder.find(question.ref.key)
            assert _stated(found) == _stated(question)

    async def test_a_listed_question_is_found_by_its_address(self, finder: Finder) -> None:
        listed = await _listed(finder)
        for question in listed:
            if question.url is None:
                continue
            if sum(one.url == question.url for one in listed) > 1:
                # Who gives an address of several is told their names.
                with pytest.raises(Rejected, match=re.escape(question.ref.key)):
                    await finder.find(question.url)
                continue
            assert _stated(await finder.find(question.url)) == _stated(question)

    async def test_blanks_around_a_name_do_not_matter(self, finder: Finder) -> None:
        question = (await _listed(finder))[0]
        assert (await finder.find(f"  {question.ref.key}\n")).ref == question.ref

    @pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:40]))
    async def test_an_odd_name_is_not_found(self, finder: Finder, name: str) -> None:
        with pytest.raises((NotFound, Rejected)):
            await finder.find(name)

    @pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:40]))
    async def test_no_name_leads_to_another_host(
        self, finder: Finder, name: str, hosts: frozenset[str], reached: Callable[[], frozenset[str]]
    ) -> None:
        # The other check looks at the errors.
        with contextlib.suppress(Exception):
            await finder.find(name)
        assert reached() <= hosts

    async def test_what_cannot_be_forecast_is_rejected_with_a_reason(self, finder: Finder, unfit: str | None) -> None:
        if unfit is not None:
            with pytest.raises(Rejected) as caught:
                await finder.find(unfit)
            assert str(caught.value).strip()


def _quotes(booth: Booth) -> Any:  # noqa: ANN401 - an asynchronous generator, which the port does not promise
    return booth.feed.quotes([question.ref for question in booth.questions])


async def _listening(quotes: AsyncIterator[Quote], booth: Booth) -> None:
    """Wait until the feed is known to listen: until the first thing it says after a move."""
    first = asyncio.ensure_future(anext(quotes))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not first.done():
                await booth.move(booth.questions[0])
                await asyncio.wait({first}, timeout=0.02)
            await first
    finally:
        # Nothing closes a generator that is still being asked.
        first.cancel()
        await asyncio.wait({first})


async def _until(quotes: AsyncIterator[Quote], ref: QuestionRef, wanted: Prediction, tolerance: float) -> Quote:
    return (await _heard_until(quotes, ref, wanted, tolerance))[-1]


async def _heard_until(
    quotes: AsyncIterator[Quote], ref: QuestionRef, wanted: Prediction, tolerance: float
) -> list[Quote]:
    """Return all that is quoted up to the price that is waited for."""
    heard: list[Quote] = []
    async with asyncio.timeout(PATIENCE_S):
        async for quote in quotes:
            heard.append(quote)
            if quote.ref == ref and _same(quote.prediction, wanted, tolerance):
                return heard
    pytest.fail("the feed ended")


async def _drain(quotes: AsyncIterator[Quote]) -> None:
    async for _ in quotes:
        pass


async def _listed(finder: Finder) -> list[Question]:
    found = [question async for question in finder.questions()]
    assert found
    return found


def _stated(question: Question) -> Question:
    """Return what a question says, without what moves while it is read twice."""
    return replace(question, crowd=None)


def _same(one: Prediction, other: Prediction, tolerance: float) -> bool:
    if type(one) is not type(other):
        return False
    mine, theirs = _numbers(one), _numbers(other)
    return mine.keys() == theirs.keys() and all(abs(mine[key] - theirs[key]) <= tolerance for key in mine)


def _numbers(prediction: Prediction) -> Mapping[str, float]:
    if isinstance(prediction, Binary):
        return {"yes": prediction.probability}
    if isinstance(prediction, Choice):
        return dict(prediction.probabilities)
    return {str(place): share for place, share in enumerate(prediction.cdf)}
