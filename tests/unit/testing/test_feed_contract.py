"""The kits for feeds and finders are mutated before they are trusted: each break must fail the check named with it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.errors import NotFoundError, RequestRejectedError, ServiceUnavailableError
from bot.core.predictions import BinaryPrediction, ChoicePrediction, Prediction
from bot.core.questions import Question, QuestionRef, Quote
from bot.testing import price_feed_contract
from bot.testing.price_feed_contract import PriceFeedContract, PriceFeedSetup
from bot.testing.venue import FakeVenueReader
from bot.testing.venue_contracts import ODD_NAMES, QuestionReaderContract
from tests.unit.testing.correct_venue import START, Failure, checks_of, question, run_check

HOST = "lantern.example"
Broken = (*Failure, TimeoutError, StopAsyncIteration, ServiceUnavailableError)


class CorrectFeed:
    """Sound: what moves is quoted to every listener that asked for it."""

    def __init__(self) -> None:
        self.listening: list[asyncio.Queue[Quote | None]] = []
        self.prices: dict[QuestionRef, float] = {}

    async def move(self, asked: Question) -> Prediction:
        self.prices[asked.ref] = (self.prices.get(asked.ref, 0.3) * 7 + 0.11) % 0.9 + 0.05
        quote = Quote(ref=asked.ref, prediction=BinaryPrediction(self.prices[asked.ref]), at=START)
        for queue in self.listening:
            queue.put_nowait(quote)
        return quote.prediction

    async def silence(self) -> None:
        for queue in self.listening:
            queue.put_nowait(None)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        queue: asyncio.Queue[Quote | None] = asyncio.Queue()
        self.listening.append(queue)
        try:
            while True:
                async for quote in self.said(await queue.get(), refs):
                    yield quote
        finally:
            self.listening.remove(queue)

    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        if quote is None:
            message = "nothing was heard for a minute"
            raise ServiceUnavailableError(message)
        if quote.ref in refs:
            yield quote


class MistakenFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, refs):
            assert isinstance(one.prediction, BinaryPrediction)
            yield replace(one, prediction=BinaryPrediction(1 - one.prediction.probability))


class PartialFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, [*refs][:1]):
            yield one


class ChattyFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        if quote is None:
            async for one in super().said(None, refs):
                yield one
        else:
            yield quote


class ShapelessFeed(CorrectFeed):
    async def move(self, asked: Question) -> Prediction:
        prediction = ChoicePrediction({"low": 0.5, "high": 0.5})
        for queue in self.listening:
            queue.put_nowait(Quote(ref=asked.ref, prediction=prediction, at=START))
        return prediction


class TimelessFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, refs):
            yield replace(one, at=datetime(1970, 1, 1, tzinfo=UTC))


class WaitingFeed(CorrectFeed):
    async def silence(self) -> None:
        """Wait on."""


class EndingFeed(CorrectFeed):
    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        try:
            # Closed here and now: an iterator that is left to the collector ends who knows when.
            async with aclosing(super().quotes(refs)) as quotes:  # type: ignore[type-var]
                async for quote in quotes:
                    yield quote
        except ServiceUnavailableError:
            return


class MuteFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        nothing: list[Quote] = []
        for one in nothing:
            yield one


class SingleUseFeed(CorrectFeed):
    """Cannot be opened a second time."""

    opened = 0

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        self.opened += 1
        if self.opened > 1:
            message = "already open"
            raise ServiceUnavailableError(message)
        async with aclosing(super().quotes(refs)) as quotes:  # type: ignore[type-var]
            async for quote in quotes:
                yield quote


class LaggingFeed(CorrectFeed):
    """Says each time what was said the time before."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[QuestionRef, Quote] = {}

    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, refs):
            yield self.before.get(one.ref, one)
            self.before[one.ref] = one


class MisnamingFeed(CorrectFeed):
    """Says everything of the first question."""

    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, refs):
            yield replace(one, ref=next(iter(refs)))


class FutureTimeFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, refs):
            yield replace(one, at=one.at + timedelta(days=1))


