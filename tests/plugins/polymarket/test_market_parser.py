"""Records of markets and events: what must be there, and how many forms the same thing may have."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import MalformedDataError
from plugins.polymarket.event_groups import PolymarketParsedEvents
from plugins.polymarket.json_values import parse_decimal, parse_list, parse_moment, parse_texts
from plugins.polymarket.market_parser import (
    PolymarketContract,
    PolymarketMarket,
    parse_fee_schedule,
    parse_market,
    parse_v2_token,
    question_contracts,
)
from plugins.polymarket.questions import BooksSnapshot, market_question
from tests.plugins.polymarket.records import ENDS, FEES, T1, T2, condition, event, market, tokens

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_pm_t1_lists_come_as_json_text_and_as_arrays() -> None:
    plain: dict[str, Any] = {"clobTokenIds": tokens(1), "outcomes": ["Yes", "No"], "outcomePrices": [0.365, 0.635]}
    assert parse_market(market()) == parse_market(market(**plain))
    assert parse_market(market()).prices == (Decimal("0.365"), Decimal("0.635"))


def test_pm_t1_token_ids_stay_text_digit_by_digit() -> None:
    inside = f"[{T1}, {T2}]"
    found = parse_market(market(clobTokenIds=inside))
    assert found.tokens == (T1, T2)
    assert parse_texts([1e76]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"outcomes": json.dumps(["A", "B", "C"])},
        {"outcomes": None},
        {"feeSchedule": {"rate": 0.04}},
        {"feeSchedule": None, "feesEnabled": True},
        {"conditionId": "0x12"},
        {"clobTokenIds": json.dumps(["1"])},
        {"clobTokenIds": json.dumps(["1", "1"])},
        {"version": "v9"},
    ],
)
def test_pm_t2_an_odd_record_costs_itself_alone_and_is_counted(changes: dict[str, Any]) -> None:
    unpacked = PolymarketParsedEvents()
    for record in (market(1), market(2, **changes), market(3)):
        unpacked.add_market(record)
    assert [item.key for item in unpacked.items] == [condition(1), condition(3)]
    assert len(unpacked.complaints) == 1
    nested = PolymarketParsedEvents()
    nested.add_event(event(market(1), market(2, **changes), market(3)))
    assert ([item.key for item in nested.items], len(nested.complaints)) == ([condition(1), condition(3)], 1)


@pytest.mark.parametrize("odd", [None, 7, "text", [], {"id": None}])
def test_pm_t2_what_is_no_record_at_all_is_a_complaint_too(odd: object) -> None:
    unpacked = PolymarketParsedEvents()
    unpacked.add_market(odd)
    assert (unpacked.items, len(unpacked.complaints)) == ([], 1)


def test_pm_t2_an_unknown_word_and_missing_prices_cost_nothing() -> None:
    found = parse_market(market(umaResolutionStatus="pondering", outcomePrices=None, feeType="new_fees"))
    assert found.oracle == "pondering"
    assert found.prices == ()
    assert found.untradable_reason(NOW) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-09 02:07:01+00", "2026-05-09T02:07:01+00:00"),
        ("2026-05-09T02:07:01Z", "2026-05-09T02:07:01+00:00"),
        ("2026-05-09T04:07:01+02:00", "2026-05-09T02:07:01+00:00"),
        ("2026-05-09T02:07:01.123456789Z", "2026-05-09T02:07:01.123456+00:00"),
        ("1763700000000", "2025-11-21T04:40:00+00:00"),
        (1763700000000, "2025-11-21T04:40:00+00:00"),
        (1763700000, "2025-11-21T04:40:00+00:00"),
        ("2026-05-09", "2026-05-09T00:00:00+00:00"),
    ],
    ids=repr,
)
def test_pm_t3_moments_in_all_forms(text: object, expected: str) -> None:
    assert parse_moment(text) == datetime.fromisoformat(expected)


@pytest.mark.parametrize("text", [None, "", "soon", True, -5, "0", {}, "9" * 40, "2026-13-40"], ids=repr)
def test_pm_t3_what_is_no_moment_is_none(text: object) -> None:
    assert parse_moment(text) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"),
        (0.1, "0.1"),
        ("0.365", "0.365"),
        ("1e-7", "0.0000001"),
        (4e-05, "0.00004"),
        (" 5 ", "5"),
        ("69", "69"),
    ],
    ids=repr,
)
def test_pm_t4_numbers_in_all_forms_are_exact(value: object, expected: str) -> None:
    assert parse_decimal(value) == Decimal(expected)


@pytest.mark.parametrize(
    "value", [None, "", "NaN", "Infinity", float("inf"), True, "1_000", [], "1e999999999", "\uff11"], ids=repr
)
def test_pm_t4_missing_and_odd_numbers_are_none(value: object) -> None:
    assert parse_decimal(value) is None


def test_pm_t4_numbers_of_a_market_end_as_decimals_and_missing_ones_as_none() -> None:
    found = parse_market(market(volumeNum="12.5", liquidityNum=7, secondsDelay="3"))
    assert (found.volume, found.liquidity, found.delay_s) == (Decimal("12.5"), Decimal(7), Decimal(3))
    bare = market()
    del bare["volumeNum"], bare["liquidityNum"]
    assert (parse_market(bare).volume, parse_market(bare).liquidity) == (None, None)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists))
def test_pm_t4_no_value_breaks_the_readers(value: object) -> None:
    number = parse_decimal(value)
    assert number is None or number.is_finite()
    moment = parse_moment(value)
    assert moment is None or moment.utcoffset() is not None
    assert parse_list(value) is None or isinstance(parse_list(value), list)
    with pytest.raises(MalformedDataError):
        parse_market({"conditionId": condition(1), "outcomes": value if not isinstance(value, list) else None})


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (T2, (1, "01" + "ab" * 18 + "00" * 8 + "00000001", 1)),
        (str(int("01" + "ab" * 20 + "00" * 10 + "01", 16)), None),
        (T1, None),
        (str(int("04" + "ab" * 18 + "00" * 8 + "00000001" + "01", 16)), None),
        ("", None),
        ("12x", None),
        ("9" * 78, None),
    ],
)
def test_pm_t5_ids_of_the_second_version_are_known_by_their_bits(token: str, expected: object) -> None:
    """docs/facts/polymarket.md#amounts."""
    assert parse_v2_token(token) == expected


