"""Whichever dialect a model is asked in, a trial asks, reads and explains itself in it."""

import json
from typing import Any

from bot.core.errors import ServiceUnavailableError
from bot.core.language_models import ModelCompletion, ModelDialect
from tests.plugins.blf.cases import believing, create_context, priced, probability, question, steps_of

BELIEVED = believing(61, field="percent")


async def test_the_json_dialect_asks_under_one_schema_per_action_with_percentages() -> None:
    answer = {
        "action": "submit",
        "arguments": {"reasoning": "", "percent": 73},
        "updated_belief": believing(70, field="percent"),
    }
    at = create_context(ModelCompletion(text=json.dumps(answer)), dialect=ModelDialect.JSON)
    steps, error = await steps_of(question(), at)
    assert error is None
    assert probability(steps[0]) == 0.73
    prompt = at.prompts[0].prompt
    assert prompt.tools == ()
    schema: Any = prompt.schema
    submits = schema["anyOf"][-1]["properties"]
    assert submits["action"]["const"] == "submit"
    stated, believed = (submits[part]["properties"]["percent"] for part in ("arguments", "updated_belief"))
    assert (stated["type"], stated["minimum"], stated["maximum"]) == ("number", 5, 95)
    assert (believed["type"], believed["minimum"], believed["maximum"]) == ("number", 2, 98)
    assert all(branch["additionalProperties"] is False for branch in schema["anyOf"])


async def test_a_fraction_called_percent_is_asked_for_again_instead_of_guessed() -> None:
    answer = [
        ModelCompletion(text=json.dumps({"action": "submit", "arguments": {"reasoning": "", "percent": percent}}))
        for percent in (0.7, 70)
    ]
    steps, _ = await steps_of(question(), create_context(*answer, dialect=ModelDialect.JSON))
    assert 'percent is 0.7, which may mean 0.7 % or 70 %; write 70, or "0.7 %"' in steps[0].observation.text
    assert probability(steps[0]) == 0.7


async def test_less_than_one_percent_is_a_text_with_its_sign_where_the_market_permits_that() -> None:
    answer = [
        ModelCompletion(text=json.dumps({"action": "submit", "arguments": {"reasoning": "", "percent": percent}}))
        for percent in (0.7, "0.7 %")
    ]
    at = create_context(*answer, dialect=ModelDialect.JSON)
    steps, error = await steps_of(priced(0.01), at)
    assert error is None
    assert probability(steps[0]) == 0.007
    schema: Any = at.prompts[0].prompt.schema
    asked = schema["anyOf"][-1]["properties"]["arguments"]["properties"]["percent"]
    assert [one["type"] for one in asked["anyOf"]] == ["number", "string"]
    assert (asked["anyOf"][0]["minimum"], asked["anyOf"][0]["maximum"]) == (1.0, 99.5)
    assert "Answer between 0.5 % and 99.5 %" in at.prompts[0].prompt.messages[0].text


async def test_percentages_have_a_decimal_where_it_matters() -> None:
    answer = {"action": "submit", "arguments": {"reasoning": "", "percent": 93.4}}
    at = create_context(ModelCompletion(text=json.dumps(answer)), dialect=ModelDialect.JSON)
    steps, _ = await steps_of(question(), at)
    assert probability(steps[0]) == 0.934
    assert "submitted 93.4 %" in steps[0].observation.text


async def test_who_is_asked_for_percentages_is_also_told_in_percentages() -> None:
    answer = ModelCompletion(
        text=json.dumps({"action": "web_search", "arguments": {"query": "x"}, "updated_belief": BELIEVED})
    )
    at = create_context(answer, ServiceUnavailableError("enough"), dialect=ModelDialect.JSON)
    await steps_of(priced(0.8), at)
    system, first, *_, last = [message.text for message in at.prompts[-1].prompt.messages]
    assert "between 5.0 % and 95.0 %, with one decimal below 10 % and above 90 %" in system
    assert "less than 3 points" in system
    assert "estimate was: 80 %" in first
    assert "percent: 61 %" in last
