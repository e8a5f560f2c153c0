"""The tables of the laboratory: scores of each forecaster, and how they differ from a reference on the same questions.

All statistics are those of ``bot.stats``: the Brier score, and the paired bootstrap over groups of questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.testing.lab.answers import Use
from bot.testing.lab.questions import Case

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is to be scored: answers in the order of the cases, and the name of the line that it is held against.

    ``part`` is what it belongs to, ``note`` what is to be said of it.
    """

    name: str
    part: str
    answers: Sequence[float]
    against: str | None = None
    use: Use | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line with its scores.

    ``brier`` is the mean Brier score against the outcomes, ``off`` the mean squared distance to the true probability;
    both differences are those to the line ``against``, negative where this one is better.
    """

    name: str
    part: str
    n: int
    brier: float
    off: float
    against: str | None = None
    difference: Span | None = None
    off_difference: Span | None = None
    use: Use | None = None
    note: str = field(default="")


def scored(lines: Sequence[Line], cases: Sequence[Case], rng: "np.random.Generator") -> list[Row]:
    """Score all lines over the same cases; the same resamples serve all differences."""
    import numpy as np  # noqa: PLC0415 - as in all of the laboratory, what needs it imports it

    outcomes = np.array([float(case.outcome) for case in cases])
    chances = np.array([case.chance for case in cases])
    said = np.array([line.answers for line in lines]).T
    briers = _differences((said - outcomes[:, None]) ** 2, lines, cases, rng)
    offs = _differences((said - chances[:, None]) ** 2, lines, cases, rng)
    return [
        Row(
            name=line.name,
            part=line.part,
            n=len(cases),
            brier=float(((said[:, place] - outcomes) ** 2).mean()),
            off=float(((said[:, place] - chances) ** 2).mean()),
            against=line.against,
            difference=briers.get(line.name),
            off_difference=offs.get(line.name),
            use=line.use,
            note=line.note,
        )
        for place, line in enumerate(lines)
    ]


def clusters_of(cases: Sequence[Case]) -> "np.ndarray":
    """Return the number of each case's group, shape (n,): questions of a group stand or fall together."""
    from bot.stats.arrays import encode_keys  # noqa: PLC0415 - numpy

    return encode_keys([case.ask.group or case.ask.key for case in cases]).codes


def _differences(
    scores: "np.ndarray", lines: Sequence[Line], cases: Sequence[Case], rng: "np.random.Generator"
) -> Mapping[str, Span]:
    from bot.stats.bootstrap import method_differences, resample_means  # noqa: PLC0415 - numpy

    names = [line.name for line in lines]
    drawn = resample_means(scores, names, resamples=RESAMPLES, rng=rng, clusters=clusters_of(cases))
    wanted = {line.name: line.against for line in lines if line.against is not None}
    found: dict[str, Span] = {}
    for reference in dict.fromkeys(wanted.values()):
        for one in method_differences(drawn, reference):
            if wanted.get(one.method) == reference:
                span = one.interval
                found[one.method] = Span(estimate=span.estimate, low=span.low, high=span.high)
    return found
