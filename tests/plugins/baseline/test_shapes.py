"""Questions that are no yes or no, outcomes that are none, and parameter files that nobody fitted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.api import (
    BinaryShape,
    Choice,
    ChoiceShape,
    ContractError,
    Crowd,
    Curve,
    CurveShape,
    Example,
    Prediction,
    Question,
    QuestionRef,
    Resolution,
    Target,
    Void,
)
from bot.clock import SeededRandom
from bot.desk.desk import TrialDesk
from bot.domain.learning import Fitted
from bot.domain.prediction import Shape, mismatch
from plugins.baseline.forecaster import KEPT, Baseline
from plugins.baseline.learning import BaselineLearner, _read, shipped

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COLOURS = ChoiceShape(options=("red", "blue", "green", "grey"))
METRES = CurveShape(grid=(0.0, 10.0, 50.0, 100.0))
ASKED: dict[str, Any] = {
    "ref": QuestionRef("lantern", "1"),
    "title": "?",
    "targets": (Target(key="now"), Target(key="later")),
}


async def beliefs(question: Question) -> list[dict[str, Prediction]]:
    desk = TrialDesk(forecast="f", cutoff=NOW, trial=1, fitted=None, random=SeededRandom(1))
    return [dict(step.belief.predictions) async for step in Baseline().steps(question, desk)]


@pytest.mark.parametrize(
    ("shape", "even"),
    [
        (COLOURS, Choice(dict.fromkeys(COLOURS.options, 0.25))),
        # Three steps of its scale, which is none of even metres.
        (METRES, Curve((0.0, 1 / 3, 2 / 3, 1.0))),
    ],
    ids=["choice", "curve"],
)
async def test_where_nothing_is_known_every_possibility_counts_alike(shape: Shape, even: Prediction) -> None:
    [said] = await beliefs(Question(shape=shape, **ASKED))
    assert said == {"now": even, "later": even}
    assert mismatch(even, shape) is None


async def test_the_crowd_is_followed_in_the_shape_it_spoke() -> None:
    crowd = Crowd(prediction=Choice({"red": 0.7, "blue": 0.1, "green": 0.1, "grey": 0.1}), at=NOW)
    [said] = await beliefs(Question(shape=COLOURS, crowd=crowd, **ASKED))
    assert said == {"now": crowd.prediction, "later": crowd.prediction}


def test_what_was_annulled_teaches_nothing() -> None:
    question = Question(shape=BinaryShape(), **ASKED)
    annulled = Resolution(ref=question.ref, target="now", outcome=Void("withdrawn"), resolved_at=NOW)
    learned = BaselineLearner().fit([Example(question=question, resolution=annulled)], before=NOW)
    assert learned == BaselineLearner().fit([], before=NOW)


def test_the_parameters_of_the_package_can_be_read() -> None:
    assert shipped()
    assert all(fitted.examples > 0 for fitted in shipped())


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"forecaster": "baseline", "before": "noon"}'])
def test_a_file_that_nobody_fitted_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ContractError, match=r"old\.json: .*foxcast fit baseline"):
        _read("old.json", text)


async def test_of_the_parameters_of_many_rounds_only_the_last_are_kept_in_memory() -> None:
    [first, *_] = shipped()
    rounds = [
        Fitted(forecaster="baseline", before=NOW - timedelta(days=day), examples=1, payload=first.payload)
        for day in range(KEPT + 10)
    ]
    baseline, question = Baseline(), Question(shape=BinaryShape(), **ASKED)
    said = []
    for fitted in [*rounds, rounds[0]]:
        desk = TrialDesk(forecast="f", cutoff=NOW, trial=1, fitted=fitted, random=SeededRandom(1))
        said.append([step.belief.predictions async for step in baseline.steps(question, desk)][-1])
    assert said[-1] == said[0]
    assert len(baseline._read) == KEPT  # noqa: SLF001 - that memory is bounded shows nowhere else
