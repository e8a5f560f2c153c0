"""The settings of a team: its members, its sub-goals, its messages, and its limits.

Config gives each member its model by the roles team_1 to team_5, team and main.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from bot.api import (
    AnswerFields,
    AnswerSettings,
    LocalPath,
    PluginSettings,
    PoolingMethod,
    ProbabilityMargin,
    check_prompt_folder,
)

MOST_MEMBERS = 5
# The requests to a member in a joint step, in order: a message, thoughts, a plan, and notes.
CALLS_PER_JOINT_STEP = 4
MemberName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z]{0,19}$")]
GoalName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=30)]
ShortText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class SubGoal(PluginSettings):
    """One thing to find out."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "words": "search_words",
    }

    name: GoalName
    """The name of the goal."""

    ask: ShortText
    """What is to be found out, in words."""

    search_words: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] = ""
    """Words that are added to the title to search for it."""

    in_question: bool = False
    """A fact found in the question itself settles it too."""


DEFAULT_GOALS = (
    SubGoal(
        name="base_rate",
        ask="How often does this kind of thing happen in a span of this length?",
        search_words="how often history statistics",
    ),
    SubGoal(name="status", ask="How do things stand now, by the newest source?", search_words="latest news"),
    SubGoal(
        name="key_dates",
        ask="Which dates, decisions or deadlines before the question is decided matter?",
        search_words="schedule date deadline",
    ),
    SubGoal(
        name="counter_evidence",
        ask="What speaks most against the answer that seems likely at first?",
        search_words="obstacles criticism risks",
    ),
    SubGoal(
        name="criteria",
        ask="What exactly counts, by which source and until when?",
        search_words="official definition rules",
        in_question=True,
    ),
    SubGoal(
        name="expert_views", ask="What do those expect who know most about it?", search_words="forecast analysts expect"
    ),
)


PromptFolder = Annotated[LocalPath, AfterValidator(partial(check_prompt_folder, "plugins.team"))]


class TeamSettings(AnswerFields):
    """The size, the work and the limits of a team.

    Source: the K, D, tries and aborts of docs/facts/source-systems.md#coela.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "cot": "think_aloud",
        "heard": "shown_dialogues",
        "shown_messages": "shown_dialogues",
        "invalid": "max_invalid",
        "likeness": "repeat_similarity",
        "listed": "max_listed",
        "messages": "max_messages",
        "past": "shown_actions",
        "people": "human_members",
    }

    prompts: PromptFolder | None = None
    """A folder of prompt files that replace those of the same name; unset: the prompts that come with the plugin."""

    members: int = Field(default=3, ge=1, le=MOST_MEMBERS)
    """Number of members."""

    names: tuple[MemberName, ...] = Field(default=("Ada", "Boris", "Chen", "Dina", "Emeka"), min_length=1)
    """Names of the members, the first ones first."""

    human_members: frozenset[int] = frozenset()
    """Numbers of the members that are people; they are not asked to think aloud."""

    goals: tuple[SubGoal, ...] = Field(default=DEFAULT_GOALS, min_length=1, max_length=20)
    """What the team is to find out; the goals are shared out among its members."""

    think_aloud: bool = True
    """Let a member think aloud before it chooses an action."""

    crowd: bool = True
    """Show the market price or community forecast to the model, and start from it."""

    shown_actions: int = Field(default=10, ge=1, le=50)
    """How many of its own latest actions a member is shown."""

    shown_dialogues: int = Field(default=3, ge=1, le=20)
    """How many of the latest dialogues a member is shown: all messages of one joint step are one."""

    max_messages: int = Field(default=24, ge=0, le=200)
    """Messages that the team may send in one trial."""

    message_chars: int = Field(default=500, ge=50, le=2000)
    """Characters of one message."""

    repeat_similarity: float = Field(default=0.85, gt=0.0, le=1.0)
    """Similarity, from 0 to 1, from which on a message counts as a repetition of an earlier one."""

    steps: int = Field(default=12, ge=1, le=50)
    """Joint steps of one trial; a team whose members are done ends before."""

    tokens: int | None = Field(default=None, ge=1)
    """Tokens of one trial, input and output together; unset: no limit."""

    max_invalid: int = Field(default=10, ge=1, le=100)
    """Answers without a possible action after which the team stops."""

    plan_tries: int = Field(default=2, ge=1, le=2)
    """How often a plan is asked for; each try has one chance of repair."""

    max_listed: int = Field(default=4, ge=1, le=10)
    """How many searches, and how many pages, are on the list of possible actions."""

    pool: PoolingMethod = PoolingMethod.LOGIT_MEAN
    """How the beliefs of the members become one."""

    step_margin: ProbabilityMargin = 0.02
    """How far a belief on the way stays from 0 and 1; nearer only where a shown market price or base rate is."""

    submit_margin: ProbabilityMargin = 0.05
    """How far the submitted probability stays from 0 and 1; nearer only where a shown market price or base rate is."""

    @property
    def answer_settings(self) -> AnswerSettings:
        """How answers are asked for and bounded."""
        return self.create_answer_settings(self.step_margin, self.submit_margin)

    @model_validator(mode="after")
    def _is_a_team(self) -> Self:
        if len(self.names) < self.members or len(set(self.names)) < len(self.names):
            message = (
                f"names {list(self.names)} should have at least {self.members} different names, one for each member"
            )
            raise ValueError(message)
        if beyond := [number for number in sorted(self.human_members) if not 1 <= number <= self.members]:
            message = f"human_members names the members {beyond}, the team has 1 to {self.members}"
            raise ValueError(message)
        if len({goal.name for goal in self.goals}) < len(self.goals):
            message = f"goals {[goal.name for goal in self.goals]} should each have a different name"
            raise ValueError(message)
        return self
