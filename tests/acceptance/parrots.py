"""Others that repeat what they were told in confidence: a venue, a server of a model, and the plugin of an engine."""

import base64
import json
import urllib.parse
from typing import Any

from starlette.responses import JSONResponse, RedirectResponse

from bot.testing.loopback import Sent
from bot.testing.model_server import Asked, Play, Reply, moves
from bot.testing.venues.edge import Answer, capture
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.record import Heard


def echoes(secret: str) -> str:
    """Return a text that holds a secret in several ways."""
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    return (
        f"key {secret} of GET /v0?apiKey={urllib.parse.quote(secret, safe='')} (Basic {basic}, {secret.encode().hex()})"
    )


class Parrot(FakeManifold):
    """Refuses the first bet with all headers of the request, and sends who asks for the account on, with the key."""

    redirects, refusals = 0, 1

    async def _run(self, talk: Any) -> Answer:
        heard: Heard = talk.request
        key = heard.headers.get("authorization", "").removeprefix("Key ")
        if heard.path == "/v0/me" and key and self.redirects:
            self.redirects -= 1
            return await capture(RedirectResponse(f"/v0/nothing?apiKey={key}"), talk.scope, b"")
        if heard.path == "/v0/bet" and self.refusals:
            self.refusals -= 1
            body = {"message": f"not allowed: {echoes(key)}", "headers": dict(heard.headers)}
            return await capture(JSONResponse(body, status_code=400), talk.scope, b"")
        return await super()._run(talk)


def parrot(*secrets: str) -> Play:
    """Fail once with the headers of the request, then play a trial whose words hold the secrets."""
    told = " ".join(map(echoes, secrets))
    plan = moves(
        ("web_search", {"query": "rain"}), ("web_search", {"query": "more rain"}), ("submit", {"probability": 0.7})
    )

    def play(asked: Asked) -> Reply:
        if asked.number == 1:
            body = json.dumps({"error": {"message": f"overloaded: {dict(asked.headers)} {told}"}}).encode()
            return Reply(raw=body, sent=Sent(status=503))
        return plan(asked)

    return play


ENGINE = """
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pydantic import SecretStr
from bot.api import Can, Hit, SearchSpec, Settings, hookimpl

class Own(Settings):
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
        return [Hit(url="https://almanac.example/rain", title="Rain", snippet=f"as {said} says", published_at=at)]

@asynccontextmanager
async def open_shelf(settings, workplace):
    yield Shelf(settings.key.get_secret_value())

@hookimpl
def foxcast_search_engines():
    can = frozenset({Can.SEARCH_BEFORE_DATE})
    return [SearchSpec(name="shelf", summary="One page", abilities=can, settings=Own, open=open_shelf)]
"""
