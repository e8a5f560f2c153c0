"""The contract kits on the Kalshi reader, planner and paper book, on records in the documented forms."""

import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    ChoiceOutcome,
    ChoicePrediction,
    ClosingPlanner,
    ClosingProposal,
    ContractSide,
    Order,
    OrderPlanner,
    OrderSide,
    Outcome,
    PluginContext,
    PluginSettings,
    Position,
    Prediction,
    PriceFeedContext,
    Question,
    SizingPolicy,
    SubmissionBatch,
    TradeProposal,
    TradingSubmitter,
    VenueSpec,
)
from bot.core.interfaces import QuestionReader
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.planner_contract import OrderPlannerContract, PlanningCase
from bot.testing.price_feed_contract import PriceFeedContract, PriceFeedSetup
from bot.testing.question_list_contract import ExpectedQuestion, QuestionListContract
from bot.testing.submitter_contracts import ExpectedTrade, SubmitterSetup
from bot.testing.submitters import LossyTradingSubmitter
from bot.testing.trading_contract import TradingSubmitterContract, expected_trade
from bot.testing.venue_contracts import ClosingPlannerContract, QuestionReaderContract, VenueContract
from plugins.kalshi import foxcast_venues
from plugins.kalshi.api_client import QueryParameters, build_url
from plugins.kalshi.planner import create_planner
from plugins.kalshi.price_feed import KalshiPriceFeed
from plugins.kalshi.questions import NONE_OPTION
from plugins.kalshi.reader import KalshiReader
from plugins.kalshi.settings import KalshiSettings
from plugins.kalshi.writer import KalshiWriter
from tests.plugins.kalshi.conftest import KalshiFixture, open_kalshi
from tests.plugins.kalshi.fake_account import key_text
from tests.plugins.kalshi.fake_stream import FakeKalshiStream
from tests.plugins.kalshi.records import WALK_BOOK, event, market, quoted, series, settled
from tests.plugins.kalshi.test_trading import a_purchase
from tests.plugins.kalshi.trading import account, intent_of, paper_place
from tests.plugins.kalshi.writer_fixture import open_writer_fixture

SPEC: VenueSpec[Any] = foxcast_venues()[0]
SETTINGS = KalshiSettings()
RACE = event(quoted("A", "0.58", "0.62"), quoted("B", "0.29", "0.31"), mutually_exclusive=True, number=30)
PLAIN = event(market("A"), market("B"))
CLOSED = event(settled(market("A"), "yes", "1.0000"), number=29)


def pages() -> Mapping[str, bytes]:
    """The open list in one page, and outcomes."""
    asked: QueryParameters = {"status": "open", "with_nested_markets": "true", "limit": 200, "min_close_ts": 1767232800}
    found: dict[str, object] = {
        build_url(SETTINGS, "series"): {"series": [series()]},
        build_url(SETTINGS, "series/KXDEMO"): {"series": series()},
        build_url(SETTINGS, "events", asked): {"events": [RACE, PLAIN], "cursor": ""},
    }
    for one in (RACE, PLAIN, CLOSED):
        url = build_url(SETTINGS, f"events/{one['event_ticker']}", {"with_nested_markets": "true"})
        found[url] = {"event": one}
        for child in one["markets"]:
            found[build_url(SETTINGS, f"markets/{child['ticker']}")] = {"market": child}
    for tickers in ("KXDEMO-26DEC31-B", "KXDEMO-26DEC31-A"):
        query: QueryParameters = {"tickers": tickers, "mve_filter": "exclude", "limit": 100}
        won = [settled(child, "yes", "1.0000") for child in PLAIN["markets"]]
        found[build_url(SETTINGS, "markets", query)] = {"markets": won, "cursor": ""}
    return {url: json.dumps(answer).encode() for url, answer in found.items()}


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = SETTINGS
    remote_settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = pages()


