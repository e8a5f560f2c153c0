"""Prices as they move: over the venue's socket with a key, else by reading the best prices once a minute.

The socket needs a signed handshake, also for public data. Each subscription numbers its messages; after a gap it is
made again. Quiet markets send nothing, so the socket is asked for its subscriptions now and then, and a connection
without any answer is lost. Source: docs/facts/kalshi.md#socket.
"""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import structlog

from bot.api import (
    AuthenticationError,
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
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.live_books import BestPrices, BookSubscription
from plugins.kalshi.market_parser import ACTIVE, JsonRecord, KalshiMarket, mid_price, parse_event, parse_market
from plugins.kalshi.questions import EVENT_PREFIX, choice_from_prices, option_names
from plugins.kalshi.settings import KalshiSettings
from plugins.kalshi.signing import KalshiSigner

log = structlog.get_logger(__name__)

MAX_FRAME_BYTES = 4_000_000
MAX_TICKERS_PER_SUBSCRIPTION = 100
# Which markets belong to an event, and which are open, is read again after this time, on a new connection.
RENEW_EVERY_S = 600.0
POLL_EVERY_S = 60.0
PING_EVERY_S, MAX_MISSED_PINGS = 20.0, 2
NOT_AUTHORIZED = 9
UNKNOWN_BOOK: BestPrices = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTickers:
    """A question and the ticker of the market of each option ("" for a question without options)."""

    ref: QuestionRef
    tickers: Mapping[str, str]


class KalshiPriceFeed:
    """Implements ``PriceFeed``."""

    def __init__(self, settings: KalshiSettings, context: PriceFeedContext) -> None:
        self._settings, self._clock, self._sockets = settings, context.clock, context.sockets
        self._client = KalshiClient(settings, context.http, context.clock)
        self._signer = KalshiSigner(settings, context.clock)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield the price of each question as it is now, then whenever it changes."""
        tracker = _QuoteTracker(Decimal(str(self._settings.max_spread)))
        while True:
            await self._watch_questions(refs, tracker)
            if not tracker.tickers:
                message = "none of the questions has a market that can be watched now"
                raise ServiceUnavailableError(message)
            follow = self._follow_socket if self._settings.has_key else self._poll_prices
            async for prices in follow(tracker):
                tracker.prices |= prices
                for ref, prediction in tracker.changed_predictions(prices).items():
                    yield Quote(ref=ref, prediction=prediction, at=self._clock.now())

    async def _watch_questions(self, refs: Collection[QuestionRef], tracker: "_QuoteTracker") -> None:
        """Read which open markets the questions have; leave out what cannot be watched."""
        alone = [ref for ref in refs if not ref.key.startswith(EVENT_PREFIX)]
        known = await self._read_markets([ref.key for ref in alone])
        watched = [WatchedTickers(ref=ref, tickers={"": ref.key}) for ref in alone if ref.key in known]
        events = [await self._watched_event(ref) for ref in refs if ref.key.startswith(EVENT_PREFIX)]
        tracker.watch_questions([*watched, *(one for one in events if one is not None)])

    async def _watched_event(self, ref: QuestionRef) -> WatchedTickers | None:
        try:
            event = parse_event(await self._client.event(ref.key.removeprefix(EVENT_PREFIX)))
        except (NotFoundError, MalformedDataError, RequestRejectedError) as error:
            log.warning("an event is not watched", question=str(ref), error=str(error))
            return None
        names = option_names(event.markets)
        tickers = {names[market.ticker]: market.ticker for market in event.markets if market.is_open}
        return WatchedTickers(ref=ref, tickers=tickers) if tickers and not event.complaints else None

    async def _read_markets(self, tickers: Sequence[str]) -> dict[str, KalshiMarket]:
        """Return the open markets of these by ticker; those that cannot be read are left out."""
        found: dict[str, KalshiMarket] = {}
        for record in (await self._client.markets(tickers)).values():
            try:
                market = parse_market(record)
            except MalformedDataError as error:
                log.warning("a market is not watched", error=str(error))
                continue
            if market.is_open:
                found[market.ticker] = market
        return found

    async def _poll_prices(self, tracker: "_QuoteTracker") -> AsyncIterator[Mapping[str, BestPrices]]:
        """Yield the best prices once a minute, until it is time to look for the markets again."""
        ends_at = self._clock.monotonic() + RENEW_EVERY_S
        while True:
            markets = await self._read_markets(tracker.tickers)
            yield {
                ticker: (one.bid, one.ask) if one.status == ACTIVE else UNKNOWN_BOOK for ticker, one in markets.items()
            }
            if self._clock.monotonic() >= ends_at:
                return
            await self._clock.sleep(POLL_EVERY_S)

    async def _follow_socket(self, tracker: "_QuoteTracker") -> AsyncIterator[Mapping[str, BestPrices]]:
        """Yield the best prices that change, from one connection until it is time to renew it."""
        url = self._settings.socket_address
        headers = self._signer.headers("GET", url)
        async with self._sockets.connect(url, max_bytes=MAX_FRAME_BYTES, headers=headers) as socket:
            session, tickers = _SocketSession(socket, self._clock), tracker.tickers
            for first in range(0, len(tickers), MAX_TICKERS_PER_SUBSCRIPTION):
                await session.subscribe(tickers[first : first + MAX_TICKERS_PER_SUBSCRIPTION])
            ends_at = self._clock.monotonic() + RENEW_EVERY_S
            while self._clock.monotonic() < ends_at:
                yield await session.next_changes()


class _SocketSession:
    """The subscriptions of one connection, by the number that the venue gives them, and pings that it must answer."""

    def __init__(self, socket: WebSocketConnection, clock: Clock) -> None:
        self._socket, self._clock, self._command = socket, clock, 0
        self._asked: dict[int, tuple[str, ...]] = {}
        self._subscriptions: dict[int, BookSubscription] = {}
        self._ping_at, self._missed_pings = clock.monotonic() + PING_EVERY_S, 0

    async def subscribe(self, tickers: Sequence[str]) -> None:
        """Ask for the books of some markets, both sides at the price of YES."""
        self._asked[self._command + 1] = tuple(tickers)
        wanted = {"channels": ["orderbook_delta"], "market_tickers": list(tickers), "use_yes_price": True}
        await self._send("subscribe", wanted)

    async def next_changes(self) -> dict[str, BestPrices]:
        """Return the best prices that the next message changes, none of them if a ping was due before.

        Raises ServiceUnavailableError if the connection is lost or silent.
        """
        if (wait_s := self._ping_at - self._clock.monotonic()) <= 0.0:
            await self._ping()
            return {}
        try:
            text = await self._socket.receive(within_s=wait_s)
        except ServiceUnavailableError:
            # Silence until a ping is due is normal; a lost connection shows when it is used.
            if self._ping_at - self._clock.monotonic() > 1.0:
                raise
            await self._ping()
            return {}
        self._missed_pings = 0
        return await self._apply_message(text)

    async def _ping(self) -> None:
        if self._missed_pings >= MAX_MISSED_PINGS:
            message = f"the socket did not answer {self._missed_pings} times"
            raise ServiceUnavailableError(message)
        self._missed_pings += 1
        self._ping_at = self._clock.monotonic() + PING_EVERY_S
        await self._send("list_subscriptions")

    async def _apply_message(self, text: str) -> dict[str, BestPrices]:
        """Apply a message. Raises ServiceUnavailableError or AuthenticationError for an error of the venue."""
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            frame = None
        if not isinstance(frame, dict):
            message = "the socket sent an invalid message"
            raise ServiceUnavailableError(message)
        content: JsonRecord = frame["msg"] if isinstance(frame.get("msg"), dict) else {}
        match frame.get("type"):
            case "error":
                raise _socket_error(content)
            case "subscribed":
                tickers = self._asked.pop(_as_number(frame.get("id")), ())
                self._subscriptions[_as_number(content.get("sid"))] = BookSubscription(tickers=tickers)
            case "orderbook_snapshot" | "orderbook_delta":
                number = _as_number(frame.get("sid"))
                if (subscription := self._subscriptions.get(number)) is not None:
                    return await self._apply_frame(number, subscription, frame)
        return {}

    async def _apply_frame(
        self, number: int, subscription: BookSubscription, frame: JsonRecord
    ) -> dict[str, BestPrices]:
        """Apply a change of a book; after a gap no book of the subscription is known, and it is made again."""
        try:
            ticker = subscription.apply_frame(frame)
        except MalformedDataError as error:
            log.warning("books are subscribed again", markets=len(subscription.tickers), why=str(error))
            del self._subscriptions[number]
            await self._send("unsubscribe", {"sids": [number]})
            await self.subscribe(subscription.tickers)
            return dict.fromkeys(subscription.tickers, UNKNOWN_BOOK)
        return {} if ticker is None else {ticker: subscription.books[ticker].best_prices}

    async def _send(self, command: str, parameters: Mapping[str, object] | None = None) -> None:
        self._command += 1
        more = {} if parameters is None else {"params": parameters}
        await self._socket.send(json.dumps({"id": self._command, "cmd": command, **more}))


class _QuoteTracker:
    """The watched questions, the best prices of their markets, and what was reported last."""

    def __init__(self, max_spread: Decimal) -> None:
        self._max_spread = max_spread
        self._by_ticker: Mapping[str, Sequence[WatchedTickers]] = {}
        self._reported: dict[QuestionRef, Prediction] = {}
        self.prices: dict[str, BestPrices] = {}

    @property
    def tickers(self) -> list[str]:
        """The markets of all questions."""
        return sorted(self._by_ticker)

    def watch_questions(self, questions: Iterable[WatchedTickers]) -> None:
        """Watch these questions from now on; no price is known yet."""
        by_ticker = defaultdict(list)
        for question in questions:
            for ticker in question.tickers.values():
                by_ticker[ticker].append(question)
        self._by_ticker, self.prices = by_ticker, {}

    def changed_predictions(self, tickers: Iterable[str]) -> Mapping[QuestionRef, Prediction]:
        """Return the prices of the questions with these markets that differ from those reported last."""
        questions = {one.ref: one for ticker in tickers for one in self._by_ticker.get(ticker, ())}
        found = {ref: self._prediction(question) for ref, question in questions.items()}
        changes = {ref: one for ref, one in found.items() if one is not None and self._reported.get(ref) != one}
        self._reported |= changes
        return changes

    def _prediction(self, question: WatchedTickers) -> Prediction | None:
        prices = {
            option: mid_price(*self.prices.get(ticker, UNKNOWN_BOOK), self._max_spread)
            for option, ticker in question.tickers.items()
        }
        if "" not in prices:
            return choice_from_prices(prices)
        return None if prices[""] is None else BinaryPrediction(prices[""])


def _socket_error(content: JsonRecord) -> AuthenticationError | ServiceUnavailableError:
    message = f"the socket refused a command: {content.get('code')} {str(content.get('msg'))[:200]}"
    return AuthenticationError(message) if content.get("code") == NOT_AUTHORIZED else ServiceUnavailableError(message)


def _as_number(value: object) -> int:
    return value if isinstance(value, int) else -1


@asynccontextmanager
async def open_price_feed(settings: KalshiSettings, context: PriceFeedContext) -> AsyncIterator[PriceFeed]:
    """Open the feed; it connects when quotes are requested."""
    yield KalshiPriceFeed(settings, context)