class RoundingFeed(CorrectFeed):
    async def said(self, quote: Quote | None, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        async for one in super().said(quote, refs):
            assert isinstance(one.prediction, BinaryPrediction)
            yield replace(one, prediction=BinaryPrediction(round(one.prediction.probability, 1)))


FEED_MUTANTS: list[tuple[str, type[CorrectFeed]]] = [
    ("a_move_is_quoted_as_it_is", MistakenFeed),
    ("a_move_is_quoted_as_it_is", MuteFeed),
    ("a_move_is_quoted_as_it_is", LaggingFeed),
    ("a_move_is_quoted_as_it_is", RoundingFeed),
    ("every_watched_question_is_quoted", PartialFeed),
    ("every_watched_question_is_quoted", MisnamingFeed),
    ("only_what_is_watched_is_quoted", ChattyFeed),
    ("quotes_fit_their_questions_and_have_a_time", ShapelessFeed),
    ("quotes_fit_their_questions_and_have_a_time", TimelessFeed),
    ("quotes_fit_their_questions_and_have_a_time", FutureTimeFeed),
    ("silence_is_unavailability", WaitingFeed),
    ("silence_is_unavailability", EndingFeed),
    ("it_can_be_closed_and_opened_again", SingleUseFeed),
]


def create_feed_setup(feed: CorrectFeed) -> PriceFeedSetup:
    return PriceFeedSetup(
        feed=feed,
        questions=[question(0), question(1)],
        others=[question(2)],
        move=feed.move,
        silence=feed.silence,
        now=lambda: START + timedelta(minutes=1),
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is broken need not be waited for as long as what is slow."""
    monkeypatch.setattr(price_feed_contract, "WAIT_LIMIT_S", 0.2)


@pytest.mark.parametrize("name", checks_of(PriceFeedContract))
async def test_a_sound_feed_passes(name: str) -> None:
    await run_check(PriceFeedContract(), name, feed_setup=create_feed_setup(CorrectFeed()))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("name", "mutant"), FEED_MUTANTS)
async def test_a_broken_feed_is_found(name: str, mutant: type[CorrectFeed]) -> None:
    with pytest.raises(Broken):
        await run_check(PriceFeedContract(), name, feed_setup=create_feed_setup(mutant()))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("name", "mutant", "words"),
    [
        ("a_move_is_quoted_as_it_is", MistakenFeed, "the price of the other side"),
        ("a_move_is_quoted_as_it_is", RoundingFeed, "unrounded"),
        ("a_move_is_quoted_as_it_is", MuteFeed, "is it subscribed to"),
        ("every_watched_question_is_quoted", PartialFeed, "Is every question subscribed to"),
        ("only_what_is_watched_is_quoted", ChattyFeed, "which nobody watches"),
        ("quotes_fit_their_questions_and_have_a_time", TimelessFeed, "seconds or milliseconds"),
        ("silence_is_unavailability", WaitingFeed, "ask for a sign of life"),
        ("silence_is_unavailability", EndingFeed, "ended as if all were said"),
    ],
)
async def test_the_usual_mistakes_of_a_feed_are_named(name: str, mutant: type[CorrectFeed], words: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception), match=words):
        await run_check(PriceFeedContract(), name, feed_setup=create_feed_setup(mutant()))


def test_every_check_of_a_feed_has_a_mutant() -> None:
    assert {name for name, _ in FEED_MUTANTS} == set(checks_of(PriceFeedContract))


def known(number: int) -> Question:
    return replace(question(number), url=f"https://{HOST}/lamps/{number}")


class CorrectReader(FakeVenueReader):
    """Sound: finds by key and by address, and says why a lamp without a wick is none to forecast."""

    def __init__(self) -> None:
        super().__init__([known(0), known(1)])
        self.asked: set[str] = set()

    async def find_question(self, name: str) -> Question:
        self.asked.add(HOST)
        key = self.key_of(name.strip())
        if key == "9":
            message = "lamp 9 has no wick"
            raise RequestRejectedError(message)
        async for one in self.questions():
            if one.ref.key == key:
                return self.stated(one)
        message = f"no lamp {key[:20]!r}"
        raise NotFoundError(message)

    def key_of(self, name: str) -> str:
        return name.removeprefix(f"https://{HOST}/lamps/")

    def stated(self, found: Question) -> Question:
        return found


class ShortReader(CorrectReader):
    def stated(self, found: Question) -> Question:
        return replace(found, criteria="cut sh")


class AddresslessReader(CorrectReader):
    def key_of(self, name: str) -> str:
        return name


class ObligingReader(CorrectReader):
    async def find_question(self, name: str) -> Question:
        try:
            return await super().find_question(name)
        except NotFoundError:
            return known(0)


class StrictReader(CorrectReader):
    async def find_question(self, name: str) -> Question:
        if name != name.strip():
            raise NotFoundError(name)
        return await super().find_question(name)


class CrashingReader(CorrectReader):
    def key_of(self, name: str) -> str:
        return str(int(super().key_of(name)))


class StrayingReader(CorrectReader):
    async def find_question(self, name: str) -> Question:
        if name.startswith("https://"):
            self.asked.add(name.split("/")[2])
        return await super().find_question(name)


class SilentReader(CorrectReader):
    async def find_question(self, name: str) -> Question:
        if name == "9":
            raise RequestRejectedError
        return await super().find_question(name)


class LaxReader(CorrectReader):
    async def find_question(self, name: str) -> Question:
        return known(9) if name == "9" else await super().find_question(name)


class MistakingReader(CorrectReader):
    """Takes any address for that of the first one."""

    def key_of(self, name: str) -> str:
        return "0" if name.startswith("https://") else name


class TrustingReader(CorrectReader):
    """Goes wherever an address leads that names its host somewhere."""

    async def find_question(self, name: str) -> Question:
        self.asked |= {part for part in name.split("/")[2:3] if "127.0.0.1" in part}
        return await super().find_question(name)


class FragileReader(CorrectReader):
    """Takes a name that is too long for a sign that the venue is down."""

    async def find_question(self, name: str) -> Question:
        if len(name) > 1000:
            raise ServiceUnavailableError(name[:20])
        return await super().find_question(name)


class CuriousReader(CorrectReader):
    """Listed under one name, found under another."""

    def stated(self, found: Question) -> Question:
        return replace(found, ref=QuestionRef("lantern", f"lamp-{found.ref.key}"))


FINDER_MUTANTS: list[tuple[str, type[CorrectReader]]] = [
    ("a_listed_question_is_found_by_its_key", ShortReader),
    ("a_listed_question_is_found_by_its_address", AddresslessReader),
    ("a_listed_question_is_found_by_its_address", ShortReader),
    ("a_listed_question_is_found_by_its_address", MistakingReader),
    ("a_listed_question_is_found_by_its_key", CuriousReader),
    ("blanks_around_a_name_do_not_matter", CuriousReader),
    ("blanks_around_a_name_do_not_matter", StrictReader),
    ("an_odd_name_is_not_found", ObligingReader),
    ("an_odd_name_is_not_found", CrashingReader),
    ("an_odd_name_is_not_found", FragileReader),
    ("no_name_leads_to_another_host", StrayingReader),
    ("no_name_leads_to_another_host", TrustingReader),
    ("what_cannot_be_forecast_is_rejected_with_a_reason", SilentReader),
    ("what_cannot_be_forecast_is_rejected_with_a_reason", LaxReader),
]


async def check_finder(name: str, kind: Callable[[], CorrectReader]) -> None:
    for odd in ODD_NAMES if "name" in name else ("",):
        reader = kind()
        hosts = frozenset({HOST})
        arguments = {"finder": reader, "name": odd, "hosts": hosts, "unfit": "9"}
        await run_check(QuestionReaderContract(), name, **arguments, reached=lambda r=reader: frozenset(r.asked))


@pytest.mark.parametrize("name", checks_of(QuestionReaderContract))
async def test_a_sound_finder_passes(name: str) -> None:
    await check_finder(name, CorrectReader)


@pytest.mark.parametrize(("name", "mutant"), FINDER_MUTANTS)
async def test_a_broken_finder_is_found(name: str, mutant: type[CorrectReader]) -> None:
    with pytest.raises((*Failure, NotFoundError, ServiceUnavailableError, ValueError)):
        await check_finder(name, mutant)


def test_every_check_of_a_finder_has_a_mutant() -> None:
    assert {name for name, _ in FINDER_MUTANTS} == set(checks_of(QuestionReaderContract))
