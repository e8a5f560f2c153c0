"""A whole trial: who moves when, what each is told, what is believed meanwhile, and what is left of it."""

import json
from typing import Any

import pytest

from bot.core.beliefs import ModelUsage, Step, StepObservation, ToolResult, belief_mismatch
from bot.core.errors import ConfigError, MalformedDataError, NotFoundError, ServiceUnavailableError
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.language_models import ModelCompletion, ModelDialect
from bot.forecasting.agent.prompt_texts import judging_text
from bot.forecasting.trial import TrialSettings, run_trial
from bot.testing.trial_context import ScriptedModel, ScriptedTool, changed_prefixes
from bot.testing.trial_context import offered_tool_names as names_offered
from plugins.orchestra.forecaster import OrchestraForecaster
from plugins.orchestra.settings import OrchestraSettings
from tests.plugins.orchestra.cases import (
    CHOICE,
    CURVE,
    LEADER,
    ScriptedSpeakers,
    as_json,
    believing,
    make,
    move,
    moves,
    offered,
    parallel,
    probability,
    question,
    report,
    run,
    scripted_context,
    search,
    searches,
    speaker,
    steps_of,
    store,
    submit,
    told,
)


async def test_an_orchestrator_makes_two_researchers_who_report_and_then_it_submits() -> None:
    at = scripted_context(
        make("ann"),
        make("bob"),
        parallel("ann", "bob"),
        submit(0.7, belief=believing(0.7)),
        others={"ann": [search("port"), report("it left port")], "bob": [search("storm"), report("a storm is near")]},
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    assert moves(steps) == [
        (LEADER, "create_subagent"),
        (LEADER, "create_subagent"),
        ("ann", "web_search"),
        ("bob", "web_search"),
        ("ann", "report_results"),
        ("bob", "report_results"),
        (LEADER, "run_subagents"),
        (LEADER, "submit"),
    ]
    assert [step.final for step in steps] == [False] * 7 + [True]
    assert probability(steps[-1]) == 0.7
    # The orchestrator reads both reports, fenced.
    heard = told(at, LEADER)[-1]
    assert heard.count("<untrusted-") == 2
    assert "it left port" in heard
    assert "a storm is near" in heard


async def test_the_steps_of_subagents_believe_what_the_orchestrator_believes_meanwhile() -> None:
    at = scripted_context(
        make("ann"),
        move("run_subagents", {"runs": [{"name": "ann", "task": "look"}]}, believing(0.62)),
        submit(0.8),
        others={"ann": [search(), report()]},
    )
    steps, _ = await steps_of(question(), at)
    assert [probability(step) for step in steps] == [0.5, 0.62, 0.62, 0.62, 0.8]
    assert all(belief_mismatch(step.belief, question()) is None for step in steps)


async def test_where_steps_are_few_subagents_get_fewer_and_the_answer_is_submitted() -> None:
    others = {"ann": lambda prompt: report() if names_offered(prompt) == ["report_results"] else search(str(prompt))}
    at = scripted_context(make("ann"), run("ann"), submit(), others=others, limits=TrialLimits(steps=6))
    steps, error = await steps_of(question(), at)
    assert error is None
    assert [who for who, _ in moves(steps)] == [LEADER, "ann", "ann", "ann", LEADER, LEADER]
    assert moves(steps)[3] == ("ann", "report_results")
    assert offered(at, LEADER)[-1] == ["submit"]


def _costing(result: ToolResult) -> ScriptedTool:
    return ScriptedTool(searches().tool, lambda _: result)


async def test_the_limit_of_steps_holds_and_the_last_step_only_submits() -> None:
    at = scripted_context(*[search(str(number)) for number in range(3)], submit(0.6), limits=TrialLimits(steps=4))
    steps, error = await steps_of(question(), at)
    assert error is None
    assert len(steps) == 4
    assert offered(at, LEADER)[-1] == ["submit"]


async def test_a_subagent_knows_its_part_its_task_and_the_question_and_nothing_else() -> None:
    at = scripted_context(
        make("ann", "custom", instructions="Count the lighthouses."),
        run("ann", "How many are lit?"),
        submit(),
        others={"ann": [report()]},
    )
    await steps_of(question(), at)
    (asked,) = [asked.prompt for asked in at.prompts if speaker(asked.prompt) == "ann"]
    system, first = (message.text for message in asked.messages)
    assert "Count the lighthouses." not in system
    assert "You are ann. Count the lighthouses." in first
    assert "How many are lit?" in first
    assert "Will the ship come in?" in first
    assert "updated_belief" not in system + first


@pytest.mark.parametrize("dialect", [*ModelDialect])
@pytest.mark.parametrize(
    ("shape", "answer", "field"),
    [
        (None, 0.7, "probability"),
        (CHOICE, {"red": 0.2, "green": 0.3, "blue": 0.5}, "probabilities"),
        (CURVE, {"p5": 10, "p10": 15, "p25": 25, "p50": 40, "p75": 55, "p90": 70, "p95": 80}, "quantiles"),
    ],
)
@pytest.mark.parametrize("targets", [("outcome",), ("early", "late")])
async def test_it_answers_every_shape_and_every_target_in_both_dialects(
    dialect: ModelDialect, shape: Any, answer: Any, field: str, targets: tuple[str, ...]
) -> None:
    as_said = as_json if dialect is ModelDialect.JSON else _same
    stated: Any = dict.fromkeys(targets, answer) if len(targets) > 1 else answer
    at = scripted_context(
        as_said(make("fay", "forecaster")),
        as_said(run("fay")),
        as_said(submit(stated, field_name=field, belief=believing(stated, field_name=field))),
        others={"fay": [as_said(report(**{field: stated}))]},
        dialect=dialect,
    )
    asked = question(shape, targets=targets)
    steps, error = await steps_of(asked, at, OrchestraSettings(max_forecast_reports=1))
    assert error is None
    assert all(belief_mismatch(step.belief, asked) is None for step in steps)
    assert steps[-1].final
    # Its forecast is in the report, and with it enough forecasts came.
    assert "Forecast of its own" in told(at, LEADER)[-1]
    assert offered(at, LEADER)[-1] == ["submit"]


async def test_only_the_subagents_that_forecast_read_how_answers_are_judged() -> None:
    at = scripted_context(
        make("ann"), make("fay", "forecaster"), parallel("ann", "fay"), submit(),
        others={"ann": [report()], "fay": [report(probability=0.4)]},
    )  # fmt: skip
    await steps_of(question(), at)
    read = {who: "".join(told(at, who)) for who in ("ann", "fay")}
    assert {who: judging_text(question()) in text for who, text in read.items()} == {"ann": False, "fay": True}


def _same(said: ModelCompletion) -> ModelCompletion:
    return said


async def test_subagents_may_be_played_by_models_of_their_own() -> None:
    lines = ScriptedSpeakers({"ann": [report("from ann")], "cid": [report("from cid")], "dan": [report("from dan")]})
    at = scripted_context(
        make("ann", "researcher"), make("cid", "critic"), make("dan", "scout"), parallel("ann", "cid", "dan"), submit()
    )
    at.models = {
        **at.models,
        "researcher": ScriptedModel(lines, name="scripted:researcher"),
        "subagent": ScriptedModel(lines, name="scripted:subagent"),
        "critic": ScriptedModel(lines, ModelDialect.JSON, name="scripted:critic"),
    }
    lines.lines = {**lines.lines, "cid": [as_json(report("from cid"))]}
    _, error = await steps_of(question(), at)
    assert error is None
    assert [asked.role for asked in at.prompts if asked.role != "main"] == ["researcher", "critic", "subagent"]
    assert {performance.role for performance in at.reported_performances} == {
        "main",
        "researcher",
        "critic",
        "subagent",
    }
    assert [performance.submitted for performance in at.reported_performances if performance.role != "main"] == [
        None
    ] * 3


async def test_the_orchestrator_chooses_among_the_models_that_settings_name() -> None:
    lines = ScriptedSpeakers({"ann": [report()], "bob": [report()]})
    at = scripted_context(
        make("ann", model="fast"),
        make("bob", model="slow"),
        make("cid", model="huge"),
        parallel("ann", "bob"),
        submit(),
    )
    at.models = {
        **at.models,
        "researcher": ScriptedModel(lines, name="scripted:researcher"),
        "subagent_fast": ScriptedModel(lines, name="scripted:fast"),
    }
    steps, _ = await steps_of(question(), at, OrchestraSettings(models=("fast", "slow")))
    # Nobody plays subagent_slow, so that who plays its kind does.
    assert [asked.role for asked in at.prompts if asked.role != "main"] == ["subagent_fast", "researcher"]
    assert "model should be one of fast, slow" in steps[2].observation.text
    plain = scripted_context(make("ann", model="fast"), submit())
    steps, _ = await steps_of(question(), plain)
    assert "there is no choice of models" in steps[0].observation.text


async def test_the_first_step_names_the_prompts_and_the_last_one_reports_the_run() -> None:
    at = scripted_context(
        make("ann", tools=["web_search"]),
        run("ann"),
        store("tides are high"),
        submit(),
        others={"ann": [search(), report()]},
    )
    steps, _ = await steps_of(question(), at)
    assert "kinds/researcher.txt" in at.stored_texts[0]
    assert "$task" in at.stored_texts[0]
    account = steps[-1].observation.text.partition("Run report")[2]
    assert "subagents made 1, 6 at one time; at once 1 of 3; their steps 2 of 40" in account
    assert "- ann (researcher; tools web_search) reported after 2 of 8 steps (web_search, report_results)" in account
    assert "complete, confidence 70 of 100" in account
    assert "shared memory: 2 entries, 1 uses" in account


async def test_an_orchestrator_that_calls_no_tool_twice_ends_at_once_with_the_reason() -> None:
    at = scripted_context(make("ann"), ModelCompletion(text="Be creative!"), ModelCompletion(text="Be creative!"))
    steps, error = await steps_of(question(), at)
    assert isinstance(error, MalformedDataError)
    assert moves(steps) == [(LEADER, "create_subagent"), (LEADER, "stop")]
    assert "held no action" in steps[-1].observation.text
    assert "Run report" in steps[-1].observation.text
    assert len(at.prompts) == 3


async def test_an_orchestrator_that_goes_round_in_circles_is_ended() -> None:
    at = scripted_context(search(), search(), search())
    steps, error = await steps_of(question(), at)
    assert "again and again" in str(error)
    assert len(at.tool_calls) == 1
    assert "Run report" in steps[-1].observation.text


async def test_nobody_plays_main() -> None:
    steps, error = await steps_of(question(), scripted_context(models={}))
    assert (steps, type(error)) == ([], ConfigError)


async def test_what_is_missing_in_a_replay_comes_through_as_itself() -> None:
    at = scripted_context(
        make("ann"),
        make("bob"),
        parallel("ann", "bob"),
        others={"ann": [search()], "bob": [NotFoundError("no record")]},
    )
    _, error = await steps_of(question(), at)
    assert isinstance(error, NotFoundError)


async def test_the_engine_counts_every_turn_and_stops_in_the_middle_of_a_run() -> None:
    logged: list[Step] = []

    async def log(_number: int, step: Step) -> None:
        logged.append(step)

    paid = ToolResult(observation=StepObservation(text="found"), usage=ModelUsage(calls=1, cost_usd=0.25))
    others = {"ann": [search(str(number)) for number in range(7)]}
    limits = TrialLimits(steps=1000, cost_usd=0.6)
    at = scripted_context(make("ann"), run("ann"), others=others, limits=limits, scripted_tools=[_costing(paid)])
    trial = await run_trial(
        OrchestraForecaster(OrchestraSettings()), question(), at, TrialSettings(limits=at.limits, log=log)
    )
    assert trial.end is TrialEnd.COST_LIMIT
    assert moves(logged)[1:] == [("ann", "web_search")] * 3
    assert len(at.prompts) == 5
    assert trial.belief is not None


async def test_the_same_trial_makes_the_same_steps() -> None:
    found = []
    for _ in range(2):
        at = scripted_context(
            make("ann"),
            make("bob"),
            parallel("ann", "bob"),
            submit(0.7),
            others={"ann": [search("a"), store("x"), report()], "bob": [store("y"), search("b"), report()]},
        )
        steps, _ = await steps_of(question(), at)
        found.append((steps, [(asked.prompt, asked.seed) for asked in at.prompts], at.tool_calls))
    assert found[0] == found[1]


async def test_a_model_that_cannot_be_asked_ends_the_run_of_its_subagent_alone() -> None:
    at = scripted_context(
        make("ann"),
        make("bob"),
        parallel("ann", "bob"),
        submit(0.6),
        others={"ann": [ServiceUnavailableError("down")], "bob": [report()]},
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    assert probability(steps[-1]) == 0.6
    assert "ann could not be asked after 1 of 8 steps (nothing valid)" in told(at, LEADER)[-1]
    assert "\ndown\n</untrusted-" in told(at, LEADER)[-1]


async def test_making_subagents_and_notes_brings_no_evidence_and_a_report_does() -> None:
    believed = believing(0.6)
    lines = (make("ann"), run("ann"), make("bob"), run("bob"), store("x"))
    leader = [with_belief(line, believed) for line in lines]
    others = {"ann": [ModelCompletion(text="Well."), ModelCompletion(text="Hm.")], "bob": [search("b"), report()]}
    at = scripted_context(*leader, ServiceUnavailableError("gone"), others=others)
    steps, error = await steps_of(question(), at)
    assert isinstance(error, ServiceUnavailableError)
    own = [step for step in steps if "made_by" not in step.action.arguments]
    assert [step.action.name for step in own][-2:] == ["shared_memory", "stop"]
    assert [step.belief.stated for step in own] == [False] * 4 + [True, True]


async def test_each_conversation_only_grows_and_offers_the_same_tools_throughout() -> None:
    others = {"ann": [search("a"), store("fact"), search("b"), report()], "bob": [report()]}
    at = scripted_context(make("ann"), run("ann"), make("bob"), parallel("ann", "bob"), submit(), others=others)
    others["ann"].append(report())
    _, error = await steps_of(question(), at)
    assert error is None
    assert {speaker(one.prompt) for one in at.prompts} == {LEADER, "ann", "bob"}
    assert changed_prefixes(at.prompts) == []
    first, second, *_ = offered(at, LEADER)
    assert "run_subagents" in set(second) - set(first)


async def test_a_tool_that_it_uses_by_itself_brings_evidence() -> None:
    believed = believing(0.6)
    at = scripted_context(
        with_belief(search(), believed), with_belief(store("x"), believed), ServiceUnavailableError("gone")
    )
    steps, _ = await steps_of(question(), at)
    assert [step.belief.stated for step in steps] == [False, True, True]


def with_belief(said: ModelCompletion, belief: dict[str, Any]) -> ModelCompletion:
    """Return a move that states a belief as well."""
    (one,) = said.calls
    return move(one.name, json.loads(one.arguments), belief)
