"""Each ablation changes exactly what it should, and prompts name the tools that are offered in all of them."""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from bot.core.beliefs import StepObservation, ToolResult
from bot.core.errors import ConfigError, MalformedDataError, ServiceUnavailableError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, ModelDialect, Prompt
from bot.core.learning import UNRESOLVED_NOTES_TOOL
from bot.core.research import SourcePolicy
from bot.forecasting.tool_factory import list_tool_names as names_of_tools
from bot.testing.json_schema import fill_schema
from bot.testing.trial_context import ScriptedTool, ScriptedTrialContext, fixed_text_tool, offered_tool_names
from plugins.blf.settings import DEFAULT_TOOLS, OPTIONAL_TOOLS, BlfSettings, EarlyStopMode, SearchMode, ZeroShotMode
from tests.plugins.blf.cases import (
    CHOICE,
    CURVE,
    DATES,
    QUERY,
    announced,
    believing,
    create_context,
    move,
    priced,
    probabilities,
    probability,
    question,
    search,
    searches,
    steps_of,
    submit,
)

SUMMARY = fixed_text_tool("summarize_results", "in short", search_index={"type": "integer"})
SERIES = fixed_text_tool("series_model", "12 points")


def bench() -> list[ScriptedTool]:
    return [searches(), SUMMARY, fixed_text_tool("lookup_url", "a page", url=QUERY)]


def first_that_fits(prompt: Prompt) -> ModelCompletion:
    """Answer like a model that takes the first thing it may do and fills in what it must."""
    import json

    if prompt.schema is not None:
        branches: Any = prompt.schema.get("anyOf", [prompt.schema])
        return ModelCompletion(text=json.dumps(fill_schema(branches[0], {})))
    return move(prompt.tools[0].name, fill_schema(prompt.tools[0].parameters, {}))


async def first_prompt(settings: BlfSettings, **more: Any) -> Prompt:
    at = create_context(ServiceUnavailableError("enough"), scripted_tools=bench(), **more)
    await steps_of(priced(0.8), at, settings)
    return at.prompts[0].prompt


def system(prompt: Prompt) -> str:
    return prompt.messages[0].text


def asked(prompt: Prompt) -> str:
    return prompt.messages[1].text


CONFIGURATIONS = [
    {"belief": belief, "mode": mode, "search": search_on, "tools": tools, "zero_shot": zero_shot}
    for belief, mode, search_on, tools, zero_shot in product(
        (True, False), SearchMode, (True, False), (None, ("lookup_url",), ()), ZeroShotMode
    )
]


@pytest.mark.parametrize("dialect", [*ModelDialect])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
async def test_the_prompt_names_exactly_the_tools_that_are_offered(
    configuration: Mapping[str, Any], dialect: ModelDialect
) -> None:
    at = create_context(script=first_that_fits, scripted_tools=bench(), dialect=dialect, limits=TrialLimits(steps=4))
    steps, _ = await steps_of(question(), at, BlfSettings(**configuration))
    assert at.prompts
    assert len(steps) <= 4
    described: set[str] = set()
    for answer in at.prompts:
        assert announced(answer.prompt) == offered_tool_names(answer.prompt)
        described.update(offered_tool_names(answer.prompt))
        whole = "\n".join(message.text for message in answer.prompt.messages)
        # A tool that is not offered, now or before, is not advertised anywhere.
        assert not [item.tool.name for item in bench() if item.tool.name not in described and item.tool.name in whole]
    assert offered_tool_names(at.prompts[-1].prompt) == ["submit"]


async def test_without_belief_no_schema_and_no_prompt_speaks_of_one() -> None:
    at = create_context(search(belief=believing(0.9)), submit(0.7))
    steps, _ = await steps_of(question(), at, BlfSettings(belief=False))
    assert [probability(step) for step in steps] == [0.5, 0.7]
    for answer in at.prompts:
        assert not any("belief" in message.text.lower() for message in answer.prompt.messages)
        assert not any("updated_belief" in str(tool.parameters) for tool in answer.prompt.tools)
    assert at.reported_performances[0].submission_gap == 0.0


async def test_without_belief_a_failed_trial_leaves_what_it_started_from() -> None:
    steps, _ = await steps_of(
        question(), create_context(search(), ServiceUnavailableError("down")), BlfSettings(belief=False)
    )
    assert probability(steps[-1]) == 0.5


