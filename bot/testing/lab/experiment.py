"""The ablations: what each part of the pipeline is worth on questions whose truth is known, and what it recovers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from bot.clock import SeededRandom
from bot.desk.combine import Pool
from bot.testing.lab.answers import LOGIT_MEAN, Answers
from bot.testing.lab.forecasters import ENSEMBLE, lines_of, members_of, plugins_of, setups_for
from bot.testing.lab.questions import Bounds, Case, bounds_of, cases_of, world_of
from bot.testing.lab.recoveries import RESAMPLES, Recovery, leaks_found, overconfidence_corrected
from bot.testing.lab.running import Job, Tell, play_all, play_together
from bot.testing.lab.tables import Line, Row, scored
from bot.testing.lab.variants import BOLD_AT_ONCE, PLAIN_AT_ONCE, REFERENCE, TRIALS, Setup, setups_of

# Where answers are cheap, there are so many questions for the gate to decide on.
MANY = 1_500
ONE_TRIAL = "1 trial"
FORECASTERS = ("baseline", "blf")
BASELINE = Setup(name="baseline", uses="baseline", cast={}, filter=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for: a world by its seed, how many questions, where ledgers go, and parts or else forecasters."""

    seed: int
    questions: int
    folder: Path
    parts: Collection[str] = ()
    forecasters: Collection[str] = ()
    processes: int = 1
    many: int = MANY
    resamples: int = RESAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What came out: the table, the recoveries, and how many trials took how many seconds of all processes."""

    rows: Sequence[Row]
    recoveries: Sequence[Recovery]
    trials: int
    trial_seconds: float


class _Speed(TypedDict):
    trials: int
    trial_seconds: float


def findings_of(plan: Plan, tell: Tell) -> Findings:
    """Run everything that the parts need and put it together."""
    setups = [*setups_of(plan.parts), BASELINE]
    jobs = [_job(plan, setup, plan.questions) for setup in setups]
    if "overconfidence" in plan.parts:
        jobs += [_job(plan, setup, plan.many) for setup in (PLAIN_AT_ONCE, BOLD_AT_ONCE)]
    return gathered(plan, {one.name: one for one in play_all(jobs, plan.processes, tell)})


def gathered(plan: Plan, found: Mapping[str, Answers]) -> Findings:
    """Return what the answers amount to, by the names of their setups."""
    cases = cases_of(world_of(plan.seed, plan.questions), plan.questions)
    random = SeededRandom(plan.seed)
    lines = [*_lines(plan, found), *bound_lines(bounds_of(cases)), *_other_lines(found)]
    rows = scored(lines, cases, random.stream("lab", "table"))
    return Findings(
        rows=rows,
        recoveries=[*_recoveries(plan, found, rows, random)],
        **_speed(found),
    )


def comparison_of(plan: Plan, tell: Tell) -> Findings:
    """Run all forecasters over the same questions and put it together."""
    plugins = plugins_of(plan.forecasters)
    jobs = [
        Job(seed=plan.seed, count=plan.questions, setup=setup, folder=plan.folder, plugins=plugins)
        for setup in setups_for(plan.forecasters)
    ]
    found = {one.name: one for one in play_all(jobs, plan.processes, tell)}
    if ENSEMBLE in plan.forecasters:
        # Its setup names the members; everything else is as for any other.
        found[ENSEMBLE] = play_together(replace(jobs[0], plugins=plugins), members_of(found))
    return compared(plan, found)


def compared(plan: Plan, found: Mapping[str, Answers]) -> Findings:
    """Return how forecasters compare, from their answers by the names of their setups."""
    cases = cases_of(world_of(plan.seed, plan.questions), plan.questions)
    lines = [*lines_of(found)]
    lines += bound_lines(bounds_of(cases), against=lines[0].name)
    rng = SeededRandom(plan.seed).stream("lab", "comparison")
    return Findings(rows=scored(lines, cases, rng), recoveries=(), **_speed(found))


def _speed(found: Mapping[str, Answers]) -> "_Speed":
    return _Speed(
        trials=sum(one.trials * len(one.said(1)) for one in found.values()),
        trial_seconds=sum(one.use.seconds for one in found.values()),
    )


def bound_lines(bounds: Bounds, against: str = REFERENCE) -> Iterator[Line]:
    """Yield what needs no forecaster: the truth, which nobody can beat, the crowd, and less."""
    told: Mapping[str, tuple[Sequence[float], str]] = {
        "true chance": (
            bounds.truth,
            "the world's own probability at the cutoff: in the long run nobody who is honest beats it",
        ),
        "crowd": (bounds.crowd, "the price at the cutoff"),
        "base rate so far": (bounds.usual, "the share of yes among outcomes known before the cutoff"),
        "even odds": (bounds.even, ""),
    }
    for name, (answers, note) in told.items():
        yield Line(name=name, part="bounds", answers=answers, against=against, note=note)


def _job(plan: Plan, setup: Setup, count: int) -> Job:
    return Job(seed=plan.seed, count=count, setup=setup, folder=plan.folder, plugins=FORECASTERS)


def _lines(plan: Plan, found: Mapping[str, Answers]) -> Iterator[Line]:
    reference = found[REFERENCE]
    most = reference.trials
    note = f"blf with its settings as shipped, {most} trials, logit mean" if most > 1 else "blf as shipped, 1 trial"
    yield Line(name=REFERENCE, part=REFERENCE, answers=reference.said(most), use=reference.use, note=note)
    if most > 1:
        for count in TRIALS[:-1]:
            words = f"{count} trials" if count > 1 else ONE_TRIAL
            note = "the first of the reference's trials, nothing asked again"
            line = Line(name=words, part="trials", answers=reference.said(count), against=REFERENCE, note=note)
            if count == 1 or "trials" in plan.parts:
                yield line
    if "aggregate" in plan.parts:
        for pool in (pool for pool in map(str, Pool) if pool != LOGIT_MEAN):
            answers = reference.said(most, pool)
            yield Line(name=pool, part="aggregate", answers=answers, against=REFERENCE, note="of the same trials")
    if reference.corrected is not None:
        moved = len(reference.corrected.adopted)
        note = f"the gate let a fit move {moved} of {len(reference.corrected.answers)}; identity for the others"
        answers = reference.corrected.answers
        yield Line(name="gated calibration", part="gate", answers=answers, against=REFERENCE, note=note)


def _other_lines(found: Mapping[str, Answers]) -> Iterator[Line]:
    """Yield the variants, each with one trial and held against the first one of the reference."""
    against = ONE_TRIAL if found[REFERENCE].trials > 1 else REFERENCE
    for name, one in found.items():
        if name not in {REFERENCE, PLAIN_AT_ONCE.name, BOLD_AT_ONCE.name}:
            part = "bounds" if name == BASELINE.name else "variants"
            silent = f"{one.silent} questions without an answer count as even odds" if one.silent else ""
            yield Line(name=name, part=part, answers=one.said(1), against=against, use=one.use, note=silent)


def _recoveries(
    plan: Plan, found: Mapping[str, Answers], rows: Sequence[Row], random: SeededRandom
) -> Iterator[Recovery]:
    if "overconfidence" in plan.parts:
        cases: Sequence[Case] = cases_of(world_of(plan.seed, plan.many), plan.many)
        rng = random.stream("lab", "overconfidence")
        plain, bold = found[PLAIN_AT_ONCE.name], found[BOLD_AT_ONCE.name]
        yield overconfidence_corrected(plain, bold, cases, rng, resamples=plan.resamples)
    if "leaks" in plan.parts:
        yield from leaks_found(found, {row.name: row for row in rows})
