"""What a person asks of the running daemon; it alone writes the ledger, so it is asked and does it itself."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from bot.domain.question import Question, QuestionRef, require_aware


@dataclass(frozen=True, slots=True, kw_only=True)
class LockQuestion:
    """Leave a question alone until a moment, or until it is unlocked; ``forecaster`` None means all of them."""

    ref: QuestionRef
    reason: str
    forecaster: str | None = None
    until: datetime | None = None
    kind: Literal["lock"] = "lock"

    def __post_init__(self) -> None:
        """Refuse a lock that nobody could explain later."""
        require_aware("until", self.until)
        if not self.reason.strip():
            message = "a lock needs a reason"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockQuestion:
    """Take a lock off again."""

    ref: QuestionRef
    forecaster: str | None = None
    kind: Literal["unlock"] = "unlock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastQuestion:
    """Forecast a question now; ``question`` is how it stands, where the ledger may not know it."""

    ref: QuestionRef
    forecaster: str
    question: Question | None = None
    kind: Literal["forecast"] = "forecast"

    def __post_init__(self) -> None:
        """Refuse a question under the name of another."""
        if self.question is not None and self.question.ref != self.ref:
            message = f"a forecast of {self.ref} is asked for with the question {self.question.ref}"
            raise ValueError(message)


Request = LockQuestion | UnlockQuestion | ForecastQuestion
