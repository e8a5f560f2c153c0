"""The simulated world as a whole: it repeats itself exactly, asks everything, and its probabilities are true."""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from bot.simulator.world.events import PassageEvent
from bot.simulator.world.news_language import find_claims, find_figures
from bot.simulator.world.question_generation import (
    BENCHMARK,
    FORECASTING_CONTEST,
    PLAY_MONEY_MARKET,
    REAL_MONEY_MARKET,
    THEMES,
)
from bot.simulator.world.questions import AnswerKind, LifecycleAction, QuestionEnding, SimulatedQuestion, outcome_day
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.simulator.world.text_generation import write_pattern

START = datetime(2026, 3, 1, tzinfo=UTC)


@cache
def world(seed: int = 1, size: int = 300) -> SimulatedWorld:
    return SimulatedWorld(seed=seed, start=START, size=size)


@cache
def many() -> tuple[SimulatedWorld, ...]:
    return tuple(world(seed) for seed in range(100, 106))


def binaries(
    fates: frozenset[QuestionEnding] = frozenset(QuestionEnding),
) -> Iterator[tuple[SimulatedWorld, SimulatedQuestion]]:
    """Yield questions of yes or no whose outcomes do not hang together: one of each group."""
    for one in many():
        seen: set[str] = set()
        for ask in one.questions:
            if ask.answer_kind is AnswerKind.BINARY and ask.ending in fates and (ask.group or ask.key) not in seen:
                seen.add(ask.group or ask.key)
                yield one, ask


def test_the_same_seed_makes_the_same_world_in_whatever_order_it_is_asked() -> None:
    one, other = SimulatedWorld(seed=7, start=START, size=60), SimulatedWorld(seed=7, start=START, size=60)
    backwards = {
        ask.key: (one.outcome_of(ask), one.series(ask.series, 50.0) if ask.series else None) for ask in one.questions
    }
    for ask in reversed(other.questions):
        assert other.outcome_of(ask) == backwards[ask.key][0]
        if ask.series:
            assert other.series(ask.series, 50.0) == backwards[ask.key][1]
    assert [(ask.key, ask.title, ask.background, ask.criteria) for ask in one.questions] == [
        (ask.key, ask.title, ask.background, ask.criteria) for ask in other.questions
    ]
    prices = [
        other.crowd_price(ask, ask.opens + 1.0) for ask in other.questions if ask.answer_kind is AnswerKind.BINARY
    ]
    assert prices == [
        one.crowd_price(ask, ask.opens + 1.0) for ask in one.questions if ask.answer_kind is AnswerKind.BINARY
    ]


def test_no_two_worlds_read_alike() -> None:
    titles, others = ({ask.title for ask in world(seed).questions} for seed in (1, 2))
    assert not titles & others
    words, other_words = ({ask.background for ask in world(seed).questions} for seed in (1, 2))
    assert len(words & other_words) / len(words) < 0.02


def test_every_theme_form_stall_and_fate_is_there() -> None:
    asks = world().questions
    assert 295 <= len(asks) <= 305
    assert Counter(ask.theme for ask in asks).keys() == THEMES.keys()
    assert min(Counter(ask.theme for ask in asks).values()) > 20
    assert {ask.answer_kind for ask in asks} == set(AnswerKind)
    assert {ask.ending for ask in asks} == set(QuestionEnding)
    assert {ask.venue_kind for ask in asks} == {PLAY_MONEY_MARKET, FORECASTING_CONTEST, REAL_MONEY_MARKET, BENCHMARK}
    groups = Counter(ask.group for ask in asks if ask.group)
    assert len(groups) >= 5
    assert set(groups.values()) == {3}
    assert all(len(ask.horizons) == 5 for ask in asks if ask.answer_kind is AnswerKind.DATES)
    assert len({ask.key for ask in asks}) == len(asks)


def test_members_of_a_group_have_labels_of_their_own_and_are_settled_in_order() -> None:
    for one in many():
        for group in {ask.group for ask in one.questions if ask.group}:
            members = sorted((ask for ask in one.questions if ask.group == group), key=lambda ask: ask.key)
            assert len({ask.label for ask in members}) == 3
            assert len({ask.group_title for ask in members}) == 1
            truths = [one.outcome_of(ask) for ask in members]
            by_date = isinstance(members[0].event, PassageEvent)
            # By a later day more has happened; a higher level is passed less often.
            assert truths == sorted(truths, key=bool, reverse=not by_date)


def test_nothing_is_settled_when_it_opens_and_all_texts_are_complete() -> None:
    for one in many():
        for ask in one.questions:
            assert outcome_day(ask) > ask.opens
            for text in (
                ask.title,
                ask.background,
                ask.criteria,
                ask.group_title,
                ask.label,
                *ask.event_phrases.values(),
            ):
                assert not set(text) & set("{}[]|"), text
                assert text == text.strip()
                # The language of evidence is spoken by the press alone.
                assert find_claims(text) == []
                assert find_figures(text) == []
            if ask.answer_kind is AnswerKind.BINARY:
                chance = one.true_probability(ask, ask.opens)
                assert isinstance(chance, float)
                assert 1e-6 < chance < 1.0 - 1e-6
            if ask.series:
                assert ask.series in ask.background


