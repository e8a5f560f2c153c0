import re
import sqlite3
from typing import Any

import pytest
from sqlite_utils import Database

from bot.store import cap_usage, model_calls
from bot.store.schema import MIGRATIONS
from tests.unit.store.conftest import LedgerFixture


def test_every_table_is_strict() -> None:
    database = Database(memory=True)
    MIGRATIONS.apply(database)
    loose = [
        name
        for name, kind, strict in database.execute("select name, type, strict from pragma_table_list")
        if kind == "table" and not strict and not name.startswith(("sqlite_", "_sqlite_"))
    ]
    assert loose == []


@pytest.mark.parametrize("column", ["probability", "raw_probability"])
@pytest.mark.parametrize("value", [1.0000001, -1e-9, float("nan"), "half"])
async def test_the_file_itself_refuses_what_is_no_probability(
    ledger_fixture: LedgerFixture, column: str, value: Any
) -> None:
    await ledger_fixture.forecast(await ledger_fixture.ask())
    connection = sqlite3.connect(ledger_fixture.path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"update prediction set {column} = ?", [value])  # noqa: S608 - a name of ours
    connection.close()


async def test_the_views_are_readable_with_plain_sqlite(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    forecast = await ledger_fixture.forecast(question, 0.3)
    await ledger_fixture.resolve(question, 1.0)
    assert ledger_fixture.rows("select ref, forecaster, revision from latest_forecast") == [
        ("lantern:rain", "plain", 1)
    ]
    assert ledger_fixture.rows("select ref, target, value from current_resolution") == [
        ("lantern:rain", "outcome", 1.0)
    ]
    assert ledger_fixture.rows("select * from scored") == []
    assert ledger_fixture.rows("select target, probability from prediction") == [("outcome", 0.3)]
    assert forecast.revision == 1


# Queries that run often or over many rows, and the index each must use.
PLANS = {
    "select id from forecast where state = 'done' and decided_at is null order by made_at, id": "forecast_undecided",
    "select id from forecast where state = 'done' order by made_at desc, id desc": "forecast_recent",
    "select max(id) from price where ref = 'x'": "price_by_question",
    "select 1 from schedule where owner is null and due_at is not null and due_at <= 'x'": "schedule_by_due",
    "select 1 from schedule where leased_until <= 'x' and owner is not null": "schedule_leased",
    "select 1 from schedule where window = 'open' and closes_at <= 'x'": "schedule_window",
    "select 1 from intent where state = 'sending'": "intent_by_state",
    "select 1 from resolution where ref = 'x' and target = 'y' and id > 3": "resolution_by_target",
    "select 1 from prediction where ref = 'x' and target = 'y'": "prediction_by_target",
    "select 1 from prediction where scored_against is null order by ref, target": "prediction_unscored",
    "select 1 from question where venue = 'x' and batch = 'y'": "question_by_batch",
    model_calls.RECORDED_ANSWER.replace("?", "'x'"): "model_call_answered",
    "select 1 from model_call where state = 'reserved'": "model_call_reserved",
    model_calls.SPENDING_OF_SCOPE.replace("?", "'x'"): "model_call_by_scope",
    "select 1 from model_call where at >= '2026' order by at": "model_call_by_time",
    "select 1 from model_call where forecaster = 'x' order by at desc limit 9": "model_call_by_forecaster",
    "select 1 from model_performance where model = 'x' and at > '2026' order by at desc, id desc": (
        "model_performance_by_model"
    ),
    "select 1 from demotion where until > '2026'": "demotion_by_end",
}


@pytest.mark.parametrize("sql", PLANS)
async def test_frequent_queries_use_their_index(ledger_fixture: LedgerFixture, sql: str) -> None:
    ((*_, plan),) = ledger_fixture.rows(f"explain query plan {sql}")
    assert PLANS[sql] in plan
    assert "TEMP B-TREE" not in plan


LANE = {
    "venue": "'lantern'", "account": "'us'", "paper": "1", "ref": "'x'", "event": "'e'", "creator": "'c'",
    "category": "'k'", "day": "'2026'", "since": "'2026'", "hour": "'2026'", "first": "'2026'", "begin": "'2026'",
    "resumed": "'2026'", "now": "'2026'",
}  # fmt: skip
# What is counted before each order: none of it may look at every order or reading there ever was.
COUNTED = {
    cap_usage._ORDER_STAKES: "COVERING INDEX intent_at_stake",  # noqa: SLF001
    cap_usage._COMMENT_FEES: "INDEX intent_with_fee",  # noqa: SLF001
    cap_usage._HOURLY_ATTEMPTS: "INDEX attempt_by_start (started_at>?)",  # noqa: SLF001
    cap_usage._TRADES_OF_SOLD: "INDEX fill_sold",  # noqa: SLF001
    cap_usage._PLANNED_COSTS: "intent_by_account (venue=? AND account=? AND planned_at>?)",  # noqa: SLF001
    cap_usage._UNSETTLED_COST: "COVERING INDEX intent_waiting",  # noqa: SLF001
    cap_usage._NEWEST_EQUITY: "account_reading_by_account (venue=? AND account=? AND paper=? AND at<?)",  # noqa: SLF001
    cap_usage._EQUITY_BEFORE: "account_reading_by_account (venue=? AND account=? AND paper=? AND at<?)",  # noqa: SLF001
    cap_usage._EQUITY_AFTER: "account_reading_by_account (venue=? AND account=? AND paper=? AND at>? AND at<?)",  # noqa: SLF001
    cap_usage._HIGHEST_EQUITY: (  # noqa: SLF001
        "COVERING INDEX account_reading_by_account (venue=? AND account=? AND paper=? AND at>? AND at<?)"
    ),
}


@pytest.mark.parametrize("sql", COUNTED)
async def test_what_is_at_stake_is_counted_from_indexes(ledger_fixture: LedgerFixture, sql: str) -> None:
    asked = re.sub(r":(\w+)", lambda found: LANE[found[1]], sql)
    plan = "\n".join(row[-1] for row in ledger_fixture.rows(f"explain query plan {asked}"))
    assert COUNTED[sql] in plan
    assert "SCAN intent" not in plan
    assert "SCAN fill" not in plan
    assert "GROUP BY" not in plan
