"""Which copies of a ledger stay, by count and by room; the copies here are files of holes, which take none."""

import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.audit_log import AuditRow, append_audit_row
from bot.store.backup_retention import BackupRetention, backup_generations, make_room_for_backup, prune_backups
from bot.store.backups import RESERVE_BYTES, create_backup, list_backups, read_backup_content
from bot.store.database import open_writer
from bot.store.migrations import apply_migrations
from bot.store.schema import MIGRATIONS

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def fake(folder: Path, *moments: datetime, size: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for moment in moments:
        holes(folder / f"ledger-{moment:%Y%m%dT%H%M%SZ}.db", size)


def holes(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def kept(folder: Path) -> list[datetime]:
    return [backup.made_at for backup in list_backups(folder, "ledger")]


def test_a_day_of_hours_a_month_of_days_weeks_and_months_are_kept(folder: Path) -> None:
    fake(folder, *(NOW - hours * HOUR for hours in range(24 * 60)))
    prune_backups(folder, "ledger", now=NOW)
    hourly = [NOW - hours * HOUR for hours in range(24)]
    # The newest of each earlier day is that of 23:30; today and a part of yesterday are among the hours.
    daily = [datetime(2026, 11, 20, 23, 30, tzinfo=UTC) - days * DAY for days in range(29)]
    # The last of each earlier week is a Sunday; four of them are older than the daily ones.
    weekly = [datetime(2026, 10, 18, 23, 30, tzinfo=UTC) - weeks * 7 * DAY for weeks in range(4)]
    monthly = [datetime(2026, 10, 31, 23, 30, tzinfo=UTC), datetime(2026, 9, 30, 23, 30, tzinfo=UTC)]
    assert kept(folder) == sorted({*hourly, *daily, *weekly, *monthly}, reverse=True)


def test_nothing_goes_because_the_program_was_off(folder: Path) -> None:
    fake(folder, *(NOW - (400 + days) * DAY for days in range(10)))
    assert prune_backups(folder, "ledger", now=NOW) == ()


def test_hours_days_and_weeks_give_way_in_turn_but_never_the_newest_two(folder: Path) -> None:
    fake(folder, *(NOW - hours * HOUR for hours in range(24 * 20)), size=1000)
    prune_backups(folder, "ledger", BackupRetention(bytes=10_500), now=NOW)
    nights = [datetime(2026, 11, day, 23, 30, tzinfo=UTC) for day in (20, 19, 18)]
    sundays = [datetime(2026, 11, day, 23, 30, tzinfo=UTC) for day in (15, 8, 1)]
    # The newest two, and then each in turn: the nights of three days, three Sundays, and two more hours.
    assert kept(folder) == [*(NOW - hours * HOUR for hours in range(4)), *nights, *sundays]
    prune_backups(folder, "ledger", BackupRetention(bytes=1), now=NOW)
    assert kept(folder) == [NOW, NOW - HOUR]


def test_two_copies_of_one_hour_are_the_newest_two(folder: Path) -> None:
    ten = [NOW - timedelta(minutes=10 * number) for number in range(3)]
    fake(folder, *ten, size=1000)
    prune_backups(folder, "ledger", BackupRetention(bytes=1), now=NOW)
    assert kept(folder) == ten[:2]


def test_copies_take_at_most_half_of_the_disk(folder: Path) -> None:
    whole = shutil.disk_usage(folder.parent).total
    fake(folder, *(NOW - hours * HOUR for hours in range(5)), size=whole // 6)
    assert len(prune_backups(folder, "ledger", now=NOW)) == 2


def test_a_copy_of_a_clock_that_was_ahead_goes_before_any_other(folder: Path) -> None:
    fake(folder, NOW + 30 * DAY, NOW + 31 * DAY, *(NOW - hours * HOUR for hours in range(3)), size=1000)
    prune_backups(folder, "ledger", BackupRetention(bytes=3000), now=NOW)
    assert kept(folder) == [NOW - hours * HOUR for hours in range(3)]


def test_a_backup_made_for_a_reason_is_never_pruned(tmp_path: Path, folder: Path) -> None:
    with closing(open_writer(tmp_path / "ledger.db")):
        labelled = create_backup(tmp_path / "ledger.db", folder, at=NOW - 1000 * DAY, label="before-0002")
    fake(folder, *(NOW - hours * HOUR for hours in range(4)), size=1000)
    assert len(prune_backups(folder, "ledger", BackupRetention(hourly=1, daily=1, bytes=1), now=NOW)) == 2
    assert kept(folder) == [NOW, NOW - HOUR, labelled.made_at]


def test_only_as_many_go_as_one_more_copy_needs_and_none_where_that_would_not_do(tmp_path: Path, folder: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    fake(folder, *(NOW - number * HOUR for number in range(1, 6)), size=free // 10)
    ledger = tmp_path / "ledger.db"
    holes(ledger, free - RESERVE_BYTES - free // 10)
    assert make_room_for_backup(ledger, folder, now=NOW) == ()
    # What is missing is one copy and a half.
    holes(ledger, free - RESERVE_BYTES + 3 * (free // 20))
    assert [backup.made_at for backup in make_room_for_backup(ledger, folder, now=NOW)] == [
        NOW - 5 * HOUR,
        NOW - 4 * HOUR,
    ]
    # The newest stays, and without it there would be too little.
    holes(ledger, free - RESERVE_BYTES + 5 * (free // 20))
    assert make_room_for_backup(ledger, folder, now=NOW) == ()
    assert len(kept(folder)) == 3
    holes(ledger, free - RESERVE_BYTES + 3 * (free // 20))
    make_room_for_backup(ledger, folder, now=NOW)
    assert kept(folder) == [NOW - HOUR]


def test_what_only_has_the_name_of_a_copy_is_in_nobody_s_way(folder: Path) -> None:
    fake(folder, NOW)
    (folder / "ledger-20261322T000000Z.db").touch()
    (folder / "ledger-20261121T000000Z.db").symlink_to(folder / "moved away")
    (folder / "ledger-20261120T000000Z.db").mkdir()
    assert kept(folder) == [NOW]
    assert prune_backups(folder, "ledger", BackupRetention(bytes=1), now=NOW) == ()


@given(
    hours=st.lists(st.integers(0, 5000), unique=True, max_size=60),
    hourly=st.integers(1, 10),
    daily=st.integers(1, 10),
    weekly=st.integers(0, 5),
    monthly=st.integers(0, 5),
)
def test_pruning_keeps_the_newest_and_no_more_than_asked_for(
    tmp_path_factory: pytest.TempPathFactory, hours: list[int], hourly: int, daily: int, weekly: int, monthly: int
) -> None:
    keep = BackupRetention(hourly=hourly, daily=daily, weekly=weekly, monthly=monthly)
    folder = tmp_path_factory.mktemp("backups")
    fake(folder, *(NOW - hour * HOUR for hour in hours))
    gone = prune_backups(folder, "ledger", keep, now=NOW)
    assert len(kept(folder)) + len(gone) == len(hours)
    assert len(kept(folder)) <= max(hourly + daily + weekly + monthly, 2)
    assert kept(folder)[:hourly] == [NOW - hour * HOUR for hour in sorted(hours)[:hourly]]
    assert prune_backups(folder, "ledger", keep, now=NOW) == ()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    apply_migrations(path, MIGRATIONS, backups=tmp_path / "unused", at=NOW)
    return path


def add_events(ledger: Path, *moments: datetime) -> None:
    with closing(open_writer(ledger)) as database:
        for at in moments:
            database.execute(
                "insert into event (at, kind, text) values (?, 'test', '')", [f"{at:%Y-%m-%dT%H:%M:%S}.000000Z"]
            )


def audit(ledger: Path, count: int) -> None:
    event = AuditRow(at=NOW, kind="arm", venue="lantern", actor="alice", body={})
    with closing(open_writer(ledger)) as database:
        for _ in range(count):
            append_audit_row(database, event)


def begin_anew(ledger: Path) -> None:
    ledger.unlink()
    apply_migrations(ledger, MIGRATIONS, backups=ledger.parent / "unused", at=NOW)


def test_a_backup_says_how_much_it_holds(ledger: Path, folder: Path) -> None:
    audit(ledger, 3)
    add_events(ledger, NOW - HOUR)
    backup = create_backup(ledger, folder, at=NOW)
    content = read_backup_content(backup.path)
    assert content is not None
    assert content.rows["audit"] == 3
    assert content.rows["forecast"] == 0
    assert content.last_record_at == NOW
    (folder / "ledger-20261120T000000Z.db").write_bytes(b"no database" * 1000)
    assert read_backup_content(folder / "ledger-20261120T000000Z.db") is None


def test_a_backup_is_not_replaced_by_one_that_holds_less(ledger: Path, folder: Path) -> None:
    audit(ledger, 3)
    full = create_backup(ledger, folder, at=NOW - 100 * DAY)
    begin_anew(ledger)
    audit(ledger, 1)
    keep = BackupRetention(hourly=3, daily=1, weekly=1, monthly=1, bytes=1)
    for hours in range(5):
        create_backup(ledger, folder, at=NOW + hours * HOUR)
        prune_backups(folder, ledger.stem, keep, now=NOW + hours * HOUR)
    assert kept_of(folder, ledger) == [NOW + 4 * HOUR, NOW + 3 * HOUR, full.made_at]
    # Once a backup holds as much again, the old one makes room.
    audit(ledger, 2)
    create_backup(ledger, folder, at=NOW + 5 * HOUR)
    prune_backups(folder, ledger.stem, keep, now=NOW + 5 * HOUR)
    assert kept_of(folder, ledger) == [NOW + 5 * HOUR, NOW + 4 * HOUR]


def kept_of(folder: Path, ledger: Path) -> list[datetime]:
    return [backup.made_at for backup in list_backups(folder, ledger.stem)]


def test_a_day_keeps_its_fullest_backup_not_its_newest(ledger: Path, folder: Path) -> None:
    add_events(ledger, NOW - 3 * DAY)
    full = create_backup(ledger, folder, at=NOW - 3 * DAY)
    begin_anew(ledger)
    add_events(ledger, NOW - 4 * DAY)
    create_backup(ledger, folder, at=NOW - 3 * DAY + HOUR)
    add_events(ledger, NOW - 2 * DAY)
    for hours in range(3):
        create_backup(ledger, folder, at=NOW - hours * HOUR)
    prune_backups(folder, ledger.stem, BackupRetention(hourly=2, daily=2, weekly=1, monthly=1), now=NOW)
    assert kept_of(folder, ledger) == [NOW, NOW - HOUR, full.made_at]


def test_no_room_is_made_at_the_cost_of_the_fullest_backup(
    ledger: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit(ledger, 3)
    full = create_backup(ledger, folder, at=NOW - 3 * DAY)
    begin_anew(ledger)
    for hours in range(3):
        create_backup(ledger, folder, at=NOW - hours * HOUR)
    size, disk = list_backups(folder, ledger.stem)[0].size_bytes, shutil.disk_usage(folder)
    # What is missing is one copy and a half.
    free = RESERVE_BYTES + ledger.stat().st_size - 3 * size // 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk._replace(free=free))
    removed = make_room_for_backup(ledger, folder, now=NOW)
    assert [one.made_at for one in removed] == [NOW - 2 * HOUR, NOW - HOUR]
    assert kept_of(folder, ledger) == [NOW, full.made_at]


def test_each_backup_is_listed_with_what_keeps_it(ledger: Path, folder: Path) -> None:
    audit(ledger, 2)
    create_backup(ledger, folder, at=NOW - 40 * DAY)
    begin_anew(ledger)
    create_backup(ledger, folder, at=NOW - 2 * DAY, label="asked")
    for hours in range(3):
        create_backup(ledger, folder, at=NOW - hours * HOUR)
    found = backup_generations(folder, ledger.stem, BackupRetention(hourly=2, daily=1, weekly=1, monthly=2), now=NOW)
    assert [[*names] for names in found.values()] == [
        ["newest", "hourly", "daily", "weekly", "monthly"],
        ["newest", "hourly"],
        [],
        ["by hand"],
        ["fullest", "monthly"],
    ]
