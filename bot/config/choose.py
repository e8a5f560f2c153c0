"""Which questions of a venue somebody else forecasts, by what they are filed under, and which nobody does."""

import re
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from bot.config.section import Name, Section
from bot.domain.question import Question


def _as_words(value: object) -> object:
    match value:
        case str():
            return (value,)
        # What comes from a file is checked strictly, and a list is no tuple there.
        case list():
            return tuple(value)
    return value


Words = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...], BeforeValidator(_as_words)
]


class ChooseTable(Section):
    """Who forecasts the questions of a venue that are filed so; the first one's forecast leaves.

    A question fits where it has one of the words of each key that is there: ``tag``, ``tournament``, ``category`` and
    ``source``, in capitals or not, as the plugin of the venue names them (``foxcast show`` prints them).
    """

    tag: Words = ()
    tournament: Words = ()
    category: Words = ()
    source: Words = ()
    forecasters: tuple[Name, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _chooses(self) -> Self:
        if not (self.tag or self.tournament or self.category or self.source):
            message = "says of no question that it fits: name a tag, tournament, category or source"
            raise ValueError(message)
        return self

    def covers(self, other: Self) -> bool:
        """Say whether whatever fits the other table fits this one too."""
        pairs = zip(self._wanted, other._wanted, strict=True)
        return all(not mine or (bool(yours) and _folded(yours) <= _folded(mine)) for mine, yours in pairs)

    def fits(self, question: Question) -> bool:
        """Say whether a question is filed so."""
        filed = (
            question.tags,
            question.tournaments,
            (question.facts.get("category", ""),),
            (question.source,),
        )
        pairs = zip(self._wanted, filed, strict=True)
        return all(not wanted or _folded(wanted) & _folded(there) for wanted, there in pairs)

    @property
    def _wanted(self) -> tuple[Words, ...]:
        return (self.tag, self.tournament, self.category, self.source)


class ExcludeSection(Section):
    """Questions of a venue that are neither forecast nor bet on; what is held of them may still be sold.

    ``topics`` are tags, categories and tournaments, ``creators`` ids or names, ``questions`` the keys of questions, or
    ids, short names (slugs) or addresses of what they belong to; ``words`` are words or phrases of a title or answer.
    In capitals or not, as ``foxcast show`` prints them.
    """

    topics: Words = ()
    creators: Words = ()
    questions: Words = ()
    words: Words = ()

    def why(self, question: Question) -> str | None:
        """Say why a question is left out, or nothing."""
        facts = question.facts
        named = {
            "topics": (*question.tags, *question.tournaments, facts.get("category", "")),
            "creators": (facts.get("creator", ""), facts.get("creator_name", "")),
            "questions": (question.ref.key, str(question.ref), question.url or "", *map(facts.get, _NAMES)),
        }
        for key, there in named.items():
            if found := _folded(getattr(self, key)) & _folded(name for name in there if name):
                return f"excluded by {key} = {min(found)!r} in config"
        said = f"{question.title}\n{facts.get('label', '')}"
        word = next((word for word in self.words if _holds(said, word)), None)
        return None if word is None else f"excluded by words = {word!r} in config"


# Facts that name what a question belongs to.
_NAMES = ("market", "event", "slug")


def _holds(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def require_reachable(tables: tuple[ChooseTable, ...]) -> tuple[ChooseTable, ...]:
    """Return the tables; raises ValueError where a single one before another fits all that this one could fit."""
    for number, table in enumerate(tables, 1):
        for before, earlier in enumerate(tables[: number - 1], 1):
            if earlier.covers(table):
                message = (
                    f"choose[{number - 1}] is never reached: all that fits it fits choose[{before - 1}], and the first "
                    "that fits counts; put it before that one, or take it out"
                )
                raise ValueError(message)
    return tables


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.casefold() for word in words)
