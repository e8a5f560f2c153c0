"""Who forecasts some questions of a venue: those with a tag, of a tournament, of a category or from a source."""

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from bot.config.section import Name, Section
from bot.domain.question import Question


def _as_words(value: object) -> object:
    return (value,) if isinstance(value, str) else value


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

    def fits(self, question: Question) -> bool:
        """Say whether a question is filed so."""
        filed = (
            (self.tag, question.tags),
            (self.tournament, question.tournaments),
            (self.category, (question.facts.get("category", ""),)),
            (self.source, (question.source,)),
        )
        return all(not wanted or _meet(wanted, there) for wanted, there in filed)


def _meet(wanted: Iterable[str], there: Iterable[str]) -> bool:
    return not {word.casefold() for word in wanted}.isdisjoint(word.casefold() for word in there)
