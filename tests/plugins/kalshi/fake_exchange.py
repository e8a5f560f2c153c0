"""The venue as its documents describe it, on a loopback server: it refuses what the real one refuses.

Source: docs/facts/kalshi.md.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bot.testing.loopback_server import JSON_TYPE, ReceivedRequest, ScriptedResponse

PREFIX = "/trade-api/v2"
EVENT_PARAMETERS = {
    "limit",
    "cursor",
    "status",
    "series_ticker",
    "tickers",
    "min_close_ts",
    "min_updated_ts",
    "with_nested_markets",
}
MARKET_PARAMETERS = {"limit", "cursor", "event_ticker", "series_ticker", "tickers", "status", "mve_filter"}
OPEN = {"active"}
# The words of the filter differ from those of the field: open is active.
EVENT_STATUSES = {"unopened", "open", "closed", "settled"}


@dataclass(slots=True)
class FakeKalshiExchange:
    """What the venue holds. ``override`` answers in place of the rules; a ``looping`` list never ends."""

    series: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    books: dict[str, dict[str, Any]] = field(default_factory=dict)
    archived: dict[str, dict[str, Any]] = field(default_factory=dict)
    looping: bool = False
    requests: list[ReceivedRequest] = field(default_factory=list)
    override: Callable[[ReceivedRequest], ScriptedResponse | None] = lambda _: None

    def add(self, *events: dict[str, Any]) -> None:
        """Add events, or replace those of the same ticker."""
        for event in events:
            self.events[event["event_ticker"]] = event

    def change_market(self, ticker: str, **changes: Any) -> None:
        self.market(ticker).update(changes)

    def archive(self, ticker: str) -> None:
        """Move a market to the archive, as the venue does after its cut-off."""
        found = self.market(ticker)
        self.archived[ticker] = found
        self.events[found["event_ticker"]]["markets"].remove(found)

    def market(self, ticker: str) -> dict[str, Any]:
        return next(one for one in self._markets() if one["ticker"] == ticker)

    def has_market(self, ticker: str) -> bool:
        return any(one["ticker"] == ticker for one in self._markets())

    def queries(self, path: str) -> list[dict[str, list[str]]]:
        """The parameters of all requests to a path."""
        split = [urlsplit(request.path) for request in self.requests]
        return [parse_qs(url.query) for url in split if url.path == f"{PREFIX}/{path}"]

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        self.requests.append(request)
        if (sent := self.override(request)) is not None:
            return sent
        url = urlsplit(request.path)
        if not url.path.startswith(f"{PREFIX}/"):
            return not_found()
        parts, asked = url.path.removeprefix(f"{PREFIX}/").split("/"), parse_qs(url.query)
        if request.method != "GET":
            return not_found()
        found = self._read(parts, {name: values[0] for name, values in asked.items()})
        if isinstance(found, ScriptedResponse):
            return found
        if not request.headers.get("accept-language", "").startswith("en"):
            found = json.loads(json.dumps(found).replace("Who will win?", "¿Quién ganará?"))
        return not_found() if found is None else reply(found)

    def _read(self, parts: list[str], asked: dict[str, str]) -> Any:
        match parts:
            case ["series"]:
                wanted = asked.get("category")
                return {"series": [one for one in self.series.values() if wanted in {None, one["category"]}]}
            case ["series", ticker] if ticker in self.series:
                return {"series": self.series[ticker]}
            case ["events", *rest]:
                found = [{"event": self.events[ticker]} for ticker in rest if ticker in self.events]
                return next(iter(found), None) if rest else self._page_of_events(asked)
            case ["markets", *rest]:
                return self._read_market(rest, asked)
            case ["historical", "markets", *rest]:
                return self._read_archive(rest, asked)
        return None

    def _read_archive(self, parts: list[str], asked: dict[str, str]) -> Any:
        if parts:
            return next(({"market": self.archived[ticker]} for ticker in parts if ticker in self.archived), None)
        found = [one for one in self.archived.values() if one["event_ticker"] == asked["event_ticker"]]
        return {"markets": found[: int(asked.get("limit", "100"))], "cursor": ""}

    def _read_market(self, parts: list[str], asked: dict[str, str]) -> Any:
        match parts:
            case []:
                return self._page_of_markets(asked)
            case [ticker]:
                return next(({"market": one} for one in self._markets() if one["ticker"] == ticker), None)
            case [ticker, "orderbook"] if ticker in self.books:
                return {"orderbook_fp": self.books[ticker]}
        return None

    def _page_of_events(self, asked: dict[str, str]) -> Any:
        if bad := bad_parameters(asked, EVENT_PARAMETERS, 200, EVENT_STATUSES):
            return bad
        found = [
            one
            for one in self.events.values()
            if asked.get("series_ticker", one["series_ticker"]) == one["series_ticker"]
            and ("status" not in asked or any(child["status"] in OPEN for child in one["markets"]))
        ]
        if asked.get("with_nested_markets") != "true":
            found = [{name: value for name, value in one.items() if name != "markets"} for one in found]
        return self._page("events", found, asked, int(asked.get("limit", "200")))

    def _page_of_markets(self, asked: dict[str, str]) -> Any:
        if bad := bad_parameters(asked, MARKET_PARAMETERS, 1000, {*EVENT_STATUSES, "paused"}):
            return bad
        wanted = asked.get("tickers", "").split(",") if "tickers" in asked else None
        found = [one for one in self._markets() if wanted is None or one["ticker"] in wanted]
        return self._page("markets", found[::-1], asked, int(asked.get("limit", "100")))

    def _page(self, name: str, found: list[Any], asked: dict[str, str], limit: int) -> Any:
        cursor = asked.get("cursor", "")
        # An invalid cursor gives the first page.
        start = int(cursor) if cursor.isdigit() and not self.looping else 0
        more = self.looping or start + limit < len(found)
        return {
            name: found[start : start + limit],
            "cursor": str(len(self.requests) + limit + start) if self.looping else str(start + limit) if more else "",
        }

    def _markets(self) -> list[dict[str, Any]]:
        return [child for event in self.events.values() for child in event["markets"]]


def reply(body: Any, status: int = 200) -> ScriptedResponse:
    headers = {**JSON_TYPE, "Date": formatdate(usegmt=True)}
    return ScriptedResponse(status=status, headers=headers, body=json.dumps(body).encode())


def refusal(status: int, code: str, **details: str) -> ScriptedResponse:
    """An error in the nested form."""
    return reply({"error": {"code": code, "message": code.replace("_", " "), **details}}, status)


def not_found() -> ScriptedResponse:
    return refusal(404, "not_found")


def bad_parameters(
    asked: dict[str, str], known: set[str], most: int, statuses: set[str] | None = None
) -> ScriptedResponse | None:
    """Refuse a bad limit, and a status that is none; unknown parameters too, which is stricter than the venue."""
    limit = asked.get("limit", "1")
    is_status = statuses is None or asked.get("status", "open") in statuses
    if not asked.keys() <= known or not limit.isdigit() or not 1 <= int(limit) <= most or not is_status:
        return reply({"msg": "Parameter validation failed"}, 400)
    return None
