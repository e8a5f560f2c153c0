"""Four layers against what came after the cutoff: a leak planted for each is caught by it alone, and counted."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.config.schema import ResearchSection
from bot.core.errors import FoxcastError, ServiceUnavailableError, TrialLimitReachedError
from bot.core.language_models import MessageRole, ModelRequest
from bot.core.questions import Question
from bot.core.research import FetchedPage, SearchResult
from bot.core.values import Json
from bot.forecasting.leak_guard.content_filter import parse_verdict
from bot.forecasting.tool_factory import ConfiguredSearchEngine
from bot.forecasting.trial_memory import FilterCounts
from bot.testing.research import (
    FakeDataSource,
    FakePageSource,
    FakeRedirect,
    PlainTextReader,
    ScriptedModelGateway,
    ScriptedSearchEngine,
    drop_results,
    reply_in_turn,
)
from tests.unit.forecasting.research_fixture import (
    CHARGE,
    CUTOFF,
    ResearchFixture,
    as_json,
    data_question,
    hit,
    level,
    market,
    names,
    passage,
)

BACKDATED = market(as_of=CUTOFF)
DAY = timedelta(days=1)


def filtering(*dropped: int) -> ScriptedModelGateway:
    return ScriptedModelGateway(roles={"filter": drop_results(*dropped)})


async def searched(research: ResearchFixture, *hits: SearchResult, **changes: object) -> tuple[str, FilterCounts]:
    research.engine.hits = hits
    context = await research.open_trial(BACKDATED, **changes)
    result = await context.use_tool("web_search", {"query": "lamp"})
    return result.observation.text, context.caught


@pytest.mark.parametrize("days", [0, 1, 400])
async def test_a_result_dated_at_or_after_the_cutoff_is_left_out_though_the_engine_brought_it(
    research: ResearchFixture, days: int
) -> None:
    text, caught = await searched(research, hit("early"), hit("late", published_at=CUTOFF + days * DAY))
    assert caught == FilterCounts(dates=1)
    assert "About early" in text
    assert "late" not in text.replace("dated after", "")
    assert "1 dated after the cutoff" in text
    assert research.engine.searched[0].before == CUTOFF


async def test_a_stale_page_that_dates_itself_after_the_cutoff_is_not_read(research: ResearchFixture) -> None:
    url = "https://news.example/lamp"
    research.fetcher.web, research.reader = {url: "Lamp\nIt was lit."}, PlainTextReader({url: CUTOFF + DAY})
    research.models = filtering()
    research.engine.hits = [hit("lamp")]
    context = await research.open_trial(BACKDATED)
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": url})
    assert result.failed
    assert "It was lit" not in result.observation.text
    assert context.caught == FilterCounts(dates=1)


async def test_an_edited_page_is_dropped_by_what_it_tells(research: ResearchFixture) -> None:
    def judge(inquiry: ModelRequest) -> str:
        shown = inquiry.prompt.messages[-1].text
        return as_json({1: "drop" if "It was lit on 3 March" in shown else "keep"})

    url = "https://news.example/lamp"
    research.fetcher.web, research.reader = (
        {url: "Lamp\nUpdate: It was lit on 3 March."},
        PlainTextReader({url: CUTOFF - DAY}),
    )
    research.models = ScriptedModelGateway(roles={"filter": judge})
    research.engine.hits = [hit("lamp")]
    context = await research.open_trial(BACKDATED)
    assert "About lamp" in (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    result = await context.use_tool("lookup_url", {"url": url})
    assert result.failed
    assert "3 March" not in result.observation.text
    assert context.caught == FilterCounts(content=1)


async def test_one_call_judges_all_results_of_a_search_without_their_dates(research: ResearchFixture) -> None:
    research.models = filtering(2)
    text, caught = await searched(research, hit("one"), hit("two"), hit("three"))
    assert caught == FilterCounts(content=1)
    assert ["About one" in text, "About two" in text, "About three" in text] == [True, False, True]
    (inquiry,) = research.models.requests
    assert inquiry.role == "filter"
    assert inquiry.charge == CHARGE
    assert "2026-03-01 00:00" in inquiry.prompt.messages[0].text
    assert "2026-02-19" not in inquiry.prompt.messages[1].text
    assert [message.speaker for message in inquiry.prompt.messages] == [MessageRole.SYSTEM, MessageRole.USER]


async def test_the_cost_of_judging_comes_back_with_the_result(research: ResearchFixture) -> None:
    research.models = filtering()
    research.engine.hits = [hit("one")]
    result = await (await research.open_trial(BACKDATED)).use_tool("web_search", {"query": "lamp"})
    assert result.usage == research.models.usage


async def test_without_a_filter_results_are_marked_and_pages_of_today_are_not_read(research: ResearchFixture) -> None:
    research.engine.hits = [hit("one"), hit("two", text="The whole story.")]
    context = await research.open_trial(BACKDATED)
    text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    assert "not checked for information from after the cutoff" in text
    assert "lookup_url" not in names(context)
    read = await context.use_tool("summarize_results", {"search_index": 1, "result_indices": [1, 2], "question": "?"})
    assert "The whole story." not in read.observation.text
    assert "Something on two." in read.observation.text
    assert research.fetcher.requests == []


TEXT = hit("two", text="Edited later: it was lit on 14 March.")
READ: dict[str, Json] = {"search_index": 1, "result_indices": [1, 2], "question": "lit?"}


@pytest.mark.parametrize(
    "reply", [ServiceUnavailableError("busy"), TrialLimitReachedError("over", limit="time"), "I would rather not say."]
)
async def test_of_an_earlier_day_the_excerpts_alone_are_read_while_the_filter_is_down(
    research: ResearchFixture, reply: str | FoxcastError
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": lambda _: reply})
    research.engine.hits = [hit("one", snippet="", text="It was lit."), TEXT]
    context = await research.open_trial(BACKDATED)
    with capture_logs() as logs:
        text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
        await context.use_tool("web_search", {"query": "lamp again"})
        read = (await context.use_tool("summarize_results", READ)).observation.text
    assert "not checked for information from after the cutoff" in text
    assert "About one" in text
    assert "Something on two." in text
    assert "was lit" not in text + read
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["texts are not checked"]


async def test_a_text_that_an_engine_brought_is_read_once_the_filter_let_it_through(research: ResearchFixture) -> None:
    research.models = filtering()
    research.engine.hits = [hit("one"), TEXT]
    context = await research.open_trial(BACKDATED)
    await context.use_tool("web_search", {"query": "lamp"})
    assert "lit on 14 March" in (await context.use_tool("summarize_results", READ)).observation.text


@pytest.mark.parametrize(("question", "shown"), [(BACKDATED, [False, True]), (market(), [True, True])])
async def test_what_the_filter_passes_over_is_left_out_for_an_earlier_day_alone(
    research: ResearchFixture, question: Question, shown: list[bool]
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": lambda _: as_json({2: "keep"})})
    research.engine.hits = [hit("one"), hit("two")]
    context = await research.open_trial(question)
    text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    assert ["About one" in text, "About two" in text] == shown
    assert context.caught == FilterCounts(unchecked=shown.count(False))


async def test_of_an_earlier_day_a_page_that_the_filter_passes_over_is_not_read(research: ResearchFixture) -> None:
    research.models = ScriptedModelGateway(roles={"filter": reply_in_turn(as_json({1: "keep"}), '{"results": []}')})
    research.fetcher.web = {"https://news.example/one": "One\nIt was lit."}
    research.engine.hits = [hit("one")]
    context = await research.open_trial(BACKDATED)
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert "It was lit" not in result.observation.text


async def test_the_filter_sees_all_that_the_forecaster_would_see(research: ResearchFixture) -> None:
    page = f"One\n{'x ' * 12_000}IT WAS LIT"
    research.section = ResearchSection(page_chars=50_000, text_chars=50_000)
    research.models = filtering()
    research.fetcher.web = {"https://news.example/one": page}
    research.engine.hits = [hit("one", snippet="", text=page)]
    context = await research.open_trial(BACKDATED)
    await context.use_tool("web_search", {"query": "lamp"})
    assert "IT WAS LIT" in (await context.use_tool("lookup_url", {"url": "https://news.example/one"})).observation.text
    shown = [inquiry.prompt.messages[-1].text for inquiry in research.models.requests]
    assert ["IT WAS LIT" in text for text in shown] == [True, True]
    assert "https://news.example/one" in shown[0]


async def test_a_filter_that_does_not_answer_lets_no_page_of_today_through(research: ResearchFixture) -> None:
    research.models = ScriptedModelGateway(roles={"filter": lambda _: ServiceUnavailableError("busy")})
    research.fetcher.web = {"https://news.example/one": "One\nIt was lit."}
    research.engine.hits = [hit("one")]
    context = await research.open_trial(BACKDATED)
    assert (
        "not checked for information from after the cutoff"
        in (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    )
    result = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert "It was lit" not in result.observation.text


async def test_today_without_a_filter_nothing_is_marked_and_pages_are_read(research: ResearchFixture) -> None:
    research.fetcher.web = {"https://news.example/one": "One\nStill dark."}
    research.engine.hits = [hit("one")]
    context = await research.open_trial(market())
    assert (
        "not checked for information from after the cutoff"
        not in (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    )
    assert "Still dark." in (await context.use_tool("lookup_url", {"url": "https://news.example/one"})).observation.text


@pytest.mark.parametrize(
    ("reply", "dropped", "kept", "checked"),
    [
        (as_json({1: "keep", 2: "drop"}), {1}, {0}, True),
        (f"Here you are:\n```json\n{as_json({3: 'DROP '})}\n```", {2}, set(), True),
        (as_json({0: "drop", 4: "drop", -1: "drop"}), set(), set(), True),
        ('{"results": [{"number": "1", "verdict": "drop"}, {"number": 2.0, "verdict": "keep"}]}', {0}, {1}, True),
        ('{"results": [{"number": 1, "verdict": "drop"}, {"number": 1, "verdict": "keep"}]}', {0}, set(), True),
        ('{"results": [{"number": true, "verdict": "drop"}, {"number": 1.5, "verdict": "drop"}]}', set(), set(), True),
        ('{"results": [5, null, {"verdict": "drop"}, {"number": 1, "verdict": "perhaps"}]}', set(), set(), True),
        ('{"results": [{"number": 1e400, "verdict": "drop"}, {"number": [1], "verdict": "drop"}]}', set(), set(), True),
        (f'{{"results": [{{"number": "{"9" * 5000}", "verdict": "drop"}}]}}', set(), set(), True),
        ('{"results": []}', set(), set(), True),
        ('{"results": 3}', set(), set(), False),
        ("1: DROP", set(), set(), False),
        ("", set(), set(), False),
        ("[" * 100_000, set(), set(), False),
        ("{" * 100_000 + "}", set(), set(), False),
    ],
)
def test_a_verdict_is_what_is_clearly_said_of_a_number_and_a_reply_that_is_none_checks_nothing(
    reply: str, dropped: set[int], kept: set[int], *, checked: bool
) -> None:
    verdict = parse_verdict(reply, 3)
    assert (set(verdict.dropped), set(verdict.kept), verdict.checked) == (dropped, kept, checked)


@pytest.mark.parametrize("tool", ["series_history", "series_combo"])
async def test_points_from_the_cutoff_on_are_dropped_though_the_source_gave_them(
    research: ResearchFixture, tool: str
) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": level(beyond=5)}, series_of_questions=["LEVEL"]))
    context = await research.open_trial(data_question())
    result = await context.use_tool(tool, {"until": "2027-01-01"})
    assert context.caught == FilterCounts(clamped=5)
    assert "5 on or after the cutoff" in result.observation.text
    assert "2026-02-28,28" in result.observation.text
    assert "2026-03-01," not in result.observation.text
    assert isinstance(result.data, dict)
    assert result.data["last"] == ["2026-02-28", 28.0]


async def test_points_after_the_day_asked_for_are_left_out_and_not_counted(research: ResearchFixture) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": level()}, series_of_questions=["LEVEL"]))
    context = await research.open_trial(data_question())
    text = (await context.use_tool("series_history", {"until": "2026-02-20"})).observation.text
    assert "2026-02-20,20" in text
    assert "2026-02-21" not in text
    assert context.caught == FilterCounts()


async def test_a_passage_revised_after_the_cutoff_is_refused(research: ResearchFixture) -> None:
    late = passage("Now", "It was lit.", revised_at=CUTOFF)
    research.add_page_source(FakePageSource({("Lamp", "Now"): late, ("Lamp", "Then"): passage("Then", "It was dark.")}))
    context = await research.open_trial(BACKDATED)
    refused = await context.use_tool("fetch_lexicon_section", {"page": "Lamp", "heading": "Now"})
    assert refused.failed
    assert "It was lit" not in refused.observation.text
    assert context.caught == FilterCounts(clamped=1)
    read = await context.use_tool("fetch_lexicon_section", {"page": "Lamp", "heading": "Then"})
    assert "It was dark." in read.observation.text


@pytest.mark.parametrize(
    "url",
    [
        "https://api.LANTERN.example./v2/lamp",
        "https://harbour.example/lamp/status?now",
        "https://keeper.example/rota",
        "https://archive.example/2026/https://lantern.example/q/lamp",
    ],
)
async def test_a_result_at_a_blocked_address_is_dropped_and_the_address_not_read(
    research: ResearchFixture, url: str
) -> None:
    research.models = filtering()
    text, caught = await searched(research, hit("one"), hit("answer", url=url))
    assert caught == FilterCounts(blocked=1)
    assert "answer" not in text
    context = await research.open_trial(BACKDATED, charge=dataclasses.replace(CHARGE, trial=2))
    await context.use_tool("web_search", {"query": "lamp"})
    assert (await context.use_tool("lookup_url", {"url": url})).failed
    assert research.fetcher.requests == []


async def test_a_redirect_to_a_blocked_host_is_not_followed(research: ResearchFixture) -> None:
    research.models = filtering()
    research.engine.hits = [hit("one")]
    research.fetcher.web = {
        "https://news.example/one": FakeRedirect("https://short.example/x"),
        "https://short.example/x": FakeRedirect("https://me@LANTERN.example:443/q"),
        "https://me@LANTERN.example:443/q": "The answer",
    }
    context = await research.open_trial(BACKDATED)
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert context.caught == FilterCounts(blocked=1)
    assert research.fetcher.requests == ["https://news.example/one", "https://short.example/x"]


async def test_a_page_from_a_blocked_host_is_not_used_even_if_the_fetcher_followed(research: ResearchFixture) -> None:
    class Careless:
        async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> FetchedPage:
            return FetchedPage(url="https://lantern.example/q", content=b"The answer", media_type="text/plain")

    research.models = filtering()
    research.engine.hits = [hit("one")]
    context = await research.open_trial(BACKDATED, fetcher=Careless())
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert "answer" not in result.observation.text
    assert context.caught == FilterCounts(blocked=1)


async def test_blocked_addresses_are_left_out_of_every_text(research: ResearchFixture) -> None:
    leaky = "See https://lantern.example/q/lamp for it."
    research.models = ScriptedModelGateway(roles={"filter": drop_results(), "summariser": lambda _: leaky})
    research.fetcher.web = {"https://news.example/one": f"{leaky}\n{leaky}"}
    research.add_page_source(FakePageSource({("Lamp", "Then"): passage("Then", leaky)}))
    research.engine.hits = [hit("one", title=leaky, snippet=leaky)]
    context = await research.open_trial(BACKDATED)
    uses: dict[str, dict[str, Json]] = {
        "web_search": {"query": "lamp"},
        "summarize_results": {"search_index": 1, "result_indices": [1], "question": "?"},
        "lookup_url": {"url": "https://news.example/one"},
        "fetch_lexicon_section": {"page": "Lamp", "heading": "Then"},
    }
    texts = [(await context.use_tool(tool, arguments)).observation.text for tool, arguments in uses.items()]
    assert [text.count("[address left out] for it") for text in texts] == [2, 1, 2, 1]
    assert not any("lantern.example/q" in text for text in texts)


async def test_an_engine_that_cannot_bound_dates_is_not_used_for_a_backdated_question(
    research: ResearchFixture,
) -> None:
    research.engine.hits = [hit("one")]
    engines = [ConfiguredSearchEngine(name="finder", engine=research.engine)]
    assert "web_search" not in names(await research.open_trial(BACKDATED, search_engines=engines))
    context = await research.open_trial(market(), charge=dataclasses.replace(CHARGE, trial=2), search_engines=engines)
    await context.use_tool("web_search", {"query": "lamp"})
    assert [search.before for search in research.engine.searched] == [None]


async def test_a_cutoff_long_past_counts_as_backdated_and_one_of_this_hour_does_not(research: ResearchFixture) -> None:
    engines = [ConfiguredSearchEngine(name="finder", engine=ScriptedSearchEngine())]
    offered = []
    for trial, hours in enumerate((1, 3), 1):
        charge = dataclasses.replace(CHARGE, trial=trial)
        context = await research.open_trial(
            charge=charge, search_engines=engines, cutoff=CUTOFF - timedelta(hours=hours)
        )
        offered.append("web_search" in names(context))
    assert offered == [True, False]


async def test_a_clairvoyant_sees_everything(research: ResearchFixture) -> None:
    url = "https://lantern.example/q/lamp"
    research.models = filtering(1, 2)
    research.engine.hits = [hit("late", published_at=CUTOFF + DAY), hit("answer", url=url)]
    research.fetcher.web = {url: "Lamp\nIt was lit."}
    research.add_data_source(FakeDataSource({"LEVEL": level(beyond=5)}, series_of_questions=["LEVEL"]))
    research.add_page_source(FakePageSource({("Lamp", "Now"): passage("Now", "Lit since.", revised_at=CUTOFF + DAY)}))
    research.clock.set_wall_clock(9 * 86_400)
    context = await research.open_trial(BACKDATED, guarded=False)
    text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    assert ["About late" in text, "About answer" in text] == [True, True]
    assert "It was lit." in (await context.use_tool("lookup_url", {"url": url})).observation.text
    assert "2026-03-05,5" in (await context.use_tool("series_history", {})).observation.text
    arguments = {"page": "Lamp", "heading": "Now"}
    assert "Lit since." in (await context.use_tool("fetch_lexicon_section", arguments)).observation.text
    assert context.caught == FilterCounts()
    assert research.models.requests == []
    assert research.engine.searched[0].before is None


def test_what_was_caught_adds_up_and_says_so() -> None:
    both = FilterCounts(dates=1, blocked=2) + FilterCounts(dates=1, content=3)
    assert both == FilterCounts(dates=2, content=3, blocked=2)
    assert both.describe("results") == (
        "results left out: 2 dated after the cutoff, 3 reporting what happened after the cutoff, "
        "2 from an address that is not read for this question"
    )
    assert FilterCounts().describe("results") == ""
