"""What can be set on a team: who is in it, what it is to find out, how its members talk, and where it stops.

Which model plays which member is config of the roles team_1 to team_5, team and main.
"""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from bot.api import QUANTILES, Levels, Margin, Pool, Settings

MOST_MEMBERS = 5
# What a member is asked one after the other in a joint step: a message, thoughts, a plan, and notes.
JOINT_CALLS = 4
Name = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z]{0,19}$")]
GoalName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=30)]
Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class Goal(Settings):
    """One thing to find out: ``ask`` says what in words, ``words`` are added to the title to search for it.

    With ``in_question`` a fact that is found in the question itself settles it too.
    """

    name: GoalName
    ask: Short
    words: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] = ""
    in_question: bool = False


GOALS = (
    Goal(
        name="base_rate",
        ask="How often does this kind of thing happen in a span of this length?",
        words="how often history statistics",
    ),
    Goal(name="status", ask="How do things stand now, by the newest source?", words="latest news"),
    Goal(
        name="key_dates",
        ask="Which dates, decisions or deadlines before the question is decided matter?",
        words="schedule date deadline",
    ),
    Goal(
        name="counter_evidence",
        ask="What speaks most against the answer that seems likely at first?",
        words="doubts obstacles criticism",
    ),
    Goal(
        name="criteria",
        ask="What exactly counts, by which source and until when?",
        words="official definition rules",
        in_question=True,
    ),
    Goal(name="expert_views", ask="What do those expect who know most about it?", words="forecast analysts expect"),
)


class TeamSettings(Settings):
    """The size, the work and the limits of a team.

    ``members`` agents bear the ``names``; those whose numbers are in ``people`` are persons, who are not asked to think
    aloud. ``goals`` are shared out among them. ``cot``: does a member think aloud before it chooses? ``past`` (K) own
    actions and ``heard`` (D) messages are shown to it. A message that is as like to an earlier one as ``likeness``
    repeats it; ``messages`` is how many the team may send, ``message_chars`` how long one may be.

    ``listed`` is how many searches, and how many pages, stand on the list of actions at once. ``crowd`` shows the
    crowd's price and starts from it.

    The team stops after ``steps`` joint steps, ``tokens`` (in and out), or ``invalid`` answers that were no action on
    the list and actions that could not be done; a plan is asked for ``plan_tries`` times, each with one chance to
    repair it. ``pool`` makes one belief of theirs. Margins and floor keep answers from certainty, ``quantiles`` are
    asked of numbers and dates.
    Source: the K, D, tries and aborts of CoELA and its extension to three agents (seed 001).
    """

    members: int = Field(default=3, ge=1, le=MOST_MEMBERS)
    names: tuple[Name, ...] = Field(default=("Ada", "Boris", "Chen", "Dina", "Emeka"), min_length=1)
    people: frozenset[int] = frozenset()
    goals: tuple[Goal, ...] = Field(default=GOALS, min_length=1, max_length=20)
    cot: bool = True
    crowd: bool = True
    past: int = Field(default=10, ge=1, le=50)
    heard: int = Field(default=3, ge=1, le=20)
    messages: int = Field(default=12, ge=0, le=200)
    message_chars: int = Field(default=500, ge=50, le=2000)
    likeness: float = Field(default=0.85, gt=0.0, le=1.0)
    steps: int = Field(default=6, ge=1, le=50)
    tokens: int | None = Field(default=None, ge=1)
    invalid: int = Field(default=10, ge=1, le=100)
    plan_tries: int = Field(default=2, ge=1, le=2)
    listed: int = Field(default=4, ge=1, le=10)
    pool: Pool = Pool.LOGIT_MEAN
    step_margin: Margin = 0.02
    submit_margin: Margin = 0.05
    option_floor: Margin = 0.01
    quantiles: Levels = QUANTILES

    @model_validator(mode="after")
    def _is_a_team(self) -> Self:
        if len(self.names) < self.members or len(set(self.names)) < len(self.names):
            message = f"names {list(self.names)} should be at least {self.members} different ones, one for each member"
            raise ValueError(message)
        if beyond := [number for number in sorted(self.people) if not 1 <= number <= self.members]:
            message = f"people names the members {beyond}, the team has 1 to {self.members}"
            raise ValueError(message)
        if len({goal.name for goal in self.goals}) < len(self.goals):
            message = f"goals {[goal.name for goal in self.goals]} should each have a name of its own"
            raise ValueError(message)
        return self
