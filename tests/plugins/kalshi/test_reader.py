"""The reader in front of the strict double on a real socket: questions, prices, paging, outcomes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    ChoiceOutcome,
    ChoicePrediction,
    ChoiceShape,
    NotFoundError,
    Outcome,
    RequestRejectedError,
    ServiceUnavailableError,
    VoidOutcome,
)
from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from plugins.kalshi.questions import NONE_OPTION
from plugins.kalshi.settings import KalshiSettings
from tests.plugins.kalshi.conftest import KalshiFixture
from tests.plugins.kalshi.fake_exchange import PREFIX, FakeKalshiExchange, reply
from tests.plugins.kalshi.records import event, market, quoted, series, settled

ROOT = Path(__file__).resolve().parents[3]
A, B = "KXDEMO-26DEC31-A", "KXDEMO-26DEC31-B"
RACE = "event:KXDEMO-26DEC31"


def race(*members: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An event with at most one winner."""
    markets = members or (quoted("A", "0.58", "0.62"), quoted("B", "0.29", "0.31"))
    return event(*markets, mutually_exclusive=True, **changes)


def test_reading_needs_no_key_and_loads_no_cryptography() -> None:
    code = "import sys, plugins.kalshi as k; k.foxcast_venues(); print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_a_market_becomes_a_question_with_the_midpoint_of_its_quotes(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(event(market("A")))
    found = (await kalshi.questions())[A]
    assert found.title == "Who will win?: Candidate A"
    assert found.crowd is not None
    assert found.crowd.prediction == BinaryPrediction(0.495)
    assert found.crowd.spread == pytest.approx(0.05)
    assert "The Times https://t.example" in found.criteria
    assert found.category == "Politics"
    assert found.closes_at is not None
    assert found.closes_at.isoformat() == "2026-06-30T15:00:00+00:00"


@pytest.mark.parametrize(
    "changes",
    [
        {"yes_bid_size_fp": "0.00", "yes_bid_dollars": "0.4900"},
        {"yes_ask_dollars": "1.0000", "yes_ask_size_fp": "0.00"},
        {"yes_bid_dollars": "0.5300"},
        {"yes_bid_dollars": "0.1000"},
        {"status": "inactive"},
    ],
    ids=["no size", "empty side", "crossed", "wide", "paused"],
)
async def test_without_two_quotes_that_fit_there_is_no_price(kalshi: KalshiFixture, changes: dict[str, Any]) -> None:
    kalshi.venue.add(event(market("A", **changes), market("B")))
    assert (await kalshi.questions())[A].crowd is None


async def test_an_event_with_at_most_one_winner_has_an_option_for_none(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(race())
    found = (await kalshi.questions())[RACE]
    assert found.shape == ChoiceShape(options=("Candidate A", "Candidate B", NONE_OPTION))
    assert found.crowd is not None
    assert isinstance(found.crowd.prediction, ChoicePrediction)
    assert found.crowd.prediction.probabilities == pytest.approx(
        {"Candidate A": 0.6, "Candidate B": 0.3, NONE_OPTION: 0.1}
    )


@pytest.mark.parametrize(("first", "second"), [("0.30", "0.20"), ("0.80", "0.60")])
async def test_prices_that_do_not_sum_to_about_one_are_no_price(kalshi: KalshiFixture, first: str, second: str) -> None:
    kalshi.venue.add(race(quoted("A", first, first[:3] + "1"), quoted("B", second, second[:3] + "1")))
    assert (await kalshi.questions())[RACE].crowd is None


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "weird"},
        {"yes_bid_dollars": 0.47},
        {"notional_value_dollars": "100.0000"},
        {"close_time": None},
        {"price_ranges": []},
        {"market_type": "scalar"},
        {"mve_collection_ticker": "KXMVE-1"},
    ],
    ids=str,
)
async def test_a_bad_record_leaves_out_itself_but_its_event_as_a_whole(
    kalshi: KalshiFixture, changes: dict[str, Any]
) -> None:
    kalshi.venue.add(event(market("A", **changes), market("B")))
    kalshi.venue.add(race(market("A", **changes), market("B"), number=30))
    assert set(await kalshi.questions()) == {B}


