"""Searching the web: engines in order, results through the guards, and short snippets of what is left.

Disclosure is progressive: a search shows the beginning of each result, the record keeps the text that the engine
brought, the filter and the summariser read all that is kept, and pages are read when they are asked for. Source: BLF
(arXiv 2604.18576v3), appendix C.3.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.desk.addresses import address_of
from bot.desk.leaks.caught import Caught
from bot.desk.leaks.content import Verdict
from bot.desk.leaks.dates import bound_for, fit_engines, is_late
from bot.desk.notebook import Found, Note
from bot.desk.parts import Engine
from bot.desk.record import Told, key_text
from bot.desk.take import Take, within
from bot.desk.tools.pages import judged_texts
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Cannot, Outcome, described, text_of
from bot.desk.untrusted import plain
from bot.domain.prompt import Tool
from bot.domain.research import Hit
from bot.domain.step import Json
from bot.errors import FoxcastError, StoreError
from bot.store.codec import Form

NAME = "web_search"
SEARCH_S = 30.0
QUERY_CHARS = 400
# No engine gives a longer excerpt; beside it the text of a page may be kept, which config bounds.
EXCERPT_CHARS = 5_000
HITS: Form[Sequence[Hit]] = Form("list of results", tuple[Hit, ...])
# Operators of one engine or another that lead to one site, or move the bounds of dates.
_OPERATORS = re.compile(
    r"(?<![\w])[-+]?(?:site|before|after|since|until|when|older|newer|older_than|newer_than|daterange|date|freshness"
    r"|cache|inurl|allinurl|url|link|related|info|domain|host|source)[:=](?:\"[^\"]*\"?|\S*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result that passed the guards, with the exchange that holds it and its place in it.

    ``checked`` says that somebody judged its text and lets it be read.
    """

    hit: Hit
    exchange: str
    place: int
    checked: bool = False


