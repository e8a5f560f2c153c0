"""A report of scores as tables: by family, round, source and horizon, with intervals and the crowd beside it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from bot.cli.output.console import Column, Kind, heading, table
from bot.cli.output.figures import NOTHING, interval, number
from bot.domain.score import Rule, rules_of
from bot.lab.kinds import KindReport, Means
from bot.lab.report import Block, Cell, Report, Span

CELLS = (
    Column("n", Kind.NUMBER),
    Column("base rate", Kind.NUMBER),
    Column("Brier", Kind.NUMBER),
    Column("Brier Index", Kind.NUMBER),
)
OVERALLS = {
    "mean_of_indices": "Overall, mean of the two indices",
    "index_of_mean_brier": "Overall, index of the mean Brier score",
}
NOTES_SHOWN = 10
NAMES = {"choice": "choices", "curve": "curves"}
RULE_COLUMNS = (
    Column("score"),
    Column("better"),
    Column("mean", Kind.NUMBER),
    Column("95 % interval"),
    Column("crowd", Kind.NUMBER),
    Column("on", Kind.NUMBER),
    Column("gain over it [95 %]"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlay:
    """What an experiment cost, under the keys of the report: all its runs, and of that, what this one added.

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


def print_outlay(console: Console, outlay: Outlay) -> None:
    """Print what it cost."""
    cached = outlay.tokens_cached / outlay.tokens_in if outlay.tokens_in else 0.0
    heading(console, "Costs")
    console.print(
        f"all in all: {_calls(outlay.calls)} of models ({outlay.unanswered} without an answer), "
        f"{outlay.tokens_in:,} tokens in ({cached:.0%} cached), {outlay.tokens_out:,} out, {outlay.cost_usd:.4f} USD"
    )
    console.print(f"of that now: {_calls(outlay.now_calls)}, {outlay.now_usd:.4f} USD")


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def print_report(console: Console, report: Report, *, title: str) -> None:
    """Print the whole report; parts without rows are left out."""
    heading(console, title)
    if families := [*_families(report)]:
        console.print(table((Column(""), *CELLS, Column("95 % interval")), families))
    for name, words in OVERALLS.items():
        value, span = getattr(report.block.overall, name), report.intervals.get(f"overall.{name}")
        if value is not None:
            console.print(f"{words}: {number(value)} {_span(span)}".rstrip(" -"))
    if len(report.by_round) > 1 and families:
        _print_rounds(console, report.by_round)
    for what, cells in (("source", report.by_source), ("horizon in days", report.by_horizon)):
        if cells:
            heading(console, f"By {what}")
            console.print(table((Column(what), *CELLS), [(name, *_cells(cell)) for name, cell in cells.items()]))
    print_kinds(console, report.kinds)
    _print_notes(console, report)


def print_kinds(console: Console, kinds: Mapping[str, KindReport], *, whose: str = "", groups: bool = True) -> None:
    """Print the scores of choices and of curves, each kind by itself; ``whose`` begins the headings."""
    for kind, found in kinds.items():
        rules = rules_of(kind)
        missing = f", {found.imputed} of them missing and counted as the flat forecast" if found.imputed else ""
        heading(console, f"{whose}{found.n} resolved {kind if found.n == 1 else NAMES[kind]}{missing}")
        console.print(table(RULE_COLUMNS, [_rule(found, rule) for rule in rules]))
        for what, parts in (("source", found.by_source), ("horizon in days", found.by_horizon)):
            if parts and groups:
                columns = (Column(what), Column("n", Kind.NUMBER), *(Column(one.title, Kind.NUMBER) for one in rules))
                heading(console, f"{NAMES[kind].capitalize()} by {what}")
                console.print(table(columns, [(name, *_means(part, rules)) for name, part in parts.items()]))


def _rule(found: KindReport, rule: Rule) -> tuple[str, ...]:
    span, crowd = found.scores[rule.name], found.crowd
    better = "more" if rule.more_is_better else "less"
    own = (rule.title, better, number(span.estimate, rule.digits), _interval(span, rule))
    if crowd is None:
        return *own, NOTHING, NOTHING, NOTHING
    gain = crowd.gains[rule.name]
    told = f"{gain.estimate:+.{rule.digits}f} {_interval(gain, rule)}"
    return *own, number(crowd.scores[rule.name], rule.digits), str(crowd.n), told


def _interval(span: Span, rule: Rule) -> str:
    return f"[{number(span.low, rule.digits)}, {number(span.high, rule.digits)}]"


def _means(group: Means, rules: Sequence[Rule]) -> tuple[str, ...]:
    return str(group.n), *(number(group.scores[rule.name], rule.digits) for rule in rules)


def _families(report: Report) -> Iterator[tuple[str, ...]]:
    for name, cell in (("market", report.block.market), ("dataset", report.block.dataset)):
        if cell.n:
            yield name, *_cells(cell), _span(report.intervals.get(f"{name}.brier_index"))
    if report.crowd.n:
        yield "crowd, where there is one", *_cells(report.crowd), NOTHING


def _cells(cell: Cell) -> tuple[str, str, str, str]:
    return str(cell.n), number(cell.base_rate, 3), number(cell.brier, 4), number(cell.brier_index)


def _span(span: Span | None) -> str:
    return NOTHING if span is None else interval(span.low, span.high)


def _print_rounds(console: Console, rounds: Mapping[str, Block]) -> None:
    columns = (
        Column("round"),
        Column("n", Kind.NUMBER),
        Column("market", Kind.NUMBER),
        Column("dataset", Kind.NUMBER),
        Column("mean of indices", Kind.NUMBER),
        Column("index of mean Brier", Kind.NUMBER),
    )
    heading(console, "Brier Index by round")
    console.print(table(columns, [(name, *_round(block)) for name, block in rounds.items()]))


def _round(block: Block) -> tuple[str, ...]:
    indices = (
        block.market.brier_index,
        block.dataset.brier_index,
        block.overall.mean_of_indices,
        block.overall.index_of_mean_brier,
    )
    return str(block.market.n + block.dataset.n), *map(number, indices)


def _print_notes(console: Console, report: Report) -> None:
    for note in report.notes[:NOTES_SHOWN]:
        console.print(Text(f"note: {note}", style="yellow"))
    if (more := len(report.notes) - NOTES_SHOWN) > 0:
        console.print(f"and {more} more notes; --json has them all")
