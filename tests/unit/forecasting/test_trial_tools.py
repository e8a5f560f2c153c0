"""Trial tools: a second context on the same ledger repeats every call, and a sealed one can only repeat."""

import dataclasses
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.beliefs import ToolResult
from bot.core.errors import (
    ConfigError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.forecasts import TrialLimits
from bot.core.ids import sha256_hex
from bot.core.language_models import (
    Message,
    MessageRole,
    ModelAnswer,
    ModelDialect,
    ModelPerformance,
    ModelRequest,
    Prompt,
)
from bot.core.values import Json
from bot.forecasting.trial_tools import RecordedTrialContext
from bot.testing.research import FakeDataSource, FakePageSource, ScriptedModelGateway, drop_results, reply_in_turn
from tests.unit.forecasting.research_fixture import (
    CHARGE,
    CUTOFF,
    ResearchFixture,
    data_question,
    hit,
    level,
    market,
    names,
    passage,
)

USES: list[tuple[str, dict[str, Json]]] = [
    ("series_combo", {}),
    ("web_search", {"query": "lamp"}),
    ("web_search", {"query": "lamp"}),
    ("summarize_results", {"search_index": 1, "result_indices": [1, 2], "question": "lit?"}),
    ("lookup_url", {"url": "https://news.example/one"}),
    ("lookup_url", {"url": "https://news.example/gone"}),
    ("fetch_lexicon_toc", {"page": "Lamp"}),
    ("fetch_lexicon_section", {"page": "Lamp", "heading": "Then"}),
    ("series_history", {"source": "tides", "name": "NONE"}),
    ("no_such_tool", {"x": [1, {"y": None}]}),
    ("web_search", {}),
]


def says(text: str) -> Prompt:
    return Prompt(messages=(Message(speaker=MessageRole.USER, text=text),))


def furnish(research: ResearchFixture) -> None:
    answers = count(1)
    research.models = ScriptedModelGateway(
        roles={
            "main": lambda _: f"answer {next(answers)}",
            "filter": drop_results(3),
            "summariser": lambda _: "[1] dark",
            "busy": reply_in_turn(ServiceUnavailableError("later", retry_after_s=2.0)),
            "poor": reply_in_turn(RequestRejectedError("no budget")),
        },
        dialects={"main": ModelDialect.JSON},
    )
    research.engine.hits = [hit("one"), hit("gone"), hit("three"), hit("late", published_at=CUTOFF)]
    research.fetcher.web = {"https://news.example/one": "One\nThe story."}
    research.add_data_source(FakeDataSource({"LEVEL": level(beyond=2)}, series_of_questions=["LEVEL"]))
    research.add_page_source(FakePageSource({("Lamp", "Then"): passage("Then", "It was dark.")}))


def strip(research: ResearchFixture) -> None:
    """Take away everything that could be asked."""
    research.engines, research.models = [], None
    research.data_sources, research.page_sources = {}, {}
    research.fetcher.web = {}
    research.engine.hits = []
    research.fetcher.requests.clear()
    research.engine.searched.clear()


async def play(context: RecordedTrialContext) -> list[object]:
    """Make all moves of a trial, and return all that it saw."""
    seen: list[object] = [context.policy, context.dialect("main"), tuple(context.tools)]
    for number, (tool, arguments) in enumerate(USES):
        seen.append(await context.use_tool(tool, arguments))
        seen.append(names(context))
        seen.append(await context.ask_model("main", says(f"move {number}"), seed=7))
    seen += [await context.ask_model("main", says("again")) for _ in range(2)]
    for role in ("busy", "poor", "nobody"):
        with pytest.raises((ServiceUnavailableError, RequestRejectedError, ConfigError)) as caught:
            await context.ask_model(role, says("?"))
        seen.append((type(caught.value), str(caught.value)))
    return [*seen, context.caught]


async def test_the_moves_of_this_test_do_what_they_should(research: ResearchFixture) -> None:
    furnish(research)
    seen = await play(await research.open_trial(data_question()))
    results = [item for item in seen if isinstance(item, ToolResult)]
    assert [result.failed for result in results] == [False] * 5 + [True] + [False] * 2 + [True] * 3
    answers = [item.completion.text for item in seen if isinstance(item, ModelAnswer)]
    assert len(set(answers)) == len(USES) + 2


async def test_a_second_context_on_the_same_ledger_repeats_everything_without_asking(research: ResearchFixture) -> None:
    furnish(research)
    first = await play(await research.open_trial(data_question()))
    strip(research)
    research.clock.set_wall_clock(3 * 86_400)
    assert await play(await research.open_trial(data_question())) == first
    assert research.fetcher.requests == []
    assert research.engine.searched == []


async def test_a_sealed_context_repeats_everything_and_raises_for_what_is_not_on_record(
    research: ResearchFixture,
) -> None:
    furnish(research)
    first = await play(await research.open_trial(data_question()))
    before = await research.ledger.recordings.read_trial(CHARGE.scope, CHARGE.trial)
    strip(research)
    context = await research.open_trial(data_question(), read_only=True)
    assert await play(context) == first
    with pytest.raises(NotFoundError, match="not on record"):
        await context.use_tool("web_search", {"query": "something else"})
    with pytest.raises(NotFoundError, match="not on record"):
        await context.ask_model("main", says("something else"))
    with pytest.raises(NotFoundError, match="no dialect is on record"):
        context.dialect("never heard of")
    await context.report_performance(ModelPerformance(role="main", model="scripted:main", asked=1, unparsed=0))
    kept = await context.store_text("a text")
    assert kept == sha256_hex(b"a text")
    with pytest.raises(NotFoundError):
        await research.ledger.documents.get(kept, scope=CHARGE.scope)
    assert await research.ledger.recordings.read_trial(CHARGE.scope, CHARGE.trial) == before


@pytest.mark.parametrize("moves", range(0, len(USES), 3))
async def test_a_trial_that_was_killed_goes_on_where_it_was(research: ResearchFixture, moves: int) -> None:
    furnish(research)
    context = await research.open_trial(data_question())
    told = [await context.use_tool(tool, arguments) for tool, arguments in USES[:moves]]
    asked = len(research.engine.searched)
    again = await research.open_trial(data_question())
    assert [await again.use_tool(tool, arguments) for tool, arguments in USES[:moves]] == told
    assert len(research.engine.searched) == asked
    for tool, arguments in USES[moves:]:
        await again.use_tool(tool, arguments)
    assert len(research.engine.searched) == 2
    assert await research.open_trial(data_question(), read_only=True) is not None


async def test_a_tool_that_was_killed_half_way_does_not_search_again(research: ResearchFixture) -> None:
    """The filter dies with the process: what the engine told before is on record and not asked for again."""

    class Killed(BaseException):
        pass

    def die(_: ModelRequest) -> str:
        raise Killed

    research.models = ScriptedModelGateway(roles={"filter": die})
    research.engine.hits = [hit("one")]
    with pytest.raises(Killed):
        await (await research.open_trial(market(as_of=CUTOFF))).use_tool("web_search", {"query": "lamp"})
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    result = await (await research.open_trial(market(as_of=CUTOFF))).use_tool("web_search", {"query": "lamp"})
    assert result.observation.text.startswith("search_1: 1 result.")
    assert len(research.engine.searched) == 1


async def test_what_is_told_is_the_same_in_another_order(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(data_question())
    first = {query: await context.use_tool("web_search", {"query": query}) for query in ("a", "b")}
    strip(research)
    again = await research.open_trial(data_question())
    assert await again.use_tool("web_search", {"query": "b"}) == first["b"]
    assert await again.use_tool("web_search", {"query": "a"}) == first["a"]


async def test_asking_once_more_than_before_asks_the_engine_as_it_would_have(research: ResearchFixture) -> None:
    furnish(research)
    await (await research.open_trial(data_question())).use_tool("web_search", {"query": "a"})
    again = await research.open_trial(data_question())
    first, second = [await again.use_tool("web_search", {"query": "a"}) for _ in range(2)]
    assert [first.observation.text[:9], second.observation.text[:9]] == ["search_1:", "search_2:"]
    assert len(research.engine.searched) == 2


async def test_a_new_search_after_a_replayed_one_has_a_number_of_its_own(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(data_question())
    for query in ("a", "b"):
        await context.use_tool("web_search", {"query": query})
    again = await research.open_trial(data_question())
    text = (await again.use_tool("web_search", {"query": "c"})).observation.text
    assert text.startswith("search_3:")
    assert (await again.use_tool("web_search", {"query": "a"})).observation.text.startswith("search_1:")


async def test_what_a_result_rests_on_can_be_read_from_the_ledger(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(data_question())
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    await context.write_waiting()
    names = result.observation.documents
    found = await research.ledger.documents.read_known(names, scope=CHARGE.scope)
    bodies = [found[name].content for name in names]
    assert any(b"The story." in body for body in bodies)
    assert any(b"You guard a forecast" in body for body in bodies)


async def test_a_trial_that_uses_nothing_writes_nothing(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(data_question())
    assert names(context)
    context.dialect("main")
    assert await research.ledger.recordings.read_trial(CHARGE.scope, CHARGE.trial) == {}


async def test_an_inquiry_is_charged_to_the_trial_and_counts_the_same_question(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(market())
    for text, seed in (("a", 1), ("a", 1), ("a", 2), ("b", 1)):
        await context.ask_model("main", says(text), seed=seed)
    assert research.models is not None
    assert [(i.seed, i.nth) for i in research.models.requests] == [(1, 0), (1, 1), (2, 0), (1, 0)]
    assert {inquiry.charge for inquiry in research.models.requests} == {CHARGE}


async def test_a_prompt_that_differs_in_anything_that_decides_the_answer_is_another_question(
    research: ResearchFixture,
) -> None:
    furnish(research)
    context = await research.open_trial(data_question())
    tools = tuple(context.tools)
    base = Prompt(messages=says("a").messages, tools=tools)
    same = dataclasses.replace(base, stable=1)
    others = [
        dataclasses.replace(base, allowed=(tools[0].name,)),
        dataclasses.replace(base, tools=tools[:1]),
        dataclasses.replace(base, tools=(), schema={"type": "object"}),
        dataclasses.replace(base, messages=(*base.messages, *base.messages)),
        dataclasses.replace(base, messages=(Message(speaker=MessageRole.SYSTEM, text="a"),)),
    ]
    for prompt in (base, same, *others):
        await context.ask_model("main", prompt)
    assert research.models is not None
    assert [inquiry.nth for inquiry in research.models.requests] == [0, 1, 0, 0, 0, 0, 0]


async def test_after_the_time_of_the_trial_no_model_is_asked(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(market(), limits=TrialLimits(seconds=60.0))
    await context.ask_model("main", says("a"))
    research.clock.advance_without_waking(60.0)
    with pytest.raises(TrialLimitReachedError, match="time of the trial is over") as caught:
        await context.ask_model("main", says("b"))
    assert caught.value.limit == "time"


async def test_how_a_model_did_is_passed_on_with_the_charge_and_texts_are_kept(research: ResearchFixture) -> None:
    furnish(research)
    context = await research.open_trial(market())
    performance = ModelPerformance(role="main", model="scripted:main", asked=3, unparsed=1, submitted=True)
    await context.report_performance(performance)
    assert research.models is not None
    assert research.models.reported_performances == [(performance, CHARGE)]
    kept = await context.store_text("pro\ud800mpt")
    assert (await research.ledger.documents.get(kept, scope=CHARGE.scope)).content == "pro\ufffdmpt".encode()


async def test_without_models_every_role_is_a_matter_of_config(research: ResearchFixture) -> None:
    context = await research.open_trial(market())
    with pytest.raises(ConfigError, match=r"\[llm.roles.main\]"):
        context.dialect("main")
    with pytest.raises(ConfigError, match=r"\[llm.roles.main\]"):
        await context.ask_model("main", says("a"))


ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["lamp", "LEVEL", "tides"])
)
ANYTHING = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner), max_leaves=8
)
ARGUMENTS = ("query", "url", "page", "heading", "name", "source", "until", "question", "search_index", "result_indices")
TOOLS = [*dict.fromkeys(tool for tool, _ in USES), "earlier_forecasts", "market_history", "submit", "\ud800"]
CALL = st.sampled_from(USES) | st.tuples(
    st.sampled_from(TOOLS) | st.text(), st.dictionaries(st.sampled_from(ARGUMENTS) | st.text(), ANYTHING) | ANYTHING
)
trials = count(1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(calls=st.lists(CALL, min_size=1, max_size=8))
async def test_whatever_is_called_comes_back_and_nothing_outside_the_schema_is_offered(
    research: ResearchFixture, calls: list[tuple[str, dict[str, Json]]]
) -> None:
    research.data_sources.clear()
    research.page_sources.clear()
    furnish(research)
    charge = dataclasses.replace(CHARGE, trial=next(trials))
    context = await research.open_trial(data_question(), charge=charge)
    everything = set(context.implementations)
    told = []
    for tool, arguments in calls:
        told.append(await context.use_tool(tool, arguments))
        assert set(names(context)) <= everything
        assert tool in everything or told[-1].failed
    sealed = await research.open_trial(data_question(), charge=charge, read_only=True)
    assert [await sealed.use_tool(tool, arguments) for tool, arguments in calls] == told
    reachable = {"https://news.example/one", "https://news.example/gone"}
    assert set(research.fetcher.requests) <= reachable | {"https://news.example/three"}


async def test_arguments_nested_beyond_what_can_be_written_down_are_refused(research: ResearchFixture) -> None:
    nested: Json = []
    for _ in range(100_000):
        nested = [nested]
    result = await (await research.open_trial()).use_tool("web_search", {"query": nested})
    assert result.failed
    assert "query is not a text" in result.observation.text


async def test_a_trial_is_late_when_only_the_time_for_its_final_answer_is_left(research: ResearchFixture) -> None:
    furnish(research)
    limits = TrialLimits(seconds=600.0)
    context = await research.open_trial(market(), limits=limits)
    assert (limits.final_seconds, limits.call_seconds, context.seconds_left) == (120.0, 598.0, 598.0)
    assert not context.is_final_answer_time("step 1")
    await context.ask_model("main", says("a"))
    research.clock.advance_without_waking(478.0)
    assert context.seconds_left == 120.0
    assert context.is_final_answer_time("step 2")
    # On record before what follows from it: resumed with all of its time, or replayed, the trial is late there again.
    await context.ask_model("main", says("only the answer now"))
    for again in (
        await research.open_trial(market(), limits=limits),
        await research.open_trial(market(), limits=limits, read_only=True),
    ):
        assert [again.is_final_answer_time(place) for place in ("step 1", "step 2", "step 3")] == [False, True, False]


def test_a_short_trial_keeps_a_fifth_of_its_time_for_the_answer() -> None:
    assert TrialLimits(seconds=60.0).final_seconds == 12.0
    assert TrialLimits(seconds=60.0).call_seconds == 58.0
    assert TrialLimits(seconds=10.0).call_seconds == 9.5
