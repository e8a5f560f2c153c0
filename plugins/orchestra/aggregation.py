"""Recursive self-aggregation: several rationales are written from all findings, and merged.

Either every rationale is merged once, as a tree, until one is left; or a population is made anew in rounds, each member
from a random group of the last one, and the answer is the mean of the log-odds of the last population. A missing
rationale is left out; if no model merges a group, the mean of its members' log-odds is used instead.
Source: recursive self-aggregation (arXiv 2509.26626), which has the rounds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from bot.api import (
    AnswerFormat,
    Belief,
    BinaryPrediction,
    ChoicePrediction,
    CurvePrediction,
    Json,
    PoolingMethod,
    Prediction,
    Step,
    StepAction,
    StepObservation,
    StructuredAnswer,
    TargetPredictions,
    ToolDefinition,
    answer_tool,
    bounds_text,
    create_answer_format,
    derive_seed,
    fence_text,
    gather_all,
    judging_text,
    load_template,
    open_session,
    parsing,
    pool_predictions,
    prediction_distance,
    require_text,
    task_text,
    text_field,
)
from plugins.orchestra.subagent_kinds import PROMPT_PACKAGE
from plugins.orchestra.subagent_run import MADE_BY, MAIN_ROLE, OrchestraContext

T = TypeVar("T")

CANDIDATE_ROLE, AGGREGATOR_ROLE = "candidate", "aggregator"
REASONING_CHARS = 2000
OUTSIDE_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRationale:
    """An answer with its reasons; ``outside_reason`` says why it lies outside the answers that it was merged from."""

    name: str
    predictions: TargetPredictions
    reasoning: str
    outside_reason: str = ""


class AggregationStep(NamedTuple):
    """A rationale, or none, and the step of the trial in which it was asked for, if it was."""

    rationale: AnswerRationale | None
    step: Step | None = None


@dataclass(slots=True, kw_only=True)
class SelfAggregation:
    """One running aggregation; ``answer`` and ``mean_answer`` (the mean of all log-odds) are set at its end.

    ``belief`` is the orchestrator's, which all of its steps have.
    """

    context: OrchestraContext
    findings: str
    belief: Belief
    rationales: list[AnswerRationale] = field(default_factory=list)
    answer: AnswerRationale | None = None
    mean_answer: TargetPredictions | None = None

    async def run(self, own: AnswerRationale) -> AsyncGenerator[Step, None]:
        """Write the candidates in addition to ``own``, the orchestrator's, and merge them; yield each as it is made."""
        settings, left = self.context.settings, [own]
        for few in split_groups(range(2, settings.candidates + 1), settings.concurrency):
            written = await gather_all([self._ask_candidate(number) for number in few])
            left += _collect_rationales(written)
            for step in _collect_steps(written):
                yield step
        self.rationales, self.mean_answer = left, self._mean(left)
        level = 0
        while len(left) > 1 and (not settings.resampling_rounds or level < settings.resampling_rounds):
            level += 1
            groups, left = enumerate(self._groups(left, level), start=1), []
            for some in split_groups([*groups], settings.concurrency):
                merged = await gather_all([self._merge_group(f"{level}.{place}", group) for place, group in some])
                left += _collect_rationales(merged)
                for step in _collect_steps(merged):
                    yield step
        self.answer = left[0] if len(left) == 1 else self._population_answer(left)

    def _groups(self, left: Sequence[AnswerRationale], level: int) -> list[Sequence[AnswerRationale]]:
        """Return the groups to merge: all rationales in order, or as many random groups as there are rationales."""
        size = min(self.context.settings.merge_group, len(left))
        if not self.context.settings.resampling_rounds:
            return [*split_groups(left, size)]
        chance = self.context.context.stream("resampling", str(level))
        drawn = (chance.choice(len(left), size=size, replace=False) for _ in left)
        return [[left[int(place)] for place in sorted(places)] for places in drawn]

    def _population_answer(self, left: Sequence[AnswerRationale]) -> AnswerRationale:
        """Return the mean of a population, with the reasoning of the member that is nearest to it."""
        mean = self._mean(left)
        nearest = min(left, key=lambda one: prediction_distance(one.predictions, mean))
        return AnswerRationale(name="the mean of the population", predictions=mean, reasoning=nearest.reasoning)

    async def _ask_candidate(self, number: int) -> AggregationStep:
        name = f"{CANDIDATE_ROLE} {number}"
        found, answer_format = await self._ask(
            name, CANDIDATE_ROLE, seed_label=str(number), write_material=lambda _: self.findings
        )
        if found.value is None:
            return self._made(CANDIDATE_ROLE, None, f"{name} is left out: {found.reason}", found)
        return self._made(CANDIDATE_ROLE, found.value, _format_rationale(found.value, answer_format), found)

    async def _merge_group(self, place: str, group: Sequence[AnswerRationale]) -> AggregationStep:
        if len(group) == 1:
            return AggregationStep(group[0])
        name = f"merge {place}"
        found, answer_format = await self._ask(
            name, AGGREGATOR_ROLE, seed_label=place, write_material=lambda form: _format_group(group, form)
        )
        if found.value is None:
            mean = AnswerRationale(name=name, predictions=self._mean(group), reasoning="the mean of their log-odds")
            text = f"{name} was not made, so the mean of the log-odds is used: {found.reason}"
            return self._made(AGGREGATOR_ROLE, mean, text, found)
        kept = found.value
        if not kept.outside_reason:
            held = clamp_to_group(kept.predictions, [one.predictions for one in group])
            kept = replace(kept, predictions=held)
        return self._made(AGGREGATOR_ROLE, kept, _format_rationale(kept, answer_format), found)

    async def _ask(
        self, name: str, role: str, *, seed_label: str, write_material: Callable[[AnswerFormat], str]
    ) -> tuple[StructuredAnswer[AnswerRationale], AnswerFormat]:
        """Ask the model in a role for a rationale on the question and this material."""
        at = self.context
        session = open_session(at.context, role, MAIN_ROLE, seed=derive_seed(at.context, role, seed_label))
        answer_format = create_answer_format(at.question, at.answer_settings, percent=session.percent)
        system = load_template(PROMPT_PACKAGE, role).substitute(
            task=task_text(at.question),
            judging=judging_text(at.question),
            bounds=bounds_text(answer_format, at.answer_settings.submit_margin),
        )
        session.begin(system, f"{at.question_prompt(answer_format)}\n\n{write_material(answer_format)}")
        found = await session.ask_structured(
            _rationale_tool(role, answer_format, at.answer_settings.submit_margin),
            lambda arguments: _read_rationale(name, arguments, answer_format),
        )
        await session.report_performance()
        return found, answer_format

    def _made(
        self, action: str, rationale: AnswerRationale | None, text: str, found: StructuredAnswer[AnswerRationale]
    ) -> AggregationStep:
        failed = (text,) if found.value is None else ()
        step = Step(
            action=StepAction(name=action, arguments={MADE_BY: rationale.name if rationale else "nobody"}),
            observation=StepObservation(text=text, documents=found.documents),
            belief=self.belief,
            usage=found.usage,
            remarks=(*failed, *found.notes),
        )
        return AggregationStep(rationale, step)

    def _mean(self, group: Sequence[AnswerRationale]) -> TargetPredictions:
        return pool_predictions(self.context.question, [one.predictions for one in group], PoolingMethod.LOGIT_MEAN)


