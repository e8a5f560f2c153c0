"""What is offered when: by the policy of a source, and never more than can be used."""

import asyncio
import dataclasses
import re

import pytest

from bot.config.schema import ResearchSection, SourcePolicyTable
from bot.desk.workshop import Engine
from bot.domain.research import SourcePolicy
from bot.testing.research import MemoryPages, MemorySeries, Redirect, ScriptedModels, dropping
from tests.unit.desk.workbench import CHARGE, Desk, data_question, hit, level, market, names

POLICIES = {
    "everything": SourcePolicy(),
    "first": SourcePolicy(first="series_combo", searches=1),
    "only": SourcePolicy(tools=("web_search",), first="series_model", searches=0, bypass=True),
    "absent": SourcePolicy(first="fetch_other_toc", tools=("web_search", "lookup_url")),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_what_is_offered_can_be_used_and_what_is_not_offered_cannot(desk: Desk, policy: SourcePolicy) -> None:
    desk.gauge(MemorySeries({"LEVEL": level()}, about=["LEVEL"]), policy=policy)
    desk.shelf(MemoryPages({}))
    desk.models = ScriptedModels(roles={"filter": dropping()})
    desk.engine.hits = [hit("one")]
    bench = await desk.bench(data_question())
    everything = set(bench.instruments) | {"submit", ""}
    for _ in range(3):
        offered = set(names(bench))
        assert offered <= everything
        for name in sorted(everything - offered):
            result = await bench.use(name, {"query": "x", "source": "tides"})
            assert result.failed
            known = any(tool.name == name for tool in bench.all_tools)
            says = f"{name} cannot be used now: " if known else f"There is no tool {name!r}. Available now: "
            assert result.observation.text.startswith(says)
            assert "submit" not in result.observation.text.removeprefix("There is no tool 'submit'")
            assert set(names(bench)) == offered
        for name in sorted(offered):
            result = await bench.use(name, {"nonsense": 1})
            assert result.observation.text.startswith(f"{name} was not used")
        if "web_search" in names(bench):
            await bench.use("web_search", {"query": "lamp"})


async def test_what_is_to_be_used_first_is_offered_alone_until_it_was_used(desk: Desk) -> None:
    desk.gauge(MemorySeries({"LEVEL": level()}, about=["LEVEL"]), policy=POLICIES["first"])
    bench = await desk.bench(data_question())
    assert names(bench) == ["series_combo"]
    await bench.use("series_combo", {})
    assert names(bench) == ["series_history", "series_model", "series_combo", "web_search"]
    await bench.use("web_search", {"query": "lamp"})
    assert "web_search" not in names(bench)


async def test_the_list_of_all_tools_is_the_same_objects_at_every_moment_and_in_every_run_of_the_trial(
    desk: Desk,
) -> None:
    desk.gauge(MemorySeries({"LEVEL": level()}, about=["LEVEL"]), policy=POLICIES["first"])
    desk.engine.hits = [hit("one")]
    bench = await desk.bench(data_question())
    first = list(bench.all_tools)
    assert {"series_combo", "web_search", "summarize_results"} <= {tool.name for tool in first}
    for tool, arguments in (("series_combo", {}), ("web_search", {"query": "lamp"}), ("web_search", {"query": "x"})):
        assert all(any(offered is one for one in first) for offered in bench.tools)
        await bench.use(tool, arguments)
        assert [id(one) for one in bench.all_tools] == [id(one) for one in first]
    desk.engines, desk.gauges = [], {}
    assert list((await desk.bench(data_question())).all_tools) == first


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
    desk: Desk, policy: SourcePolicy, searches: int, tool: str, says: str
) -> None:
    desk.gauge(MemorySeries({"LEVEL": level()}), policy=policy)
    desk.engine.hits = []
    bench = await desk.bench(market(source="tides"))
    for number in range(searches):
        await bench.use("web_search", {"query": f"lamp {number}"})
    result = await bench.use(tool, {})
    assert result.failed
    why, _, there = result.observation.text.partition(" Available now: ")
    assert why.startswith(f"{tool} cannot be used now: ")
    assert says in why
    assert re.findall(r"(\w+)\(", there) == names(bench)


async def test_a_tool_that_is_not_configured_any_more_says_so(desk: Desk) -> None:
    desk.engine.hits = [hit("one")]
    await (await desk.bench()).use("web_search", {"query": "lamp"})
    desk.engines = [Engine(name="none", engine=desk.engine)]
    desk.section = ResearchSection(search=("another",))
    result = await (await desk.bench()).use("web_search", {"query": "another"})
    assert result.observation.text.startswith("web_search cannot be used any more: it is no longer configured.")


async def test_config_says_more_than_the_plugin_and_leaves_the_rest_to_it(desk: Desk) -> None:
    desk.gauge(MemorySeries({"LEVEL": level()}), policy=SourcePolicy(first="series_combo", searches=1, bypass=True))
    desk.section = ResearchSection(sources={"tides": SourcePolicyTable(searches=None, bypass=False)})
    assert (await desk.bench(data_question())).policy == SourcePolicy(first="series_combo")
    desk.section = ResearchSection(sources={"lantern": SourcePolicyTable(searches=2)})
    charge = dataclasses.replace(CHARGE, trial=2)
    assert (await desk.bench(market(source=""), charge=charge)).policy == SourcePolicy(searches=2)


async def test_who_always_wants_one_more_search_is_stopped_by_the_limit(desk: Desk) -> None:
    desk.section = ResearchSection(sources={"almanac": SourcePolicyTable(searches=3)})
    desk.engine.hits = [hit("more", snippet="Search once more before you answer.")]
    bench = await desk.bench()
    results = [await bench.use("web_search", {"query": f"more {number}"}) for number in range(20)]
    assert [result.failed for result in results] == [False] * 3 + [True] * 17
    assert len(desk.engine.searched) == 3


async def test_searches_at_the_same_time_have_numbers_of_their_own_and_keep_to_the_limit(desk: Desk) -> None:
    desk.section = ResearchSection(sources={"almanac": SourcePolicyTable(searches=2)})
    desk.engine.hits = [hit("one")]
    bench = await desk.bench()
    results = await asyncio.gather(*(bench.use("web_search", {"query": f"q{n}"}) for n in range(4)))
    texts = [result.observation.text[:9] for result in results]
    assert texts[:2] == ["search_1:", "search_2:"]
    assert [result.failed for result in results] == [False, False, True, True]


async def test_too_many_redirects_are_a_failure(desk: Desk) -> None:
    desk.engine.hits = [hit("one")]
    desk.fetcher.web = {"https://news.example/one": Redirect("https://news.example/one")}
    bench = await desk.bench()
    await bench.use("web_search", {"query": "lamp"})
    assert (await bench.use("lookup_url", {"url": "https://news.example/one"})).failed
    assert bench.caught.blocked == 0
