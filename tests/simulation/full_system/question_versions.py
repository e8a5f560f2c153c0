"""Compares the question version that was forecast with what the venue asked when the write arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from bot.simulator.venues.metaculus_state import QuestionScaling

if TYPE_CHECKING:
    from bot.simulator.venues.manifold_state import FakeManifoldMarket
    from bot.simulator.venues.manifold_state import MarketTerms as MarketAsks
    from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion, QuestionTerms
    from tests.ledger_checks import Row

# The versions that live intents of forecasts and orders were made on.
VERSIONS = """
select i.id as intent, v.body, b.body as background, c.body as criteria
from intent i join forecast f on f.id = i.forecast join question_version v on v.version = f.version
left join question_text b on b.digest = v.background left join question_text c on c.digest = v.criteria
where i.mode <> 'paper' and i.action in ('forecast', 'order')
"""
# From a writer's reading to the moment at which its request takes effect: patience, deadlines and late arrivals.
UNDER_WAY_S = 180.0
_MINUTE_S = 60.0

A = TypeVar("A")


def versions_in_force(edits: Sequence[tuple[float, A]], now: A, at_s: float) -> Iterator[A]:
    """Yield all that was asked between some time before a moment and that moment; ``edits`` say what it was before."""
    since = [*edits, (float("inf"), now)]
    begins = [float("-inf"), *(edited for edited, _ in edits)]
    for (ends, asked), began in zip(since, begins, strict=True):
        if began <= at_s and ends >= at_s - UNDER_WAY_S:
            yield asked


def matches_question(row: Row, question: FakeMetaculusQuestion, at_s: float) -> bool:
    """Say whether the version that was forecast is one that Metaculus asked just then."""
    edits = [(at.timestamp(), asked) for at, asked in question.edits]
    return any(_is_question(row, asked) for asked in versions_in_force(edits, question.terms, at_s))


def matches_market(row: Row, market: FakeManifoldMarket, at_s: float) -> bool:
    """Say whether the version that was forecast is one that Manifold asked just then."""
    edits = [(at / 1000.0, asked) for at, asked in market.edits]
    return any(_is_market(row, asked) for asked in versions_in_force(edits, market.terms, at_s))


def _is_question(row: Row, asked: QuestionTerms) -> bool:
    (title, *texts), options, scaling, closes = asked
    values: Mapping[str, Any] = json.loads(row["body"])
    known = _flat(f"{row['background'] or ''} {row['criteria'] or ''}")
    shape = values["shape"]
    return (
        title in values["title"]
        and all(_flat(text) in known for text in texts)
        and set(options) == set(shape.get("options", ()))
        and (scaling is None or _is_scale(shape, scaling))
        and _is_moment(values["closes_at"], closes.timestamp())
    )


def _is_market(row: Row, asked: MarketAsks) -> bool:
    (title, text), answers, closes = asked
    values: Mapping[str, Any] = json.loads(row["body"])
    options = values["shape"].get("options")
    return (
        title in values["title"]
        and _flat(text) in _flat(row["background"] or "")
        and (options is None or len(options) == len(answers))
        and (closes is None or _is_moment(values["closes_at"], closes / 1000.0))
    )


def _is_scale(shape: Mapping[str, Any], scaling: QuestionScaling) -> bool:
    grid = shape["grid"]
    slack = 1e-6 * (scaling.high - scaling.low)
    places = {0: 0.0, len(grid) // 2: (len(grid) // 2) / (len(grid) - 1), -1: 1.0}
    same = all(abs(grid[number] - scaling.at(place)) <= slack for number, place in places.items())
    bounds = shape.get("open_lower", False), shape.get("open_upper", False)
    return same and bounds == (scaling.open_lower, scaling.open_upper)


def _is_moment(text: str, at_s: float) -> bool:
    from bot.store.serialization import parse_timestamp

    return abs(parse_timestamp(text).timestamp() - at_s) < _MINUTE_S


def _flat(text: str) -> str:
    return " ".join(text.split())
