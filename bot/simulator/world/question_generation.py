"""Generates the questions of a world.

Which template of which theme, at which venue, from when to when, and how they end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.simulator.world.calendar import WorldCalendar
from bot.simulator.world.events import ThresholdEvent
from bot.simulator.world.question_templates import (
    PublishedSeries,
    QuestionDraft,
    QuestionSlot,
    QuestionTemplate,
    draft_questions,
    published_series,
    series_name,
    write_texts,
)
from bot.simulator.world.questions import AnswerKind, QuestionEnding, SimulatedQuestion
from bot.simulator.world.text_generation import invent_names
from bot.simulator.world.themes import elections, legislation, prices, product_launches, sports, weather

if TYPE_CHECKING:
    import numpy as np

THEMES: Mapping[str, Sequence[QuestionTemplate]] = {
    "elections": elections.TEMPLATES,
    "launches": product_launches.TEMPLATES,
    "prices": prices.TEMPLATES,
    "weather": weather.TEMPLATES,
    "sports": sports.TEMPLATES,
    "rules": legislation.TEMPLATES,
}
T = TypeVar("T")
# The venues: a market in play money, a tournament, an exchange, a benchmark of rounds.
PLAY_MONEY_MARKET, FORECASTING_CONTEST, REAL_MONEY_MARKET, BENCHMARK = "fair", "contest", "exchange", "bench"
# The share of each venue, and how often each form occurs there.
VENUE_SHARES: Mapping[str, float] = {
    PLAY_MONEY_MARKET: 0.3,
    FORECASTING_CONTEST: 0.3,
    REAL_MONEY_MARKET: 0.2,
    BENCHMARK: 0.2,
}
ANSWER_KIND_SHARES: Mapping[str, Mapping[AnswerKind, float]] = {
    PLAY_MONEY_MARKET: {AnswerKind.BINARY: 0.7, AnswerKind.CHOICE: 0.15, AnswerKind.NUMBER: 0.15},
    FORECASTING_CONTEST: {
        AnswerKind.BINARY: 0.4,
        AnswerKind.CHOICE: 0.2,
        AnswerKind.NUMBER: 0.22,
        AnswerKind.DATE: 0.18,
    },
    REAL_MONEY_MARKET: {AnswerKind.BINARY: 0.65, AnswerKind.CHOICE: 0.35},
}
ENDING_SHARES: Mapping[QuestionEnding, float] = {
    QuestionEnding.RESOLVED: 0.86,
    QuestionEnding.ANNULLED: 0.04,
    QuestionEnding.LATE: 0.06,
    QuestionEnding.REVISED: 0.04,
}
# The first round of the benchmark, and the days ahead of its questions.
FIRST_ROUND = 7.0
HORIZONS = (7.0, 30.0, 90.0, 180.0, 365.0)
LAST_OPENING = 320.0
# The share of all questions that are open when the world begins.
_OPEN_AT_START = 0.2


@dataclass(frozen=True, kw_only=True)
class RoundSchedule:
    """The rounds of the benchmark: the days between two of them, and the fewest series that one asks about.

    Outcomes are published from ``published_after`` days after a round on.
    """

    interval: float = 28.0
    least: int = 1
    published_after: float = 10.0


ROUNDS = RoundSchedule()


@dataclass(frozen=True, kw_only=True)
class GeneratedQuestions:
    """All questions in the order of their opening, and all series by name."""

    questions: Sequence[SimulatedQuestion]
    series_by_name: Mapping[str, PublishedSeries]


@dataclass(frozen=True, kw_only=True)
class _QuestionGenerator:
    calendar: WorldCalendar
    chance: SeededRandom = field(repr=False)
    schedule: RoundSchedule = ROUNDS

    def markets(self, stall: str, count: int) -> Iterator[QuestionDraft]:
        made = number = 0
        while made < count:
            key = f"{stall[0]}{number:03d}"
            stream = self.chance.stream("slot", key)
            theme = [*THEMES][number % len(THEMES)]
            form = _draw_weighted(ANSWER_KIND_SHARES[stall], stream)
            # Not every venue has groups; they count as their members.
            plots = [
                one for one in THEMES[theme] if one.form is form and (not one.heading or stall == FORECASTING_CONTEST)
            ]
            draft = draft_questions(plots[int(stream.integers(len(plots)))], self._draw_slot(key, theme, stall))
            yield draft
            made, number = made + len(draft.questions), number + 1

    def _draw_slot(self, key: str, theme: str, stall: str) -> QuestionSlot:
        stream = self.chance.stream("life", key)
        opens = (
            0.0 if stream.random() < _OPEN_AT_START else round(float(stream.uniform(0.25, LAST_OPENING)) * 4.0) / 4.0
        )
        lasts = min(120.0, max(5.0, float(stream.lognormal(3.2, 0.7))))
        until = float(round(opens + lasts))
        # A tournament closes before the event.
        closes = until - min(3.0, 0.15 * (until - opens)) if stall == FORECASTING_CONTEST else until
        return QuestionSlot(
            key=key,
            theme=theme,
            venue_kind=stall,
            opens=opens,
            closes=closes,
            until=until,
            calendar=self.calendar,
            chance=self.chance,
            words=invent_names(self.chance.stream("cast", key)),
            fate=_draw_weighted(ENDING_SHARES, stream),
        )

    def rounds(self, count: int) -> Iterator[QuestionDraft]:
        """Yield questions on series, each repeated in later rounds."""
        dues = [*_steps_between(FIRST_ROUND, LAST_OPENING, self.schedule.interval)]
        a_round = max(self.schedule.least, round(count / len(dues)))
        pool = [self._draw_subject(f"b{number:03d}", [*THEMES][number % len(THEMES)]) for number in range(2 * a_round)]
        # One more would be in the same round twice.
        for number in range(min(count, a_round * len(dues))):
            due, place = dues[number // a_round], number % (2 * a_round)
            slot, plot, strip = pool[place]
            yield QuestionDraft(questions=(self._dated_question(plot, slot, strip, due),), series=(strip,))

    def _draw_subject(self, key: str, theme: str) -> tuple[QuestionSlot, QuestionTemplate, PublishedSeries]:
        (plot,) = (one for one in THEMES[theme] if one.form is AnswerKind.DATES)
        slot = replace(self._draw_slot(key, theme, BENCHMARK), fate=QuestionEnding.RESOLVED)
        return slot, plot, published_series(plot, slot, plot.walk.walk(f"{theme} {key}", self.chance))

    def _dated_question(
        self, plot: QuestionTemplate, slot: QuestionSlot, strip: PublishedSeries, due: float
    ) -> SimulatedQuestion:
        last = due + HORIZONS[-1]
        written = write_texts(plot, slot, {"level": ""})
        since = self.calendar.date_text(due)
        return SimulatedQuestion(
            key=f"{slot.key}-{round(due):03d}",
            theme=slot.theme,
            venue_kind=BENCHMARK,
            answer_kind=AnswerKind.DATES,
            event=ThresholdEvent(walk=strip.walk, until=last, level=strip.walk.at(due)),
            title=f"{written.title} be higher than on {since}?",
            background=written.background,
            criteria=written.criteria,
            opens=due,
            closes=due + 1.0,
            resolves=last,
            label=written.title,
            event_phrases={"": plot.event_phrase.format_map(slot.words)},
            series=series_name(slot),
            horizons=tuple(due + ahead for ahead in HORIZONS),
            tags=(slot.theme,),
        )


def generate_questions(
    calendar: WorldCalendar, chance: SeededRandom, size: int, rounds: RoundSchedule = ROUNDS
) -> GeneratedQuestions:
    """Return about ``size`` questions: a group is never cut."""
    maker = _QuestionGenerator(calendar=calendar, chance=chance, schedule=rounds)
    drafts: list[QuestionDraft] = []
    for stall, share in VENUE_SHARES.items():
        count = max(1, round(share * size))
        drafts += maker.rounds(count) if stall == BENCHMARK else maker.markets(stall, count)
    questions = sorted(
        (simulated for draft in drafts for simulated in draft.questions),
        key=lambda simulated: (simulated.opens, simulated.key),
    )
    return GeneratedQuestions(
        questions=questions, series_by_name={strip.name: strip for draft in drafts for strip in draft.series}
    )


def _draw_weighted(weights: Mapping[T, float], stream: "np.random.Generator") -> T:
    """Return one of the keys, each with the probability of its weight."""
    draw = float(stream.random()) * sum(weights.values())
    for one, weight in weights.items():
        draw -= weight
        if draw < 0.0:
            return one
    return [*weights][-1]


def _steps_between(first: float, last: float, step: float) -> Iterator[float]:
    while first <= last:
        yield first
        first += step
