"""The reader: open events of the chosen scope with their markets, one question by name, and outcomes.

Prices are the best quotes that come with each market. Reading needs no key.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlsplit

import structlog

from bot.api import (
    SINGLE_TARGET,
    ChoiceOutcome,
    MalformedDataError,
    NotFoundError,
    Outcome,
    PluginContext,
    Question,
    QuestionRef,
    RequestRejectedError,
    Resolution,
    VenueReader,
)
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.market_parser import (
    SETTLING_STATUSES,
    JsonRecord,
    KalshiEvent,
    KalshiMarket,
    KalshiSeries,
    parse_event,
    parse_market,
)
from plugins.kalshi.questions import EVENT_PREFIX, NONE_OPTION, EventReading, event_outcome, market_outcome
from plugins.kalshi.settings import KalshiSettings

log = structlog.get_logger(__name__)

_TICKER = re.compile(r"[A-Z0-9][A-Z0-9._-]{0,99}")


class KalshiReader:
    """Implements ``QuestionReader``; it stores nothing."""

    def __init__(self, settings: KalshiSettings, context: PluginContext) -> None:
        self._settings, self._clock = settings, context.clock
        self._client = KalshiClient(settings, context.http, context.clock)

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the open questions of the configured series or categories; all are read before the first."""
        settings = self._settings
        known = await self._scope()
        now = self._clock.now()
        earliest = {"min_close_ts": int((now + timedelta(hours=settings.ends_after_h)).timestamp())}
        skipped, complaints = Counter[str](), list[str]()
        found: dict[QuestionRef, Question] = {}
        for query in [{"series_ticker": name} for name in settings.series] or [{}]:
            async for record in self._client.open_events({**earliest, **query}):
                if settings.categories and record.get("series_ticker") not in known:
                    skipped["another category"] += 1
                    continue
                series = known.get(str(record.get("series_ticker")))
                for question in self._event_questions(record, series, skipped, complaints):
                    found.setdefault(question.ref, question)
        if complaints:
            log.warning("markets cannot be read", bad=len(complaints), first=complaints[:3])
        if skipped:
            log.info("markets skipped", skipped=dict(skipped))
        for question in found.values():
            yield question

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield the final outcomes; determined, disputed and amended ones do not count yet."""
        tickers = [ref.key for ref in pending if not ref.key.startswith(EVENT_PREFIX)]
        listed = await self._client.markets(tickers) if tickers else {}
        for ref in pending:
            try:
                settled = await self._settled(ref.key, listed)
            except (NotFoundError, MalformedDataError, RequestRejectedError) as error:
                log.warning("an outcome cannot be read", question=str(ref), error=str(error))
                continue
            if settled is not None:
                outcome, markets = settled
                moments = [market.settled_at for market in markets if market.settled_at]
                at = max(moments) if moments else self._clock.now()
                yield Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome, resolved_at=at)

    async def find_question(self, name: str) -> Question:
        """Return a question by ticker of a market, ``event:TICKER``, or address.

        A market is found in its own question, or in that of its whole event, and never in that of another market.
        """
        ticker = _parse_name(name)
        market = await self._find_market(ticker) if ticker == name.strip().upper() else None
        record = await self._client.event(ticker if market is None else str(market.get("event_ticker", "")))
        series_ticker = str(record.get("series_ticker", ""))
        series = await self._client.series(series_ticker) if series_ticker else None
        skipped, complaints = Counter[str](), list[str]()
        found = self._event_questions(record, series, skipped, complaints, is_filtered=False)
        exact = [question for question in found if question.ref.key == ticker]
        if market is not None:
            found = [question for question in found if question.ref.key.startswith(EVENT_PREFIX)]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            message = f"{name} has several questions: {', '.join(question.ref.key for question in found)}"
        else:
            closed = "it has no open market" if market is None else f"it is {market.get('status')}"
            message = f"{name} cannot be forecast: {'; '.join([*skipped, *complaints]) or closed}"
        raise RequestRejectedError(message)

    async def _scope(self) -> dict[str, KalshiSeries]:
        if self._settings.series:
            return {ticker: await self._client.series(ticker) for ticker in self._settings.series}
        known: dict[str, KalshiSeries] = {}
        for category in self._settings.categories or (None,):
            known |= await self._client.series_of_category(category)
        return known

    async def _settled(
        self, key: str, listed: dict[str, JsonRecord]
    ) -> tuple[Outcome, tuple[KalshiMarket, ...]] | None:
        if key.startswith(EVENT_PREFIX):
            event = parse_event(await self._client.event(key.removeprefix(EVENT_PREFIX)))
            outcome = _readable_outcome(event)
            has_winner = isinstance(outcome, ChoiceOutcome) and outcome.option != NONE_OPTION
            if not has_winner and (outcome is not None or not event.markets):
                # What is missing from its list may have won.
                archived = await self._client.archived_markets(event.ticker)
                event = event.with_markets(archived)
                outcome = _readable_outcome(event)
            markets = event.markets
        else:
            market = parse_market(listed[key] if key in listed else await self._client.market(key))
            outcome, markets = market_outcome(market), (market,)
        return None if outcome is None else (outcome, markets)

    async def _find_market(self, ticker: str) -> JsonRecord | None:
        """Return the market of that ticker, None if there is none: it may be that of an event."""
        try:
            market = await self._client.market(ticker)
        except NotFoundError:
            return None
        return market if isinstance(market.get("event_ticker"), str) else None

    def _event_questions(
        self,
        record: JsonRecord,
        series: KalshiSeries | None,
        skipped: Counter[str],
        complaints: list[str],
        *,
        is_filtered: bool = True,
    ) -> list[Question]:
        """Return the questions of an event; why others are left out is added to ``skipped`` and ``complaints``."""
        try:
            event = parse_event(record)
        except MalformedDataError as error:
            complaints.append(str(error))
            return []
        now, max_spread = self._clock.now(), Decimal(str(self._settings.max_spread))
        reading = EventReading(event=event, series=series, at=now, max_spread=max_spread)
        groups: list[tuple[KalshiMarket, ...]] = [(market,) for market in event.markets if market.is_open]
        is_choice = self._settings.grouping == "choice" and reading.is_choice
        # With an unreadable member it is no question at all, and the last open one is a question by itself.
        is_choice = is_choice and (len(groups) > 1 or bool(groups and event.complaints))
        if is_choice:
            groups = [tuple(market for market in event.markets if market.is_open)]
        else:
            complaints.extend(event.complaints)
        questions: list[Question] = []
        for members in groups:
            why = self._objection(reading, members, is_filtered=is_filtered)
            if why is not None:
                skipped[why] += 1
                continue
            try:
                questions.append(reading.choice_question() if is_choice else reading.market_question(members[0]))
            except MalformedDataError as error:
                complaints.append(str(error))
        return questions

    def _objection(self, reading: EventReading, members: tuple[KalshiMarket, ...], *, is_filtered: bool) -> str | None:
        """Return why a question is left out, or None."""
        settings, closes_at = self._settings, max(market.closes_at for market in members)
        if closes_at <= reading.at:
            return "closed"
        if len(members) > 1 and any(
            market.result == "yes" or market.status in SETTLING_STATUSES for market in reading.event.markets
        ):
            return "about to resolve"
        if len(members) > settings.max_options:
            return "more outcomes than settings allow"
        return self._filter_objection(members, closes_at - reading.at) if is_filtered else None

    def _filter_objection(self, members: tuple[KalshiMarket, ...], time_left: timedelta) -> str | None:
        settings = self._settings
        if sum((market.volume for market in members), Decimal(0)) < Decimal(str(settings.min_volume)):
            return "traded less than settings ask for"
        if time_left < timedelta(hours=settings.ends_after_h):
            return "ends too soon"
        return "ends too late" if time_left > timedelta(days=settings.ends_within_d) else None


def _readable_outcome(event: KalshiEvent) -> Outcome | None:
    """Return the outcome of an event; raises MalformedDataError if one of its markets cannot be read."""
    if event.complaints:
        raise MalformedDataError(event.complaints[0])
    return event_outcome(event)


def _parse_name(name: str) -> str:
    """Return the ticker of a market or event in a name; raises NotFoundError if it is not of this venue."""
    text = name.strip()
    if "/" in text:
        try:
            url = urlsplit(text if "://" in text else f"https://{text}")
        except ValueError:  # an open bracket
            url = urlsplit("")
        parts = [part for part in url.path.split("/") if part]
        if url.netloc.lower().removeprefix("www.") == "kalshi.com" and parts[:1] == ["markets"] and len(parts) > 1:
            text = parts[-1]
    ticker = text.removeprefix(EVENT_PREFIX).upper()
    if not _TICKER.fullmatch(ticker):
        message = f"{name!r:.80} is not the ticker of a market, event:TICKER, or the address of an event"
        raise NotFoundError(message)
    return ticker


@asynccontextmanager
async def open_reader(settings: KalshiSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    """Open the reader; it sends no request before the first use."""
    yield KalshiReader(settings, context)
