"""Compress, remove and copy the evidence of forecasts, in small steps while the daemon works.

Compression and digests run outside the event loop and outside the writer thread; each write is of one forecast.
"""

import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlite_utils import Database

from bot.core.concurrency import gather_all
from bot.core.errors import StoreError
from bot.core.ids import sha256_hex
from bot.core.learning import LESSON_ACTION
from bot.store.connections import TransactionRunner
from bot.store.database import open_writer, translate_errors
from bot.store.documents import CompressedDocument, compress_document
from bot.store.evidence import (
    ALONE,
    BUNDLES_OF_SCOPE,
    NO_SCOPE,
    TOGETHER,
    bundle_contents,
    pack_bundle,
    put_evidence,
    unpack_bundle,
)
from bot.store.schema_views import IS_RESOLVED
from bot.store.serialization import format_timestamp

# A bundle is decompressed as a whole, so it must not be too large.
MAX_BUNDLE_BYTES = 8 * 1024 * 1024
# So many writes share a commit, which takes as long as all of their statements.
WRITES_PER_COMMIT = 8
# The scopes with the ids of their documents, as JSON. Those of forecasts that ran at once share pages.
_FINISHED = """
select scope, json_group_array(id) from loose_document d indexed by loose_document_by_id
group by scope having exists (select 1 from forecast f where f.id = d.scope and f.state <> 'running')
order by min(id)
"""
_SELECT_LOOSE = "select id, digest, packed from loose_document where id in (select value from json_each(?)) order by id"
_INSERT_BUNDLE = "insert into bundle (scope, codec, packed) values (?, ?, ?)"
_PLACE_DOCUMENT = """
insert into evidence_document (digest, media_type, size, bundle, place, shared)
select digest, media_type, size, ?, ?, shared from loose_document where id = ? and digest = ?
"""
_DELETE_LOOSE = "delete from loose_document where id in (select value from json_each(?))"


async def pack_finished_forecasts(writer: TransactionRunner, readers: TransactionRunner) -> int:
    """Compress the documents of each finished forecast together; return how many forecasts.

    Raises StoreError for damaged documents.
    """
    finished: list[tuple[str, str]] = await readers.run(lambda database: database.execute(_FINISHED).fetchall())
    for first in range(0, len(finished), WRITES_PER_COMMIT):
        bundles = []
        for scope, ids in finished[first : first + WRITES_PER_COMMIT]:
            bundles += await readers.run(partial(_pack_scope, scope=scope, ids=ids))
        await gather_all(writer.run(_bundle_writer(*bundle)) for bundle in bundles)
    return len(finished)


def _pack_scope(database: Database, scope: str, ids: str) -> list[tuple[str, bytes, list[tuple[int, int, str]]]]:
    """Return the bundles of a forecast, each with where its documents are in it, and their ids and digests."""
    rows = database.execute(_SELECT_LOOSE, [ids]).fetchall()
    return [(scope, *bundle) for bundle in pack_loose_documents(rows)]


def pack_loose_documents(
    rows: Iterable[tuple[int, str, bytes]],
) -> Iterator[tuple[bytes, list[tuple[int, int, str]]]]:
    """Yield bundles of loose documents, given as id, digest and packed content, with place, id and digest of each.

    Raises StoreError for a damaged one.
    """
    for group in _unpacked_groups(rows):
        packed, places = pack_bundle([content for _, _, content in group])
        yield packed, [(place, loose, digest) for place, (loose, digest, _) in zip(places, group, strict=True)]


def _unpacked_groups(rows: Iterable[tuple[int, str, bytes]]) -> Iterator[list[tuple[int, str, bytes]]]:
    """Yield groups of documents, each with its id, digest and content, of at most one bundle."""
    group: list[tuple[int, str, bytes]] = []
    size = 0
    for loose, digest, packed in rows:
        content = _unpack_loose(digest, packed)
        if group and size + len(content) > MAX_BUNDLE_BYTES:
            yield group
            group, size = [], 0
        group.append((loose, digest, content))
        size += len(content)
    if group:
        yield group


def _unpack_loose(digest: str, packed: bytes) -> bytes:
    why = "its content has another digest"
    try:
        content = unpack_bundle(ALONE, packed)
    except zlib.error as error:
        why = str(error)
    else:
        if sha256_hex(content) == digest:
            return content
    message = f"document {digest} of the evidence is damaged ({why}); look with: foxcast db check"
    raise StoreError(message)


def _bundle_writer(scope: str, packed: bytes, moves: Sequence[tuple[int, int, str]]) -> Callable[[Database], None]:
    def write(database: Database) -> None:
        bundle = database.execute(_INSERT_BUNDLE, [scope, TOGETHER, packed]).lastrowid
        rows = [(bundle, *move) for move in moves]
        if database.conn.executemany(_PLACE_DOCUMENT, rows).rowcount != len(rows):
            message = (
                f"the documents of forecast {scope} changed while they were compressed; look with: foxcast db check"
            )
            raise StoreError(message)
        database.execute(_DELETE_LOOSE, [json.dumps([loose for _, loose, _ in moves])])

    return write


