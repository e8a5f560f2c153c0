"""Alerts and the messages that deliver them: which are open, and what each channel has and still waits for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.core.alerts import AlertLevel, NotificationMessage
from bot.store.connections import TransactionRunner
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text, to_json_list

_INSERT_ALERT = """
insert into alert (key, level, text, opened_at, closed_at) values (:key, :level, :text, :opened_at, :closed_at)
on conflict (key) where closed_at is null do nothing
"""
_CLOSE_ALERT = "update alert set closed_at = :at where key = :key and closed_at is null"
_OPEN_ALERTS = "select key, level, text, opened_at, closed_at from alert where closed_at is null order by id"
_RECENT_ALERTS = "select key, level, text, opened_at, closed_at from alert order by id desc limit ?"
_KNOWN_KEYS = "select distinct key from alert where key in (select value from json_each(?))"
_INSERT_NOTIFICATION = """
insert into notification (id, channel, level, subject, text, at, due_at)
values (:id, :channel, :level, :subject, :text, :at, :due_at) on conflict (channel, id) do nothing
"""
_WAITING = """
select id, channel, level, subject, text, at, due_at, attempts from notification
where channel = :channel and state = 'waiting' and due_at <= :now
  and not exists (select 1 from notification failed where failed.channel = :channel and failed.state = 'waiting'
                  and failed.attempts > 0 and failed.due_at > :now)
order by at, id limit :limit
"""
_END_NOTIFICATION = """
update notification set state = :state, ended_at = :at, attempts = attempts + 1, detail = :detail
where channel = :channel and id = :id
"""
_DELAY_CHANNEL = """
update notification set due_at = max(due_at, :due_at), attempts = attempts + (id = :id),
  detail = iif(id = :id, :detail, detail)
where channel = :channel and state = 'waiting'
"""
_DELETE_OLD = "delete from notification where state <> 'waiting' and ended_at < ?"
_CHANNEL_STATES = """
select channel, sum(state = 'waiting'), max(iif(state = 'delivered', ended_at, null)),
       max(iif(state = 'waiting', attempts, 0)), sum(state = 'dropped'),
       min(iif(state = 'waiting' and attempts > 0, at, null))
