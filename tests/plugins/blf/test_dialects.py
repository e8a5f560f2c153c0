"""Whichever dialect a model is asked in, a trial asks, reads and explains itself in it."""

import json
from typing import Any

from bot.domain.prompt import Completion, Dialect
from bot.errors import Unavailable
from tests.plugins.blf.cases import believing, desk, priced, probability, question, steps_of

BELIEVED = believing(61, field="percent")


async def test_the_json_dialect_asks_under_one_schema_per_action_with_whole_percentages() -> None:
    said = {
        "action": "submit",
        "arguments": {"reasoning": "", "percent": 73},
        "updated_belief": believing(70, field="percent"),
    }
    at = desk(Completion(text=json.dumps(said)), dialect=Dialect.JSON)
    steps, error = await steps_of(question(), at)
    assert error is None
    assert probability(steps[0]) == 0.73
    prompt = at.asked[0].prompt
    assert prompt.tools == ()
    schema: Any = prompt.schema
    submits = schema["anyOf"][-1]["properties"]
    assert submits["action"]["const"] == "submit"
    assert submits["arguments"]["properties"]["percent"] == {"type": "integer", "minimum": 5, "maximum": 95}
    assert submits["updated_belief"]["properties"]["percent"] == {"type": "integer", "minimum": 2, "maximum": 98}
    assert all(branch["additionalProperties"] is False for branch in schema["anyOf"])


async def test_a_fraction_called_percent_is_asked_for_again_instead_of_guessed() -> None:
    said = [
        Completion(text=json.dumps({"action": "submit", "arguments": {"reasoning": "", "percent": percent}}))
        for percent in (0.7, 70)
    ]
    steps, _ = await steps_of(question(), desk(*said, dialect=Dialect.JSON))
    assert "whole percentage" in steps[0].observation.text
    assert probability(steps[0]) == 0.7


async def test_who_is_asked_for_percentages_is_also_told_in_percentages() -> None:
    said = Completion(
        text=json.dumps({"action": "web_search", "arguments": {"query": "x"}, "updated_belief": BELIEVED})
    )
    at = desk(said, Unavailable("enough"), dialect=Dialect.JSON)
    await steps_of(priced(0.8), at)
    system, first, *_, last = [message.text for message in at.asked[-1].prompt.messages]
    assert "between 5 % and 95 %" in system
    assert "less than 3 points" in system
    assert "estimate was: 80 %" in first
    assert "percent: 61 %" in last
