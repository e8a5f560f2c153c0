"""Invariants of any ledger, for every test that judges what a daemon leaves behind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from bot.core.ids import sha256_hex
from bot.execution.paper.accounting import find_faults
from bot.store.audit_log import verify_audit_chain
from bot.store.compression import decompress_bytes
from bot.store.database import open_reader
from bot.store.evidence import bundle_contents, evidence_path
from bot.store.evidence_checks import check_evidence
from bot.store.integrity_checks import INVARIANTS, run_full_check
from bot.store.ledger import LEDGER_FILE

Row = Mapping[str, Any]

CENT = 1e-6
_AUDITED = "select kind, body from audit where kind in ('write', 'answer', 'adopt')"
_BOOKED = """
select t.intent, t.state, coalesce(-sum(f.cash), 0) / 1e6 as paid, count(f.ticket) as fills
from ticket t left join fill f on f.ticket = t.seq group by t.seq
"""
_FILLED = """
select i.id, i.state, i.cost, coalesce(-sum(f.cash), 0) as paid, count(f.intent) as fills
from intent i left join fill f on f.intent = i.id
where i.action = 'order' and i.mode = 'paper' and i.venue = :venue group by i.id
"""


def read_rows(path: Path, sql: str, values: Mapping[str, object] | Sequence[object] | None = None) -> list[Row]:
    """Return the rows by the names of their columns."""
    if (at_rest := _AT_REST.get()) is not None:
        return at_rest.read_rows(path, sql, values or ())
    with closing(sqlite3.connect(path)) as database:
        return _select_rows(database, sql, values or ())


@contextmanager
def nothing_is_written() -> Iterator[None]:
    """While entered, open each database once, and read what is asked for twice once: many rules ask so for each row."""
    with ExitStack() as opened:
        token = _AT_REST.set(_RestingDatabases(opened))
        try:
            yield
        finally:
            _AT_REST.reset(token)


class _RestingDatabases:
    """Databases that nobody writes to any more, and what was read of them."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._databases: dict[Path, sqlite3.Connection] = {}
        self._read: dict[Hashable, list[Row]] = {}

    def read_rows(self, path: Path, sql: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
        """Return the rows, the same list to all who ask for them."""
        # What the query does not name says nothing.
        used = [*values.items()] if isinstance(values, Mapping) else [*enumerate(values)]
        asked = (path, sql, tuple((name, value) for name, value in used if f":{name}" in sql or isinstance(name, int)))
        if asked not in self._read:
            if path not in self._databases:
                self._databases[path] = self._opened.enter_context(closing(sqlite3.connect(path)))
            self._read[asked] = _select_rows(self._databases[path], sql, values)
        return self._read[asked]


_AT_REST: ContextVar[_RestingDatabases | None] = ContextVar("databases at rest", default=None)


def _select_rows(database: sqlite3.Connection, sql: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
    database.row_factory = sqlite3.Row
    return [dict(row) for row in database.execute(sql, values)]


def integrity_faults(ledger: Path) -> Iterator[str]:
    """Check the file, its rules, and the chain of the audit."""
    for name, health in (("ledger", run_full_check(ledger, INVARIANTS)), ("evidence", check_evidence(ledger))):
        yield from (f"{name}: {one.check}: {one.meaning} {one.examples}" for one in health.problems)
    with closing(open_reader(ledger)) as database:
        verdict = verify_audit_chain(database)
    if not verdict.sound:
        yield f"I7: {verdict.why}"


def unanswered_writes(ledger: Path) -> Iterator[str]:
    """Check that the audit has an answer to each write in it, and no other answers."""
    bodies = [(row["kind"], json.loads(row["body"])["intent"]) for row in read_rows(ledger, _AUDITED)]
    asked = {intent for kind, intent in bodies if kind == "write"}
    if lost := asked - {intent for kind, intent in bodies if kind != "write"}:
        yield f"I7: no answer in the audit to {sorted(lost)}"
    if strange := {intent for kind, intent in bodies if kind == "answer"} - asked:
        yield f"I7: an answer in the audit to what was not written: {sorted(strange)}"


def files_with_secrets(folder: Path, secrets: Iterable[str]) -> Iterator[str]:
    """Yield the files below a folder that have a secret, and documents of its ledgers, which are packed there."""
    canaries = [secret.encode() for secret in secrets]
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            if any(canary in raw for canary in canaries):
                yield f"I8: a secret is in {path.relative_to(folder)}"
    for ledger in sorted(folder.rglob(LEDGER_FILE)):
        for digest, content in _documents(ledger):
            if any(canary in content for canary in canaries):
                yield f"I8: a secret is in the document {digest} of {ledger.relative_to(folder)}"


def _documents(ledger: Path) -> Iterator[tuple[str, bytes]]:
    # Read only: what a kill has left next to the file stays as it is.
    with closing(open_reader(ledger)) as database:
        if database["document"].exists():
            for digest, packed in database.execute("select digest, packed from document"):
                yield digest, decompress_bytes(packed)
    if evidence_path(ledger).exists():
        yield from _evidence(evidence_path(ledger))


def _evidence(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(open_reader(path)) as database:
        for codec, packed in database.execute("select codec, packed from bundle"):
            yield from ((sha256_hex(content), content) for content in bundle_contents(codec, packed))


def copy_databases(ledger: Path, target: Path) -> None:
    """Copy what is durable now of a ledger and its evidence, in this order, while both are in use."""
    for source, copy in ((ledger, target), (evidence_path(ledger), evidence_path(target))):
        with closing(sqlite3.connect(source)) as database:
            database.execute("vacuum into ?", [str(copy)])


def paper_book_faults(book: Path, ledger: Path, venue: str) -> Iterator[str]:
    """Check that a paper book agrees with itself, and the ledger's orders at the venue with the book."""
    with closing(open_reader(book)) as database:
        yield from (f"the paper book of {venue}: {fault}" for fault in find_faults(database))
    tickets = {row["intent"]: row for row in read_rows(book, _BOOKED)}
    for row in read_rows(ledger, _FILLED, {"venue": venue}):
        if row["state"] in {"acked", "refused", "superseded"}:
            yield from _order_differences(row, tickets.get(row["id"], {"paid": 0.0, "fills": 0, "state": "not there"}))


def _order_differences(row: Row, ticket: Row) -> Iterator[str]:
    name, resting = row["id"], ticket["state"] == "resting"
    # What was filled since the last reading comes with the next one.
    if row["fills"] > ticket["fills"] or (row["fills"] < ticket["fills"] and not resting):
        yield f"paper fills of {name}: {row['fills']} on record, {ticket['fills']} in the book"
    if abs(row["paid"] - ticket["paid"]) > CENT and not resting:
        yield f"paper payments of {name}: {row['paid']} on record, {ticket['paid']} in the book"