from notification group by channel
"""
_LAST_FAILURE = """
select detail from notification where channel = ? and state = 'waiting' and attempts > 0 order by at, id limit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """An alert: a condition that was found broken at ``opened_at``; ``closed_at`` is when it had healed.

    An event, which does not heal, is closed at once.
    """

    key: str
    level: AlertLevel
    text: str
    opened_at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedNotification:
    """A message that waits for a channel; ``attempts`` failed so far, the next one is due at ``due_at``."""

    channel: str
    message: NotificationMessage
    due_at: datetime
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatus:
    """How many messages wait for a channel, when it last took one, and why the oldest waiting one failed.

    ``failing_since`` is the time of the oldest message that failed and still waits.
    """

    waiting: int = 0
    delivered_at: datetime | None = None
    attempts: int = 0
    dropped: int = 0
    failing_since: datetime | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AlertStore:
    """Alerts and messages in the ledger; only the process that holds the state folder changes them."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def open_alerts(self) -> list[AlertRecord]:
        """Return the alerts that have not healed, oldest first."""
        return await self.readers.run(lambda database: [_alert(*row) for row in database.execute(_OPEN_ALERTS)])

    async def recent(self, limit: int) -> list[AlertRecord]:
        """Return the newest alerts, newest first."""
        return await self.readers.run(
            lambda database: [_alert(*row) for row in database.execute(_RECENT_ALERTS, [limit])]
        )

    async def known_keys(self, keys: Collection[str]) -> set[str]:
        """Return those of the keys that an alert had, open or not."""
        listed = to_json_list(keys)
        return await self.readers.run(lambda database: {key for (key,) in database.execute(_KNOWN_KEYS, [listed])})

    async def record(
        self,
        *,
        opened: Sequence[AlertRecord],
        closed: Collection[str],
        notifications: Sequence[QueuedNotification],
        at: datetime,
    ) -> None:
        """Close alerts by their keys, then record new ones and the messages about all of them, all or nothing."""

        def write(database: Database) -> None:
            for key in closed:
                database.execute(_CLOSE_ALERT, {"key": key, "at": format_timestamp(at)})
            for alert in opened:
                database.execute(_INSERT_ALERT, _alert_values(alert))
            for one in notifications:
                database.execute(_INSERT_NOTIFICATION, _notification_values(one))

        await self.writer.run(write)

    async def due_notifications(self, channel: str, *, now: datetime, limit: int) -> list[QueuedNotification]:
        """Return the messages that a channel should get now, oldest first; none while a failed one waits."""
        values = {"channel": channel, "now": format_timestamp(now), "limit": limit}
        return await self.readers.run(
            lambda database: [_notification(*row) for row in database.execute(_WAITING, values)]
        )

    async def end_notification(self, queued: QueuedNotification, *, at: datetime, dropped: str = "") -> None:
        """Record that a message was delivered, or why it will not be."""
        values = {
            "channel": queued.channel,
            "id": queued.message.id,
            "state": "dropped" if dropped else "delivered",
            "at": format_timestamp(at),
            "detail": sanitize_text(dropped),
        }
        await self.writer.run(lambda database: database.execute(_END_NOTIFICATION, values))

    async def delay_channel(self, queued: QueuedNotification, *, until: datetime, why: str) -> None:
        """Record that a message failed; no message of its channel is due before ``until``, so that order is kept."""
        values = {
            "channel": queued.channel,
            "id": queued.message.id,
            "due_at": format_timestamp(until),
            "detail": sanitize_text(why),
        }
        await self.writer.run(lambda database: database.execute(_DELAY_CHANNEL, values))

    async def delete_old(self, *, before: datetime) -> None:
        """Delete messages that were delivered or dropped before a time."""
        await self.writer.run(lambda database: database.execute(_DELETE_OLD, [format_timestamp(before)]))

    async def channels(self) -> Mapping[str, ChannelStatus]:
        """Return the status of each channel that had a message."""
        return await self.readers.run(read_channel_statuses)


def _alert(key: str, level: str, text: str, opened_at: str, closed_at: str | None) -> AlertRecord:
    return AlertRecord(
        key=key,
        level=AlertLevel(level),
        text=text,
        opened_at=parse_timestamp(opened_at),
        closed_at=parse_timestamp(closed_at),
    )


def _alert_values(alert: AlertRecord) -> dict[str, Any]:
    return {
        "key": sanitize_text(alert.key),
        "level": alert.level.value,
        "text": sanitize_text(alert.text),
        "opened_at": format_timestamp(alert.opened_at),
        "closed_at": format_timestamp(alert.closed_at),
    }


def _notification(*columns: Any) -> QueuedNotification:  # noqa: ANN401 - values of a row
    id_, channel, level, subject, text, at, due_at, attempts = columns
    return QueuedNotification(
        channel=channel,
        message=NotificationMessage(
            id=id_, subject=subject, text=text, level=AlertLevel(level), at=parse_timestamp(at)
        ),
        due_at=parse_timestamp(due_at),
        attempts=attempts,
    )


def _notification_values(queued: QueuedNotification) -> dict[str, Any]:
    message = queued.message
    return {
        "id": message.id,
        "channel": queued.channel,
        "level": message.level.value,
        "subject": sanitize_text(message.subject),
        "text": sanitize_text(message.text),
        "at": format_timestamp(message.at),
        "due_at": format_timestamp(queued.due_at),
    }


def read_channel_statuses(database: Database) -> dict[str, ChannelStatus]:
    """Return the status of each channel that had a message."""
    found = {}
    for channel, waiting, delivered_at, attempts, dropped, since in database.execute(_CHANNEL_STATES).fetchall():
        failure = database.execute(_LAST_FAILURE, [channel]).fetchone()
        found[channel] = ChannelStatus(
            waiting=waiting,
            delivered_at=parse_timestamp(delivered_at),
            attempts=attempts,
            dropped=dropped,
            failing_since=parse_timestamp(since),
            detail="" if failure is None else failure[0],
        )
    return found
