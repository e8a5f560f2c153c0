"""What a scenario file holds.

Agents and what they may do, and the steps of a trial, from retrieval to the answer (Li et al., Forecasting with
Societies of Agents, 2024, section 3).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictBool, StrictInt

MOST_JURORS = 25


MOST_VALUES = 200


JURY = "jury"


ScenarioName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=40)]


ScenarioText = Annotated[str, Field(max_length=20_000)]


class ScenarioPart(BaseModel):
    """The parent of all parts of a scenario: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class MoveAction(StrEnum):
    """What a step does; ``tally`` counts the votes in code and asks no model."""

    WEB_SEARCH = "web_search"
    PROCESS_ARTICLES = "process_articles"
    GENERATE_JURY = "generate_jury"
    MESSAGE = "message"
    TALLY = "tally"


class MessageKind(StrEnum):
    """What a message asks its receiver for.

    ``text`` is words alone, ``queries`` searches, ``argument`` a statement with points and their sources, ``estimate``
    words with a first answer, ``vote`` a juror's answer with reasons, ``deliberation`` a juror's message to the others,
    and ``synthesis`` the closing words with an answer of its own.
    """

    TEXT = "text"
    QUERIES = "queries"
    ARGUMENT = "argument"
    ESTIMATE = "estimate"
    DELIBERATION = "deliberation"
    VOTE = "vote"
    SYNTHESIS = "synthesis"


class CourtSide(StrEnum):
    """The side that an agent's points support: for the outcome (high values), against it, or neither."""

    FOR = "for"
    AGAINST = "against"
    NEITHER = "neither"


class AgentCapabilities(ScenarioPart):
    """What an agent may use: the web, and a language model. Without the latter it only opens conversations."""

    web_retrieval: StrictBool = False
    llm: StrictBool = True


class JuryRequirements(ScenarioPart):
    """The requirements for the clerk: who the jurors are, what they know, how they live, where."""

    demographic: ScenarioText = ""
    expertise: ScenarioText = ""
    socioeconomic: ScenarioText = ""
    geographic: ScenarioText = ""
    further: tuple[ScenarioText, ...] = Field(default=(), max_length=10)


class JurySelection(ScenarioPart):
    """How the clerk chooses a jury; ``prompt_template`` describes the part of each juror."""

    requirements: JuryRequirements = JuryRequirements()
    profile_fields: tuple[ScenarioName, ...] = Field(
        default=("age", "background", "profession", "education", "region", "setting", "expertise", "outlook"),
        min_length=1,
        max_length=12,
    )
    prompt_template: ScenarioText = ""


class ScenarioAgent(ScenarioPart):
    """One participant; ``role`` names the role of its model, unless it is the agent's own name."""

    name: ScenarioName
    system_message: ScenarioText = ""
    side: CourtSide = CourtSide.NEITHER
    role: ScenarioName | None = None
    capabilities: AgentCapabilities = AgentCapabilities()
    jury_selection: JurySelection | None = None


class ScenarioMove(ScenarioPart):
    """One step as written in the file.

    ``step``, if given, is its place from 0 once loops are laid out. ``store`` names the variable that keeps its
    result; ``loop`` joins adjacent steps that are repeated, ``max_turns`` is how often the receiver
    is asked, and ``silent`` keeps the answer out of the transcript (never out of the record).

    A ``shared`` result joins the case file, which everybody reads before what they are asked. An ``instruction`` binds
    those who read it; without it, they read the words of another agent as untrusted text.
    """

    step: StrictInt | None = Field(default=None, ge=0)
    name: ScenarioName | None = None
    action: MoveAction = Field(validation_alias=AliasChoices("action", "action_type"))
    kind: MessageKind = MessageKind.TEXT
    initiator: ScenarioName | None = None
    receiver: ScenarioName | None = None
    message: ScenarioText = ""
    agent: ScenarioName | None = None
    query: ScenarioText = ""
    criteria: ScenarioText = ""
    num_results: StrictInt = Field(default=10, ge=1, le=50)
    num_top_articles: StrictInt = Field(default=6, ge=1, le=50)
    num_jurors: StrictInt = Field(default=3, ge=1, le=MOST_JURORS)
    max_turns: StrictInt = Field(default=1, ge=1, le=10)
    store: ScenarioName | None = None
    loop: ScenarioName | None = None
    silent: StrictBool = False
    shared: StrictBool = False
    instruction: StrictBool = False


class CourtScenario(ScenarioPart):
    """A whole scenario. ``values`` are the initial values of the variables, ``loops`` how often each loop runs.

    ``root_question`` is the question of a published file; the question that is forecast is always the venue's.
    """

    id: ScenarioText = ""
    summary: ScenarioText = ""
    root_question: ScenarioText = ""
    values: dict[ScenarioName, ScenarioText] = Field(default_factory=dict, max_length=MOST_VALUES)
    loops: dict[ScenarioName, Annotated[StrictInt, Field(ge=0, le=50)]] = Field(default_factory=dict)
    agents: tuple[ScenarioAgent, ...] = Field(max_length=50)
    steps: tuple[ScenarioMove, ...] = Field(max_length=200, validation_alias=AliasChoices("steps", "scenario"))

    def agent(self, name: str) -> ScenarioAgent:
        """Return an agent by its name."""
        return next(agent for agent in self.agents if agent.name == name)


class PlacedMove(ScenarioPart):
    """A step in its place: ``place`` counts from 0 with all loops laid out, ``turn`` from 1 within its loop."""

    place: int
    index: int
    turn: int
    turns: int
    move: ScenarioMove


def expand_loops(scenario: CourtScenario) -> tuple[PlacedMove, ...]:
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
        PlacedMove(place=place, index=index, turn=turn, turns=turns, move=scenario.steps[index])
        for place, (index, turn, turns) in enumerate(order)
    )
