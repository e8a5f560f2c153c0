"""What a backtest says of its costs: what is new before it begins, and what it came to when it is over."""

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.backtest import count_unanswered_questions, load_experiment_costs, print_experiment_costs
from bot.cli.output.console import SafeConsole
from bot.core.clock import SeededRandom
from bot.core.errors import ServiceUnavailableError
from bot.core.learning import Round
from bot.evaluation.backtest import BacktestSubject, BacktestWindow, run_backtest
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, model_with_beliefs, open_forecast_runs
from tests.unit.testing.correct_venue import LanternArchive

# Of each call 600 tokens are new and 400 cached, at 1 and 0.1 dollars per million, and 50 are written, at 4.
CALL_USD = (600 * 1.0 + 400 * 0.1 + 50 * 4.0) / 1e6
ARCHIVE = LanternArchive()


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        yield forecast_runs


def nothing(a_round: Round) -> None:
    """Learn nothing."""


def subject(forecast_runs: ForecastRunFixture, *, run: str = "", trials: int = 2) -> BacktestSubject:
    return BacktestSubject(
        configured_forecaster=forecast_runs.configure_forecaster(trials=trials),
        fit_parameters=nothing,
        tool_factory=forecast_runs.make_tool_factory(),
        run=run,
    )


def scopes(tested: BacktestSubject) -> list[str]:
    return [tested.record_scope(one.ref) for key in ARCHIVE.round_keys() for one in ARCHIVE.read_round(key).questions]


async def run(tested: BacktestSubject) -> None:
    await run_backtest(ARCHIVE, tested, BacktestWindow(), random=SeededRandom(1), progress=lambda _: None)


async def test_a_run_that_is_repeated_has_nothing_new(forecast_runs: ForecastRunFixture) -> None:
    tested = subject(forecast_runs)
    assert await count_unanswered_questions(tested, scopes(tested), forecast_runs.ledger) == 2
    await run(tested)
    asked = len(forecast_runs.llm.requests)
    assert await count_unanswered_questions(tested, scopes(tested), forecast_runs.ledger) == 0
    await run(tested)
    assert len(forecast_runs.llm.requests) == asked


async def test_more_trials_are_new(forecast_runs: ForecastRunFixture) -> None:
    await run(subject(forecast_runs, trials=1))
    more = subject(forecast_runs, trials=2)
    assert await count_unanswered_questions(more, scopes(more), forecast_runs.ledger) == 2


async def test_another_run_is_new_until_it_was_made_even_if_every_answer_is_from_the_record(
    forecast_runs: ForecastRunFixture,
) -> None:
    await run(subject(forecast_runs))
    asked = len(forecast_runs.llm.requests)
    other = subject(forecast_runs, run="other")
    assert await count_unanswered_questions(other, scopes(other), forecast_runs.ledger) == 2
    await run(other)
    assert len(forecast_runs.llm.requests) == asked
    assert await count_unanswered_questions(other, scopes(other), forecast_runs.ledger) == 0


async def test_a_question_that_nobody_answered_is_new_again(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.llm.turns = [ServiceUnavailableError("down")]
    tested = subject(forecast_runs)
    with pytest.raises(ServiceUnavailableError):
        await run(tested)
    assert await count_unanswered_questions(tested, scopes(tested), forecast_runs.ledger) == 2


async def test_the_outlay_is_that_of_all_runs_and_of_this_one(forecast_runs: ForecastRunFixture) -> None:
    tested = subject(forecast_runs)
    began = forecast_runs.clock.now()
    await run(tested)
    first = await load_experiment_costs(scopes(tested), forecast_runs.ledger, began=began)
    # Two questions, two trials, two calls each.
    assert (first.calls, first.unanswered, first.now_calls) == (8, 0, 8)
    assert (first.tokens_in, first.tokens_cached, first.tokens_out) == (8000, 3200, 400)
    assert [first.cost_usd, first.now_usd] == pytest.approx([8 * CALL_USD] * 2)
    forecast_runs.clock.advance_without_waking(60)
    later = forecast_runs.clock.now()
    await run(tested)
    again = await load_experiment_costs(scopes(tested), forecast_runs.ledger, began=later)
    assert again == replace(first, now_calls=0, now_usd=0.0)


async def test_the_outlay_is_printed_under_the_report(forecast_runs: ForecastRunFixture) -> None:
    tested = subject(forecast_runs)
    began = forecast_runs.clock.now()
    await run(tested)
    console = SafeConsole(file=io.StringIO(), width=200, markup=False, highlight=False)
    print_experiment_costs(console, await load_experiment_costs(scopes(tested), forecast_runs.ledger, began=began))
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert "8 calls of models (0 without an answer), 8,000 tokens in (40% cached), 400 out, 0.0067 USD" in told
    assert "in this run: 8 calls, 0.0067 USD" in told
