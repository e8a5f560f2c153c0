"""Where a trial stands: who voted what, which points were made, who gave which reasons, and what is believed."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.api import (
    Anchor,
    Ballot,
    Belief,
    ChoiceShape,
    Confidence,
    CurveShape,
    Evidence,
    Json,
    Predictions,
    Question,
    quoted,
)
from plugins.society import votes
from plugins.society.answers import Said
from plugins.society.people import Person
from plugins.society.scenario import Side
from plugins.society.settings import CourtSettings
from plugins.society.votes import Aggregate

MOST_EVIDENCE = 50
_SURE = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


@dataclass(slots=True, kw_only=True)
class Standing:
    """``estimate`` is the last answer of an agent that is no juror, ``judge`` that of the synthesis.

    ``has_jury`` says that the scenario seats one: then there is no verdict before at least half of it has voted.
    """

    question: Question
    settings: CourtSettings
    anchor: Anchor
    ballot: Ballot
    has_jury: bool = False
    jurors: list[Person] = field(default_factory=list)
    queries: tuple[str, ...] = ()
    evidence: dict[Side, dict[str, Evidence]] = field(default_factory=lambda: {Side.FOR: {}, Side.AGAINST: {}})
    estimate: Said | None = None
    judge: Said | None = None

    def belief(self) -> Belief:
        """Return what is believed now: the votes pooled, before them an agent's estimate, before that the start."""
        start = dict.fromkeys((target.key for target in self.question.targets), self.anchor.prediction)
        given = self.given()
        voted = [juror.vote for juror in self.jurors if juror.vote]
        stated = [said.confidence for said in voted] or ([self.estimate.confidence] if self.estimate else [])
        sure = sorted(map(_SURE.index, stated)) or [0]
        return Belief(
            predictions=self.ballot.bounded(given or start, self.settings.margin),
            confidence=_SURE[sure[(len(sure) - 1) // 2]],
            anchor=self.anchor.text,
            evidence_for=tuple(self.evidence[Side.FOR].values())[:MOST_EVIDENCE],
            evidence_against=tuple(self.evidence[Side.AGAINST].values())[:MOST_EVIDENCE],
            searches=self.queries,
            reason=self._reason(),
            stated=self.verdict,
        )

    @property
    def verdict(self) -> bool:
        """Whether the court has an answer of its own: half of the jurors voted, or, without a jury, an agent spoke."""
        if self.has_jury:
            return bool(self.jurors) and 2 * self.voted >= len(self.jurors)
        return self.given() is not None

    @property
    def voted(self) -> int:
        """How many jurors have voted."""
        return sum(juror.vote is not None and juror.vote.predictions is not None for juror in self.jurors)

    def given(self) -> Predictions | None:
        """Return the answer of the court so far, None while nobody gave one."""
        cast = [juror.vote.predictions for juror in self.jurors if juror.vote and juror.vote.predictions]
        if self.settings.aggregate is Aggregate.JUDGE and self.judge is not None:
            return self.judge.predictions
        if cast:
            return votes.pool(self.question, cast, self.settings.aggregate)
        return self.estimate.predictions if self.estimate else None

    def _reason(self) -> str:
        cast = [juror.vote for juror in self.jurors if juror.vote]
        if self.settings.aggregate is Aggregate.JUDGE and self.judge is not None:
            return "what the judge concluded"
        if cast:
            how = "mean" if self.settings.aggregate is Aggregate.JUDGE else self.settings.aggregate.replace("_", " ")
            return f"{how} of {len(cast)} of {len(self.jurors)} jurors"
        return "a first estimate, before the jury voted" if self.estimate else "where the trial starts"

    def tally(self) -> dict[str, Json]:
        """Return all numbers of the jury as they stand, as JSON."""
        cast = {one.name: one.vote.predictions for one in self.jurors if one.vote and one.vote.predictions}
        return votes.tally(self.question, cast, self.judge.predictions if self.judge else None)

    def jury_words(self) -> list[str]:
        """Return what each juror said last, by name, with its answer."""
        return [
            f"{one.label} ({one.name}): {self._numbered(one)}"
            for one in self.jurors
            if one.last is not None or one.vote is not None
        ]

    def _numbered(self, juror: Person) -> str:
        number = juror.vote.predictions if juror.vote else None
        words = juror.last.statement if juror.last else ""
        return f"{self.ballot.shown(number)}: {words}" if number is not None else words

    def reasons(self, juror: Person) -> str:
        """Return what the others said last, without their names, as one juror is told."""
        others = [one for one in self.jurors if one is not juror and one.last is not None]
        told = [
            f"Another juror ({chr(ord('A') + place)}):\n{quoted(self._numbered(one), 'another juror')}"
            for place, one in enumerate(others)
        ]
        return "\n\n".join(told) or "The other jurors have said nothing yet."

    def points(self, side: Side) -> str:
        """Return all points of one side with their sources."""
        return "\n".join(f"- {point.text} [{point.source}]" for point in self.evidence[side].values()) or "No point."


def sides(question: Question, anchor: Anchor) -> tuple[str, str]:
    """Return what prosecution and defence argue for, in words that fit the question."""
    match question.shape, anchor.prediction:
        case ChoiceShape(options=options), prediction:
            shares = getattr(prediction, "probabilities", {})
            first = max(options, key=lambda option: shares.get(option, 0.0))
            leading = quoted(first, "the option in question")
            return f"that this option comes true:\n{leading}", f"that another option than this comes true:\n{leading}"
        case CurveShape(unit="date"), _:
            return "a late date", "an early date"
        case CurveShape(), _:
            return "a high value", "a low value"
        case _:
            return "a high probability of yes", "a low probability of yes"
