"""Outcomes of targets, their resolutions, scoring rules and scores.

Values of different scoring rules are on different scales and are never averaged together.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from bot.core.light_dataclass import dataclass
from bot.core.questions import QuestionRef
from bot.core.values import require_share, require_timezone

# The reasons of void outcomes that are temporary: the venue withdrew the outcome that it had given.
RESOLUTION_UNDONE = "the resolution was undone"
WITHDRAWN_REASONS = ("withdrawn", RESOLUTION_UNDONE, "the resolution has just been changed")


@dataclass(frozen=True, slots=True)
class BinaryOutcome:
    """A binary outcome: 1 yes, 0 no, or a share between them where the venue resolves to one."""

    value: float
    kind: Literal["happened"] = "happened"

    def __post_init__(self) -> None:
        """Check the range."""
        require_share("outcome", self.value)


@dataclass(frozen=True, slots=True)
class ChoiceOutcome:
    """The option that came true.

    A forecast without this option is scored by the first of ``otherwise`` that it has: former names of the option, then
    the option for everything that is not listed. They are not part of the outcome. ``early`` are options that were
    listed but not in force yet at the moment that counts: their probability counts for the last of ``otherwise``.
    """

    option: str
    otherwise: tuple[str, ...] = field(default=(), compare=False)
    early: tuple[str, ...] = field(default=(), compare=False)
    kind: Literal["chosen"] = "chosen"


@dataclass(frozen=True, slots=True)
class NumericOutcome:
    """The number that came true; minus or plus infinity means beyond an open bound."""

    value: float
    kind: Literal["landed"] = "landed"

    def __post_init__(self) -> None:
        """Refuse NaN."""
        if self.value != self.value:
            message = "an outcome is a number"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class VoidOutcome:
    """Annulled, ambiguous or withdrawn, or more than one option came true; it is never scored.

    In the last case ``shares`` is what a share of each option paid, without options that paid nothing; by contract
    where the venue can rename its options.
    """

    reason: str
    shares: Mapping[str, float] = field(default_factory=dict, hash=False)
    kind: Literal["void"] = "void"

    def __post_init__(self) -> None:
        """Check the range, and freeze."""
        for option, share in self.shares.items():
            if not 0.0 < share <= 1.0:
                message = f"a share of {option!r} cannot pay {share}"
                raise ValueError(message)
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))


Outcome = BinaryOutcome | ChoiceOutcome | NumericOutcome | VoidOutcome


def is_withdrawn_outcome(outcome: Outcome) -> bool:
    """Return whether the outcome was withdrawn for now, so that its question is open again."""
    return isinstance(outcome, VoidOutcome) and outcome.reason in WITHDRAWN_REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The outcome of one target and the moment from which it was knowable.

    ``scores`` are those that the venue itself gives the account's forecast, by the name of their rule, where it reports
    any.
    """

    ref: QuestionRef
    target: str
    outcome: Outcome
    resolved_at: datetime
    scores: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check the time zone, and freeze."""
        require_timezone(f"{self.ref}: resolved_at", self.resolved_at)
        object.__setattr__(self, "scores", MappingProxyType(dict(self.scores)))


# The score of the crowd forecast, under the rule whose name follows.
CROWD_RULE_PREFIX = "crowd "
BRIER = "brier"
CHOICE_BRIER = "choice brier"
CHOICE_LOG = "choice log"
CHOICE_BASELINE = "choice baseline"
CRPS = "crps"
CURVE_BASELINE = "curve baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The value of one scoring rule for one target of one forecast."""

    forecast: str
    target: str
    rule: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestStanding:
    """The account's standing in one contest of a venue, as the venue reports it.

    ``rule`` is the rule of ``points``; ``coverage`` is the time in which forecasts were active, in units of one
    question.
    """

    contest: str
    name: str
    rule: str
    points: float
    rank: int | None = None
    entrants: int | None = None
    questions: int | None = None
    coverage: float | None = None
    prize: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRule:
    """A scoring rule: the kind of question it is for, its title for people, and whether more is better."""

    name: str
    kind: str
    title: str
    more_is_better: bool = False
    digits: int = 4


# The primary rule of each kind comes first; the docstrings of bot.stats give the scales.
SCORING_RULES = {
    rule.name: rule
    for rule in (
        ScoringRule(name=BRIER, kind="binary", title="Brier"),
        ScoringRule(name=CHOICE_BRIER, kind="choice", title="Brier (0 to 2)"),
        ScoringRule(name=CHOICE_LOG, kind="choice", title="log score"),
        ScoringRule(name=CHOICE_BASELINE, kind="choice", title="baseline", more_is_better=True, digits=2),
        ScoringRule(name=CRPS, kind="curve", title="CRPS"),
        ScoringRule(name=CURVE_BASELINE, kind="curve", title="baseline", more_is_better=True, digits=2),
    )
}


def scoring_rules_for(kind: str) -> tuple[ScoringRule, ...]:
    """Return the rules for questions of a kind of shape, the primary one first; none for a kind without any."""
    return tuple(rule for rule in SCORING_RULES.values() if rule.kind == kind)
