"""Webhooks over a real connection, verified by the library of the Standard Webhooks project."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from standardwebhooks import Webhook, WebhookVerificationError

from bot.api import AlertLevel, AuthenticationError, ConfigError, NotificationMessage, PluginContext
from bot.core.clock import SeededRandom, SystemClock
from bot.core.proxy_settings import ProxySettings
from bot.net.client import RetryingHttpClient
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from plugins.notify.webhook import WebhookSettings, open_webhook

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"  # noqa: S105 - of a test


def message(text: str = "- warning: the sea could not be read") -> NotificationMessage:
    return NotificationMessage(
        subject="Foxcast: the sea", text=text, level=AlertLevel.WARNING, id="a" * 24, at=SystemClock().now()
    )


async def post(status: int, *, text: str = "- the sea", secret: str | None = SECRET) -> list[ReceivedRequest]:
    requests: list[ReceivedRequest] = []

    def answer(request: ReceivedRequest) -> ScriptedResponse:
        requests.append(request)
        return ScriptedResponse(status=status)

    clock = SystemClock()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(LoopbackServer(answer))
        client = RetryingHttpClient(clock=clock, random=SeededRandom(1), proxies=ProxySettings())
        http = await stack.enter_async_context(client)
        settings = WebhookSettings(
            url=SecretStr(f"{server.address}/hook"), secret=None if secret is None else SecretStr(secret)
        )
        context = PluginContext(clock=clock, http=http, folder=Path())
        channel = await stack.enter_async_context(open_webhook(settings, context))
        await channel.notify(message(text))
    return requests


@pytest.mark.parametrize("text", ["- the sea", 'quotes " and \\ and\nlines', "Größe, 雨, 🦊"])
async def test_another_library_verifies_and_reads_it(text: str) -> None:
    [request] = await post(204, text=text)
    found: Any = Webhook(SECRET).verify(request.body, dict(request.headers))
    assert (found["text"], found["level"], found["id"]) == (text, "warning", "a" * 24)
    assert request.headers["webhook-id"] == "a" * 24
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"warning", b"info"), dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 32).verify(request.body, dict(request.headers))


async def test_without_a_secret_it_is_not_signed() -> None:
    [request] = await post(200, secret=None)
    assert "webhook-signature" not in request.headers
    assert json.loads(request.body)["subject"] == "Foxcast: the sea"


async def test_a_refusal_is_an_error() -> None:
    with pytest.raises(AuthenticationError):
        await post(401)


@pytest.mark.parametrize("secret", ["short-one", "whsec_AA", "c2hvcnQ=", "ä" * 40, "A" * 120])
async def test_a_secret_of_another_form_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ConfigError, match="24 to 64 bytes in base64") as refused:
        await post(200, secret=secret)
    assert secret not in str(refused.value)


async def test_an_address_that_is_none_is_refused() -> None:
    settings = WebhookSettings(url=SecretStr("hooks.example"))
    clock = SystemClock()
    async with RetryingHttpClient(clock=clock, random=SeededRandom(1), proxies=ProxySettings()) as http:
        with pytest.raises(ConfigError, match="should begin with https://"):
            async with open_webhook(settings, PluginContext(clock=clock, http=http, folder=Path())):
                pytest.fail("it was opened")
