"""Live prices over the venue's socket, and re-read over HTTP in case the socket missed something.

The venue drops clients that send nothing, so a ping is sent every 20 seconds. If two of them get no answer, or the
connection ends, the feed raises ServiceUnavailableError. Its caller then opens it again after a while: it subscribes
again, and reads every price again, since nothing is replayed. Source: docs/facts/manifold.md#socket.
"""

import json
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256

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
from plugins.manifold.api_client import ManifoldClient
from plugins.manifold.api_records import ManifoldMarketRecord, parse_record
from plugins.manifold.market_parser import KIND_BY_TYPE, choice_from_prices, options_by_answer, parse_answers
from plugins.manifold.market_state import split_contract
from plugins.manifold.settings import ManifoldSettings

log = structlog.get_logger(__name__)

PING_EVERY_S = 20.0
MAX_MISSED_PINGS = 2
# A broadcast may be lost silently, so all prices are read again at this interval.
REREAD_EVERY_S = 600.0
# An HTTP response may be older than a socket message by this much.
HTTP_CACHE_S = 15.0
MAX_FRAME_BYTES = 4_000_000
MAX_TOPICS_PER_REQUEST = 200
# How many bets and messages are remembered, to recognise repeated ones.
MAX_REMEMBERED_NAMES = 5_000


@dataclass(slots=True)
class _WatchedMarket:
    """A watched market: its questions by answer ("" for the whole), its options, and prices by answer.

    ``known_answers`` are the answers that it had when its options were read.
    """

    id: str
    refs_by_answer: dict[str, QuestionRef]
    options_by_answer: dict[str, str] = field(default_factory=dict)
    known_answers: frozenset[str] = frozenset()
    prices: dict[str, float] = field(default_factory=dict)
    heard_s: float = -math.inf
    last_predictions: dict[str, Prediction] = field(default_factory=dict)


