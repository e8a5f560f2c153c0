import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.store.connections import (
    BUSY_PERIOD_S,
    COMMIT_SPACING_S,
    MAX_GROUP_WRITES,
    SHARED_WRITES,
    CommitPacing,
    WriterThread,
)
from bot.store.database import DiskReserve, open_writer
from tests.unit.store.faulty_disks import largest_file, small_disk

ADD = "insert into note (text) values (?)"


def made(path: Path) -> Path:
    with closing(open_writer(path)) as database:
        database.execute("create table note (id integer primary key, text text not null unique) strict")
        database.execute(
            "create table reply (note integer references note (id) deferrable initially deferred, text text) strict"
        )
    return path


def texts(path: Path) -> list[str]:
    # Read with another library than the one under test, on a connection of its own: what is seen is committed.
    with closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("select text from note order by id")]


def add(text: str, database: Database) -> int:
    return int(database.conn.execute(ADD, [text]).lastrowid or 0)


def adding(text: str) -> Callable[[Database], int]:
    return lambda database: add(text, database)


def statement(sql: str) -> Callable[[Database], None]:
    def run(database: Database) -> None:
        database.conn.execute(sql)

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(tmp_path / "ledger.db")


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[WriterThread]:
    async with WriterThread(path) as opened:
        yield opened


