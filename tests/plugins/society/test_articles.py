"""Articles: what a search found, how it is cut into chunks, and how scores choose among them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.api import UnreadableAnswer
from bot.core.beliefs import ShownSource, StepObservation, ToolResult
from bot.core.errors import ContextLengthExceededError
from bot.core.language_models import Prompt
from bot.forecasting.agent.parsing import CUT_MARK
from bot.testing.trial_context import ScriptedAnswer, ScriptedTool, fixed_text_tool, show_sources
from plugins.society.article_rating import read_ratings
from plugins.society.articles import (
    BYTES_PER_TOKEN,
    ArticleChunk,
    ArticleRating,
    RatedArticle,
    found_articles,
    normalize_query,
    rank_articles,
    share_places,
    split_chunks,
    with_passages,
)
from plugins.society.settings import CourtSettings
from tests.plugins.society.cases import (
    RESULTS,
    TEXT,
    ScriptedParticipant,
    done,
    found,
    heard,
    named,
    ratings,
    reads,
    scripted_context,
    searches,
    told,
    wanted,
)


def rated(name: str, *grades: tuple[int, int]) -> RatedArticle:
    chunks = tuple(ArticleChunk("", ArticleRating(relevance=r, objectivity=o, finding="")) for r, o in grades)
    return RatedArticle(id=name, chunks=chunks)


def test_the_score_is_the_mean_of_relevance_and_objectivity() -> None:
    # S(A) = (R(A) + O(A)) / 2, equation 1; R and O of an article are the means of its chunks.
    assert [rated("a", (8, 5)).score, rated("b", (8, 5), (4, 9)).score, rated("c").score] == [6.5, 6.5, 0.0]


def test_the_best_are_kept_and_what_nobody_rated_never_is() -> None:
    articles = [rated("a", (1, 1)), rated("b", (9, 9)), rated("c"), rated("d", (5, 5)), rated("e", (9, 9))]
    assert [one.id for one in rank_articles(articles, 3)] == ["b", "e", "d"]
    assert [one.id for one in rank_articles(articles, 9)] == ["b", "e", "d", "a"]


@settings(max_examples=25)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=400),
    tokens=st.integers(1, 40),
    most=st.integers(1, 4),
)
def test_chunks_are_the_beginning_of_a_text_in_pieces_of_bounded_size(text: str, tokens: int, most: int) -> None:
    chunks = split_chunks(text, tokens=tokens, most=most)
    assert len(chunks) <= most
    assert all(len(chunk.encode()) <= tokens * BYTES_PER_TOKEN for chunk in chunks)
    kept, whole = "".join("".join(chunks).split()), "".join(text.split())
    assert whole.startswith(kept)
    if len(chunks) < most:
        assert kept == whole


def test_words_stay_whole_where_that_wastes_little() -> None:
    assert split_chunks("alpha beta gamma delta", tokens=4, most=3) == ("alpha beta", "gamma delta")
    assert split_chunks("x" * 20, tokens=2, most=3) == ("x" * 8, "x" * 8, "x" * 4)


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        ("Will U.S. GDP grow 3.5% (Q4)?!", "will u.s gdp grow 3.5% q4"),
        ('site:x.example "S&P 500" -- Fed', "site:x.example s p 500 fed"),
        ("  ", ""),
        ("Ａｐｐｌｅ’s new phone", "apple’s new phone"),  # noqa: RUF001 - wide letters and a typographic apostrophe
    ],
)
def test_a_query_loses_punctuation_and_capitals_but_not_what_belongs_to_a_number(query: str, plain: str) -> None:
    assert normalize_query(query) == plain


def test_results_are_read_as_the_context_shows_them() -> None:
    first, second = found_articles(RESULTS)
    assert (first.id, first.url, first.title, first.date) == (
        "search_1_result_1", "https://news.example/ship", "Ship leaves port", "2025-12-20"
    )  # fmt: skip
    assert "It sailed on Monday." in first.text
    assert second.id == "search_1_result_2"


@pytest.mark.parametrize(
    "sources", [(), (ShownSource(name="search_1_result_1", url="[address left out]", text="no address here"),)]
)
def test_what_holds_no_result_yields_none(sources: tuple[ShownSource, ...]) -> None:
    assert list(found_articles(show_sources("search_1: no results.", *sources))) == []


@pytest.mark.parametrize(
    "grades",
    [
        {"relevance": None},
        {"relevance": 0},
        {"objectivity": 11},
        {"relevance": 5.5},
        {"relevance": True},
        {"relevance": "good"},
        {"number": 2},
        {"number": None},
    ],
)
def test_grades_that_are_none_are_refused(grades: dict[str, Any]) -> None:
    with pytest.raises(UnreadableAnswer, match="one entry for each of 1 texts"):
        read_ratings({"ratings": [{"number": 1, "relevance": 5, "objectivity": 5, **grades}]}, 1)
    with pytest.raises(UnreadableAnswer, match="one entry for each of 1 texts"):
        read_ratings({"ratings": "7 of 10"}, 1)


def test_grades_may_come_as_texts_and_half_of_them_are_enough() -> None:
    given: Any = [{"number": "2", "relevance": "7", "objectivity": 10.0, "finding": "x"}, *ratings((11, 5)), 7]
    assert read_ratings({"ratings": given}, 2) == {1: ArticleRating(relevance=7, objectivity=10, finding="x")}


def paged(text: str, part_chars: int) -> ScriptedTool:
    """Return a tool that shows a page in parts, as ``lookup_url`` does."""

    def show(arguments: Any) -> ToolResult:
        number = arguments.get("part", 1)
        piece = text[(number - 1) * part_chars : number * part_chars]
        source = ShownSource(name="page_1", text=piece)
        return ToolResult(
            observation=StepObservation(text=piece, documents=(f"{number}" * 64,)),
            data={"part": number, "parts": -(-len(text) // part_chars)},
            sources=(source,),
        )

    return ScriptedTool(fixed_text_tool("lookup_url", "", url=TEXT).tool, show)


@pytest.mark.parametrize(("chars", "parts", "chunks"), [(45_000, 3, 3), (12_000, 2, 2), (9_000, 1, 2), (500, 1, 1)])
async def test_a_long_page_is_read_part_by_part_as_far_as_its_three_chunks_of_2000_tokens_need(
    chars: int, parts: int, chunks: int
) -> None:
    at = scripted_context(scripted_tools=[searches(), paged("news " * (chars // 5), 10_000)])
    ranking = named(await done(at, CourtSettings(rate_pages=True)), "ranking")[0]
    assert [(one["chunks"], one["score"], one["kept"]) for one in told(ranking, "articles")] == [
        (chunks, 6.0, True)
    ] * 2
    looked: list[Any] = [arguments.get("part", 1) for name, arguments in at.tool_calls if name == "lookup_url"]
    assert sorted(looked) == sorted([*range(1, parts + 1)] * 2)
    rating = [one.prompt.messages[1].text for one in at.prompts if wanted(one.prompt).name == "rate"]
    assert len(rating) == 1
    # The question, and each chunk in a fence.
    assert rating[0].count("<untrusted-") == 1 + 2 * chunks
    assert 2 * min(chars, 24_000) <= len(rating[0]) <= 2 * min(chars, 24_000) + 3000
    # The parts of both pages, the answer of the rater, and nothing else.
    assert len(ranking.observation.documents) == 2 * parts + 1


async def test_chunks_and_the_parts_in_a_call_are_settings() -> None:
    at = scripted_context(scripted_tools=[searches(), reads("news " * 500)])
    steps = await done(at, CourtSettings(rate_pages=True, chunk_tokens=100, max_chunks=2, rating_batch=3))
    assert [one["chunks"] for one in told(named(steps, "ranking")[0], "articles")] == [2, 2]
    rating = [one for one in at.prompts if wanted(one.prompt).name == "rate"]
    assert [one.prompt.messages[1].text.count(' label="text ') for one in rating] == [3, 1]
    assert len({one.seed for one in rating}) == 2


async def test_the_rater_has_a_model_of_its_own_that_nobody_else_asks() -> None:
    at = scripted_context(rater=ScriptedParticipant(), head=ScriptedParticipant())
    await done(at)
    assert {wanted(one.prompt).name for one in at.prompts if one.role == "rater"} == {"rate"}
    assert [one.role for one in at.prompts if wanted(one.prompt).name == "rate"] == ["rater"]


async def test_what_is_too_long_for_the_rater_together_is_rated_in_halves() -> None:
    def rates(prompt: Prompt) -> ScriptedAnswer:
        if prompt.messages[1].text.count(' label="text ') > 2:
            return ContextLengthExceededError("too long")
        return ScriptedParticipant()(prompt)

    at = scripted_context(rater=rates, scripted_tools=[searches(), reads("news " * 500)])
    ranking = named(await done(at, CourtSettings(rate_pages=True, chunk_tokens=100)), "ranking")[0]
    assert [(one["chunks"], one["score"]) for one in told(ranking, "articles")] == [(3, 6.0)] * 2
    assert ranking.remarks == ()


async def test_every_search_has_its_share_of_the_places() -> None:
    def search(arguments: Any) -> ToolResult:
        query = arguments["query"]
        return found(*[(f"{query} {n}", f"https://{query}.example/{n}", "text") for n in range(20)])

    tools = [ScriptedTool(fixed_text_tool("web_search", "", query=TEXT).tool, search), reads()]
    at = scripted_context(ScriptedParticipant(says={"search_for": {"queries": ["one", "two", "three"]}}))
    at.scripted_tools = tools
    steps = await done(at)
    addresses = [line.partition("(https://")[2].partition(".")[0] for line in
                 named(steps, "search")[0].observation.text.splitlines()]  # fmt: skip
    assert addresses == (["one", "two", "three"] * 7)[:20]


def test_a_page_that_two_searches_found_takes_one_place() -> None:
    one, two, three = (RatedArticle(id=name, url=f"https://x.example/{name}") for name in ("a", "b", "c"))
    again = RatedArticle(id="d", url=one.url)
    assert share_places([[one, two], [again, three]], 3) == [one, two, three]
    assert share_places([[one], []], 3) == [one]


async def test_the_court_reads_the_most_relevant_parts_of_an_article_in_their_order() -> None:
    page = " ".join(f"{word}{number}" for word in ("low", "high", "mid") for number in range(400))
    chunks = split_chunks(page, tokens=700, most=3)
    at = scripted_context(
        scripted_tools=[searches(), reads(page)], judge=ScriptedParticipant(),
        rater=ScriptedParticipant(says={"rate": {"ratings": ratings((2, 5), (9, 5), (5, 5), (2, 5), (9, 5), (5, 5))}}),
    )  # fmt: skip
    court = CourtSettings(scenario="full", jurors=1, rounds=0, rate_pages=True, chunk_tokens=700, excerpt_chars=3600)
    await done(at, court)
    words = heard(at, "judge")
    assert chunks[1] in words
    assert chunks[0] not in words
    # The rest of the room holds the beginning of the next best part, after it and cut between words.
    assert f"{chunks[1]}\n{chunks[2][:300]}" in words
    assert chunks[2] not in words


def test_an_excerpt_shows_where_it_leaves_something_out() -> None:
    parts = [("first", 1), ("second", 9), ("third", 8), ("fourth", 2), ("fifth", 7)]
    chunks = [ArticleChunk(text, ArticleRating(relevance=r, objectivity=5, finding="")) for text, r in parts]
    assert RatedArticle(id="a", chunks=tuple(chunks)).excerpt(40) == "second\nthird\n[...]\nfifth"


async def test_results_are_rated_by_what_the_search_showed_and_only_the_kept_pages_are_read() -> None:
    results = found(*[(f"Ship {n}", f"https://news.example/{n}", f"It sailed {n} times.") for n in range(1, 11)])
    grades = ratings(*[(n, 5) for n in range(1, 11)], finding="the pilot came aboard")
    days = [f"Nothing of note happened on day {day}." for day in range(300)]
    page = " ".join([*days[:200], "The PILOT boarded the ship. " * 10, *days[200:]])
    looked: list[str] = []

    def read(arguments: Any) -> ToolResult:
        looked.append(arguments["url"])
        return show_sources("", ShownSource(name="page_1", text=page))

    at = scripted_context(
        judge=ScriptedParticipant(), rater=ScriptedParticipant(says={"rate": {"ratings": grades}}),
        scripted_tools=[searches(results), ScriptedTool(fixed_text_tool("lookup_url", "", url=TEXT).tool, read)],
    )  # fmt: skip
    steps = await done(at, CourtSettings(excerpt_chars=900))
    (asked,) = [one.prompt.messages[1].text for one in at.prompts if wanted(one.prompt).name == "rate"]
    assert "It sailed 10 times." in asked
    assert "Nothing of note" not in asked
    assert sorted(looked) == [f"https://news.example/{n}" for n in (10, 5, 6, 7, 8, 9)]
    kept = [one for one in told(named(steps, "ranking")[0], "articles") if one["kept"]]
    assert [(one["id"], one["relevance"], one["objectivity"]) for one in kept] == [
        (f"search_1_result_{n}", n, 5) for n in range(5, 11)
    ]
    # Of each page the passage that shares rare words with the question and what the rater found.
    words = heard(at, "judge")
    assert words.count("The PILOT boarded the ship. The PILOT") >= 6
    assert not [day for day in (*range(150), *range(250, 300)) if f"on day {day}." in words]


async def test_an_article_that_is_left_out_gives_its_place_to_the_next_and_is_not_read() -> None:
    results = found(*[(f"Ship {n}", f"https://news.example/{n}", "text") for n in range(1, 9)])
    at = scripted_context(results=results)
    steps = await done(at, CourtSettings.model_validate({"interventions": {"without_articles": ["news.example/3"]}}))
    kept = [one["id"] for one in told(named(steps, "ranking")[0], "articles") if one["kept"]]
    assert kept == [f"search_1_result_{n}" for n in (1, 2, 4, 5, 6, 7)]
    assert [arguments["url"] for name, arguments in at.tool_calls if name == "lookup_url"] == [
        f"https://news.example/{n}" for n in (1, 2, 4, 5, 6, 7)
    ]


@pytest.mark.parametrize("text", ["", "!?", "\u4e00 " * 3000, "a b c " * 900])
def test_a_page_without_words_of_the_question_shows_its_beginning(text: str) -> None:
    rating = ArticleRating(relevance=5, objectivity=5, finding="the pilot")
    shown = with_passages(
        RatedArticle(id="a", text=text, chunks=(ArticleChunk("pilot", rating),)), "Will the ship come in?", tokens=6000
    )
    assert (shown.score, shown.findings) == (5, "the pilot")
    assert " ".join(text.split()).startswith(" ".join(shown.excerpt(900).removesuffix(CUT_MARK).split()))


async def test_the_same_page_in_two_searches_is_one_article() -> None:
    at = scripted_context(ScriptedParticipant(says={"search_for": {"queries": ["one", "two", "ONE!"]}}))
    steps = await done(at)
    assert [arguments["query"] for name, arguments in at.tool_calls if name == "web_search"] == ["one", "two"]
    assert len(told(named(steps, "ranking")[0], "articles")) == 2
