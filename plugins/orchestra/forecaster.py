"""The orchestra: a model that makes subagents, sets them to work within limits, and answers from what they bring.

Source: the multi-agent system of agent-forecaster, with its limits held by code, and its plans (lasting memory,
self-aggregation) carried out. Trials, their combination, calibration and the record are the engine's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from bot.api import (
    BELIEF_FIELD,
    Action,
    Course,
    Desk,
    Manner,
    Observation,
    Question,
    Step,
    Usage,
    Way,
    Workplace,
    bounds_of,
    course_for,
    quoted,
    seed_of,
    starting_point,
    task_of,
    template,
    voice_for,
)
from plugins.orchestra import catalogue, lessons
from plugins.orchestra.account import report
from plugins.orchestra.aggregation import Aggregation, Made, Rationale
from plugins.orchestra.crew import ORCHESTRATOR, Crew
from plugins.orchestra.critic import Critic
from plugins.orchestra.lessons import Lesson
from plugins.orchestra.memory import NAME as MEMORY
from plugins.orchestra.memory import SharedMemory
from plugins.orchestra.relay import Relay
from plugins.orchestra.run import MAIN, End, Scene
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.stage import Stage
from plugins.orchestra.tools import LOOK


@asynccontextmanager
async def open_orchestra(settings: OrchestraSettings, _place: Workplace) -> AsyncIterator[Orchestra]:
    """Open the orchestra; it holds no connection: models and tools are the desk's."""
    yield Orchestra(settings)


