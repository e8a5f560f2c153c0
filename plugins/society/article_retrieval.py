"""Searching, reading and rating for a trial: with its tools, so under its guards, budgets and record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.api import Json, ModelUsage, StructuredAnswer, ToolResult, fence_text, gather_all
from plugins.society.agent_prompts import rating_prompt
from plugins.society.articles import (
    ArticleRating,
    RatedArticle,
    article_line,
    articles_text,
    found_articles,
    normalize_query,
    rank_articles,
    rating_tool,
    read_rating,
    shown_text,
    split_chunks,
)
from plugins.society.participants import CourtParticipant, ParticipantGroup
from plugins.society.scenario import ScenarioMove
from plugins.society.settings import CourtSettings

SEARCH_TOOL = "web_search"
LOOKUP_TOOL = "lookup_url"
MAX_QUERIES = 5
MAX_ARTICLES_READ = 50
# After this many unrated articles in a row, the same reader gets no further one.
MAX_UNRATED = 2


@dataclass(slots=True, kw_only=True)
class RetrievalResult:
    """The result of a search: ``text`` for agents, ``display_text`` for people, ``recorded_articles`` to keep."""

    text: str = ""
    display_text: str = ""
    queries: tuple[str, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
    documents: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    recorded_articles: tuple[dict[str, Json], ...] = ()

    def add(self, result: ToolResult) -> None:
        """Count the result of a tool."""
        self.usage += result.usage
        self.documents += result.observation.documents


@dataclass(slots=True, kw_only=True)
class ArticleRetrieval:
    """The searches and results of a trial so far; ``_given_up`` names the readers that stopped rating, and why."""

    participants: ParticipantGroup
    settings: CourtSettings
    found: dict[str, RatedArticle] = field(default_factory=dict)
    queries: tuple[str, ...] = ()
    _given_up: dict[str, str] = field(default_factory=dict)

    async def search(self, queries: Iterable[str], most: int) -> RetrievalResult:
        """Search with each query in turn and keep at most ``most`` new results, each address once."""
        done = RetrievalResult(queries=tuple(dict.fromkeys(filter(None, map(normalize_query, queries))))[:MAX_QUERIES])
        await self._use_first_tool(done)
        texts: list[str] = []
        known = {article.url for article in self.found.values()}
        for query in done.queries:
            result = await self._use(SEARCH_TOOL, {"query": query})
            if result is not None:
                done.add(result)
            if result is None or result.failed:
                why = "no search is offered here" if result is None else result.observation.text
                done.remarks += (f"search {query!r} brought nothing: {why}",)
                continue
            self.queries = tuple(dict.fromkeys((*self.queries, query)))
            for article in found_articles(result):
                if article.url not in known and len(texts) < most:
                    known.add(article.url)
                    self.found[article.id] = article
                    texts.append(f"[{article.id}] {article.title} ({article.url}, {article.date})")
        done.text = "\n".join(texts) or "No result."
        return done

    async def process(self, reader: CourtParticipant, criteria: str, move: ScenarioMove) -> RetrievalResult:
        """Read and rate the results, drop those that an intervention excludes, and keep the best articles."""
        done = RetrievalResult()
        left_out = [one for one in self.found.values() if self._is_left_out(one)]
        done.remarks += tuple(f"left out by an intervention: {one.id} {one.url}" for one in left_out)
        chosen = [one for one in self.found.values() if one not in left_out][:MAX_ARTICLES_READ]
        articles = [self._with_page_text(*read, done) for read in await gather_all(map(self._read, chosen))]
        rated = await self._all_rated(articles, reader, criteria)
        after = [self._with_ratings(article, filled, done) for article, filled in zip(articles, rated, strict=True)]
        kept = rank_articles(after, move.num_top_articles)
        done.recorded_articles = tuple(article.to_record(kept=article in kept) for article in after)
        done.text = articles_text(kept)
        done.display_text = "\n".join(article_line(article, kept=article in kept) for article in after) or "No article."
        return done

    async def _use_first_tool(self, done: RetrievalResult) -> None:
        """Use the tool that the source policy wants first, if it needs no argument from a model."""
        first = self.participants.context.policy.first
        tool = next((tool for tool in self.participants.context.tools if tool.name == first), None)
        if tool is None or first is None or tool.parameters.get("required") or first in self.found:
            return
        result = await self.participants.context.use_tool(first, {})
        done.add(result)
        if not result.failed:
            text = shown_text(result)
            rating = ArticleRating(relevance=10, objectivity=10, finding="")
            self.found[first] = RatedArticle(
                id=first, title=f"What {first} says", text=text, chunks=1, ratings=(rating,)
            )

    async def _read(self, article: RatedArticle) -> tuple[RatedArticle, ToolResult | None]:
        return article, await self._use(LOOKUP_TOOL, {"url": article.url}) if article.url else None

    def _with_page_text(self, article: RatedArticle, result: ToolResult | None, done: RetrievalResult) -> RatedArticle:
        if result is not None:
            done.add(result)
        if result is None or result.failed:
            return replace(article, problem="not read, so the text of the search was rated" if article.url else "")
        return replace(article, text=shown_text(result))

    async def _all_rated(
        self, articles: Sequence[RatedArticle], reader: CourtParticipant, criteria: str
    ) -> list[list[StructuredAnswer[ArticleRating]]]:
        """Rate all articles, each time twice as many at once as before: a failing reader is not asked for all."""
        rated: list[list[StructuredAnswer[ArticleRating]]] = []
        size = MAX_UNRATED
        while len(rated) < len(articles):
            some = articles[len(rated) : len(rated) + size]
            rated += await gather_all(self._rated(article, reader, criteria) for article in some)
            size *= 2
            last = [filled for filled in rated if filled][-MAX_UNRATED:]
            if len(last) == MAX_UNRATED and all(one.value is None for filled in last for one in filled):
                why = f"{reader.name} stopped rating after {MAX_UNRATED} articles in a row without a rating"
                self._given_up.setdefault(reader.name, why)
        return rated

    async def _rated(
        self, article: RatedArticle, reader: CourtParticipant, criteria: str
    ) -> list[StructuredAnswer[ArticleRating]]:
        if article.ratings:
            return []
        chunks = split_chunks(article.text, tokens=self.settings.chunk_tokens, most=self.settings.max_chunks)
        return await gather_all(
            self._rate(f"{article.id}/{number}", chunk, article, (reader, criteria))
            for number, chunk in enumerate(chunks, 1)
        )

    def _with_ratings(
        self, article: RatedArticle, filled: list[StructuredAnswer[ArticleRating]], done: RetrievalResult
    ) -> RatedArticle:
        """Return the article with its ratings. All costs are added in the order of the articles, not of arrival."""
        if article.ratings:
            return article
        for one in filled:
            done.usage += one.usage
            done.documents += one.documents
        if whys := [one.reason for one in filled if one.value is None]:
            done.remarks += (f"{article.id}: {len(whys)} of {len(filled)} chunks not rated: {whys[0]}",)
        ratings = tuple(one.value for one in filled if one.value is not None)
        return replace(article, chunks=len(filled), ratings=ratings)

    async def _rate(
        self, label: str, chunk: str, article: RatedArticle, asked: tuple[CourtParticipant, str]
    ) -> StructuredAnswer[ArticleRating]:
        reader, criteria = asked
        why = reader.left_out_reason or self._given_up.get(reader.name, "")
        if reader.session is None or why:
            return StructuredAnswer(reason=why)
        # A session of its own, so that no chunk influences the rating of the next one.
        session = self.participants.open_session(reader, "rate", label)
        text = fence_text(f"{article.title}\n{article.url} ({article.date})\n\n{chunk}", article.id)
        session.begin(rating_prompt(), "\n\n".join(filter(None, (reader.opening, criteria, text))))
        return await session.ask_structured(rating_tool(), read_rating)

    async def _use(self, name: str, arguments: Mapping[str, Json]) -> ToolResult | None:
        offered = any(tool.name == name for tool in self.participants.context.tools)
        return await self.participants.context.use_tool(name, arguments) if offered else None

    def _is_left_out(self, article: RatedArticle) -> bool:
        return any(
            part == article.id or (part and (part in article.url or part.casefold() in article.title.casefold()))
            for part in self.settings.interventions.without_articles
        )
