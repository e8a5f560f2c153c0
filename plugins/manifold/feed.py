"""Prices as they move, over the venue's socket, and re-read over HTTP where the socket may have missed something.

The venue drops whoever is silent at the level of the application, so a ping goes out every 20 seconds; who leaves two
of them unanswered is given up with Unavailable, and so is a connection that ended. Whoever reads the feed then opens it
again after a while: topics are sent anew, and every price is read anew, since nothing is replayed.
Source: venue document, section 7.
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
    Binary,
    Clock,
    ContractError,
    NotFound,
    Prediction,
    PriceFeed,
    PricePlace,
    QuestionRef,
    Quote,
    Rejected,
    Socket,
    Unavailable,
)
from plugins.manifold.client import Client
from plugins.manifold.parse import KINDS, answers_of, choice_at, options_of
from plugins.manifold.raw import RawMarket, parsed
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.state import parts_of

log = structlog.get_logger(__name__)

PING_EVERY_S = 20.0
MISSED = 2
# A broadcast may be lost without a sign, so all prices are read again now and then.
REREAD_EVERY_S = 600.0
# So long an answer over HTTP may be older than what the socket said.
CACHED_S = 15.0
MAX_BYTES = 4_000_000
TOPICS_AT_ONCE = 200
# Bets and messages remembered, to know them when they come again.
REMEMBERED = 5_000


@dataclass(slots=True)
class _Watched:
    """A market that is watched: its questions by answer ("" for the whole), its options, and prices by answer.

    ``known`` are the answers that it had when its options were read.
    """

    id: str
    refs: dict[str, QuestionRef]
    options: dict[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    prices: dict[str, float] = field(default_factory=dict)
    heard_s: float = -math.inf
    said: dict[str, Prediction] = field(default_factory=dict)


class _Memory:
    """The last so many names; ``seen`` tells whether one was there, and keeps it."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, None] = OrderedDict()

    def seen(self, name: str) -> bool:
        known = name in self._names
        self._names[name] = None
        if len(self._names) > REMEMBERED:
            self._names.popitem(last=False)
        return known


