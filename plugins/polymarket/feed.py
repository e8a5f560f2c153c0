"""Prices as they move, over the socket of the market, kept honest by reading books now and then.

The socket may stay open and answer pings while no book moves any more, for hours: a book that was silent for long is
compared with what is read, and the connection is renewed every ten minutes whatever it says. What it says of
resolutions makes books unknown, which are then read; outcomes come from the resolver alone.
Source: venue document, section 7.
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
from plugins.polymarket.client import Client, address, parts_of
from plugins.polymarket.groups import event_of_key, group_in
from plugins.polymarket.live import LiveBooks
from plugins.polymarket.parse import CONDITION, market_of
from plugins.polymarket.questions import choice_of, middle_of
from plugins.polymarket.settings import ReadingSettings

log = structlog.get_logger(__name__)

MAX_BYTES = 8_000_000
# Beyond this, first whole books were missing.
TOKENS_A_SOCKET = 200
PING_EVERY_S = 10.0
# Pings are answered at once; a connection that is silent for so long is gone.
SILENT_S = 30.0
CHECK_EVERY_S = 10.0
RENEW_EVERY_S = 600.0
# Quotes that wait to be taken; beyond them the socket is made to wait.
QUEUE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A question and the YES token of each option ("" for a question without options)."""

    ref: QuestionRef
    tokens: Mapping[str, str]
    other: str = ""


