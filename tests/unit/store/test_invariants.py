"""Each rule of the ledger is proved able to fail: a fault is planted into a sound ledger, and that rule finds it."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.beliefs import Step
from bot.core.language_models import ModelPerformance
from bot.core.learning import FittedParameters
from bot.core.outcomes import BinaryOutcome, Score
from bot.core.questions import Target
from bot.core.submissions import IntentState, SealedRequest, WriteReceipt
from bot.store.evidence import evidence_path
from bot.store.evidence_checks import EVIDENCE_INVARIANTS
from bot.store.integrity_checks import INVARIANTS
from bot.store.ledger_export import export_ledger
from bot.store.model_calls import ModelDemotion
from bot.store.schedule import DueEntry
from bot.store.trials import RecordingKey
from tests.unit.store.conftest import NOON, LedgerFixture

# Statements that no code of ours would run, by the rule that must notice.
FAULTS: Mapping[str, str] = {
    "json_is_json": "update prediction set body = 'not json'",
    "question_has_its_version": "update question set version = 'x'",
    "version_has_targets": "delete from target",
    "probability_is_one": "update prediction set probability = 1.5",
    "forecast_is_complete": "delete from prediction where target = 'b'",
    "prediction_has_a_target": "update prediction set target = 'c' where target = 'a'",
    "forecast_is_not_doubled": "update forecast set revision = 1",
    "revisions_have_no_gap": "update forecast set revision = revision + 1 where revision = 2",
    "cutoff_is_before_the_answer": "update forecast set cutoff = '2026-03-01T13:00:00.000000Z'",
    "learned_before_the_cutoff": "update fitted_parameters set before = '2026-03-01T13:00:00.000000Z'",
    "lease_has_an_owner": "update schedule set owner = null",
    "lease_has_an_attempt": "update schedule set attempt = 0",
    "answer_is_in_the_schedule": "update schedule set answered_at = '2026' where forecaster = 'idle'",
    "intent_was_decided": "delete from decision",
    "intent_is_of_its_forecast": "update intent set ref = 'lantern:other'",
    "sent_intent_has_an_attempt": "delete from attempt",
    "attempt_agrees_with_its_intent": "update attempt set state = 'unknown'",
    "attempts_have_no_gap": "update attempt set number = 2",
    "one_open_intent": "update intent set state = 'planned'",
    "decided_forecast_has_a_decision": "update forecast set decided_at = null",
    "comment_follows_its_forecast": """
        delete from attempt where intent in (select id from intent where action = 'order')
    """,
    "order_has_its_terms": "update intent set order_body = null",
    "request_has_its_tag": "update attempt set tag = '' where request is not null",
    "tag_is_of_one_intent": "update attempt set tag = 'tag'",
    "fill_is_of_an_acknowledged_order": "update intent set state = 'refused' where action = 'order'",
    "order_costs_its_fills": "update intent set cost = 0",
    "question_is_resolved_by_its_outcomes": "update question set resolved = 1",
    "order_is_resolved_with_its_question": (
        "update intent set question_resolved = 1 - question_resolved where action = 'order'"
    ),
    "scored_against_its_own_outcome": "update resolution set target = 'b'",
    "scored_against_the_outcome_in_force": """
        insert into resolution (ref, target, kind, value, body, resolved_at, seen_at)
        select ref, target, kind, 0.0, body, resolved_at, seen_at from resolution
    """,
    "score_is_of_its_prediction": "update prediction set scored_against = null",
    "settled_call_has_a_cost": "update model_call set cost_usd = null where state = 'done'",
    "cached_tokens_were_read": "update model_call set tokens_cached = tokens_in + 1 where state = 'done'",
    "call_is_of_its_question": "update model_call set ref = 'lantern:other'",
    "tallies_are_right": "update tally set count = count + 1 where name = 'forecasts'",
    "score_totals_are_right": "update score_total set value = value + 0.01",
    "cost_totals_are_right": "update cost_day set cost_usd = cost_usd + 0.01",
    "market_totals_are_right": "insert into profit_total values ('v', 'a', 1, 'plain', 1, 1, 0, 0, 0, 0, 0)",
    "steps_are_kept": "delete from step where number = 1",
    "recording_is_kept": "delete from bundle where documents like '%' || (select answer from recording) || '%'",
    "answered_call_has_its_answer": """
        update bundle set documents = replace(documents, (select answer from model_call where answer <> ''), 'feed')
    """,
    "document_has_its_bundle": "update shared_document set bundle = bundle + 1",
}


@pytest.fixture
async def full(ledger_fixture: LedgerFixture, make_step: Callable[..., Step]) -> LedgerFixture:
    """A ledger with something in every table."""
    ledger = ledger_fixture.ledger
    question = await ledger_fixture.ask(targets=(Target(key="a"), Target(key="b")))
    await ledger.schedule.plan(
        [DueEntry(ref=question.ref, forecaster=name, due_at=NOON, why="new") for name in ("plain", "idle")]
    )
    document = await ledger.documents.put(b"page", "text/html")
    digest = await ledger.learning.record(
        FittedParameters(forecaster="plain", before=NOON, examples=1, payload={}), NOON
    )
    for probability in (0.4, 0.5):
        running = await ledger_fixture.begin(question)
        for number in (1, 2):
            step = make_step(probability, target="a", documents=(document,))
            await ledger.forecasts.log_step(running.id, trial=1, number=number, step=step, at=NOON)
        forecast = ledger_fixture.answer(question, running, probability, fitted=digest)
        await ledger.forecasts.complete(forecast, next_due=None)
        send = ledger_fixture.send(forecast)
        await ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
        await ledger.submissions.begin_attempt([send.intent.id], at=NOON)
        await ledger.submissions.settle([WriteReceipt(intent=send.intent.id, state=IntentState.ACKED)], at=NOON)
    await _trade(ledger_fixture)
    await ledger.schedule.claim(now=NOON, owner="me", lease=NOON - NOON.replace(hour=11), limit=1)
    await ledger_fixture.resolve(question, 1.0, target="a")
    items = await ledger.scores.to_score(10)
    assert all(isinstance(item.outcome, BinaryOutcome) for item in items)
    scores = [Score(forecast=item.forecast, target=item.target, rule="brier", value=0.2) for item in items]
    await ledger.scores.record(items, scores, at=NOON)
    await ledger_fixture.ledger.recordings.add(forecast.id, 1, RecordingKey("page", "k"), '"page"', at=NOON)
    for name, at in (("earlier", NOON - timedelta(days=1)), ("answered", NOON), ("under way", NOON)):
        await ledger.calls.reserve(ledger_fixture.reservation(name, scope=forecast.id, at=at))
    for name in ("earlier", "answered"):
        await ledger.calls.settle(name, ledger_fixture.settlement(0.01))
    assert await ledger.calls.sum_finished_days(now=NOON) == 1
    conduct = ModelPerformance(role="forecaster", model="house:small", asked=2, unparsed=0)
    await ledger.model_performance.add(conduct, scope=forecast.id, trial=1, at=NOON)
    await ledger.model_performance.demote(
        ModelDemotion(model="house:small", at=NOON, until=NOON, why="it never submits")
    )
    return ledger_fixture


async def _trade(ledger_fixture: LedgerFixture) -> None:
    """An order that was filled, and a comment on it."""
    submissions = ledger_fixture.ledger.submissions
    bought = ledger_fixture.order(
        await ledger_fixture.forecast(await ledger_fixture.ask("hail", targets=(Target(key="a"),)))
    )
    for send in (bought, ledger_fixture.comment(bought.intent)):
        name = send.intent.id
        sealed = SealedRequest(intent=name, tag=f"tag of {name}", body="{}", fence=NOON)
        await submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
        await submissions.begin_attempt([name], at=NOON, sealed=[sealed])
        fills = (ledger_fixture.fill("1"),) if send.intent.order else ()
        await submissions.settle([WriteReceipt(intent=name, state=IntentState.ACKED, fills=fills)], at=NOON)


@pytest.mark.parametrize("rule", FAULTS)
async def test_a_planted_fault_is_found_by_its_rule(full: LedgerFixture, rule: str) -> None:
    assert full.faults() == {}
    assert _found(full, rule, FAULTS[rule])


async def test_a_calibration_from_after_the_cutoff_is_found_too(full: LedgerFixture) -> None:
    moved = "update forecast set calibration = fitted, fitted = null"
    assert not _found(full, "learned_before_the_cutoff", moved)
    assert _found(full, "learned_before_the_cutoff", moved, FAULTS["learned_before_the_cutoff"])


def _found(full: LedgerFixture, rule: str, *faults: str) -> list[tuple[object, ...]]:
    """Return what the rule says of a copy of the ledger with the faults planted."""
    copy = full.path.with_name("faulty.db")
    for path, copied in ((full.path, copy), (evidence_path(full.path), evidence_path(copy))):
        copied.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as source:
            source.execute("vacuum into ?", [str(copied)])
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("attach ? as evidence", [str(evidence_path(copy))])
        # Rules are the second line: planting a fault needs the first one, checks and unique indices, out of the way.
        connection.execute("pragma ignore_check_constraints = on")
        _without_unique_indices(connection)
        for fault in faults:
            connection.execute(fault)
        (sql,) = [invariant.sql for invariant in (*INVARIANTS, *EVIDENCE_INVARIANTS) if invariant.name == rule]
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("answered_call_has_its_answer", "update model_call set answer = null where state = 'done'"),
        ("answered_call_has_its_answer", "update model_call set state = 'failed' where state = 'done'"),
        ("settled_call_has_a_cost", "update model_call set cost_usd = 0 where state = 'reserved'"),
        ("settled_call_has_a_cost", "update model_call set cost_usd = -0.01 where state = 'done'"),
        ("settled_call_has_a_cost", "update model_call set worst_usd = -0.01"),
        ("tallies_are_right", "delete from tally where name = 'questions'"),
        ("tallies_are_right", "update intent_tally set count = count + 1 where state = 'acked'"),
        ("score_totals_are_right", "delete from score_total"),
        ("cost_totals_are_right", "update cost_day set calls = calls + 1, answered = answered + 1"),
        ("cost_totals_are_right", "update cost_forecasts set forecasts = 2 where grouping = 'model'"),
        ("cost_totals_are_right", "update model_call set tokens_in = tokens_in + 1 where id = 'earlier'"),
        ("score_totals_are_right", "update score_bin set n = n + 1"),
        ("score_totals_are_right", "update submitted_total set value = value + 0.01"),
        ("score_totals_are_right", "update submitted_bin set n = n + 1"),
        ("score_totals_are_right", "delete from submitted_round"),
        ("score_totals_are_right", "update score_round set outcome_with_crowd = outcome_with_crowd + 1"),
    ],
)
async def test_each_half_of_a_rule_of_calls_is_found(full: LedgerFixture, rule: str, fault: str) -> None:
    assert _found(full, rule, fault)


async def test_every_table_of_the_ledger_is_in_its_export(full: LedgerFixture, tmp_path: Path) -> None:
    manifest = export_ledger(full.path, tmp_path / "out", at=NOON)
    tables = full.rows("select name from sqlite_schema where type = 'table' and name not glob '[_]*'")
    exported = {file.name for file in manifest.files if file.kind == "table"}
    assert {name for (name,) in tables if not name.startswith("sqlite_")} <= exported
    assert {"evidence_document", "recording", "step"} <= exported
    contents = (tmp_path / "out" / "evidence_document.jsonl").read_text(encoding="utf-8").splitlines()
    assert "page" in {json.loads(line)["content"] for line in contents}
    empty = sorted(file.name for file in manifest.files if not file.rows)
    # The ledger of these tests has something in every table but those that are no part of a forecast's story.
    account = ["contest_standing", "payout", "account_reading", "venue_gain", "venue_score", "closed_market"]
    other = ["alert", "approval", "arm", "audit", "event", "job_run", "lock", "model_concurrency", "notification"]
    assert empty == sorted(
        [
            *account,
            *other,
            "principal",
            "question_pair",
            "profit_total",
            "rate_usage",
            "halt",
            "score_cluster",
            "unscored",
        ]
    )


def test_every_rule_is_proved_able_to_fail() -> None:
    assert [invariant.name for invariant in (*INVARIANTS, *EVIDENCE_INVARIANTS)] == list(FAULTS)


def _without_unique_indices(connection: sqlite3.Connection) -> None:
    connection.execute("drop index intent_open")
    connection.execute("pragma writable_schema = on")
    connection.execute("""
        update sqlite_schema set sql = replace(sql, 'unique (ref, forecaster, revision),', '') where name = 'forecast'
    """)
    connection.execute("delete from sqlite_schema where name = 'sqlite_autoindex_forecast_2'")
    connection.commit()
    connection.execute("pragma writable_schema = reset")
