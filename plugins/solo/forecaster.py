"""Solo: one model, one line of moves, each of them on record; beliefs come by a tool, and rules are kept by code.

Source: the single agent of agent-forecaster (its post and its code), without what ruined its logged runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from bot.api import (
    SUBMIT,
    Action,
    Confidence,
    Course,
    Desk,
    Json,
    Misread,
    Move,
    Observation,
    Predictions,
    Question,
    State,
    Step,
    Tool,
    ToolResult,
    Way,
    Workplace,
    course_for,
    merged,
    question_text,
    seed_of,
    shown_state,
    starting_point,
    voice_for,
)
from plugins.solo import answer, tools, wording
from plugins.solo.critic import criticised
from plugins.solo.earlier import Earlier, earlier_of
from plugins.solo.settings import SoloSettings

MAIN = "main"


@asynccontextmanager
async def open_solo(settings: SoloSettings, _place: Workplace) -> AsyncIterator[Solo]:
    """Open Solo; it holds no connection: models and tools are the desk's."""
    yield Solo(settings)


class Solo:
    """Implements the port Forecaster. Everything that a trial knows lives in its stream."""

    def __init__(self, settings: SoloSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield one step per move; raises after the last one where the trial did not come to submitting.

        A forecast that is to be repeated is one step, and no model is asked. Raises ConfigError before any step where
        no model plays the role main.
        """
        earlier = await earlier_of(desk)
        why = earlier.why_repeat(question, desk.cutoff, self.settings) if earlier else None
        if earlier is not None and why is not None:
            yield _repeat(earlier, why)
            return
        trial = await _begun(question, desk, self.settings, earlier)
        way = Way(
            offer=trial.offer,
            act=trial.act,
            tools=trial.tools,
            fault=trial.fault,
            tokens=self.settings.tokens,
            repeats=self.settings.repeats,
            is_evidence=lambda move, result: not (result.failed or move.name in tools.OWN),
        )
        async with aclosing(trial.course.walk(way)) as stream:
            async for step in stream:
                yield trial.settled(step) if step.final else step


async def _begun(question: Question, desk: Desk, settings: SoloSettings, earlier: Earlier | None) -> _Trial:
    """Begin a trial: from its own forecast where that is not stale, else from the crowd or even odds."""
    voice, anchor = voice_for(desk, MAIN, seed=seed_of(desk, "seed")), starting_point(question, crowd=settings.crowd)
    course = course_for(question, voice, anchor, steps=settings.steps, manner=settings.manner)
    asked = [question_text(question, course.ballot, anchor, cutoff=desk.cutoff, crowd=settings.crowd)]
    if earlier is not None:
        stale = earlier.is_stale(desk.cutoff, settings)
        asked.append(wording.earlier(earlier.text, settings, stale=stale))
        if earlier.same_text and not stale:
            bounded = course.ballot.bounded(earlier.predictions, settings.margin)
            course.state = replace(course.state, predictions=bounded, anchor=earlier.name)
    asked.append(f"You start from {course.ballot.shown(course.state.predictions)}: {course.state.anchor}.")
    await course.open(wording.system(course, settings), "\n\n".join(asked), wording.version())
    course.documents += earlier.documents if earlier is not None else ()
    return _Trial(course=course, settings=settings)


def _repeat(earlier: Earlier, why: str) -> Step:
    return Step(
        action=Action(name="repeat", arguments={"since": earlier.since.isoformat()}),
        observation=Observation(text=earlier.text, documents=earlier.documents),
        belief=earlier.repeated(why),
        final=True,
        remarks=(why,),
    )


@dataclass(slots=True, kw_only=True)
class _Trial:
    """One trial under way: the course, and what the rules need to know of it."""

    course: Course
    settings: SoloSettings
    sources: answer.Sources = field(default_factory=answer.Sources)
    restated: bool = False
    feedbacks: int = 0
    tools: tuple[Tool, ...] = field(init=False)
    _last: str = ""
    _garbled: int = 0

    def __post_init__(self) -> None:
        """Make the tools once: all that the trial will ever offer."""
        course, settings = self.course, self.settings
        desk = (tool for tool in course.desk.all_tools if tool.name not in tools.OWN)
        own = [tools.update(course.ballot, settings), tools.think()]
        own += [tools.feedback()] if settings.feedbacks else []
        self.tools = (*desk, *own, tools.submit(course.question, course.ballot, settings))

    def offer(self, number: int) -> tuple[Tool, ...]:
        """Return what may be called: never two thoughts in a row, feedback only on a belief, at last only submit."""
        course, settings = self.course, self.settings
        self._garbled = self._garbles()
        names = {SUBMIT}
        if number < course.steps:
            names |= {tools.UPDATE, *(tool.name for tool in course.desk.tools)} - {tools.THINK, tools.FEEDBACK}
            names |= {tools.THINK} if self._last != tools.THINK else set()
            names |= {tools.FEEDBACK} if course.state.stated and self.feedbacks < settings.feedbacks else set()
        return tuple(tool for tool in self.tools if tool.name in names)

    def fault(self, move: Move) -> str | None:
        """Return why a belief cannot stand as it was stated; said once a turn, then the rules change what they must."""
        if move.name not in {tools.UPDATE, SUBMIT} or self._garbles() > self._garbled:
            return None
        try:
            predictions = self.course.ballot.read(move.arguments)
        except Misread as error:
            return str(error)
        faults = (
            self._too_sure(move.arguments, predictions),
            answer.too_long(move.arguments, self.settings.words),
            answer.no_bottom_line(move.arguments),
        )
        return "; ".join(filter(None, faults)) or None

    async def act(self, move: Move) -> ToolResult:
        """Do a move that ends nothing."""
        self._last = move.name
        match move.name:
            case tools.THINK:
                return ToolResult(observation=Observation(text="Noted."))
            case tools.UPDATE:
                return self._update(move.arguments)
            case tools.FEEDBACK:
                self.feedbacks += 1
                return await criticised(self.course, nth=self.feedbacks)
            case _:
                result = await self.course.use(move)
                if not result.failed:
                    self.sources.meet(move.name, result.observation.text, str(move.arguments.get("url", "")))
                return result

    def settled(self, step: Step) -> Step:
        """Return the last step with the answer as the rules leave it."""
        self.course.state, notes = self._ruled(self.course.state, step.action.arguments)
        observation = replace(step.observation, text="\n".join((step.observation.text, *notes)))
        return replace(step, belief=self.course.state.belief, observation=observation, remarks=(*step.remarks, *notes))

    def _update(self, arguments: Mapping[str, Json]) -> ToolResult:
        course = self.course
        said = {**arguments, "update_reasoning": answer.reason_of(arguments, self.settings.words)}
        merge = merged(course.state, said, course.ballot, margin=self.settings.margin)
        if merge.kept_old:
            return ToolResult(observation=Observation(text=merge.note), failed=True)
        # A number that was given before anything was looked up is no answer.
        stated = replace(merge.state, informed=course.state.informed or course.seen_evidence)
        course.state, notes = self._ruled(stated, arguments)
        told = (*notes, merge.note, f"Your belief now\n{shown_state(course.state, course.ballot)}")
        return ToolResult(observation=Observation(text="\n".join(filter(None, told))))

    def _ruled(self, state: State, arguments: Mapping[str, Json]) -> tuple[State, tuple[str, ...]]:
        """Return a belief as the rules leave it, and what they did to it."""
        settings, notes, predictions = self.settings, [], state.predictions
        if (why := self._too_sure(arguments, predictions)) is not None:
            predictions = answer.held_back(predictions, settings.extreme)
            notes.append(f"kept from being more extreme than {settings.extreme:g}: {why}")
        elif answer.is_extreme(predictions, settings.extreme):
            self.restated = True
        if (long := answer.too_long(arguments, settings.words)) is not None:
            notes.append(f"the rationale was cut: {long}")
        reason = answer.reason_of(arguments, settings.words) or state.reason
        items = (*state.evidence_for, *state.evidence_against)
        cited = self.sources.cited([*(f"{item.source} {item.text}" for item in items), reason])
        confidence = state.confidence
        if len(cited) < settings.sources:
            confidence = Confidence.LOW
            notes.append(
                f"confidence low: {len(cited)} independent sources were found and cited, {settings.sources} are wanted"
            )
        kept = answer.round_predictions(predictions)
        return replace(state, predictions=kept, reason=reason, confidence=confidence), tuple(notes)

    def _too_sure(self, arguments: Mapping[str, Json], predictions: Predictions) -> str | None:
        """Return why an answer may not be as extreme as it is; None where it is not, or may."""
        if self.restated or not answer.is_extreme(predictions, self.settings.extreme):
            return None
        said = arguments.get(answer.RESTATED)
        return answer.why_not_restated(said, self.course.question, self.settings.restatement_chars)

    def _garbles(self) -> int:
        return sum(self.course.voice.tally.unparsed.values())
