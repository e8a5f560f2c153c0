"""Solo: one model, one sequence of actions, all recorded; a tool states beliefs, and code enforces the rules.

Source: the single agent of docs/facts/source-systems.md#agent-forecaster, without what ruined its logged runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from bot.api import (
    SUBMIT,
    BeliefLoop,
    BeliefState,
    ConfidenceLevel,
    ForecastCritic,
    Json,
    LoopSettings,
    ModelAction,
    PluginContext,
    Question,
    Step,
    StepAction,
    StepObservation,
    TargetPredictions,
    ToolDefinition,
    ToolResult,
    TrialContext,
    UnreadableAnswer,
    apply_belief_update,
    create_belief_loop,
    derive_seed,
    find_starting_point,
    format_belief_state,
    open_session,
    parsing,
    question_text,
    text_result,
)
from plugins.solo import answer_rules, own_tools, prompt_texts
from plugins.solo.earlier_forecast import EarlierForecast, load_earlier_forecast
from plugins.solo.settings import SoloSettings

MAIN_ROLE = "main"


@asynccontextmanager
async def open_solo(settings: SoloSettings, _place: PluginContext) -> AsyncIterator[SoloForecaster]:
    """Open Solo; it holds no connection: the trial context provides models and tools."""
    yield SoloForecaster(settings)


class SoloForecaster:
    """Implements the interface Forecaster. All state of a trial belongs to its stream of steps."""

    def __init__(self, settings: SoloSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step per action; raises after the last one if the trial did not submit.

        A repeated forecast is one step, and no model is asked. Raises ConfigError before any step if no model plays the
        role main.
        """
        earlier = await load_earlier_forecast(context)
        why = earlier.repeat_reason(question, context.cutoff, self.settings) if earlier else None
        if earlier is not None and why is not None:
            yield _repeat_step(earlier, why)
            return
        trial = await _begin_trial(question, context, self.settings, earlier)
        loop_settings = LoopSettings(
            offer=trial.offer,
            act=trial.act,
            tools=trial.tools,
            find_fault=trial.fault,
            tokens=self.settings.tokens,
            repeats=self.settings.max_repeats,
            is_evidence=lambda move, result: not (result.failed or move.name in own_tools.OWN_TOOLS),
        )
        async with aclosing(trial.loop.run(loop_settings)) as stream:
            async for step in stream:
                yield trial.finish_step(step) if step.final else step


async def _begin_trial(
    question: Question, context: TrialContext, settings: SoloSettings, earlier: EarlierForecast | None
) -> _SoloTrial:
    """Begin a trial: from its own forecast if that is not stale, else from the crowd or even odds."""
    session, anchor = (
        open_session(context, MAIN_ROLE, seed=derive_seed(context, "seed")),
        find_starting_point(question, crowd=settings.crowd),
    )
    loop = create_belief_loop(question, session, anchor, steps=settings.steps, settings=settings.answer_settings)
    asked = [question_text(question, loop.answer_format, anchor, cutoff=context.cutoff, crowd=settings.crowd)]
    if earlier is not None:
        stale = earlier.is_stale(context.cutoff, settings)
        asked.append(prompt_texts.earlier_forecast_text(earlier.text, settings, stale=stale))
        if earlier.same_text and not stale:
            bounded = loop.answer_format.clamp(earlier.predictions, settings.margin)
            loop.state = replace(loop.state, predictions=bounded, anchor=earlier.name)
    asked.append(f"You start from {loop.answer_format.format(loop.state.predictions)}: {loop.state.anchor}.")
    await loop.begin(
        prompt_texts.system_prompt(loop, settings), "\n\n".join(asked), prompt_texts.prompt_version(question)
    )
    loop.documents += earlier.documents if earlier is not None else ()
    critic = ForecastCritic(
        question=question, context=context, settings=settings.answer_settings, rounds=settings.critic_rounds
    )
    return _SoloTrial(loop=loop, settings=settings, critic=critic)


def _repeat_step(earlier: EarlierForecast, why: str) -> Step:
    return Step(
        action=StepAction(name="repeat", arguments={"since": earlier.since.isoformat()}),
        observation=StepObservation(text=earlier.text, documents=earlier.documents),
        belief=earlier.as_belief(why),
        final=True,
        remarks=(why,),
    )


