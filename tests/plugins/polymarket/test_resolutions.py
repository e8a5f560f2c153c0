"""Outcomes: three sources in the order of trust, and payouts that are not one winner."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from bot.api import BinaryOutcome, ChoiceOutcome, ChoicePrediction, ChoiceShape, ServiceUnavailableError, VoidOutcome
from bot.stats.scoring_rules import ResolvedPrediction, score_predictions
from bot.testing.loopback_server import ScriptedResponse
from plugins.polymarket.market_parser import parse_market
from plugins.polymarket.resolutions import displayed_payouts, oracle_payouts, read_payouts
from tests.plugins.polymarket.conftest import PolymarketFixture
from tests.plugins.polymarket.records import condition, event, market, member, resolved, row, token

SETTLED_AT = datetime.fromtimestamp(1767225000, UTC)
ENDED: dict[str, Any] = {
    "closed": True,
    "umaResolutionStatus": "resolved",
    "outcomePrices": '["1","0"]',
    "closedTime": "2025-12-30 02:07:01+00",
}


def ended(number: int = 1, **changes: Any) -> dict[str, Any]:
    return market(number, **{**ENDED, **changes})


def long(number: int = 1, **changes: Any) -> dict[str, Any]:
    """The exchange's own form of a market that is over; the order of its tokens means nothing."""
    tokens = [
        {"token_id": token(number, 1), "outcome": "No", "price": 0, "winner": False},
        {"token_id": token(number, 0), "outcome": "Yes", "price": 1, "winner": True},
    ]
    return {"condition_id": condition(number), "closed": True, "is_50_50_outcome": False, "tokens": tokens, **changes}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"payouts": [1000000, 0]}, (1, 0)),
        ({"payouts": [500000, 500000]}, (Decimal("0.5"), Decimal("0.5"))),
        ({"payouts": ["0", "1000000"]}, (0, 1)),
        ({"payouts": None, "price": 69}, None),
        ({"payouts": None, "price": "69"}, None),
        ({"payouts": None, "price": 0.5}, (Decimal("0.5"), Decimal("0.5"))),
        ({"payouts": [1]}, None),
        ({"payouts": [2000000, 0]}, None),
        ({"payouts": [3.5, 0]}, None),
        ({"payouts": [1000000, 200000]}, None),
        ({"payouts": [1000000, 1000000]}, None),
        ({"payouts": [1, 0]}, None),
    ],
)
def test_pm_v1_payouts_are_millionths_and_69_is_not_set(reported: dict[str, Any], expected: object) -> None:
    """docs/facts/polymarket.md#parsing-figures."""
    assert oracle_payouts({"price": 69, **reported}) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (1, 0)),
        ({"outcomePrices": ["0", "0"]}, (0, 0)),
        ({"outcomePrices": '["0.0004","0.9996"]'}, (0, 1)),
        ({"outcomePrices": '["0.97","0.03"]'}, None),
        ({"outcomePrices": None}, None),
        ({"umaResolutionStatus": "proposed"}, None),
        ({"umaResolutionStatus": ""}, None),
        ({"closed": False}, None),
    ],
)
def test_pm_v1_display_prices_count_only_by_the_strict_rule(changes: dict[str, Any], expected: object) -> None:
    """docs/facts/polymarket.md#parsing-figures."""
    assert displayed_payouts(parse_market(ended(**changes))) == expected


async def test_pm_v1_the_oracle_is_believed_first(site: PolymarketFixture) -> None:
    site.world.add(ended(1))
    site.world.rows = {condition(1): resolved(1, 0, 1_000_000)}
    site.world.long = {condition(1): long()}
    found = await site.resolutions(condition(1))
    assert found[condition(1)].outcome == BinaryOutcome(0.0)
    assert found[condition(1)].resolved_at == SETTLED_AT
    assert site.world.paths() == {"/data/v2/resolutions"}


async def test_pm_v1_the_description_is_believed_second_and_the_exchange_last(site: PolymarketFixture) -> None:
    site.world.add(ended(1), ended(2, outcomePrices='["0.97","0.03"]'))
    site.world.long = {condition(1): long(1, tokens=[]), condition(2): long(2)}
    paid = await read_payouts(site.client, [condition(1), condition(2), condition(3)], site.clock)
    assert {name: payout.source for name, payout in paid.items()} == {
        condition(1): "description",
        condition(2): "exchange",
    }
    assert {payout.shares for payout in paid.values()} == {(Decimal(1), Decimal(0))}
    assert paid[condition(1)].at == datetime(2025, 12, 30, 2, 7, 1, tzinfo=UTC)
    order = [request.path.split("?")[0] for request in site.world.seen]
    assert order[0] == "/data/v2/resolutions"
    assert f"/clob/markets/{condition(1)}" not in order
    assert order.index("/gamma/markets/keyset") < order.index(f"/clob/markets/{condition(2)}")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1_000_000, 0, BinaryOutcome(1.0)),
        (0, 1_000_000, BinaryOutcome(0.0)),
        (500_000, 500_000, BinaryOutcome(0.5)),
        (250_000, 750_000, BinaryOutcome(0.25)),
        (0, 0, VoidOutcome("pays 0 and 0")),
    ],
)
async def test_pm_v2_the_payout_pair_is_the_outcome(
    site: PolymarketFixture, first: int, second: int, expected: object
) -> None:
    site.world.rows = {condition(1): resolved(1, first, second)}
    assert (await site.resolutions(condition(1)))[condition(1)].outcome == expected


