"""The copy of the evidence in the folder of the backups: each pass adds what is new, and checks it on the way.

Evidence never changes, so one copy that only grows is enough, and its cost does not grow with what it already has.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog
from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.store.backups import BACKUP_FOLDER, copy_database, find_books
from bot.store.connections import TransactionRunner
from bot.store.database import create_incremental_file, open_reader, open_writer, open_writer_with, translate_errors
from bot.store.documents import compress_document
from bot.store.evidence import (
    BUNDLES_OF_SCOPE,
    EVIDENCE_MIGRATIONS,
    IS_PLACED,
    NO_SCOPE,
    SCOPES,
    evidence_path,
    put_evidence,
    unpack_bundle,
)
from bot.store.evidence_packing import removable_forecasts
from bot.store.migrations import apply_migrations, migration_checksums, require_known_migrations
from bot.store.serialization import format_timestamp, to_json_list

log = structlog.get_logger(__name__)

BUNDLES_PER_STEP = 20
# What is compressed alone belongs to a forecast that is not finished; what belongs to no forecast stays so.
_NEW_BUNDLES = (
    f"select id, scope, codec, documents, packed from bundle where id > ? and {IS_PLACED} order by id limit ?"  # noqa: S608
)
# Counted by an index, as the bundles themselves are large.
_COUNT_COPIED = f"""
select count(*) from bundle indexed by bundle_by_scope where {IS_PLACED} and id <= :last
"""  # noqa: S608 - made of constants
NO_LIMIT = -1
_LAST_BUNDLE = "select coalesce(max(id), 0) from bundle"
_INSERT_NEW_BUNDLE = "insert into bundle (scope, codec, documents, packed) values (?, ?, ?, ?)"
_COUNT_SCOPES = f"select count(*) from ({SCOPES})"  # noqa: S608 - made of constants
_WAS_REMOVED = "select 1 from forecast where id = ? and evidence_removed_at is not null"
_MARK_BACK = "update forecast set evidence_removed_at = null where id = ?"
_NEWEST_BUNDLE = "select id, scope, codec, packed from bundle order by id desc limit 1"
_FIND_BUNDLE = "select 1 from bundle where id = ? and scope = ? and codec = ? and packed = ?"
_SHARED_DOCUMENTS = """
select digest, bundle from shared_document where digest in (select value from json_each(?)) and bundle = ?
"""
_COPIES = {
    "select * from recording where scope = ?": "insert or replace into recording values (?, ?, ?, ?, ?, ?, ?)",
    "select * from step where forecast = ?": "insert or replace into step values (?, ?, ?, ?, ?, ?, ?)",
}
_INSERT_BUNDLE = "insert into bundle (id, scope, codec, documents, packed) values (?, ?, ?, ?, ?)"
_INSERT_SHARED = "insert or replace into shared_document (digest, bundle) values (?, ?)"


def evidence_copy_path(ledger: Path) -> Path:
    """Return the path of the copy of the evidence of a ledger."""
    return ledger.parent / BACKUP_FOLDER / f"{evidence_path(ledger).stem}.copy"


def find_evidence_copies(ledger: Path) -> list[Path]:
    """Return the copies of the evidence: the one in use, and those that were put aside."""
    current = evidence_copy_path(ledger)
    return sorted(current.parent.glob(f"{current.stem}*{current.suffix}"))


def count_copied_forecasts(copy: Path) -> int:
    """Return of how many forecasts a copy holds evidence; raises StoreError."""
    with translate_errors(copy), closing(open_reader(copy)) as database:
        return int(database.execute(_COUNT_SCOPES).fetchone()[0])


def find_databases(ledger: Path) -> tuple[Path, ...]:
    """Return the existing databases that make up a state: ledger, evidence with its copy, and books."""
    own = (ledger, evidence_path(ledger), evidence_copy_path(ledger), *find_books(ledger).values())
    return tuple(path for path in own if path.exists())


def copy_new_evidence(ledger: Path, *, at: datetime) -> int:
    """Add to the copy what is new of finished forecasts; return how many bundles.

    Then the bundles of both are counted. A copy that holds fewer lost some, and what is new comes after them: it is put
    aside, and a new one is made. Raises StoreError for damage, and where the new copy holds fewer too.
    """
    source, target = evidence_path(ledger), evidence_copy_path(ledger)
    _keep_copy_of_other(source, target, at)
    count, lacking = _add_new_bundles(source, target, at)
    if lacking:
        _put_aside(target, at, f"the copy of the evidence has lost {lacking} bundles; it is kept, and made anew")
        count, lacking = _add_new_bundles(source, target, at)
    if lacking:
        message = f"{target} lacks {lacking} bundles of {source.name} that were just copied; check the disk"
        raise StoreError(message)
    return count


def _add_new_bundles(source: Path, target: Path, at: datetime) -> tuple[int, int]:
    """Return how many bundles were added, and how many up to the last one the copy lacks all the same."""
    _create_evidence_file(target, at)
    count = 0
    with translate_errors(target), closing(open_reader(source)) as reader, closing(open_writer(target)) as writer:
        (last,) = writer.execute(_LAST_BUNDLE).fetchone()
        while bundles := reader.execute(_NEW_BUNDLES, [last, BUNDLES_PER_STEP]).fetchall():
            _copy_bundles(reader, writer, bundles)
            count, last = count + len(bundles), bundles[-1][0]
        expected, found = (
            database.execute(_COUNT_COPIED, {"last": last}).fetchone()[0] for database in (reader, writer)
        )
    # The copy may hold more: what was removed from the evidence is removed from it a moment later.
    return count, max(0, expected - found)


def _keep_copy_of_other(source: Path, target: Path, at: datetime) -> None:
    """Put a copy aside that was not made of this evidence: older evidence was put back, or it began anew.

    What is new would have numbers that the copy has already, so it would never be copied.
    """
    if not target.exists():
        return
    with translate_errors(target), closing(open_reader(source)) as reader, closing(open_reader(target)) as copy:
        last = copy.execute(_NEWEST_BUNDLE).fetchone()
        is_same = last is None or reader.execute(_FIND_BUNDLE, last).fetchone() is not None
    if not is_same:
        _put_aside(target, at, "the evidence is not the one that was copied; its old copy is kept")


def _put_aside(target: Path, at: datetime, why: str) -> None:
    aside = target.with_name(f"{target.stem}-until-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}{target.suffix}")
    target.replace(aside)
    log.warning(why, file=aside.name)


async def archive_evidence(
    readers: TransactionRunner, ledger: Path, target: Path, *, before: datetime, at: datetime
) -> int:
    """Copy the evidence of forecasts whose questions were resolved before that time to a new file; return how many.

    Every document is checked on the way. Raises StoreError.
    """
    scopes = await removable_forecasts(readers, before=before, limit=NO_LIMIT)
    await asyncio.to_thread(_archive, evidence_path(ledger), target, scopes, at)
    return len(scopes)


def _archive(source: Path, target: Path, scopes: Sequence[str], at: datetime) -> None:
    _create_evidence_file(target, at)
    with translate_errors(target), closing(open_reader(source)) as reader, closing(open_writer(target)) as writer:
        for scope in (NO_SCOPE, *scopes):
            _copy_bundles(reader, writer, reader.execute(BUNDLES_OF_SCOPE, {"scope": scope}).fetchall(), scope)


def put_back_evidence(ledger: Path, archive: Path, *, at: datetime) -> int:
    """Put the evidence of an archive back where it was deleted; return for how many forecasts. Hold the instance lock.

    Every document is checked on the way. Raises StoreError, also for a file that is no archive.
    """
    path = evidence_path(ledger)
    with (
        _current_archive(archive, path, at) as current,
        translate_errors(archive),
        closing(open_reader(current)) as reader,
        translate_errors(path),
        closing(open_writer_with(path, ledger)) as writer,
    ):
        scopes = [scope for (scope,) in reader.execute(SCOPES) if writer.execute(_WAS_REMOVED, [scope]).fetchone()]
        for scope in (NO_SCOPE, *scopes) if scopes else ():
            _put_back_scope(reader, writer, scope)
    return len(scopes)


@contextmanager
def _current_archive(archive: Path, evidence: Path, at: datetime) -> Iterator[Path]:
    """Yield the archive; where an older Foxcast wrote it, a copy of it with the tables of now, next to the evidence."""
    with translate_errors(archive), closing(open_reader(archive)) as reader:
        known = migration_checksums(EVIDENCE_MIGRATIONS)
        applied = require_known_migrations(reader, known, EVIDENCE_MIGRATIONS)
    if not applied:
        message = f"{archive} is no archive; name a file that foxcast db archive wrote"
        raise StoreError(message)
    if len(applied) == len(known):
        yield archive
        return
    with TemporaryDirectory(prefix=".archive-", dir=evidence.parent) as folder:
        copy = Path(folder) / evidence.name
        copy_database(archive, copy)
        apply_migrations(copy, EVIDENCE_MIGRATIONS, backups=None, at=at)
        yield copy


def _put_back_scope(reader: Database, writer: Database, scope: str) -> None:
    with writer.atomic():
        for number, _, codec, documents, packed in reader.execute(BUNDLES_OF_SCOPE, {"scope": scope}).fetchall():
            checked = unpack_bundle(number, codec, documents, packed)
            if scope == NO_SCOPE:
                _put_back_shared(writer, checked)
            else:
                writer.execute(_INSERT_NEW_BUNDLE, [scope, codec, documents, packed])
        _copy_rows(reader, writer, scope)
        writer.execute(_MARK_BACK, [scope])


def _put_back_shared(writer: Database, documents: Sequence[tuple[str, str, bytes]]) -> None:
    for _, media_type, content in documents:
        put_evidence(writer, compress_document(content, media_type), NO_SCOPE)


def _create_evidence_file(path: Path, at: datetime) -> None:
    create_incremental_file(path)
    # It can be made anew of the evidence.
    apply_migrations(path, EVIDENCE_MIGRATIONS, backups=None, at=at)


def _copy_bundles(reader: Database, writer: Database, bundles: Sequence[Sequence[Any]], *more_scopes: str) -> None:
    with writer.atomic():
        for bundle in bundles:
            _copy_bundle(reader, writer, bundle)
        for scope in {*more_scopes, *(bundle[1] for bundle in bundles)}:
            _copy_rows(reader, writer, scope)


def _copy_bundle(reader: Database, writer: Database, bundle: Sequence[Any]) -> None:
    number, _, codec, documents, packed = bundle
    checked = unpack_bundle(number, codec, documents, packed)
    writer.execute(_INSERT_BUNDLE, bundle)
    shared = reader.execute(_SHARED_DOCUMENTS, [to_json_list(digest for digest, _, _ in checked), number])
    writer.conn.executemany(_INSERT_SHARED, shared.fetchall())


def _copy_rows(reader: Database, writer: Database, scope: str) -> None:
    for select, insert in _COPIES.items():
        writer.conn.executemany(insert, reader.execute(select, [scope]).fetchall())


_LOST_STEPS = """
exists (select 1 from trial t where t.forecast = forecast.id and t.steps > (
  select count(*) from step s where s.forecast = t.forecast and s.trial = t.number and s.number <= t.steps))
