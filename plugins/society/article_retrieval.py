"""Searching and reading for a trial: with its tools, so under its guards, budgets and record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.api import Json, Question, ToolResult, TrialContext, gather_all
from plugins.society.article_rating import ArticleRater
from plugins.society.articles import (
    BYTES_PER_TOKEN,
    ArticleChunk,
    ArticleRating,
    RatedArticle,
    article_line,
    articles_text,
    found_articles,
    normalize_query,
    rank_articles,
    share_places,
    shown_text,
    with_passages,
)
from plugins.society.court_state import MoveOutcome
from plugins.society.settings import CourtSettings

SEARCH_TOOL = "web_search"
LOOKUP_TOOL = "lookup_url"
MAX_QUERIES = 5
MAX_ARTICLES_READ = 50


@dataclass(slots=True, kw_only=True)
class ArticleRetrieval:
    """The searches and results of a trial so far."""

    question: Question
    context: TrialContext
    settings: CourtSettings
    found: dict[str, RatedArticle] = field(default_factory=dict)
    queries: tuple[str, ...] = ()

    async def search(self, queries: Iterable[str], most: int) -> MoveOutcome:
        """Search with each query and keep at most ``most`` new results, each address once.

        The queries share the places: the best result of each is kept before the second best of any.
        """
        done = MoveOutcome()
        asked = [*dict.fromkeys(filter(None, map(normalize_query, queries)))][:MAX_QUERIES]
        done.arguments["queries"] = [*asked]
        await self._use_first_tool(done)
        known = {article.url for article in self.found.values()}
        results: list[list[RatedArticle]] = []
        for query in asked:
            result = await self._use(SEARCH_TOOL, {"query": query})
            if result is not None:
                _count_result(done, result)
            if result is None or result.failed:
                why = "no search is offered here" if result is None else result.observation.text
                done.remarks += (f"search {query!r} brought nothing: {why}",)
                continue
            self.queries = tuple(dict.fromkeys((*self.queries, query)))
            results.append([article for article in found_articles(result) if article.url not in known])
        kept = share_places(results, most)
        self.found |= {article.id: article for article in kept}
        done.text = (
            "\n".join(f"[{article.id}] {article.title} ({article.url}, {article.date})" for article in kept)
            or "No result."
        )
        return done

    async def process(self, rater: ArticleRater, most: int) -> tuple[MoveOutcome, str]:
        """Rate the results, drop those that an intervention excludes, and keep the best articles, as agents read them.

        Excluded ones are rated too: else the others would be rated anew, and differ by chance from a trial with them.
        Pages are read before they are rated if the settings say so, else only those of the articles that are kept.
        """
        done = MoveOutcome()
        found = [*self.found.values()][:MAX_ARTICLES_READ]
        rated = await rater.rate(await self._read_pages(found, done) if self.settings.rate_pages else found, done)
        left_out = [one for one in rated if self._is_left_out(one)]
        done.remarks += tuple(f"left out by an intervention: {one.id} {one.url}" for one in left_out)
        articles = {one.id: one for one in rated if one not in left_out}
        kept = rank_articles([*articles.values()], most)
        if not self.settings.rate_pages:
            kept = tuple(map(self._with_passages, kept, await self._read_pages(kept, done)))
        articles |= (best := {one.id: one for one in kept})
        done.arguments["articles"] = [one.to_record(kept=one.id in best) for one in articles.values()]
        lines = [article_line(one, kept=one.id in best) for one in articles.values()]
        done.text = "\n".join(lines) or "No article."
        return done, articles_text(kept, self.settings.excerpt_chars)

    async def _use_first_tool(self, done: MoveOutcome) -> None:
        """Use the tool that the source policy wants first, if it needs no argument from a model."""
        first = self.context.policy.first
        tool = next((tool for tool in self.context.tools if tool.name == first), None)
        if tool is None or first is None or tool.parameters.get("required") or first in self.found:
            return
        result = await self.context.use_tool(first, {})
        _count_result(done, result)
        if not result.failed:
            text = shown_text(result)
            chunk = ArticleChunk(text, ArticleRating(relevance=10, objectivity=10, finding=""))
            self.found[first] = RatedArticle(id=first, title=f"What {first} says", text=text, chunks=(chunk,))

    async def _read_pages(self, articles: Sequence[RatedArticle], done: MoveOutcome) -> list[RatedArticle]:
        """Read the pages of these articles at once, and count what that took."""
        read = await gather_all(map(self._read_page, articles))
        for _, results in read:
            for result in results:
                _count_result(done, result)
        return [article for article, _ in read]

    def _with_passages(self, rated: RatedArticle, read: RatedArticle) -> RatedArticle:
        if read.text == rated.text:
            return read
        asked = f"{self.question.title}\n{self.question.criteria}"
        return with_passages(read, asked, tokens=self.settings.chunk_tokens * self.settings.max_chunks)

    async def _read_page(self, article: RatedArticle) -> tuple[RatedArticle, list[ToolResult]]:
        """Read a page part by part, as far as is wanted; without it, the text of the search remains."""
        if not article.url:
            return article, []
        results: list[ToolResult] = []
        texts: list[str] = []
        wanted = self.settings.chunk_tokens * self.settings.max_chunks * BYTES_PER_TOKEN
        parts = 1
        while len(results) < parts and len("".join(texts).encode()) < wanted:
            more: dict[str, Json] = {"part": len(results) + 1} if results else {}
            result = await self._use(LOOKUP_TOOL, {"url": article.url, **more})
            if result is None:
                break
            results.append(result)
            if result.failed:
                break
            texts.append(shown_text(result))
            parts = _part_count(result)
        if not texts:
            return replace(article, problem="the page was not read: only what the search showed is known"), results
        return replace(article, text="\n".join(texts)), results

    async def _use(self, name: str, arguments: Mapping[str, Json]) -> ToolResult | None:
        offered = any(tool.name == name for tool in self.context.tools)
        return await self.context.use_tool(name, arguments) if offered else None

    def _is_left_out(self, article: RatedArticle) -> bool:
        return any(
            part == article.id or (part and (part in article.url or part.casefold() in article.title.casefold()))
            for part in self.settings.interventions.without_articles
        )


def _count_result(done: MoveOutcome, result: ToolResult) -> None:
    done.usage += result.usage
    done.documents += result.observation.documents


def _part_count(result: ToolResult) -> int:
    """Return in how many parts the page is shown; 1 where the tool does not say."""
    count = result.data.get("parts") if isinstance(result.data, dict) else None
    return count if isinstance(count, int) else 1
