import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.store.connections import WriterThread
from bot.store.database import open_writer
from bot.store.reader_pool import LOOKUPS_PER_TURN, ReaderPool

COUNT = "select count(*) from note"
COUNT_TO = "with recursive n (i) as (select 1 union all select i + 1 from n where i < ?) select count(*) from n"
# Never ends by itself.
ENDLESS = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n"


def count(database: Database) -> int:
    return int(database.execute(COUNT).fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(open_writer(path)) as database:
        database.execute("create table note (id integer primary key, text text) strict")
        database.execute("insert into note (text) values ('first')")
    return path


async def test_reads_see_what_the_writer_acknowledged(path: Path) -> None:
    async with WriterThread(path) as writer, ReaderPool(path) as readers:
        for expected in range(2, 12):
            await writer.run(lambda database: database.execute("insert into note (text) values ('x')").rowcount)
            assert await readers.run(count) == expected


async def test_one_read_sees_one_moment(path: Path) -> None:
    async with WriterThread(path) as writer, ReaderPool(path) as readers:
        looked, written = threading.Event(), threading.Event()

        def look_twice(database: Database) -> tuple[int, int]:
            first = count(database)
            looked.set()
            assert written.wait(10)
            return first, count(database)

        looking = asyncio.create_task(readers.run(look_twice))
        await asyncio.to_thread(looked.wait, 10)
        await writer.run(lambda database: database.execute("insert into note (text) values ('x')").rowcount)
        written.set()
        assert await looking == (1, 1)
        assert await readers.run(count) == 2


async def test_as_many_reads_run_at_once_as_there_are_connections(path: Path) -> None:
    async with ReaderPool(path, count=3) as readers:
        together = threading.Barrier(3, timeout=10)
        await asyncio.gather(*(readers.run(lambda _: together.wait()) for _ in range(3)))


async def test_a_connection_is_opened_when_the_others_are_in_use(path: Path) -> None:
    async with ReaderPool(path, count=3) as readers:
        for _ in range(5):
            await readers.run(count)
        at_start = opened_times(path)
        together = threading.Barrier(3, timeout=10)
        await asyncio.gather(*(readers.run(lambda _: together.wait()) for _ in range(3)))
        assert opened_times(path) > at_start


def rename(old: Path, new: Path) -> None:
    old.rename(new)


def opened_times(path: Path) -> int:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(link.readlink() == path for link in links if link.is_symlink())


async def test_a_connection_whose_caller_left_while_it_was_opened_is_kept(path: Path) -> None:
    async with ReaderPool(path, count=3) as readers:
        leaving = [asyncio.create_task(readers.run(count)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        results = await asyncio.gather(*leaving, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 3
        together = threading.Barrier(3, timeout=10)
        await asyncio.gather(*(readers.run(lambda _: together.wait()) for _ in range(3)))
    assert opened_times(path) == 0


async def test_a_pool_whose_caller_leaves_while_a_connection_is_opened_closes(path: Path) -> None:
    async with ReaderPool(path, count=3) as readers:
        leaving = [asyncio.create_task(readers.run(count)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    assert opened_times(path) == 0


async def test_where_no_other_connection_can_be_opened_those_that_are_open_are_enough(path: Path) -> None:
    moved = path.with_name("moved")
    async with ReaderPool(path, count=2) as readers:
        rename(path, moved)
        assert await asyncio.gather(*(readers.run(count) for _ in range(9))) == [1] * 9
        rename(moved, path)
        assert await readers.run(count) == 1
        together = threading.Barrier(2, timeout=10)
        await asyncio.gather(*(readers.run(lambda _: together.wait()) for _ in range(2)))


async def test_more_reads_than_connections_wait_their_turn(path: Path) -> None:
    async with ReaderPool(path, count=2) as readers:
        assert await asyncio.gather(*(readers.run(count) for _ in range(100))) == [1] * 100


async def test_a_read_over_its_time_ends_and_leaves_the_connection_usable(path: Path) -> None:
    async with ReaderPool(path, count=1, limit_s=0.05) as readers:
        with pytest.raises(StoreError, match="took too long"):
            await readers.run(lambda database: database.execute(ENDLESS).fetchone())
        assert await readers.run(count) == 1


async def test_the_read_of_a_cancelled_caller_is_ended(path: Path) -> None:
    async with ReaderPool(path, count=1) as readers:
        running = threading.Event()

        def endless(database: Database) -> None:
            running.set()
            database.execute(ENDLESS).fetchone()

        reading = asyncio.create_task(readers.run(endless))
        await asyncio.to_thread(running.wait, 10)
        # The interrupt counts only once the statement runs, so give its thread the interpreter first.
        await readers_are_busy(readers)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await readers.run(count) == 1


async def readers_are_busy(readers: ReaderPool) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await readers.run(count)


@pytest.mark.parametrize("interrupts", [1, 2])
async def test_an_interrupt_of_the_rollback_leaves_the_connection_usable(path: Path, interrupts: int) -> None:
    async with ReaderPool(path, count=1) as readers:
        rollbacks = []

        def count_interrupted(database: Database) -> int:
            def interrupt_rollback(statement: str) -> None:
                if statement.lower().startswith("rollback"):
                    rollbacks.append(statement)
                    if len(rollbacks) <= interrupts:
                        database.conn.interrupt()

            database.conn.set_trace_callback(interrupt_rollback)
            return count(database)

        assert await readers.run(count_interrupted) == 1
        assert len(rollbacks) == interrupts + 1
        assert await readers.run(count) == 1


async def test_a_query_cannot_write(path: Path) -> None:
    async with ReaderPool(path) as readers:
        with pytest.raises(StoreError, match="cannot be written"):
            await readers.run(lambda database: database.execute("delete from note").rowcount)
        assert await readers.run(count) == 1


async def test_what_a_query_raises_reaches_its_caller(path: Path) -> None:
    async with ReaderPool(path) as readers:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await readers.run(lambda database: database.execute("select * from absent").fetchall())


async def test_no_snapshot_stays_open_between_reads(path: Path) -> None:
    async with WriterThread(path) as writer, ReaderPool(path) as readers:
        await asyncio.gather(*(readers.run(count) for _ in range(10)))
        for _ in range(50):
            await writer.run(lambda database: database.execute("insert into note (text) values (hex(zeroblob(2000)))"))
        with closing(open_writer(path)) as checkpointer:
            # busy, pages in the log, pages taken in: a snapshot left open would hold the last two apart.
            busy, pages, taken = checkpointer.execute("pragma wal_checkpoint(passive)").fetchone()
    assert busy == 0
    assert pages == taken > 0


async def test_closing_serves_who_waits_and_refuses_who_comes_later(path: Path) -> None:
    readers = ReaderPool(path, count=1)
    async with readers:
        reading = [asyncio.create_task(readers.run(count)) for _ in range(20)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*reading) == [1] * 20
    await readers.close()
    with pytest.raises(StoreError, match="closed"):
        await readers.run(count)


async def test_readers_of_a_missing_file_do_not_open(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no database here"):
        async with ReaderPool(tmp_path / "ledger.db"):
            pass


async def test_lookups_see_what_the_writer_acknowledged_and_hold_no_snapshot(path: Path) -> None:
    async with WriterThread(path) as writer, ReaderPool(path) as readers:
        for expected in range(2, 60):
            await writer.run(lambda database: database.execute("insert into note (text) values (hex(zeroblob(2000)))"))
            assert await readers.lookup(count) == expected
        with closing(open_writer(path)) as checkpointer:
            busy, pages, taken = checkpointer.execute("pragma wal_checkpoint(passive)").fetchone()
    assert busy == 0
    assert pages == taken > 0


async def test_rows_looked_up_are_those_that_the_writer_acknowledged_and_hold_no_snapshot(path: Path) -> None:
    async with WriterThread(path) as writer, ReaderPool(path) as readers:
        for expected in range(2, 60):
            await writer.run(lambda database: database.execute("insert into note (text) values (hex(zeroblob(2000)))"))
            assert await readers.lookup_rows(COUNT) == [(expected,)]
        assert await readers.lookup_rows("select id from note where id < :id order by id", {"id": 3}) == [(1,), (2,)]
        with closing(open_writer(path)) as checkpointer:
            busy, pages, taken = checkpointer.execute("pragma wal_checkpoint(passive)").fetchone()
    assert busy == 0
    assert pages == taken > 0


@pytest.mark.parametrize("is_one_query", [True, False])
async def test_an_endless_lookup_ends_with_the_time_limit_and_the_loop_turns_meanwhile(
    path: Path, *, is_one_query: bool
) -> None:
    async with ReaderPool(path, limit_s=0.3) as readers:
        looking = asyncio.create_task(
            readers.lookup_rows(ENDLESS)
            if is_one_query
            else readers.lookup(lambda database: database.execute(ENDLESS).fetchall())
        )
        turns = 0
        while not looking.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(StoreError, match="took too long"):
            await looking
        assert turns > 5
        assert await readers.lookup_rows(COUNT_TO, [100_000]) == [(100_000,)]
        assert await readers.lookup(count) == 1


async def test_one_lookup_sees_one_moment(path: Path) -> None:
    async with ReaderPool(path) as readers:

        def look_twice(database: Database) -> tuple[int, int]:
            first = count(database)
            with closing(sqlite3.connect(path)) as other, other:
                other.execute("insert into note (text) values ('x')")
            return first, count(database)

        assert await readers.lookup(look_twice) == (1, 1)
        assert await readers.lookup(count) == 2


async def test_a_lookup_runs_on_the_loop_and_a_long_one_again_in_a_thread(path: Path) -> None:
    threads: list[int] = []

    def count_to(limit: int, database: Database) -> int:
        threads.append(threading.get_ident())
        return int(database.execute(COUNT_TO, [limit]).fetchone()[0])

    async with ReaderPool(path, limit_s=10.0) as readers:
        for _ in range(50):
            assert await readers.lookup(lambda database: count_to(1_000, database)) == 1_000
        assert set(threads) == {threading.get_ident()}
        threads.clear()
        assert await readers.lookup(lambda database: count_to(100_000, database)) == 100_000
        assert len(threads) == 2
        assert threads[0] == threading.get_ident() != threads[1]
        assert await readers.lookup(count) == 1


async def test_lookups_in_a_row_leave_turns_to_others(path: Path) -> None:
    async with ReaderPool(path) as readers:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(other())
        for _ in range(10 * LOOKUPS_PER_TURN):
            await readers.lookup(count)
        others.cancel()
        assert turns >= 10


async def test_a_lookup_cannot_write_and_raises_what_its_query_raises(path: Path) -> None:
    async with ReaderPool(path) as readers:
        with pytest.raises(StoreError, match="cannot be written"):
            await readers.lookup(lambda database: database.execute("delete from note").rowcount)
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await readers.lookup(lambda database: database.execute("select * from absent").fetchall())
        with pytest.raises(StoreError, match="cannot be written"):
            await readers.lookup_rows("delete from note")
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await readers.lookup_rows("select * from absent")
        assert await readers.lookup(count) == 1
    with pytest.raises(StoreError, match="closed"):
        await readers.lookup(count)
    with pytest.raises(StoreError, match="closed"):
        await readers.lookup_rows(COUNT)


async def test_a_lookup_that_finds_the_file_locked_waits_in_a_thread(path: Path) -> None:
    async with ReaderPool(path) as readers:
        blocked = [True]

        def busy_at_first(database: Database) -> int:
            if threading.current_thread() is threading.main_thread() and blocked[0]:
                (timeout,) = database.execute("pragma busy_timeout").fetchone()
                assert timeout == 0
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return count(database)

        assert await readers.lookup(busy_at_first) == 1
        blocked[0] = False
        assert await readers.lookup(busy_at_first) == 1


async def test_a_lookup_reads_the_attached_database_too(path: Path, tmp_path: Path) -> None:
    attached = tmp_path / "evidence.db"
    with closing(open_writer(attached)) as database:
        database.execute("create table page (id integer primary key) strict")
        database.execute("insert into page (id) values (7)")
    async with ReaderPool(path, attached=attached) as readers:
        rows = await readers.lookup(
            lambda database: database.execute("select p.id, n.text from page p, note n").fetchall()
        )
        both = await readers.lookup_rows("select p.id, n.text from page p, note n")
    assert rows == both == [(7, "first")]


@pytest.mark.parametrize("is_lookup", [False, True])
async def test_an_error_in_the_middle_of_a_result_leaves_no_connection_in_the_past(
    path: Path, *, is_lookup: bool
) -> None:
    def fail_at_first_row(database: Database) -> None:
        cursor = database.execute("select id from note union all select 2")
        for _ in cursor:
            message = "a row that cannot be read"
            raise ValueError(message)

    async with WriterThread(path) as writer, ReaderPool(path, count=1) as readers:
        with pytest.raises(ValueError, match="a row that cannot be read") as caught:
            await (readers.lookup if is_lookup else readers.run)(fail_at_first_row)
        await writer.run(lambda database: database.execute("insert into note (text) values ('x')").rowcount)
        # The error exists still, with all frames that it passed.
        assert caught.value.__traceback__ is not None
        assert await readers.run(count) == await readers.lookup(count) == 2


async def test_a_row_that_cannot_be_read_leaves_no_lookup_in_the_past(path: Path) -> None:
    async with WriterThread(path) as writer, ReaderPool(path, count=1) as readers:
        # The second row ends in an error of SQLite: the cursor is not at its end.
        with pytest.raises(sqlite3.OperationalError, match="integer overflow") as caught:
            await readers.lookup_rows("select id from note union all select abs(-9223372036854775808)")
        await writer.run(lambda database: database.execute("insert into note (text) values ('x')").rowcount)
        assert caught.value.__traceback__ is not None
        assert await readers.lookup_rows(COUNT) == [(2,)]


async def test_an_error_in_the_middle_of_a_result_leaves_the_writer_its_log(path: Path) -> None:
    def fail_at_first_row(database: Database) -> None:
        for _ in (cursor := database.execute("select id from note union all select 2")):
            message = f"a row that {cursor} cannot read"
            raise ValueError(message)

    async with WriterThread(path) as writer:
        errors = await asyncio.gather(
            writer.run(fail_at_first_row), writer.run(fail_at_first_row), return_exceptions=True
        )
        await writer.run(lambda database: database.execute("insert into note (text) values ('x')").rowcount)
        assert [type(error) for error in errors] == [ValueError, ValueError]
        with closing(sqlite3.connect(path)) as other:
            # 0: nobody keeps the log from being copied and begun anew.
            assert other.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
