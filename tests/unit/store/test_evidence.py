"""The evidence next to the ledger: it is durable before the ledger names it, and what the ledger lost is forgotten."""

import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bot.core.beliefs import Step
from bot.store.connections import WriterThread
from bot.store.database import open_writer
from bot.store.evidence import evidence_path
from bot.store.ledger import open_ledger
from bot.store.trials import RecordingKey
from tests.ledger_checks import copy_databases, integrity_faults
from tests.unit.store.conftest import NOON, LedgerFixture

WAL_FRAMES = 50
MAX_BYTES = 60_000


@contextmanager
def _file_size_limit(limit: int) -> Iterator[None]:
    """Let this process write no file beyond that size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _make(path: Path, *, filled: bool) -> None:
    with closing(open_writer(path)) as database:
        database.execute("create table note (text text)" if path.stem == "ledger" else "create table page (text text)")
    if not filled:
        return
    # Its write-ahead log is as long as it may be, so that the next commit to it fails.
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_autocheckpoint = 0")
        connection.execute("create table filling (bytes blob)")
        connection.execute("insert into filling values (zeroblob(?))", [2 * MAX_BYTES])
        connection.commit()
        keeper = sqlite3.connect(path)
        keeper.execute("select count(*) from filling").fetchone()
        _keepers.append(keeper)


_keepers: list[sqlite3.Connection] = []


@pytest.mark.parametrize(("filled", "kept"), [("ledger", (1, 0)), ("ledger-evidence", (0, 0))])
async def test_a_commit_that_is_cut_off_leaves_evidence_without_a_name_and_never_a_name_without_evidence(
    tmp_path: Path, filled: str, kept: tuple[int, int]
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    for path in (ledger, evidence_path(ledger)):
        _make(path, filled=path.stem == filled)
    async with WriterThread(ledger, first=evidence_path(ledger)) as writer:

        def write(database: object) -> None:
            execute = database.conn.execute  # type: ignore[attr-defined]
            execute("insert into note values ('it says')")
            execute("insert into page values ('what it says')")

        with _file_size_limit(MAX_BYTES), pytest.raises(Exception, match="disk"):
            await writer.run(write)
    while _keepers:
        _keepers.pop().close()
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("attach ? as evidence", [str(evidence_path(ledger))])
        counts = "select (select count(*) from page), (select count(*) from note)"
        assert connection.execute(counts).fetchone() == kept


async def test_a_step_that_only_the_evidence_has_is_written_again(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    running = await ledger_fixture.begin(await ledger_fixture.ask())
    forecasts = ledger_fixture.ledger.forecasts
    await forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.2), at=NOON)
    before = ledger_fixture.path.with_name("before.sqlite")
    copy_databases(ledger_fixture.path, before)
    await forecasts.log_step(running.id, trial=1, number=2, step=make_step(0.3), at=NOON)
    # A kill between the two commits: the evidence of the second step, and the ledger of the first one.
    shutil.copy(before, tmp := before.with_name("killed.sqlite"))
    copy_databases(ledger_fixture.path, after := before.with_name("after.sqlite"))
    evidence_path(after).replace(evidence_path(tmp))
    async with open_ledger(tmp, now=NOON) as revived:
        (record,) = (await revived.forecasts.trace(running.id)).trials
        assert [logged.number for logged in record.steps] == [1]
        await revived.forecasts.log_step(running.id, trial=1, number=2, step=make_step(0.4), at=NOON)
        (record,) = (await revived.forecasts.trace(running.id)).trials
        assert [logged.step for logged in record.steps] == [make_step(0.2), make_step(0.4)]
    assert list(integrity_faults(tmp)) == []


async def test_a_revision_that_begins_again_knows_nothing_of_the_one_that_a_restored_ledger_lost(
    ledger_fixture: LedgerFixture, make_step: Callable[..., Step]
) -> None:
    asked = await ledger_fixture.ask()
    copy_databases(ledger_fixture.path, backup := ledger_fixture.path.with_name("backup.sqlite"))
    running = await ledger_fixture.begin(asked)
    await ledger_fixture.ledger.recordings.add(running.id, 1, RecordingKey("page", "k"), '"stale"', at=NOON)
    await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.2), at=NOON)
    copy_databases(ledger_fixture.path, newer := backup.with_name("newer.sqlite"))
    evidence_path(newer).replace(evidence_path(backup))
    async with open_ledger(backup, now=NOON) as restored:
        again = await LedgerFixture(restored, backup).begin(asked)
        assert (again.id, again.trials) == (running.id, ())
        assert await restored.recordings.read_trial(again.id, 1) == {}
        assert (await restored.forecasts.trace(again.id)).trials == ()
    assert list(integrity_faults(backup)) == []
