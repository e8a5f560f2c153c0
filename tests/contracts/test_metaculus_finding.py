"""The contract kit on finding one question at Metaculus, over the fake site."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bot.api import Finder, VenueSpec
from bot.testing.feed_contract import FinderContract
from plugins.metaculus import foxcast_venues
from plugins.metaculus.venue import MetaculusVenue
from tests.contracts.wiring import NotingHttp
from tests.plugins.metaculus.conftest import Site
from tests.plugins.metaculus.conftest import site as site_fixture

SPEC: VenueSpec[Any] = foxcast_venues()[0]

site = site_fixture


class TestFinder(FinderContract):
    spec = SPEC

    @pytest.fixture
    def http(self, site: Site) -> NotingHttp:
        return NotingHttp(site.place.http)

    @pytest.fixture
    def finder(self, site: Site, http: NotingHttp) -> Finder:
        world = site.fake.world
        world.add_question("Rain?")
        world.add_group("How much?", ("France", "Spain"))
        return MetaculusVenue(site.settings, replace(site.place, http=http))

    @pytest.fixture
    def unfit(self, site: Site) -> str:
        over = site.fake.world.add_question("Over?")
        site.fake.world.close(over)
        return f"{over.post}:{over.id}"

    @pytest.fixture
    def hosts(self, site: Site) -> frozenset[str]:
        return frozenset({site.served.url.removeprefix("http://")})

    @pytest.fixture
    def reached(self, http: NotingHttp) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(http.reached)
