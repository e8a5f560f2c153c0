"""The bench of a trial: a second one on the same ledger repeats everything, and a sealed one does nothing else."""

import dataclasses
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.desk.bench import TrialBench
from bot.domain.conduct import Conduct
from bot.domain.forecast import Limits
from bot.domain.inquiry import Inquiry
from bot.domain.prompt import Answer, Dialect, Message, Prompt, Speaker
from bot.domain.step import Json, ToolResult
from bot.errors import ConfigError, LimitReached, NotFound, Rejected, Unavailable
from bot.ids import digest
from bot.testing.research import MemoryPages, MemorySeries, ScriptedModels, dropping, replying
from tests.unit.desk.workbench import CHARGE, CUTOFF, Desk, data_question, hit, level, market, names, passage

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
    return Prompt(messages=(Message(speaker=Speaker.USER, text=text),))


def furnish(desk: Desk) -> None:
    answers = count(1)
    desk.models = ScriptedModels(
        roles={
            "main": lambda _: f"answer {next(answers)}",
            "filter": dropping(3),
            "summariser": lambda _: "[1] dark",
            "busy": replying(Unavailable("later", retry_after_s=2.0)),
            "poor": replying(Rejected("no budget")),
        },
        dialects={"main": Dialect.JSON},
    )
    desk.engine.hits = [hit("one"), hit("gone"), hit("three"), hit("late", published_at=CUTOFF)]
    desk.fetcher.web = {"https://news.example/one": "One\nThe story."}
    desk.gauge(MemorySeries({"LEVEL": level(beyond=2)}, about=["LEVEL"]))
    desk.shelf(MemoryPages({("Lamp", "Then"): passage("Then", "It was dark.")}))


def strip(desk: Desk) -> None:
    """Take away everything that could be asked."""
    desk.engines, desk.models = [], None
    desk.gauges, desk.shelves = {}, {}
    desk.fetcher.web = {}
    desk.engine.hits = []
    desk.fetcher.requests.clear()
    desk.engine.searched.clear()


async def play(bench: TrialBench) -> list[object]:
    """Make all moves of a trial, and return all that it saw."""
    seen: list[object] = [bench.policy, bench.dialect("main"), tuple(bench.tools)]
    for number, (tool, arguments) in enumerate(USES):
        seen.append(await bench.use(tool, arguments))
        seen.append(names(bench))
        seen.append(await bench.ask("main", says(f"move {number}"), seed=7))
    seen += [await bench.ask("main", says("again")) for _ in range(2)]
    for role in ("busy", "poor", "nobody"):
        with pytest.raises((Unavailable, Rejected, ConfigError)) as caught:
            await bench.ask(role, says("?"))
        seen.append((type(caught.value), str(caught.value)))
    return [*seen, bench.caught]


async def test_the_moves_of_this_test_do_what_they_should(desk: Desk) -> None:
    furnish(desk)
    seen = await play(await desk.bench(data_question()))
    results = [item for item in seen if isinstance(item, ToolResult)]
    assert [result.failed for result in results] == [False] * 5 + [True] + [False] * 2 + [True] * 3
    answers = [item.completion.text for item in seen if isinstance(item, Answer)]
    assert len(set(answers)) == len(USES) + 2


async def test_a_second_bench_on_the_same_ledger_repeats_everything_without_asking(desk: Desk) -> None:
    furnish(desk)
    first = await play(await desk.bench(data_question()))
    strip(desk)
    desk.clock.step(3 * 86_400)
    assert await play(await desk.bench(data_question())) == first
    assert desk.fetcher.requests == []
    assert desk.engine.searched == []


async def test_a_sealed_bench_repeats_everything_and_raises_for_what_is_not_on_record(desk: Desk) -> None:
    furnish(desk)
    first = await play(await desk.bench(data_question()))
    before = await desk.ledger.exchanges.of(CHARGE.scope, CHARGE.trial)
    strip(desk)
    bench = await desk.bench(data_question(), sealed=True)
    assert await play(bench) == first
    with pytest.raises(NotFound, match="not on record"):
        await bench.use("web_search", {"query": "something else"})
    with pytest.raises(NotFound, match="not on record"):
        await bench.ask("main", says("something else"))
    with pytest.raises(NotFound, match="no dialect is on record"):
        bench.dialect("never heard of")
    await bench.grade(Conduct(role="main", model="scripted:main", asked=1, unparsed=0))
    kept = await bench.keep("a text")
    assert kept == digest(b"a text")
    with pytest.raises(NotFound):
        await desk.ledger.documents.get(kept)
    assert await desk.ledger.exchanges.of(CHARGE.scope, CHARGE.trial) == before


