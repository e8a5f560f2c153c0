"""The loop of an agent, without any belief: offer, hear, act, reply, until it closes, falls silent or meets a limit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from bot.agent.dialects.move import Move
from bot.agent.texts import SUBMIT, names_of
from bot.agent.voice import Fault, Heard, Voice, none, only
from bot.domain.prompt import Tool
from bot.domain.step import Observation, ToolResult
from bot.errors import ContextExceeded, ContractError, FoxcastError, LimitReached

Act = Callable[[Move], Awaitable[ToolResult]]
Offer = Callable[[int], tuple[Tool, ...]]
# Why a loop ended: by a closing tool; no valid answer; nobody could be asked; a limit; the same call again and again.
Why = Literal["", "closed", "silent", "unasked", "steps", "tokens", "repeats"]


def _nothing(_number: int) -> str:
    return ""


def _meet(_move: Move) -> None:
    return None


async def _settled(_heard: Heard) -> tuple[str, ...]:
    return ()


def _brought(_move: Move, result: ToolResult) -> bool:
    return not result.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a loop goes.

    ``tools`` are all that the loop will ever offer, the same in every request. ``offer`` says which of them may be
    called at a step (at the last one only closing tools, or it ends without closing), ``act`` does a move that closes
    nothing, ``fault`` says why a move that was offered cannot stand, which is repaired once. ``after`` is what stands
    in a reply behind the result of a step, such as the budget that is left.

    ``tokens`` ends the loop once as many were read and written. A call that came before with the same arguments is
    refused in words, and the ``repeats``-th one ends the loop, but for the tools in ``again``; None allows it.
    ``meet`` sees each move before it is acted on, ``settle`` what was heard after that: it may add to its usage and
    documents, and what it returns is noted. ``is_evidence`` says whether the result of a move is evidence on the
    question; a thought or a note is none.
    """

    offer: Offer
    act: Act
    tools: tuple[Tool, ...] = ()
    closing: frozenset[str] = frozenset({SUBMIT})
    fault: Fault = none
    after: Callable[[int], str] = _nothing
    tokens: int | None = None
    repeats: int | None = 3
    again: frozenset[str] = frozenset()
    meet: Callable[[Move], None] = _meet
    settle: Callable[[Heard], Awaitable[tuple[str, ...]]] = _settled
    is_evidence: Callable[[Move, ToolResult], bool] = _brought


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One round of the loop. The last one is ``over`` and says ``why``; ``failure`` is set where nobody answered.

    ``told`` is what the model is told of the result, with all ``notes``; ``result`` is None where nothing was done.
    """

    number: int
    heard: Heard
    move: Move | None = None
    result: ToolResult | None = None
    told: str = ""
    notes: tuple[str, ...] = ()
    over: bool = False
    failure: FoxcastError | None = None
    why: Why = ""


async def walk(voice: Voice, way: Way, *, steps: int, begin: int = 1) -> AsyncGenerator[Turn, None]:
    """Yield one turn after the other, from number ``begin`` to ``steps`` at most; the last one is over.

    The conversation was begun by the caller. After a closing move, what the voice is told next answers that move, so a
    further walk can go on from there.
    """
    voice.declare(way.tools)
    under_way = _Walk(voice=voice, way=way, steps=steps, offered=())
    under_way.offer(begin)
    voice.say(voice.turn(begin, steps, under_way.offered))
    for number in range(begin, steps + 1):
        turn = await under_way.turn(number)
        # The engine may stop at its own limit after any turn, so nothing is left to do behind this one.
        yield turn
        if turn.over:
            return


@dataclass(slots=True, kw_only=True)
class _Walk:
    """A loop under way: what is offered now, and what it has used of its limits."""

    voice: Voice
    way: Way
    steps: int
    offered: tuple[Tool, ...]
    _tokens: int = 0
    _calls: Counter[str] = field(default_factory=Counter)

    def offer(self, number: int) -> None:
        """Decide what may be called at a step; where there is no time for more, it is what the last step offers."""
        voice = self.voice
        is_late = voice.desk.is_late(f"{voice.role} {voice.seed} {number}")
        self.offered = self.way.offer(self.steps if is_late else number)

    async def turn(self, number: int) -> Turn:
        heard = await self.voice.hear(self.offered, lambda move: self._fault(number, move))
        move = heard.move
        if heard.failure is not None or move is None:
            failure = self._failure(number, heard)
            why: Why = "unasked" if heard.unasked else "silent"
            return Turn(number=number, heard=heard, move=move, notes=heard.notes, over=True, failure=failure, why=why)
        if move.name in self.way.closing and self._offers(move.name):
            self.voice.keep(heard)
            notes = said(*heard.notes, *move.notes)
            return Turn(number=number, heard=heard, move=move, notes=notes, over=True, why="closed")
        return await self._act(number, heard, move)

    async def _act(self, number: int, heard: Heard, move: Move) -> Turn:
        self.way.meet(move)
        times = self._times(move)
        result = await self._result(move, times)
        heard.usage += result.usage
        heard.documents += result.observation.documents
        notes = said(*heard.notes, *move.notes, *await self.way.settle(heard))
        told = "\n".join(said(result.observation.text, *notes))
        why = self._limit(number, heard, times)
        reply = said(told, self.way.after(number), "" if why else self._next(number + 1))
        self.voice.answer(heard, "\n\n".join(reply))
        return Turn(
            number=number, heard=heard, move=move, result=result, told=told, notes=notes, over=bool(why), why=why
        )

    async def _result(self, move: Move, times: int) -> ToolResult:
        if not self._offers(move.name):
            return _failed(self._not_offered(move))
        if times > 1:
            return _failed(f"You have made this very call of {move.name} before; its result stands above. Do another.")
        return await self.way.act(move)

    def _not_offered(self, move: Move) -> str:
        # Never "submit instead": a model that is told so gives up. Source: BLF, the notes of its code.
        others = names_of([tool for tool in self.offered if tool.name not in self.way.closing]) or "none"
        if any(tool.name == move.name for tool in self.way.tools):
            return f"{move.name} cannot be called now. Other tools that can be used: {others}."
        return f"There is no tool {move.name!r} here. Tools that there are: {others}."

    def _next(self, number: int) -> str:
        self.offer(number)
        return self.voice.turn(number, self.steps, self.offered)

    def _fault(self, number: int, move: Move) -> str | None:
        """Return why a move cannot stand: an answer that cannot be read, or no answer where nothing else is left."""
        if self._offers(move.name):
            return self.way.fault(move)
        if any(tool.name not in self.way.closing for tool in self.offered):
            return None
        return f"no steps left, {only(self.offered)}" if number >= self.steps else only(self.offered)

    def _failure(self, number: int, heard: Heard) -> FoxcastError:
        """Return why nobody answered: a limit, where one of the loop's or of the model's stood in the way."""
        match heard.failure:
            case ContextExceeded() as failure:
                return LimitReached(str(failure), limit="context")
            case ContractError() as failure if number >= self.steps and heard.move is not None:
                return LimitReached(str(failure), limit="steps")
            case failure:
                return failure or ContractError("no action")

    def _offers(self, name: str) -> bool:
        return any(tool.name == name for tool in self.offered)

    def _times(self, move: Move) -> int:
        """Return how often this call was made, this time included; 1 where that does not matter."""
        if self.way.repeats is None or move.name in self.way.again:
            return 1
        call = json.dumps([move.name, dict(move.arguments)], sort_keys=True, default=str)
        self._calls[call] += 1
        return self._calls[call]

    def _limit(self, number: int, heard: Heard, times: int) -> Why:
        self._tokens += heard.usage.tokens_in + heard.usage.tokens_out
        if self.way.repeats is not None and times >= max(2, self.way.repeats):
            return "repeats"
        if self.way.tokens is not None and self._tokens >= self.way.tokens:
            return "tokens"
        return "steps" if number >= self.steps else ""


def said(*notes: str) -> tuple[str, ...]:
    """Return the notes that say something."""
    return tuple(note for note in notes if note)


def _failed(text: str) -> ToolResult:
    return ToolResult(observation=Observation(text=text), failed=True)
