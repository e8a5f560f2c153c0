"""Members that fail, ramble or lie, and where a team stops: nobody spoils the work of the others."""

import json
import math

import pytest

from bot.core.beliefs import StepObservation, ToolResult
from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, ModelDialect, Prompt
from bot.core.research import SourcePolicy
from bot.testing.trial_context import ScriptedAnswer, ScriptedModel, ScriptedTool, fixed_text_tool
from tests.plugins.team.cases import (
    ScriptedMember,
    asked_for,
    done,
    finder,
    form_of,
    list_in,
    priced,
    probability,
    question,
    remarks,
    search_tool,
    steps_of,
    summary_tool,
    team_context,
    told,
)


async def test_a_member_that_cannot_be_asked_is_left_out_and_the_rest_concludes() -> None:
    error = ServiceUnavailableError("down")
    boris = ScriptedMember(instead={"think_aloud": lambda _: error, "choose": lambda _: error})
    ada = ScriptedMember(probability=0.8)
    at = team_context(ada, boris)
    steps, raised = await steps_of(question(), at, members=2, steps=3)
    assert raised is None
    assert "Boris takes no part any more: could not be asked: down" in remarks(steps)
    assert probability(steps[-1]) == 0.8
    assert steps[-1].final
    assert "- Boris: takes no part any more; open sub-goals: none" in told(ada.saw[-1][1])
    assert "down" not in told(ada.saw[-1][1])
    # Its sub-goals are the others' now.
    assert told(ada.saw[-1][1]).count("(yours,") == 6
    assert [(performance.role, performance.submitted) for performance in at.reported_performances] == [("team_1", True)]


async def test_what_a_member_believed_before_it_failed_still_counts() -> None:
    boris = ScriptedMember(probability=0.2)
    boris.instead = {"choose": _then(boris, ServiceUnavailableError("down"))}
    steps, raised = await steps_of(
        question(),
        team_context(ScriptedMember(probability=0.8), boris, scripted_tools=[search_tool(hits=0)]),
        members=2,
        steps=4,
    )
    assert raised is None
    assert probability(steps[-1]) == pytest.approx(0.5)


def fallback(player: ScriptedMember, prompt: Prompt) -> ModelCompletion:
    return player.say("choose", {"option": player.pick(prompt), "words": ""})


def _then(player: ScriptedMember, error: Exception):  # type: ignore[no-untyped-def]  # noqa: ANN202
    first = iter([True])
    return lambda prompt: fallback(player, prompt) if next(first, False) else error


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailableError("down"),
        RequestRejectedError("no budget"),
        AuthenticationError("key"),
        MalformedDataError("odd"),
    ],
)
async def test_where_nobody_can_be_asked_the_starting_point_stands_and_the_reason_is_raised(error: Exception) -> None:
    players = [ScriptedMember(instead=dict.fromkeys(("think_aloud", "choose"), lambda _: error)) for _ in range(2)]
    steps, raised = await steps_of(priced(0.3), team_context(*players), members=2)
    assert raised is error
    assert [probability(step) for step in steps] == [0.3, 0.3]
    assert not steps[-1].final
    assert str(error) in remarks(steps)


async def test_a_role_without_a_model_is_said_before_any_step() -> None:
    steps, error = await steps_of(question(), team_context(models={}))
    assert steps == []
    assert isinstance(error, ConfigError)


async def test_a_replay_that_misses_a_record_is_not_taken_for_a_silent_member() -> None:
    boris = ScriptedMember(instead={"think_aloud": lambda _: NotFoundError("not on record")})
    steps, error = await steps_of(question(), team_context(ScriptedMember(), boris), members=2)
    assert steps == []
    assert isinstance(error, NotFoundError)


async def test_who_chooses_no_action_on_the_list_submits_what_it_believes() -> None:
    rambler = ScriptedMember(instead={"choose": lambda _: ModelCompletion(text="It all depends. " * 500)})
    ada = ScriptedMember(probability=0.8)
    at = team_context(ada, rambler)
    steps, error = await steps_of(question(), at, members=2, steps=4)
    assert error is None
    # Without a belief it is asked for one; the next time that belief is what it submits.
    assert [action for who, action in done(steps) if who == "Boris"] == ["state_belief", "submit"]
    assert "Boris takes no part any more: chose no action on the list" in remarks(steps)
    # In both steps it is asked twice, each time with one repair.
    assert asked_for(rambler).count("choose") == 8
    assert probability(steps[-1]) == pytest.approx(logit_mean(0.8, 0.7))
    assert [(performance.role, performance.submitted) for performance in at.reported_performances] == [
        ("team_1", True),
        ("team_2", True),
    ]


