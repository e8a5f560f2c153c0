"""The conversation with a model in one role of a trial.

Every answer is requested, parsed and repaired here, and failures are returned as values. Answers, parse failures and
errors are counted for the performance records that decide whether a model stays in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Generic, TypeVar

from bot.core.beliefs import NO_USAGE, ModelUsage
from bot.core.errors import (
    AuthenticationError,
    BudgetExhaustedError,
    ConfigError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.interfaces import TrialContext
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelAnswer,
    ModelCompletion,
    ModelDialect,
    ModelPerformance,
    Prompt,
    ToolDefinition,
)
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction
from bot.core.values import Json
from bot.forecasting.agent.answer_schema import TargetPredictions, prediction_distance
from bot.forecasting.agent.dialects import JsonDialect, NativeDialect
from bot.forecasting.agent.parsing import EMPTY_ANSWER, ActionDialect, ModelAction, ParseFailure
from bot.forecasting.agent.prompt_texts import (
    call_text,
    handover_text,
    join_tool_names,
    repair_text,
    transcript_text,
    turn_text,
)

# Errors that keep a model from being asked and are not its fault.
BLAMELESS_ERRORS = (BudgetExhaustedError, ConfigError, TrialLimitReachedError)


@dataclass(slots=True)
class PerformanceTally:
    """The actions asked of each model in turn, and the invalid ones. A fallback may take over within a trial.

    ``beliefs`` counts the belief updates received, ``unread`` those that could not be read, ``errors`` the requests
    that failed after the model had answered before.
    """

    asked: dict[str, int] = field(default_factory=dict)
    unparsed: dict[str, int] = field(default_factory=dict)
    last: str = ""
    beliefs: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def count_answer(self, model: str) -> None:
        """Count an answer."""
        self.asked[model] = self.asked.get(model, 0) + 1
        self.last = model

    def count_parse_failure(self) -> None:
        """Count the last answer as invalid."""
        self.unparsed[self.last] = self.unparsed.get(self.last, 0) + 1

    def count_belief_update(self, *, read: bool) -> None:
        """Count an update of the belief that the last model sent, or should have sent."""
        self.beliefs[self.last] += 1
        self.unread[self.last] += not read

    def count_error(self, error: FoxcastError) -> None:
        """Count a request without an answer against the model that answered last."""
        if self.last and not isinstance(error, BLAMELESS_ERRORS):
            self.errors[self.last] += 1

    def count_replacement(self, model: str) -> None:
        """Count a request that a model did not answer, so that another one took over."""
        self.errors[model] += 1

    def performances(
        self, role: str, *, believed: TargetPredictions | None, submitted: TargetPredictions | None, free: bool = True
    ) -> Iterator[ModelPerformance]:
        """Yield one performance record per model; only the last model had the chance to submit.

        ``believed`` is its last stated belief, None if there is none; ``free`` is False if something else stopped it:
        no budget or no connection.
        """
        for model, asked in self.asked.items():
            ended = model == self.last
            gap = (
                prediction_distance(believed, submitted)
                if ended and believed is not None and submitted is not None
                else 0.0
            )
            yield ModelPerformance(
                role=role,
                model=model,
                asked=asked,
                unparsed=self.unparsed.get(model, 0),
                submitted=submitted is not None if ended and free else None,
                ended_at_half=ended and submitted is not None and _is_half(submitted),
                submission_gap=gap,
                beliefs=self.beliefs[model],
                unread_beliefs=self.unread[model],
                errors=self.errors[model],
            )


def _is_half(predictions: TargetPredictions) -> bool:
    return all(prediction == BinaryPrediction(0.5) for prediction in predictions.values())


T = TypeVar("T")

# An answer without a valid action may be repaired once.
MAX_ATTEMPTS = 2
# The reply to a call without a result.
DEFAULT_REPLY = "Noted."

# These errors end a trial with its present belief: no answer, no budget, no access, or no model configured.
SESSION_ERRORS = (
    ServiceUnavailableError,
    RequestRejectedError,
    AuthenticationError,
    MalformedDataError,
    ConfigError,
    TrialLimitReachedError,
)

ActionCheck = Callable[[ModelAction], str | None]


def accept_action(_move: ModelAction) -> str | None:
    """Accept every action."""
    return None


@dataclass(slots=True)
class TurnResult:
    """What the model answered in one turn, repairs included, and what that cost.

    Without a ``failure`` there is an ``action``; with one, ``action`` is the last that could be read although it was
    refused. ``request_error`` is why the model could not be asked, if that ended the turn.
    """

    action: ModelAction | None = None
    failure: FoxcastError | None = None
    request_error: FoxcastError | None = None
    usage: ModelUsage = NO_USAGE
    documents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    completion: ModelCompletion = field(default_factory=ModelCompletion)

    def add_answer(self, answer: ModelAnswer) -> None:
        """Count an answer."""
        self.completion = answer.completion
        self.usage += answer.usage
        self.documents += (answer.document,)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredAnswer(Generic[T]):
    """The result of a request for one structured answer: ``value``, or None with ``reason`` and ``failure``.

    ``request_error`` is the failure if the model could not be asked (no budget, no connection); ``arguments`` are the
    arguments as sent; ``notes`` describe anything unusual about the answer.
    """

    value: T | None = None
    reason: str = ""
    failure: FoxcastError | None = None
    request_error: FoxcastError | None = None
    arguments: Mapping[str, Json] = field(default_factory=dict)
    usage: ModelUsage = NO_USAGE
    documents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ChatSession:
    """The conversation of one role. It only grows, and offers the same tools in each request.

    So providers find its beginning in their cache and accept the reasoning that they signed for it. The answers of a
    model are never changed. ``summary`` describes the work so far, for a model that takes over. ``folder`` holds prompt
    files that replace the shipped ones.
    """

    context: TrialContext
    role: str
    dialect: ActionDialect
    seed: int
    folder: Path | None = None
    messages: list[Message] = field(default_factory=list)
    tally: PerformanceTally = field(default_factory=PerformanceTally)
    summary: Callable[[], str] | None = None
    # The model in this conversation, "" before its first answer.
    model: str = ""
    _tools: tuple[ToolDefinition, ...] = ()
    # The tools of the last request, as sent.
    _sent: tuple[ToolDefinition, ...] = ()
    _described: dict[str, ToolDefinition] = field(default_factory=dict)
    # How many of them are described in the first message.
    _first: int = 0
    # Whether the last message is an answer without a reply.
    _open: bool = False
    # The index of the last message to the model, -1 if the model has answered it.
    _last_message_index: int = -1
    _turn: str = ""

    @property
    def percent(self) -> bool:
        """Whether the model writes under a grammar, so that probabilities are asked for in percent."""
        return isinstance(self.dialect, JsonDialect)

    def request_belief(self, schema: Mapping[str, Json] | None) -> None:
        """Ask for an update of a belief with every action from now on; None for none."""
        self.dialect = JsonDialect(schema) if self.percent else NativeDialect(schema)

    def begin(self, system: str, *texts: str) -> None:
        """Open the conversation with one or more texts; other conversations may share all of them but the last one."""
        self.messages.append(Message(speaker=MessageRole.SYSTEM, text=system))
        self.messages += [Message(speaker=MessageRole.USER, text=text) for text in texts]

    def restart(self, opening: Sequence[Message]) -> None:
        """Begin another conversation with these messages; its tools may differ."""
        self.messages[:] = opening
        self.model, self._tools, self._sent, self._turn = "", (), (), ""
        self._described.clear()
        self._open, self._last_message_index = False, -1

    def declare_tools(self, tools: Sequence[ToolDefinition]) -> None:
        """Name all tools that this conversation will ever offer, so that every request has the same list of them.

        Offering a tool that was not named changes the list, and so does asking for a belief later on. What providers
        signed is invalid after that and is left out.
        """
        known = {tool.name: tool for tool in self._tools}
        known.update({tool.name: tool for tool in tools})
        declared = tuple(known.values())
        if declared != self._tools:
            self._tools = declared

    def say(self, text: str) -> None:
        """Send a text to the model: as reply to its last action, or added to the text that it has not answered yet."""
        if self._open:
            self._last_message_index = len(self.messages)
            self.messages += self.dialect.build_replies(self.messages[-1], text)
            self._open = False
        elif self._last_message_index >= 0 or (
            self.messages and self.messages[-1].speaker in {MessageRole.USER, MessageRole.TOOL}
        ):
            # Many providers refuse two messages of one speaker in a row.
            last = self.messages[self._last_message_index]
            self.messages[self._last_message_index] = replace(last, text=f"{last.text}\n\n{text}")
        else:
            self._last_message_index = len(self.messages)
            self.messages.append(Message(speaker=MessageRole.USER, text=text))

    def reply_to_action(self, turn_result: TurnResult, reply: str) -> None:
        """Keep an action and its result in the conversation; without an action, only the reply."""
        self.keep_action(turn_result)
        self.say(reply)

    def keep_action(self, turn_result: TurnResult) -> None:
        """Keep an action in the conversation; the next message answers it."""
        if turn_result.action is not None and turn_result.failure is None:
            self._keep_answer(turn_result.completion, turn_result.action)

    def turn_text(self, number: int, steps: int, offered: tuple[ToolDefinition, ...]) -> str:
        """Return the line that opens a turn, with a description of each tool that is offered for the first time."""
        listing = self._describe_new_tools(self.dialect, offered)
        self._turn = turn_text(number, steps, offered, "", folder=self.folder)
        return turn_text(number, steps, offered, listing, folder=self.folder) if listing else self._turn

    async def ask_structured(
        self,
        tool: ToolDefinition,
        read: Callable[[Mapping[str, Json]], T],
        *,
        keep: bool = True,
        instruction: str | None = None,
    ) -> StructuredAnswer[T]:
        """Ask for one structured answer: only ``tool`` may be called, and ``read`` makes a value of its arguments.

        ``read`` raises UnreadableAnswer, in words for the model, for arguments that it cannot use. Without ``keep`` the
        conversation does not change. No belief is asked for. ``instruction`` replaces the line that asks for the call:
        a person needs none.
        """
        values: list[T] = []

        def fault(action: ModelAction) -> str | None:
            if action.name != tool.name:
                return only_callable_text((tool,))
            try:
                values[:] = [read(action.arguments)]
            except (KeyError, TypeError, ValueError) as error:
                return str(error)
            return None

        dialect: ActionDialect = JsonDialect() if self.percent else NativeDialect()
        before = replace(self, messages=list(self.messages), _described=dict(self._described))
        self._turn = "" if self.percent else call_text(tool) if instruction is None else instruction
        if asked := self._describe_new_tools(dialect, (tool,)).strip("\n") or self._turn:
            self.say(asked)
        turn_result = await self.ask_action((tool,), fault, dialect=dialect)
        self.keep_action(turn_result)
        if not keep:
            self._restore(before)
        return StructuredAnswer(
            value=values[0] if turn_result.failure is None else None,
            reason=str(turn_result.failure or ""),
            failure=turn_result.failure,
            request_error=turn_result.request_error,
            arguments=turn_result.action.arguments if turn_result.action else {},
            usage=turn_result.usage,
            documents=turn_result.documents,
            notes=(*turn_result.notes, *(turn_result.action.notes if turn_result.action else ())),
        )

    async def report_performance(
        self,
        *,
        believed: TargetPredictions | None = None,
        submitted: TargetPredictions | None = None,
        free: bool = False,
    ) -> None:
        """Report how the models in this role performed; once for each session, at its end.

        ``free`` says that the model could have submitted an answer and did not. A session never asked to submit,
        or was prevented from it, is not judged by that.
        """
        judges_submission = free or submitted is not None
        for performance in self.tally.performances(
            self.role, believed=believed, submitted=submitted, free=judges_submission
        ):
            await self.context.report_performance(performance)

    async def ask_action(
        self,
        offered: tuple[ToolDefinition, ...],
        fault: ActionCheck = accept_action,
        *,
        dialect: ActionDialect | None = None,
    ) -> TurnResult:
        """Ask for one action; ``fault`` says why an action is refused, which is repaired once.

        The action joins the conversation only with ``answer`` or ``keep``. All failures are part of the returned
        result. ``dialect`` is another one than that of the conversation.
        """
        dialect = self.dialect if dialect is None else dialect
        self._answer_open_action()
        self._declare_new_tools(offered)
        turn_result = TurnResult()
        why = ""
        for attempt in range(MAX_ATTEMPTS):
            prompt = self._build_prompt(dialect, offered)
            try:
                given = await self.context.ask_model(self.role, prompt, seed=self.seed)
            except SESSION_ERRORS as error:
                turn_result.failure = turn_result.request_error = error
                self.tally.count_error(error)
                return turn_result
            self._count_answer(prompt, given, turn_result)
            answer = dialect.read_action(turn_result.completion)
            turn_result.action = None if isinstance(answer, ParseFailure) else answer
            found = answer.reason if isinstance(answer, ParseFailure) else fault(answer)
            if found is None:
                return turn_result
            why = found
            self.tally.count_parse_failure()
            turn_result.notes += (f"answer {attempt + 1} was no valid action: {why}",)
            if turn_result.completion.finish is FinishReason.REFUSED:
                # The same prompt would be refused again.
                turn_result.failure = RequestRejectedError(f"{self.model}: {why}")
                return turn_result
            if attempt + 1 < MAX_ATTEMPTS:
                self._ask_again(turn_result, why, offered)
        turn_result.failure = MalformedDataError(f"no valid action after a repair: {why}")
        self._close_turn(turn_result, why)
        return turn_result

    def _count_answer(self, prompt: Prompt, answer: ModelAnswer, turn_result: TurnResult) -> None:
        if prompt.handover and answer.model != self.model:
            # Another model took over and continues from the summary that it received.
            self.messages[:], self._last_message_index = prompt.handover, len(prompt.handover) - 1
            turn_result.notes += (f"{answer.model} took over from {self.model}",)
            self.tally.count_replacement(self.model)
            self.model = ""
        self._first = self._first if self.model else len(self._described)
        self.model = answer.model
        turn_result.add_answer(answer)
        self.tally.count_answer(answer.model)

    def _build_prompt(self, dialect: ActionDialect, offered: tuple[ToolDefinition, ...]) -> Prompt:
        handover = self._build_handover(dialect)
        prompt = dialect.build_prompt(self.messages, self._tools, offered, model=self.model, handover=handover)
        if self._sent and prompt.tools != self._sent:
            self._forget_native()
            prompt = dialect.build_prompt(self.messages, self._tools, offered, model=self.model, handover=handover)
        self._sent = prompt.tools
        return prompt

    def _ask_again(self, turn_result: TurnResult, why: str, offered: tuple[ToolDefinition, ...]) -> None:
        self._keep_answer(turn_result.completion, turn_result.action)
        self.say(repair_text(why, offered, folder=self.folder))

    def _close_turn(self, turn_result: TurnResult, why: str) -> None:
        """Keep an answer that ends a turn without an action: the next text follows it, and no message changes."""
        self._keep_answer(turn_result.completion, turn_result.action)
        self.say(f"That was no valid action: {why}.")

    def _keep_answer(self, completion: ModelCompletion, action: ModelAction | None) -> None:
        self._answer_open_action()
        # No provider accepts an empty message.
        is_empty = not completion.calls and not completion.text.strip()
        self.messages.append(
            Message(speaker=MessageRole.ASSISTANT, text=EMPTY_ANSWER)
            if is_empty
            else self.dialect.build_message(completion, action)
        )
        self._open, self._last_message_index = True, -1

    def _answer_open_action(self) -> None:
        """Answer the last action if it has no answer: providers refuse a call without one."""
        if self._open:
            self.say(DEFAULT_REPLY)

    def _restore(self, before: ChatSession) -> None:
        """Restore the earlier conversation; its cost and the performance counts stay."""
        self.messages[:], self.model = before.messages, before.model
        self._tools, self._sent, self._turn = before._tools, before._sent, before._turn
        self._described, self._first = before._described, before._first
        self._open, self._last_message_index = before._open, before._last_message_index

    def _declare_new_tools(self, offered: tuple[ToolDefinition, ...]) -> None:
        known = {*map(id, self._tools)}
        if not known.issuperset(map(id, offered)):
            self.declare_tools([tool for tool in offered if id(tool) not in known])

    def _forget_native(self) -> None:
        for place, message in enumerate(self.messages):
            if message.native is not None:
                self.messages[place] = replace(message, native=None)

    def _build_handover(self, dialect: ActionDialect) -> tuple[Message, ...]:
        """Return the conversation for another model: its beginning, and a summary of the work since."""
        first = self._find_first_answer() if self.model else 0
        if not first:
            return ()
        done = self.summary() if self.summary is not None else transcript_text(self.messages[first:])
        later = tuple(self._described.values())[self._first :]
        parts = (
            self.messages[first - 1].text,
            handover_text(done),
            self._turn + (dialect.describe_tools(later) if later else ""),
        )
        asked = self.messages[first - 1]
        text = "\n\n".join(filter(None, parts))
        last = Message(speaker=asked.speaker, text=text, calls=asked.calls, answers=asked.answers, native=asked.native)
        return (*self.messages[: first - 1], last)

    def _find_first_answer(self) -> int:
        """Return the place of the first answer of the model, 0 if there is none."""
        for place, message in enumerate(self.messages):
            if message.speaker is MessageRole.ASSISTANT:
                return place
        return 0

    def _describe_new_tools(self, dialect: ActionDialect, offered: Sequence[ToolDefinition]) -> str:
        new = [tool for tool in offered if tool.name not in self._described]
        if not new:
            return ""
        self._described.update({tool.name: tool for tool in new})
        return dialect.describe_tools(new)


def open_session(
    context: TrialContext, *roles: str, seed: int, belief: Mapping[str, Json] | None = None, folder: Path | None = None
) -> ChatSession:
    """Return a session in the first of the roles that a model plays; raises ConfigError if none does.

    ``belief`` is the schema of the belief update in every action (``belief_schema``); ``folder`` holds prompt files
    that replace the shipped ones.
    """
    missing: FoxcastError = ConfigError("a chat session needs a role")
    for role in roles:
        try:
            percent = context.dialect(role) is ModelDialect.JSON
        # A replay has no models, and no record of a role without a model.
        except (ConfigError, NotFoundError) as error:
            # Without its traceback: that and this frame would keep each other, with the whole trial.
            missing = error.with_traceback(None) if role == roles[0] else missing
            continue
        dialect: ActionDialect = JsonDialect(belief) if percent else NativeDialect(belief)
        return ChatSession(context=context, role=role, dialect=dialect, seed=seed, folder=folder)
    raise missing


def derive_seed(context: TrialContext, *labels: str) -> int:
    """Return a seed for the answers of a session that belongs to this trial and these labels alone.

    Trials have different seeds, and a repeated trial finds its own answers on record.
    """
    return context.draw_seed(*labels)


def only_callable_text(tools: Sequence[ToolDefinition]) -> str:
    """Return in words that nothing else can be called."""
    return f"only {join_tool_names(tools)} can be called now"
