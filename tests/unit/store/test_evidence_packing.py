"""Evidence of finished forecasts is compressed together, and that of long-resolved questions can be removed."""

import asyncio
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cli.main import main
from bot.core.beliefs import Step, StepAction
from bot.core.errors import StoreError
from bot.core.ids import sha256_hex
from bot.jobs.ledger_maintenance import EvidenceContext, remove_old_evidence
from bot.store import evidence_packing
from bot.store.backups import create_backup
from bot.store.database import open_reader_with
from bot.store.evidence import (
    EVIDENCE_INDEXES,
    EVIDENCE_TABLES,
    TOGETHER,
    WITH_DOCUMENTS,
    DocumentStore,
    bundle_contents,
    evidence_path,
    pack_bundle,
)
from bot.store.evidence_checks import check_evidence, find_damaged_bundles
from bot.store.evidence_copies import (
    archive_evidence,
    copy_new_evidence,
    evidence_copy_path,
    find_evidence_copies,
    put_back_evidence,
)
from bot.store.evidence_packing import (
    pack_finished_forecasts,
    removable_forecasts,
    remove_evidence,
    return_free_pages,
)
from bot.store.integrity_checks import INVARIANTS, run_full_check
from bot.store.ledger import open_ledger, open_ledger_read_only
from bot.store.trials import RecordingKey
from bot.testing.clock import FakeClock
from tests.ledger_checks import copy_databases, integrity_faults
from tests.unit.store.conftest import NOON, LedgerFixture

LATER = NOON + timedelta(days=400)
INDEXES = "select sql from sqlite_schema where tbl_name = 'bundle' and type = 'index' order by name"
NUMBERS = "select seq, seq > (select max(id) from bundle) from sqlite_sequence where name = 'bundle'"
STAYS = ("forecast", "prediction", "trial", "decision", "intent", "score", "model_call", "resolution", "price")


async def _forecast(ledger_fixture: LedgerFixture, key: str, make_step: Callable[..., Step], pages: int = 20) -> str:
    """Make a forecast of a question with pages that repeat each other."""
    ledger, asked = ledger_fixture.ledger, await ledger_fixture.ask(key)
    running = await ledger_fixture.begin(asked)
    for nth in range(pages):
        body = f'"page {nth} of {key}: {"".join(f" word {n * n}" for n in range(500))}"'
        await ledger.recordings.add(running.id, 1, RecordingKey("page", "k", nth), body, at=NOON)
    document = await ledger.documents.put(f"text of {key}".encode(), "text/plain", scope=running.id)
    step = make_step(0.3, documents=(document,))
    await ledger.forecasts.log_step(running.id, trial=1, number=1, step=step, at=NOON)
    lesson = replace(step, action=StepAction(name="keep_lesson", arguments={"text": f"look at {key}"}))
    await ledger.forecasts.log_step(running.id, trial=1, number=2, step=lesson, at=NOON)
    await ledger.documents.put(b"what all forecasts are told", "text/plain", scope=running.id)
    await ledger.forecasts.complete(ledger_fixture.answer(asked, running, 0.3), next_due=None)
    return running.id


async def _pack(ledger_fixture: LedgerFixture) -> int:
    documents = ledger_fixture.ledger.documents
    return await pack_finished_forecasts(documents.writer, documents.readers)


@pytest.mark.parametrize(
    "change", ["upper(documents)", "json_remove(documents, '$[0]')", "replace(documents, '1', '2')"]
)
async def test_a_bundle_that_names_other_documents_than_it_holds_is_not_copied(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step], change: str
) -> None:
    await _forecast(ledger_fixture, "rain", make_step, pages=2)
    await _pack(ledger_fixture)
    with closing(sqlite3.connect(evidence_path(ledger_fixture.path), isolation_level=None)) as evidence:
        ((sound,),) = evidence.execute("select documents from bundle").fetchall()
        evidence.execute(f"update bundle set documents = {change}")  # noqa: S608 - a test's own text
        with pytest.raises(StoreError, match="holds other documents than it names"):
            copy_new_evidence(ledger_fixture.path, at=NOON)
        evidence.execute("update bundle set documents = ?", [sound])


