import hashlib
import json
import sqlite3
from contextlib import closing
from operator import methodcaller
from pathlib import Path

import pytest

from bot.core.errors import MalformedDataError, NotFoundError
from bot.store.audit_log import (
    GENESIS_HASH,
    AuditHead,
    AuditRow,
    export_audit_head,
    read_exported_head,
    verify_audit_chain,
)
from tests.unit.store.conftest import NOON, LedgerFixture


def row(number: int, **changes: str) -> AuditRow:
    return AuditRow(at=NOON, kind="write", venue="lantern", actor="ann", body={"number": str(number), **changes})


async def written(ledger_fixture: LedgerFixture, count: int = 5) -> None:
    for number in range(1, count + 1):
        await ledger_fixture.ledger.permissions.write_with_audit(lambda _: None, row(number))


def tamper(path: Path, *statements: str) -> None:
    """Change the file as somebody would who knows SQL: the triggers are no hindrance to them."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("drop trigger if exists audit_is_not_changed")
        connection.execute("drop trigger if exists audit_is_not_shortened")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


async def test_a_chain_that_nobody_touched_is_whole(ledger_fixture: LedgerFixture) -> None:
    assert (await ledger_fixture.ledger.permissions.verify()).head == AuditHead()
    await written(ledger_fixture)
    verdict = await ledger_fixture.ledger.permissions.verify()
    assert (verdict.rows, verdict.sound, verdict.head.seq) == (5, True, 5)


async def test_each_row_holds_the_hash_of_the_one_before_and_can_be_recomputed_by_anybody(
    ledger_fixture: LedgerFixture,
) -> None:
    await written(ledger_fixture, 3)
    before = GENESIS_HASH
    names = ("seq", "at", "kind", "venue", "actor", "body", "previous")
    for *values, own in ledger_fixture.rows(
        "select seq, at, kind, venue, actor, body, previous, hash from audit order by seq"
    ):
        assert values[-1] == before
        plain = json.dumps(dict(zip(names, values, strict=True)), sort_keys=True, separators=(",", ":"))
        assert own == hashlib.sha256(plain.encode()).hexdigest()
        before = own


@pytest.mark.parametrize("bad", [1, 3, 5])
@pytest.mark.parametrize(
    "change",
    [
        'body = \'{"number":"9"}\'',
        "actor = 'bob'",
        "at = '2026-03-01T12:00:00.000001Z'",
        "venue = 'torch'",
        "kind = 'halt'",
    ],
)
async def test_a_row_that_was_changed_is_named(ledger_fixture: LedgerFixture, bad: int, change: str) -> None:
    await written(ledger_fixture)
    tamper(ledger_fixture.path, f"update audit set {change} where seq = {bad}")  # noqa: S608 - constants
    verdict = await ledger_fixture.ledger.permissions.verify()
    assert (verdict.first_bad_row, verdict.why) == (bad, f"row {bad} was changed after it was written")


async def test_a_row_that_was_changed_with_its_hash_shows_at_the_next_one(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture)
    tamper(ledger_fixture.path, "update audit set actor = 'bob', hash = upper(hash) where seq = 2")
    assert (await ledger_fixture.ledger.permissions.verify()).first_bad_row == 2


async def test_a_row_that_was_forged_with_the_right_hash_shows_at_the_next_one(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture)
    names = ("seq", "at", "kind", "venue", "actor", "body", "previous")
    [values] = ledger_fixture.rows("select seq, at, kind, venue, actor, body, previous from audit where seq = 2")
    forged = dict(zip(names, values, strict=True)) | {"actor": "bob"}
    own = hashlib.sha256(json.dumps(forged, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    tamper(ledger_fixture.path, f"update audit set actor = 'bob', hash = '{own}' where seq = 2")  # noqa: S608 - as above
    verdict = await ledger_fixture.ledger.permissions.verify()
    assert (verdict.first_bad_row, verdict.why) == (3, "row 3 does not follow from the row before it")


async def test_a_row_that_is_missing_is_named(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture)
    tamper(ledger_fixture.path, "delete from audit where seq = 3")
    verdict = await ledger_fixture.ledger.permissions.verify()
    assert (verdict.first_bad_row, verdict.why) == (3, "row 3 is missing: row 4 follows row 2")


async def test_a_tail_that_was_cut_off_is_found_by_the_head_alone(
    ledger_fixture: LedgerFixture, tmp_path: Path
) -> None:
    await written(ledger_fixture)
    head, file = await ledger_fixture.ledger.permissions.head(), tmp_path / "audit.head"
    export_audit_head(file, head, at=NOON)
    assert file.stat().st_mode & 0o077 == 0
    tamper(ledger_fixture.path, "delete from audit where seq >= 4")
    assert (await ledger_fixture.ledger.permissions.verify()).sound
    verdict = await ledger_fixture.ledger.permissions.verify(read_exported_head(file))
    assert verdict.first_bad_row == 4
    assert "its tail was cut off" in verdict.why


async def test_a_chain_that_was_written_anew_is_found_by_the_head(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture)
    head = await ledger_fixture.ledger.permissions.head()
    tamper(ledger_fixture.path, "delete from audit")
    for number in range(6):
        await ledger_fixture.ledger.permissions.write_with_audit(lambda _: None, row(number, forged="yes"))
    verdict = await ledger_fixture.ledger.permissions.verify(head)
    assert (verdict.first_bad_row, verdict.sound) == (5, False)


async def test_a_head_of_long_ago_is_held_by_a_longer_chain(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture, 2)
    head = await ledger_fixture.ledger.permissions.head()
    await written(ledger_fixture, 4)
    assert (await ledger_fixture.ledger.permissions.verify(head)).rows == 6


async def test_from_a_head_that_was_verified_on_only_what_is_newer_is_looked_at(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture, 3)
    since = await ledger_fixture.ledger.permissions.head()
    await written(ledger_fixture, 3)
    tamper(ledger_fixture.path, "update audit set actor = 'bob' where seq = 1")
    verdict = await ledger_fixture.ledger.permissions.read(lambda database: verify_audit_chain(database, since=since))
    assert (verdict.sound, verdict.rows, verdict.head.seq) == (True, 6, 6)
    tamper(ledger_fixture.path, "update audit set actor = 'bob' where seq = 5")
    verdict = await ledger_fixture.ledger.permissions.read(lambda database: verify_audit_chain(database, since=since))
    assert (verdict.first_bad_row, verdict.why) == (5, "row 5 was changed after it was written")


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("update audit set actor = 'bob' where seq = 3", "row 3 was changed after it was written"),
        ("update audit set hash = upper(hash) where seq = 3", "row 3 was changed after it was written"),
        ("delete from audit where seq >= 3", "row 3 is missing, but it was there before"),
    ],
)
async def test_the_head_that_was_verified_must_still_be_there(
    ledger_fixture: LedgerFixture, statement: str, why: str
) -> None:
    await written(ledger_fixture, 3)
    since = await ledger_fixture.ledger.permissions.head()
    tamper(ledger_fixture.path, statement)
    verdict = await ledger_fixture.ledger.permissions.read(lambda database: verify_audit_chain(database, since=since))
    assert (verdict.first_bad_row, verdict.why) == (3, why)


async def test_an_exported_head_is_looked_for_in_what_is_newer(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture, 2)
    since = await ledger_fixture.ledger.permissions.head()
    await written(ledger_fixture, 2)
    known = await ledger_fixture.ledger.permissions.head()
    found = await ledger_fixture.ledger.permissions.read(
        lambda database: verify_audit_chain(database, known, since=since)
    )
    assert (found.sound, found.head) == (True, known)
    tamper(ledger_fixture.path, "delete from audit where seq = 4")
    found = await ledger_fixture.ledger.permissions.read(
        lambda database: verify_audit_chain(database, known, since=since)
    )
    assert "its tail was cut off" in found.why


async def test_work_that_fails_leaves_no_row(ledger_fixture: LedgerFixture) -> None:
    def fail(_: object) -> None:
        message = "no"
        raise ValueError(message)

    with pytest.raises(ValueError, match="no"):
        await ledger_fixture.ledger.permissions.write_with_audit(fail, row(1))
    assert await ledger_fixture.ledger.permissions.head() == AuditHead()


async def test_the_table_itself_refuses_changes(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture, 1)
    for statement in ("update audit set actor = 'bob'", "delete from audit"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            await ledger_fixture.ledger.permissions.write(methodcaller("execute", statement))


async def test_the_newest_rows_come_first_and_can_be_chosen(ledger_fixture: LedgerFixture) -> None:
    await written(ledger_fixture, 3)
    halt = AuditRow(at=NOON, kind="halt", venue="", actor="bob", body={"reason": "odd \ud800"})
    await ledger_fixture.ledger.permissions.write_with_audit(lambda _: None, halt)
    assert [one.seq for one in await ledger_fixture.ledger.permissions.recent_audit_rows(limit=2)] == [4, 3]
    (found,) = await ledger_fixture.ledger.permissions.recent_audit_rows(limit=9, kind="halt")
    assert (found.actor, found.body["reason"]) == ("bob", "odd \ufffd")
    assert (await ledger_fixture.ledger.permissions.verify()).sound
    assert len(await ledger_fixture.ledger.permissions.recent_audit_rows(limit=9, venue="lantern")) == 3


def test_a_file_that_holds_no_head_says_so(tmp_path: Path) -> None:
    file = tmp_path / "audit.head"
    with pytest.raises(NotFoundError):
        read_exported_head(file)
    for content in (b"", b"{}", b'{"seq":"x","hash":"y"}', b"\xff"):
        file.write_bytes(content)
        with pytest.raises(MalformedDataError, match="is not an exported head"):
            read_exported_head(file)
