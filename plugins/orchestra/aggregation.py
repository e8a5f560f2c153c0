"""Recursive self-aggregation: several rationales are written from all that was found, and merged until one is left.

A rationale that could not be had is left out; a group that nobody merged goes on as the mean of its members' log-odds.
Source: recursive self-aggregation (arXiv 2509.26626), as a tree in which every rationale is used once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bot.api import (
    Action,
    Ballot,
    Belief,
    Binary,
    Choice,
    Curve,
    Filled,
    Json,
    Observation,
    Pool,
    Prediction,
    Predictions,
    Step,
    Tool,
    Usage,
    Voice,
    ballot_for,
    bounds_of,
    pooled,
    quoted,
    reading,
    seed_of,
    task_of,
    template,
    voice_for,
)
from plugins.orchestra.at_once import at_once
from plugins.orchestra.catalogue import HERE
from plugins.orchestra.run import MAIN, Scene
from plugins.orchestra.shapes import described, text_of, wanted

T = TypeVar("T")

CANDIDATE, MERGE = "candidate", "aggregator"
REASONING_CHARS = 2000
OUTSIDE_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rationale:
    """An answer with its reasons; ``outside`` says why it lies beyond the answers that it was merged from."""

    name: str
    predictions: Predictions
    reasoning: str
    outside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A rationale, or none, and what asking for it took."""

    action: str
    rationale: Rationale | None
    told: str
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def step(self, belief: Belief) -> Step:
        """Return it as a step, with the belief that stands meanwhile."""
        observation = Observation(text=self.told, documents=self.documents)
        action = Action(name=self.action, arguments={"agent": self.rationale.name if self.rationale else "nobody"})
        return Step(action=action, observation=observation, belief=belief, usage=self.usage, remarks=self.remarks)


