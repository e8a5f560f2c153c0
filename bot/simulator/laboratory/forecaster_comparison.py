"""The comparison of forecasters: each as it is shipped, with variants that show the worth of its parts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from bot.core.errors import ConfigError
from bot.simulator.laboratory.answers import LOGIT_MEAN, ForecasterAnswers
from bot.simulator.laboratory.forecaster_variants import HASTY, SOBER, ForecasterVariant
from bot.simulator.laboratory.score_table import AnswerLine

BLF, BLEND, MANY_MINDS = "blf", "blend", "all of them, equal weights"
# The plugin of a forecaster, where it has another name.
PLUGINS: Mapping[str, str] = {"court": "society"}
# Repeated answers of one forecaster: trials of one, rollouts of another.
REPEATED_VARIANTS: Mapping[str, tuple[str, Sequence[int]]] = {"blf": ("trials", (1, 3)), "court": ("rollouts", (1, 3))}
_COURT = "court, 1 rollout"
_MIXED_ROLES = {"main": SOBER, "team_2": HASTY}
VARIANTS: Mapping[str, tuple[ForecasterVariant, ...]] = {
    "baseline": (ForecasterVariant(name="baseline", forecaster="baseline", models_by_role={}, filter=None),),
    "blf": (ForecasterVariant(name="blf", forecaster="blf", trials=3),),
    "court": (
        ForecasterVariant(name="court", forecaster="court", trials=3),
        ForecasterVariant(
            name="court, median of votes", forecaster="court", settings={"aggregate": "median"}, reference=_COURT
        ),
        ForecasterVariant(
            name="court, intervention: no articles",
            forecaster="court",
            settings={"interventions": {"variables": {"articles": "No article was kept."}}},
            reference=_COURT,
        ),
        ForecasterVariant(name="court, 5 jurors", forecaster="court", settings={"jurors": 5}, reference=_COURT),
        ForecasterVariant(name="court, 28 steps", forecaster="court", settings={"scenario": "full"}, reference=_COURT),
        *(
            ForecasterVariant(
                name=f"court, intervention: no {side}",
                forecaster="court",
                settings={"interventions": {"variables": {f"{side}_case": "This side did not appear."}}},
                reference=_COURT,
            )
            for side in ("prosecution", "defence")
        ),
        ForecasterVariant(
            name="court, intervention: hasty jury",
            forecaster="court",
            models_by_role={"main": SOBER, "juror": HASTY},
            reference=_COURT,
        ),
    ),
    "team": (
        *(
            ForecasterVariant(name=f"team of {count}", forecaster="team", settings={"members": count})
            for count in (1, 2, 3)
        ),
        ForecasterVariant(
            name="team of 3, mixed minds",
            forecaster="team",
            settings={"members": 3},
            models_by_role=_MIXED_ROLES,
            reference="team of 3",
        ),
        ForecasterVariant(
            name="hasty mind alone",
            forecaster="team",
            settings={"members": 1},
            models_by_role={"main": HASTY},
            reference="team of 1",
        ),
    ),
    "solo": (ForecasterVariant(name="solo", forecaster="solo"),),
    "orchestra": (
        ForecasterVariant(name="orchestra", forecaster="orchestra"),
        ForecasterVariant(
            name="orchestra, 4 candidates merged",
            forecaster="orchestra",
            settings={"candidates": 4},
            reference="orchestra",
        ),
    ),
    # Combined from the answers of the others, so it runs after them.
    BLEND: (),
}
# The variant under which a forecaster is a member of the blend, where it has none of its own name.
_MEMBERS: Mapping[str, str] = {"team": "team of 3"}


def chosen_forecasters(named: Collection[str]) -> list[str]:
    """Return the named forecasters and the reference; raises ConfigError for an unknown one."""
    if strange := [name for name in named if name not in VARIANTS]:
        message = f"the laboratory has no setup for {', '.join(strange)}; known: {', '.join(VARIANTS)}"
        raise ConfigError(message)
    return [name for name in VARIANTS if name in {*named, BLF}]


def forecaster_plugins(names: Collection[str]) -> tuple[str, ...]:
    """Return the plugins of these forecasters."""
    return tuple(dict.fromkeys(PLUGINS.get(name, name) for name in names))


def comparison_variants(names: Collection[str], *, hides_crowd: bool = False) -> list[ForecasterVariant]:
    """Return all setups for these forecasters."""
    return [replace(setup, hides_crowd=hides_crowd) for name in names for setup in VARIANTS[name]]


def member_answers(found: Mapping[str, ForecasterAnswers]) -> Mapping[str, Sequence[float]]:
    """Return one answer of each forecaster, by its name: the input of a blend."""
    variants = {name: _MEMBERS.get(name, name) for name in VARIANTS if name != BLEND}
    return {name: found[variant].pooled_answers(1) for name, variant in variants.items() if variant in found}


def comparison_lines(found: Mapping[str, ForecasterAnswers]) -> Iterator[AnswerLine]:
    """Yield a line for each, the reference first: one answer of each against one of the reference."""
    reference = f"{BLF}, 1 {REPEATED_VARIANTS[BLF][0].rstrip('s')}"
    named = {setup.name: setup.reference or reference for setups in VARIANTS.values() for setup in setups}
    lines = [line for one in found.values() for line in _forecaster_lines(one, named.get(one.name, reference))]
    yield from sorted(lines, key=lambda line: line.name != reference)
    singles = [*member_answers(found).values()]
    if len(singles) > 2:
        yield AnswerLine(
            name=MANY_MINDS,
            part="forecasters",
            answers=_mean_answers(singles),
            reference=reference,
            note=f"the mean of the log-odds of {len(singles)} forecasters, one answer of each, without new calls",
        )


def _forecaster_lines(one: ForecasterAnswers, against: str) -> Iterator[AnswerLine]:
    silent = f"{one.unanswered} questions without an answer count as even odds" if one.unanswered else ""
    what, counts = REPEATED_VARIANTS.get(one.name, ("", (1,)))
    for count in counts:
        words = f"{one.name}, {count} {what if count > 1 else what.rstrip('s')}" if what else one.name
        yield AnswerLine(
            name=words,
            part="forecasters",
            answers=one.pooled_answers(count, LOGIT_MEAN),
            reference=None if words == against else against,
            use=one.uses[count],
            note=silent or _main_failure(one) or _sub_goal_note(one),
        )


def _main_failure(one: ForecasterAnswers) -> str:
    """Return the most frequent failure, if there is one."""
    if not one.failures:
        return ""
    why, count = max(one.failures.items(), key=lambda item: item[1])
    return f"{sum(one.failures.values())} trials did not finish, most often ({count}): {why[:160]}"


def _sub_goal_note(one: ForecasterAnswers) -> str:
    return "" if one.sub_goal_rate is None else f"settled {100.0 * one.sub_goal_rate:.0f} % of its sub-goals"


def _mean_answers(answers: Sequence[Sequence[float]]) -> Sequence[float]:
    from bot.stats.aggregation import logit_mean_probability  # noqa: PLC0415 - numpy

    mean: list[float] = logit_mean_probability(answers).tolist()
    return mean
