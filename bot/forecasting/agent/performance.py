"""Counts how the models performed in a trial.

Answers, parse failures and errors, for the performance records that decide whether a model stays in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.core.errors import BudgetExhaustedError, ConfigError, FoxcastError, TrialLimitReachedError
from bot.core.language_models import ModelPerformance
from bot.core.predictions import BinaryPrediction
from bot.forecasting.agent.answer_schema import TargetPredictions, prediction_distance

# Errors that keep a model from being asked and are not its fault.
BLAMELESS_ERRORS = (BudgetExhaustedError, ConfigError, TrialLimitReachedError)


@dataclass(slots=True)
class PerformanceTally:
    """The actions asked of each model in turn, and the invalid ones. A fallback may take over within a trial.

    ``beliefs`` counts the belief updates received, ``unread`` those that could not be read, ``errors`` the requests
    that failed after the model had answered before.
    """

    asked: dict[str, int] = field(default_factory=dict)
    unparsed: dict[str, int] = field(default_factory=dict)
    last: str = ""
    beliefs: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def count_answer(self, model: str) -> None:
        """Count an answer."""
        self.asked[model] = self.asked.get(model, 0) + 1
        self.last = model

    def count_parse_failure(self) -> None:
        """Count the last answer as invalid."""
        self.unparsed[self.last] = self.unparsed.get(self.last, 0) + 1

    def count_belief_update(self, *, read: bool) -> None:
        """Count an update of the belief that the last model sent, or should have sent."""
        self.beliefs[self.last] += 1
        self.unread[self.last] += not read

    def count_error(self, error: FoxcastError) -> None:
        """Count a request without an answer against the model that answered last."""
        if self.last and not isinstance(error, BLAMELESS_ERRORS):
            self.errors[self.last] += 1

    def count_replacement(self, model: str) -> None:
        """Count a request that a model did not answer, so that another one took over."""
        self.errors[model] += 1

    def performances(
        self, role: str, *, believed: TargetPredictions | None, submitted: TargetPredictions | None, free: bool = True
    ) -> Iterator[ModelPerformance]:
        """Yield one performance record per model; only the last model had the chance to submit.

        ``believed`` is its last stated belief, None if there is none; ``free`` is False if something else stopped it:
        no budget or no connection.
        """
        for model, asked in self.asked.items():
            ended = model == self.last
            gap = (
                prediction_distance(believed, submitted)
                if ended and believed is not None and submitted is not None
                else 0.0
            )
            yield ModelPerformance(
                role=role,
                model=model,
                asked=asked,
                unparsed=self.unparsed.get(model, 0),
                submitted=submitted is not None if ended and free else None,
                ended_at_half=ended and submitted is not None and _is_half(submitted),
                submission_gap=gap,
                beliefs=self.beliefs[model],
                unread_beliefs=self.unread[model],
                errors=self.errors[model],
            )


def _is_half(predictions: TargetPredictions) -> bool:
    return all(prediction == BinaryPrediction(0.5) for prediction in predictions.values())
