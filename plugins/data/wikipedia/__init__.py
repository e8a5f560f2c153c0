"""Wikipedia: pages as they stood at a moment, from their revisions; no key.

The rendered form of an old revision (``action=parse&oldid=``) takes every template, module and data item in its state
of today: a table that lives in a template would show the future. So the source text of the revision is read, which
nobody can change afterwards, and written out here without asking for anything else. What a page takes from other pages
is therefore missing; its place is marked with the name of the template in brackets. The service is not asked where a
title leads today, because a name given since tells what happened: only redirects that stood at the moment count, and a
page is called what it was asked for. A page that was moved since is found under its new name only, because its history
moved with it.
Sources: the service's help of ``action=query&prop=revisions``; L. Werkmeister (2024) on permanent links.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice

from bot.api import Can, DataSpec, NotFound, PageSource, Passage, SourcePolicy, Workplace, hookimpl
from plugins.data.wikipedia.api import SOURCE, Encyclopedia, Revision, WikipediaSettings
from plugins.data.wikipedia.sections import Article, article

# Named in an error, so that another page can be asked for.
OFFERED = 10
HEADINGS_OFFERED = 100
ADVICE = (
    "Two states of one page are compared, and what such a page lists changes seldom. World records stand: of a "
    "hundred, about one falls within a few months. Ratings of chess players are published once a month and move by "
    "less than 1 % almost always; a place in the ranking is kept or bettered more often than it is lost. A vaccine "
    "that is not there today will not be there within a year. Read the page for how things stand now, and stay near "
    "these anchors unless a source tells of the change itself."
)

_AMBIGUOUS = re.compile(
    r"\{\{\s*+(?:disambig\w*+|hndis|geodis|dab|begriffsklärung|homonymie|desambiguación|disambigua)\s*+[|}]",
    re.IGNORECASE,
)
_MEANING = re.compile(r"^\*[^\[\n]*+\[\[([^\[\]|#]{1,255})", re.MULTILINE)


class Wikipedia:
    """Implements the port PageSource."""

    def __init__(self, encyclopedia: Encyclopedia) -> None:
        self._encyclopedia = encyclopedia

    async def contents(self, page: str, *, before: datetime) -> Sequence[str]:
        """Return the headings; the lead has none and is not among them."""
        _, found = await self._article(page, before)
        return found.headings

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        """Return the text under a heading with the sections below it, its tables as lines of cells."""
        revision, found = await self._article(page, before)
        text = await asyncio.to_thread(found.under, heading)
        if text is None:
            offered = ", ".join(found.headings[:HEADINGS_OFFERED])
            message = f"{SOURCE}: {revision.title} has no heading {heading!r}; it has {offered}"
            raise NotFound(message)
        return Passage(url=revision.url, page=revision.title, heading=heading, text=text, revised_at=revision.at)

    async def _article(self, page: str, before: datetime) -> tuple[Revision, Article]:
        revision = await self._encyclopedia.revision(page, before=before)
        # Long pages take a second or so, in which the others go on.
        meant, found = await asyncio.to_thread(_read, revision.wikitext)
        if meant is not None:
            message = f"{SOURCE}: {revision.title} names several pages, ask for one of them: {'; '.join(meant)}"
            raise NotFound(message)
        return revision, found


def _read(wikitext: str) -> tuple[Sequence[str] | None, Article]:
    """Return the page, and which ones it offers if it is only a name of several."""
    found = article(wikitext)
    if not _AMBIGUOUS.search(found.text):
        return None, found
    return [meaning[1] for meaning in islice(_MEANING.finditer(found.text), OFFERED)], found


@asynccontextmanager
async def open_wikipedia(settings: WikipediaSettings, workplace: Workplace) -> AsyncIterator[PageSource]:
    """Yield the source; there is nothing to close."""
    yield Wikipedia(Encyclopedia(settings, workplace))


@hookimpl
def foxcast_data_sources() -> list[DataSpec[WikipediaSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Pages of Wikipedia as they stood at the moment, tables included",
            abilities=frozenset({Can.PAGES}),
            settings=WikipediaSettings,
            pages=open_wikipedia,
            serves=frozenset({"wikipedia"}),
            policy=SourcePolicy(first="fetch_wikipedia_toc", advice=ADVICE),
        )
    ]
