import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from bot.config.schema import ModelSection
from bot.core.beliefs import ModelUsage
from bot.core.errors import AuthenticationError, ConfigError, RequestRejectedError
from bot.core.language_models import ModelCompletion, TokenPrice
from bot.llm.pricing import ModelPrice, PriceTable
from bot.testing.clock import FakeClock
from bot.testing.models import HangingAnswer, ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import (
    MAIN,
    PRICE,
    SPARE,
    GatewayFixture,
    charge,
    inquiry,
    revive,
    section,
    two,
    with_fallback,
)


@pytest.mark.parametrize("price", [None, TokenPrice(tokens_in=0, tokens_cached=0, tokens_out=0)])
async def test_a_model_without_a_price_is_not_asked_and_the_error_names_the_table(
    open_rig: OpenRig, price: TokenPrice | None
) -> None:
    async with open_rig(llms=two(text_completion("x"), default_price=price)) as rig:
        with pytest.raises(ConfigError, match=r'\[llm\.models\."prime:big"\].*free = true'):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (rig.prime.requests, rig.rows("id")) == ([], [])


async def test_a_model_declared_free_costs_nothing_whatever_budgets_say(open_rig: OpenRig) -> None:
    free = section(models={MAIN: {"free": True}}, budget={"question_usd": 1e-6, "day_usd": 1e-6})
    async with open_rig(free, llms=two(text_completion("x", cost_usd=3.0), default_price=None)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == 0
        assert rig.prime.priced_models == []


@pytest.mark.parametrize(("told_usd", "cost_usd"), [(0.0, 0.45), (0.1, 0.45), (0.5, 0.5)])
async def test_a_cost_that_is_told_counts_unless_the_price_makes_it_more(
    open_rig: OpenRig, told_usd: float, cost_usd: float
) -> None:
    # 100,000 tokens at 2, 25,000 at 10 dollars per million.
    told = text_completion("x", tokens_in=100_000, tokens_out=25_000, cost_usd=told_usd)
    async with open_rig(llms=two(told, default_price=PRICE)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == pytest.approx(cost_usd)


async def test_a_provider_that_tells_no_cost_and_no_tokens_is_charged_at_the_worst(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(ModelCompletion(text="x", cost_usd=0.0), default_price=PRICE)) as rig:
        await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.rows("cost_usd = worst_usd") == [(1,)]


@pytest.mark.parametrize(
    ("price", "worst_usd"),
    [
        (PRICE, 0.03),
        # The whole prompt may have to be put into the provider's cache.
        (replace(PRICE, tokens_written=2.5), 0.035),
        (replace(PRICE, tokens_cached=3.0, tokens_written=2.5), 0.04),
        # A prompt that may turn out to be long has the prices of long ones; one that is far from it has not.
        (replace(PRICE, long_from=15_000, long=replace(PRICE, tokens_in=4.0, tokens_out=20.0)), 0.06),
        (replace(PRICE, long_from=15_000, long=replace(PRICE, tokens_in=1.0, tokens_out=5.0)), 0.03),
        (replace(PRICE, long_from=19_999, long=replace(PRICE, tokens_in=4.0, tokens_out=20.0)), 0.06),
        (replace(PRICE, long_from=20_000, long=replace(PRICE, tokens_in=4.0, tokens_out=20.0)), 0.03),
        (replace(PRICE, long_from=200_000, long=replace(PRICE, tokens_in=4.0, tokens_out=20.0)), 0.03),
    ],
)
def test_the_worst_case_is_at_the_dearest_price_that_may_apply(price: TokenPrice, worst_usd: float) -> None:
    # 10,000 tokens in, 1,000 out.
    assert ModelPrice(tokens=price, is_configured=False).worst_usd(tokens_in=10_000, max_tokens=1_000) == pytest.approx(
        worst_usd
    )


def test_a_long_prompt_costs_the_price_of_long_prompts() -> None:
    # The list price of a model with two prices: 1.25 and 10 dollars, from 200,000 tokens on 2.5 and 15.
    long = TokenPrice(tokens_in=2.5, tokens_cached=0.25, tokens_out=15.0)
    price = TokenPrice(tokens_in=1.25, tokens_cached=0.125, tokens_out=10.0, long_from=200_000, long=long)
    assert price.usage_cost(ModelUsage(tokens_in=200_000, tokens_out=10_000)) == pytest.approx(0.25 + 0.1)
    assert price.usage_cost(ModelUsage(tokens_in=300_000, tokens_cached=100_000, tokens_out=10_000)) == pytest.approx(
        0.525 + 0.15
    )


@pytest.mark.parametrize("wrong", [{"long_from": 5}, {"long": PRICE}, {"tokens_written": -1.0}])
def test_a_price_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="price"):
        replace(PRICE, **wrong)


async def test_what_putting_into_a_cache_costs_may_be_set_by_hand(open_rig: OpenRig) -> None:
    own = section(models={MAIN: {"price_in": 2.0, "price_out": 10.0, "price_written": 2.5}})
    told = text_completion("x", tokens_in=1_000_000, tokens_out=0)
    async with open_rig(own, llms=two(told, default_price=None)) as rig:
        # Nobody counts which tokens were written, so all of them may have been.
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == pytest.approx(2.5)


async def test_putting_into_a_cache_at_the_price_of_the_provider_is_not_counted(open_rig: OpenRig) -> None:
    told = text_completion("x", tokens_in=1_000_000, tokens_out=0)
    async with open_rig(llms=two(told, default_price=replace(PRICE, tokens_written=2.5))) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == pytest.approx(2.0)


async def test_own_prices_go_before_those_of_the_provider(open_rig: OpenRig) -> None:
    own = section(models={MAIN: {"price_in": 7.0, "price_out": 11.0}})
    told = text_completion("x", tokens_in=1_000_000, tokens_out=1_000_000, cost_usd=0.5)
    async with open_rig(own, llms=two(told)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == pytest.approx(18.0)
        # Where both are set the provider is not asked.
        assert rig.prime.priced_models == []


LISTED = TokenPrice(
    tokens_in=2.0,
    tokens_cached=0.5,
    tokens_out=10.0,
    tokens_written=2.5,
    long_from=200_000,
    long=TokenPrice(tokens_in=4.0, tokens_cached=1.0, tokens_out=15.0),
)


@pytest.mark.parametrize(
    ("own", "applied"),
    [
        ({}, LISTED),
        # With a price of input of one's own the discount for cached tokens is one's own as well, or there is none;
        # and with any price of one's own that of long prompts does not apply, because it may be lower.
        ({"price_in": 7.0}, TokenPrice(tokens_in=7.0, tokens_cached=7.0, tokens_out=10.0)),
        ({"price_in": 7.0, "price_out": 11.0}, TokenPrice(tokens_in=7.0, tokens_cached=7.0, tokens_out=11.0)),
        (
            {"price_in": 7.0, "price_cached": 3.0, "price_written": 8.0},
            TokenPrice(tokens_in=7.0, tokens_cached=3.0, tokens_out=10.0, tokens_written=8.0),
        ),
        ({"price_out": 11.0}, TokenPrice(tokens_in=2.0, tokens_cached=0.5, tokens_out=11.0, tokens_written=2.5)),
        ({"price_cached": 3.0}, replace(LISTED, tokens_cached=3.0)),
        ({"price_written": 8.0}, replace(LISTED, tokens_written=8.0)),
    ],
)
async def test_a_price_of_ones_own_replaces_what_the_provider_lists(own: dict[str, float], applied: TokenPrice) -> None:
    table = PriceTable({MAIN: ModelSection.model_validate(own)})
    price = await table.model_price(MAIN, ScriptedModelProvider(default_price=LISTED))
    assert price == ModelPrice(tokens=applied, is_configured=bool(own.keys() & {"price_in", "price_out"}))


@pytest.mark.parametrize(
    ("own", "listed", "why"),
    [
        ({"price_in": 7.0}, None, "its provider gives no price for it"),
        ({"price_out": 7.0}, None, "its provider gives no price for it"),
        ({"price_in": 7.0, "price_out": 0.0}, None, "its price is given as zero"),
        ({}, TokenPrice(tokens_in=2.0, tokens_cached=0.0, tokens_out=0.0), "its price is given as zero"),
    ],
)
async def test_half_of_a_price_is_none(own: dict[str, float], listed: TokenPrice | None, why: str) -> None:
    table = PriceTable({MAIN: ModelSection.model_validate(own)})
    with pytest.raises(ConfigError, match=f"is not used: {why}"):
        await table.model_price(MAIN, ScriptedModelProvider(default_price=listed))


async def test_a_provider_that_knows_the_cost_is_believed(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(text_completion("x", cost_usd=0.0007))) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == 0.0007


@pytest.mark.parametrize("cost_usd", [float("nan"), float("inf"), -1.0])
async def test_a_cost_that_is_no_amount_is_reckoned_from_the_price(open_rig: OpenRig, cost_usd: float) -> None:
    told = text_completion("x", tokens_in=500_000, tokens_out=0, cost_usd=cost_usd)
    async with open_rig(llms=two(told, default_price=PRICE)) as rig:
        answer = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert answer.usage.cost_usd == pytest.approx(1.0)
        # It is not shown as the provider's word either.
        assert answer.completion.cost_usd is None


async def test_an_answer_whose_tokens_nobody_counted_costs_its_worst_case(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(ModelCompletion(text="x"), default_price=PRICE)) as rig:
        answer = await rig.gateway.ask(inquiry(), deadline_s=60)
        # A thousand tokens may be written at 10 dollars per million; the prompt adds its share.
        assert answer.usage.cost_usd > 0.01
        assert rig.rows("cost_usd = worst_usd") == [(1,)]


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"budget": {"question_usd": 0.005, "day_usd": None}}, r"\[llm\.budget\] question_usd"),
        ({"budget": {"question_usd": None, "day_usd": None, "run_usd": 0.005}}, r"\[llm\.budget\] run_usd"),
        ({"budget": {"question_usd": None, "day_usd": 0.005}}, r"\[llm\.budget\] day_usd"),
        ({"providers": {"prime": {"day_usd": 0.005}}}, r"\[llm\.providers\.prime\] day_usd"),
    ],
)
async def test_a_call_that_a_limit_does_not_allow_is_refused_before_it_leaves(
    open_rig: OpenRig, changes: dict[str, object], setting: str
) -> None:
    async with open_rig(section(**changes), llms=two(text_completion("x"), default_price=PRICE)) as rig:
        with pytest.raises(RequestRejectedError, match=rf"lantern:rain.*0\.01.*0\.005.*{setting}"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (rig.prime.requests, rig.rows("id"), rig.purse_usd) == ([], [], 0)
        with pytest.raises(RequestRejectedError):
            await rig.gateway.ask(inquiry("Will it snow?"), deadline_s=60)
        await rig.settled()
        assert [subject.startswith("Budget") for subject, _ in rig.alerts] == [True]


async def test_a_limit_of_the_question_counts_what_earlier_processes_spent_on_the_forecast(open_rig: OpenRig) -> None:
    limited = section(budget={"question_usd": 0.015, "day_usd": None})
    dear = text_completion("x", tokens_in=0, tokens_out=900)
    async with open_rig(limited, llms=two(dear, default_price=PRICE)) as rig:
        await rig.gateway.ask(inquiry("one"), deadline_s=60)
    async with open_rig(limited, llms=two(dear, default_price=PRICE)) as rig:
        with pytest.raises(RequestRejectedError, match=r"0\.0060 of .* are left"):
            await rig.gateway.ask(inquiry("two"), deadline_s=60)
        await rig.gateway.ask(inquiry("two", to=charge("forecast-2")), deadline_s=60)


async def test_calls_in_flight_when_a_process_died_count_at_their_worst_case(
    open_rig: OpenRig, clock: FakeClock
) -> None:
    limited = section(budget={"question_usd": None, "day_usd": 0.015})
    async with open_rig(limited, llms=two(HangingAnswer(), default_price=PRICE)) as rig:
        asking = asyncio.create_task(rig.gateway.ask(inquiry("one"), deadline_s=60))
        await rig.prime.first_request.wait()
        # The file as a killed process leaves it: what was durable when the request was on its way.
        ((left,),) = rig.rows("state")
        copy = rig.leave_as_killed()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert left == "reserved"
    revive(copy, rig.path)
    async with open_rig(limited, llms=two(text_completion("x"), default_price=PRICE)) as rig:
        assert rig.rows("state") == [("lost",)]
        with pytest.raises(RequestRejectedError, match=r"day_usd"):
            await rig.gateway.ask(inquiry("two"), deadline_s=60)
        clock.set_wall_clock(12 * 3600)
        await rig.gateway.ask(inquiry("two"), deadline_s=60)


async def test_what_a_forecast_will_cost_is_taken_from_those_before_it_or_from_prices(open_rig: OpenRig) -> None:
    dear = text_completion("x", tokens_in=0, tokens_out=1_000)
    async with open_rig(llms=two(dear, default_price=PRICE)) as rig:
        # 10,000 tokens read at 2 and 1,000 written at 10 dollars per million, thirty times.
        assert await rig.gateway.estimate("scripted", trials=3, steps=10) == pytest.approx(30 * 0.03)
        for number in range(5):
            await rig.gateway.ask(inquiry(to=charge(f"forecast-{number}"), seed=number), deadline_s=60)
        assert await rig.gateway.estimate("scripted", trials=3, steps=10) == pytest.approx(0.01)
        assert await rig.gateway.estimate("another", trials=1, steps=1) == pytest.approx(0.03)
    # No more than the budget of a question allows.
    async with open_rig(section(budget={"question_usd": 2.0}), llms=two(dear, default_price=PRICE)) as rig:
        assert await rig.gateway.estimate("another", trials=50, steps=10) == pytest.approx(2.0)


async def forecasts(rig: GatewayFixture, count: int) -> None:
    for number in range(count):
        asked = inquiry(to=charge(f"forecast-{number}"), seed=number)
        with suppress(AuthenticationError):
            await rig.gateway.ask(asked, deadline_s=60)
    await rig.settled()


async def test_forecasts_that_nobody_answered_say_nothing_about_the_cost(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(AuthenticationError("401"), default_price=PRICE)) as rig:
        before = await rig.gateway.estimate("scripted", trials=5, steps=10)
        await forecasts(rig, 6)
        assert rig.rows("distinct state") == [("failed",)]
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) == before == pytest.approx(50 * 0.03)


