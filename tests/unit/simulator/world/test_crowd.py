"""Crowds of the simulated world: better than base rates, worse than the truth, and the same each time."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from bot.core.clock import SeededRandom
from bot.simulator.world.crowd import SimulatedCrowd, from_log_odds, log_odds
from bot.simulator.world.events import ThresholdEvent
from bot.simulator.world.random_walks import RandomWalk

CHANCE = SeededRandom(11)


def test_a_crowd_is_good_and_beatable() -> None:
    truth, paid, happened = [], [], []
    for number in range(2_000):
        key = f"q{number}"
        start = float(CHANCE.stream("start", key).normal(0.0, 1.5))
        walk = RandomWalk(name=key, chance=CHANCE, days=60.0, start=start, sigma=0.2)
        event = ThresholdEvent(walk=walk, until=60.0, level=0.0, shock=0.5)
        crowd = SimulatedCrowd(key=key, chance=CHANCE, days=60.0)
        truth.append(event.probability(30.0))
        paid.append(crowd.price(event.probability(crowd.last_known_day(30.0, 0.0)), 30.0))
        happened.append(event.happened)
    best, crowds = brier_score_loss(happened, truth), brier_score_loss(happened, paid)
    blind = brier_score_loss(happened, [float(np.mean(happened))] * len(happened))
    assert best + 0.003 < crowds < best + 0.03
    assert crowds < blind - 0.05


def test_prices_of_options_sum_to_one_and_keep_their_order_when_calm() -> None:
    crowd = SimulatedCrowd(key="k", chance=CHANCE, days=10.0)
    prices = crowd.prices({"a": 0.9, "b": 0.06, "c": 0.04}, 2.0)
    assert sum(prices.values()) == pytest.approx(1.0)
    assert max(prices, key=lambda name: prices[name]) == "a"
    assert prices == crowd.prices({"a": 0.9, "b": 0.06, "c": 0.04}, 2.0)


def test_certainties_are_not_quite_paid() -> None:
    assert from_log_odds(log_odds(0.3)) == pytest.approx(0.3)
    assert 0.0 < from_log_odds(log_odds(0.0)) < from_log_odds(log_odds(1.0)) < 1.0


def test_a_crowd_knows_nothing_from_before_it_came() -> None:
    crowd = SimulatedCrowd(key="k", chance=CHANCE, days=10.0)
    assert crowd.last_known_day(5.0, 4.5) == 4.5
    assert crowd.last_known_day(9.0, 1.0) == 7.5
