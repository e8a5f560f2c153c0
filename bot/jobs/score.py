"""Score every forecast against every outcome, once per outcome; a corrected outcome is scored anew."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.domain.score import CROWD, Score
from bot.ports import Clock
from bot.stats.scoring_rules import ResolvedPrediction, score_predictions
from bot.store.ledger import Ledger
from bot.store.scores import Scorable

CHUNK = 2_000


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
    """Return the scores of each forecast by the rules for its kind and, where there was one, of the crowd."""
    crowds = [(item, item.crowd) for item in scorables if item.crowd is not None]
    own = score_predictions([ResolvedPrediction(item.prediction, item.shape, item.outcome) for item in scorables])
    theirs = score_predictions([ResolvedPrediction(crowd, item.shape, item.outcome) for item, crowd in crowds])
    marked = [
        *((item, "", marks) for item, marks in zip(scorables, own, strict=True)),
        *((item, CROWD, marks) for (item, _), marks in zip(crowds, theirs, strict=True)),
    ]
    return [
        Score(forecast=item.forecast, target=item.target, rule=f"{whose}{rule}", value=value)
        for item, whose, marks in marked
        for rule, value in marks.items()
    ]