class _Line:
    """A connection as the venue's server speaks on it: numbered frames, answers to each, pings that keep it alive."""

    def __init__(self, socket: Socket, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock
        self._number = 0
        self._open: dict[int, str] = {}
        self._ping_at = clock.monotonic() + PING_EVERY_S

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Ask for topics; the answers come between what is heard."""
        for first in range(0, len(topics), TOPICS_AT_ONCE):
            await self._send("subscribe", topics=list(topics[first : first + TOPICS_AT_ONCE]))

    async def next(self) -> Mapping[str, object] | None:
        """Return the next broadcast, None where there was none until the next ping went out, or only an answer.

        Raises Unavailable where the connection is gone or silent.
        """
        if (wait_s := self._ping_at - self._clock.monotonic()) <= 0.0:
            await self._ping()
            return None
        try:
            text = await self._socket.receive(within_s=wait_s)
        except Unavailable:
            # Silence until a ping is due is nothing yet; a connection that is gone shows when it is used.
            if self._ping_at - self._clock.monotonic() > 1.0:
                raise
            await self._ping()
            return None
        return self._read(text)

    async def _ping(self) -> None:
        if (missed := sum(kind == "ping" for kind in self._open.values())) >= MISSED:
            message = f"the socket left {missed} pings unanswered"
            raise Unavailable(message)
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
            log.warning("the socket said what is no message", text=text[:200])
            return None
        if message.get("type") == "ack":
            self._hear_ack(message)
            return None
        if message.get("type") != "broadcast":
            return None
        return {**message, "text": text}

    def _hear_ack(self, ack: Mapping[str, object]) -> None:
        number = ack.get("txid")
        if not isinstance(number, int | float) or isinstance(number, bool):
            log.error("the socket could not read a frame of ours, a fault of this program", error=ack.get("error"))
            return
        kind = self._open.pop(int(number), None)
        if kind == "ping":
            # Whoever answers this one is there, whatever became of those before.
            self._open = {one: what for one, what in self._open.items() if what != "ping" or one > number}
        if ack.get("success") is False:
            message = f"the socket refused to {kind or 'do what was asked'}: {str(ack.get('error'))[:200]}"
            raise Unavailable(message)


class _Broadcasts:
    """What is heard, as prices: each bet once, by whatever topics it comes, and each message once.

    At ``reread_at`` what may have been missed is to be read over HTTP.
    """

    def __init__(self, watched: Mapping[str, _Watched], clock: Clock) -> None:
        # What was read when the line was opened may be what a cache had of the time before.
        self.reread_at = clock.monotonic() + CACHED_S
        self._watched = watched
        self._clock = clock
        self._bets = _Memory()
        self._messages = _Memory()

    def hear(self, message: Mapping[str, object]) -> list[Quote]:
        """Return the quotes that a broadcast makes; one of another form makes none."""
        if self._messages.seen(sha256(str(message["text"]).encode(errors="replace")).hexdigest()):
            return []
        topic, data = message.get("topic"), message.get("data")
        if not isinstance(topic, str) or not isinstance(data, Mapping):
            log.warning("the socket said what is no broadcast", topic=str(topic)[:100])
            return []
        parts = topic.split("/")
        market = self._watched.get(parts[1]) if parts[0] == "contract" and len(parts) > 1 else None
        moved: dict[str, _Watched] = {}
        for name, answer, price in self._prices(market, data):
            if (found := self._watched.get(name)) is not None:
                found.prices[answer] = price
                found.heard_s = self._clock.monotonic()
                moved[name] = found
        return [quote for found in moved.values() for quote in _changed(found, self._clock)]

    def _prices(self, market: _Watched | None, data: Mapping[str, object]) -> Iterator[tuple[str, str, float]]:
        """Yield market, answer ("" for the market itself) and price."""
        for bet in _rows(data, "bets"):
            name, price = bet.get("contractId"), bet.get("probAfter")
            if isinstance(name, str) and _is_price(price) and not self._bets.seen(str(bet.get("id"))):
                yield name, str(bet.get("answerId") or ""), float(str(price))
        if market is None:
            return
        contract = data.get("contract")
        if isinstance(contract, Mapping) and _is_price(contract.get("prob")):
            yield market.id, "", float(str(contract["prob"]))
        for answer in _rows(data, "answers"):
            if isinstance(answer.get("id"), str) and _is_price(answer.get("prob")):
                yield market.id, str(answer["id"]), float(str(answer["prob"]))


class ManifoldFeed:
    """Implements the port PriceFeed."""

    def __init__(self, settings: ManifoldSettings, place: PricePlace) -> None:
        self._settings = settings
        self._clock = place.clock
        self._sockets = place.sockets
        self._client = Client(settings, place.http, place.clock)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield the price of each question now, and each time it has changed."""
        watched: dict[str, _Watched] = {}
        for ref in refs:
            name, answer = parts_of(ref.key)
            watched.setdefault(name, _Watched(name, {})).refs[answer] = ref
        if not watched:
            return
        # Before the line is open: it wants to be kept alive.
        for market in watched.values():
            if "" in market.refs:
                await self._read_options(market)
        async with self._sockets.connect(self._settings.place.socket, max_bytes=MAX_BYTES) as socket:
            line = _Line(socket, self._clock)
            await line.subscribe([topic for market in watched.values() for topic in _topics(market)])
            for quote in await self._reread(watched):
                yield quote
            broadcasts = _Broadcasts(watched, self._clock)
            while True:
                for quote in await self._next(line, broadcasts, watched):
                    yield quote

    async def _next(self, line: _Line, broadcasts: _Broadcasts, watched: Mapping[str, _Watched]) -> list[Quote]:
        message = await line.next()
        quotes = [] if message is None else broadcasts.hear(message)
        if self._clock.monotonic() >= broadcasts.reread_at:
            quotes += await self._reread(watched)
            broadcasts.reread_at = self._clock.monotonic() + REREAD_EVERY_S
        return quotes

    async def _reread(self, watched: Mapping[str, _Watched]) -> list[Quote]:
        """Read all prices; what the socket told a moment ago is newer than any answer that may have been cached."""
        now_s = self._clock.monotonic()
        due = [market for market in watched.values() if now_s - market.heard_s > CACHED_S]
        prices = await self._client.probs([market.id for market in due])
        quotes: list[Quote] = []
        for market in due:
            row = prices.get(market.id, {})
            by_answer = row.get("answerProbs")
            found = by_answer if isinstance(by_answer, Mapping) else {"": row.get("prob")}
            if market.options and not market.known >= found.keys():
                # There is another answer, so the question is another one.
                await self._read_options(market)
            market.prices |= {str(name): float(str(price)) for name, price in found.items() if _is_price(price)}
            quotes += _changed(market, self._clock)
        return quotes

    async def _read_options(self, market: _Watched) -> None:
        """Read the names of answers: prices come by their ids."""
        try:
            read = parsed(RawMarket, await self._client.market(market.id), f"market {market.id}")
            if KINDS.get(read.type) == "pseudo_numeric":
                # A price tells a mean, and nobody a distribution.
                del market.refs[""]
            elif read.type in KINDS and read.type != "BINARY":
                answers = answers_of(read, [])
                market.options = options_of(read)
                market.known = frozenset(one.id for one in answers)
                market.prices |= {one.id: one.prob for one in answers if one.prob is not None}
        except Unavailable:
            raise
        except (NotFound, Rejected, ContractError) as error:
            log.warning("a market cannot be watched", market=market.id, error=str(error))


@asynccontextmanager
async def open_prices(settings: ManifoldSettings, place: PricePlace) -> AsyncIterator[PriceFeed]:
    """Open the feed; nothing is connected before the first quote is asked for."""
    yield ManifoldFeed(settings, place)


def _topics(market: _Watched) -> Iterator[str]:
    yield f"contract/{market.id}"
    yield f"contract/{market.id}/new-bet"
    yield f"contract/{market.id}/updated-answers"


def _changed(market: _Watched, clock: Clock) -> Iterator[Quote]:
    """Yield the prices of the market's questions that are not as they were last told."""
    for answer, ref in market.refs.items():
        prediction = _prediction(market, answer)
        if prediction is not None and market.said.get(answer) != prediction:
            market.said[answer] = prediction
            yield Quote(ref=ref, prediction=prediction, at=clock.now())


def _prediction(market: _Watched, answer: str) -> Prediction | None:
    if answer or not market.options:
        price = market.prices.get(answer)
        return None if price is None else Binary(price)
    prices = [(name, market.prices[one]) for one, name in market.options.items() if one in market.prices]
    if len(prices) < len(market.options) or math.fsum(price for _, price in prices) <= 0.0:
        return None
    return choice_at(prices)


def _rows(data: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    rows = data.get(name)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0
