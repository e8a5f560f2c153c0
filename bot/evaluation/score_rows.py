"""Forecasts joined with outcomes: the rows from which every report is made.

The forecasts come from a round of a backtest, or from forecast files, under the documented rules for missing rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bot.core.distributions import flat_prediction
from bot.core.errors import ConfigError, NotFoundError
from bot.core.interfaces import RoundArchive
from bot.core.learning import ForecastFile, Round
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape, Prediction
from bot.core.questions import NO_ROUND, Question, QuestionRef
from bot.stats.scoring_rules import ResolvedPrediction, RuleScores, score_predictions

TargetProbabilities = Mapping[tuple[QuestionRef, str], float]
TargetPredictions = Mapping[tuple[QuestionRef, str], Prediction]

IMPUTED_PROBABILITY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryScoreRow:
    """One scored event: the probability given to it, the crowd's where there was one, and what happened (0 to 1).

    ``series`` names questions that repeat one another; ``imputed`` marks a missing answer that the rules replace by one
    half.
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

    @property
    def cluster(self) -> str:
        """What moves together, the unit of resampling: dated values of one round, day and source; else a series."""
        return _cluster(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleScoreRow:
    """One scored event of a choice or a curve: its values by rule, and the crowd's under the same rules.

    ``crowd_scores`` is empty where there was none; ``imputed`` marks a missing answer that counts as the flat one.
    """

    round: str
    kind: str
    family: str
    source: str
    series: str
    horizon_days: int | None
    scores: Mapping[str, float]
    crowd_scores: Mapping[str, float]
    imputed: bool = False

    @property
    def cluster(self) -> str:
        """The unit of resampling, as of a ``BinaryScoreRow``."""
        return _cluster(self)


def _cluster(row: BinaryScoreRow | RuleScoreRow) -> str:
    if row.horizon_days is None or row.round in {"", NO_ROUND}:
        return row.series
    return f"{row.round}/{row.horizon_days} days/{row.source}"


def count_clusters(rows: Sequence[BinaryScoreRow] | Sequence[RuleScoreRow]) -> int:
    """Return how many units of resampling the rows have."""
    return len({row.cluster for row in rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRows:
    """All scored events of an experiment: yes-or-no questions, and the others."""

    binary: list[BinaryScoreRow]
    by_rule: list[RuleScoreRow]

    def __bool__(self) -> bool:
        return bool(self.binary or self.by_rule)


def score_round(a_round: Round, predictions: TargetPredictions) -> ScoreRows:
    """Return everything of a round that resolved, with its scores; a missing answer counts as the flat one."""
    yes_or_no = {
        key: prediction.probability
        for key, prediction in predictions.items()
        if isinstance(prediction, BinaryPrediction)
    }
    return ScoreRows(binary=[*binary_score_rows(a_round, yes_or_no)], by_rule=[*rule_score_rows(a_round, predictions)])


def rule_score_rows(a_round: Round, predictions: TargetPredictions) -> Iterator[RuleScoreRow]:
    """Yield one row per resolved choice or curve of a round, except for outcomes that no rule can judge."""
    questions = {question.ref: question for question in a_round.questions}
    known = [
        (questions[resolution.ref], resolution)
        for resolution in a_round.resolutions
        if resolution.ref in questions and isinstance(resolution.outcome, ChoiceOutcome | NumericOutcome)
    ]
    flat = {question.shape: flat_prediction(question.shape) for question, _ in known}
    given = [predictions.get((question.ref, resolution.target)) for question, resolution in known]
    own = score_predictions(
        [
            ResolvedPrediction(prediction or flat[question.shape], question.shape, resolution.outcome)
            for prediction, (question, resolution) in zip(given, known, strict=True)
        ]
    )
    for prediction, scores, (question, resolution) in zip(given, own, known, strict=True):
        if scores:
            yield RuleScoreRow(
                round=a_round.key,
                kind=question.shape.kind,
                family=question.family,
                source=question.source,
                series=_series_name(question),
                horizon_days=question.target(resolution.target).horizon_days,
                scores=scores,
                crowd_scores=_crowd_scores(question, resolution),
                imputed=prediction is None,
            )


def binary_score_rows(a_round: Round, answers: TargetProbabilities) -> Iterator[BinaryScoreRow]:
    """Yield one row per resolved target of a round; a missing answer counts as one half.

    Only binary outcomes are rows; a question that was annulled has none.
    """
    questions = {question.ref: question for question in a_round.questions}
    for resolution in a_round.resolutions:
        question = questions.get(resolution.ref)
        if question is None or not isinstance(resolution.outcome, BinaryOutcome):
            continue
        given = answers.get((resolution.ref, resolution.target))
        yield BinaryScoreRow(
            round=a_round.key,
            family=question.family,
            source=question.source,
            series=_series_name(question),
            horizon_days=question.target(resolution.target).horizon_days,
            probability=IMPUTED_PROBABILITY if given is None else given,
            outcome=resolution.outcome.value,
            crowd=_crowd_probability(question),
            imputed=given is None,
        )


def missing_share(questions: Iterable[Question], answers: TargetProbabilities) -> float:
    """Return the share of a round's targets, resolved or not, that have no answer."""
    expected = [(question.ref, target.key) for question in questions for target in question.targets]
    return sum(key not in answers for key in expected) / len(expected) if expected else 0.0


def _crowd_probability(question: Question) -> float | None:
    if question.crowd is None or not isinstance(question.crowd.prediction, BinaryPrediction):
        return None
    return question.crowd.prediction.probability


def _crowd_scores(question: Question, resolution: Resolution) -> RuleScores:
    if question.crowd is None:
        return {}
    return score_predictions([ResolvedPrediction(question.crowd.prediction, question.shape, resolution.outcome)])[0]


def _series_name(question: Question) -> str:
    return f"{question.source}/{question.series or question.ref.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredForecastFile:
    """One file with its rows; ``missing`` is the share of the round's yes-or-no targets without an answer.

    ``unscored`` counts the resolved choices and curves of the round: such files hold probabilities of yes alone.
    """

    file: ForecastFile
    rows: tuple[BinaryScoreRow, ...]
    missing: float
    unscored: int = 0

    def notes(self) -> list[str]:
        """Return in words what the rules did to the file; those of the venue are in the complaints of the sheet."""
        notes = [f"{self.file.name}: {complaint}" for complaint in self.file.dropped_rows]
        imputed = sum(row.imputed for row in self.rows)
        if imputed:
            notes.append(f"{self.file.name}: {imputed} of {len(self.rows)} scored rows are missing and count as 0.5")
        if self.unscored:
            which = f"{self.unscored} of the outcomes are of choices or curves, which no such file can answer"
            notes.append(f"{self.file.name}: {which}")
        return notes


def score_forecast_files(archive: RoundArchive, paths: Sequence[Path]) -> list[ScoredForecastFile]:
    """Read each file and join it with the outcomes of its round.

    Raises MalformedDataError for a file that the rules refuse whole, NotFoundError for a round that the archive lacks,
    and ConfigError for a file that is named twice.
    """
    known = set(archive.round_keys())
    if duplicates := [path.name for path, count in Counter(path.resolve() for path in paths).items() if count > 1]:
        message = f"named twice, which would count their rows twice: {', '.join(duplicates)}"
        raise ConfigError(message)
    scored_files = []
    for path in paths:
        file = archive.read_forecast_file(path)
        if file.round not in known:
            message = f"{path.name} is for round {file.round}; there are {', '.join(sorted(known)) or 'no rounds'}"
            raise NotFoundError(message)
        a_round = archive.read_round(file.round)
        yes_or_no = [question for question in a_round.questions if isinstance(question.shape, BinaryShape)]
        scored_files.append(
            ScoredForecastFile(
                file=file,
                rows=tuple(binary_score_rows(a_round, file.probabilities)),
                missing=missing_share(yes_or_no, file.probabilities),
                unscored=sum(
                    isinstance(known.outcome, ChoiceOutcome | NumericOutcome) for known in a_round.resolutions
                ),
            )
        )
    return scored_files


def group_files(scored_files: Sequence[ScoredForecastFile]) -> dict[str, list[ScoredForecastFile]]:
    """Return the files whose figures may be pooled together: by author, or each by itself if a round is there twice."""
    repeated = Counter((one.file.author, one.file.round) for one in scored_files).most_common(1)[0][1] > 1
    groups: dict[str, list[ScoredForecastFile]] = {}
    for one in scored_files:
        groups.setdefault(one.file.name if repeated else one.file.author, []).append(one)
    return groups
