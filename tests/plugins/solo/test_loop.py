"""The line of moves: what may be called when, what comes of it, and how it ends whatever the model does."""

import json
from dataclasses import replace

import pytest

from bot.core.errors import ConfigError, MalformedDataError, ServiceUnavailableError, TrialLimitReachedError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import MessageRole, ModelCompletion, ModelDialect
from bot.testing.trial_context import (
    ScriptedModel,
    answer_in_turn,
    changed_prefixes,
    fixed_text_tool,
    offered_tool_names,
)
from plugins.solo.settings import SoloSettings
from tests.plugins.solo.cases import (
    CHOICE,
    CURVE,
    TEXT,
    critique,
    evidence,
    final,
    last_said,
    move,
    priced,
    probability,
    question,
    scripted_context,
    search,
    steps_of,
    submit,
    update,
)


async def test_a_trial_thinks_searches_updates_hears_a_critic_and_submits() -> None:
    at = scripted_context(
        move("think", thought="First the base rate."),
        search(),
        update(0.4, evidence_for=evidence("search_1_result_1")),
        move("feedback", doubt="the base rate"),
        submit(0.45),
        critic=(critique("The base rate was left out."),),
    )
    steps, error = await steps_of(priced(0.3), at)
    assert error is None
    assert [step.action.name for step in steps] == ["think", "web_search", "update", "feedback", "submit"]
    assert [probability(step) for step in steps] == [0.3, 0.3, 0.4, 0.4, 0.45]
    assert steps[0].action.arguments == {"thought": "First the base rate."}
    assert steps[0].remarks == ("began with 0.3: the crowd's estimate of 2026-01-09",)
    assert steps[2].belief.reason == "It will.\nIt is on its way."
    assert steps[2].belief.searches == ("ship",)
    assert [item.text for item in steps[-1].belief.evidence_for] == ["fact 0"]
    assert all(step.observation.documents for step in steps)


async def test_every_answer_is_paid_once_also_those_of_the_critic() -> None:
    at = scripted_context(update(0.4), move("feedback", doubt="?"), submit(0.4), critic=(critique("Too low."),))
    steps, _ = await steps_of(question(), at)
    assert [step.usage.calls for step in steps] == [1, 2, 1]


async def test_never_two_thoughts_in_a_row_and_feedback_on_a_belief_alone_and_not_for_ever() -> None:
    at = scripted_context(
        move("think", thought="a"),
        update(0.4),
        move("feedback", doubt="?"),
        move("think", thought="b"),
        submit(0.4),
        critic=(critique("Too low."),),
    )
    await steps_of(question(), at)
    main = [
        set(offered_tool_names(asked.prompt)) & {"think", "feedback"} for asked in at.prompts if asked.role == "main"
    ]
    assert main == [{"think"}, set(), {"think", "feedback"}, {"think"}, set()]


async def test_a_thought_that_was_not_offered_is_answered_neutrally() -> None:
    at = scripted_context(move("think", thought="a"), move("think", thought="b"), submit(0.4))
    steps, _ = await steps_of(question(), at)
    assert steps[1].observation.text.startswith("think cannot be called now.")
    assert "submit" not in steps[1].observation.text


async def test_the_last_step_offers_only_to_submit() -> None:
    at = scripted_context(search("a"), search("b"), submit(0.4), limits=TrialLimits(steps=3))
    await final(question(), at)
    assert offered_tool_names(at.prompts[-1].prompt) == ["submit"]


async def test_silence_ends_the_trial_with_the_last_belief_and_its_reason() -> None:
    at = scripted_context(update(0.4), ModelCompletion(text="Let me think about it."), ModelCompletion(text="Hm."))
    steps, error = await steps_of(question(), at)
    assert isinstance(error, MalformedDataError)
    assert [step.action.name for step in steps] == ["update", "stop"]
    assert probability(steps[-1]) == 0.4
    assert "ended without submitting" in steps[-1].observation.text


async def test_the_same_call_again_and_again_ends_the_trial() -> None:
    at = scripted_context(search(), search(), search(), search())
    steps, error = await steps_of(priced(0.3), at)
    assert isinstance(error, TrialLimitReachedError)
    assert error.limit == "repeats"
    assert len(steps) == 3
    assert len(at.tool_calls) == 1
    assert "again and again" in str(error)
    assert probability(steps[-1]) == 0.3


async def test_a_trial_ends_when_its_tokens_are_used_up() -> None:
    steps, error = await steps_of(priced(0.3), scripted_context(search(), search("b")), SoloSettings(tokens=10))
    assert isinstance(error, TrialLimitReachedError)
    assert error.limit == "tokens"
    assert len(steps) == 1


async def test_a_provider_that_is_gone_leaves_the_last_belief() -> None:
    steps, error = await steps_of(question(), scripted_context(update(0.7), ServiceUnavailableError("gone")))
    assert isinstance(error, ServiceUnavailableError)
    assert probability(steps[-1]) == 0.7


