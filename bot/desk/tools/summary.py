"""Reading results of a search in full, through a model that writes down what bears on the question.

Where no model plays the role, or it does not answer, the beginnings of the texts are shown instead.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.desk.leaks.caught import Caught
from bot.desk.notebook import Found, Note
from bot.desk.take import Take
from bot.desk.texts import role_text, unfilled
from bot.desk.tools.lookup import readable_links
from bot.desk.tools.pages import Reading, judged, page_text, read
from bot.desk.tools.scene import Scene
from bot.desk.tools.search import EXCERPT_CHARS, HITS, brought, readable
from bot.desk.tools.tool import Cannot, Outcome, described, text_of
from bot.desk.untrusted import plain, quoted
from bot.domain.prompt import Message, Prompt, Speaker, Tool
from bot.domain.research import Hit
from bot.domain.step import Json
from bot.errors import FoxcastError, StoreError

NAME = "summarize_results"
ROLE = "summariser"
_QUESTION_CHARS = 1000
_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One result as it is read: title and address, its text, empty where it is left out, and a remark on it."""

    label: str
    head: str = ""
    text: str
    remark: str = ""
    caught: Caught = field(default_factory=Caught)

    def shown(self, limit: int) -> str:
        """Return it in its fence, with so many characters of its text."""
        inside = f"{self.head}\n{plain(self.text, limit)}"
        return quoted(inside, self.label, 2 * len(inside) + 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeResults:
    """Reads the pages of a search; ``summarised`` says whether a model plays the role."""

    scene: Scene
    summarised: bool

    @property
    def tool(self) -> Tool:
        number: dict[str, Json] = {"type": "integer", "minimum": 1}
        return described(
            NAME,
            "Read up to 20 results of an earlier search in full at once; returns what they say about your question.",
            {
                "search_index": {**number, "description": "i of search_i"},
                "result_indices": {
                    "type": "array",
                    "items": number,
                    "minItems": 1,
                    "maxItems": 20,
                    "description": "the numbers j of search_i_result_j",
                },
                "question": text_of("what to look for in them", _QUESTION_CHARS),
            },
            required=("search_index", "result_indices", "question"),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        chosen = self._chosen(arguments)
        sources = await self._sources(chosen, take)
        caught = sum((source.caught for source in sources), Caught())
        readable = [source for source in sources if source.text]
        remarks = "\n".join(f"{source.label}: {source.remark}." for source in sources if source.remark)
        if not readable:
            message = f"None of these results could be read.\n{remarks}"
            raise Cannot(message, caught=caught)
        told = await self._summary(readable, str(arguments["question"]), take) if self.summarised else None
        links = tuple(link for source in readable for link in readable_links(source.text, self.scene))
        return Outcome(
            text="\n".join(filter(None, (remarks, told or self._excerpts(readable)))),
            note=Note(caught=caught, addresses=tuple(dict.fromkeys(links))),
        )

    def _chosen(self, arguments: Mapping[str, Json]) -> dict[str, Found]:
        (number,), indices = _whole([arguments["search_index"]]), _whole(arguments["result_indices"])
        found = self.scene.notebook.searches.get(number, ())
        known = {f"search_{number}_result_{place}": found[place - 1] for place in indices if place <= len(found)}
        if not known:
            searches = self.scene.notebook.searches.items()
            there = ", ".join(f"search_{which} with {len(results)} results" for which, results in sorted(searches))
            message = f"There is no such result. There are: {there or 'no searches yet'}."
            raise Cannot(message)
        return known

    async def _sources(self, chosen: Mapping[str, Found], take: Take) -> list[Source]:
        hits = {label: self._hit(found) for label, found in chosen.items()}
        branches = {label: take.branch() for label in chosen}
        async with asyncio.TaskGroup() as group:
            reading = {label: group.create_task(self._read(hit, branches[label])) for label, hit in hits.items()}
        for branch in branches.values():
            take.join(branch)
        readings = await judged([task.result() for task in reading.values()], self.scene, take, limit=self._limit)
        return [self._source(label, hit, page) for (label, hit), page in zip(hits.items(), readings, strict=True)]

    def _hit(self, found: Found) -> Hit:
        hit = HITS.value(self.scene.record.told(found.exchange))[found.place]
        return readable(hit, self.scene, checked=found.checked)

    async def _read(self, hit: Hit, take: Take) -> Reading:
        if hit.text:
            return Reading(why="brought")
        if not self.scene.guards.fresh_pages:
            return Reading(why="pages are not read as they are now")
        return await read(hit.url, self.scene, take)

    def _source(self, label: str, hit: Hit, reading: Reading) -> Source:
        head = self.scene.shown(f"{plain(hit.title, _TITLE_CHARS)}\n{plain(hit.url, 500)}", 900)
        if reading.caught != Caught():
            return Source(label=label, text="", remark=f"left out, {reading.why}", caught=reading.caught)
        page, kept = page_text(reading.page, self.scene, self._limit), brought(hit, self.scene)
        # The excerpts of an engine may come from further down the page than is read of it.
        text = "\n".join(part for part in (page, "" if kept in page else kept) if part)
        remark = "" if page or hit.text else f"only its excerpt was read, since {reading.why}"
        return Source(label=label, head=head, text=text, remark=remark)

    async def _summary(self, sources: Sequence[Source], asked: str, take: Take) -> str | None:
        system = role_text("summarise")
        await take.keep(unfilled("summarise"))
        question = self.scene.question
        parts = (
            quoted(question.title, "question", 2_000),
            quoted(question.criteria, "resolution criteria", 4_000) if question.criteria.strip() else "",
            f"The forecaster asks: {quoted(asked, 'request', _QUESTION_CHARS)}",
            *(f"[{source.label}]\n{source.shown(2 * self._limit + EXCERPT_CHARS)}" for source in sources),
        )
        messages = (
            Message(speaker=Speaker.SYSTEM, text=system),
            Message(speaker=Speaker.USER, text="\n\n".join(filter(None, parts))),
        )
        try:
            answer = await take.ask(ROLE, Prompt(messages=messages))
        except StoreError:
            raise
        except FoxcastError:
            return None
        # What a model wrote after reading pages is as foreign as they are.
        text = self.scene.shown(answer.completion.text, self.scene.section.passage_chars)
        label = f"summary of {', '.join(source.label for source in sources)}"
        return quoted(text, label, 2 * len(text) + 100) if text else None

    def _excerpts(self, sources: Sequence[Source]) -> str:
        each = min(self.scene.section.page_chars, self.scene.section.passage_chars // len(sources))
        return "\n".join(source.shown(each) for source in sources)

    @property
    def _limit(self) -> int:
        return self.scene.section.text_chars


def _whole(values: Json) -> list[int]:
    # JSON schema takes 2.0 for a whole number, and so do models.
    return [int(value) for value in values if isinstance(value, int | float)] if isinstance(values, list) else []
