"""The ledger as files: one line of JSON for each row, in an order that does not change; for their owner alone.

What proves who may let something leave is left out: who has it could do so.

The rows come from a private copy, so that all tables are of one moment and a long export does not hold up the ledger.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from sqlite_utils import Database

from bot.errors import StoreError
from bot.store.backup import snapshot
from bot.store.database import make_private, open_reader, translated

_RELATIONS = """
select name, type from pragma_table_list
where schema = 'main' and type in ('table', 'view') and name not glob 'sqlite_*' and name not glob '_*'
order by name
"""
SECRET = frozenset({("principal", "salt"), ("principal", "hash")})
_COLUMNS = "select name, pk from pragma_table_info(?) order by cid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One file of the export; ``kind`` is ``table`` or ``view``."""

    name: str
    kind: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What ``manifest.json`` in the folder says."""

    ledger: str
    made_at: str
    files: tuple[Exported, ...]


def export(path: Path, folder: Path, *, at: datetime, without: Collection[str] = ()) -> Manifest:
    """Write every table and view of the ledger but those in ``without`` to ``<name>.jsonl`` in a new folder.

    Rows are ordered by primary key, those of views by all columns; bytes come as ``{"base64": ...}``. The folder gets
    its name when it is complete. Memory does not grow with the ledger. Raises StoreError for a folder that exists, a
    name in ``without`` that is no table or view, a number that JSON does not have, and a disk without room.
    """
    if folder.exists():
        message = f"{folder} exists already; name a new folder"
        raise StoreError(message)
    partial = folder.with_name(f".{folder.name}.partial")
    copy = partial / "copy.db"
    with translated(folder):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(mode=0o700)
            snapshot(path, copy)
            manifest = Manifest(ledger=path.name, made_at=at.isoformat(), files=_export_all(copy, partial, without))
            copy.unlink()
            text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
            make_private(partial / "manifest.json")
            (partial / "manifest.json").write_text(f"{text}\n", encoding="utf-8")
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _export_all(copy: Path, folder: Path, without: Collection[str]) -> tuple[Exported, ...]:
    with closing(open_reader(copy)) as database:
        # Ordering a large view in memory would take as much memory as the view.
        database.conn.execute("pragma temp_store = file")
        relations = {str(name): str(kind) for name, kind in database.conn.execute(_RELATIONS)}
        unknown = sorted(set(without) - relations.keys())
        if unknown:
            message = f"no table or view {', '.join(unknown)}; there are {', '.join(relations)}"
            raise StoreError(message)
        return tuple(
            _export_one(database, folder, name, kind) for name, kind in relations.items() if name not in without
        )


def _export_one(database: Database, folder: Path, name: str, kind: str) -> Exported:
    seen = hashlib.sha256()
    rows = 0
    path = folder / f"{name}.jsonl"
    make_private(path)
    with path.open("wb") as file:
        for line in _lines(database, name):
            file.write(line)
            seen.update(line)
            rows += 1
    return Exported(name=name, kind=kind, rows=rows, sha256=seen.hexdigest())


def _lines(database: Database, name: str) -> Iterator[bytes]:
    columns = [(str(column), int(key)) for column, key in database.conn.execute(_COLUMNS, [name])]
    keys = [column for column, key in sorted(columns, key=lambda column: column[1]) if key]
    order = ", ".join(_quoted(column) for column in keys or [column for column, _ in columns])
    names = [column for column, _ in columns if (name, column) not in SECRET]
    selected = ", ".join(_quoted(column) for column in names)
    statement = f"select {selected} from {_quoted(name)} order by {order}"  # noqa: S608 - names of the database itself
    for row in database.conn.execute(statement):
        yield _line(dict(zip(names, row, strict=True)), name)


def _line(row: dict[str, object], table: str) -> bytes:
    try:
        text = json.dumps(row, default=_encoded, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        message = f"{table}: JSON has no number for what is in the row of {next(iter(row.values()))!r}"
        raise StoreError(message) from error
    return f"{text}\n".encode()


def _encoded(value: bytes) -> dict[str, str]:
    # SQLite has five kinds of value; this is the one that JSON has not.
    return {"base64": base64.b64encode(value).decode("ascii")}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