@dataclass(slots=True, kw_only=True)
class _SoloTrial:
    """One running trial: the loop, and the state that the rules need."""

    loop: BeliefLoop
    settings: SoloSettings
    critic: ForecastCritic
    sources: answer_rules.SeenSources = field(default_factory=answer_rules.SeenSources)
    restated: bool = False
    tools: tuple[ToolDefinition, ...] = field(init=False)
    _last: str = ""
    _known_parse_failures: int = 0

    def __post_init__(self) -> None:
        """Make the tools once: all that the trial will ever offer."""
        loop, settings = self.loop, self.settings
        offered = (tool for tool in loop.context.all_tools if tool.name not in own_tools.OWN_TOOLS)
        own = [own_tools.update_tool(loop.answer_format, settings), own_tools.think_tool()]
        own += [own_tools.feedback_tool()] if settings.critic_rounds else []
        self.tools = (*offered, *own, own_tools.solo_submit_tool(loop.question, loop.answer_format, settings))

    def offer(self, number: int) -> tuple[ToolDefinition, ...]:
        """Return what may be called: never two thoughts in a row, feedback only on a belief, at last only submit."""
        loop = self.loop
        self._known_parse_failures = self._parse_failures()
        names = {SUBMIT}
        if number < loop.steps:
            names |= {own_tools.UPDATE, *(tool.name for tool in loop.context.tools)} - {
                own_tools.THINK,
                own_tools.FEEDBACK,
            }
            names |= {own_tools.THINK} if self._last != own_tools.THINK else set()
            names |= {own_tools.FEEDBACK} if loop.state.stated and self.critic.is_left else set()
        return tuple(tool for tool in self.tools if tool.name in names)

    def fault(self, move: ModelAction) -> str | None:
        """Return why a stated belief is refused; said once a turn, then the rules change it as needed."""
        if move.name not in {own_tools.UPDATE, SUBMIT} or self._parse_failures() > self._known_parse_failures:
            return None
        try:
            predictions = self.loop.answer_format.read(move.arguments)
        except UnreadableAnswer as error:
            return str(error)
        faults = (
            self._extremity_fault(move.arguments, predictions),
            answer_rules.length_fault(move.arguments, self.settings.max_words),
            answer_rules.bottom_line_fault(move.arguments),
        )
        return "; ".join(filter(None, faults)) or None

    async def act(self, move: ModelAction) -> ToolResult:
        """Run an action that does not end the trial."""
        self._last = move.name
        match move.name:
            case own_tools.THINK:
                return text_result("Noted.")
            case own_tools.UPDATE:
                return self._update(move.arguments)
            case own_tools.FEEDBACK:
                return await self._ask_critic(move.arguments)
            case _:
                result = await self.loop.use_tool(move)
                if not result.failed:
                    self.sources.add_result(move.name, result.sources, str(move.arguments.get("url", "")))
                return result

    def finish_step(self, step: Step) -> Step:
        """Return the last step with the answer after the rules."""
        self.loop.state, notes = self._apply_rules(self.loop.state, step.action.arguments)
        observation = replace(step.observation, text="\n".join((step.observation.text, *notes)))
        return replace(step, belief=self.loop.state.belief, observation=observation, remarks=(*step.remarks, *notes))

    async def _ask_critic(self, arguments: Mapping[str, Json]) -> ToolResult:
        """Return the critique of the belief; what the model is least sure of is part of the case."""
        loop, crowd = self.loop, self.settings.crowd
        case = {"forecast under review": format_belief_state(loop.state, loop.answer_format)}
        if doubt := parsing.read_text(arguments.get(own_tools.DOUBT), own_tools.DOUBT_CHARS):
            case["what the forecaster is least sure of"] = doubt
        anchor, cutoff = find_starting_point(loop.question, crowd=crowd), loop.context.cutoff
        return await self.critic.review(
            lambda answer_format: question_text(loop.question, answer_format, anchor, cutoff=cutoff, crowd=crowd), case
        )

    def _update(self, arguments: Mapping[str, Json]) -> ToolResult:
        loop = self.loop
        said = {**arguments, "update_reasoning": answer_rules.join_reasons(arguments, self.settings.max_words)}
        merge = apply_belief_update(loop.state, said, loop.answer_format, margin=self.settings.margin)
        if merge.kept_old:
            return text_result(merge.note, failed=True)
        # A number stated before any research is not an answer.
        stated = replace(merge.state, informed=loop.state.informed or loop.seen_evidence)
        loop.state, notes = self._apply_rules(stated, arguments)
        notes_and_belief = (
            *notes,
            merge.note,
            f"Your belief now\n{format_belief_state(loop.state, loop.answer_format)}",
        )
        return text_result("\n".join(filter(None, notes_and_belief)))

    def _apply_rules(self, state: BeliefState, arguments: Mapping[str, Json]) -> tuple[BeliefState, tuple[str, ...]]:
        """Return a belief after the rules, and what they changed."""
        settings, notes, predictions = self.settings, [], state.predictions
        if (why := self._extremity_fault(arguments, predictions)) is not None:
            predictions = answer_rules.limit_extremes(predictions, settings.extreme_probability)
            notes.append(f"kept from being more extreme than {settings.extreme_probability:g}: {why}")
        elif answer_rules.is_extreme(predictions, settings.extreme_probability):
            self.restated = True
        if (long := answer_rules.length_fault(arguments, settings.max_words)) is not None:
            notes.append(f"the rationale was cut: {long}")
        reason = answer_rules.join_reasons(arguments, settings.max_words) or state.reason
        items = (*state.evidence_for, *state.evidence_against)
        cited = self.sources.find_cited([*(f"{item.source} {item.text}" for item in items), reason])
        confidence = state.confidence
        if len(cited) < settings.min_sources:
            confidence = ConfidenceLevel.LOW
            notes.append(
                f"confidence low: {len(cited)} independent sources were found and cited, "
                f"{settings.min_sources} are wanted"
            )
        kept = answer_rules.round_predictions(predictions)
        return replace(state, predictions=kept, reason=reason, confidence=confidence), tuple(notes)

    def _extremity_fault(self, arguments: Mapping[str, Json], predictions: TargetPredictions) -> str | None:
        """Return why an answer may not be as extreme as it is; None where it is not, or may."""
        if self.restated or not answer_rules.is_extreme(predictions, self.settings.extreme_probability):
            return None
        stated = arguments.get(answer_rules.CRITERIA_RESTATED)
        return answer_rules.restatement_fault(stated, self.loop.question, self.settings.restatement_chars)

    def _parse_failures(self) -> int:
        return sum(self.loop.session.tally.unparsed.values())
