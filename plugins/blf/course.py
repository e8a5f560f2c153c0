"""The course of one trial: what is offered, what the model answers, what comes of it, and what it believes then.

Every turn ends in one step with a complete belief, whatever the model or its provider did.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from bot.api import (
    Action,
    Answer,
    Completion,
    ConfigError,
    ContractError,
    Desk,
    FoxcastError,
    Message,
    Observation,
    Question,
    Rejected,
    Speaker,
    Step,
    Tool,
    ToolResult,
    Unauthorized,
    Unavailable,
    Usage,
)
from plugins.blf import belief, wording
from plugins.blf.ballot import Ballot, Predictions, distance
from plugins.blf.belief import Merge, merged
from plugins.blf.compaction import compacted
from plugins.blf.dialects.move import Garble, Move, Speech
from plugins.blf.reading import Misread, text
from plugins.blf.settings import BlfSettings, EarlyStop, ZeroShot
from plugins.blf.state import State
from plugins.blf.tally import Tally
from plugins.blf.wording import SUBMIT

MAIN = "main"
SEARCH = "web_search"
# Reading search results makes no sense without searches.
SEARCHES = (SEARCH, "summarize_results")
# An answer that is no action gets one chance to be repaired.
CHANCES = 2
SHOWN_CHARS = 2000

# What ends a trial with the belief that it has: nobody answers, may pay, is let in, or is configured.
STOPS = (Unavailable, Rejected, Unauthorized, ContractError, ConfigError)

Act = Callable[[Move], Awaitable[ToolResult]]
Offer = Callable[[int], tuple[Tool, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One step; ``over`` says that it was the last, ``failure`` why it was not by submitting."""

    step: Step
    over: bool = False
    failure: FoxcastError | None = None


