"""Alerts in a real ledger: once when something breaks, once when it heals, kept while a channel fails."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.alerts.alert_job import MAX_MESSAGE_AGE, AlertContext, report_alerts
from bot.config.alert_schema import AlertsSection, NotifierTable
from bot.config.schema import Config
from bot.core.alerts import AlertLevel, NotificationMessage
from bot.core.errors import RequestRejectedError, ServiceUnavailableError
from bot.core.redaction import register_secrets, temporary_secrets
from bot.store import permissions
from bot.store.ledger import Ledger, open_ledger, state_folder
from bot.store.permissions import SubmissionHalt
from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger
from tests.unit.store.conftest import NOON as STORE_NOON
from tests.unit.store.conftest import LedgerFixture

NOON = datetime.fromisoformat("2026-03-03T12:00:00+00:00")
MINUTE = timedelta(minutes=1)


@dataclass
class FakeChannel:
    """Implements NotificationChannel; raises ``error`` where there is one."""

    error: Exception | None = None
    taken: list[NotificationMessage] = field(default_factory=list)

    async def notify(self, message: NotificationMessage) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(message)


@dataclass
class AlertFixture:
    """The job over a ledger, with two channels: one gets everything, one only what is critical."""

    ledger: Ledger
    config: Config
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOON))
    phone: FakeChannel = field(default_factory=FakeChannel)
    pager: FakeChannel = field(default_factory=FakeChannel)

    async def run(self, *, after: timedelta = timedelta()) -> str:
        self.clock.advance_without_waking(after.total_seconds())
        context = AlertContext(
            config=self.config,
            ledger=self.ledger,
            clock=self.clock,
            channels={"phone": self.phone, "pager": self.pager},
            clock_skew=lambda: None,
        )
        return await report_alerts(context)

    async def halt(self, venue: str, why: str = "lost too much", by: str = "") -> None:
        halt = SubmissionHalt(venue=venue, at=self.clock.now(), why=why, by=by)
        await self.ledger.permissions.write(lambda database: permissions.add_halt(database, halt))

    async def resume(self, venue: str) -> None:
        now = self.clock.now()
        await self.ledger.permissions.write(
            lambda database: permissions.resume_submissions(database, venue, by="fox", at=now)
        )

    async def fail_discovery(self, why: str = "status 503", *, ok: bool = False) -> None:
        now = self.clock.now()
        await self.ledger.events.job_run("discover sea", started_at=now, ended_at=now, ok=ok, detail=why)


def make_config(tmp_path: Path, **alerts: object) -> Config:
    return Config.model_validate(
        {
            "state": tmp_path,
            "venues": {"sea": {"forecasters": ["fox"]}},
            "notifiers": {"phone": NotifierTable(), "pager": NotifierTable(level=AlertLevel.CRITICAL)},
            "alerts": AlertsSection.model_validate({"letter_day": "never", **alerts}),
        }
    )


@pytest.fixture
async def alerts(tmp_path: Path) -> AsyncIterator[AlertFixture]:
    config = make_config(tmp_path)
    async with open_blank_ledger(state_folder(config) / "ledger.sqlite", now=NOON) as ledger:
        yield AlertFixture(ledger, config)


async def test_each_halt_of_a_venue_is_reported_also_while_another_lasts(alerts: AlertFixture) -> None:
    await alerts.halt("sea", "lost too much today")
    await alerts.run()
    alerts.clock.advance_without_waking(10.0)
    await alerts.halt("sea", "the credentials were refused")
    await alerts.run(after=MINUTE)
    [_, second] = alerts.phone.taken
    assert "the credentials were refused" in second.text
    assert await alerts.run(after=MINUTE) == "0 alerts, 0 healed, 0 messages sent, 0 waiting"


async def test_a_venue_that_is_halted_anew_before_the_next_look_is_reported_again(alerts: AlertFixture) -> None:
    await alerts.halt("sea")
    await alerts.run()
    alerts.clock.advance_without_waking(10.0)
    await alerts.resume("sea")
    alerts.clock.advance_without_waking(10.0)
    await alerts.halt("sea", "lost too much again")
    await alerts.run(after=MINUTE)
    [_, again] = alerts.phone.taken
    assert "lost too much again" in again.text
    assert "resolved: a halt has ended: sea, halted at 2026-03-03 12:00:00 UTC" in again.text


async def test_a_halt_is_reported_once_and_once_more_when_it_ends(alerts: AlertFixture) -> None:
    assert await alerts.run() == "0 alerts, 0 healed, 0 messages sent, 0 waiting"
    await alerts.halt("sea")
    assert await alerts.run() == "1 alerts, 0 healed, 2 messages sent, 0 waiting"
    for _ in range(3):
        await alerts.run(after=MINUTE)
    [sent] = alerts.phone.taken
    assert sent.level is AlertLevel.CRITICAL
    assert sent.subject == "Foxcast: critical: sea was stopped at 2026-03-03 12:00 UTC: lost too much"
    assert sent.text.endswith("; resume with: foxcast resume sea")
    await alerts.resume("sea")
    await alerts.run(after=MINUTE)
    await alerts.run(after=MINUTE)
    [_, healed] = alerts.phone.taken
    assert healed.text == "- resolved: a halt has ended: sea, halted at 2026-03-03 12:00:00 UTC"
    assert [one.text for one in alerts.pager.taken] == [one.text for one in alerts.phone.taken]
    await alerts.halt("sea")
    await alerts.run(after=MINUTE)
    assert len(alerts.phone.taken) == 3
    assert len({one.id for one in alerts.phone.taken}) == 3


async def test_a_halt_from_after_the_clock_was_set_back_is_reported_once(alerts: AlertFixture) -> None:
    halt = SubmissionHalt(venue="sea", at=NOON + 60 * MINUTE, why="lost too much")
    await alerts.ledger.permissions.write(lambda database: permissions.add_halt(database, halt))
    assert await alerts.run() == "1 alerts, 0 healed, 2 messages sent, 0 waiting"
    assert await alerts.run(after=MINUTE) == "0 alerts, 0 healed, 0 messages sent, 0 waiting"


async def test_a_venue_is_down_once_it_failed_for_a_quarter_of_an_hour(alerts: AlertFixture) -> None:
    await alerts.fail_discovery(ok=True)
    for _ in range(14):
        await alerts.fail_discovery()
        await alerts.run(after=MINUTE)
    assert alerts.phone.taken == []
    await alerts.fail_discovery("status 503: <b>down</b>")
    await alerts.run(after=MINUTE)
    [down] = alerts.phone.taken
    assert down.text == "- warning: sea could not be read since 2026-03-03 12:00 UTC: status 503: ‹b›down‹/b›"  # noqa: RUF001 - harmless quotes
    await alerts.fail_discovery(ok=True)
    await alerts.run(after=MINUTE)
    assert alerts.phone.taken[1].text == "- resolved: sea can be read again"
    # The pager gets critical alerts only.
    assert alerts.pager.taken == []


async def test_a_venue_that_is_down_again_is_reported_again(alerts: AlertFixture) -> None:
    for _ in range(2):
        await alerts.fail_discovery(ok=True)
        for minutes in (1, 20):
            await alerts.fail_discovery()
            await alerts.run(after=minutes * MINUTE)
        await alerts.fail_discovery(ok=True)
        await alerts.run(after=MINUTE)
    assert ["could not be read" in one.text for one in alerts.phone.taken] == [True, False, True, False]


async def test_a_short_failure_is_not_reported(alerts: AlertFixture) -> None:
    await alerts.fail_discovery()
    await alerts.run(after=5 * MINUTE)
    await alerts.fail_discovery(ok=True)
    await alerts.run(after=20 * MINUTE)
    assert alerts.phone.taken == []


@pytest.mark.parametrize(
    "error", [ServiceUnavailableError("no network"), RequestRejectedError("no"), ZeroDivisionError()]
)
async def test_a_message_waits_for_its_channel_and_order_is_kept(alerts: AlertFixture, error: Exception) -> None:
    alerts.phone.error = error
    await alerts.halt("sea")
    assert await alerts.run() == "1 alerts, 0 healed, 1 messages sent, 1 waiting"
    assert len(alerts.pager.taken) == 1
    await alerts.resume("sea")
    # Not before the minute is over.
    alerts.phone.error = None
    assert await alerts.run(after=MINUTE / 2) == "0 alerts, 1 healed, 1 messages sent, 2 waiting"
    waiting = (await alerts.ledger.alerts.channels())["phone"]
    assert (waiting.waiting, waiting.attempts) == (2, 1)
    assert waiting.detail
    assert await alerts.run(after=MINUTE) == "0 alerts, 0 healed, 2 messages sent, 0 waiting"
    assert [one.text.split()[1] for one in alerts.phone.taken] == ["critical:", "resolved:"]


async def test_the_waits_grow_and_a_service_may_ask_for_a_longer_one(alerts: AlertFixture) -> None:
    alerts.phone.error = ServiceUnavailableError("later", retry_after_s=7200.0)
    await alerts.halt("sea")
    await alerts.run()
    alerts.phone.error = None
    await alerts.run(after=119 * MINUTE)
    assert alerts.phone.taken == []
    await alerts.run(after=MINUTE)
    assert len(alerts.phone.taken) == 1


async def test_waiting_messages_survive_a_restart(alerts: AlertFixture) -> None:
    alerts.phone.error = ServiceUnavailableError("no network")
    await alerts.halt("sea")
    await alerts.run()
    async with open_ledger(state_folder(alerts.config) / "ledger.sqlite", now=NOON) as again:
        restarted = AlertFixture(again, alerts.config, alerts.clock)
        await restarted.run(after=2 * MINUTE)
        assert len(restarted.phone.taken) == 1
        assert restarted.pager.taken == []


async def test_a_message_that_failed_for_a_week_is_dropped_and_counted(alerts: AlertFixture) -> None:
    alerts.phone.error = ServiceUnavailableError("no network")
    await alerts.halt("sea")
    await alerts.run()
    await alerts.run(after=MAX_MESSAGE_AGE + MINUTE)
    found = (await alerts.ledger.alerts.channels())["phone"]
    assert (found.waiting, found.dropped) == (0, 1)


async def test_quiet_hours_keep_all_but_critical_alerts_until_they_end(tmp_path: Path) -> None:
    config = make_config(tmp_path, quiet_hours="11:30-12:30", time_zone="UTC")
    async with open_ledger(state_folder(config) / "ledger.sqlite", now=NOON) as ledger:
        alerts = AlertFixture(ledger, config)
        await alerts.halt("sea", "holiday", by="owner")
        await alerts.halt("lake")
        await alerts.run()
        assert [one.level for one in alerts.phone.taken] == [AlertLevel.CRITICAL]
        await alerts.run(after=29 * MINUTE)
        assert len(alerts.phone.taken) == 1
        await alerts.run(after=MINUTE)
        assert [one.level for one in alerts.phone.taken] == [AlertLevel.CRITICAL, AlertLevel.WARNING]
        assert "holiday" in alerts.phone.taken[1].text


async def test_a_critical_alert_that_failed_takes_no_others_out_of_the_quiet_hours(tmp_path: Path) -> None:
    config = make_config(tmp_path, quiet_hours="11:30-12:30", time_zone="UTC")
    async with open_ledger(state_folder(config) / "ledger.sqlite", now=NOON) as ledger:
        alerts = AlertFixture(ledger, config, phone=FakeChannel(error=ServiceUnavailableError("no network")))
        await alerts.halt("sea", "holiday", by="owner")
        await alerts.halt("lake")
        await alerts.run()
        alerts.phone.error = None
        await alerts.run(after=2 * MINUTE)
        assert [one.level for one in alerts.phone.taken] == [AlertLevel.CRITICAL]


async def test_what_breaks_at_one_time_is_one_message(alerts: AlertFixture) -> None:
    for venue in ("sea", "lake", "pond"):
        await alerts.halt(venue)
    await alerts.run()
    [sent] = alerts.phone.taken
    assert sent.subject.startswith("Foxcast: 3 alerts, critical: sea was stopped")
    assert len(sent.text.splitlines()) == 3


async def test_secrets_and_hostile_text_do_not_get_out(alerts: AlertFixture) -> None:
    key = "hush-hush-0123456789"
    with temporary_secrets():
        register_secrets(key)
        await alerts.halt(
            "sea", f"@everyone <script> [x](https://evil.example) {key} Bearer abcdefghijkl\u202e\nSubject: x"
        )
        await alerts.run()
    [sent] = alerts.phone.taken
    for text in (sent.subject, sent.text):
        assert not any(
            part in text for part in (key, "abcdefghijkl", "<script>", "@everyone", "](", "https://", "\u202e")
        )
    assert "\n" not in sent.subject


async def test_an_event_is_reported_once(alerts: AlertFixture) -> None:
    await alerts.ledger.events.add_event("crash", "the last daemon ended without being asked to", at=alerts.clock.now())
    for _ in range(3):
        await alerts.run(after=MINUTE)
    [sent] = alerts.phone.taken
    assert sent.text == "- warning: the daemon was restarted: the last daemon ended without being asked to"
    # It does not heal either, once it is too old to be looked at.
    await alerts.run(after=timedelta(days=2))
    assert len(alerts.phone.taken) == 1


async def test_a_channel_that_is_down_is_reported_through_the_other(alerts: AlertFixture) -> None:
    alerts.pager.error = ServiceUnavailableError("no network")
    await alerts.halt("sea")
    await alerts.run()
    await alerts.run(after=31 * MINUTE)
    assert (
        alerts.phone.taken[-1].subject == "Foxcast: warning: the notifier pager takes no message (1 wait): no network"
    )
    alerts.pager.error = None
    await alerts.run(after=16 * MINUTE)
    await alerts.run(after=MINUTE)
    assert alerts.phone.taken[-1].text == "- resolved: the notifier pager takes messages again"


async def test_the_weekly_letter_is_sent_once_to_those_that_get_everything(tmp_path: Path) -> None:
    config = make_config(tmp_path, letter_day="monday")
    path = state_folder(config) / "ledger.sqlite"
    async with open_ledger(path, now=STORE_NOON) as ledger:
        # Sunday noon, and Monday at eight.
        story = LedgerFixture(ledger, path)
        await story.forecast(await story.ask(), 0.3)
        alerts = AlertFixture(ledger, config, FakeClock(STORE_NOON))
        await alerts.run(after=timedelta(hours=20) - MINUTE)
        assert alerts.phone.taken == []
        for _ in range(3):
            await alerts.run(after=MINUTE)
        [letter] = alerts.phone.taken
        assert letter.subject == "Foxcast, week to 2026-03-02: 1 forecast, 0 scored, 0.00 USD spent"
        assert letter.text.startswith("Forecasts: 1 at lantern (of 1 questions)\nScored: nothing resolved\n")
        await alerts.run(after=timedelta(days=6))
        assert len(alerts.phone.taken) == 1
        await alerts.run(after=timedelta(days=1))
        assert alerts.phone.taken[1].subject.startswith("Foxcast, week to 2026-03-09: 0 forecasts")
        assert alerts.pager.taken == []


async def test_a_ledger_that_began_after_the_letter_day_gets_no_letter_about_nothing(tmp_path: Path) -> None:
    config = make_config(tmp_path, letter_day="sunday")
    path = state_folder(config) / "ledger.sqlite"
    async with open_ledger(path, now=STORE_NOON) as ledger:
        story = LedgerFixture(ledger, path)
        await story.forecast(await story.ask(), 0.3)
        alerts = AlertFixture(ledger, config, FakeClock(STORE_NOON))
        await alerts.run(after=MINUTE)
        assert alerts.phone.taken == []