class TestFinding(QuestionReaderContract):
    spec = SPEC

    @pytest.fixture
    def http(self) -> FakeHttpClient:
        return FakeHttpClient(pages())

    @pytest.fixture
    def finder(self, http: FakeHttpClient, tmp_path: Any) -> QuestionReader:
        return KalshiReader(SETTINGS, PluginContext(clock=FakeClock(), http=http, folder=tmp_path))

    @pytest.fixture
    def reached(self, http: FakeHttpClient) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(url.split("/")[2] for url in http.requested_urls)

    @pytest.fixture
    def hosts(self) -> frozenset[str]:
        return frozenset({"external-api.kalshi.com"})

    @pytest.fixture
    def unfit(self) -> str | None:
        return "KXDEMO-26DEC29-A"


RACE_PRICES = {"Candidate A": 0.6, "Candidate B": 0.3, NONE_OPTION: 0.1}
LIST_SETTINGS = KalshiSettings(page_size=1)
# close_time of the sample market.
END = datetime(2026, 6, 30, 15, tzinfo=UTC)
OVER = (
    event(settled(market("A"), "no", "0.0000"), settled(market("B"), "yes", "1.0000"), number=30)
    | {"mutually_exclusive": True},
    event(settled(market("A"), "yes", "1.0000"), market("B")),
)


def list_pages(*events: dict[str, Any]) -> Mapping[str, bytes]:
    """Return the list with one event on each page, and what is asked of their outcomes."""
    found: dict[str, object] = {build_url(LIST_SETTINGS, "series"): {"series": [series()]}}
    for one, cursor, following in ((RACE, {}, "second"), (PLAIN, {"cursor": "second"}, "")):
        query: QueryParameters = {
            "status": "open",
            "with_nested_markets": "true",
            "limit": 1,
            **cursor,
            "min_close_ts": 1767232800,
        }
        found[build_url(LIST_SETTINGS, "events", query)] = {"events": [one], "cursor": following}
    for one in events:
        url = build_url(LIST_SETTINGS, f"events/{one['event_ticker']}", {"with_nested_markets": "true"})
        found[url] = {"event": one}
    tickers = "KXDEMO-26DEC31-A,KXDEMO-26DEC31-B"
    asked: QueryParameters = {"tickers": tickers, "mve_filter": "exclude", "limit": 100}
    found[build_url(LIST_SETTINGS, "markets", asked)] = {"markets": events[1]["markets"], "cursor": ""}
    return {url: json.dumps(answer).encode() for url, answer in found.items()}


