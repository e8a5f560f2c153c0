"""The critic: another model that looks at the case as it stands, once, and is not part of the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.api import (
    Json,
    Observation,
    Tool,
    ToolResult,
    ballot_for,
    quoted,
    reading,
    seed_of,
    task_of,
    template,
    voice_for,
)
from plugins.orchestra.catalogue import HERE
from plugins.orchestra.run import MAIN, Scene
from plugins.orchestra.shapes import described, one_of, text_of, wanted, words_of

CRITIC = "critic"
# More second opinions than these are a way of not deciding.
MOST = 3
DRAFT_CHARS = 2500
TEXT_CHARS = 800


class Leaning(StrEnum):
    """Where the critic thinks that the answer should go."""

    HIGHER = "higher"
    LOWER = "lower"
    AS_IT_IS = "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique:
    """What the critic said."""

    verdict: str
    objections: str
    missing: str
    leaning: Leaning

    @property
    def shown(self) -> str:
        """The critique as the orchestrator reads it."""
        parts = [self.verdict, f"Objections: {self.objections or 'none'}", f"Missing: {self.missing or 'nothing'}"]
        return quoted("\n".join([*parts, f"The answer should be: {self.leaning}"]), "critique")


@dataclass(slots=True, kw_only=True)
class Critic:
    """Asks the model in the role critic, a few times in a trial at most."""

    scene: Scene
    times: int = 0

    @property
    def is_left(self) -> bool:
        """Whether it may be asked once more."""
        return self.times < MOST

    async def asked(self, arguments: Mapping[str, Json]) -> ToolResult:
        """Return what the critic says of a draft; raises Misread where there is none."""
        draft = wanted(arguments, "draft", DRAFT_CHARS)
        scene = self.scene
        self.times += 1
        voice = voice_for(scene.desk, CRITIC, MAIN, seed=seed_of(scene.desk, CRITIC, str(self.times)))
        ballot = ballot_for(scene.question, scene.manner, percent=voice.percent)
        found = quoted(scene.memory.told() or "nothing yet", "shared memory")
        case = f"{scene.asked(ballot)}\n\n# The case\n{quoted(draft, 'draft')}\n\n# What was found\n{found}"
        voice.begin(template(HERE, "critique").substitute(task=task_of(scene.question)), case)
        filled = await voice.fill(_critique_tool(), _critique)
        await voice.grade()
        left_out = f"The critic is left out.\n{quoted(filled.why, 'why')}"
        text = left_out if filled.value is None else filled.value.shown
        observation = Observation(text=text, documents=filled.documents)
        return ToolResult(observation=observation, usage=filled.usage, failed=filled.value is None)


def critic_tool() -> Tool:
    """Return the critic as the orchestrator calls it."""
    return described(
        CRITIC,
        f"Have the case looked at by a critic who did none of the work, {MOST} times at most. draft: your case and the "
        "answer you lean to.",
        {"draft": text_of(DRAFT_CHARS)},
        required=("draft",),
    )


def _critique_tool() -> Tool:
    properties: dict[str, Json] = {
        "objections": text_of(TEXT_CHARS, "the most serious first"),
        "missing": text_of(TEXT_CHARS, "what should have been looked at"),
        "verdict": text_of(TEXT_CHARS),
        "leaning": words_of(Leaning),
    }
    return described("give_critique", "Give your opinion.", properties, required=("verdict", "leaning"))


def _critique(said: Mapping[str, Json]) -> Critique:
    return Critique(
        verdict=wanted(said, "verdict", TEXT_CHARS),
        objections=reading.text(said.get("objections"), TEXT_CHARS),
        missing=reading.text(said.get("missing"), TEXT_CHARS),
        leaning=one_of(Leaning, said.get("leaning"), "leaning"),
    )
