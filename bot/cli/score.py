"""`foxcast score`: scores of resolved forecasts with intervals and the crowd for comparison.

From the ledger or from forecast files written by anyone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.app.venues import find_archive
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import require_known_venue, require_venue_archive
from bot.cli.options import ROUNDS_HELP, options_from_dataclass, parse_date
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, stdout_console
from bot.cli.output.files import STDOUT, write_json
from bot.cli.output.formatting import NO_VALUE, format_interval, format_number
from bot.cli.output.score_report import print_kinds, print_report
from bot.cli.venue_scores import print_unscored, print_venue_scores, venue_scores_to_json
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.outcomes import CROWD_RULE_PREFIX
from bot.evaluation.group_scores import GroupScore, score_group, score_groups
from bot.evaluation.lookup import query_ledger
from bot.evaluation.score_report import ScoreReport, build_report, kind_reports
from bot.evaluation.score_rows import (
    BinaryScoreRow,
    RuleScoreRow,
    ScoredForecastFile,
    pooling_notes,
    score_forecast_files,
)
from bot.plugin_system.registry import Registry
from bot.store.ledger import ReadOnlyState
from bot.store.scores import NonBinaryScores, ResolvedBinaryColumns, ScoreFilter
from bot.store.venue_scores import ReportedStanding, UnscoredQuestion, VenueScoredQuestion

FILE_COLUMNS = (
    TableColumn("file", ColumnKind.TEXT),
    TableColumn("round"),
    TableColumn("scored", ColumnKind.NUMBER),
    TableColumn("missing", ColumnKind.NUMBER),
    TableColumn("market", ColumnKind.NUMBER),
    TableColumn("dataset", ColumnKind.NUMBER),
    TableColumn("mean of indices", ColumnKind.NUMBER),
)


@dataclass(frozen=True, slots=True)
class FileScoreRequest:
    """Which files are scored against which rounds, and where the JSON goes."""

    rounds: Path
    files: Sequence[Path]
    venue: str | None
    json: Path | None


def print_file_scores(config: Config, registry: Registry, asked: FileScoreRequest) -> None:
    """Score the files and tell; raises ContractError and NotFound for files and rounds that cannot be used."""
    venue, archive = find_archive(config, registry, asked.venue, asked.rounds)
    sheets = score_forecast_files(archive, asked.files)
    random = SeededRandom(config.seed)
    total = build_report(
        [row for sheet in sheets for row in sheet.rows],
        rng=random.stream("report"),
        notes=[*pooling_notes(sheets), *(note for sheet in sheets for note in sheet.notes())],
    )
    reports = [build_report(sheet.rows, rng=random.stream("report"), notes=sheet.notes()) for sheet in sheets]
    if asked.json is not None:
        by_file = {
            str(path): {"round": sheet.file.round, "missing": sheet.missing, **report.to_json()}
            for path, sheet, report in zip(asked.files, sheets, reports, strict=True)
        }
        write_json({"venue": venue, **total.to_json(), "by_file": by_file}, asked.json)
    if asked.json != STDOUT:
        _print_file_report(sheets, reports, total)


def _print_file_report(
    sheets: Sequence[ScoredForecastFile], reports: Sequence[ScoreReport], total: ScoreReport
) -> None:
    console = stdout_console()
    if len(sheets) > 1:
        print_heading(console, "Brier Index by file")
        console.print(
            make_table(FILE_COLUMNS, [_file_score_cells(*pair) for pair in zip(sheets, reports, strict=True)])
        )
    names = sheets[0].file.name if len(sheets) == 1 else f"all {len(sheets)} files"
    print_report(console, total, title=f"Scores of {names}")


def _file_score_cells(sheet: ScoredForecastFile, report: ScoreReport) -> tuple[str, ...]:
    block = report.block
    return (
        sheet.file.name,
        sheet.file.round,
        str(len(sheet.rows)),
        f"{sheet.missing:.1%}",
        format_number(block.market.brier_index),
        format_number(block.dataset.brier_index),
        format_number(block.overall.mean_of_indices),
    )


GROUP_COLUMNS = (
    TableColumn("n", ColumnKind.NUMBER),
    TableColumn("rate", ColumnKind.NUMBER),
    TableColumn("Index [95 %]"),
    TableColumn("crowd", ColumnKind.NUMBER),
    TableColumn("on", ColumnKind.NUMBER),
    TableColumn("gain over it [95 %]"),
)


# What venues score, how accounts stand there, and what has no score of ours.
VenueScoreData = tuple[list[VenueScoredQuestion], list[ReportedStanding], list[UnscoredQuestion]]


NOTHING_SCORED = "nothing that was asked for has resolved yet; look at what is open with: foxcast questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerScoreRequest:
    """Which of the recorded forecasts are scored, and where the JSON goes."""

    forecaster: str | None = None
    venue: str | None = None
    since: date | None = None
    paper: bool | None = None
    json: Path | None = None


@dataclass(frozen=True, slots=True)
class VenueScoreRow:
    """A scored prediction of the ledger: the venue, and the row that reports are made from."""

    venue: str
    row: BinaryScoreRow


def print_ledger_scores(config: Config, asked: LedgerScoreRequest) -> None:
    """Score and tell; a ledger without outcomes is no error."""
    since = _start_of_day(asked.since)
    chosen = ScoreFilter(venue=asked.venue, forecaster=asked.forecaster, since=since, paper=asked.paper)
    columns, marked, told = query_ledger(config, lambda records: _load_scores(records, chosen))
    by_forecaster, graded = rows_by_forecaster(columns), graded_by_forecaster(marked)
    if asked.json is not None:
        write_json({**_ledger_scores_to_json(config, by_forecaster, graded), **venue_scores_to_json(*told)}, asked.json)
    if asked.json == STDOUT:
        return
    console = stdout_console()
    for name, rows in by_forecaster.items():
        print_forecaster_scores(console, name, rows, SeededRandom(config.seed))
    for name, others in graded.items():
        print_kinds(console, kind_reports(others, rng=SeededRandom(config.seed).stream("kinds")), whose=f"{name}: ")
    scored, standings, unscored = told
    print_venue_scores(console, scored, standings)
    print_unscored(console, unscored)
    if not (by_forecaster or graded or scored or standings or unscored):
        console.print(NOTHING_SCORED)


async def _load_scores(
    records: ReadOnlyState, chosen: ScoreFilter
) -> tuple[ResolvedBinaryColumns, tuple[NonBinaryScores, ...], VenueScoreData]:
    scores, venues = records.ledger.scores, records.ledger.venue_scores
    standings = [] if chosen.paper else await venues.standings(chosen.venue)
    told = (await venues.scored(chosen), standings, await venues.unscored(chosen))
    return await scores.read_binary_columns(chosen), await scores.read_non_binary_scores(chosen), told


def rows_by_forecaster(columns: ResolvedBinaryColumns) -> dict[str, list[VenueScoreRow]]:
    """Return the scored predictions of each forecaster, by name; those of one series are drawn together."""
    found: dict[str, list[VenueScoreRow]] = {}
    for index, forecaster in enumerate(columns.forecaster):
        ref = columns.ref[index]
        row = BinaryScoreRow(
            round=columns.batch[index] or NO_VALUE,
            family=columns.family[index],
            source=columns.source[index],
            series=f"{ref.venue}:{columns.source[index]}/{columns.series[index] or ref.key}",
            horizon_days=columns.horizon_days[index],
            probability=columns.probability[index],
            outcome=columns.outcome[index],
            crowd=columns.crowd[index],
        )
        found.setdefault(forecaster, []).append(VenueScoreRow(ref.venue, row))
    return dict(sorted(found.items()))


def graded_by_forecaster(marked: Sequence[NonBinaryScores]) -> dict[str, list[RuleScoreRow]]:
    """Return the scored choices and curves of each forecaster, by name."""
    found: dict[str, list[RuleScoreRow]] = {}
    for item in marked:
        row = RuleScoreRow(
            round=item.batch or NO_VALUE,
            kind=item.kind,
            family=item.family,
            source=item.source,
            series=f"{item.ref.venue}:{item.source}/{item.series or item.ref.key}",
            horizon_days=item.horizon_days,
            scores={rule: value for rule, value in item.values.items() if not rule.startswith(CROWD_RULE_PREFIX)},
            crowd_scores={
                rule.removeprefix(CROWD_RULE_PREFIX): value
                for rule, value in item.values.items()
                if rule.startswith(CROWD_RULE_PREFIX)
            },
        )
        if row.scores:
            found.setdefault(item.forecaster, []).append(row)
    return dict(sorted(found.items()))


def print_total_scores(console: Console, name: str, scored: Sequence[VenueScoreRow], random: SeededRandom) -> None:
    """Print one table about a forecaster: all its scored predictions together, and by family."""
    print_heading(console, f"{name}: Brier Index of {len(scored)} resolved predictions (100 is best, 50 is a coin)")
    total = score_group([item.row for item in scored], random.stream("all"))
    console.print(_group_table("", {"all": total, **_score_groups(scored, random)["family"]}))


def print_forecaster_scores(console: Console, name: str, scored: Sequence[VenueScoreRow], random: SeededRandom) -> None:
    """Print all tables about a forecaster."""
    print_total_scores(console, name, scored, random)
    for what, parts in _score_groups(scored, random).items():
        if what != "family" and parts:
            print_heading(console, f"By {what}")
            console.print(_group_table(what, parts))


def _score_groups(scored: Sequence[VenueScoreRow], random: SeededRandom) -> dict[str, dict[str, GroupScore]]:
    keys: dict[str, Callable[[VenueScoreRow], str | None]] = {
        "family": lambda item: item.row.family or None,
        "venue": lambda item: item.venue,
        "source": lambda item: item.row.source or None,
        "horizon": lambda item: None if item.row.horizon_days is None else str(item.row.horizon_days),
    }
    return {what: score_groups(_group_rows(scored, key), random.stream(what)) for what, key in keys.items()}


def _group_rows(
    scored: Sequence[VenueScoreRow], key: Callable[[VenueScoreRow], str | None]
) -> dict[str, list[BinaryScoreRow]]:
    groups: dict[str, list[BinaryScoreRow]] = {}
    for item in scored:
        if (name := key(item)) is not None:
            groups.setdefault(name, []).append(item.row)
    return groups


def _group_table(what: str, groups: Mapping[str, GroupScore]) -> Any:  # noqa: ANN401 - whatever rich prints
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
    config: Config, by_forecaster: Mapping[str, Sequence[VenueScoreRow]], graded: Mapping[str, Sequence[RuleScoreRow]]
) -> dict[str, Any]:
    """Return the report of the first forecaster that config names on top, and of every one by name below it."""
    reports = {
        name: _forecaster_report_to_json(by_forecaster.get(name, ()), SeededRandom(config.seed), graded.get(name, ()))
        for name in sorted({*by_forecaster, *graded})
    }
    named = [name for table in config.venues.values() for name in table.all_forecasters if name in reports]
    first = next(iter([*named, *reports]), None)
    top = reports[first] if first else _forecaster_report_to_json((), SeededRandom(config.seed))
    return {"forecaster": first, **top, "by_forecaster": reports}


def _forecaster_report_to_json(
    scored: Sequence[VenueScoreRow], random: SeededRandom, graded: Sequence[RuleScoreRow] = ()
) -> dict[str, Any]:
    report = build_report([item.row for item in scored], graded=graded, rng=random.stream("report")).to_json()
    groups = {
        what: {name: asdict(one) for name, one in parts.items()}
        for what, parts in _score_groups(scored, random).items()
    }
    return {**report, "standings": groups}


def _start_of_day(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """What is scored: with ``rounds`` files, without the ledger."""

    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files after --forecasts.", show_default=False)
    ] = None
    rounds: Annotated[Path | None, typer.Option(metavar="DIR", help=f"Score files: {ROUNDS_HELP}")] = None
    forecasts: Annotated[
        list[Path] | None, typer.Option(metavar="FILE...", help="Forecast sets to score against the rounds.")
    ] = None
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this forecaster (ledger).")] = None
    venue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this venue; with --rounds, the venue of the rounds.")
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


@app.command()
@options_from_dataclass(ScoreOptions)
def score(ctx: typer.Context, options: ScoreOptions) -> None:
    """Score resolved forecasts from the ledger, or forecast files from any source."""
    files = [*(options.forecasts or ()), *(options.more or ())]
    if options.rounds is None:
        _reject_if_given(files, "--forecasts needs --rounds DIR, the rounds to score the files against")
        config, _ = load_config_and_plugins(ctx)
        query_ledger(config, lambda records: require_known_venue(records, options.venue))
        asked = LedgerScoreRequest(
            forecaster=options.forecaster,
            venue=options.venue,
            since=options.since,
            paper=options.on_paper,
            json=options.json,
        )
        print_ledger_scores(config, asked)
        return
    if not files:
        message = "--rounds needs --forecasts FILE..., the files to score"
        raise ConfigError(message)
    chosen = options.forecaster or options.since or options.on_paper is not None
    _reject_if_given(chosen, "--forecaster, --since, --paper and --live choose from the ledger, not from files")
    config, registry = load_config_and_plugins(ctx)
    require_venue_archive(config, registry, options.venue)
    print_file_scores(config, registry, FileScoreRequest(options.rounds, files, options.venue, options.json))


def _reject_if_given(given: object, message: str) -> None:
    if given:
        raise ConfigError(message)
