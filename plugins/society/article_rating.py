"""Rating: chunks of articles are graded by the model in the role rater, several in each call.

Each chunk has grades of its own, as in the paper (``plugins.society.articles``); a call only shares the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.api import (
    ContextLengthExceededError,
    FoxcastError,
    Json,
    StructuredAnswer,
    ToolDefinition,
    UnreadableAnswer,
    answer_tool,
    fence_text,
    fill_prompt,
    gather_all,
    object_schema,
    parsing,
    text_field,
)
from plugins.society.agent_prompts import PROMPT_PACKAGE
from plugins.society.articles import ArticleChunk, ArticleRating, RatedArticle, split_chunks
from plugins.society.court_state import MoveOutcome
from plugins.society.participants import MAIN_ROLE, CourtParticipant, ParticipantGroup
from plugins.society.settings import CourtSettings

RATER = "rater"
FINDING_CHARS = 500
HIGHEST_GRADE = 10
# After this many calls in a row without a rating, no further one is made.
MAX_FAILED_CALLS = 2
# So many calls are made at once at first: enough for twenty pages of usual length.
FIRST_CALLS = 4

Ratings = Mapping[int, ArticleRating]


@dataclass(frozen=True, slots=True)
class UnratedChunk:
    """One chunk to be rated: the index of its article, its own index in it, and its text as the rater reads it."""

    article: int
    place: int
    text: str


@dataclass(slots=True, kw_only=True)
class ArticleRater:
    """Rates articles for one question; ``opening`` is the question with the criteria of the scenario."""

    participants: ParticipantGroup
    settings: CourtSettings
    opening: str

    async def rate(self, articles: Sequence[RatedArticle], done: MoveOutcome) -> list[RatedArticle]:
        """Split the unrated articles into chunks and rate all chunks, several in one call, calls side by side.

        There are twice as many calls at once as before each time, so that a failing rater is not asked for all.
        """
        split = [self._split(article) for article in articles]
        waiting = [
            UnratedChunk(number, place, f"{article.heading}\n\n{chunk.text}")
            for number, article in enumerate(split)
            for place, chunk in enumerate(article.chunks)
            if chunk.rating is None
        ]
        size = self.settings.rating_batch
        batches = [waiting[start : start + size] for start in range(0, len(waiting), size)]
        why, made, at_once = "", 0, FIRST_CALLS
        while made < len(batches) and not why:
            some = batches[made : made + at_once]
            answers = await gather_all(map(self._rate_batch, some))
            for batch, answer in zip(some, answers, strict=True):
                _count_answer(done, answer, len(batch))
                _add_ratings(split, batch, answer.value or {})
            made, at_once = made + len(some), 2 * at_once
            if len(answers) >= MAX_FAILED_CALLS and all(one.value is None for one in answers[-MAX_FAILED_CALLS:]):
                why = f"the rater was not asked any more after {MAX_FAILED_CALLS} calls in a row without a rating"
        left = [chunk for batch in batches[made:] for chunk in batch]
        done.remarks += (f"{len(left)} chunks not rated: {why}",) if left else ()
        return split

    def _split(self, article: RatedArticle) -> RatedArticle:
        if article.chunks:
            return article
        chunks = split_chunks(article.text, tokens=self.settings.chunk_tokens, most=self.settings.max_chunks)
        return replace(article, chunks=tuple(map(ArticleChunk, chunks)))

    async def _rate_batch(self, batch: Sequence[UnratedChunk]) -> StructuredAnswer[Ratings]:
        """Rate these chunks in one call, or in two if they are too long for the model together."""
        answer = await self._ask(batch)
        if not isinstance(answer.failure, ContextLengthExceededError) or len(batch) < 2:
            return answer
        half = len(batch) // 2
        first, second = await gather_all(map(self._rate_batch, (batch[:half], batch[half:])))
        later = {number + half: rating for number, rating in (second.value or {}).items()}
        return replace(
            first if first.value is None else second,
            value={**(first.value or {}), **later} or None,
            usage=answer.usage + first.usage + second.usage,
            documents=(*answer.documents, *first.documents, *second.documents),
        )

    async def _ask(self, batch: Sequence[UnratedChunk]) -> StructuredAnswer[Ratings]:
        rater = CourtParticipant(name=RATER, label="The rater", part="", roles=(RATER, MAIN_ROLE))
        # A session for each call, so that no call influences the ratings of the next one.
        label = f"{batch[0].article}/{batch[0].place}/{len(batch)}"
        try:
            session = self.participants.open_session(rater, "rate", label)
        except FoxcastError as error:
            return StructuredAnswer(reason=str(error), failure=error)
        texts = [
            fence_text(chunk.text, f"text {number}", len(chunk.text) + 5000) for number, chunk in enumerate(batch, 1)
        ]
        session.begin(fill_prompt(PROMPT_PACKAGE, "rate"), "\n\n".join([self.opening, *texts]))
        tool = rating_tool(self.settings.rating_batch)
        return await session.ask_structured(tool, lambda arguments: read_ratings(arguments, len(batch)))


def rating_tool(most: int) -> ToolDefinition:
    """Return the call by which up to ``most`` chunks are rated; it is the same for every call."""
    grade: Json = {"type": "integer", "minimum": 1, "maximum": HIGHEST_GRADE}
    number: Json = {"type": "integer", "minimum": 1, "maximum": most}
    item = object_schema(
        {"number": number, "finding": text_field(FINDING_CHARS), "relevance": grade, "objectivity": grade}
    )
    return answer_tool(
        "rate",
        "Say of each text what in it bears on the question, then rate its relevance and its objectivity",
        {"ratings": {"type": "array", "items": item, "maxItems": most}},
    )


def read_ratings(arguments: Mapping[str, Json], count: int) -> Ratings:
    """Return the ratings by the index of their text; raises UnreadableAnswer if fewer than half of them are valid."""
    raw = arguments.get("ratings")
    found: dict[int, ArticleRating] = {}
    faults = []
    for item in raw if isinstance(raw, list) else ():
        given: Mapping[str, Json] = item if isinstance(item, dict) else {}
        try:
            number = parsing.read_whole_number(given.get("number"), "number", count)
            found.setdefault(number - 1, _read_rating(given))
        except UnreadableAnswer as fault:
            faults.append(str(fault))
    if 2 * len(found) < count:
        message = f"ratings should hold one entry for each of {count} texts, by its number"
        raise UnreadableAnswer("; ".join([message, *dict.fromkeys(faults)]))
    return found


def _read_rating(given: Mapping[str, Json]) -> ArticleRating:
    return ArticleRating(
        relevance=parsing.read_whole_number(given.get("relevance"), "relevance", HIGHEST_GRADE),
        objectivity=parsing.read_whole_number(given.get("objectivity"), "objectivity", HIGHEST_GRADE),
        finding=parsing.read_text(given.get("finding"), FINDING_CHARS),
    )


def _count_answer(done: MoveOutcome, answer: StructuredAnswer[Ratings], wanted: int) -> None:
    done.usage += answer.usage
    done.documents += answer.documents
    if missing := wanted - len(answer.value or {}):
        done.remarks += (f"{missing} of {wanted} chunks not rated: {answer.reason or 'left out of the answer'}",)


def _add_ratings(articles: list[RatedArticle], batch: Sequence[UnratedChunk], ratings: Ratings) -> None:
    for number, rating in ratings.items():
        chunk = batch[number]
        article = articles[chunk.article]
        chunks = [*article.chunks]
        chunks[chunk.place] = replace(chunks[chunk.place], rating=rating)
        articles[chunk.article] = replace(article, chunks=tuple(chunks))
