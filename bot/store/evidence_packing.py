"""Compress, remove and copy the evidence of forecasts, in small steps while the daemon works.

Compression and digests run outside the event loop and outside the writer thread; each write is of one forecast.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from bot.core.concurrency import gather_all
from bot.core.errors import StoreError
from bot.core.learning import LESSON_ACTION
from bot.store.connections import TransactionRunner
from bot.store.database import open_writer, translate_errors
from bot.store.documents import PackedDocument, compress_document
from bot.store.evidence import (
    ALONE,
    BUNDLES_OF_SCOPE,
    IS_ALONE,
    IS_PLACED,
    NO_SCOPE,
    TOGETHER,
    format_documents,
    pack_bundle,
    put_evidence,
    unpack_bundle,
)
from bot.store.serialization import format_timestamp

# A bundle is decompressed as a whole, so it must not be too large.
MAX_BUNDLE_BYTES = 8 * 1024 * 1024
# So many forecasts are read at once.
_READ_TOGETHER = 8
# So many writes, or bytes, share a commit, which takes as long as all of their statements. Documents of forecasts that
# ran at once share pages, and each commit writes its pages again.
WRITES_PER_COMMIT = 32
BYTES_PER_COMMIT = 1024 * 1024
# The scopes with the ids of their bundles, as JSON. Those of forecasts that ran at once share pages. Backtests have
# scopes without a forecast; what one of them adds later is packed the next time.
_FINISHED = f"""
select scope, json_group_array(id) from bundle b indexed by bundle_alone where {IS_ALONE}
group by scope having not exists (select 1 from forecast f where f.id = b.scope and f.state = 'running')
order by min(id)
"""  # noqa: S608 - made of constants
_SELECT_BUNDLES = "select id, documents, packed from bundle where id in (select value from json_each(?)) order by id"
_INSERT_BUNDLE = "insert into bundle (scope, codec, documents, packed) values (?, ?, ?, ?)"
_DELETE_BUNDLE = "delete from bundle where id = ?"
# A forecast, its bundle with the documents in it, and the bundles that it replaces.
PackedBundle = tuple[str, str, bytes, list[int]]


async def pack_finished_forecasts(writer: TransactionRunner, readers: TransactionRunner) -> int:
    """Compress the documents of each finished forecast, and of each backtest, together; return how many.

    Raises StoreError for damaged documents.
    """
    finished: list[tuple[str, str]] = await readers.run(lambda database: database.execute(_FINISHED).fetchall())
    bundles: list[PackedBundle] = []
    for first in range(0, len(finished), _READ_TOGETHER):
        bundles += await readers.run(partial(_pack_scopes, scopes=finished[first : first + _READ_TOGETHER]))
        is_last, size = first + _READ_TOGETHER >= len(finished), sum(len(packed) for _, _, packed, _ in bundles)
        if is_last or len(bundles) >= WRITES_PER_COMMIT or size >= BYTES_PER_COMMIT:
            await gather_all(writer.run(_bundle_writer(*bundle)) for bundle in bundles)
            bundles = []
    return len(finished)


def _pack_scopes(database: Database, scopes: Sequence[tuple[str, str]]) -> list[PackedBundle]:
    """Return the bundles of forecasts."""
    bundles = []
    for scope, ids in scopes:
        for group in _unpacked_groups(database.conn.execute(_SELECT_BUNDLES, (ids,)).fetchall()):
            # A forecast that was resumed may have stored a document twice.
            documents = {digest: (media_type, content) for _, digest, media_type, content in group}
            names = format_documents((digest, media_type) for digest, (media_type, _) in documents.items())
            packed = pack_bundle([content for _, content in documents.values()])
            bundles.append((scope, names, packed, [old for old, *_ in group]))
    return bundles


def _unpacked_groups(rows: Sequence[tuple[int, str, bytes]]) -> Iterator[list[tuple[int, str, str, bytes]]]:
    """Yield groups of documents, each with its bundle, digest, media type and content, of at most one bundle."""
    group: list[tuple[int, str, str, bytes]] = []
    size = 0
    for bundle, documents, packed in rows:
        ((digest, media_type, content),) = unpack_bundle(bundle, ALONE, documents, packed)
        if group and size + len(content) > MAX_BUNDLE_BYTES:
            yield group
            group, size = [], 0
        group.append((bundle, digest, media_type, content))
        size += len(content)
    if group:
        yield group


def _bundle_writer(scope: str, documents: str, packed: bytes, replaced: Sequence[int]) -> Callable[[Database], None]:
    def write(database: Database) -> None:
        if database.conn.executemany(_DELETE_BUNDLE, [(old,) for old in replaced]).rowcount != len(replaced):
            message = (
                f"the documents of forecast {scope} changed while they were compressed; look with: foxcast db check"
            )
            raise StoreError(message)
        database.conn.execute(_INSERT_BUNDLE, (scope, TOGETHER, documents, packed))

    return write


# A question is long resolved if it has all its outcomes and none was read since.
_REMOVABLE = """
select f.id from forecast f indexed by forecast_with_evidence
where f.state <> 'running' and f.evidence_removed_at is null and f.ended_at < :before
  and exists (select 1 from question q where q.ref = f.ref and q.resolved = 1)
  and not exists (select 1 from resolution r where r.ref = f.ref and r.seen_at >= :before)
