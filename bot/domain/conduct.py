"""How a language model did in one trial: the figures that decide whether it goes on being asked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What one model did in one role in one trial.

    ``model`` is its reference, ``provider:name``; ``asked`` counts the moves it was asked for, ``unparsed`` those that
    were none; ``submitted`` says whether it ended by submitting, None where it was not asked to; ``half`` whether
    it ended at exactly 0.5; ``gap`` is the distance in probability between what it last believed and what it submitted.
    ``beliefs`` counts the updates of a belief that it was asked for, ``unread_beliefs`` those that could not be read,
    and ``errors`` the requests that failed after it had answered: they ended a turn, or another model took over.
    """

    role: str
    model: str
    asked: int
    unparsed: int
    submitted: bool | None = None
    half: bool = False
    gap: float = 0.0
    beliefs: int = 0
    unread_beliefs: int = 0
    errors: int = 0
