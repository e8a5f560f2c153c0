"""Live prices over the venue's socket, verified by reading books.

The socket may stay open and answer pings for hours without any update: a book that was silent for long is compared with
a reading, and the connection is renewed every ten minutes in any case. Messages about resolutions make books unknown,
which are then read; outcomes only come from the reader. Source: docs/facts/polymarket.md#sockets.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import structlog

from bot.api import (
    BinaryPrediction,
    Clock,
    MalformedDataError,
    NotFoundError,
    Prediction,
    PriceFeed,
    PriceFeedContext,
    QuestionRef,
    Quote,
    RequestRejectedError,
    ServiceUnavailableError,
    WebSocketConnection,
)
from plugins.polymarket.api_client import PolymarketClient, build_url, split_into_chunks
from plugins.polymarket.event_groups import event_group, event_id_of_key
from plugins.polymarket.live_books import LiveBooks
from plugins.polymarket.market_parser import CONDITION_PATTERN, parse_market
from plugins.polymarket.questions import choice_from_prices, mid_price
from plugins.polymarket.settings import PolymarketReadingSettings

log = structlog.get_logger(__name__)

MAX_FRAME_BYTES = 8_000_000
# With more tokens, initial full books were missing.
MAX_TOKENS_PER_SOCKET = 200
PING_EVERY_S = 10.0
# Pings are answered at once; a connection that is silent for this long is lost.
SOCKET_TIMEOUT_S = 30.0
BOOK_CHECK_INTERVAL_S = 10.0
RECONNECT_INTERVAL_S = 600.0
# How many quotes may wait for the reader of the feed before the socket has to wait.
QUOTE_QUEUE_SIZE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedQuestion:
    """A question and the YES token of each option ("" for a question without options)."""

    ref: QuestionRef
    tokens: Mapping[str, str]
    other: str = ""


class PolymarketPriceFeed:
    """Implements ``PriceFeed``."""

    def __init__(self, settings: PolymarketReadingSettings, context: PriceFeedContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._sockets = context.sockets
        self._client = PolymarketClient(settings, context.http)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield the price of each question as it is now, then whenever it changes.

        Each renewal reads again which markets belong to an event: some are closed, and new ones are added.
        """
        reported: dict[QuestionRef, Prediction] = {}
        while True:
            watched = await self._watched(refs)
            tokens = sorted({token for item in watched for token in item.tokens.values()})
            if not tokens:
                message = "none of the questions has a market that can be watched now"
                raise ServiceUnavailableError(message)
            tracker = _QuoteTracker(watched, reported, self._clock, Decimal(str(self._settings.max_spread)))
            queue: asyncio.Queue[Quote] = asyncio.Queue(QUOTE_QUEUE_SIZE)
            producers = [
                asyncio.create_task(self._follow_tokens(part, tracker, queue))
                for part in split_into_chunks(tokens, MAX_TOKENS_PER_SOCKET)
            ]
            try:
                while (quote := await _next_quote(queue, producers)) is not None:
                    reported[quote.ref] = quote.prediction
                    yield quote
            finally:
                for producer in producers:
                    producer.cancel()
                await asyncio.gather(*producers, return_exceptions=True)

    async def _watched(self, refs: Collection[QuestionRef]) -> list[WatchedQuestion]:
        """Return the watched questions, without those that cannot be watched."""
        found: list[WatchedQuestion] = []
        conditions = {ref.key: ref for ref in refs if CONDITION_PATTERN.fullmatch(ref.key)}
        for record in await self._client.markets_by_condition(sorted(conditions), closed=False):
            try:
                market = parse_market(record)
            except MalformedDataError as error:
                log.warning("a market is not watched", error=str(error))
                continue
            if market.tokens and market.condition in conditions:
                found.append(WatchedQuestion(ref=conditions[market.condition], tokens={"": market.tokens[0]}))
        for ref in refs:
            event = event_id_of_key(ref.key)
            if event is not None and (item := await self._watched_event(ref, event)) is not None:
                found.append(item)
        return found

    async def _watched_event(self, ref: QuestionRef, event: str) -> WatchedQuestion | None:
        try:
            group = event_group(await self._client.event(event))
        except (NotFoundError, RequestRejectedError, MalformedDataError) as error:
            log.warning("an event is not watched", number=event, error=str(error))
            return None
        if group is None or not group.is_complete or not all(market.tokens for market in group.markets):
            return None
        tokens = {option: market.tokens[0] for option, market in group.members.items()}
        return WatchedQuestion(ref=ref, tokens=tokens, other=group.other) if tokens else None

    async def _follow_tokens(
        self, tokens: Sequence[str], tracker: "_QuoteTracker", queue: "asyncio.Queue[Quote]"
    ) -> None:
        """Follow some tokens on one connection, until it is time to renew it."""
        url = build_url(self._settings, self._settings.socket_url, "ws/market")
        async with self._sockets.connect(url, max_bytes=MAX_FRAME_BYTES) as socket:
            first = {"type": "market", "assets_ids": list(tokens), "custom_feature_enabled": False}
            await socket.send(json.dumps(first))
            tracker.books.forget_books(tokens, now_s=self._clock.monotonic())
            ping_task = asyncio.create_task(self._ping(socket))
            try:
                await self._listen(socket, tokens, tracker, queue)
            finally:
                ping_task.cancel()
                await asyncio.gather(ping_task, return_exceptions=True)

    async def _listen(
        self,
        socket: WebSocketConnection,
        tokens: Sequence[str],
        tracker: "_QuoteTracker",
        queue: "asyncio.Queue[Quote]",
    ) -> None:
        """Process the messages of one connection until it is time to renew it."""
        began = checked = self._clock.monotonic()
        await self._read(tokens, tokens, tracker, queue)
        while (now_s := self._clock.monotonic()) < began + RECONNECT_INTERVAL_S:
            if now_s >= checked + BOOK_CHECK_INTERVAL_S:
                checked = now_s
                silent = tracker.books.silent_tokens(tokens, since_s=now_s - self._settings.feed_age_s)
                await self._read([*tracker.books.unknown_tokens(tokens), *silent], tokens, tracker, queue)
            text = await socket.receive(within_s=SOCKET_TIMEOUT_S)
            await _enqueue_quotes(
                tracker.changed_quotes(tracker.books.apply_message(text, now_s=self._clock.monotonic())), queue
            )

    async def _read(
        self, requested: Sequence[str], tokens: Sequence[str], tracker: "_QuoteTracker", queue: "asyncio.Queue[Quote]"
    ) -> None:
        """Read books that are unknown or silent.

        Raises ServiceUnavailableError if the socket missed a change: then it is frozen for all its tokens.
        """
        if not requested:
            return
        unknown = frozenset(tracker.books.unknown_tokens(requested))
        now_s = self._clock.monotonic()
        found = await self._client.books(requested)
        # A market without a book is closed, or about to close.
        tracker.books.invalidate_books([token for token in requested if token not in found])
        for token, book in found.items():
            if token in unknown:
                tracker.books.store_book(book, now_s=now_s)
            elif not tracker.books.matches_reading(book, now_s=now_s):
                tracker.books.invalidate_books(tokens)
                message = "the socket sends no more changes, though it is open"
                raise ServiceUnavailableError(message)
        await _enqueue_quotes(tracker.changed_quotes(set(requested)), queue)

    async def _ping(self, socket: WebSocketConnection) -> None:
        while True:
            await self._clock.sleep(PING_EVERY_S)
            await socket.send("PING")