async def test_forecasts_of_other_models_say_nothing_about_the_cost(open_rig: OpenRig) -> None:
    cheap = section(roles={"main": {"model": SPARE, "max_tokens": 1000}})
    async with open_rig(cheap) as rig:
        await forecasts(rig, 6)
        told = await rig.gateway.estimate("scripted", trials=5, steps=10)
        assert told == pytest.approx(140e-6)
    # The model stays in use, but in another role.
    roles = {"main": {"model": MAIN, "max_tokens": 1000}, "critic": {"model": SPARE, "max_tokens": 1000}}
    async with open_rig(section(roles=roles), llms=two(text_completion("x"), default_price=PRICE)) as rig:
        assert await rig.gateway.estimate("scripted", trials=4, steps=10) == pytest.approx(40 * (0.03 + 0.014))


async def test_helpers_are_asked_little_and_an_auditor_nothing_for_a_forecast(open_rig: OpenRig) -> None:
    names = ("main", "filter", "summariser", "auditor")
    roles = {name: {"model": MAIN, "max_tokens": 1000} for name in names}
    async with open_rig(section(roles=roles), llms=two(text_completion("x"), default_price=PRICE)) as rig:
        # 10,000 tokens read and 1,000 written, and twice 3,000 and 300, at 2 and 10 dollars per million.
        expected = 10 * (0.03 + 2 * (0.006 + 0.003))
        assert await rig.gateway.estimate("another", trials=1, steps=10) == pytest.approx(expected)