@dataclass(frozen=True, slots=True)
class WebSearch:
    """Searches the web with the first engine that answers."""

    scene: Scene
    engines: Sequence[Engine]

    @property
    def tool(self) -> Tool:
        return described(
            NAME,
            "Search the web. Returns numbered results with the address, the date and the first "
            f"{self.scene.section.snippet_chars} characters of each. To read more, use summarize_results for several "
            "results or lookup_url for one page, where these tools are available.",
            {"query": text_of(f"a few words; only the first {QUERY_CHARS} characters are used", 4 * QUERY_CHARS)},
            required=("query",),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        query = clean_query(str(arguments["query"]))
        if not query:
            message = "There was nothing to search for: the query has no words of its own."
            raise Cannot(message)
        number = self.scene.notebook.number()
        found = await self._ask(query, take)
        if found is None:
            message = "The search could not be done: no search engine answered."
            raise Cannot(message, note=Note(search=number))
        results, caught = self._dated(found)
        verdict = await judged_texts([hit_text(result.hit, self.scene) for result in results], self.scene, take)
        kept, dropped = self._judged(results, verdict)
        return self._outcome(number, kept, caught + dropped, checked=verdict.checked)

    async def _ask(self, query: str, take: Take) -> list[Result] | None:
        for engine in self.engines:
            try:
                told = await self._ask_one(engine, query, take)
            except StoreError:
                raise
            except FoxcastError as error:
                self.scene.warn("search engine does not answer", engine.name, error)
                continue
            hits = HITS.value(told.plain)[: self.scene.section.results]
            return [Result(hit=hit, exchange=key_text(told.key), place=place) for place, hit in enumerate(hits)]
        return None

    async def _ask_one(self, engine: Engine, query: str, take: Take) -> Told:
        before, limit = self._bound(engine), self.scene.section.results

        async def hits() -> object:
            found = await engine.engine.search(query, before=before, limit=limit)
            return HITS.plain([kept_of(hit, self.scene) for hit in found])

        asked = {"engine": engine.name, "query": query, "before": before and before.isoformat(), "limit": limit}
        return await take.through("search", asked, lambda: within(SEARCH_S, engine.name, hits()))

    def _bound(self, engine: Engine) -> datetime | None:
        return bound_for(engine, self.scene.guards.cutoff, backdated=self.scene.guards.backdated)

    def _dated(self, found: Sequence[Result]) -> tuple[list[Result], Caught]:
        guards, seen, caught = self.scene.guards, set(), Caught()
        kept = []
        for result in found:
            address = address_of(result.hit.url)
            if address is None or address.key in seen:
                continue
            seen.add(address.key)
            if any(guards.blocks.refusal(url) is not None for url in addresses_of(result.hit)):
                caught += Caught(blocked=1)
            elif is_late(result.hit.published_at, guards.cutoff, backdated=guards.backdated):
                caught += Caught(dates=1)
            else:
                kept.append(result)
        return kept, caught

    def _judged(self, results: Sequence[Result], verdict: Verdict) -> tuple[list[Result], Caught]:
        """Return what is left after the filter; for an earlier day that is what it let through, not what it missed."""
        strict, kept, caught = self.scene.guards.backdated and verdict.checked, [], Caught()
        for place, result in enumerate(results):
            if place in verdict.dropped:
                caught += Caught(content=1)
            elif strict and place not in verdict.kept:
                caught += Caught(unchecked=1)
            else:
                kept.append(dataclasses.replace(result, checked=place in verdict.kept))
        return kept, caught

    def _outcome(self, number: int, kept: Sequence[Result], caught: Caught, *, checked: bool) -> Outcome:
        head = [f"search_{number}: {len(kept) or 'no'} {'result' if len(kept) == 1 else 'results'}."]
        head += [f"{told[0].upper()}{told[1:]}." for told in (caught.says("results"),) if told]
        if kept and self.scene.guards.backdated and not checked:
            head.append("Nobody checked whether these results tell of what came after the cutoff.")
        shown = [self._shown(result, f"search_{number}_result_{place}") for place, result in enumerate(kept, 1)]
        found = tuple(
            Found(exchange=result.exchange, place=result.place, url=result.hit.url, checked=result.checked)
            for result in kept
        )
        note = Note(search=number, found=found, addresses=tuple(item.url for item in found), caught=caught)
        return Outcome(text="\n".join((" ".join(head), *shown)), note=note)

    def _shown(self, result: Result, label: str) -> str:
        hit = readable(result.hit, self.scene, checked=result.checked)
        limit = self.scene.section.snippet_chars
        dated = hit.published_at.date().isoformat() if hit.published_at else "no date"
        # A title of two lines could pose as the address of another page.
        head = f"{' '.join(plain(hit.title, 300).split())}\n{plain(hit.url, 500)} ({dated})"
        return self.scene.quoted(f"{head}\n{plain(whole_text(hit), limit)}", label, limit + 900)


def usable(engines: Sequence[Engine], order: Sequence[str], *, backdated: bool) -> list[Engine]:
    """Return the engines to be tried, in order: those that config names, or all where it names none."""
    named = {engine.name: engine for engine in engines}
    chosen = [named[name] for name in order if name in named] if order else list(engines)
    return fit_engines(chosen, backdated=backdated)


def clean_query(text: str) -> str:
    """Return a query in one line and within bounds, without operators that would undo the guards."""
    query = " ".join(plain(unicodedata.normalize("NFKC", text), 4 * QUERY_CHARS).split())
    while (stripped := " ".join(_OPERATORS.sub(" ", query).split())) != query:
        query = stripped
    return query[:QUERY_CHARS].strip()


def addresses_of(hit: Hit) -> tuple[str, ...]:
    """Return where a result leads: its address, and the one behind it where the engine tells of another."""
    return (hit.url, hit.source_url) if hit.source_url else (hit.url,)


def hit_text(hit: Hit, scene: Scene) -> str:
    """Return all that may be shown of a result, but for its date: this is what the filter judges."""
    parts = (hit.title, scene.shown(hit.url, 500), brought(hit, scene))
    return "\n".join(part for part in parts if part)


def kept_of(hit: Hit, scene: Scene) -> Hit:
    """Return a result as it goes on record: within the bounds in which all of it can be read later."""
    return dataclasses.replace(hit, snippet=hit.snippet[:EXCERPT_CHARS], text=hit.text[: scene.section.text_chars])


def readable(hit: Hit, scene: Scene, *, checked: bool) -> Hit:
    """Return the result as it may be read: where nobody let its text through, only the beginning of its excerpt.

    That is for questions of an earlier day: the text is as it was found later. The excerpt stays, since the engine was
    bound to that day.
    """
    if checked or not scene.guards.backdated:
        return hit
    return dataclasses.replace(hit, snippet=hit.snippet[: scene.section.snippet_chars], text="")


def whole_text(hit: Hit) -> str:
    """Return the excerpt and the text of a result in one; an excerpt that the text repeats is left out."""
    excerpt = hit.snippet.strip()
    return "\n".join(part for part in ("" if excerpt in hit.text else excerpt, hit.text) if part)


def brought(hit: Hit, scene: Scene) -> str:
    """Return what may be shown of all that an engine brought with a result."""
    return scene.shown(whole_text(hit), scene.section.text_chars + EXCERPT_CHARS)


def brought_of(url: str, scene: Scene) -> str:
    """Return what the newest search that found an address brought of it, which may be read; else an empty text.

    The text is empty too where the search showed all of it already.
    """
    wanted = address_of(url)
    for _, results in sorted(scene.notebook.searches.items(), reverse=True):
        for found in results:
            address = address_of(found.url)
            if wanted is not None and address is not None and address.key == wanted.key:
                hit = HITS.value(scene.record.told(found.exchange))[found.place]
                there = readable(hit, scene, checked=found.checked)
                return brought(there, scene) if len(whole_text(there)) > scene.section.snippet_chars else ""
    return ""
