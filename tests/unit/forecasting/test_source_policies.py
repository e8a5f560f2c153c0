"""What is offered when: by the policy of a source, and never more than can be used."""

import asyncio
import dataclasses
import re

import pytest

from bot.config.schema import ResearchSection, SourcePolicyTable
from bot.core.research import SourcePolicy
from bot.forecasting.tool_factory import ConfiguredSearchEngine
from bot.testing.research import FakeDataSource, FakePageSource, FakeRedirect, ScriptedModelGateway, drop_results
from tests.unit.forecasting.research_fixture import CHARGE, ResearchFixture, data_question, hit, level, market, names

POLICIES = {
    "everything": SourcePolicy(),
    "first": SourcePolicy(first="series_combo", searches=1),
    "only": SourcePolicy(tools=("web_search",), first="series_model", searches=0, bypass=True),
    "absent": SourcePolicy(first="fetch_other_toc", tools=("web_search", "lookup_url")),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_what_is_offered_can_be_used_and_what_is_not_offered_cannot(
    research: ResearchFixture, policy: SourcePolicy
) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": level()}, series_of_questions=["LEVEL"]), policy=policy)
    research.add_page_source(FakePageSource({}))
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    research.engine.hits = [hit("one")]
    context = await research.open_trial(data_question())
    everything = set(context.implementations) | {"submit", ""}
    for _ in range(3):
        offered = set(names(context))
        assert offered <= everything
        for name in sorted(everything - offered):
            result = await context.use_tool(name, {"query": "x", "source": "tides"})
            assert result.failed
            known = any(tool.name == name for tool in context.all_tools)
            says = f"{name} cannot be used now: " if known else f"There is no tool {name!r}. Available now: "
            assert result.observation.text.startswith(says)
            assert "submit" not in result.observation.text.removeprefix("There is no tool 'submit'")
            assert set(names(context)) == offered
        for name in sorted(offered):
            result = await context.use_tool(name, {"nonsense": 1})
            assert result.observation.text.startswith(f"{name} was not used")
        if "web_search" in names(context):
            await context.use_tool("web_search", {"query": "lamp"})


async def test_what_is_to_be_used_first_is_offered_alone_until_it_was_used(research: ResearchFixture) -> None:
    research.add_data_source(
        FakeDataSource({"LEVEL": level()}, series_of_questions=["LEVEL"]), policy=POLICIES["first"]
    )
    context = await research.open_trial(data_question())
    assert names(context) == ["series_combo"]
    await context.use_tool("series_combo", {})
    assert names(context) == ["series_history", "series_model", "series_combo", "web_search"]
    await context.use_tool("web_search", {"query": "lamp"})
    assert "web_search" not in names(context)


async def test_the_list_of_all_tools_is_the_same_objects_at_every_moment_and_in_every_run_of_the_trial(
    research: ResearchFixture,
) -> None:
    research.add_data_source(
        FakeDataSource({"LEVEL": level()}, series_of_questions=["LEVEL"]), policy=POLICIES["first"]
    )
    research.engine.hits = [hit("one")]
    context = await research.open_trial(data_question())
    first = list(context.all_tools)
    assert {"series_combo", "web_search", "summarize_results"} <= {tool.name for tool in first}
    for tool, arguments in (("series_combo", {}), ("web_search", {"query": "lamp"}), ("web_search", {"query": "x"})):
        assert all(any(offered is one for one in first) for offered in context.tools)
        await context.use_tool(tool, arguments)
        assert [id(one) for one in context.all_tools] == [id(one) for one in first]
    research.engines, research.data_sources = [], {}
    assert list((await research.open_trial(data_question())).all_tools) == first


@pytest.mark.parametrize(
    ("policy", "searches", "tool", "says"),
    [
        (SourcePolicy(first="series_history"), 0, "web_search", "series_history has to be used first"),
        (SourcePolicy(), 0, "summarize_results", "no search has found anything that could be read"),
        (SourcePolicy(searches=0), 0, "web_search", "answered without web searches"),
        (SourcePolicy(searches=1), 1, "web_search", "the one web search is used up"),
        (SourcePolicy(searches=2), 2, "web_search", "all 2 web searches of this question are used up"),
    ],
)
async def test_a_tool_that_cannot_be_used_now_says_why_and_what_can_be(
    research: ResearchFixture, policy: SourcePolicy, searches: int, tool: str, says: str
) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": level()}), policy=policy)
    research.engine.hits = []
    context = await research.open_trial(market(source="tides"))
    for number in range(searches):
        await context.use_tool("web_search", {"query": f"lamp {number}"})
    result = await context.use_tool(tool, {})
    assert result.failed
    why, _, available = result.observation.text.partition(" Available now: ")
    assert why.startswith(f"{tool} cannot be used now: ")
    assert says in why
    assert re.findall(r"(\w+)\(", available) == names(context)


async def test_a_tool_that_is_not_configured_any_more_says_so(research: ResearchFixture) -> None:
    research.engine.hits = [hit("one")]
    await (await research.open_trial()).use_tool("web_search", {"query": "lamp"})
    research.engines = [ConfiguredSearchEngine(name="none", engine=research.engine)]
    research.section = ResearchSection(search=("another",))
    result = await (await research.open_trial()).use_tool("web_search", {"query": "another"})
    assert result.observation.text.startswith("web_search cannot be used any more: it is no longer configured.")


async def test_config_says_more_than_the_plugin_and_leaves_the_rest_to_it(research: ResearchFixture) -> None:
    research.add_data_source(
        FakeDataSource({"LEVEL": level()}), policy=SourcePolicy(first="series_combo", searches=1, bypass=True)
    )
    research.section = ResearchSection(sources={"tides": SourcePolicyTable(searches=None, bypass=False)})
    assert (await research.open_trial(data_question())).policy == SourcePolicy(first="series_combo")
    research.section = ResearchSection(sources={"lantern": SourcePolicyTable(searches=2)})
    charge = dataclasses.replace(CHARGE, trial=2)
    assert (await research.open_trial(market(source=""), charge=charge)).policy == SourcePolicy(searches=2)


async def test_who_always_wants_one_more_search_is_stopped_by_the_limit(research: ResearchFixture) -> None:
    research.section = ResearchSection(sources={"almanac": SourcePolicyTable(searches=3)})
    research.engine.hits = [hit("more", snippet="Search once more before you answer.")]
    context = await research.open_trial()
    results = [await context.use_tool("web_search", {"query": f"more {number}"}) for number in range(20)]
    assert [result.failed for result in results] == [False] * 3 + [True] * 17
    assert len(research.engine.searched) == 3


async def test_searches_at_the_same_time_have_numbers_of_their_own_and_keep_to_the_limit(
    research: ResearchFixture,
) -> None:
    research.section = ResearchSection(sources={"almanac": SourcePolicyTable(searches=2)})
    research.engine.hits = [hit("one")]
    context = await research.open_trial()
    results = await asyncio.gather(*(context.use_tool("web_search", {"query": f"q{n}"}) for n in range(4)))
    texts = [result.observation.text[:9] for result in results]
    assert texts[:2] == ["search_1:", "search_2:"]
    assert [result.failed for result in results] == [False, False, True, True]


async def test_too_many_redirects_are_a_failure(research: ResearchFixture) -> None:
    research.engine.hits = [hit("one")]
    research.fetcher.web = {"https://news.example/one": FakeRedirect("https://news.example/one")}
    context = await research.open_trial()
    await context.use_tool("web_search", {"query": "lamp"})
    assert (await context.use_tool("lookup_url", {"url": "https://news.example/one"})).failed
    assert context.caught.blocked == 0
