"""Counts how models did in a trial, for the verdict on whether they go on being asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.agent.ballot import Predictions, distance
from bot.domain.conduct import Conduct
from bot.domain.prediction import Binary
from bot.errors import BudgetExhausted, ConfigError, FoxcastError, LimitReached

# What keeps a model from being asked and says nothing of it.
NO_FAULT = (BudgetExhausted, ConfigError, LimitReached)


@dataclass(slots=True)
class Tally:
    """The moves asked of each model in turn, and those that were none. A fallback may take over within a trial.

    ``beliefs`` counts the updates of a belief that came, ``unread`` those that could not be read, ``errors`` the
    requests that failed after the model had answered before.
    """

    asked: dict[str, int] = field(default_factory=dict)
    unparsed: dict[str, int] = field(default_factory=dict)
    last: str = ""
    beliefs: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def heard(self, model: str) -> None:
        """Count an answer."""
        self.asked[model] = self.asked.get(model, 0) + 1
        self.last = model

    def garbled(self) -> None:
        """Count the last answer as no move."""
        self.unparsed[self.last] = self.unparsed.get(self.last, 0) + 1

    def updated(self, *, read: bool) -> None:
        """Count an update of the belief that the last model sent, or should have sent."""
        self.beliefs[self.last] += 1
        self.unread[self.last] += not read

    def failed(self, error: FoxcastError) -> None:
        """Count a request that brought no answer against the model that spoke last."""
        if self.last and not isinstance(error, NO_FAULT):
            self.errors[self.last] += 1

    def replaced(self, model: str) -> None:
        """Count a request that a model did not answer, so that another one took over."""
        self.errors[model] += 1

    def verdicts(
        self, role: str, *, believed: Predictions | None, submitted: Predictions | None, free: bool = True
    ) -> Iterator[Conduct]:
        """Yield one conduct per model; only the one that spoke last had the chance to submit.

        ``believed`` is what it last said that it believes, None where it never did; ``free`` is False where it was kept
        from going on by others: no budget, no connection.
        """
        for model, asked in self.asked.items():
            ended = model == self.last
            gap = distance(believed, submitted) if ended and believed is not None and submitted is not None else 0.0
            yield Conduct(
                role=role,
                model=model,
                asked=asked,
                unparsed=self.unparsed.get(model, 0),
                submitted=submitted is not None if ended and free else None,
                half=ended and submitted is not None and _is_half(submitted),
                gap=gap,
                beliefs=self.beliefs[model],
                unread_beliefs=self.unread[model],
                errors=self.errors[model],
            )


def _is_half(predictions: Predictions) -> bool:
    return all(prediction == Binary(0.5) for prediction in predictions.values())
