from datetime import timedelta

from bot.store.exchanges import ExchangeKey
from bot.store.scopes import ref_of, scopes_with, trials_in
from tests.unit.store.conftest import NOON, Scribe

TOOL, MODEL = ExchangeKey("tool", "aa"), ExchangeKey("model", "bb")


async def test_scopes_are_found_by_what_was_used_in_them_and_when(scribe: Scribe) -> None:
    told = ((TOOL, "f1", 0), (TOOL, "f1", 5), (MODEL, "f2", 9), (TOOL, "a backtest", 7))
    for number, (key, scope, hours) in enumerate(told, 1):
        await scribe.ledger.exchanges.add(scope, number, key, f'"{hours}"', at=NOON + timedelta(hours=hours))
    assert await scopes_with(scribe.ledger, "tool") == ["a backtest", "f1"]
    assert await scopes_with(scribe.ledger, "model") == ["f2"]
    assert await scopes_with(scribe.ledger, "page") == []
    assert await scopes_with(scribe.ledger, "tool", since=NOON + timedelta(hours=5)) == ["a backtest", "f1"]
    assert await scopes_with(scribe.ledger, "tool", since=NOON + timedelta(hours=6)) == ["a backtest"]


async def test_the_trials_of_a_scope_come_once_each_and_in_order(scribe: Scribe) -> None:
    for scope, trial, key in (("f1", 10, TOOL), ("f1", 2, TOOL), ("f1", 2, MODEL), ("f2", 3, TOOL)):
        await scribe.ledger.exchanges.add(scope, trial, key, '"told"', at=NOON)
    assert await trials_in(scribe.ledger, "f1") == [2, 10]
    assert await trials_in(scribe.ledger, "f3") == []


async def test_a_scope_without_a_forecast_is_known_by_what_its_calls_were_charged_to(scribe: Scribe) -> None:
    reservation = scribe.reservation()
    await scribe.ledger.calls.reserve(reservation)
    assert await ref_of(scribe.ledger, reservation.charge.scope) == reservation.charge.ref
    assert await ref_of(scribe.ledger, "nobody asked") is None
