"""Alerts through apprise: Telegram, Discord, Slack, e-mail, ntfy and about a hundred other services.

Addresses are those of apprise (https://github.com/caronc/apprise/wiki). They contain tokens and passwords, so they are
a secret here. The library is an extra: ``pip install 'foxcast[apprise]'``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from bot.api import (
    AlertLevel,
    ConfigError,
    NotificationChannel,
    NotificationMessage,
    NotifierSpec,
    PluginContext,
    PluginSettings,
    ServiceUnavailableError,
    hookimpl,
    keep_secret,
)

INSTALL_MESSAGE = "the notifier apprise needs a library: pip install 'foxcast[apprise]'"


class AppriseSettings(PluginSettings):
    """Where alerts are sent."""

    urls: SecretStr
    """Addresses of services, one a line, such as `tgram://TOKEN/CHAT` or `mailtos://NAME:PASSWORD@example.org`; lines
    that begin with `#` are comments."""


@dataclass(slots=True)
class AppriseChannel:
    """Implements ``NotificationChannel``: each address gets a message once, also where another address fails."""

    services: Mapping[str, Any]
    _message_id: str = ""
    _delivered: set[str] = field(default_factory=set)

    async def notify(self, message: NotificationMessage) -> None:
        """Send the message to each address; raises ServiceUnavailableError that names those that failed."""
        if message.id != self._message_id:
            self._message_id, self._delivered = message.id, set()
        failures = []
        for name, service in self.services.items():
            if name in self._delivered:
                continue
            if (why := await asyncio.to_thread(_send, service, message)) is None:
                self._delivered.add(name)
            else:
                failures.append(f"{name}: {why}")
        if failures:
            raise ServiceUnavailableError("; ".join(failures))


def _send(service: Any, message: NotificationMessage) -> str | None:  # noqa: ANN401 - the library's class
    """Send the message; return why that failed, None if it did not."""
    import apprise  # noqa: PLC0415 - an extra that most installations lack

    kind = {AlertLevel.INFO: "info", AlertLevel.WARNING: "warning", AlertLevel.CRITICAL: "failure"}[message.level]
    capture: Any = apprise.LogCapture
    with capture(level=logging.WARNING, fmt="%(message)s") as captured:
        # Plain text, so that the library escapes it where a service reads HTML or Markdown.
        sent = service.notify(
            body=message.text, title=message.subject, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
        )
        said = " ".join(captured.getvalue().split())
    return None if sent else said or "not delivered"


def _open_services(text: str) -> dict[str, Any]:
    try:
        import apprise  # noqa: PLC0415 - as above
    except ImportError as error:
        raise ConfigError(INSTALL_MESSAGE) from error
    # Its messages may hold addresses; failures are returned by _send.
    logging.getLogger("apprise").propagate = False
    asset = apprise.AppriseAsset(app_id="Foxcast", app_desc="Foxcast", app_url="", image_url_mask="", image_url_logo="")
    services = {}
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        keep_secret(line)
        service = apprise.Apprise(asset=asset)
        if not service.add(line):
            message = f"notifiers.apprise.settings.urls: line {number} is not an address that apprise knows"
            raise ConfigError(message)
        for server in service:
            keep_secret(server.password or "")
        services[f"{line.partition(':')[0]} (line {number})"] = service
    if not services:
        message = "notifiers.apprise.settings.urls has no address"
        raise ConfigError(message)
    return services


@asynccontextmanager
async def open_apprise(settings: AppriseSettings, _: PluginContext) -> AsyncIterator[NotificationChannel]:
    """Open the channel; raises ConfigError without the library, and for an address that it does not know."""
    yield AppriseChannel(_open_services(settings.urls.get_secret_value()))


@hookimpl
def foxcast_notifiers() -> list[NotifierSpec[AppriseSettings]]:
    """Describe the notifier."""
    summary = "Alerts to Telegram, Discord, Slack, e-mail, ntfy and a hundred other services"
    return [NotifierSpec(name="apprise", summary=summary, settings=AppriseSettings, open=open_apprise)]
