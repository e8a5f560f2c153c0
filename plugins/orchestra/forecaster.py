"""The orchestra: a model that makes subagents, runs them within limits, and answers from their reports.

Its last step holds a report of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from bot.api import (
    BELIEF_FIELD,
    AnswerSettings,
    BeliefLoop,
    ForecastCritic,
    LoopSettings,
    PluginContext,
    Question,
    Step,
    StepAction,
    StepObservation,
    TrialContext,
    bounds_text,
    create_belief_loop,
    derive_seed,
    fence_text,
    find_starting_point,
    judging_text,
    load_template,
    open_session,
    task_text,
)
from plugins.orchestra import lessons, subagent_kinds
from plugins.orchestra.aggregation import AnswerRationale, SelfAggregation
from plugins.orchestra.lessons import ForecastLesson
from plugins.orchestra.orchestrator_actions import MAX_CRITIQUES, SUBAGENTS_TOOL, OrchestratorActions
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.shared_memory import MEMORY_TOOL as MEMORY
from plugins.orchestra.shared_memory import SharedMemory
from plugins.orchestra.subagent_pool import ORCHESTRATOR, SubagentPool
from plugins.orchestra.subagent_run import MAIN_ROLE, OrchestraContext, RunEnd

REPORT_HEADING = "Run report"


def format_run_report(
    orchestrator: OrchestratorActions, offered: Sequence[ForecastLesson], aggregation: SelfAggregation | None
) -> str:
    """Return the report as text; the last step of a trial contains it."""
    memory, critic = orchestrator.context.memory, orchestrator.critic
    lessons = ", ".join(lesson.forecast for lesson in offered) or "none"
    guidance = sum(run.requests for run in orchestrator.pool.runs)
    lines = [
        REPORT_HEADING,
        _budget_line(orchestrator.pool),
        *_run_lines(orchestrator.pool),
        f"shared memory: {len(memory.entries)} entries, {sum(memory.uses.values())} uses",
        f"critic asked {critic.times} times; guidance asked {guidance} times",
        f"lessons offered: {lessons}; written down: {orchestrator.notes_written}",
    ]
    if aggregation is not None and aggregation.mean_answer is not None:
        answer_format = orchestrator.loop.answer_format
        answers = "; ".join(f"{one.name} {answer_format.format(one.predictions)}" for one in aggregation.rationales)
        lines.append(f"candidates: {answers}; mean of their log-odds {answer_format.format(aggregation.mean_answer)}")
    return "\n".join(lines)


def _budget_line(pool: SubagentPool) -> str:
    settings = pool.context.settings
    turns, tokens = (sum(each) for each in zip((0, 0), *((run.turns, run.tokens) for run in pool.runs), strict=True))
    return (
        f"subagents made {pool.created}, {settings.subagents} at one time; "
        f"at once {pool.most_at_once} of {settings.concurrency}; "
        f"their steps {turns} of {settings.total_agent_steps}, tokens {tokens} of {pool.most_tokens}; "
        f"forecasts reported {pool.forecasts} of {settings.max_forecast_reports}"
    )


def _run_lines(pool: SubagentPool) -> Iterator[str]:
    for run in pool.runs:
        agent, why = run.agent, f" ({run.why})" if run.why else ""
        report = f"; {run.report.status}, confidence {run.report.confidence} of 100" if run.report else ""
        given = ", ".join(agent.tools) or "none"
        yield f"- {agent.name} ({agent.kind.name}; tools {given}) {run.end}{why} after {run.usage_text}{report}"


class OrchestraForecaster:
    """Implements the interface Forecaster. All state of a trial belongs to its stream of steps."""

    def __init__(self, settings: OrchestraSettings) -> None:
        """Keep the settings."""
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield a step for each action of the orchestrator and of its subagents; raises if nothing was submitted.

        Raises ConfigError before any step if no model plays the role orchestrator or main.
        """
        relay = StepRelay()
        trial = _create_trial(question, context, self.settings.within(context.limits.steps), relay)
        await trial.open()
        async with aclosing(relay.relay_steps(trial.steps())) as steps:
            async for step in steps:
                yield step


