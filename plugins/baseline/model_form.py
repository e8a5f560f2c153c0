"""A form: the shape of one model, as terms of the log odds, with the rule that says which outcomes share a shock.

Forms hold no numbers from data. Outcomes of one block (one round and horizon of one family, say) move together, so
each counts as less than one independent outcome.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bot.api import RegressionRow, RegressionTerm, fit_coefficients, sum_terms
from plugins.baseline.question_facts import KnownOutcome, ScoredEvent

ModelTerms = tuple[RegressionTerm, ...]
ModelCoefficients = Mapping[str, float]

# A change smaller than this is not worth a sentence.
_LEAST_CHANGE = 0.005
# The scored loss is quadratic: certainty gains nothing beyond this and a wrong certainty cannot be averaged away.
LEAST_PROBABILITY = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelForm:
    """The shape of one model.

    ``block`` names the outcomes that share one shock, with the given ``correlation`` between any two of them; ``reach``
    is the cap of ``fit_coefficients``. Correlations from 0.1 to 1 score within half a point of each
    other on every source, so all forms share one value.
    """

    name: str
    terms: Callable[[ScoredEvent], ModelTerms]
    block: Callable[[ScoredEvent], Hashable]
    correlation: float = 0.3
    reach: float = math.inf

    def fit(self, examples: Sequence[KnownOutcome]) -> dict[str, float]:
        """Return fitted coefficients by name.

        Each row weighs 1 / (1 + correlation * (n - 1)) for the n rows of its block, the design effect of cluster
        sampling. Source: L. Kish, Survey Sampling (1965), section 5.4.
        """
        blocks = [self.block(known.event) for known in examples]
        sizes = Counter(blocks)
        rows = [
            RegressionRow(
                terms=self.terms(known.event),
                outcome=known.outcome,
                weight=1.0 / (1.0 + self.correlation * (sizes[block] - 1)),
            )
            for known, block in zip(examples, blocks, strict=True)
        ]
        return fit_coefficients(rows, reach=self.reach)


class EstimateReason(NamedTuple):
    """One sentence of an estimate: the probability before it (None for the first) and after it."""

    before: float | None
    after: float
    why: str

    def __str__(self) -> str:
        if self.before is None:
            return f"begins at {self.after:.3f}: {self.why}"
        return f"adjusted {self.before:.3f} -> {self.after:.3f}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityEstimate:
    """A probability in (0, 1) and the reasons that lead to it, in order."""

    probability: float
    reasons: tuple[EstimateReason, ...]


def estimate_probability(terms: ModelTerms, coefficients: ModelCoefficients) -> ProbabilityEstimate:
    """Add up the terms in order and yield each step that changes the probability. Raises ValueError without terms."""
    if not terms:
        message = "an estimate needs at least one term"
        raise ValueError(message)
    steps = [_bounded_probability(sum_terms(terms[: count + 1], coefficients)) for count in range(len(terms))]
    reasons = [EstimateReason(None, steps[0], terms[0].why)]
    reasons += [
        EstimateReason(before, after, term.why)
        for term, before, after in zip(terms[1:], steps, steps[1:], strict=False)
        if abs(after - before) >= _LEAST_CHANGE
    ]
    return ProbabilityEstimate(probability=steps[-1], reasons=tuple(reasons))


def create_steady_form(name: str, *, log_odds: float, why: str) -> ModelForm:
    """Return a form for a template that nearly always ends the same.

    ``log_odds`` a priori, drifting with the horizon.
    """

    def terms(event: ScoredEvent) -> ModelTerms:
        return (
            RegressionTerm("all", 1.0, log_odds, 1.0, why),
            RegressionTerm(
                "horizon", math.log(event.days / 30.0), 0.0, 0.5, f"how that changes over {event.days} days"
            ),
        )

    return ModelForm(name=name, terms=terms, block=question_block)


def question_block(event: ScoredEvent) -> Hashable:
    """Return the block of one question: its targets share the starting point and their windows overlap."""
    return event.facts.due, event.facts.key


def _bounded_probability(log_odds: float) -> float:
    # Beyond 30 the exponential changes nothing but may overflow.
    plain = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, log_odds))))
    return min(1.0 - LEAST_PROBABILITY, max(LEAST_PROBABILITY, plain))