def test_pm_t5_the_version_decides_which_ids_count() -> None:
    sibling = str(int(T2) - 1)
    both: dict[str, Any] = {"clobTokenIds": json.dumps(tokens(1)), "positionIds": [sibling, T2]}
    old, new = parse_market(market(version="v1", **both)), parse_market(market(version="v2", **both))
    assert (old.version, old.tokens) == ("v1", tuple(tokens(1)))
    assert (new.version, new.tokens) == ("v2", (sibling, T2))


def test_pm_t5_without_a_version_the_ids_tell_it() -> None:
    sibling = str(int(T2) - 1)
    record = market(clobTokenIds=json.dumps([sibling, T2]))
    del record["version"]
    assert (parse_market(record).version, parse_market(record).tokens) == ("v2", (sibling, T2))
    plain = market()
    del plain["version"]
    assert parse_market(plain).version == "v1"


def test_pm_t5_the_version_is_stored_with_the_question() -> None:
    sibling = str(int(T2) - 1)
    found = asked(parse_market(market(version="v2", conditionId="0x" + "ab" * 31, positionIds=[sibling, T2])))
    assert found.facts["version"] == "v2"
    assert question_contracts(found)[""].version == "v2"
    assert found.ref.key == "0x" + "ab" * 31


def asked(market: PolymarketMarket) -> Any:
    return market_question(market, BooksSnapshot(books={}, at=NOW, spread_max=Decimal("0.1")))


TRADABLE = market()


@pytest.mark.parametrize(
    "changes",
    [
        {"active": False},
        {"closed": True},
        {"closed": None},
        {"archived": True},
        {"enableOrderBook": False},
        {"acceptingOrders": False},
        {"umaResolutionStatus": "proposed"},
        {"umaResolutionStatus": "disputed"},
        {"endDate": "2025-12-31T23:59:59Z"},
        {"endDate": None},
        {"clobTokenIds": "[]"},
    ],
)
def test_pm_f1_what_is_tradable(changes: dict[str, Any]) -> None:
    assert parse_market(TRADABLE).untradable_reason(NOW) is None
    assert parse_market({**TRADABLE, **changes}).untradable_reason(NOW) is not None


def test_pm_f3_outcomes_that_are_not_yes_and_no_are_asked_about_by_their_names() -> None:
    found = asked(parse_market(market(outcomes=json.dumps(["Lakers", "Celtics"]))))
    assert 'Yes means "Lakers"' in found.title
    assert json.loads(found.facts["outcomes"]) == ["Lakers", "Celtics"]
    assert question_contracts(found)[""].yes == tokens(1)[0]


def test_pm_f5_a_question_holds_nothing_of_how_it_ended() -> None:
    before = asked(parse_market(market()))
    after = market(outcomePrices='["1","0"]', closedTime="2026-05-09 02:07:01+00", volumeNum=9e9, resolvedBy="0xabc")
    assert asked(parse_market(after)) == before


def test_fees_are_kept_as_text_and_a_missing_schedule_is_free() -> None:
    assert parse_fee_schedule(FEES, "it") == {"rate": "0.04", "exponent": "1", "takerOnly": True, "rebateRate": "0.25"}
    free = parse_market(market(feesEnabled=False, feeSchedule=None))
    assert free.fees is None
    assert json.loads(asked(free).facts["fees"]) is None
    kept = question_contracts(asked(parse_market(market())))[""]
    assert kept.fees == parse_fee_schedule(FEES, "it")


def test_a_contract_comes_back_from_its_facts() -> None:
    found = parse_market(market(negRisk=True, secondsDelay=3)).contract
    assert PolymarketContract.from_map(json.loads(json.dumps(found.to_map()))) == found
    with pytest.raises(MalformedDataError):
        PolymarketContract.from_map({})


def test_what_moves_with_the_market_leaves_the_question_as_it_is() -> None:
    """A changed fact would have it asked again."""
    calm = asked(parse_market(market()))
    moved: dict[str, Any] = {
        "bestBid": 0.9,
        "orderPriceMinTickSize": 0.001,
        "liquidityNum": 1,
        "volume24hr": 5,
        "orderMinSize": 50,
    }
    assert asked(parse_market(market(**moved))) == calm


def test_pm_f4_texts_and_dates_are_those_of_the_record() -> None:
    found = asked(parse_market(market(resolutionSource="https://example.org/count")))
    assert found.closes_at == parse_moment(ENDS) == found.targets[0].resolves_at
    assert found.criteria.startswith("This market resolves to Yes if event 1 happens.")
    assert "https://example.org/count" in found.criteria
    assert found.url == "https://polymarket.com/event/event-1/market-1"
    assert found.category == "politics"
    assert found.tags[0] == "politics"
