"""A trial that is taken up under other guards is refused; one that is begun anew asks again what may have changed."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from bot.config.schema import ResearchSection
from bot.desk.bench import TrialBench
from bot.desk.workshop import Engine
from bot.domain.prompt import Message, Prompt, Speaker
from bot.domain.research import SeriesModel
from bot.domain.step import Json
from bot.errors import (
    BudgetExhausted,
    ConfigError,
    FoxcastError,
    LeakError,
    LimitReached,
    NotFound,
    QuotaExhausted,
    Rejected,
    Unauthorized,
    Unavailable,
)
from bot.testing.research import MemoryPages, MemorySeries, Redirect, ScriptedEngine, ScriptedModels, dropping, replying
from tests.unit.desk.workbench import BEFORE_DATE, CUTOFF, Desk, data_question, hit, level, market, names

BACKDATED = market(as_of=CUTOFF)
LAMP: dict[str, Json] = {"query": "lamp"}
ASKED = Prompt(messages=(Message(speaker=Speaker.USER, text="a"),))


async def searched(desk: Desk, **changes: Any) -> TrialBench:
    bench = await desk.bench(BACKDATED, **changes)
    await bench.use("web_search", LAMP)
    return bench


async def heard(bench: TrialBench) -> str:
    try:
        return (await bench.ask("main", ASKED)).completion.text
    except FoxcastError as error:
        return type(error).__name__


@pytest.mark.parametrize("forgiving", [False, True])
@pytest.mark.parametrize(("first", "says"), [(True, "began under guard"), (False, "began free to know the future")])
async def test_a_trial_goes_on_under_the_guards_it_began_with_or_not_at_all(
    desk: Desk, says: str, *, first: bool, forgiving: bool
) -> None:
    desk.clock.step(9 * 86_400)
    await searched(desk, guarded=first)
    desk.section = ResearchSection(results=3)
    with pytest.raises(LeakError, match=f"trial 1 of f1 {says}"):
        await desk.bench(BACKDATED, guarded=not first, forgiving=forgiving)
    assert (await desk.bench(BACKDATED, guarded=first, forgiving=forgiving)).opening.guarded == first


async def test_a_trial_that_began_with_a_later_cutoff_is_not_taken_up(desk: Desk) -> None:
    await searched(desk)
    with pytest.raises(LeakError, match="known before 2026-03-01"):
        await desk.bench(BACKDATED, cutoff=CUTOFF - timedelta(seconds=1))
    assert (await desk.bench(BACKDATED, cutoff=CUTOFF + timedelta(hours=1))).opening.bound == CUTOFF


@pytest.mark.parametrize("first", [True, False])
async def test_a_replay_reads_a_trial_whatever_its_guards_were(desk: Desk, *, first: bool) -> None:
    desk.engine.hits = [hit("one")]
    await searched(desk, guarded=first)
    sealed = await desk.bench(BACKDATED, sealed=True, guarded=not first)
    assert "About one" in (await sealed.use("web_search", LAMP)).observation.text


@pytest.mark.parametrize(
    "fault",
    [
        *(Unavailable("down"), Unauthorized("401"), Rejected("no"), ConfigError("table")),
        *(BudgetExhausted("spent"), QuotaExhausted("no money"), LimitReached("over", limit="time")),
    ],
)
async def test_begun_anew_a_model_that_failed_is_asked_again_and_otherwise_failed_for_ever(
    desk: Desk, fault: FoxcastError
) -> None:
    desk.models = ScriptedModels(roles={"main": lambda _: fault})
    assert await heard(await desk.bench(BACKDATED)) == type(fault).__name__
    desk.models = ScriptedModels(roles={"main": replying("mended", "again")})
    assert await heard(await desk.bench(BACKDATED)) == type(fault).__name__
    assert await heard(await desk.bench(BACKDATED, sealed=True, forgiving=True)) == type(fault).__name__
    bench = await desk.bench(BACKDATED, forgiving=True)
    assert [await heard(bench), await heard(bench)] == ["mended", "again"]
    # As if it had not failed: the gateway knows an answer by this number.
    assert [inquiry.nth for inquiry in desk.models.inquiries] == [0, 1]
    bench = await desk.bench(BACKDATED, forgiving=True)
    assert [await heard(bench), await heard(bench)] == ["mended", "again"]
    assert len(desk.models.inquiries) == 2


async def test_begun_anew_a_search_that_failed_is_made_again_under_its_own_number(desk: Desk) -> None:
    desk.engine.hits = Unauthorized("401")
    assert (await (await desk.bench(BACKDATED)).use("web_search", LAMP)).failed
    desk.engine.hits = [hit("one")]
    assert (await (await desk.bench(BACKDATED)).use("web_search", LAMP)).failed
    again = await (await desk.bench(BACKDATED, forgiving=True)).use("web_search", LAMP)
    assert again.observation.text.startswith("search_1: 1 result.")
    assert await (await desk.bench(BACKDATED, forgiving=True)).use("web_search", LAMP) == again
    assert len(desk.engine.searched) == 2


async def test_begun_anew_what_was_read_without_the_filter_is_judged_and_not_searched_again(desk: Desk) -> None:
    desk.models = ScriptedModels(roles={"filter": lambda _: Unavailable("busy")})
    desk.engine.hits = [hit("one")]
    await searched(desk)
    desk.models = ScriptedModels(roles={"filter": dropping(1)})
    bench = await searched(desk, forgiving=True)
    assert bench.caught.content == 1
    assert len(desk.engine.searched) == 1


async def test_begun_anew_what_another_engine_answered_and_what_is_not_there_stands(desk: Desk) -> None:
    broken, working = ScriptedEngine(Unavailable("down")), ScriptedEngine([hit("one")])
    desk.engines = [
        Engine(name=n, engine=e, abilities=BEFORE_DATE) for n, e in (("broken", broken), ("working", working))
    ]
    gauge = MemorySeries({"LEVEL": NotFound("no series")}, about=["LEVEL"])
    desk.gauge(gauge)
    for _ in range(2):
        bench = await searched(desk, forgiving=True)
        assert (await bench.use("series_history", {})).failed
    assert [len(broken.searched), len(working.searched), len(gauge.asked)] == [1, 1, 1]


async def test_under_another_configuration_a_trial_is_begun_anew_and_the_first_one_is_still_there(desk: Desk) -> None:
    calls: list[str] = []

    def answer(_: object) -> str:
        calls.append("asked")
        return f"answer {len(calls)}"

    desk.models = ScriptedModels(roles={"main": answer})
    desk.engine.hits = [hit("one"), hit("two")]
    seen = []
    for results in (2, 1, 2, 1):
        desk.section = ResearchSection(results=results)
        bench = await desk.bench(BACKDATED, forgiving=True)
        text = (await bench.use("web_search", LAMP)).observation.text
        seen.append((text[:9], "About two" in text, await heard(bench)))
    first, other = ("search_1:", True, "answer 1"), ("search_1:", False, "answer 2")
    assert seen == [first, other, first, other]
    assert [inquiry.nth for inquiry in desk.models.inquiries] == [0, 0]


async def test_a_live_trial_goes_on_as_it_began_under_another_configuration(desk: Desk) -> None:
    desk.engine.hits = [hit("one"), hit("two")]
    before = await searched(desk)
    desk.section = ResearchSection(results=1)
    again = await searched(desk)
    assert again.opening == before.opening
    assert len(desk.engine.searched) == 1


async def test_a_new_engine_is_there_for_a_trial_that_is_begun_anew(desk: Desk) -> None:
    unfit = [Engine(name="finder", engine=desk.engine)]
    desk.engine.hits = [hit("one")]
    assert (await (await desk.bench(BACKDATED, engines=unfit)).use("web_search", LAMP)).failed
    assert "web_search" not in names(await desk.bench(BACKDATED))
    bench = await desk.bench(BACKDATED, forgiving=True)
    assert "About one" in (await bench.use("web_search", LAMP)).observation.text


GAUGE = MemorySeries({"LEVEL": level()}, about=["LEVEL"])
CHANGES: dict[str, Any] = {
    "a filter": lambda desk: setattr(
        desk, "models", ScriptedModels(roles={"main": lambda _: "", "filter": dropping()})
    ),
    "a section": lambda desk: setattr(desk, "section", ResearchSection(page_chars=300)),
    "a shelf": lambda desk: desk.shelf(MemoryPages({})),
    "blocked": lambda desk: setattr(desk, "blocked", frozenset({"other.example"})),
    "another model of series": lambda desk: desk.gauge(GAUGE, model=SeriesModel(seasonal=True)),
    "a policy": lambda desk: setattr(
        desk, "section", ResearchSection.model_validate({"sources": {"tides": {"searches": 1}}})
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_whatever_the_desk_is_put_together_from_is_part_of_its_configuration(desk: Desk, change: Any) -> None:
    desk.gauge(GAUGE)
    desk.models = ScriptedModels(roles={"main": lambda _: ""})
    question = data_question()
    before = (await desk.bench(question)).opening.configuration
    assert (await desk.bench(question)).opening.configuration == before
    assert (await desk.bench(question, cast={"main": "lantern:small"})).opening.configuration != before
    change(desk)
    assert (await desk.bench(question)).opening.configuration != before


async def test_a_page_on_record_is_not_told_where_its_redirect_led_to_what_is_blocked_now(desk: Desk) -> None:
    desk.models = ScriptedModels(roles={"filter": dropping()})
    desk.engine.hits = [hit("one")]
    desk.fetcher.web = {
        "https://news.example/one": Redirect("https://harbourmaster.example/q"),
        "https://harbourmaster.example/q": "It was lit.",
    }
    seen = []
    for blocked in ("lantern.example", "harbourmaster.example"):
        desk.blocked = frozenset({blocked})
        bench = await searched(desk, forgiving=True)
        text = (await bench.use("lookup_url", {"url": "https://news.example/one"})).observation.text
        seen.append(("It was lit." in text, bench.caught.blocked))
    assert seen == [(True, 0), (False, 1)]
    assert len(desk.fetcher.requests) == 2


async def test_the_table_of_another_source_changes_nothing(desk: Desk) -> None:
    before = (await desk.bench(BACKDATED)).opening.configuration
    desk.section = ResearchSection.model_validate({"sources": {"elsewhere": {"searches": 1}}})
    assert (await desk.bench(BACKDATED)).opening.configuration == before
    assert (await desk.bench(dataclasses.replace(BACKDATED, source="elsewhere"))).opening.configuration != before


async def test_begun_anew_a_page_that_could_not_be_read_stays_unread_and_changes_no_prompt(desk: Desk) -> None:
    desk.models = ScriptedModels(roles={"filter": dropping()})
    desk.engine.hits = [hit("one"), hit("two")]
    read: dict[str, Json] = {"search_index": 1, "result_indices": [1, 2], "question": "?"}
    desk.fetcher.web = {"https://news.example/one": Unavailable("no such host"), "https://news.example/two": "Two\nlit"}
    seen = []
    for _ in range(2):
        bench = await searched(desk, forgiving=True)
        looked = await bench.use("lookup_url", {"url": "https://news.example/one"})
        seen.append((looked, await bench.use("summarize_results", dict(read))))
        desk.fetcher.web["https://news.example/one"] = "One\nIt is there now."
    assert seen[0] == seen[1]
    assert "cannot be reached" in seen[0][0].observation.text
    # Looked up once and read once with the other one.
    assert len(desk.fetcher.requests) == 3


async def test_begun_anew_pages_that_no_model_read_are_read_by_one_and_not_fetched_again(desk: Desk) -> None:
    desk.models = ScriptedModels(roles={"filter": lambda _: Unavailable("busy")})
    desk.engine.hits = [hit("one")]
    desk.fetcher.web = {"https://news.example/one": Unavailable("no such host")}
    await (await searched(desk)).use("lookup_url", {"url": "https://news.example/one"})
    desk.models = ScriptedModels(roles={"filter": dropping()})
    bench = await searched(desk, forgiving=True)
    await bench.use("lookup_url", {"url": "https://news.example/one"})
    assert [inquiry.role for inquiry in desk.models.inquiries] == ["filter"]
    assert len(desk.fetcher.requests) == 1
