"""The belief state of one trial: what the ledger records of it, plus the names by which evidence can be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bot.domain.belief import Belief, Confidence, Evidence
from bot.domain.prediction import Prediction

MAX_SEARCHES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of evidence; ``name`` (F1, A2, ...) is never given to another one. ``evidence`` is what is recorded."""

    name: str
    text: str
    source: str
    evidence: Evidence = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the record once; it stands in the belief of every step from now on."""
        object.__setattr__(self, "evidence", Evidence(text=self.text, source=self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is believed now. ``given`` counts the names given out, ``stated`` says that a model has stated it.

    ``informed`` says that a model stated it after it had seen any evidence: only then may it count as an answer.
    """

    predictions: Mapping[str, Prediction]
    confidence: Confidence = Confidence.LOW
    anchor: str = ""
    evidence_for: tuple[Item, ...] = ()
    evidence_against: tuple[Item, ...] = ()
    open_questions: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    reason: str = ""
    given: int = 0
    stated: bool = False
    informed: bool = False

    @property
    def belief(self) -> Belief:
        """The state as the engine records it."""
        return Belief(
            predictions=self.predictions,
            confidence=self.confidence,
            anchor=self.anchor,
            evidence_for=_evidence(self.evidence_for),
            evidence_against=_evidence(self.evidence_against),
            open_questions=self.open_questions,
            searches=self.searches,
            reason=self.reason,
            stated=self.informed,
        )

    @property
    def chars(self) -> int:
        """The length of evidence and open questions, which is what grows."""
        items = (*self.evidence_for, *self.evidence_against)
        return sum(len(item.text) + len(item.source) for item in items) + sum(map(len, self.open_questions))

    def searched(self, queries: Iterable[str]) -> tuple[str, ...]:
        """Return the searches with these added, each once."""
        return tuple(dict.fromkeys((*self.searches, *filter(None, queries))))[:MAX_SEARCHES]

    def having_searched(self, queries: Iterable[str]) -> State:
        """Return the state with these searches added, each once."""
        known = self.searched(queries)
        return self if known == self.searches else replace(self, searches=known)


def _evidence(items: tuple[Item, ...]) -> tuple[Evidence, ...]:
    return tuple(item.evidence for item in items)
