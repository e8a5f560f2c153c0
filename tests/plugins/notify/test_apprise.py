"""Apprise against a mail server that is not ours, and its JSON and ntfy services over loopback."""

import asyncio
import email
import email.policy
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP
from pydantic import SecretStr

from bot.api import AlertLevel, ConfigError, NotificationMessage, PluginContext, ServiceUnavailableError
from bot.core.alerts import plain_message_text, plain_subject
from bot.testing.clock import START, FakeClock
from bot.testing.http import FixedResponseClient
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from plugins.notify.apprise import AppriseSettings, open_apprise

# The library imports a module that leaves Python with 3.13; it brings its own from then on.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
CONTEXT = PluginContext(clock=FakeClock(), http=FixedResponseClient(b""), folder=Path())
HOSTILE = "<b>@everyone</b> [win](https://evil.example/x) <script>alert(1)</script>\r\nBcc: victim@example.org"


def message(subject: str = "Foxcast: halted", text: str = "- the sea", id_: str = "c" * 24) -> NotificationMessage:
    return NotificationMessage(
        subject=plain_subject(subject), text=plain_message_text(text), level=AlertLevel.CRITICAL, id=id_, at=START
    )


@dataclass
class MailBox:
    """Keeps the mails that the server takes."""

    mails: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        parsed = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(parsed, EmailMessage)
        self.mails.append((envelope.mail_from, envelope.rcpt_tos, parsed))
        return "250 taken"


@pytest.fixture
async def mailbox() -> AsyncIterator[tuple[MailBox, int]]:
    box = MailBox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(box, hostname="here"), "127.0.0.1", 0)
    async with server:
        yield box, server.sockets[0].getsockname()[1]


async def send(urls: str, *messages: NotificationMessage) -> None:
    async with open_apprise(AppriseSettings(urls=SecretStr(urls)), CONTEXT) as channel:
        for one in messages:
            await channel.notify(one)


async def test_a_mail_server_gets_the_alert(mailbox: tuple[MailBox, int]) -> None:
    box, port = mailbox
    url = f"mailto://127.0.0.1:{port}?mode=insecure&from=fox@example.org&to=owner@example.org"
    await send(url, message(HOSTILE, HOSTILE))
    [(sender, receivers, mail)] = box.mails
    assert (sender, receivers) == ("fox@example.org", ["owner@example.org"])
    assert mail["Bcc"] is None
    assert str(mail["Subject"]).startswith("\u2039b\u203a\uff20everyone\u2039/b\u203a [win] (https[:]//evil.example/x)")
    body = mail.get_body(("plain", "html"))
    assert body is not None
    content = body.get_content()
    assert "<script>" not in content
    assert "https://evil.example" not in content


async def test_json_and_ntfy_services_get_the_alert() -> None:
    requests: list[ReceivedRequest] = []

    def answer(request: ReceivedRequest) -> ScriptedResponse:
        requests.append(request)
        return ScriptedResponse(body=b"{}")

    async with LoopbackServer(answer) as server:
        place = server.address.removeprefix("http://")
        await send(
            f"# two services\njson://{place}/alerts\n\nntfy://{place}/foxcast\n", message(text="- the sea\n- lake")
        )
    sent, ntfy = (json.loads(request.body) for request in requests)
    assert (sent["title"], sent["message"], sent["type"]) == ("Foxcast: halted", "- the sea\n- lake", "failure")
    assert (ntfy["topic"], ntfy["title"], ntfy["message"]) == ("foxcast", "Foxcast: halted", "- the sea\n- lake")


async def test_only_the_service_that_failed_gets_the_message_again() -> None:
    paths: list[str] = []
    status = {"/good": 200, "/bad": 500}

    def answer(request: ReceivedRequest) -> ScriptedResponse:
        paths.append(request.path.rstrip("/"))
        return ScriptedResponse(status=status[paths[-1]], body=b"{}")

    async with LoopbackServer(answer) as server:
        place = server.address.removeprefix("http://")
        urls = AppriseSettings(urls=SecretStr(f"json://{place}/good\njson://{place}/bad"))
        async with open_apprise(urls, CONTEXT) as channel:
            with pytest.raises(ServiceUnavailableError, match=r"^json \(line 2\): .*500"):
                await channel.notify(message())
            status["/bad"] = 200
            await channel.notify(message())
            assert paths == ["/good", "/bad", "/bad"]
            await channel.notify(message(id_="d" * 24))
            assert paths[3:] == ["/good", "/bad"]


@pytest.mark.parametrize(
    ("urls", "why"),
    [
        ("", "has no address"),
        ("# only this", "has no address"),
        ("json://127.0.0.1\nnosuch://my-secret-token", "line 2 is not an address that apprise knows"),
    ],
)
async def test_an_unknown_address_is_refused_without_being_shown(urls: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        await send(urls)
    assert "my-secret-token" not in str(refused.value)
