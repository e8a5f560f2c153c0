"""Errors as people read them."""

import inspect

import pytest

from bot.core import errors
from bot.core.errors import (
    FoxcastError,
    RequestRejectedError,
    ServiceUnavailableError,
    describe_error,
    strip_error_type,
)

OURS = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, FoxcastError) and one is not FoxcastError
]


def test_an_error_of_ours_is_told_by_its_message_and_a_foreign_one_with_its_type() -> None:
    assert describe_error(ServiceUnavailableError("asleep")) == "asleep"
    assert describe_error(RequestRejectedError()) == "RequestRejectedError"
    assert describe_error(KeyError("title")) == "KeyError: 'title'"


@pytest.mark.parametrize("kind", OURS)
def test_what_is_on_record_of_an_error_of_ours_is_told_without_its_class(kind: type[FoxcastError]) -> None:
    assert strip_error_type(f"{kind.__name__}: prime: it said: no") == "prime: it said: no"


@pytest.mark.parametrize(
    "said",
    ["", "RequestRejectedError", "RequestRejectedError: ", "KeyError (model.py:3)", "ValueError: x", "prime: no"],
)
def test_anything_else_on_record_is_told_as_it_is(said: str) -> None:
    assert strip_error_type(said) == said