class _RecentNames:
    """The most recent names; ``remember`` adds one and returns whether it was known."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, None] = OrderedDict()

    def remember(self, name: str) -> bool:
        known = name in self._names
        self._names[name] = None
        if len(self._names) > MAX_REMEMBERED_NAMES:
            self._names.popitem(last=False)
        return known


class _SocketSession:
    """A connection in the venue's protocol: numbered frames, an answer to each, pings that keep it alive."""

    def __init__(self, socket: WebSocketConnection, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock
        self._number = 0
        self._open: dict[int, str] = {}
        self._ping_at = clock.monotonic() + PING_EVERY_S

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to topics; the answers arrive between broadcasts."""
        for first in range(0, len(topics), MAX_TOPICS_PER_REQUEST):
            await self._send("subscribe", topics=list(topics[first : first + MAX_TOPICS_PER_REQUEST]))

    async def next(self) -> Mapping[str, object] | None:
        """Return the next broadcast, None if there was none until the next ping, or only an answer.

        Raises ServiceUnavailableError if the connection is lost or silent.
        """
        if (wait_s := self._ping_at - self._clock.monotonic()) <= 0.0:
            await self._ping()
            return None
        try:
            text = await self._socket.receive(within_s=wait_s)
        except ServiceUnavailableError:
            # Silence until a ping is due is normal; a lost connection shows when it is used.
            if self._ping_at - self._clock.monotonic() > 1.0:
                raise
            await self._ping()
            return None
        return self._read(text)

    async def _ping(self) -> None:
        if (missed := sum(kind == "ping" for kind in self._open.values())) >= MAX_MISSED_PINGS:
            message = f"the socket did not answer {missed} pings"
            raise ServiceUnavailableError(message)
        self._ping_at = self._clock.monotonic() + PING_EVERY_S
        await self._send("ping")

    async def _send(self, kind: str, **more: object) -> None:
        self._number += 1
        self._open[self._number] = kind
        await self._socket.send(json.dumps({"type": kind, "txid": self._number, **more}))

    def _read(self, text: str) -> Mapping[str, object] | None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            log.warning("the socket sent an invalid message", text=text[:200])
            return None
        if message.get("type") == "ack":
            self._handle_ack(message)
            return None
        if message.get("type") != "broadcast":
            return None
        return {**message, "text": text}

    def _handle_ack(self, ack: Mapping[str, object]) -> None:
        number = ack.get("txid")
        if not isinstance(number, int | float) or isinstance(number, bool):
            log.error("the socket could not read our frame, an error of this program", error=ack.get("error"))
            return
        kind = self._open.pop(int(number), None)
        if kind == "ping":
            # An answer to this ping also settles the earlier ones.
            self._open = {one: kind for one, kind in self._open.items() if kind != "ping" or one > number}
        if ack.get("success") is False:
            message = f"the socket refused to {kind or 'do kind was requested'}: {str(ack.get('error'))[:200]}"
            raise ServiceUnavailableError(message)


class _BroadcastReader:
    """Turns broadcasts into prices: each bet once, on any topic, and each message once.

    At ``reread_at`` prices that may have been missed must be read over HTTP.
    """

    def __init__(self, watched: Mapping[str, _WatchedMarket], clock: Clock) -> None:
        # Prices read when the connection was opened may come from a cache.
        self.reread_at = clock.monotonic() + HTTP_CACHE_S
        self._watched = watched
        self._clock = clock
        self._bets = _RecentNames()
        self._messages = _RecentNames()

    def read_quotes(self, message: Mapping[str, object]) -> list[Quote]:
        """Return the quotes of a broadcast; an invalid one has none."""
        if self._messages.remember(sha256(str(message["text"]).encode(errors="replace")).hexdigest()):
            return []
        topic, data = message.get("topic"), message.get("data")
        if not isinstance(topic, str) or not isinstance(data, Mapping):
            log.warning("the socket sent an invalid broadcast", topic=str(topic)[:100])
            return []
        parts = topic.split("/")
        market = self._watched.get(parts[1]) if parts[0] == "contract" and len(parts) > 1 else None
        moved: dict[str, _WatchedMarket] = {}
        for name, answer, price in self._prices(market, data):
            if (watched_market := self._watched.get(name)) is not None:
                watched_market.prices[answer] = price
                watched_market.heard_s = self._clock.monotonic()
                moved[name] = watched_market
        return [quote for watched_market in moved.values() for quote in _changed_quotes(watched_market, self._clock)]

    def _prices(self, market: _WatchedMarket | None, data: Mapping[str, object]) -> Iterator[tuple[str, str, float]]:
        """Yield market, answer ("" for the market itself) and price."""
        for bet in _list_rows(data, "bets"):
            name, price = bet.get("contractId"), bet.get("probAfter")
            if isinstance(name, str) and _is_price(price) and not self._bets.remember(str(bet.get("id"))):
                yield name, str(bet.get("answerId") or ""), float(str(price))
        if market is None:
            return
        contract = data.get("contract")
        if isinstance(contract, Mapping) and _is_price(contract.get("prob")):
            yield market.id, "", float(str(contract["prob"]))
        for answer in _list_rows(data, "answers"):
            if isinstance(answer.get("id"), str) and _is_price(answer.get("prob")):
                yield market.id, str(answer["id"]), float(str(answer["prob"]))


class ManifoldPriceFeed:
    """Implements ``PriceFeed``."""

    def __init__(self, settings: ManifoldSettings, context: PriceFeedContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._sockets = context.sockets
        self._client = ManifoldClient(settings, context.http, context.clock)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield the price of each question now, and each time it has changed."""
        watched: dict[str, _WatchedMarket] = {}
        for ref in refs:
            name, answer = split_contract(ref.key)
            watched.setdefault(name, _WatchedMarket(name, {})).refs_by_answer[answer] = ref
        if not watched:
            return
        # Before the connection is open, since it must be kept alive.
        for market in watched.values():
            if "" in market.refs_by_answer:
                await self._read_options(market)
        async with self._sockets.connect(self._settings.addresses.socket, max_bytes=MAX_FRAME_BYTES) as socket:
            session = _SocketSession(socket, self._clock)
            await session.subscribe([topic for market in watched.values() for topic in _market_topics(market)])
            for quote in await self._reread(watched):
                yield quote
            broadcasts = _BroadcastReader(watched, self._clock)
            while True:
                for quote in await self._next(session, broadcasts, watched):
                    yield quote

    async def _next(
        self, session: _SocketSession, broadcasts: _BroadcastReader, watched: Mapping[str, _WatchedMarket]
    ) -> list[Quote]:
        message = await session.next()
        quotes = [] if message is None else broadcasts.read_quotes(message)
        if self._clock.monotonic() >= broadcasts.reread_at:
            quotes += await self._reread(watched)
            broadcasts.reread_at = self._clock.monotonic() + REREAD_EVERY_S
        return quotes

    async def _reread(self, watched: Mapping[str, _WatchedMarket]) -> list[Quote]:
        """Read all prices, except those that the socket sent a moment ago, since HTTP responses may be cached."""
        now_s = self._clock.monotonic()
        due = [market for market in watched.values() if now_s - market.heard_s > HTTP_CACHE_S]
        prices = await self._client.market_prices([market.id for market in due])
        quotes: list[Quote] = []
        for market in due:
            row = prices.get(market.id, {})
            by_answer = row.get("answerProbs")
            watched_market = by_answer if isinstance(by_answer, Mapping) else {"": row.get("prob")}
            if market.options_by_answer and not market.known_answers >= watched_market.keys():
                # A new answer changes the question.
                await self._read_options(market)
            market.prices |= {
                str(name): float(str(price)) for name, price in watched_market.items() if _is_price(price)
            }
            quotes += _changed_quotes(market, self._clock)
        return quotes

    async def _read_options(self, market: _WatchedMarket) -> None:
        """Read the names of answers, since prices only have their ids."""
        try:
            record = parse_record(ManifoldMarketRecord, await self._client.market(market.id), f"market {market.id}")
            if KIND_BY_TYPE.get(record.type) == "pseudo_numeric":
                # The price is a mean, not a distribution.
                del market.refs_by_answer[""]
            elif record.type in KIND_BY_TYPE and record.type != "BINARY":
                answers = parse_answers(record, [])
                market.options_by_answer = options_by_answer(record)
                market.known_answers = frozenset(one.id for one in answers)
                market.prices |= {one.id: one.prob for one in answers if one.prob is not None}
        except ServiceUnavailableError:
            raise
        except (NotFoundError, RequestRejectedError, MalformedDataError) as error:
            log.warning("a market cannot be watched", market=market.id, error=str(error))


@asynccontextmanager
async def open_price_feed(settings: ManifoldSettings, context: PriceFeedContext) -> AsyncIterator[PriceFeed]:
    """Open the feed; it connects when the first quote is requested."""
    yield ManifoldPriceFeed(settings, context)


def _market_topics(market: _WatchedMarket) -> Iterator[str]:
    yield f"contract/{market.id}"
    yield f"contract/{market.id}/new-bet"
    yield f"contract/{market.id}/updated-answers"


def _changed_quotes(market: _WatchedMarket, clock: Clock) -> Iterator[Quote]:
    """Yield the changed prices of the market's questions."""
    for answer, ref in market.refs_by_answer.items():
        prediction = _current_prediction(market, answer)
        if prediction is not None and market.last_predictions.get(answer) != prediction:
            market.last_predictions[answer] = prediction
            yield Quote(ref=ref, prediction=prediction, at=clock.now())


def _current_prediction(market: _WatchedMarket, answer: str) -> Prediction | None:
    if answer or not market.options_by_answer:
        price = market.prices.get(answer)
        return None if price is None else BinaryPrediction(price)
    prices = [(name, market.prices[one]) for one, name in market.options_by_answer.items() if one in market.prices]
    if len(prices) < len(market.options_by_answer) or math.fsum(price for _, price in prices) <= 0.0:
        return None
    return choice_from_prices(prices)


def _list_rows(data: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    rows = data.get(name)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0
