"""What venues themselves score our forecasts with, beside our own scores; and what resolved without one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, heading, table
from bot.cli.output.figures import NOTHING, day, number
from bot.cli.output.marks import outcome_words
from bot.domain.prediction import Binary
from bot.domain.resolution import Happened, Void
from bot.domain.score import CHOICE_BASELINE, CURVE_BASELINE, rules_of
from bot.judging import Answer, Marks, marks_of
from bot.store.venue_scores import ToldStanding, Unscored, VenueScored

# So many questions of each venue stand in the table, the newest first; all of them are in the JSON.
SHOWN = 40
# Of each reason so many questions are named.
NAMED = 3
BASELINE = "baseline"
# What is counted for how much of the time, and is no score.
COVERAGE = "coverage"
STANDINGS = (
    Column("contest", Kind.TITLE),
    Column("score"),
    Column("points", Kind.NUMBER),
    Column("rank", Kind.NUMBER),
    Column("of", Kind.NUMBER),
    Column("questions", Kind.NUMBER),
    Column("prize", Kind.NUMBER),
    Column("told"),
)
WITHOUT = (Column("questions", Kind.NUMBER), Column("why", Kind.TEXT), Column("such as", Kind.TEXT))


def print_venue_scores(console: Console, scored: Sequence[VenueScored], standings: Sequence[ToldStanding]) -> None:
    """Print, for each account, its standings and a table of its resolved questions."""
    for (venue, account), group in groupby(scored, key=lambda item: (item.venue, item.account)):
        items = [*group]
        heading(console, f"{venue}, account {account}: {len(items)} resolved questions, as the venue scores them")
        rules = list(dict.fromkeys(rule for item in items for rule in item.values))
        totals = [f"{rule} {total:+.2f}" for rule, total in totals_of(items).items() if rule != COVERAGE]
        if totals:
            console.print(f"in all, each question by its weight: {', '.join(totals)}")
        own = (Column("our score"), Column("our baseline", Kind.NUMBER))
        theirs = (Column(f"its {rule}", Kind.NUMBER) for rule in rules)
        columns = (Column("question", Kind.TITLE), Column("outcome"), *own, *theirs, Column("note", Kind.TEXT))
        console.print(table(columns, [_cells(item, rules) for item in items[:SHOWN]]))
        if len(items) > SHOWN:
            console.print(f"and {len(items) - SHOWN} more: foxcast score --json -")
    if standings:
        heading(console, "Standings, as the venues tell them")
        console.print(table(STANDINGS, [_standing(item) for item in standings]))


def print_unscored(console: Console, unscored: Sequence[Unscored]) -> None:
    """Print what resolved without a score of ours, by the reason."""
    if not unscored:
        return
    heading(console, "Resolved without a score of ours")
    by_reason: dict[str, list[Unscored]] = {}
    for item in unscored:
        by_reason.setdefault(f"{item.forecaster}: {item.why}", []).append(item)
    rows = [(str(len(items)), why, _names(items)) for why, items in sorted(by_reason.items())]
    console.print(table(WITHOUT, rows))


def totals_of(items: Sequence[VenueScored]) -> dict[str, float]:
    """Return the sum of each rule over the questions, each by its weight, as contests count it."""
    totals: dict[str, float] = {}
    for item in items:
        for rule, value in item.values.items():
            totals[rule] = totals.get(rule, 0.0) + item.weight * value
    return totals


def own_marks(item: VenueScored) -> Marks:
    """Return our scores of the forecast that left; its baseline score under ``BASELINE``, also for yes or no."""
    (marks,) = marks_of([Answer(item.prediction, item.shape, item.outcome)])
    found = marks.get(CHOICE_BASELINE, marks.get(CURVE_BASELINE))
    if isinstance(item.prediction, Binary) and isinstance(item.outcome, Happened):
        from bot.science.log_score import baseline_binary

        found = float(baseline_binary([item.prediction.probability], [item.outcome.value])[0])
    return marks if found is None else {**marks, BASELINE: found}


def venue_json(
    scored: Sequence[VenueScored], standings: Sequence[ToldStanding], unscored: Sequence[Unscored]
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
                "outcome": outcome_words(item.outcome, item.shape),
                "resolved_at": item.resolved_at.isoformat(),
                "weight": item.weight,
                "ours": own_marks(item),
                "venue_says": dict(item.values),
                "note": note_of(item),
            }
            for item in scored
        ],
        "standings": [dict(_told(item)) for item in standings],
        "unscored": [
            {"forecaster": one.forecaster, "question": str(one.ref), "target": one.target, "why": one.why}
            for one in unscored
        ],
    }


def note_of(item: VenueScored) -> str:
    """Say why the venue has no score of a kind."""
    if isinstance(item.outcome, Void):
        return f"not scored: {item.outcome.reason}"
    if not item.values:
        return "the venue has told no score yet"
    if item.values.get(COVERAGE) and not any(rule.startswith("spot") for rule in item.values):
        return "none stood when spot scores were taken"
    return ""


def _cells(item: VenueScored, rules: Sequence[str]) -> tuple[str, ...]:
    marks = own_marks(item)
    first = next((rule for rule in rules_of(item.shape.kind) if rule.name in marks), None)
    own = NOTHING if first is None else f"{first.title} {number(marks[first.name], first.digits)}"
    return (
        f"{item.ref.key} {item.title}",
        outcome_words(item.outcome, item.shape),
        own,
        number(marks.get(BASELINE)),
        *(number(item.values.get(rule)) for rule in rules),
        note_of(item),
    )


def _standing(item: ToldStanding) -> tuple[str, ...]:
    one = item.standing
    counts = (NOTHING if count is None else str(count) for count in (one.rank, one.entrants, one.questions))
    return (f"{item.venue} {one.contest}", one.rule, number(one.points), *counts, number(one.prize), day(item.at))


def _told(item: ToldStanding) -> Iterator[tuple[str, object]]:
    yield from (("venue", item.venue), ("account", item.account), ("told_at", item.at.isoformat()))
    fields: Mapping[str, object] = {name: getattr(item.standing, name) for name in type(item.standing).__slots__}
    yield from fields.items()


def _names(items: Sequence[Unscored]) -> str:
    refs = list(dict.fromkeys(str(item.ref) for item in items))
    more = f" and {len(refs) - NAMED} more" if len(refs) > NAMED else ""
    return f"{', '.join(refs[:NAMED])}{more}"
