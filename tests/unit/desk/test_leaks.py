"""Four layers against what came after the cutoff: a leak planted for each is caught by it alone, and counted."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.config.schema import ResearchSection
from bot.desk.leaks.caught import Caught
from bot.desk.leaks.content import lacking, verdict_in
from bot.desk.workshop import Engine
from bot.domain.inquiry import Inquiry
from bot.domain.prompt import Speaker
from bot.domain.question import Question
from bot.domain.research import Fetched, Hit
from bot.domain.step import Json
from bot.errors import FoxcastError, LimitReached, Unavailable
from bot.testing.research import (
    MemoryPages,
    MemorySeries,
    PlainReader,
    Redirect,
    ScriptedEngine,
    ScriptedModels,
    dropping,
    replying,
)
from tests.unit.desk.workbench import CHARGE, CUTOFF, Desk, as_json, data_question, hit, level, market, names, passage

BACKDATED = market(as_of=CUTOFF)
DAY = timedelta(days=1)


def filtering(*dropped: int) -> ScriptedModels:
    return ScriptedModels(roles={"filter": dropping(*dropped)})


async def searched(desk: Desk, *hits: Hit, **changes: object) -> tuple[str, Caught]:
    desk.engine.hits = hits
    bench = await desk.bench(BACKDATED, **changes)
    result = await bench.use("web_search", {"query": "lamp"})
    return result.observation.text, bench.caught


@pytest.mark.parametrize("days", [0, 1, 400])
async def test_a_result_dated_at_or_after_the_cutoff_is_left_out_though_the_engine_brought_it(
    desk: Desk, days: int
) -> None:
    text, caught = await searched(desk, hit("early"), hit("late", published_at=CUTOFF + days * DAY))
    assert caught == Caught(dates=1)
    assert "About early" in text
    assert "late" not in text.replace("dated after", "")
    assert "1 dated after the cutoff" in text
    assert desk.engine.searched[0].before == CUTOFF


async def test_a_stale_page_that_dates_itself_after_the_cutoff_is_not_read(desk: Desk) -> None:
    url = "https://news.example/lamp"
    desk.fetcher.web, desk.reader = {url: "Lamp\nIt was lit."}, PlainReader({url: CUTOFF + DAY})
    desk.models = filtering()
    desk.engine.hits = [hit("lamp")]
    bench = await desk.bench(BACKDATED)
    await bench.use("web_search", {"query": "lamp"})
    result = await bench.use("lookup_url", {"url": url})
    assert result.failed
    assert "It was lit" not in result.observation.text
    assert bench.caught == Caught(dates=1)


async def test_an_edited_page_is_dropped_by_what_it_tells(desk: Desk) -> None:
    def judge(inquiry: Inquiry) -> str:
        shown = inquiry.prompt.messages[-1].text
        return as_json({1: "drop" if "It was lit on 3 March" in shown else "keep"})

    url = "https://news.example/lamp"
    desk.fetcher.web, desk.reader = {url: "Lamp\nUpdate: It was lit on 3 March."}, PlainReader({url: CUTOFF - DAY})
    desk.models = ScriptedModels(roles={"filter": judge})
    desk.engine.hits = [hit("lamp")]
    bench = await desk.bench(BACKDATED)
    assert "About lamp" in (await bench.use("web_search", {"query": "lamp"})).observation.text
    result = await bench.use("lookup_url", {"url": url})
    assert result.failed
    assert "3 March" not in result.observation.text
    assert bench.caught == Caught(content=1)


async def test_one_call_judges_all_results_of_a_search_without_their_dates(desk: Desk) -> None:
    desk.models = filtering(2)
    text, caught = await searched(desk, hit("one"), hit("two"), hit("three"))
    assert caught == Caught(content=1)
    assert ["About one" in text, "About two" in text, "About three" in text] == [True, False, True]
    (inquiry,) = desk.models.inquiries
    assert inquiry.role == "filter"
    assert inquiry.charge == CHARGE
    assert "2026-03-01 00:00" in inquiry.prompt.messages[0].text
    assert "2026-02-19" not in inquiry.prompt.messages[1].text
    assert [message.speaker for message in inquiry.prompt.messages] == [Speaker.SYSTEM, Speaker.USER]


async def test_the_cost_of_judging_comes_back_with_the_result(desk: Desk) -> None:
    desk.models = filtering()
    desk.engine.hits = [hit("one")]
    result = await (await desk.bench(BACKDATED)).use("web_search", {"query": "lamp"})
    assert result.usage == desk.models.usage


async def test_without_a_filter_results_are_marked_and_pages_of_today_are_not_read(desk: Desk) -> None:
    desk.engine.hits = [hit("one"), hit("two", text="The whole story.")]
    bench = await desk.bench(BACKDATED)
    text = (await bench.use("web_search", {"query": "lamp"})).observation.text
    assert "Nobody checked" in text
    assert "lookup_url" not in names(bench)
    read = await bench.use("summarize_results", {"search_index": 1, "result_indices": [1, 2], "question": "?"})
    assert "The whole story." not in read.observation.text
    assert "Something on two." in read.observation.text
    assert desk.fetcher.requests == []


TEXT = hit("two", text="Edited later: it was lit on 14 March.")
READ: dict[str, Json] = {"search_index": 1, "result_indices": [1, 2], "question": "lit?"}


@pytest.mark.parametrize("reply", [Unavailable("busy"), LimitReached("over", limit="time"), "I would rather not say."])
async def test_of_an_earlier_day_the_excerpts_alone_are_read_while_the_filter_is_down(
    desk: Desk, reply: str | FoxcastError
) -> None:
    desk.models = ScriptedModels(roles={"filter": lambda _: reply})
    desk.engine.hits = [hit("one", snippet="", text="It was lit."), TEXT]
    bench = await desk.bench(BACKDATED)
    with capture_logs() as logs:
        text = (await bench.use("web_search", {"query": "lamp"})).observation.text
        await bench.use("web_search", {"query": "lamp again"})
        read = (await bench.use("summarize_results", READ)).observation.text
    assert "Nobody checked" in text
    assert "About one" in text
    assert "Something on two." in text
    assert "was lit" not in text + read
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["texts are not checked"]


async def test_a_text_that_an_engine_brought_is_read_once_the_filter_let_it_through(desk: Desk) -> None:
    desk.models = filtering()
    desk.engine.hits = [hit("one"), TEXT]
    bench = await desk.bench(BACKDATED)
    await bench.use("web_search", {"query": "lamp"})
    assert "lit on 14 March" in (await bench.use("summarize_results", READ)).observation.text


@pytest.mark.parametrize(("question", "shown"), [(BACKDATED, [False, True]), (market(), [True, True])])
async def test_what_the_filter_passes_over_is_left_out_for_an_earlier_day_alone(
    desk: Desk, question: Question, shown: list[bool]
) -> None:
    desk.models = ScriptedModels(roles={"filter": lambda _: as_json({2: "keep"})})
    desk.engine.hits = [hit("one"), hit("two")]
    bench = await desk.bench(question)
    text = (await bench.use("web_search", {"query": "lamp"})).observation.text
    assert ["About one" in text, "About two" in text] == shown
    assert bench.caught == Caught(unchecked=shown.count(False))


async def test_of_an_earlier_day_a_page_that_the_filter_passes_over_is_not_read(desk: Desk) -> None:
    desk.models = ScriptedModels(roles={"filter": replying(as_json({1: "keep"}), '{"results": []}')})
    desk.fetcher.web = {"https://news.example/one": "One\nIt was lit."}
    desk.engine.hits = [hit("one")]
    bench = await desk.bench(BACKDATED)
    await bench.use("web_search", {"query": "lamp"})
    result = await bench.use("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert "It was lit" not in result.observation.text


async def test_the_filter_sees_all_that_the_forecaster_would_see(desk: Desk) -> None:
    page = f"One\n{'x ' * 12_000}IT WAS LIT"
    desk.section = ResearchSection(page_chars=50_000, text_chars=50_000)
    desk.models = filtering()
    desk.fetcher.web = {"https://news.example/one": page}
    desk.engine.hits = [hit("one", snippet="", text=page)]
    bench = await desk.bench(BACKDATED)
    await bench.use("web_search", {"query": "lamp"})
    assert "IT WAS LIT" in (await bench.use("lookup_url", {"url": "https://news.example/one"})).observation.text
    shown = [inquiry.prompt.messages[-1].text for inquiry in desk.models.inquiries]
    assert ["IT WAS LIT" in text for text in shown] == [True, True]
    assert "https://news.example/one" in shown[0]


def test_a_desk_that_is_to_filter_without_a_model_says_what_is_missing() -> None:
    assert "[llm.roles.filter]" in str(lacking(ResearchSection(), {"main"}))
    assert lacking(ResearchSection(), {"main", "filter"}) is None
    assert lacking(ResearchSection(filter=False), ()) is None


async def test_a_filter_that_does_not_answer_lets_no_page_of_today_through(desk: Desk) -> None:
    desk.models = ScriptedModels(roles={"filter": lambda _: Unavailable("busy")})
    desk.fetcher.web = {"https://news.example/one": "One\nIt was lit."}
    desk.engine.hits = [hit("one")]
    bench = await desk.bench(BACKDATED)
    assert "Nobody checked" in (await bench.use("web_search", {"query": "lamp"})).observation.text
    result = await bench.use("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert "It was lit" not in result.observation.text


async def test_today_without_a_filter_nothing_is_marked_and_pages_are_read(desk: Desk) -> None:
    desk.fetcher.web = {"https://news.example/one": "One\nStill dark."}
    desk.engine.hits = [hit("one")]
    bench = await desk.bench(market())
    assert "Nobody checked" not in (await bench.use("web_search", {"query": "lamp"})).observation.text
    assert "Still dark." in (await bench.use("lookup_url", {"url": "https://news.example/one"})).observation.text


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
    verdict = verdict_in(reply, 3)
    assert (set(verdict.dropped), set(verdict.kept), verdict.checked) == (dropped, kept, checked)


@pytest.mark.parametrize("tool", ["series_history", "series_combo"])
async def test_points_from_the_cutoff_on_are_dropped_though_the_source_gave_them(desk: Desk, tool: str) -> None:
    desk.gauge(MemorySeries({"LEVEL": level(beyond=5)}, about=["LEVEL"]))
    bench = await desk.bench(data_question())
    result = await bench.use(tool, {"until": "2027-01-01"})
    assert bench.caught == Caught(clamped=5)
    assert "5 on or after the cutoff" in result.observation.text
    assert "2026-02-28,28" in result.observation.text
    assert "2026-03-01," not in result.observation.text
    assert isinstance(result.data, dict)
    assert result.data["last"] == ["2026-02-28", 28.0]


async def test_points_after_the_day_asked_for_are_left_out_and_not_counted(desk: Desk) -> None:
    desk.gauge(MemorySeries({"LEVEL": level()}, about=["LEVEL"]))
    bench = await desk.bench(data_question())
    text = (await bench.use("series_history", {"until": "2026-02-20"})).observation.text
    assert "2026-02-20,20" in text
    assert "2026-02-21" not in text
    assert bench.caught == Caught()


async def test_a_passage_revised_after_the_cutoff_is_refused(desk: Desk) -> None:
    late = passage("Now", "It was lit.", revised_at=CUTOFF)
    desk.shelf(MemoryPages({("Lamp", "Now"): late, ("Lamp", "Then"): passage("Then", "It was dark.")}))
    bench = await desk.bench(BACKDATED)
    refused = await bench.use("fetch_lexicon_section", {"page": "Lamp", "heading": "Now"})
    assert refused.failed
    assert "It was lit" not in refused.observation.text
    assert bench.caught == Caught(clamped=1)
    read = await bench.use("fetch_lexicon_section", {"page": "Lamp", "heading": "Then"})
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
async def test_a_result_at_a_blocked_address_is_dropped_and_the_address_not_read(desk: Desk, url: str) -> None:
    desk.models = filtering()
    text, caught = await searched(desk, hit("one"), hit("answer", url=url))
    assert caught == Caught(blocked=1)
    assert "answer" not in text
    bench = await desk.bench(BACKDATED, charge=dataclasses.replace(CHARGE, trial=2))
    await bench.use("web_search", {"query": "lamp"})
    assert (await bench.use("lookup_url", {"url": url})).failed
    assert desk.fetcher.requests == []


async def test_a_redirect_to_a_blocked_host_is_not_followed(desk: Desk) -> None:
    desk.models = filtering()
    desk.engine.hits = [hit("one")]
    desk.fetcher.web = {
        "https://news.example/one": Redirect("https://short.example/x"),
        "https://short.example/x": Redirect("https://me@LANTERN.example:443/q"),
        "https://me@LANTERN.example:443/q": "The answer",
    }
    bench = await desk.bench(BACKDATED)
    await bench.use("web_search", {"query": "lamp"})
    result = await bench.use("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert bench.caught == Caught(blocked=1)
    assert desk.fetcher.requests == ["https://news.example/one", "https://short.example/x"]


async def test_a_page_from_a_blocked_host_is_not_used_even_if_the_fetcher_followed(desk: Desk) -> None:
    class Careless:
        async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> Fetched:
            return Fetched(url="https://lantern.example/q", content=b"The answer", media_type="text/plain")

    desk.models = filtering()
    desk.engine.hits = [hit("one")]
    bench = await desk.bench(BACKDATED, fetcher=Careless())
    await bench.use("web_search", {"query": "lamp"})
    result = await bench.use("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert "answer" not in result.observation.text
    assert bench.caught == Caught(blocked=1)


async def test_blocked_addresses_are_left_out_of_every_text(desk: Desk) -> None:
    leaky = "See https://lantern.example/q/lamp for it."
    desk.models = ScriptedModels(roles={"filter": dropping(), "summariser": lambda _: leaky})
    desk.fetcher.web = {"https://news.example/one": f"{leaky}\n{leaky}"}
    desk.shelf(MemoryPages({("Lamp", "Then"): passage("Then", leaky)}))
    desk.engine.hits = [hit("one", title=leaky, snippet=leaky)]
    bench = await desk.bench(BACKDATED)
    uses: dict[str, dict[str, Json]] = {
        "web_search": {"query": "lamp"},
        "summarize_results": {"search_index": 1, "result_indices": [1], "question": "?"},
        "lookup_url": {"url": "https://news.example/one"},
        "fetch_lexicon_section": {"page": "Lamp", "heading": "Then"},
    }
    texts = [(await bench.use(tool, arguments)).observation.text for tool, arguments in uses.items()]
    assert [text.count("[address left out] for it") for text in texts] == [2, 1, 2, 1]
    assert not any("lantern.example/q" in text for text in texts)


async def test_an_engine_that_cannot_bound_dates_is_not_used_for_a_backdated_question(desk: Desk) -> None:
    desk.engine.hits = [hit("one")]
    engines = [Engine(name="finder", engine=desk.engine)]
    assert "web_search" not in names(await desk.bench(BACKDATED, engines=engines))
    bench = await desk.bench(market(), charge=dataclasses.replace(CHARGE, trial=2), engines=engines)
    await bench.use("web_search", {"query": "lamp"})
    assert [search.before for search in desk.engine.searched] == [None]


async def test_a_cutoff_long_past_counts_as_backdated_and_one_of_this_hour_does_not(desk: Desk) -> None:
    engines = [Engine(name="finder", engine=ScriptedEngine())]
    offered = []
    for trial, hours in enumerate((1, 3), 1):
        charge = dataclasses.replace(CHARGE, trial=trial)
        bench = await desk.bench(charge=charge, engines=engines, cutoff=CUTOFF - timedelta(hours=hours))
        offered.append("web_search" in names(bench))
    assert offered == [True, False]


async def test_a_clairvoyant_sees_everything(desk: Desk) -> None:
    url = "https://lantern.example/q/lamp"
    desk.models = filtering(1, 2)
    desk.engine.hits = [hit("late", published_at=CUTOFF + DAY), hit("answer", url=url)]
    desk.fetcher.web = {url: "Lamp\nIt was lit."}
    desk.gauge(MemorySeries({"LEVEL": level(beyond=5)}, about=["LEVEL"]))
    desk.shelf(MemoryPages({("Lamp", "Now"): passage("Now", "Lit since.", revised_at=CUTOFF + DAY)}))
    desk.clock.step(9 * 86_400)
    bench = await desk.bench(BACKDATED, guarded=False)
    text = (await bench.use("web_search", {"query": "lamp"})).observation.text
    assert ["About late" in text, "About answer" in text] == [True, True]
    assert "It was lit." in (await bench.use("lookup_url", {"url": url})).observation.text
    assert "2026-03-05,5" in (await bench.use("series_history", {})).observation.text
    arguments = {"page": "Lamp", "heading": "Now"}
    assert "Lit since." in (await bench.use("fetch_lexicon_section", arguments)).observation.text
    assert bench.caught == Caught()
    assert desk.models.inquiries == []
    assert desk.engine.searched[0].before is None


def test_what_was_caught_adds_up_and_says_so() -> None:
    both = Caught(dates=1, blocked=2) + Caught(dates=1, content=3)
    assert both == Caught(dates=2, content=3, blocked=2)
    assert both.says("results") == (
        "results left out: 2 dated after the cutoff, 3 telling of what came after the cutoff, "
        "2 from an address that is not read for this question"
    )
    assert Caught().says("results") == ""
