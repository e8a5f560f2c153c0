"""Forecasts joined with outcomes: the rows that every report is made from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bot.domain.curves import flat_prediction
from bot.domain.learning import Round
from bot.domain.prediction import Binary, Prediction
from bot.domain.question import Question, QuestionRef
from bot.domain.resolution import Chosen, Happened, Landed, Resolution
from bot.judging import Answer, Marks, marks_of

Answers = Mapping[tuple[QuestionRef, str], float]
Predictions = Mapping[tuple[QuestionRef, str], Prediction]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """One scored event of a choice or a curve: its values by rule, and the crowd's under the same rules.

    ``crowd`` is empty where there was none; ``imputed`` marks a missing answer that counts as the flat one.
    """

    round: str
    kind: str
    family: str
    source: str
    series: str
    horizon_days: int | None
    marks: Mapping[str, float]
    crowd: Mapping[str, float]
    imputed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """All scored events of an experiment: yes-or-no questions, and the others."""

    rows: list[Row]
    graded: list[Graded]

    def __bool__(self) -> bool:
        return bool(self.rows or self.graded)


def scored_of(a_round: Round, predictions: Predictions) -> Scored:
    """Return everything of a round that resolved, with its scores; a missing answer counts as the flat one."""
    yes_or_no = {key: said.probability for key, said in predictions.items() if isinstance(said, Binary)}
    return Scored(rows=[*rows_of(a_round, yes_or_no)], graded=[*graded_of(a_round, predictions)])


def graded_of(a_round: Round, predictions: Predictions) -> Iterator[Graded]:
    """Yield one row per resolved choice or curve of a round, but for outcomes that no rule can judge."""
    questions = {question.ref: question for question in a_round.questions}
    known = [
        (questions[resolution.ref], resolution)
        for resolution in a_round.resolutions
        if resolution.ref in questions and isinstance(resolution.outcome, Chosen | Landed)
    ]
    flat = {question.shape: flat_prediction(question.shape) for question, _ in known}
    given = [predictions.get((question.ref, resolution.target)) for question, resolution in known]
    own = marks_of(
        [
            Answer(said or flat[question.shape], question.shape, resolution.outcome)
            for said, (question, resolution) in zip(given, known, strict=True)
        ]
    )
    for said, marks, (question, resolution) in zip(given, own, known, strict=True):
        if marks:
            yield Graded(
                round=a_round.key,
                kind=question.shape.kind,
                family=question.family,
                source=question.source,
                series=_series(question),
                horizon_days=question.target(resolution.target).horizon_days,
                marks=marks,
                crowd=_crowd_marks(question, resolution),
                imputed=said is None,
            )


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
            series=_series(question),
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


def _crowd_marks(question: Question, resolution: Resolution) -> Marks:
    if question.crowd is None:
        return {}
    return marks_of([Answer(question.crowd.prediction, question.shape, resolution.outcome)])[0]


def _series(question: Question) -> str:
    return f"{question.source}/{question.series or question.ref.key}"
