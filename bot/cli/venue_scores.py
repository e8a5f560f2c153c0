"""How venues themselves score our forecasts, next to our own scores, and what resolved without a score."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.cli.output.formatting import NO_VALUE, format_day, format_number
from bot.cli.output.outcomes import describe_outcome
from bot.core.outcomes import CHOICE_BASELINE, CURVE_BASELINE, BinaryOutcome, VoidOutcome, scoring_rules_for
from bot.core.predictions import BinaryPrediction
from bot.stats.scoring_rules import ResolvedPrediction, RuleScores, score_predictions
from bot.store.venue_scores import ReportedStanding, UnscoredQuestion, VenueScoredQuestion

# So many questions of each venue stand in the table, the newest first; all of them are in the JSON.
MAX_QUESTIONS_SHOWN = 40
# Of each reason so many questions are named.
MAX_QUESTIONS_NAMED = 3
BASELINE = "baseline"
# What is counted for how much of the time, and is no score.
COVERAGE = "coverage"
STANDING_COLUMNS = (
    TableColumn("contest", ColumnKind.TITLE),
    TableColumn("score"),
    TableColumn("points", ColumnKind.NUMBER),
    TableColumn("rank", ColumnKind.NUMBER),
    TableColumn("of", ColumnKind.NUMBER),
    TableColumn("questions", ColumnKind.NUMBER),
    TableColumn("prize", ColumnKind.NUMBER),
    TableColumn("told"),
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
            console.print(f"in all, each question by its weight: {', '.join(totals)}")
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
        print_heading(console, "Standings, as the venues tell them")
        console.print(make_table(STANDING_COLUMNS, [_standing_cells(item) for item in standings]))


def print_unscored(console: Console, unscored: Sequence[UnscoredQuestion]) -> None:
    """Print what resolved without a score of ours, by the reason."""
    if not unscored:
        return
    print_heading(console, "Resolved without a score of ours")
    by_reason: dict[str, list[UnscoredQuestion]] = {}
    for item in unscored:
        by_reason.setdefault(f"{item.forecaster}: {item.why}", []).append(item)
    rows = [(str(len(items)), why, _question_names(items)) for why, items in sorted(by_reason.items())]
    console.print(make_table(UNSCORED_COLUMNS, rows))


def weighted_totals(items: Sequence[VenueScoredQuestion]) -> dict[str, float]:
    """Return the sum of each rule over the questions, each by its weight, as contests count it."""
    totals: dict[str, float] = {}
    for item in items:
        for rule, value in item.values.items():
            totals[rule] = totals.get(rule, 0.0) + item.weight * value
    return totals


def own_scores(item: VenueScoredQuestion) -> RuleScores:
    """Return our scores of the forecast that left; its baseline score under ``BASELINE``, also for yes or no."""
    (marks,) = score_predictions([ResolvedPrediction(item.prediction, item.shape, item.outcome)])
    found = marks.get(CHOICE_BASELINE, marks.get(CURVE_BASELINE))
    if isinstance(item.prediction, BinaryPrediction) and isinstance(item.outcome, BinaryOutcome):
        from bot.stats.scores import binary_baseline_scores

        found = float(binary_baseline_scores([item.prediction.probability], [item.outcome.value])[0])
    return marks if found is None else {**marks, BASELINE: found}


def venue_scores_to_json(
    scored: Sequence[VenueScoredQuestion], standings: Sequence[ReportedStanding], unscored: Sequence[UnscoredQuestion]
) -> dict[str, Any]:
    """Return all of it for programs."""
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
    """Say why the venue has no score of a kind."""
    if isinstance(item.outcome, VoidOutcome):
        return f"not scored: {item.outcome.reason}"
    if not item.values:
        return "the venue has told no score yet"
    if item.values.get(COVERAGE) and not any(rule.startswith("spot") for rule in item.values):
        return "none stood when spot scores were taken"
    return ""


def _venue_score_cells(item: VenueScoredQuestion, rules: Sequence[str]) -> tuple[str, ...]:
    marks = own_scores(item)
    first = next((rule for rule in scoring_rules_for(item.shape.kind) if rule.name in marks), None)
    own = NO_VALUE if first is None else f"{first.title} {format_number(marks[first.name], first.digits)}"
    return (
        f"{item.ref.key} {item.title}",
        describe_outcome(item.outcome, item.shape),
        own,
        format_number(marks.get(BASELINE)),
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
    refs = list(dict.fromkeys(str(item.ref) for item in items))
    more = f" and {len(refs) - MAX_QUESTIONS_NAMED} more" if len(refs) > MAX_QUESTIONS_NAMED else ""
    return f"{', '.join(refs[:MAX_QUESTIONS_NAMED])}{more}"
