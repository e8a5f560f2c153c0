"""The kit is mutated before it is trusted: each way to break a search engine must fail the check named with it."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from bot.core.errors import LeakError, MalformedDataError, ServiceUnavailableError
from bot.core.interfaces import SearchEngine
from bot.core.plugin_specs import PluginContext, PluginSettings, SearchSpec
from bot.core.research import SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, SearchEngineContract
from bot.testing.spec_contract import TRANSPORT_ERRORS
from tests.unit.testing.correct_venue import Failure, checks_of, run_check

SECRET = "do-not-show-me"  # noqa: S105 - looked for in what is sent
NEW, OLD = "2026-03-04T12:00:00+00:00", "2026-02-01T00:00:00+00:00"
REPLY = json.dumps({"hits": [{"url": f"https://{day[:10]}.example", "day": day} for day in (NEW, OLD)]}).encode()
MOMENT = datetime(2026, 3, 5, 0, 30, tzinfo=UTC)


class CorrectSettings(PluginSettings):
    key: SecretStr = SecretStr(SECRET)


class CorrectEngine:
    """A sound engine: the query in the address, the key in a header, a bound in UTC."""

    def __init__(self, context: PluginContext) -> None:
        self.http = context.http

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        body = await self.http.get(self.url(query, before), max_bytes=10_000, headers=self.headers())
        hits = self.hits(body)
        return [hit for hit in hits if before is None or hit.published_at is None or hit.published_at < before][:limit]

    def url(self, query: str, before: datetime | None) -> str:
        bound = f"&until={quote_plus(before.astimezone(UTC).isoformat())}" if before else ""
        return f"https://torch.example/?q={quote_plus(query)}{bound}"

    def headers(self) -> dict[str, str]:
        return {"X-Key": SECRET}

    def hits(self, body: bytes) -> list[SearchResult]:
        try:
            return [self.hit(one["url"], one["day"]) for one in json.loads(body)["hits"]]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            message = "torch: no list of hits"
            raise MalformedDataError(message) from error

    def hit(self, url: str, day: str) -> SearchResult:
        return SearchResult(url=url, title="A torch", snippet="It burns.", published_at=datetime.fromisoformat(day))


class BlindEngine(CorrectEngine):
    """Sound too, without bounds."""

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        if before is not None:
            message = "torch cannot bound dates"
            raise LeakError(message)
        return await super().search(query, before=None, limit=limit)


class TwiceEngine(CorrectEngine):
    def hit(self, url: str, day: str) -> SearchResult:
        return replace(super().hit(url, day), url="https://same.example")


class RawEngine(CorrectEngine):
    def hit(self, url: str, day: str) -> SearchResult:
        return replace(super().hit(url, day), snippet="burns\x00")


class EndlessEngine(CorrectEngine):
    def hit(self, url: str, day: str) -> SearchResult:
        return replace(super().hit(url, day), snippet="x" * 5_001)


class NaiveEngine(CorrectEngine):
    def hit(self, url: str, day: str) -> SearchResult:
        return replace(super().hit(url, day), published_at=datetime.fromisoformat(day).replace(tzinfo=None))


class InventingEngine(CorrectEngine):
    def hits(self, body: bytes) -> list[SearchResult]:
        return [self.hit("https://made-up.example", OLD)]


class DeafEngine(CorrectEngine):
    def url(self, query: str, before: datetime | None) -> str:
        return super().url("torches", before)


class GenerousEngine(CorrectEngine):
    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        return await super().search(query, before=before, limit=99)


class LaxEngine(CorrectEngine):
    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        return self.hits(await self.http.get(self.url(query, before), max_bytes=10_000, headers=self.headers()))


class LocalEngine(CorrectEngine):
    """Sends the bound as the wall clock of the caller shows it."""

    def url(self, query: str, before: datetime | None) -> str:
        return super().url(query, before.replace(tzinfo=UTC) if before else None)


class AlwaysEngine(CorrectEngine):
    def url(self, query: str, before: datetime | None) -> str:
        return super().url(query, before or NOW)


class SwallowingEngine(CorrectEngine):
    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        try:
            return await super().search(query, before=before, limit=limit)
        except (ServiceUnavailableError, MalformedDataError):
            return []


class LeakyEngine(CorrectEngine):
    def url(self, query: str, before: datetime | None) -> str:
        return f"{super().url(query, before)}&key={SECRET}"


class KeylessEngine(CorrectEngine):
    def headers(self) -> dict[str, str]:
        return {}


class TellingSettings(CorrectSettings):
    def __repr_args__(self) -> Any:
        return [("key", self.key.get_secret_value())]


class LaxSettings(BaseModel):
    model_config = ConfigDict(extra="ignore")

    key: SecretStr = SecretStr(SECRET)


def spec_of(
    engine: Callable[[PluginContext], SearchEngine], *, bounds_dates: bool = True
) -> SearchSpec[CorrectSettings]:
    @asynccontextmanager
    async def opened(settings: CorrectSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
        yield engine(context)

    return SearchSpec(name="torch", summary="Torches", settings=CorrectSettings, bounds_dates=bounds_dates, open=opened)


SOUND = spec_of(CorrectEngine)


def kit_of(spec: SearchSpec[Any], settings: Any = None) -> SearchEngineContract:
    body = {
        "spec": spec,
        "settings": settings or CorrectSettings(),
        "reply": REPLY,
        "empty": b'{"hits": []}',
        "secret": SECRET,
        "expected_date_bounds": {MOMENT: quote_plus(MOMENT.isoformat())},
        "date_bound_of": lambda _, asked: _bound(asked),
    }
    kit: SearchEngineContract = type("Kit", (SearchEngineContract,), body)()
    return kit


def _bound(asked: RecordedRequest) -> str | None:
    return asked.url.partition("&until=")[2] or None


def broken(engine: Callable[[PluginContext], SearchEngine]) -> Callable[[], SearchEngineContract]:
    return lambda: kit_of(spec_of(engine))


@pytest.fixture
def context(tmp_path: Path) -> PluginContext:
    return PluginContext(clock=FakeClock(NOW), http=FixedResponseClient(REPLY), folder=tmp_path)


@pytest.mark.parametrize("name", checks_of(SearchEngineContract))
@pytest.mark.parametrize("spec", [SOUND, spec_of(BlindEngine, bounds_dates=False)], ids=["bounded", "unbounded"])
async def test_a_sound_engine_passes(name: str, spec: SearchSpec[Any], context: PluginContext) -> None:
    try:
        await run_check(kit_of(spec), name, context=context, error=TRANSPORT_ERRORS[1])
    except pytest.skip.Exception as skipped:
        assert "moment" in str(skipped) or "bounds dates" in str(skipped)  # noqa: PT017 - which check is for which


MUTANTS: list[tuple[str, Callable[[], SearchEngineContract]]] = [
    ("it_is_built_for_this_version", lambda: kit_of(replace(SOUND, api_version=99))),
    ("unknown_settings_are_refused", lambda: kit_of(replace(SOUND, settings=LaxSettings))),  # type: ignore[arg-type]  # the fault
    ("settings_cannot_be_changed", lambda: kit_of(replace(SOUND, settings=LaxSettings), LaxSettings())),  # type: ignore[arg-type]  # as above
    ("a_documented_reply_is_read", broken(TwiceEngine)),
    ("a_documented_reply_is_read", broken(RawEngine)),
    ("a_documented_reply_is_read", broken(EndlessEngine)),
    ("a_documented_reply_is_read", broken(NaiveEngine)),
    ("a_reply_without_hits_is_none", broken(InventingEngine)),
    ("the_query_is_sent_as_it_is", broken(DeafEngine)),
    ("no_more_hits_come_than_were_asked_for", broken(GenerousEngine)),
    ("hits_from_the_moment_on_are_dropped", broken(LaxEngine)),
    ("the_bound_of_dates_is_exact", broken(LocalEngine)),
    ("the_bound_of_dates_is_exact", broken(BlindEngine)),
    ("without_a_moment_no_bound_is_sent", broken(AlwaysEngine)),
    ("an_engine_that_cannot_bound_dates_refuses_a_moment", lambda: kit_of(spec_of(CorrectEngine))),
    ("errors_of_the_transport_keep_their_meaning", broken(SwallowingEngine)),
    ("an_odd_answer_is_a_contract_error", broken(SwallowingEngine)),
    ("an_odd_answer_is_a_contract_error", broken(InventingEngine)),
    ("the_key_is_sent_in_a_header_and_shown_nowhere", broken(LeakyEngine)),
    ("the_key_is_sent_in_a_header_and_shown_nowhere", broken(KeylessEngine)),
    ("the_key_is_sent_in_a_header_and_shown_nowhere", lambda: kit_of(SOUND, TellingSettings())),
]


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=range(len(MUTANTS)))
async def test_a_broken_engine_is_found(
    name: str, mutant: Callable[[], SearchEngineContract], context: PluginContext
) -> None:
    with pytest.raises((*Failure, LeakError)):
        await run_check(mutant(), name, context=context, error=ServiceUnavailableError("503"))


def test_every_check_of_an_engine_has_a_mutant() -> None:
    assert {name for name, _ in MUTANTS} == set(checks_of(SearchEngineContract))
