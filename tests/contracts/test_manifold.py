"""The contract kit of venues on the Manifold plugin, on recorded forms."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from bot.api import Json, NotFoundError, PluginContext, PluginSettings, VenueSpec
from bot.testing.clock import FakeClock
from bot.testing.venue_contracts import VenueContract
from plugins.manifold import foxcast_venues
from plugins.manifold.settings import ManifoldSettings
from tests.plugins.manifold.api_replies import NOW, answer, binary, choice, numeric

SPEC: VenueSpec[Any] = foxcast_venues()[0]
DONE: Mapping[str, Any] = {"isResolved": True, "resolutionTime": 1_767_225_600_000}
MARKETS: Mapping[str, Mapping[str, Any]] = {
    "m1": binary(),
    "m2": choice(answer("a", 0.6), answer("b", 0.4)),
    "m3": choice(answer("a", 0.6), answer("b", 0.4), linked=False, id="m3"),
    "m4": numeric(id="m4"),
}
# Their outcomes, all of which the kit asks about once they have been listed.
OVER: Mapping[str, Mapping[str, Any]] = {
    "m1": {**MARKETS["m1"], **DONE, "resolution": "YES", "resolutionProbability": 0.4},
    "m2": {**MARKETS["m2"], **DONE, "resolution": "b"},
    "m3": {
        **MARKETS["m3"],
        "answers": [answer("a", 0.6, resolution="NO", resolutionTime=DONE["resolutionTime"]), answer("b", 0.4)],
    },
    "m4": {**MARKETS["m4"], **DONE, "resolution": "MKT", "resolutionProbability": 0.25},
}


class FakePages:
    """The venue by the paths of its addresses; ``markets`` are what it shows of each."""

    def __init__(self, markets: Mapping[str, Mapping[str, Any]]) -> None:
        self.markets = markets

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        path = urlsplit(url).path.removeprefix("/v0/")
        if path == "search-markets":
            return json.dumps(list(self.markets.values())).encode()
        found = self.markets.get(path.removeprefix("market/"))
        if found is None:
            message = f"status 404: {path}"
            raise NotFoundError(message)
        return json.dumps(found).encode()

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        raise NotImplementedError


class ReaderContract(VenueContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = ManifoldSettings(min_bettors=0)
    # Of markets that are named, each must be there; a list of results may well be empty.
    remote_settings: ClassVar[PluginSettings] = ManifoldSettings(scan=False, markets=("m1",))
    markets: ClassVar[Mapping[str, Mapping[str, Any]]]

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(NOW), http=FakePages(self.markets), folder=tmp_path)


class TestReader(ReaderContract):
    markets: ClassVar[Mapping[str, Mapping[str, Any]]] = MARKETS

    async def test_all_kinds_are_listed(self, context: PluginContext) -> None:
        assert {question.ref.key for question in await self._questions(context)} == {"m1", "m2", "m3/a", "m3/b", "m4"}


async def test_outcomes_are_in_the_shape_of_their_questions(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    before = PluginContext(clock=clock, http=FakePages(MARKETS), folder=tmp_path)
    after = PluginContext(clock=clock, http=FakePages(OVER), folder=tmp_path)
    settings = ManifoldSettings(min_bettors=0)
    async with SPEC.reader(settings, before) as venue:
        asked = {question.ref: question async for question in venue.questions()}
    async with SPEC.reader(settings, after) as venue:
        found = {one.ref.key: one.outcome async for one in venue.resolutions(tuple(asked))}
    assert {key: outcome.kind for key, outcome in found.items()} == {
        "m1": "happened",
        "m2": "chosen",
        "m3/a": "happened",
        "m4": "landed",
    }


def test_what_the_venue_can_do_is_said() -> None:
    assert SPEC.abilities == ("submit", "comment", "paper", "trade", "push prices")
    assert SPEC.check is not None
    assert SPEC.hosts == ("manifold.markets",)
