"""The reader in front of the venue's three interfaces on a real socket: reading, paging, filtering, finding."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from pydantic import ValidationError
from structlog.testing import capture_logs

from bot.api import (
    BinaryPrediction,
    ConfigError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.net.rate_headers import requested_wait_s
from bot.testing.loopback_server import JSON_TYPE, ReceivedRequest, ScriptedResponse
from plugins.polymarket import foxcast_venues
from plugins.polymarket.api_client import PolymarketClient, rate_limits
from plugins.polymarket.questions import RULES_CHANGED
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.conftest import PolymarketFixture
from tests.plugins.polymarket.records import book, condition, market, row, single, token

ROOT = Path(__file__).resolve().parents[3]
NO_SDK = """
import sys
import plugins.polymarket, plugins.polymarket.reader, plugins.polymarket.price_feed, plugins.polymarket.resolutions
loaded = [name for name in sys.modules if name.split(".")[0] in {"polymarket", "py_clob_client_v2", "eth_account"}]
print(loaded)
"""


async def test_pm_r1_reading_loads_no_sdk() -> None:
    done = subprocess.run(  # noqa: ASYNC221 - our own interpreter, for a moment
        [sys.executable, "-c", NO_SDK], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("grouping", ["choice", "markets"])
async def test_pm_r2_lists_ask_for_open_ones_of_both_versions_by_an_own_name(
    site: PolymarketFixture, grouping: str
) -> None:
    site.world.add(single(1), market(1), market(2, version="v2"))
    await site.set(grouping=grouping).questions()
    kind = "events" if grouping == "choice" else "markets"
    [asked] = site.world.queries(f"/gamma/{kind}/keyset")
    assert asked["closed"] == ["false"]
    assert asked["version"] == ["v1", "v2"]
    assert {request.headers["user-agent"] for request in site.world.seen} == {"foxcast"}


async def test_pm_r3_the_price_is_that_of_the_book_and_not_of_the_description(site: PolymarketFixture) -> None:
    site.world.add(
        single(bestBid=0.80, bestAsk=0.82, outcomePrices='["0.81","0.19"]'), books={token(1): book(token(1))}
    )
    [found] = await site.questions()
    assert found.crowd is not None
    assert found.crowd.prediction == BinaryPrediction(0.37)
    assert found.crowd.at == site.clock.now()
    assert "0xbook" in found.crowd.explanation
    assert "bid 120 at 0.36" in found.crowd.explanation


async def test_pm_r5_books_are_told_apart_by_token_and_missing_ones_are_no_book(site: PolymarketFixture) -> None:
    site.world.add(
        *(single(number) for number in (1, 2, 3)),
        books={token(1): book(token(1), "0.20", "0.22"), token(3): book(token(3), "0.70", "0.72")},
    )
    prices = {found.ref.key: found.crowd.prediction if found.crowd else None for found in await site.questions()}
    assert prices == {condition(1): BinaryPrediction(0.21), condition(2): None, condition(3): BinaryPrediction(0.71)}


async def test_pm_r5_at_most_500_books_are_asked_for_at_once(site: PolymarketFixture) -> None:
    found = await site.client.books([str(number) for number in range(1001)])
    assert found == {}
    sizes = [len(json.loads(request.body)) for request in site.world.seen]
    assert sizes == [500, 500, 1]


async def test_pm_r5_a_book_that_cannot_be_read_costs_no_other(site: PolymarketFixture) -> None:
    site.world.books = {token(1): book(token(1), tick_size="?"), token(2): book(token(2))}
    assert list(await site.client.books([token(1), token(2)])) == [token(2)]


async def test_pm_r6_only_books_of_yes_are_read(site: PolymarketFixture) -> None:
    site.world.add(single(), books={token(1): book(token(1)), token(1, 1): book(token(1, 1), "0.62", "0.64")})
    await site.questions()
    [asked] = [json.loads(request.body) for request in site.world.seen if request.method == "POST"]
    assert asked == [{"token_id": token(1)}]


async def test_pm_r7_a_new_market_is_left_for_later_without_an_alarm(site: PolymarketFixture) -> None:
    site.world.add(single(1, clobTokenIds="[]"), single(2))
    with structlog.testing.capture_logs() as logs:
        before = await site.questions()
    site.world.events[0]["markets"][0].update(clobTokenIds=market(1)["clobTokenIds"])
    assert [found.ref.key for found in before] == [condition(2)]
    assert await site.client.book(token(2)) is None
    assert not [line for line in logs if line["log_level"] in {"warning", "error"}]
    assert len(await site.questions()) == 2


async def test_pm_r8_addresses_are_settings_and_a_test_leaves_its_host_never(site: PolymarketFixture) -> None:
    outside = site.settings.model_copy(update={"clob_url": "https://clob.polymarket.com"})
    with pytest.raises(ConfigError, match="test_host"):
        await PolymarketClient(outside, site.place.http).books(["1"])
    with pytest.raises(ValidationError, match="gamma_url is not at test_host"):
        PolymarketSettings(test_host="127.0.0.1:1")
    assert site.world.seen == []


async def test_pm_p1_pages_go_on_by_after_cursor_until_there_is_none(site: PolymarketFixture) -> None:
    site.world.add(*(single(number) for number in range(1, 6)))
    found = await site.set(page_size=2).questions()
    assert [question.ref.key for question in found] == [condition(number) for number in range(1, 6)]
    asked = site.world.queries("/gamma/events/keyset")
    assert [query.get("after_cursor") for query in asked] == [None, ["2"], ["4"]]
    assert not any("cursor" in query or "offset" in query for query in asked)


async def test_pm_p1_a_server_that_ignores_the_cursor_is_left_after_one_repeated_record(
    site: PolymarketFixture,
) -> None:
    site.world.ignores_cursor = True
    site.world.add(*(single(number) for number in range(1, 6)))
    found = await site.set(page_size=2, max_pages=50).questions()
    assert [question.ref.key for question in found] == [condition(1), condition(2)]
    assert len(site.world.queries("/gamma/events/keyset")) == 2


async def test_pm_p2_a_shorter_page_than_asked_for_ends_nothing(site: PolymarketFixture) -> None:
    site.world.clamp = 2
    site.world.add(*(market(number) for number in range(1, 6)))
    found = await site.set(grouping="markets", page_size=100).questions()
    assert len(found) == 5
    assert {query["limit"][0] for query in site.world.queries("/gamma/markets/keyset")} == {"100"}


async def test_pm_p2_no_page_is_asked_to_be_longer_than_a_hundred(site: PolymarketFixture) -> None:
    with pytest.raises(ValidationError):
        PolymarketSettings(page_size=101)
    records = [record async for record in site.client.markets({"closed": "false", "limit": 500}, most_pages=1)]
    assert records == []
    assert site.world.queries("/gamma/markets/keyset")[0]["limit"] == ["100"]


async def test_pm_p2_whether_open_or_closed_must_be_said(site: PolymarketFixture) -> None:
    with pytest.raises(ValueError, match="closed must be given"):
        _ = [record async for record in site.client.markets({}, most_pages=1)]


async def test_pm_p3_the_data_interface_goes_on_by_cursor_while_it_says_there_is_more(site: PolymarketFixture) -> None:
    pages = {
        None: {"data": [{"n": 1}], "pagination": {"has_more": True, "next_cursor": "b"}},
        "b": {"data": [{"n": 2}], "pagination": {"has_more": True, "next_cursor": "c"}},
        "c": {"data": [{"n": 3}], "pagination": {"has_more": False, "next_cursor": "d"}},
    }

    def answer(request: ReceivedRequest) -> ScriptedResponse:
        cursor = request.path.partition("cursor=")[2] or None
        return ScriptedResponse(body=json.dumps(pages[cursor]).encode())

    site.world.override = answer
    assert [row["n"] async for row in site.client.read_rows("trades", {"limit": 1})] == [1, 2, 3]


@pytest.mark.parametrize("cursor", ["", "the same", "{number}"])
async def test_pm_p3_a_list_that_says_there_is_more_is_never_taken_for_the_whole(
    site: PolymarketFixture, cursor: str
) -> None:
    asked = 0

    def answer(_: ReceivedRequest) -> ScriptedResponse:
        nonlocal asked
        asked += 1
        page = {"has_more": True, "next_cursor": cursor.format(number=asked)}
        return ScriptedResponse(body=json.dumps({"data": [{"n": asked}], "pagination": page}).encode())

    site.world.override = answer
    with pytest.raises(MalformedDataError, match="positions: the list has no end"):
        _ = [row async for row in site.client.read_rows("positions", {})]
    assert asked <= 100


async def test_pm_p3_a_miss_is_null_or_an_empty_list(site: PolymarketFixture) -> None:
    for body in (b'{"data": null, "pagination": null}', b'{"data": []}'):
        sent = ScriptedResponse(body=body)
        site.world.override = lambda _, sent=sent: sent  # type: ignore[misc]
        assert [row async for row in site.client.read_rows("resolutions", {})] == []


async def test_pm_p4_a_crawl_is_scoped_and_ends_after_so_many_pages(site: PolymarketFixture) -> None:
    site.world.add(*(single(number) for number in range(1, 12)))
    site.world.tags = {"politics": "2"}
    found = await site.set(page_size=2, max_pages=3, tags=["politics"], ends_within_d=30).questions()
    assert found == []  # all of them end later, whatever the filter let through
    asked = site.world.queries("/gamma/events/keyset")
    assert len(asked) == 3
    assert asked[0]["order"] == ["volume24hr"]
    assert asked[0]["ascending"] == ["false"]
    assert asked[0]["tag_slug"] == ["politics"]
    assert asked[0]["end_date_min"] == ["2026-01-01T02:00:00Z"]
    assert asked[0]["end_date_max"] == ["2026-01-31T00:00:00Z"]
    assert float(asked[0]["volume_min"][0]) == 10_000


async def test_pm_p4_markets_are_asked_for_by_the_number_of_their_tag(site: PolymarketFixture) -> None:
    site.world.tags = {"politics": "2"}
    site.world.add(market(1))
    assert len(await site.set(grouping="markets", tags=["politics"]).questions()) == 1
    assert site.world.queries("/gamma/markets/keyset")[0]["tag_id"] == ["2"]


@pytest.mark.parametrize("grouping", ["choice", "markets"])
async def test_a_tag_that_is_not_there_is_told_and_hides_no_other(site: PolymarketFixture, grouping: str) -> None:
    site.world.tags = {"politics": "2"}
    site.world.add(market(1) if grouping == "markets" else single(1))
    with capture_logs() as logs:
        assert len(await site.set(grouping=grouping, tags=["sprots", "politics"]).questions()) == 1
    assert "no tag 'sprots'" in str(logs)
    with pytest.raises(RequestRejectedError, match="no tag 'sprots'"):
        await site.set(grouping=grouping, tags=["sprots"]).questions()


async def test_pm_f1_only_what_can_be_traded_is_asked_about(site: PolymarketFixture) -> None:
    site.world.add(
        single(1),
        single(2, acceptingOrders=False),
        single(3, umaResolutionStatus="proposed"),
        single(4, enableOrderBook=False),
        single(5, volumeNum=5),
        single(6, liquidityNum=5),
    )
    assert [question.ref.key for question in await site.questions()] == [condition(1)]


async def test_pm_f4_markets_past_their_end_or_closed_early_are_not_forecast(site: PolymarketFixture) -> None:
    site.world.add(
        single(1, endDate="2025-12-31T00:00:00Z"),
        single(2, endDate="2027-12-31T00:00:00Z", closed=True, closedTime="2025-12-09 02:07:01+00"),
        single(3, endDate="2026-01-01T01:00:00Z"),
        single(4),
    )
    assert [question.ref.key for question in await site.questions()] == [condition(4)]
    assert await site.resolutions(condition(1)) == {}


async def test_pm_f4_what_the_oracle_is_about_to_decide_is_not_forecast(site: PolymarketFixture) -> None:
    site.world.add(single(1), single(2))
    site.world.rows = {condition(1): row(1, status="proposed", proposed_price=1)}
    assert [question.ref.key for question in await site.questions()] == [condition(2)]


async def test_pm_t2_the_page_survives_odd_records(site: PolymarketFixture) -> None:
    site.world.add(market(1), market(2, outcomes=None), market(3, feeSchedule={"rate": "?"}), market(4))
    with structlog.testing.capture_logs() as logs:
        found = await site.set(grouping="markets").questions()
    assert [question.ref.key for question in found] == [condition(1), condition(4)]
    assert [line["bad"] for line in logs if line["event"] == "markets cannot be read"] == [2]


async def test_pm_v6_new_rules_are_another_question(site: PolymarketFixture) -> None:
    site.world.add(single(1))
    [before] = await site.questions()
    site.world.rows = {condition(1): row(1, new_version_q=True)}
    [updated] = await site.questions()
    assert RULES_CHANGED in updated.criteria
    assert RULES_CHANGED not in before.criteria
    site.world.rows = {}
    site.world.events[0]["markets"][0]["description"] = "Resolves by another count."
    [reworded] = await site.questions()
    assert reworded.facts["rules"] != before.facts["rules"]
    assert reworded.criteria == "Resolves by another count."
    assert before.ref == updated.ref == reworded.ref


def test_pm_l1_the_pace_is_hundreds_of_times_below_the_limits() -> None:
    settings = PolymarketSettings()
    rates = {rate.name: rate for rate in rate_limits(settings)}
    assert len(rates) == len(rate_limits(settings))
    assert all(name.startswith("polymarket_") for name in rates)
    assert {rates[f"polymarket_{name}"].max_in_flight for name in ("gamma", "data", "books", "orders")} == {1}

    def a_second(method: str, url: str) -> float:
        return min(
            (
                rate.count / rate.per_s
                for rate in rates.values()
                if url.startswith(rate.prefixes) and (not rate.methods or method in rate.methods)
            ),
            default=float("inf"),
        )

    assert a_second("GET", f"{settings.gamma_url}/events/keyset") == 2
    assert a_second("GET", f"{settings.data_url}/v2/resolutions") == 2
    reads = a_second("GET", f"{settings.clob_url}/book") + a_second("POST", f"{settings.clob_url}/books")
    assert reads == 5
    assert a_second("POST", f"{settings.clob_url}/order") == 0.1
    assert a_second("POST", f"{settings.clob_url}/orders") == 0.1


async def test_pm_l2_a_pause_that_is_asked_for_is_passed_on(site: PolymarketFixture) -> None:
    site.world.override = lambda _: ScriptedResponse(status=429, headers={**JSON_TYPE, "Retry-After": "17"})
    with pytest.raises(ServiceUnavailableError) as caught:
        await site.questions()
    assert caught.value.retry_after_s == 17.0
    headers = {"poly-ratelimit-remaining": "0", "poly-ratelimit-reset": "4"}
    assert requested_wait_s(200, headers, now=site.clock.now()) == 4.0


async def test_pm_l3_slow_answers_start_nothing_beside_them(site: PolymarketFixture) -> None:
    site.world.add(*(single(number) for number in range(1, 5)))
    site.world.override = lambda request: None if request.method == "POST" else _slowly(site, request)
    await site.set(page_size=1).questions()
    assert site.server.received > 4
    assert site.server.most_in_flight == 1


def _slowly(site: PolymarketFixture, request: ReceivedRequest) -> ScriptedResponse:
    site.world.override, kept = (lambda _: None), site.world.override
    site.world.seen.pop()
    sent = site.world.answer(request)
    site.world.override = kept
    return ScriptedResponse(body=sent.body, delay_s=0.01)


@pytest.mark.parametrize("body", [b"7", b"{}", b'{"data": 7}', b"<html>", b'[{"asset_id": "2"}]'])
async def test_answers_of_another_form_are_said_to_be_that(site: PolymarketFixture, body: bytes) -> None:
    site.world.override = lambda _: ScriptedResponse(body=body)
    with pytest.raises(MalformedDataError):
        await site.client.resolutions([condition(1)])
    with pytest.raises(MalformedDataError):
        await site.client.book("1")
    with pytest.raises(MalformedDataError):
        await site.client.markets_by_condition([condition(1)], closed=False)
    with pytest.raises(MalformedDataError):
        await site.client.tag_id("politics")


async def test_the_book_of_another_token_than_asked_for_is_refused(site: PolymarketFixture) -> None:
    site.world.override = lambda _: ScriptedResponse(body=json.dumps(book("2")).encode())
    assert (await site.client.book("2")) is not None
    with pytest.raises(MalformedDataError, match="requested 1, got 2"):
        await site.client.book("1")


def test_the_folder_of_this_plugin_names_its_host() -> None:
    hosts = (ROOT / "plugins/hosts.txt").read_text().splitlines()
    assert set(foxcast_venues()[0].hosts) <= set(hosts)
