"""The validator against a file written by hand, bent in every way that docs/facts/forecastbench.md names."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bot.api import Question
from plugins.forecastbench.file_parser import parse_question_set
from plugins.forecastbench.forecast_set_validator import find_violations
from tests.plugins.forecastbench.records import market, question_file, series

NAME = "2026-03-01.Fox Team.2.json"

Payload = dict[str, Any]


@pytest.fixture
def questions() -> tuple[Question, ...]:
    return parse_question_set(question_file(market(), series())).questions


@pytest.fixture
def payload() -> Payload:
    return {
        "organization": "Fox Team",
        "model": "Fox",
        "model_organization": "Fox Team",
        "question_set": "2026-03-01-llm.json",
        "forecasts": [
            {"id": "m1", "source": "manifold", "forecast": 1, "resolution_date": None, "reasoning": ""},
            {"id": "CPIX", "source": "fred", "forecast": 0.0, "resolution_date": "2026-03-08", "reasoning": "a"},
            {"id": "CPIX", "source": "fred", "forecast": 0.3, "resolution_date": "2026-03-31", "reasoning": "b"},
        ],
    }


def found(payload: object, questions: tuple[Question, ...], name: str = NAME) -> tuple[str, ...]:
    return find_violations(json.dumps(payload).encode(), file_name=name, questions=questions)


def test_a_complete_file_breaks_no_rule(payload: Payload, questions: tuple[Question, ...]) -> None:
    assert found(payload, questions) == ()
    assert found(payload | {"leaderboard_eligible": False}, questions) == ()


@pytest.mark.parametrize(
    "name",
    [
        "2026-03-01.Fox Team.4.json",
        "2026-03-01.Fox Team.0.json",
        "2026-03-01.Fox Team.json",
        "2026-03-01.Another.1.json",
        "2026-03-15.Fox Team.1.json",
        "2026-03-01.Fox Team.1.json.gz",
    ],
)
def test_the_file_name_is_checked(name: str, payload: Payload, questions: tuple[Question, ...]) -> None:
    assert len(found(payload, questions, name)) == 1


@pytest.mark.parametrize("key", ["organization", "model", "model_organization", "question_set", "forecasts"])
@pytest.mark.parametrize("value", [None, "", [], 5])
def test_every_required_key_is_there_and_filled(
    key: str, value: object, payload: Payload, questions: tuple[Question, ...]
) -> None:
    assert any(key in why for why in found(payload | {key: value}, questions))


@pytest.mark.parametrize("extra", [{"comment": "x"}, {"leaderboard_eligible": "yes"}])
def test_other_keys_are_refused(extra: Payload, payload: Payload, questions: tuple[Question, ...]) -> None:
    assert len(found(payload | extra, questions)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 8670},
        {"id": "other"},
        {"source": "Manifold"},
        {"source": "metaculus"},
        {"source": None},
        {"forecast": None},
        {"forecast": "0.5"},
        {"forecast": True},
        {"forecast": 1.0001},
        {"forecast": -0.1},
        {"resolution_date": "2026-03-08"},
        {"resolution_date": "2026-03-09"},
        {"reasoning": None},
        {"direction": None},
    ],
)
def test_every_field_of_a_row_is_checked(changes: Payload, payload: Payload, questions: tuple[Question, ...]) -> None:
    payload["forecasts"][0] |= changes
    assert any(why.startswith("row 1: ") for why in found(payload, questions))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_row_is_too_much_for_a_small_round(
    number: int, payload: Payload, questions: tuple[Question, ...]
) -> None:
    del payload["forecasts"][number]
    assert any("missing" in why for why in found(payload, questions))


@pytest.mark.parametrize("number", [0, 1])
def test_no_row_comes_twice(number: int, payload: Payload, questions: tuple[Question, ...]) -> None:
    payload["forecasts"].append(payload["forecasts"][number] | {"forecast": 0.9})
    assert any("has 2 rows" in why for why in found(payload, questions))


@pytest.mark.parametrize(
    "bend",
    [
        lambda text: text.replace('"forecast": 0.3', '"forecast": NaN'),
        lambda text: text.replace('"forecast": 0.3', '"forecast": 0.3, "forecast": 0.4'),
        lambda text: text[:-1],
        lambda _: "[]",
        lambda _: "[" * 100_000,
        lambda text: text.replace("Fox Team", "\udcff"),
    ],
    ids=["not a number", "repeated key", "cut", "list", "deep", "not utf-8"],
)
def test_only_strict_json_passes(bend: Callable[[str], str], payload: Payload, questions: tuple[Question, ...]) -> None:
    content = bend(json.dumps(payload)).encode("utf-8", "surrogateescape")
    assert find_violations(content, file_name=NAME, questions=questions) != ()
