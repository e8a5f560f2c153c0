"""Blends of forecasters: a weighted sum of their log odds, with weights that are learned and need not sum to one.

The weight of a member is that of its kind of question plus a small correction for the source, and both are pulled to a
prior: equal weights with the sum 1.15, since averages of log odds are too cautious. There is no constant term: shifts
learned from one or two rounds are what fails on the next. Outcomes of one block (one round, day and source) move
together, so a block counts as one outcome. Sources: V. Satopaa and others, Combining multiple probability predictions
using a simple logit model, International Journal of Forecasting 30 (2014); L. Kish, Survey Sampling (1965), section
5.4, for the weights of blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

from bot.core.distributions import LOGIT_EPSILON, log_odds
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.stats.ridge_regression import RegressionRow, RegressionTerm, fit_coefficients

# The sum of the weights before any outcome, and how far an outcome may move a weight: prior standard deviations.
PRIOR_TOTAL = 1.15
KIND_SPREAD = 0.1
SOURCE_SPREAD = 0.1
# An answer of exactly one half is that of a run that got stuck.
STUCK_PROBABILITY = 0.5


class SourceKind(StrEnum):
    """What a question is about: it has a crowd's price, it is a dated value of a data series, or neither."""

    PRICED = "priced"
    SERIES = "series"
    TOURNAMENT = "tournament"


def source_kind(question: Question) -> SourceKind:
    """Return the kind of a question."""
    if question.crowd is not None:
        return SourceKind.PRICED
    dated = any(target.horizon_days is not None for target in question.targets)
    return SourceKind.SERIES if dated else SourceKind.TOURNAMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendExample:
    """A resolved event with the members' probabilities in [0, 1]; members without an answer are left out.

    ``outcome`` is in [0, 1]. Events of one ``block`` count as one together.
    """

    answers: Mapping[str, float]
    kind: SourceKind
    source: str
    outcome: float
    block: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendWeights:
    """The weights of the members; without coefficients they are the prior.

    ``coefficients`` are keyed as in ``_weight_terms``. ``examples`` and ``blocks`` count what they were fitted on.
    """

    members: tuple[str, ...]
    coefficients: Mapping[str, float] = field(default_factory=dict)
    examples: int = 0
    blocks: int = 0

    def __post_init__(self) -> None:
        """Refuse a blend of nobody, and freeze the coefficients."""
        if not self.members or len(set(self.members)) < len(self.members):
            message = f"a blend needs members, each named once, got {list(self.members)}"
            raise ValueError(message)
        object.__setattr__(self, "coefficients", MappingProxyType(dict(self.coefficients)))

    def weights(self, kind: SourceKind, source: str, answered: Sequence[str]) -> dict[str, float]:
        """Return the weight of each member with an answer, 0 or more; the others' prior weight is shared out equally.

        Raises ValueError where no member has an answer.
        """
        if not answered:
            message = "no member of the blend has an answer"
            raise ValueError(message)
        return {
            name: max(0.0, sum(term.value * self.coefficients.get(term.name, term.mean) for term in terms))
            for name, terms in _weight_terms(self.members, kind, source, answered).items()
        }

    def pool(self, answers: Mapping[str, float], kind: SourceKind, source: str) -> float:
        """Return the log odds of the blend of probabilities in [0, 1]; errors as in ``weights``."""
        weights = self.weights(kind, source, [name for name in self.members if name in answers])
        return sum(weight * log_odds(answers[name], LOGIT_EPSILON) for name, weight in weights.items())


def fit_blend_weights(examples: Sequence[BlendExample], members: Sequence[str]) -> BlendWeights:
    """Return the most probable weights; examples that no member answered do not count.

    The caller passes only what was known before the forecasts in which the weights are used.
    """
    used = [one for one in examples if any(name in one.answers for name in members)]
    sizes = Counter(one.block for one in used)
    rows = [
        RegressionRow(terms=_example_terms(one, members), outcome=one.outcome, weight=1.0 / sizes[one.block])
        for one in used
    ]
    return BlendWeights(
        members=tuple(members), coefficients=fit_coefficients(rows), examples=len(used), blocks=len(sizes)
    )


def is_stuck(probability: float) -> bool:
    """Return whether an answer says nothing because its run got stuck."""
    return probability == STUCK_PROBABILITY


def _example_terms(example: BlendExample, members: Sequence[str]) -> tuple[RegressionTerm, ...]:
    answered = [name for name in members if name in example.answers]
    terms = _weight_terms(members, example.kind, example.source, answered)
    return tuple(
        term._replace(value=term.value * log_odds(example.answers[name], LOGIT_EPSILON))
        for name in answered
        for term in terms[name]
    )


def _weight_terms(
    members: Sequence[str], kind: SourceKind, source: str, answered: Sequence[str]
) -> dict[str, tuple[RegressionTerm, ...]]:
    """Return the terms whose sum is the weight of each member with an answer: of its kind, and of its source."""
    share = len(members) / len(answered)
    prior = PRIOR_TOTAL / len(members)
    return {
        name: (
            RegressionTerm(f"{name} | {kind.value}", share, prior, KIND_SPREAD, ""),
            RegressionTerm(f"{name} | source {source}", share, 0.0, SOURCE_SPREAD, ""),
        )
        for name in answered
    }
