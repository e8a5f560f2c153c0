"""A trial that is taken up under other guards is refused; one that is begun anew asks again what may have changed."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from bot.config.schema import ResearchSection
from bot.core.errors import (
    AuthenticationError,
    BudgetExhaustedError,
    ConfigError,
    FoxcastError,
    LeakError,
    NotFoundError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.language_models import Message, MessageRole, Prompt
from bot.core.research import SeriesModel
from bot.core.values import Json
from bot.forecasting.tool_factory import ConfiguredSearchEngine
from bot.forecasting.trial_tools import RecordedTrialContext
from bot.testing.research import (
    FakeDataSource,
    FakePageSource,
    FakeRedirect,
    ScriptedModelGateway,
    ScriptedSearchEngine,
    drop_results,
    reply_in_turn,
)
from tests.unit.forecasting.research_fixture import (
    CHARGE,
    CUTOFF,
    ResearchFixture,
    data_question,
    hit,
    level,
    market,
    names,
)

BACKDATED = market(as_of=CUTOFF)
LAMP: dict[str, Json] = {"query": "lamp"}
ASKED = Prompt(messages=(Message(speaker=MessageRole.USER, text="a"),))


async def searched(research: ResearchFixture, **changes: Any) -> RecordedTrialContext:
    context = await research.open_trial(BACKDATED, **changes)
    await context.use_tool("web_search", LAMP)
    return context


async def heard(context: RecordedTrialContext) -> str:
    try:
        return (await context.ask_model("main", ASKED)).completion.text
    except FoxcastError as error:
        return type(error).__name__


@pytest.mark.parametrize("forgiving", [False, True])
@pytest.mark.parametrize(
    ("first", "says"), [(True, "began under guard"), (False, "began without guard against knowing the future")]
)
async def test_a_trial_goes_on_under_the_guards_it_began_with_or_not_at_all(
    research: ResearchFixture, says: str, *, first: bool, forgiving: bool
) -> None:
    research.clock.set_wall_clock(9 * 86_400)
    await searched(research, guarded=first)
    research.section = ResearchSection(results=3)
    with pytest.raises(LeakError, match=f"trial 1 of f1 {says}"):
        await research.open_trial(BACKDATED, guarded=not first, retry_failures=forgiving)
    assert (await research.open_trial(BACKDATED, guarded=first, retry_failures=forgiving)).opening.guarded == first


async def test_a_trial_that_began_with_a_later_cutoff_is_not_taken_up(research: ResearchFixture) -> None:
    await searched(research)
    with pytest.raises(LeakError, match="known before 2026-03-01"):
        await research.open_trial(BACKDATED, cutoff=CUTOFF - timedelta(seconds=1))
    assert (await research.open_trial(BACKDATED, cutoff=CUTOFF + timedelta(hours=1))).opening.bound == CUTOFF


async def test_trials_share_the_tools_that_are_written_the_same(research: ResearchFixture) -> None:
    charge = dataclasses.replace(CHARGE, scope="f2")
    one, other = await research.open_trial(), await research.open_trial(charge=charge)
    assert one.all_tools
    assert all(tool is same for tool, same in zip(one.all_tools, other.all_tools, strict=True))


@pytest.mark.parametrize("first", [True, False])
async def test_a_replay_reads_a_trial_whatever_its_guards_were(research: ResearchFixture, *, first: bool) -> None:
    research.engine.hits = [hit("one")]
    await searched(research, guarded=first)
    sealed = await research.open_trial(BACKDATED, read_only=True, guarded=not first)
    assert "About one" in (await sealed.use_tool("web_search", LAMP)).observation.text


@pytest.mark.parametrize(
    "fault",
    [
        *(
            ServiceUnavailableError("down"),
            AuthenticationError("401"),
            RequestRejectedError("no"),
            ConfigError("table"),
        ),
        *(BudgetExhaustedError("spent"), QuotaExhaustedError("no money"), TrialLimitReachedError("over", limit="time")),
    ],
)
async def test_begun_anew_a_model_that_failed_is_asked_again_and_otherwise_failed_for_ever(
    research: ResearchFixture, fault: FoxcastError
) -> None:
    research.models = ScriptedModelGateway(roles={"main": lambda _: fault})
    assert await heard(await research.open_trial(BACKDATED)) == type(fault).__name__
    research.models = ScriptedModelGateway(roles={"main": reply_in_turn("mended", "again")})
    assert await heard(await research.open_trial(BACKDATED)) == type(fault).__name__
    assert (
        await heard(await research.open_trial(BACKDATED, read_only=True, retry_failures=True)) == type(fault).__name__
    )
    context = await research.open_trial(BACKDATED, retry_failures=True)
    assert [await heard(context), await heard(context)] == ["mended", "again"]
    # As if it had not failed: the gateway knows an answer by this number.
    assert [inquiry.nth for inquiry in research.models.requests] == [0, 1]
    context = await research.open_trial(BACKDATED, retry_failures=True)
    assert [await heard(context), await heard(context)] == ["mended", "again"]
    assert len(research.models.requests) == 2


async def test_begun_anew_a_search_that_failed_is_made_again_under_its_own_number(research: ResearchFixture) -> None:
    research.engine.hits = AuthenticationError("401")
    assert (await (await research.open_trial(BACKDATED)).use_tool("web_search", LAMP)).failed
    research.engine.hits = [hit("one")]
    assert (await (await research.open_trial(BACKDATED)).use_tool("web_search", LAMP)).failed
    again = await (await research.open_trial(BACKDATED, retry_failures=True)).use_tool("web_search", LAMP)
    assert again.observation.text.startswith("search_1: 1 result.")
    assert await (await research.open_trial(BACKDATED, retry_failures=True)).use_tool("web_search", LAMP) == again
    assert len(research.engine.searched) == 2


async def test_begun_anew_what_was_read_without_the_filter_is_judged_and_not_searched_again(
    research: ResearchFixture,
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": lambda _: ServiceUnavailableError("busy")})
    research.engine.hits = [hit("one")]
    await searched(research)
    research.models = ScriptedModelGateway(roles={"filter": drop_results(1)})
    context = await searched(research, retry_failures=True)
    assert context.caught.content == 1
    assert len(research.engine.searched) == 1


async def test_begun_anew_what_another_engine_answered_and_what_is_not_there_stands(research: ResearchFixture) -> None:
    broken, working = ScriptedSearchEngine(ServiceUnavailableError("down")), ScriptedSearchEngine([hit("one")])
    research.engines = [
        ConfiguredSearchEngine(name=n, engine=e, bounds_dates=True)
        for n, e in (("broken", broken), ("working", working))
    ]
    gauge = FakeDataSource({"LEVEL": NotFoundError("no series")}, series_of_questions=["LEVEL"])
    research.add_data_source(gauge)
    for _ in range(2):
        context = await searched(research, retry_failures=True)
        assert (await context.use_tool("series_history", {})).failed
    assert [len(broken.searched), len(working.searched), len(gauge.asked)] == [1, 1, 1]


async def test_under_another_configuration_a_trial_is_begun_anew_and_the_first_one_is_still_there(
    research: ResearchFixture,
) -> None:
    calls: list[str] = []

    def answer(_: object) -> str:
        calls.append("asked")
        return f"answer {len(calls)}"

    research.models = ScriptedModelGateway(roles={"main": answer})
    research.engine.hits = [hit("one"), hit("two")]
    seen = []
    for results in (2, 1, 2, 1):
        research.section = ResearchSection(results=results)
        context = await research.open_trial(BACKDATED, retry_failures=True)
        text = (await context.use_tool("web_search", LAMP)).observation.text
        seen.append((text[:9], "About two" in text, await heard(context)))
    first, other = ("search_1:", True, "answer 1"), ("search_1:", False, "answer 2")
    assert seen == [first, other, first, other]
    assert [inquiry.nth for inquiry in research.models.requests] == [0, 0]


async def test_a_live_trial_goes_on_as_it_began_under_another_configuration(research: ResearchFixture) -> None:
    research.engine.hits = [hit("one"), hit("two")]
    before = await searched(research)
    research.section = ResearchSection(results=1)
    again = await searched(research)
    assert again.opening == before.opening
    assert len(research.engine.searched) == 1


async def test_a_new_engine_is_there_for_a_trial_that_is_begun_anew(research: ResearchFixture) -> None:
    unfit = [ConfiguredSearchEngine(name="finder", engine=research.engine)]
    research.engine.hits = [hit("one")]
    assert (await (await research.open_trial(BACKDATED, search_engines=unfit)).use_tool("web_search", LAMP)).failed
    assert "web_search" not in names(await research.open_trial(BACKDATED))
    context = await research.open_trial(BACKDATED, retry_failures=True)
    assert "About one" in (await context.use_tool("web_search", LAMP)).observation.text


GAUGE = FakeDataSource({"LEVEL": level()}, series_of_questions=["LEVEL"])
CHANGES: dict[str, Any] = {
    "a filter": lambda research: setattr(
        research, "models", ScriptedModelGateway(roles={"main": lambda _: "", "filter": drop_results()})
    ),
    "a section": lambda research: setattr(research, "section", ResearchSection(page_chars=300)),
    "a shelf": lambda research: research.add_page_source(FakePageSource({})),
    "blocked": lambda research: setattr(research, "blocked", frozenset({"other.example"})),
    "another model of series": lambda research: research.add_data_source(GAUGE, model=SeriesModel(seasonal=True)),
    "a policy": lambda research: setattr(
        research, "section", ResearchSection.model_validate({"sources": {"tides": {"searches": 1}}})
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_whatever_the_context_is_put_together_from_is_part_of_its_configuration(
    research: ResearchFixture, change: Any
) -> None:
    research.add_data_source(GAUGE)
    research.models = ScriptedModelGateway(roles={"main": lambda _: ""})
    question = data_question()
    before = (await research.open_trial(question)).opening.configuration
    assert (await research.open_trial(question)).opening.configuration == before
    assert (
        await research.open_trial(question, models_by_role={"main": "lantern:small"})
    ).opening.configuration != before
    change(research)
    assert (await research.open_trial(question)).opening.configuration != before


async def test_a_page_on_record_is_not_told_where_its_redirect_led_to_what_is_blocked_now(
    research: ResearchFixture,
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    research.engine.hits = [hit("one")]
    research.fetcher.web = {
        "https://news.example/one": FakeRedirect("https://harbourmaster.example/q"),
        "https://harbourmaster.example/q": "It was lit.",
    }
    seen = []
    for blocked in ("lantern.example", "harbourmaster.example"):
        research.blocked = frozenset({blocked})
        context = await searched(research, retry_failures=True)
        text = (await context.use_tool("lookup_url", {"url": "https://news.example/one"})).observation.text
        seen.append(("It was lit." in text, context.caught.blocked))
    assert seen == [(True, 0), (False, 1)]
    assert len(research.fetcher.requests) == 2


async def test_the_table_of_another_source_changes_nothing(research: ResearchFixture) -> None:
    before = (await research.open_trial(BACKDATED)).opening.configuration
    research.section = ResearchSection.model_validate({"sources": {"elsewhere": {"searches": 1}}})
    assert (await research.open_trial(BACKDATED)).opening.configuration == before
    assert (
        await research.open_trial(dataclasses.replace(BACKDATED, source="elsewhere"))
    ).opening.configuration != before


async def test_begun_anew_a_page_that_could_not_be_read_stays_unread_and_changes_no_prompt(
    research: ResearchFixture,
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    research.engine.hits = [hit("one"), hit("two")]
    read: dict[str, Json] = {"search_index": 1, "result_indices": [1, 2], "question": "?"}
    research.fetcher.web = {
        "https://news.example/one": ServiceUnavailableError("no such host"),
        "https://news.example/two": "Two\nlit",
    }
    seen = []
    for _ in range(2):
        context = await searched(research, retry_failures=True)
        looked = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
        seen.append((looked, await context.use_tool("summarize_results", dict(read))))
        research.fetcher.web["https://news.example/one"] = "One\nIt is there now."
    assert seen[0] == seen[1]
    assert "cannot be reached" in seen[0][0].observation.text
    # Looked up once and read once with the other one.
    assert len(research.fetcher.requests) == 3


async def test_begun_anew_pages_that_no_model_read_are_read_by_one_and_not_fetched_again(
    research: ResearchFixture,
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": lambda _: ServiceUnavailableError("busy")})
    research.engine.hits = [hit("one")]
    research.fetcher.web = {"https://news.example/one": ServiceUnavailableError("no such host")}
    await (await searched(research)).use_tool("lookup_url", {"url": "https://news.example/one"})
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    context = await searched(research, retry_failures=True)
    await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    assert [inquiry.role for inquiry in research.models.requests] == ["filter"]
    assert len(research.fetcher.requests) == 1