@dataclass(slots=True, kw_only=True)
class Aggregation:
    """One aggregation under way; ``answer`` and ``plain`` (the mean of all log-odds) are there at its end."""

    scene: Scene
    dossier: str
    rationales: list[Rationale] = field(default_factory=list)
    answer: Rationale | None = None
    plain: Predictions | None = None

    async def run(self, own: Rationale) -> AsyncGenerator[Made, None]:
        """Write the candidates beside ``own``, the orchestrator's, and merge them, yielding each as it is made."""
        settings, left = self.scene.settings, [own]
        for few in chunks(range(2, settings.candidates + 1), settings.concurrency):
            written = await at_once([self._written(number) for number in few])
            left += _had(written)
            for made in written:
                yield made
        self.rationales, self.plain = left, self._mean(left)
        level = 0
        while len(left) > 1:
            level, groups, left = level + 1, enumerate(chunks(left, settings.group), start=1), []
            for some in chunks([*groups], settings.concurrency):
                merged = await at_once([self._merged(f"{level}.{place}", group) for place, group in some])
                left += _had(merged)
                for made in filter(lambda one: one.told, merged):
                    yield made
        self.answer = left[0]

    async def _written(self, number: int) -> Made:
        name = f"{CANDIDATE} {number}"
        voice, ballot = self._voice(CANDIDATE, str(number))
        voice.begin(self._system(CANDIDATE, ballot), f"{self.scene.asked(ballot)}\n\n{self.dossier}")
        found = await voice.fill(_tool("give_answer", ballot, self.scene), lambda said: _rationale(name, said, ballot))
        await voice.grade()
        if found.value is None:
            return _made(CANDIDATE, None, f"{name} is left out: {found.why}", found)
        return _made(CANDIDATE, found.value, _shown(found.value, ballot), found)

    async def _merged(self, place: str, group: Sequence[Rationale]) -> Made:
        if len(group) == 1:
            return Made(action=MERGE, rationale=group[0], told="")
        name = f"merge {place}"
        voice, ballot = self._voice(MERGE, place)
        answers = "\n\n".join(quoted(_shown(one, ballot), one.name) for one in group)
        voice.begin(self._system("merge", ballot), f"{self.scene.asked(ballot)}\n\n# Answers so far\n{answers}")
        tool = _tool("give_merged_answer", ballot, self.scene, merging=True)
        found = await voice.fill(tool, lambda said: _rationale(name, said, ballot))
        await voice.grade()
        if found.value is None:
            mean = Rationale(name=name, predictions=self._mean(group), reasoning="the mean of their log-odds")
            return _made(MERGE, mean, f"{name} was not had, so the mean of the log-odds stands: {found.why}", found)
        kept = found.value
        if not kept.outside:
            held = within(kept.predictions, [one.predictions for one in group])
            kept = Rationale(name=name, predictions=held, reasoning=kept.reasoning)
        return _made(MERGE, kept, _shown(kept, ballot), found)

    def _voice(self, role: str, label: str) -> tuple[Voice, Ballot]:
        scene = self.scene
        voice = voice_for(scene.desk, role, MAIN, seed=seed_of(scene.desk, role, label))
        return voice, ballot_for(scene.question, scene.manner, percent=voice.percent)

    def _system(self, name: str, ballot: Ballot) -> str:
        bounds = bounds_of(ballot, self.scene.manner.submit_margin)
        return template(HERE, name).substitute(task=task_of(self.scene.question), bounds=bounds)

    def _mean(self, group: Sequence[Rationale]) -> Predictions:
        return pooled(self.scene.question, [one.predictions for one in group], Pool.LOGIT_MEAN)


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in their order, so many at a time."""
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def within(predictions: Predictions, group: Sequence[Predictions]) -> Predictions:
    """Return the predictions, each number of them kept between the least and the greatest of the group."""
    return {target: _within(one, [other[target] for other in group]) for target, one in predictions.items()}


def _within(one: Prediction, group: Sequence[Prediction]) -> Prediction:
    match one:
        case Binary(probability=said):
            return Binary(_kept(said, [other.probability for other in group if isinstance(other, Binary)]))
        case Choice(probabilities=shares):
            others = [other.probabilities for other in group if isinstance(other, Choice)]
            held = {option: _kept(share, [other[option] for other in others]) for option, share in shares.items()}
            total = sum(held.values())
            return Choice({option: share / total for option, share in held.items()})
        case Curve(cdf=points):
            curves = [other.cdf for other in group if isinstance(other, Curve)]
            return Curve(tuple(_kept(point, at) for point, at in zip(points, zip(*curves, strict=True), strict=True)))


def _kept(said: float, others: Sequence[float]) -> float:
    return min(max(said, min(others)), max(others))


def _had(made: Sequence[Made]) -> list[Rationale]:
    return [one.rationale for one in made if one.rationale is not None]


def _tool(name: str, ballot: Ballot, scene: Scene, *, merging: bool = False) -> Tool:
    stated = ballot.schema(scene.manner.submit_margin)
    outside: dict[str, Json] = {"outside_reason": text_of(OUTSIDE_CHARS, "empty, unless you leave the range")}
    properties = {"reasoning": text_of(REASONING_CHARS), **(outside if merging else {}), **stated}
    return described(name, "Give your answer with its reasoning.", properties, required=("reasoning", *stated))


def _rationale(name: str, said: Mapping[str, Json], ballot: Ballot) -> Rationale:
    return Rationale(
        name=name,
        predictions=ballot.read(said),
        reasoning=wanted(said, "reasoning", REASONING_CHARS),
        outside=reading.text(said.get("outside_reason"), OUTSIDE_CHARS),
    )


def _shown(rationale: Rationale, ballot: Ballot) -> str:
    outside = f"\nBeyond the answers it was made from, because: {rationale.outside}" if rationale.outside else ""
    return f"{rationale.reasoning}\nAnswer: {ballot.shown(rationale.predictions)}{outside}"


def _made(action: str, rationale: Rationale | None, told: str, found: Filled[Rationale]) -> Made:
    failed = (told,) if found.value is None else ()
    return Made(
        action=action,
        rationale=rationale,
        told=told,
        usage=found.usage,
        documents=found.documents,
        remarks=(*failed, *found.notes),
    )
