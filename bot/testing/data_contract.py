"""Contract kits for data sources (time series and reference pages): tests that a plugin's test module inherits."""
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

from bot.core.errors import (
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.interfaces import DataSource, HttpClient, PageSource
from bot.core.plugin_specs import DataSpec, PluginContext
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.research import TimeSeries
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FixedResponseClient, RecordedRequest
from bot.testing.spec_contract import PluginSpecContract

# None of them is a documented response of anything.
ODD_RESPONSES = (b"", b"\xff\xfe", b"{}", b'"text"', b"<html></html>", b"[NaN]", b"[" * 100_000)
ZONES = (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11, minutes=-30)))
UNRELATED_QUESTION = Question(
    ref=QuestionRef("elsewhere", "1"),
    title="Will the harbour freeze over?",
    shape=BinaryShape(),
    targets=(Target(),),
    url="https://elsewhere.example/series/1",
    source="elsewhere",
    source_id="1",
)


class DataSourceContract(PluginSpecContract):
    """What every data source must do, whatever it has; see the two kits below.

    ``pages`` is the web it reads, by address, with the responses for the tests of the kit; ``now`` is the time of the
    requests. ``secret`` is the key in the settings, None for a source that needs none. ``rejection_error`` is the error
    that a rejected request means.
    """

    spec: ClassVar[DataSpec[Any]]
    pages: ClassVar[Mapping[str, bytes | Exception]]
    now: ClassVar[datetime]
    secret: ClassVar[str | None] = None
    odd_responses: ClassVar[Sequence[bytes]] = ODD_RESPONSES
    rejection_error: ClassVar[type[FoxcastError]] = RequestRejectedError

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(self.now), http=FakeHttpClient(self.pages), folder=tmp_path)

    def test_it_offers_series_or_pages(self) -> None:
        assert self.spec.open or self.spec.pages, (
            "the source offers nothing: set DataSpec.open, DataSpec.pages, or both"
        )

    async def test_it_asks_encrypted_and_the_same_in_every_time_zone(self, context: PluginContext) -> None:
        answers, asked = [], []
        for zone in ZONES:
            placed = replace(context, http=FakeHttpClient(self.pages))
            answers.append(await self.request_data(placed, zone))
            asked.append([request.url for request in recorded_requests(placed.http)])
        hint = "convert `before` to UTC before its date is used"
        assert answers == answers[:1] * len(ZONES), f"the same moment in another time zone gives other data: {hint}"
        assert asked == asked[:1] * len(ZONES), (
            f"the same moment in another time zone is asked otherwise: {asked}: {hint}"
        )
        assert asked[0], "nothing was asked of the service: use context.http"
        assert all(url.startswith("https://") for url in asked[0]), f"asked without https: {asked[0]}"

    @pytest.mark.parametrize(
        "error",
        [
            AuthenticationError("401"),
            ServiceUnavailableError("503", retry_after_s=7.0),
            MalformedDataError("more bytes than allowed"),
        ],
        ids=lambda error: type(error).__name__,
    )
    async def test_errors_of_the_transport_keep_their_meaning(
        self, context: PluginContext, error: FoxcastError
    ) -> None:
        with pytest.raises(type(error), match=str(error)) as caught:
            await self.request_data(replace(context, http=FixedResponseClient(error)))
        found, wanted = (getattr(one, "retry_after_s", None) for one in (caught.value, error))
        assert found == wanted, f"the error says to retry after {found} s, and context.http said {wanted}: let it pass"

    async def test_what_the_service_refuses_or_does_not_have_is_said_so(self, context: PluginContext) -> None:
        with pytest.raises(self.rejection_error):
            await self.request_data(replace(context, http=FixedResponseClient(RequestRejectedError("400"))))
        with pytest.raises(NotFoundError):
            await self.request_data(replace(context, http=FixedResponseClient(NotFoundError("404"))))

    async def test_an_odd_answer_is_a_contract_error(self, context: PluginContext) -> None:
        assert self.odd_responses, "give `odd_responses`: answers that are not of the documented form"
        for body in self.odd_responses:
            with pytest.raises(MalformedDataError):
                await self.request_data(replace(context, http=FixedResponseClient(body)))

    async def test_the_key_is_sent_and_shown_nowhere(
        self, context: PluginContext, caplog: pytest.LogCaptureFixture
    ) -> None:
        if self.secret is None:
            pytest.skip("this source needs no key")
        await self.request_data(context)
        for request in recorded_requests(context.http):
            sent = f"{request.url} {' '.join(request.headers.values())}"
            assert self.secret in sent, "a request has not the key, in address or headers"
        shown = f"{self.settings!r} {self.settings} {self.settings.model_dump_json()}"
        assert self.secret not in shown, "the settings print the key: make it a SecretStr"
        errors = (
            AuthenticationError("401"),
            ServiceUnavailableError("503"),
            RequestRejectedError("400"),
            NotFoundError("404"),
            b"{}",
            b"",
        )
        for answer in errors:
            with pytest.raises(FoxcastError) as caught:
                await self.request_data(replace(context, http=FixedResponseClient(answer)))
            shown = f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
            assert self.secret not in shown, f"the {type(caught.value).__name__} or its cause shows the key"
        assert self.secret not in caplog.text, "the log shows the key"

    async def request_data(self, context: PluginContext, zone: timezone = UTC) -> object:
        """Ask for the data of the kit, with the moment in that zone."""
        raise NotImplementedError