@asynccontextmanager
async def open_orchestra(settings: OrchestraSettings, _place: PluginContext) -> AsyncIterator[OrchestraForecaster]:
    """Open the orchestra; it holds no connection: the trial context provides models and tools."""
    yield OrchestraForecaster(settings)


@dataclass(slots=True, kw_only=True)
class _OrchestraTrial:
    """One running trial; ``lessons_offered`` are the lessons that the orchestrator gets at the beginning."""

    orchestrator: OrchestratorActions
    lessons_offered: Sequence[ForecastLesson]
    aggregation: SelfAggregation | None = None

    @property
    def loop(self) -> BeliefLoop:
        return self.orchestrator.loop

    async def open(self) -> None:
        loop, settings = self.loop, self.orchestrator.context.settings
        system = load_template(subagent_kinds.PROMPT_PACKAGE, "orchestrator").substitute(
            task=task_text(loop.question),
            judging=judging_text(loop.question),
            kinds=subagent_kinds.list_kinds_text(),
            belief_field=BELIEF_FIELD,
            forecasts=settings.max_forecast_reports,
            bounds=bounds_text(loop.answer_format, loop.settings.submit_margin),
            lessons=_lessons_prompt(self.lessons_offered),
        )
        await loop.begin(
            system,
            self.orchestrator.context.question_prompt(loop.answer_format),
            subagent_kinds.prompt_version(loop.question),
        )

    async def steps(self) -> AsyncGenerator[Step, None]:
        orchestrator = self.orchestrator
        loop_settings = LoopSettings(
            offer=orchestrator.offer,
            act=orchestrator.act,
            tools=orchestrator.tools,
            reply_suffix=orchestrator.budget_text,
            repeatable=frozenset({MEMORY, SUBAGENTS_TOOL}),
            is_evidence=orchestrator.is_evidence,
        )
        shown = ", ".join(lesson.forecast for lesson in self.lessons_offered)
        remarks = (f"lessons offered, from the forecasts {shown}",) if shown else ()
        submitted = None
        async with aclosing(self.loop.run(loop_settings)) as own:
            async for step in own:
                orchestrator.count(step)
                made, remarks = replace(step, remarks=(*remarks, *step.remarks)), ()
                if made.final:
                    submitted = made
                    break
                yield self._add_run_report(made) if _ended_without_answer(made) else made
        if submitted is not None:
            async with aclosing(self._end(submitted)) as last:
                async for one in last:
                    yield one

    async def _end(self, submitted: Step) -> AsyncGenerator[Step, None]:
        for run in self.orchestrator.pool.waiting:
            await run.finish(RunEnd.DISMISSED)
        if not self.orchestrator.context.settings.candidates:
            yield self._add_run_report(submitted)
            return
        yield replace(submitted, final=False)
        own = AnswerRationale(
            name=ORCHESTRATOR, predictions=submitted.belief.predictions, reasoning=submitted.belief.reason or "none"
        )
        self.aggregation = SelfAggregation(
            context=self.orchestrator.context, findings=_findings_text(self.orchestrator), belief=submitted.belief
        )
        async with aclosing(self.aggregation.run(own)) as steps:
            async for step in steps:
                yield step
        yield self._add_run_report(self._answer_step())

    def _answer_step(self) -> Step:
        """Return the last step with the merged belief."""
        loop = self.loop
        assert self.aggregation is not None  # noqa: S101 - it has just come to its end
        assert self.aggregation.answer is not None  # noqa: S101 - the orchestrator's own answer is always left
        answer = self.aggregation.answer
        final = loop.answer_format.clamp(answer.predictions, loop.settings.submit_margin)
        loop.state = replace(loop.state, predictions=final, reason=answer.reasoning, informed=True)
        return Step(
            action=StepAction(name="aggregate", arguments={"answer": answer.name}),
            observation=StepObservation(text=f"the answer is {loop.answer_format.format(final)}, by {answer.name}"),
            belief=loop.state.belief,
            final=True,
        )

    def _add_run_report(self, step: Step) -> Step:
        text = (
            f"{step.observation.text}\n\n{format_run_report(self.orchestrator, self.lessons_offered, self.aggregation)}"
        )
        return replace(step, observation=replace(step.observation, text=text))


