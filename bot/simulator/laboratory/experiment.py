"""The experiments: the worth of each part of the pipeline.

Also how forecasters compare, whether planted effects are found, and the report.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypedDict

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.forecasting.aggregation import PoolingMethod
from bot.simulator.laboratory.answers import LOGIT_MEAN, ForecasterAnswers
from bot.simulator.laboratory.forecaster_comparison import (
    BLEND,
    comparison_lines,
    comparison_variants,
    forecaster_plugins,
    member_answers,
)
from bot.simulator.laboratory.forecaster_variants import (
    BOLD_ONE_STEP,
    PLAIN_ONE_STEP,
    REFERENCE,
    TRIAL_COUNTS,
    ForecasterVariant,
    ablation_variants,
)
from bot.simulator.laboratory.planted_effects import RESAMPLES, EffectRecovery, check_leaks, check_overconfidence
from bot.simulator.laboratory.questions import (
    LaboratoryQuestion,
    ReferenceAnswers,
    create_world,
    follow_questions,
    reference_answers,
    select_questions,
)
from bot.simulator.laboratory.runs import (
    ForecasterJob,
    ProgressCallback,
    StalenessJob,
    run_all_jobs,
    run_blend_job,
    run_job,
    run_staleness_job,
)
from bot.simulator.laboratory.score_table import AnswerLine, LaboratoryScore, score_lines
from bot.simulator.laboratory.staleness import staleness_lines, staleness_variants
from bot.simulator.laboratory.trial_runner import PRICE_IN, PRICE_OUT

# Where answers are cheap, there are this many questions for the gate to decide on.
CALIBRATION_QUESTIONS = 1_500


ONE_TRIAL_PART = "1 trial"


FORECASTERS = ("baseline", "blf")


BASELINE_VARIANT = ForecasterVariant(name="baseline", forecaster="baseline", models_by_role={}, filter=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """The request: a world by its seed, how many questions, where ledgers go, and parts or else forecasters.

    With ``hides_crowd`` the forecasters that are compared see no market price. With ``days`` they follow each question
    for so many days.
    """

    seed: int
    questions: int
    folder: Path
    parts: Collection[str] = ()
    forecasters: Collection[str] = ()
    hides_crowd: bool = False
    days: int = 0
    processes: int = 1
    many: int = CALIBRATION_QUESTIONS
    resamples: int = RESAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFindings:
    """The result: the table, the recoveries, and how many trials took how many seconds of all processes."""

    rows: Sequence[LaboratoryScore]
    recoveries: Sequence[EffectRecovery]
    trials: int
    trial_seconds: float


class _TrialSpeed(TypedDict):
    trials: int
    trial_seconds: float


def run_ablations(plan: ExperimentPlan, tell: ProgressCallback) -> ExperimentFindings:
    """Run everything that the parts need and combine the results."""
    setups = [*ablation_variants(plan.parts), BASELINE_VARIANT]
    jobs = [_make_job(plan, setup, plan.questions) for setup in setups]
    if "overconfidence" in plan.parts:
        jobs += [_make_job(plan, setup, plan.many) for setup in (PLAIN_ONE_STEP, BOLD_ONE_STEP)]
    return gather_ablations(plan, {one.name: one for one in run_all_jobs(run_job, jobs, plan.processes, tell)})


def gather_ablations(plan: ExperimentPlan, found: Mapping[str, ForecasterAnswers]) -> ExperimentFindings:
    """Return the lines of the answers, by the names of their setups."""
    cases = select_questions(create_world(plan.seed, plan.questions), plan.questions)
    random = SeededRandom(plan.seed)
    lines = [*_ablation_lines(plan, found), *reference_lines(reference_answers(cases)), *_variant_lines(found)]
    rows = score_lines(lines, cases, random.stream("lab", "table"))
    return ExperimentFindings(
        rows=rows,
        recoveries=[*_check_recoveries(plan, found, rows, random)],
        **_total_speed(found),
    )


def run_comparison(plan: ExperimentPlan, tell: ProgressCallback) -> ExperimentFindings:
    """Run all forecasters on the same questions and combine the results."""
    plugins = forecaster_plugins(plan.forecasters)
    jobs = [
        ForecasterJob(seed=plan.seed, count=plan.questions, setup=setup, folder=plan.folder, plugins=plugins)
        for setup in comparison_variants(plan.forecasters, hides_crowd=plan.hides_crowd)
    ]
    found = {one.name: one for one in run_all_jobs(run_job, jobs, plan.processes, tell)}
    if BLEND in plan.forecasters:
        # Its setup names the members; everything else is as for any other.
        found[BLEND] = run_blend_job(replace(jobs[0], plugins=plugins), member_answers(found))
    return gather_comparison(plan, found)


def gather_comparison(plan: ExperimentPlan, found: Mapping[str, ForecasterAnswers]) -> ExperimentFindings:
    """Return how forecasters compare, from their answers by the names of their setups."""
    cases = select_questions(create_world(plan.seed, plan.questions), plan.questions)
    lines = [*comparison_lines(found)]
    lines += reference_lines(reference_answers(cases), against=lines[0].name)
    rng = SeededRandom(plan.seed).stream("lab", "comparison")
    return ExperimentFindings(rows=score_lines(lines, cases, rng), recoveries=(), **_total_speed(found))


def run_staleness(plan: ExperimentPlan, tell: ProgressCallback) -> ExperimentFindings:
    """Follow the same questions day by day with all forecasters, and compare how often forecasts are renewed."""
    plugins = forecaster_plugins(plan.forecasters)
    variants = staleness_variants(plan.forecasters, hides_crowd=plan.hides_crowd)
    jobs = [
        StalenessJob(
            seed=plan.seed, count=plan.questions, setup=one, folder=plan.folder, plugins=plugins, days=plan.days
        )
        for one in variants
    ]
    found = run_all_jobs(run_staleness_job, jobs, plan.processes, tell)
    cases = follow_questions(create_world(plan.seed, plan.questions), plan.questions, plan.days)
    lines = [*staleness_lines(found, variants, cases)]
    lines += reference_lines(reference_answers(cases), against=lines[0].name)
    rng = SeededRandom(plan.seed).stream("lab", "staleness")
    return ExperimentFindings(
        rows=score_lines(lines, cases, rng),
        recoveries=(),
        trials=sum(len(trials) for one in found for trials in one.trials),
        trial_seconds=sum(one.seconds for one in found),
    )


def _total_speed(found: Mapping[str, ForecasterAnswers]) -> "_TrialSpeed":
    return _TrialSpeed(
        trials=sum(one.trials * len(one.pooled_answers(1)) for one in found.values()),
        trial_seconds=sum(one.use.seconds for one in found.values()),
    )


def reference_lines(bounds: ReferenceAnswers, against: str = REFERENCE) -> Iterator[AnswerLine]:
    """Yield the answers that need no forecaster: the truth, which nobody can beat, the crowd, and weaker ones."""
    answers_and_notes: Mapping[str, tuple[Sequence[float], str]] = {
        "true chance": (
            bounds.truth,
            "the world's own probability at the cutoff: no honest forecaster beats it in the long run",
        ),
        "crowd": (bounds.crowd, "the price at the cutoff"),
        "base rate so far": (bounds.base_rate, "the share of yes among outcomes known before the cutoff"),
        "even odds": (bounds.even, ""),
    }
    for name, (answers, note) in answers_and_notes.items():
        yield AnswerLine(name=name, part="bounds", answers=answers, reference=against, note=note)


def _make_job(plan: ExperimentPlan, setup: ForecasterVariant, count: int) -> ForecasterJob:
    return ForecasterJob(seed=plan.seed, count=count, setup=setup, folder=plan.folder, plugins=FORECASTERS)


def _ablation_lines(plan: ExperimentPlan, found: Mapping[str, ForecasterAnswers]) -> Iterator[AnswerLine]:
    reference = found[REFERENCE]
    most = reference.trials
    note = f"blf with its settings as shipped, {most} trials, logit mean" if most > 1 else "blf as shipped, 1 trial"
    yield AnswerLine(
        name=REFERENCE, part=REFERENCE, answers=reference.pooled_answers(most), use=reference.use, note=note
    )
    if most > 1:
        for count in TRIAL_COUNTS[:-1]:
            words = f"{count} trials" if count > 1 else ONE_TRIAL_PART
            note = "the first of the reference's trials, without new calls"
            line = AnswerLine(
                name=words, part="trials", answers=reference.pooled_answers(count), reference=REFERENCE, note=note
            )
            if count == 1 or "trials" in plan.parts:
                yield line
    if "aggregate" in plan.parts:
        for pool in (pool for pool in map(str, PoolingMethod) if pool != LOGIT_MEAN):
            answers = reference.pooled_answers(most, pool)
            yield AnswerLine(
                name=pool, part="aggregate", answers=answers, reference=REFERENCE, note="of the same trials"
            )
    if reference.corrected is not None:
        moved = len(reference.corrected.adopted)
        note = f"the gate let a fit move {moved} of {len(reference.corrected.answers)}; identity for the others"
        answers = reference.corrected.answers
        yield AnswerLine(name="gated calibration", part="gate", answers=answers, reference=REFERENCE, note=note)


def _variant_lines(found: Mapping[str, ForecasterAnswers]) -> Iterator[AnswerLine]:
    """Yield the variants, each with one trial and compared with the first one of the reference."""
    against = ONE_TRIAL_PART if found[REFERENCE].trials > 1 else REFERENCE
    for name, one in found.items():
        if name not in {REFERENCE, PLAIN_ONE_STEP.name, BOLD_ONE_STEP.name}:
            part = "bounds" if name == BASELINE_VARIANT.name else "variants"
            silent = f"{one.unanswered} questions without an answer count as even odds" if one.unanswered else ""
            yield AnswerLine(
                name=name, part=part, answers=one.pooled_answers(1), reference=against, use=one.use, note=silent
            )


def _check_recoveries(
    plan: ExperimentPlan, found: Mapping[str, ForecasterAnswers], rows: Sequence[LaboratoryScore], random: SeededRandom
) -> Iterator[EffectRecovery]:
    if "overconfidence" in plan.parts:
        cases: Sequence[LaboratoryQuestion] = select_questions(create_world(plan.seed, plan.many), plan.many)
        rng = random.stream("lab", "overconfidence")
        plain, bold = found[PLAIN_ONE_STEP.name], found[BOLD_ONE_STEP.name]
        yield check_overconfidence(plain, bold, cases, rng, resamples=plan.resamples)
    if "leaks" in plan.parts:
        yield from check_leaks(found, {row.name: row for row in rows})


REPORT_NOTES = (
    "Everything here is a simulation: the world, its press and crowd, and the models, which are a rule.",
    "The machinery around them is the real one: tools, guards, gateway, ledger, aggregation, calibration, audit.",
    "So signs and recoveries show that the parts work as intended; sizes say nothing about real models.",
    "Differences are paired over the same questions, with 95 % intervals by bootstrap over groups of questions.",
    "The distance to truth is the mean square; it means nothing for a forecaster that knows outcomes.",
    "A call that several trials of a question share is counted once, for the first of them.",
)


STALENESS_NOTES = (
    "Time passes here as it does for the daemon: each day counts as one forecast, made then or used from before.",
    "A question is one group of the bootstrap, with all of its days.",
)


ABLATION_NOTES = ("Variants have one trial each and are compared with the first trial of the reference.",)


def make_report(plan: ExperimentPlan, found: ExperimentFindings, *, seconds: float) -> dict[str, Any]:
    """Return everything under stable keys."""
    return {
        "simulation": True,
        "seed": plan.seed,
        "questions": plan.questions if plan.days else found.rows[0].n,
        "days": plan.days,
        "forecasts": found.rows[0].n,
        "parts": [*plan.parts],
        "forecasters": [*plan.forecasters],
        "hides_crowd": plan.hides_crowd,
        "prices_usd_per_million_tokens": {"in": PRICE_IN, "out": PRICE_OUT},
        "rows": [_row_report(row) for row in found.rows],
        "recoveries": [
            {
                "name": one.name,
                "planted": one.planted,
                "found": one.found,
                "verdict": "recovered" if one.recovered else "NOT recovered",
                "figures": dict(one.figures),
            }
            for one in found.recoveries
        ],
        "notes": [
            *REPORT_NOTES,
            *(ABLATION_NOTES if plan.parts else ()),
            *(STALENESS_NOTES if plan.days else ()),
        ],
        "speed": {
            "seconds": round(seconds, 1),
            "trials": found.trials,
            "processes": plan.processes,
            "trial_seconds": round(found.trial_seconds / max(1, found.trials), 4),
        },
    }


def write_report(report: Mapping[str, Any], path: Path) -> None:
    """Write it as JSON."""
    path.write_text(f"{json.dumps(report, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def without_times(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a report without the parts that depend on the speed of the machine."""
    match value:
        case dict():
            return {key: without_times(one) for key, one in value.items() if not _is_time_key(key)}
        case list():
            return [without_times(one) for one in value]
        case _:
            return value


def _row_report(row: LaboratoryScore) -> dict[str, Any]:
    return dict(_row_figures(row))


def _row_figures(row: LaboratoryScore) -> Iterator[tuple[str, Any]]:
    plain = asdict(row)
    use = plain.pop("use")
    yield from plain.items()
    if use is not None:
        yield "use", {**use, "seconds": round(use["seconds"], 2), "cost_usd": round(use["cost_usd"], 4)}


def _is_time_key(key: str) -> bool:
    return key in {"seconds", "trial_seconds", "processes"}