async def test_a_record_of_nothing_is_not_believed_against_a_price(open_rig: OpenRig) -> None:
    free = section(models={MAIN: {"free": True}})
    async with open_rig(free, llms=two(text_completion("x"), default_price=PRICE)) as rig:
        await forecasts(rig, 6)
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) == 0.0
    async with open_rig(llms=two(text_completion("x"), default_price=PRICE)) as rig:
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) == pytest.approx(50 * 0.03)
    async with open_rig(llms=two(text_completion("x"), default_price=None)) as rig:
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) is None


async def test_what_a_call_in_a_role_may_cost_at_most_is_told(open_rig: OpenRig) -> None:
    roles = with_fallback(max_tokens=16_000)
    async with open_rig(section(roles=roles), llms=two(text_completion("x"), default_price=PRICE)) as rig:
        # 20,000 tokens at 2 and 16,000 at 10 dollars per million; the fallback is cheaper.
        assert await rig.gateway.worst_usd("main") == pytest.approx(0.04 + 0.16)
        with pytest.raises(ConfigError, match=r"\[llm\.roles\.critic\]"):
            await rig.gateway.worst_usd("critic")
    async with open_rig(section(roles=roles), llms=two(text_completion("x"), default_price=None)) as rig:
        assert await rig.gateway.worst_usd("main") is None


async def test_the_estimate_tells_free_from_unknown(open_rig: OpenRig) -> None:
    async with open_rig(section(models={MAIN: {"free": True}})) as rig:
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) == 0.0
    async with open_rig(llms=two(text_completion("x"), default_price=None)) as rig:
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) is None
