"""The participants of a trial: each has a chat session, is asked one thing at a time, and is left out once it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

from bot.api import (
    AnswerFormat,
    AnswerSettings,
    AuthenticationError,
    BinaryPrediction,
    ChatSession,
    ConfigError,
    FoxcastError,
    Json,
    Question,
    RequestRejectedError,
    StructuredAnswer,
    ToolDefinition,
    TrialContext,
    create_answer_format,
    open_session,
)
from plugins.society.agent_prompts import AgentStatement
from plugins.society.scenario import CourtSide

T = TypeVar("T")

MAIN_ROLE = "main"
# After this many failures in a row a participant is not asked again.
MAX_FAILURES = 2
# These errors do not pass within a trial.
LASTING_ERRORS = (ConfigError, RequestRejectedError, AuthenticationError)


@dataclass(slots=True, kw_only=True)
class CourtParticipant:
    """One participant. ``roles`` are tried in order for a model; ``left_out_reason`` is why it is no longer asked.

    ``part`` says who it is, and ``profile`` is that of a juror. Its conversation begins with ``system`` and
    ``opening``; ``entries`` of the case file are in that, -1 before it begins. ``earlier_answers`` are those that the
    case file does not hold. ``last_statement`` is its last statement, ``last_vote`` its last answer, and
    ``could_not_be_asked`` says that it could not be asked then.
    """

    name: str
    label: str
    part: str
    roles: tuple[str, ...]
    system: str = ""
    opening: tuple[str, ...] = ()
    profile: str = ""
    side: CourtSide = CourtSide.NEITHER
    is_juror: bool = False
    session: ChatSession | None = None
    entries: int = -1
    earlier_answers: list[str] = field(default_factory=list)
    last_statement: AgentStatement | None = None
    last_vote: AgentStatement | None = None
    left_out_reason: str = ""
    failures: int = 0
    could_not_be_asked: bool = False

    async def ask(
        self, message: str, tool: ToolDefinition, read: Callable[[Mapping[str, Json]], T]
    ) -> StructuredAnswer[T]:
        """Send a message and return the answer; a participant that is out, or has no session, gives none."""
        if self.session is None or self.left_out_reason:
            return StructuredAnswer(reason=self.left_out_reason or "no model speaks for it")
        if self.session.messages:
            self.session.say(message)
        else:
            *shared, own = self.opening
            self.session.begin(self.system, *shared, f"{own}\n\n{message}")
        filled = await self.session.ask_structured(tool, read)
        self.could_not_be_asked = filled.request_error is not None
        self.failures = 0 if filled.failure is None else self.failures + 1
        if isinstance(filled.failure, LASTING_ERRORS) or self.failures >= MAX_FAILURES:
            self.left_out_reason = f"left out from here on: {filled.reason}"
        return filled


@dataclass(slots=True, kw_only=True)
class ParticipantGroup:
    """All participants, and how they get a session and an answer format. ``failure`` is the last failure of any."""

    question: Question
    context: TrialContext
    answer_settings: AnswerSettings
    people: list[CourtParticipant] = field(default_factory=list)
    sessions: list[ChatSession] = field(default_factory=list)
    failure: FoxcastError | None = None

    def join(self, person: CourtParticipant) -> CourtParticipant:
        """Give a participant a session, or leave it out if no model plays any of its roles."""
        try:
            person.session = self.open_session(person, person.name)
        except FoxcastError as error:
            person.left_out_reason, self.failure = f"left out: {error}", error
        self.people.append(person)
        return person

    def open_session(self, person: CourtParticipant, *labels: str) -> ChatSession:
        """Return a session in the first of a participant's roles that a model plays, else in the main one.

        Its seed belongs to question, trial and labels, not to the forecast: a variant of the court makes the same
        requests until an intervention changes them. These are answered from the record and cost nothing, and later
        differences are caused by the intervention, not by chance. Raises ConfigError if there is no model.
        """
        seed_text = "\n".join((str(self.question.ref), str(self.context.trial), *labels))
        seed = int.from_bytes(sha256(seed_text.encode()).digest()[:4]) >> 1
        session = open_session(self.context, *person.roles, MAIN_ROLE, seed=seed)
        # The engine accepts one performance record for a role from each trial, so all who share one count together.
        session.tally = next((one.tally for one in self.sessions if one.role == session.role), session.tally)
        self.sessions.append(session)
        return session

    def create_answer_format(self, person: CourtParticipant) -> AnswerFormat:
        """Return the answer format for the participant's model."""
        percent = person.session is not None and person.session.percent
        return create_answer_format(self.question, self.answer_settings, percent=percent)

    async def report_performance(self) -> None:
        """Report how the model in each role performed, at the end: a model asked to vote should have voted."""
        for role, session in {one.role: one for one in reversed(self.sessions)}.items():
            asked = [
                one
                for one in self.people
                if one.is_juror and not one.could_not_be_asked and one.session and one.session.role == role
            ]
            votes = [one.last_vote.predictions for one in asked if one.last_vote and one.last_vote.predictions]
            stated = [vote for vote in votes if any(one != BinaryPrediction(0.5) for one in vote.values())] or votes
            await session.report_performance(submitted=stated[0] if stated else None, free=bool(asked))
