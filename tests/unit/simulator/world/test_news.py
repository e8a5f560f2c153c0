"""The press of a simulated world: what it tells is worth something, and what is a trap is known to be one."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache

import numpy as np

from bot.simulator.world.crowd import from_log_odds, log_odds
from bot.simulator.world.news import (
    ARTICLE_SHARES,
    BEFORE_DAYS,
    DAYS_PER_ARTICLE,
    MAX_ARTICLES,
    ArticleKind,
    HostileTrick,
    NewsArticle,
    NewsGenerator,
)
from bot.simulator.world.news_language import find_claims
from bot.simulator.world.questions import AnswerKind, SimulatedQuestion, outcome_day
from bot.simulator.world.simulated_world import SimulatedWorld

START = datetime(2026, 3, 1, tzinfo=UTC)


@cache
def rooms() -> tuple[NewsGenerator, ...]:
    return tuple(NewsGenerator(world=SimulatedWorld(seed=seed, start=START)) for seed in range(200, 204))


def cases() -> Iterator[tuple[NewsGenerator, SimulatedQuestion, float]]:
    """Yield questions of yes or no, one of each group, with the day halfway."""
    for room in rooms():
        seen: set[str] = set()
        for ask in room.world.questions:
            if ask.answer_kind is AnswerKind.BINARY and (ask.group or ask.key) not in seen:
                seen.add(ask.group or ask.key)
                yield room, ask, (ask.opens + ask.last_day) / 2.0


@cache
def articles() -> tuple[tuple[SimulatedWorld, SimulatedQuestion, NewsArticle], ...]:
    worlds = [(room, ask) for room in rooms() for ask in room.world.questions]
    return tuple((room.world, ask, article) for room, ask in worlds for article in room.articles(ask.key))


def errors(probabilities: list[float], outcomes: list[bool]) -> "np.ndarray":
    return np.asarray((np.array(probabilities) - np.array(outcomes, dtype=float)) ** 2)


def is_better(one: "np.ndarray", other: "np.ndarray") -> bool:
    gain = other - one
    return bool(gain.mean() > 3.0 * gain.std() / math.sqrt(len(gain)))


def price_of(room: NewsGenerator, ask: SimulatedQuestion, day: float) -> float:
    price = room.world.crowd_price(ask, day)
    assert isinstance(price, float)
    return price


def read(price: float, articles: Iterable[NewsArticle], day: float, *, seen_on: float) -> float:
    """Weigh the price with what articles say, the newer the more, as they stand on another day."""
    total, weight = log_odds(price), 1.0
    for article in articles:
        share = math.exp((article.published - day) / 4.0)
        for claim in find_claims(article.at(seen_on).text):
            total, weight = total + share * claim.strength, weight + share
    return from_log_odds(total / weight)


def test_who_reads_what_is_relevant_beats_the_crowd() -> None:
    readers, crowd, truth, outcomes = [], [], [], []
    for room, ask, day in cases():
        if outcome_day(ask) > day:
            known = [one for one in room.articles(ask.key) if one.published < day]
            relevant = [one for one in known if one.kind in {ArticleKind.RELEVANT, ArticleKind.EDITED}]
            crowd.append(price_of(room, ask, day))
            readers.append(read(crowd[-1], relevant, day, seen_on=day))
            chance = room.world.true_probability(ask, day)
            assert isinstance(chance, float)
            truth.append(chance)
            outcomes.append(room.world.outcome_of(ask) is True)
    assert len(outcomes) > 400
    assert is_better(errors(readers, outcomes), errors(crowd, outcomes))
    assert is_better(errors(truth, outcomes), errors(readers, outcomes))


def test_who_reads_old_dates_in_new_pages_cheats() -> None:
    """In a backtest, articles of before the cutoff that were rewritten since give the outcome away."""
    honest, cheated, outcomes = [], [], []
    for room, ask, day in cases():
        known = [one for one in room.articles(ask.key) if one.published < day]
        if any(one.kind is ArticleKind.EDITED for one in known) and outcome_day(ask) > day:
            price = price_of(room, ask, day)
            honest.append(read(price, known, day, seen_on=day))
            cheated.append(read(price, known, day, seen_on=2_000.0))
            outcomes.append(room.world.outcome_of(ask) is True)
    assert len(outcomes) > 100
    assert is_better(errors(cheated, outcomes), errors(honest, outcomes))


def test_nothing_that_is_written_before_the_end_knows_the_end() -> None:
    """Given the true probability on the day, what an honest article says is independent of the outcome."""
    slips, surprises = [], []
    for world, ask, article in articles():
        if (
            ask.answer_kind is not AnswerKind.BINARY
            or article.kind is not ArticleKind.RELEVANT
            or article.log_odds_signal is None
        ):
            continue
        chance = world.true_probability(ask, article.published)
        assert isinstance(chance, float)
        slips.append(article.log_odds_signal - log_odds(chance))
        surprises.append(float(world.outcome_of(ask) is True) - chance)
    assert len(slips) > 2_000
    correlation = np.corrcoef(slips, surprises)[0, 1]
    assert abs(correlation) < 3.5 / math.sqrt(len(slips))


def test_how_much_is_written_does_not_tell_how_soon_it_will_be_over() -> None:
    """Of a long question that ends early, the articles until then are the share of all that the time is."""
    surplus = variance = 0.0
    ended = 0
    for room in rooms():
        for ask in room.world.questions:
            start, known = max(0.0, ask.opens - BEFORE_DAYS), outcome_day(ask)
            if known < ask.last_day and ask.last_day - start > MAX_ARTICLES * DAYS_PER_ARTICLE:
                share = (known - start) / (ask.last_day - start)
                surplus += sum(one.published < known for one in room.articles(ask.key)) - MAX_ARTICLES * share
                variance += MAX_ARTICLES * share * (1.0 - share)
                ended += 1
    assert ended > 20
    assert abs(surplus) < 3.5 * math.sqrt(variance)


def test_texts_say_what_is_meant() -> None:
    for _, _, article in articles():
        strengths = [claim.strength for claim in find_claims(article.versions[0].text)]
        if article.log_odds_signal is None:
            assert strengths == []
        else:
            (strength,) = strengths
            assert abs(strength - max(-3.5, min(3.5, article.log_odds_signal))) < 0.7


def test_every_kind_and_trick_is_there_as_often_as_planned() -> None:
    counts: Counter[ArticleKind] = Counter(article.kind for _, _, article in articles())
    del counts[ArticleKind.RESULT]
    for kind, share in ARTICLE_SHARES.items():
        expected = share * counts.total()
        assert abs(counts[kind] - expected) < 4.0 * math.sqrt(expected)
    assert {article.trick for _, _, article in articles() if article.kind is ArticleKind.HOSTILE} == set(HostileTrick)


def test_only_planted_leaks_know_the_outcome_and_keep_their_old_date() -> None:
    for world, ask, article in articles():
        first, *later = article.versions
        assert first.day == article.published
        if article.kind is not ArticleKind.EDITED:
            assert later == []
        elif ask.answer_kind is not AnswerKind.DATES:
            (again,) = later
            assert again.day > outcome_day(ask) >= article.published
            assert article.at(outcome_day(ask)) is first
            if ask.answer_kind is AnswerKind.BINARY:
                (claim,) = find_claims(again.text)
                assert (claim.strength > 0.0) == (world.outcome_of(ask) is True)


def test_results_are_told_after_the_fact_and_rightly() -> None:
    for world, ask, article in articles():
        if article.kind is ArticleKind.RESULT and ask.answer_kind is AnswerKind.BINARY:
            assert article.published > outcome_day(ask)
            assert article.log_odds_signal is not None
            assert (article.log_odds_signal > 0.0) == (world.outcome_of(ask) is True)


def test_hidden_text_is_in_hostile_pages_alone() -> None:
    for _, _, article in articles():
        hides = any(version.hidden for version in article.versions)
        assert hides == (article.trick is HostileTrick.HIDDEN)


def test_the_same_world_has_the_same_press_in_whatever_order_it_is_read() -> None:
    one, other = (NewsGenerator(world=SimulatedWorld(seed=9, start=START, size=40)) for _ in range(2))
    forwards = [one.articles(ask.key) for ask in one.world.questions]
    backwards = [other.articles(ask.key) for ask in reversed(other.world.questions)]
    assert forwards == backwards[::-1]