class TimeSeriesContract(DataSourceContract):
    """What every source of time series must do.

    ``name`` is a series of which ``pages`` have a value before ``before``, and one dated at or after it: ``beyond`` is
    a piece of the body with the later one. ``missing`` is the name of a series that ``pages`` do not have.
    """

    name: ClassVar[str]
    before: ClassVar[datetime]
    beyond: ClassVar[bytes]
    missing: ClassVar[str]

    def open_source(self, context: PluginContext) -> AbstractAsyncContextManager[DataSource]:
        assert self.spec.open is not None, "DataSpec.open is not set"
        return self.spec.open(self.settings, context)

    async def request_data(self, context: PluginContext, zone: timezone = UTC) -> TimeSeries:
        async with self.open_source(context) as source:
            return await source.series(self.name, before=self.before.astimezone(zone))

    async def test_dates_rise_and_values_are_finite(self, context: PluginContext) -> None:
        found = await self.request_data(context)
        assert len(found.dates) > 1, f"{self.name} has {len(found.dates)} values: the kit needs two or more"
        assert all(a < b for a, b in pairwise(found.dates)), "the dates do not rise: sort them, each once"
        odd = [value for value in found.values if not math.isfinite(value)]
        assert not odd, f"values that are no numbers: {odd}: leave out missing days"

    async def test_it_says_what_the_values_are(self, context: PluginContext) -> None:
        found = await self.request_data(context)
        names = (found.name, found.source)
        assert names == (self.name, self.spec.name), (
            f"name and source are {names}, expected {self.name}, {self.spec.name}"
        )
        assert found.unit.strip(), "TimeSeries.unit is empty: say what the values are of"

    async def test_nothing_from_the_day_of_the_moment_on_comes_even_if_the_service_sends_it(
        self, context: PluginContext
    ) -> None:
        bodies = [body for body in self.pages.values() if isinstance(body, bytes)]
        assert any(self.beyond in body for body in bodies), f"no page of the kit has {self.beyond!r}"
        found, day = max((await self.request_data(context)).dates), self.before.astimezone(UTC).date()
        assert found < day, f"there is a value of {found}, but asked was for what was known before {day}: drop it"

    async def test_an_unknown_series_is_not_found(self, context: PluginContext) -> None:
        async with self.open_source(context) as source:
            with pytest.raises(NotFoundError):
                await source.series(self.missing, before=self.before)

    async def test_a_question_about_something_else_has_no_series(self, context: PluginContext) -> None:
        async with self.open_source(context) as source:
            for changes in ({}, {"url": None, "source_id": ""}, {"url": "https://[broken"}):
                names = list(source.series_names(replace(UNRELATED_QUESTION, **changes)))
                assert names == [], f"a question of another source ({changes or 'as it is'}) has the series {names}"
        assert recorded_requests(context.http) == [], (
            "series_names asked the service: it must only look at the question"
        )


class ReferencePagesContract(DataSourceContract):
    """What every reference work must do.

    ``page`` is a page of which ``pages`` have a version from before ``before``, with at least two headings; ``missing``
    is one that they do not have.
    """

    page: ClassVar[str]
    before: ClassVar[datetime]
    missing: ClassVar[str]

    def open_source(self, context: PluginContext) -> AbstractAsyncContextManager[PageSource]:
        assert self.spec.pages is not None, "DataSpec.pages is not set"
        return self.spec.pages(self.settings, context)

    async def request_data(self, context: PluginContext, zone: timezone = UTC) -> Sequence[str]:
        async with self.open_source(context) as source:
            return tuple(await source.page_headings(self.page, before=self.before.astimezone(zone)))

    async def test_headings_tell_each_other_apart(self, context: PluginContext) -> None:
        headings = await self.request_data(context)
        assert len(headings) > 1, f"{self.page} has the headings {headings}: the kit needs two or more"
        assert len(set(headings)) == len(headings), f"two sections have the same heading: {headings}"
        blank = [heading for heading in headings if not heading or heading.strip() != heading]
        assert not blank, f"headings are empty or have blanks around them: {blank}"

    async def test_every_listed_section_can_be_read_as_it_stood_before_the_moment(self, context: PluginContext) -> None:
        headings = await self.request_data(context)
        async with self.open_source(context) as source:
            for heading in ("", *headings):
                passage = await source.section(self.page, heading, before=self.before)
                name = f"section {heading!r} of {self.page}"
                assert passage.heading == heading, f"{name} is shown under {passage.heading!r}"
                assert passage.text.strip(), f"{name} has no text"
                assert passage.page, f"{name} does not say of which page it is"
                assert passage.url.startswith("https://"), f"{name} has the address {passage.url!r}"
                assert passage.revised_at < self.before, (
                    f"{name} is of {passage.revised_at}, but asked was for what stood before {self.before}"
                )

    async def test_an_unknown_page_or_heading_is_not_found(self, context: PluginContext) -> None:
        async with self.open_source(context) as source:
            for page, heading in ((self.missing, ""), (self.page, "no such heading")):
                with pytest.raises(NotFoundError):
                    await source.section(page, heading, before=self.before)
            with pytest.raises(NotFoundError):
                await source.page_headings(self.missing, before=self.before)


def recorded_requests(http: HttpClient) -> list[RecordedRequest]:
    """Return the requests of one of the fakes."""
    assert isinstance(http, FakeHttpClient | FixedResponseClient), f"the kit cannot look into {type(http).__name__}"
    return http.requests
