"""The agent loop: it offers tools, asks for an action, runs it and replies.

``BeliefLoop`` adds a belief state that every action updates (BLF, arXiv 2604.18576v3, section 3 and algorithm 1).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import field, replace
from typing import Literal

from bot.core.beliefs import Step, StepAction, StepObservation, ToolResult
from bot.core.errors import ContextLengthExceededError, FoxcastError, MalformedDataError, TrialLimitReachedError
from bot.core.interfaces import TrialContext
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.forecasting.agent.answer_schema import (
    AnswerFormat,
    AnswerSettings,
    TargetPredictions,
    create_answer_format,
    prediction_distance,
)
from bot.forecasting.agent.belief_state import (
    BeliefState,
    BeliefUpdate,
    StartingPoint,
    apply_belief_update,
    belief_schema,
    format_belief_state,
    initial_belief_state,
)
from bot.forecasting.agent.chat_session import ActionCheck, ChatSession, TurnResult, accept_action, only_callable_text
from bot.forecasting.agent.compaction import compact_belief_state
from bot.forecasting.agent.parsing import ModelAction, UnreadableAnswer, read_text
from bot.forecasting.agent.prompt_texts import SUBMIT, join_tool_names
from bot.forecasting.agent.tool_schemas import text_result

ActionFunction = Callable[[ModelAction], Awaitable[ToolResult]]


OfferFunction = Callable[[int], tuple[ToolDefinition, ...]]


# Why a loop ended: a closing tool, no valid answer, no model could be asked, a limit, or the same call repeated.
EndReason = Literal["", "closed", "silent", "unasked", "steps", "tokens", "repeats"]


def _no_text(_number: int) -> str:
    return ""


def _ignore_action(_move: ModelAction) -> None:
    return None


async def _no_notes(_heard: TurnResult) -> tuple[str, ...]:
    return ()


def _has_succeeded(_move: ModelAction, result: ToolResult) -> bool:
    return not result.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How a loop runs.

    ``tools`` are all that the loop will ever offer, the same in every request. ``offer`` says which of them may be
    called at a step (at the last one only closing tools, or the loop ends without closing). ``act`` runs an action that
    does not close the loop. ``find_fault`` says why an offered action is refused, which is repaired once.
    ``reply_suffix`` follows the result of a step in the reply, such as the remaining budget.

    ``tokens`` ends the loop once that many were read and written. A repeated call with the same arguments is refused
    in words, and the ``repeats``-th one ends the loop, except for the tools in ``repeatable``; None allows repeats.
    ``before_action`` gets each action before it runs, ``after_action`` gets the turn result after it: it may add to its
    usage and documents, and its return value becomes a note. ``is_evidence`` says whether the result of an action is
    evidence on the question; a thought or a note is not.
    """

    offer: OfferFunction
    act: ActionFunction
    tools: tuple[ToolDefinition, ...] = ()
    closing_tools: frozenset[str] = frozenset({SUBMIT})
    find_fault: ActionCheck = accept_action
    reply_suffix: Callable[[int], str] = _no_text
    tokens: int | None = None
    repeats: int | None = 3
    repeatable: frozenset[str] = frozenset()
    before_action: Callable[[ModelAction], None] = _ignore_action
    after_action: Callable[[TurnResult], Awaitable[tuple[str, ...]]] = _no_notes
    is_evidence: Callable[[ModelAction, ToolResult], bool] = _has_succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTurn:
    """One round of the loop.

    The last one is ``is_last`` and has ``end_reason``; ``failure`` is set if no model answered.
    ``reply`` is the text that the model gets, with all ``notes``; ``result`` is None if no action ran.
    """

    number: int
    turn_result: TurnResult
    action: ModelAction | None = None
    result: ToolResult | None = None
    reply: str = ""
    notes: tuple[str, ...] = ()
    is_last: bool = False
    failure: FoxcastError | None = None
    end_reason: EndReason = ""


async def run_loop(
    session: ChatSession, loop_settings: LoopSettings, *, steps: int, begin: int = 1
) -> AsyncGenerator[LoopTurn, None]:
    """Yield the turns in order, from number ``begin`` to ``steps`` at most; the last one is marked.

    The caller has begun the conversation. After a closing action the next message to the session answers it, so
    another loop can continue from there.
    """
    run = _begin_run(session, loop_settings, steps=steps, begin=begin)
    for number in range(begin, steps + 1):
        turn = await run.run_turn(number)
        # The engine may stop at its own limit after any turn, so no work may follow the yield.
        yield turn
        if turn.is_last:
            return


