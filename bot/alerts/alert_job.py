"""The job that reports: compares conditions with the alerts that are open, queues messages, and delivers them.

A message is stored before it is sent and stays until its channel took it, so a channel that is down, or a crash, delays
it. After a crash between the delivery and its record it arrives twice, with the same id.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from bot.alerts.conditions import NOTIFIER_RULE, BrokenCondition, find_conditions, healed_text
from bot.alerts.health_snapshot import read_own_health
from bot.alerts.weekly_letter import ANSWERS_SHOWN, WEEK, WeeklyLetter, letter_due_at, write_letter
from bot.config.schema import Config
from bot.core.alerts import AlertLevel, NotificationMessage, plain_message_text, plain_subject
from bot.core.concurrency import gather_all
from bot.core.errors import FoxcastError, ServiceUnavailableError, StoreError
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, NotificationChannel
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_foreign_message
from bot.forecasting.failures import describe_foreign_error
from bot.jobs.live_readiness import ClockSkewReader
from bot.store.alerts import AlertRecord, QueuedNotification
from bot.store.ledger import Ledger
from bot.store.letter_queries import has_forecast_before, read_week

log = structlog.get_logger(__name__)

# The waits after the first failures of a message, then always the last of them.
RETRY_WAITS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15))
# A message that could not be delivered for so long is dropped; the alert stays in the ledger.
MAX_MESSAGE_AGE = timedelta(days=7)
KEEP_DELIVERED = timedelta(days=30)
DELIVERY_LIMIT_S = 90.0
MESSAGES_AT_ONCE = 20
MAX_REASON_CHARS = 300
LETTER_KEY = "letter:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNews:
    """One thing to report, with the level and the key of its alert; a ``letter`` is a message of its own."""

    level: AlertLevel
    key: str
    text: str
    letter: WeeklyLetter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertContext:
    """What the job works with: the open channels by name, and how far the clock is from those of servers."""

    config: Config
    ledger: Ledger
    clock: Clock
    channels: Mapping[str, NotificationChannel]
    clock_skew: ClockSkewReader


async def report_alerts(job: AlertContext) -> str:
    """Find what is new, record it with the messages about it, and deliver what is due."""
    now, alerts = job.clock.now(), job.ledger.alerts
    snapshot = await read_own_health(job.config, job.ledger, now, clock_skew_s=job.clock_skew())
    conditions, open_alerts = find_conditions(snapshot), await alerts.open_alerts()
    lasting = {one.key for one in conditions if not one.rule.is_event}
    healed = [alert for alert in open_alerts if alert.key not in lasting]
    opened = await _new_alerts(job, conditions, open_alerts, now)
    letter = await _due_letter(job, now)
    if opened or healed or letter:
        news = [AlertNews(level=one.level, key=one.key, text=f"{one.level}: {one.text}") for one in opened]
        news += [AlertNews(level=one.level, key=one.key, text=f"resolved: {healed_text(one.key)}") for one in healed]
        records = [*opened, *(_event_record(one, now) for one in letter)]
        queued = [one for name in job.channels for one in _compose(job.config, name, [*news, *letter], now)]
        await alerts.record(opened=records, closed=[one.key for one in healed], notifications=queued, at=now)
    sent = sum(await gather_all(_deliver(job, name, channel) for name, channel in job.channels.items()))
    await alerts.delete_old(before=now - KEEP_DELIVERED)
    waiting = sum(status.waiting for name, status in (await alerts.channels()).items() if name in job.channels)
    return f"{len(opened)} alerts, {len(healed)} healed, {sent} messages sent, {waiting} waiting"


async def _new_alerts(
    job: AlertContext, conditions: Sequence[BrokenCondition], open_alerts: Sequence[AlertRecord], now: datetime
) -> list[AlertRecord]:
    """Return what was not reported yet: events that are unknown, and conditions that have lasted long enough."""
    known = {alert.key for alert in open_alerts}
    known |= await job.ledger.alerts.known_keys([one.key for one in conditions if one.rule.is_event])
    return [
        AlertRecord(
            key=one.key,
            level=one.rule.level,
            text=plain_message_text(one.text),
            opened_at=now,
            closed_at=now if one.rule.is_event else None,
        )
        for one in conditions
        if one.key not in known and now - min(one.finding.since, now) >= one.rule.delay
    ]


async def _due_letter(job: AlertContext, now: datetime) -> list[AlertNews]:
    """Return the letter of this week, if it is due and was not written yet."""
    until = letter_due_at(job.config.alerts, now)
    if until is None:
        return []
    key = f"{LETTER_KEY}{until:%Y-%m-%d}"
    if await job.ledger.alerts.known_keys([key]):
        return []
    readers = job.ledger.events.readers
    if not await readers.run(lambda database: has_forecast_before(database, until)):
        return []
    record = await readers.run(lambda database: read_week(database, until - WEEK, explained=ANSWERS_SHOWN))
    letter = write_letter(record, until)
    return [AlertNews(level=AlertLevel.INFO, key=key, text=letter.subject, letter=letter)]


def _event_record(one: AlertNews, now: datetime) -> AlertRecord:
    return AlertRecord(key=one.key, level=one.level, text=one.text, opened_at=now, closed_at=now)


def _compose(config: Config, channel: str, news: Sequence[AlertNews], now: datetime) -> Iterator[QueuedNotification]:
    """Yield the messages for a channel: one for what is critical, one for the rest, and each letter by itself.

    In quiet hours only the critical one is due at once.
    """
    level, own_key = config.notifiers[channel].level, f"{NOTIFIER_RULE}:{channel}"
    # That a channel takes no message is reported through the others.
    wanted = [one for one in news if level.includes(one.level) and one.key != own_key]
    plain = [one for one in wanted if one.letter is None]
    groups = [
        [one for one in plain if one.level is AlertLevel.CRITICAL],
        [one for one in plain if one.level is not AlertLevel.CRITICAL],
        *([one] for one in wanted if one.letter is not None),
    ]
    for group in filter(None, groups):
        level = _max_level(group)
        subject, text = _message_texts(group)
        message = NotificationMessage(
            id=derive_id("notification", channel, now.isoformat(), *(one.key for one in group)),
            subject=plain_subject(subject),
            text=text,
            level=level,
            at=now,
        )
        quiet_until = None if level is AlertLevel.CRITICAL else config.alerts.quiet_until(now)
        yield QueuedNotification(channel=channel, message=message, due_at=quiet_until or now)


def _max_level(news: Sequence[AlertNews]) -> AlertLevel:
    return max((one.level for one in news), key=[*AlertLevel].index)


def _message_texts(group: Sequence[AlertNews]) -> tuple[str, str]:
    first = group[0]
    if first.letter is not None:
        return first.letter.subject, plain_message_text(first.letter.text)
    # Without the remedy, which the text has.
    headline = first.text.partition("; ")[0]
    subject = f"Foxcast: {headline}" if len(group) == 1 else f"Foxcast: {len(group)} alerts, {headline}"
    return subject, plain_message_text("\n".join(f"- {one.text}" for one in group))


async def _deliver(job: AlertContext, name: str, channel: NotificationChannel) -> int:
    """Deliver what is due for a channel, oldest first, until one fails; return how many messages it took."""
    now, sent = job.clock.now(), 0
    for queued in await job.ledger.alerts.due_notifications(name, now=now, limit=MESSAGES_AT_ONCE):
        failure = await _attempt(channel, queued.message)
        if failure is None:
            await job.ledger.alerts.end_notification(queued, at=job.clock.now())
            sent += 1
            continue
        why, wait = failure
        if now - queued.message.at > MAX_MESSAGE_AGE:
            await job.ledger.alerts.end_notification(queued, at=now, dropped=why)
            log.error("alert dropped", channel=name, subject=queued.message.subject, why=why)
            continue
        wait = max(wait, RETRY_WAITS[min(queued.attempts, len(RETRY_WAITS) - 1)])
        if not queued.attempts:
            log.warning("alert not delivered, it is sent again", channel=name, why=why)
        await job.ledger.alerts.delay_channel(queued, until=now + wait, why=why)
        break
    return sent


async def deliver_message(channel: NotificationChannel, message: NotificationMessage) -> None:
    """Deliver one message now; raises a FoxcastError, also for an error of the notifier's own."""
    try:
        async with asyncio.timeout(DELIVERY_LIMIT_S):
            await channel.notify(message)
    except FoxcastError:
        raise
    except TimeoutError as error:
        text = f"no answer within {DELIVERY_LIMIT_S:g} s"
        raise ServiceUnavailableError(text) from error
    except Exception as error:
        # A fault of a notifier must not end the work of the others; the text of a library may hold its address.
        log.exception("notifier fails")
        text = f"the notifier failed: {describe_foreign_error(error)}"
        raise ServiceUnavailableError(text) from error


async def _attempt(channel: NotificationChannel, message: NotificationMessage) -> tuple[str, timedelta] | None:
    """Return None for a delivered message, else why it failed and how long the service asked to wait."""
    try:
        await deliver_message(channel, message)
    except StoreError:
        raise
    except FoxcastError as error:
        asked_s = error.retry_after_s if isinstance(error, ServiceUnavailableError) else None
        return redact_foreign_message(" ".join(str(error).split()))[:MAX_REASON_CHARS], timedelta(seconds=asked_s or 0)
    return None
