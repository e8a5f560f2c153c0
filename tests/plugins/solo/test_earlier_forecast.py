"""Its own earlier forecast: repeated within its window, a place to start from until it is stale."""

from datetime import timedelta
from typing import Any

import pytest

from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction
from bot.forecasting.forecast_run import REQUESTED_REASON as WORD_OF_THE_ENGINE
from bot.testing.trial_context import fixed_text_tool
from plugins.solo.earlier_forecast import ASKED_FOR
from plugins.solo.settings import SoloSettings
from tests.plugins.solo.cases import (
    CHOICE,
    CURVE,
    CUTOFF,
    earlier,
    final,
    priced,
    probability,
    question,
    scripted_context,
    steps_of,
    submit,
)


def ago(**span: float) -> str:
    return (CUTOFF - timedelta(**span)).isoformat()


async def test_within_the_window_the_forecast_is_repeated_and_no_model_is_asked() -> None:
    at = scripted_context(tools=(earlier(),))
    at.models = {}
    step = await final(priced(0.305), at)
    assert (step.action.name, probability(step)) == ("repeat", 0.25)
    assert at.prompts == []
    (remark,) = step.remarks
    assert "less than 3 days old" in remark
    assert step.observation.documents == ("d" * 64,)


@pytest.mark.parametrize(
    "changed",
    [
        {"since": ago(days=3)},
        {"same_text": False},
        {"crowd": {"kind": "binary", "probability": 0.5}},
        {"crowd": None},
        {"why": ASKED_FOR},
    ],
)
async def test_it_is_made_anew_when_it_is_old_the_question_changed_or_a_person_asked(changed: dict[str, Any]) -> None:
    step = await final(priced(0.3), scripted_context(submit(0.6), tools=(earlier(**changed),)))
    assert probability(step) == 0.6


def test_the_word_for_what_a_person_asked_is_the_engines() -> None:
    assert ASKED_FOR == WORD_OF_THE_ENGINE


async def test_a_window_of_nothing_repeats_nothing() -> None:
    step = await final(priced(0.3), scripted_context(submit(0.6), tools=(earlier(),)), SoloSettings(reuse_days=0))
    assert probability(step) == 0.6


async def test_on_no_price_then_and_now_it_is_repeated() -> None:
    assert probability(await final(question(), scripted_context(tools=(earlier(crowd=None),)))) == 0.25


async def test_a_chain_of_repeats_counts_from_the_first() -> None:
    told = earlier(made_at=ago(hours=1), since=ago(days=3, hours=1))
    assert probability(await final(priced(0.3), scripted_context(submit(0.6), tools=(told,)))) == 0.6


async def test_one_that_is_not_stale_is_where_the_next_begins() -> None:
    at = scripted_context(submit(0.6), tools=(earlier(since=ago(days=5)),))
    steps, _ = await steps_of(priced(0.3), at)
    assert steps[0].remarks[0] == "began with 0.25: your own forecast of 2026-01-05"
    first = at.prompts[0].prompt.messages[1].text
    assert "2026-01-08: 0.250" in first
    assert "Depart from the newest" in first


async def test_a_stale_one_is_told_as_such_and_the_trial_begins_with_the_crowd() -> None:
    at = scripted_context(submit(0.6), tools=(earlier(since=ago(days=7)),))
    steps, _ = await steps_of(priced(0.3), at)
    assert steps[0].remarks[0].startswith("began with 0.3: the crowd's estimate")
    assert "begin anew" in at.prompts[0].prompt.messages[1].text


async def test_one_of_another_text_is_no_place_to_begin() -> None:
    steps, _ = await steps_of(priced(0.3), scripted_context(submit(0.6), tools=(earlier(same_text=False),)))
    assert steps[0].remarks[0].startswith("began with 0.3: the crowd's estimate")


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        (
            question(CHOICE),
            {"kind": "choice", "probabilities": {"red": 0.5, "green": 0.25, "blue": 0.25}},
            ChoicePrediction({"red": 0.5, "green": 0.25, "blue": 0.25}),
        ),
        (
            question(CURVE),
            {"kind": "curve", "cdf": [place / 21 for place in range(21)]},
            CurvePrediction(tuple(place / 21 for place in range(21))),
        ),
        (question(), {"kind": "binary", "probability": 1}, BinaryPrediction(1.0)),
    ],
)
async def test_all_shapes_are_repeated_as_they_were(asked: Any, said: Any, expected: Any) -> None:
    told = earlier(predictions={"outcome": said}, crowd=None)
    assert (await final(asked, scripted_context(tools=(told,)))).belief.predictions == {"outcome": expected}


async def test_a_context_that_knows_of_none_is_no_hindrance() -> None:
    step = await final(
        priced(0.3), scripted_context(submit(0.6), tools=(fixed_text_tool("earlier_forecasts", "There are none."),))
    )
    assert probability(step) == 0.6
