"""Who takes part in a trial: each with a voice of its own, asked one thing at a time, and left out once it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

from bot.api import (
    Ballot,
    Binary,
    ConfigError,
    Desk,
    Filled,
    FoxcastError,
    Json,
    Manner,
    Question,
    Rejected,
    Tool,
    Unauthorized,
    Voice,
    ballot_for,
    voice_for,
)
from plugins.society.answers import Said
from plugins.society.scenario import Side

T = TypeVar("T")

MAIN = "main"
# After so many failures in a row nobody is asked again.
PATIENCE = 2
# These do not pass within a trial.
LASTING = (ConfigError, Rejected, Unauthorized)


@dataclass(slots=True, kw_only=True)
class Person:
    """One participant. ``roles`` are tried in order for a model; ``out`` is why it is asked no more.

    ``votes`` says that it is a juror, and ``profile`` who that is, fenced; ``opening`` is the question as it is put
    before the first thing that is said. ``last`` is what the person said last, ``vote`` the answer that it gave last,
    ``unasked`` that it could not be asked then.
    """

    name: str
    label: str
    system: str
    roles: tuple[str, ...]
    opening: str = ""
    profile: str = ""
    side: Side = Side.NEITHER
    votes: bool = False
    voice: Voice | None = None
    last: Said | None = None
    vote: Said | None = None
    out: str = ""
    failures: int = 0
    unasked: bool = False

    async def asked(self, said: str, tool: Tool, read: Callable[[Mapping[str, Json]], T]) -> Filled[T]:
        """Say something and return the answer; a person who is out, or has no voice, gives none."""
        if self.voice is None or self.out:
            return Filled(why=self.out or "no model speaks for it")
        if self.voice.messages:
            self.voice.say(said)
        else:
            self.voice.begin(self.system, f"{self.opening}\n\n{said}" if self.opening else said)
        filled = await self.voice.fill(tool, read)
        self.unasked = filled.unasked is not None
        self.failures = 0 if filled.failure is None else self.failures + 1
        if isinstance(filled.failure, LASTING) or self.failures >= PATIENCE:
            self.out = f"left out from here on: {filled.why}"
        return filled


@dataclass(slots=True, kw_only=True)
class Company:
    """All who take part, and how they are found a voice and a ballot. ``failure`` is the last that anybody had."""

    question: Question
    desk: Desk
    manner: Manner
    people: list[Person] = field(default_factory=list)
    voices: list[Voice] = field(default_factory=list)
    failure: FoxcastError | None = None

    def join(self, person: Person) -> Person:
        """Give a person a voice, or leave it out where no model plays any of its roles."""
        try:
            person.voice = self.voice(person, person.name)
        except FoxcastError as error:
            person.out, self.failure = f"left out: {error}", error
        self.people.append(person)
        return person

    def voice(self, person: Person, *labels: str) -> Voice:
        """Return a voice in the first of a person's roles that a model plays, else in the main one.

        Its seed belongs to question, trial and labels, not to the forecast: a variant of the court asks the very same
        requests up to where an intervention changes them. These are answered from the record and cost nothing, and
        what differs after them is the intervention's doing rather than chance. Raises ConfigError for no model.
        """
        told = "\n".join((str(self.question.ref), str(self.desk.trial), *labels))
        seed = int.from_bytes(sha256(told.encode()).digest()[:4]) >> 1
        voice = voice_for(self.desk, *person.roles, MAIN, seed=seed)
        # The engine takes one verdict on a role from each trial, so all who share one are counted together.
        voice.tally = next((one.tally for one in self.voices if one.role == voice.role), voice.tally)
        self.voices.append(voice)
        return voice

    def ballot(self, person: Person) -> Ballot:
        """Return the ballot as the person's model is to fill it in."""
        percent = person.voice is not None and person.voice.percent
        return ballot_for(self.question, self.manner, percent=percent)

    async def dismiss(self) -> None:
        """Tell the engine how the model in each role did, at the end: who was asked to vote should have voted."""
        for role, voice in {one.role: one for one in reversed(self.voices)}.items():
            asked = [
                one for one in self.people if one.votes and not one.unasked and one.voice and one.voice.role == role
            ]
            votes = [one.vote.predictions for one in asked if one.vote and one.vote.predictions]
            told = [vote for vote in votes if any(one != Binary(0.5) for one in vote.values())] or votes
            await voice.grade(submitted=told[0] if told else None, free=bool(asked))
