"""Reading: which markets become questions, how they are found, and what is asked of the venue for that."""

from datetime import timedelta
from urllib.parse import parse_qsl

import pytest

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurveShape,
    Json,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_state import FakeManifoldMarket
from plugins.manifold import market_scan
from plugins.manifold.api_client import encode_query
from plugins.manifold.settings import ADDRESSES_BY_ENVIRONMENT, ManifoldSettings
from tests.plugins.manifold.fixture import ManifoldFixture, query_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


def open_market(manifold: ManifoldFixture, question: str = "Will it rain?", **more: object) -> FakeManifoldMarket:
    return manifold.world.add_market(question, **more)


# MF-R: reading


async def test_mf_r2_booleans_are_words_and_lists_have_brackets_also_of_one(manifold: ManifoldFixture) -> None:
    assert encode_query({"perAnswer": True, "lite": False, "ids": ["x"]}) == "?perAnswer=true&lite=false&ids[]=x"
    market = open_market(manifold)
    assert await manifold.client().market_prices([market.id]) == {market.id: {"prob": 0.5}}
    await manifold.client().positions(manifold.ada.id)
    (asked,) = manifold.asked("/v0/market-probs")
    assert asked.query == f"ids[]={market.id}"
    assert query_of(manifold.asked("/v0/get-user-contract-metrics")[0])["perAnswer"] == "true"


async def test_mf_r3_prices_are_asked_for_a_hundred_at_a_time(manifold: ManifoldFixture) -> None:
    ids = [open_market(manifold).id for _ in range(205)]
    found = await manifold.client().market_prices(ids)
    assert sorted(found) == sorted(ids)
    sizes = [len(parse_qsl(asked.query)) for asked in manifold.asked("/v0/market-probs")]
    assert sizes == [100, 100, 5]


async def test_mf_r4_a_market_is_read_under_an_address_never_asked_before(manifold: ManifoldFixture) -> None:
    market = open_market(manifold)
    client = manifold.client()
    before = await client.market(market.id)
    manifold.world.move_price(market, 0.8)
    after = await client.market(market.id)
    orders = [await client.orders(market.id) for _ in range(2)]
    assert before["probability"] == pytest.approx(0.5)
    assert after["probability"] == pytest.approx(0.8)
    targets = [asked.target for asked in manifold.venue.requests]
    assert len(set(targets)) == len(targets) == 4
    assert orders == [[], []]


async def test_mf_r5_the_text_is_in_the_question_and_a_changed_one_is_read(manifold: ManifoldFixture) -> None:
    market = open_market(manifold, description="Resolves by the gauge at Orly.")
    reader = manifold.reader()
    (before,) = [question async for question in reader.questions()]
    assert before.background == "Resolves by the gauge at Orly."
    manifold.clock.advance_without_waking(60)
    manifold.world.edit(market, description="Resolves by the gauge at Orly. Snow counts.")
    manifold.clock.advance_without_waking(60)
    (after,) = [question async for question in reader.questions()]
    assert after.background.endswith("Snow counts.")


async def test_mf_r5_a_text_that_no_list_shows_as_changed_is_read_again_within_the_hour(
    manifold: ManifoldFixture,
) -> None:
    market = open_market(manifold)
    reader = manifold.reader()
    assert len([question async for question in reader.questions()]) == 1
    market.description = "Changed in secret."
    manifold.clock.advance_without_waking(3601)
    (after,) = [question async for question in reader.questions()]
    assert after.background == "Changed in secret."


async def test_what_has_not_changed_is_not_read_again(manifold: ManifoldFixture) -> None:
    open_market(manifold)
    reader = manifold.reader()
    for _ in range(3):
        assert len([question async for question in reader.questions()]) == 1
        manifold.clock.advance_without_waking(60)
    assert len(manifold.asked("/v0/search-markets")) == 3
    assert len(manifold.asked("/v0/market/")) == 1


def test_mf_r6_each_world_has_its_hosts_and_its_key() -> None:
    real = ManifoldSettings.model_validate({"key": "real", "development_key": "trial"})
    trial = ManifoldSettings.model_validate({"key": "real", "development_key": "trial", "environment": "development"})
    assert (real.addresses.api, trial.addresses.api) == (
        "https://api.manifold.markets",
        "https://api.dev.manifold.markets",
    )
    assert all("dev." in value for value in (trial.addresses.api, trial.addresses.socket, trial.addresses.site))
    assert real.key_in_use is not None
    assert trial.key_in_use is not None
    assert (real.key_in_use.get_secret_value(), trial.key_in_use.get_secret_value()) == ("real", "trial")
    assert ADDRESSES_BY_ENVIRONMENT["production"].socket == "wss://api.manifold.markets/ws"