async def test_pm_v2_halves_and_nothing_for_either_side_come_from_other_sources_too(site: PolymarketFixture) -> None:
    site.world.add(ended(1, outcomePrices='["0","0"]'), ended(2, outcomePrices='["0.5","0.5"]'))
    site.world.long = {condition(2): long(2, is_50_50_outcome=True, tokens=[])}
    found = await site.resolutions(condition(1), condition(2))
    assert found[condition(1)].outcome == VoidOutcome("pays 0 and 0")
    assert found[condition(2)].outcome == BinaryOutcome(0.5)


async def test_pm_v3_closed_and_open_markets_are_both_asked_for(site: PolymarketFixture) -> None:
    site.world.add(market(1), ended(2))
    found = await site.resolutions(condition(1), condition(2))
    assert set(found) == {condition(2)}
    asked = site.world.queries("/gamma/markets/keyset")
    assert [query["closed"][0] for query in asked] == ["true", "false"]
    assert all(query["condition_ids"] == [condition(1), condition(2)] for query in asked)


@pytest.mark.parametrize("status", ["proposed", "challenged", "reproposed", "disputed", "arbitration"])
async def test_pm_v5_what_is_proposed_or_disputed_waits(site: PolymarketFixture, status: str) -> None:
    site.world.add(ended(1))
    site.world.long = {condition(1): long()}
    site.world.rows = {condition(1): row(1, status=status, proposed_price=1, payouts=[1_000_000, 0])}
    assert await site.resolutions(condition(1)) == {}


async def test_pm_v5_a_dispute_that_only_the_description_knows_waits_too(site: PolymarketFixture) -> None:
    site.world.add(ended(1, umaResolutionStatus="disputed"))
    site.world.long = {condition(1): long()}
    assert await site.resolutions(condition(1)) == {}


async def test_pm_v5_a_changed_payout_is_another_outcome(site: PolymarketFixture) -> None:
    site.world.rows = {condition(1): resolved(1)}
    before = await site.resolutions(condition(1))
    site.world.rows = {condition(1): resolved(1, 0, 1_000_000, was_disputed=True, resolved_at=1767225300)}
    after = await site.resolutions(condition(1))
    assert (before[condition(1)].outcome, after[condition(1)].outcome) == (BinaryOutcome(1.0), BinaryOutcome(0.0))
    assert after[condition(1)].resolved_at > before[condition(1)].resolved_at


async def test_pm_f4_a_scheduled_end_is_no_outcome_and_an_early_one_is(site: PolymarketFixture) -> None:
    site.world.add(
        market(1, endDate="2025-06-01T00:00:00Z"),
        ended(2, endDate="2027-12-31T00:00:00Z", closedTime="2025-12-09 02:07:01+00"),
    )
    found = await site.resolutions(condition(1), condition(2))
    assert set(found) == {condition(2)}
    assert found[condition(2)].resolved_at == datetime(2025, 12, 9, 2, 7, 1, tzinfo=UTC)


async def test_more_than_twenty_markets_are_asked_for_in_parts(site: PolymarketFixture) -> None:
    site.world.rows = {condition(number): resolved(number) for number in range(1, 46)}
    found = await site.resolutions(*site.world.rows)
    assert len(found) == 45
    assert [len(query["condition_id"][0].split(",")) for query in site.world.queries("/data/v2/resolutions")] == [
        20,
        20,
        5,
    ]


async def test_the_exchange_names_the_winner_by_token_then_by_name(site: PolymarketFixture) -> None:
    labels = json.dumps(["Lakers", "Celtics"])
    site.world.add(ended(1, outcomes=labels, outcomePrices=None))
    tokens = [{"token_id": "", "outcome": "CELTICS", "winner": True}, {"outcome": "Lakers", "winner": False}]
    site.world.long = {condition(1): long(1, tokens=tokens)}
    assert (await site.resolutions(condition(1)))[condition(1)].outcome == BinaryOutcome(0.0)
    site.world.long = {condition(1): long(1, tokens=[{"outcome": "Knicks", "winner": True}])}
    assert await site.resolutions(condition(1)) == {}


