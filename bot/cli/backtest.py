"""`foxcast backtest`: the score that a forecaster would have had on past rounds."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import structlog
import typer
from rich.console import Console

from bot.app.app import BacktestForecaster, open_backtest_forecaster
from bot.app.forecast_context import forecaster_training
from bot.app.venues import find_archive
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.cost_confirmation import confirm_cost, typical_cost_usd
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP, ROUNDS_VENUE_HELP, options_from_dataclass, parse_date
from bot.cli.output.console import print_heading, progress_bars, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.cli.output.model_memory import memory_to_json, print_memory_line
from bot.cli.output.score_report import print_report
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import NotFoundError
from bot.core.interfaces import RoundArchive
from bot.core.learning import FittedParameters, Round
from bot.evaluation.backtest import BacktestSubject, BacktestWindow, run_backtest
from bot.evaluation.model_memory import MemoryReport, memory_in_rounds
from bot.evaluation.score_report import build_report
from bot.evaluation.score_rows import ScoreRows
from bot.forecasting.parameter_fitting import best_parameters
from bot.plugin_system.registry import Registry
from bot.store.forecast_queries import CallTotals, find_answered_trials, total_calls_by_state
from bot.store.ledger import Ledger
from bot.store.model_calls import CallState

log = structlog.get_logger(__name__)


app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestOptions:
    """Which forecaster is tested on which rounds."""

    forecaster: Annotated[str, typer.Option(metavar="NAME", help="The forecaster, with its settings of config.toml.")]
    rounds: Annotated[Path, typer.Option(metavar="DIR", help=ROUNDS_HELP)]
    first: Annotated[
        date | None, typer.Option("--from", parser=parse_date, metavar="DATE", help="Skip earlier rounds.")
    ] = None
    last: Annotated[date | None, typer.Option("--to", parser=parse_date, metavar="DATE", help="Skip later rounds.")] = (
        None
    )
    venue: Annotated[str | None, typer.Option(metavar="NAME", help=ROUNDS_VENUE_HELP)] = None
    run: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=(
                "Name of the experiment: the same name resumes it; a new name calls the models again, except for "
                "identical prompts."
            ),
        ),
    ] = ""
    yes: Annotated[bool, typer.Option("--yes", help="Accept the expected cost without asking.")] = False
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None


@app.command()
@options_from_dataclass(BacktestOptions)
def backtest(ctx: typer.Context, options: BacktestOptions) -> None:
    """Forecast past rounds with information available at the time, and score the forecasts."""
    require_writable(options.json, "--json")
    config, registry = load_config_and_plugins(ctx)
    require_venue_archive(config, registry, options.venue)
    venue, archive = find_archive(config, registry, options.venue, options.rounds)
    random = SeededRandom(config.seed)
    result = asyncio.run(_run_backtest(_BacktestRun(config, registry, archive, random), options))
    found, costs, memory = result.scored, result.costs, result.memory
    if not found:
        message = f"{options.rounds} has no round with outcomes in that window"
        raise NotFoundError(message)
    report = build_report(found.binary, graded=found.by_rule, rng=random.stream("report"))
    if options.json is not None:
        head = {"forecaster": options.forecaster, "venue": venue}
        models = {
            "costs": None if costs is None else asdict(costs),
            "memory": None if memory is None else memory_to_json(memory),
        }
        write_json({**head, **report.to_json(), **models}, options.json)
    if options.json != STDOUT:
        print_report(
            stdout_console(), report, title=f"{options.forecaster} on {len(report.by_round)} rounds of {venue}"
        )
        if costs is not None:
            print_experiment_costs(stdout_console(), costs)
        if memory is not None:
            print_memory_line(stdout_console(), memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCosts:
    """The costs of an experiment, under the keys of the report: all its runs, and the part of this run.

    ``unanswered`` counts the calls that brought no answer; money is in US dollars.
    """

    calls: int
    unanswered: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float
    now_calls: int
    now_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestResult:
    """The scores of a backtest, and, for forecasters with models, costs and what the models may remember."""

    scored: ScoreRows
    costs: ExperimentCosts | None = None
    memory: MemoryReport | None = None


@dataclass(frozen=True, slots=True)
class _BacktestRun:
    config: Config
    registry: Registry
    archive: RoundArchive
    random: SeededRandom


def make_backtest_subject(
    config: Config, registry: Registry, archive: RoundArchive, opened: BacktestForecaster, *, run: str = ""
) -> BacktestSubject:
    """Return an opened forecaster as the subject of a backtest; it learns from the archive, once for each moment."""
    name = opened.forecaster.name
    training = forecaster_training(config, registry, name)
    known: dict[datetime, FittedParameters | None] = {}

    def learn(past_round: Round) -> FittedParameters | None:
        if past_round.as_of not in known:
            known[past_round.as_of] = best_parameters(name, training, [archive], before=past_round.as_of)
        return known[past_round.as_of]

    return BacktestSubject(
        configured_forecaster=opened.forecaster,
        fit_parameters=learn,
        tool_factory=opened.tool_factory,
        concurrency=config.daemon.concurrency if opened.forecaster.uses_models else 1,
        run=run,
    )


async def count_unanswered_questions(subject: BacktestSubject, scopes: Iterable[str], ledger: Ledger) -> int:
    """Return how many of these questions have a trial without a recorded model answer: they will cost money."""
    scopes_list = list(scopes)
    answered = await find_answered_trials(ledger, scopes_list)
    numbers = range(1, subject.configured_forecaster.trials + 1)
    return sum(not all((scope, number) in answered for number in numbers) for scope in scopes_list)


async def load_experiment_costs(scopes: Iterable[str], ledger: Ledger, *, began: datetime) -> ExperimentCosts:
    """Add up what an experiment cost, and how much of it since a moment."""
    scopes_list = list(scopes)
    by_state = await total_calls_by_state(ledger, scopes_list)
    since = await total_calls_by_state(ledger, scopes_list, since=began)
    whole, now = (sum(one.values(), CallTotals()) for one in (by_state, since))
    done = by_state.get(CallState.DONE, CallTotals())
    return ExperimentCosts(
        calls=whole.calls,
        unanswered=whole.calls - done.calls,
        tokens_in=whole.usage.tokens_in,
        tokens_cached=whole.usage.tokens_cached,
        tokens_out=whole.usage.tokens_out,
        cost_usd=whole.usage.cost_usd,
        now_calls=now.calls,
        now_usd=now.usage.cost_usd,
    )


def _rounds_in_window(archive: RoundArchive, window: BacktestWindow) -> Iterator[Round]:
    return filter(window.contains, map(archive.read_round, archive.round_keys()))


async def _run_backtest(run: _BacktestRun, options: BacktestOptions) -> BacktestResult:
    window = BacktestWindow(first=options.first, last=options.last)
    clock = SystemClock()
    async with open_backtest_forecaster(run.config, run.registry, options.forecaster, clock=clock) as opened:
        subject = make_backtest_subject(run.config, run.registry, run.archive, opened, run=options.run)
        if opened.tool_factory is None:
            return BacktestResult(scored=await _score_rounds(run, subject, window))
        ledger, began = opened.tool_factory.ledger, clock.now()
        rounds = list(_rounds_in_window(run.archive, window))
        scopes = {question.ref: subject.record_scope(question.ref) for one in rounds for question in one.questions}
        new = await count_unanswered_questions(subject, scopes.values(), ledger)
        await _confirm_new_costs(opened, new, len(scopes), options=options, run=run)
        return BacktestResult(
            scored=await _score_rounds(run, subject, window),
            costs=await load_experiment_costs(scopes.values(), ledger, began=began),
            memory=await memory_in_rounds(rounds, scopes, ledger, run.config.llm),
        )


async def _confirm_new_costs(
    opened: BacktestForecaster, new: int, questions: int, *, options: BacktestOptions, run: _BacktestRun
) -> None:
    if new < questions:
        log.info(
            "recorded, so models are called again only if something changed", questions=questions - new, of=questions
        )
    if new:
        typical_usd = await typical_cost_usd(opened, run.config)
        await confirm_cost(
            opened,
            new,
            yes=options.yes,
            above_usd=run.config.llm.budget.ask_above_usd,
            typical_usd=typical_usd,
        )


async def _score_rounds(run: _BacktestRun, subject: BacktestSubject, window: BacktestWindow) -> ScoreRows:
    keys = run.archive.round_keys()
    with progress_bars() as bars:
        task = bars.add_task("rounds", total=len(keys))
        return await run_backtest(
            run.archive,
            subject,
            window,
            random=run.random,
            progress=lambda key: bars.update(task, completed=keys.index(key) + 1, description=f"round {key}"),
        )


def print_experiment_costs(console: Console, costs: ExperimentCosts) -> None:
    """Print the costs of an experiment."""
    cached = costs.tokens_cached / costs.tokens_in if costs.tokens_in else 0.0
    print_heading(console, "Costs")
    console.print(
        f"in total: {_count_calls(costs.calls)} of models ({costs.unanswered} without an answer), "
        f"{costs.tokens_in:,} tokens in ({cached:.0%} cached), {costs.tokens_out:,} out, {costs.cost_usd:.4f} USD"
    )
    console.print(f"in this run: {_count_calls(costs.now_calls)}, {costs.now_usd:.4f} USD")


def _count_calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"