@pytest.mark.parametrize("moves", range(0, len(USES), 3))
async def test_a_trial_that_was_killed_goes_on_where_it_was(desk: Desk, moves: int) -> None:
    furnish(desk)
    bench = await desk.bench(data_question())
    told = [await bench.use(tool, arguments) for tool, arguments in USES[:moves]]
    asked = len(desk.engine.searched)
    again = await desk.bench(data_question())
    assert [await again.use(tool, arguments) for tool, arguments in USES[:moves]] == told
    assert len(desk.engine.searched) == asked
    for tool, arguments in USES[moves:]:
        await again.use(tool, arguments)
    assert len(desk.engine.searched) == 2
    assert await desk.bench(data_question(), sealed=True) is not None


async def test_a_tool_that_was_killed_half_way_does_not_search_again(desk: Desk) -> None:
    """The filter dies with the process: what the engine told before is on record and not asked for again."""

    class Killed(BaseException):
        pass

    def die(_: Inquiry) -> str:
        raise Killed

    desk.models = ScriptedModels(roles={"filter": die})
    desk.engine.hits = [hit("one")]
    with pytest.raises(Killed):
        await (await desk.bench(market(as_of=CUTOFF))).use("web_search", {"query": "lamp"})
    desk.models = ScriptedModels(roles={"filter": dropping()})
    result = await (await desk.bench(market(as_of=CUTOFF))).use("web_search", {"query": "lamp"})
    assert result.observation.text.startswith("search_1: 1 result.")
    assert len(desk.engine.searched) == 1


