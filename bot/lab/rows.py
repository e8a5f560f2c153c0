"""Forecasts joined with outcomes: the rows that every report is made from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bot.domain.learning import Round
from bot.domain.prediction import Binary
from bot.domain.question import Question, QuestionRef
from bot.domain.resolution import Happened

Answers = Mapping[tuple[QuestionRef, str], float]

IMPUTED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scored event: the probability given to it, the crowd's where there was one, and what happened (0 to 1).

    ``series`` is the unit of resampling; ``imputed`` marks a missing answer that the rules replace by one half.
    """

    round: str
    family: str
    source: str
    series: str
    horizon_days: int | None
    probability: float
    outcome: float
    crowd: float | None = None
    imputed: bool = False


def rows_of(a_round: Round, answers: Answers) -> Iterator[Row]:
    """Yield one row per resolved target of a round; a missing answer counts as one half.

    Only binary outcomes are rows; a question that was annulled has none.
    """
    questions = {question.ref: question for question in a_round.questions}
    for resolution in a_round.resolutions:
        question = questions.get(resolution.ref)
        if question is None or not isinstance(resolution.outcome, Happened):
            continue
        given = answers.get((resolution.ref, resolution.target))
        yield Row(
            round=a_round.key,
            family=question.family,
            source=question.source,
            series=f"{question.source}/{question.series or question.ref.key}",
            horizon_days=question.target(resolution.target).horizon_days,
            probability=IMPUTED if given is None else given,
            outcome=resolution.outcome.value,
            crowd=_crowd(question),
            imputed=given is None,
        )


def missing_share(questions: Iterable[Question], answers: Answers) -> float:
    """Return the share of a round's targets, resolved or not, that have no answer."""
    expected = [(question.ref, target.key) for question in questions for target in question.targets]
    return sum(key not in answers for key in expected) / len(expected) if expected else 0.0


def _crowd(question: Question) -> float | None:
    if question.crowd is None or not isinstance(question.crowd.prediction, Binary):
        return None
    return question.crowd.prediction.probability
