"""Searching, reading and rating for a trial: through the desk's own tools, so under its guards, budgets and record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.api import Filled, Json, ToolResult, Usage, quoted
from plugins.society.articles import (
    Article,
    Rating,
    articles_text,
    chunks_of,
    found_in,
    normalised,
    ranked,
    rated_line,
    rating_tool,
    read_rating,
    without_fence,
)
from plugins.society.pacing import together
from plugins.society.people import Company, Person
from plugins.society.scenario import Move
from plugins.society.settings import CourtSettings
from plugins.society.wording import rating_system

SEARCH = "web_search"
LOOKUP = "lookup_url"
MOST_QUERIES = 5
MOST_READ = 50
# After so many articles in a row of which nothing was rated, no further one is given to the same reader.
PATIENCE = 2


@dataclass(slots=True, kw_only=True)
class Searched:
    """What came of searching or reading: ``text`` for agents, ``shown`` for people, ``told`` for the record."""

    text: str = ""
    shown: str = ""
    queries: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    told: tuple[dict[str, Json], ...] = ()

    def add(self, result: ToolResult) -> None:
        """Count what a tool gave back."""
        self.usage += result.usage
        self.documents += result.observation.documents


@dataclass(slots=True, kw_only=True)
class Retrieval:
    """What was searched for and found in a trial so far; ``_given_up`` is who rates no more, and why."""

    company: Company
    settings: CourtSettings
    found: dict[str, Article] = field(default_factory=dict)
    queries: tuple[str, ...] = ()
    _given_up: dict[str, str] = field(default_factory=dict)

    async def search(self, queries: Iterable[str], most: int) -> Searched:
        """Search with each query in turn and keep at most ``most`` new results, each address once."""
        done = Searched(queries=tuple(dict.fromkeys(filter(None, map(normalised, queries))))[:MOST_QUERIES])
        await self._lead(done)
        texts: list[str] = []
        known = {article.url for article in self.found.values()}
        for query in done.queries:
            result = await self._use(SEARCH, {"query": query})
            if result is not None:
                done.add(result)
            if result is None or result.failed:
                why = "no search is offered here" if result is None else result.observation.text
                done.remarks += (f"search {query!r} brought nothing: {why}",)
                continue
            self.queries = tuple(dict.fromkeys((*self.queries, query)))
            for article in found_in(result.observation.text):
                if article.url not in known and len(texts) < most:
                    known.add(article.url)
                    self.found[article.id] = article
                    texts.append(f"[{article.id}] {article.title} ({article.url}, {article.date})")
        done.text = "\n".join(texts) or "No result."
        return done

    async def process(self, reader: Person, criteria: str, move: Move) -> Searched:
        """Read and rate what was found, drop what an intervention leaves out, and keep the best articles."""
        done = Searched()
        left_out = [one for one in self.found.values() if self._is_left_out(one)]
        done.remarks += tuple(f"left out by an intervention: {one.id} {one.url}" for one in left_out)
        chosen = [one for one in self.found.values() if one not in left_out][:MOST_READ]
        articles = [self._taken(*read, done) for read in await together(map(self._read, chosen))]
        rated = await self._all_rated(articles, reader, criteria)
        after = [self._graded(article, filled, done) for article, filled in zip(articles, rated, strict=True)]
        kept = ranked(after, move.num_top_articles)
        done.told = tuple(article.told(kept=article in kept) for article in after)
        done.text = articles_text(kept)
        done.shown = "\n".join(rated_line(article, kept=article in kept) for article in after) or "No article."
        return done

    async def _lead(self, done: Searched) -> None:
        """Use what the policy of the source wants first, where it needs nothing that a model would have to say."""
        first = self.company.desk.policy.first
        tool = next((tool for tool in self.company.desk.tools if tool.name == first), None)
        if tool is None or first is None or tool.parameters.get("required") or first in self.found:
            return
        result = await self.company.desk.use(first, {})
        done.add(result)
        if not result.failed:
            text = without_fence(result.observation.text)
            rating = Rating(relevance=10, objectivity=10, finding="")
            self.found[first] = Article(id=first, title=f"What {first} says", text=text, chunks=1, ratings=(rating,))

    async def _read(self, article: Article) -> tuple[Article, ToolResult | None]:
        return article, await self._use(LOOKUP, {"url": article.url}) if article.url else None

    def _taken(self, article: Article, result: ToolResult | None, done: Searched) -> Article:
        if result is not None:
            done.add(result)
        if result is None or result.failed:
            return replace(article, why="not read, so what the search told of it was rated" if article.url else "")
        return replace(article, text=without_fence(result.observation.text))

    async def _all_rated(
        self, articles: Sequence[Article], reader: Person, criteria: str
    ) -> list[list[Filled[Rating]]]:
        """Rate all articles, each time twice as many at once as before: who rates nothing is not asked for all."""
        rated: list[list[Filled[Rating]]] = []
        size = PATIENCE
        while len(rated) < len(articles):
            some = articles[len(rated) : len(rated) + size]
            rated += await together(self._rated(article, reader, criteria) for article in some)
            size *= 2
            last = [filled for filled in rated if filled][-PATIENCE:]
            if len(last) == PATIENCE and all(one.value is None for filled in last for one in filled):
                why = f"{reader.name} rates no more, for nothing came of {PATIENCE} articles in a row"
                self._given_up.setdefault(reader.name, why)
        return rated

    async def _rated(self, article: Article, reader: Person, criteria: str) -> list[Filled[Rating]]:
        if article.ratings:
            return []
        chunks = chunks_of(article.text, tokens=self.settings.chunk_tokens, most=self.settings.chunks)
        return await together(
            self._rate(f"{article.id}/{number}", chunk, article, (reader, criteria))
            for number, chunk in enumerate(chunks, 1)
        )

    def _graded(self, article: Article, filled: list[Filled[Rating]], done: Searched) -> Article:
        """Return the article with its ratings. All costs are added in the order of the articles, whoever came first."""
        if article.ratings:
            return article
        for one in filled:
            done.usage += one.usage
            done.documents += one.documents
        if whys := [one.why for one in filled if one.value is None]:
            done.remarks += (f"{article.id}: {len(whys)} of {len(filled)} chunks not rated: {whys[0]}",)
        ratings = tuple(one.value for one in filled if one.value is not None)
        return replace(article, chunks=len(filled), ratings=ratings)

    async def _rate(self, label: str, chunk: str, article: Article, asked: tuple[Person, str]) -> Filled[Rating]:
        reader, criteria = asked
        why = reader.out or self._given_up.get(reader.name, "")
        if reader.voice is None or why:
            return Filled(why=why)
        # A voice of its own: no chunk sways how the next one is rated.
        voice = self.company.voice(reader, "rate", label)
        text = quoted(f"{article.title}\n{article.url} ({article.date})\n\n{chunk}", article.id)
        voice.begin(rating_system(), "\n\n".join(filter(None, (reader.opening, criteria, text))))
        return await voice.fill(rating_tool(), read_rating)

    async def _use(self, name: str, arguments: Mapping[str, Json]) -> ToolResult | None:
        offered = any(tool.name == name for tool in self.company.desk.tools)
        return await self.company.desk.use(name, arguments) if offered else None

    def _is_left_out(self, article: Article) -> bool:
        return any(
            part == article.id or (part and (part in article.url or part.casefold() in article.title.casefold()))
            for part in self.settings.interventions.without_articles
        )
