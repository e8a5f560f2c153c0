"""The state of a trial: votes, points, reasons, and the present belief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.api import (
    AnswerFormat,
    Belief,
    ChoicePrediction,
    ChoiceShape,
    ConfidenceLevel,
    CurvePrediction,
    CurveShape,
    Evidence,
    Json,
    ModelUsage,
    Prediction,
    Question,
    StartingPoint,
    TargetPredictions,
    curve_quantiles,
    fence_text,
)
from plugins.society import vote_pooling
from plugins.society.agent_prompts import AgentStatement
from plugins.society.participants import CourtParticipant
from plugins.society.scenario import CourtSide
from plugins.society.settings import CourtSettings
from plugins.society.vote_pooling import VoteAggregate

MOST_EVIDENCE = 50
_CONFIDENCE_ORDER = (ConfidenceLevel.LOW, ConfidenceLevel.MEDIUM, ConfidenceLevel.HIGH)


@dataclass(slots=True, kw_only=True)
class MoveOutcome:
    """The result of one move: its text, sources and costs, and its warnings."""

    text: str = ""
    arguments: dict[str, Json] = field(default_factory=dict)
    usage: ModelUsage = field(default_factory=ModelUsage)
    documents: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class CourtState:
    """``estimate`` is the last answer of an agent that is not a juror, ``judge`` that of the synthesis.

    ``has_jury`` says that the scenario has one: then there is no verdict before at least half of it has voted.
    """

    question: Question
    settings: CourtSettings
    starting_point: StartingPoint
    answer_format: AnswerFormat
    has_jury: bool = False
    jurors: list[CourtParticipant] = field(default_factory=list)
    queries: tuple[str, ...] = ()
    evidence: dict[CourtSide, dict[str, Evidence]] = field(
        default_factory=lambda: {CourtSide.FOR: {}, CourtSide.AGAINST: {}}
    )
    estimate: AgentStatement | None = None
    judge: AgentStatement | None = None
    _sides: tuple[str, str] | None = None

    def belief(self) -> Belief:
        """Return the present belief: the pooled votes, before them an agent's estimate, before that the start."""
        start = dict.fromkeys((target.key for target in self.question.targets), self.starting_point.prediction)
        given = self.current_answer()
        voted = [juror.last_vote for juror in self.jurors if juror.last_vote]
        stated = [statement.confidence for statement in voted] or ([self.estimate.confidence] if self.estimate else [])
        sure = sorted(map(_CONFIDENCE_ORDER.index, stated)) or [0]
        return Belief(
            predictions=self.answer_format.clamp(given or start, self.settings.margin),
            confidence=_CONFIDENCE_ORDER[sure[(len(sure) - 1) // 2]],
            anchor=self.starting_point.text,
            evidence_for=tuple(self.evidence[CourtSide.FOR].values())[:MOST_EVIDENCE],
            evidence_against=tuple(self.evidence[CourtSide.AGAINST].values())[:MOST_EVIDENCE],
            searches=self.queries,
            reason=self._reason(),
            stated=self.has_verdict,
        )

    def sides(self) -> tuple[str, str]:
        """Return the positions of both sides; from the first time on they stay the same."""
        if self.estimate is None:
            return describe_sides(self.question, None)
        self._sides = self._sides or describe_sides(self.question, self.estimate.predictions)
        return self._sides

    @property
    def has_verdict(self) -> bool:
        """Whether the court has an answer of its own: half of the jurors voted, or, without a jury, an agent spoke."""
        if self.has_jury:
            return bool(self.jurors) and 2 * self.vote_count >= len(self.jurors)
        return self.current_answer() is not None

    @property
    def vote_count(self) -> int:
        """How many jurors have voted."""
        return sum(juror.last_vote is not None and juror.last_vote.predictions is not None for juror in self.jurors)

    def current_answer(self) -> TargetPredictions | None:
        """Return the answer of the court so far, None if there is none."""
        cast = [juror.last_vote.predictions for juror in self.jurors if juror.last_vote and juror.last_vote.predictions]
        if self.settings.aggregate is VoteAggregate.JUDGE and self.judge is not None:
            return self.judge.predictions
        if cast:
            return vote_pooling.pool_votes(self.question, cast, self.settings.aggregate)
        return self.estimate.predictions if self.estimate else None

    def _reason(self) -> str:
        cast = [juror.last_vote for juror in self.jurors if juror.last_vote]
        if self.settings.aggregate is VoteAggregate.JUDGE and self.judge is not None:
            return "what the judge concluded"
        if cast:
            how = (
                "mean" if self.settings.aggregate is VoteAggregate.JUDGE else self.settings.aggregate.replace("_", " ")
            )
            return f"{how} of {len(cast)} of {len(self.jurors)} jurors"
        return "a first estimate, before the jury voted" if self.estimate else "where the trial starts"

    def tally(self) -> dict[str, Json]:
        """Return all present numbers of the jury, as JSON."""
        cast = {
            one.name: one.last_vote.predictions for one in self.jurors if one.last_vote and one.last_vote.predictions
        }
        return vote_pooling.tally_votes(self.question, cast, self.judge.predictions if self.judge else None)

    def jury_words(self) -> list[str]:
        """Return the last statement of each juror, by name, with its answer."""
        return [
            f"{one.label} ({one.name}): {self._numbered(one)}"
            for one in self.jurors
            if one.last_statement is not None or one.last_vote is not None
        ]

    def _numbered(self, juror: CourtParticipant) -> str:
        number = juror.last_vote.predictions if juror.last_vote else None
        words = juror.last_statement.statement if juror.last_statement else ""
        return f"{self.answer_format.format(number)}: {words}" if number is not None else words

    def other_jurors_text(self, juror: CourtParticipant) -> str:
        """Return the last statements of the others, without their names, as one juror reads them."""
        others = [one for one in self.jurors if one is not juror and one.last_statement is not None]
        lines = [
            f"Another juror ({chr(ord('A') + place)}):\n{fence_text(self._numbered(one), 'another juror')}"
            for place, one in enumerate(others)
        ]
        return "\n\n".join(lines) or "The other jurors have said nothing yet."

    def points_text(self, side: CourtSide) -> str:
        """Return all points of one side with their sources."""
        return "\n".join(f"- {point.text} [{point.source}]" for point in self.evidence[side].values()) or "No point."


def describe_sides(question: Question, estimate: TargetPredictions | None) -> tuple[str, str]:
    """Return the positions of prosecution and defence, in words that fit the question and the estimate so far."""
    given = [*(estimate or {}).values()]
    match question.shape:
        case ChoiceShape(options=options):
            first, second = _leading_options(options, given)
            leading, rival = fence_text(first, "the leading option"), fence_text(second, "its strongest rival")
            return (
                f"this option, which leads by the first estimate:\n{leading}",
                f"any other option than this:\n{leading}\nabove all for this one:\n{rival}",
            )
        case CurveShape(unit=unit) as shape:
            middle = _median_text(shape, given)
            if unit == "date":
                return (
                    f"a late date{middle and f', later than {middle}'}",
                    f"an early date{middle and f', earlier than {middle}'}",
                )
            return f"a high value{middle and f', above {middle}'}", f"a low value{middle and f', below {middle}'}"
        case _:
            return "a high probability of yes", "a low probability of yes"


def _leading_options(options: Sequence[str], given: Sequence[Prediction]) -> tuple[str, str]:
    """Return the two most likely options; those of the first target, if there are several."""
    shares = next((one.probabilities for one in given if isinstance(one, ChoicePrediction)), {})
    first, second, *_ = sorted(options, key=lambda option: -shares.get(option, 0.0))
    return first, second


def _median_text(shape: CurveShape, given: Sequence[Prediction]) -> str:
    """Return the median of the estimate, "" without one or with one for each of several dates."""
    if len(given) != 1 or not isinstance(given[0], CurvePrediction):
        return ""
    (value,) = curve_quantiles(given[0], shape, [0.5]).values()
    middle = vote_pooling.encode_value(value, shape)
    return f"{f'{middle:.6g}' if isinstance(middle, float) else middle}, the median of the first estimate"