async def test_what_is_told_is_the_same_in_another_order(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(data_question())
    first = {query: await bench.use("web_search", {"query": query}) for query in ("a", "b")}
    strip(desk)
    again = await desk.bench(data_question())
    assert await again.use("web_search", {"query": "b"}) == first["b"]
    assert await again.use("web_search", {"query": "a"}) == first["a"]


async def test_asking_once_more_than_before_asks_the_engine_as_it_would_have(desk: Desk) -> None:
    furnish(desk)
    await (await desk.bench(data_question())).use("web_search", {"query": "a"})
    again = await desk.bench(data_question())
    first, second = [await again.use("web_search", {"query": "a"}) for _ in range(2)]
    assert [first.observation.text[:9], second.observation.text[:9]] == ["search_1:", "search_2:"]
    assert len(desk.engine.searched) == 2


async def test_a_new_search_after_a_replayed_one_has_a_number_of_its_own(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(data_question())
    for query in ("a", "b"):
        await bench.use("web_search", {"query": query})
    again = await desk.bench(data_question())
    text = (await again.use("web_search", {"query": "c"})).observation.text
    assert text.startswith("search_3:")
    assert (await again.use("web_search", {"query": "a"})).observation.text.startswith("search_1:")


async def test_what_a_result_rests_on_can_be_read_from_the_ledger(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(data_question())
    await bench.use("web_search", {"query": "lamp"})
    result = await bench.use("lookup_url", {"url": "https://news.example/one"})
    bodies = [(await desk.ledger.documents.get(name)).content for name in result.observation.documents]
    assert any(b"The story." in body for body in bodies)
    assert any(b"You guard a forecast" in body for body in bodies)


async def test_a_trial_that_uses_nothing_writes_nothing(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(data_question())
    assert names(bench)
    bench.dialect("main")
    assert await desk.ledger.exchanges.of(CHARGE.scope, CHARGE.trial) == {}


async def test_an_inquiry_is_charged_to_the_trial_and_counts_the_same_question(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(market())
    for text, seed in (("a", 1), ("a", 1), ("a", 2), ("b", 1)):
        await bench.ask("main", says(text), seed=seed)
    assert desk.models is not None
    assert [(i.seed, i.nth) for i in desk.models.inquiries] == [(1, 0), (1, 1), (2, 0), (1, 0)]
    assert {inquiry.charge for inquiry in desk.models.inquiries} == {CHARGE}


async def test_a_prompt_that_differs_in_anything_that_decides_the_answer_is_another_question(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(data_question())
    tools = tuple(bench.tools)
    base = Prompt(messages=says("a").messages, tools=tools)
    same = dataclasses.replace(base, stable=1)
    others = [
        dataclasses.replace(base, allowed=(tools[0].name,)),
        dataclasses.replace(base, tools=tools[:1]),
        dataclasses.replace(base, tools=(), schema={"type": "object"}),
        dataclasses.replace(base, messages=(*base.messages, *base.messages)),
        dataclasses.replace(base, messages=(Message(speaker=Speaker.SYSTEM, text="a"),)),
    ]
    for prompt in (base, same, *others):
        await bench.ask("main", prompt)
    assert desk.models is not None
    assert [inquiry.nth for inquiry in desk.models.inquiries] == [0, 1, 0, 0, 0, 0, 0]


async def test_after_the_time_of_the_trial_no_model_is_asked(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(market(), limits=Limits(seconds=60.0))
    await bench.ask("main", says("a"))
    desk.clock.pass_unnoticed(60.0)
    with pytest.raises(LimitReached, match="time of the trial is over") as caught:
        await bench.ask("main", says("b"))
    assert caught.value.limit == "time"


async def test_how_a_model_did_is_passed_on_with_the_charge_and_texts_are_kept(desk: Desk) -> None:
    furnish(desk)
    bench = await desk.bench(market())
    conduct = Conduct(role="main", model="scripted:main", asked=3, unparsed=1, submitted=True)
    await bench.grade(conduct)
    assert desk.models is not None
    assert desk.models.grades == [(conduct, CHARGE)]
    assert (await desk.ledger.documents.get(await bench.keep("pro\ud800mpt"))).content == "pro\ufffdmpt".encode()


async def test_without_models_every_role_is_a_matter_of_config(desk: Desk) -> None:
    bench = await desk.bench(market())
    with pytest.raises(ConfigError, match=r"\[llm.roles.main\]"):
        bench.dialect("main")
    with pytest.raises(ConfigError, match=r"\[llm.roles.main\]"):
        await bench.ask("main", says("a"))


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
    desk: Desk, calls: list[tuple[str, dict[str, Json]]]
) -> None:
    desk.gauges.clear()
    desk.shelves.clear()
    furnish(desk)
    charge = dataclasses.replace(CHARGE, trial=next(trials))
    bench = await desk.bench(data_question(), charge=charge)
    everything = set(bench.instruments)
    told = []
    for tool, arguments in calls:
        told.append(await bench.use(tool, arguments))
        assert set(names(bench)) <= everything
        assert tool in everything or told[-1].failed
    sealed = await desk.bench(data_question(), charge=charge, sealed=True)
    assert [await sealed.use(tool, arguments) for tool, arguments in calls] == told
    reachable = {"https://news.example/one", "https://news.example/gone"}
    assert set(desk.fetcher.requests) <= reachable | {"https://news.example/three"}


async def test_arguments_nested_beyond_what_can_be_written_down_are_refused(desk: Desk) -> None:
    nested: Json = []
    for _ in range(100_000):
        nested = [nested]
    result = await (await desk.bench()).use("web_search", {"query": nested})
    assert result.failed
    assert "query is not a text" in result.observation.text


async def test_a_trial_is_late_when_only_the_time_for_its_final_answer_is_left(desk: Desk) -> None:
    furnish(desk)
    limits = Limits(seconds=600.0)
    bench = await desk.bench(market(), limits=limits)
    assert (limits.final_seconds, limits.call_seconds, bench.seconds_left) == (120.0, 598.0, 598.0)
    assert not bench.is_late("step 1")
    await bench.ask("main", says("a"))
    desk.clock.pass_unnoticed(478.0)
    assert bench.seconds_left == 120.0
    assert bench.is_late("step 2")
    # On record before what follows from it: resumed with all of its time, or replayed, the trial is late there again.
    await bench.ask("main", says("only the answer now"))
    for again in (await desk.bench(market(), limits=limits), await desk.bench(market(), limits=limits, sealed=True)):
        assert [again.is_late(place) for place in ("step 1", "step 2", "step 3")] == [False, True, False]


def test_a_short_trial_keeps_a_fifth_of_its_time_for_the_answer() -> None:
    assert Limits(seconds=60.0).final_seconds == 12.0
    assert Limits(seconds=60.0).call_seconds == 58.0
    assert Limits(seconds=10.0).call_seconds == 9.5
