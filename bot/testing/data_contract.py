"""Contract kits of data sources: what each must do, as tests that a plugin inherits.

Subclass one in a test module under a name that begins with ``Test``, fill in its attributes, and pytest runs it. They
need pytest with pytest-asyncio in auto mode and look at nothing but the public ports and what goes over ``Http``.
"""
# ruff: noqa: S101 - pytest is made of assert

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from bot.domain.prediction import BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.research import Series
from bot.errors import ContractError, FoxcastError, NotFound, Rejected, Unauthorized, Unavailable
from bot.ports import DataSource, Http, PageSource
from bot.specs import API_VERSION, Can, DataSpec, Settings, Workplace
from bot.testing.clock import FakeClock
from bot.testing.http import Asked, DictHttp
from bot.testing.search_contract import OneAnswer

# None of them is a documented answer of anything.
ODD = (b"", b"\xff\xfe", b"{}", b'"text"', b"<html></html>", b"[NaN]", b"[" * 100_000)
ZONES = (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11, minutes=-30)))
ELSEWHERE = Question(
    ref=QuestionRef("elsewhere", "1"),
    title="Will the harbour freeze over?",
    shape=BinaryShape(),
    targets=(Target(),),
    url="https://elsewhere.example/series/1",
    source="elsewhere",
    facts={"id": "1"},
)


class DataContract:
    """What every data source must do, whatever it has; see the two kits below.

    ``pages`` is the web it reads, by address, as it answers what the tests of the kit ask; ``now`` is when it asks.
    ``secret`` is the key in the settings, None for a source that needs none. ``refused`` is what a request that is
    Rejected means.
    """

    spec: ClassVar[DataSpec[Any]]
    settings: ClassVar[Settings]
    pages: ClassVar[Mapping[str, bytes | Exception]]
    now: ClassVar[datetime]
    secret: ClassVar[str | None] = None
    odd: ClassVar[Sequence[bytes]] = ODD
    refused: ClassVar[type[FoxcastError]] = Rejected

    @pytest.fixture
    def workplace(self, tmp_path: Path) -> Workplace:
        return Workplace(clock=FakeClock(self.now), http=DictHttp(self.pages), folder=tmp_path)

    def test_it_is_built_for_this_version(self) -> None:
        assert self.spec.api_version == API_VERSION

    def test_abilities_equal_what_is_offered(self) -> None:
        offered = {Can.SERIES: self.spec.open, Can.PAGES: self.spec.pages}
        expected = {ability for ability, factory in offered.items() if factory is not None}
        assert self.spec.abilities & offered.keys() == expected
        assert expected

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="no_such_setting"):
            self.spec.settings.model_validate({"no_such_setting": 1})

    def test_settings_cannot_be_changed(self) -> None:
        assert isinstance(self.settings, self.spec.settings)
        for name in type(self.settings).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(self.settings, name, None)

    async def test_it_asks_encrypted_and_the_same_in_every_time_zone(self, workplace: Workplace) -> None:
        answers, asked = [], []
        for zone in ZONES:
            placed = replace(workplace, http=DictHttp(self.pages))
            answers.append(await self.answer(placed, zone))
            asked.append([request.url for request in requests_of(placed.http)])
        assert answers == answers[:1] * len(ZONES)
        assert asked == asked[:1] * len(ZONES)
        assert asked[0]
        assert all(url.startswith("https://") for url in asked[0])

    @pytest.mark.parametrize(
        "error",
        [Unauthorized("401"), Unavailable("503", retry_after_s=7.0), ContractError("more bytes than allowed")],
        ids=lambda error: type(error).__name__,
    )
    async def test_errors_of_the_transport_keep_their_meaning(self, workplace: Workplace, error: FoxcastError) -> None:
        with pytest.raises(type(error), match=str(error)) as caught:
            await self.answer(replace(workplace, http=OneAnswer(error)))
        assert getattr(caught.value, "retry_after_s", None) == getattr(error, "retry_after_s", None)

    async def test_what_the_service_refuses_or_does_not_have_is_said_so(self, workplace: Workplace) -> None:
        with pytest.raises(self.refused):
            await self.answer(replace(workplace, http=OneAnswer(Rejected("400"))))
        with pytest.raises(NotFound):
            await self.answer(replace(workplace, http=OneAnswer(NotFound("404"))))

    async def test_an_odd_answer_is_a_contract_error(self, workplace: Workplace) -> None:
        assert self.odd
        for body in self.odd:
            with pytest.raises(ContractError):
                await self.answer(replace(workplace, http=OneAnswer(body)))

    async def test_the_key_is_sent_and_shown_nowhere(
        self, workplace: Workplace, caplog: pytest.LogCaptureFixture
    ) -> None:
        if self.secret is None:
            pytest.skip("this source needs no key")
        await self.answer(workplace)
        for request in requests_of(workplace.http):
            assert self.secret in f"{request.url} {' '.join(request.headers.values())}"
        assert self.secret not in f"{self.settings!r} {self.settings} {self.settings.model_dump_json()}"
        errors = (Unauthorized("401"), Unavailable("503"), Rejected("400"), NotFound("404"), b"{}", b"")
        for answer in errors:
            with pytest.raises(FoxcastError) as caught:
                await self.answer(replace(workplace, http=OneAnswer(answer)))
            assert self.secret not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
        assert self.secret not in caplog.text

    async def answer(self, workplace: Workplace, zone: timezone = UTC) -> object:
        """Ask for what the kit asks for, the moment given in that zone."""
        raise NotImplementedError


