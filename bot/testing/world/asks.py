"""What is asked in a world: which plot of which theme, at which stall, from when to when, and how it ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from bot.clock import SeededRandom
from bot.testing.world.ask import Ask, Fate, Form
from bot.testing.world.calendar import Calendar
from bot.testing.world.cast import cast
from bot.testing.world.events import Above
from bot.testing.world.plots import Draft, Plot, Slot, Strip, drafted, series_name, strip_of, texts
from bot.testing.world.themes import elections, launches, prices, rules, sports, weather

if TYPE_CHECKING:
    import numpy as np

THEMES: Mapping[str, Sequence[Plot]] = {
    "elections": elections.PLOTS,
    "launches": launches.PLOTS,
    "prices": prices.PLOTS,
    "weather": weather.PLOTS,
    "sports": sports.PLOTS,
    "rules": rules.PLOTS,
}
T = TypeVar("T")
# Where things are asked: a market in play money, a tournament, an exchange, a benchmark of rounds.
FAIR, CONTEST, EXCHANGE, BENCH = "fair", "contest", "exchange", "bench"
# What share of all is asked where, and how often each form is.
SHARES: Mapping[str, float] = {FAIR: 0.3, CONTEST: 0.3, EXCHANGE: 0.2, BENCH: 0.2}
FORMS: Mapping[str, Mapping[Form, float]] = {
    FAIR: {Form.BINARY: 0.7, Form.CHOICE: 0.15, Form.NUMBER: 0.15},
    CONTEST: {Form.BINARY: 0.4, Form.CHOICE: 0.2, Form.NUMBER: 0.22, Form.DATE: 0.18},
    EXCHANGE: {Form.BINARY: 0.65, Form.CHOICE: 0.35},
}
FATES: Mapping[Fate, float] = {Fate.RESOLVED: 0.86, Fate.ANNULLED: 0.04, Fate.LATE: 0.06, Fate.REVISED: 0.04}
# Rounds of the benchmark: the first one, how far apart, and the days ahead that are asked about.
FIRST_ROUND, BETWEEN_ROUNDS = 7.0, 28.0
HORIZONS = (7.0, 30.0, 90.0, 180.0, 365.0)
LAST_OPENING = 320.0
# Of what is asked, so much is under way when the world begins.
_AT_ONCE = 0.2


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All questions in the order of their opening, and all series by name."""

    asks: Sequence[Ask]
    strips: Mapping[str, Strip]


@dataclass(frozen=True, kw_only=True)
class _Maker:
    calendar: Calendar
    chance: SeededRandom = field(repr=False)

    def markets(self, stall: str, count: int) -> Iterator[Draft]:
        made = number = 0
        while made < count:
            key = f"{stall[0]}{number:03d}"
            stream = self.chance.stream("slot", key)
            theme = [*THEMES][number % len(THEMES)]
            form = _drawn(FORMS[stall], stream)
            # Groups are something that not every stall has, and count as their members.
            plots = [one for one in THEMES[theme] if one.form is form and (not one.heading or stall == CONTEST)]
            draft = drafted(plots[int(stream.integers(len(plots)))], self._slot(key, theme, stall))
            yield draft
            made, number = made + len(draft.asks), number + 1

    def _slot(self, key: str, theme: str, stall: str) -> Slot:
        stream = self.chance.stream("life", key)
        opens = 0.0 if stream.random() < _AT_ONCE else round(float(stream.uniform(0.25, LAST_OPENING)) * 4.0) / 4.0
        lasts = min(120.0, max(5.0, float(stream.lognormal(3.2, 0.7))))
        until = float(round(opens + lasts))
        # A tournament closes before what it asks about.
        closes = until - min(3.0, 0.15 * (until - opens)) if stall == CONTEST else until
        return Slot(
            key=key,
            theme=theme,
            stall=stall,
            opens=opens,
            closes=closes,
            until=until,
            calendar=self.calendar,
            chance=self.chance,
            words=cast(self.chance.stream("cast", key)),
            fate=_drawn(FATES, stream),
        )

    def rounds(self, count: int) -> Iterator[Draft]:
        """Yield questions on series, each asked again in later rounds."""
        dues = [*_steps(FIRST_ROUND, LAST_OPENING, BETWEEN_ROUNDS)]
        a_round = max(1, round(count / len(dues)))
        pool = [self._subject(f"b{number:03d}", [*THEMES][number % len(THEMES)]) for number in range(2 * a_round)]
        # One more would be asked twice in the same round.
        for number in range(min(count, a_round * len(dues))):
            due, place = dues[number // a_round], number % (2 * a_round)
            slot, plot, strip = pool[place]
            yield Draft(asks=(self._dated(plot, slot, strip, due),), strips=(strip,))

    def _subject(self, key: str, theme: str) -> tuple[Slot, Plot, Strip]:
        (plot,) = (one for one in THEMES[theme] if one.form is Form.DATES)
        slot = replace(self._slot(key, theme, BENCH), fate=Fate.RESOLVED)
        return slot, plot, strip_of(plot, slot, plot.motion.walk(f"{theme} {key}", self.chance))

    def _dated(self, plot: Plot, slot: Slot, strip: Strip, due: float) -> Ask:
        last = due + HORIZONS[-1]
        written = texts(plot, slot, {"level": ""})
        since = self.calendar.words(due)
        return Ask(
            key=f"{slot.key}-{round(due):03d}",
            theme=slot.theme,
            stall=BENCH,
            form=Form.DATES,
            event=Above(walk=strip.walk, until=last, level=strip.walk.at(due)),
            title=f"{written.title} be higher than on {since}?",
            background=written.background,
            criteria=written.criteria,
            opens=due,
            closes=due + 1.0,
            resolves=last,
            label=written.title,
            happening={"": plot.happening.format_map(slot.words)},
            series=series_name(slot),
            horizons=tuple(due + ahead for ahead in HORIZONS),
            tags=(slot.theme,),
        )


def asked(calendar: Calendar, chance: SeededRandom, size: int) -> Asked:
    """Return about ``size`` questions: a group is never cut."""
    maker = _Maker(calendar=calendar, chance=chance)
    drafts: list[Draft] = []
    for stall, share in SHARES.items():
        count = max(1, round(share * size))
        drafts += maker.rounds(count) if stall == BENCH else maker.markets(stall, count)
    asks = sorted((ask for draft in drafts for ask in draft.asks), key=lambda ask: (ask.opens, ask.key))
    return Asked(asks=asks, strips={strip.name: strip for draft in drafts for strip in draft.strips})


def _drawn(weights: Mapping[T, float], stream: "np.random.Generator") -> T:
    """Return one of the keys, each as likely as its weight says."""
    draw = float(stream.random()) * sum(weights.values())
    for one, weight in weights.items():
        draw -= weight
        if draw < 0.0:
            return one
    return [*weights][-1]


def _steps(first: float, last: float, step: float) -> Iterator[float]:
    while first <= last:
        yield first
        first += step
