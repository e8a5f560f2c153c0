"""Wikipedia: pages as they were at a moment, from their revisions; no key.

The rendered form of an old revision (``action=parse&oldid=``) uses today's version of every template, module and data
item: a table inside a template would show the future. So the source text of the revision is read, which cannot be
changed afterwards, and converted here without further requests. Content from other pages is therefore missing; its
place is marked with the name of the template in brackets. The service is not asked where a title redirects today,
because a name given since reveals what happened: only redirects that existed at the moment count, and a page keeps the
requested title. A page that was moved since is found only under its new name, because its history moved with it.
Sources: the service's help of ``action=query&prop=revisions``; L. Werkmeister (2024) on permanent links.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice

from bot.api import DataSpec, NotFoundError, PageSource, Passage, PluginContext, SourcePolicy, hookimpl
from plugins.data.wikipedia.revisions import SOURCE, PageRevision, RevisionReader, WikipediaSettings
from plugins.data.wikipedia.sections import WikipediaArticle, parse_article

# Named in an error, so that another page can be requested.
MAX_OFFERED_PAGES = 10
MAX_OFFERED_HEADINGS = 100
ADVICE = (
    "Two states of one page are compared, and what such a page lists changes seldom. World records stand: of a "
    "hundred, about one falls within a few months. Ratings of chess players are published once a month and move by "
    "less than 1 % almost always; a place in the ranking is kept or bettered more often than it is lost. A vaccine "
    "that is not there today will not be there within a year. Read the page for how things stand now, and stay near "
    "these anchors unless a source tells of the change itself."
)

_DISAMBIGUATION = re.compile(
    r"\{\{\s*+(?:disambig\w*+|hndis|geodis|dab|begriffsklärung|homonymie|desambiguación|disambigua)\s*+[|}]",
    re.IGNORECASE,
)
_MEANING_LINK = re.compile(r"^\*[^\[\n]*+\[\[([^\[\]|#]{1,255})", re.MULTILINE)


class WikipediaPages:
    """Implements PageSource."""

    def __init__(self, encyclopedia: RevisionReader) -> None:
        self._encyclopedia = encyclopedia

    async def page_headings(self, page: str, *, before: datetime) -> Sequence[str]:
        """Return the headings, without that of the lead, which has none."""
        _, found = await self._article(page, before)
        return found.headings

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        """Return the text under a heading with the sections below it, its tables as lines of cells."""
        revision, found = await self._article(page, before)
        text = await asyncio.to_thread(found.section_text, heading)
        if text is None:
            offered = ", ".join(found.headings[:MAX_OFFERED_HEADINGS])
            message = f"{SOURCE}: {revision.title} has no heading {heading!r}; it has {offered}"
            raise NotFoundError(message)
        return Passage(url=revision.url, page=revision.title, heading=heading, text=text, revised_at=revision.at)

    async def _article(self, page: str, before: datetime) -> tuple[PageRevision, WikipediaArticle]:
        revision = await self._encyclopedia.read_revision(page, before=before)
        # Long pages take a second or so, in which other tasks continue.
        meant, found = await asyncio.to_thread(_read_article, revision.wikitext)
        if meant is not None:
            message = f"{SOURCE}: {revision.title} names several pages, ask for one of them: {'; '.join(meant)}"
            raise NotFoundError(message)
        return revision, found


def _read_article(wikitext: str) -> tuple[Sequence[str] | None, WikipediaArticle]:
    """Return the page, and the pages that it lists if its title has several meanings."""
    found = parse_article(wikitext)
    if not _DISAMBIGUATION.search(found.text):
        return None, found
    return [meaning[1] for meaning in islice(_MEANING_LINK.finditer(found.text), MAX_OFFERED_PAGES)], found


@asynccontextmanager
async def open_wikipedia(settings: WikipediaSettings, context: PluginContext) -> AsyncIterator[PageSource]:
    """Yield the source; there is nothing to close."""
    yield WikipediaPages(RevisionReader(settings, context))


@hookimpl
def foxcast_data_sources() -> list[DataSpec[WikipediaSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Pages of Wikipedia as they were at the moment, tables included",
            settings=WikipediaSettings,
            first_config=True,
            pages=open_wikipedia,
            question_sources=frozenset({"wikipedia"}),
            policy=SourcePolicy(first="fetch_wikipedia_toc", advice=ADVICE),
        )
    ]