async def test_an_event_is_decided_once_one_of_its_markets_paid(site: PolymarketFixture) -> None:
    site.world.add(event(member(1, "Ann"), member(2, "Bob"), member(3, "Cat")))
    await site.questions()
    assert await site.resolutions("event:77") == {}
    site.world.rows = {condition(1): resolved(1, 0, 1_000_000)}
    assert await site.resolutions("event:77") == {}
    site.world.rows |= {condition(2): resolved(2)}
    assert (await site.resolutions("event:77"))["event:77"].outcome == ChoiceOutcome("Bob")


async def test_an_outcome_that_was_named_after_the_question_was_asked_was_other(site: PolymarketFixture) -> None:
    placeholder = member(3, "Person C", active=False)
    site.world.add(event(member(1, "Ann"), member(2, "Bob"), placeholder, negRiskAugmented=True))
    await site.questions()
    site.world.events[0]["markets"][2].update(active=True, groupItemTitle="Cat")
    site.world.rows = {condition(3): resolved(3)}
    assert (await site.resolutions("event:77"))["event:77"].outcome == ChoiceOutcome("Other")


async def test_an_option_wins_under_its_newest_name_and_older_questions_had_it_under_others(
    site: PolymarketFixture,
) -> None:
    site.world.add(
        event(member(1, "Ann"), member(2, "Bob"), member(3, "Person C", active=False), negRiskAugmented=True)
    )
    [first] = await site.questions()
    site.world.events[0]["markets"][0].update(groupItemTitle="Ann Smith")
    [second] = await site.questions()
    site.world.events[0]["markets"][2].update(active=True, groupItemTitle="Cat")
    [third] = await site.questions()
    shapes = [asked.shape for asked in (first, second, third) if isinstance(asked.shape, ChoiceShape)]
    assert [shape.options for shape in shapes] == [
        ("Ann", "Bob", "Other"),
        ("Ann Smith", "Bob", "Other"),
        ("Ann Smith", "Bob", "Cat", "Other"),
    ]
    for number, on_outcome in ((1, (0.5, 0.5, 0.4)), (3, (0.2, 0.2, 0.3))):
        site.world.rows = {condition(number): resolved(number)}
        outcome = (await site.resolutions("event:77"))["event:77"].outcome
        for shape, share in zip(shapes, on_outcome, strict=True):
            shares = (0.5, 0.3, 0.2) if len(shape.options) == 3 else (0.4, 0.2, 0.3, 0.1)
            reported = dict(zip(shape.options, shares, strict=True))
            [marks] = score_predictions([ResolvedPrediction(ChoicePrediction(reported), shape, outcome)])
            assert marks["choice log"] == pytest.approx(-math.log(share))


async def test_the_market_of_all_others_wins_for_other(site: PolymarketFixture) -> None:
    site.world.add(event(member(1, "Ann"), member(2, "Bob"), member(4, "Other", negRiskOther=True)))
    await site.questions()
    site.world.rows = {condition(4): resolved(4)}
    assert (await site.resolutions("event:77"))["event:77"].outcome == ChoiceOutcome("Other")


@pytest.mark.parametrize(
    ("rows", "augmented", "expected"),
    [
        ([resolved(1, 0, 1_000_000), resolved(2, 0, 1_000_000)], True, ChoiceOutcome("Other")),
        ([resolved(1, 0, 1_000_000), resolved(2, 0, 1_000_000)], False, VoidOutcome("no outcome of it won")),
        ([resolved(1), resolved(2)], False, VoidOutcome("2 outcomes won", {"Ann": 1.0, "Bob": 1.0})),
        (
            [resolved(1, 500_000, 500_000), resolved(2, 500_000, 500_000)],
            False,
            VoidOutcome("Ann pays 0.5 and 0.5; Bob pays 0.5 and 0.5", {"Ann": 0.5, "Bob": 0.5}),
        ),
    ],
)
async def test_an_event_without_one_winner(
    site: PolymarketFixture, rows: list[Any], *, augmented: bool, expected: object
) -> None:
    site.world.add(event(member(1, "Ann"), member(2, "Bob"), negRiskAugmented=augmented))
    site.world.rows = {record["condition_id"]: record for record in rows}
    assert (await site.resolutions("event:77"))["event:77"].outcome == expected


async def test_an_event_that_is_gone_costs_no_other(site: PolymarketFixture) -> None:
    site.world.rows = {condition(1): resolved(1)}
    assert set(await site.resolutions("event:404", condition(1), "strange")) == {condition(1)}


async def test_an_oracle_that_cannot_be_read_is_not_replaced_by_another_source(site: PolymarketFixture) -> None:
    site.world.add(ended(1))
    site.world.override = lambda request: ScriptedResponse(status=503) if request.path.startswith("/data") else None
    with pytest.raises(ServiceUnavailableError):
        await site.resolutions(condition(1))
