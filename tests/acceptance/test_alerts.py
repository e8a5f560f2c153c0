"""Alerts from the real command to a mail server that is not ours."""

import asyncio
import email
import email.policy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP

from tests.acceptance.conftest import CONFIG, FoxcastInstallation, installed

NOTIFIER = '\n[notifiers.apprise.settings]\nurls_file = "apprise.urls"\n'


class MailBox:
    """Keeps the subjects and texts of the mails that the server takes."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, str]] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        mail: Any = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append((str(mail["Subject"]), mail.get_body(("plain", "html")).get_content()))
        return "250 taken"


@pytest.fixture
async def mailbox() -> AsyncIterator[tuple[MailBox, int]]:
    box = MailBox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(box, hostname="here"), "127.0.0.1", 0)
    async with server:
        yield box, server.sockets[0].getsockname()[1]


def notified(folder: Path, port: int) -> FoxcastInstallation:
    """Return an installation whose alerts are mails."""
    foxcast = installed(folder, CONFIG.replace('["forecastbench", ', '["forecastbench", "apprise", ') + NOTIFIER)
    urls = folder / "apprise.urls"
    urls.write_text(f"mailto://127.0.0.1:{port}?mode=insecure&from=fox@example.org&to=owner@example.org\n")
    urls.chmod(0o600)
    return foxcast


@pytest.mark.timeout(120)
async def test_a_halt_is_mailed_once_and_once_more_when_it_ends(tmp_path: Path, mailbox: tuple[MailBox, int]) -> None:
    box, port = mailbox
    foxcast = notified(tmp_path, port)

    async def run(*arguments: str) -> Any:
        done = await asyncio.to_thread(foxcast, *arguments)
        assert done.code == 0, done.err
        return done

    assert (await run("notify", "test")).out == "apprise: delivered\n"
    assert box.mails.pop()[0] == "Foxcast: test message"
    await run("halt", "--reason", "the harbour is closed")
    await run("run", "--once")
    mails = [text for _, text in box.mails]
    assert any("warning: everything is halted: the harbour is closed" in text for text in mails)
    count = len(box.mails)
    await run("run", "--once")
    assert len(box.mails) == count
    await run("resume")
    await run("run", "--once")
    [(subject, _)] = box.mails[count:]
    assert subject == "Foxcast: resolved: submissions were resumed: all venues"
    [listed] = (await run("notify", "list", "--json")).json
    assert (listed["name"], listed["waiting"], listed["failure"]) == ("apprise", 0, None)


def test_a_channel_that_is_down_fails_the_test_and_not_the_pass(tmp_path: Path) -> None:
    foxcast = notified(tmp_path, 9)
    refused = foxcast("notify", "test", "apprise")
    assert refused.code == 3
    assert refused.out.startswith("apprise: not delivered: mailto (line 1): ")
    foxcast("halt", "--reason", "the harbour is closed")
    assert foxcast("run", "--once").code == 0
    [listed] = foxcast("notify", "list", "--json").json
    assert listed["waiting"] >= 1
    assert listed["failure"].startswith("mailto (line 1): ")
    assert foxcast("notify", "test", "pager").is_refusal(8, "no notifier pager is configured")


def test_without_a_notifier_both_commands_say_how_to_add_one(new_installation: FoxcastInstallation) -> None:
    assert new_installation("notify", "list").out.startswith("no notifier is configured; for example plugins = ")
    assert new_installation("notify", "test").is_refusal(2, "no notifier is configured")


def test_a_notifier_without_its_plugin_is_a_warning(tmp_path: Path) -> None:
    foxcast = installed(tmp_path, CONFIG + '\n[notifiers.command.settings]\nrun = ["true"]\n')
    done = foxcast("run", "--once")
    assert done.code == 0
    assert "notifier skipped" in done.err
    assert foxcast("notify", "test").is_refusal(2, "no enabled plugin offers command: add it to plugins")
    [found] = [one for one in foxcast("doctor", "--json").json if one["check"] == "notifiers"]
    assert (found["verdict"], found["found"]) == ("warn", "no enabled plugin offers command, so it delivers nothing")