async def test_same_names_of_options_are_told_apart(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(race(market("A", yes_sub_title="Ann"), market("B", yes_sub_title="Ann")))
    assert (await kalshi.questions())[RACE].shape == ChoiceShape(options=(f"Ann {A}", f"Ann {B}", NONE_OPTION))


async def test_pages_are_followed_to_the_end_with_a_status(kalshi: KalshiFixture) -> None:
    for number in range(5):
        kalshi.venue.add(event(market("A"), number=10 + number))
    assert len(await kalshi.set(page_size=2).questions()) == 5
    asked = kalshi.venue.queries("events")
    assert len(asked) == 3
    assert {query["status"][0] for query in asked} == {"open"}
    assert {request.headers["accept-language"] for request in kalshi.venue.requests} == {"en"}


async def test_a_list_that_repeats_itself_ends(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(event(market("A")))
    kalshi.venue.looping = True
    assert set(await kalshi.questions()) == {A}
    assert len(kalshi.venue.queries("events")) == 2


async def test_a_list_ends_at_the_limit_of_pages(kalshi: KalshiFixture) -> None:
    for number in range(5):
        kalshi.venue.add(event(market("A"), number=10 + number))
    assert len(await kalshi.set(page_size=1, max_pages=3).questions()) == 3


async def test_scope_is_by_series_or_category(kalshi: KalshiFixture) -> None:
    kalshi.venue.series["KXRAIN"] = series("KXRAIN", category="Weather")
    kalshi.venue.add(event(market("A")), event(market("A"), number=30, series_ticker="KXRAIN"))
    weather = {"KXDEMO-26DEC30-A"}
    assert set(await kalshi.set(categories=("Weather",)).questions()) == weather
    assert set(await kalshi.set(series=("KXRAIN",)).questions()) == weather
    assert kalshi.venue.queries("events")[-1]["series_ticker"] == ["KXRAIN"]


@pytest.mark.parametrize(
    ("changes", "is_listed"),
    [
        ({"volume_fp": "99.99"}, False),
        ({"close_time": "2026-01-01T01:00:00Z"}, False),
        ({"close_time": "2028-01-01T01:00:00Z"}, False),
        ({"status": "determined"}, False),
        ({"status": "initialized"}, False),
        ({}, True),
    ],
)
async def test_what_settings_leave_out(kalshi: KalshiFixture, changes: dict[str, Any], is_listed: bool) -> None:  # noqa: FBT001 - a case
    kalshi.venue.add(event(market("A", **changes), market("B")))
    assert (A in await kalshi.set(min_volume=100).questions()) is is_listed


@pytest.mark.parametrize("status", ["closed", "determined", "disputed", "amended", "active"])
async def test_only_final_results_count(kalshi: KalshiFixture, status: str) -> None:
    result = {"result": "yes", "settlement_value_dollars": "1.0000"}
    kalshi.venue.add(event(market("A", status=status, **result)))
    assert await kalshi.resolutions(A) == {}
    kalshi.venue.change_market(A, status="finalized")
    assert (await kalshi.resolutions(A))[A].outcome == BinaryOutcome(1.0)


@pytest.mark.parametrize(
    ("result", "value", "outcome"),
    [
        ("yes", "1.0000", BinaryOutcome(1.0)),
        ("no", "0.0000", BinaryOutcome(0.0)),
        ("scalar", "0.3700", VoidOutcome("settled between yes and no, at 0.3700", {"": 0.37})),
        ("", "0.0000", VoidOutcome("finalized without a result")),
    ],
)
async def test_outcomes_of_markets(kalshi: KalshiFixture, result: str, value: str, outcome: Outcome) -> None:
    kalshi.venue.add(event(settled(market("A"), result, value), market("B")))
    found = await kalshi.resolutions(A, B)
    assert {key: one.outcome for key, one in found.items()} == {A: outcome}
    assert found[A].resolved_at.isoformat() == "2026-01-01T12:00:00.123456+00:00"


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        (("yes", "no"), ChoiceOutcome("Candidate A")),
        (("yes", None), ChoiceOutcome("Candidate A")),
        (("no", "no"), ChoiceOutcome(NONE_OPTION)),
        (("no", None), None),
        (("yes", "yes"), VoidOutcome("2 outcomes won", {A: 1.0, B: 1.0})),
        (("scalar", "no"), VoidOutcome("settled between yes and no", {A: 0.37})),
        (("", "no"), VoidOutcome("finalized without a result")),
    ],
)
async def test_outcomes_of_events(
    kalshi: KalshiFixture, results: tuple[str | None, ...], outcome: Outcome | None
) -> None:
    values = {"yes": "1.0000", "scalar": "0.3700"}
    members = [
        market(letter) if result is None else settled(market(letter), result, values.get(result, "0.0000"))
        for letter, result in zip("AB", results, strict=True)
    ]
    kalshi.venue.add(race(*members))
    found = await kalshi.resolutions(RACE)
    assert (found[RACE].outcome if RACE in found else None) == outcome


