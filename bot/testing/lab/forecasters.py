"""The comparison of forecasters: each as it is shipped, with the variants that say what its parts are worth."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from bot.errors import ConfigError
from bot.testing.lab.answers import LOGIT_MEAN, Answers
from bot.testing.lab.tables import Line
from bot.testing.lab.variants import HASTY, SOBER, Setup

BLF, ENSEMBLE, MANY_MINDS = "blf", "ensemble", "all of them, equal weights"
# Which plugin brings a forecaster, where it is not of the same name.
PLUGINS: Mapping[str, str] = {"court": "society"}
# Repeated answers of one forecaster: trials of one, rollouts of another.
REPEATED: Mapping[str, tuple[str, Sequence[int]]] = {"blf": ("trials", (1, 3)), "court": ("rollouts", (1, 3))}
_COURT = "court, 1 rollout"
_MIXED = {"main": SOBER, "team_2": HASTY}
VARIANTS: Mapping[str, tuple[Setup, ...]] = {
    "baseline": (Setup(name="baseline", uses="baseline", cast={}, filter=None),),
    "blf": (Setup(name="blf", uses="blf", trials=3),),
    "court": (
        Setup(name="court", uses="court", trials=3),
        Setup(name="court, median of votes", uses="court", settings={"aggregate": "median"}, against=_COURT),
        Setup(
            name="court, intervention: no articles",
            uses="court",
            settings={"interventions": {"variables": {"articles": "No article was kept."}}},
            against=_COURT,
        ),
        Setup(name="court, 5 jurors", uses="court", settings={"jurors": 5}, against=_COURT),
    ),
    "team": (
        *(Setup(name=f"team of {count}", uses="team", settings={"members": count}) for count in (1, 2, 3)),
        Setup(name="team of 3, mixed minds", uses="team", settings={"members": 3}, cast=_MIXED, against="team of 3"),
        Setup(name="hasty mind alone", uses="team", settings={"members": 1}, cast={"main": HASTY}, against="team of 1"),
    ),
    "solo": (Setup(name="solo", uses="solo"),),
    "orchestra": (
        Setup(name="orchestra", uses="orchestra"),
        Setup(name="orchestra, 4 candidates merged", uses="orchestra", settings={"candidates": 4}, against="orchestra"),
    ),
    # Made of what the others said, so it is run after them.
    ENSEMBLE: (),
}
# Under which of its variants a forecaster is a member of the ensemble, where it has none of its own name.
_MEMBERS: Mapping[str, str] = {"team": "team of 3"}


def chosen_forecasters(named: Collection[str]) -> list[str]:
    """Return the forecasters that are named, the reference among them; raises ConfigError for one without a table."""
    if strange := [name for name in named if name not in VARIANTS]:
        message = f"the laboratory does not know how to try {', '.join(strange)}; it knows {', '.join(VARIANTS)}"
        raise ConfigError(message)
    return [name for name in VARIANTS if name in {*named, BLF}]


def plugins_of(names: Collection[str]) -> tuple[str, ...]:
    """Return the plugins that bring these forecasters."""
    return tuple(dict.fromkeys(PLUGINS.get(name, name) for name in names))


def setups_for(names: Collection[str]) -> list[Setup]:
    """Return everything that is run for these forecasters."""
    return [setup for name in names for setup in VARIANTS[name]]


def members_of(found: Mapping[str, Answers]) -> Mapping[str, Sequence[float]]:
    """Return one answer of each forecaster, by its name: what an ensemble is made of."""
    variants = {name: _MEMBERS.get(name, name) for name in VARIANTS if name != ENSEMBLE}
    return {name: found[variant].said(1) for name, variant in variants.items() if variant in found}


def lines_of(found: Mapping[str, Answers]) -> Iterator[Line]:
    """Yield a line for each, the reference first: one answer of each against one of the reference."""
    reference = f"{BLF}, 1 {REPEATED[BLF][0].rstrip('s')}"
    named = {setup.name: setup.against or reference for setups in VARIANTS.values() for setup in setups}
    lines = [line for one in found.values() for line in _lines(one, named.get(one.name, reference))]
    yield from sorted(lines, key=lambda line: line.name != reference)
    singles = [*members_of(found).values()]
    if len(singles) > 2:
        yield Line(
            name=MANY_MINDS,
            part="forecasters",
            answers=_mean(singles),
            against=reference,
            note=f"the mean of the log-odds of {len(singles)} forecasters, one answer of each, and nothing asked anew",
        )


def _lines(one: Answers, against: str) -> Iterator[Line]:
    silent = f"{one.silent} questions without an answer count as even odds" if one.silent else ""
    what, counts = REPEATED.get(one.name, ("", (1,)))
    for count in counts:
        words = f"{one.name}, {count} {what if count > 1 else what.rstrip('s')}" if what else one.name
        yield Line(
            name=words,
            part="forecasters",
            answers=one.said(count, LOGIT_MEAN),
            against=None if words == against else against,
            use=one.uses[count],
            note=silent or _why(one),
        )


def _why(one: Answers) -> str:
    """Return what most often went wrong, if anything did."""
    if not one.failures:
        return ""
    why, count = max(one.failures.items(), key=lambda item: item[1])
    return f"{sum(one.failures.values())} trials did not come to their end, most often ({count}): {why[:160]}"


def _mean(answers: Sequence[Sequence[float]]) -> Sequence[float]:
    from bot.stats.aggregation import logit_mean_probability  # noqa: PLC0415 - numpy

    mean: list[float] = logit_mean_probability(answers).tolist()
    return mean
