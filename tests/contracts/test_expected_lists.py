"""The kit of expected values on the built-in venues that list questions: values taken by hand from their records."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    Json,
    NumericOutcome,
    Outcome,
    PluginContext,
    PluginSettings,
    VenueSpec,
    VoidOutcome,
)
from bot.testing.clock import FakeClock
from bot.testing.question_list_contract import ExpectedQuestion, QuestionListContract
from plugins.manifold import foxcast_venues as manifold_venues
from plugins.manifold.settings import ManifoldSettings
from tests.contracts import test_manifold, test_metaculus, test_polymarket
from tests.plugins.manifold.api_replies import NOW
from tests.plugins.metaculus.records import choice, group, numeric, post, question
from tests.plugins.polymarket.records import book, condition, event, market, resolved, token

MANIFOLD_END = NOW + timedelta(days=30)
METACULUS_END = datetime(2026, 1, 8, tzinfo=UTC)
RESOLVED = test_metaculus.RESOLVED
POLYMARKET_END = datetime(2026, 12, 31, 12, tzinfo=UTC)


class TestManifoldList(QuestionListContract):
    spec: ClassVar[VenueSpec[Any]] = manifold_venues()[0]
    settings: ClassVar[PluginSettings] = ManifoldSettings(min_bettors=0)
    expected: ClassVar[Mapping[str, ExpectedQuestion]] = {
        "m1": (0.5, MANIFOLD_END, "binary"),
        "m2": ({"Option a": 0.6, "Option b": 0.4}, MANIFOLD_END, "choice"),
        "m3/a": (0.6, MANIFOLD_END, "binary"),
        "m3/b": (0.4, MANIFOLD_END, "binary"),
        "m4": (None, MANIFOLD_END, "curve"),
    }
    outcomes: ClassVar[Mapping[str, Outcome]] = {
        "m1": BinaryOutcome(1.0),
        "m2": ChoiceOutcome("Option b"),
        "m3/a": BinaryOutcome(0.0),
        # A quarter of the way from 0 to 100.
        "m4": NumericOutcome(25.0),
    }
    events: ClassVar[Mapping[str, str]] = {"m1": "m1", "m2": "m2", "m3/a": "m3", "m3/b": "m3"}
    details: ClassVar[Mapping[str, Mapping[str, object]]] = {"m4": {"range": (0.0, 100.0)}}

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        http = test_manifold.FakePages(test_manifold.MARKETS)
        return PluginContext(clock=FakeClock(NOW), http=http, folder=tmp_path)

    @pytest.fixture
    def outcome_context(self, context: PluginContext) -> PluginContext:
        return replace(context, http=test_manifold.FakePages(test_manifold.OVER))


class MetaculusPages:
    """The posts of the other kit on two pages, and their outcomes where they are asked for by number."""

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        query = parse_qs(urlsplit(url).query)
        if "ids" in query:
            return _metaculus_page(
                post(40001, question=question(50001, resolution="yes", **RESOLVED)),
                post(40002, question=numeric(50002)),
                post(40003, question=choice(50003, resolution="Green", **RESOLVED)),
                group(question(50004), question(50005, resolution="annulled", **RESOLVED), number=40004),
            )
        if "offset" not in query:
            # A page is full with a hundred posts; those that are no questions are left out.
            others = [{"id": number, "title": "An article"} for number in range(60_001, 60_099)]
            return _metaculus_page(post(40001), post(40002, question=numeric(50002)), *others, more=True)
        return _metaculus_page(
            post(40003, question=choice(50003)),
            group(question(50004, label="France"), question(50005, label="Spain"), number=40004),
        )

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


def _metaculus_page(*posts: object, more: bool = False) -> bytes:
    following = "https://www.metaculus.com/api/posts/?offset=100" if more else None
    return json.dumps({"next": following, "previous": None, "results": posts}).encode()


class TestMetaculusList(QuestionListContract):
    spec = test_metaculus.SPEC
    settings: ClassVar[PluginSettings] = test_metaculus.SETTINGS
    cursor_field = "next"
    # These records show no forecast of the community.
    expected: ClassVar[Mapping[str, ExpectedQuestion]] = {
        "40001:50001": (None, METACULUS_END, "binary"),
        "40002:50002": (None, METACULUS_END, "curve"),
        "40003:50003": (None, METACULUS_END, "choice"),
        "40004:50004": (None, METACULUS_END, "binary"),
        "40004:50005": (None, METACULUS_END, "binary"),
    }
    outcomes: ClassVar[Mapping[str, Outcome]] = {
        "40001:50001": BinaryOutcome(1.0),
        "40003:50003": ChoiceOutcome("Green"),
        "40004:50005": VoidOutcome("annulled"),
    }
    events: ClassVar[Mapping[str, str]] = {"40004:50004": "40004", "40004:50005": "40004"}
    details: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "40002:50002": {"range": (0.0, 100.0), "open_bounds": (False, True), "unit": "mm"}
    }

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(), http=MetaculusPages(), folder=tmp_path)


class PolymarketPages:
    """Three events on two pages, their books and, with ``is_over``, the outcomes of two of them."""

    def __init__(self, *, is_over: bool = False) -> None:
        self._is_over = is_over

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        query, path = parse_qs(urlsplit(url).query), urlsplit(url).path
        if path.endswith("/resolutions"):
            rows = [resolved(1), resolved(4, 0, 1_000_000)] if self._is_over else []
            return json.dumps({"data": rows, "pagination": {"has_more": False}}).encode()
        if path.endswith("/markets/keyset"):
            return json.dumps({"markets": []}).encode()
        if path.endswith("/keyset"):
            second = {"events": [test_polymarket.GROUP, event(market(4), number=4)]}
            first = {"events": [event(market(1), number=1)], "next_cursor": "page-2"}
            return json.dumps(second if "after_cursor" in query else first).encode()
        return json.dumps(test_polymarket.GROUP).encode()

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return json.dumps([book(token(number)) for number in (1, 4)]).encode()


class TestPolymarketList(QuestionListContract):
    spec = test_polymarket.SPEC
    settings: ClassVar[PluginSettings] = test_polymarket.SETTINGS
    cursor_field = "next_cursor"
    # The middle of the best bid and ask of their books, 0.36 and 0.38; the options of the event have no book.
    expected: ClassVar[Mapping[str, ExpectedQuestion]] = {
        condition(1): (0.37, POLYMARKET_END, "binary"),
        condition(4): (0.37, POLYMARKET_END, "binary"),
        "event:77": (None, POLYMARKET_END, "choice"),
    }
    outcomes: ClassVar[Mapping[str, Outcome]] = {condition(1): BinaryOutcome(1.0), condition(4): BinaryOutcome(0.0)}
    events: ClassVar[Mapping[str, str]] = {condition(1): "1", condition(4): "4", "event:77": "77"}

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(), http=PolymarketPages(), folder=tmp_path)

    @pytest.fixture
    def outcome_context(self, context: PluginContext) -> PluginContext:
        return replace(context, http=PolymarketPages(is_over=True))