async def test_reading_needs_no_key(manifold: ManifoldFixture) -> None:
    open_market(manifold)
    assert len(await manifold.questions(key=None)) == 1
    assert all("authorization" not in asked.headers for asked in manifold.venue.requests)


# MF-F: filters


async def test_mf_f1_only_what_can_be_forecast_is_and_no_other_type_raises(manifold: ManifoldFixture) -> None:
    kept = [
        open_market(manifold),
        open_market(manifold, closes=None),
        manifold.world.add_numeric("How many?", 0.0, 100.0),
        open_market(manifold, type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE),
        open_market(manifold, type="MULTI_NUMERIC", sums_to_one=True, answers=THREE, midpoints=[1.0, 2.0, 3.0]),
        open_market(manifold, type="DATE", sums_to_one=True, answers=THREE, midpoints=[1e12, 2e12, 3e12]),
    ]
    for kind in ("STONK", "POLL", "BOUNTIED_QUESTION", "PERP", "SOMETHING_NEW", "NUMBER"):
        open_market(manifold, type=kind)
    manifold.world.close(open_market(manifold))
    manifold.world.resolve(open_market(manifold), "YES")
    assert sorted(await manifold.questions()) == sorted(market.id for market in kept)


async def test_a_market_that_is_closed_when_it_is_read_is_left_out_whatever_the_list_said(
    manifold: ManifoldFixture,
) -> None:
    market = open_market(manifold)
    manifold.venue.faults.schedule(RequestFault.RESOLVED, method="GET", path="/v0/market/")
    assert await manifold.questions() == {}
    assert market.resolved


async def test_mf_f2_answers_that_are_resolved_are_skipped_and_the_others_stay(manifold: ManifoldFixture) -> None:
    market = open_market(manifold, type="MULTIPLE_CHOICE", answers=THREE)
    manifold.world.resolve(market, "NO", answer=market.answers[1])
    assert sorted(await manifold.questions()) == [f"{market.id}/{market.answers[at].id}" for at in (0, 2)]


