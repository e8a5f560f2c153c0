"""What the fake Manifold lets be read, after docs/facts/manifold.md#errors, #reading and #account."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.simulator.venues.manifold_client import RawManifoldClient

LITE = {
    *("id", "creatorId", "creatorUsername", "creatorName", "creatorAvatarUrl", "createdTime", "closeTime", "question"),
    *("slug", "url", "outcomeType", "mechanism", "volume", "volume24Hours", "isResolved", "uniqueBettorCount", "token"),
    *("lastUpdatedTime",),
}
SINGLE = {"pool", "p", "totalLiquidity"}
FULL = {"description", "textDescription", "groupSlugs"}
ANSWER = {
    *("id", "index", "contractId", "userId", "text", "createdTime", "pool", "probability", "totalLiquidity"),
    *("subsidyPool", "volume", "probChanges", "isOther"),
}
CHOICES: dict[str, Any] = {"answers": [("Red", 0.5), ("Green", 0.3), ("Blue", 0.2)]}
CASH = {"token": "CASH"}
HOUR_MS = 3_600_000


# Keys and errors


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Key wrong"}, 401),
        ({"Authorization": "Bearer 11111111-2222-3333-4444-555555555555"}, 401),
        ({"Authorization": "Key  11111111-2222-3333-4444-555555555555"}, 401),
        ({"Authorization": "Key 11111111-2222-3333-4444-555555555555"}, 200),
    ],
)
async def test_only_the_key_of_an_account_opens_it(
    manifold: RawManifoldClient, headers: dict[str, str], status: int
) -> None:
    reply = await manifold.client.get("/v0/me", headers=headers)
    assert reply.status_code == status
    assert set(reply.json()) >= ({"message"} if status == 401 else {"id", "username", "balance", "isBot"})


async def test_a_bad_key_on_a_public_read_is_ignored(manifold: RawManifoldClient) -> None:
    reply = await manifold.client.get("/v0/markets", headers={"Authorization": "Key wrong"})
    assert reply.status_code == 200


@pytest.mark.parametrize("path", ["/v0/market/none", "/v0/slug/none", "/v0/user/none", "/v0/nothing-here"])
async def test_what_there_is_not_is_404_in_json(manifold: RawManifoldClient, path: str) -> None:
    reply = await manifold.get(path)
    assert (reply.status_code, list(reply.json())) == (404, ["message"])


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v0/search-markets?surprise=1", None),
        ("/v0/search-markets?limit=0", "limit"),
        ("/v0/search-markets?limit=1001", "limit"),
        ("/v0/search-markets?offset=1001", "offset"),
        ("/v0/search-markets?filter=closing-this-month", "filter"),
        ("/v0/search-markets?contractType=BOUNTY", "contractType"),
        ("/v0/search-markets?includeLiteAnswers=True", "includeLiteAnswers"),
        ("/v0/market-probs?ids=market000001", "ids"),
        ("/v0/market-probs", "ids"),
        ("/v0/market/market000001?lite=1", "lite"),
        ("/v0/market/market000001/positions?summaryOnly=true", "summaryOnly"),
        ("/v0/markets?limit=1001", "limit"),
        ("/v0/bets?limit=10001", "limit"),
        ("/v0/bets?kinds=open", "kinds"),
        ("/v0/get-user-portfolio", "userId"),
    ],
)
async def test_a_query_that_breaks_the_schema_is_told_its_field(
    manifold: RawManifoldClient, path: str, field: str | None
) -> None:
    manifold.world.add_market()
    reply = await manifold.get(path)
    assert reply.status_code == 400
    assert [fault["field"] for fault in reply.json()["details"]] == [field]


@pytest.mark.parametrize("query", ["lite=true&anything=1", "zz=7"])
async def test_a_single_market_tolerates_unknown_keys(manifold: RawManifoldClient, query: str) -> None:
    market = manifold.world.add_market()
    assert (await manifold.client.get(f"/v0/market/{market.id}?{query}")).status_code == 200


# Shapes


async def test_a_binary_market_has_the_fields_of_its_document(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(prob=0.25, description="Only in Paris.")
    full = await manifold.read(f"/v0/slug/{market.slug}")
    assert set(full) == LITE | SINGLE | FULL | {"probability"}
    assert (full["probability"], full["p"], full["mechanism"]) == (pytest.approx(0.25), 0.5, "cpmm-1")
    assert full["textDescription"] == "Only in Paris."
    lite = await manifold.read(f"/v0/market/{market.id}", lite="true")
    assert set(lite) == LITE | SINGLE | {"probability"}
    assert await manifold.read("/v0/markets") == [lite]


async def test_a_choice_has_answers_and_no_price_of_its_own(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, **CHOICES)
    full = await manifold.read(f"/v0/market/{market.id}")
    assert set(full) == LITE | FULL | {"answers", "shouldAnswersSumToOne", "addAnswersMode"}
    assert [set(answer) for answer in full["answers"]] == [ANSWER] * 3
    assert [answer["probability"] for answer in full["answers"]] == pytest.approx([0.5, 0.3, 0.2])
    assert "answers" not in (await manifold.read(f"/v0/market/{market.id}", lite="true"))


async def test_a_numeric_market_tells_its_value_and_scale(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_numeric("How many?", 10, 1000, is_log=True)
    full = await manifold.read(f"/v0/market/{market.id}")
    assert set(full) == LITE | SINGLE | FULL | {"probability", "value", "min", "max", "isLogScale"}
    assert full["value"] == pytest.approx(40.480152477394384)


async def test_buckets_of_dates_have_midpoints(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(
        type="DATE", sums_to_one=True, midpoints=[1e12, 2e12], answers=[("a", 0.4), ("b", 0.6)]
    )
    full = await manifold.read(f"/v0/market/{market.id}")
    assert [answer["midpoint"] for answer in full["answers"]] == [1e12, 2e12]


async def test_markets_without_a_price_are_listed_too(manifold: RawManifoldClient) -> None:
    for kind, mechanism in (("POLL", "none"), ("BOUNTIED_QUESTION", "none"), ("PERP", "perp"), ("STONK", "cpmm-1")):
        row = await manifold.read(f"/v0/market/{manifold.world.add_market(type=kind).id}")
        assert (row["mechanism"], "probability" in row, "pool" in row) == (mechanism, False, kind == "STONK")


async def test_prices_of_many_markets_come_at_once(manifold: RawManifoldClient) -> None:
    binary = manifold.world.add_market(prob=0.4)
    choice = manifold.world.add_market(type="MULTIPLE_CHOICE", **CHOICES)
    reply = await manifold.client.get(f"/v0/market-probs?ids={binary.id}&ids={choice.id}&ids=nothing")
    probs = reply.json()
    assert probs[binary.id] == {"prob": pytest.approx(0.4)}
    assert list(probs[choice.id]["answerProbs"].values()) == pytest.approx([0.5, 0.3, 0.2])
    assert set(probs) == {binary.id, choice.id}
    assert (await manifold.client.get(f"/v0/market-probs?ids[]={binary.id}")).status_code == 200
    assert await manifold.read(f"/v0/market/{binary.id}/prob") == probs[binary.id]
    many = "&".join(f"ids=x{number}" for number in range(101))
    assert (await manifold.client.get(f"/v0/market-probs?{many}")).status_code == 400


# Lists


async def test_a_search_filters_and_orders(manifold: RawManifoldClient) -> None:
    add, now = manifold.world.add_market, manifold.venue.now_ms()
    first = add("Will it snow in Oslo?", created=now - 3, closes=now + HOUR_MS, liquidity=500.0)
    second = add("Will it rain in Rome?", created=now - 2, prob=0.9, groups=("weather",))
    third = add("Whose cup?", created=now - 1, type="MULTIPLE_CHOICE", sums_to_one=True, **CHOICES)
    stonk = add("Snow Inc", type="STONK")
    cash = add("Cash?", **CASH)
    over = add("Over?", closes=now - 1)

    async def found(**asked: Any) -> set[str]:
        return {row["id"] for row in await manifold.read("/v0/search-markets", **asked)}

    assert await found(term="snow") == {first.id}
    assert await found(term="snow", sort="newest") == {first.id, stonk.id}
    assert await found(term="(&|") == set()
    assert await found(filter="closing-day") == {first.id}
    assert await found(filter="closed") == {over.id}
    assert await found(filter="uncertain") == {first.id}
    assert await found(contractType="DEPENDENT_MULTIPLE_CHOICE") == {third.id}
    assert await found(topicSlug="weather") == {second.id}
    assert await found(liquidity=400) == {first.id}
    assert await found(**CASH) == {cash.id}
    newest = await manifold.read("/v0/search-markets", sort="newest", filter="open", contractType="BINARY")
    assert [row["id"] for row in newest] == [second.id, first.id]
    assert await found(sort="newest", beforeTime=now - 1, filter="open") == {first.id, second.id}


async def test_the_plain_list_has_its_traps(manifold: RawManifoldClient) -> None:
    now = manifold.venue.now_ms()
    markets = [manifold.world.add_market(created=now + number) for number in range(3)]

    async def page(**asked: Any) -> list[str]:
        return [row["id"] for row in await manifold.read("/v0/markets", **asked)]

    assert await page(limit=2) == [markets[2].id, markets[1].id]
    assert await page(limit=2, before=markets[1].id) == [markets[0].id]
    # An id that is not known is ignored, and the first page comes again.
    assert await page(limit=2, before="unheard-of") == [markets[2].id, markets[1].id]
    # Upwards, before still means earlier.
    assert await page(limit=2, before=markets[1].id, order="asc") == [markets[0].id]


async def test_a_public_read_is_stale_and_another_address_is_not(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()

    async def price(path: str = f"/v0/market/{market.id}") -> float:
        prob: float = (await manifold.get(path)).json()["probability"]
        return prob

    assert await price() == 0.5
    manifold.world.move_price(market, 0.7)
    await manifold.clock.advance(4.0)
    assert await price() == 0.5
    assert await price(f"/v0/market/{market.id}?fresh=1") == pytest.approx(0.7)
    await manifold.clock.advance(4.0)
    assert await price() == 0.5
    assert await price() == pytest.approx(0.7)


async def test_the_five_hundred_and_first_request_of_a_minute_is_refused(manifold: RawManifoldClient) -> None:
    statuses = [(await manifold.client.get("/v0/me", headers=manifold.headers)).status_code for _ in range(501)]
    assert statuses == [200] * 500 + [429]
    assert [violation.limit for violation in manifold.venue.rate_limit_checker.violations] == ["500 a minute"]


# Resolution


async def test_the_probability_of_a_market_resolved_yes_is_the_price_before(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(prob=0.83)
    manifold.world.resolve(market, "YES")
    row = await manifold.read(f"/v0/market/{market.id}")
    assert (row["isResolved"], row["resolution"]) == (True, "YES")
    assert row["resolutionProbability"] == pytest.approx(0.83)
    assert row["closeTime"] == row["resolutionTime"] == manifold.venue.now_ms()


async def test_a_winner_among_answers_is_seen_in_its_payout_only(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, **CHOICES)
    green = market.answers[1]
    manifold.world.resolve(market, green.id)
    row = await manifold.read(f"/v0/market/{market.id}")
    assert row["resolution"] == green.id
    assert "resolutions" not in row
    assert all("resolution" not in answer for answer in row["answers"])
    assert [answer["probability"] for answer in row["answers"]] == pytest.approx([0.5, 0.3, 0.2])
    assert [answer["prob"] for answer in await manifold.read(f"/v0/market/{market.id}/answers")] == [0.0, 1.0, 0.0]
    assert list((await manifold.read(f"/v0/market/{market.id}/prob"))["answerProbs"].values()) == [0.0, 1.0, 0.0]


async def test_several_winners_share_by_weights_that_the_market_does_not_show(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, **CHOICES)
    red, _, blue = market.answers
    manifold.world.resolve(market, "CHOOSE_MULTIPLE", weights={red.id: 0.25, blue.id: 0.75})
    row = await manifold.read(f"/v0/market/{market.id}")
    assert (row["resolution"], "resolutions" in row) == ("CHOOSE_MULTIPLE", False)
    assert [answer["prob"] for answer in await manifold.read(f"/v0/market/{market.id}/answers")] == [0.25, 0.0, 0.75]


async def test_independent_answers_resolve_one_by_one_and_the_market_with_the_last(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", **CHOICES)
    for nth, (resolution, prob) in enumerate((("YES", None), ("MKT", 0.4), ("CANCEL", None))):
        assert not (await manifold.read(f"/v0/market/{market.id}"))["isResolved"]
        manifold.world.resolve(market, resolution, prob=prob, answer=market.answers[nth])
    row = await manifold.read(f"/v0/market/{market.id}")
    assert (row["isResolved"], row["resolution"]) == (True, "MKT")
    assert [answer["resolution"] for answer in row["answers"]] == ["YES", "MKT", "CANCEL"]
    assert row["answers"][1]["resolutionProbability"] == 0.4


async def test_a_resolution_can_be_undone(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    manifold.world.resolve(market, "MKT", prob=0.3)
    assert (await manifold.read(f"/v0/market/{market.id}"))["resolutionProbability"] == 0.3
    manifold.world.unresolve(market)
    row = await manifold.read(f"/v0/market/{market.id}")
    assert not row["isResolved"]
    assert not {"resolution", "resolutionProbability", "resolutionTime", "resolverId"} & set(row)
