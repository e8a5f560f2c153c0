"""Scores of forecast files: the rounds of one author pooled, files of several authors compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bot.app.venues import find_archive
from bot.cli.output.calibration_plot import draw_calibration
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, stdout_console
from bot.cli.output.files import STDOUT, write_json
from bot.cli.output.report_tables import print_report_tables
from bot.cli.output.score_report import print_report
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.interfaces import RoundArchive
from bot.core.light_dataclass import dataclass
from bot.evaluation.report_tables import ReportTable
from bot.evaluation.score_report import RESAMPLES, ScoreReport, build_report
from bot.evaluation.score_rows import ScoredForecastFile, group_files, score_forecast_files
from bot.evaluation.trial_scores import ComparisonPlan, compare_methods, measure_reliability
from bot.evaluation.trial_table import TrialTable, make_table_of_trials, round_rows
from bot.evaluation.value_text import format_number
from bot.plugin_system.registry import Registry

FILE_COLUMNS = (
    TableColumn("file", ColumnKind.TEXT),
    TableColumn("round"),
    TableColumn("scored", ColumnKind.NUMBER),
    TableColumn("missing", ColumnKind.NUMBER),
    TableColumn("market", ColumnKind.NUMBER),
    TableColumn("dataset", ColumnKind.NUMBER),
    TableColumn("mean of indices", ColumnKind.NUMBER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScoreRequest:
    """Which files are scored against which rounds, and where JSON and plot are written."""

    rounds: Path
    files: Sequence[Path]
    venue: str | None
    json: Path | None
    plot: Path | None


def print_file_scores(config: Config, registry: Registry, request: FileScoreRequest) -> None:
    """Score the files and print it; raises MalformedDataError and NotFoundError for unusable files and rounds."""
    venue, archive = find_archive(config, registry, request.venue, request.rounds)
    scored_files = score_forecast_files(archive, request.files)
    random, groups = SeededRandom(config.seed), group_files(scored_files)
    reports = {name: _file_report(files, random) for name, files in groups.items()}
    by_file = [_file_report([one], random) for one in scored_files]
    table = _files_table(archive, groups)
    tables = _compare_groups(table, random)
    if request.json is not None:
        files = {
            str(path): {"round": one.file.round, "missing": one.missing, **report.to_json()}
            for path, one, report in zip(request.files, scored_files, by_file, strict=True)
        }
        first, *others = reports.values()
        named = {"by_group": {name: report.to_json() for name, report in reports.items()}} if others else {}
        plain = {one.key: one.to_json() for one in tables}
        write_json({"venue": venue, **first.to_json(), "by_file": files, **named, **plain}, request.json)
    if request.plot is not None:
        draw_calibration(table, request.plot)
    if request.json == STDOUT:
        return
    console = stdout_console()
    if len(scored_files) > 1:
        print_heading(console, "Brier Index by file")
        console.print(
            make_table(FILE_COLUMNS, [_file_score_cells(*pair) for pair in zip(scored_files, by_file, strict=True)])
        )
    for name, report in reports.items():
        print_report(console, report, title=f"Scores of {_group_title(name, groups[name])}")
    print_report_tables(console, tables)


def _group_title(name: str, files: Sequence[ScoredForecastFile]) -> str:
    return files[0].file.name if len(files) == 1 else f"the {len(files)} files of {name}"


def _file_report(files: Sequence[ScoredForecastFile], random: SeededRandom) -> ScoreReport:
    return build_report(
        [row for one in files for row in one.rows],
        rng=random.stream("report"),
        notes=[note for one in files for note in one.notes()],
    )


def _files_table(archive: RoundArchive, groups: Mapping[str, Sequence[ScoredForecastFile]]) -> TrialTable:
    """Return the answers of each group as a table of trials; a missing row is no answer."""
    return make_table_of_trials(
        row
        for name, files in groups.items()
        for one in files
        for row in round_rows(
            archive.read_round(one.file.round),
            name,
            {(ref.key, target): probability for (ref, target), probability in one.file.probabilities.items()},
        )
    )


def _compare_groups(table: TrialTable, random: SeededRandom) -> list[ReportTable]:
    if not table.resolved:
        return []
    first, *others = table.by_method
    plans = [ComparisonPlan(reference=first, methods=others)]
    compared = [compare_methods(table, plans, random, RESAMPLES)] if others else []
    return [*compared, measure_reliability(table)]


def _file_score_cells(scored_file: ScoredForecastFile, report: ScoreReport) -> tuple[str, ...]:
    block = report.block
    return (
        scored_file.file.name,
        scored_file.file.round,
        str(len(scored_file.rows)),
        f"{scored_file.missing:.1%}",
        format_number(block.market.brier_index),
        format_number(block.dataset.brier_index),
        format_number(block.overall.mean_of_indices),
    )
