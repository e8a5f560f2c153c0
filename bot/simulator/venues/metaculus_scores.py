"""How the fake Metaculus scores: baseline and peer scores, over time and at the moment of spot scoring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise

from bot.simulator.venues.metaculus_state import (
    CONTINUOUS,
    FakeMetaculusForecast,
    FakeMetaculusQuestion,
    FakeMetaculusUser,
    QuestionScaling,
)

_OUTSIDE = 0.05


def account_scores(
    question: FakeMetaculusQuestion, author: int, users: Mapping[int, FakeMetaculusUser]
) -> dict[str, float]:
    """Return an account's scores, none where there is no outcome to score, or no forecast."""
    outcome = outcome_bucket(question)
    if outcome is None or not question.forecasts_of(author):
        return {}
    rivals = [
        forecast
        for forecast in question.forecasts
        if forecast.author == author or _is_counted(users[forecast.author], question)
    ]
    found = _time_averaged_scores(question, author, rivals, outcome)
    spot = _spot_scores(question, author, rivals, outcome)
    return found if spot is None else {**found, **spot}


def _is_counted(user: FakeMetaculusUser, question: FakeMetaculusQuestion) -> bool:
    return not user.is_bot or (question.counts_bots and user.is_primary)


def outcome_bucket(question: FakeMetaculusQuestion) -> int | None:
    """Return the place of the outcome: of the option, or 0 below, 1 to N inside and N + 1 above a range."""
    resolution = question.resolution
    if question.type == "multiple_choice":
        ever = question.all_options_ever or []
        return ever.index(resolution) if resolution in ever else None
    if resolution in {None, "annulled", "ambiguous"}:
        return None
    if question.type == "binary":
        return 1 if resolution == "yes" else 0
    scaling = question.scaling or QuestionScaling(low=0.0, high=1.0)
    if resolution in {"below_lower_bound", "above_upper_bound"}:
        return 0 if resolution == "below_lower_bound" else scaling.buckets + 1
    return _grid_place(scaling, _nominal_value(question, str(resolution)))


def _nominal_value(question: FakeMetaculusQuestion, resolution: str) -> float:
    if question.type != "date":
        return float(resolution)
    found = datetime.fromisoformat(resolution)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _grid_place(scaling: QuestionScaling, value: float) -> int:
    if scaling.zero_point is None:
        unit = (value - scaling.low) / (scaling.high - scaling.low)
    else:
        ratio = (scaling.high - scaling.zero_point) / (scaling.low - scaling.zero_point)
        width = scaling.high - scaling.low
        # Not simplified: rounding puts the upper end of some scales just above it, as on the real server.
        unit = (math.log((value - scaling.low) * (ratio - 1.0) + width) - math.log(width)) / math.log(ratio)
    if unit < 0.0 or unit > 1.0:
        return 0 if unit < 0.0 else scaling.buckets + 1
    return scaling.buckets if unit == 1.0 else max(math.floor(unit * scaling.buckets + 1.0 - 1e-10), 1)


def outcome_probability(question: FakeMetaculusQuestion, forecast: FakeMetaculusForecast, outcome: int) -> float:
    """Return a forecast's probability of the outcome; one without that option uses its last option."""
    values = forecast.values
    if question.type not in CONTINUOUS:
        value = values[outcome]
        # An option that did not exist yet has the probability of the last one.
        return float(value if value is not None else values[-1] or 0.0)
    whole = [0.0, *(value or 0.0 for value in values), 1.0]
    return whole[outcome + 1] - whole[outcome]


def baseline_score(question: FakeMetaculusQuestion, forecast: FakeMetaculusForecast, outcome: int) -> float:
    """Return the baseline score of a forecast; for a choice among the options that existed when it was made."""
    probability = outcome_probability(question, forecast, outcome)
    if question.type in CONTINUOUS:
        scaling = question.scaling or QuestionScaling(low=0.0, high=1.0)
        sides = scaling.open_lower + scaling.open_upper
        inside = (1.0 - _OUTSIDE * sides) / scaling.buckets
        even = inside if 1 <= outcome <= scaling.buckets else _OUTSIDE
        return 100.0 * math.log(probability / even) / 2.0
    options = sum(value is not None for value in forecast.values)
    return 100.0 * math.log(probability * options) / math.log(options)


def peer_score(question: FakeMetaculusQuestion, own: float, everybody: list[float]) -> float:
    """Return the peer score of a probability among all, including itself."""
    count = len(everybody)
    if count < 2:
        return 0.0
    mean = sum(map(math.log, everybody)) / count
    score = 100.0 * count / (count - 1) * (math.log(own) - mean)
    return score / 2.0 if question.type in CONTINUOUS else score


def _outcome_probabilities(
    question: FakeMetaculusQuestion, standing: Mapping[int, FakeMetaculusForecast], outcome: int
) -> list[float]:
    """Return the probabilities that all gave the outcome; where one of them lacks the option, all use their last one.

    The server takes the mean of each option first, and uses the last one where that is missing.
    """
    lacks = question.type not in CONTINUOUS and any(one.values[outcome] is None for one in standing.values())
    place = len(question.all_options_ever or ()) - 1 if lacks else outcome
    return [outcome_probability(question, forecast, place) for forecast in standing.values()]


def _standing_forecasts(forecasts: list[FakeMetaculusForecast], at: float) -> dict[int, FakeMetaculusForecast]:
    return {forecast.author: forecast for forecast in forecasts if forecast.is_standing(at)}


def _spot_scores(
    question: FakeMetaculusQuestion, author: int, rivals: list[FakeMetaculusForecast], outcome: int
) -> dict[str, float] | None:
    at = min(question.spot_time, question.close).timestamp()
    standing = _standing_forecasts(rivals, at)
    if author not in standing:
        return None
    own, everybody = (
        outcome_probability(question, standing[author], outcome),
        _outcome_probabilities(question, standing, outcome),
    )
    return {
        "spot_peer_score": peer_score(question, own, everybody),
        "spot_baseline_score": baseline_score(question, standing[author], outcome),
    }


def _time_averaged_scores(
    question: FakeMetaculusQuestion, author: int, rivals: list[FakeMetaculusForecast], outcome: int
) -> dict[str, float]:
    """Average over the time from opening to the scheduled close; time without a forecast counts as zero."""
    begin, end = question.open.timestamp(), question.scheduled_close.timestamp()
    until = min(end, question.close.timestamp())
    marks = {begin, until, *(forecast.start for forecast in rivals), *(forecast.end or until for forecast in rivals)}
    turns = sorted(mark for mark in marks if begin <= mark <= until)
    found = {"baseline_score": 0.0, "peer_score": 0.0, "coverage": 0.0}
    for start, stop in pairwise(turns):
        standing = _standing_forecasts(rivals, start)
        if author not in standing:
            continue
        part = (stop - start) / (end - begin)
        own, everybody = (
            outcome_probability(question, standing[author], outcome),
            _outcome_probabilities(question, standing, outcome),
        )
        found["baseline_score"] += part * baseline_score(question, standing[author], outcome)
        found["peer_score"] += part * peer_score(question, own, everybody)
        found["coverage"] += part
    return {**found, "weighted_coverage": found["coverage"]}
