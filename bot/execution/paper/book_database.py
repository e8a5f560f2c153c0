"""The database of a paper book: its tables, and how it is opened for writing or for reading.

Cash and shares are whole millionths. Every movement of cash is a set of postings that sum to zero: what is taken from
``cash`` is found in ``stock`` (at cost), ``gain`` (below zero is a profit) or ``capital``.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path

from sqlite_utils import Database, Migrations

from bot.core.light_dataclass import dataclass
from bot.store.connections import ReadOnlyWriter, TransactionRunner, WriterThread
from bot.store.migrations import apply_migrations, migration_checksums, require_known_migrations
from bot.store.reader_pool import ReaderPool

BACKUP_FOLDER = "backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookDatabase:
    """The connections of a book: one that writes, and one that reads."""

    writer: TransactionRunner
    readers: TransactionRunner


@asynccontextmanager
async def open_book_database(path: Path, migrations: Migrations, *, now: datetime) -> AsyncIterator[BookDatabase]:
    """Open a book for writing, new or brought up to date after a backup; one process at a time.

    Raises StoreError for a damaged file and for one of a newer program.
    """
    apply_migrations(path, migrations, backups=path.parent / BACKUP_FOLDER, at=now)
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(WriterThread(path))
        readers = await stack.enter_async_context(ReaderPool(path, count=1))
        yield BookDatabase(writer=writer, readers=readers)


@asynccontextmanager
async def open_book_database_read_only(path: Path, migrations: Migrations) -> AsyncIterator[BookDatabase]:
    """Open a book for reading, while a daemon may be writing it.

    Raises StoreError if there is none, or if it is of a newer program.
    """
    async with ReaderPool(path, count=1) as readers:
        known = migration_checksums(migrations)
        await readers.run(lambda database: require_known_migrations(database, known, migrations))
        yield BookDatabase(writer=ReadOnlyWriter(), readers=readers)


PAPER_BOOK_MIGRATIONS = Migrations("foxcast-paper")


_TABLES = (
    """
create table book (
  id integer primary key check (id = 1),
  currency text not null,
  cash integer not null,
  begun_at text not null
) strict
""",
    """
create table ticket (
  seq integer primary key,
  intent text not null unique,
  tag text not null unique,
  account text not null,
  ref text not null,
  target text not null,
  event text not null,
  contract text not null,
  body text not null,
  state text not null check (
    state in ('sent', 'resting', 'filled', 'dropped', 'expired', 'cancelled', 'refused', 'lost')),
  why text not null default '',
  reserved integer not null default 0 check (reserved >= 0),
  held integer not null default 0 check (held >= 0),
  sealed_at text not null,
  expires_at text,
  looked_at text not null,
  ended_at text,
  market text not null default '',
  memory text not null default '',
  check (state in ('sent', 'resting') or (reserved = 0 and held = 0 and ended_at is not null))
) strict
""",
    "create index ticket_open on ticket (seq) where state in ('sent', 'resting')",
    "create index ticket_by_contract on ticket (contract, seq)",
    """
create table fill (
  ticket integer not null references ticket (seq),
  number integer not null check (number >= 1),
  at text not null,
  shares integer not null check (shares > 0),
  price real not null check (price between 0 and 1),
  fee integer not null check (fee >= 0),
  cash integer not null,
  detail text not null default '',
  primary key (ticket, number)
) strict, without rowid
""",
    """
create table position (
  contract text not null,
  leg text not null check (leg in ('yes', 'no')),
  ref text not null,
  target text not null,
  option text not null,
  event text not null,
  shares integer not null check (shares >= 0),
  paid integer not null check (paid >= 0),
  mark real,
  marked_at text not null,
  primary key (contract, leg)
) strict, without rowid
""",
    "create index position_by_question on position (ref, target)",
    """
create table settlement (
  id integer primary key,
  ref text not null,
  target text not null,
  outcome text not null,
  at text not null,
  undone_at text
) strict
""",
    "create index settlement_in_force on settlement (ref, target) where undone_at is null",
    """
create table movement (
  id integer primary key,
  at text not null,
  kind text not null check (kind in ('begin', 'fill', 'pairs', 'payout', 'refund', 'undo')),
  ticket integer references ticket (seq),
  settlement integer references settlement (id)
) strict
""",
    "create index movement_by_settlement on movement (settlement) where settlement is not null",
    """
create table posting (
  movement integer not null references movement (id),
  place text not null check (place in ('cash', 'stock', 'gain', 'capital')),
  contract text not null default '',
  leg text not null default '',
  amount integer not null,
  shares integer not null default 0
) strict
""",
    "create index posting_by_movement on posting (movement)",
    "create index posting_by_contract on posting (contract, place)",
)


@PAPER_BOOK_MIGRATIONS(name="0001_book")
def create_book_tables(database: Database) -> None:
    """Create the first tables."""
    for statement in _TABLES:
        database.execute(statement)


SUM_TOTALS = """
select place, sum(amount) from posting group by place union all select 'fees', coalesce(sum(fee), 0) from fill
"""
# Kept up by triggers: adding up all postings takes longer with every order.
_TOTALS = (
    """
create table total (
  name text primary key check (name in ('cash', 'stock', 'gain', 'capital', 'fees')),
  amount integer not null
) strict, without rowid
""",
    f"insert into total (name, amount) {SUM_TOTALS}",
    """
create trigger posting_is_added after insert on posting
begin
  insert into total (name, amount) values (new.place, new.amount)
  on conflict do update set amount = amount + excluded.amount;
end
""",
    """
create trigger fee_is_added after insert on fill
begin
  update total set amount = amount + new.fee where name = 'fees';
end
""",
    "create index movement_undone on movement (id) where kind = 'undo'",
    "create index position_held on position (contract, leg) where shares > 0",
)


@PAPER_BOOK_MIGRATIONS(name="0002_totals")
def add_book_totals(database: Database) -> None:
    """Add totals, and fill them from the rows of a book that has some."""
    for statement in _TOTALS:
        database.execute(statement)
