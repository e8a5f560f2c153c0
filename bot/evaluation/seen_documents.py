"""The fate of each document that a forecast found: kept, or dropped by which layer of the leak guard.

It is read from the record alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from bot.core.errors import MalformedDataError
from bot.core.language_models import ModelAnswer
from bot.core.light_dataclass import dataclass
from bot.core.research import PageText, Passage, SearchResult, TimeSeries
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE as FILTER
from bot.forecasting.leak_guard.content_filter import ContentVerdict, parse_verdict
from bot.forecasting.leak_guard.cutoff import clamp_series, is_after_cutoff, is_revised_late
from bot.forecasting.recording import format_exchange_key, parse_exchange_key
from bot.forecasting.tools.time_series import SERIES_SERIALIZER
from bot.forecasting.tools.web_search import HITS_SERIALIZER, result_addresses
from bot.forecasting.trial_memory import NOTE_SERIALIZER, OPENING_SERIALIZER, TrialOpening
from bot.forecasting.trial_tools import CALL_SERIALIZER, ToolCallRecord
from bot.forecasting.web_addresses import parse_address
from bot.llm.call_records import CALL_RECORD_SERIALIZER
from bot.store.evidence import DocumentStore
from bot.store.serialization import JsonSerializer
from bot.store.trials import RecordedResponse, RecordingKey

_PAGE_SERIALIZER: JsonSerializer[PageText] = JsonSerializer("page", PageText)
_PASSAGE_SERIALIZER: JsonSerializer[Passage] = JsonSerializer("passage", Passage)
_ANSWER_SERIALIZER: JsonSerializer[ModelAnswer] = JsonSerializer("answer", ModelAnswer)


class DocumentKind(StrEnum):
    """What a document is."""

    RESULT = "search result"
    PAGE = "page"
    SERIES = "series"
    PASSAGE = "passage"


class GuardLayer(StrEnum):
    """The layers that keep the future out.

    ``UNCHECKED`` is the rule that a page of today is not used where nobody judged it.
    """

    DATES = "dates"
    CONTENT = "content"
    CLAMP = "clamp"
    ADDRESSES = "addresses"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDocument:
    """A document as it was found, and its fate: ``dropped`` is None where the forecaster could read it.

    ``text`` is its content; ``shown`` what the tool returned with it; ``was_filtered`` says that the filter examined
    it, ``filter_kept`` that it kept it by name; ``clamped_points`` counts the points of a series that were removed.
    ``backdated`` says that the question was of an earlier day: only then can a result or a page reveal too much.
    """

    trial: int
    tool: str
    kind: DocumentKind
    name: str
    text: str
    dated: datetime | None = None
    dropped: GuardLayer | None = None
    was_filtered: bool = False
    filter_kept: bool = False
    shown: str = ""
    clamped_points: int = 0
    backdated: bool = True

    @property
    def unjudged(self) -> bool:
        """Whether it was kept without a check of its content, where a check was needed."""
        unchecked = self.dropped is None and not self.filter_kept
        return unchecked and self.backdated and self.kind in {DocumentKind.RESULT, DocumentKind.PAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDocuments:
    """One trial's record, opened. ``results`` is how many results of a search were examined."""

    trial: int
    opening: TrialOpening
    exchanges: Mapping[RecordingKey, RecordedResponse]
    blocks: BlockedAddresses
    results: int
    roles: Mapping[str, str] = field(default_factory=dict)

    def documents(self) -> Iterator[SeenDocument]:
        """Yield all documents, use by use; raises MalformedDataError for a record that is not of its form."""
        for use in _iter_tool_uses(self.exchanges):
            yield from self._documents_of(use)

    @property
    def cutoff(self) -> datetime:
        """The moment from which on nothing may be known."""
        return self.opening.bound

    def _documents_of(self, use: ToolCallRecord) -> Iterator[SeenDocument]:
        keys = [parse_exchange_key(name) for name in use.names]
        replies = [(key, body["value"]) for key in keys if "value" in (body := self._load_body(key))]
        verdict = self._filter_verdict([value for key, value in replies if key.kind == "model"])
        for key, value in replies:
            if key.kind == "search":
                yield from self._iter_results(use, key, HITS_SERIALIZER.value(value), verdict)
            elif key.kind == "series":
                yield self._series_document(SERIES_SERIALIZER.value(value), use)
            elif key.kind == "section":
                yield self._passage_document(_PASSAGE_SERIALIZER.value(value), use)
        yield from self._iter_pages([(key, value) for key, value in replies if key.kind == "page"], verdict, use)

    def _iter_results(
        self, use: ToolCallRecord, key: RecordingKey, hits: Sequence[SearchResult], verdict: ContentVerdict
    ) -> Iterator[SeenDocument]:
        note = NOTE_SERIALIZER.value(use.note)
        kept = {found.place: found.checked for found in note.found if found.exchange == format_exchange_key(key)}
        seen: set[str] = set()
        passed = 0
        for place, hit in enumerate(hits[: self.results]):
            address = parse_address(hit.url)
            if address is None or address.key in seen:
                continue
            seen.add(address.key)
            dropped = None if place in kept else self._rule_layer(result_addresses(hit), hit.published_at)
            if dropped is None:
                # The filter saw only those that had arrived by then, in this order.
                if place not in kept:
                    passed_over = bool(note.caught.unchecked) and passed not in verdict.dropped
                    dropped = GuardLayer.UNCHECKED if passed_over else GuardLayer.CONTENT
                passed += 1
            text = "\n".join(part for part in (hit.title, hit.snippet, hit.text) if part)
            yield SeenDocument(
                trial=self.trial,
                tool="web_search",
                kind=DocumentKind.RESULT,
                name=hit.url,
                text=text,
                dated=hit.published_at,
                dropped=dropped,
                was_filtered=verdict.checked and dropped in {None, GuardLayer.CONTENT, GuardLayer.UNCHECKED},
                filter_kept=kept.get(place, False),
                backdated=self.opening.backdated,
            )

    def _iter_pages(
        self, replies: Sequence[tuple[RecordingKey, Any]], verdict: ContentVerdict, use: ToolCallRecord
    ) -> Iterator[SeenDocument]:
        place = 0
        for _, value in replies:
            if "blocked" in value:
                yield self._page_document(
                    PageText(url="", title="", text="", published_at=None), use, GuardLayer.ADDRESSES
                )
                continue
            page = _PAGE_SERIALIZER.value(value["page"])
            dropped = self._rule_layer((page.url,), page.published_at)
            if dropped is None:
                # The filter saw only those that had arrived by then, in this order.
                passed = place in verdict.kept
                dropped, place = self._content_layer(place, verdict), place + 1
                yield self._page_document(page, use, dropped, judged=verdict.checked, passed=passed)
            else:
                yield self._page_document(page, use, dropped)

    def _page_document(
        self,
        page: PageText,
        use: ToolCallRecord,
        dropped: GuardLayer | None,
        *,
        judged: bool = False,
        passed: bool = False,
    ) -> SeenDocument:
        return SeenDocument(
            trial=self.trial,
            tool="pages",
            kind=DocumentKind.PAGE,
            name=page.url or "an address that is not read",
            text=f"{page.title}\n{page.text}".strip(),
            dated=page.published_at,
            dropped=dropped,
            was_filtered=judged,
            filter_kept=passed,
            backdated=self.opening.backdated,
            shown=use.result.observation.text,
        )

    def _content_layer(self, place: int, verdict: ContentVerdict) -> GuardLayer | None:
        if place in verdict.dropped:
            return GuardLayer.CONTENT
        return GuardLayer.UNCHECKED if self.opening.backdated and place not in verdict.kept else None

    def _series_document(self, series: TimeSeries, use: ToolCallRecord) -> SeenDocument:
        points = "\n".join(f"{day},{value:.10g}" for day, value in zip(series.dates, series.values, strict=True))
        return SeenDocument(
            trial=self.trial,
            tool="series",
            kind=DocumentKind.SERIES,
            name=f"{series.source}: {series.name}",
            text=points,
            clamped_points=clamp_series(series, self.cutoff).beyond,
            shown=use.result.observation.text,
        )

    def _passage_document(self, passage: Passage, use: ToolCallRecord) -> SeenDocument:
        is_late = is_revised_late(passage, self.cutoff)
        return SeenDocument(
            trial=self.trial,
            tool="passages",
            kind=DocumentKind.PASSAGE,
            name=f"{passage.page} # {passage.heading}",
            text=passage.text,
            dated=passage.revised_at if passage.revised_at.tzinfo else passage.revised_at.replace(tzinfo=UTC),
            dropped=GuardLayer.CLAMP if is_late and use.result.failed else None,
            shown=use.result.observation.text,
        )

    def _rule_layer(self, urls: Iterable[str], dated: datetime | None) -> GuardLayer | None:
        if any(self.blocks.refusal(url) is not None for url in urls):
            return GuardLayer.ADDRESSES
        return GuardLayer.DATES if is_after_cutoff(dated, self.cutoff, backdated=self.opening.backdated) else None

    def _filter_verdict(self, models: Sequence[Any]) -> ContentVerdict:
        """Return what the filter answered in this tool call; nothing was checked where it did not answer."""
        for value in models:
            answer = _ANSWER_SERIALIZER.value(value)
            if self.roles.get(answer.document) == FILTER:
                return parse_verdict(answer.completion.text, 10**6)
        return ContentVerdict()

    def _load_body(self, key: RecordingKey) -> dict[str, Any]:
        exchange = self.exchanges.get(key)
        return {} if exchange is None else _exchange_body(exchange)