async def test_an_archived_market_still_has_its_outcome(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(event(settled(market("A"), "no", "0.0000"), market("B")))
    kalshi.venue.archive(A)
    assert (await kalshi.resolutions(A, B))[A].outcome == BinaryOutcome(0.0)
    assert await kalshi.resolutions("KXNONE-1-A") == {}


@pytest.mark.parametrize(
    ("result", "value", "outcome"),
    [
        ("yes", "1.0000", ChoiceOutcome("Candidate A")),
        ("scalar", "0.3700", VoidOutcome("settled between yes and no", {A: 0.37})),
        ("no", "0.0000", ChoiceOutcome(NONE_OPTION)),
    ],
)
@pytest.mark.parametrize("is_all_archived", [False, True])
async def test_archived_markets_count_for_the_outcome_of_their_event(
    kalshi: KalshiFixture,
    result: str,
    value: str,
    outcome: Outcome,
    is_all_archived: bool,  # noqa: FBT001 - a case
) -> None:
    others = (settled(market("B"), "no", "0.0000"), settled(market("C"), "no", "0.0000"))
    kalshi.venue.add(race(settled(market("A"), result, value), *others))
    for letter in "ABC" if is_all_archived else "A":
        kalshi.venue.archive(f"KXDEMO-26DEC31-{letter}")
    assert (await kalshi.resolutions(RACE))[RACE].outcome == outcome


@pytest.mark.parametrize("fault", ["another event", "no end", "unreadable", "no list"])
async def test_an_archive_that_cannot_be_read_decides_nothing(kalshi: KalshiFixture, fault: str) -> None:
    kalshi.venue.add(race(settled(market("A"), "yes", "1.0000"), settled(market("B"), "no", "0.0000")))
    kalshi.venue.archive(A)
    kalshi.venue.archived[A] |= {"status": "weird"} if fault == "unreadable" else {}
    pages = {
        "another event": {"markets": [market("A", "KXOTHER-1")], "cursor": ""},
        "no end": {"markets": [], "cursor": "again"},
        "no list": {"cursor": ""},
    }

    def answer(request: ReceivedRequest) -> ScriptedResponse | None:
        return reply(pages[fault]) if "/historical/markets?" in request.path and fault in pages else None

    kalshi.venue.override = answer
    assert await kalshi.resolutions(RACE) == {}


async def test_a_listed_winner_counts_though_another_market_was_archived(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(race(settled(market("A"), "no", "0.0000"), settled(market("B"), "yes", "1.0000")))
    kalshi.venue.archive(A)
    assert (await kalshi.resolutions(RACE))[RACE].outcome == ChoiceOutcome("Candidate B")


async def test_a_question_is_found_by_ticker_event_and_address(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(race(), event(market("A"), market("B"), number=30))
    listed = await kalshi.questions()
    for name in (A, RACE, listed[RACE].url or "", "kxdemo-26dec31"):
        assert (await kalshi.reader.find_question(name)).ref.key == RACE
    assert (await kalshi.reader.find_question("KXDEMO-26DEC30-B")).ref.key == "KXDEMO-26DEC30-B"
    with pytest.raises(RequestRejectedError, match="several questions"):
        await kalshi.reader.find_question("event:KXDEMO-26DEC30")
    for name in ("KXNONE", "https://[::1", "[a/b"):
        with pytest.raises(NotFoundError):
            await kalshi.reader.find_question(name)


async def test_a_closed_market_is_not_found_in_the_last_open_one_of_its_event(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(event(market("A", status="closed"), market("B"), number=30))
    with pytest.raises(RequestRejectedError, match="KXDEMO-26DEC30-A cannot be forecast: it is closed"):
        await kalshi.reader.find_question("KXDEMO-26DEC30-A")
    for name in ("KXDEMO-26DEC30-B", "event:KXDEMO-26DEC30", "kxdemo-26dec30"):
        assert (await kalshi.reader.find_question(name)).ref.key == "KXDEMO-26DEC30-B"


async def test_too_many_requests_without_a_header_are_retried_and_reported(kalshi: KalshiFixture) -> None:
    kalshi.venue.override = lambda _: ScriptedResponse(status=429, body=b'{"error": "too many requests"}')
    with pytest.raises(ServiceUnavailableError):
        await kalshi.questions()
    assert len(kalshi.venue.requests) > 1


def test_no_other_host_than_the_test_host_is_accepted() -> None:
    with pytest.raises(ValidationError, match="test_host"):
        KalshiSettings(test_host="127.0.0.1:1")
    assert "demo" in KalshiSettings(environment="demo").base_url


def test_the_double_refuses_a_limit_that_the_venue_refuses() -> None:
    refused = ("markets?limit=1001", "events?limit=201", "events?nonsense=1", "events?status=active", "markets?limit=x")
    for path in refused:
        request = ReceivedRequest(method="GET", path=f"{PREFIX}/{path}", headers={}, body=b"")
        assert FakeKalshiExchange().answer(request).status == 400
