"""A belief counts as stated only behind evidence; a limit says which it was, whatever ended the trial."""

from collections.abc import Mapping

import pytest

from bot.core.beliefs import Step, StepObservation, ToolResult
from bot.core.errors import (
    ContextLengthExceededError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.language_models import ModelCompletion, Prompt
from bot.core.research import SourcePolicy
from bot.core.values import Json
from bot.testing.trial_context import ScriptedAnswer, ScriptedModel, ScriptedTool, answer_in_turn, fixed_text_tool
from plugins.blf.settings import BlfSettings, SearchMode
from tests.plugins.blf.cases import believing, move, probability, question, search, searches, steps_of, submit
from tests.plugins.blf.cases import create_context as context

BELIEVED = believing(0.6)
NUMBERS = fixed_text_tool("series_model", "12 points")


def stated(steps: list[Step]) -> list[bool]:
    return [step.belief.stated for step in steps]


async def test_a_number_given_before_any_evidence_is_not_stated_and_the_next_one_is() -> None:
    at = context(search("a", BELIEVED), search("b", believing(0.7)), submit(0.8, believing(0.8)))
    steps, error = await steps_of(question(), at)
    assert error is None
    assert [probability(step) for step in steps] == [0.6, 0.7, 0.8]
    assert stated(steps) == [False, True, True]


async def test_what_is_submitted_is_stated_also_without_evidence() -> None:
    steps, _ = await steps_of(question(), context(submit(0.8, believing(0.8))))
    assert stated(steps) == [True]
    steps, _ = await steps_of(question(), context(submit(0.8)), BlfSettings(belief=False))
    assert stated(steps) == [True]


async def test_what_failed_brings_no_evidence() -> None:
    failing = ScriptedTool(
        searches().tool, lambda _: ToolResult(observation=StepObservation(text="no engine answers"), failed=True)
    )
    at = context(
        search("a", BELIEVED),
        move("fly", {}, BELIEVED),
        search("b", BELIEVED),
        RequestRejectedError("no money"),
        scripted_tools=[failing],
    )
    steps, _ = await steps_of(question(), at)
    assert stated(steps) == [False] * 4


async def test_an_update_that_cannot_be_read_states_nothing() -> None:
    at = context(search("a", BELIEVED), search("b", believing("many")), search("c"), ServiceUnavailableError("down"))
    steps, _ = await steps_of(question(), at)
    assert stated(steps) == [False] * 4
    assert [(one.beliefs, one.unread_beliefs, one.errors) for one in at.reported_performances] == [(3, 2, 1)]


async def test_a_belief_that_was_stated_stays_so() -> None:
    at = context(
        search("a", BELIEVED), search("b", BELIEVED), search("c", believing("many")), ServiceUnavailableError("down")
    )
    steps, error = await steps_of(question(), at)
    assert isinstance(error, ServiceUnavailableError)
    assert stated(steps) == [False, True, True, True]


@pytest.mark.parametrize(
    ("said", "count", "limit"),
    [
        # The last step: anything but to submit ends it there.
        ([search("a", BELIEVED)] * 2, 1, "steps"),
        ([search("a", BELIEVED), ContextLengthExceededError("too long")], 9, "context"),
        ([search("a", BELIEVED), TrialLimitReachedError("the time of the trial is over", limit="time")], 9, "time"),
    ],
)
async def test_a_limit_before_a_belief_on_evidence_leaves_nothing_stated(
    said: list[ScriptedAnswer], count: int, limit: str
) -> None:
    at = context(*said)
    steps, error = await steps_of(question(), at, BlfSettings(steps=count))
    assert isinstance(error, TrialLimitReachedError)
    assert error.limit == limit
    assert stated(steps) == [False] * len(steps)
    assert steps[-1].action.name == "stop"
    assert not steps[-1].final


@pytest.mark.parametrize(
    "fault", [ContextLengthExceededError("too long"), TrialLimitReachedError("over", limit="time")]
)
async def test_a_limit_behind_one_leaves_it_stated(fault: FoxcastError) -> None:
    at = context(search("a", BELIEVED), search("b", believing(0.7)), fault)
    steps, error = await steps_of(question(), at)
    assert isinstance(error, TrialLimitReachedError)
    assert str(error) == str(fault)
    assert (stated(steps), probability(steps[-1])) == ([False, True, True], 0.7)
    # A model that could not be asked for want of time has not refused to submit.
    assert [one.submitted for one in at.reported_performances] == [None]


async def test_the_belief_in_the_last_answer_counts_though_its_action_could_not_stand() -> None:
    at = context(script=lambda _: search("more", BELIEVED))
    steps, error = await steps_of(question(), at, BlfSettings(steps=2))
    assert isinstance(error, TrialLimitReachedError)
    assert error.limit == "steps"
    assert stated(steps) == [False, True]


async def test_an_answer_that_is_no_action_is_no_limit() -> None:
    at = context(search("a", BELIEVED), ModelCompletion(text="Well."), ModelCompletion(text="Hm."))
    steps, error = await steps_of(question(), at, BlfSettings(steps=2))
    assert isinstance(error, MalformedDataError)
    assert stated(steps) == [False, False]


async def test_the_end_of_time_ends_no_trial_while_notes_are_shortened() -> None:
    long = believing(0.6, evidence_for=[{"text": f"{number} " + "x" * 300, "source": "s"} for number in range(5)])
    shortens = ScriptedModel(answer_in_turn(TrialLimitReachedError("the time of the trial is over", limit="time")))

    def says(prompt: Prompt) -> ScriptedAnswer:
        return submit(0.7, BELIEVED) if len(prompt.messages) > 2 else search("a", long)

    at = context(models={"main": ScriptedModel(says), "summariser": shortens})
    steps, error = await steps_of(question(), at, BlfSettings(compaction_chars=1000))
    assert error is None
    assert "notes not shortened: the time of the trial is over" in steps[0].observation.text


@pytest.mark.parametrize(("fails", "told"), [(("a", "b"), False), (("a",), True)])
async def test_in_batch_searches_that_all_failed_bring_no_evidence(fails: tuple[str, ...], *, told: bool) -> None:
    def run(arguments: Mapping[str, Json]) -> ToolResult:
        return ToolResult(observation=StepObservation(text="?"), failed=arguments["query"] in fails)

    made = move("search_all", {"queries": ["a", "b"]})
    at = context(made, *[move("fly", {}, BELIEVED)] * 2, scripted_tools=[ScriptedTool(searches().tool, run)])
    steps, _ = await steps_of(question(), at, BlfSettings(mode=SearchMode.BATCH))
    assert stated(steps) == [False, told]


async def test_in_batch_what_the_policy_used_first_is_evidence() -> None:
    # A belief comes with the searches, and is stated behind what was shown before them.
    call = move("search_all", {"queries": []}, BELIEVED)
    for first, told in (("series_model", True), (None, False)):
        at = context(
            call,
            RequestRejectedError("no money"),
            scripted_tools=[NUMBERS, searches()],
            policy=SourcePolicy(first=first),
        )
        steps, _ = await steps_of(question(), at, BlfSettings(mode=SearchMode.BATCH))
        assert stated(steps)[-1] is told
