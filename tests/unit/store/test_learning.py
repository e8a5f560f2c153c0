from datetime import timedelta

import pytest

from bot.core.errors import NotFoundError
from bot.core.learning import FittedParameters
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)


def fitted(days: int, *, examples: int = 10, forecaster: str = "plain") -> FittedParameters:
    return FittedParameters(
        forecaster=forecaster,
        before=NOON + days * DAY,
        examples=examples,
        payload={"slopes": {"market": [1.1, 0.9]}, "note": None},
        provenance={"rounds": "3"},
    )


async def test_parameters_are_known_by_their_content(ledger_fixture: LedgerFixture) -> None:
    learning = ledger_fixture.ledger.learning
    digest = await learning.record(fitted(0), NOON)
    assert await learning.record(fitted(0), NOON + DAY) == digest
    assert await learning.get(digest) == fitted(0)
    (row,) = await learning.rows()
    assert (row.digest, row.forecaster, row.before, row.examples, row.at) == (digest, "plain", NOON, 10, NOON)


async def test_the_newest_parameters_are_those_learned_last_before_the_cutoff(ledger_fixture: LedgerFixture) -> None:
    learning = ledger_fixture.ledger.learning
    digests = {day: await learning.record(fitted(day), NOON) for day in (0, 10, 20)}
    await learning.record(fitted(15, forecaster="other"), NOON)
    assert await learning.newest("plain", NOON - DAY) is None
    assert await learning.newest("plain", NOON) == (digests[0], fitted(0))
    assert await learning.newest("plain", NOON + 19 * DAY) == (digests[10], fitted(10))
    assert await learning.newest("plain", NOON + 99 * DAY) == (digests[20], fitted(20))


async def test_of_two_of_the_same_day_the_one_with_more_examples_is_used(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.learning.record(fitted(0, examples=20), NOON)
    await ledger_fixture.ledger.learning.record(fitted(0, examples=10), NOON)
    newest = await ledger_fixture.ledger.learning.newest("plain", NOON)
    assert newest is not None
    assert newest[1].examples == 20


async def test_unknown_parameters_are_not_found(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.learning.get("0" * 64)