def split_groups(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in order, in groups of this size."""
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def clamp_to_group(predictions: TargetPredictions, group: Sequence[TargetPredictions]) -> TargetPredictions:
    """Return the predictions, each number bounded by the lowest and the highest of the group."""
    return {target: _clamp_prediction(one, [other[target] for other in group]) for target, one in predictions.items()}


def _clamp_prediction(one: Prediction, group: Sequence[Prediction]) -> Prediction:
    match one:
        case BinaryPrediction(probability=probability):
            return BinaryPrediction(
                _clamp_number(
                    probability, [other.probability for other in group if isinstance(other, BinaryPrediction)]
                )
            )
        case ChoicePrediction(probabilities=shares):
            others = [other.probabilities for other in group if isinstance(other, ChoicePrediction)]
            held = {
                option: _clamp_number(share, [other[option] for other in others]) for option, share in shares.items()
            }
            total = sum(held.values())
            return ChoicePrediction({option: share / total for option, share in held.items()})
        case CurvePrediction(cdf=points):
            curves = [other.cdf for other in group if isinstance(other, CurvePrediction)]
            return CurvePrediction(
                tuple(_clamp_number(point, at) for point, at in zip(points, zip(*curves, strict=True), strict=True))
            )


def _clamp_number(number: float, others: Sequence[float]) -> float:
    return min(max(number, min(others)), max(others))


def _collect_rationales(made: Sequence[AggregationStep]) -> list[AnswerRationale]:
    return [one.rationale for one in made if one.rationale is not None]


def _collect_steps(made: Sequence[AggregationStep]) -> list[Step]:
    return [one.step for one in made if one.step is not None]


def _rationale_tool(role: str, answer_format: AnswerFormat, margin: float) -> ToolDefinition:
    stated = answer_format.schema(margin)
    properties: dict[str, Json] = {"reasoning": text_field(REASONING_CHARS)}
    if role == AGGREGATOR_ROLE:
        properties["outside_reason"] = text_field(OUTSIDE_CHARS, "empty, unless you leave the range")
    name = "give_merged_answer" if role == AGGREGATOR_ROLE else "give_answer"
    description = "Give your answer with its reasoning."
    return answer_tool(name, description, {**properties, **stated}, required=("reasoning", *stated))


def _format_group(group: Sequence[AnswerRationale], answer_format: AnswerFormat) -> str:
    answers = (fence_text(_format_rationale(one, answer_format), one.name) for one in group)
    return "\n\n".join(["# Answers so far", *answers])


def _read_rationale(name: str, arguments: Mapping[str, Json], answer_format: AnswerFormat) -> AnswerRationale:
    return AnswerRationale(
        name=name,
        predictions=answer_format.read(arguments),
        reasoning=require_text(arguments, "reasoning", REASONING_CHARS),
        outside_reason=parsing.read_text(arguments.get("outside_reason"), OUTSIDE_CHARS),
    )


def _format_rationale(rationale: AnswerRationale, answer_format: AnswerFormat) -> str:
    outside = (
        f"\nBeyond the answers it was made from, because: {rationale.outside_reason}"
        if rationale.outside_reason
        else ""
    )
    return f"{rationale.reasoning}\nAnswer: {answer_format.format(rationale.predictions)}{outside}"
