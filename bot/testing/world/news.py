"""What the press of a world writes: mostly what is true on the day, some of it old, wrong, rewritten or hostile.

``Article.kind`` and ``Article.signal`` are ground truth for those who judge readers; no page shows them. Nothing that
is written before an outcome is known follows from it, nor when or how often something is, but for articles of the kind
EDITED: they are rewritten once it is known and keep their old date, which is the leak that backtests must catch.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from bot.testing.world.ask import Ask, Form
from bot.testing.world.cast import name
from bot.testing.world.crowd import logit
from bot.testing.world.events import Above, Bands, Field, Reached
from bot.testing.world.grammar import pick
from bot.testing.world.life import known_on
from bot.testing.world.press import Say, headline, order, story
from bot.testing.world.world import World

if TYPE_CHECKING:
    import numpy as np

# Before a question opens, the press writes of it for so long; about series, after a round for so long.
BEFORE_DAYS, AFTER_ROUND_DAYS = 14.0, 30.0
DAYS_AN_ARTICLE = 2.5
FEWEST, MOST = 5, 24
# What journalists get wrong by themselves, in log-odds.
NOISE = 0.4
SETTLED = 6.0
_PAPERS = ("Courier", "Gazette", "Observer", "Post", "Herald", "Record")


class Kind(StrEnum):
    """What an article is worth."""

    RELEVANT = "relevant"
    STALE = "stale"
    WRONG = "wrong"
    EDITED = "edited"
    HOSTILE = "hostile"
    RESULT = "result"


class Trick(StrEnum):
    """What a hostile page does."""

    INSTRUCTIONS = "instructions"
    HIDDEN = "hidden"
    FAKE_RESULT = "fake result"


SHARES: Mapping[Kind, float] = {
    Kind.RELEVANT: 0.62,
    Kind.STALE: 0.12,
    Kind.WRONG: 0.08,
    Kind.EDITED: 0.1,
    Kind.HOSTILE: 0.08,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An article as it stands from a day on; ``hidden`` is in the page and not shown by it."""

    day: float
    text: str
    hidden: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """An article about a question: ``option`` is whom its ``signal`` (in log-odds) is about, "" where there is one.

    ``signal`` is what its first version means to say, None where it says nothing about the question.
    """

    id: str
    outlet: str
    title: str
    about: str
    option: str
    kind: Kind
    published: float
    versions: tuple[Version, ...]
    signal: float | None = None
    trick: Trick | None = None

    def at(self, day: float) -> Version:
        """Return the article as it stands on the day."""
        return next((one for one in reversed(self.versions) if one.day <= day), self.versions[0])


