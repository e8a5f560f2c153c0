"""`foxcast backtest`: the score that a forecaster would have had on past rounds."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, field
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import structlog
import typer
from rich.console import Console

from bot.app.app import BacktestForecaster, open_backtest_forecasters
from bot.app.forecast_context import forecaster_training
from bot.app.venues import find_archive
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.cost_confirmation import confirm_cost, typical_cost_usd
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP, ROUNDS_VENUE_HELP, options_from_dataclass, parse_date, split_names
from bot.cli.output.belief_plot import require_plot_file
from bot.cli.output.calibration_plot import draw_trial_report
from bot.cli.output.console import print_heading, progress_bars, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.cli.output.model_memory import memory_to_json, print_memory_line
from bot.cli.output.report_tables import print_report_tables
from bot.cli.output.score_report import print_report
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.interfaces import HistoryLearner, RoundArchive
from bot.core.learning import FittedParameters, Round
from bot.core.light_dataclass import dataclass
from bot.evaluation.backtest import (
    BacktestHistory,
    BacktestSubject,
    BacktestWindow,
    LocalExecutor,
    QuestionExecutor,
    RoundPeerFactory,
    run_backtests,
)
from bot.evaluation.backtest_rows import history_records, write_history_rows
from bot.evaluation.model_memory import MemoryReport, memory_in_rounds
from bot.evaluation.report_tables import ReportTable
from bot.evaluation.score_report import RESAMPLES, ScoreReport, build_report
from bot.evaluation.score_rows import ScoreRows
from bot.evaluation.trial_report import TrialReportPlan, build_trial_report
from bot.evaluation.trial_scores import ComparisonPlan, compare_methods, measure_reliability, rank_methods
from bot.evaluation.trial_table import TrialTable, make_table_of_trials, parse_trial_records
from bot.forecasting.parameter_fitting import best_parameters
from bot.forecasting.question_admission import PLACES_WITHOUT_MODELS, QuestionAdmission
from bot.llm.gateway import LlmGateway
from bot.plugin_system.registry import Registry, with_all_members
from bot.store.forecast_queries import CallTotals, find_answered_trials, total_calls_by_state
from bot.store.ledger import Ledger
from bot.store.model_calls import CallState

log = structlog.get_logger(__name__)


app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestOptions:
    """Which forecasters are tested on which rounds, and what is written."""

    rounds: Annotated[Path, typer.Option(metavar="DIR", help=ROUNDS_HELP)]
    forecasters: Annotated[
        str,
        typer.Option(
            "--forecasters",
            "--forecaster",
            metavar="NAME,...",
            help="Forecasters, with their settings of config.toml, on the same questions; the first one is compared "
            "with each other and with its members.",
        ),
    ]
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
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            metavar="N",
            help="Forecast in so many processes, each daemon.concurrency (else 16) questions at a time; needs the "
            "extra cluster.",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Forecast on the workers of this Dask scheduler, as tcp://host:8786."),
    ] = None
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every forecast as a table of trials, .csv or .csv.gz, which foxcast lab trials reads again.",
        ),
    ] = None
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw calibration and indices, as .svg or .png.")
    ] = None


@app.command()
@options_from_dataclass(BacktestOptions)
def backtest(ctx: typer.Context, options: BacktestOptions) -> None:
    """Forecast past rounds with information available at the time, and score the forecasts."""
    for path, name in ((options.json, "--json"), (options.rows, "--rows"), (options.plot, "--plot")):
        require_writable(path, name)
    if options.plot is not None:
        require_plot_file(options.plot)
    _require_one_cluster(options)
    config, registry = load_config_and_plugins(ctx)
    run_configured_backtest(config, registry, options)


def run_configured_backtest(config: Config, registry: Registry, options: BacktestOptions) -> None:
    """Run a backtest and write what it found; raises NotFoundError for a window without outcomes."""
    require_venue_archive(config, registry, options.venue)
    venue, archive = find_archive(config, registry, options.venue, options.rounds)
    names = split_names(options.forecasters)
    if not names:
        message = "--forecasters names nobody; name at least one forecaster"
        raise ConfigError(message)
    random = SeededRandom(config.seed)
    result = asyncio.run(_run_backtest(_BacktestRun(config, registry, archive, random), options, names))
    if not any(result.scored.values()):
        message = f"{options.rounds} has no round with outcomes in that window"
        raise NotFoundError(message)
    _write_backtest(options, result, names, venue=venue, random=random)


def _require_one_cluster(options: BacktestOptions) -> None:
    """Raise ConfigError for two executors, and for one that is not installed."""
    if options.workers is not None and options.cluster is not None:
        message = "--workers starts processes here, --cluster uses those of a scheduler: leave out one of the two"
        raise ConfigError(message)
    if (options.workers is not None or options.cluster is not None) and find_spec("distributed") is None:
        message = "--workers and --cluster need Dask; install it with: pip install 'foxcast[cluster]'"
        raise ConfigError(message)


@asynccontextmanager
async def _open_executor(
    options: BacktestOptions, threads: int, admission: QuestionAdmission | None
) -> AsyncIterator[QuestionExecutor]:
    """Open what runs the trials: this process, local workers, or a cluster."""
    if options.workers is None and options.cluster is None:
        yield LocalExecutor(admission)
        return
    from bot.evaluation.dask_executor import open_cluster

    async with open_cluster(options.cluster, workers=options.workers or 0, threads=threads) as executor:
        yield executor


def _write_backtest(
    options: BacktestOptions, result: "BacktestResult", names: Sequence[str], *, venue: str, random: SeededRandom
) -> None:
    reports = {
        name: build_report(result.scored[name].binary, graded=result.scored[name].by_rule, rng=random.stream("report"))
        for name in names
    }
    records = history_records(result.history)
    table = make_table_of_trials(parse_trial_records(records, "the backtest")) if records else None
    tables = [] if table is None or not table.resolved else _comparison_tables(table, names, random)
    if options.rows is not None:
        write_history_rows(records, options.rows)
    if options.plot is not None and table is not None:
        draw_trial_report(build_trial_report(table, TrialReportPlan(), random), options.plot)
    if options.json is not None:
        write_json(_backtest_to_json(result, reports, tables, venue), options.json)
    if options.json == STDOUT:
        return
    console = stdout_console()
    for name, report in reports.items():
        print_report(console, report, title=f"{name} on {len(report.by_round)} rounds of {venue}")
    print_report_tables(console, tables)
    if result.costs is not None:
        print_experiment_costs(console, result.costs)
    for memory in result.memory.values():
        print_memory_line(console, memory)


def _comparison_tables(table: TrialTable, names: Sequence[str], random: SeededRandom) -> list[ReportTable]:
    """Return the calibration, and paired comparisons of the first forecaster with each other, members included."""
    first, others = names[0], [name for name in table.by_method if name != names[0]]
    plans = [ComparisonPlan(reference=other, methods=[first]) for other in others] if first in table.by_method else []
    compared = [compare_methods(table, plans, random, RESAMPLES)] if plans else []
    return [*compared, rank_methods(table), measure_reliability(table)]


def _backtest_to_json(
    result: "BacktestResult", reports: Mapping[str, ScoreReport], tables: Sequence[ReportTable], venue: str
) -> dict[str, object]:
    """Return the report of the first forecaster, and below it those of all where there are several."""
    first = next(iter(reports))
    memory = {name: memory_to_json(one) for name, one in result.memory.items()}
    several = {"by_forecaster": {name: report.to_json() for name, report in reports.items()}, "memories": memory}
    return {
        "forecaster": first,
        "venue": venue,
        **reports[first].to_json(),
        "costs": None if result.costs is None else asdict(result.costs),
        "memory": memory.get(first),
        **(several if len(reports) > 1 or set(memory) - {first} else {}),
        **{table.key: table.to_json() for table in tables},
    }


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
    """The scores of a backtest by forecaster, what each of them said, and what models cost and may remember."""

    scored: Mapping[str, ScoreRows]
    history: BacktestHistory
    costs: ExperimentCosts | None = None
    memory: Mapping[str, MemoryReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _BacktestRun:
    config: Config
    registry: Registry
    archive: RoundArchive
    random: SeededRandom


def make_backtest_subject(
    config: Config,
    registry: Registry,
    archive: RoundArchive,
    opened: BacktestForecaster,
    *,
    history: BacktestHistory,
    run: str = "",
) -> BacktestSubject:
    """Return an opened forecaster as the subject of a backtest.

    It learns from the archive and, if it builds on others, from what these said in earlier rounds of the backtest.
    """
    name, members = opened.forecaster.name, opened.forecaster.members
    training = forecaster_training(config, registry, name)
    learner = training.learner
    teachers = {*members, *(learner.other_forecasters if isinstance(learner, HistoryLearner) else ())}
    known: dict[datetime, FittedParameters | None] = {}

    def learn(past_round: Round) -> FittedParameters | None:
        before = past_round.as_of
        if before not in known:
            pasts = history.resolved_forecasts(teachers, before) if teachers else ()
            known[before] = best_parameters(name, training, [archive], before=before, pasts=pasts)
        return known[before]

    return BacktestSubject(
        configured_forecaster=opened.forecaster,
        fit_parameters=learn,
        tool_factory=opened.tool_factory or (RoundPeerFactory(history) if opened.forecaster.reads_others else None),
        concurrency=(config.daemon.concurrency or PLACES_WITHOUT_MODELS) if opened.forecaster.uses_models else 1,
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


async def _run_backtest(run: _BacktestRun, options: BacktestOptions, names: Sequence[str]) -> BacktestResult:
    """Run members before the forecasters that build on them, each once, and score all."""
    window = BacktestWindow(first=options.first, last=options.last)
    clock, history = SystemClock(), BacktestHistory()
    ordered = with_all_members(run.config, run.registry, names)
    async with open_backtest_forecasters(run.config, run.registry, ordered, clock=clock) as opened:
        subjects = [
            make_backtest_subject(run.config, run.registry, run.archive, one, history=history, run=options.run)
            for one in opened.values()
        ]
        paid = [one for one in subjects if one.configured_forecaster.uses_models]
        ledger = next((one.tool_factory.ledger for one in opened.values() if one.tool_factory is not None), None)
        if ledger is None:
            return BacktestResult(scored=await _score_rounds(run, options, subjects, history=history), history=history)
        began, rounds = clock.now(), list(_rounds_in_window(run.archive, window))
        questions = [question.ref for one in rounds for question in one.questions]
        scopes = {one.configured_forecaster.name: {ref: one.record_scope(ref) for ref in questions} for one in paid}
        for one in paid:
            found = scopes[one.configured_forecaster.name]
            new = await count_unanswered_questions(one, found.values(), ledger)
            await _confirm_new_costs(opened[one.configured_forecaster.name], new, len(found), options=options, run=run)
        gateway = next(one.gateway for one in opened.values() if one.gateway is not None)
        scored = await _score_rounds(run, options, subjects, history=history, gateway=gateway)
        every = [scope for found in scopes.values() for scope in found.values()]
        return BacktestResult(
            scored=scored,
            history=history,
            costs=await load_experiment_costs(every, ledger, began=began),
            memory={
                name: await memory_in_rounds(rounds, found, ledger, run.config.llm) for name, found in scopes.items()
            },
        )


async def _confirm_new_costs(
    opened: BacktestForecaster, new: int, questions: int, *, options: BacktestOptions, run: _BacktestRun
) -> None:
    if new < questions:
        log.info(
            "recorded, so models are called again only if something changed",
            forecaster=opened.forecaster.name,
            questions=questions - new,
            of=questions,
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


async def _score_rounds(
    run: _BacktestRun,
    options: BacktestOptions,
    subjects: Sequence[BacktestSubject],
    *,
    history: BacktestHistory,
    gateway: LlmGateway | None = None,
) -> Mapping[str, ScoreRows]:
    keys, threads = run.archive.round_keys(), max(one.concurrency for one in subjects)
    admission = None
    if gateway is not None:
        most = run.config.daemon.concurrency
        admission = QuestionAdmission(clock=SystemClock(), load=gateway.load, most=most)
    async with _open_executor(options, threads, admission) as executor:
        with progress_bars() as bars:
            task = bars.add_task("rounds", total=len(keys))
            return await run_backtests(
                run.archive,
                subjects,
                BacktestWindow(first=options.first, last=options.last),
                random=run.random,
                progress=lambda key: bars.update(task, completed=keys.index(key) + 1, description=f"round {key}"),
                history=history,
                executor=executor,
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
