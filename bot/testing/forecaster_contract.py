"""Contract kit for forecasters: tests that a plugin's test module inherits."""

# ruff: noqa: S101 - pytest is made of assert
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.core.beliefs import Step, belief_mismatch
from bot.core.plugin_specs import ForecasterSpec, PluginContext
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, ChoiceShape, CurveShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.testing.clock import START, FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.spec_contract import PluginSpecContract
from bot.testing.trial_context import ScriptedTrialContext

# One of each kind, with a price of others and without one.
SAMPLE_QUESTIONS = (
    Question(
        ref=QuestionRef("sample", "priced"),
        title="Will it rain tomorrow?",
        shape=BinaryShape(),
        targets=(Target(),),
        crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=START),
    ),
    Question(
        ref=QuestionRef("sample", "dated"),
        title="Will the level be higher than today?",
        shape=BinaryShape(),
        targets=(
            Target(key="week", resolves_at=datetime(2026, 1, 8, tzinfo=UTC)),
            Target(key="month", resolves_at=datetime(2026, 2, 1, tzinfo=UTC)),
        ),
    ),
    Question(
        ref=QuestionRef("sample", "race"),
        title="Who wins the race?",
        shape=ChoiceShape(options=("Ann", "Bob", "Cat")),
        targets=(Target(),),
        crowd=CrowdForecast(prediction=ChoicePrediction({"Ann": 0.6, "Bob": 0.3, "Cat": 0.1}), at=START),
    ),
    Question(
        ref=QuestionRef("sample", "count"),
        title="How many ships arrive this year?",
        shape=CurveShape(grid=(0.0, 25.0, 50.0, 75.0, 100.0), open_upper=True),
        targets=(Target(),),
    ),
)


class ForecasterContract(PluginSpecContract):
    """What every forecaster must do on ``questions``, by default one of each kind.

    ``create_trial`` makes what it may use in a trial: override it to script models and tools.
    """

    spec: ClassVar[ForecasterSpec[Any]]
    questions: ClassVar[Sequence[Question]] = SAMPLE_QUESTIONS

    def create_trial(self) -> ScriptedTrialContext:
        """Return what one trial may use."""
        return ScriptedTrialContext()

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)

    async def test_every_belief_answers_the_whole_question(self, context: PluginContext) -> None:
        for question in self.questions:
            for number, step in enumerate(await self._run_trial(context, question), 1):
                why = belief_mismatch(step.belief, question)
                assert why is None, (
                    f"{question.ref}: the belief of step {number} does not fit: {why}. Give one prediction for each of "
                    "Question.targets, of the kind that Question.shape asks for"
                )

    async def test_a_trial_ends_with_a_stated_belief(self, context: PluginContext) -> None:
        for question in self.questions:
            steps = await self._run_trial(context, question)
            assert steps, f"{question.ref}: the trial has no step: raise an error if there is no answer"
            assert steps[-1].belief.stated, (
                f"{question.ref}: the last belief is not stated, so a limit would void the trial: "
                "Belief.stated is False only before there is evidence"
            )

    async def test_it_takes_no_more_steps_than_it_says(self, context: PluginContext) -> None:
        if self.spec.steps is None:
            return
        most = self.spec.steps(self.settings)
        for question in self.questions:
            taken = len(await self._run_trial(context, question))
            assert taken <= most, f"{question.ref}: {taken} steps, but ForecasterSpec.steps says at most {most}"

    async def test_the_same_trial_gives_the_same_beliefs(self, context: PluginContext) -> None:
        for question in self.questions:
            first, second = [
                [step.belief.predictions for step in await self._run_trial(context, question)] for _ in range(2)
            ]
            assert first == second, (
                f"{question.ref}: two runs of one trial differ, so it cannot be replayed: take chance from "
                "TrialContext.stream and time from TrialContext.cutoff"
            )

    async def test_it_can_be_stopped_at_any_step(self, context: PluginContext) -> None:
        for question in self.questions:
            async with (
                self.spec.open(self.settings, context) as forecaster,
                aclosing(forecaster.steps(question, self.create_trial())) as steps,
            ):
                await anext(steps)

    async def _run_trial(self, context: PluginContext, question: Question) -> list[Step]:
        async with self.spec.open(self.settings, context) as forecaster:
            return [step async for step in forecaster.steps(question, self.create_trial())]