async def test_mf_f3_one_winner_is_one_question_and_independent_answers_are_one_each(manifold: ManifoldFixture) -> None:
    one = open_market(manifold, "Who wins?", type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    many = open_market(manifold, "Who comes?", type="MULTIPLE_CHOICE", answers=THREE)
    found = await manifold.questions()
    assert found[one.id].shape == ChoiceShape(options=("Ann", "Bob", "Cid"))
    assert found[one.id].crowd is not None
    crowd = found[one.id].crowd.prediction  # type: ignore[union-attr]
    assert isinstance(crowd, ChoicePrediction)
    assert crowd.probabilities == pytest.approx({"Ann": 0.5, "Bob": 0.3, "Cid": 0.2})
    each = [found[f"{many.id}/{answer.id}"] for answer in many.answers]
    assert [question.title for question in each] == ["Who comes?: Ann", "Who comes?: Bob", "Who comes?: Cid"]
    assert {question.shape for question in each} == {BinaryShape()}
    assert [question.facts["answer"] for question in each] == [answer.id for answer in many.answers]
    assert "answer" not in found[one.id].facts
    assert {question.event for question in each} == {many.id}


async def test_mf_f4_cash_is_left_out_unless_asked_for(manifold: ManifoldFixture) -> None:
    mana, cash = open_market(manifold), open_market(manifold, token="CASH")  # noqa: S106 - a currency
    assert sorted(await manifold.questions()) == [mana.id]
    assert sorted(await manifold.questions(currencies=("CASH",))) == [cash.id]
    assert sorted(await manifold.questions(currencies=("MANA", "CASH"))) == sorted([mana.id, cash.id])


async def test_settings_choose_by_topic_creator_and_search_term(manifold: ManifoldFixture) -> None:
    bob = manifold.world.add_user("bob")
    rain = open_market(manifold, "Will it rain?", groups=("weather",), creator=bob.id)
    snow = open_market(manifold, "Will it snow?", groups=("weather", "winter"))
    open_market(manifold, "Will it sell?", groups=("trade",))
    assert sorted(await manifold.questions(topics=("weather",))) == sorted([rain.id, snow.id])
    assert sorted(await manifold.questions(topics=("weather", "winter"))) == sorted([rain.id, snow.id])
    assert sorted(await manifold.questions(creators=("bob",))) == [rain.id]
    assert sorted(await manifold.questions(search_terms=("snow",))) == [snow.id]
    with pytest.raises(RequestRejectedError, match="creators"):
        await manifold.questions(creators=("nobody",))


async def test_settings_choose_by_kind_volume_liquidity_bettors_and_close(manifold: ManifoldFixture) -> None:
    small = open_market(manifold, volume=10.0, liquidity=100.0)
    big = open_market(manifold, volume=1000.0, liquidity=5000.0, bettors={"a", "b", "c"})
    number = manifold.world.add_numeric("How many?", 0.0, 100.0)
    later = manifold.world.add_market("Later?", closes=manifold.venue.now_ms() + 30 * 86_400_000)
    never = manifold.world.add_market("Ever?", closes=None)
    assert sorted(await manifold.questions(min_volume=500)) == [big.id]
    assert sorted(await manifold.questions(min_liquidity=500)) == [big.id]
    assert sorted(await manifold.questions(min_bettors=3)) == [big.id]
    assert sorted(await manifold.questions(kinds=("pseudo_numeric",))) == [number.id]
    assert sorted(await manifold.questions(closes_within_h=24 * 8)) == sorted([small.id, big.id, number.id])
    assert {later.id, never.id} <= set(await manifold.questions())


async def test_markets_that_are_named_are_read_without_a_scan(manifold: ManifoldFixture) -> None:
    market, other = open_market(manifold), open_market(manifold, slug="a-slug")
    open_market(manifold)
    found = await manifold.questions(markets=(market.id, other.slug), scan=False)
    assert sorted(found) == sorted([market.id, other.id])
    assert manifold.asked("/v0/search-markets") == []


async def test_the_most_answers_that_are_asked_about_are_the_most_traded(manifold: ManifoldFixture) -> None:
    market = open_market(manifold, type="MULTIPLE_CHOICE", answers=THREE)
    market.answers[2].volume, market.answers[1].volume = 50.0, 20.0
    found = await manifold.questions(max_answers=2)
    assert sorted(found) == sorted(f"{market.id}/{market.answers[at].id}" for at in (1, 2))


async def test_of_too_many_markets_the_preferred_come_first(manifold: ManifoldFixture) -> None:
    few, many = open_market(manifold, bettors={"a"}), open_market(manifold, bettors={"a", "b"})
    soon = manifold.world.add_market("Soon?", closes=manifold.venue.now_ms() + 3_600_000)
    assert list(await manifold.questions(max_markets=1)) == [many.id]
    assert list(await manifold.questions(max_markets=1, prefer="closing")) == [soon.id]
    assert list(await manifold.questions(max_markets=2)) == [many.id, few.id]


# MF-P: pages


async def test_mf_p1_a_full_scan_goes_back_in_time_and_never_by_offset(
    manifold: ManifoldFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market_scan, "PAGE_SIZE", 10)
    markets = []
    for _ in range(25):
        markets.append(open_market(manifold))
        manifold.clock.advance_without_waking(1)
    assert sorted(await manifold.questions()) == sorted(market.id for market in markets)
    asked = [query_of(one) for one in manifold.asked("/v0/search-markets")]
    assert [one["sort"] for one in asked] == ["newest"] * 3
    assert [one.get("beforeTime") for one in asked] == [None, str(markets[15].created), str(markets[5].created)]
    assert not any("offset" in one for one in asked)


async def test_mf_p2_paging_ends_where_a_page_repeats_itself(
    manifold: ManifoldFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market_scan, "PAGE_SIZE", 2)
    markets = [open_market(manifold) for _ in range(2)]
    # As with the list whose bound is ignored: the first page comes again and again.
    same: list[Json] = [
        {"id": one.id, "question": "?", "outcomeType": "BINARY", "createdTime": 1_700_000_000_000} for one in markets
    ]
    details = FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: same)
    manifold.venue.faults.schedule(details, path="/v0/search-markets", times=10)
    assert sorted(await manifold.questions()) == sorted(market.id for market in markets)
    assert len(manifold.asked("/v0/search-markets")) == 2


async def test_mf_p2_paging_ends_with_an_empty_page(manifold: ManifoldFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market_scan, "PAGE_SIZE", 2)
    for _ in range(2):
        open_market(manifold)
        manifold.clock.advance_without_waking(1)
    assert len(await manifold.questions()) == 2
    assert len(manifold.asked("/v0/search-markets")) == 2


async def test_mf_p3_a_search_that_finds_nothing_is_no_error(manifold: ManifoldFixture) -> None:
    open_market(manifold)
    assert await manifold.questions(search_terms=("???",)) == {}


# MF-T: tolerance


async def test_mf_t2_a_bad_record_in_a_list_costs_only_itself(manifold: ManifoldFixture) -> None:
    market = open_market(manifold)
    bad: list[Json] = [{"id": "bad", "question": {"not": "text"}}, "no object", {"question": "without an id"}]
    details = FaultDetails(
        fault=RequestFault.ALTERED, alter=lambda page: [*bad, *page] if isinstance(page, list) else page
    )
    manifold.venue.faults.schedule(details, path="/v0/search-markets")
    assert sorted(await manifold.questions()) == [market.id]