def test_probabilities_are_true_halfway() -> None:
    """The sum of outcomes less chances has mean 0 and the variance sum of p (1 - p), in all and in each fifth."""
    pairs = []
    for one, ask in binaries():
        chance = one.true_probability(ask, (ask.opens + ask.last_day) / 2.0)
        assert isinstance(chance, float)
        pairs.append((chance, one.outcome_of(ask) is True))
    assert len(pairs) > 500
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        fifth = [(chance, happened) for chance, happened in pairs if low <= chance <= low + 0.2]
        excess = math.fsum(happened - chance for chance, happened in fifth)
        assert abs(excess) < 3.5 * math.sqrt(math.fsum(chance * (1.0 - chance) for chance, _ in fifth))


def test_shares_of_options_are_true() -> None:
    excess, variance = 0.0, 0.0
    for one in many():
        for ask in (ask for ask in one.questions if ask.answer_kind is AnswerKind.CHOICE):
            shares = one.true_probability(ask, (ask.opens + ask.last_day) / 2.0)
            assert not isinstance(shares, float)
            assert math.fsum(shares.values()) == pytest.approx(1.0)
            first = next(iter(shares))
            excess += (one.outcome_of(ask) == first) - shares[first]
            variance += shares[first] * (1.0 - shares[first])
    assert abs(excess) < 3.5 * math.sqrt(variance)


def test_distributions_of_numbers_are_true() -> None:
    """The probability integral transform of the outcomes is uniform (Kolmogorov-Smirnov, at one in a thousand)."""
    from scipy.stats import kstest

    places = []
    for one in many():
        for ask in (ask for ask in one.questions if ask.answer_kind is AnswerKind.NUMBER):
            truth = one.outcome_of(ask)
            assert isinstance(truth, float)
            places.append(float(one.true_cdf(ask, ask.opens, np.array([truth]))[0]))
    assert len(places) > 80
    assert kstest(places, "uniform").pvalue > 0.001


def test_dates_come_when_their_law_says() -> None:
    """By the end as often as was thought at the beginning, and never outside of what is asked about."""
    excess, variance = 0.0, 0.0
    for one in many():
        for ask in (ask for ask in one.questions if ask.answer_kind is AnswerKind.DATE):
            (share,) = one.true_cdf(ask, ask.opens, np.array([ask.last_day]))
            truth = one.outcome_of(ask)
            assert isinstance(truth, float)
            assert truth == math.inf or ask.opens < truth <= ask.last_day
            excess += (truth <= ask.last_day) - share
            variance += share * (1.0 - share)
    assert abs(excess) < 3.5 * math.sqrt(variance)


def test_days_of_a_series_are_judged_by_the_series() -> None:
    one = world()
    for ask in (ask for ask in one.questions if ask.answer_kind is AnswerKind.DATES):
        strip = one.series_by_name[ask.series]
        before = strip.value(ask.opens)
        for day, happened in zip(ask.horizons, one.outcomes_by_day(ask), strict=True):
            # Values are published rounded; where they differ they decide.
            if strip.value(day) != before:
                assert happened == (strip.value(day) > before)


def test_the_crowd_is_good_and_not_perfect() -> None:
    """Its Brier score lies between that of the truth and that of the base rate, clearly."""
    truth, crowd, outcomes = [], [], []
    for one, ask in binaries():
        day = (ask.opens + ask.last_day) / 2.0
        truth.append(one.true_probability(ask, day))
        crowd.append(one.crowd_price(ask, day))
        outcomes.append(float(one.outcome_of(ask) is True))
    results = np.array(outcomes)
    errors = [(np.array(some, dtype=float) - results) ** 2 for some in (truth, crowd, [results.mean()] * len(results))]
    for better, worse in pairwise(errors):
        gain = worse - better
        assert gain.mean() > 2.5 * gain.std() / math.sqrt(len(gain))


def test_lives_are_in_order_and_end_with_the_truth() -> None:
    one = world()
    for ask in one.questions:
        life = [happening for happening in one.lifecycle_events(-1.0, 2_000.0) if happening.question is ask]
        assert life[0].action is LifecycleAction.OPEN
        assert [happening.day for happening in life] == sorted(happening.day for happening in life)
        ends = [
            happening
            for happening in life
            if happening.action in {LifecycleAction.RESOLVE, LifecycleAction.ANNUL, LifecycleAction.UNDO}
        ]
        if ask.answer_kind is AnswerKind.DATES:
            assert ends == []
            continue
        assert min(happening.day for happening in ends) > outcome_day(ask)
        match ask.ending:
            case QuestionEnding.ANNULLED:
                assert [happening.action for happening in ends] == [LifecycleAction.ANNUL]
            case QuestionEnding.REVISED:
                assert [happening.action for happening in ends] == [
                    LifecycleAction.RESOLVE,
                    LifecycleAction.UNDO,
                    LifecycleAction.RESOLVE,
                ]
                assert ends[0].outcome != ends[2].outcome == one.outcome_of(ask)
            case _:
                assert [happening.outcome for happening in ends] == [one.outcome_of(ask)]


def test_happenings_are_told_once_each() -> None:
    one = world()
    whole = one.lifecycle_events(-1.0, 2_000.0)
    days = [-1.0, 0.0, *np.arange(0.3, 400.0, 0.7), 2_000.0]
    parts = [part for low, high in pairwise(days) for part in one.lifecycle_events(low, high)]
    assert parts == [*whole]


def test_alternatives_may_be_nested_and_words_must_be_known() -> None:
    stream = world().random_streams.stream("test")
    written = {write_pattern("[a|b [c|d]] {x}", stream, {"x": "y"}) for _ in range(60)}
    assert written == {"a y", "b c y", "b d y"}
    with pytest.raises(KeyError):
        write_pattern("{z}", stream, {})
