"""Alerts as JSON, posted to an address and signed as the Standard Webhooks specification 1.0.0 says.

The headers ``webhook-id``, ``webhook-timestamp`` and ``webhook-signature`` prove the sender, and the id is the same if
a message is sent again: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. Any
library for such webhooks verifies them. Without a secret nothing is signed.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from bot.api import (
    Clock,
    ConfigError,
    FoxcastError,
    HttpClient,
    Json,
    NotificationChannel,
    NotificationMessage,
    NotifierSpec,
    PluginContext,
    PluginSettings,
    hookimpl,
)

SECRET_PREFIX = "whsec_"  # noqa: S105 - of the specification
# Of the specification: between 24 and 64 bytes.
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
MAX_ANSWER_BYTES = 65_536
DEADLINE_S = 15.0


class WebhookSettings(PluginSettings):
    """Where alerts are posted, and the secret that signs them."""

    url: SecretStr
    """The address; a secret, because most such addresses contain a token."""

    secret: SecretStr | None = None
    """The signing secret: 24 to 64 bytes in base64, with or without `whsec_` (`openssl rand -base64 32`). Unset: no
    signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChannel:
    """Implements ``NotificationChannel``; ``key`` signs, where it is not empty."""

    url: str
    key: bytes
    http: HttpClient
    clock: Clock

    async def notify(self, message: NotificationMessage) -> None:
        """Post the message; every status from 200 to 299 counts as delivered."""
        body: dict[str, Json] = {
            "id": message.id,
            "at": message.at.isoformat(),
            "source": "foxcast",
            "level": message.level.value,
            "subject": message.subject,
            "text": message.text,
        }
        headers = self._signed_headers(message.id, body)
        try:
            await self.http.post(self.url, body, max_bytes=MAX_ANSWER_BYTES, headers=headers, deadline_s=DEADLINE_S)
        except FoxcastError as error:
            if error.refusal is None or not 200 <= error.refusal.status < 300:
                raise

    def _signed_headers(self, message_id: str, body: dict[str, Json]) -> dict[str, str]:
        timestamp = str(int(self.clock.now().timestamp()))
        headers = {"webhook-id": message_id, "webhook-timestamp": timestamp}
        if self.key:
            # The client sends exactly this text.
            sent = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            signed = hmac.digest(self.key, f"{message_id}.{timestamp}.{sent}".encode(), hashlib.sha256)
            headers["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
        return headers


def _signing_key(secret: SecretStr | None) -> bytes:
    if secret is None:
        return b""
    try:
        key = base64.b64decode(secret.get_secret_value().strip().removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        message = "notifiers.webhook.settings.secret should be 24 to 64 bytes in base64: openssl rand -base64 32"
        raise ConfigError(message)
    return key


@asynccontextmanager
async def open_webhook(settings: WebhookSettings, context: PluginContext) -> AsyncIterator[NotificationChannel]:
    """Open the channel; raises ConfigError for an address or a secret that cannot be used."""
    url = settings.url.get_secret_value().strip()
    if not url.startswith(("https://", "http://")):
        message = "notifiers.webhook.settings.url should begin with https:// or http://"
        raise ConfigError(message)
    yield WebhookChannel(url=url, key=_signing_key(settings.secret), http=context.http, clock=context.clock)


@hookimpl
def foxcast_notifiers() -> list[NotifierSpec[WebhookSettings]]:
    """Describe the notifier."""
    summary = "Alerts as signed JSON, posted to an address"
    return [NotifierSpec(name="webhook", summary=summary, settings=WebhookSettings, open=open_webhook)]
