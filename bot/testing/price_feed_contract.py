"""Contract kit for price feeds: tests that a plugin's test module inherits."""

# ruff: noqa: S101 - pytest is made of assert
import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, ClassVar

import pytest

from bot.core.errors import ServiceUnavailableError
from bot.core.interfaces import PriceFeed
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import VenueSpec
from bot.core.predictions import BinaryPrediction, ChoicePrediction, Prediction, prediction_mismatch
from bot.core.questions import Question, QuestionRef, Quote

# In real seconds: a feed that has a quote sends it well within these.
WAIT_LIMIT_S = 10.0
_SILENCE = "the other side sends nothing any more, which is ServiceUnavailableError"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFeedSetup:
    """What the kit of price feeds has to work with.

    ``questions`` are those to be watched, ``others`` are not. ``move`` moves the price of a question at the other side
    and returns what must be quoted; ``silence`` stops all messages, and lets the time pass after which silence is
    suspicious; ``now`` is its time.
    """

    feed: PriceFeed
    questions: Sequence[Question]
    others: Sequence[Question]
    move: Callable[[Question], Awaitable[Prediction]]
    silence: Callable[[], Awaitable[None]]
    now: Callable[[], datetime]
    tolerance: float = 1e-6


class PriceFeedContract:
    """What every price feed must do. The subclass gives the fixture ``feed_setup``."""

    # The venue of this feed, so that a test can check that every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]

    async def test_a_move_is_quoted_as_it_is(self, feed_setup: PriceFeedSetup) -> None:
        question = feed_setup.questions[0]
        async with aclosing(_open_quotes(feed_setup)) as quotes:
            await _wait_until_listening(quotes, feed_setup)
            await _wait_for_quote(quotes, question.ref, await feed_setup.move(question), feed_setup.tolerance)

    async def test_every_watched_question_is_quoted(self, feed_setup: PriceFeedSetup) -> None:
        async with aclosing(_open_quotes(feed_setup)) as quotes:
            await _wait_until_listening(quotes, feed_setup)
            for question in feed_setup.questions:
                await _wait_for_quote(quotes, question.ref, await feed_setup.move(question), feed_setup.tolerance)

    async def test_only_what_is_watched_is_quoted(self, feed_setup: PriceFeedSetup) -> None:
        watched = {question.ref for question in feed_setup.questions}
        async with aclosing(_open_quotes(feed_setup)) as quotes:
            await _wait_until_listening(quotes, feed_setup)
            for question in feed_setup.others:
                await feed_setup.move(question)
            last = feed_setup.questions[0]
            wanted = await feed_setup.move(last)
            heard = await _collect_quotes_until(quotes, last.ref, wanted, feed_setup.tolerance)
        others = sorted(str(ref) for ref in {quote.ref for quote in heard} - watched)
        assert not others, f"the feed quotes {others}, which nobody watches: leave out what is not in `refs`"

    async def test_quotes_fit_their_questions_and_have_a_time(self, feed_setup: PriceFeedSetup) -> None:
        shapes = {question.ref: question.shape for question in feed_setup.questions}
        async with aclosing(_open_quotes(feed_setup)) as quotes:
            await _wait_until_listening(quotes, feed_setup)
            for question in feed_setup.questions:
                wanted = await feed_setup.move(question)
                quote = await _wait_for_quote(quotes, question.ref, wanted, feed_setup.tolerance)
                mismatch, now = prediction_mismatch(quote.prediction, shapes[quote.ref]), feed_setup.now()
                assert mismatch is None, f"a quote of {quote.ref} does not fit its question: its {mismatch}"
                assert quote.at.utcoffset() is not None, f"Quote.at of {quote.ref} has no time zone"
                assert abs((quote.at - now).total_seconds()) < 3600, (
                    f"Quote.at of {quote.ref} is {quote.at}, but it is {now}: mind its zone, and whether the message "
                    "counts seconds or milliseconds"
                )

    async def test_silence_is_unavailability(self, feed_setup: PriceFeedSetup) -> None:
        async with aclosing(_open_quotes(feed_setup)) as quotes:
            await _wait_until_listening(quotes, feed_setup)
            quiet = asyncio.ensure_future(_read_all_quotes(quotes))
            await feed_setup.silence()
            try:
                async with asyncio.timeout(WAIT_LIMIT_S):
                    await quiet
            except ServiceUnavailableError:
                return
            except TimeoutError:
                pytest.fail(
                    f"{_SILENCE}, but the feed waits: ask for a sign of life, and count the time since the last"
                )
        pytest.fail(f"{_SILENCE}, but the feed ended as if all were said")

    async def test_it_can_be_closed_and_opened_again(self, feed_setup: PriceFeedSetup) -> None:
        for _ in range(2):
            async with aclosing(_open_quotes(feed_setup)) as quotes:
                await _wait_until_listening(quotes, feed_setup)


