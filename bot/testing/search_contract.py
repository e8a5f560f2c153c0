"""Contract kit for search engines: tests that a plugin's test module inherits."""

# ruff: noqa: S101 - pytest is made of assert
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote_plus, urlsplit

import pytest

from bot.core.errors import FoxcastError, LeakError, MalformedDataError
from bot.core.interfaces import SearchEngine
from bot.core.plugin_specs import PluginContext, SearchSpec
from bot.core.research import SearchResult
from bot.core.values import Json
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.spec_contract import TRANSPORT_ERRORS, PluginSpecContract

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


QUERY = 'who wins "the race" & when?'


SNIPPET_CHARS = 5_000


TEXT_CHARS = 200_000


# No question can have fewer.
RESULT_LIMIT = 10


ODD_RESPONSES = (b"", b"\xff\xfe", b"[]", b"{}", b'"text"', b"<html></html>", b"[" * 100_000)


class SearchEngineContract(PluginSpecContract):
    """What every search engine must do.

    ``reply`` is a documented answer with at least two hits (of different dates, where the engine can bound dates and
    its answers have them); ``empty`` is one without hits. ``secret`` is the key in the settings, None for an engine
    that needs none. ``odd_responses`` are answers of no documented form. An engine that can bound dates has
    ``expected_date_bounds``: moments and what its request says for each, and overrides ``date_bound_of``. One that does
    not use ``context.http`` overrides ``open_engine``.
    """

    spec: ClassVar[SearchSpec[Any]]
    reply: ClassVar[bytes]
    empty: ClassVar[bytes]
    secret: ClassVar[str | None] = None
    odd_responses: ClassVar[Sequence[bytes]] = ODD_RESPONSES
    expected_date_bounds: ClassVar[Mapping[datetime, object]] = {}

    def date_bound_of(self, asked: RecordedRequest) -> object:
        """Return the date bound in the request, None where there is none."""
        pytest.fail(f"override date_bound_of() to read it from {asked.url}")

    def open_engine(self, context: PluginContext) -> AbstractAsyncContextManager[SearchEngine]:
        """Return the engine to be entered."""
        return self.spec.open(self.settings, context)

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(NOW), http=FixedResponseClient(self.reply), folder=tmp_path)

    async def test_a_documented_reply_is_read(self, context: PluginContext) -> None:
        hits = await self._search(context)
        assert len(hits) > 1, f"`reply` gives {len(hits)} hits: the kit needs two or more"
        assert len({hit.url for hit in hits}) == len(hits), f"an address comes twice: {[hit.url for hit in hits]}"
        for hit in hits:
            address = urlsplit(hit.url)
            is_web = address.scheme in {"http", "https"} and address.hostname
            assert is_web, f"the hit {hit.url!r} is no address of the web: leave it out"
            assert hit.title, f"{hit.url} has no title"
            assert len(hit.snippet) <= SNIPPET_CHARS, f"{hit.url}: the snippet has more than {SNIPPET_CHARS} characters"
            assert len(hit.text) <= TEXT_CHARS, f"{hit.url}: the text has more than {TEXT_CHARS} characters"
            assert hit.published_at is None or hit.published_at.utcoffset() == timedelta(0), (
                f"{hit.url}: published_at is {hit.published_at}: give it in UTC"
            )
            odd = [char for char in f"{hit.url}{hit.title}{hit.snippet}{hit.text}" if _is_control(char)]
            assert not odd, f"{hit.url}: its texts have the control characters {odd}: remove them"

    async def test_a_reply_without_hits_is_none(self, context: PluginContext) -> None:
        hits = list(await self._search(self._answering(context, self.empty)))
        assert hits == [], f"`empty` is a reply without hits, but {len(hits)} are read from it"

    async def test_the_query_is_sent_as_it_is(self, context: PluginContext) -> None:
        await self._search(context)
        for asked in _recorded_requests(context):
            assert QUERY in unquote_plus(asked.url) or QUERY in _all_texts(asked.body), (
                f"the query {QUERY!r} is not sent as it is: {asked.url}; encode it, and add nothing"
            )

    async def test_no_more_hits_come_than_were_asked_for(self, context: PluginContext) -> None:
        hits = await self._search(context)
        limited = list(await self._search(context, limit=1))
        assert limited == list(hits[:1]), f"limit=1 gives {len(limited)} hits, expected the first: cut what comes"

    async def test_hits_from_the_moment_on_are_dropped(self, context: PluginContext) -> None:
        if not self.spec.bounds_dates:
            pytest.skip("this engine refuses a moment")
        dates = [hit.published_at for hit in await self._search(context) if hit.published_at is not None]
        for moment in dates:
            kept = await self._search(context, before=moment)
            found = [hit.published_at for hit in kept if hit.published_at is not None]
            wanted = [date for date in dates if date < moment]
            assert found == wanted, (
                f"before {moment} there are hits of {[str(date) for date in found]}, expected "
                f"{[str(date) for date in wanted]}: drop what the engine sends in spite of the bound, and nothing else"
            )

    async def test_the_bound_of_dates_is_exact(self, context: PluginContext) -> None:
        if not self.spec.bounds_dates:
            pytest.skip("this engine refuses a moment")
        assert self.expected_date_bounds, "give `expected_date_bounds`: what is sent for a moment"
        for moment, expected in self.expected_date_bounds.items():
            for zone in (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11, minutes=-30))):
                await self._search(context, before=moment.astimezone(zone))
                found = self.date_bound_of(_recorded_requests(context)[-1])
                assert found == expected, (
                    f"for {moment} in the zone {zone} the bound {found!r} is sent, expected {expected!r}: convert to "
                    "UTC first; a bound that is too late shows the future"
                )

    async def test_without_a_moment_no_bound_is_sent(self, context: PluginContext) -> None:
        if not self.spec.bounds_dates:
            pytest.skip("this engine refuses a moment")
        await self._search(context)
        found = self.date_bound_of(_recorded_requests(context)[-1])
        assert found is None, f"without a moment the bound {found!r} is sent"

    async def test_an_engine_that_cannot_bound_dates_refuses_a_moment(self, context: PluginContext) -> None:
        if self.spec.bounds_dates:
            pytest.skip("this engine bounds dates")
        with pytest.raises(LeakError):
            await self._search(context, before=NOW)
        assert _recorded_requests(context) == [], "the engine cannot bound dates, but asked for hits before a moment"

    @pytest.mark.parametrize("error", TRANSPORT_ERRORS, ids=lambda error: type(error).__name__)
    async def test_errors_of_the_transport_keep_their_meaning(
        self, context: PluginContext, error: FoxcastError
    ) -> None:
        with pytest.raises(type(error)) as caught:
            await self._search(self._answering(context, error))
        assert caught.value is error, f"context.http raised {error!r}, and the engine {caught.value!r}: let it pass"

    async def test_an_odd_answer_is_a_contract_error(self, context: PluginContext) -> None:
        assert self.odd_responses, "give `odd_responses`: answers that are not of the documented form"
        for body in self.odd_responses:
            with pytest.raises(MalformedDataError):
                await self._search(self._answering(context, body))

    async def test_the_key_is_sent_in_a_header_and_shown_nowhere(self, context: PluginContext) -> None:
        if self.secret is None:
            pytest.skip("this engine needs no key")
        await self._search(context)
        (asked,) = _recorded_requests(context)
        assert self.secret in " ".join(asked.headers.values()), "the key is in no header of the request"
        sent = f"{unquote_plus(asked.url)} {_all_texts(asked.body)}"
        assert self.secret not in sent, "the key is in the address or body, which are logged: send it in a header"
        shown = f"{self.settings!r} {self.settings} {self.settings.model_dump_json()}"
        assert self.secret not in shown, "the settings print the key: make it a SecretStr"
        async with self.open_engine(context) as engine:
            assert self.secret not in repr(engine), "repr() of the engine shows the key"
        with pytest.raises(MalformedDataError) as caught:
            await self._search(self._answering(context, b"{}"))
        assert self.secret not in f"{caught.value!r} {caught.value}", "an error shows the key"

    async def _search(
        self, context: PluginContext, *, before: datetime | None = None, limit: int = RESULT_LIMIT
    ) -> Sequence[SearchResult]:
        # Opened anew each time, so that an engine with a pause between requests never has to wait.
        async with self.open_engine(context) as engine:
            return await engine.search(QUERY, before=before, limit=limit)

    def _answering(self, context: PluginContext, answer: bytes | Exception) -> PluginContext:
        return PluginContext(clock=context.clock, http=FixedResponseClient(answer), folder=context.folder)


def _recorded_requests(context: PluginContext) -> list[RecordedRequest]:
    assert isinstance(context.http, FixedResponseClient), "the fixture context needs FixedResponseClient"
    return context.http.requests


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t"


def _all_texts(value: Json) -> str:
    """Return all texts inside a JSON value, joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    return "\n".join(map(_all_texts, value)) if isinstance(value, Sequence) else ""
