from datetime import timedelta

from bot.store.forecast_queries import find_scope_question, list_scope_trials, list_scopes
from bot.store.trials import RecordingKey
from tests.unit.store.conftest import NOON, LedgerFixture

TOOL, MODEL = RecordingKey("tool", "aa"), RecordingKey("model", "bb")


async def test_scopes_are_found_by_what_was_used_in_them_and_when(ledger_fixture: LedgerFixture) -> None:
    told = ((TOOL, "f1", 0), (TOOL, "f1", 5), (MODEL, "f2", 9), (TOOL, "a backtest", 7))
    for number, (key, scope, hours) in enumerate(told, 1):
        await ledger_fixture.ledger.recordings.add(scope, number, key, f'"{hours}"', at=NOON + timedelta(hours=hours))
    assert await list_scopes(ledger_fixture.ledger, "tool") == ["a backtest", "f1"]
    assert await list_scopes(ledger_fixture.ledger, "model") == ["f2"]
    assert await list_scopes(ledger_fixture.ledger, "page") == []
    assert await list_scopes(ledger_fixture.ledger, "tool", since=NOON + timedelta(hours=5)) == ["a backtest", "f1"]
    assert await list_scopes(ledger_fixture.ledger, "tool", since=NOON + timedelta(hours=6)) == ["a backtest"]


async def test_the_trials_of_a_scope_come_once_each_and_in_order(ledger_fixture: LedgerFixture) -> None:
    for scope, trial, key in (("f1", 10, TOOL), ("f1", 2, TOOL), ("f1", 2, MODEL), ("f2", 3, TOOL)):
        await ledger_fixture.ledger.recordings.add(scope, trial, key, '"told"', at=NOON)
    assert await list_scope_trials(ledger_fixture.ledger, "f1") == [2, 10]
    assert await list_scope_trials(ledger_fixture.ledger, "f3") == []


async def test_a_scope_without_a_forecast_is_known_by_what_its_calls_were_charged_to(
    ledger_fixture: LedgerFixture,
) -> None:
    reservation = ledger_fixture.reservation()
    await ledger_fixture.ledger.calls.reserve(reservation)
    assert await find_scope_question(ledger_fixture.ledger, reservation.charge.scope) == reservation.charge.ref
    assert await find_scope_question(ledger_fixture.ledger, "nobody asked") is None
