"""Reading the fake Polymarket over HTTP, after docs/facts/polymarket.md#gamma, #books and #data-api."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from bot.simulator.faults import RequestFault
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from tests.unit.simulator.venues.polymarket_client import RawPolymarketClient, open_polymarket

BOTH = {"version": ["v1", "v2"], "closed": "false"}


@pytest.fixture
async def polymarket() -> AsyncIterator[RawPolymarketClient]:
    async with open_polymarket() as here:
        yield here


# Lists


async def test_pages_follow_the_cursor_until_there_is_none(polymarket: RawPolymarketClient) -> None:
    markets = [polymarket.world.add_market(f"Number {number}?") for number in range(7)]
    found: list[str] = []
    cursor: dict[str, str] = {}
    pages = 0
    while True:
        page = await polymarket.read("/gamma/markets/keyset", limit=3, **BOTH, **cursor)
        found += [market["conditionId"] for market in page["markets"]]
        pages += 1
        if "next_cursor" not in page:
            break
        cursor = {"after_cursor": page["next_cursor"]}
    assert found == [market.condition for market in markets]
    assert pages == 3


async def test_a_cursor_under_another_name_is_ignored_and_page_one_comes_for_ever(
    polymarket: RawPolymarketClient,
) -> None:
    for _ in range(3):
        polymarket.world.add_market()
    first = await polymarket.read("/gamma/markets/keyset", limit=2, **BOTH)
    again = await polymarket.read("/gamma/markets/keyset", limit=2, cursor=first["next_cursor"], **BOTH)
    assert again == first


@pytest.mark.parametrize("asked", [{"offset": 0}, {"order": "volume_24hr"}, {"after_cursor": "what"}])
async def test_what_the_list_refuses_is_a_422(polymarket: RawPolymarketClient, asked: dict[str, Any]) -> None:
    assert (await polymarket.get("/gamma/markets/keyset", **asked)).status_code == 422


async def test_a_limit_above_a_hundred_is_cut_and_the_usual_one_is_twenty(polymarket: RawPolymarketClient) -> None:
    for _ in range(101):
        polymarket.world.add_market()
    asked = [await polymarket.read("/gamma/markets/keyset", **more) for more in ({"limit": 500}, {})]
    assert [len(page["markets"]) for page in asked] == [100, 20]


async def test_closed_and_newer_markets_come_only_when_asked_for(polymarket: RawPolymarketClient) -> None:
    old, new = polymarket.world.add_market(), polymarket.world.add_market(version="v2")
    gone = polymarket.world.add_market()
    polymarket.world.close(gone)

    async def conditions(**asked: Any) -> list[str]:
        page = await polymarket.read("/gamma/markets/keyset", **asked)
        return [market["conditionId"] for market in page["markets"]]

    assert await conditions() == [old.condition]
    assert await conditions(version=["v1", "v2"]) == [old.condition, new.condition]
    assert await conditions(closed="true") == [gone.condition]
    assert await conditions(condition_ids=[gone.condition, old.condition]) == [old.condition]
    assert await conditions(condition_ids=gone.condition, closed="true") == [gone.condition]
    assert await conditions(unheard_of="1") == [old.condition]


async def test_text_fields_sort_as_text_and_their_twins_as_numbers(polymarket: RawPolymarketClient) -> None:
    for volume in (9, 10, 200):
        polymarket.world.add_market(volume=Decimal(volume))

    async def volumes(order: str) -> list[float]:
        page = await polymarket.read("/gamma/markets/keyset", order=order, ascending="false")
        return [market["volumeNum"] for market in page["markets"]]

    assert await volumes("volumeNum") == [200, 10, 9]
    assert await volumes("volume") == [9, 200, 10]


async def test_filters_by_tag_volume_and_end_hold(polymarket: RawPolymarketClient) -> None:
    politics = polymarket.world.add_event("Who?", tags=("politics",), end=polymarket.world.now_s + 86_400)
    wanted = polymarket.world.add_market(event=politics, volume=Decimal(900))
    polymarket.world.add_market(event=polymarket.world.add_event("Rain?", tags=("weather",)))
    tag = await polymarket.read("/gamma/tags/slug/politics")
    soon = (polymarket.clock.now() + timedelta(days=2)).isoformat()
    for asked in ({"tag_id": tag["id"]}, {"volume_num_max": 1_000}, {"end_date_max": soon}):
        page = await polymarket.read("/gamma/markets/keyset", **asked)
        assert [market["id"] for market in page["markets"]] == [wanted.id]
    assert (await polymarket.get("/gamma/markets/keyset", end_date_max="tomorrow")).status_code == 422


async def test_lists_in_a_market_are_text_except_the_newer_ids(polymarket: RawPolymarketClient) -> None:
    fees = FakeFeeSchedule(rate=Decimal("0.04"), kind="politics_fees")
    old = polymarket.world.add_market(fees=fees, end=polymarket.world.now_s + 60)
    new = polymarket.world.add_market(version="v2", outcomes=("Over", "Under"))
    row = await polymarket.read(f"/gamma/markets/{old.id}")
    assert json.loads(row["clobTokenIds"]) == list(old.tokens)
    assert json.loads(row["outcomes"]) == ["Yes", "No"]
    assert json.loads(row["outcomePrices"]) == ["0.5", "0.5"]
    assert row["feeSchedule"] == {"rate": 0.04, "exponent": 1, "takerOnly": True, "rebateRate": 0.25}
    assert all(len(token) in {77, 78} for token in old.tokens)
    newer = await polymarket.read(f"/gamma/markets/slug/{new.slug}")
    assert (newer["positionIds"], newer["version"]) == (list(new.tokens), "v2")
    assert "clobTokenIds" not in newer
    # 0x and 31 bytes.
    assert len(newer["conditionId"]) == 64
    assert (newer["feeSchedule"], newer["feesEnabled"]) == (None, False)


async def test_an_event_nests_all_its_markets_with_placeholders_and_closed_ones(
    polymarket: RawPolymarketClient,
) -> None:
    event, markets = polymarket.world.add_choice("Who wins?", {"Ann": "0.5", "Bob": "0.3"}, augmented=True)
    polymarket.world.add_market("Other?", event=event, item="Other", is_other=True)
    polymarket.world.add_market("Player 9?", event=event, item="Player 9", active=False)
    polymarket.world.close(markets[1])
    page = await polymarket.read("/gamma/events/keyset", **BOTH)
    [found] = page["events"]
    assert (found["negRisk"], found["negRiskAugmented"]) == (True, True)
    assert [(row["groupItemTitle"], row["closed"], row["active"], row["negRiskOther"]) for row in found["markets"]] == [
        ("Ann", False, True, False),
        ("Bob", True, True, False),
        ("Other", False, True, True),
        ("Player 9", False, False, False),
    ]
    assert {row["negRiskMarketID"] for row in found["markets"]} == {found["negRiskMarketID"]}
    for path in (f"/gamma/events/{event.id}", f"/gamma/events/slug/{event.slug}"):
        assert (await polymarket.read(path))["id"] == event.id


async def test_the_old_lists_say_that_they_are_old_and_end_at_2000(polymarket: RawPolymarketClient) -> None:
    polymarket.world.add_market()
    reply = await polymarket.get("/gamma/markets", offset=0)
    assert len(reply.json()) == 1
    assert {"deprecation", "sunset"} <= set(reply.headers)
    assert (await polymarket.get("/gamma/markets", offset=2_001)).status_code == 422
    assert (await polymarket.read("/gamma/events/pagination"))["pagination"]["totalResults"] == 1


async def test_who_names_no_program_gets_a_page_of_the_edge(polymarket: RawPolymarketClient) -> None:
    reply = await polymarket.client.get("/gamma/markets/keyset", headers={"User-Agent": "Python-urllib/3.11"})
    assert (reply.status_code, reply.headers["content-type"].split(";")[0]) == (403, "text/html")


async def test_the_edge_keeps_what_the_describing_interface_said(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    polymarket.venue.gamma_cache_s = 300
    before = await polymarket.read(f"/gamma/markets/{market.id}")
    polymarket.world.move_price(market, "0.8")
    assert await polymarket.read(f"/gamma/markets/{market.id}") == before
    await polymarket.clock.advance(301)
    assert (await polymarket.read(f"/gamma/markets/{market.id}"))["bestBid"] == 0.79
    assert (before["bestBid"], before["bestAsk"]) == (0.49, 0.51)


# Books


async def test_the_best_level_is_the_last_one_and_the_second_book_is_the_mirror(
    polymarket: RawPolymarketClient,
) -> None:
    market = polymarket.world.add_market(bids=[("0.56", "10"), ("0.50", "7")], asks=[("0.60", "3"), ("0.58", "4")])
    yes, no = [await polymarket.read("/book", token_id=token) for token in market.tokens]
    assert yes["bids"] == [{"price": "0.5", "size": "7"}, {"price": "0.56", "size": "10"}]
    assert yes["asks"] == [{"price": "0.6", "size": "3"}, {"price": "0.58", "size": "4"}]
    # See docs/facts/polymarket.md#parsing-figures: a bid of .56 x 10 is an ask of .44 x 10.
    assert no["asks"][-1] == {"price": "0.44", "size": "10"}
    assert no["bids"][-1] == {"price": "0.42", "size": "4"}
    assert (yes["market"], yes["asset_id"], yes["tick_size"], yes["min_order_size"]) == (
        market.condition,
        market.tokens[0],
        "0.01",
        "5",
    )
    assert yes["hash"] != no["hash"]


async def test_the_last_price_in_the_second_book_is_that_of_the_first_outcome(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    assert polymarket.world.trade(market, "BUY", "5") == 5
    books = [await polymarket.read("/book", token_id=token) for token in market.tokens]
    assert [book["last_trade_price"] for book in books] == ["0.51", "0.51"]
    assert books[0]["asks"][-1]["size"] == "95"


async def test_books_come_in_another_order_and_unknown_ones_not_at_all(polymarket: RawPolymarketClient) -> None:
    markets = [polymarket.world.add_market() for _ in range(6)]
    tokens = [market.tokens[0] for market in markets]
    polymarket.venue.drops.add(tokens[1])
    reply = await polymarket.client.post("/books", json=[{"token_id": token} for token in [*tokens, "123"]])
    found = [book["asset_id"] for book in reply.json()]
    assert sorted(found) == sorted(set(tokens) - {tokens[1]})
    assert found != [token for token in tokens if token in found]
    assert (await polymarket.get("/books")).status_code == 405
    too_many = await polymarket.client.post("/books", json=[{"token_id": "1"}] * 501)
    assert too_many.status_code == 400


async def test_a_market_too_new_or_with_a_proposed_end_has_no_book(polymarket: RawPolymarketClient) -> None:
    new, proposed = polymarket.world.add_market(is_minted=False), polymarket.world.add_market()
    polymarket.world.propose(proposed, "1")
    for market in (new, proposed):
        assert (await polymarket.get("/book", token_id=market.tokens[0])).status_code == 404
    assert json.loads((await polymarket.read(f"/gamma/markets/{new.id}"))["clobTokenIds"]) == []
    assert (await polymarket.read(f"/gamma/markets/{proposed.id}"))["umaResolutionStatus"] == "proposed"
    polymarket.world.register_market(new)
    assert (await polymarket.get("/book", token_id=new.tokens[0])).status_code == 200


async def test_prices_of_one_and_of_several_come_from_the_book(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market(bids=[("0.56", "10")], asks=[("0.6", "3")])
    yes, no = market.tokens
    assert await polymarket.read("/midpoint", token_id=no) == {"mid": "0.42"}
    assert await polymarket.read("/spread", token_id=yes) == {"spread": "0.04"}
    several = await polymarket.client.post("/midpoints", json=[{"token_id": token} for token in (yes, "7")])
    assert several.json() == {yes: "0.58"}
    assert (await polymarket.get("/midpoint?token_id=7")).status_code == 404


async def test_the_terms_of_a_market_leave_out_what_is_false_or_free(polymarket: RawPolymarketClient) -> None:
    free = polymarket.world.add_market()
    fees = FakeFeeSchedule(rate=Decimal("0.05"))
    _, [sport] = polymarket.world.add_choice("Who?", {"Ann": "0.5"})
    polymarket.world.edit(sport, fees=fees, delay_s=Decimal(1), is_delayed=True)
    short = await polymarket.read(f"/clob-markets/{free.condition}")
    assert (short["mts"], short["mos"], short["ao"], short["v"]) == (0.01, 5, True, "v1")
    assert not {"nr", "fd", "itode", "sd"} & set(short)
    assert [row["t"] for row in short["t"]] == list(free.tokens)
    other = await polymarket.read(f"/clob-markets/{sport.condition}")
    assert (other["nr"], other["fd"], other["itode"], other["sd"]) == (True, {"r": 0.05, "e": 1, "to": True}, True, 1)
    assert (await polymarket.read(f"/markets-by-token/{free.tokens[1]}"))["condition_id"] == free.condition
    assert (await polymarket.read("/fee-rate", token_id=sport.tokens[0])) == {"base_fee": 1000}


async def test_ticks_change_while_the_market_is_open(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    polymarket.world.set_tick(market, "0.001")
    assert (await polymarket.read("/tick-size", token_id=market.tokens[0])) == {"minimum_tick_size": 0.001}
    assert (await polymarket.read("/book", token_id=market.tokens[0]))["tick_size"] == "0.001"


# Ends


@pytest.mark.parametrize(
    ("pays", "payouts", "prices"),
    [
        (("1",), [1_000_000, 0], ["1", "0"]),
        (("0",), [0, 1_000_000], ["0", "1"]),
        (("0.5",), [500_000, 500_000], ["0.5", "0.5"]),
        (("0", "0"), [0, 0], ["0", "0"]),
    ],
)
async def test_a_market_ends_with_a_pair_of_payouts(
    polymarket: RawPolymarketClient, pays: tuple[str, ...], payouts: list[int], prices: list[str]
) -> None:
    market = polymarket.world.add_market(end=polymarket.world.now_s + 10**7)
    polymarket.world.resolve(market, *pays)
    answer = await polymarket.read("/data-api/v2/resolutions", condition_id=market.condition)
    [row] = answer["data"]
    assert (row["status"], row["payouts"], row["proposed_price"]) == ("resolved", payouts, "69")
    assert answer["pagination"] == {"limit": 100, "has_more": False, "next_cursor": None}
    gamma = await polymarket.read(f"/gamma/markets/{market.id}")
    assert (json.loads(gamma["outcomePrices"]), gamma["umaResolutionStatus"]) == (prices, "resolved")
    # Early: long before its scheduled end. A closed market still says that it takes orders.
    assert gamma["closedTime"] == "2026-01-01 00:00:00+00"
    assert gamma["endDate"] > "2026-04"
    assert (gamma["closed"], gamma["acceptingOrders"]) == (True, True)
    long = await polymarket.read(f"/markets/{market.condition}")
    assert [token["winner"] for token in long["tokens"]] == [part == 1_000_000 for part in payouts]
    assert long["is_50_50_outcome"] is (pays == ("0.5",))


async def test_a_disputed_end_is_not_an_end(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    states = []
    for proposed in ("1", None, "0", None):
        if proposed is None:
            polymarket.world.dispute(market)
        else:
            polymarket.world.propose(market, proposed)
        [row] = (await polymarket.read("/data-api/v2/resolutions", condition_id=market.condition))["data"]
        states.append((row["status"], row["price"], row["proposed_price"], row["reproposed_price"], row["payouts"]))
    assert states == [
        ("proposed", "69", "1", "69", None),
        ("challenged", "69", "1", "69", None),
        ("reproposed", "69", "1", "0", None),
        ("disputed", "69", "1", "0", None),
    ]
    assert row["was_disputed"] is True


async def test_resolutions_are_asked_for_by_one_kind_of_id_and_at_most_twenty(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    found = await polymarket.read("/data-api/v2/resolutions", condition_id=f"{market.condition},0x00", limit=1)
    assert [row["condition_id"] for row in found["data"]] == [market.condition]
    assert (await polymarket.read("/data-api/v2/resolutions", event_id=market.event))["data"] == found["data"]
    for asked in ({}, {"condition_id": "1", "event_id": "2"}, {"condition_id": ",".join(map(str, range(21)))}):
        assert (await polymarket.get("/data-api/v2/resolutions", **asked)).status_code == 400


async def test_a_changed_text_is_a_new_version_of_the_rules(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    polymarket.world.edit(market, description="Other rules.")
    [row] = (await polymarket.read("/data-api/v2/resolutions", condition_id=market.condition))["data"]
    assert row["new_version_q"] is True


# History


async def test_a_past_price_is_the_last_one_at_that_moment(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    start = polymarket.world.now_s
    await polymarket.clock.advance(100)
    polymarket.world.move_price(market, "0.8")

    async def at(moment: int, token: str) -> list[tuple[int, float]]:
        found = await polymarket.read("/data-api/v2/prices-history", token_id=token, as_of=moment)
        return [(row["timestamp"], row["price"]) for row in found["data"]]

    yes, no = market.tokens
    assert await at(start - 1, yes) == []
    assert await at(start + 99, yes) == [(start, 0.5)]
    assert await at(start + 100, yes) == [(start + 100, 0.8)]
    assert await at(start + 100, no) == [(start + 100, 0.2)]
    assert (
        await polymarket.get("/data-api/v2/prices-history", token_id=yes, as_of=1, interval="1d")
    ).status_code == 400
    too_long = {"token_id": yes, "start": 0, "end": 16 * 86_400}
    assert (await polymarket.get("/data-api/v2/prices-history", **too_long)).status_code == 400


async def test_the_old_history_is_empty_for_ended_markets_when_it_is_fine(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    asked = {"market": market.tokens[0], "interval": "max"}
    assert len((await polymarket.read("/prices-history", fidelity=60, **asked))["history"]) == 1
    polymarket.world.resolve(market, "1")
    assert (await polymarket.read("/prices-history", fidelity=60, **asked))["history"] == []
    assert len((await polymarket.read("/prices-history", fidelity=720, **asked))["history"]) == 1


async def test_trades_of_everybody_come_page_by_page_newest_first(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    for size in ("1", "2", "3"):
        polymarket.world.trade(market, "BUY", size)
        await polymarket.clock.advance(1)
    asked = {"condition_id": market.condition, "limit": 2}
    first = await polymarket.read("/data-api/v2/trades", **asked)
    assert [row["size"] for row in first["data"]] == [3, 2]
    assert first["pagination"]["has_more"] is True
    last = await polymarket.read("/data-api/v2/trades", cursor=first["pagination"]["next_cursor"], **asked)
    assert [(row["size"], row["price"], row["side"]) for row in last["data"]] == [(1, 0.51, "BUY")]


# What goes wrong


async def test_limits_are_judged_and_answered_with_429(polymarket: RawPolymarketClient) -> None:
    replies = [await polymarket.get("/gamma/tags") for _ in range(201)]
    assert [reply.status_code for reply in replies[-2:]] == [200, 429]
    assert int(replies[-1].headers["retry-after"]) > 0
    assert [violation.limit for violation in polymarket.venue.rate_limit_checker.violations] == ["gamma tags"]


async def test_a_fault_of_the_world_meets_the_market_that_is_asked_for(polymarket: RawPolymarketClient) -> None:
    market, other = polymarket.world.add_market(), polymarket.world.add_market()
    polymarket.venue.faults.schedule(RequestFault.PARTIAL_FILL, path="/book")
    book = await polymarket.read("/book", token_id=market.tokens[0])
    assert book["asks"] == [{"price": "0.51", "size": "50"}]
    polymarket.venue.faults.schedule(RequestFault.RESOLVED, path="/book")
    assert (await polymarket.get("/book", token_id=market.tokens[1])).status_code == 404
    assert (market.has_ended, other.has_ended) == (True, False)


async def test_the_site_says_where_one_may_not_trade(polymarket: RawPolymarketClient) -> None:
    assert (await polymarket.read("/site/api/geoblock"))["blocked"] is False
    polymarket.venue.is_blocked, polymarket.venue.country = True, "GB"
    reported = await polymarket.read("/site/api/geoblock")
    assert (reported["blocked"], reported["country"]) == (True, "GB")


async def test_the_time_is_the_venues_own(polymarket: RawPolymarketClient) -> None:
    polymarket.venue.faults.skew_s = 90.0
    assert await polymarket.read("/time") == int(polymarket.clock.now().timestamp()) + 90