async def test_without_search_only_the_search_tools_are_missing() -> None:
    full, less = [await first_prompt(BlfSettings(search=on)) for on in (True, False)]
    assert offered_tool_names(full) == ["web_search", "summarize_results", "lookup_url", "submit"]
    assert offered_tool_names(less) == ["lookup_url", "submit"]
    assert system(full) == system(less)


async def test_tools_can_be_chosen_by_name_and_never_added() -> None:
    prompt = await first_prompt(BlfSettings(tools=("lookup_url", "market_history")))
    assert offered_tool_names(prompt) == ["lookup_url", "submit"]


async def test_tools_that_came_after_the_paper_are_for_who_names_them() -> None:
    later = [fixed_text_tool(name, "said") for name in OPTIONAL_TOOLS]
    everything = create_context(ServiceUnavailableError("enough"), scripted_tools=[*bench(), *later])
    await steps_of(priced(0.8), everything, BlfSettings())
    assert not {*OPTIONAL_TOOLS}.intersection(offered_tool_names(everything.prompts[0].prompt))
    named = create_context(ServiceUnavailableError("enough"), scripted_tools=[*bench(), *later])
    await steps_of(priced(0.8), named, BlfSettings(tools=("calculate", "web_search")))
    assert offered_tool_names(named.prompts[0].prompt) == ["web_search", "calculate", "submit"]


def test_tools_are_named_as_those_of_the_engine() -> None:
    # BLF keeps no notes, so it has none to read.
    assert {*DEFAULT_TOOLS, *OPTIONAL_TOOLS} == {*names_of_tools(())} - {UNRESOLVED_NOTES_TOOL}
    for name in {*names_of_tools(["wikipedia"])} - {UNRESOLVED_NOTES_TOOL}:
        assert BlfSettings(tools=(name,)).tools == (name,)


