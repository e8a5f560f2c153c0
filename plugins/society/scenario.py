"""What a scenario file holds: agents and what they may do, and the steps of a trial, from retrieval to the answer.

Source: Li, Orlovskiy, Ellis, Kachinthaya, Jaggi, Zheng, Forecasting with Societies of Agents (2024), section 3. Keys
that stand in published scenario files are taken as well.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictBool, StrictInt

MOST_JURORS = 25
MOST_VALUES = 200
JURY = "jury"

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=40)]
Text = Annotated[str, Field(max_length=20_000)]


class Part(BaseModel):
    """The parent of all parts of a scenario: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ActionType(StrEnum):
    """What a step does; ``tally`` counts the votes in code and asks nobody."""

    WEB_SEARCH = "web_search"
    PROCESS_ARTICLES = "process_articles"
    GENERATE_JURY = "generate_jury"
    MESSAGE = "message"
    TALLY = "tally"


class Kind(StrEnum):
    """What a message asks its receiver for.

    ``text`` is words alone, ``queries`` searches, ``argument`` a statement with points and their sources, ``estimate``
    words with a first answer, ``vote`` a juror's answer with reasons, ``deliberation`` a juror's word to the others,
    and ``synthesis`` the closing words with an answer of one's own.
    """

    TEXT = "text"
    QUERIES = "queries"
    ARGUMENT = "argument"
    ESTIMATE = "estimate"
    DELIBERATION = "deliberation"
    VOTE = "vote"
    SYNTHESIS = "synthesis"


class Side(StrEnum):
    """For which side an agent's points count: for the outcome (high values), against it, or neither."""

    FOR = "for"
    AGAINST = "against"
    NEITHER = "neither"


class Capabilities(Part):
    """What an agent may use: the web, and a language model. Without the latter it only opens conversations."""

    web_retrieval: StrictBool = False
    llm: StrictBool = True


class Requirements(Part):
    """What the clerk is to look for: who the jurors are, what they know, how they live, where."""

    demographic: Text = ""
    expertise: Text = ""
    socioeconomic: Text = ""
    geographic: Text = ""
    further: tuple[Text, ...] = Field(default=(), max_length=10)


class JurySelection(Part):
    """How the clerk chooses a jury; ``prompt_template`` becomes the system message of each juror."""

    requirements: Requirements = Requirements()
    profile_fields: tuple[Name, ...] = Field(
        default=("age", "background", "profession", "education", "region", "setting", "expertise", "outlook"),
        min_length=1,
        max_length=12,
    )
    prompt_template: Text = ""


class Agent(Part):
    """One participant; ``role`` names the role whose model speaks for it, unless it is the agent's own name."""

    name: Name
    system_message: Text = ""
    side: Side = Side.NEITHER
    role: Name | None = None
    capabilities: Capabilities = Capabilities()
    jury_selection: JurySelection | None = None


class Move(Part):
    """One step as it stands in the file.

    ``step``, where it is given, is its place from 0 once loops are laid out. ``store`` names the variable that keeps
    what came of it; ``loop`` joins steps that stand together and are repeated, ``max_turns`` is how often the receiver
    is asked, and ``silent`` keeps the answer out of the transcript (never out of the record).
    """

    step: StrictInt | None = Field(default=None, ge=0)
    name: Name | None = None
    action: ActionType = Field(validation_alias=AliasChoices("action", "action_type"))
    kind: Kind = Kind.TEXT
    initiator: Name | None = None
    receiver: Name | None = None
    message: Text = ""
    agent: Name | None = None
    query: Text = ""
    criteria: Text = ""
    num_results: StrictInt = Field(default=10, ge=1, le=50)
    num_top_articles: StrictInt = Field(default=6, ge=1, le=50)
    num_jurors: StrictInt = Field(default=3, ge=1, le=MOST_JURORS)
    max_turns: StrictInt = Field(default=1, ge=1, le=10)
    store: Name | None = None
    loop: Name | None = None
    silent: StrictBool = False


class Scenario(Part):
    """A whole scenario. ``values`` is what the variables hold at the start, ``loops`` how often each loop runs.

    ``root_question`` is what a published file was written for; the question that is forecast is always the venue's.
    """

    id: Text = ""
    summary: Text = ""
    root_question: Text = ""
    values: dict[Name, Text] = Field(default_factory=dict, max_length=MOST_VALUES)
    loops: dict[Name, Annotated[StrictInt, Field(ge=0, le=50)]] = Field(default_factory=dict)
    agents: tuple[Agent, ...] = Field(max_length=50)
    steps: tuple[Move, ...] = Field(max_length=200, validation_alias=AliasChoices("steps", "scenario"))

    def agent(self, name: str) -> Agent:
        """Return an agent by its name."""
        return next(agent for agent in self.agents if agent.name == name)


class Placed(Part):
    """A step in its place: ``place`` counts from 0 with all loops laid out, ``turn`` from 1 within its loop."""

    place: int
    index: int
    turn: int
    turns: int
    move: Move


def laid_out(scenario: Scenario) -> tuple[Placed, ...]:
    """Return the steps in order, with each loop as often as it runs."""
    runs: list[tuple[str | None, list[int]]] = []
    for index, move in enumerate(scenario.steps):
        if move.loop is not None and runs and runs[-1][0] == move.loop:
            runs[-1][1].append(index)
        else:
            runs.append((move.loop, [index]))
    order: list[tuple[int, int, int]] = []
    for loop, indices in runs:
        times = 1 if loop is None else scenario.loops.get(loop, 1)
        order += [(index, turn, times) for turn in range(1, times + 1) for index in indices]
    return tuple(
        Placed(place=place, index=index, turn=turn, turns=turns, move=scenario.steps[index])
        for place, (index, turn, turns) in enumerate(order)
    )