@dataclass(slots=True)
class Heard:
    """What the model said in one turn, repairs included, and what that cost.

    ``unasked`` is why it could not be asked, where that ended the turn.
    """

    move: Move | None = None
    failure: FoxcastError | None = None
    unasked: FoxcastError | None = None
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    completion: Completion = field(default_factory=Completion)
    offered: tuple[Tool, ...] = ()

    def add(self, answer: Answer) -> None:
        self.completion = answer.completion
        self.usage += answer.usage
        self.documents += (answer.document,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a mode goes: what it offers at a step, and what comes of a move."""

    offer: Offer
    act: Act


@dataclass(slots=True, kw_only=True)
class Course:
    """One trial under way. The conversation only grows, so that providers find its beginning in their cache."""

    question: Question
    desk: Desk
    settings: BlfSettings
    ballot: Ballot
    speech: Speech
    state: State
    steps: int
    seed: int
    messages: list[Message] = field(default_factory=list)
    documents: tuple[str, ...] = ()
    _offered: tuple[Tool, ...] = ()
    _described: set[str] = field(default_factory=set)
    _past: list[Predictions] = field(default_factory=list)
    _tally: Tally = field(default_factory=Tally)
    _compact_from: int = 0
    _updates: int = 0
    _refused: int = 0
    _began: tuple[str, ...] = ()

    async def open(self, system: str, asked: str, turn: str) -> None:
        """Begin the conversation, and name the version of the prompts for the first step.

        What they became is on record with the calls; that differs with every question and cutoff.
        """
        first = "\n\n".join(part for part in (asked, self._printed(0), turn) if part)
        self.messages.append(Message(speaker=Speaker.SYSTEM, text=system))
        self.messages.append(Message(speaker=Speaker.USER, text=first))
        self.documents = (await self.desk.keep(wording.unfilled(self.settings)),)
        self._compact_from = self.settings.compaction_chars
        self._began = (f"began with {self.ballot.shown(self.state.predictions)}: {self.state.anchor}",)

    async def walk(self, way: Way, *, begin: int = 1) -> AsyncGenerator[Step, None]:
        """Yield one step per turn, until the model submits, fails, or has no step left; the first one is opened.

        A trial that did not end by submitting raises the reason after its last step: its belief stands, and the
        engine knows that it did not come to its end.
        """
        for number in range(begin, self.steps + 1):
            turn = await self._turn(way, number)
            # The engine may stop at its own limit after any step, so nothing is left to do behind the last one.
            yield replace(turn.step, final=True) if turn.over and turn.failure is None else turn.step
            if turn.failure is not None:
                raise turn.failure
            if turn.over:
                return

    def turn_line(self, number: int, offered: tuple[Tool, ...]) -> str:
        """Return the line that opens a turn, with a description of each tool that is offered for the first time.

        What it says is offered is what the turn offers.
        """
        self._offered = offered
        new = [tool for tool in offered if tool.name not in self._described]
        self._described.update(tool.name for tool in new)
        return wording.turn(number, self.steps, offered, self.speech.listing(new) if new else "")

    def allowed(self) -> Sequence[Tool]:
        """Return the tools that the desk offers now and the settings leave."""
        return allowed(self.desk, self.settings)

    def is_calm(self) -> bool:
        """Whether the last actions together moved the answer by less than is worth another one."""
        after = self.settings.early_stop_after
        if self.settings.early_stop is not EarlyStop.FORCED or len(self._past) < after:
            return False
        return distance(self._past[-after], self.state.predictions) < self.settings.early_stop_shift

    async def _turn(self, way: Way, number: int) -> Turn:
        offered = self._offered
        heard = await self._hear(offered)
        documents, self.documents = (*self.documents, *heard.documents), ()
        heard.documents = documents
        if heard.failure is not None or heard.move is None:
            return await self._give_up(heard, heard.failure or ContractError("no action"))
        if heard.move.name == SUBMIT and _offers(offered, SUBMIT):
            return await self._submit(heard, heard.move)
        return await self._act(way, number, heard, heard.move)

    async def _hear(self, offered: tuple[Tool, ...]) -> Heard:
        heard = Heard(offered=offered)
        why = ""
        for chance in range(CHANCES):
            try:
                answer = await self.desk.ask(MAIN, self.speech.prompt(self.messages, offered), seed=self.seed)
            except STOPS as error:
                heard.failure = heard.unasked = error
                return heard
            heard.add(answer)
            self._tally.heard(answer.model)
            said = self.speech.read(answer.completion)
            heard.move = None if isinstance(said, Garble) else said
            fault = said.why if isinstance(said, Garble) else self._fault(said, offered)
            if fault is None:
                return heard
            why = fault
            self._tally.garbled()
            heard.notes += (f"answer {chance + 1} was no valid action: {why}",)
            if chance + 1 < CHANCES:
                self._ask_again(answer.completion, why, offered)
        heard.failure = ContractError(f"no valid action after a repair: {why}")
        return heard

    def _fault(self, move: Move, offered: tuple[Tool, ...]) -> str | None:
        """Return why a move cannot stand: an answer that cannot be read, or no answer where nothing else is left."""
        if not _offers(offered, SUBMIT):
            return None
        if move.name != SUBMIT:
            return f"only {SUBMIT} can be called now" if len(offered) == 1 else None
        try:
            self.ballot.read(move.arguments)
        except Misread as error:
            return str(error)
        return None

    def _ask_again(self, completion: Completion, why: str, offered: tuple[Tool, ...]) -> None:
        said = completion.text or (completion.calls[0].arguments if completion.calls else "")
        self.messages.append(Message(speaker=Speaker.ASSISTANT, text=text(said, SHOWN_CHARS) or "(nothing)"))
        self.messages.append(Message(speaker=Speaker.USER, text=wording.repair(why, offered)))

    def _merged(self, move: Move) -> Merge:
        if not self.settings.states_beliefs:
            return Merge(self.state)
        merge = merged(self.state, move.belief, self.ballot, margin=self.settings.step_margin)
        self._updates += 1
        self._refused += merge.kept_old
        return merge

    def _refusals(self) -> tuple[str, ...]:
        told = f"{self._refused} of {self._updates} updates of the belief were not taken over"
        return (told,) if self._refused else ()

    async def _give_up(self, heard: Heard, failure: FoxcastError) -> Turn:
        # The last answer may hold a belief though its action could not stand.
        self.state = self._merged(heard.move).state if heard.move else self.state
        kept = self.ballot.bounded(self.state.predictions, self.settings.submit_margin)
        self.state = replace(self.state, predictions=kept)
        why = str(failure) or type(failure).__name__
        # A model that was not asked again for want of money or a connection has not refused to submit.
        await self._grade(submitted=None, free=heard.unasked is None)
        told = "\n".join([f"ended without submitting: {why}", *heard.notes, *self._refusals()])
        action = Action(name="stop", arguments={"why": text(why)})
        return Turn(step=self._step(action, told, heard, heard.notes), over=True, failure=failure)

    async def _submit(self, heard: Heard, move: Move) -> Turn:
        merge = self._merged(move)
        given = self.ballot.read(move.arguments)
        final = self.ballot.bounded(given, self.settings.submit_margin)
        await self._grade(submitted=final, believed=merge.state.predictions if merge.state.stated else None)
        reason = merge.state.reason if merge.state is not self.state else text(move.arguments.get("reasoning"))
        self.state = replace(merge.state, predictions=final, reason=reason)
        told = [f"submitted {self.ballot.shown(final)}"]
        if distance(given, final) > 0.0:
            told.append(f"given as {self.ballot.shown(given)}, kept within its bounds")
        # Whether the update was taken over matters no more: the answer that was given stands.
        remarks = _said(*heard.notes, *move.notes)
        told += [*remarks, *_said(merge.note), *self._refusals()]
        return Turn(step=self._step(_action(move), "\n".join(told), heard, remarks), over=True)

    async def _act(self, way: Way, number: int, heard: Heard, move: Move) -> Turn:
        merge = self._merged(move)
        self._past.append(self.state.predictions)
        self.state = merge.state
        known = _offers(heard.offered, move.name)
        result = await way.act(move) if known else _unknown(move, heard.offered)
        heard.usage += result.usage
        heard.documents += result.observation.documents
        notes = _said(*heard.notes, *move.notes, merge.note, await self._compact(heard))
        told = "\n".join(_said(result.observation.text, *notes))
        following = self.turn_line(number + 1, way.offer(number + 1))
        self.messages.append(self.speech.said(heard.completion, move))
        reply = "\n\n".join(part for part in (told, self._printed(number), following) if part)
        self.messages.append(self.speech.reply(move, reply))
        return Turn(step=self._step(_action(move), told, heard, notes))

    async def _compact(self, heard: Heard) -> str:
        settings = self.settings
        if not (settings.compaction_chars and settings.states_beliefs) or self.state.chars < self._compact_from:
            return ""
        found = await compacted(self.state, self.question, self.desk, seed=self.seed)
        self.state = found.state
        heard.usage += found.usage
        heard.documents += found.documents
        # Notes that stay long are not tried again before they have grown by as much once more.
        still_long = self.state.chars >= settings.compaction_chars
        self._compact_from = settings.compaction_chars + (self.state.chars if still_long else 0)
        return found.note

    def _printed(self, number: int) -> str:
        if not self.settings.states_beliefs:
            return ""
        return f"Belief state after step {number} of {self.steps}\n{belief.shown(self.state, self.ballot)}"

    def _step(self, action: Action, told: str, heard: Heard, remarks: tuple[str, ...] = ()) -> Step:
        observation = Observation(text=told, documents=heard.documents)
        belief, usage, began = self.state.belief, heard.usage, self._began
        self._began = ()
        return Step(action=action, observation=observation, belief=belief, usage=usage, remarks=(*began, *remarks))

    async def _grade(
        self, *, submitted: Predictions | None, believed: Predictions | None = None, free: bool = True
    ) -> None:
        for conduct in self._tally.verdicts(MAIN, believed=believed, submitted=submitted, free=free):
            await self.desk.grade(conduct)


def allowed(desk: Desk, settings: BlfSettings) -> Sequence[Tool]:
    """Return the tools that the desk offers now and the settings leave."""
    if settings.zero_shot is not ZeroShot.OFF:
        return []
    return [
        tool
        for tool in desk.tools
        if tool.name != SUBMIT
        and (settings.search or tool.name not in SEARCHES)
        and (settings.tools is None or tool.name in settings.tools)
    ]


def _offers(offered: tuple[Tool, ...], name: str) -> bool:
    return any(tool.name == name for tool in offered)


def _said(*notes: str) -> tuple[str, ...]:
    return tuple(note for note in notes if note)


def _action(move: Move) -> Action:
    return Action(name=move.name, arguments=move.arguments)


def _unknown(move: Move, offered: tuple[Tool, ...]) -> ToolResult:
    # Never "submit instead": a model that is told so gives up. Source: BLF, the notes of its code.
    others = ", ".join(tool.name for tool in offered if tool.name != SUBMIT) or "none"
    message = f"There is no tool {move.name!r} here. Tools that there are: {others}."
    return ToolResult(observation=Observation(text=message), failed=True)
