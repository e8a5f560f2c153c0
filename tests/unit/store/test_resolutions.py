import math
from datetime import timedelta

from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, Resolution, VoidOutcome
from bot.core.questions import QuestionRef, Target
from bot.store.questions import UpsertResult
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)


def happened(value: float, *, days: int = 1, target: str = "outcome") -> Resolution:
    ref = QuestionRef("lantern", "rain")
    return Resolution(ref=ref, target=target, outcome=BinaryOutcome(value), resolved_at=NOON + days * DAY)


async def test_an_outcome_seen_again_adds_nothing(scribe: LedgerFixture) -> None:
    await scribe.ask()
    record = scribe.ledger.resolutions.record
    assert await record([happened(1.0)], seen_at=NOON) == UpsertResult(new=1)
    assert await record([happened(1.0)], seen_at=NOON + DAY) == UpsertResult(same=1)
    assert scribe.rows("select value, seen_at from resolution") == [(1.0, "2026-03-01T12:00:00.000000Z")]


async def test_a_corrected_outcome_is_kept_beside_the_old_one_and_takes_its_place(scribe: LedgerFixture) -> None:
    await scribe.ask()
    record, ref = scribe.ledger.resolutions.record, QuestionRef("lantern", "rain")
    await record([happened(1.0)], seen_at=NOON)
    assert await record([happened(0.0)], seen_at=NOON + DAY) == UpsertResult(changed=1)
    assert await scribe.ledger.resolutions.current(ref) == (happened(0.0),)
    assert await scribe.ledger.resolutions.history(ref) == (happened(1.0), happened(0.0))
    assert await record([happened(1.0)], seen_at=NOON + 2 * DAY) == UpsertResult(changed=1)
    assert scribe.rows("select value from current_resolution") == [(1.0,)]


async def test_another_moment_is_a_correction_too(scribe: LedgerFixture) -> None:
    await scribe.ask()
    await scribe.ledger.resolutions.record([happened(1.0)], seen_at=NOON)
    assert await scribe.ledger.resolutions.record([happened(1.0, days=2)], seen_at=NOON) == UpsertResult(changed=1)


async def test_every_kind_of_outcome_is_kept(scribe: LedgerFixture) -> None:
    outcomes: dict[str, Outcome] = {
        "a": BinaryOutcome(0.5),
        "b": ChoiceOutcome("x"),
        "c": NumericOutcome(math.inf),
        "d": VoidOutcome("withdrawn"),
    }
    question = await scribe.ask(targets=tuple(Target(key=key) for key in outcomes))
    given = tuple(
        Resolution(ref=question.ref, target=key, outcome=outcome, resolved_at=NOON) for key, outcome in outcomes.items()
    )
    await scribe.ledger.resolutions.record(given, seen_at=NOON)
    assert await scribe.ledger.resolutions.current(question.ref) == given
    assert scribe.rows("select kind, value from current_resolution order by target") == [
        ("happened", 0.5),
        ("chosen", None),
        ("landed", math.inf),
        ("void", None),
    ]


async def test_outcomes_of_unknown_questions_and_targets_are_named_and_left_out(scribe: LedgerFixture) -> None:
    await scribe.ask()
    stray = Resolution(ref=QuestionRef("lantern", "x"), target="outcome", outcome=BinaryOutcome(1.0), resolved_at=NOON)
    recorded = await scribe.ledger.resolutions.record([stray, happened(1.0, target="odd"), happened(1.0)], seen_at=NOON)
    assert recorded == UpsertResult(new=1, unknown=("lantern:x outcome", "lantern:rain odd"))


async def test_an_outcome_of_a_target_of_an_older_version_is_kept(scribe: LedgerFixture) -> None:
    await scribe.ask(targets=(Target(key="june"),))
    await scribe.ask(targets=(Target(key="july"),))
    assert await scribe.ledger.resolutions.record([happened(1.0, target="june")], seen_at=NOON) == UpsertResult(new=1)


async def test_the_last_of_several_outcomes_in_one_go_is_in_force(scribe: LedgerFixture) -> None:
    await scribe.ask()
    await scribe.ledger.resolutions.record([happened(1.0), happened(0.0)], seen_at=NOON)
    assert await scribe.ledger.resolutions.current(QuestionRef("lantern", "rain")) == (happened(0.0),)