def logit_mean(*values: float) -> float:
    return 1 / (1 + math.exp(-sum(math.log(value / (1 - value)) for value in values) / len(values)))


async def test_a_choice_in_other_words_is_understood() -> None:
    sloppy = ScriptedMember()
    sloppy.instead = {
        "choose": lambda prompt: sloppy.say(
            "choose", {"option": f"I pick: {list_in(prompt)[1]}!", "words": "the tides"}
        )
    }
    steps, _ = await steps_of(question(), team_context(sloppy), members=1, steps=2)
    assert steps[0].action.arguments == {"agent": "Ada", "query": "the tides"}


async def test_the_same_search_twice_is_refused_in_words() -> None:
    stubborn = ScriptedMember(picks=("search",), words=lambda _: "the ship")
    at = team_context(stubborn, scripted_tools=[search_tool(hits=0)])
    steps, _ = await steps_of(question(), at, members=1, steps=5)
    assert [tool for tool, _ in at.tool_calls] == ["web_search"]
    assert "you did just that before" in remarks(steps)
    assert steps[-1].action.name == "submit"


async def test_too_many_invalid_actions_end_the_work_with_the_reason() -> None:
    failing = ToolResult(observation=StepObservation(text="The search could not be done."), failed=True)
    broken = ScriptedTool(search_tool().tool, lambda _: failing)
    players = [ScriptedMember(picks=("search",)) for _ in range(2)]
    steps, error = await steps_of(
        question(), team_context(*players, scripted_tools=[broken]), members=2, steps=50, max_invalid=10
    )
    assert isinstance(error, MalformedDataError)
    assert len(steps) == 10
    assert "ended: 10 actions came to nothing, of 10 that may" in steps[-1].remarks[-1]


async def test_used_up_tokens_end_the_work_with_the_reason_and_the_belief() -> None:
    steps, error = await steps_of(
        question(), team_context(ScriptedMember(probability=0.9)), members=1, steps=9, tokens=100
    )
    assert error is None
    assert len(steps) == 1
    assert steps[0].final
    assert probability(steps[0]) == 0.9
    assert "tokens were used, of 100" in steps[0].remarks[-1]


async def test_when_all_are_done_the_work_ends_before_its_last_joint_step() -> None:
    at = team_context(ScriptedMember(), ScriptedMember(), scripted_tools=[search_tool(hits=0, uses=2)])
    steps, error = await steps_of(question(), at, members=2, steps=9)
    assert error is None
    assert [action for _, action in done(steps)] == ["web_search"] * 2 + ["submit"] * 2
    assert "ended: all members are done" in steps[-1].remarks[-1]


@pytest.mark.parametrize(("limit", "count", "rounds"), [(10, 3, 3), (7, 3, 2), (4, 2, 2), (2, 2, 1), (1, 1, 1)])
async def test_the_engine_never_has_to_cut_a_team_off(limit: int, count: int, rounds: int) -> None:
    players = [ScriptedMember(picks=("search",)) for _ in range(3)]
    at = team_context(*players, limits=TrialLimits(steps=limit), scripted_tools=[search_tool(hits=0)])
    steps, error = await steps_of(question(), at, members=min(count, 3), steps=20)
    assert error is None
    assert len(steps) == count * rounds <= limit
    assert steps[-1].final
    assert "it was the last joint step" in steps[-1].remarks[-1]


async def test_in_the_last_joint_step_members_say_what_they_believe_and_do_nothing_else() -> None:
    ada = ScriptedMember(probability=0.95)
    steps, _ = await steps_of(question(), team_context(ada), members=1, steps=1)
    assert [step.action.name for step in steps] == ["state_belief"]
    assert asked_for(ada) == ["take_notes"]
    assert probability(steps[0]) == 0.95


async def test_a_last_word_that_cannot_be_read_leaves_the_belief_before_it() -> None:
    ada = ScriptedMember(probability=0.8)
    ada.instead = {"take_notes": _bad_after_first(ada)}
    steps, error = await steps_of(question(), team_context(ada), members=1, steps=3)
    assert error is None
    assert probability(steps[-1]) == 0.8


def _bad_after_first(player: ScriptedMember):  # type: ignore[no-untyped-def]  # noqa: ANN202
    first = iter([0.8])
    good = {"facts": [], "reasoning": "so", "confidence": "low"}
    return lambda _: player.say("take_notes", {**good, "probability": next(first, "no idea")})


