"""How large the databases of a state are, by table, and how fast they grow."""

import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from bot.core.light_dataclass import dataclass
from bot.store.database import open_reader, translate_errors
from bot.store.evidence import evidence_path
from bot.store.evidence_copies import find_databases
from bot.store.serialization import format_timestamp

GROWTH_PERIOD = timedelta(days=7)
# Of a table with its indexes. The table dbstat is not in every build of SQLite.
_TABLE_BYTES = """
select m.tbl_name, sum(d.pgsize) from dbstat d join sqlite_schema m on m.name = d.name
where d.aggregate = 1 group by m.tbl_name order by 2 desc, 1
"""
_FREE_BYTES = "select freelist_count * page_size from pragma_freelist_count, pragma_page_size"
_RECENT_FORECASTS = "select count(*) from forecast where made_at >= ? and state = 'done'"
_ALL_FORECASTS = "select count(*) from forecast where state = 'done'"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSize:
    """The size of a database in bytes, in all and by table with its indexes; ``free_bytes`` are reused first.

    ``tables`` is empty where SQLite cannot tell.
    """

    path: Path
    total_bytes: int
    free_bytes: int
    tables: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize:
    """The databases of a state, their growth in bytes a day, and the free bytes of the disk.

    The growth is what a forecast takes on average, in ledger and evidence, times the forecasts of the last week.
    """

    databases: tuple[DatabaseSize, ...]
    forecasts: int
    bytes_per_day: float
    disk_free_bytes: int

    @property
    def days_until_full(self) -> float | None:
        """In how many days the disk is full, if nothing else fills it; None without growth."""
        return self.disk_free_bytes / self.bytes_per_day if self.bytes_per_day > 0 else None


def measure_state(ledger: Path, *, now: datetime) -> StateSize:
    """Measure the ledger, its evidence and its books; reads every page of them. Raises StoreError."""
    databases = tuple(_measure(path) for path in find_databases(ledger))
    with translate_errors(ledger), closing(open_reader(ledger)) as database:
        since = format_timestamp(now - GROWTH_PERIOD)
        ((recent,),) = database.execute(_RECENT_FORECASTS, [since]).fetchall()
        ((forecasts,),) = database.execute(_ALL_FORECASTS).fetchall()
    own = {ledger, evidence_path(ledger)}
    used = sum(one.total_bytes - one.free_bytes for one in databases if one.path in own)
    per_day = used / forecasts * recent / GROWTH_PERIOD.days if forecasts else 0.0
    return StateSize(
        databases=databases,
        forecasts=forecasts,
        bytes_per_day=per_day,
        disk_free_bytes=shutil.disk_usage(ledger.parent).free,
    )


def _measure(path: Path) -> DatabaseSize:
    with translate_errors(path), closing(open_reader(path)) as database:
        ((free,),) = database.execute(_FREE_BYTES).fetchall()
        try:
            tables = tuple((str(name), int(size)) for name, size in database.execute(_TABLE_BYTES).fetchall())
        except sqlite3.OperationalError:
            tables = ()
    return DatabaseSize(path=path, total_bytes=path.stat().st_size, free_bytes=free, tables=tables)
