"""A small correct venue of two pages, the size of what an outside author writes; other classes break one respect of it.

It lists ferries that sail or not: prices in cents of both sides, times in Unix seconds, pages by cursor.
"""

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    BinaryShape,
    ChoiceOutcome,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    CurveShape,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    Outcome,
    PluginContext,
    PluginSettings,
    Question,
    QuestionRef,
    Resolution,
    Target,
    VenueReader,
    VenueSpec,
    VoidOutcome,
)

SITE = "https://ferry.example"
MAX_PAGES = 20
CLOSES = datetime(2026, 3, 1, tzinfo=UTC)
RESOLVES = datetime(2026, 3, 9, tzinfo=UTC)
Record = Mapping[str, Any]


def record(name: str, yes_cents: float, **changes: Any) -> dict[str, Any]:
    plain = {
        "id": name,
        "title": f"Will the ferry to {name} sail?",
        "yes_cents": yes_cents,
        "no_cents": 100 - yes_cents,
        "stops_trading": CLOSES.timestamp(),
        "resolves": RESOLVES.timestamp(),
        "status": "open",
        "winner": "",
        "line": "north",
        "rules": "The harbour master decides.",
        "spread_cents": 4,
    }
    return plain | changes


MARKETS = {
    "skye": record("skye", 37.5),
    "iona": record("iona", 80, line="south"),
    "mull": record("mull", 12, line="south"),
    "first": record("first", 0, options={"Ann": 60, "Bob": 30, "Cat": 10}, line="race"),
    "delay": record("delay", 50, low=0, high=60),
    "jura": record("jura", 55, status="resolved", winner="yes"),
}
OVER = {
    "skye": MARKETS["skye"] | {"status": "resolved", "winner": "yes"},
    "iona": MARKETS["iona"] | {"status": "resolved", "winner": "no"},
    "mull": MARKETS["mull"] | {"status": "cancelled", "winner": ""},
}


def list_pages(markets: Mapping[str, Record]) -> dict[str, bytes | Exception]:
    """The two pages of the list, and a page of each market."""
    shown = list(markets.values())
    pages = {
        f"{SITE}/markets?cursor=": {"markets": shown[:3], "next": "c2"},
        f"{SITE}/markets?cursor=c2": {"markets": shown[3:], "next": ""},
    } | {f"{SITE}/markets/{one['id']}": one for one in shown}
    return {url: json.dumps(page).encode() for url, page in pages.items()}


