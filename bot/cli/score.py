"""`foxcast score`: scores of resolved forecasts with intervals, and the crowd for comparison.

Forecasts come from the ledger, with the scores of their venues, or from forecast files of any source.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.lookup import require_known_venue, require_venue_archive
from bot.cli.options import ROUNDS_HELP, options_from_dataclass, parse_date
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.cli.output.report_tables import print_report_tables
from bot.cli.output.score_report import print_kinds
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import (
    CHOICE_BASELINE,
    CURVE_BASELINE,
    BinaryOutcome,
    VoidOutcome,
    scoring_rules_for,
)
from bot.core.plain_text import suggest_names
from bot.core.predictions import BinaryPrediction
from bot.evaluation.group_scores import GroupScore
from bot.evaluation.lookup import query_ledger
from bot.evaluation.summed_scores import (
    ALL,
    FAMILY,
    GROUP_KEYS,
    ForecasterSums,
    GroupScores,
    reliability_bins,
    reliability_table,
    sums_by_forecaster,
)
from bot.evaluation.value_text import NO_VALUE, describe_outcome, format_day, format_interval, format_number
from bot.plugin_system.registry import Registry
from bot.stats.scoring_rules import ResolvedPrediction, RuleScores, score_predictions
from bot.store.ledger import ReadOnlyState
from bot.store.score_totals import CalibrationBin, RoundSums, ScoreSums
from bot.store.scores import ScoreFilter
from bot.store.venue_scores import ReportedStanding, UnscoredQuestion, VenueScoredQuestion

# The table shows at most this many questions of each venue, the newest first; the JSON has all of them.
MAX_QUESTIONS_SHOWN = 40
# This many questions are named for each reason.
MAX_QUESTIONS_NAMED = 3
BASELINE = "baseline"
# The share of the time with a forecast; it is not a score.
COVERAGE = "coverage"
STANDING_COLUMNS = (
    TableColumn("contest", ColumnKind.TITLE),
    TableColumn("score"),
    TableColumn("points", ColumnKind.NUMBER),
    TableColumn("rank", ColumnKind.NUMBER),
    TableColumn("of", ColumnKind.NUMBER),
    TableColumn("questions", ColumnKind.NUMBER),
    TableColumn("prize", ColumnKind.NUMBER),
    TableColumn("reported"),
)
UNSCORED_COLUMNS = (
    TableColumn("questions", ColumnKind.NUMBER),
    TableColumn("why", ColumnKind.TEXT),
    TableColumn("such as", ColumnKind.TEXT),
)


def print_venue_scores(
    console: Console, scored: Sequence[VenueScoredQuestion], standings: Sequence[ReportedStanding]
) -> None:
    """Print, for each account, its standings and a table of its resolved questions."""
    for (venue, account), group in groupby(scored, key=lambda item: (item.venue, item.account)):
        items = [*group]
        print_heading(console, f"{venue}, account {account}: {len(items)} resolved questions, as the venue scores them")
        rules = list(dict.fromkeys(rule for item in items for rule in item.values))
        totals = [f"{rule} {total:+.2f}" for rule, total in weighted_totals(items).items() if rule != COVERAGE]
        if totals:
            console.print(f"weighted total: {', '.join(totals)}")
        own = (TableColumn("our score"), TableColumn("our baseline", ColumnKind.NUMBER))
        theirs = (TableColumn(f"its {rule}", ColumnKind.NUMBER) for rule in rules)
        columns = (
            TableColumn("question", ColumnKind.TITLE),
            TableColumn("outcome"),
            *own,
            *theirs,
            TableColumn("note", ColumnKind.TEXT),
        )
        console.print(make_table(columns, [_venue_score_cells(item, rules) for item in items[:MAX_QUESTIONS_SHOWN]]))
        if len(items) > MAX_QUESTIONS_SHOWN:
            console.print(f"and {len(items) - MAX_QUESTIONS_SHOWN} more: foxcast score --json -")
    if standings:
        print_heading(console, "Standings reported by the venues")
        console.print(make_table(STANDING_COLUMNS, [_standing_cells(item) for item in standings]))


def print_unscored(console: Console, unscored: Sequence[UnscoredQuestion]) -> None:
    """Print the questions that resolved without a score of our own, by reason."""
    if not unscored:
        return
    print_heading(console, "Resolved without our own score")
    by_reason: dict[str, list[UnscoredQuestion]] = {}
    for item in unscored:
        by_reason.setdefault(f"{item.forecaster}: {item.why}", []).append(item)
    rows = [(str(items[0].count), why, _question_names(items)) for why, items in sorted(by_reason.items())]
    console.print(make_table(UNSCORED_COLUMNS, rows))


def weighted_totals(items: Sequence[VenueScoredQuestion]) -> dict[str, float]:
    """Return the sum of each rule over the questions, by weight, as contests compute it."""
    totals: dict[str, float] = {}
    for item in items:
        for rule, value in item.values.items():
            totals[rule] = totals.get(rule, 0.0) + item.weight * value
    return totals


def own_scores(item: VenueScoredQuestion) -> RuleScores:
    """Return our own scores of the submitted forecast; the baseline score is under ``BASELINE``, also for yes or no."""
    (scores,) = score_predictions([ResolvedPrediction(item.prediction, item.shape, item.outcome)])
    found = scores.get(CHOICE_BASELINE, scores.get(CURVE_BASELINE))
    if isinstance(item.prediction, BinaryPrediction) and isinstance(item.outcome, BinaryOutcome):
        from bot.stats.scores import binary_baseline_scores

        found = float(binary_baseline_scores([item.prediction.probability], [item.outcome.value])[0])
    return scores if found is None else {**scores, BASELINE: found}


def venue_scores_to_json(
    scored: Sequence[VenueScoredQuestion], standings: Sequence[ReportedStanding], unscored: Sequence[UnscoredQuestion]
) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "venue_scores": [
            {
                "venue": item.venue,
                "account": item.account,
                "question": str(item.ref),
                "target": item.target,
                "title": item.title,
                "forecaster": item.forecaster,
                "outcome": describe_outcome(item.outcome, item.shape),
                "resolved_at": item.resolved_at.isoformat(),
                "weight": item.weight,
                "ours": own_scores(item),
                "venue_says": dict(item.values),
                "note": missing_score_note(item),
            }
            for item in scored
        ],
        "venue_standings": [dict(_standing_to_json(item)) for item in standings],
        "unscored": [
            {"forecaster": one.forecaster, "question": str(one.ref), "target": one.target, "why": one.why}
            for one in unscored
        ],
    }


def missing_score_note(item: VenueScoredQuestion) -> str:
    """Return why the venue has no score of a kind, "" if it has one."""
    if isinstance(item.outcome, VoidOutcome):
        return f"not scored: {item.outcome.reason}"
    if not item.values:
        return "the venue has not reported a score yet"
    if item.values.get(COVERAGE) and not any(rule.startswith("spot") for rule in item.values):
        return "no forecast was active when spot scores were taken"
    return ""


def _venue_score_cells(item: VenueScoredQuestion, rules: Sequence[str]) -> tuple[str, ...]:
    scores = own_scores(item)
    first = next((rule for rule in scoring_rules_for(item.shape.kind) if rule.name in scores), None)
    own = NO_VALUE if first is None else f"{first.title} {format_number(scores[first.name], first.digits)}"
    return (
        f"{item.ref.key} {item.title}",
        describe_outcome(item.outcome, item.shape),
        own,
        format_number(scores.get(BASELINE)),
        *(format_number(item.values.get(rule)) for rule in rules),
        missing_score_note(item),
    )


def _standing_cells(item: ReportedStanding) -> tuple[str, ...]:
    one = item.standing
    counts = (NO_VALUE if count is None else str(count) for count in (one.rank, one.entrants, one.questions))
    return (
        f"{item.venue} {one.contest}",
        one.rule,
        format_number(one.points),
        *counts,
        format_number(one.prize),
        format_day(item.at),
    )


def _standing_to_json(item: ReportedStanding) -> Iterator[tuple[str, object]]:
    yield from (("venue", item.venue), ("account", item.account), ("told_at", item.at.isoformat()))
    fields: Mapping[str, object] = {name: getattr(item.standing, name) for name in type(item.standing).__slots__}
    yield from fields.items()


def _question_names(items: Sequence[UnscoredQuestion]) -> str:
    return ", ".join(dict.fromkeys(str(item.ref) for item in items[:MAX_QUESTIONS_NAMED]))


GROUP_COLUMNS = (
    TableColumn("n", ColumnKind.NUMBER),
    TableColumn("rate", ColumnKind.NUMBER),
    TableColumn("Index [95 %]"),
    TableColumn("crowd", ColumnKind.NUMBER),
    TableColumn("on", ColumnKind.NUMBER),
    TableColumn("gain over it [95 %]"),
)


# Questions that venues scored, standings of accounts there, and questions without our own score.
VenueScoreData = tuple[list[VenueScoredQuestion], list[ReportedStanding], list[UnscoredQuestion]]


NOTHING_SCORED = "nothing selected has resolved yet; list open questions with: foxcast questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerScoreRequest:
    """Which of the recorded forecasts are scored, and where the JSON is written."""

    forecaster: str | None = None
    venue: str | None = None
    source: str | None = None
    since: date | None = None
    paper: bool | None = None
    json: Path | None = None
    plot: Path | None = None


def print_ledger_scores(config: Config, request: LedgerScoreRequest) -> None:
    """Score recorded forecasts and print it; a ledger without outcomes is not an error."""
    score_filter = ScoreFilter(
        venue=request.venue,
        forecaster=request.forecaster,
        source=request.source,
        since=_start_of_day(request.since),
        paper=request.paper,
    )
    examples = MAX_QUESTIONS_NAMED if request.json is None else None
    sums, bins, venue_data = query_ledger(config, lambda records: _load_scores(records, score_filter, examples))
    by_forecaster, calibration = sums_by_forecaster(sums), reliability_bins(bins)
    reliability = reliability_table(calibration)
    standings = {
        name: own.score_groups(SeededRandom(config.seed).stream("groups")) for name, own in by_forecaster.items()
    }
    if request.json is not None:
        rounds = query_ledger(config, lambda records: records.ledger.scores.read_rounds(score_filter))
        scores = _ledger_scores_to_json(config, by_forecaster, rounds, standings)
        plain = {**scores, **venue_scores_to_json(*venue_data), reliability.key: reliability.to_json()}
        write_json(plain, request.json)
    if request.plot is not None:
        from bot.cli.output.calibration_plot import draw_reliability_plot

        draw_reliability_plot(calibration, request.plot)
    if request.json == STDOUT:
        return
    console = stdout_console()
    for name, found in standings.items():
        print_forecaster_scores(console, name, found)
    for name, own in by_forecaster.items():
        print_kinds(console, own.report_kinds(SeededRandom(config.seed).stream("kinds")), prefix=f"{name}: ")
    if reliability.rows:
        print_report_tables(console, [reliability])
    venue_scored, contest_standings, unscored = venue_data
    print_venue_scores(console, venue_scored, contest_standings)
    print_unscored(console, unscored)
    if not (by_forecaster or venue_scored or contest_standings or unscored):
        console.print(NOTHING_SCORED)


async def _load_scores(
    records: ReadOnlyState, score_filter: ScoreFilter, examples: int | None
) -> tuple[ScoreSums, list[CalibrationBin], VenueScoreData]:
    scores, venues = records.ledger.scores, records.ledger.venue_scores
    standings = [] if score_filter.paper else await venues.standings(score_filter.venue)
    unscored = await venues.unscored(score_filter, examples=examples)
    venue_data = (await venues.scored(score_filter), standings, unscored)
    return await scores.read_sums(score_filter), await scores.read_bins(score_filter), venue_data


def print_total_scores(console: Console, name: str, found: GroupScores) -> None:
    """Print one table for a forecaster: all its scored predictions together, and by family; none without any."""
    if not found:
        return
    count = found[ALL][ALL].n
    print_heading(console, f"{name}: Brier Index of {count} resolved predictions (100 is best, 50 is chance)")
    console.print(_group_table("", {**found[ALL], **found[FAMILY]}))


def print_forecaster_scores(console: Console, name: str, found: GroupScores) -> None:
    """Print all tables for a forecaster."""
    print_total_scores(console, name, found)
    for what, parts in found.items():
        if what not in {ALL, FAMILY} and parts:
            print_heading(console, f"By {what}")
            console.print(_group_table(what, parts))


def _group_table(what: str, groups: Mapping[str, GroupScore]) -> Any:  # noqa: ANN401 - what rich can print
    return make_table(
        (TableColumn(what), *GROUP_COLUMNS), [(name, *_group_cells(found)) for name, found in groups.items()]
    )


def _group_cells(found: GroupScore) -> tuple[str, ...]:
    span, crowd = found.brier_index, found.crowd
    own = (
        str(found.n),
        format_number(found.base_rate),
        f"{format_number(span.estimate)} {format_interval(span.low, span.high)}",
    )
    if crowd is None:
        return *own, NO_VALUE, NO_VALUE, NO_VALUE
    gain = f"{crowd.gain.estimate:+.2f} {format_interval(crowd.gain.low, crowd.gain.high)}"
    return *own, format_number(crowd.crowd_brier_index), str(crowd.n), gain


def _ledger_scores_to_json(
    config: Config,
    by_forecaster: Mapping[str, ForecasterSums],
    rounds: Sequence[RoundSums],
    standings: Mapping[str, GroupScores],
) -> dict[str, Any]:
    """Return the report of the first configured forecaster, and below it the reports of all by name."""
    random = SeededRandom(config.seed)
    reports = {
        name: _forecaster_report_to_json(
            own, [one for one in rounds if one.forecaster == name], random, standings[name]
        )
        for name, own in by_forecaster.items()
    }
    named = [name for table in config.venues.values() for name in table.all_forecasters if name in reports]
    first = next(iter([*named, *reports]), None)
    top = reports[first] if first else _forecaster_report_to_json(ForecasterSums(rules={}), (), random, {})
    return {"forecaster": first, **top, "by_forecaster": reports}


def _forecaster_report_to_json(
    own: ForecasterSums, rounds: Sequence[RoundSums], random: SeededRandom, standings: GroupScores
) -> dict[str, Any]:
    report = own.report(standings, rounds, random.stream("report")).to_json()
    groups = {what: {name: asdict(one) for name, one in standings.get(what, {}).items()} for what in GROUP_KEYS}
    return {**report, "standings": groups}


def _start_of_day(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """What is scored: files with ``rounds``, recorded forecasts without."""

    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files after --forecasts.", show_default=False)
    ] = None
    rounds: Annotated[Path | None, typer.Option(metavar="DIR", help=f"Score files: {ROUNDS_HELP}")] = None
    forecasts: Annotated[
        list[Path] | None, typer.Option(metavar="FILE...", help="Forecast files to score against the rounds.")
    ] = None
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this forecaster (ledger).")] = None
    venue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this venue; with --rounds, the venue of the rounds.")
    ] = None
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only questions of this source, such as a data series (ledger).")
    ] = None
    since: Annotated[
        date | None,
        typer.Option(parser=parse_date, metavar="DATE", help="Only forecasts made since this day (ledger)."),
    ] = None
    on_paper: Annotated[
        bool | None,
        typer.Option("--paper/--live", help="Only paper, or only live (ledger)."),
    ] = None
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the calibration, as .svg or .png.")] = None


@app.command()
@options_from_dataclass(ScoreOptions)
def score(ctx: typer.Context, options: ScoreOptions) -> None:
    """Score resolved forecasts from the ledger, or forecast files from any source."""
    files = [*(options.forecasts or ()), *(options.more or ())]
    require_writable(options.json, "--json")
    if options.plot is not None:
        from bot.cli.output.belief_plot import require_plot_file

        require_plot_file(options.plot)
        require_writable(options.plot, "--plot")
    if options.rounds is None:
        _reject_if_given(files, "--forecasts needs --rounds DIR, the rounds to score the files against")
        config = load_command_config(ctx)
        if not query_ledger(config, lambda records: _has_scores_of(records, options)):
            # Loading plugins takes as long as the rest of the command.
            _, registry = load_config_and_plugins(ctx)
            query_ledger(config, lambda records: _require_known(records, registry, options))
        request = LedgerScoreRequest(
            forecaster=options.forecaster,
            source=options.source,
            plot=options.plot,
            venue=options.venue,
            since=options.since,
            paper=options.on_paper,
            json=options.json,
        )
        print_ledger_scores(config, request)
        return
    if not files:
        message = "--rounds needs --forecasts FILE..., the files to score"
        raise ConfigError(message)
    has_filter = options.forecaster or options.source or options.since or options.on_paper is not None
    _reject_if_given(
        has_filter, "--forecaster, --source, --since, --paper and --live select from the ledger, not from files"
    )
    config, registry = load_config_and_plugins(ctx)
    require_venue_archive(config, registry, options.venue)
    from bot.cli.score_files import FileScoreRequest, print_file_scores

    file_request = FileScoreRequest(
        rounds=options.rounds, files=files, venue=options.venue, json=options.json, plot=options.plot
    )
    print_file_scores(config, registry, file_request)


async def _has_scores_of(records: ReadOnlyState, options: ScoreOptions) -> bool:
    """Return whether forecaster and source, if given, have scores; raises ConfigError for an unknown venue."""
    await require_known_venue(records, options.venue)
    scored = await records.ledger.scores.known_names(scored=True)
    return options.forecaster in {None, *scored.forecasters} and options.source in {None, *scored.sources}


async def _require_known(records: ReadOnlyState, registry: Registry, options: ScoreOptions) -> None:
    """Raise ConfigError, with the nearest names, for a forecaster or source that nothing knows."""
    known = await records.ledger.scores.known_names()
    for option, name, names in (
        ("forecaster", options.forecaster, {*known.forecasters, *registry.forecasters.names}),
        ("source", options.source, known.sources),
    ):
        if name is not None and name not in names:
            message = f"--{option} {name}: there is no such {option}; {suggest_names(name, names)}"
            raise ConfigError(message)


def _reject_if_given(given: object, message: str) -> None:
    if given:
        raise ConfigError(message)
