"""The context of one trial: cutoff, limits, learned parameters, and the tools and models that are allowed now.

Every call is recorded.
"""

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from bot.core.beliefs import NO_USAGE, ModelUsage, ShownSource, StepObservation, ToolResult
from bot.core.errors import (
    ConfigError,
    LeakError,
    MalformedDataError,
    NotFoundError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.forecasts import TrialLimits
from bot.core.identity_cache import IdentityCache
from bot.core.ids import sha256_hex
from bot.core.interfaces import Clock, RandomStreams
from bot.core.language_models import (
    CostAttribution,
    Message,
    ModelAnswer,
    ModelDialect,
    ModelPerformance,
    ModelRequest,
    ModelUrgency,
    Prompt,
    ToolDefinition,
)
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.research import SourcePolicy
from bot.core.values import Json
from bot.forecasting.recording import RecordedReply, TrialRecording, request_digest
from bot.forecasting.services import ModelGateway
from bot.forecasting.tools.base import find_argument_fault
from bot.forecasting.trial_memory import (
    NOTE_SERIALIZER,
    NOTHING_CAUGHT,
    OPENING_SERIALIZER,
    FilterCounts,
    ToolCallNote,
    TrialMemory,
    TrialOpening,
)
from bot.forecasting.untrusted_text import clean_text
from bot.store.evidence import DocumentStore
from bot.store.serialization import JsonSerializer
from bot.store.trials import MODEL_KIND

if TYPE_CHECKING:
    import numpy as np

log = structlog.get_logger(__name__)

CLOCK_TOLERANCE = timedelta(minutes=5)


def question_cutoff(question: Question, now: datetime) -> datetime:
    """Return the moment after which nothing may inform a forecast made now: the venue's own, if that is earlier."""
    return now if question.as_of is None else min(now, question.as_of)


def hide_late_crowd(question: Question, cutoff: datetime) -> Question:
    """Return the question without a crowd estimate from after the cutoff; the venue's clock may be a little ahead."""
    crowd = question.crowd
    return question if crowd is None or crowd.at <= cutoff + CLOCK_TOLERANCE else replace(question, crowd=None)


@dataclass(frozen=True, kw_only=True)
class GuardedTrialContext:
    """One trial without tools and models; raises LeakError if given parameters learned from after the cutoff.

    A ``TrialContextFactory`` returns one that has them, made from this one: ``Subclass(**vars(start), ...)``.
    """

    forecast: str
    cutoff: datetime
    trial: int
    fitted: FittedParameters | None
    random: RandomStreams
    limits: TrialLimits = field(default_factory=TrialLimits)
    urgency: ModelUrgency = ModelUrgency.ORDINARY

    def __post_init__(self) -> None:
        """Guard the cutoff."""
        if self.fitted is not None and self.fitted.before > self.cutoff:
            message = (
                f"{self.fitted.forecaster} learned from outcomes up to {self.fitted.before.isoformat()}, "
                f"the cutoff is {self.cutoff.isoformat()}"
            )
            raise LeakError(message)

    def stream(self, *labels: str) -> "np.random.Generator":
        """Return random numbers that belong to this forecast, trial and labels alone."""
        return self.random.stream(self.forecast, str(self.trial), *labels)

    def draw_seed(self, *labels: str) -> int:
        """Return a number of 31 bits that belongs to this forecast, trial and labels alone."""
        return self.random.draw_seed(self.forecast, str(self.trial), *labels)

    @property
    def policy(self) -> SourcePolicy:
        """Advice for questions of this source."""
        return SourcePolicy()

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        """The tools that may be used now."""
        return ()

    @property
    def all_tools(self) -> Sequence[ToolDefinition]:
        """All tools that may be offered at any time of the trial; constant, also when the trial is resumed."""
        return ()

    def is_final_answer_time(self, place: str) -> bool:
        """Say whether there is only time left for the final answer: never, if no model gives one."""
        return False

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Use a tool; always fails here, since there are no tools."""
        return ToolResult(observation=StepObservation(text=f"there is no tool {tool} here"), failed=True)

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the model in that role; raises ConfigError if there is none."""
        raise _missing_model_error(role)

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        """Ask the model in a role; raises ConfigError if there is none."""
        raise _missing_model_error(role)

    async def store_text(self, text: str) -> str:
        """Put a text on record, if there is one, and return its digest."""
        return sha256_hex(text.encode())

    async def report_performance(self, performance: ModelPerformance) -> None:
        """Report how the model in a role performed in this trial; without models this does nothing."""

    async def write_waiting(self) -> None:
        """Write what waits for the next write to the record; raises StoreError."""

    @property
    def trial_record(self) -> TrialRecording | None:
        """What it has recorded; None for a trial without tools and models."""
        return None


def _missing_model_error(role: str) -> ConfigError:
    return ConfigError(f"no model plays the role {role} here")


class TrialContextFactory(Protocol):
    """Makes the tools and models of trials: ``bot.forecasting.tool_factory``."""

    async def open_trial(
        self, question: Question, start: GuardedTrialContext, *, charge: CostAttribution, guarded: bool = True
    ) -> GuardedTrialContext:
        """Return the context of one trial, with everything that it had asked before, if it had begun."""
        ...


_ANSWER_SERIALIZER: JsonSerializer[ModelAnswer] = JsonSerializer("answer", ModelAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnswerReference:
    """An answer without its completion, which is in the record of its call; ``RecordingStore.read_trial`` adds it."""

    usage: ModelUsage
    model: str
    document: str


_REFERENCE_SERIALIZER: JsonSerializer[_AnswerReference] = JsonSerializer("reference to an answer", _AnswerReference)


_PROMPT_SERIALIZER: JsonSerializer[Prompt] = JsonSerializer("prompt", Prompt)


# Less time than this counts as none: timers may fire a little early.
LEAST_SECONDS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialModels:
    """The models of one trial; ``deadline`` is the monotonic time at which the trial ends.

    ``frames`` are the digests of prompts without their messages, which trials share.
    """

    models: ModelGateway | None
    record: TrialRecording
    charge: CostAttribution
    clock: Clock
    deadline: float
    urgency: ModelUrgency = ModelUrgency.ORDINARY
    frames: IdentityCache[str] = field(default_factory=IdentityCache)
    # By the identity of each message, which is kept so that no other one gets it.
    _digests: dict[int, tuple[Message, str]] = field(default_factory=dict)

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the role, the same throughout the trial; raises ConfigError for one without a model."""
        asked = request_digest({"role": role})
        return ModelDialect(
            self.record.replay_or_compute("dialect", asked, lambda: str(self._require_models(role).dialect(role)))
        )

    def has_role(self, role: str) -> bool:
        """Say whether a model plays the role."""
        try:
            self.dialect(role)
        except (ConfigError, NotFoundError):
            return False
        return True

    async def ask(
        self, role: str, prompt: Prompt, *, seed: int | None = None, trace: "ToolCallTrace | None" = None
    ) -> ModelAnswer:
        """Ask the model in a role; errors as in ``TrialContext.ask_model``. The exchange becomes part of ``trace``."""
        answer: ModelAnswer | None = None
        asked = self._prompt_digest(role, prompt, seed)
        names = None if trace is None else trace.exchange_keys
        async with self.record.exchange(MODEL_KIND, asked, names=names) as exchange:
            if exchange.recorded is None:
                models, deadline_s = self._require_models(role), self._seconds_left()
                request = ModelRequest(
                    role=role,
                    prompt=prompt,
                    charge=self.charge,
                    seed=seed,
                    nth=exchange.number,
                    urgency=self.urgency,
                )
                try:
                    answer = await models.ask(request, deadline_s=deadline_s)
                except ServiceUnavailableError:
                    # If the trial had no time left, that is why there is no answer.
                    self._seconds_left()
                    raise
                # A call for another forecast may be removed from the record before this trial is.
                exchange.is_reference = bool(answer.document) and not answer.stored
                exchange.value = _plain_answer(answer, whole=not exchange.is_reference)
        if answer is None or not exchange.is_reference:
            answer = _ANSWER_SERIALIZER.value(exchange.reply.value)
        self.record.documents.add(answer.document)
        if trace is not None:
            trace.documents_used.append(exchange.reply.digest)
            trace.usage += answer.usage
        return answer

    def _seconds_left(self) -> float:
        """Return the seconds that the trial has left; raises TrialLimitReachedError if there are none."""
        left_s = self.deadline - self.clock.monotonic()
        if left_s <= LEAST_SECONDS:
            message = "the time of the trial is over"
            raise TrialLimitReachedError(message, limit="time")
        return left_s

    def _require_models(self, role: str) -> ModelGateway:
        if self.models is None:
            message = f"no model plays the role {role}: name one in [llm.roles.{role}]"
            raise ConfigError(message)
        return self.models

    def _prompt_digest(self, role: str, prompt: Prompt, seed: int | None) -> str:
        # A conversation only grows, so each message is digested once.
        places, digests = [*map(id, prompt.messages)], self._digests
        for place, message in zip(places, prompt.messages, strict=True):
            if place not in digests:
                digests[place] = (message, _message_digest(message))
        messages = [digests[place][1] for place in places]
        # Tools and schemas are made once and offered again and again.
        frame = self.frames.find((prompt.schema, *prompt.tools), lambda: _frame_digest(prompt), key=prompt.allowed)
        return request_digest({"role": role, "frame": frame, "messages": messages, "seed": seed})


def _plain_answer(answer: ModelAnswer, *, whole: bool) -> object:
    if whole:
        return _ANSWER_SERIALIZER.plain(answer)
    reference = _AnswerReference(usage=answer.usage, model=answer.model, document=answer.document)
    return _REFERENCE_SERIALIZER.plain(reference)


def _frame_digest(prompt: Prompt) -> str:
    frame = replace(prompt, messages=(), stable=0, model="", handover=(), cache_key="")
    return request_digest(_PROMPT_SERIALIZER.plain(frame))


def _message_digest(message: Message) -> str:
    """Return a digest that only an equal message has: a line with all short parts and the lengths, then the rest.

    Writing a long text as JSON is slower than digesting it. Raises MalformedDataError for an invalid message.
    """
    try:
        calls, native = message.calls, message.native
        sizes = [] if calls == () else [[call.id, call.name, len(call.arguments)] for call in calls]
        native_state = None if native is None else [native.provider, native.model, len(native.text)]
        head = json.dumps([message.speaker, message.answers, sizes, native_state])
        content = head + "\n" + message.text
        if sizes:
            content += "".join([call.arguments for call in calls])
        if native is not None:
            content += native.text
        return sha256_hex(content.encode(errors="surrogatepass"))
    except (AttributeError, TypeError, ValueError) as error:
        reason = f"the request cannot be written as JSON: {error!r}"
        raise MalformedDataError(reason) from error


@dataclass(slots=True)
class ToolCallTrace:
    """One use of a tool.

    ``exchange_keys`` are the exchanges that it made, ``documents_used`` the digests of its documents, in order.
    """

    models: TrialModels
    documents: DocumentStore
    exchange_keys: list[str] = field(default_factory=list)
    documents_used: list[str] = field(default_factory=list)
    usage: ModelUsage = NO_USAGE

    async def replay_or_run(
        self, kind: str, asked: object, make: Callable[[], Awaitable[Any]], *, with_next: bool = False
    ) -> RecordedReply:
        """Ask through the record; ``asked`` is the request as plain JSON values.

        ``with_next``: the tool only computes with the reply, or asks on, so both are recorded in one write.
        """
        reply = await self.models.record.replay_or_run(
            kind, request_digest(asked), make, names=self.exchange_keys, with_next=with_next
        )
        self.documents_used.append(reply.digest)
        return reply

    async def ask(self, role: str, prompt: Prompt) -> ModelAnswer:
        """Ask the model in a role of the engine's own."""
        return await self.models.ask(role, prompt, trace=self)

    async def store_text(self, text: str) -> None:
        """Put a text that was used on record."""
        self.documents_used.append(await self.models.record.store_text(text, self.documents))

    def branch(self) -> "ToolCallTrace":
        """Return a second trace for work that runs concurrently."""
        return ToolCallTrace(self.models, self.documents)

    def join(self, branch: "ToolCallTrace") -> None:
        """Add the exchanges and documents of a branch."""
        self.exchange_keys += branch.exchange_keys
        self.documents_used += branch.documents_used
        self.usage += branch.usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The result of a tool: text for the model, data and the shown sources for code, and its note."""

    text: str
    data: Json = None
    sources: tuple[ShownSource, ...] = ()
    failed: bool = False
    note: ToolCallNote = field(default_factory=ToolCallNote)


class ToolCallError(Exception):
    """A tool cannot do what it was asked; the message is for the model."""

    def __init__(self, text: str, *, caught: FilterCounts | None = None, note: ToolCallNote | None = None) -> None:
        """Keep what the guards left out so far."""
        super().__init__(text)
        self.note = note or ToolCallNote(caught=caught or NOTHING_CAUGHT)


class TrialTool(Protocol):
    """One tool."""

    @property
    def tool(self) -> ToolDefinition:
        """The tool as a model sees it."""
        ...

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        """Run it with arguments that fit the schema; raises ToolCallError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """One recorded use of a tool: result, note (plain, as it is read later), and the exchanges that it made."""

    result: ToolResult
    note: Mapping[str, Any]
    names: tuple[str, ...] = ()


CALL_SERIALIZER: JsonSerializer[ToolCallRecord] = JsonSerializer("use of a tool", ToolCallRecord)
_EMPTY_DIGEST = request_digest({})


@dataclass(frozen=True, kw_only=True)
class RecordedTrialContext(GuardedTrialContext):
    """One trial with its tools and models; each call is recorded before its result is used."""

    opening: TrialOpening
    implementations: Mapping[str, TrialTool]
    memory: TrialMemory
    record: TrialRecording
    models: TrialModels
    documents: DocumentStore

    @property
    def policy(self) -> SourcePolicy:
        """Advice for questions of this source."""
        return self.opening.policy

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        """The tools that may be used now."""
        return self.opening.offered_tools(self.memory)

    @property
    def all_tools(self) -> Sequence[ToolDefinition]:
        """All tools that may be offered at any time of the trial; constant, also when the trial is resumed."""
        return self.opening.tools

    @property
    def seconds_left(self) -> float:
        """The seconds for which models can still be asked."""
        return max(0.0, self.models.deadline - self.models.clock.monotonic())

    def is_final_answer_time(self, place: str) -> bool:
        """Say whether there is only time left for the final answer; a yes is recorded and never changes."""
        record = self.record
        has_time = not record.read_only and self.seconds_left > self.limits.final_seconds
        if has_time and not record.may_have("time"):
            return False
        asked = request_digest({"place": place})
        if record.has_exchange("time", asked):
            return True
        if has_time or record.read_only:
            return False
        self._record_opening()
        record.replay_or_compute("time", asked, lambda: True)
        return True

    @property
    def caught(self) -> FilterCounts:
        """What the guards left out so far."""
        return self.memory.filtered

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Use a tool; a mistake in the call gives a failed result too."""
        self._record_opening()
        self.record.under_way += 1
        try:
            reply = await self.record.replay_or_run(
                "tool", _call_digest(tool, arguments), lambda: self._record_call(tool, arguments), with_next=True
            )
        finally:
            self.record.under_way -= 1
        if self.record.under_way:
            # The next step waits for what else was asked.
            await self.record.write_waiting()
        use = CALL_SERIALIZER.value(reply.value)
        self.record.mark_replayed(use.names)
        self.memory.add_note(tool, use.note)
        result = use.result
        documents = dict.fromkeys((*result.observation.documents, reply.digest))
        self.record.documents.update(documents)
        observation = StepObservation(text=result.observation.text, documents=tuple(documents))
        return ToolResult(
            observation=observation,
            usage=result.usage,
            data=result.data,
            sources=result.sources,
            failed=result.failed,
        )

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the role, the same throughout the trial."""
        return self.models.dialect(role)

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        """Ask the model in a role."""
        self._record_opening()
        self.record.under_way += 1
        try:
            return await self.models.ask(role, prompt, seed=seed)
        finally:
            self.record.under_way -= 1

    async def store_text(self, text: str) -> str:
        """Put a text on record and return its digest."""
        return await self.record.store_text(text, self.documents)

    async def report_performance(self, performance: ModelPerformance) -> None:
        """Pass on how a model performed; a replay stores nothing."""
        if self.models.models is not None and not self.record.read_only:
            await self.models.models.grade(performance, self.models.charge)

    async def write_waiting(self) -> None:
        """Write what waits for the next write to the record."""
        await self.record.write_waiting()

    @property
    def trial_record(self) -> TrialRecording:
        """What it has recorded."""
        return self.record

    def _record_opening(self) -> None:
        # Recorded before the first exchange, and not for trials that use nothing.
        if not self.record.read_only and not self.record.has_exchange("opening", _EMPTY_DIGEST):
            self.record.replay_or_compute("opening", _EMPTY_DIGEST, lambda: OPENING_SERIALIZER.plain(self.opening))

    async def _record_call(self, tool: str, arguments: Mapping[str, Json]) -> object:
        trace = ToolCallTrace(self.models, self.documents)
        try:
            outcome = await self._run_tool(tool, arguments, trace)
        except ToolCallError as cannot:
            outcome = ToolOutcome(text=str(cannot), failed=True, note=cannot.note)
        caught = outcome.note.caught
        if caught is not NOTHING_CAUGHT and caught != NOTHING_CAUGHT:
            log.info("results left out", tool=tool, scope=self.record.scope, **dataclasses.asdict(caught))
        result = ToolResult(
            observation=StepObservation(text=outcome.text, documents=tuple(dict.fromkeys(trace.documents_used))),
            usage=trace.usage,
            data=outcome.data,
            sources=outcome.sources,
            failed=outcome.failed,
        )
        return CALL_SERIALIZER.plain(
            ToolCallRecord(result=result, note=NOTE_SERIALIZER.plain(outcome.note), names=tuple(trace.exchange_keys))
        )

    async def _run_tool(self, tool: str, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        definition = self._find_offered(tool)
        if definition is None:
            message = f"{self._explain_refusal(str(tool))} {self._describe_available()}"
            raise ToolCallError(message)
        if why := find_argument_fault(arguments, definition.parameters):
            message = f"{tool} was not used: {why}. {self._describe_available()}"
            raise ToolCallError(message)
        return await self.implementations[tool].run(arguments, trace)

    def _find_offered(self, name: str) -> ToolDefinition | None:
        # A tool that the trial began with may not be configured any more.
        for tool in self.opening.tools:
            if tool.name == name:
                is_offered = name in self.implementations and self.opening.find_obstacle(name, self.memory) is None
                return tool if is_offered else None
        return None

    def _explain_refusal(self, tool: str) -> str:
        if all(tool != available.name for available in self.all_tools):
            return f"There is no tool {clean_text(tool, 60)!r}."
        if (why := self.opening.find_obstacle(tool, self.memory)) is not None:
            return f"{tool} cannot be used now: {why}."
        return f"{tool} cannot be used any more: it is no longer configured."

    def _describe_available(self) -> str:
        offered = [tool for tool in self.tools if tool.name in self.implementations]
        calls = (f"{tool.name}({', '.join(map(str, _argument_names(tool)))})" for tool in offered)
        return f"Available now: {', '.join(calls) or 'no tool'}."


def _argument_names(tool: ToolDefinition) -> list[str]:
    properties = tool.parameters["properties"]
    return list(properties) if isinstance(properties, dict) else []


def _call_digest(tool: str, arguments: object) -> str:
    try:
        return request_digest(
            {"tool": tool, "arguments": dict(arguments) if isinstance(arguments, Mapping) else arguments}
        )
    except MalformedDataError:
        # Nested too deeply to be written down: always refused in the same words.
        return request_digest({"tool": tool, "unreadable": True})
