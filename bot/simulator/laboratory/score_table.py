"""Scores of forecasters in the laboratory, and their paired differences to a reference on the same questions."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass
from bot.simulator.laboratory.answers import TrialCosts
from bot.simulator.laboratory.questions import LaboratoryQuestion

if TYPE_CHECKING:
    import numpy as np

    from bot.stats.ranking import RankingFigures

RESAMPLES = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """Answers to be scored, in the order of the cases, and the name of the line that they are compared with.

    ``part`` is the part that they belong to, ``note`` a remark.
    """

    name: str
    part: str
    answers: Sequence[float]
    reference: str | None = None
    use: TrialCosts | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalEstimate:
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaboratoryScore:
    """A line with its scores.

    ``brier`` is the mean Brier score against the outcomes, ``distance_to_truth`` the mean squared distance to the true
    probability; both differences are those to the line ``reference``, negative where this one is better. ``ranking``
    holds further figures against the outcomes, ``crowd_ranking`` the same against the side that the crowd favours.
    """

    name: str
    part: str
    n: int
    brier: float
    distance_to_truth: float
    ranking: "RankingFigures"
    crowd_ranking: "RankingFigures"
    reference: str | None = None
    difference: IntervalEstimate | None = None
    distance_difference: IntervalEstimate | None = None
    use: TrialCosts | None = None
    note: str = field(default="")


def score_lines(
    lines: Sequence[AnswerLine], cases: Sequence[LaboratoryQuestion], rng: "np.random.Generator"
) -> list[LaboratoryScore]:
    """Score all lines over the same cases; the same resamples serve all differences."""
    import numpy as np  # noqa: PLC0415 - as in all of the laboratory, what needs it imports it

    from bot.stats.ranking import rank_forecasts  # noqa: PLC0415 - numpy

    outcomes = np.array([float(case.outcome) for case in cases])
    chances = np.array([case.true_probability for case in cases])
    favoured = np.array([float(case.crowd > 0.5) for case in cases])
    forecasts = np.array([line.answers for line in lines]).T
    briers = _paired_differences((forecasts - outcomes[:, None]) ** 2, lines, cases, rng)
    offs = _paired_differences((forecasts - chances[:, None]) ** 2, lines, cases, rng)
    return [
        LaboratoryScore(
            name=line.name,
            part=line.part,
            n=len(cases),
            brier=float(((forecasts[:, place] - outcomes) ** 2).mean()),
            distance_to_truth=float(((forecasts[:, place] - chances) ** 2).mean()),
            ranking=rank_forecasts(forecasts[:, place], outcomes),
            crowd_ranking=rank_forecasts(forecasts[:, place], favoured),
            reference=line.reference,
            difference=briers.get(line.name),
            distance_difference=offs.get(line.name),
            use=line.use,
            note=line.note,
        )
        for place, line in enumerate(lines)
    ]


def question_clusters(cases: Sequence[LaboratoryQuestion]) -> "np.ndarray":
    """Return the number of each case's group, shape (n,): questions of a group resolve together."""
    from bot.stats.arrays import encode_keys  # noqa: PLC0415 - numpy

    return encode_keys([case.simulated_question.group or case.simulated_question.key for case in cases]).codes


def _paired_differences(
    scores: "np.ndarray", lines: Sequence[AnswerLine], cases: Sequence[LaboratoryQuestion], rng: "np.random.Generator"
) -> Mapping[str, IntervalEstimate]:
    from bot.stats.bootstrap import method_differences, resample_means  # noqa: PLC0415 - numpy

    names = [line.name for line in lines]
    drawn = resample_means(scores, names, resamples=RESAMPLES, rng=rng, clusters=question_clusters(cases))
    wanted = {line.name: line.reference for line in lines if line.reference is not None}
    found: dict[str, IntervalEstimate] = {}
    for reference in dict.fromkeys(wanted.values()):
        for one in method_differences(drawn, reference):
            if wanted.get(one.method) == reference:
                span = one.interval
                found[one.method] = IntervalEstimate(estimate=span.estimate, low=span.low, high=span.high)
    return found