class SeriesContract(DataContract):
    """What every source of time series must do.

    ``name`` is a series of which ``pages`` know a value before ``before``, and one dated at or after it: ``beyond`` is
    a piece of the body that says so. ``missing`` is the name of a series that ``pages`` do not know.
    """

    name: ClassVar[str]
    before: ClassVar[datetime]
    beyond: ClassVar[bytes]
    missing: ClassVar[str]

    def opened(self, workplace: Workplace) -> AbstractAsyncContextManager[DataSource]:
        assert self.spec.open is not None
        return self.spec.open(self.settings, workplace)

    async def answer(self, workplace: Workplace, zone: timezone = UTC) -> Series:
        async with self.opened(workplace) as source:
            return await source.series(self.name, before=self.before.astimezone(zone))

    async def test_dates_rise_and_values_are_finite(self, workplace: Workplace) -> None:
        found = await self.answer(workplace)
        assert len(found.dates) > 1
        assert all(a < b for a, b in pairwise(found.dates))
        assert all(math.isfinite(value) for value in found.values)

    async def test_it_says_what_the_values_are(self, workplace: Workplace) -> None:
        found = await self.answer(workplace)
        assert (found.name, found.source) == (self.name, self.spec.name)
        assert found.unit.strip()

    async def test_nothing_from_the_day_of_the_moment_on_comes_even_if_the_service_sends_it(
        self, workplace: Workplace
    ) -> None:
        assert any(self.beyond in body for body in self.pages.values() if isinstance(body, bytes))
        found = await self.answer(workplace)
        assert max(found.dates) < self.before.astimezone(UTC).date()

    async def test_an_unknown_series_is_not_found(self, workplace: Workplace) -> None:
        async with self.opened(workplace) as source:
            with pytest.raises(NotFound):
                await source.series(self.missing, before=self.before)

    async def test_a_question_about_something_else_has_no_series(self, workplace: Workplace) -> None:
        async with self.opened(workplace) as source:
            assert list(source.names(ELSEWHERE)) == []
            assert list(source.names(replace(ELSEWHERE, url=None, facts={}))) == []
            assert list(source.names(replace(ELSEWHERE, url="https://[broken"))) == []
        assert requests_of(workplace.http) == []


class PagesContract(DataContract):
    """What every reference work must do.

    ``page`` is a page of which ``pages`` know a state from before ``before``, with at least two headings; ``missing``
    is one that they do not know.
    """

    page: ClassVar[str]
    before: ClassVar[datetime]
    missing: ClassVar[str]

    def opened(self, workplace: Workplace) -> AbstractAsyncContextManager[PageSource]:
        assert self.spec.pages is not None
        return self.spec.pages(self.settings, workplace)

    async def answer(self, workplace: Workplace, zone: timezone = UTC) -> Sequence[str]:
        async with self.opened(workplace) as source:
            return tuple(await source.contents(self.page, before=self.before.astimezone(zone)))

    async def test_headings_tell_each_other_apart(self, workplace: Workplace) -> None:
        headings = await self.answer(workplace)
        assert len(headings) > 1
        assert len(set(headings)) == len(headings)
        assert all(heading.strip() == heading and heading for heading in headings)

    async def test_every_listed_section_can_be_read_as_it_stood_before_the_moment(self, workplace: Workplace) -> None:
        headings = await self.answer(workplace)
        async with self.opened(workplace) as source:
            for heading in ("", *headings):
                passage = await source.section(self.page, heading, before=self.before)
                assert passage.heading == heading
                assert passage.text.strip()
                assert passage.page
                assert passage.url.startswith("https://")
                assert passage.revised_at < self.before

    async def test_an_unknown_page_or_heading_is_not_found(self, workplace: Workplace) -> None:
        async with self.opened(workplace) as source:
            for page, heading in ((self.missing, ""), (self.page, "no such heading")):
                with pytest.raises(NotFound):
                    await source.section(page, heading, before=self.before)
            with pytest.raises(NotFound):
                await source.contents(self.missing, before=self.before)


def requests_of(http: Http) -> list[Asked]:
    """Return what was asked of one of the fakes."""
    assert isinstance(http, DictHttp | OneAnswer)
    return http.requests
