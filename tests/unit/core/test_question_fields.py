"""What the engine reads of a question is a field with a type; a fact of that name, or another type, is refused."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.core.predictions import BinaryShape
from bot.core.questions import FACT_FIELDS, Question, QuestionRef, Target

CLOSES = datetime(2026, 3, 1, tzinfo=UTC)


def ask(**changes: Any) -> Question:
    ref = QuestionRef("lantern", "rain")
    return Question(ref=ref, title="Will it rain?", shape=BinaryShape(), targets=(Target(),), **changes)


@pytest.mark.parametrize(("fact", "field"), FACT_FIELDS.items())
def test_a_fact_under_the_name_of_a_field_is_refused_with_that_field(fact: str, field: str) -> None:
    with pytest.raises(ValueError, match=rf"^lantern:rain: facts\['{fact}'\] is the field Question.{field}; "):
        ask(facts={"station": "north", fact: "1"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"event": 77}, "event is 77, which is not a text"),
        ({"tags": "politics"}, "tags is one text; give a tuple of them"),
        ({"creator": None}, "creator is None, which is not a text"),
        ({"weight": "0.5"}, "weight is '0.5', which is not a number from 0"),
        ({"weight": -1.0}, "weight is -1.0, which is not a number from 0"),
        ({"weight": float("nan")}, "weight is nan, which is not a number from 0"),
        ({"weight": True}, "weight is True, which is not a number from 0"),
        ({"allows_training": "no"}, "allows_training is 'no', which is not True or False"),
        ({"market_closes_at": "2026-03-01"}, "market_closes_at is '2026-03-01', which is no datetime"),
        ({"spot_at": CLOSES.replace(tzinfo=None)}, "spot_at 2026-03-01T00:00:00 has no time zone"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_question_and_the_field(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^lantern:rain: {words}$"):
        ask(**fields)


def test_facts_and_fields_are_listed_together_as_texts() -> None:
    asked = ask(event="north", weight=1.0, spot_at=CLOSES, allows_training=False, facts={"station": "Orly"})
    assert dict(asked.published_facts) == {
        "event": "north",
        "spot_at": "2026-03-01T00:00:00+00:00",
        "station": "Orly",
        "training": "no",
        "weight": "1",
    }
