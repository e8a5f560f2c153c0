"""One participant of a trial: a role in which a model is asked, its conversation, and how it did.

Every answer of a model is asked for, read and repaired here; what is wrong with it, or with its provider, comes back
as a value, so that no participant can end a trial for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from bot.agent.ballot import Predictions
from bot.agent.dialects.json_object import JsonSpeech
from bot.agent.dialects.move import NOTHING, Garble, Move, Speech
from bot.agent.dialects.native import NativeSpeech
from bot.agent.handover import call_text, handover_text, transcript_text
from bot.agent.tally import Tally
from bot.agent.texts import names_of, repair_text, turn_text
from bot.domain.prompt import Answer, Completion, Dialect, Finish, Message, Prompt, Speaker, Tool
from bot.domain.step import Json, Usage
from bot.errors import (
    ConfigError,
    ContractError,
    FoxcastError,
    LimitReached,
    NotFound,
    Rejected,
    Unauthorized,
    Unavailable,
)
from bot.ports import Desk

T = TypeVar("T")

# An answer that is no action gets one chance to be repaired.
CHANCES = 2
# What answers a call that nothing else came of.
NOTED = "Noted."

# What ends a trial with the belief that it has: nobody answers, may pay, is let in, or is configured.
STOPS = (Unavailable, Rejected, Unauthorized, ContractError, ConfigError, LimitReached)

Fault = Callable[[Move], str | None]


def none(_move: Move) -> str | None:
    """Find no fault with a move."""
    return None


@dataclass(slots=True)
class Heard:
    """What the model said in one turn, repairs included, and what that cost.

    Without a ``failure`` there is a ``move``; with one, ``move`` is the last that could be read though it could not
    stand. ``unasked`` is why it could not be asked, where that ended the turn.
    """

    move: Move | None = None
    failure: FoxcastError | None = None
    unasked: FoxcastError | None = None
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    completion: Completion = field(default_factory=Completion)

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        self.completion = answer.completion
        self.usage += answer.usage
        self.documents += (answer.document,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled(Generic[T]):
    """What came of asking for one structured answer: ``value``, or None with ``why`` and the ``failure``.

    ``unasked`` is the failure where the model could not be asked (no budget, no connection); ``said`` are the
    arguments as they were sent; ``notes`` say what was strange about the answer.
    """

    value: T | None = None
    why: str = ""
    failure: FoxcastError | None = None
    unasked: FoxcastError | None = None
    said: Mapping[str, Json] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Voice:
    """A role's conversation. It only grows, and offers the same tools in each request.

    So providers find its beginning in their cache, and take back the reasoning that they signed for it. What a model
    answered stays as it came. ``summary`` says in words what was done so far, for a model that takes over. ``folder``
    holds prompt files that replace the shipped ones.
    """

    desk: Desk
    role: str
    speech: Speech
    seed: int
    folder: Path | None = None
    messages: list[Message] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    summary: Callable[[], str] | None = None
    # The model that speaks in this conversation, "" before it has said anything.
    model: str = ""
    _tools: tuple[Tool, ...] = ()
    # Those of the last request, as they were sent.
    _sent: tuple[Tool, ...] = ()
    _described: dict[str, Tool] = field(default_factory=dict)
    # How many of them are described in the first message.
    _first: int = 0
    # Whether the last message is an answer to which nothing has been said.
    _open: bool = False
    # Where the last thing that was said to the model stands, -1 where that is answered.
    _said_at: int = -1
    _turn: str = ""

    @property
    def percent(self) -> bool:
        """Whether the model writes under a grammar, so that probabilities are asked for in percent."""
        return isinstance(self.speech, JsonSpeech)

    def believe(self, schema: Mapping[str, Json] | None) -> None:
        """Ask for an update of a belief with every move from now on; None for none."""
        self.speech = JsonSpeech(schema) if self.percent else NativeSpeech(schema)

    def begin(self, system: str, first: str) -> None:
        """Open the conversation."""
        self.messages.append(Message(speaker=Speaker.SYSTEM, text=system))
        self.messages.append(Message(speaker=Speaker.USER, text=first))

    def restart(self, opening: Sequence[Message]) -> None:
        """Begin another conversation with these messages; tools may be others then."""
        self.messages[:] = opening
        self.model, self._tools, self._sent, self._turn = "", (), (), ""
        self._described.clear()
        self._open, self._said_at = False, -1

    def declare(self, tools: Sequence[Tool]) -> None:
        """Name all tools that this conversation will ever offer, so that every request has the same list of them.

        A tool that is offered without having been named changes the list, as a belief does that is asked for from some
        move on: what providers signed is void then, and is left out from there on.
        """
        known = {tool.name: tool for tool in self._tools}
        known.update({tool.name: tool for tool in tools})
        declared = tuple(known.values())
        if declared != self._tools:
            self._tools = declared

    def say(self, said: str) -> None:
        """Say something to the model: in answer to its last move, or added to what was said before and not answered."""
        if self._open:
            self._said_at = len(self.messages)
            self.messages += self.speech.replies(self.messages[-1], said)
            self._open = False
        elif self._said_at >= 0 or (self.messages and self.messages[-1].speaker in {Speaker.USER, Speaker.TOOL}):
            # Many providers refuse two messages of one speaker in a row.
            last = self.messages[self._said_at]
            self.messages[self._said_at] = replace(last, text=f"{last.text}\n\n{said}")
        else:
            self._said_at = len(self.messages)
            self.messages.append(Message(speaker=Speaker.USER, text=said))

    def answer(self, heard: Heard, reply: str) -> None:
        """Keep a move and what came of it in the conversation; without a move only the reply."""
        self.keep(heard)
        self.say(reply)

    def keep(self, heard: Heard) -> None:
        """Keep a move in the conversation; what is said next answers it."""
        if heard.move is not None and heard.failure is None:
            self._keep(heard.completion, heard.move)

    def turn(self, number: int, steps: int, offered: tuple[Tool, ...]) -> str:
        """Return the line that opens a turn, with a description of each tool that is offered for the first time."""
        listing = self._listing(self.speech, offered)
        self._turn = turn_text(number, steps, offered, "", folder=self.folder)
        return turn_text(number, steps, offered, listing, folder=self.folder)

    async def hear(self, offered: tuple[Tool, ...], fault: Fault = none) -> Heard:
        """Ask for one move; ``fault`` says why one cannot stand, which is repaired once.

        The move is not part of the conversation before ``answer`` or ``keep``. Whatever goes wrong is in what comes
        back.
        """
        return await self._hear(self.speech, offered, fault)

    async def fill(self, tool: Tool, read: Callable[[Mapping[str, Json]], T], *, keep: bool = True) -> Filled[T]:
        """Ask for one structured answer: ``tool`` alone may be called, ``read`` makes a value of its arguments.

        ``read`` raises Misread, in words for the model, for arguments that it cannot use. Without ``keep`` the
        conversation is afterwards what it was before. No belief is asked for.
        """
        values: list[T] = []

        def fault(move: Move) -> str | None:
            if move.name != tool.name:
                return only((tool,))
            try:
                values[:] = [read(move.arguments)]
            except (KeyError, TypeError, ValueError) as error:
                return str(error)
            return None

        speech: Speech = JsonSpeech() if self.percent else NativeSpeech()
        before = replace(self, messages=list(self.messages), _described=dict(self._described))
        self._turn = "" if self.percent else call_text(tool)
        if asked := self._listing(speech, (tool,)).strip("\n") or self._turn:
            self.say(asked)
        heard = await self._hear(speech, (tool,), fault)
        self.keep(heard)
        if not keep:
            self._take_back(before)
        return Filled(
            value=values[0] if heard.failure is None else None,
            why=str(heard.failure or ""),
            failure=heard.failure,
            unasked=heard.unasked,
            said=heard.move.arguments if heard.move else {},
            usage=heard.usage,
            documents=heard.documents,
            notes=(*heard.notes, *(heard.move.notes if heard.move else ())),
        )

    async def grade(
        self, *, believed: Predictions | None = None, submitted: Predictions | None = None, free: bool = False
    ) -> None:
        """Tell how the models in this role did; once for each voice, at its end.

        ``free`` says that it could have submitted an answer and did not. A voice that was never asked to, or was kept
        from it, is not judged by that.
        """
        may = free or submitted is not None
        for conduct in self.tally.verdicts(self.role, believed=believed, submitted=submitted, free=may):
            await self.desk.grade(conduct)

    async def _hear(self, speech: Speech, offered: tuple[Tool, ...], fault: Fault) -> Heard:
        self._settle()
        self._offer(offered)
        heard = Heard()
        why = ""
        for chance in range(CHANCES):
            if not await self._ask(speech, offered, heard):
                return heard
            said = speech.read(heard.completion)
            heard.move = None if isinstance(said, Garble) else said
            found = said.why if isinstance(said, Garble) else fault(said)
            if found is None:
                return heard
            why = found
            self.tally.garbled()
            heard.notes += (f"answer {chance + 1} was no valid action: {why}",)
            if heard.completion.finish is Finish.REFUSED:
                # The same prompt is refused again.
                heard.failure = Rejected(f"{self.model}: {why}")
                return heard
            if chance + 1 < CHANCES:
                self._ask_again(heard, why, offered)
        heard.failure = ContractError(f"no valid action after a repair: {why}")
        self._close(heard, why)
        return heard

    async def _ask(self, speech: Speech, offered: tuple[Tool, ...], heard: Heard) -> bool:
        """Ask once and count the answer; without one, say why in ``heard``."""
        prompt = self._prompt(speech, offered)
        try:
            answer = await self.desk.ask(self.role, prompt, seed=self.seed)
        except STOPS as error:
            heard.failure = heard.unasked = error
            self.tally.failed(error)
            return False
        if prompt.handover and answer.model != self.model:
            # Another model took over, and goes on from what it was told.
            self.messages[:], self._said_at = prompt.handover, len(prompt.handover) - 1
            heard.notes += (f"{answer.model} took over from {self.model}",)
            self.tally.replaced(self.model)
            self.model = ""
        self._first = self._first if self.model else len(self._described)
        self.model = answer.model
        heard.add(answer)
        self.tally.heard(answer.model)
        return True

    def _prompt(self, speech: Speech, offered: tuple[Tool, ...]) -> Prompt:
        prompt = speech.prompt(self.messages, self._tools, offered)
        if self._sent and prompt.tools != self._sent:
            self._forget_native()
            prompt = speech.prompt(self.messages, self._tools, offered)
        self._sent = prompt.tools
        return replace(prompt, model=self.model, handover=self._handover(speech))

    def _ask_again(self, heard: Heard, why: str, offered: tuple[Tool, ...]) -> None:
        self._keep(heard.completion, heard.move)
        self.say(repair_text(why, offered, folder=self.folder))

    def _close(self, heard: Heard, why: str) -> None:
        """Keep an answer that ends a turn for nothing: what is said next comes after it, and changes no message."""
        self._keep(heard.completion, heard.move)
        self.say(f"That was no valid action: {why}.")

    def _keep(self, completion: Completion, move: Move | None) -> None:
        self._settle()
        # No provider takes an empty message.
        empty = Message(speaker=Speaker.ASSISTANT, text=NOTHING)
        self.messages.append(empty if _is_empty(completion) else self.speech.message(completion, move))
        self._open, self._said_at = True, -1

    def _settle(self) -> None:
        """Answer the last move where nobody did: providers refuse a call without an answer."""
        if self._open:
            self.say(NOTED)

    def _take_back(self, before: Voice) -> None:
        """Make the conversation what it was before; what it cost and how the model did stays."""
        self.messages[:], self.model = before.messages, before.model
        self._tools, self._sent, self._turn = before._tools, before._sent, before._turn
        self._described, self._first = before._described, before._first
        self._open, self._said_at = before._open, before._said_at

    def _offer(self, offered: tuple[Tool, ...]) -> None:
        known = {id(tool) for tool in self._tools}
        if new := [tool for tool in offered if id(tool) not in known]:
            self.declare(new)

    def _forget_native(self) -> None:
        for place, message in enumerate(self.messages):
            if message.native is not None:
                self.messages[place] = replace(message, native=None)

    def _handover(self, speech: Speech) -> tuple[Message, ...]:
        """Return the conversation for a model that did not speak in it: its beginning, and what was done since."""
        first = next((at for at, one in enumerate(self.messages) if one.speaker is Speaker.ASSISTANT), 0)
        if not self.model or not first:
            return ()
        done = self.summary() if self.summary is not None else transcript_text(self.messages[first:])
        later = tuple(self._described.values())[self._first :]
        parts = (
            self.messages[first - 1].text,
            handover_text(done),
            self._turn + (speech.listing(later) if later else ""),
        )
        told = replace(self.messages[first - 1], text="\n\n".join(filter(None, parts)))
        return (*self.messages[: first - 1], told)

    def _listing(self, speech: Speech, offered: Sequence[Tool]) -> str:
        new = [tool for tool in offered if tool.name not in self._described]
        self._described.update({tool.name: tool for tool in new})
        return speech.listing(new) if new else ""


def _is_empty(completion: Completion) -> bool:
    return not completion.calls and not completion.text.strip()


def voice_for(
    desk: Desk, *roles: str, seed: int, belief: Mapping[str, Json] | None = None, folder: Path | None = None
) -> Voice:
    """Return a voice in the first of the roles that a model plays; raises ConfigError where none does.

    ``belief`` is the schema of what the model sends with every move (``belief_schema``); ``folder`` holds prompt files
    that replace the shipped ones.
    """
    missing: FoxcastError | None = None
    for role in roles:
        try:
            percent = desk.dialect(role) is Dialect.JSON
        # A replay has no models, and holds no record of a role that none played.
        except (ConfigError, NotFound) as error:
            missing = missing or error
            continue
        speech: Speech = JsonSpeech(belief) if percent else NativeSpeech(belief)
        return Voice(desk=desk, role=role, speech=speech, seed=seed, folder=folder)
    raise missing or ConfigError("a voice needs a role")


def seed_of(desk: Desk, *labels: str) -> int:
    """Return a seed for the answers of a voice that belongs to this trial and these labels alone.

    Trials differ by it, and a repeated trial finds its own answers on record.
    """
    return int(desk.stream(*labels).integers(2**31))


def only(tools: Sequence[Tool]) -> str:
    """Return in words that nothing else can be called."""
    return f"only {names_of(tools)} can be called now"