class TestList(QuestionListContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = LIST_SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = list_pages(RACE, PLAIN)
    outcome_pages: ClassVar[Mapping[str, bytes | Exception] | None] = list_pages(*OVER)
    cursor_field = "cursor"
    # Midpoints of the best quotes: 0.58 and 0.62 (0.29 and 0.31 for the other option), 0.47 and 0.52.
    expected: ClassVar[Mapping[str, ExpectedQuestion]] = {
        "event:KXDEMO-26DEC30": (RACE_PRICES, END, "choice"),
        "KXDEMO-26DEC31-A": (0.495, END, "binary"),
        "KXDEMO-26DEC31-B": (0.495, END, "binary"),
    }
    outcomes: ClassVar[Mapping[str, Outcome]] = {
        "event:KXDEMO-26DEC30": ChoiceOutcome("Candidate B"),
        "KXDEMO-26DEC31-A": BinaryOutcome(1.0),
    }
    events: ClassVar[Mapping[str, str]] = {
        "event:KXDEMO-26DEC30": "KXDEMO-26DEC30",
        "KXDEMO-26DEC31-A": "KXDEMO-26DEC31",
        "KXDEMO-26DEC31-B": "KXDEMO-26DEC31",
    }


HELD = "KXDEMO-26DEC31-A"
YES, NO = ContractSide.YES, ContractSide.NO
# At most the best price of either side is taken, so that the fee is that of one price.
SIZING = SizingPolicy(kelly_fraction=0.5, market_shrinkage=0.0, min_edge=0.02, price_band=(0.05, 0.95), max_cost=5.0)
# Candidate B of the race is offered at 0.30 and bid for at 0.28.
SECOND_BOOK = {"yes_dollars": [["0.2800", "50.00"]], "no_dollars": [["0.7000", "50.00"]]}
RACE_BELIEFS = {"Candidate A": 0.55, "Candidate B": 0.42, NONE_OPTION: 0.03}


class TestPlanner(OrderPlannerContract):
    spec = SPEC
    tick, lot = 0.01, 0.01

    @pytest.fixture
    async def kalshi(self, tmp_path: Path) -> AsyncIterator[KalshiFixture]:
        async with open_kalshi(tmp_path) as kalshi:
            first, second = quoted("A", "0.5500", "0.5700"), quoted("B", "0.2800", "0.3000")
            kalshi.venue.add(event(first), event(first, second, number=30, mutually_exclusive=True))
            kalshi.venue.books = {HELD: WALK_BOOK, "KXDEMO-26DEC30-A": WALK_BOOK, "KXDEMO-26DEC30-B": SECOND_BOOK}
            yield kalshi

    @pytest.fixture
    async def questions(self, kalshi: KalshiFixture) -> Mapping[str, Question]:
        return await kalshi.questions()

    @pytest.fixture
    def planner(self, kalshi: KalshiFixture) -> OrderPlanner:
        return create_planner(kalshi.settings, kalshi.client)

    @pytest.fixture
    def cases(self, kalshi: KalshiFixture, questions: Mapping[str, Question]) -> Sequence[PlanningCase]:
        market_question, race = questions[HELD], questions["event:KXDEMO-26DEC30"]
        high, low = (self.proposal(kalshi, market_question, BinaryPrediction(belief)) for belief in (0.8, 0.2))
        choice = self.proposal(kalshi, race, ChoicePrediction(RACE_BELIEFS))
        return [
            PlanningCase(proposal=high, contract=HELD, leg=YES, price=0.57),
            PlanningCase(proposal=low, contract=HELD, leg=NO, price=0.45),
            PlanningCase(proposal=choice, contract="KXDEMO-26DEC30-B", leg=YES, price=0.3, option="Candidate B"),
        ]

    @pytest.fixture
    def fair_proposal(self, kalshi: KalshiFixture, questions: Mapping[str, Question]) -> TradeProposal:
        return self.proposal(kalshi, questions[HELD], BinaryPrediction(0.56))

    def proposal(self, kalshi: KalshiFixture, question: Question, belief: Prediction) -> TradeProposal:
        return TradeProposal(
            question=question,
            predictions={"outcome": belief},
            account=account(kalshi),
            sizing=SIZING,
            now=kalshi.clock.now(),
        )

    def fee_of(self, order: Order) -> float:
        """Rate times shares times price times (1 - price): docs/facts/kalshi.md#fees."""
        return 0.07 * order.shares * order.expected * (1 - order.expected)


class TestClosing(ClosingPlannerContract):
    @pytest.fixture
    async def kalshi(self, tmp_path: Path) -> AsyncIterator[KalshiFixture]:
        async with open_kalshi(tmp_path) as kalshi:
            kalshi.venue.add(PLAIN)
            kalshi.venue.books[HELD] = WALK_BOOK
            yield kalshi

    @pytest.fixture
    async def planner(self, kalshi: KalshiFixture) -> ClosingPlanner:
        return create_planner(kalshi.settings, kalshi.client)

    @pytest.fixture
    async def proposal(self, kalshi: KalshiFixture) -> ClosingProposal:
        position = Position(contract=HELD, leg=ContractSide.NO, shares=20.0, paid=9.0)
        return ClosingProposal(
            question=(await kalshi.questions())[HELD],
            position=position,
            account=account(kalshi, positions=(position,)),
            now=kalshi.clock.now(),
        )


class TestPaperBook(TradingSubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"
    orders_rest: ClassVar[bool] = False

    @pytest.fixture
    async def setup(self, tmp_path: Path) -> AsyncIterator[SubmitterSetup]:
        async with open_kalshi(tmp_path) as kalshi, AsyncExitStack() as stack:
            kalshi.venue.add(PLAIN)
            kalshi.venue.books = {HELD: WALK_BOOK, "KXDEMO-26DEC31-B": WALK_BOOK}
            place = paper_place(kalshi, cash=1000.0)

            async def reopen() -> TradingSubmitter:
                kalshi.clock.advance_without_waking(1.0)
                assert SPEC.paper is not None
                return cast("TradingSubmitter", await stack.enter_async_context(SPEC.paper(kalshi.settings, place)))

            later: Callable[[float], Awaitable[None]] = kalshi.clock.advance
            book = LossyTradingSubmitter(await reopen())
            yield SubmitterSetup(
                sealer=book,
                batch=await paper_batch(kalshi, "bought", 12.0),
                refused_batch=await paper_batch(kalshi, "refused", 5000.0),
                count_effects=lambda: count_orders(place.folder),
                reopen=reopen,
                advance_time=later,
                now=kalshi.clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                trades=TRADES,
            )
            assert {one.method for one in kalshi.venue.requests} == {"GET"}

    async def test_no_order_is_open_after_it_was_sent(self, setup: SubmitterSetup) -> None:
        sealed = tuple(await setup.sealer.seal_requests(setup.batch))
        await setup.sealer.submit(replace(setup.batch, sealed=sealed))
        assert isinstance(setup.sealer, TradingSubmitter)
        assert (await setup.sealer.account()).orders == ()
        assert list(await setup.sealer.cancel(None)) == []


def kalshi_trade(
    side: OrderSide, contract: str, leg: ContractSide, *, shares: float, price: float, fee: float
) -> ExpectedTrade:
    """Return an order with the terms of the venue, whose prices are those of YES: docs/facts/kalshi.md#orders."""
    plain = expected_trade(side, contract, leg, shares=shares, price=price, fee=fee)
    assert plain.unfilled is not None
    return replace(plain, order=_with_terms(plain.order), unfilled=_with_terms(plain.unfilled))


def _with_terms(order: Order) -> Order:
    yes_price = order.limit if order.leg is YES else 1.0 - order.limit
    buys_yes = (order.side is OrderSide.BUY) is (order.leg is YES)
    terms = {
        "event": "KXDEMO-26DEC31",
        "count": f"{order.shares:.2f}",
        "price": f"{yes_price:.4f}",
        "book_side": "bid" if buys_yes else "ask",
    }
    return replace(order, terms=terms)


# WALK_BOOK offers YES at 0.57 and bids 0.55 for it; the fee is 0.07 times shares times price times (1 - price), rounded
# up to a hundredth of a cent: docs/facts/kalshi.md#fees.
TRADES = (
    kalshi_trade(OrderSide.BUY, HELD, YES, shares=10, price=0.57, fee=0.1716),
    kalshi_trade(OrderSide.SELL, HELD, YES, shares=5, price=0.55, fee=0.0867),
    kalshi_trade(OrderSide.BUY, "KXDEMO-26DEC31-B", NO, shares=10, price=0.45, fee=0.1733),
    kalshi_trade(OrderSide.SELL, "KXDEMO-26DEC31-B", NO, shares=5, price=0.43, fee=0.0858),
)


async def paper_batch(kalshi: KalshiFixture, key: str, shares: float) -> SubmissionBatch:
    """One purchase of each market."""
    questions = await kalshi.questions()
    orders = [(ref, replace(a_purchase(shares, 0.57), contract=ref)) for ref in questions]
    intents = tuple(intent_of(f"{key} {name}", order, questions[name].ref) for name, order in orders)
    return SubmissionBatch(key=key, intents=intents, questions=tuple(questions.values()))


def count_orders(folder: Path) -> int:
    """Return how many orders moved cash, by the book's own file."""
    with closing(sqlite3.connect(folder / "book.sqlite")) as book:
        return int(book.execute("select count(*) from ticket where state not in ('refused', 'lost')").fetchone()[0])


class TestWriter(TradingSubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"
    orders_rest: ClassVar[bool] = False

    @pytest.fixture
    async def setup(self, tmp_path: Path) -> AsyncIterator[SubmitterSetup]:
        async with open_writer_fixture(tmp_path) as live:
            kalshi = live.kalshi
            odd = a_purchase(12.0, 0.575)
            question = (await kalshi.questions())[HELD]
            bad = (intent_of("odd", odd, question.ref),)

            async def reopen() -> KalshiWriter:
                return live.writer()

            async def later(seconds: float) -> None:
                kalshi.clock.advance_without_waking(seconds)

            def edit() -> None:
                for ticker in (HELD, "KXDEMO-26DEC31-B"):
                    kalshi.venue.change_market(ticker, rules_primary="If it loses.")

            yield SubmitterSetup(
                sealer=live.writer(),
                batch=await paper_batch(kalshi, "bought", 12.0),
                refused_batch=SubmissionBatch(key="odd", intents=bad, questions=(question,)),
                count_effects=lambda: len(live.account.orders),
                reopen=reopen,
                advance_time=later,
                now=kalshi.clock.now,
                lose_request=lambda: live.losses.append("request"),
                lose_reply=lambda: live.losses.append("reply"),
                replace_reply=lambda: live.losses.append("gateway"),
                edit_questions=edit,
                trades=TRADES,
                secrets=tuple(line for line in key_text().decode().splitlines() if "-" not in line),
            )


class TestFeed(PriceFeedContract):
    spec = SPEC

    @pytest.fixture
    async def feed_setup(self, tmp_path: Path) -> AsyncIterator[PriceFeedSetup]:
        async with open_writer_fixture(tmp_path, FakeClock()) as live:
            kalshi, venue = live.kalshi, live.kalshi.venue
            stream = FakeKalshiStream(live.account, kalshi.clock)
            pair = event(quoted("A", "0.55", "0.57"), quoted("B", "0.28", "0.30"), number=30, mutually_exclusive=True)
            venue.add(event(*(quoted(letter, "0.55", "0.57") for letter in "ABC")), pair)
            tickers = [market["ticker"] for one in venue.events.values() for market in one["markets"]]
            venue.books = {ticker: {"yes_dollars": [], "no_dollars": []} for ticker in tickers}
            middles = dict(zip(tickers, (0.56, 0.56, 0.56, 0.56, 0.29), strict=True))
            for ticker, middle in middles.items():
                stream.move(ticker, f"{middle - 0.01:.4f}", f"{middle + 0.01:.4f}")
            steps = count()

            async def move(question: Question) -> Prediction:
                contracts = json.loads(question.facts["tickers"])
                first = next(iter(contracts.values()))
                middles[first] = round(0.515 + 0.01 * (next(steps) * 3 % 10), 3)
                stream.move(first, f"{middles[first] - 0.01:.4f}", f"{middles[first] + 0.01:.4f}")
                if "" in contracts:
                    return BinaryPrediction(middles[first])
                sums = sum(middles[one] for one in contracts.values())
                return ChoicePrediction(
                    {name: middles[one] for name, one in contracts.items()} | {NONE_OPTION: 1.0 - sums}
                )

            async def silence() -> None:
                stream.is_silent = True
                await kalshi.clock.advance(100.0)

            found = await kalshi.questions()
            place = kalshi.place
            context = PriceFeedContext(clock=kalshi.clock, http=place.http, folder=place.folder, sockets=stream)
            yield PriceFeedSetup(
                feed=KalshiPriceFeed(kalshi.settings, context),
                questions=[found[key] for key in ("KXDEMO-26DEC31-A", "KXDEMO-26DEC31-B", "event:KXDEMO-26DEC30")],
                others=[found["KXDEMO-26DEC31-C"]],
                move=move,
                silence=silence,
                now=kalshi.clock.now,
            )