@dataclass(frozen=True, kw_only=True)
class Newsroom:
    """All papers of a world."""

    world: World
    _written: dict[str, Sequence[Article]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def outlets(self) -> Sequence[str]:
        """The names of the papers."""
        stream = self.world.chance.stream("outlets")
        return [f"The {name(stream)} {paper}" for paper in _PAPERS]

    def articles(self, key: str) -> Sequence[Article]:
        """Return what is ever written about a question, oldest first; raises KeyError for an unknown one."""
        if key not in self._written:
            found = self._write(self.world.by_key[key])
            self._written[key] = sorted(found, key=lambda one: (one.published, one.id))
        return self._written[key]

    def published(self, day: float) -> Iterator[Article]:
        """Yield all that is published by the day."""
        for ask in self.world.asks:
            if ask.opens - BEFORE_DAYS <= day:
                yield from (one for one in self.articles(ask.key) if one.published <= day)

    def article(self, number: str) -> Article | None:
        """Return an article by its id."""
        key = number.rpartition("-")[0]
        if key not in self.world.by_key:
            return None
        return next((one for one in self.articles(key) if one.id == number), None)

    def _write(self, ask: Ask) -> Iterator[Article]:
        stream = self.world.chance.stream("news", ask.key)
        days = days_of(ask, stream)
        known = math.inf if ask.form is Form.DATES else known_on(ask)
        kinds, weights = [*SHARES], [*SHARES.values()]
        for number, day in enumerate(days):
            kind = kinds[int(stream.choice(len(kinds), p=weights))]
            if day < known:
                yield self._article(ask, f"{ask.key}-{number:02d}", day, kind)
        if ask.form is not Form.DATES:
            yield self._article(ask, f"{ask.key}-{len(days):02d}", known + 0.2, Kind.RESULT)

    def _article(self, ask: Ask, number: str, day: float, kind: Kind) -> Article:
        stream = self.world.chance.stream("article", number)
        option = pick(stream, [*ask.happening])
        when = day if kind is not Kind.STALE else max(0.0, day - float(stream.uniform(8.0, 25.0)))
        told = self._told(ask, option, when, stream)
        if kind is Kind.WRONG:
            told = _wrong(told, stream)
        if kind is Kind.RESULT:
            told = self._over(ask, told, option)
        article = Article(
            id=number,
            outlet=pick(stream, self.outlets),
            title=headline(told, stream),
            about=ask.key,
            option=option,
            kind=kind,
            published=day,
            versions=(Version(day=day, text=story(ask, told, stream)),),
            signal=told.strength,
        )
        match kind:
            case Kind.EDITED:
                return self._edited(ask, article, told, stream)
            case Kind.HOSTILE:
                return _hostile(ask, article, told, stream)
            case _:
                return article

    def _told(self, ask: Ask, option: str, day: float, stream: "np.random.Generator") -> Say:
        """Return what an honest journalist says on the day."""
        told = Say(topic=ask.happening[option])
        noise = float(stream.normal(0.0, NOISE))
        believed = self._believed(ask, option, day)
        if believed is not None:
            told = replace(told, strength=logit(believed) + noise)
        strip = self.world.strips.get(ask.series)
        if strip is None or (believed is not None and stream.random() < 0.4):
            return told
        value = strip.value(day)
        return replace(told, measure=strip.title, value=value, unit=strip.unit, digits=strip.digits)

    def _believed(self, ask: Ask, option: str, day: float) -> float | None:
        match ask.event:
            case Bands() | Field() as event:
                return event.shares(day)[option]
            case Above() as event if ask.form is Form.DATES:
                # Of a round, what is asked about the day next but one.
                return None if day < ask.opens else replace(event, until=ask.horizons[1]).chance(day)
            case Above() | Reached() as event:
                return event.chance(day)
            case _:
                return None

    def _over(self, ask: Ask, told: Say, option: str) -> Say:
        """Return what is said once the outcome is known."""
        day = known_on(ask)
        believed = self._believed(ask, option, day)
        strip = self.world.strips.get(ask.series)
        told = replace(told, is_over=True)
        if believed is not None:
            return replace(told, strength=SETTLED if believed > 0.5 else -SETTLED)
        if strip is None:
            return told
        return replace(told, measure=strip.title, value=strip.value(day), unit=strip.unit, digits=strip.digits)

    def _edited(self, ask: Ask, article: Article, told: Say, stream: "np.random.Generator") -> Article:
        if ask.form is Form.DATES:
            last = ask.horizons[1]
            over = replace(told, is_over=True, strength=self._settled_by(ask, last))
        else:
            last, over = known_on(ask), self._over(ask, told, article.option)
        again = Version(day=last + float(stream.uniform(0.1, 2.0)), text=story(ask, over, stream))
        return replace(article, versions=(*article.versions, again))

    def _settled_by(self, ask: Ask, day: float) -> float:
        assert isinstance(ask.event, Above)  # noqa: S101 - such questions are made of nothing else
        return SETTLED if replace(ask.event, until=day).happened else -SETTLED


def days_of(ask: Ask, stream: "np.random.Generator") -> Sequence[float]:
    """Return when the press would write of a question, in order, if nothing were known before its last day.

    They follow from what is known at its opening alone: of how many and when they are, nobody learns what will be.
    """
    start = max(0.0, ask.opens - BEFORE_DAYS)
    last = ask.opens + AFTER_ROUND_DAYS if ask.form is Form.DATES else ask.until
    count = min(MOST, max(FEWEST, round((last - start) / DAYS_AN_ARTICLE)))
    return sorted(stream.uniform(start, last, count).tolist())


def _wrong(told: Say, stream: "np.random.Generator") -> Say:
    strength, value = told.strength, told.value
    if strength is not None:
        strength = -math.copysign(max(1.2, abs(strength)), strength)
    if value is not None:
        value *= 1.0 + math.copysign(float(stream.uniform(0.15, 0.4)), float(stream.normal()))
    return replace(told, strength=strength, value=value)


def _hostile(ask: Ask, article: Article, told: Say, stream: "np.random.Generator") -> Article:
    """Return the article as a trap; what it tells is nobody's honest opinion."""
    trick = pick(stream, [*Trick])
    first = article.versions[0]
    match trick:
        case Trick.INSTRUCTIONS:
            bare = story(ask, replace(told, strength=None, value=None), stream)
            version, signal = replace(first, text=f"{bare} {order(stream)}"), None
        case Trick.HIDDEN:
            bare = story(ask, replace(told, strength=None, value=None), stream)
            version, signal = replace(first, text=bare, hidden=order(stream)), None
        case Trick.FAKE_RESULT:
            side = SETTLED if stream.random() < 0.5 else -SETTLED
            version = replace(first, text=story(ask, replace(told, strength=side, is_over=True), stream))
            signal = side
    return replace(article, versions=(version,), signal=signal, trick=trick)