class FerryReader:
    """Implements VenueReader; each method is one decision that an author may get wrong."""

    venue: ClassVar[str] = "ferry"
    max_pages: ClassVar[int] = MAX_PAGES

    def __init__(self, context: PluginContext) -> None:
        self.context = context

    async def questions(self) -> AsyncIterator[Question]:
        cursor, listed = "", self.listed_keys()
        for _ in range(self.max_pages):
            page = await self.read_page(cursor)
            for one in self.open_records(page["markets"]):
                try:
                    question = self.parse_question(one)
                except (LookupError, TypeError, ValueError):
                    self.skip_record(one)
                    continue
                if question.ref.key not in listed:
                    yield question
                listed.add(question.ref.key)
            cursor = self.next_cursor(page)
            if not cursor:
                return

    async def read_page(self, cursor: str) -> Any:
        body = await self.context.http.get(f"{SITE}/markets?cursor={cursor}", max_bytes=1_000_000)
        try:
            page = json.loads(body)
            return {"markets": page["markets"], "next": page["next"]}
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            message = f"the list of ferries is unreadable: {error}"
            raise MalformedDataError(message) from error

    def next_cursor(self, page: Any) -> str:
        return str(page["next"])

    def listed_keys(self) -> set[str]:
        """Return the set to put the keys of one listing into."""
        return set()

    def open_records(self, records: list[Any]) -> list[Any]:
        return [one for one in records if one.get("status", "open") == "open"]

    def skip_record(self, one: Any) -> None:
        """Leave out what cannot be read."""

    def parse_question(self, one: Record) -> Question:
        at = self.price_time(one)
        return Question(
            ref=QuestionRef(self.venue, self.key_of(one)),
            title=one["title"],
            shape=self.shape(one),
            targets=(Target(resolves_at=self.resolution_time(one)),),
            criteria=one["rules"],
            closes_at=self.closing_time(one),
            crowd=None if "low" in one else CrowdForecast(prediction=self.price(one), at=at, spread=self.spread(one)),
            event=self.event(one),
            category=self.category(one),
        )

    def key_of(self, one: Record) -> str:
        return str(one["id"])

    def price(self, one: Record) -> BinaryPrediction | ChoicePrediction:
        if options := one.get("options"):
            return ChoicePrediction({name: cents / 100 for name, cents in options.items()})
        return BinaryPrediction(one["yes_cents"] / 100)

    def moment(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    def shape(self, one: Record) -> BinaryShape | ChoiceShape | CurveShape:
        if options := one.get("options"):
            return ChoiceShape(options=tuple(options))
        return CurveShape(grid=self.grid(one), unit="minutes") if "low" in one else BinaryShape()

    def grid(self, one: Record) -> tuple[float, ...]:
        return tuple(one["low"] + (one["high"] - one["low"]) * step / 10 for step in range(11))

    def spread(self, one: Record) -> float:
        return float(one["spread_cents"] / 100)

    def closing_time(self, one: Record) -> datetime:
        return self.moment(one["stops_trading"])

    def resolution_time(self, one: Record) -> datetime:
        return self.moment(one["resolves"])

    def price_time(self, one: Record) -> datetime:
        return self.context.clock.now()

    def event(self, one: Record) -> str:
        return str(one["line"])

    def category(self, one: Record) -> str:
        return "ferries"

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        for ref in pending:
            try:
                one = json.loads(await self.context.http.get(f"{SITE}/markets/{ref.key}", max_bytes=100_000))
            except NotFoundError:
                self.skip_gone(ref)
                continue
            if (outcome := self.outcome(one)) is not None:
                yield Resolution(ref=ref, target="outcome", outcome=outcome, resolved_at=self.moment(one["resolves"]))

    def skip_gone(self, ref: QuestionRef) -> None:
        """Leave out a question that the venue does not have any more."""

    def outcome(self, one: Record) -> Outcome | None:
        match one["status"], one["winner"]:
            case "cancelled", _:
                return VoidOutcome("the venue cancelled it")
            case "resolved", winner if one.get("options"):
                return ChoiceOutcome(winner)
            case "resolved", winner:
                return BinaryOutcome(float(winner == "yes"))
        return None


def ferry_spec(reader: Callable[[PluginContext], VenueReader] = FerryReader) -> VenueSpec[PluginSettings]:
    """The venue with a reader of that class."""

    @asynccontextmanager
    async def open_reader(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
        yield reader(context)

    return VenueSpec(name="ferry", summary="Ferries that sail or do not", settings=PluginSettings, reader=open_reader)


class PriceOfOtherSide(FerryReader):
    def price(self, one: Record) -> BinaryPrediction | ChoicePrediction:
        return BinaryPrediction(one["no_cents"] / 100) if "options" not in one else super().price(one)


class DividedTwice(FerryReader):
    def price(self, one: Record) -> BinaryPrediction | ChoicePrediction:
        return BinaryPrediction(one["yes_cents"] / 100 / 100) if "options" not in one else super().price(one)


class PercentAsProbability(FerryReader):
    def price(self, one: Record) -> BinaryPrediction | ChoicePrediction:
        return BinaryPrediction(one["yes_cents"]) if "options" not in one else super().price(one)

    def skip_record(self, one: Record) -> None:
        raise  # noqa: PLE0704 - called by the handler


class OptionsShifted(FerryReader):
    def price(self, one: Record) -> BinaryPrediction | ChoicePrediction:
        if options := one.get("options"):
            return ChoicePrediction(
                {name: cents / 100 for name, cents in zip(options, reversed(options.values()), strict=True)}
            )
        return super().price(one)


class LastOptionsSwapped(FerryReader):
    def price(self, one: Record) -> BinaryPrediction | ChoicePrediction:
        if options := one.get("options"):
            first, second, third = options
            changed = {first: options[first], second: options[third], third: options[second]}
            return ChoicePrediction({name: cents / 100 for name, cents in changed.items()})
        return super().price(one)


class FirstPageTwice(FerryReader):
    async def read_page(self, cursor: str) -> Any:
        if not cursor:
            await super().read_page(cursor)
        return await super().read_page(cursor)


class ListedForgotten(FerryReader):
    async def questions(self) -> AsyncIterator[Question]:
        cursor = ""
        while True:
            page = await self.read_page(cursor)
            for one in self.open_records(page["markets"]):
                yield self.parse_question(one)
            cursor = self.next_cursor(page)
            if not cursor:
                return


class ListedForEver(FerryReader):
    def __init__(self, context: PluginContext) -> None:
        super().__init__(context)
        self.known: set[str] = set()

    def listed_keys(self) -> set[str]:
        return self.known


class OutcomesOnce(FerryReader):
    def __init__(self, context: PluginContext) -> None:
        super().__init__(context)
        self.known: set[QuestionRef] = set()

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        async for one in super().resolutions([ref for ref in pending if ref not in self.known]):
            self.known.add(one.ref)
            yield one


class OutcomesTwice(FerryReader):
    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        async for one in super().resolutions(pending):
            yield one
            yield one


class SecondsAsMilliseconds(FerryReader):
    def resolution_time(self, one: Record) -> datetime:
        return self.moment(one["resolves"] / 1000)


class PricedWhenClosed(FerryReader):
    def price_time(self, one: Record) -> datetime:
        return self.closing_time(one)


class OpensForEver(FerryReader):
    def open_records(self, records: list[Any]) -> list[Any]:
        return [one | {"stops_trading": 1_700_000_000} for one in super().open_records(records)]


class LocalTimes(FerryReader):
    def closing_time(self, one: Record) -> datetime:
        return super().closing_time(one) - timedelta(hours=5)


class CategoryForgotten(FerryReader):
    def category(self, one: Record) -> str:
        return ""


class RulesForgotten(FerryReader):
    def parse_question(self, one: Record) -> Question:
        return super().parse_question({**one, "rules": ""})


class SpreadInCents(FerryReader):
    def spread(self, one: Record) -> float:
        return float(one["spread_cents"])


class HalfSpread(FerryReader):
    def spread(self, one: Record) -> float:
        return super().spread(one) / 2


class RangeFromOne(FerryReader):
    def grid(self, one: Record) -> tuple[float, ...]:
        return tuple(float(step) for step in range(11))


class NoPrice(FerryReader):
    def parse_question(self, one: Record) -> Question:
        from dataclasses import replace

        return replace(super().parse_question(one), crowd=None)


class FirstPageOnly(FerryReader):
    def next_cursor(self, page: Any) -> str:
        return ""


class EndlessPages(FerryReader):
    max_pages = 10**9


class PageInOneTry(FerryReader):
    async def questions(self) -> AsyncIterator[Question]:
        cursor = ""
        for _ in range(self.max_pages):
            page = await self.read_page(cursor)
            try:
                found = [self.parse_question(one) for one in self.open_records(page["markets"])]
            except (LookupError, TypeError, ValueError):
                found = []
            for question in found:
                yield question
            cursor = self.next_cursor(page)
            if not cursor:
                return


class UnguardedOutcomes(FerryReader):
    def skip_gone(self, ref: QuestionRef) -> None:
        raise  # noqa: PLE0704 - called by the handler


class OutageSwallowed(FerryReader):
    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        try:
            async for one in super().resolutions(pending):
                yield one
        except FoxcastError:
            return


class UnguardedRecords(FerryReader):
    def skip_record(self, one: Any) -> None:
        raise  # noqa: PLE0704 - called by the handler


class BlockingReader(FerryReader):
    async def read_page(self, cursor: str) -> Any:
        import time

        time.sleep(0.06)  # noqa: ASYNC251 - the fault
        return await super().read_page(cursor)


class NaiveTimes(UnguardedRecords):
    def closing_time(self, one: Record) -> datetime:
        return datetime.fromtimestamp(one["stops_trading"])  # noqa: DTZ006 - the fault


class ClosesWhenResolved(FerryReader):
    def closing_time(self, one: Record) -> datetime:
        return self.moment(one["resolves"])


class ResolvedAsOpen(FerryReader):
    def open_records(self, records: list[Any]) -> list[Any]:
        return records


class DuplicateKeys(FerryReader):
    async def questions(self) -> AsyncIterator[Question]:
        async for one in super().questions():
            yield one
            yield one


class OtherVenueName(FerryReader):
    venue = "steamer"


class EventForgotten(FerryReader):
    def event(self, one: Record) -> str:
        del one
        return ""


class ChoiceAsBinary(FerryReader):
    def parse_question(self, one: Record) -> Question:
        return super().parse_question({name: value for name, value in one.items() if name != "options"})


class OutcomeInverted(FerryReader):
    def outcome(self, one: Record) -> Outcome | None:
        found = super().outcome(one)
        return BinaryOutcome(1.0 - found.value) if isinstance(found, BinaryOutcome) else found


class CancelledAsNo(FerryReader):
    def outcome(self, one: Record) -> Outcome | None:
        return BinaryOutcome(0.0) if one["status"] == "cancelled" else super().outcome(one)


class OpenAsResolved(FerryReader):
    def outcome(self, one: Record) -> Outcome | None:
        return super().outcome(one) or BinaryOutcome(0.0)


class FirstOutcomeOnly(FerryReader):
    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        async for one in super().resolutions(list(pending)[:1]):
            yield one


class SwallowedErrors(FerryReader):
    async def read_page(self, cursor: str) -> Any:
        try:
            return await super().read_page(cursor)
        except FoxcastError:
            return {"markets": [], "next": ""}
