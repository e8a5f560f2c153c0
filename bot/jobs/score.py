"""Score every forecast against every outcome, once per outcome; a corrected outcome is scored anew."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.domain.prediction import Binary, Choice, Prediction
from bot.domain.resolution import Chosen, Happened, Outcome
from bot.domain.score import Score
from bot.ports import Clock
from bot.store.ledger import Ledger
from bot.store.scores import Scorable

CHUNK = 2_000
BRIER = "brier"
CROWD_BRIER = "crowd brier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What scoring needs."""

    ledger: Ledger
    clock: Clock


async def score(parts: Scoring) -> str:
    """Score what has resolved since the last pass."""
    done = 0
    while chunk := await parts.ledger.scores.to_score(CHUNK):
        await parts.ledger.scores.record(chunk, scores_of(chunk), at=parts.clock.now())
        done += len(chunk)
    return f"{done} predictions scored"


def scores_of(scorables: Sequence[Scorable]) -> list[Score]:
    """Return the Brier score of each forecast and, where there was one, of the crowd; void outcomes have none."""
    scores: list[Score] = []
    for item in scorables:
        for rule, prediction in ((BRIER, item.prediction), (CROWD_BRIER, item.crowd)):
            value = None if prediction is None else brier(prediction, item.outcome)
            if value is not None:
                scores.append(Score(forecast=item.forecast, target=item.target, rule=rule, value=value))
    return scores


def brier(prediction: Prediction, outcome: Outcome) -> float | None:
    """Return the Brier score of one prediction: (p - o)^2 for yes or no, the sum over options of it for a choice.

    None where the rule does not apply (a void outcome, a curve). Source: G. W. Brier, Monthly Weather Review 78 (1950),
    in the one-sided form for two outcomes that the benchmarks use.
    """
    match prediction, outcome:
        case Binary(probability=p), Happened(value=happened):
            return (p - happened) ** 2
        case Choice(probabilities=options), Chosen(option=option) if option in options:
            return sum((p - float(name == option)) ** 2 for name, p in options.items())
        case _:
            return None