"""
_ABANDON = f"""
update forecast set state = 'abandoned', ended_at = :at, detail = 'its evidence was lost'
where state = 'running' and {_LOST_STEPS}
"""  # noqa: S608 - made of constants
_MARK_LOST = f"update forecast set evidence_removed_at = :at where evidence_removed_at is null and {_LOST_STEPS}"  # noqa: S608


def copy_back_evidence(ledger: Path) -> bool:
    """Make missing evidence from its copy; return whether there is evidence now. Raises StoreError."""
    path, copy = evidence_path(ledger), evidence_copy_path(ledger)
    if not path.exists() and copy.exists():
        # SQLite would replay the log of the lost database into the copy.
        for side in ("-wal", "-shm"):
            path.with_name(f"{path.name}{side}").unlink(missing_ok=True)
        copy_database(copy, path)
    return path.exists()


def recover_evidence(ledger: Path, *, at: datetime) -> None:
    """Make missing evidence from its copy if there is one, else empty, and compare the ledger with it.

    Forecasts whose steps are missing can no longer be replayed, and unfinished ones are abandoned. Raises StoreError.
    """
    path = evidence_path(ledger)
    copy_back_evidence(ledger)
    create_incremental_file(path)
    apply_migrations(path, EVIDENCE_MIGRATIONS, backups=ledger.parent / BACKUP_FOLDER, at=at)
    with translate_errors(ledger), closing(open_writer_with(path, ledger)) as database, database.atomic():
        for statement in (_ABANDON, _MARK_LOST):
            database.execute(statement, {"at": format_timestamp(at)})