@dataclass(slots=True, kw_only=True)
class _LoopRun:
    """A running loop: what is offered now, and how much of its limits it has used."""

    session: ChatSession
    settings: LoopSettings
    steps: int
    offered: tuple[ToolDefinition, ...] = ()
    _names: set[str] = field(default_factory=set)
    _tokens: int = 0
    _calls: Counter[str] = field(default_factory=Counter)

    def offer(self, number: int) -> None:
        """Decide what may be called at a step; without time for more, only what the last step offers."""
        session = self.session
        is_late = session.context.is_final_answer_time(f"{session.role} {session.seed} {number}")
        self.offered = self.settings.offer(self.steps if is_late else number)
        self._names = {tool.name for tool in self.offered}

    async def run_turn(self, number: int) -> LoopTurn:
        turn_result = await self.session.ask_action(self.offered, lambda action: self._find_fault(number, action))
        action = turn_result.action
        if turn_result.failure is not None or action is None:
            failure = self._explain_failure(number, turn_result)
            reason: EndReason = "unasked" if turn_result.request_error else "silent"
            return LoopTurn(
                number=number,
                turn_result=turn_result,
                action=action,
                notes=turn_result.notes,
                is_last=True,
                failure=failure,
                end_reason=reason,
            )
        if action.name in self.settings.closing_tools and action.name in self._names:
            self.session.keep_action(turn_result)
            notes = drop_empty(*turn_result.notes, *action.notes)
            return LoopTurn(
                number=number, turn_result=turn_result, action=action, notes=notes, is_last=True, end_reason="closed"
            )
        return await self._run_action(number, turn_result, action)

    async def _run_action(self, number: int, turn_result: TurnResult, action: ModelAction) -> LoopTurn:
        self.settings.before_action(action)
        times = self._count_call(action)
        result = await self._execute_action(action, times)
        turn_result.usage += result.usage
        turn_result.documents += result.observation.documents
        notes = drop_empty(*turn_result.notes, *action.notes, *await self.settings.after_action(turn_result))
        text = "\n".join(drop_empty(result.observation.text, *notes))
        reason = self._reached_limit(number, turn_result, times)
        reply = drop_empty(text, self.settings.reply_suffix(number), "" if reason else self._open_next_turn(number + 1))
        self.session.reply_to_action(turn_result, "\n\n".join(reply))
        return LoopTurn(
            number=number,
            turn_result=turn_result,
            action=action,
            result=result,
            reply=text,
            notes=notes,
            is_last=bool(reason),
            end_reason=reason,
        )

    async def _execute_action(self, action: ModelAction, times: int) -> ToolResult:
        if action.name not in self._names:
            return text_result(self._explain_not_offered(action), failed=True)
        if times > 1:
            return text_result(
                f"You have made this very call of {action.name} before; its result is above. Do another.", failed=True
            )
        return await self.settings.act(action)

    def _explain_not_offered(self, action: ModelAction) -> str:
        # Never "submit instead": a model then gives up. Source: BLF, the notes of its code.
        others = (
            join_tool_names([tool for tool in self.offered if tool.name not in self.settings.closing_tools]) or "none"
        )
        if any(tool.name == action.name for tool in self.settings.tools):
            return f"{action.name} cannot be called now. Other tools that can be used: {others}."
        return f"There is no tool {action.name!r} here. Tools that there are: {others}."

    def _open_next_turn(self, number: int) -> str:
        self.offer(number)
        return self.session.turn_text(number, self.steps, self.offered)

    def _find_fault(self, number: int, action: ModelAction) -> str | None:
        """Return why an action is refused: an unreadable answer, or no answer when only an answer is allowed."""
        if action.name in self._names:
            return self.settings.find_fault(action)
        if any(tool.name not in self.settings.closing_tools for tool in self.offered):
            return None
        return (
            f"no steps left, {only_callable_text(self.offered)}"
            if number >= self.steps
            else only_callable_text(self.offered)
        )

    def _explain_failure(self, number: int, turn_result: TurnResult) -> FoxcastError:
        """Return why no model answered: a limit, if one of the loop or of the model prevented it."""
        match turn_result.failure:
            case ContextLengthExceededError() as failure:
                return TrialLimitReachedError(str(failure), limit="context")
            case MalformedDataError() as failure if number >= self.steps and turn_result.action is not None:
                return TrialLimitReachedError(str(failure), limit="steps")
            case failure:
                return failure or MalformedDataError("no action")

    def _count_call(self, action: ModelAction) -> int:
        """Return how often this call was made, including now; 1 if repeats are allowed."""
        if self.settings.repeats is None or action.name in self.settings.repeatable:
            return 1
        call = json.dumps([action.name, dict(action.arguments)], sort_keys=True, default=str)
        self._calls[call] += 1
        return self._calls[call]

    def _reached_limit(self, number: int, turn_result: TurnResult, times: int) -> EndReason:
        self._tokens += turn_result.usage.tokens_in + turn_result.usage.tokens_out
        if self.settings.repeats is not None and times >= max(2, self.settings.repeats):
            return "repeats"
        if self.settings.tokens is not None and self._tokens >= self.settings.tokens:
            return "tokens"
        return "steps" if number >= self.steps else ""