async def test_where_no_belief_can_be_read_at_all_the_trial_is_no_answer() -> None:
    players = [ScriptedMember(probability="no idea") for _ in range(2)]
    steps, error = await steps_of(priced(0.3), team_context(*players), members=2, steps=2)
    assert isinstance(error, MalformedDataError)
    assert [probability(step) for step in steps] == [0.3] * 4


async def test_the_answer_is_kept_from_certainty() -> None:
    steps, _ = await steps_of(question(), team_context(ScriptedMember(probability=1.0)), members=1, steps=2)
    assert [probability(step) for step in steps] == [0.98, 0.95]


async def test_members_without_roles_of_their_own_play_the_team_and_differ_by_their_seeds() -> None:
    player = ScriptedMember()
    at = team_context(
        models={"team": ScriptedModel(player), "main": ScriptedModel(lambda _: ServiceUnavailableError("unused"))}
    )
    await steps_of(question(), at, members=3, steps=2)
    assert {asked.role for asked in at.prompts} == {"team"}
    assert len({asked.seed for asked in at.prompts}) == 3


async def test_models_and_dialects_may_be_mixed() -> None:
    native, percent = (
        finder("base_rate", probability=0.8),
        ScriptedMember(probability=20, field_name="percent", dialect=ModelDialect.JSON),
    )
    steps, error = await steps_of(question(), team_context(native, percent), members=2, steps=3)
    assert error is None
    assert round(probability(steps[-1]), 9) == 0.5
    assert {form_of(prompt) for _, prompt in percent.saw} >= {"think_aloud", "choose", "take_notes"}
    schema = next(json.dumps(dict(prompt.schema or {})) for name, prompt in percent.saw if name == "take_notes")
    assert '"percent"' in schema


async def test_the_policy_of_a_source_decides_what_is_on_the_list() -> None:
    first = fixed_text_tool("series_history", "1, 2, 3")
    ada = ScriptedMember(picks=("use series_history",))
    at = team_context(
        ada, scripted_tools=[first, search_tool(), summary_tool()], policy=SourcePolicy(first="series_history")
    )
    await steps_of(question(), at, members=1, steps=3)
    assert ada.lists()[0][0] == "use series_history: Does series_history"
    assert not any("search" in option for option in ada.lists()[0])


async def test_the_prompts_do_not_grow_with_the_steps() -> None:
    ada = ScriptedMember(picks=("search",))
    await steps_of(
        question(), team_context(ada, scripted_tools=[search_tool(hits=0)]), members=1, steps=20, shown_actions=3
    )
    assert max(len(prompt.messages) for _, prompt in ada.saw) == 6
    sizes = [sum(len(message.text) for message in prompt.messages) for name, prompt in ada.saw if name == "choose"]
    assert max(sizes[5:]) < 1.3 * min(sizes[5:])


async def test_the_first_step_names_the_version_of_the_prompts() -> None:
    at = team_context(ScriptedMember())
    steps, _ = await steps_of(question(), at, members=1, steps=2)
    assert len(at.stored_texts) == 1
    assert "$options" in at.stored_texts[0]
    assert len(steps[0].observation.documents) == 5


async def test_when_time_is_short_the_next_joint_step_is_the_last() -> None:
    at = team_context(ScriptedMember(), limits=TrialLimits(steps=50, seconds=600.0))
    steps, _ = await steps_of(question(), at, members=1, steps=6)
    assert len(steps) > 3

    swift = ScriptedMember()

    def slow_notes(prompt: Prompt) -> ScriptedAnswer:
        late.seconds_left = 100.0
        return swift(prompt)

    late = team_context(ScriptedMember(instead={"take_notes": slow_notes}), limits=TrialLimits(steps=50, seconds=600.0))
    steps, raised = await steps_of(question(), late, members=1, steps=6)
    assert raised is None
    assert len(steps) == 2
    assert steps[-1].final
    assert steps[-1].action.name == "submit"


async def test_what_is_believed_without_any_result_is_not_stated() -> None:
    failing = ToolResult(observation=StepObservation(text="The search could not be done."), failed=True)
    for tool, stated in ((ScriptedTool(search_tool().tool, lambda _: failing), False), (search_tool(), True)):
        at = team_context(ScriptedMember(picks=("search", "state")), scripted_tools=[tool])
        steps, _ = await steps_of(question(), at, members=1, steps=3)
        assert steps[-1].belief.stated is stated