def trial_opening(exchanges: Mapping[RecordingKey, RecordedResponse]) -> TrialOpening | None:
    """Return the opening of a trial; None for one that used nothing."""
    bodies = [_exchange_body(exchange) for key, exchange in exchanges.items() if key.kind == "opening"]
    return OPENING_SERIALIZER.value(bodies[0]["value"]) if bodies and "value" in bodies[0] else None


async def call_roles(
    exchanges: Mapping[RecordingKey, RecordedResponse], documents: DocumentStore, *, scope: str
) -> Mapping[str, str]:
    """Return the role in which each call of a trial was made, by the digest of its record, where there is one."""
    bodies = [_exchange_body(exchange) for key, exchange in exchanges.items() if key.kind == "model"]
    answers = [_ANSWER_SERIALIZER.value(body["value"]).document for body in bodies if "value" in body]
    roles: dict[str, str] = {}
    for digest, record in (await documents.read_known(answers, scope=scope)).items():
        try:
            roles[digest] = CALL_RECORD_SERIALIZER.decode(record.content.decode()).role
        except MalformedDataError:
            continue
    return roles


def _iter_tool_uses(exchanges: Mapping[RecordingKey, RecordedResponse]) -> Iterator[ToolCallRecord]:
    for key, exchange in exchanges.items():
        if key.kind == "tool" and "value" in (body := _exchange_body(exchange)):
            yield CALL_SERIALIZER.value(body["value"])


def _exchange_body(exchange: RecordedResponse) -> dict[str, Any]:
    body = json.loads(exchange.body)
    return body if isinstance(body, dict) else {}
