"""What models cost, added up from calls that were really made through the gateway."""

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from bot.cli.costs import cost_report_to_json, load_backtest_costs, print_cost_report, today_lines
from bot.config.schema import Config
from bot.core.errors import NotFoundError, ServiceUnavailableError
from bot.evaluation.cost_report import CostReport, budget_statuses, load_cost_report, load_today_costs
from bot.forecasting.forecast_run import NoAnswerError
from bot.store.cost_totals import CostGrouping
from bot.store.ledger import ReadOnlyState
from bot.store.model_calls import ModelDemotion, ScopeSpending
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, model_with_beliefs, open_forecast_runs, question
from tests.unit.llm.gateway_fixture import rows

# Of each call 600 tokens are new and 400 cached, at 1 and 0.1 dollars per million, and 50 are written, at 4.
CALL_USD = (600 * 1.0 + 400 * 0.1 + 50 * 4.0) / 1e6
CONFIG = Config.model_validate({"llm": {"budget": {"day_usd": 1.0}, "providers": {"prime": {"day_usd": 0.5}}}})


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        yield forecast_runs


async def bill(forecast_runs: ForecastRunFixture, by: CostGrouping, since: date | None = None) -> CostReport:
    records = ReadOnlyState(config=CONFIG, folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)
    return await load_cost_report(records, by, since, forecast_runs.clock.now())


def printed(found: CostReport) -> list[str]:
    console = Console(file=io.StringIO(), width=300)
    print_cost_report(console, found)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("by", [*CostGrouping])
async def test_however_it_is_added_up_the_total_is_the_same(
    forecast_runs: ForecastRunFixture, by: CostGrouping
) -> None:
    await forecast_runs.forecast(question("rain"))
    await forecast_runs.forecast(question("snow"), trials=1)
    found = await bill(forecast_runs, by)
    total = found.total
    assert (total.forecasts, total.calls, total.failed, total.attempts) == (2, 6, 0, 6)
    assert (total.usage.tokens_in, total.usage.tokens_cached, total.usage.tokens_out) == (6000, 2400, 300)
    assert total.usage.cost_usd == pytest.approx(6 * CALL_USD)
    names = {
        CostGrouping.QUESTION: ["lantern:rain", "lantern:snow"],
        CostGrouping.MODEL: ["prime:big"],
        CostGrouping.DAY: ["2026-01-01"],
        CostGrouping.VENUE: ["lantern"],
        CostGrouping.FORECASTER: ["blf"],
        CostGrouping.ROLE: ["main"],
    }
    assert [row.name for row in found.rows] == names[by]


async def test_a_limit_keeps_the_most_expensive_rows_and_the_last_days_and_the_total_of_all(
    forecast_runs: ForecastRunFixture,
) -> None:
    await forecast_runs.forecast(question("snow"), trials=1)
    forecast_runs.clock.advance_without_waking(86_400)
    await forecast_runs.forecast(question("rain"))
    records = ReadOnlyState(config=CONFIG, folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)
    kept = {CostGrouping.QUESTION: "lantern:rain", CostGrouping.DAY: "2026-01-02"}
    for by, name in kept.items():
        found = await load_cost_report(records, by, None, forecast_runs.clock.now(), limit=1)
        assert ([row.name for row in found.rows], found.has_more) == ([name], True)
        assert (found.total.forecasts, found.total.calls) == (2, 6)
        whole = await load_cost_report(records, by, None, forecast_runs.clock.now(), limit=2)
        assert (len(whole.rows), whole.has_more) == (2, False)
        assert [cost_report_to_json(one)["has_more"] for one in (found, whole)] == [True, False]
        assert (await bill(forecast_runs, by)).rows == whole.rows


async def test_a_line_tells_counts_share_and_cost_of_a_forecast(forecast_runs: ForecastRunFixture) -> None:
    await forecast_runs.forecast(question("rain"))
    plain = cost_report_to_json(await bill(forecast_runs, CostGrouping.QUESTION))
    (row,) = plain["rows"]
    assert (row["forecasts"], row["calls"], row["cached_share"]) == (1, 4, pytest.approx(0.4))
    assert row["usd_per_forecast"] == pytest.approx(4 * CALL_USD)
    cells = printed(await bill(forecast_runs, CostGrouping.QUESTION))[1].split()
    assert cells[:8] == ["lantern:rain", "1", "4", "0", "4", "4,000", "40%", "200"]
    assert cells[-2:] == ["0.0034", "0.0034"]


