"""What a pass would cost, and what is held until somebody says yes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.core.forecasts import TrialLimits
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.cost_check import CostCheck, expected_cost, missing_price_errors
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.testing.clock import FakeClock
from bot.testing.forecaster import ScriptedForecaster
from bot.testing.models import ScriptedModelProvider
from tests.unit.llm.gateway_fixture import open_rig, section

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class FakeCostEstimates:
    """Knows what one forecast costs; None is not known. Remembers what it was asked."""

    of: Mapping[str, float | None]
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        self.asked.append((forecaster, trials, steps))
        return self.of[forecaster]


def configured(*names: str, asks: bool = True) -> dict[str, ConfiguredForecaster]:
    limits = TrialLimits(steps=7)
    return {
        name: ConfiguredForecaster(
            name=name,
            implementation=ScriptedForecaster(),
            trials=5,
            pool=PoolingMethod.MEAN,
            limits=limits,
            uses_models=asks,
        )
        for name in names
    }


async def test_what_costs_no_more_than_the_threshold_is_not_held() -> None:
    spending = CostCheck(estimates=FakeCostEstimates({"paid": 0.25}), ask_above_usd=1.0)
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 4}, now=NOON) == ()
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 5}, now=NOON) == ("paid",)


async def test_what_was_begun_today_counts_and_a_new_day_begins_anew() -> None:
    spending = CostCheck(estimates=FakeCostEstimates({"paid": 0.25}), ask_above_usd=1.0)
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 3}, now=NOON) == ()
    spending.record_started(["paid", "paid", "paid", "free"])
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 1}, now=NOON) == ()
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 2}, now=NOON) == ("paid",)
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 2}, now=NOON + timedelta(days=1)) == ()


async def test_all_forecasters_together_count() -> None:
    spending = CostCheck(estimates=FakeCostEstimates({"one": 0.6, "two": 0.6, "free": 0.0}), ask_above_usd=1.0)
    assert await spending.forecasters_on_hold(
        configured("one", "two", "free"), {"one": 1, "two": 1, "free": 9}, now=NOON
    ) == ("one", "two")
    assert await spending.forecasters_on_hold(configured("one", "two"), {"one": 1}, now=NOON) == ()


async def test_a_price_that_nobody_knows_counts_as_too_much() -> None:
    spending = CostCheck(estimates=FakeCostEstimates({"odd": None, "known": 0.01}), ask_above_usd=1000.0)
    assert await spending.forecasters_on_hold(configured("odd", "known"), {"odd": 1, "known": 1}, now=NOON) == (
        "odd",
        "known",
    )


async def test_after_a_yes_nothing_is_held_and_nobody_is_asked() -> None:
    prices = FakeCostEstimates({"paid": 99.0})
    spending = CostCheck(estimates=prices, ask_above_usd=0.0, confirmed=True)
    assert not spending.is_needed
    assert await spending.forecasters_on_hold(configured("paid"), {"paid": 1}, now=NOON) == ()
    assert prices.asked == []


async def test_without_models_nothing_costs() -> None:
    assert not CostCheck().is_needed
    assert await CostCheck().forecasters_on_hold(configured("paid"), {"paid": 1000}, now=NOON) == ()


async def test_forecasters_that_ask_no_model_are_never_held() -> None:
    prices = FakeCostEstimates({})
    assert (
        await CostCheck(estimates=prices).forecasters_on_hold(
            configured("baseline", asks=False), {"baseline": 100_000}, now=NOON
        )
        == ()
    )
    assert prices.asked == []


async def test_what_is_held_is_told_once() -> None:
    spending = CostCheck(estimates=FakeCostEstimates({"paid": 2.0}), ask_above_usd=1.0)
    with capture_logs() as logs:
        await spending.forecasters_on_hold(configured("paid"), {"paid": 3}, now=NOON)
        await spending.forecasters_on_hold(configured("paid"), {"paid": 4}, now=NOON)
    [told] = logs
    assert (told["forecasts"], told["expected_usd"], told["ask_above_usd"]) == (3, 6.0, 1.0)
    assert "foxcast run --yes" in told["event"]


async def test_the_log_says_why_it_is_held() -> None:
    dear, odd = (
        CostCheck(estimates=FakeCostEstimates({"paid": 2.0}), ask_above_usd=1.0),
        CostCheck(estimates=FakeCostEstimates({"paid": None})),
    )
    with capture_logs() as logs:
        await dear.forecasters_on_hold(configured("paid"), {"paid": 3}, now=NOON)
        await odd.forecasters_on_hold(configured("paid"), {"paid": 3}, now=NOON)
    assert [told["why"] for told in logs] == [
        "the expected cost is more than may be spent without confirmation",
        "its cost is not known",
    ]
    # A sum of which a part is unknown is no sum.
    assert [told["expected_usd"] for told in logs] == [6.0, None]


async def test_a_model_without_a_price_is_named_with_the_remedy(tmp_path: Path) -> None:
    llms = {"prime": ScriptedModelProvider(default_price=None)}
    async with open_rig(tmp_path / "ledger.sqlite", FakeClock(NOON), section=section(), llms=llms) as rig:
        with capture_logs() as logs:
            assert await CostCheck(estimates=rig.gateway).forecasters_on_hold(
                configured("paid"), {"paid": 1}, now=NOON
            ) == ("paid",)
        (fault,) = await missing_price_errors(rig.gateway)
    [told] = logs
    assert told["why"] == str(fault)
    assert '[llm.models."prime:big"] price_in' in told["why"]


async def test_the_cost_of_many_is_that_of_one_with_its_trials_and_steps_so_often() -> None:
    prices = FakeCostEstimates({"paid": 0.3})
    assert await expected_cost(prices, configured("paid")["paid"], 10) == pytest.approx(3.0)
    assert prices.asked == [("paid", 5, 7)]
    assert await expected_cost(FakeCostEstimates({"paid": None}), configured("paid")["paid"], 10) is None


@pytest.mark.parametrize("confirmed", [True, False])
async def test_narrow_budgets_are_told_once_when_something_that_costs_is_due(*, confirmed: bool) -> None:
    looks: list[str] = []

    async def narrow() -> list[str]:
        looks.append("look")
        return ["too narrow"]

    spending = CostCheck(
        estimates=FakeCostEstimates({"paid": 0.1}), ask_above_usd=9.0, confirmed=confirmed, budget_warnings=narrow
    )
    with capture_logs() as logs:
        for due in ({}, {"free": 1}, {"paid": 1}, {"paid": 1}):
            assert spending.is_needed is (looks == [] or not confirmed)
            people = {**configured("paid"), **configured("free", asks=False)}
            assert await spending.forecasters_on_hold(people, due, now=NOON) == ()
            assert len(looks) == ("paid" in due)
    assert [entry["why"] for entry in logs] == ["too narrow"]
