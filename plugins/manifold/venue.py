"""The reading half: open markets that pass the filters, one by name, and outcomes. Needs no key."""

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
    ContractError,
    FoxcastError,
    NotFound,
    Question,
    QuestionRef,
    Rejected,
    Resolution,
    Told,
    Unauthorized,
    Unavailable,
    Venue,
    Void,
    Workplace,
    load_told,
    store_told,
)
from plugins.manifold.client import Client, Record
from plugins.manifold.parse import Unpacked, objection, unpack
from plugins.manifold.raw import RawMarket, name_of, parsed
from plugins.manifold.resolve import needs_weights, verdict_of, weights_of
from plugins.manifold.scan import Scan
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.state import parts_of

log = structlog.get_logger(__name__)

# A market whose short record says the same as before is read again only so often: its text may have changed.
# So many markets in a row that cannot be read are no accident.
DOWN = 3
REREAD = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A market as it was last read whole, and the short record that it was found by."""

    short: Mapping[str, object]
    whole: Record
    at: datetime


class ManifoldVenue:
    """Implements the port Finder."""

    def __init__(self, settings: ManifoldSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._clock = workplace.clock
        self._client = Client(settings, workplace.http, workplace.clock)
        self._scan = Scan(settings, self._client, workplace.clock)
        self._folder = workplace.folder
        self._known: dict[str, _Known] = {}
        self._noted: object = None

    async def questions(self) -> AsyncIterator[Question]:
        """Yield what can be forecast now.

        A market that cannot be read hides no other; several in a row are the venue. What was raised is raised in the
        end, where nothing could be read or where there may be more than could be read now.
        """
        skipped: Counter[str] = Counter()
        complaints: list[str] = []
        errors: list[FoxcastError] = []
        yielded: set[QuestionRef] = set()
        down = 0
        for name, short in (await self._chosen(skipped, complaints, errors)).items():
            try:
                unpacked = unpack(await self._whole(name, short), now=self._clock.now())
            except FoxcastError as error:
                complaints.append(f"{name}: {error}")
                errors.append(error)
                down = down + 1 if isinstance(error, Unavailable) else 0
                if down == DOWN or isinstance(error, Unauthorized):
                    break
                continue
            down = 0
            complaints += unpacked.complaints
            for question in self._wanted(unpacked, skipped):
                if question.ref not in yielded:
                    yielded.add(question.ref)
                    yield question
        self._note(skipped, complaints)
        grave = [error for error in errors if isinstance(error, Unauthorized | Unavailable)]
        if grave or (errors and not yielded):
            raise (grave or errors)[0]

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield the outcomes of whatever has been resolved for long enough.

        One that was told and is not there any more becomes void, and so does one that has just been changed.
        """
        by_market: dict[str, list[QuestionRef]] = defaultdict(list)
        for ref in pending:
            by_market[parts_of(ref.key)[0]].append(ref)
        if not by_market:
            return
        told = await asyncio.to_thread(load_told, self._folder)
        async for refs, market, weights in self._all_resolved(by_market):
            found = [outcome for ref in sorted(refs) if (outcome := self._outcome(ref, market, weights, told))]
            if told.is_new:
                await asyncio.to_thread(store_told, self._folder, told)
            for outcome in found:
                yield outcome

    async def find(self, name: str) -> Question:
        """Return a question by the id of its market (``/`` and that of an answer), by slug, or by address."""
        market_id, answer = self._named(name)
        unpacked = unpack(await self._read(market_id), now=self._clock.now())
        market = unpacked.market
        if why := objection(market, self._clock.now(), self._margin):
            message = f"market {market.id} cannot be forecast: it is {why}"
            raise Rejected(message)
        found = [one for one in unpacked.questions if answer in {"", one.facts.get("answer", "")}]
        if not found:
            why = "; ".join((unpacked.complaints or unpacked.skipped)[:3])
            message = (
                f"market {market.id} has no {f'open answer {answer}' if answer else 'question to forecast'} ({why})"
            )
            raise NotFound(message) if answer else Rejected(message)
        if len(found) > 1:
            choices = ", ".join(f"{one.ref.key} ({one.facts.get('label', '')})" for one in found[:20])
            message = f"market {market.id} has {len(found)} questions, name one of them: {choices}"
            raise Rejected(message)
        return found[0]

    @property
    def _margin(self) -> timedelta:
        return timedelta(seconds=self._settings.close_margin_s)

    async def _chosen(
        self, skipped: Counter[str], complaints: list[str], errors: list[FoxcastError]
    ) -> dict[str, Mapping[str, object]]:
        """Return the markets to read, by id or slug, with the short records they were found by."""
        chosen: dict[str, Mapping[str, object]] = {name: {} for name in self._settings.markets}
        if self._settings.scan:
            try:
                chosen |= await self._scan.found(skipped, complaints)
            except FoxcastError as error:
                errors.append(error)
        self._known = {name: known for name, known in self._known.items() if name in chosen}
        return chosen

    async def _whole(self, name: str, short: Mapping[str, object]) -> Record:
        """Return the FullMarket, which alone has text and answers; read again where anything about it changed."""
        known, now = self._known.get(name), self._clock.now()
        if known is not None and short and known.short == short and now - known.at < REREAD:
            return known.whole
        whole = await self._read(name)
        self._known[name] = _Known(short=short, whole=whole, at=now)
        return whole

    async def _read(self, name: str) -> Record:
        """Return a market by its id or its slug; only slugs have dashes, and not all of them have."""
        if "-" not in name:
            try:
                return await self._client.market(name)
            except NotFound:
                log.debug("no id, perhaps a slug", name=name)
        return await self._client.slug(name)

    def _wanted(self, unpacked: Unpacked, skipped: Counter[str]) -> list[Question]:
        skipped.update(unpacked.skipped)
        why = objection(unpacked.market, self._clock.now(), self._margin)
        if why:
            skipped[why] += 1
            return []
        questions = unpacked.questions
        if len(questions) > self._settings.most_answers:
            skipped["an answer beyond most_answers"] += len(questions) - self._settings.most_answers
            volume = {f"{unpacked.market.id}/{one}": by for one, by in _volumes(unpacked.market).items()}
            ranked = sorted(questions, key=lambda one: -volume.get(one.ref.key, 0.0))
            questions = ranked[: self._settings.most_answers]
        return questions

    def _note(self, skipped: Mapping[str, int], complaints: list[str]) -> None:
        counts = (dict(skipped), len(complaints))
        if any(counts) and counts != self._noted:
            tell = log.warning if complaints else log.info
            tell("markets left out", skipped=dict(skipped), bad=len(complaints), first=complaints[:3])
        self._noted = counts

    async def _all_resolved(
        self, by_market: Mapping[str, list[QuestionRef]]
    ) -> AsyncIterator[tuple[list[QuestionRef], RawMarket, Mapping[str, float]]]:
        """Yield markets as they are; one that cannot be read hides no other, several in a row are the venue.

        Raises Unavailable where none could be read.
        """
        down, read = 0, 0
        for market_id, refs in sorted(by_market.items()):
            try:
                market, weights = await self._resolved(market_id)
            except (NotFound, Rejected, ContractError, Unavailable) as error:
                log.warning("outcomes left out", market=market_id, error=str(error))
                down = down + 1 if isinstance(error, Unavailable) else 0
                if down < min(DOWN, len(by_market)):
                    continue
                if not read:
                    raise
                return
            down, read = 0, read + 1
            yield refs, market, weights

    async def _resolved(self, market_id: str) -> tuple[RawMarket, Mapping[str, float]]:
        market = parsed(RawMarket, await self._client.market(market_id), f"market {market_id}")
        if not needs_weights(market):
            return market, {}
        return market, weights_of(list(await self._client.answers(market_id)), market_id)

    def _outcome(
        self, ref: QuestionRef, market: RawMarket, weights: Mapping[str, float], told: Told
    ) -> Resolution | None:
        now = self._clock.now()
        try:
            verdict = verdict_of(market, parts_of(ref.key)[1], weights)
        except ContractError as error:
            log.warning("an outcome is left out", question=str(ref), error=str(error))
            return None
        if verdict is not None:
            at = verdict.at or told.since(f"{ref.key} {verdict.text}", now)
            if now - at > timedelta(seconds=self._settings.resolve_after_s) or told.texts.get(ref.key) == verdict.text:
                told.tell(ref.key, verdict.text)
                return Resolution(ref=ref, target=SINGLE_TARGET, outcome=verdict.outcome, resolved_at=at)
        undone_at = told.undo(ref.key, now)
        if undone_at is None:
            return None
        why = "the resolution was undone" if verdict is None else "the resolution has just been changed"
        return Resolution(ref=ref, target=SINGLE_TARGET, outcome=Void(why), resolved_at=undone_at)

    def _named(self, name: str) -> tuple[str, str]:
        """Return id or slug of a market, and id of an answer or ""."""
        if "://" not in name:
            return parts_of(name.strip())
        site = urlsplit(self._settings.place.site)
        try:
            parts = urlsplit(name.strip())
            host, steps = parts.hostname or "", [step for step in parts.path.split("/") if step]
        except ValueError:  # an open bracket
            host, steps = "", []
        if host.removeprefix("www.") != site.hostname or len(steps) != 2:
            message = f"{name[:200]!r} is not the address of a market: {self._settings.place.site}/CREATOR/SLUG"
            raise NotFound(message)
        return steps[1], ""


@asynccontextmanager
async def open_reader(settings: ManifoldSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    """Open the reader; nothing is asked before the first question is."""
    yield ManifoldVenue(settings, workplace)


def _volumes(market: RawMarket) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in market.answers or ():
        if isinstance(record, Mapping) and isinstance(record.get("volume"), int | float):
            found[name_of(record, "").strip()] = float(record["volume"])
    return found
