"""Events where exactly one outcome wins: what belongs together, what the options are, and what the crowd says."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import ChoicePrediction, ChoiceShape
from plugins.polymarket.event_groups import OPTION_NAMES_FILE, EventGroup, OptionNames, event_group
from plugins.polymarket.market_parser import question_contracts
from plugins.polymarket.questions import BooksSnapshot, choice_from_prices, group_question
from tests.plugins.polymarket.conftest import PolymarketFixture
from tests.plugins.polymarket.records import book, condition, event, market, member, token

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def group(*markets: dict[str, Any], **changes: Any) -> EventGroup:
    found = event_group(event(*markets, **changes))
    assert found is not None
    return found


def test_pm_f2_placeholders_and_other_are_no_options_of_their_own() -> None:
    found = group(
        member(1, "Ann"),
        member(2, "Bob"),
        member(3, "Person C", active=False),
        member(4, "Other", negRiskOther=True),
        negRiskAugmented=True,
    )
    assert found.options == ("Ann", "Bob", "Other")
    assert [one.condition for one in found.markets] == [condition(1), condition(2)]


def test_pm_f2_without_placeholders_one_of_the_named_wins() -> None:
    assert group(member(1, "Ann"), member(2, "Bob")).options == ("Ann", "Bob")


def test_pm_f2_what_most_live_markets_share_is_the_group() -> None:
    found = group(
        member(1, "Ann"),
        member(2, "Bob"),
        member(3, "Cat", negRiskMarketID=condition(0xE1)),
        member(4, "Old", negRiskMarketID=condition(0xE1), closed=True),
        member(5, "Older", negRiskMarketID=condition(0xE1), closed=True),
    )
    assert found.id == condition(0xE0)
    assert set(found.members) == {"Ann", "Bob"}


def test_a_group_of_which_a_market_cannot_be_read_is_not_whole() -> None:
    odd = member(3, "Cat", outcomes='["Yes","No","Maybe"]')
    found = group(member(1, "Ann"), member(2, "Bob"), odd)
    assert not found.is_complete
    assert "cannot be read" in (found.undecidable_reason(NOW) or "")
    assert not group(member(1, "Ann"), member(2, "Bob"), {}).is_complete
    alone = group(member(1, "Ann"), member(2, "Bob"), {**odd, "negRisk": False})
    assert alone.is_complete
    assert group(member(1, "Ann"), member(2, "Bob"), member(3, "Cat")).undecidable_reason(NOW) is None


def test_a_market_that_comes_twice_is_one() -> None:
    found = group(member(1, "Ann"), member(2, "Bob"), member(1, "Ann"))
    assert found.options == ("Ann", "Bob")
    assert len(found.children) == 2


def test_an_event_of_independent_markets_has_no_group() -> None:
    assert event_group(event(market(1), market(2))) is None


def test_a_market_called_other_that_is_one_stays_apart_from_the_rest() -> None:
    found = group(member(1, "Ann"), member(2, "Other"), negRiskAugmented=True)
    assert found.options == ("Ann", "Other", "Other (none of these)")


def test_options_of_the_same_name_are_told_apart() -> None:
    options = group(member(1, "Ann"), member(2, "Ann"), member(3, "Ann", question="Will event 2 happen?")).options
    assert len(set(options)) == 3
    assert options[0] == "Ann (Will event 1 happen?)"


def test_the_order_of_the_venue_does_not_make_another_question() -> None:
    members = [member(number, f"Option {number}") for number in range(1, 12)]
    assert group(*members).options == group(*reversed(members)).options


def test_an_outcome_that_has_lost_is_no_option_any_more_and_one_that_has_won_ends_it() -> None:
    lost = member(3, "Cat", closed=True, outcomePrices='["0","1"]')
    assert group(member(1, "Ann"), member(2, "Bob"), lost).options == ("Ann", "Bob")
    won = member(3, "Cat", closed=True, outcomePrices='["1","0"]')
    assert "won" in (group(member(1, "Ann"), member(2, "Bob"), won).undecidable_reason(NOW) or "")


async def test_an_event_is_one_question_with_the_contracts_of_its_options(site: PolymarketFixture) -> None:
    prices = {token(1): book(token(1), "0.60", "0.62"), token(2): book(token(2), "0.35", "0.37")}
    site.world.add(event(member(1, "Ann"), member(2, "Bob")), books=prices)
    [found] = await site.questions()
    assert found.ref.key == "event:77"
    assert found.shape == ChoiceShape(options=("Ann", "Bob"))
    assert found.title == "Who will win?"
    contracts = question_contracts(found)
    assert {option: contract.yes for option, contract in contracts.items()} == {"Ann": token(1), "Bob": token(2)}
    assert all(contract.neg_risk for contract in contracts.values())
    assert (found.event, found.facts["group"]) == ("77", condition(0xE0))
    assert found.crowd is not None
    assert isinstance(found.crowd.prediction, ChoicePrediction)
    assert found.crowd.prediction.probabilities["Ann"] == pytest.approx(0.61 / 0.97)
    assert "0.970" in found.crowd.explanation


async def test_market_by_market_where_settings_say_so(site: PolymarketFixture) -> None:
    site.world.add(member(1, "Ann"), member(2, "Bob"), member(3, "Other", negRiskOther=True))
    found = await site.set(grouping="markets").questions()
    assert [question.ref.key for question in found] == [condition(1), condition(2)]


async def test_independent_markets_of_an_event_are_questions_of_their_own(site: PolymarketFixture) -> None:
    site.world.add(event(market(1), market(2)))
    found = await site.questions()
    assert [question.ref.key for question in found] == [condition(1), condition(2)]
    assert {question.event for question in found} == {"77"}


async def test_too_many_outcomes_are_left_out(site: PolymarketFixture) -> None:
    site.world.add(event(*(member(number, f"Option {number}") for number in range(1, 5))))
    assert await site.set(max_options=3).questions() == []
    assert len(await site.set(max_options=4).questions()) == 1


def test_a_placeholder_that_is_named_makes_another_question() -> None:
    seen = BooksSnapshot(books={}, at=NOW, spread_max=Decimal("0.1"))
    augmented = {"negRiskAugmented": True}
    before = group(member(1, "Ann"), member(2, "Bob"), member(3, "Person C", active=False), **augmented)
    after = group(member(1, "Ann"), member(2, "Bob"), member(3, "Cat"), **augmented)
    assert group_question(before, seen).shape == ChoiceShape(options=("Ann", "Bob", "Other"))
    assert group_question(after, seen).shape == ChoiceShape(options=("Ann", "Bob", "Cat", "Other"))


@given(
    st.dictionaries(st.text(min_size=1), st.floats(0.0005, 0.9995), min_size=2, max_size=30), st.sampled_from(["", "?"])
)
def test_the_crowd_of_a_group_keeps_proportions_or_says_nothing(prices: dict[str, float], other: str) -> None:
    prices.pop("?", None)
    found = choice_from_prices(prices, other)
    total = sum(prices.values())
    if total > 1.25 or (not other and total < 0.80) or not prices:
        assert found is None
        return
    assert found is not None
    whole = max(total, 1.0) if other else total
    for option, price in prices.items():
        assert found.probabilities[option] == pytest.approx(price / whole)
    if other:
        assert found.probabilities[other] == pytest.approx(max(0.0, 1.0 - total))


def test_a_group_with_an_option_without_a_price_has_no_crowd() -> None:
    assert choice_from_prices({"Ann": 0.5, "Bob": None}, "Other") is None


def test_what_options_were_called_is_remembered_across_restarts(site: PolymarketFixture) -> None:
    folder = site.place.folder
    for name in ("Ann", "Ann S.", "Ann", "Ann Smith"):
        names = OptionNames(folder)
        names.remember_options(group(member(1, name), member(2, "Bob"), negRiskAugmented=True))
        names.save()
    renamed = group(member(1, "Ann Smith"), member(2, "Bob"), member(3, "Cat"), negRiskAugmented=True)
    again = OptionNames(folder)
    assert again.current_name(renamed, condition(1)) == "Ann Smith"
    assert again.current_name(renamed, condition(3)) == "Other"
    assert again.former_names("77", condition(1)) == ("Ann", "Ann S.", "Other")
    assert again.former_names("77", condition(3)) == ("Other",)


def test_a_memory_of_one_name_each_is_read_too(site: PolymarketFixture) -> None:
    site.place.folder.mkdir(parents=True)
    (site.place.folder / OPTION_NAMES_FILE).write_text(json.dumps({"77": {condition(1): "Ann", condition(2): "Other"}}))
    names = OptionNames(site.place.folder)
    assert names.current_name(group(member(1, "Ann"), member(2, "Other")), condition(2)) == "Other"
    assert names.former_names("77", condition(1)) == ("Other (none of these)",)


def test_a_broken_memory_is_begun_anew(site: PolymarketFixture) -> None:
    site.place.folder.mkdir(parents=True)
    (site.place.folder / OPTION_NAMES_FILE).write_text("{")
    assert OptionNames(site.place.folder).current_name(group(member(1, "Ann"), member(2, "Bob")), condition(2)) == "Bob"
