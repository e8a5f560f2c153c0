"""The reader: open markets and events of the chosen scope, one question by name, and outcomes.

A crawl is scoped by tags, volume, liquidity and scheduled end, the most traded today first, with a limit of pages: all
of the venue would be half a gigabyte. Prices are those of the books at that moment.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import structlog

from bot.api import (
    SINGLE_TARGET,
    MalformedDataError,
    NotFoundError,
    PluginContext,
    Question,
    QuestionRef,
    RequestRejectedError,
    Resolution,
    VenueReader,
)
from plugins.polymarket.api_client import JsonRecord, PolymarketClient
from plugins.polymarket.event_groups import (
    EventGroup,
    OptionNames,
    PolymarketParsedEvents,
    event_group,
    event_id_of_key,
    has_winner,
    is_settling,
)
from plugins.polymarket.json_values import parse_flag
from plugins.polymarket.market_parser import CONDITION_PATTERN, PolymarketMarket
from plugins.polymarket.question_lookup import find_question_item, market_as_listed, parse_lookup
from plugins.polymarket.questions import BooksSnapshot, group_question, market_question
from plugins.polymarket.resolutions import group_outcome, market_outcome, read_payouts
from plugins.polymarket.settings import PolymarketReadingSettings

log = structlog.get_logger(__name__)

BY_VOLUME = {"order": "volume24hr", "ascending": "false"}


class PolymarketReader:
    """Implements ``QuestionReader``. It only stores the names of options, and the numbers of tags."""

    def __init__(self, settings: PolymarketReadingSettings, context: PluginContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._folder = context.folder
        self._client = PolymarketClient(settings, context.http)
        self._noted = Counter[str]()
        self._known_tags: dict[str, str] = {}

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the questions that can be forecast now, the most traded today first; all are read before the first."""
        unpacked = PolymarketParsedEvents()
        for tag in await self._tags(unpacked.complaints) if self._settings.tags else (None,):
            await self._crawl(tag, unpacked)
        now, skipped = self._clock.now(), Counter[str]()
        accepted: dict[str, EventGroup | PolymarketMarket] = {}
        for item in unpacked.items:
            why = self._filter_objection(item, now)
            if why is None:
                accepted.setdefault(item.key, item)
            else:
                skipped[why] += 1
        questions = await self._build_questions(list(accepted.values()), skipped, unpacked.complaints)
        self._note(skipped, unpacked.complaints)
        for question in questions:
            yield question

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield the outcomes of markets and events; proposed or disputed ones do not count yet."""
        groups: dict[QuestionRef, EventGroup] = {}
        for ref in pending:
            event = event_id_of_key(ref.key)
            if event is not None and (group := await self._read_group(event)) is not None:
                groups[ref] = group
        markets = [ref for ref in pending if CONDITION_PATTERN.fullmatch(ref.key)]
        names = await asyncio.to_thread(OptionNames, self._folder)
        children = [
            condition
            for group in groups.values()
            for condition in (*(market.condition for market in group.children), *names.conditions(group.event.id))
        ]
        if not markets and not children:
            return
        paid = await read_payouts(self._client, [*(ref.key for ref in markets), *children], self._clock)
        for ref in markets:
            if (payout := paid.get(ref.key)) is not None:
                outcome = market_outcome(payout)
                yield Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome, resolved_at=payout.at)
        for ref, group in groups.items():
            if (outcome_at := group_outcome(group, paid, names)) is not None:
                yield Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome_at[0], resolved_at=outcome_at[1])

    async def find_question(self, name: str) -> Question:
        """Return a question by condition, ``event:NUMBER``, slug, or address."""
        item = await find_question_item(self._client, parse_lookup(name, self._settings.site_url))
        if isinstance(item, PolymarketMarket) and self._settings.grouping == "choice":
            item = await market_as_listed(self._client, item)
        now, skipped = self._clock.now(), Counter[str]()
        why = item.undecidable_reason(now) if isinstance(item, EventGroup) else item.untradable_reason(now)
        complaints: list[str] = []
        questions = [] if why else await self._build_questions([item], skipped, complaints)
        if complaints:
            raise MalformedDataError(complaints[0])
        if not questions:
            message = f"{name} cannot be forecast: {why or ', '.join(skipped)}"
            raise RequestRejectedError(message)
        return questions[0]

    async def _crawl(self, tag: str | None, unpacked: PolymarketParsedEvents) -> None:
        settings, now = self._settings, self._clock.now()
        query: dict[str, str | int | float] = {
            "closed": "false",
            "limit": settings.page_size,
            **BY_VOLUME,
            "end_date_min": _format_moment(now + timedelta(hours=settings.ends_after_h)),
            "end_date_max": _format_moment(now + timedelta(days=settings.ends_within_d)),
        }
        if settings.grouping == "choice":
            query |= {"volume_min": settings.min_volume, "liquidity_min": settings.min_liquidity}
            query |= {} if tag is None else {"tag_slug": tag}
            async for record in self._client.events(query, most_pages=settings.max_pages):
                unpacked.add_event(record)
            return
        query |= {"volume_num_min": settings.min_volume, "liquidity_num_min": settings.min_liquidity}
        query |= {"include_tag": "true"} | ({} if tag is None else {"tag_id": self._known_tags[tag]})
        async for record in self._client.markets(query, most_pages=settings.max_pages):
            unpacked.add_market(record)

    async def _tags(self, complaints: list[str]) -> list[str]:
        """Return the existing tags of the settings, looked up once; raises RequestRejectedError if there are none."""
        for slug in self._settings.tags:
            if slug in self._known_tags:
                continue
            try:
                self._known_tags[slug] = await self._client.tag_id(slug)
            except NotFoundError as error:
                complaints.append(f"there is no tag {slug!r}, see tags in [venues.polymarket.settings]: {error}")
        if not self._known_tags:
            raise RequestRejectedError("; ".join(complaints))
        return [slug for slug in self._settings.tags if slug in self._known_tags]

    def _filter_objection(self, item: EventGroup | PolymarketMarket, now: datetime) -> str | None:
        """Return why it is skipped, even if a filter selected it, or None."""
        settings = self._settings
        if isinstance(item, EventGroup):
            if len(item.options) > settings.max_options:
                return "more outcomes than settings allow"
            why, ends_at = item.undecidable_reason(now), item.ends_at
        else:
            why, ends_at = item.untradable_reason(now), item.ends_at
            least = ((item.volume, settings.min_volume), (item.liquidity, settings.min_liquidity))
            if why is None and any(value is not None and value < Decimal(str(wanted)) for value, wanted in least):
                why = "traded less than settings ask for"
        if why is not None or ends_at is None:
            return why or "without an end"
        if ends_at < now + timedelta(hours=settings.ends_after_h):
            return "ends too soon"
        return "ends too late" if ends_at > now + timedelta(days=settings.ends_within_d) else None

    async def _build_questions(
        self, items: list[EventGroup | PolymarketMarket], skipped: Counter[str], complaints: list[str]
    ) -> list[Question]:
        """Read oracle states and books, and build questions of the undecided items."""
        rows = await self._client.resolutions(market.condition for item in items for market in _decisive_markets(item))
        open_ones = [item for item in items if not _is_decided(item, rows)]
        if len(open_ones) < len(items):
            skipped["about to resolve"] += len(items) - len(open_ones)
        items = open_ones
        tokens = [market.tokens[0] for item in items for market in item.markets if market.tokens]
        books = await self._client.books(tokens) if tokens else {}
        snapshot = BooksSnapshot(
            books=books,
            at=self._clock.now(),
            spread_max=Decimal(str(self._settings.max_spread)),
            updated_rules=frozenset(name for name, row in rows.items() if parse_flag(row.get("new_version_q"))),
        )
        questions: list[Question] = []
        groups: list[EventGroup] = []
        for item in items:
            try:
                questions.append(
                    group_question(item, snapshot) if isinstance(item, EventGroup) else market_question(item, snapshot)
                )
            except MalformedDataError as error:
                complaints.append(str(error))
            else:
                groups += [item] if isinstance(item, EventGroup) else []
        if groups:
            await asyncio.to_thread(_remember_options, self._folder, groups)
        return questions

    async def _read_group(self, event: str) -> EventGroup | None:
        try:
            return event_group(await self._client.event(event))
        except (NotFoundError, RequestRejectedError, MalformedDataError) as error:
            log.warning("an event cannot be read", number=event, error=str(error))
            return None

    def _note(self, skipped: Counter[str], complaints: list[str]) -> None:
        if complaints:
            log.warning("markets cannot be read", bad=len(complaints), first=complaints[:3])
        if skipped and self._noted != skipped:
            log.info("markets skipped", skipped=dict(skipped))
        self._noted = skipped


def _decisive_markets(item: EventGroup | PolymarketMarket) -> list[PolymarketMarket]:
    """Return the markets whose oracle state may decide it: also closed ones without a price."""
    if not isinstance(item, EventGroup):
        return [item]
    return [*item.markets, *(one for one in item.children if one.closed and (not one.prices or one.prices[0] is None))]


def _is_decided(item: EventGroup | PolymarketMarket, rows: Mapping[str, JsonRecord]) -> bool:
    if isinstance(item, EventGroup) and has_winner(rows, item):
        return True
    return all(is_settling(rows, market.condition) for market in item.markets)


def _remember_options(folder: Path, groups: list[EventGroup]) -> None:
    names = OptionNames(folder)
    for group in groups:
        names.remember_options(group)
    names.save()


def _format_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def open_reader(settings: PolymarketReadingSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    """Open the reader; it sends no request before the first use."""
    yield PolymarketReader(settings, context)