async def test_mf_t2_a_bad_market_costs_only_itself(manifold: ManifoldFixture) -> None:
    market, bad = open_market(manifold), open_market(manifold, more={"question": 17, "pool": {"YES": "many"}})
    assert sorted(await manifold.questions()) == [market.id]
    assert bad.id not in await manifold.questions()


async def test_where_nothing_at_all_can_be_read_that_is_an_error(manifold: ManifoldFixture) -> None:
    open_market(manifold)
    manifold.venue.faults.schedule(RequestFault.PAGE_BEFORE, path="/v0/search-markets")
    with pytest.raises(MalformedDataError, match="search-markets"):
        await manifold.questions()


@pytest.mark.parametrize("fault", [RequestFault.TOO_MANY, RequestFault.ERROR_BEFORE])
async def test_mf_t5_an_error_that_is_no_json_is_told_by_its_status(
    manifold: ManifoldFixture, fault: RequestFault
) -> None:
    open_market(manifold)
    manifold.venue.faults.schedule(fault, path="/v0/search-markets")
    with pytest.raises(ServiceUnavailableError):
        await manifold.questions()


# Found by name


async def test_a_question_is_found_by_id_slug_and_address(manifold: ManifoldFixture) -> None:
    market = open_market(manifold, slug="will-it-rain")
    plain = open_market(manifold, slug="rain")
    reader = manifold.reader()
    names = (market.id, "will-it-rain", "https://manifold.markets/crowd/will-it-rain?play=true")
    assert [(await reader.find_question(name)).ref.key for name in names] == [market.id] * 3
    assert (await reader.find_question("rain")).ref.key == plain.id


async def test_of_independent_answers_one_must_be_named(manifold: ManifoldFixture) -> None:
    market = open_market(manifold, type="MULTIPLE_CHOICE", answers=THREE)
    with pytest.raises(RequestRejectedError, match=r"3 questions, name one of them: .*Ann"):
        await manifold.reader().find_question(market.slug)
    found = await manifold.reader().find_question(f"{market.id}/{market.answers[1].id}")
    assert found.title.endswith("Bob")
    with pytest.raises(NotFoundError):
        await manifold.reader().find_question(f"{market.id}/nobody")


@pytest.mark.parametrize("name", ["nothing", "no-such-slug", "https://example.org/a/b", "../me", "https://[", "é"])
async def test_what_is_not_there_is_not_found(manifold: ManifoldFixture, name: str) -> None:
    with pytest.raises(NotFoundError):
        await manifold.reader().find_question(name)


async def test_what_cannot_be_forecast_is_rejected_with_why(manifold: ManifoldFixture) -> None:
    closed, poll = open_market(manifold), open_market(manifold, type="POLL")
    manifold.world.close(closed)
    with pytest.raises(RequestRejectedError, match="closed"):
        await manifold.reader().find_question(closed.id)
    with pytest.raises(RequestRejectedError, match="POLL"):
        await manifold.reader().find_question(poll.id)


async def test_mf_s13_the_price_and_the_pool_at_the_moment_are_with_the_question(manifold: ManifoldFixture) -> None:
    market = open_market(manifold, prob=0.8)
    (question,) = (await manifold.questions()).values()
    assert question.crowd is not None
    assert isinstance(question.crowd.prediction, BinaryPrediction)
    assert question.crowd.prediction.probability == pytest.approx(0.8)
    assert question.crowd.at == manifold.clock.now()
    assert question.crowd.explanation == f"pool YES {market.pool.yes:.6g}, NO {market.pool.no:.6g}, p 0.5"


async def test_a_trade_makes_no_new_version_of_a_question(manifold: ManifoldFixture) -> None:
    market = open_market(manifold)
    before = await manifold.question(market)
    manifold.world.move_price(market, 0.9)
    manifold.clock.advance_without_waking(1)
    after = await manifold.question(market)
    assert before.crowd != after.crowd
    assert before.facts == after.facts
    assert (before.title, before.background, before.criteria) == (after.title, after.background, after.criteria)


async def test_a_number_has_a_grid_from_end_to_end(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_numeric("How many?", 10.0, 1000.0, is_log=True)
    question = await manifold.question(market)
    assert isinstance(question.shape, CurveShape)
    assert (question.shape.grid[0], question.shape.grid[-1]) == (10.0, 1000.0)
    # v083 of the vectors: the price of one half on this scale.
    assert question.shape.grid[100] == pytest.approx(40.480152477394384)
    assert not question.shape.open_lower
    assert not question.shape.open_upper


async def test_nothing_is_forecast_in_the_last_seconds(manifold: ManifoldFixture) -> None:
    open_market(manifold)
    manifold.clock.advance_without_waking(timedelta(days=7).total_seconds() - 30)
    assert await manifold.questions(close_margin_s=60) == {}
    assert len(await manifold.questions(close_margin_s=10)) == 1
