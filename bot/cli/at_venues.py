"""A question that the ledger does not know, asked of the venues: by its address, or by its name there."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.app import folder_of
from bot.cli.paced import rates_beside
from bot.clock import SeededRandom
from bot.config.model import Config
from bot.domain.question import Question
from bot.domain.submission import Mode
from bot.errors import FoxcastError, NotFound, StoreError
from bot.http import HttpReader
from bot.outfit import Outfitter
from bot.ports import Clock, Finder, Venue
from bot.registry import Registry
from bot.venues import rates_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AtVenues:
    """The venues that are on, each opened when it is asked, for as long as that takes."""

    config: Config
    registry: Registry
    clock: Clock

    async def with_address(self, url: str) -> Question:
        """Return the question at an address; raises NotFound, Rejected with why it cannot be forecast, or Unavailable.

        The venue to which the host belongs is asked first; one that finds is asked for the page alone, any other one
        for all that it lists.
        """
        names = self._names(_host(url))
        async with AsyncExitStack() as stack:
            outfitter = await self._outfitter(stack)
            for name in names:
                venue = await outfitter.venue(name)
                if (question := await _at(venue, url)) is not None:
                    return question
        asked = ", ".join(names) or "no venue"
        message = f"no question on record has the address {url}, and none that is open now at {asked}"
        raise NotFound(message)

    async def named(self, name: str) -> Question:
        """Return the question that a venue knows by this name (``venue:key`` asks that one alone).

        Raises NotFound where nobody knows it or several do, and what a venue raised where no other one knows it.
        """
        venue, _, key = name.partition(":")
        names, asked = ([venue], key) if venue in self._names() and key else (self._names(), name)
        found, errors, finders = list[Question](), list[FoxcastError](), list[str]()
        async with AsyncExitStack() as stack:
            outfitter = await self._outfitter(stack)
            readers = {one: await outfitter.venue(one) for one in names}
            for one, reader in readers.items():
                if isinstance(reader, Finder):
                    finders.append(one)
                    await _ask(reader, asked, found, errors)
        return _only(name, found, errors, finders)

    def _names(self, host: str = "") -> list[str]:
        """Return the venues that are on, the one to whom the host belongs first."""
        on = [name for name in self.config.venues if self.config.mode_of(name) is not Mode.OFF]
        there = [name for name in on if name in self.registry.venues]
        return sorted(there, key=lambda name: host not in self.registry.venues[name].hosts)

    async def _outfitter(self, stack: AsyncExitStack) -> Outfitter:
        random = SeededRandom(self.config.seed)
        wanted = rates_of(self.config, self.registry)
        rates = await rates_beside(self.config, wanted, clock=self.clock, random=random, stack=stack)
        return Outfitter(
            config=self.config,
            registry=self.registry,
            clock=self.clock,
            random=random,
            http=await stack.enter_async_context(HttpReader(clock=self.clock, random=random, rates=rates)),
            folder=folder_of(self.config),
            stack=stack,
            rates=rates,
        )


def address(url: str) -> tuple[str, str, str]:
    """Return what tells one page from another: host without www, path without a slash at its end, and query."""
    parts = urlsplit(url)
    return _host(url), parts.path.rstrip("/"), parts.query


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")


async def _at(venue: Venue, url: str) -> Question | None:
    if isinstance(venue, Finder):
        try:
            return await venue.find(url)
        except NotFound:
            return None
    async for question in venue.questions():
        if question.url is not None and address(question.url) == address(url):
            return question
    return None


async def _ask(reader: Finder, name: str, found: list[Question], errors: list[FoxcastError]) -> None:
    try:
        found.append(await reader.find(name))
    except StoreError:
        raise
    except NotFound:
        return
    except FoxcastError as error:
        errors.append(error)


def _only(name: str, found: list[Question], errors: list[FoxcastError], finders: list[str]) -> Question:
    match found:
        case [question]:
            return question
        case []:
            if errors:
                raise errors[0]
            nor = f", nor at {', '.join(finders)}" if finders else ""
            message = f"nothing in the ledger is called {name}{nor}; list what there is with: foxcast questions"
            raise NotFound(message)
        case several:
            listed = "\n".join(f"  {question.ref}  {question.title}" for question in several)
            message = f"{name} is not one question; name one of\n{listed}"
            raise NotFound(message)