# A question is long resolved if it has all its outcomes and none was read since.
_REMOVABLE = f"""
select f.id from forecast f indexed by forecast_with_evidence
where f.state <> 'running' and f.evidence_removed_at is null and f.ended_at < :before
  and ({IS_RESOLVED.format(ref="f.ref")})
  and not exists (select 1 from resolution r where r.ref = f.ref and r.seen_at >= :before)
order by f.ended_at limit :limit
"""  # noqa: S608 - made of constants
_IS_SHARED = "select media_type, shared from evidence_document where digest = ?"
_LESSONS = "select body from step where forecast = ? and action = ?"
_EVIDENCE_REMOVALS = (
    "delete from recording where scope = :scope",
    f"delete from step where forecast = :scope and action <> '{LESSON_ACTION}'",  # noqa: S608 - made of constants
    "delete from bundle where scope = :scope",
)
_LOOSE_IDS = "select id from loose_document indexed by loose_document_by_id where scope = :scope"
_LOOSE_TO_REMOVE = f"""
select shared, digest, media_type, size, packed from loose_document where id in ({_LOOSE_IDS})
"""  # noqa: S608 - made of constants
_REMOVE_LOOSE = f"delete from loose_document where id in ({_LOOSE_IDS})"  # noqa: S608 - made of constants
_MARK_REMOVED = "update forecast set evidence_removed_at = :at where id = :scope"
_DELETE_DOCUMENT = "delete from evidence_document where digest = ?"


async def removable_forecasts(readers: TransactionRunner, *, before: datetime, limit: int) -> Sequence[str]:
    """Return forecasts that ended before that time, whose questions were resolved by then, oldest first."""
    wanted = {"before": format_timestamp(before), "limit": limit}
    return await readers.run(lambda database: [name for (name,) in database.execute(_REMOVABLE, wanted).fetchall()])


async def remove_evidence(
    writer: TransactionRunner, readers: TransactionRunner, scopes: Sequence[str], *, at: datetime
) -> None:
    """Delete the documents, exchanges and steps of these forecasts, each in one write.

    What other forecasts use too stays, and so do lessons, which later forecasts read.
    """
    for scope in scopes:
        digests, kept = await readers.run(partial(_plan_removal, scope=scope))
        await writer.run(partial(_remove_live, scope=scope, at=at, digests=digests, kept=kept))


def remove_copied_evidence(copy: Path, scopes: Sequence[str]) -> None:
    """Delete the same from the copy of the evidence, if there is one; raises StoreError.

    What other forecasts use too has a new number in the evidence by now, with which it is copied next.
    """
    if not copy.exists():
        return
    with translate_errors(copy), closing(open_writer(copy)) as database:
        for scope in scopes:
            digests, _ = _plan_removal(database, scope)
            with database.atomic():
                _remove(database, scope, digests)
        while _vacuum_step(database):
            pass


def _plan_removal(database: Database, scope: str) -> tuple[list[str], list[CompressedDocument]]:
    lessons = _read_lessons(database, scope)
    digests, kept = [], []
    for _, _, codec, packed in database.execute(BUNDLES_OF_SCOPE, {"scope": scope}).fetchall():
        try:
            contents = [content for _, content in bundle_contents(codec, unpack_bundle(codec, packed))]
        except (zlib.error, lzma.LZMAError, ValueError):
            continue  # damaged: nothing of it can be kept
        for content in contents:
            digest = sha256_hex(content)
            digests.append(digest)
            media_type, shared = database.execute(_IS_SHARED, [digest]).fetchone() or ("", 0)
            if shared or digest in lessons:
                kept.append(compress_document(content, media_type))
    return digests, kept


def _remove_live(
    database: Database, *, scope: str, at: datetime, digests: Sequence[str], kept: Sequence[CompressedDocument]
) -> None:
    """Remove what was planned, and the loose documents: those that are kept need no compression."""
    values = {"scope": scope, "at": format_timestamp(at)}
    lessons = _read_lessons(database, scope)
    loose = database.execute(_LOOSE_TO_REMOVE, values).fetchall()
    database.execute(_REMOVE_LOOSE, values)
    _remove(database, scope, digests)
    database.execute(_MARK_REMOVED, values)
    used = [CompressedDocument(*row) for shared, *row in loose if shared or row[0] in lessons]
    for document in (*kept, *used):
        put_evidence(database, document, NO_SCOPE)


def _remove(database: Database, scope: str, digests: Sequence[str]) -> None:
    database.conn.executemany(_DELETE_DOCUMENT, [(digest,) for digest in digests])
    for statement in _EVIDENCE_REMOVALS:
        database.execute(statement, {"scope": scope})


def _read_lessons(database: Database, scope: str) -> set[str]:
    return {body for (body,) in database.execute(_LESSONS, [scope, LESSON_ACTION]).fetchall()}


# One step returns about a megabyte to the disk; the rest stays for new documents.
VACUUM_PAGES = 256
MAX_FREE_SHARE = 0.1
MIN_FREE_PAGES = 1024


async def return_free_pages(writer: TransactionRunner) -> int:
    """Return the pages of deleted evidence to the disk, beyond a tenth of the file; return how many."""
    returned = 0
    while pages := await writer.run(_vacuum_step):
        returned += pages
    return returned


def _vacuum_step(database: Database) -> int:
    (free,) = database.conn.execute("pragma main.freelist_count").fetchone()
    (total,) = database.conn.execute("pragma main.page_count").fetchone()
    pages = min(VACUUM_PAGES, free - max(MIN_FREE_PAGES, int(MAX_FREE_SHARE * total)))
    if pages <= 0:
        return 0
    # It returns a row without columns after each page, and Python takes such a row for the end of the statement.
    for _ in range(pages):
        database.conn.execute("pragma main.incremental_vacuum(1)")
    (left,) = database.conn.execute("pragma main.page_count").fetchone()
    return int(total - left)
