"""The report of tables of trials: every table in one order, for JSON, Markdown and a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import field

from bot.core.errors import NotFoundError
from bot.core.interfaces import RandomStreams
from bot.core.light_dataclass import dataclass
from bot.evaluation.mixed_effects import fit_mixed_effects
from bot.evaluation.report_tables import ReportTable
from bot.evaluation.trial_pools import (
    BLEND_METHOD,
    EQUAL_BLEND_METHOD,
    PRIOR_BLEND_METHOD,
    blend_methods,
    calibrate_methods,
    pool_trials,
)
from bot.evaluation.trial_scores import (
    ComparisonPlan,
    compare_methods,
    decompose_methods,
    measure_diversity,
    measure_reliability,
    rank_methods,
    score_methods,
    summarise_methods,
)
from bot.evaluation.trial_table import TrialTable

BLEND_METHODS = (BLEND_METHOD, PRIOR_BLEND_METHOD, EQUAL_BLEND_METHOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReportPlan:
    """What the report holds: members to blend, methods to compare with, resamples, and whether effects are mixed."""

    blend: Sequence[str] = ()
    against: Sequence[str] = ()
    resamples: int = 2_000
    mixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """The tables of a report, and the table of trials with its blends."""

    trials: TrialTable
    tables: Sequence[ReportTable]
    notes: Sequence[str] = field(default_factory=tuple)

    def to_json(self) -> dict[str, object]:
        """Return the tables by key, and the notes."""
        return {**{table.key: table.to_json() for table in self.tables}, "notes": [*self.notes]}

    def to_markdown(self) -> str:
        """Return the whole report as Markdown."""
        notes = [f"{note}\n" for note in self.notes]
        return "\n".join(["# Tables of trials", "", *notes, *(table.to_markdown() for table in self.tables)])


def build_trial_report(
    table: TrialTable,
    plan: TrialReportPlan,
    random: RandomStreams,
    *,
    notes: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> TrialReport:
    """Return the report; raises NotFoundError for a method that the tables lack, and where nothing has resolved."""
    table.require_methods([*plan.blend, *(name for name in plan.against if name not in BLEND_METHODS)])
    if not table.resolved:
        message = "no event of the tables has an outcome yet"
        raise NotFoundError(message)
    full, weights = table, None
    if plan.blend:
        rows, weights = blend_methods(table, plan.blend)
        full = table.with_rows(rows)
    plans = comparison_plans(full, plan)
    parts: Sequence[tuple[str, Callable[[], ReportTable | None]]] = (
        ("methods", lambda: summarise_methods(full)),
        ("scores", lambda: score_methods(full, random, plan.resamples)),
        ("ranking", lambda: rank_methods(full)),
        ("comparisons", lambda: compare_methods(full, plans, random, plan.resamples) if plans else None),
        ("blend", lambda: weights),
        ("calibration", lambda: calibrate_methods(table)),
        ("reliability", lambda: measure_reliability(full)),
        ("pools", lambda: pool_trials(table, random)),
        ("variance", lambda: decompose_methods(table)),
        ("mixed effects", lambda: fit_mixed_effects(full) if plan.mixed else None),
        ("diversity", lambda: measure_diversity(full)),
    )
    tables = []
    for name, build in parts:
        progress(name)
        if (part := build()) is not None:
            tables.append(part)
    return TrialReport(trials=full, tables=tables, notes=notes)


def comparison_plans(table: TrialTable, plan: TrialReportPlan) -> list[ComparisonPlan]:
    """Return the comparisons: with each method named, else of the blend with its members, else with the first method.

    Blend and members are compared on the events that all members answered.
    """
    names = [*table.by_method]
    together = [*plan.blend, *BLEND_METHODS] if plan.blend else []
    if plan.against:
        # Others would be compared on other events.
        methods = [name for name in names if name in together] if together else names
        return [ComparisonPlan(reference=one, methods=methods, together=together) for one in plan.against]
    if plan.blend:
        others = [name for name in names if name in {*plan.blend, *BLEND_METHODS}]
        return [
            ComparisonPlan(reference=one, methods=[BLEND_METHOD], together=together)
            for one in others
            if one != BLEND_METHOD
        ]
    return [ComparisonPlan(reference=names[0], methods=names)] if len(names) > 1 else []
