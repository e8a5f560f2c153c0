"""Export a ledger and its evidence as JSON lines."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.backups import copy_database
from bot.store.database import open_reader, translate_errors
from bot.store.evidence import evidence_path, unpack_bundle
from bot.store.private_files import create_private_file

_RELATIONS = """
select name, type from pragma_table_list
where schema = 'main' and type in ('table', 'view') and name not glob 'sqlite_*' and name not glob '_*'
order by name
"""
# The documents of the evidence are written with their content, not as the bundles that hold it.
EVIDENCE_EXPORTS = frozenset({"evidence_document", "recording", "step"})
SECRET_COLUMNS = frozenset({("principal", "salt"), ("principal", "hash")})
_COLUMNS = "select name, pk from pragma_table_info(?) order by cid"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """One file of the export; ``kind`` is ``table`` or ``view``."""

    name: str
    kind: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportManifest:
    """The content of ``manifest.json`` in the folder."""

    ledger: str
    made_at: str
    files: tuple[ExportedFile, ...]


def export_ledger(path: Path, folder: Path, *, at: datetime, without: Collection[str] = ()) -> ExportManifest:
    """Write every table and view of the ledger and its evidence except ``without`` to ``<name>.jsonl`` in a new folder.

    Rows are ordered by primary key, rows of views by all columns, documents as they are stored; bytes are written as
    ``{"base64": ...}``, and hashes of access tokens are left out. The folder gets its name when it is complete. Memory
    use does not grow with the ledger. Raises StoreError for an existing folder, an unknown name in ``without``, a
    number that JSON lacks, and a disk without room.
    """
    if folder.exists():
        message = f"{folder} exists already; name a new folder"
        raise StoreError(message)
    partial = folder.with_name(f".{folder.name}.partial")
    copy = partial / "copy.db"
    with translate_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(mode=0o700)
            copy_database(path, copy)
            files = (*_export_tables(copy, partial, without), *_export_evidence(path, partial, without))
            manifest = ExportManifest(ledger=path.name, made_at=at.isoformat(), files=files)
            copy.unlink()
            text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
            create_private_file(partial / "manifest.json")
            (partial / "manifest.json").write_text(f"{text}\n", encoding="utf-8")
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _export_tables(copy: Path, folder: Path, without: Collection[str]) -> tuple[ExportedFile, ...]:
    with closing(open_reader(copy)) as database:
        # Ordering a large view in memory would take as much memory as the view.
        database.conn.execute("pragma temp_store = file")
        relations = {str(name): str(kind) for name, kind in database.conn.execute(_RELATIONS)}
        unknown = sorted(set(without) - relations.keys() - EVIDENCE_EXPORTS)
        if unknown:
            message = f"no table or view {', '.join(unknown)}; there are {', '.join(relations)}"
            raise StoreError(message)
        return tuple(
            _export_table(database, folder, name, kind) for name, kind in relations.items() if name not in without
        )


def _export_evidence(ledger: Path, folder: Path, without: Collection[str]) -> Iterator[ExportedFile]:
    path = evidence_path(ledger)
    if not path.exists():
        return
    # Not copied first, because it is large: one snapshot, during which its write-ahead log grows.
    with closing(open_reader(path)) as database:
        database.conn.execute("pragma temp_store = file")
        database.conn.execute("begin")
        for name in sorted(EVIDENCE_EXPORTS - set(without)):
            lines = _document_lines(database) if name == "evidence_document" else _table_lines(database, name)
            yield _write_lines(folder, name, "table", lines)


def _document_lines(database: Database) -> Iterator[bytes]:
    for scope, *bundle in database.conn.execute("select scope, id, codec, documents, packed from bundle order by id"):
        for digest, media_type, raw in unpack_bundle(*bundle):
            try:
                content: object = raw.decode()
            except UnicodeDecodeError:
                content = raw
            row = {"scope": scope, "digest": digest, "media_type": media_type, "content": content}
            yield _json_line(row, "evidence_document")


def _export_table(database: Database, folder: Path, name: str, kind: str) -> ExportedFile:
    return _write_lines(folder, name, kind, _table_lines(database, name))


def _write_lines(folder: Path, name: str, kind: str, lines: Iterable[bytes]) -> ExportedFile:
    seen = hashlib.sha256()
    rows = 0
    path = folder / f"{name}.jsonl"
    create_private_file(path)
    with path.open("wb") as file:
        for line in lines:
            file.write(line)
            seen.update(line)
            rows += 1
    return ExportedFile(name=name, kind=kind, rows=rows, sha256=seen.hexdigest())


def _table_lines(database: Database, name: str) -> Iterator[bytes]:
    columns = [(str(column), int(key)) for column, key in database.conn.execute(_COLUMNS, [name])]
    keys = [column for column, key in sorted(columns, key=lambda column: column[1]) if key]
    order = ", ".join(_quote_identifier(column) for column in keys or [column for column, _ in columns])
    names = [column for column, _ in columns if (name, column) not in SECRET_COLUMNS]
    selected = ", ".join(_quote_identifier(column) for column in names)
    statement = f"select {selected} from {_quote_identifier(name)} order by {order}"  # noqa: S608 - names of the database itself
    for row in database.conn.execute(statement):
        yield _json_line(dict(zip(names, row, strict=True)), name)


def _json_line(row: dict[str, object], table: str) -> bytes:
    try:
        text = json.dumps(row, default=_encode_bytes, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        message = f"{table}: JSON has no number for a value in the row of {next(iter(row.values()))!r}"
        raise StoreError(message) from error
    return f"{text}\n".encode()


def _encode_bytes(value: bytes) -> dict[str, str]:
    # Bytes are the one kind of SQLite value that JSON lacks.
    return {"base64": base64.b64encode(value).decode("ascii")}


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