async def test_without_a_model_there_is_no_trial() -> None:
    at = scripted_context()
    at.models = {}
    steps, error = await steps_of(question(), at)
    assert (steps, type(error)) == ([], ConfigError)


async def test_an_update_that_cannot_be_read_is_repaired_once_and_then_left_out() -> None:
    at = scripted_context(update("high"), update(1.7), submit(0.3))
    steps, error = await steps_of(priced(0.2), at)
    assert error is None
    assert [step.action.name for step in steps] == ["update", "submit"]
    assert probability(steps[0]) == 0.2
    assert "belief kept: probability should be between 0 and 1" in steps[0].observation.text


async def test_a_tool_of_the_context_never_stands_in_the_place_of_one_of_its_own() -> None:
    at = scripted_context(
        move("update", anything=1), submit(0.3), tools=(fixed_text_tool("update", "mine", anything=TEXT),)
    )
    at.models = {"main": ScriptedModel(answer_in_turn(update(0.4), submit(0.4)))}
    await final(question(), at)
    assert at.tool_calls == []
    assert offered_tool_names(at.prompts[0].prompt).count("update") == 1


async def test_what_the_model_believes_is_printed_back_after_an_update() -> None:
    at = scripted_context(update(0.4, key_uncertainties=["the wind"]), submit(0.4))
    await final(question(), at)
    said = last_said(at.prompts[1].prompt)
    assert "probability: 0.4" in said
    assert "- the wind" in said


async def test_a_grammar_held_model_answers_in_whole_percent() -> None:
    def written(name: str, **arguments: object) -> ModelCompletion:
        return ModelCompletion(text=json.dumps({"action": name, "arguments": arguments}))

    reasons = {"bottom_line": "It will.", "rationale": "So."}
    at = scripted_context(
        written("update", percent=40, confidence="low", **reasons),
        written("submit", percent=45, **reasons),
        dialect=ModelDialect.JSON,
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    assert [probability(step) for step in steps] == [0.4, 0.45]


@pytest.mark.parametrize(
    ("shape", "field", "value"),
    [
        (CHOICE, "probabilities", {"red": 0.5, "green": 0.3, "blue": 0.2}),
        (CURVE, "quantiles", {"p5": 10, "p10": 20, "p25": 30, "p50": 40, "p75": 50, "p90": 60, "p95": 70}),
    ],
)
async def test_other_shapes_work_by_the_same_moves(shape: object, field: str, value: object) -> None:
    asked = question(shape)  # type: ignore[arg-type]  # one of the three shapes
    at = scripted_context(search(), update(value, field=field), submit(value, field=field))
    steps, error = await steps_of(asked, at)
    assert error is None
    assert steps[1].belief.predictions == steps[2].belief.predictions
    assert steps[0].belief.predictions != steps[1].belief.predictions


async def test_each_of_several_dates_has_an_answer_of_its_own() -> None:
    dates = ("2026-02-01", "2026-03-01")
    values = dict(zip(dates, (0.2, 0.35), strict=True))
    step = await final(question(targets=dates), scripted_context(update(values), submit(values)))
    assert {key: str(said) for key, said in step.belief.predictions.items()} == {
        key: f"BinaryPrediction(probability={value}, kind='binary')" for key, value in values.items()
    }


async def test_two_trials_of_the_same_record_are_the_same() -> None:
    script = (move("think", thought="a"), search(), update(0.4), submit(0.42))
    first, again = [await steps_of(priced(0.3), scripted_context(*script)) for _ in range(2)]
    assert first == again


async def test_a_belief_before_anything_was_looked_up_is_not_stated_and_a_thought_or_a_critic_changes_nothing() -> None:
    at = scripted_context(
        move("think", thought="a"),
        update(0.4),
        move("feedback", doubt="?"),
        update(0.3),
        search(),
        update(0.2),
        ServiceUnavailableError("gone"),
        critic=(critique("Too low."),),
    )
    steps, _ = await steps_of(question(), at)
    assert [probability(step) for step in steps][-2:] == [0.2, 0.2]
    assert [step.belief.stated for step in steps] == [False] * 5 + [True, True]
    assert changed_prefixes([one for one in at.prompts if one.role == "main"]) == []


async def test_whoever_takes_over_reads_what_the_other_one_found() -> None:
    at = scripted_context(search(), ServiceUnavailableError("gone"))
    spare = ScriptedModel(answer_in_turn(submit(0.4)), name="scripted:spare")
    at.models["main"] = replace(at.models["main"], fallback=spare)
    assert probability(await final(question(), at)) == 0.4
    system, told = at.prompts[-1].prompt.messages
    assert (system, told.speaker) == (at.prompts[0].prompt.messages[0], MessageRole.USER)
    assert "## Work so far" in told.text
    assert "https://news.pier.co.uk/a" in told.text
