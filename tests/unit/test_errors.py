"""Errors as people read them."""

import inspect

import pytest

from bot import errors
from bot.errors import FoxcastError, Rejected, Unavailable, told, unnamed

OURS = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, FoxcastError) and one is not FoxcastError
]


def test_an_error_of_ours_is_told_by_its_message_and_a_foreign_one_with_its_type() -> None:
    assert told(Unavailable("asleep")) == "asleep"
    assert told(Rejected()) == "Rejected"
    assert told(KeyError("title")) == "KeyError: 'title'"


@pytest.mark.parametrize("kind", OURS)
def test_what_is_on_record_of_an_error_of_ours_is_told_without_its_class(kind: type[FoxcastError]) -> None:
    assert unnamed(f"{kind.__name__}: prime: it said: no") == "prime: it said: no"


@pytest.mark.parametrize("said", ["", "Rejected", "Rejected: ", "KeyError (model.py:3)", "ValueError: x", "prime: no"])
def test_anything_else_on_record_is_told_as_it_is(said: str) -> None:
    assert unnamed(said) == said
