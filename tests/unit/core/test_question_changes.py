"""What makes another question of one, clause by clause, and what does not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.core.predictions import BinaryPrediction, BinaryShape, ChoiceShape, CurveShape, QuestionShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target, describe_changes

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
RAIN = Question(
    ref=QuestionRef("lantern", "1"),
    title="Rain?",
    shape=BinaryShape(),
    targets=(Target(resolves_at=NOON + timedelta(days=2)),),
    closes_at=NOON + timedelta(days=1),
)


def curve(low: float, high: float, *, ratio: float = 1.0, steps: int = 10, **fields: Any) -> CurveShape:
    """A scale as venues have it: linear, or by a ratio of densities between its ends."""
    places = [step / steps for step in range(steps + 1)]
    shares = places if ratio == 1.0 else [(ratio**place - 1.0) / (ratio - 1.0) for place in places]
    return CurveShape(grid=tuple(low + (high - low) * share for share in shares), **fields)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (BinaryShape(), ChoiceShape(options=("A", "B")), ("the kind was yes or no and is a choice now",)),
        (
            ChoiceShape(options=("A", "B", "C")),
            ChoiceShape(options=("A", "C", "D")),
            ('option "D" was added', 'option "B" was removed'),
        ),
        # In another order they are the same options.
        (ChoiceShape(options=("A", "B")), ChoiceShape(options=("B", "A")), ()),
        (curve(0, 100), curve(0, 200), ("the range was 0 to 100 and is 0 to 200 now",)),
        (curve(1, 100), curve(1, 100, ratio=100), ("the scale was linear and is logarithmic now",)),
        (curve(1, 100, ratio=9), curve(1, 100, ratio=99), ("the zero point of the logarithmic scale changed",)),
        (curve(0, 9), curve(0, 9, steps=9), ("the range was cut into 10 steps and is cut into 9 now",)),
        (curve(0, 9, unit="cm"), curve(0, 9, unit="m"), ('the unit was "cm" and is "m" now',)),
        (curve(0, 9), curve(0, 9, open_lower=True), ("the lower bound was closed and is open now",)),
        (curve(0, 9, open_upper=True), curve(0, 9), ("the upper bound was open and is closed now",)),
        (
            curve(1767225600, 1772323200, unit="date"),
            curve(1767225600, 1803859200, unit="date"),
            ("the range was 2026-01-01 to 2026-03-01 and is 2026-01-01 to 2027-03-01 now",),
        ),
        # The same points, computed twice.
        (curve(0, 100), curve(0, 100 * (1 + 1e-15)), ()),
    ],
)
def test_shapes_are_compared_by_what_they_mean(
    before: QuestionShape, now: QuestionShape, said: tuple[str, ...]
) -> None:
    assert describe_changes(replace(RAIN, shape=before), replace(RAIN, shape=now)) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"title": "Snow?"}, ('the title was "Rain?" and is "Snow?" now',)),
        ({"criteria": "By a gauge."}, ("the resolution criteria changed",)),
        ({"background": "In May."}, ("the description changed",)),
        (
            {"closes_at": NOON},
            ("it was to close on 2026-12-02 12:00 UTC and closes on 2026-12-01 12:00 UTC now",),
        ),
        ({"closes_at": None}, ("it was to close on 2026-12-02 12:00 UTC and closes at no fixed time now",)),
        ({"closes_at": NOON + timedelta(days=1, seconds=1)}, ()),
        (
            {"targets": (Target(resolves_at=NOON),)},
            ("it was to be resolved on 2026-12-03 12:00 UTC and is on 2026-12-01 12:00 UTC now",),
        ),
        (
            {"targets": (*RAIN.targets, Target(key="late"))},
            ('target "late" was added',),
        ),
    ],
)
def test_texts_and_dates_are_told(changes: dict[str, Any], said: tuple[str, ...]) -> None:
    assert describe_changes(RAIN, replace(RAIN, **changes)) == said


@pytest.mark.parametrize(
    "changes",
    [
        {"crowd": CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON)},
        {"facts": {"volume": "1000", "liquidity": "5"}},
        {"tags": ("wet",)},
        {"tournaments": ("spring",)},
        {"url": "https://lantern.example/1"},
        {"batch": "round 2"},
    ],
)
def test_what_moves_without_another_question_is_no_change(changes: dict[str, Any]) -> None:
    assert describe_changes(RAIN, replace(RAIN, **changes)) == ()