class PolymarketFeed:
    """Implements the port PriceFeed."""

    def __init__(self, settings: ReadingSettings, place: PricePlace) -> None:
        self._settings = settings
        self._clock = place.clock
        self._sockets = place.sockets
        self._client = Client(settings, place.http)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield the price of each question as it is now, then whenever it changes.

        With each renewal it is read anew which markets belong to an event: some are over, and new ones come.
        """
        told: dict[QuestionRef, Prediction] = {}
        while True:
            watched = await self._watched(refs)
            tokens = sorted({token for item in watched for token in item.tokens.values()})
            if not tokens:
                message = "none of the questions has a market that can be watched now"
                raise Unavailable(message)
            desk = _Desk(watched, told, self._clock, Decimal(str(self._settings.spread_max)))
            queue: asyncio.Queue[Quote] = asyncio.Queue(QUEUE)
            pumps = [asyncio.create_task(self._pump(part, desk, queue)) for part in parts_of(tokens, TOKENS_A_SOCKET)]
            try:
                while (quote := await _next(queue, pumps)) is not None:
                    told[quote.ref] = quote.prediction
                    yield quote
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    async def _watched(self, refs: Collection[QuestionRef]) -> list[Watched]:
        """Return what is to be watched; questions that cannot be are left out."""
        found: list[Watched] = []
        conditions = {ref.key: ref for ref in refs if CONDITION.fullmatch(ref.key)}
        for record in await self._client.markets_by_condition(sorted(conditions), closed=False):
            try:
                market = market_of(record)
            except ContractError as error:
                log.warning("a market is not watched", error=str(error))
                continue
            if market.tokens and market.condition in conditions:
                found.append(Watched(ref=conditions[market.condition], tokens={"": market.tokens[0]}))
        for ref in refs:
            event = event_of_key(ref.key)
            if event is not None and (item := await self._watched_event(ref, event)) is not None:
                found.append(item)
        return found

    async def _watched_event(self, ref: QuestionRef, event: str) -> Watched | None:
        try:
            group = group_in(await self._client.event(event))
        except (NotFound, Rejected, ContractError) as error:
            log.warning("an event is not watched", number=event, error=str(error))
            return None
        if group is None or not group.whole or not all(market.tokens for market in group.markets):
            return None
        tokens = {option: market.tokens[0] for option, market in group.members.items()}
        return Watched(ref=ref, tokens=tokens, other=group.other) if tokens else None

    async def _pump(self, tokens: Sequence[str], desk: "_Desk", queue: "asyncio.Queue[Quote]") -> None:
        """Follow some tokens on one connection, until it is time to renew it."""
        url = address(self._settings, self._settings.socket_url, "ws/market")
        async with self._sockets.connect(url, max_bytes=MAX_BYTES) as socket:
            first = {"type": "market", "assets_ids": list(tokens), "custom_feature_enabled": False}
            await socket.send(json.dumps(first))
            desk.books.begin(tokens, now_s=self._clock.monotonic())
            pinging = asyncio.create_task(self._ping(socket))
            try:
                await self._listen(socket, tokens, desk, queue)
            finally:
                pinging.cancel()
                await asyncio.gather(pinging, return_exceptions=True)

    async def _listen(
        self, socket: Socket, tokens: Sequence[str], desk: "_Desk", queue: "asyncio.Queue[Quote]"
    ) -> None:
        """Hear one connection until it is time to renew it."""
        began = checked = self._clock.monotonic()
        await self._read(tokens, tokens, desk, queue)
        while (now_s := self._clock.monotonic()) < began + RENEW_EVERY_S:
            if now_s >= checked + CHECK_EVERY_S:
                checked = now_s
                silent = desk.books.silent(tokens, since_s=now_s - self._settings.feed_age_s)
                await self._read([*desk.books.unknown(tokens), *silent], tokens, desk, queue)
            text = await socket.receive(within_s=SILENT_S)
            await _put(desk.moved(desk.books.hear(text, now_s=self._clock.monotonic())), queue)

    async def _read(
        self, wanted: Sequence[str], tokens: Sequence[str], desk: "_Desk", queue: "asyncio.Queue[Quote]"
    ) -> None:
        """Read books that are unknown or silent.

        Raises Unavailable where the socket kept silent about a change: then it is frozen, for all it is asked about.
        """
        if not wanted:
            return
        unknown = frozenset(desk.books.unknown(wanted))
        now_s = self._clock.monotonic()
        found = await self._client.books(wanted)
        # What has no book any more is about to end, or over.
        desk.books.lose([token for token in wanted if token not in found])
        for token, book in found.items():
            if token in unknown:
                desk.books.install(book, now_s=now_s)
            elif not desk.books.compared(book, now_s=now_s):
                desk.books.lose(tokens)
                message = "the socket tells no changes any more, though it is open"
                raise Unavailable(message)
        await _put(desk.moved(set(wanted)), queue)

    async def _ping(self, socket: Socket) -> None:
        while True:
            await self._clock.sleep(PING_EVERY_S)
            await socket.send("PING")


class _Desk:
    """Which questions hang on which tokens, and what was said of them last, to begin with what was ``told``.

    Books are put in order by the venue's clock; a quote is of the moment, by ours, at which its books were so.
    """

    def __init__(
        self, watched: Sequence[Watched], told: Mapping[QuestionRef, Prediction], clock: Clock, spread_max: Decimal
    ) -> None:
        self.books = LiveBooks()
        self._clock = clock
        self._spread_max = spread_max
        self._by_token: dict[str, list[Watched]] = defaultdict(list)
        for item in watched:
            for token in item.tokens.values():
                self._by_token[token].append(item)
        self._said = dict(told)

    def moved(self, tokens: Collection[str]) -> list[Quote]:
        """Return the prices that are not what they were, of the questions that hang on these tokens."""
        items = {item.ref: item for token in tokens for item in self._by_token.get(token, ())}
        quotes: list[Quote] = []
        for ref, item in items.items():
            found = self._prediction(item)
            if found is not None and self._said.get(ref) != found:
                self._said[ref] = found
                quotes.append(Quote(ref=ref, prediction=found, at=self._clock.now()))
        return quotes

    def _prediction(self, item: Watched) -> Prediction | None:
        prices: dict[str, float | None] = {}
        for option, token in item.tokens.items():
            known = self.books.touch(token)
            if known is None:
                return None
            bid, ask = known[0]
            prices[option] = middle_of(bid, ask, spread_max=self._spread_max)
        if "" not in prices:
            return choice_of(prices, item.other)
        single = prices[""]
        return None if single is None else Binary(single)


async def _next(queue: "asyncio.Queue[Quote]", pumps: Collection["asyncio.Task[None]"]) -> Quote | None:
    """Return the next quote, None once one of those that bring them is done; raises what ended it otherwise."""
    waiting = asyncio.create_task(queue.get())
    try:
        done, _ = await asyncio.wait({waiting, *pumps}, return_when=asyncio.FIRST_COMPLETED)
        if waiting in done:
            return waiting.result()
        await next(pump for pump in pumps if pump.done())
        return None
    finally:
        waiting.cancel()


async def _put(quotes: Sequence[Quote], queue: "asyncio.Queue[Quote]") -> None:
    for quote in quotes:
        await queue.put(quote)


@asynccontextmanager
async def open_feed(settings: ReadingSettings, place: PricePlace) -> AsyncIterator[PriceFeed]:
    """Open the feed; it connects when it is asked for quotes."""
    yield PolymarketFeed(settings, place)
