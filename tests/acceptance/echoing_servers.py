"""Fake servers that repeat secrets they were sent: a venue, a model server, and a search engine plugin."""

import base64
import json
import urllib.parse
from typing import Any

from starlette.responses import JSONResponse, RedirectResponse

from bot.simulator.edge_cache import CapturedResponse, capture_response
from bot.simulator.request_log import LoggedRequest
from bot.simulator.venues.manifold import FakeManifold
from bot.testing.loopback_server import ScriptedResponse
from bot.testing.model_server import CompletionRequest, ReplyFunction, ScriptedReply, play_moves


def echoes(secret: str) -> str:
    """Return a text that holds a secret in several ways."""
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    return (
        f"key {secret} of GET /v0?apiKey={urllib.parse.quote(secret, safe='')} (Basic {basic}, {secret.encode().hex()})"
    )


class SecretEchoingManifold(FakeManifold):
    """Refuses the first bet with all headers of the request, and sends who asks for the account on, with the key."""

    redirects, refusals = 0, 1

    async def _run(self, talk: Any) -> CapturedResponse:
        heard: LoggedRequest = talk.request
        key = heard.headers.get("authorization", "").removeprefix("Key ")
        if heard.path == "/v0/me" and key and self.redirects:
            self.redirects -= 1
            return await capture_response(RedirectResponse(f"/v0/nothing?apiKey={key}"), talk.scope, b"")
        if heard.path == "/v0/bet" and self.refusals:
            self.refusals -= 1
            body = {"message": f"not allowed: {echoes(key)}", "headers": dict(heard.headers)}
            return await capture_response(JSONResponse(body, status_code=400), talk.scope, b"")
        return await super()._run(talk)


def secret_echoing_replies(*secrets: str) -> ReplyFunction:
    """Fail once with the headers of the request, then play a trial whose words hold the secrets."""
    reported = " ".join(map(echoes, secrets))
    plan = play_moves(
        ("web_search", {"query": "rain"}), ("web_search", {"query": "more rain"}), ("submit", {"probability": 0.7})
    )

    def play(asked: CompletionRequest) -> ScriptedReply:
        if asked.number == 1:
            body = json.dumps({"error": {"message": f"overloaded: {dict(asked.headers)} {reported}"}}).encode()
            return ScriptedReply(raw=body, response=ScriptedResponse(status=503))
        return plan(asked)

    return play


ENGINE = """
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pydantic import SecretStr
from bot.api import SearchResult, SearchSpec, PluginSettings, hookimpl

class Own(PluginSettings):
    key: SecretStr

class Shelf:
    def __init__(self, key):
        self.key = key
        self.asked = 0

    async def search(self, query, *, before, limit):
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError(f"GET https://shelf.example/?q=rain&api_key={self.key}: 401")
        at = datetime(2026, 1, 2, tzinfo=UTC)
        said = f"{self.key} {self.key.encode().hex()}"
        snippet = f"as {said} says"
        return [SearchResult(url="https://almanac.example/rain", title="Rain", snippet=snippet, published_at=at)]

@asynccontextmanager
async def open_shelf(settings, workplace):
    yield Shelf(settings.key.get_secret_value())

@hookimpl
def foxcast_search_engines():
    return [SearchSpec(name="shelf", summary="One page", bounds_dates=True, settings=Own, open=open_shelf)]
"""