order by f.ended_at limit :limit
"""
_IS_SHARED = "select 1 from shared_document where digest = ? and bundle = ?"
_LESSONS = "select body from step where forecast = ? and action = ?"
_EVIDENCE_REMOVALS = (
    "delete from recording where scope = :scope",
    f"delete from step where forecast = :scope and action <> '{LESSON_ACTION}'",  # noqa: S608 - made of constants
    f"delete from bundle where scope = :scope and {IS_PLACED}",  # noqa: S608 - made of constants
    f"delete from bundle where id in (select id from bundle where {IS_ALONE} and scope = :scope)",  # noqa: S608
)
_MARK_REMOVED = "update forecast set evidence_removed_at = :at where id = :scope"


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
        kept = await readers.run(partial(_find_kept_documents, scope=scope))
        values, statements = {"scope": scope, "at": format_timestamp(at)}, (*_EVIDENCE_REMOVALS, _MARK_REMOVED)
        await writer.run(partial(_remove, values=values, kept=kept, statements=statements))


def remove_copied_evidence(copy: Path, scopes: Sequence[str]) -> None:
    """Delete the same from the copy of the evidence, if there is one; raises StoreError.

    What other forecasts use too has a new number in the evidence by now, with which it is copied next.
    """
    if not copy.exists():
        return
    with translate_errors(copy), closing(open_writer(copy)) as database:
        for scope in scopes:
            with database.atomic():
                _remove(database, values={"scope": scope}, kept=(), statements=_EVIDENCE_REMOVALS)
        while _vacuum_step(database):
            pass


def _find_kept_documents(database: Database, scope: str) -> list[PackedDocument]:
    lessons = {body for (body,) in database.execute(_LESSONS, [scope, LESSON_ACTION]).fetchall()}
    kept = []
    for bundle, _, codec, documents, packed in database.execute(BUNDLES_OF_SCOPE, {"scope": scope}).fetchall():
        try:
            unpacked = unpack_bundle(bundle, codec, documents, packed)
        except StoreError:
            continue  # damaged: nothing of it can be kept
        for digest, media_type, content in unpacked:
            if digest in lessons or database.execute(_IS_SHARED, [digest, bundle]).fetchone():
                kept.append(compress_document(content, media_type))
    return kept


def _remove(
    database: Database, *, values: dict[str, Any], kept: Sequence[PackedDocument], statements: Sequence[str]
) -> None:
    for statement in statements:
        database.execute(statement, values)
    for document in kept:
        put_evidence(database, document, NO_SCOPE)


# One step returns a quarter of a megabyte to the disk: other writes wait for it. The rest stays for new documents.
VACUUM_PAGES = 64
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
