import math
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, Resolution, VoidOutcome
from bot.core.questions import QuestionRef, Target
from bot.store.ledger import open_ledger
from bot.store.questions import QuestionFilter, QuestionState, UpsertResult
from bot.store.schema_views import REPLACED_TRIGGERS, TRIGGERS
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)


def happened(value: float, *, days: int = 1, target: str = "outcome") -> Resolution:
    ref = QuestionRef("lantern", "rain")
    return Resolution(ref=ref, target=target, outcome=BinaryOutcome(value), resolved_at=NOON + days * DAY)


async def test_an_outcome_seen_again_adds_nothing(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask()
    record = ledger_fixture.ledger.resolutions.record
    assert await record([happened(1.0)], seen_at=NOON) == UpsertResult(new=1)
    assert await record([happened(1.0)], seen_at=NOON + DAY) == UpsertResult(same=1)
    assert ledger_fixture.rows("select value, seen_at from resolution") == [(1.0, "2026-03-01T12:00:00.000000Z")]


async def test_a_corrected_outcome_is_kept_beside_the_old_one_and_takes_its_place(
    ledger_fixture: LedgerFixture,
) -> None:
    await ledger_fixture.ask()
    record, ref = ledger_fixture.ledger.resolutions.record, QuestionRef("lantern", "rain")
    await record([happened(1.0)], seen_at=NOON)
    assert await record([happened(0.0)], seen_at=NOON + DAY) == UpsertResult(changed=1)
    assert await ledger_fixture.ledger.resolutions.current(ref) == (happened(0.0),)
    assert await ledger_fixture.ledger.resolutions.history(ref) == (happened(1.0), happened(0.0))
    assert await record([happened(1.0)], seen_at=NOON + 2 * DAY) == UpsertResult(changed=1)
    assert ledger_fixture.rows("select value from current_resolution") == [(1.0,)]


async def test_another_moment_is_a_correction_too(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask()
    await ledger_fixture.ledger.resolutions.record([happened(1.0)], seen_at=NOON)
    assert await ledger_fixture.ledger.resolutions.record([happened(1.0, days=2)], seen_at=NOON) == UpsertResult(
        changed=1
    )


async def test_an_outcome_that_is_known_is_not_known_since_later(ledger_fixture: LedgerFixture) -> None:
    """A reader whose venue gives no time has the time of each reading."""
    await ledger_fixture.ask()
    record = ledger_fixture.ledger.resolutions.record
    await record([happened(1.0, days=1)], seen_at=NOON + DAY)
    for days in (2, 3):
        assert await record([happened(1.0, days=days)], seen_at=NOON + days * DAY) == UpsertResult(same=1)
    # An earlier time may be true, and so may another outcome.
    assert await record([happened(1.0, days=0)], seen_at=NOON + 4 * DAY) == UpsertResult(changed=1)
    assert await record([happened(0.0, days=5)], seen_at=NOON + 5 * DAY) == UpsertResult(changed=1)


async def test_every_kind_of_outcome_is_kept(ledger_fixture: LedgerFixture) -> None:
    outcomes: dict[str, Outcome] = {
        "a": BinaryOutcome(0.5),
        "b": ChoiceOutcome("x"),
        "c": NumericOutcome(math.inf),
        "d": VoidOutcome("withdrawn"),
    }
    question = await ledger_fixture.ask(targets=tuple(Target(key=key) for key in outcomes))
    given = tuple(
        Resolution(ref=question.ref, target=key, outcome=outcome, resolved_at=NOON) for key, outcome in outcomes.items()
    )
    await ledger_fixture.ledger.resolutions.record(given, seen_at=NOON)
    assert await ledger_fixture.ledger.resolutions.current(question.ref) == given
    assert ledger_fixture.rows("select kind, value from current_resolution order by target") == [
        ("happened", 0.5),
        ("chosen", None),
        ("landed", math.inf),
        ("void", None),
    ]


async def test_outcomes_of_unknown_questions_and_targets_are_named_and_left_out(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask()
    stray = Resolution(ref=QuestionRef("lantern", "x"), target="outcome", outcome=BinaryOutcome(1.0), resolved_at=NOON)
    recorded = await ledger_fixture.ledger.resolutions.record(
        [stray, happened(1.0, target="odd"), happened(1.0)], seen_at=NOON
    )
    assert recorded == UpsertResult(new=1, unknown=("lantern:x outcome", "lantern:rain odd"))


async def test_an_outcome_of_a_target_of_an_older_version_is_kept(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask(targets=(Target(key="june"),))
    await ledger_fixture.ask(targets=(Target(key="july"),))
    assert await ledger_fixture.ledger.resolutions.record([happened(1.0, target="june")], seen_at=NOON) == UpsertResult(
        new=1
    )


async def test_the_last_of_several_outcomes_in_one_go_is_in_force(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask()
    await ledger_fixture.ledger.resolutions.record([happened(1.0), happened(0.0)], seen_at=NOON)
    assert await ledger_fixture.ledger.resolutions.current(QuestionRef("lantern", "rain")) == (happened(0.0),)


def copy_as_older_ledger(path: Path, older: Path) -> None:
    """Copy a ledger as it was before questions had the mark."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(older)) as copy:
        source.backup(copy)
        found = copy.execute("select name from sqlite_schema where type = 'trigger' and sql like '%resolved%'")
        for (name,) in found.fetchall():
            copy.execute(f"drop trigger {name}")
        copy.execute("drop index question_unresolved")
        copy.execute("alter table question drop column resolved")
        for trigger in TRIGGERS:
            if any(name in trigger for name in REPLACED_TRIGGERS):
                copy.execute(trigger)
        for table in ("_sqlite_migrations", "_migration_checksum"):
            copy.execute(f"delete from {table} where name = '0007_resolved_questions'")  # noqa: S608 - names of ours
        copy.commit()


async def test_an_older_ledger_learns_which_questions_are_resolved(
    ledger_fixture: LedgerFixture, tmp_path: Path
) -> None:
    names = ("open", "partly", "resolved", "withdrawn", "again open")
    asked = {name: await ledger_fixture.ask(name, targets=(Target(key="a"), Target(key="b"))) for name in names}
    for name in ("partly", "resolved", "withdrawn", "again open"):
        forecast = await ledger_fixture.forecast(asked[name])
        await ledger_fixture.ledger.submissions.decide(
            forecast_id=forecast.id, decision=ledger_fixture.order(forecast), at=NOON
        )
        await ledger_fixture.resolve(asked[name], 1.0, target="a")
    for name in ("resolved", "withdrawn", "again open"):
        await ledger_fixture.resolve(asked[name], 0.0, target="b")
    withdrawn = VoidOutcome("withdrawn")
    record = ledger_fixture.ledger.resolutions.record
    await record(
        [Resolution(ref=asked["withdrawn"].ref, target="b", outcome=withdrawn, resolved_at=NOON)], seen_at=NOON
    )
    changed = ledger_fixture.question("again open", targets=(Target(key="a"), Target(key="c")))
    await ledger_fixture.ledger.questions.record([changed], seen_at=NOON)
    marks = "select ref, question_resolved from intent order by ref"
    older = tmp_path / "older" / "ledger.sqlite"
    older.parent.mkdir(mode=0o700)
    copy_as_older_ledger(ledger_fixture.path, older)
    async with open_ledger(older, now=NOON) as ledger:
        filled = LedgerFixture(ledger, older)
        assert filled.faults() == ledger_fixture.faults() == {}
        assert filled.rows(marks) == ledger_fixture.rows(marks)
        assert {ref for ref, is_resolved in filled.rows(marks) if is_resolved} == {"lantern:resolved"}
        later = NOON + 400 * DAY
        for state, expected in (
            (QuestionState.RESOLVED, {"resolved"}),
            (QuestionState.CLOSED, {*names} - {"resolved"}),
        ):
            rows = await ledger.questions.rows(QuestionFilter(state=state), now=later)
            assert {row.ref.key for row in rows} == expected