class Orchestra:
    """Implements the port Forecaster. Everything that a trial knows lives in its stream."""

    def __init__(self, settings: OrchestraSettings) -> None:
        """Keep the settings."""
        self.settings = settings

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield a step for each move of the orchestrator and of its subagents; raises where nothing was submitted.

        Where the limit of steps leaves no room for that, the moves of subagents are part of the orchestrator's steps.
        Raises ConfigError before any step where no model plays the role orchestrator or main.
        """
        trial = _trial(question, desk, self.settings)
        await trial.open()
        relay = Relay()
        if desk.limits.steps >= self.settings.most_steps:
            trial.stage.put = relay.put
        async with aclosing(relay.through(trial.steps())) as steps:
            async for step in steps:
                yield step


@dataclass(slots=True, kw_only=True)
class _Trial:
    """One trial under way; ``offered`` are the lessons that the orchestrator is shown at the beginning."""

    stage: Stage
    offered: Sequence[Lesson]
    aggregation: Aggregation | None = None

    @property
    def course(self) -> Course:
        return self.stage.course

    async def open(self) -> None:
        course, settings = self.course, self.stage.scene.settings
        system = template(catalogue.HERE, "orchestrator").substitute(
            task=task_of(course.question),
            kinds=catalogue.listed(),
            belief_field=BELIEF_FIELD,
            steps=course.steps,
            forecasts=settings.forecasts,
            bounds=bounds_of(course.ballot, course.manner.submit_margin),
            lessons=_told(self.offered),
        )
        await course.open(system, self.stage.scene.asked(course.ballot), catalogue.texts())

    async def steps(self) -> AsyncGenerator[Step, None]:
        stage = self.stage
        way = Way(
            offer=stage.offer,
            act=stage.act,
            tools=stage.tools,
            after=stage.left,
            again=frozenset({MEMORY, LOOK}),
            is_evidence=stage.is_evidence,
        )
        told = ", ".join(lesson.forecast for lesson in self.offered)
        remarks = (f"lessons offered, from the forecasts {told}",) if told else ()
        submitted = None
        async with aclosing(self.course.walk(way)) as own:
            async for step in own:
                stage.count(step)
                made, remarks = replace(step, remarks=(*remarks, *step.remarks)), ()
                if made.final:
                    submitted = made
                    break
                yield self._reported(made) if _is_given_up(made) else made
        if submitted is not None:
            async with aclosing(self._end(submitted)) as last:
                async for one in last:
                    yield one

    async def _end(self, submitted: Step) -> AsyncGenerator[Step, None]:
        for run in self.stage.crew.waiting:
            await run.finish(End.DISMISSED)
        if not _merges(self.stage.scene):
            yield self._reported(submitted)
            return
        yield replace(submitted, final=False)
        own = Rationale(
            name=ORCHESTRATOR, predictions=submitted.belief.predictions, reasoning=submitted.belief.reason or "none"
        )
        self.aggregation = Aggregation(scene=self.stage.scene, dossier=_dossier(self.stage))
        whole: list[Made] = []
        async with aclosing(self.aggregation.run(own)) as stream:
            async for made in stream:
                if self.stage.put is None:
                    whole.append(made)
                else:
                    yield made.step(submitted.belief)
        yield self._reported(self._answered(whole))

    def _answered(self, made: Sequence[Made]) -> Step:
        """Return the last step, which believes what was merged; ``made`` is what has no step of its own."""
        course = self.course
        assert self.aggregation is not None  # noqa: S101 - it has just come to its end
        assert self.aggregation.answer is not None  # noqa: S101 - the orchestrator's own answer is always left
        answer = self.aggregation.answer
        final = course.ballot.bounded(answer.predictions, course.manner.submit_margin)
        course.state = replace(course.state, predictions=final, reason=answer.reasoning, informed=True)
        told = [*(one.told for one in made), f"the answer is {course.ballot.shown(final)}, by {answer.name}"]
        return Step(
            action=Action(name="aggregate", arguments={"answer": answer.name}),
            observation=Observation(
                text="\n\n".join(told), documents=tuple(document for one in made for document in one.documents)
            ),
            belief=course.state.belief,
            usage=sum((one.usage for one in made), Usage()),
            final=True,
            remarks=tuple(remark for one in made for remark in one.remarks),
        )

    def _reported(self, step: Step) -> Step:
        text = f"{step.observation.text}\n\n{report(self.stage, self.offered, self.aggregation)}"
        return replace(step, observation=replace(step.observation, text=text))


def _trial(question: Question, desk: Desk, settings: OrchestraSettings) -> _Trial:
    manner = Manner(step_margin=settings.step_margin, submit_margin=settings.submit_margin)
    scene = Scene(
        question=question,
        desk=desk,
        anchor=starting_point(question, crowd=settings.crowd),
        settings=settings,
        manner=manner,
        memory=SharedMemory(most=settings.memory_entries),
    )
    voice = voice_for(desk, ORCHESTRATOR, MAIN, seed=seed_of(desk, ORCHESTRATOR))
    # What is merged in the end needs a step of its own.
    steps = min(settings.steps, desk.limits.steps - _merges(scene))
    course = course_for(question, voice, scene.anchor, steps=steps, manner=manner)
    known = lessons.known(desk.fitted, desk.cutoff, days=settings.lesson_days) if settings.lessons else []
    stage = Stage(scene=scene, course=course, crew=Crew(scene=scene), critic=Critic(scene=scene), told=known)
    return _Trial(stage=stage, offered=lessons.fitting(known, question, settings.lessons_shown))


def _merges(scene: Scene) -> bool:
    return scene.settings.candidates > 0 and scene.desk.limits.steps > 1


def _told(offered: Sequence[Lesson]) -> str:
    if not offered:
        return ""
    listed = template(catalogue.HERE, "lessons").substitute(listed=lessons.shown(offered))
    return f"\n\n{listed}"


def _dossier(stage: Stage) -> str:
    """Return all that was found, as those who answer anew read it: without the orchestrator's own answer."""
    memory, belief = stage.scene.memory, stage.course.state.belief
    reports = [run.report.shown(run.agent.name, run.ballot) for run in stage.crew.runs if run.report is not None]
    held = quoted(memory.told(memory.most), "shared memory") if memory.entries else ""
    evidence = [
        *(f"for: {item.text} [{item.source}]" for item in belief.evidence_for),
        *(f"against: {item.text} [{item.source}]" for item in belief.evidence_against),
        *(f"open: {asked}" for asked in belief.open_questions),
    ]
    noted = quoted("\n".join(evidence), "notes of the orchestrator") if evidence else ""
    return "\n\n".join(["# What was found", *filter(None, (*reports, held, noted))])


def _is_given_up(step: Step) -> bool:
    return step.action.name == "stop" or any(remark.startswith("ended without") for remark in step.remarks)
