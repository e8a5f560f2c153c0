"""What errors, parameters and events look like in one line."""

import sys
from collections.abc import Mapping

import pytest

from bot.cli.command_setup import _summarize_error
from bot.cli.fit import _value_summary
from bot.core.errors import AuthenticationError
from bot.core.predictions import BinaryPrediction
from bot.core.values import Json
from bot.evaluation.value_text import format_predictions


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"slope": 1.0, "intercept": 0.0}, "2 entries: slope, intercept"),
        ({str(n): n for n in range(9)}, "9 entries: 0, 1, 2, 3, 4, 5"),
        ([1.0, 2.0], "2 values"),
        (0.25, "0.25"),
    ],
    ids=["mapping", "long mapping", "list", "number"],
)
def test_parameters_are_told_in_brief(part: Json, said: str) -> None:
    assert _value_summary(part) == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": BinaryPrediction(0.2)}, "20.0%"),
        ({"a": BinaryPrediction(0.2), "b": BinaryPrediction(0.2)}, "20.0% (2 targets)"),
        ({"a": BinaryPrediction(0.2), "b": BinaryPrediction(0.3)}, "a 20.0%, b 30.0%"),
    ],
    ids=["one", "equal", "different"],
)
def test_different_predictions_are_told_by_target(values: Mapping[str, BinaryPrediction], said: str) -> None:
    assert format_predictions(values) == said


def test_an_error_that_is_being_handled_is_told_without_its_traceback() -> None:
    error = KeyError("title")
    assert _summarize_error(None, "error", {"event": "x", "exc_info": error}) == {
        "event": "x",
        "error": "KeyError: 'title'",
    }
    try:
        raise error
    except KeyError:
        told = _summarize_error(None, "error", {"event": "x", "exc_info": True})
    assert told == {"event": "x", "error": "KeyError: 'title'"}
    assert sys.exc_info() == (None, None, None)
    ours = AuthenticationError("the key has run out")
    assert _summarize_error(None, "error", {"event": "x", "exc_info": ours}) == {
        "event": "x",
        "error": "the key has run out",
    }
    assert _summarize_error(None, "info", {"event": "x"}) == {"event": "x"}
