"""Pages of the simulated press without a network: as they are now, hidden parts and all, for desks of the laboratory.

The fetcher of the engine refuses addresses of this machine, as it must; these stand in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bot.domain.research import Fetched, Page
from bot.errors import NotFound, Rejected
from bot.testing.world.web import Press

# What the press is asked under; nobody has such a domain.
ORIGIN = "https://press.example"
_NEWS = f"{ORIGIN}/news/"


@dataclass(frozen=True, slots=True)
class PressFetcher:
    """Implements the port Fetcher."""

    press: Press

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> Fetched:
        """Return the text of an article as it stands now; raises NotFound for any other address."""
        if (why := refusal(url)) is not None:
            raise Rejected(why)
        article = self.press.newsroom.article(url.removeprefix(_NEWS)) if url.startswith(_NEWS) else None
        if article is None or article.published > self.press.day:
            message = f"there is nothing at {url}"
            raise NotFound(message)
        version = article.at(self.press.day)
        return Fetched(url=url, content=f"{version.text} {version.hidden}".strip().encode(), media_type="text/plain")


@dataclass(frozen=True, slots=True)
class PressReader:
    """Reads what the fetcher brings: title and date are those of the article."""

    press: Press

    async def read(self, fetched: Fetched) -> Page:
        """Return the page; raises NotFound for one that is not of the press."""
        article = self.press.newsroom.article(fetched.url.removeprefix(_NEWS))
        if article is None:
            message = f"there is no article at {fetched.url}"
            raise NotFound(message)
        published = self.press.world.calendar.at(article.published)
        return Page(url=fetched.url, title=article.title, text=fetched.content.decode(), published_at=published)
