"""A score report as tables: by family, round, source and horizon, with intervals and the crowd for comparison."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.core.outcomes import ScoringRule, scoring_rules_for
from bot.evaluation.score_report import BinaryScores, FamilyScores, GroupMeans, KindReport, ScoreInterval, ScoreReport
from bot.evaluation.value_text import NO_VALUE, format_interval, format_number

SCORE_COLUMNS = (
    TableColumn("n", ColumnKind.NUMBER),
    TableColumn("base rate", ColumnKind.NUMBER),
    TableColumn("Brier", ColumnKind.NUMBER),
    TableColumn("Brier Index", ColumnKind.NUMBER),
)


OVERALL_SCORES = {
    "mean_of_indices": "Overall, mean of the two indices",
    "index_of_mean_brier": "Overall, index of the mean Brier score",
}


MAX_NOTES_SHOWN = 10


KIND_PLURALS = {"choice": "choices", "curve": "curves"}


RULE_COLUMNS = (
    TableColumn("score"),
    TableColumn("better"),
    TableColumn("mean", ColumnKind.NUMBER),
    TableColumn("95 % interval"),
    TableColumn("crowd", ColumnKind.NUMBER),
    TableColumn("on", ColumnKind.NUMBER),
    TableColumn("gain over it [95 %]"),
)


def print_report(console: Console, report: ScoreReport, *, title: str) -> None:
    """Print the whole report; parts without rows are left out."""
    print_heading(console, title)
    if families := [*_family_rows(report)]:
        console.print(make_table((TableColumn(""), *SCORE_COLUMNS, TableColumn("95 % interval")), families))
    for name, words in OVERALL_SCORES.items():
        value, span = getattr(report.block.overall, name), report.intervals.get(f"overall.{name}")
        if value is not None:
            console.print(f"{words}: {format_number(value)} {_span_text(span)}".rstrip(" -"))
    if len(report.by_round) > 1 and families:
        _print_rounds(console, report.by_round)
    for what, cells in (("source", report.by_source), ("horizon in days", report.by_horizon)):
        if cells:
            print_heading(console, f"By {what}")
            console.print(
                make_table(
                    (TableColumn(what), *SCORE_COLUMNS), [(name, *_score_cells(cell)) for name, cell in cells.items()]
                )
            )
    print_kinds(console, report.kinds)
    _print_notes(console, report)


def print_kinds(console: Console, kinds: Mapping[str, KindReport], *, prefix: str = "", groups: bool = True) -> None:
    """Print the scores of choices and of curves, each kind by itself; ``prefix`` begins the headings."""
    for kind, found in kinds.items():
        rules = scoring_rules_for(kind)
        missing = f", {found.imputed} of them missing and counted as uniform forecasts" if found.imputed else ""
        print_heading(console, f"{prefix}{found.n} resolved {kind if found.n == 1 else KIND_PLURALS[kind]}{missing}")
        console.print(make_table(RULE_COLUMNS, [_rule_cells(found, rule) for rule in rules]))
        for what, parts in (("source", found.by_source), ("horizon in days", found.by_horizon)):
            if parts and groups:
                columns = (
                    TableColumn(what),
                    TableColumn("n", ColumnKind.NUMBER),
                    *(TableColumn(one.title, ColumnKind.NUMBER) for one in rules),
                )
                print_heading(console, f"{KIND_PLURALS[kind].capitalize()} by {what}")
                console.print(make_table(columns, [(name, *_mean_cells(part, rules)) for name, part in parts.items()]))


def _rule_cells(found: KindReport, rule: ScoringRule) -> tuple[str, ...]:
    span, crowd = found.scores[rule.name], found.crowd
    better = "higher" if rule.more_is_better else "lower"
    own = (rule.title, better, format_number(span.estimate, rule.digits), _interval_text(span, rule))
    if crowd is None:
        return *own, NO_VALUE, NO_VALUE, NO_VALUE
    gain = crowd.gains[rule.name]
    gain_text = f"{gain.estimate:+.{rule.digits}f} {_interval_text(gain, rule)}"
    return *own, format_number(crowd.scores[rule.name], rule.digits), str(crowd.n), gain_text


def _interval_text(span: ScoreInterval, rule: ScoringRule) -> str:
    return format_interval(span.low, span.high, rule.digits)


def _mean_cells(group: GroupMeans, rules: Sequence[ScoringRule]) -> tuple[str, ...]:
    return str(group.n), *(format_number(group.scores[rule.name], rule.digits) for rule in rules)


def _family_rows(report: ScoreReport) -> Iterator[tuple[str, ...]]:
    for name, cell in (("market", report.block.market), ("dataset", report.block.dataset)):
        if cell.n:
            yield name, *_score_cells(cell), _span_text(report.intervals.get(f"{name}.brier_index"))
    if report.crowd.n:
        yield "crowd, if there is one", *_score_cells(report.crowd), NO_VALUE


def _score_cells(cell: BinaryScores) -> tuple[str, str, str, str]:
    return str(cell.n), format_number(cell.base_rate, 3), format_number(cell.brier, 4), format_number(cell.brier_index)


def _span_text(span: ScoreInterval | None) -> str:
    return NO_VALUE if span is None else format_interval(span.low, span.high)


def _print_rounds(console: Console, rounds: Mapping[str, FamilyScores]) -> None:
    columns = (
        TableColumn("round"),
        TableColumn("n", ColumnKind.NUMBER),
        TableColumn("market", ColumnKind.NUMBER),
        TableColumn("dataset", ColumnKind.NUMBER),
        TableColumn("mean of indices", ColumnKind.NUMBER),
        TableColumn("index of mean Brier", ColumnKind.NUMBER),
    )
    print_heading(console, "Brier Index by round")
    console.print(make_table(columns, [(name, *_round_cells(block)) for name, block in rounds.items()]))


def _round_cells(block: FamilyScores) -> tuple[str, ...]:
    indices = (
        block.market.brier_index,
        block.dataset.brier_index,
        block.overall.mean_of_indices,
        block.overall.index_of_mean_brier,
    )
    return str(block.market.n + block.dataset.n), *map(format_number, indices)


def _print_notes(console: Console, report: ScoreReport) -> None:
    for note in report.notes[:MAX_NOTES_SHOWN]:
        console.print(Text(f"note: {note}", style="yellow"))
    if (more := len(report.notes) - MAX_NOTES_SHOWN) > 0:
        console.print(f"and {more} more notes; --json has all of them")
