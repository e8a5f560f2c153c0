"""The contract kit on the Polymarket reader, on records in the documented forms."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from bot.api import Settings, VenueSpec
from bot.testing.contracts import VenueContract
from plugins.polymarket import foxcast_venues
from plugins.polymarket.client import Parameters, address
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.records import book, condition, event, market, member, resolved, token

SPEC: VenueSpec[Any] = foxcast_venues()[0]
SETTINGS = PolymarketSettings()
GROUP = event(member(2, "Ann"), member(3, "Bob"))


def pages() -> Mapping[str, bytes]:
    """The open list, books, and what became of every second question."""
    asked: Parameters = {
        "closed": "false",
        "limit": 50,
        "order": "volume24hr",
        "ascending": "false",
        "end_date_min": "2026-01-01T02:00:00Z",
        "end_date_max": "2027-01-01T00:00:00Z",
        "volume_min": SETTINGS.volume_min,
        "liquidity_min": SETTINGS.liquidity_min,
        "version": ("v1", "v2"),
    }
    before = {"condition_id": ",".join(condition(number) for number in (1, 2, 3, 4))}
    after = {"condition_id": ",".join(condition(number) for number in (1, 4))}
    events = {"events": [event(market(1), number=1), GROUP, event(market(4), number=4)]}
    rows = {"data": [resolved(1), resolved(4, 500_000, 500_000)], "pagination": {"has_more": False}}
    found: dict[str, object] = {
        address(SETTINGS, SETTINGS.gamma_url, "events/keyset", asked): events,
        address(SETTINGS, SETTINGS.data_url, "v2/resolutions", before): {"data": [], "pagination": {}},
        address(SETTINGS, SETTINGS.data_url, "v2/resolutions", after): rows,
        address(SETTINGS, SETTINGS.clob_url, "books"): [book(token(number)) for number in (1, 4)],
    }
    return {url: json.dumps(answer).encode() for url, answer in found.items()}


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[Settings] = SETTINGS
    remote: ClassVar[Settings] = SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = pages()
