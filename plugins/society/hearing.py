"""One trial of the court: its steps in order, what each agent is told and says, and what is believed after each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

from bot.api import (
    Action,
    Ballot,
    ContractError,
    Desk,
    Filled,
    Json,
    Observation,
    Question,
    Step,
    Tool,
    Usage,
    ballot_for,
    question_text,
    quoted,
    starting_point,
)
from plugins.society import jury, votes
from plugins.society.answers import Said, reader_for, tool_for
from plugins.society.pacing import joined, together
from plugins.society.people import Company, Person
from plugins.society.retrieval import Retrieval
from plugins.society.scenario import JURY, ActionType, Agent, Kind, Move, Placed, Scenario, Side, laid_out
from plugins.society.settings import CourtSettings, moves_in, moves_of
from plugins.society.standing import Standing, sides
from plugins.society.variables import Value, Variables, resolved
from plugins.society.wording import juror_system, prompts, system_text

ASKED_CHARS = 1000


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one move: what is told of it, what it rests on and costs, and what should not be missed."""

    text: str
    arguments: dict[str, Json] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class Hearing:
    """A trial under way."""

    def __init__(self, question: Question, desk: Desk, settings: CourtSettings) -> None:
        """Lay out the scenario; nobody is asked yet.

        Raises ConfigError for a scenario that does not hold together, or an intervention on a role without a model.
        """
        self.question, self.desk, self.settings = question, desk, settings
        self.scenario: Scenario = settings.plot()
        self.planned = moves_of(self.scenario)
        for role in settings.interventions.roles.values():
            # Not passed on to the main model in silence: the comparison would be of nothing.
            desk.dialect(role)
        self.company = Company(question=question, desk=desk, manner=settings.manner)
        self.now = Standing(
            question=question,
            settings=settings,
            anchor=starting_point(question, crowd=settings.crowd),
            ballot=ballot_for(question, settings.manner, percent=True),
            has_jury=any(move.action is ActionType.GENERATE_JURY for move in self.scenario.steps),
        )
        self.agents = {agent.name: self._joined(agent) for agent in self.scenario.agents}
        pinned = frozenset(settings.interventions.variables)
        self.variables = Variables(
            {name: Value(text, own=True) for name, text in resolved(self.scenario.values).items()}, pinned
        )
        self.retrieval = Retrieval(company=self.company, settings=settings)
        self.heard = False
        self._late = False
        self._remarks: list[str] = []

    def _joined(self, agent: Agent) -> Person:
        person = _person(agent)
        return self.company.join(person) if agent.capabilities.llm else person

    async def moves(self) -> AsyncGenerator[Step, None]:
        """Yield one step per move, each with what is believed then; raises after the last one without a verdict."""
        documents: tuple[str, ...] = (await self.desk.keep(prompts(self.scenario)),)
        began: tuple[str, ...] = (
            f"began with {self.now.ballot.shown(self.now.belief().predictions)}: {self.now.anchor.text}",
        )
        began += self.settings.interventions.told()
        held: list[Step] = []
        made = 0
        async with aclosing(self._outcomes()) as outcomes:
            async for at, outcome in outcomes:
                made += 1
                if made == self.planned:
                    self._close(outcome)
                    await self.company.dismiss()
                step = self._step(at, replace(outcome, documents=documents + outcome.documents), began)
                documents, began = (), ()
                held.append(replace(step, final=made == self.planned and self.now.verdict))
                # While no model has said a word there is nothing that could be a forecast of this court.
                for ready in held if self.heard else ():
                    yield ready
                held = [] if self.heard else held
        if held:
            yield joined(held)
        if not self.now.verdict:
            voted = f"{self.now.voted} of {len(self.now.jurors)} jurors voted, fewer than half"
            message = f"no verdict: {voted if self.now.has_jury else 'nobody gave an answer'}"
            raise self.company.failure or ContractError(message)

    def _step(self, at: Placed, outcome: Outcome, began: tuple[str, ...]) -> Step:
        told: dict[str, Json] = {"step": at.place, **({"name": at.move.name} if at.move.name else {})}
        told |= {"turn": at.turn, "turns": at.turns} if at.turns > 1 else {}
        told |= {"silent": True} if at.move.silent else {}
        remarks = dict.fromkeys((*began, *outcome.remarks, *self._remarks))
        self._remarks.clear()
        return Step(
            action=Action(name=at.move.action, arguments={**told, **outcome.arguments}),
            observation=Observation(text=outcome.text, documents=outcome.documents),
            belief=self.now.belief(),
            usage=outcome.usage,
            remarks=tuple(remarks),
        )

    async def _outcomes(self) -> AsyncGenerator[tuple[Placed, Outcome], None]:
        course = [*laid_out(self.scenario)]
        for at in course:
            if at is not course[-1] and self._is_left_out(at):
                self.planned -= moves_in(self.scenario, at)
                self._remarks.append(f"step {at.place} was left out: there is only time for a verdict")
                continue
            async with aclosing(self._done(at)) as outcomes:
                async for outcome in outcomes:
                    yield at, outcome

    def _is_left_out(self, at: Placed) -> bool:
        """Say whether a move is left out because time is short: only what leads to a verdict is done then."""
        self._late = self._late or self.desk.is_late(f"move {at.place}")
        kinds = {Kind.VOTE} if self.now.has_jury else {Kind.ESTIMATE, Kind.SYNTHESIS}
        leads = at.move.action is ActionType.GENERATE_JURY or at.move.kind in kinds
        return self._late and (self.now.verdict or not leads)

    def _done(self, at: Placed) -> AsyncGenerator[Outcome, None]:
        if at.move.action is not ActionType.MESSAGE:
            return self._alone(at)
        return self._to_jury(at) if at.move.receiver == JURY else self._to_agent(at)

    async def _alone(self, at: Placed) -> AsyncGenerator[Outcome, None]:
        match at.move.action:
            case ActionType.WEB_SEARCH:
                yield await self._search(at)
            case ActionType.PROCESS_ARTICLES:
                yield await self._process(at)
            case ActionType.GENERATE_JURY:
                yield await self._seat(at)
            case _:
                yield self._counted(at)

    async def _search(self, at: Placed) -> Outcome:
        query = self._filled(at.move.query, at, fenced=False).strip()
        if not query:
            self._remarks.append("nobody named a search, so the title of the question was searched for")
        found = await self.retrieval.search((query or self.question.title).split("\n"), at.move.num_results)
        self.now.queries = self.retrieval.queries
        self.variables.store(at.move.store, found.text)
        told: dict[str, Json] = {"agent": at.move.agent, "queries": [*found.queries]}
        return Outcome(
            text=found.text, arguments=told, usage=found.usage, documents=found.documents, remarks=found.remarks
        )

    async def _process(self, at: Placed) -> Outcome:
        agent = self.agents[str(at.move.agent)]
        criteria = self._filled(at.move.criteria, at)
        read = await self.retrieval.process(self._open(agent, at), criteria, at.move)
        self.variables.store(at.move.store, read.text, own=True)
        told: dict[str, Json] = {"agent": at.move.agent, "articles": [*read.told]}
        return Outcome(
            text=read.shown, arguments=told, usage=read.usage, documents=read.documents, remarks=read.remarks
        )

    async def _seat(self, at: Placed) -> Outcome:
        selection, clerk = self.scenario.agent(str(at.move.agent)).jury_selection, self.agents[str(at.move.agent)]
        assert selection is not None  # noqa: S101 - the checks of the scenario saw to it
        count, given = at.move.num_jurors, self.settings.interventions.jurors
        role = self.settings.interventions.roles.get(JURY)
        filled: Filled[tuple[jury.Profile, ...]] = (
            Filled(value=given)
            if given
            else await self._open(clerk, at).asked(
                f"{self._filled(at.move.message, at)}\n\n{jury.requirements_text(selection.requirements)}".strip(),
                jury.jury_tool(selection, count),
                lambda arguments: jury.read_jury(arguments, selection, count),
            )
        )
        self._noticed(filled)
        seated = jury.seated(filled.value, count, filled.why)
        for number, profile in enumerate(seated.profiles, 1):
            person = Person(
                name=f"juror_{number}",
                label=profile.get(jury.NAME, f"Juror {number}"),
                system=juror_system(selection),
                profile=jury.profile_text(profile),
                votes=True,
                roles=(role,) if role else (f"juror_{number}", "juror"),
            )
            self.now.jurors.append(self.company.join(person))
        shown = [
            f"{one.name}: {', '.join(profile.values())}"
            for one, profile in zip(self.now.jurors, seated.profiles, strict=True)
        ]
        self.variables.store(at.move.store, "\n".join(shown))
        told: dict[str, Json] = {"agent": at.move.agent, "jurors": [dict(profile) for profile in seated.profiles]}
        absent = [f"{one.name} {one.out}" for one in self.now.jurors if one.out]
        notes = (*filled.notes, *([seated.note] if seated.note else ()), *absent)
        return Outcome(
            text="\n".join(shown), arguments=told, usage=filled.usage, documents=filled.documents, remarks=notes
        )

    async def _to_agent(self, at: Placed) -> AsyncGenerator[Outcome, None]:
        move, receiver, initiator = at.move, self.agents[str(at.move.receiver)], self.agents[str(at.move.initiator)]
        said = self._filled(move.message, at)
        for turn in range(1, move.max_turns + 1):
            filled = await self._asked(receiver, at, said, move.kind)
            if filled.value is not None:
                self._taken(receiver, filled.value, move)
            yield self._outcome(receiver, move, filled, said=said)
            if turn < move.max_turns:
                heard = f"{receiver.label} answered:\n{quoted(_words(receiver, filled), receiver.name)}"
                back = await self._asked(initiator, at, heard, Kind.TEXT)
                yield self._outcome(initiator, replace_kind(move, Kind.TEXT), back, said=heard, by=receiver.name)
                said = f"{initiator.label} answers:\n{quoted(_words(initiator, back), initiator.name)}"

    async def _to_jury(self, at: Placed) -> AsyncGenerator[Outcome, None]:
        move = at.move
        said = [
            self._filled(move.message, at, {"reasons": Value(self.now.reasons(juror), own=True)})
            for juror in self.now.jurors
        ]
        answers = await together(
            self._asked(juror, at, text, move.kind) for juror, text in zip(self.now.jurors, said, strict=True)
        )
        for juror, text, filled in zip(self.now.jurors, said, answers, strict=True):
            if filled.value is not None:
                juror.last = filled.value
                juror.vote = filled.value if move.kind is Kind.VOTE else juror.vote
            outcome = self._outcome(juror, move, filled, said=text)
            if juror is self.now.jurors[-1]:
                self.variables.store(move.store, "\n\n".join(self.now.jury_words()))
                outcome.arguments |= {"tally": self.now.tally()} if move.kind is Kind.VOTE else {}
            yield outcome

    def _counted(self, at: Placed) -> Outcome:
        told = self.now.tally()
        text = "\n".join([*self.now.jury_words(), f"pooled: {self.now.ballot.shown(self.now.belief().predictions)}"])
        self.variables.store(at.move.store, text)
        return Outcome(text=text, arguments={"tally": told})

    def _close(self, outcome: Outcome) -> None:
        """Put the last word of the court on record with its last move."""
        outcome.arguments |= {"tally": self.now.tally(), "aggregate": self.settings.aggregate.value}
        silent = [f"{one.name} gave no answer" for one in self.now.jurors if one.vote is None]
        outcome.remarks += tuple(silent)

    async def _asked(self, person: Person, at: Placed, said: str, kind: Kind) -> Filled[Said]:
        ballot, margin = self.company.ballot(person), self.settings.margin
        person = self._open(person, at)
        return await person.asked(said, tool_for(kind, ballot, margin), reader_for(kind, ballot, margin))

    def _open(self, person: Person, at: Placed) -> Person:
        """Fill in what the person is told before anything else, if nothing was said yet."""
        if person.voice is not None and not person.voice.messages:
            ballot = self.company.ballot(person)
            own = self._filled(person.system, at, {"profile": Value(person.profile, own=True)})
            person.system = system_text(own, self.question)
            person.opening = question_text(
                self.question, ballot, self.now.anchor, cutoff=self.desk.cutoff, crowd=self.settings.crowd
            )
            person.voice.declare(self._forms(person, ballot))
        return person

    def _forms(self, person: Person, ballot: Ballot) -> tuple[Tool, ...]:
        """Return all that the scenario will ever ask of a person, so that each of its requests offers the same."""
        forms: dict[str, Tool] = {}
        for at in laid_out(self.scenario):
            move, kinds = at.move, list[Kind]()
            if move.action is ActionType.GENERATE_JURY and move.agent == person.name:
                selection = self.scenario.agent(person.name).jury_selection
                assert selection is not None  # noqa: S101 - the checks of the scenario saw to it
                tool = jury.jury_tool(selection, move.num_jurors)
                forms[tool.name] = tool
            if move.action is ActionType.MESSAGE:
                kinds += [move.kind] if move.receiver == (JURY if person.votes else person.name) else []
                kinds += [Kind.TEXT] if move.initiator == person.name and move.max_turns > 1 else []
            for kind in kinds:
                tool = tool_for(kind, ballot, self.settings.margin)
                forms.setdefault(tool.name, tool)
        return tuple(forms.values())

    def _taken(self, person: Person, said: Said, move: Move) -> None:
        person.last = said
        if person.side in self.now.evidence:
            for point in said.points:
                self.now.evidence[person.side].setdefault(point.text.casefold(), point)
        if said.predictions is not None:
            self.now.estimate = said
            self.now.judge = said if move.kind is Kind.SYNTHESIS else self.now.judge
        self.variables.store(move.store, "\n".join(said.queries) or said.words)

    def _noticed(self, filled: Filled[Any]) -> None:
        self.heard = self.heard or filled.value is not None
        self.company.failure = filled.failure or self.company.failure

    def _outcome(
        self, person: Person, move: Move, filled: Filled[Said], *, said: str, by: str | None = None
    ) -> Outcome:
        told: dict[str, Json] = {"from": by or move.initiator, "to": person.name, "label": person.label}
        told |= {"kind": move.kind.value, "message": said[:ASKED_CHARS]}
        text, value = _words(person, filled), filled.value
        self._noticed(filled)
        if value is not None and value.predictions is not None:
            told["answer"] = votes.plain(self.question, value.predictions)
            text = f"{self.now.ballot.shown(value.predictions)}. {text}"
        missing: tuple[str, ...] = () if value is not None else (f"{person.name} said nothing: {filled.why}",)
        missing += (f"{person.name} {person.out}",) if person.out and person.out != filled.why else ()
        return Outcome(
            text=text,
            arguments=told,
            usage=filled.usage,
            documents=filled.documents,
            remarks=(*filled.notes, *missing),
        )

    def _filled(self, text: str, at: Placed, more: Mapping[str, Value] | None = None, *, fenced: bool = True) -> str:
        def unset(name: str) -> None:
            self._remarks.append(f"nothing was stored under {name} when step {at.place} read it")

        high, low = sides(self.question, self.now.anchor)
        known = {
            "title": Value(self.question.title),
            "cutoff": Value(f"{self.desk.cutoff.astimezone(UTC):%Y-%m-%d %H:%M} UTC", own=True),
            "high_side": Value(high, own=True),
            "low_side": Value(low, own=True),
            "jurors": Value(str(len(self.now.jurors)), own=True),
            "turn": Value(str(at.turn), own=True),
            "turns": Value(str(at.turns), own=True),
            "step": Value(str(at.place), own=True),
            "points_for": Value(self.now.points(Side.FOR)),
            "points_against": Value(self.now.points(Side.AGAINST)),
            "votes": Value("\n\n".join(self.now.jury_words()) or "No juror has voted."),
            **(more or {}),
        }
        return self.variables.fill(text, known, unset, fenced=fenced)


def replace_kind(move: Move, kind: Kind) -> Move:
    """Return the move as one of another kind, for what its initiator says in between."""
    return move.model_copy(update={"kind": kind})


def _person(agent: Agent) -> Person:
    roles = (agent.role or agent.name,)
    return Person(
        name=agent.name,
        label=f"The {agent.name.replace('_', ' ')}",
        system=agent.system_message,
        roles=roles,
        side=agent.side,
    )


def _words(person: Person, filled: Filled[Said]) -> str:
    return filled.value.words if filled.value is not None else f"({person.label} said nothing.)"