def _open_quotes(feed_setup: PriceFeedSetup) -> Any:  # noqa: ANN401 - an asynchronous generator, which the port does not promise
    return feed_setup.feed.quotes([question.ref for question in feed_setup.questions])


async def _wait_until_listening(quotes: AsyncIterator[Quote], feed_setup: PriceFeedSetup) -> None:
    """Wait until the feed is known to listen: until its first quote after a move."""
    first = asyncio.ensure_future(anext(quotes))
    try:
        async with asyncio.timeout(WAIT_LIMIT_S):
            while not first.done():
                await feed_setup.move(feed_setup.questions[0])
                await asyncio.wait({first}, timeout=0.02)
            await first
    except TimeoutError:
        pytest.fail(
            f"no quote of {feed_setup.questions[0].ref} came within {WAIT_LIMIT_S:g} s, though its price moved "
            "again and again: is it subscribed to, and are its messages parsed under the right name?"
        )
    finally:
        # A generator that is still being awaited cannot be closed.
        first.cancel()
        await asyncio.wait({first})


async def _wait_for_quote(
    quotes: AsyncIterator[Quote], ref: QuestionRef, wanted: Prediction, tolerance: float
) -> Quote:
    return (await _collect_quotes_until(quotes, ref, wanted, tolerance))[-1]


async def _collect_quotes_until(
    quotes: AsyncIterator[Quote], ref: QuestionRef, wanted: Prediction, tolerance: float
) -> list[Quote]:
    """Return all quotes up to the expected price."""
    heard: list[Quote] = []

    def is_wanted(quote: Quote) -> bool:
        heard.append(quote)
        return quote.ref == ref and _is_close(quote.prediction, wanted, tolerance)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_LIMIT_S):
            if await _reaches_quote(quotes, is_wanted):
                return heard
    pytest.fail(_explain_missing_quote(ref, wanted, heard, tolerance))


async def _reaches_quote(quotes: AsyncIterator[Quote], is_wanted: Callable[[Quote], bool]) -> bool:
    async for quote in quotes:
        if is_wanted(quote):
            return True
    return False


def _explain_missing_quote(ref: QuestionRef, wanted: Prediction, heard: Sequence[Quote], tolerance: float) -> str:
    text = f"the price of {ref} moved to {_prices_text(wanted)}, and no such quote came"
    same = [quote for quote in heard if quote.ref == ref]
    if not same:
        named = sorted({str(quote.ref) for quote in heard})
        return f"{text}: there are quotes of {named or 'nothing'}. Is every question subscribed to, under its own name?"
    last = same[-1].prediction
    if isinstance(last, BinaryPrediction) and _is_close(BinaryPrediction(1.0 - last.probability), wanted, tolerance):
        return f"{text}, but {_prices_text(last)}: that is the price of the other side"
    return (
        f"{text}, but {_prices_text(last)} at last: is it the price of this message, unrounded, and the middle of "
        "bid and ask where the reader takes the middle?"
    )


def _prices_text(prediction: Prediction) -> str:
    return ", ".join(f"{name} {price:.6g}" for name, price in list(_prediction_values(prediction).items())[:5])


async def _read_all_quotes(quotes: AsyncIterator[Quote]) -> None:
    async for _ in quotes:
        pass


def _is_close(one: Prediction, other: Prediction, tolerance: float) -> bool:
    if type(one) is not type(other):
        return False
    mine, theirs = _prediction_values(one), _prediction_values(other)
    return mine.keys() == theirs.keys() and all(abs(mine[key] - theirs[key]) <= tolerance for key in mine)


def _prediction_values(prediction: Prediction) -> Mapping[str, float]:
    if isinstance(prediction, BinaryPrediction):
        return {"yes": prediction.probability}
    if isinstance(prediction, ChoicePrediction):
        return dict(prediction.probabilities)
    return {str(place): share for place, share in enumerate(prediction.cdf)}
