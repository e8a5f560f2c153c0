"""One trial of the court: its steps in order, the messages of each agent, and the belief after each step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC
from functools import reduce
from operator import add
from typing import Any, TypeVar

from bot.api import (
    AnswerFormat,
    Json,
    MalformedDataError,
    ModelUsage,
    Question,
    Step,
    StepAction,
    StepObservation,
    StructuredAnswer,
    ToolDefinition,
    TrialContext,
    create_answer_format,
    fence_text,
    find_starting_point,
    gather_all,
    parsing,
    question_text,
)
from plugins.society import jury, vote_pooling
from plugins.society.agent_prompts import (
    AgentStatement,
    answer_tool_name,
    create_answer_reader,
    create_answer_tool,
    juror_prompt,
    prompt_version,
    system_prompt,
)
from plugins.society.article_rating import ArticleRater
from plugins.society.article_retrieval import ArticleRetrieval
from plugins.society.case_file import TASK_HEADING, CaseFile, instruction_text
from plugins.society.court_state import CourtState, MoveOutcome
from plugins.society.participants import CourtParticipant, ParticipantGroup
from plugins.society.scenario import (
    JURY,
    CourtScenario,
    CourtSide,
    MessageKind,
    MoveAction,
    PlacedMove,
    ScenarioAgent,
    ScenarioMove,
    expand_loops,
)
from plugins.society.settings import CourtSettings, count_moves, count_step_moves
from plugins.society.variables import VariableStore, VariableValue, resolve_values

T = TypeVar("T")

MESSAGE_CHARS = 1000


class CourtSession:
    """A running trial."""

    def __init__(self, question: Question, context: TrialContext, settings: CourtSettings) -> None:
        """Lay out the scenario; no model is asked yet.

        Raises ConfigError for an inconsistent scenario, or an intervention on a role without a model.
        """
        self.question, self.context, self.settings = question, context, settings
        self.scenario: CourtScenario = settings.effective_scenario()
        self.planned = count_moves(self.scenario)
        self.made = 0
        for role in settings.interventions.roles.values():
            # Not passed on silently to the main model: the comparison would be meaningless.
            context.dialect(role)
        self.participants = ParticipantGroup(
            question=question, context=context, answer_settings=settings.answer_settings
        )
        self.state = CourtState(
            question=question,
            settings=settings,
            starting_point=find_starting_point(question, crowd=settings.crowd),
            answer_format=create_answer_format(question, settings.answer_settings, percent=True),
            has_jury=any(move.action is MoveAction.GENERATE_JURY for move in self.scenario.steps),
        )
        self.agents = {agent.name: self._joined(agent) for agent in self.scenario.agents}
        pinned = frozenset(settings.interventions.variables)
        self.variables = VariableStore(
            {name: VariableValue(text, is_trusted=True) for name, text in resolve_values(self.scenario.values).items()},
            pinned,
        )
        self.case_file = CaseFile()
        self.retrieval = ArticleRetrieval(question=question, context=context, settings=settings)
        self.has_answer = False
        self._late = False
        self._remarks: list[str] = []
        self._tools_by_format: dict[bool, dict[str, ToolDefinition]] = {}

    def _joined(self, agent: ScenarioAgent) -> CourtParticipant:
        person = CourtParticipant(
            name=agent.name,
            label=f"The {agent.name.replace('_', ' ')}",
            part=agent.system_message,
            roles=(agent.role or agent.name,),
            side=agent.side,
        )
        return self.participants.join(person) if agent.capabilities.llm else person

    async def moves(self) -> AsyncGenerator[Step, None]:
        """Yield one step per move, each with the present belief; raises after the last one without a verdict."""
        documents: tuple[str, ...] = (await self.context.store_text(prompt_version(self.question, self.scenario)),)
        first = self.state.answer_format.format(self.state.belief().predictions)
        began: tuple[str, ...] = (f"began with {first}: {self.state.starting_point.text}",)
        began += self.settings.interventions.describe()
        held: list[Step] = []
        async with aclosing(self._outcomes()) as outcomes:
            async for at, outcome in outcomes:
                self.made += 1
                if self.made == self.planned:
                    self._close(outcome)
                    await self.participants.report_performance()
                step = self._step(at, replace(outcome, documents=documents + outcome.documents), began)
                documents, began = (), ()
                held.append(replace(step, final=self.made == self.planned and self.state.has_verdict))
                # Before the first answer of a model there is no forecast of this court.
                for ready in held if self.has_answer else ():
                    yield ready
                held = [] if self.has_answer else held
        if held:
            yield _join_held_steps(held)
        if not self.state.has_verdict:
            voted = f"{self.state.vote_count} of {len(self.state.jurors)} jurors voted, fewer than half"
            message = f"no verdict: {voted if self.state.has_jury else 'nobody gave an answer'}"
            raise self.participants.failure or MalformedDataError(message)

    def _step(self, at: PlacedMove, outcome: MoveOutcome, began: tuple[str, ...]) -> Step:
        arguments: dict[str, Json] = {"step": at.place, **({"name": at.move.name} if at.move.name else {})}
        arguments |= {"turn": at.turn, "turns": at.turns} if at.turns > 1 else {}
        arguments |= {"silent": True} if at.move.silent else {}
        remarks = dict.fromkeys((*began, *outcome.remarks, *self._remarks))
        self._remarks.clear()
        return Step(
            action=StepAction(name=at.move.action, arguments={**arguments, **outcome.arguments}),
            observation=StepObservation(text=outcome.text, documents=outcome.documents),
            belief=self.state.belief(),
            usage=outcome.usage,
            remarks=tuple(remarks),
        )

    async def _outcomes(self) -> AsyncGenerator[tuple[PlacedMove, MoveOutcome], None]:
        placed_moves = [*expand_loops(self.scenario)]
        for number, at in enumerate(placed_moves):
            later = placed_moves[number + 1 :]
            if later and (why := self._left_out_reason(at, later)):
                self.planned -= count_step_moves(self.scenario, at)
                self._remarks.append(f"step {at.place} was left out: {why}")
                continue
            async with aclosing(self._run_move(at)) as outcomes:
                async for outcome in outcomes:
                    yield at, outcome

    def _left_out_reason(self, at: PlacedMove, later: Sequence[PlacedMove]) -> str:
        """Say why a move is left out: where time or steps are short, only moves that lead to a verdict remain."""
        self._late = self._late or self.context.is_final_answer_time(f"move {at.place}")
        if self._leads_to_verdict(at):
            return ""
        wanted = count_step_moves(self.scenario, at) + self._reserved_steps(later)
        short = self.made + wanted > self.context.limits.steps
        return "there is only time for a verdict" if self._late else "the steps left are for a verdict" if short else ""

    def _leads_to_verdict(self, at: PlacedMove) -> bool:
        """Say whether the court needs a move for its verdict."""
        if self.state.has_verdict:
            return False
        kinds = {MessageKind.VOTE} if self.state.has_jury else {MessageKind.ESTIMATE, MessageKind.SYNTHESIS}
        if at.move.action is MoveAction.GENERATE_JURY:
            return not self.state.jurors
        return at.move.action is MoveAction.MESSAGE and at.move.kind in kinds

    def _reserved_steps(self, later: Sequence[PlacedMove]) -> int:
        """Return how many steps the first answer of each kind that the verdict needs takes, and the last move."""
        needed = {(at.move.action, at.move.kind): at for at in reversed(later) if self._leads_to_verdict(at)}
        places = {at.place: count_step_moves(self.scenario, at) for at in (*needed.values(), later[-1])}
        return sum(places.values())

    def _run_move(self, at: PlacedMove) -> AsyncGenerator[MoveOutcome, None]:
        if at.move.action is not MoveAction.MESSAGE:
            return self._run_action(at)
        return self._to_jury(at) if at.move.receiver == JURY else self._to_agent(at)

    async def _run_action(self, at: PlacedMove) -> AsyncGenerator[MoveOutcome, None]:
        match at.move.action:
            case MoveAction.WEB_SEARCH:
                yield await self._search(at)
            case MoveAction.PROCESS_ARTICLES:
                yield await self._process(at)
            case MoveAction.GENERATE_JURY:
                yield await self._choose_jury(at)
            case _:
                yield self._count_votes(at)

    async def _search(self, at: PlacedMove) -> MoveOutcome:
        query = self._fill_placeholders(at.move.query, at, fenced=False).strip()
        if not query:
            self._remarks.append("nobody named a search, so the title of the question was searched for")
        outcome = await self.retrieval.search((query or self.question.title).split("\n"), at.move.num_results)
        self.state.queries = self.retrieval.queries
        self._keep_result(at, outcome.text)
        outcome.arguments["agent"] = at.move.agent
        return outcome

    async def _process(self, at: PlacedMove) -> MoveOutcome:
        criteria = self._fill_placeholders(at.move.criteria, at)
        opening = "\n\n".join(filter(None, (self._question(self.state.answer_format, crowd=False), criteria)))
        rater = ArticleRater(participants=self.participants, settings=self.settings, opening=opening)
        outcome, text = await self.retrieval.process(rater, at.move.num_top_articles)
        self._keep_result(at, text, own=True)
        outcome.arguments["agent"] = at.move.agent
        return outcome

    async def _choose_jury(self, at: PlacedMove) -> MoveOutcome:
        selection, clerk = self.scenario.agent(str(at.move.agent)).jury_selection, self.agents[str(at.move.agent)]
        assert selection is not None  # noqa: S101 - the checks of the scenario saw to it
        count, given = at.move.num_jurors, self.settings.interventions.jurors
        role = self.settings.interventions.roles.get(JURY)
        filled: StructuredAnswer[tuple[jury.JurorProfile, ...]] = (
            StructuredAnswer(value=given)
            if given
            else await self._ask(
                clerk,
                at,
                f"{self._fill_placeholders(at.move.message, at)}\n\n{jury.requirements_text(selection.requirements)}",
                (jury.JURY_TOOL, lambda arguments: jury.read_jury(arguments, selection, count)),
            )
        )
        self._note_answer(filled)
        profiles, note = jury.fill_jury(filled.value, count, filled.reason)
        for number, profile in enumerate(profiles, 1):
            person = CourtParticipant(
                name=f"juror_{number}",
                label=profile.get(jury.NAME_FIELD, f"Juror {number}"),
                part=juror_prompt(selection),
                profile=jury.profile_text(profile),
                is_juror=True,
                roles=(role,) if role else (f"juror_{number}", "juror"),
            )
            self.state.jurors.append(self.participants.join(person))
        shown = [
            f"{one.name}: {', '.join(profile.values())}"
            for one, profile in zip(self.state.jurors, profiles, strict=True)
        ]
        self._keep_result(at, "\n".join(shown))
        recorded: dict[str, Json] = {"agent": at.move.agent, "jurors": [dict(profile) for profile in profiles]}
        absent = [f"{one.name} {one.left_out_reason}" for one in self.state.jurors if one.left_out_reason]
        notes = (*filled.notes, *filter(None, [note]), *absent)
        return MoveOutcome(
            text="\n".join(shown), arguments=recorded, usage=filled.usage, documents=filled.documents, remarks=notes
        )

    async def _to_agent(self, at: PlacedMove) -> AsyncGenerator[MoveOutcome, None]:
        move, receiver, initiator = at.move, self.agents[str(at.move.receiver)], self.agents[str(at.move.initiator)]
        message = self._fill_placeholders(move.message, at)
        for turn in range(1, move.max_turns + 1):
            filled = await self._ask_participant(receiver, at, message, move.kind)
            if filled.value is not None:
                self._accept_statement(receiver, filled.value, at, is_last=turn == move.max_turns)
            yield self._outcome(receiver, move, filled, message=message)
            if turn < move.max_turns:
                answer = f"{receiver.label} answered:\n{fence_text(_statement_text(receiver, filled), receiver.name)}"
                back = await self._ask_participant(initiator, at, answer, MessageKind.TEXT)
                words = move.model_copy(update={"kind": MessageKind.TEXT})
                yield self._outcome(initiator, words, back, message=answer, by=receiver.name)
                message = f"{initiator.label} answers:\n{fence_text(_statement_text(initiator, back), initiator.name)}"

    async def _to_jury(self, at: PlacedMove) -> AsyncGenerator[MoveOutcome, None]:
        move = at.move
        messages = [
            self._fill_placeholders(
                move.message, at, {"reasons": VariableValue(self.state.other_jurors_text(juror), is_trusted=True)}
            )
            for juror in self.state.jurors
        ]
        answers = await gather_all(
            self._ask_participant(juror, at, text, move.kind)
            for juror, text in zip(self.state.jurors, messages, strict=True)
        )
        for juror, text, filled in zip(self.state.jurors, messages, answers, strict=True):
            if filled.value is not None:
                juror.last_statement = filled.value
                juror.last_vote = filled.value if move.kind is MessageKind.VOTE else juror.last_vote
            outcome = self._outcome(juror, move, filled, message=text)
            if juror is self.state.jurors[-1]:
                self._keep_result(at, "\n\n".join(self.state.jury_words()))
                outcome.arguments |= {"tally": self.state.tally()} if move.kind is MessageKind.VOTE else {}
            yield outcome

    def _count_votes(self, at: PlacedMove) -> MoveOutcome:
        votes = self.state.tally()
        text = "\n".join(
            [*self.state.jury_words(), f"pooled: {self.state.answer_format.format(self.state.belief().predictions)}"]
        )
        self._keep_result(at, text)
        return MoveOutcome(text=text, arguments={"tally": votes})

    def _close(self, outcome: MoveOutcome) -> None:
        """Record the last word of the court with its last move."""
        outcome.arguments |= {"tally": self.state.tally(), "aggregate": self.settings.aggregate.value}
        silent = [f"{one.name} gave no answer" for one in self.state.jurors if one.last_vote is None]
        outcome.remarks += tuple(silent)

    async def _ask_participant(
        self, person: CourtParticipant, at: PlacedMove, message: str, kind: MessageKind
    ) -> StructuredAnswer[AgentStatement]:
        reader = create_answer_reader(kind, self.participants.create_answer_format(person), self.settings.margin)
        return await self._ask(person, at, message, (answer_tool_name(kind), reader))

    async def _ask(
        self, person: CourtParticipant, at: PlacedMove, task: str, asked: tuple[str, Callable[[Mapping[str, Json]], T]]
    ) -> StructuredAnswer[T]:
        """Ask a participant for one call, by its name and reader."""
        tools, (name, read) = self._tools(self.participants.create_answer_format(person)), asked
        self._open_conversation(person, at, tools)
        return await person.ask(f"{TASK_HEADING}\n{task.strip()}", tools[name], read)

    def _open_conversation(self, person: CourtParticipant, at: PlacedMove, tools: Mapping[str, ToolDefinition]) -> None:
        """Begin a conversation with the case file as it is now, unless that has not grown since the last one began."""
        count = len(self.case_file.entries)
        if person.session is None or person.entries == count:
            return
        if person.entries >= 0:
            person.session = self.participants.open_session(person, person.name, str(count))
        person.entries = count
        part = self._fill_placeholders(person.part, at, {"profile": VariableValue(person.profile, is_trusted=True)})
        crowd = self.settings.crowd and self.settings.show_crowd
        question = self._question(self.participants.create_answer_format(person), crowd=crowd)
        person.system = system_prompt(self.question)
        person.opening = self.case_file.opening(question, part.strip(), person.earlier_answers)
        person.session.declare_tools(tuple(tools.values()))

    def _question(self, answer_format: AnswerFormat, *, crowd: bool) -> str:
        return question_text(
            self.question,
            answer_format,
            self.state.starting_point,
            cutoff=self.context.cutoff,
            crowd=crowd,
        )

    def _tools(self, answer_format: AnswerFormat) -> Mapping[str, ToolDefinition]:
        """Return all tools that the scenario will ever ask of anybody, by name: each request offers the same ones."""
        if answer_format.percent in self._tools_by_format:
            return self._tools_by_format[answer_format.percent]
        tools: dict[str, ToolDefinition] = {}
        for move in self.scenario.steps:
            if move.action is MoveAction.GENERATE_JURY:
                selection = self.scenario.agent(str(move.agent)).jury_selection
                assert selection is not None  # noqa: S101 - the checks of the scenario saw to it
                tools[jury.JURY_TOOL] = jury.jury_tool(selection, move.num_jurors)
            kinds = [move.kind] if move.action is MoveAction.MESSAGE else []
            for kind in (*kinds, *([MessageKind.TEXT] if move.max_turns > 1 else ())):
                tools.setdefault(answer_tool_name(kind), create_answer_tool(kind, answer_format, self.settings.margin))
        return self._tools_by_format.setdefault(answer_format.percent, tools)

    def _keep_result(self, at: PlacedMove, text: str, *, own: bool = False, shared: bool = True) -> None:
        """Store the result of a step, and add it to the case file if it is shared; ``own``: it needs no fence."""
        self.variables.store(at.move.store, text, own=own)
        if at.move.shared and shared:
            turn = f" {at.turn}" if at.turns > 1 else ""
            named = "articles" if at.move.action is MoveAction.PROCESS_ARTICLES else at.move.name or at.move.action
            title = f"{named.replace('_', ' ')}{turn}".capitalize()
            kept = self.variables.pinned_value(at.move.store) or VariableValue(text, is_trusted=own)
            self.case_file.add(title, kept.text, fenced=not kept.is_trusted)

    def _accept_statement(
        self, person: CourtParticipant, statement: AgentStatement, at: PlacedMove, *, is_last: bool
    ) -> None:
        person.last_statement = statement
        if person.side in self.state.evidence:
            for point in statement.points:
                self.state.evidence[person.side].setdefault(point.text.casefold(), point)
        if statement.predictions is not None:
            self.state.estimate = statement
            self.state.judge = statement if at.move.kind is MessageKind.SYNTHESIS else self.state.judge
        words = statement.words
        if not (at.move.shared and is_last):
            person.earlier_answers.append(words)
        if at.move.instruction:
            self._keep_result(at, instruction_text(words), own=True, shared=is_last)
        else:
            self._keep_result(at, words, shared=is_last)

    def _note_answer(self, filled: StructuredAnswer[Any]) -> None:
        self.has_answer = self.has_answer or filled.value is not None
        self.participants.failure = filled.failure or self.participants.failure

    def _outcome(
        self,
        person: CourtParticipant,
        move: ScenarioMove,
        filled: StructuredAnswer[AgentStatement],
        *,
        message: str,
        by: str | None = None,
    ) -> MoveOutcome:
        arguments: dict[str, Json] = {"from": by or move.initiator, "to": person.name, "label": person.label}
        arguments |= {"kind": move.kind.value, "message": parsing.cut_text(message, MESSAGE_CHARS)}
        text, value = _statement_text(person, filled), filled.value
        self._note_answer(filled)
        if value is not None and value.predictions is not None:
            arguments["answer"] = vote_pooling.encode_predictions(self.question, value.predictions)
            text = f"{self.state.answer_format.format(value.predictions)}. {text}"
        missing: tuple[str, ...] = () if value is not None else (f"{person.name} said nothing: {filled.reason}",)
        missing += (
            (f"{person.name} {person.left_out_reason}",)
            if person.left_out_reason and person.left_out_reason != filled.reason
            else ()
        )
        return MoveOutcome(
            text=text,
            arguments=arguments,
            usage=filled.usage,
            documents=filled.documents,
            remarks=(*filled.notes, *missing),
        )

    def _fill_placeholders(
        self, text: str, at: PlacedMove, more: Mapping[str, VariableValue] | None = None, *, fenced: bool = True
    ) -> str:
        def unset(name: str) -> None:
            self._remarks.append(f"nothing was stored under {name} when step {at.place} read it")

        high, low = self.state.sides()
        known = {
            "title": VariableValue(self.question.title),
            "cutoff": VariableValue(f"{self.context.cutoff.astimezone(UTC):%Y-%m-%d %H:%M} UTC", is_trusted=True),
            "high_side": VariableValue(high, is_trusted=True),
            "low_side": VariableValue(low, is_trusted=True),
            "jurors": VariableValue(str(len(self.state.jurors)), is_trusted=True),
            "turn": VariableValue(str(at.turn), is_trusted=True),
            "turns": VariableValue(str(at.turns), is_trusted=True),
            "step": VariableValue(str(at.place), is_trusted=True),
            "points_for": VariableValue(self.state.points_text(CourtSide.FOR)),
            "points_against": VariableValue(self.state.points_text(CourtSide.AGAINST)),
            "votes": VariableValue("\n\n".join(self.state.jury_words()) or "No juror has voted."),
            **(more or {}),
        }
        return self.variables.fill(text, known, unset, fenced=fenced)


def _statement_text(person: CourtParticipant, filled: StructuredAnswer[AgentStatement]) -> str:
    return filled.value.words if filled.value is not None else f"({person.label} said nothing.)"


def _join_held_steps(held: Sequence[Step]) -> Step:
    """Return the last of the steps before which no model had answered, with what all of them cost and remarked."""
    return replace(
        held[-1],
        observation=replace(
            held[-1].observation, documents=tuple(one for step in held for one in step.observation.documents)
        ),
        usage=reduce(add, (step.usage for step in held), ModelUsage()),
        remarks=tuple(remark for step in held for remark in step.remarks),
    )
