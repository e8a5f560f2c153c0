"""The reader: open markets that pass the filters, one by name, and outcomes. Needs no key."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import structlog

from bot.api import (
    SINGLE_TARGET,
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    PluginContext,
    Question,
    QuestionRef,
    ReportedOutcomes,
    RequestRejectedError,
    Resolution,
    ServiceUnavailableError,
    VenueReader,
    VoidOutcome,
    load_reported_outcomes,
    save_reported_outcomes,
)
from plugins.manifold.api_client import JsonRecord, ManifoldClient
from plugins.manifold.api_records import ManifoldMarketRecord, parse_record
from plugins.manifold.market_parser import ManifoldParsedMarket, market_objection, parse_market
from plugins.manifold.market_scan import ManifoldMarketScan
from plugins.manifold.market_state import split_contract
from plugins.manifold.resolutions import answer_payouts, market_resolution, needs_answer_payouts
from plugins.manifold.settings import ManifoldSettings

log = structlog.get_logger(__name__)

# After this many unreadable markets in a row the venue counts as unavailable.
MAX_FAILURES_IN_A_ROW = 3
# A market with an unchanged short record is read again only this often: its text may have changed.
REREAD_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownMarket:
    """A full market as it was last read, and the short record from the search."""

    summary: Mapping[str, object]
    full_record: JsonRecord
    at: datetime


class ManifoldReader:
    """Implements ``QuestionReader``."""

    def __init__(self, settings: ManifoldSettings, context: PluginContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._client = ManifoldClient(settings, context.http, context.clock)
        self._scan = ManifoldMarketScan(settings, self._client, context.clock)
        self._folder = context.folder
        self._known: dict[str, _KnownMarket] = {}
        self._noted: object = None

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the questions that can be forecast now.

        An unreadable market does not affect others; several in a row mean that the venue is down. An error is raised at
        the end if nothing could be read or if there may be more than could be read now.
        """
        skipped: Counter[str] = Counter()
        complaints: list[str] = []
        errors: list[FoxcastError] = []
        yielded: set[QuestionRef] = set()
        failures = 0
        for name, summary in (await self._choose_markets(skipped, complaints, errors)).items():
            try:
                unpacked = parse_market(await self._full_market(name, summary), now=self._clock.now())
            except FoxcastError as error:
                complaints.append(f"{name}: {error}")
                errors.append(error)
                failures = failures + 1 if isinstance(error, ServiceUnavailableError) else 0
                if failures == MAX_FAILURES_IN_A_ROW or isinstance(error, AuthenticationError):
                    break
                continue
            failures = 0
            complaints += unpacked.complaints
            for question in self._wanted_questions(unpacked, skipped):
                if question.ref not in yielded:
                    yielded.add(question.ref)
                    yield question
        self._note(skipped, complaints)
        service_errors = [error for error in errors if isinstance(error, AuthenticationError | ServiceUnavailableError)]
        if service_errors or (errors and not yielded):
            raise (service_errors or errors)[0]

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield the outcomes of markets that have been resolved for long enough.

        A reported outcome that no longer exists becomes void, and so does one that has just been changed.
        """
        by_market: dict[str, list[QuestionRef]] = defaultdict(list)
        for ref in pending:
            by_market[split_contract(ref.key)[0]].append(ref)
        if not by_market:
            return
        reported = await asyncio.to_thread(load_reported_outcomes, self._folder)
        async for refs, market, weights in self._resolved_markets(by_market):
            found = [outcome for ref in sorted(refs) if (outcome := self._outcome(ref, market, weights, reported))]
            if reported.has_changes:
                await asyncio.to_thread(save_reported_outcomes, self._folder, reported)
            for outcome in found:
                yield outcome

    async def find_question(self, name: str) -> Question:
        """Return a question by the id of its market (``/`` and that of an answer), by slug, or by address."""
        market_id, answer = self._parse_name(name)
        unpacked = parse_market(await self._read(market_id), now=self._clock.now())
        market = unpacked.market
        if why := market_objection(market, self._clock.now(), self._margin):
            message = f"market {market.id} cannot be forecast: it is {why}"
            raise RequestRejectedError(message)
        found = [one for one in unpacked.questions if answer in {"", one.facts.get("answer", "")}]
        if not found:
            why = "; ".join((unpacked.complaints or unpacked.skipped)[:3])
            message = (
                f"market {market.id} has no {f'open answer {answer}' if answer else 'question to forecast'} ({why})"
            )
            raise NotFoundError(message) if answer else RequestRejectedError(message)
        if len(found) > 1:
            choices = ", ".join(f"{one.ref.key} ({one.label})" for one in found[:20])
            message = f"market {market.id} has {len(found)} questions, name one of them: {choices}"
            raise RequestRejectedError(message)
        return found[0]

    @property
    def _margin(self) -> timedelta:
        return timedelta(seconds=self._settings.close_margin_s)

    async def _choose_markets(
        self, skipped: Counter[str], complaints: list[str], errors: list[FoxcastError]
    ) -> dict[str, Mapping[str, object]]:
        """Return the markets to read, by id or slug, with their short records from the search."""
        chosen: dict[str, Mapping[str, object]] = {name: {} for name in self._settings.markets}
        if self._settings.scan:
            try:
                chosen |= await self._scan.find_markets(skipped, complaints)
            except FoxcastError as error:
                errors.append(error)
        self._known = {name: known for name, known in self._known.items() if name in chosen}
        return chosen

    async def _full_market(self, name: str, summary: Mapping[str, object]) -> JsonRecord:
        """Return the FullMarket, which has text and answers; read it again if its short record changed."""
        known, now = self._known.get(name), self._clock.now()
        if known is not None and summary and known.summary == summary and now - known.at < REREAD_AFTER:
            return known.full_record
        whole = await self._read(name)
        self._known[name] = _KnownMarket(summary=summary, full_record=whole, at=now)
        return whole

    async def _read(self, name: str) -> JsonRecord:
        """Return a market by its id or its slug; only slugs contain dashes, but not all do."""
        if "-" not in name:
            try:
                return await self._client.market(name)
            except NotFoundError:
                log.debug("unknown id, trying it as a slug", name=name)
        return await self._client.market_by_slug(name)

    def _wanted_questions(self, unpacked: ManifoldParsedMarket, skipped: Counter[str]) -> list[Question]:
        skipped.update(unpacked.skipped)
        why = market_objection(unpacked.market, self._clock.now(), self._margin)
        if why:
            skipped[why] += 1
            return []
        questions = unpacked.questions
        if len(questions) > self._settings.max_answers:
            skipped["an answer beyond max_answers"] += len(questions) - self._settings.max_answers
            volume = {f"{unpacked.market.id}/{one}": by for one, by in _answer_volumes(unpacked.market).items()}
            ranked = sorted(questions, key=lambda one: -volume.get(one.ref.key, 0.0))
            questions = ranked[: self._settings.max_answers]
        return questions

    def _note(self, skipped: Mapping[str, int], complaints: list[str]) -> None:
        counts = (dict(skipped), len(complaints))
        if any(counts) and counts != self._noted:
            log_skipped = log.warning if complaints else log.info
            log_skipped("markets skipped", skipped=dict(skipped), bad=len(complaints), first=complaints[:3])
        self._noted = counts

    async def _resolved_markets(
        self, by_market: Mapping[str, list[QuestionRef]]
    ) -> AsyncIterator[tuple[list[QuestionRef], ManifoldMarketRecord, Mapping[str, float]]]:
        """Yield markets as they are now; an unreadable one does not affect others, several in a row end the pass.

        Raises ServiceUnavailableError if none could be read.
        """
        failures, read_count = 0, 0
        for market_id, refs in sorted(by_market.items()):
            try:
                market, weights = await self._resolved(market_id)
            except (NotFoundError, RequestRejectedError, MalformedDataError, ServiceUnavailableError) as error:
                log.warning("outcomes skipped", market=market_id, error=str(error))
                failures = failures + 1 if isinstance(error, ServiceUnavailableError) else 0
                if failures < min(MAX_FAILURES_IN_A_ROW, len(by_market)):
                    continue
                if not read_count:
                    raise
                return
            failures, read_count = 0, read_count + 1
            yield refs, market, weights

    async def _resolved(self, market_id: str) -> tuple[ManifoldMarketRecord, Mapping[str, float]]:
        market = parse_record(ManifoldMarketRecord, await self._client.market(market_id), f"market {market_id}")
        if not needs_answer_payouts(market):
            return market, {}
        return market, answer_payouts(list(await self._client.answers(market_id)), market_id)

    def _outcome(
        self, ref: QuestionRef, market: ManifoldMarketRecord, weights: Mapping[str, float], reported: ReportedOutcomes
    ) -> Resolution | None:
        now = self._clock.now()
        try:
            verdict = market_resolution(market, split_contract(ref.key)[1], weights)
        except MalformedDataError as error:
            log.warning("an outcome is skipped", question=str(ref), error=str(error))
            return None
        if verdict is not None:
            at = verdict.at or reported.first_seen(f"{ref.key} {verdict.text}", now)
            if (
                now - at > timedelta(seconds=self._settings.resolve_after_s)
                or reported.texts.get(ref.key) == verdict.text
            ):
                reported.record_outcome(ref.key, verdict.text)
                return Resolution(ref=ref, target=SINGLE_TARGET, outcome=verdict.outcome, resolved_at=at)
        undone_at = reported.record_withdrawal(ref.key, now)
        if undone_at is None:
            return None
        why = "the resolution was undone" if verdict is None else "the resolution has just been changed"
        return Resolution(ref=ref, target=SINGLE_TARGET, outcome=VoidOutcome(why), resolved_at=undone_at)

    def _parse_name(self, name: str) -> tuple[str, str]:
        """Return id or slug of a market, and id of an answer or ""."""
        if "://" not in name:
            return split_contract(name.strip())
        site = urlsplit(self._settings.addresses.site)
        try:
            parts = urlsplit(name.strip())
            host, steps = parts.hostname or "", [step for step in parts.path.split("/") if step]
        except ValueError:  # an open bracket
            host, steps = "", []
        if host.removeprefix("www.") != site.hostname or len(steps) != 2:
            message = f"{name[:200]!r} is not the address of a market: {self._settings.addresses.site}/CREATOR/SLUG"
            raise NotFoundError(message)
        return steps[1], ""


@asynccontextmanager
async def open_reader(settings: ManifoldSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    """Open the reader; it sends no request before the first use."""
    yield ManifoldReader(settings, context)


def _answer_volumes(market: ManifoldMarketRecord) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in market.answers or ():
        if isinstance(record, Mapping) and isinstance(record.get("volume"), int | float):
            found[str(record.get("id"))] = float(record["volume"])
    return found
