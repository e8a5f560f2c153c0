"""The reading half: open markets and events of the chosen scope, one question by name, and outcomes.

A crawl is scoped by tags, volume, liquidity and scheduled end, those traded most today first, and ends after so many
pages: all of the venue would be half a gigabyte. Prices are those of the books at that moment.
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
    Binary,
    BinaryShape,
    ChoiceShape,
    ContractError,
    Crowd,
    NotFound,
    Prediction,
    Question,
    QuestionRef,
    Rejected,
    Resolution,
    Venue,
    Workplace,
)
from plugins.polymarket.client import Client, Record
from plugins.polymarket.finding import as_listed, found, named
from plugins.polymarket.groups import OTHERS, Group, Names, Unpacked, event_of_key, group_in, has_winner, settling
from plugins.polymarket.parse import CONDITION, Market, contracts_of
from plugins.polymarket.questions import Seen, choice_of, question_of_group, question_of_market
from plugins.polymarket.raw import flag_of
from plugins.polymarket.resolve import outcome_of_group, outcome_of_market, payouts
from plugins.polymarket.settings import ReadingSettings

log = structlog.get_logger(__name__)

BY_VOLUME = {"order": "volume24hr", "ascending": "false"}


class PolymarketVenue:
    """Implements the port Finder. All it remembers is what options were called, and the numbers of tags."""

    def __init__(self, settings: ReadingSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._clock = workplace.clock
        self._folder = workplace.folder
        self._client = Client(settings, workplace.http)
        self._noted = Counter[str]()
        self._known_tags: dict[str, str] = {}

    async def questions(self) -> AsyncIterator[Question]:
        """Yield what can be forecast now, those traded most today first; all of it is read before the first."""
        unpacked = Unpacked()
        for tag in await self._tags(unpacked.complaints) if self._settings.tags else (None,):
            await self._crawl(tag, unpacked)
        now, skipped = self._clock.now(), Counter[str]()
        wanted: dict[str, Group | Market] = {}
        for item in unpacked.items:
            why = self._unwanted(item, now)
            if why is None:
                wanted.setdefault(item.key, item)
            else:
                skipped[why] += 1
        questions = await self._asked(list(wanted.values()), skipped, unpacked.complaints)
        self._note(skipped, unpacked.complaints)
        for question in questions:
            yield question

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield what markets and events paid; outcomes that are proposed or disputed are none yet."""
        groups: dict[QuestionRef, Group] = {}
        for ref in pending:
            event = event_of_key(ref.key)
            if event is not None and (group := await self._group(event)) is not None:
                groups[ref] = group
        markets = [ref for ref in pending if CONDITION.fullmatch(ref.key)]
        names = await asyncio.to_thread(Names, self._folder)
        children = [
            condition
            for group in groups.values()
            for condition in (*(market.condition for market in group.children), *names.conditions(group.home.id))
        ]
        if not markets and not children:
            return
        paid = await payouts(self._client, [*(ref.key for ref in markets), *children], self._clock)
        for ref in markets:
            if (payout := paid.get(ref.key)) is not None:
                outcome = outcome_of_market(payout)
                yield Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome, resolved_at=payout.at)
        for ref, group in groups.items():
            if (told := outcome_of_group(group, paid, names)) is not None:
                yield Resolution(ref=ref, target=SINGLE_TARGET, outcome=told[0], resolved_at=told[1])

    async def find(self, name: str) -> Question:
        """Return a question by condition, ``event:NUMBER``, the name in its address, or its address."""
        item = await found(self._client, named(name, self._settings.site_url))
        if isinstance(item, Market) and self._settings.grouping == "choice":
            item = await as_listed(self._client, item)
        now, skipped = self._clock.now(), Counter[str]()
        why = item.undecidable(now) if isinstance(item, Group) else item.untradable(now)
        complaints: list[str] = []
        questions = [] if why else await self._asked([item], skipped, complaints)
        if complaints:
            raise ContractError(complaints[0])
        if not questions:
            message = f"{name} cannot be forecast: {why or ', '.join(skipped)}"
            raise Rejected(message)
        return questions[0]

    async def crowd_at(self, question: Question, moment: datetime) -> Crowd | None:
        """Return what the market said of a question at a past moment, None where it had no price yet.

        For backtests: one price of each option, and nothing later.
        """
        prices: dict[str, float | None] = {}
        for option, contract in contracts_of(question).items():
            told = await self._client.price_at(contract.yes, moment)
            prices[option] = None if told is None else float(told[0])
        prediction: Prediction | None = None
        match question.shape:
            case BinaryShape() if (price := prices.get("")) is not None:
                prediction = Binary(price)
            case ChoiceShape(options=options):
                other = next((option for option in options if option in OTHERS and option not in prices), "")
                prediction = choice_of({name: prices.get(name) for name in options if name != other}, other)
        return None if prediction is None else Crowd(prediction=prediction, at=moment, explanation="past prices")

    async def _crawl(self, tag: str | None, unpacked: Unpacked) -> None:
        settings, now = self._settings, self._clock.now()
        asked: dict[str, str | int | float] = {
            "closed": "false",
            "limit": settings.page_size,
            **BY_VOLUME,
            "end_date_min": _written(now + timedelta(hours=settings.ends_after_h)),
            "end_date_max": _written(now + timedelta(days=settings.ends_within_d)),
        }
        if settings.grouping == "choice":
            asked |= {"volume_min": settings.volume_min, "liquidity_min": settings.liquidity_min}
            asked |= {} if tag is None else {"tag_slug": tag}
            async for record in self._client.events(asked, most_pages=settings.most_pages):
                unpacked.add_event(record)
            return
        asked |= {"volume_num_min": settings.volume_min, "liquidity_num_min": settings.liquidity_min}
        asked |= {"include_tag": "true"} | ({} if tag is None else {"tag_id": self._known_tags[tag]})
        async for record in self._client.markets(asked, most_pages=settings.most_pages):
            unpacked.add_market(record)

    async def _tags(self, complaints: list[str]) -> list[str]:
        """Return those tags of the settings that are there, asked once; raises Rejected where none is."""
        for slug in self._settings.tags:
            if slug in self._known_tags:
                continue
            try:
                self._known_tags[slug] = await self._client.tag_id(slug)
            except NotFound as error:
                complaints.append(f"there is no tag {slug!r}, see tags in [venues.polymarket.settings]: {error}")
        if not self._known_tags:
            raise Rejected("; ".join(complaints))
        return [slug for slug in self._settings.tags if slug in self._known_tags]

    def _unwanted(self, item: Group | Market, now: datetime) -> str | None:
        """Say why it is left out, whatever a filter promised; None where it is not."""
        settings = self._settings
        if isinstance(item, Group):
            if len(item.options) > settings.most_options:
                return "more outcomes than settings allow"
            why, ends_at = item.undecidable(now), item.ends_at
        else:
            why, ends_at = item.untradable(now), item.ends_at
            least = ((item.volume, settings.volume_min), (item.liquidity, settings.liquidity_min))
            if why is None and any(said is not None and said < Decimal(str(wanted)) for said, wanted in least):
                why = "traded less than settings ask for"
        if why is not None or ends_at is None:
            return why or "without an end"
        if ends_at < now + timedelta(hours=settings.ends_after_h):
            return "ends too soon"
        return "ends too late" if ends_at > now + timedelta(days=settings.ends_within_d) else None

    async def _asked(self, items: list[Group | Market], skipped: Counter[str], complaints: list[str]) -> list[Question]:
        """Read how they stand with the oracle and in the books, and make questions of those that are undecided."""
        rows = await self._client.resolutions(market.condition for item in items for market in _decisive(item))
        open_ones = [item for item in items if not _is_decided(item, rows)]
        if len(open_ones) < len(items):
            skipped["about to resolve"] += len(items) - len(open_ones)
        items = open_ones
        tokens = [market.tokens[0] for item in items for market in item.markets if market.tokens]
        books = await self._client.books(tokens) if tokens else {}
        seen = Seen(
            books=books,
            at=self._clock.now(),
            spread_max=Decimal(str(self._settings.spread_max)),
            updated=frozenset(name for name, row in rows.items() if flag_of(row.get("new_version_q"))),
        )
        questions: list[Question] = []
        groups: list[Group] = []
        for item in items:
            try:
                questions.append(
                    question_of_group(item, seen) if isinstance(item, Group) else question_of_market(item, seen)
                )
            except ContractError as error:
                complaints.append(str(error))
            else:
                groups += [item] if isinstance(item, Group) else []
        if groups:
            await asyncio.to_thread(_remember, self._folder, groups)
        return questions

    async def _group(self, event: str) -> Group | None:
        try:
            return group_in(await self._client.event(event))
        except (NotFound, Rejected, ContractError) as error:
            log.warning("an event cannot be read", number=event, error=str(error))
            return None

    def _note(self, skipped: Counter[str], complaints: list[str]) -> None:
        if complaints:
            log.warning("markets cannot be read", bad=len(complaints), first=complaints[:3])
        if skipped and self._noted != skipped:
            log.info("markets left out", skipped=dict(skipped))
        self._noted = skipped


def _decisive(item: Group | Market) -> list[Market]:
    """Return the markets whose state with the oracle may decide it: also closed ones that show no price."""
    if not isinstance(item, Group):
        return [item]
    return [*item.markets, *(one for one in item.children if one.closed and (not one.prices or one.prices[0] is None))]


def _is_decided(item: Group | Market, rows: Mapping[str, Record]) -> bool:
    if isinstance(item, Group) and has_winner(rows, item):
        return True
    return all(settling(rows, market.condition) for market in item.markets)


def _remember(folder: Path, groups: list[Group]) -> None:
    names = Names(folder)
    for group in groups:
        names.asked(group)
    names.keep()


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def open_reader(settings: ReadingSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    """Open the reader; nothing is asked before the first question is."""
    yield PolymarketVenue(settings, workplace)
