"""The contract kit of search engines: what each must do, as tests that a plugin inherits.

Subclass it in a test module under a name that begins with ``Test``, fill in its attributes, and pytest runs it. It
needs pytest with pytest-asyncio in auto mode and looks at nothing but the public ports and what goes over ``Http``.
"""
# ruff: noqa: S101 - pytest is made of assert

import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote_plus, urlsplit

import pytest
from pydantic import ValidationError

from bot.domain.research import Hit
from bot.domain.step import Json
from bot.errors import ContractError, FoxcastError, LeakError
from bot.ports import SearchEngine
from bot.specs import API_VERSION, Can, SearchSpec, Settings, Workplace
from bot.testing.clock import FakeClock
from bot.testing.contracts import TRANSPORT_ERRORS
from bot.testing.http import Asked

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
QUERY = 'who wins "the race" & when?'
SNIPPET_CHARS = 5_000
TEXT_CHARS = 200_000
# Nobody is offered less.
PLENTY = 10
ODD = (b"", b"\xff\xfe", b"[]", b"{}", b'"text"', b"<html></html>", b"[" * 100_000)


class OneAnswer:
    """Implements the port Http: the same answer to every request; ``requests`` lists them."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.requests: list[Asked] = []

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self._answered(Asked(url, dict(headers or {})), max_bytes)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return self._answered(Asked(url, dict(headers or {}), body, deadline_s), max_bytes)

    def _answered(self, request: Asked, max_bytes: int) -> bytes:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        if len(self.answer) > max_bytes:
            message = f"{request.url} has more than {max_bytes} bytes"
            raise ContractError(message)
        return self.answer


class SearchContract:
    """What every search engine must do.

    ``reply`` is a documented answer with at least two hits (of different dates, where the engine can bound dates and
    its answers bear them); ``empty`` is one without hits. ``secret`` is the key in the settings, None for an engine
    that needs none. ``odd`` are answers of no documented form. An engine that can bound dates has ``bounds``: moments
    and what its request says for each, and overrides ``bound``. One that does not use ``workplace.http`` overrides
    ``opened``.
    """

    spec: ClassVar[SearchSpec[Any]]
    settings: ClassVar[Settings]
    reply: ClassVar[bytes]
    empty: ClassVar[bytes]
    secret: ClassVar[str | None] = None
    odd: ClassVar[Sequence[bytes]] = ODD
    bounds: ClassVar[Mapping[datetime, object]] = {}

    def bound(self, asked: Asked) -> object:
        """Return what the request says about dates, None where it says nothing."""
        pytest.fail(f"override bound() to read it from {asked.url}")

    def opened(self, workplace: Workplace) -> AbstractAsyncContextManager[SearchEngine]:
        """Return the engine to be entered."""
        return self.spec.open(self.settings, workplace)

    @pytest.fixture
    def workplace(self, tmp_path: Path) -> Workplace:
        return Workplace(clock=FakeClock(NOW), http=OneAnswer(self.reply), folder=tmp_path)

    def test_it_is_built_for_this_version(self) -> None:
        assert self.spec.api_version == API_VERSION

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="no_such_setting"):
            self.spec.settings.model_validate({"no_such_setting": 1})

    def test_settings_cannot_be_changed(self) -> None:
        assert isinstance(self.settings, self.spec.settings)
        for name in type(self.settings).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(self.settings, name, None)

    async def test_a_documented_reply_is_read(self, workplace: Workplace) -> None:
        hits = await self._search(workplace)
        assert len(hits) > 1
        assert len({hit.url for hit in hits}) == len(hits)
        for hit in hits:
            assert urlsplit(hit.url).scheme in {"http", "https"}, hit.url
            assert urlsplit(hit.url).hostname, hit.url
            assert hit.title, hit.url
            assert len(hit.snippet) <= SNIPPET_CHARS, hit.url
            assert len(hit.text) <= TEXT_CHARS, hit.url
            assert hit.published_at is None or hit.published_at.utcoffset() == timedelta(0), hit.url
            assert not [char for char in f"{hit.url}{hit.title}{hit.snippet}{hit.text}" if _is_control(char)], hit.url

    async def test_text_of_pages_comes_with_the_ability_alone(self, workplace: Workplace) -> None:
        brought = any(hit.text for hit in await self._search(workplace))
        assert brought == (Can.SEARCH_TEXT in self.spec.abilities)

    async def test_a_reply_without_hits_is_none(self, workplace: Workplace) -> None:
        assert list(await self._search(self._answering(workplace, self.empty))) == []

    async def test_the_query_is_sent_as_it_is(self, workplace: Workplace) -> None:
        await self._search(workplace)
        for asked in _requests(workplace):
            assert QUERY in unquote_plus(asked.url) or QUERY in _texts(asked.body)

    async def test_no_more_hits_come_than_were_asked_for(self, workplace: Workplace) -> None:
        hits = await self._search(workplace)
        assert list(await self._search(workplace, limit=1)) == list(hits[:1])

    async def test_hits_from_the_moment_on_are_dropped(self, workplace: Workplace) -> None:
        if Can.SEARCH_BEFORE_DATE not in self.spec.abilities:
            pytest.skip("this engine refuses a moment")
        dates = [hit.published_at for hit in await self._search(workplace) if hit.published_at is not None]
        for moment in dates:
            kept = await self._search(workplace, before=moment)
            found = [hit.published_at for hit in kept if hit.published_at is not None]
            assert found == [date for date in dates if date < moment]

    async def test_the_bound_of_dates_is_exact(self, workplace: Workplace) -> None:
        if Can.SEARCH_BEFORE_DATE not in self.spec.abilities:
            pytest.skip("this engine refuses a moment")
        assert self.bounds
        for moment, expected in self.bounds.items():
            for zone in (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11, minutes=-30))):
                await self._search(workplace, before=moment.astimezone(zone))
                assert self.bound(_requests(workplace)[-1]) == expected, (moment, zone)

    async def test_without_a_moment_no_bound_is_sent(self, workplace: Workplace) -> None:
        if Can.SEARCH_BEFORE_DATE not in self.spec.abilities:
            pytest.skip("this engine refuses a moment")
        await self._search(workplace)
        assert self.bound(_requests(workplace)[-1]) is None

    async def test_an_engine_that_cannot_bound_dates_refuses_a_moment(self, workplace: Workplace) -> None:
        if Can.SEARCH_BEFORE_DATE in self.spec.abilities:
            pytest.skip("this engine bounds dates")
        with pytest.raises(LeakError):
            await self._search(workplace, before=NOW)
        assert _requests(workplace) == []

    @pytest.mark.parametrize("error", TRANSPORT_ERRORS, ids=lambda error: type(error).__name__)
    async def test_errors_of_the_transport_keep_their_meaning(self, workplace: Workplace, error: FoxcastError) -> None:
        with pytest.raises(type(error)) as caught:
            await self._search(self._answering(workplace, error))
        assert caught.value is error

    async def test_an_odd_answer_is_a_contract_error(self, workplace: Workplace) -> None:
        assert self.odd
        for body in self.odd:
            with pytest.raises(ContractError):
                await self._search(self._answering(workplace, body))

    async def test_the_key_is_sent_in_a_header_and_shown_nowhere(self, workplace: Workplace) -> None:
        if self.secret is None:
            pytest.skip("this engine needs no key")
        await self._search(workplace)
        (asked,) = _requests(workplace)
        assert self.secret in " ".join(asked.headers.values())
        assert self.secret not in f"{unquote_plus(asked.url)} {_texts(asked.body)}"
        assert self.secret not in f"{self.settings!r} {self.settings} {self.settings.model_dump_json()}"
        async with self.opened(workplace) as engine:
            assert self.secret not in repr(engine)
        with pytest.raises(ContractError) as caught:
            await self._search(self._answering(workplace, b"{}"))
        assert self.secret not in f"{caught.value!r} {caught.value}"

    async def _search(
        self, workplace: Workplace, *, before: datetime | None = None, limit: int = PLENTY
    ) -> Sequence[Hit]:
        # Opened anew each time: an engine that must wait between two requests never has to.
        async with self.opened(workplace) as engine:
            return await engine.search(QUERY, before=before, limit=limit)

    def _answering(self, workplace: Workplace, answer: bytes | Exception) -> Workplace:
        return Workplace(clock=workplace.clock, http=OneAnswer(answer), folder=workplace.folder)


def _requests(workplace: Workplace) -> list[Asked]:
    assert isinstance(workplace.http, OneAnswer)
    return workplace.http.requests


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t"


def _texts(value: Json) -> str:
    """Return all texts inside a JSON value, in one."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    return "\n".join(map(_texts, value)) if isinstance(value, Sequence) else ""
