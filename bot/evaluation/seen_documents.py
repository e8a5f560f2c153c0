"""What became of each document that a forecast came across.

Kept, or dropped by which layer of the leak guard, read from the record alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from bot.desk.addresses import address_of
from bot.desk.bench import USE, Use
from bot.desk.leaks.blocks import Blocks
from bot.desk.leaks.clamp import clamp, is_revised_late
from bot.desk.leaks.content import ROLE as FILTER
from bot.desk.leaks.content import Verdict, verdict_in
from bot.desk.leaks.dates import is_late
from bot.desk.notebook import NOTE
from bot.desk.opening import OPENING, Opening
from bot.desk.record import key_from, key_text
from bot.desk.tools.search import HITS, addresses_of
from bot.desk.tools.series import SERIES
from bot.domain.prompt import Answer
from bot.domain.research import Hit, Page, Passage, Series
from bot.errors import ContractError, NotFound
from bot.llm.record import RECORD
from bot.store.codec import Form
from bot.store.documents import Documents
from bot.store.exchanges import Exchange, ExchangeKey

_PAGE_SERIALIZER: Form[Page] = Form("page", Page)
_PASSAGE_SERIALIZER: Form[Passage] = Form("passage", Passage)
_ANSWER_SERIALIZER: Form[Answer] = Form("answer", Answer)


class DocumentKind(StrEnum):
    """What a document is."""

    RESULT = "search result"
    PAGE = "page"
    SERIES = "series"
    PASSAGE = "passage"


class GuardLayer(StrEnum):
    """What keeps the future out; ``UNCHECKED`` is the rule that a page of today is not used where nobody judged it."""

    DATES = "dates"
    CONTENT = "content"
    CLAMP = "clamp"
    ADDRESSES = "addresses"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDocument:
    """A document as it came, and what became of it: ``dropped`` is None where the forecaster could read it.

    ``text`` is what it tells; ``shown`` what the tool gave back with it; ``judged`` says that the filter looked at it,
    ``passed`` that it let it pass by name; ``beyond`` counts the points of a series that were clamped away.
    ``backdated`` says that the question was of an earlier day: only then can a result or a page tell too much.
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
        """Whether it was kept though nobody judged what it tells, and somebody should have."""
        unchecked = self.dropped is None and not self.filter_kept
        return unchecked and self.backdated and self.kind in {DocumentKind.RESULT, DocumentKind.PAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDocuments:
    """One trial's record, opened. ``results`` is how many results of a search were looked at."""

    trial: int
    opening: Opening
    exchanges: Mapping[ExchangeKey, Exchange]
    blocks: Blocks
    results: int
    roles: Mapping[str, str] = field(default_factory=dict)

    def documents(self) -> Iterator[SeenDocument]:
        """Yield all documents, use by use; raises ContractError for a record that is not of its form."""
        for use in _iter_tool_uses(self.exchanges):
            yield from self._documents_of(use)

    @property
    def cutoff(self) -> datetime:
        """The moment from which on nothing was to be known."""
        return self.opening.bound

    def _documents_of(self, use: Use) -> Iterator[SeenDocument]:
        keys = [key_from(name) for name in use.names]
        told = [(key, body["told"]) for key in keys if "told" in (body := self._body(key))]
        verdict = self._verdict([value for key, value in told if key.kind == "model"])
        for key, value in told:
            if key.kind == "search":
                yield from self._results(use, key, HITS.value(value), verdict)
            elif key.kind == "series":
                yield self._series(SERIES.value(value), use)
            elif key.kind == "section":
                yield self._passage(_PASSAGE_SERIALIZER.value(value), use)
        yield from self._pages([(key, value) for key, value in told if key.kind == "page"], verdict, use)

    def _results(self, use: Use, key: ExchangeKey, hits: Sequence[Hit], verdict: Verdict) -> Iterator[SeenDocument]:
        note = NOTE.value(use.note)
        kept = {found.place: found.checked for found in note.found if found.exchange == key_text(key)}
        seen: set[str] = set()
        passed = 0
        for place, hit in enumerate(hits[: self.results]):
            address = address_of(hit.url)
            if address is None or address.key in seen:
                continue
            seen.add(address.key)
            dropped = None if place in kept else self._rule_layer(addresses_of(hit), hit.published_at)
            if dropped is None:
                # The filter was shown those alone that had come so far, in this order.
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

    def _pages(self, told: Sequence[tuple[ExchangeKey, Any]], verdict: Verdict, use: Use) -> Iterator[SeenDocument]:
        place = 0
        for _, value in told:
            if "blocked" in value:
                yield self._page(Page(url="", title="", text="", published_at=None), use, GuardLayer.ADDRESSES)
                continue
            page = _PAGE_SERIALIZER.value(value["page"])
            dropped = self._rule_layer((page.url,), page.published_at)
            if dropped is None:
                # The filter was shown those alone that had come so far, in this order.
                passed = place in verdict.kept
                dropped, place = self._content_layer(place, verdict), place + 1
                yield self._page(page, use, dropped, judged=verdict.checked, passed=passed)
            else:
                yield self._page(page, use, dropped)

    def _page(
        self, page: Page, use: Use, dropped: GuardLayer | None, *, judged: bool = False, passed: bool = False
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

    def _content_layer(self, place: int, verdict: Verdict) -> GuardLayer | None:
        if place in verdict.dropped:
            return GuardLayer.CONTENT
        return GuardLayer.UNCHECKED if self.opening.backdated and place not in verdict.kept else None

    def _series(self, series: Series, use: Use) -> SeenDocument:
        points = "\n".join(f"{day},{value:.10g}" for day, value in zip(series.dates, series.values, strict=True))
        return SeenDocument(
            trial=self.trial,
            tool="series",
            kind=DocumentKind.SERIES,
            name=f"{series.source}: {series.name}",
            text=points,
            clamped_points=clamp(series, self.cutoff).beyond,
            shown=use.result.observation.text,
        )

    def _passage(self, passage: Passage, use: Use) -> SeenDocument:
        late = is_revised_late(passage, self.cutoff)
        return SeenDocument(
            trial=self.trial,
            tool="passages",
            kind=DocumentKind.PASSAGE,
            name=f"{passage.page} # {passage.heading}",
            text=passage.text,
            dated=passage.revised_at if passage.revised_at.tzinfo else passage.revised_at.replace(tzinfo=UTC),
            dropped=GuardLayer.CLAMP if late and use.result.failed else None,
            shown=use.result.observation.text,
        )

    def _rule_layer(self, urls: Iterable[str], dated: datetime | None) -> GuardLayer | None:
        if any(self.blocks.refusal(url) is not None for url in urls):
            return GuardLayer.ADDRESSES
        return GuardLayer.DATES if is_late(dated, self.cutoff, backdated=self.opening.backdated) else None

    def _verdict(self, models: Sequence[Any]) -> Verdict:
        """Return what the filter said in this use; nothing was checked where it did not answer."""
        for value in models:
            answer = _ANSWER_SERIALIZER.value(value)
            if self.roles.get(answer.document) == FILTER:
                return verdict_in(answer.completion.text, 10**6)
        return Verdict()

    def _body(self, key: ExchangeKey) -> dict[str, Any]:
        exchange = self.exchanges.get(key)
        return {} if exchange is None else _exchange_body(exchange)


def trial_opening(exchanges: Mapping[ExchangeKey, Exchange]) -> Opening | None:
    """Return what a trial began with; None for one that used nothing."""
    bodies = [_exchange_body(exchange) for key, exchange in exchanges.items() if key.kind == "desk"]
    return OPENING.value(bodies[0]["told"]) if bodies and "told" in bodies[0] else None


async def call_roles(exchanges: Mapping[ExchangeKey, Exchange], documents: Documents) -> Mapping[str, str]:
    """Return the role in which each call of a trial was made, by the digest of its record, where there is one."""
    roles: dict[str, str] = {}
    for key, exchange in exchanges.items():
        body = _exchange_body(exchange)
        if key.kind != "model" or "told" not in body:
            continue
        document = _ANSWER_SERIALIZER.value(body["told"]).document
        try:
            roles[document] = RECORD.decode((await documents.get(document)).content.decode()).role
        except (NotFound, ContractError):
            continue
    return roles


def _iter_tool_uses(exchanges: Mapping[ExchangeKey, Exchange]) -> Iterator[Use]:
    for key, exchange in exchanges.items():
        if key.kind == "tool" and "told" in (body := _exchange_body(exchange)):
            yield USE.value(body["told"])


def _exchange_body(exchange: Exchange) -> dict[str, Any]:
    body = json.loads(exchange.body)
    return body if isinstance(body, dict) else {}
