"""The contract kit on finding one question at Metaculus, over the fake site."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bot.api import QuestionReader, VenueSpec
from bot.testing.venue_contracts import QuestionReaderContract
from plugins.metaculus import foxcast_venues
from plugins.metaculus.reader import MetaculusReader
from tests.contracts.recording_clients import HostRecordingClient
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.conftest import site as site_fixture

SPEC: VenueSpec[Any] = foxcast_venues()[0]

site = site_fixture


class TestFinder(QuestionReaderContract):
    spec = SPEC

    @pytest.fixture
    def http(self, site: MetaculusFixture) -> HostRecordingClient:
        return HostRecordingClient(site.place.http)

    @pytest.fixture
    def finder(self, site: MetaculusFixture, http: HostRecordingClient) -> QuestionReader:
        world = site.fake.world
        world.add_question("Rain?")
        world.add_group("How much?", ("France", "Spain"))
        return MetaculusReader(site.settings, replace(site.place, http=http))

    @pytest.fixture
    def unfit(self, site: MetaculusFixture) -> str:
        over = site.fake.world.add_question("Over?")
        site.fake.world.close(over)
        return f"{over.post}:{over.id}"

    @pytest.fixture
    def hosts(self, site: MetaculusFixture) -> frozenset[str]:
        return frozenset({site.served.url.removeprefix("http://")})

    @pytest.fixture
    def reached(self, http: HostRecordingClient) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(http.reached)
