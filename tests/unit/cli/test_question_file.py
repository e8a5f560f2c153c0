"""Question files: what each key becomes, and what is said of each fault."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.question_file import MAX_BYTES, read_question, title_to_key
from bot.core.distributions import curve_quantiles
from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
)
from bot.core.questions import Question, QuestionRef, Target
from bot.store.serialization import question_version

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def read(tmp_path: Path, text: str, name: str = "q.toml") -> Question:
    path = tmp_path / name
    path.write_text(text)
    return read_question(path, now=NOW)


def test_a_title_is_enough(tmp_path: Path) -> None:
    question = read(tmp_path, 'title = "Will it rain in Paris?"')
    assert question == Question(
        ref=QuestionRef("file", "will-it-rain-in-paris"),
        title="Will it rain in Paris?",
        shape=BinaryShape(),
        targets=(Target(),),
        family="binary",
    )


WHOLE = """
title = "Rain?"
key = "rain"
criteria = "As the weather service says."
background = "It rains."
url = "https://almanac.example/rain"
source = "almanac"
closes_at = 2026-12-31
as_of = 2026-11-20T06:00:00+02:00
targets = [2026-12-01, { key = "late", resolves_at = "2026-12-15T18:00" }]
facts = { station = "Orly" }
[crowd]
probability = 0.4
at = 2026-11-19
explanation = "a market"
"""


def test_each_key_becomes_what_it_says_and_moments_are_of_utc_unless_they_say_otherwise(tmp_path: Path) -> None:
    question = read(tmp_path, WHOLE)
    assert str(question.ref) == "file:rain"
    assert (question.criteria, question.background) == ("As the weather service says.", "It rains.")
    assert (question.url, question.source) == ("https://almanac.example/rain", "almanac")
    assert question.closes_at == datetime(2026, 12, 31, tzinfo=UTC)
    assert question.as_of == datetime(2026, 11, 20, 4, tzinfo=UTC)
    assert question.targets == (
        Target(key="2026-12-01", resolves_at=datetime(2026, 12, 1, tzinfo=UTC)),
        Target(key="late", resolves_at=datetime(2026, 12, 15, 18, tzinfo=UTC)),
    )
    assert dict(question.facts) == {"station": "Orly"}
    assert question.crowd is not None
    assert (question.crowd.prediction, question.crowd.at) == (BinaryPrediction(0.4), datetime(2026, 11, 19, tzinfo=UTC))


def test_a_fact_with_a_field_of_its_own_becomes_that_field(tmp_path: Path) -> None:
    """A data source finds its series by the id of a question at its source."""
    question = read(
        tmp_path, 'title = "Up?"\nsource = "fred"\nfacts = { id = "DGS10", weight = "2", station = "Orly" }'
    )
    assert (question.source, question.source_id, question.weight) == ("fred", "DGS10", 2.0)
    assert dict(question.facts) == {"station": "Orly"}


def test_a_fact_of_another_type_than_its_field_is_refused_with_file_and_key(tmp_path: Path) -> None:
    with pytest.raises(MalformedDataError, match=r"q.toml: facts.weight: 'heavy' is not a number from 0$"):
        read(tmp_path, 'title = "Up?"\nfacts = { weight = "heavy" }')
    with pytest.raises(MalformedDataError, match=r"q.toml: facts.spot_at: 'soon' is not a moment such as 2026-12-31"):
        read(tmp_path, 'title = "Up?"\nfacts = { spot_at = "soon" }')


def test_json_has_the_same_keys(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"title": "Who?", "shape": {"kind": "choice", "options": ["Ann", "Bob"]}}
    plain["crowd"] = {"probabilities": {"Ann": 0.75, "Bob": 0.25}}
    question = read(tmp_path, json.dumps(plain), "q.json")
    assert question.shape == ChoiceShape(options=("Ann", "Bob"))
    assert question.crowd is not None
    assert question.crowd.prediction == ChoicePrediction({"Ann": 0.75, "Bob": 0.25})


def test_a_range_is_divided_evenly_into_its_points(tmp_path: Path) -> None:
    text = 'title = "x"\n[shape]\nkind = "number"\nunit = "mm"\nrange = [0, 10]\npoints = 5\nopen_upper = true\n'
    assert read(tmp_path, text).shape == CurveShape(grid=(0.0, 2.5, 5.0, 7.5, 10.0), unit="mm", open_upper=True)


def test_dates_are_seconds_since_1970(tmp_path: Path) -> None:
    text = 'title = "x"\n[shape]\nkind = "date"\ngrid = [1970-01-02, "1970-01-03", 1970-01-04T12:00:00Z]\n'
    assert read(tmp_path, text).shape == CurveShape(grid=(86_400.0, 172_800.0, 302_400.0), unit="date")


def test_quantiles_of_a_crowd_become_a_curve_through_them(tmp_path: Path) -> None:
    shape = '[shape]\nkind = "number"\nrange = [0, 10]\n'
    question = read(tmp_path, f'title = "x"\n{shape}[crowd]\nquantiles = {{ "0.1" = 2, "0.5" = 5, "0.9" = 9 }}\n')
    assert question.crowd is not None
    assert isinstance(question.crowd.prediction, CurvePrediction)
    assert isinstance(question.shape, CurveShape)
    found = curve_quantiles(question.crowd.prediction, question.shape, [0.1, 0.5, 0.9])
    assert [*found.values()] == pytest.approx([2, 5, 9], abs=0.05)


def test_a_crowd_without_a_moment_is_of_the_last_one_that_may_be_known(tmp_path: Path) -> None:
    dated = read(tmp_path, 'title = "x"\nas_of = 2026-11-01\n[crowd]\nprobability = 0.5\n')
    live = read(tmp_path, 'title = "x"\n[crowd]\nprobability = 0.5\n')
    assert dated.crowd is not None
    assert live.crowd is not None
    assert (dated.crowd.at, live.crowd.at) == (dated.as_of, NOW)


def test_the_same_file_read_later_is_the_same_version_so_that_a_forecast_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_text('title = "x"\n[crowd]\nprobability = 0.5\n')
    first, second = (read_question(path, now=NOW + timedelta(minutes=late)) for late in (0, 30))
    assert question_version(first) == question_version(second)


FAULTS = {
    "no title": ("", "title: is missing; add title = "),
    "misspelt key": ('title = "x"\nclose_at = 2026-12-01', "close_at: there is no such key; did you mean closes_at?"),
    "misspelt inner key": ('title = "x"\n[crowd]\nprobabilty = 0.1', "crowd.probabilty: there is no such key"),
    "number for text": ("title = 3", "title: should be text (found a number)"),
    "no table": ('title = "x"\nshape = "binary"', "shape: should be a table (found text)"),
    "odd kind": ('title = "x"\nshape.kind = "yes"', "shape.kind: should be 'binary', 'choice', 'number' or 'date'"),
    "no number": ('title = "x"\n[crowd]\nprobability = nan', "crowd.probability: should be a number (found nan)"),
    "no moment": ('title = "x"\ncloses_at = "soon"', "closes_at: should be a time such as 2026-12-31"),
    "future knowledge": ('title = "x"\nas_of = 2027-01-01', "as_of: is in the future; remove it"),
    "crowd too new": (
        'title = "x"\nas_of = 2026-11-01\ncrowd = { probability = 0.5, at = 2026-11-02 }',
        "crowd.at: 2026-11-02T00:00:00+00:00 is after 2026-11-01",
    ),
    "crowd of two kinds": (
        'title = "x"\ncrowd = { probability = 0.5, cdf = [0.0, 1.0] }',
        "crowd: the crowd of a binary question is given by probability, and by nothing else",
    ),
    "crowd above 1": ('title = "x"\ncrowd.probability = 2.0', "crowd.probability: should be less than or equal to 1"),
    "crowd of other options": (
        'title = "x"\nshape = { kind = "choice", options = ["A", "B"] }\ncrowd.probabilities = { A = 0.5, C = 0.5 }',
        "options ['A', 'C'] are not ['A', 'B']",
    ),
    "falling quantiles": (
        'title = "x"\nshape = { kind = "number", range = [0, 9] }\ncrowd.quantiles = { "0.1" = 5, "0.9" = 1 }',
        "crowd.quantiles: quantiles must be finite and must not decrease",
    ),
    "one option": ('title = "x"\nshape = { kind = "choice", options = ["A"] }', "shape: a choice needs two or more"),
    "options of a binary": ('title = "x"\nshape.options = ["A", "B"]', "shape: a binary question has no options"),
    "no grid": ('title = "x"\nshape.kind = "number"', "needs either grid = [...] or range = [LOW, HIGH]"),
    "grid and range": (
        'title = "x"\nshape = { kind = "number", grid = [1, 2], range = [1, 2] }',
        "needs either grid = [...] or range = [LOW, HIGH]",
    ),
    "points of a grid": (
        'title = "x"\nshape = { kind = "number", grid = [1, 2], points = 2 }',
        "points divides a range and cannot be used with grid",
    ),
    "range backwards": (
        'title = "x"\nshape = { kind = "number", range = [9, 1] }',
        "range should go from the lower to the higher bound",
    ),
    "dates as numbers": (
        'title = "x"\nshape = { kind = "number", range = ["2026-01-01", 3] }',
        "'2026-01-01' is not a number; for dates set kind = \"date\"",
    ),
    "unit of a date": (
        'title = "x"\nshape = { kind = "date", unit = "d", range = [2026-12-01, 2026-12-02] }',
        "unit is for numbers; remove it",
    ),
    "truth in a grid": ('title = "x"\nshape = { kind = "number", grid = [true, 3] }', "(found true or false)"),
    "nameless target": ('title = "x"\ntargets = [{}]', "targets[0]: a target needs resolves_at or a key"),
    "twice the same date": ('title = "x"\ntargets = [2026-12-01, 2026-12-01]', "all with different keys"),
    "no letter": ('title = "??"', 'add one, such as key = "rain-in-paris"'),
    "half a line": ("title = ", "is not valid TOML"),
    "no such day": ('title = "x"\ncloses_at = 2026-02-30', "is not valid TOML"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_file_key_and_remedy(tmp_path: Path, name: str) -> None:
    text, words = FAULTS[name]
    with pytest.raises(MalformedDataError) as refused:
        read(tmp_path, text)
    assert all(line.startswith(f"{tmp_path / 'q.toml'}: ") for line in str(refused.value).splitlines())
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff", "is not UTF-8 text"),
        (b"[]", "should be one table"),
        (b"{", "is not valid JSON"),
        (b"[" * 99_999, "too deeply"),
    ],
    ids=["bytes", "list", "half", "deep"],
)
def test_json_that_is_no_question_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "q.json"
    path.write_bytes(content)
    with pytest.raises(MalformedDataError, match=words):
        read_question(path, now=NOW)


def test_a_file_that_is_too_large_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    with pytest.raises(NotFoundError, match=r"cannot be read: No such file"):
        read_question(path, now=NOW)
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(MalformedDataError, match="larger than"):
        read_question(path, now=NOW)


@given(st.text(min_size=1, max_size=200))
def test_a_key_made_of_a_title_has_no_space_and_makes_itself(title: str) -> None:
    try:
        key = title_to_key(title)
    except ValueError as error:
        assert "add one" in str(error)  # noqa: PT017 - one of the two ways to end
        return
    assert key
    assert len(key.split()) == 1
    assert title_to_key(key) == key
