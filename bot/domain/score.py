"""How good it was: one value per forecast, target and scoring rule; each kind of question has rules of its own.

Values of different rules are on different scales and are never averaged together; each rule has one name wherever it
is stored, counted or shown.
"""

from dataclasses import dataclass

# The score of what others said, under the rule whose name follows.
CROWD = "crowd "

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
    """How the account stands in one contest of a venue, as the venue itself tells.

    ``rule`` is that by which ``points`` are counted; ``coverage`` is for how many questions' time forecasts stood.
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
class Rule:
    """A scoring rule: the kind of question it is for, its name to readers, and which way is better."""

    name: str
    kind: str
    title: str
    more_is_better: bool = False
    digits: int = 4


# Of each kind, the rule by which it is judged first; scales in the docstrings of bot.stats.
RULES = {
    rule.name: rule
    for rule in (
        Rule(name=BRIER, kind="binary", title="Brier"),
        Rule(name=CHOICE_BRIER, kind="choice", title="Brier (0 to 2)"),
        Rule(name=CHOICE_LOG, kind="choice", title="log score"),
        Rule(name=CHOICE_BASELINE, kind="choice", title="baseline", more_is_better=True, digits=2),
        Rule(name=CRPS, kind="curve", title="CRPS"),
        Rule(name=CURVE_BASELINE, kind="curve", title="baseline", more_is_better=True, digits=2),
    )
}


def rules_of(kind: str) -> tuple[Rule, ...]:
    """Return the rules for questions of a kind of shape, the first one first; none for a kind without any."""
    return tuple(rule for rule in RULES.values() if rule.kind == kind)