class Gate:
    """A write that holds the writer's thread until it is let go, so that others gather behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self, database: Database) -> None:
        self.entered.set()
        assert self.leave.wait(10)


async def test_a_result_comes_back_once_it_is_durable(writer: WriterThread, path: Path) -> None:
    assert await writer.run(adding("first")) == 1
    assert texts(path) == ["first"]


async def test_all_writes_happen_in_one_thread(writer: WriterThread) -> None:
    threads = await asyncio.gather(*(writer.run(lambda _: threading.get_ident()) for _ in range(50)))
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_writes_that_gather_share_commits_of_bounded_size(writer: WriterThread, path: Path) -> None:
    gate, seen = Gate(), list[int]()

    def look(database: Database) -> None:
        # A commit that nobody has seen yet does not change the version of the data another connection finds.
        with closing(sqlite3.connect(path)) as other:
            seen.append(other.execute("select count(*) from note").fetchone()[0])
        add(f"note {len(seen)}", database)

    waiting = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    writes = [asyncio.create_task(writer.run(look)) for _ in range(2 * MAX_GROUP_WRITES)]
    await asyncio.sleep(0)
    gate.leave.set()
    await asyncio.gather(waiting, *writes)
    assert seen == [0] * MAX_GROUP_WRITES + [MAX_GROUP_WRITES] * MAX_GROUP_WRITES
    assert len(texts(path)) == 2 * MAX_GROUP_WRITES


async def begin_writes(writer: WriterThread, counts: Sequence[int]) -> list[int]:
    """Begin so many writes in each turn of the loop; return how many went to the thread by then, one a turn."""
    before, passed, writes = writer.asked, [], []
    for turn, count in enumerate(counts):
        writes += [asyncio.create_task(writer.run(adding(f"{turn} {number}"))) for number in range(count)]
        await asyncio.sleep(0)
        passed.append(writer.asked - before)
    await asyncio.gather(*writes)
    return passed


async def test_writes_of_neighbouring_turns_of_the_loop_go_to_the_thread_together(writer: WriterThread) -> None:
    assert set(await begin_writes(writer, [1, 0, 2, 0, 1, *[0] * 10])) == {0, 4}


async def test_a_lone_write_waits_for_few_turns(writer: WriterThread) -> None:
    assert (await begin_writes(writer, [1, *[0] * 10])).count(0) < 8


@pytest.mark.parametrize("each_turn", [[1, 0], [20]])
async def test_writes_that_never_cease_are_not_put_off_for_ever(writer: WriterThread, each_turn: list[int]) -> None:
    passed = await begin_writes(writer, each_turn * 40)
    waiting = [sum((each_turn * 40)[:turn]) - count for turn, count in enumerate(passed)]
    assert max(waiting) < 64


async def test_a_write_that_fails_does_not_spoil_the_others(writer: WriterThread, path: Path) -> None:
    gate = Gate()

    def half_done(database: Database) -> None:
        add("half", database)
        message = "changed my mind"
        raise LookupError(message)

    waiting = asyncio.create_task(writer.run(gate))
    before = asyncio.create_task(writer.run(adding("before")))
    failing = asyncio.create_task(writer.run(half_done))
    doubled = asyncio.create_task(writer.run(adding("before")))
    after = asyncio.create_task(writer.run(adding("after")))
    await asyncio.to_thread(gate.entered.wait, 10)
    gate.leave.set()
    await asyncio.gather(waiting, before, after)
    with pytest.raises(LookupError, match="changed my mind"):
        await failing
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        await doubled
    assert texts(path) == ["before", "after"]
    assert writer.halted is None


async def test_a_broken_deferred_reference_fails_its_own_write_alone(writer: WriterThread, path: Path) -> None:
    gate = Gate()
    waiting = asyncio.create_task(writer.run(gate))
    before = asyncio.create_task(writer.run(adding("before")))
    dangling = asyncio.create_task(writer.run(statement("insert into reply values (99, 'to nobody')")))
    after = asyncio.create_task(writer.run(adding("after")))
    await asyncio.to_thread(gate.entered.wait, 10)
    gate.leave.set()
    await asyncio.gather(waiting, before, after)
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        await dangling
    assert texts(path) == ["before", "after"]


@pytest.mark.parametrize("sql", ["commit", "rollback"])
async def test_a_write_that_ends_the_shared_transaction_is_found_out(writer: WriterThread, sql: str) -> None:
    with pytest.raises(RuntimeError, match="ended the transaction"):
        await writer.run(statement(sql))
    assert await writer.run(adding("next")) == 1


async def test_a_write_may_use_transactions_of_sqlite_utils_inside(writer: WriterThread, path: Path) -> None:
    def nested(database: Database) -> None:
        with database.atomic():
            add("inner", database)
        add("outer", database)

    await writer.run(nested)
    assert texts(path) == ["inner", "outer"]


async def test_an_exhausted_iterator_inside_a_write_does_not_strand_its_caller(writer: WriterThread) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await writer.run(lambda _: next(iter(())))
    await writer.run(adding("next"))


async def test_a_cancelled_caller_does_not_lose_its_write(path: Path) -> None:
    async with WriterThread(path) as writer:
        gate = Gate()
        waiting = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        write = asyncio.create_task(writer.run(adding("kept")))
        await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        gate.leave.set()
        await waiting
    assert texts(path) == ["kept"]


async def test_many_callers_lose_nothing_when_some_are_cancelled(path: Path) -> None:
    async with WriterThread(path) as writer:
        gate = Gate()
        waiting = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        writes = [asyncio.create_task(writer.run(adding(str(n)))) for n in range(5)]
        await asyncio.sleep(0)
        writes[3].cancel()
        gate.leave.set()
        await asyncio.gather(waiting, *writes, return_exceptions=True)
    assert sorted(texts(path)) == ["0", "1", "2", "3", "4"]


async def test_closing_writes_what_was_asked_for_and_refuses_what_comes_later(path: Path) -> None:
    writer = WriterThread(path)
    async with writer:
        writes = [asyncio.create_task(writer.run(adding(str(n)))) for n in range(600)]
        await asyncio.sleep(0)
    await asyncio.gather(*writes)
    assert len(texts(path)) == 600
    await writer.close()
    with pytest.raises(StoreError, match="closed"):
        await writer.run(adding("late"))


async def test_writes_of_cancelled_callers_are_written_before_the_end(path: Path) -> None:
    async with WriterThread(path) as writer:
        gate = Gate()
        waiting = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        writes = [asyncio.create_task(writer.run(adding(text))) for text in ("first", "second")]
        await asyncio.sleep(0)
        for call in (waiting, *writes):
            call.cancel()
        await asyncio.wait([waiting, *writes])
        closing_task = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        gate.leave.set()
        await closing_task
    assert texts(path) == ["first", "second"]


async def test_closing_takes_the_log_into_the_database(path: Path) -> None:
    async with WriterThread(path) as writer:
        await writer.run(adding("one"))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_a_database_that_cannot_be_opened_is_reported_to_the_opener(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        async with WriterThread(path):
            pass


async def test_a_full_disk_halts_all_writing_with_a_reason(writer: WriterThread, path: Path) -> None:
    await writer.run(adding("kept"))
    # The cap fails as a full disk does; a transaction inside cannot raise it again.
    await writer.run(statement("pragma max_page_count = 8"))
    outcomes = await asyncio.gather(
        *(writer.run(adding(f"{n}" * 3000)) for n in range(10)),
        return_exceptions=True,
    )
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert failures
    assert all(isinstance(failure, StoreError) for failure in failures)
    assert writer.halted is not None
    assert "the disk is full" in writer.halted
    with pytest.raises(StoreError, match="the disk is full"):
        await writer.run(adding("refused"))
    assert len(texts(path)) == 1 + len(outcomes) - len(failures)


async def test_writes_already_waiting_when_the_disk_fills_fail_too(writer: WriterThread, path: Path) -> None:
    await writer.run(statement("pragma max_page_count = 8"))
    gate = Gate()
    waiting = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    big = asyncio.create_task(writer.run(adding("x" * 100_000)))
    # More than a group, so that some come to the writer only after it halted.
    small = [asyncio.create_task(writer.run(adding(str(n)))) for n in range(2 * MAX_GROUP_WRITES)]
    await asyncio.sleep(0)
    gate.leave.set()
    outcomes = await asyncio.gather(waiting, big, *small, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes[1:]} == {StoreError}
    assert texts(path) == []


async def test_an_io_error_halts_all_writing_and_keeps_what_was_acknowledged(path: Path) -> None:
    async with WriterThread(path) as writer:
        await writer.run(adding("kept"))
        size = path.with_name(f"{path.name}-wal").stat().st_size
        with largest_file(size + 20_000):
            with pytest.raises(StoreError, match="failed to read or write"):
                await writer.run(adding("x" * 200_000))
            assert "check the system log" in (writer.halted or "")
        with pytest.raises(StoreError):
            await writer.run(adding("refused"))
    assert texts(path) == ["kept"]


async def filled(writer: WriterThread) -> int:
    """Write until the disk is full; return how much it took."""
    kept = 0
    while writer.halted is None:
        try:
            await writer.run(adding(f"{kept} " + "x" * 30_000))
        except StoreError as error:
            assert "the disk is full" in str(error)  # noqa: PT017
        else:
            kept += 1
    return kept


async def test_ballast_lets_a_full_disk_take_the_note_that_says_why(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk"):
        path = made(tmp_path / "disk" / "ledger.db")
        ballast = DiskReserve(tmp_path / "disk" / "ballast", size=300_000)
        ballast.hold()
        async with WriterThread(path, ballast=ballast) as writer:
            kept = await filled(writer)
            assert not ballast.held
            with pytest.raises(StoreError, match="the disk is full"):
                await writer.run(adding("refused"))
            await writer.run_halted(adding(f"halted: {writer.halted}"))
            refused = asyncio.create_task(writer.run_halted(adding("x" * 2_000_000)))
            with pytest.raises(StoreError, match="the disk is full"):
                await refused
        stored = texts(path)
        assert len(stored) == kept + 1 > 1
        assert stored[-1].startswith("halted: ")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40))
def test_what_is_stored_is_exactly_what_was_acknowledged(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[int, bool]]
) -> None:
    path = made(tmp_path_factory.mktemp("ledger") / "ledger.db")

    def writing(number: int, fails: bool) -> Callable[[Database], str]:  # noqa: FBT001 - drawn by hypothesis
        def write(database: Database) -> str:
            add(str(number), database)
            if fails:
                raise LookupError(number)
            return str(number)

        return write

    async def write_all() -> list[str | BaseException]:
        async with WriterThread(path) as writer:
            calls = (writer.run(writing(*item)) for item in wanted)
            return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = asyncio.run(write_all())
    acknowledged = [outcome for outcome in outcomes if isinstance(outcome, str)]
    # By hand: the first write of each number that does not fail is stored, and no other.
    assert texts(path) == acknowledged == list(dict.fromkeys(str(number) for number, fails in wanted if not fails))


def count_waits(pacing: CommitPacing, *, at_once: int, every_s: float, seconds: float) -> list[float]:
    """Let so many writes come so often for so long; return how long each that began a group waited."""
    waits, next_pass, gathered = list[float](), -1.0, 0
    for number in range(round(seconds / every_s)):
        now = number * every_s
        if now >= next_pass:
            pacing.count(gathered, next_pass)
            waits.append(pacing.wait_s(now))
            next_pass, gathered = now + waits[-1], 0
        gathered += at_once
    return waits


@pytest.mark.parametrize(("at_once", "every_s"), [(2 * SHARED_WRITES, 0.02), (1, 0.0005)])
def test_few_writes_and_writes_one_after_the_other_wait_for_nothing(at_once: int, every_s: float) -> None:
    assert set(count_waits(CommitPacing(), at_once=at_once, every_s=every_s, seconds=1.0)) == {0.0}


def test_many_writes_wait_until_commits_are_far_enough_apart() -> None:
    waits = count_waits(CommitPacing(), at_once=2 * SHARED_WRITES, every_s=0.002, seconds=1.0)
    paced = waits[round(BUSY_PERIOD_S / 0.002) :]
    assert waits[0] == 0.0
    assert all(0.0 < wait <= COMMIT_SPACING_S for wait in paced[-10:])
    assert len(paced) <= 0.9 / COMMIT_SPACING_S + 1


def test_a_quiet_time_ends_the_waiting() -> None:
    pacing = CommitPacing()
    waits = count_waits(pacing, at_once=2 * SHARED_WRITES, every_s=0.002, seconds=0.3)
    assert waits[-1] > 0.0
    assert pacing.wait_s(10.0) == 0.0