async def test_a_document_that_was_stored_twice_is_in_the_bundle_once(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    forecast = await _forecast(ledger_fixture, "rain", make_step, pages=2)
    async with open_ledger(ledger_fixture.path.with_name("other") / "ledger.sqlite", now=NOON) as other:
        # Another process of the same ledger does not know what this one has stored.
        store = DocumentStore(ledger_fixture.ledger.documents.writer, other.documents.readers)
        digest = await store.put(b"text of rain", "text/plain", scope=forecast)
    named = f"{WITH_DOCUMENTS} select count(*), count(distinct digest) from evidence_document"  # noqa: S608
    ((stored, distinct),) = ledger_fixture.rows(named)
    assert stored == distinct + 1
    await _pack(ledger_fixture)
    assert ledger_fixture.rows(named) == [(distinct, distinct)]
    assert (await ledger_fixture.ledger.documents.get(digest, scope=forecast)).content == b"text of rain"


@pytest.mark.parametrize("limit", ["WRITES_PER_COMMIT", "BYTES_PER_COMMIT", "_READ_TOGETHER"])
async def test_many_forecasts_are_all_compressed_however_few_share_a_commit(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for number in range(10):
        await _forecast(ledger_fixture, f"rain {number}", make_step, pages=1)
    monkeypatch.setattr(evidence_packing, limit, 1)
    assert await _pack(ledger_fixture) == 10
    assert ledger_fixture.rows("select count(*) from bundle where codec = 'zlib' and scope <> ''") == [(0,)]
    assert await _pack(ledger_fixture) == 0


def _stored_bytes(ledger_fixture: LedgerFixture) -> int:
    return int(ledger_fixture.rows("select sum(length(packed)) from bundle")[0][0])


async def test_what_repeats_itself_takes_a_fraction_of_the_room_and_reads_as_before(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    forecast = await _forecast(ledger_fixture, "rain", make_step)
    running = await ledger_fixture.begin(await ledger_fixture.ask("snow"))
    await ledger_fixture.ledger.recordings.add(running.id, 1, RecordingKey("page", "k"), '"snow"', at=NOON)
    before, read = _stored_bytes(ledger_fixture), await ledger_fixture.ledger.recordings.read_trial(forecast, 1)
    trace = await ledger_fixture.ledger.forecasts.trace(forecast)
    assert await _pack(ledger_fixture) == 1
    assert _stored_bytes(ledger_fixture) < before / 5
    assert await ledger_fixture.ledger.recordings.read_trial(forecast, 1) == read
    assert len(read) == 20
    assert await ledger_fixture.ledger.forecasts.trace(forecast) == trace
    assert ledger_fixture.rows("select scope, codec from bundle order by id") == [
        (running.id, "zlib"),
        (forecast, "lzma"),
    ]
    assert await _pack(ledger_fixture) == 0


async def test_what_a_backtest_recorded_is_compressed_together_too(ledger_fixture: LedgerFixture) -> None:
    recordings = ledger_fixture.ledger.recordings
    for nth in range(3):
        await recordings.add("backtest of march", 1, RecordingKey("page", "k", nth), f'"page {nth}"', at=NOON)
    read = await recordings.read_trial("backtest of march", 1)
    assert await _pack(ledger_fixture) == 1
    assert ledger_fixture.rows("select scope, codec from bundle") == [("backtest of march", "lzma")]
    assert await recordings.read_trial("backtest of march", 1) == read
    # What it adds later is packed the next time.
    await recordings.add("backtest of march", 1, RecordingKey("page", "k", 3), '"page 3"', at=NOON)
    assert await _pack(ledger_fixture) == 1
    assert len(await recordings.read_trial("backtest of march", 1)) == 4
    assert await _pack(ledger_fixture) == 0


@pytest.mark.parametrize("copies", [1, 300])
def test_a_bundle_gives_back_its_contents_whatever_its_length(copies: int) -> None:
    contents = [bytes(range(256)) * copies, b"", b"rain" * copies]
    assert bundle_contents(TOGETHER, pack_bundle(contents)) == contents


async def test_only_the_evidence_of_long_resolved_questions_is_removed(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    ledger = ledger_fixture.ledger
    old, late, open_still = [await _forecast(ledger_fixture, key, make_step) for key in ("rain", "hail", "snow")]
    await ledger_fixture.resolve(ledger_fixture.question("rain"), 1.0)
    documents = ledger.documents
    before = {table: ledger_fixture.rows(f"select count(*) from {table}") for table in STAYS}  # noqa: S608 - names above
    cutoff = NOON + timedelta(days=1)
    assert await removable_forecasts(documents.readers, before=cutoff, limit=9) == [old]
    assert await removable_forecasts(documents.readers, before=NOON, limit=9) == []
    await _pack(ledger_fixture)
    (shared,) = ledger_fixture.rows("select digest from shared_document")
    await remove_evidence(documents.writer, documents.readers, [old], at=LATER)
    assert await removable_forecasts(documents.readers, before=cutoff, limit=9) == []
    assert {table: ledger_fixture.rows(f"select count(*) from {table}") for table in STAYS} == before  # noqa: S608
    assert await ledger.recordings.read_trial(old, 1) == {}
    assert len(await ledger.recordings.read_trial(late, 1)) == 20
    assert (await documents.get(shared[0])).content == b"what all forecasts are told"
    assert ledger_fixture.rows("select forecast, number from step where action = 'keep_lesson'") == sorted(
        (forecast, 2) for forecast in (old, late, open_still)
    )
    for forecast in (late, open_still):
        (record,) = (await ledger.forecasts.trace(forecast)).trials
        assert len(record.steps) == 2
    with closing(open_reader_with(ledger_fixture.path, evidence_path(ledger_fixture.path))) as database:
        assert list(find_damaged_bundles(database)) == []
    assert check_evidence(ledger_fixture.path).problems == ()
    assert run_full_check(ledger_fixture.path, INVARIANTS).sound


async def test_a_text_that_forecasts_share_stays_whichever_of_them_are_removed(ledger_fixture: LedgerFixture) -> None:
    documents, digest = ledger_fixture.ledger.documents, ""
    running = [await ledger_fixture.begin(await ledger_fixture.ask(key)) for key in ("rain", "hail", "snow", "fog")]
    for begun in running:
        digest = await documents.put(b"what all forecasts are told", "text/plain", scope=begun.id)
        assert (await documents.get(digest, scope=begun.id)).content == b"what all forecasts are told"
        if begun is running[0]:
            await remove_evidence(documents.writer, documents.readers, [begun.id], at=NOON)
    await remove_evidence(documents.writer, documents.readers, [begun.id for begun in running[1:3]], at=NOON)
    assert (await documents.get(digest, scope=running[3].id)).content == b"what all forecasts are told"
    assert ledger_fixture.rows("select scope from bundle") == [("",)]


async def test_the_copy_gets_what_is_new_and_makes_up_for_lost_evidence(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    first = await _forecast(ledger_fixture, "rain", make_step)
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 0
    await _pack(ledger_fixture)
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 1
    second, late = [await _forecast(ledger_fixture, key, make_step) for key in ("hail", "snow")]
    await _pack(ledger_fixture)
    running = await ledger_fixture.begin(await ledger_fixture.ask("wind"))
    await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.2), at=NOON)
    # Of two forecasts, and the text that the third stored for all.
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 3
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 0
    uncopied = await _forecast(ledger_fixture, "fog", make_step)
    read = {one: await ledger_fixture.ledger.recordings.read_trial(one, 1) for one in (first, second, late)}
    ledger = ledger_fixture.path.with_name("moved") / "ledger.sqlite"
    (ledger.parent / "backups").mkdir(parents=True)
    copy_databases(ledger_fixture.path, ledger)
    evidence_path(ledger).unlink()
    shutil.copy(evidence_copy_path(ledger_fixture.path), evidence_copy_path(ledger))
    async with open_ledger(ledger, now=LATER) as recovered:
        assert {one: await recovered.recordings.read_trial(one, 1) for one in read} == read
        assert (await recovered.forecasts.trace(first)).removal_note is None
        lost = await recovered.forecasts.trace(uncopied)
        assert lost.evidence_removed_at == LATER
        assert (await recovered.forecasts.trace(running.id)).state == "abandoned"
    assert list(integrity_faults(ledger)) == []


@pytest.mark.parametrize(("migrations", "next_one"), [(1, "0002_bundle_indexes"), (2, "0003_bundle_documents")])
async def test_evidence_of_before_a_migration_reads_the_same_afterwards(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step], tmp_path: Path, migrations: int, next_one: str
) -> None:
    packed = await _forecast(ledger_fixture, "rain", make_step)
    await _pack(ledger_fixture)
    alone = await _forecast(ledger_fixture, "hail", make_step)
    await ledger_fixture.resolve(ledger_fixture.question("rain"), 1.0)
    await ledger_fixture.resolve(ledger_fixture.question("hail"), 1.0)
    scopes, told = [packed, alone], sha256_hex(b"what all forecasts are told")
    read = {one: await ledger_fixture.ledger.recordings.read_trial(one, 1) for one in scopes}
    archived, ledger = tmp_path / "archive.sqlite", tmp_path / "older" / "ledger.sqlite"
    await _copy_as_older(ledger_fixture, ledger, archived, migrations)
    ((last, _),) = _rows(evidence_path(ledger), NUMBERS)
    async with open_ledger(ledger, now=LATER) as migrated:
        documents = migrated.documents
        # The number of a bundle that is gone is not used again.
        assert _rows(evidence_path(ledger), NUMBERS) == [(last, 1)]
        assert {one: await migrated.recordings.read_trial(one, 1) for one in scopes} == read
        assert await pack_finished_forecasts(documents.writer, documents.readers) == 1
        assert copy_new_evidence(ledger, at=LATER) == 1
        # Of the evidence alone: its copy can be made anew.
        assert [path.name for path in evidence_copy_path(ledger).parent.glob("*before*")] == [
            f"{evidence_path(ledger).stem}-{LATER:%Y%m%dT%H%M%SZ}-before-{next_one}.db"
        ]
        assert {one: await migrated.recordings.read_trial(one, 1) for one in scopes} == read
        assert check_evidence(ledger).problems == ()
        await remove_evidence(documents.writer, documents.readers, scopes[:1], at=LATER)
        assert (await documents.get(told, scope=alone)).content == b"what all forecasts are told"
        await remove_evidence(documents.writer, documents.readers, scopes[1:], at=LATER)
        assert _rows(evidence_path(ledger), "select count(*) from bundle where scope <> ''") == [(0,)]
        assert _rows(evidence_path(ledger), INDEXES) == _rows(evidence_path(ledger_fixture.path), INDEXES)
    assert put_back_evidence(ledger, archived, at=LATER) == 2
    async with open_ledger(ledger, now=LATER) as restored:
        assert {one: await restored.recordings.read_trial(one, 1) for one in scopes} == read
    assert check_evidence(ledger).problems == ()


async def test_commands_that_only_read_refuse_older_evidence_with_what_to_do(
    ledger_fixture: LedgerFixture,
    make_step: Callable[..., Step],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for key in ("rain", "hail"):
        await _forecast(ledger_fixture, key, make_step)
        await ledger_fixture.resolve(ledger_fixture.question(key), 1.0)
    await _pack(ledger_fixture)
    ledger, archived = tmp_path / "state" / "paper" / "ledger.sqlite", tmp_path / "archive.sqlite"
    await _copy_as_older(ledger_fixture, ledger, archived, 2)
    monkeypatch.setenv("FOXCAST_STATE", str(tmp_path / "state"))
    reading = (["status"], ["explain", "rain"], ["db", "check"], ["db", "export", str(tmp_path / "out")])
    for command in (*reading, ["db", "unarchive", str(archived)]):
        assert await asyncio.to_thread(main, command) != 0
        told = " ".join(capsys.readouterr().err.split())
        assert told.endswith("older than this Foxcast (it lacks 0003_bundle_documents); start foxcast run --once")


async def _copy_as_older(ledger_fixture: LedgerFixture, target: Path, archived: Path, migrations: int) -> None:
    """Copy the ledger with the copy of its evidence and an archive, as a Foxcast with fewer migrations made them."""
    path, documents, before = ledger_fixture.path, ledger_fixture.ledger.documents, NOON + timedelta(days=1)
    copy_new_evidence(path, at=NOON)
    assert await archive_evidence(documents.readers, path, archived, before=before, at=LATER) == 2
    (target.parent / "backups").mkdir(mode=0o700, parents=True)
    copy_databases(path, target)
    shutil.copy(evidence_copy_path(path), evidence_copy_path(target))
    for older in (evidence_path(target), archived, evidence_copy_path(target)):
        _make_older(older, migrations)


def _make_older(path: Path, migrations: int) -> None:
    """Give the evidence the tables of the first migrations alone, in which a document was stored once."""
    with closing(sqlite3.connect(path)) as connection, connection:
        bundles = connection.execute("select id, scope, codec, documents, packed from bundle order by id").fetchall()
        ((last,),) = connection.execute("select seq from sqlite_sequence where name = 'bundle'").fetchall()
        for table in ("bundle", "shared_document"):
            connection.execute(f"drop table {table}")
        for statement in (*EVIDENCE_TABLES[:4], *(EVIDENCE_INDEXES if migrations > 1 else ())):
            connection.execute(statement)
        for bundle in bundles:
            _put_older(connection, *bundle)
        connection.execute("update sqlite_sequence set seq = ? where name = 'bundle'", (last,))
        for table in ("_sqlite_migrations", "_migration_checksum"):
            undone = connection.execute(f"delete from {table} where name >= ?", (f"000{migrations + 1}",))  # noqa: S608
            assert undone.rowcount == 3 - migrations


def _put_older(
    connection: sqlite3.Connection, number: int, scope: str, codec: str, documents: str, packed: bytes
) -> None:
    connection.execute("insert into bundle values (?, ?, ?, ?)", (number, scope, codec, packed))
    contents = bundle_contents(codec, packed)
    place = len(f"{json.dumps([len(content) for content in contents])}\n") if codec == TOGETHER else 0
    for (digest, media_type), content in zip(json.loads(documents), contents, strict=True):
        if connection.execute("update evidence_document set shared = 1 where digest = ?", (digest,)).rowcount:
            connection.execute("delete from bundle where id = ? and codec = 'zlib'", (number,))
        else:
            row = (digest, media_type, len(content), number, place)
            connection.execute("insert into evidence_document values (?, ?, ?, ?, ?, 0)", row)
        place += len(content)


async def test_a_document_changes_no_page_of_an_index_but_the_last_however_many_there_are(
    ledger_fixture: LedgerFixture,
) -> None:
    evidence, documents = evidence_path(ledger_fixture.path), ledger_fixture.ledger.documents
    names = [sha256_hex(str(number).encode()) for number in range(3000)]
    with closing(sqlite3.connect(evidence)) as connection, connection:
        connection.executemany(
            "insert into bundle (scope, codec, documents, packed) values (?, 'zlib', '[]', x'00')",
            [(name[:24],) for name in names],
        )
    ledger_fixture.rows("pragma evidence.wal_checkpoint(truncate)")
    await asyncio.gather(*(documents.put(name.encode(), "text/plain", scope=name[24:48]) for name in names[:10]))
    ((page_size,),) = ledger_fixture.rows("pragma evidence.page_size")
    # See "WAL File Format" in https://sqlite.org/fileformat2.html: a header, then each page with a header of its own.
    frames = (evidence.with_name(f"{evidence.name}-wal").stat().st_size - 32) / (24 + page_size)
    # Two commits, each of the last pages: of the bundles, of the index of those that are alone, and of the numbers.
    assert frames <= 12


async def test_a_damaged_document_is_not_copied(ledger_fixture: LedgerFixture, make_step: Callable[..., Step]) -> None:
    await _forecast(ledger_fixture, "rain", make_step)
    await _pack(ledger_fixture)
    ((sound,),) = ledger_fixture.rows("select packed from bundle")
    ledger_fixture.damage_documents(b"\0")
    with pytest.raises(StoreError, match=r"bundle \d+ of the evidence is damaged"):
        copy_new_evidence(ledger_fixture.path, at=NOON)
    ledger_fixture.damage_documents(sound)
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 1


async def test_an_archive_has_what_is_removed_and_removing_reaches_the_copy(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step], tmp_path: Path
) -> None:
    old, late = [await _forecast(ledger_fixture, key, make_step) for key in ("rain", "hail")]
    await ledger_fixture.resolve(ledger_fixture.question("rain"), 1.0)
    await _pack(ledger_fixture)
    copy_new_evidence(ledger_fixture.path, at=NOON)
    documents, before = ledger_fixture.ledger.documents, NOON + timedelta(days=1)
    archived = tmp_path / "archive.sqlite"
    count = await archive_evidence(documents.readers, ledger_fixture.path, archived, before=before, at=LATER)
    assert count == 1
    job = EvidenceContext(path=ledger_fixture.path, ledger=ledger_fixture.ledger, clock=FakeClock(LATER))
    assert await remove_old_evidence(job, before=before) == 1
    scopes = "select distinct scope from recording order by scope"
    kept = {path.name: _rows(path, scopes) for path in (archived, evidence_copy_path(ledger_fixture.path))}
    assert kept == {archived.name: [(old,)], evidence_copy_path(ledger_fixture.path).name: [(late,)]}
    assert _rows(archived, "select count(*) from step") == [(2,)]


async def test_an_archive_is_put_back_where_its_evidence_was_deleted(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step], tmp_path: Path
) -> None:
    ledger, documents = ledger_fixture.ledger, ledger_fixture.ledger.documents
    old, late = [await _forecast(ledger_fixture, key, make_step) for key in ("rain", "hail")]
    await ledger_fixture.resolve(ledger_fixture.question("rain"), 1.0)
    await _pack(ledger_fixture)
    read = {one: await ledger.recordings.read_trial(one, 1) for one in (old, late)}
    trace = await ledger.forecasts.trace(old)
    before, archived = NOON + timedelta(days=1), tmp_path / "archive.sqlite"
    await archive_evidence(documents.readers, ledger_fixture.path, archived, before=before, at=LATER)
    assert put_back_evidence(ledger_fixture.path, archived, at=LATER) == 0
    await remove_evidence(documents.writer, documents.readers, [old], at=LATER)
    assert (await ledger.forecasts.trace(old)).removal_note is not None
    assert put_back_evidence(ledger_fixture.path, archived, at=LATER) == 1
    assert await ledger.forecasts.trace(old) == trace
    assert {one: await ledger.recordings.read_trial(one, 1) for one in (old, late)} == read
    assert check_evidence(ledger_fixture.path).problems == ()
    with pytest.raises(StoreError, match="another program made this database"):
        put_back_evidence(ledger_fixture.path, ledger_fixture.path, at=LATER)


async def test_a_copy_of_other_evidence_is_kept_and_a_new_one_begun(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    first = await _forecast(ledger_fixture, "rain", make_step)
    await _pack(ledger_fixture)
    older = ledger_fixture.path.with_name("older") / "ledger.sqlite"
    (older.parent / "backups").mkdir(parents=True)
    copy_databases(ledger_fixture.path, older)
    second = await _forecast(ledger_fixture, "hail", make_step)
    await _pack(ledger_fixture)
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 2
    # The folder gets its evidence of before the second forecast back, and goes another way.
    shutil.copy(evidence_copy_path(ledger_fixture.path), evidence_copy_path(older))
    assert copy_new_evidence(older, at=LATER) == 1
    scopes = "select distinct scope from bundle where scope <> '' order by scope"
    current = evidence_copy_path(older)
    (aside,) = set(find_evidence_copies(older)) - {current}
    assert _rows(current, scopes) == [(first,)]
    assert _rows(aside, scopes) == sorted([(first,), (second,)])
    assert copy_new_evidence(older, at=LATER) == 0


async def test_a_copy_that_lost_something_is_kept_and_made_anew(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    first, second, third = [await _forecast(ledger_fixture, key, make_step) for key in ("rain", "hail", "snow")]
    await _pack(ledger_fixture)
    # Those of the forecasts, and the text that the third stored for all.
    assert copy_new_evidence(ledger_fixture.path, at=NOON) == 4
    current, scopes = (
        evidence_copy_path(ledger_fixture.path),
        "select scope from bundle where scope <> '' order by scope",
    )
    with closing(sqlite3.connect(current)) as copy, copy:
        # Not the newest: what is new is copied by its number, so this one would never come back.
        copy.execute("delete from bundle where scope = ?", [second])
    assert copy_new_evidence(ledger_fixture.path, at=LATER) == 4
    (aside,) = set(find_evidence_copies(ledger_fixture.path)) - {current}
    assert _rows(current, scopes) == sorted([(first,), (second,), (third,)])
    assert _rows(aside, scopes) == sorted([(first,), (third,)])
    assert copy_new_evidence(ledger_fixture.path, at=LATER) == 0


async def test_removing_evidence_from_the_copy_leaves_it_the_copy_of_the_same_evidence(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    for key in ("rain", "hail"):
        await _forecast(ledger_fixture, key, make_step)
    await ledger_fixture.resolve(ledger_fixture.question("rain"), 1.0)
    await _pack(ledger_fixture)
    copy_new_evidence(ledger_fixture.path, at=NOON)
    # What runs has documents that are in no copy yet, so the next document gets another number in each file.
    running = await ledger_fixture.begin(await ledger_fixture.ask("snow"))
    await ledger_fixture.ledger.recordings.add(running.id, 1, RecordingKey("page", "k"), '"snow"', at=NOON)
    job = EvidenceContext(path=ledger_fixture.path, ledger=ledger_fixture.ledger, clock=FakeClock(LATER))
    assert await remove_old_evidence(job, before=NOON + timedelta(days=1)) == 1
    # The lesson of the removed one.
    assert copy_new_evidence(ledger_fixture.path, at=LATER) == 1
    copy = evidence_copy_path(ledger_fixture.path)
    assert find_evidence_copies(ledger_fixture.path) == [copy]
    shared = "select b.id, s.digest from shared_document s join bundle b on b.id = s.bundle where b.scope = ''"
    assert _rows(copy, shared) == _rows(evidence_path(ledger_fixture.path), shared) != []


async def test_a_restore_gives_back_the_ledger_with_its_evidence(
    ledger_fixture: LedgerFixture,
    make_step: Callable[..., Step],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both files are lost: one command, run as a person would, and what was copied can be read at once."""
    copied = await _forecast(ledger_fixture, "rain", make_step)
    await _pack(ledger_fixture)
    copy_new_evidence(ledger_fixture.path, at=NOON)
    uncopied = await _forecast(ledger_fixture, "hail", make_step)
    read = await ledger_fixture.ledger.recordings.read_trial(copied, 1)
    ledger = ledger_fixture.path.parent / "state" / "paper" / "ledger.sqlite"
    (ledger.parent / "backups").mkdir(parents=True)
    backup = create_backup(ledger_fixture.path, ledger.parent / "backups", at=NOON)
    shutil.copy(evidence_copy_path(ledger_fixture.path), evidence_copy_path(ledger))
    # The log of the lost database is still there.
    evidence_path(ledger).with_name("ledger-evidence.sqlite-wal").write_bytes(b"of another database" * 100)
    monkeypatch.setenv("FOXCAST_STATE", str(ledger.parent.parent))
    assert await asyncio.to_thread(main, ["db", "restore", backup.path.stem]) == 0
    assert "its evidence was missing, and is that of the copy" in " ".join(capsys.readouterr().out.split())
    async with open_ledger_read_only(ledger) as records:
        assert await records.recordings.read_trial(copied, 1) == read
    async with open_ledger(ledger, now=LATER) as restored:
        assert (await restored.forecasts.trace(copied)).removal_note is None
        assert (await restored.forecasts.trace(uncopied)).evidence_removed_at == LATER
    assert check_evidence(ledger).problems == ()
    assert await asyncio.to_thread(main, ["explain", uncopied]) == 0
    assert f"deleted on {LATER:%Y-%m-%d}" in " ".join(capsys.readouterr().out.split())


async def test_pages_of_removed_evidence_go_back_to_the_disk(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    documents = ledger_fixture.ledger.documents
    content = hashlib.shake_128(b"pages").digest(8_000_000)
    forecast = await _forecast(ledger_fixture, "rain", make_step)
    await documents.put(content, "application/octet-stream", scope=forecast)
    await ledger_fixture.resolve(ledger_fixture.question("rain"), 1.0)
    ledger_fixture.rows("pragma evidence.wal_checkpoint(truncate)")
    before = evidence_path(ledger_fixture.path).stat().st_size
    job = EvidenceContext(path=ledger_fixture.path, ledger=ledger_fixture.ledger, clock=FakeClock(LATER))
    assert await remove_old_evidence(job, before=NOON + timedelta(days=1)) == 1
    ((pages,),) = ledger_fixture.rows("pragma evidence.page_count")
    returned = await return_free_pages(documents.writer)
    assert returned > 256
    assert ledger_fixture.rows("pragma evidence.page_count") == [(pages - returned,)]
    ledger_fixture.rows("pragma evidence.wal_checkpoint(truncate)")
    assert evidence_path(ledger_fixture.path).stat().st_size < before / 1.5


def _rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()