def _create_trial(
    question: Question, context: TrialContext, settings: OrchestraSettings, relay: StepRelay
) -> _OrchestraTrial:
    manner = AnswerSettings(step_margin=settings.step_margin, submit_margin=settings.submit_margin)
    run_context = OrchestraContext(
        question=question,
        context=context,
        anchor=find_starting_point(question, crowd=settings.crowd),
        settings=settings,
        answer_settings=manner,
        memory=SharedMemory(most=settings.memory_entries),
    )
    session = open_session(context, ORCHESTRATOR, MAIN_ROLE, seed=derive_seed(context, ORCHESTRATOR))
    loop = create_belief_loop(question, session, run_context.anchor, steps=settings.steps, settings=manner)
    known = lessons.load_lessons(context.fitted, context.cutoff, days=settings.lesson_days) if settings.lessons else []
    orchestrator = OrchestratorActions(
        context=run_context,
        loop=loop,
        pool=SubagentPool(context=run_context),
        critic=ForecastCritic(question=question, context=context, settings=manner, rounds=MAX_CRITIQUES),
        pass_on_step=relay.put,
        lessons=known,
    )
    return _OrchestraTrial(
        orchestrator=orchestrator, lessons_offered=lessons.select_lessons(known, question, settings.lessons_shown)
    )


def _lessons_prompt(offered: Sequence[ForecastLesson]) -> str:
    if not offered:
        return ""
    listed = load_template(subagent_kinds.PROMPT_PACKAGE, "lessons").substitute(listed=lessons.lessons_text(offered))
    return f"\n\n{listed}"


def _findings_text(orchestrator: OrchestratorActions) -> str:
    """Return all findings for the models that answer anew: without the orchestrator's own answer."""
    memory, belief = orchestrator.context.memory, orchestrator.loop.state.belief
    reports = [
        run.report.fenced_text(run.agent.name, run.answer_format)
        for run in orchestrator.pool.runs
        if run.report is not None
    ]
    held = fence_text(memory.newest_text(memory.most), "shared memory") if memory.entries else ""
    evidence = [
        *(f"for: {item.text} [{item.source}]" for item in belief.evidence_for),
        *(f"against: {item.text} [{item.source}]" for item in belief.evidence_against),
        *(f"open: {asked}" for asked in belief.open_questions),
    ]
    noted = fence_text("\n".join(evidence), "notes of the orchestrator") if evidence else ""
    return "\n\n".join(["# What was found", *filter(None, (*reports, held, noted))])


def _ended_without_answer(step: Step) -> bool:
    return step.action.name == "stop" or any(remark.startswith("ended without") for remark in step.remarks)


class StepRelay:
    """Passes on the steps of a stream, and before each of them those that were added while it was made."""

    def __init__(self) -> None:
        """Begin with nothing."""
        # None follows the last step.
        self._steps: asyncio.Queue[Step | None] = asyncio.Queue()
        self._taken = asyncio.Event()

    async def put(self, step: Step) -> None:
        """Pass on a step; returns when the reader asks for the next one."""
        self._taken.clear()
        self._steps.put_nowait(step)
        await self._taken.wait()

    async def relay_steps(self, stream: AsyncGenerator[Step, None]) -> AsyncGenerator[Step, None]:
        """Yield all steps in the order in which they were made; errors of the stream are raised."""
        making = asyncio.ensure_future(self._put_all(stream))
        try:
            while (step := await self._steps.get()) is not None:
                yield step
                self._taken.set()
            await making
        finally:
            # Stopped at a step of a subagent: the work behind it ends here as well.
            making.cancel()
            await asyncio.wait({making})
            # The caller that stopped it does not need the error.
            _ = making.cancelled() or making.exception()
            await stream.aclose()

    async def _put_all(self, stream: AsyncGenerator[Step, None]) -> None:
        try:
            async for step in stream:
                await self.put(step)
        finally:
            self._steps.put_nowait(None)