@pytest.mark.parametrize(
    ("name", "text"),
    [("web_serch", "did you mean web_search"), ("read_mind", "valid: web_search"), ("fetch_x", "no tool")],
)
def test_a_tool_that_no_desk_has_is_refused_with_the_nearest_name(name: str, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        BlfSettings(tools=("lookup_url", name))


async def test_pages_of_a_source_that_the_desk_does_not_have_end_the_trial_before_it_asks() -> None:
    shelf = fixed_text_tool("fetch_almanac_toc", "headings", page=QUERY)
    at = create_context(submit(0.7), scripted_tools=[searches(), shelf])
    steps, error = await steps_of(question(), at, BlfSettings(tools=("fetch_almanack_toc",)))
    assert steps == []
    assert isinstance(error, ConfigError)
    assert "names fetch_almanack_toc, which is not available here; there is fetch_almanac_toc" in str(error)
    named = BlfSettings(tools=("fetch_almanac_toc",))
    _, error = await steps_of(question(), create_context(submit(0.7), scripted_tools=[shelf]), named)
    assert error is None


async def test_the_crowd_is_shown_and_started_from_or_neither() -> None:
    with_crowd, without = [await first_prompt(BlfSettings(crowd=on)) for on in (True, False)]
    assert "the crowd's estimate was: 0.8." in asked(with_crowd)
    assert "probability: 0.8\n" in asked(with_crowd)
    assert "crowd" not in asked(without).lower()
    assert "0.8" not in asked(without)
    assert system(with_crowd) == system(without)


async def test_a_price_among_the_facts_of_a_market_question_is_not_shown_without_the_crowd() -> None:
    at = create_context(ServiceUnavailableError("enough"))
    await steps_of(priced(0.8, facts={"freeze_value": "0.8123"}), at, BlfSettings(crowd=False))
    assert "0.8123" not in asked(at.prompts[0].prompt)
    at = create_context(ServiceUnavailableError("enough"))
    await steps_of(question(facts={"freeze_value": "17.25"}), at)
    assert "17.25" in asked(at.prompts[0].prompt)


async def test_advice_for_the_source_of_a_question_is_shown_with_it() -> None:
    prompt = await first_prompt(BlfSettings(), policy=SourcePolicy(advice="Near one half."))
    assert "## Questions of this source\nNear one half." in asked(prompt)


async def test_bounds_follow_the_crowd_in_prompt_schema_and_answer_alike() -> None:
    at = create_context(search(belief=believing(0.001)), submit(0.0))
    steps, _ = await steps_of(priced(0.02), at)
    assert [probability(step) for step in steps] == [0.01, 0.01]
    assert "between 0.01 and 0.99" in system(at.prompts[0].prompt)
    parameters: Any = at.prompts[0].prompt.tools[-1].parameters["properties"]
    assert (parameters["probability"]["minimum"], parameters["probability"]["maximum"]) == (0.01, 0.99)


@pytest.mark.parametrize("dialect", [*ModelDialect])
async def test_what_begins_a_conversation_is_the_same_in_every_trial_and_at_every_step(dialect: ModelDialect) -> None:
    beginnings = set()
    for trial in (1, 2):
        at = create_context(
            script=first_that_fits, scripted_tools=bench(), dialect=dialect, trial=trial, limits=TrialLimits(steps=3)
        )
        await steps_of(priced(0.8), at)
        assert len(at.prompts) > 1
        beginnings |= {one.prompt.messages[:2] for one in at.prompts}
    assert len(beginnings) == 1


async def test_the_prior_is_shown_and_started_from_or_neither() -> None:
    prompts = []
    for on in (True, False):
        at = create_context(ServiceUnavailableError("enough"))
        steps, _ = await steps_of(question(source="fred"), at, BlfSettings(prior=on))
        prompts.append(at.prompts[0].prompt)
        assert probability(steps[0]) == (0.422 if on else 0.5)
    assert "42.2%" in asked(prompts[0])
    assert "42.2%" not in asked(prompts[1])


async def test_batch_asks_all_queries_in_one_move_and_then_answers() -> None:
    at = create_context(move("search_all", {"queries": ["one", "two", "three", "four"]}, believing(0.6)), submit(0.7))
    steps, error = await steps_of(question(), at, BlfSettings(mode=SearchMode.BATCH, queries=3))
    assert error is None
    assert [step.action.name for step in steps] == ["search_all", "submit"]
    assert [arguments["query"] for _, arguments in at.tool_calls] == ["one", "two", "three"]
    assert [offered_tool_names(answer.prompt) for answer in at.prompts] == [["search_all"], ["submit"]]
    assert steps[0].belief.searches == ("one", "two", "three")


async def test_batch_begins_with_what_the_policy_wants_first() -> None:
    at = create_context(
        move("search_all", {"queries": ["one"]}, believing(0.6)),
        submit(0.7),
        scripted_tools=[SERIES, searches()],
        policy=SourcePolicy(first="series_model"),
    )
    steps, _ = await steps_of(question(), at, BlfSettings(mode=SearchMode.BATCH))
    assert [step.action.name for step in steps] == ["series_model", "search_all", "submit"]
    assert "12 points" in asked(at.prompts[0].prompt)


async def test_in_batch_the_model_uses_what_comes_first_where_that_needs_to_be_told_something() -> None:
    at = create_context(
        move("lookup_url", {"url": "https://example.org"}, believing(0.55)),
        move("search_all", {"queries": ["one"]}, believing(0.6)),
        submit(0.7),
        scripted_tools=bench(),
        policy=SourcePolicy(first="lookup_url"),
    )
    steps, error = await steps_of(question(), at, BlfSettings(mode=SearchMode.BATCH))
    assert error is None
    assert [offered_tool_names(answer.prompt) for answer in at.prompts] == [["lookup_url"], ["search_all"], ["submit"]]
    assert [step.action.name for step in steps] == ["lookup_url", "search_all", "submit"]


async def test_batch_stops_where_the_searches_of_the_policy_end() -> None:
    at = create_context(
        move("search_all", {"queries": ["one", "two"]}, believing(0.6)),
        submit(0.7),
        scripted_tools=[ScriptedTool(searches().tool, searches().run, use_limit=1)],
    )
    steps, error = await steps_of(question(), at, BlfSettings(mode=SearchMode.BATCH))
    assert error is None
    assert len(at.tool_calls) == 1
    assert "two: no search is left" in steps[0].observation.text


async def test_the_standard_zero_shot_has_the_prompt_of_the_loop_and_only_submit() -> None:
    loop, zero = [
        await first_prompt(BlfSettings(zero_shot=way, steps=1)) for way in (ZeroShotMode.OFF, ZeroShotMode.STANDARD)
    ]
    assert system(loop) == system(zero)
    at = create_context(submit(0.7, believing(0.7)))
    steps, _ = await steps_of(question(), at, BlfSettings(zero_shot=ZeroShotMode.STANDARD))
    assert [step.action.name for step in steps] == ["submit"]
    assert offered_tool_names(at.prompts[0].prompt) == ["submit"]


async def test_the_short_zero_shot_is_short_and_knows_no_belief() -> None:
    standard, short = [
        await first_prompt(BlfSettings(zero_shot=way)) for way in (ZeroShotMode.STANDARD, ZeroShotMode.SHORT)
    ]
    assert len(system(short)) < len(system(standard)) / 3
    assert "updated_belief" not in str(short)
    assert offered_tool_names(short) == ["submit"]


async def test_margins_are_settings_of_prompt_schema_and_answer_alike() -> None:
    settings = BlfSettings(submit_margin=0.01, step_margin=0.0)
    at = create_context(search(belief=believing(1.0)), submit(1.0))
    steps, _ = await steps_of(question(), at, settings)
    assert [probability(step) for step in steps] == [1.0, 0.99]
    assert "0.01 and 0.99" in system(at.prompts[0].prompt)
    parameters: Any = at.prompts[0].prompt.tools[-1].parameters["properties"]
    assert parameters["probability"]["maximum"] == 0.99


async def test_the_rule_of_early_stopping_is_told_or_not() -> None:
    text, silent = [await first_prompt(BlfSettings(early_stop=way)) for way in (EarlyStopMode.TOLD, EarlyStopMode.OFF)]
    rule = "moved your answer by less than 0.03"
    assert rule in system(text)
    assert rule not in system(silent)
    assert "\n\n-" not in system(silent)


def estimate(data: Any, **more: Any) -> ScriptedTool:
    result = ToolResult(observation=StepObservation(text="12 points"), data=data, **more)
    return ScriptedTool(SERIES.tool, lambda _: result)


def bypassing(tool: ScriptedTool, **more: Any) -> ScriptedTrialContext:
    return create_context(scripted_tools=[tool], policy=SourcePolicy(first="series_model", bypass=True), **more)


async def test_a_bypass_beside_a_market_near_certainty_is_bounded_by_that() -> None:
    at = bypassing(estimate({"probabilities": {"outcome": 0.004}}))
    steps, _ = await steps_of(priced(0.006), at)
    assert probability(steps[-1]) == 0.004


async def test_a_bypass_submits_what_the_tool_estimates_and_asks_no_model() -> None:
    at = bypassing(estimate({"probabilities": {DATES[0]: 0.3, DATES[1]: 0.999}}), models={})
    steps, error = await steps_of(question(targets=DATES[:2], source="dbnomics"), at)
    assert error is None
    assert [step.action.name for step in steps] == ["series_model", "submit"]
    assert probabilities(steps[-1]) == [0.3, 0.95]
    assert steps[-1].final
    assert at.prompts == []
    assert at.reported_performances == []


@pytest.mark.parametrize(
    "tool",
    [
        estimate(None),
        estimate({"probabilities": {DATES[0]: 0.3}}),
        estimate({"probabilities": {DATES[0]: 0.3, DATES[1]: float("nan")}}),
        estimate({"probabilities": {DATES[0]: 0.3, DATES[1]: 0.4}}, failed=True),
    ],
)
async def test_a_bypass_without_an_estimate_fails_and_submits_nothing(tool: ScriptedTool) -> None:
    steps, error = await steps_of(question(targets=DATES[:2], source="dbnomics"), bypassing(tool))
    assert isinstance(error, MalformedDataError)
    assert re.match(r"series_model gave no (usable )?estimate", str(error))
    assert [step.action.name for step in steps] == ["series_model"]
    # What it started from is on record, and marked as no answer of its own.
    assert not steps[0].final
    assert not steps[0].belief.stated


async def test_without_the_tool_of_a_bypass_the_model_works() -> None:
    at = create_context(
        submit(0.7), scripted_tools=[searches()], policy=SourcePolicy(first="series_model", bypass=True)
    )
    steps, _ = await steps_of(question(), at)
    assert [step.action.name for step in steps] == ["submit"]


@pytest.mark.parametrize("shape", [CHOICE, CURVE])
async def test_every_shape_can_be_answered_by_whoever_fills_in_the_schema(shape: Any) -> None:
    for dialect in ModelDialect:
        at = create_context(script=first_that_fits, dialect=dialect, limits=TrialLimits(steps=3))
        steps, _ = await steps_of(question(shape, targets=DATES), at)
        assert len(steps) == 3


def test_quantiles_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="rise"):
        BlfSettings(quantiles=(50, 10))
