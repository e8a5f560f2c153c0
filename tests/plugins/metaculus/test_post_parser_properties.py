"""Whatever the site sends, it is read, or it is a complaint about one record."""

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import MalformedDataError, Question
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.metaculus.question_names import question_ref
from plugins.metaculus.resolutions import question_resolution
from plugins.metaculus.write_requests import active_since, is_withdrawn
from tests.plugins.metaculus.records import Record, choice, group, numeric, post, question

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HISTORY = {"start_time": 1767225600.5, "end_time": None, "forecast_values": [0.3, 0.7]}
MINE = {"history": [HISTORY], "latest": HISTORY, "score_data": {}}
CROWD = {"recency_weighted": {"history": [], "latest": {"start_time": 1.5, "centers": [0.4], "forecast_values": [0.6]}}}
WHOLE: Record = {"my_forecasts": MINE, "aggregations": CROWD, "resolution_set_time": "2026-01-05T00:00:00Z"}


def conditional() -> Record:
    made = post(conditional={"id": 1, "condition": question(1), "condition_child": question(2)})
    del made["question"]
    made["conditional"] |= {"question_yes": question(3, **WHOLE), "question_no": question(4, **WHOLE)}
    return made


POSTS = [
    post(question=question(resolution="yes", status="resolved", **WHOLE)),
    post(question=numeric(resolution="42.5", status="resolved", **WHOLE)),
    post(question=numeric(type="date", resolution="2026-01-05 00:00:00+00:00", status="resolved", **WHOLE)),
    post(question=choice(resolution="Red", status="resolved", options_history=[["0001-01-01T00:00:00", []]], **WHOLE)),
    group(question(50001, **WHOLE), question(50002, **WHOLE)),
    conditional(),
]
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=True)
    | st.text(max_size=5)
    | st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "annulled", "1e400", "\ud800", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places(value: object, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a record."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, *path, key)


def bent(whole: Record, path: tuple[Any, ...], odd: object) -> object:
    if not path:
        return odd
    made: Any = deepcopy(whole)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return made


def read(raw: object) -> int:
    """Do all that the plugin does with a post; returns how many of its questions could be used."""
    unpacked, used = MetaculusParsedPosts(), 0
    unpacked.add_post(raw)
    for entry in unpacked.entries:
        with suppress(MalformedDataError):
            used += isinstance(build_question(entry), Question)
        with suppress(MalformedDataError):
            question_resolution(entry.question, question_ref(*entry.key))
        for item in ({"probability_yes": 0.7}, {"continuous_cdf": [0.3]}, {"probability_yes_per_category": {"Red": 1}}):
            with suppress(MalformedDataError):
                active_since(entry.question, item, NOW)
                is_withdrawn(entry.question, NOW)
    return used


@pytest.mark.parametrize("whole", POSTS, ids=range(len(POSTS)))
def test_the_records_are_whole_to_begin_with(whole: Record) -> None:
    assert read(whole) >= 1


@pytest.mark.parametrize("whole", POSTS, ids=range(len(POSTS)))
@given(data=st.data())
def test_one_odd_value_anywhere_raises_nothing(whole: Record, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(places(whole))))
    read(bent(whole, path, data.draw(ODD)))


@given(raw=ODD)
def test_what_is_no_post_at_all_is_one_complaint(raw: object) -> None:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(raw)
    assert len(unpacked.complaints) == 1
    json.dumps(unpacked.complaints)


@given(odd=ODD, other=st.sampled_from(list(places(question(50001, **WHOLE)))))
def test_an_odd_sub_question_costs_no_sibling(odd: object, other: tuple[Any, ...]) -> None:
    bad = bent(question(50001, **WHOLE), other, odd)
    assert read(group(bad, question(50002, **WHOLE))) >= 1
