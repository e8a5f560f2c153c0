"""The shapes of answers: learned first, then changes are reported, and chance is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.response_shapes import (
    LEARNING_ANSWERS,
    MISSING_ANSWERS,
    SAMPLE_INTERVAL_S,
    SHAPES_FILE,
    ResponseShapes,
    ShapeChange,
    address_pattern,
    read_shape_changes,
)
from bot.testing.clock import FakeClock

URL = "https://sea.example/v0/markets/12345?limit=5"
MARKET = {"id": "a", "prices": [{"bid": 0.4, "ask": 0.6}], "close": {"at": 3}}


async def look(shapes: ResponseShapes, clock: FakeClock, times: int, *answers: Any, url: str = URL) -> None:
    for number in range(times):
        shapes.observe("sea", url, json.dumps(answers[number % len(answers)]).encode())
        await clock.advance(SAMPLE_INTERVAL_S)
    shapes.save()


async def test_a_field_that_vanishes_and_one_that_is_new_are_reported(tmp_path: Path) -> None:
    clock = FakeClock()
    shapes = ResponseShapes(path=tmp_path / SHAPES_FILE, clock=clock)
    await look(shapes, clock, LEARNING_ANSWERS, MARKET)
    changed = {"id": "a", "prices": [{"bid": 0.4, "offer": 0.6}], "close": {"at": 3}}
    await look(shapes, clock, MISSING_ANSWERS - 1, changed)
    (early,) = read_shape_changes(tmp_path)
    assert (early.new, early.vanished) == (("prices[].offer",), ())
    await look(shapes, clock, 1, changed)
    assert read_shape_changes(tmp_path) == [
        ShapeChange(venue="sea", address="v0/markets/*", new=("prices[].offer",), vanished=("prices[].ask",))
    ]


async def test_what_was_learned_outlives_the_process_and_what_comes_and_goes_is_no_change(tmp_path: Path) -> None:
    clock = FakeClock()
    sometimes = {**MARKET, "resolved": True}
    await look(ResponseShapes(path=tmp_path / SHAPES_FILE, clock=clock), clock, LEARNING_ANSWERS, MARKET, sometimes)
    await look(ResponseShapes(path=tmp_path / SHAPES_FILE, clock=clock), clock, 3 * MISSING_ANSWERS, MARKET)
    assert read_shape_changes(tmp_path) == []


async def test_answers_in_quick_succession_are_looked_at_once(tmp_path: Path) -> None:
    shapes = ResponseShapes(path=tmp_path / SHAPES_FILE, clock=FakeClock())
    for _ in range(5 * LEARNING_ANSWERS):
        shapes.observe("sea", URL, json.dumps(MARKET).encode())
    shapes.save()
    assert json.loads((tmp_path / SHAPES_FILE).read_text())["sea"]["v0/markets/*"]["answers"] == 1


def test_addresses_that_differ_in_names_and_numbers_are_one() -> None:
    assert address_pattern("https://a.example/api/posts/12/comments/?x=1") == "api/posts/*/comments"
    assert address_pattern("https://a.example/slug/will-it-rain") == "slug/*"


@given(body=st.binary(max_size=200), path=st.text(max_size=60))
def test_no_answer_and_no_address_breaks_it(tmp_path_factory: pytest.TempPathFactory, body: bytes, path: str) -> None:
    shapes = ResponseShapes(path=tmp_path_factory.getbasetemp() / SHAPES_FILE, clock=FakeClock())
    shapes.observe("sea", f"https://a.example/{path}", body)


def test_a_file_that_cannot_be_read_is_learned_again(tmp_path: Path) -> None:
    (tmp_path / SHAPES_FILE).write_text("[")
    assert read_shape_changes(tmp_path) == []
    assert read_shape_changes(tmp_path / "none") == []
