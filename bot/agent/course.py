"""The loop with a belief: every move carries an update of it, every turn ends in a step with a complete belief.

That holds whatever the model or its provider did. Source: BLF (arXiv 2604.18576v3), section 3 and algorithm 1.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from bot.agent.ballot import Ballot, Manner, Predictions, ballot_for, distance
from bot.agent.belief import Merge, belief_schema, merged, shown_state
from bot.agent.compaction import compacted
from bot.agent.dialects.move import Move
from bot.agent.loop import Turn, Way, said, walk
from bot.agent.reading import Misread, text
from bot.agent.start import Anchor, first_state
from bot.agent.state import State
from bot.agent.texts import SUBMIT
from bot.agent.voice import Heard, Voice
from bot.domain.question import Question
from bot.domain.step import Action, Observation, Step, ToolResult
from bot.errors import FoxcastError, LimitReached
from bot.ports import Desk

SEARCH = "web_search"

_LIMITS = {
    "steps": "no step is left",
    "tokens": "its tokens are used up",
    "repeats": "it made the same call again and again",
}


@dataclass(slots=True, kw_only=True)
class Course:
    """One trial under way; ``course_for`` makes one.

    ``open`` begins the conversation and ``walk`` yields the steps. What the trial believes is ``state``, which a tool
    may change while it acts. ``seen_evidence`` says that some action has brought evidence.
    """

    question: Question
    manner: Manner
    ballot: Ballot
    voice: Voice
    state: State
    steps: int
    documents: tuple[str, ...] = ()
    _past: list[Predictions] = field(default_factory=list)
    _merge: str = ""
    _compact_from: int = 0
    _updates: int = 0
    _refused: int = 0
    seen_evidence: bool = False
    _actions: list[str] = field(default_factory=list)
    _began: tuple[str, ...] = ()

    @property
    def desk(self) -> Desk:
        """The desk of the trial."""
        return self.voice.desk

    async def open(self, system: str, asked: str, texts: str) -> None:
        """Begin the conversation, and keep the texts that prompts are made from for the first step.

        Their digest is the version of the prompts. What they became is on record with the calls; that differs with
        every question and cutoff.
        """
        self.voice.begin(system, "\n\n".join(said(asked, self._printed(0))))
        # Without a belief only what was said tells what was found.
        self.voice.summary = self._summary if self.manner.believes else None
        self.documents = (await self.desk.keep(texts),)
        self._compact_from = self.manner.compaction_chars
        self._began = (f"began with {self.ballot.shown(self.state.predictions)}: {self.state.anchor}",)

    async def walk(self, way: Way, *, begin: int = 1) -> AsyncGenerator[Step, None]:
        """Yield one step per turn, until the model submits, fails, or has no step left; the first one is opened.

        A trial that did not end by submitting raises the reason after its last step: its belief stands, and the
        engine knows that it did not come to its end. ``meet``, ``settle`` and ``closing`` of the way are the course's.
        """
        own = replace(
            way,
            closing=frozenset({SUBMIT}),
            fault=lambda move: self._fault(move) or way.fault(move),
            after=lambda number: "\n\n".join(said(self._printed(number), way.after(number))),
            meet=self._take_over,
            settle=self._settle,
        )
        async with aclosing(walk(self.voice, own, steps=self.steps, begin=begin)) as turns:
            async for turn in turns:
                self._note(turn, way)
                step, failure = await self._step_of(turn)
                # The engine may stop at its own limit after any step, so nothing is left to do behind the last one.
                yield replace(step, final=True) if turn.over and failure is None else step
                if failure is not None:
                    raise failure

    async def use(self, move: Move) -> ToolResult:
        """Use a tool of the desk as the model asked; what was searched for becomes part of the belief."""
        result = await self.desk.use(move.name, move.arguments)
        if move.name == SEARCH and isinstance(query := move.arguments.get("query"), str):
            self.state = self.state.having_searched((query,))
        return result

    def moved(self, actions: int) -> float | None:
        """Return by how much the last ``actions`` together moved the answer; None where there were fewer."""
        return distance(self._past[-actions], self.state.predictions) if len(self._past) >= actions else None

    def _fault(self, move: Move) -> str | None:
        if move.name == SUBMIT:
            try:
                self.ballot.read(move.arguments)
            except Misread as error:
                return str(error)
        return None

    def _merged(self, move: Move) -> Merge:
        if not self.manner.believes:
            return Merge(self.state)
        merge = merged(self.state, move.belief, self.ballot, margin=self.manner.step_margin)
        self._updates += 1
        self._refused += merge.kept_old
        self.voice.tally.updated(read=not merge.kept_old)
        informed = self.state.informed or (self.seen_evidence and not merge.kept_old)
        return replace(merge, state=replace(merge.state, informed=informed))

    def _take_over(self, move: Move) -> None:
        merge = self._merged(move)
        self._past.append(self.state.predictions)
        self.state, self._merge = merge.state, merge.note

    async def _settle(self, heard: Heard) -> tuple[str, ...]:
        return (self._merge, await self._compact(heard))

    async def _compact(self, heard: Heard) -> str:
        limit = self.manner.compaction_chars
        if not (limit and self.manner.believes) or self.state.chars < self._compact_from:
            return ""
        voice = self.voice
        found = await compacted(self.state, self.question, self.desk, seed=voice.seed, folder=voice.folder)
        self.state = found.state
        heard.usage += found.usage
        heard.documents += found.documents
        # Notes that stay long are not tried again before they have grown by as much once more.
        still_long = self.state.chars >= limit
        self._compact_from = limit + (self.state.chars if still_long else 0)
        return found.note

    async def _step_of(self, turn: Turn) -> tuple[Step, FoxcastError | None]:
        """Return the step that a turn becomes, and why it was the last, if not by submitting."""
        if turn.why == "closed" and turn.move is not None:
            return await self._submit(turn, turn.move), None
        if turn.failure is not None:
            return await self._give_up(turn, turn.failure), turn.failure
        failure = None
        if turn.over:
            failure = LimitReached(f"ended without submitting: {_LIMITS[turn.why]}", limit=turn.why)
            self._keep_within_bounds()
            # A model that was not asked again for want of tokens has not refused to submit.
            await self.voice.grade(free=turn.why != "tokens")
        ended = () if failure is None else (str(failure),)
        action = _action(turn.move) if turn.move else Action(name="stop")
        return self._step(action, "\n".join((turn.told, *ended)), turn.heard, (*turn.notes, *ended)), failure

    def _note(self, turn: Turn, way: Way) -> None:
        """Remember what was done, and whether it brought evidence."""
        if turn.move is None or turn.result is None:
            return
        self.seen_evidence = self.seen_evidence or way.is_evidence(turn.move, turn.result)
        outcome = " (failed)" if turn.result.failed else ""
        given = json.dumps(dict(turn.move.arguments), ensure_ascii=False)
        self._actions.append(f"- {turn.move.name}({given}){outcome}")

    def _summary(self) -> str:
        """Return what was done and what is believed, for a model that takes over."""
        done = "\n".join(["Actions so far:", *self._actions]) if self._actions else ""
        return "\n\n".join(said(done, self._printed(len(self._actions))))

    async def _give_up(self, turn: Turn, failure: FoxcastError) -> Step:
        heard = turn.heard
        # The last answer may hold a belief though its action could not stand.
        self.state = self._merged(heard.move).state if heard.move else self.state
        self._keep_within_bounds()
        why = str(failure) or type(failure).__name__
        # A model that was not asked again for want of money or a connection has not refused to submit.
        await self.voice.grade(free=heard.unasked is None)
        told = "\n".join([f"ended without submitting: {why}", *heard.notes, *self._refusals()])
        return self._step(Action(name="stop", arguments={"why": text(why)}), told, heard, heard.notes)

    async def _submit(self, turn: Turn, move: Move) -> Step:
        merge = self._merged(move)
        given = self.ballot.read(move.arguments)
        final = self.ballot.bounded(given, self.manner.submit_margin)
        await self.voice.grade(submitted=final, believed=merge.state.predictions if merge.state.stated else None)
        updated = self.manner.believes and not merge.kept_old
        reason = merge.state.reason if updated else text(move.arguments.get("reasoning"))
        self.state = replace(merge.state, predictions=final, reason=reason, informed=True)
        told = [f"submitted {self.ballot.shown(final)}"]
        if distance(given, final) > 0.0:
            told.append(f"given as {self.ballot.shown(given)}, kept within its bounds")
        # Whether the update was taken over matters no more: the answer that was given stands.
        told += [*turn.notes, *said(merge.note), *self._refusals()]
        return self._step(_action(move), "\n".join(told), turn.heard, turn.notes)

    def _keep_within_bounds(self) -> None:
        kept = self.ballot.bounded(self.state.predictions, self.manner.submit_margin)
        self.state = replace(self.state, predictions=kept)

    def _refusals(self) -> tuple[str, ...]:
        told = f"{self._refused} of {self._updates} updates of the belief were not taken over"
        return (told,) if self._refused else ()

    def _printed(self, number: int) -> str:
        if not self.manner.believes:
            return ""
        return f"Belief state after step {number} of {self.steps}\n{shown_state(self.state, self.ballot)}"

    def _step(self, action: Action, told: str, heard: Heard, remarks: tuple[str, ...] = ()) -> Step:
        observation = Observation(text=told, documents=(*self.documents, *heard.documents))
        began, self._began, self.documents = self._began, (), ()
        return Step(
            action=action,
            observation=observation,
            belief=self.state.belief,
            usage=heard.usage,
            remarks=(*began, *remarks),
        )


def course_for(question: Question, voice: Voice, anchor: Anchor, *, steps: int, manner: Manner) -> Course:
    """Return the course of a trial that starts from ``anchor``, with no more steps than the engine allows."""
    ballot = ballot_for(question, manner, percent=voice.percent)
    voice.believe(belief_schema(ballot, manner.step_margin) if manner.believes else None)
    return Course(
        question=question,
        manner=manner,
        ballot=ballot,
        voice=voice,
        state=first_state(anchor, question, ballot, manner.step_margin),
        steps=max(1, min(steps, voice.desk.limits.steps)),
    )


def _action(move: Move) -> Action:
    return Action(name=move.name, arguments=move.arguments)
