"""Articles: what a search found, how it is cut into chunks, and how scores choose among them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.api import UnreadableAnswer
from bot.core.beliefs import ShownSource
from bot.testing.trial_context import show_sources
from plugins.society.articles import (
    BYTES_PER_TOKEN,
    ArticleRating,
    RatedArticle,
    found_articles,
    normalize_query,
    rank_articles,
    read_rating,
    split_chunks,
)
from plugins.society.settings import CourtSettings
from tests.plugins.society.cases import (
    RESULTS,
    ScriptedParticipant,
    done,
    named,
    reads,
    scripted_context,
    searches,
    told,
    wanted,
)


def rated(name: str, *grades: tuple[int, int]) -> RatedArticle:
    ratings = tuple(ArticleRating(relevance=r, objectivity=o, finding="") for r, o in grades)
    return RatedArticle(id=name, ratings=ratings)


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
        {},
        {"relevance": 5},
        {"relevance": 0, "objectivity": 5},
        {"relevance": 11, "objectivity": 5},
        {"relevance": 5.5, "objectivity": 5},
        {"relevance": True, "objectivity": 5},
        {"relevance": "good", "objectivity": 5},
    ],
)
def test_grades_that_are_none_are_refused(grades: dict[str, object]) -> None:
    with pytest.raises(UnreadableAnswer):
        read_rating(json.loads(json.dumps(grades)))


def test_grades_may_come_as_texts() -> None:
    assert read_rating({"relevance": "7", "objectivity": 10.0, "finding": "x"}) == ArticleRating(
        relevance=7, objectivity=10, finding="x"
    )


async def test_a_long_page_is_rated_in_at_most_three_chunks_and_scores_are_on_record() -> None:
    page = "news " * 9000
    at = scripted_context(scripted_tools=[searches(), reads(page)])
    steps = await done(at)
    ranking = named(steps, "ranking")[0]
    assert [(one["chunks"], one["score"], one["kept"]) for one in told(ranking, "articles")] == [(3, 6.0, True)] * 2
    rating = [one for one in at.prompts if wanted(one.prompt).name == "rate"]
    assert len(rating) == 6
    # Fenced, with title and address, and the question before it.
    longest = max(len(one.prompt.messages[1].text) for one in rating)
    assert 8000 <= longest <= 8000 + 2000
    # Two pages, and one answer of a model for each of their chunks.
    assert len(ranking.observation.documents) == 2 + 6


async def test_chunks_and_numbers_of_articles_are_settings() -> None:
    at = scripted_context(scripted_tools=[searches(), reads("news " * 500)])
    steps = await done(at, CourtSettings(chunk_tokens=100, max_chunks=2))
    assert [one["chunks"] for one in told(named(steps, "ranking")[0], "articles")] == [2, 2]


async def test_the_same_page_in_two_searches_is_one_article() -> None:
    at = scripted_context(ScriptedParticipant(says={"search_for": {"queries": ["one", "two", "ONE!"]}}))
    steps = await done(at)
    assert [arguments["query"] for name, arguments in at.tool_calls if name == "web_search"] == ["one", "two"]
    assert len(told(named(steps, "ranking")[0], "articles")) == 2