def _begin_run(session: ChatSession, loop_settings: LoopSettings, *, steps: int, begin: int) -> _LoopRun:
    """Name all tools to the model and open the first turn."""
    session.declare_tools(loop_settings.tools)
    run = _LoopRun(session=session, settings=loop_settings, steps=steps)
    run.offer(begin)
    session.say(session.turn_text(begin, steps, run.offered))
    return run


def drop_empty(*notes: str) -> tuple[str, ...]:
    """Return the notes that are not empty."""
    return tuple(filter(None, notes))


SEARCH_TOOL = "web_search"


_ARGUMENTS_ENCODER = json.JSONEncoder(ensure_ascii=False)


_LIMIT_TEXTS = {
    "steps": "no step is left",
    "tokens": "its tokens are used up",
    "repeats": "it made the same call again and again",
}


@dataclass(slots=True, kw_only=True)
class BeliefLoop:
    """One running trial; ``create_belief_loop`` makes one.

    ``begin`` begins the conversation and ``run`` yields the steps. ``state`` is the belief of the trial; a tool may
    change it while it runs. ``seen_evidence`` says that some action has brought evidence.
    """

    question: Question
    settings: AnswerSettings
    answer_format: AnswerFormat
    session: ChatSession
    state: BeliefState
    steps: int
    documents: tuple[str, ...] = ()
    _past_predictions: list[TargetPredictions] = field(default_factory=list)
    _update_note: str = ""
    _compact_from: int = 0
    _updates: int = 0
    _refused: int = 0
    seen_evidence: bool = False
    _actions: list[str] = field(default_factory=list)
    _opening_remarks: tuple[str, ...] = ()
    # A state with its number, and the text that shows it.
    _shown: tuple[BeliefState | None, int, str] = (None, 0, "")

    @property
    def context(self) -> TrialContext:
        """The trial context."""
        return self.session.context

    async def begin(self, system: str, asked: str, texts: str) -> None:
        """Begin the conversation, and keep the prompt templates for the first step.

        Their digest is the version of the prompts. The filled-in prompts are recorded with the calls; they differ with
        every question and cutoff.
        """
        self.session.begin(system, "\n\n".join(drop_empty(asked, self._state_text(0))))
        self.documents = (await self.context.store_text(texts),)
        self._compact_from = self.settings.compaction_chars
        self._opening_remarks = (
            f"began with {self.answer_format.format(self.state.predictions)}: {self.state.anchor}",
        )

    async def run(self, loop_settings: LoopSettings, *, begin: int = 1) -> AsyncGenerator[Step, None]:
        """Yield one step per turn, until the model submits, fails, or has no step left; the first one is opened.

        A trial that did not end by submitting raises the reason after its last step: its belief is kept, and the
        engine knows that the trial is incomplete. This loop sets ``before_action``, ``after_action`` and ``closing``.
        """
        own = replace(
            loop_settings,
            closing_tools=frozenset({SUBMIT}),
            find_fault=lambda action: self._find_fault(action) or loop_settings.find_fault(action),
            reply_suffix=lambda number: "\n\n".join(
                drop_empty(self._state_text(number), loop_settings.reply_suffix(number))
            ),
            before_action=self._accept_update,
            after_action=self._finish_turn,
        )
        run = _begin_run(self.session, own, steps=self.steps, begin=begin)
        # Without a belief only the conversation shows what was found.
        self.session.summary = self._summarize_work if self.settings.states_beliefs else None
        try:
            for number in range(begin, self.steps + 1):
                turn = await run.run_turn(number)
                self._remember_turn(turn, loop_settings)
                step, failure = await self._make_step(turn)
                # The engine may stop at its own limit after any step, so no work may follow the last one.
                yield step
                if failure is not None:
                    raise failure
                if turn.is_last:
                    return
        finally:
            # Session and loop would keep each other, with all messages, until the garbage collector finds them.
            self.session.summary = None

    async def use_tool(self, action: ModelAction) -> ToolResult:
        """Use a tool of the trial as the model asked; the search query becomes part of the belief."""
        result = await self.context.use_tool(action.name, action.arguments)
        if action.name == SEARCH_TOOL and isinstance(query := action.arguments.get("query"), str):
            self.state = self.state.add_searches((query,))
        return result

    def recent_shift(self, actions: int) -> float | None:
        """Return by how much the last ``actions`` together moved the answer; None if there were fewer."""
        return (
            prediction_distance(self._past_predictions[-actions], self.state.predictions)
            if len(self._past_predictions) >= actions
            else None
        )

    def _find_fault(self, action: ModelAction) -> str | None:
        if action.name == SUBMIT:
            try:
                self.answer_format.read(action.arguments)
            except UnreadableAnswer as error:
                return str(error)
        return None

    def _apply_update(self, action: ModelAction) -> BeliefUpdate:
        if not self.settings.states_beliefs:
            return BeliefUpdate(self.state)
        update = apply_belief_update(
            self.state,
            action.belief,
            self.answer_format,
            margin=self.settings.step_margin,
            informed=self.state.informed or self.seen_evidence,
        )
        kept_old = update.kept_old
        self._updates += 1
        self._refused += kept_old
        self.session.tally.count_belief_update(read=not kept_old)
        return update

    def _accept_update(self, action: ModelAction) -> None:
        update = self._apply_update(action)
        self._past_predictions.append(self.state.predictions)
        self.state, self._update_note = update.state, update.note

    async def _finish_turn(self, turn_result: TurnResult) -> tuple[str, ...]:
        return (self._update_note, await self._compact(turn_result))

    async def _compact(self, turn_result: TurnResult) -> str:
        limit = self.settings.compaction_chars
        if not (limit and self.settings.states_beliefs) or self.state.chars < self._compact_from:
            return ""
        session = self.session
        found = await compact_belief_state(
            self.state, self.question, self.context, seed=session.seed, folder=session.folder
        )
        self.state = found.state
        turn_result.usage += found.usage
        turn_result.documents += found.documents
        # Long notes are not shortened again before they have grown by the same amount once more.
        still_long = self.state.chars >= limit
        self._compact_from = limit + (self.state.chars if still_long else 0)
        return found.note

    async def _make_step(self, turn: LoopTurn) -> tuple[Step, FoxcastError | None]:
        """Return the step of a turn, and why it was the last, unless it was a submission."""
        if turn.end_reason == "closed" and turn.action is not None:
            return await self._submit(turn, turn.action), None
        if turn.failure is not None:
            return await self._give_up(turn, turn.failure), turn.failure
        failure = None
        if turn.is_last:
            failure = TrialLimitReachedError(
                f"ended without submitting: {_LIMIT_TEXTS[turn.end_reason]}", limit=turn.end_reason
            )
            self._keep_within_bounds()
            # A model that was not asked again for lack of tokens has not refused to submit.
            await self.session.report_performance(free=turn.end_reason != "tokens")
        ended = () if failure is None else (str(failure),)
        action = _record_action(turn.action) if turn.action else StepAction(name="stop")
        return self._build_step(
            action, "\n".join((turn.reply, *ended)), turn.turn_result, (*turn.notes, *ended)
        ), failure

    def _remember_turn(self, turn: LoopTurn, loop_settings: LoopSettings) -> None:
        """Remember the action, and whether it brought evidence."""
        if turn.action is None or turn.result is None:
            return
        self.seen_evidence = self.seen_evidence or loop_settings.is_evidence(turn.action, turn.result)
        outcome = " (failed)" if turn.result.failed else ""
        given = _ARGUMENTS_ENCODER.encode(dict(turn.action.arguments))
        self._actions.append(f"- {turn.action.name}({given}){outcome}")

    def _summarize_work(self) -> str:
        """Return the actions and the belief so far, for a model that takes over."""
        done = "\n".join(["Actions so far:", *self._actions]) if self._actions else ""
        return "\n\n".join(drop_empty(done, self._state_text(len(self._actions))))

    async def _give_up(self, turn: LoopTurn, failure: FoxcastError) -> Step:
        turn_result = turn.turn_result
        # The last answer may hold a belief although its action was refused.
        self.state = self._apply_update(turn_result.action).state if turn_result.action else self.state
        self._keep_within_bounds()
        reason = str(failure) or type(failure).__name__
        # A model that was not asked again for lack of budget or connection has not refused to submit.
        await self.session.report_performance(free=turn_result.request_error is None)
        text = "\n".join([f"ended without submitting: {reason}", *turn_result.notes, *self._describe_refusals()])
        return self._build_step(
            StepAction(name="stop", arguments={"why": read_text(reason)}), text, turn_result, turn_result.notes
        )

    async def _submit(self, turn: LoopTurn, action: ModelAction) -> Step:
        update = self._apply_update(action)
        given = self.answer_format.read(action.arguments)
        final = self.answer_format.clamp(given, self.settings.submit_margin)
        await self.session.report_performance(
            submitted=final, believed=update.state.predictions if update.state.stated else None
        )
        updated = self.settings.states_beliefs and not update.kept_old
        reason = update.state.reason if updated else read_text(action.arguments.get("reasoning"))
        self.state = replace(update.state, predictions=final, reason=reason, informed=True)
        lines = [f"submitted {self.answer_format.format(final)}"]
        if prediction_distance(given, final) > 0.0:
            lines.append(f"given as {self.answer_format.format(given)}, kept within its bounds")
        # Whether the update was applied no longer matters: the submitted answer counts.
        lines += [*turn.notes, *drop_empty(update.note), *self._describe_refusals()]
        return self._build_step(_record_action(action), "\n".join(lines), turn.turn_result, turn.notes, final=True)

    def _keep_within_bounds(self) -> None:
        kept = self.answer_format.clamp(self.state.predictions, self.settings.submit_margin)
        self.state = replace(self.state, predictions=kept)

    def _describe_refusals(self) -> tuple[str, ...]:
        text = f"{self._refused} of {self._updates} updates of the belief were not taken over"
        return (text,) if self._refused else ()

    def _state_text(self, number: int) -> str:
        if not self.settings.states_beliefs:
            return ""
        state, of_number, text = self._shown
        # A reply to the model and the summary for another one show the same.
        if state is not self.state or of_number != number:
            shown = format_belief_state(self.state, self.answer_format)
            text = f"Belief state after step {number} of {self.steps}\n{shown}"
            self._shown = (self.state, number, text)
        return text

    def _build_step(
        self,
        action: StepAction,
        text: str,
        turn_result: TurnResult,
        remarks: tuple[str, ...],
        *,
        final: bool = False,
    ) -> Step:
        observation = StepObservation(text=text, documents=(*self.documents, *turn_result.documents))
        began, self._opening_remarks, self.documents = self._opening_remarks, (), ()
        return Step(
            action=action,
            observation=observation,
            belief=self.state.belief,
            usage=turn_result.usage,
            final=final,
            remarks=(*began, *remarks),
        )


def create_belief_loop(
    question: Question, session: ChatSession, anchor: StartingPoint, *, steps: int, settings: AnswerSettings
) -> BeliefLoop:
    """Return the loop of a trial that starts from ``anchor``, with no more steps than the engine allows."""
    answer_format = create_answer_format(question, settings, percent=session.percent)
    session.request_belief(belief_schema(answer_format, settings.step_margin) if settings.states_beliefs else None)
    return BeliefLoop(
        question=question,
        settings=settings,
        answer_format=answer_format,
        session=session,
        state=initial_belief_state(anchor, question, answer_format, settings.step_margin),
        steps=max(1, min(steps, session.context.limits.steps)),
    )


def _record_action(action: ModelAction) -> StepAction:
    return StepAction(name=action.name, arguments=action.arguments)