async def test_failed_calls_are_counted(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.llm.turns = [model_with_beliefs(0.3, 0.7), ServiceUnavailableError("down")]
    with pytest.raises(NoAnswerError):
        await forecast_runs.forecast(question(), trials=1)
    total = (await bill(forecast_runs, CostGrouping.MODEL)).total
    assert (total.calls, total.failed) == (2, 1)


async def test_earlier_calls_are_left_out(forecast_runs: ForecastRunFixture) -> None:
    await forecast_runs.forecast(question())
    assert (await bill(forecast_runs, CostGrouping.MODEL, date(2026, 1, 1))).total.calls == 4
    later = await bill(forecast_runs, CostGrouping.MODEL, date(2026, 1, 2))
    assert later.rows == ()
    assert "no model was called since 2026-01-02" in printed(later)
    assert cost_report_to_json(later)["total"]["usd_per_forecast"] is None


async def test_what_is_left_today_is_told_for_all_and_for_providers_with_a_limit(
    forecast_runs: ForecastRunFixture,
) -> None:
    await forecast_runs.forecast(question())
    told = cost_report_to_json(await bill(forecast_runs, CostGrouping.MODEL))["today"]
    assert [(one["what"], one["limit_usd"]) for one in told] == [("all models", 1.0), ("prime", 0.5)]
    assert [one["spent_usd"] for one in told] == pytest.approx([4 * CALL_USD] * 2)
    assert told[1]["left_usd"] == pytest.approx(0.5 - 4 * CALL_USD)
    assert "prime: 0.0034 of 0.50 USD spent, 0.50 left" in printed(await bill(forecast_runs, CostGrouping.MODEL))


async def test_yesterday_counts_for_nothing_today(forecast_runs: ForecastRunFixture) -> None:
    await forecast_runs.forecast(question())
    forecast_runs.clock.advance_without_waking(86_400)
    assert [left.spent_usd for left in (await bill(forecast_runs, CostGrouping.MODEL)).today.budgets] == [0.0, 0.0]


async def test_a_model_that_is_replaced_is_named_with_the_reason(forecast_runs: ForecastRunFixture) -> None:
    now = forecast_runs.clock.now()
    demotion = ModelDemotion(model="prime:big", at=now, until=now + timedelta(days=1), why="it never submits")
    await forecast_runs.ledger.model_performance.demote(demotion)
    records = ReadOnlyState(config=CONFIG, folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)
    (line,) = [line for line in today_lines(await load_today_costs(records, now)) if "prime:big" in line]
    assert "until 2026-01-02 00:00 UTC" in line
    assert "it never submits" in line
    assert "as " not in line.split(" is replaced")[0]
    assert (await load_today_costs(records, now + timedelta(days=2))).demoted == ()
    # Each role is judged by itself, so a person must know which one it is.
    await forecast_runs.ledger.model_performance.demote(replace(demotion, role="critic"))
    found = await bill(forecast_runs, CostGrouping.MODEL)
    assert "prime:big as critic is replaced until 2026-01-02 00:00 UTC" in "\n".join(printed(found))
    assert {one["role"] for one in cost_report_to_json(found)["demoted"]} == {None, "critic"}


async def test_what_may_have_been_billed_without_an_answer_is_told_apart(forecast_runs: ForecastRunFixture) -> None:
    broken = ServiceUnavailableError("the connection broke")
    broken.__cause__ = ConnectionResetError()
    forecast_runs.llm.turns = [model_with_beliefs(0.3, 0.7), broken]
    with pytest.raises(NoAnswerError):
        await forecast_runs.forecast(question(), trials=1)
    found = await bill(forecast_runs, CostGrouping.MODEL)
    ((worst_usd,),) = rows(forecast_runs.path, "select worst_usd from model_call where state = 'failed'")
    assert (found.losses.calls, found.losses.cost_usd) == (1, worst_usd)
    assert f"of this, {worst_usd:.4f} USD are the maximum cost of 1 call" in "\n".join(printed(found))
    assert cost_report_to_json(found)["unanswered"] == {"calls": 1, "cost_usd": worst_usd}
    assert (await bill(forecast_runs, CostGrouping.MODEL, date(2026, 1, 2))).losses.calls == 0


async def test_what_was_refused_cost_nothing_and_is_no_loss(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.llm.turns = [model_with_beliefs(0.3, 0.7), ServiceUnavailableError("down")]
    with pytest.raises(NoAnswerError):
        await forecast_runs.forecast(question(), trials=1)
    found = await bill(forecast_runs, CostGrouping.MODEL)
    assert found.losses.calls == 0
    assert "worst case" not in "\n".join(printed(found))


def test_more_than_the_budget_leaves_nothing_and_no_budget_leaves_no_number() -> None:
    spent = [ScopeSpending(scope="f", provider="prime", cost_usd=0.7)]
    assert [left.left_usd for left in budget_statuses(CONFIG, spent)] == [pytest.approx(0.3), 0.0]
    endless = Config.model_validate({"llm": {"budget": {"day_usd": None}}})
    (everything,) = budget_statuses(endless, spent)
    assert (everything.left_usd, everything.spent_usd) == (None, 0.7)


async def test_backtests_have_a_bill_of_their_own(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"state": tmp_path})
    with pytest.raises(NotFoundError, match="no backtest has called a model"):
        await load_backtest_costs(config, CostGrouping.MODEL, None, datetime(2026, 1, 1, tzinfo=UTC))
    (tmp_path / "lab").mkdir()
    async with open_forecast_runs(
        tmp_path / "lab", ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        await forecast_runs.forecast(question(), trials=1)
        found = await load_backtest_costs(config, CostGrouping.MODEL, None, forecast_runs.clock.now())
    assert found.total.calls == 2
    assert found.total.usage.cost_usd == pytest.approx(2 * CALL_USD)