class _QuoteTracker:
    """Tracks which questions depend on which tokens, and their last quotes, starting with ``reported``.

    Books are ordered by the venue's clock; a quote has the time, by our clock, at which its books had these prices.
    """

    def __init__(
        self,
        watched: Sequence[WatchedQuestion],
        reported: Mapping[QuestionRef, Prediction],
        clock: Clock,
        spread_max: Decimal,
    ) -> None:
        self.books = LiveBooks()
        self._clock = clock
        self._spread_max = spread_max
        self._by_token: dict[str, list[WatchedQuestion]] = defaultdict(list)
        for item in watched:
            for token in item.tokens.values():
                self._by_token[token].append(item)
        self._last_reported = dict(reported)

    def changed_quotes(self, tokens: Collection[str]) -> list[Quote]:
        """Return the changed prices of the questions that depend on these tokens."""
        items = {item.ref: item for token in tokens for item in self._by_token.get(token, ())}
        quotes: list[Quote] = []
        for ref, item in items.items():
            found = self._prediction(item)
            if found is not None and self._last_reported.get(ref) != found:
                self._last_reported[ref] = found
                quotes.append(Quote(ref=ref, prediction=found, at=self._clock.now()))
        return quotes

    def _prediction(self, item: WatchedQuestion) -> Prediction | None:
        prices: dict[str, float | None] = {}
        for option, token in item.tokens.items():
            known = self.books.best_prices(token)
            if known is None:
                return None
            bid, ask = known[0]
            prices[option] = mid_price(bid, ask, spread_max=self._spread_max)
        if "" not in prices:
            return choice_from_prices(prices, item.other)
        single = prices[""]
        return None if single is None else BinaryPrediction(single)


async def _next_quote(queue: "asyncio.Queue[Quote]", producers: Collection["asyncio.Task[None]"]) -> Quote | None:
    """Return the next quote, None once one of the producers is done; raises its error if it failed."""
    waiting = asyncio.create_task(queue.get())
    try:
        done, _ = await asyncio.wait({waiting, *producers}, return_when=asyncio.FIRST_COMPLETED)
        if waiting in done:
            return waiting.result()
        await next(producer for producer in producers if producer.done())
        return None
    finally:
        waiting.cancel()


async def _enqueue_quotes(quotes: Sequence[Quote], queue: "asyncio.Queue[Quote]") -> None:
    for quote in quotes:
        await queue.put(quote)


@asynccontextmanager
async def open_price_feed(settings: PolymarketReadingSettings, context: PriceFeedContext) -> AsyncIterator[PriceFeed]:
    """Open the feed; it connects when quotes are requested."""
    yield PolymarketPriceFeed(settings, context)
