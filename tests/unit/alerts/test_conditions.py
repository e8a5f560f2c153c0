"""Each condition of the table, from facts that a test states and from a ledger that holds them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.alerts.conditions import RULES, find_conditions, find_degradations, healed_text
from bot.alerts.health_snapshot import HealthSnapshot, read_health, read_own_health
from bot.config.alert_schema import NotifierTable
from bot.config.schema import Config
from bot.core.alerts import plain_message_text
from bot.core.forecasts import Trial, TrialEnd
from bot.core.permissions import ApprovalState, SubmissionApproval
from bot.core.questions import QuestionRef
from bot.store.alerts import ChannelStatus
from bot.store.database import LockHolder
from bot.store.event_log import JobRunRow, LedgerEvent
from bot.store.health_queries import (
    AccountLoss,
    AnnulledQuestion,
    ClosedVenue,
    DayBudget,
    JobHistory,
    LedgerFacts,
    RecentTrials,
)
from bot.store.heartbeat import DaemonCondition, DaemonHeartbeat, DaemonState
from bot.store.integrity_checks import MIN_FREE_BYTES
from bot.store.ledger import LEDGER_FILE, Ledger, state_folder
from bot.store.model_calls import ModelDemotion
from bot.store.permissions import SubmissionHalt
from bot.store.response_shapes import ShapeChange
from tests.blank_ledger import open_blank_ledger

NOON = datetime.fromisoformat("2026-03-03T12:00:00+00:00")
HOUR = timedelta(hours=1)
CONFIG = Config.model_validate({"venues": {"sea": {"forecasters": ["fox"]}}})
STOPPED = DaemonState(condition=DaemonCondition.NEVER, holder=None, heartbeat=None)
HOLDER = LockHolder(pid=7, boot="", started_at=NOON - 30 * HOUR)


def daemon(condition: DaemonCondition, *, ended: str | None = None) -> DaemonState:
    holder = HOLDER if condition in {DaemonCondition.RUNNING, DaemonCondition.SILENT} else None
    return DaemonState(condition=condition, holder=holder, heartbeat=DaemonHeartbeat(at=NOON - HOUR, ended=ended))


RUNNING = daemon(DaemonCondition.RUNNING)


def job(name: str, *, ok: bool, success: datetime | None = NOON - HOUR, at: datetime = NOON) -> JobHistory:
    last = JobRunRow(name=name, started_at=at, ended_at=at, ok=ok, detail="all well" if ok else "status 503")
    return JobHistory(last=last, last_success=success, failing_since=None if ok else at, failures=0 if ok else 2)


def trials(failed: int, ended: int) -> RecentTrials:
    lost = Trial(number=1, end=TrialEnd.FAILED, steps=0, belief=None, detail="AuthenticationError: status 401")
    return RecentTrials(forecaster="fox", ended=ended, last_ended_at=NOON, failed=(lost,) * failed)


def approval(expires_at: datetime) -> SubmissionApproval:
    return SubmissionApproval(
        id="abc",
        forecast="f",
        venue="sea",
        cost=3.0,
        state=ApprovalState.ASKED,
        asked_at=NOON,
        expires_at=expires_at,
        shown={"title": "Will it rain?"},
    )


def event(text: str = "what happened") -> LedgerEvent:
    return LedgerEvent(at=NOON - HOUR, kind="any", text=text)


def found(facts: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    plain: dict[str, Any] = {"now": NOON, "config": CONFIG, "daemon": STOPPED, "free_bytes": 10 * MIN_FREE_BYTES}
    snapshot = HealthSnapshot(**(plain | changes), ledger=LedgerFacts(**(facts or {})))
    return {one.key: one.text for one in find_conditions(snapshot)}


def test_a_healthy_bot_has_no_condition() -> None:
    healthy = {"discover sea": job("discover sea", ok=True), "backup": job("backup", ok=True)}
    facts = {"jobs": healthy, "trials": [trials(9, 10)], "budgets": [DayBudget(name="all", limit_usd=9, spent_usd=7)]}
    assert found(facts, daemon=RUNNING, last_backup=NOON - HOUR) == {}
    assert found() == {}


FAILING = ChannelStatus(waiting=1, failing_since=NOON)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "daemon:": (
        {},
        {"daemon": daemon(DaemonCondition.DIED)},
        "the daemon died; its last heartbeat was at 2026-03-03 11",
    ),
    "disk_halt:": ({"disk_halt": event("the disk is full")}, {}, "the disk is full; the next start ends the halt"),
    "halt:sea, halted at 2026-03-03 12:00:00 UTC": (
        {"halts": [SubmissionHalt(venue="sea", at=NOON, why="loss")]},
        {},
        "sea was stopped at",
    ),
    "halt_by_person:all venues": (
        {},
        {"stop_file": "holiday"},
        "everything is halted: holiday; resume: foxcast resume",
    ),
    "venue:sea": ({"jobs": {"discover sea": job("discover sea", ok=False)}}, {}, "sea could not be read since"),
    "job:score": ({"jobs": {"score": job("score", ok=False)}}, {}, "the job score fails since"),
    "trials:fox": (
        {"trials": [trials(3, 3)]},
        {},
        "none of the last 3 trials of fox gave an answer: 3 trials failed: ",
    ),
    "model:big as main": (
        {"demotions": [ModelDemotion(model="big", at=NOON, until=NOON + HOUR, why="no answers", role="main")]},
        {},
        "big is replaced as main until 2026-03-03 13:00 UTC: no answers",
    ),
    "budget_80:all": (
        {"budgets": [DayBudget(name="all", limit_usd=10, spent_usd=8)]},
        {},
        "80% of the budget of today is used (all: 10.00 USD)",
    ),
    "missed_window:2026-03-03 11": (
        {"missed_windows": [event("sea:a"), event("sea:b")]},
        {},
        "2 questions closed without",
    ),
    "in_doubt:sea": ({"in_doubt": {"sea": 2}}, {}, "2 submissions at sea have no known outcome; check the venue, then"),
    "loss:sea": (
        {"losses": [AccountLoss(venue="sea", lost=10.0, worth_before=100.0, currency="USD")]},
        {},
        "the account at sea lost 10.00 of 100.00 USD today",
    ),
    "annulled:sea:rain": (
        {"annulled": [AnnulledQuestion(ref=QuestionRef("sea", "rain"), seen_at=NOON, reason="settled in between")]},
        {},
        "sea:rain was annulled, and orders on it were filled: settled in between; compare what the venue paid",
    ),
    "approval:abc": (
        {"approvals": [approval(NOON + HOUR)]},
        {},
        "title: Will it rain?; foxcast approve abc or foxcast reject abc",
    ),
    "disk_low:": ({}, {"free_bytes": 3 * MIN_FREE_BYTES}, "1,500 MB are free"),
    "clock:": ({}, {"clock_fault": "is off by +9.0 s"}, "the clock is off by +9.0 s"),
    "backup:": (
        {"jobs": {"backup": job("backup", ok=False)}},
        {},
        "the backup failed since 2026-03-03 11:00 UTC: status 503",
    ),
    "notifier:phone": (
        {"channels": {"phone": ChannelStatus(waiting=2, failing_since=NOON, detail="no network"), "old": FAILING}},
        {"config": CONFIG.model_copy(update={"notifiers": {"phone": NotifierTable()}})},
        "the notifier phone takes no message (2 wait): no network; try it with: foxcast notify test phone",
    ),
    "season:sea": (
        {
            "closed_venues": [ClosedVenue(venue="sea", closed_at=NOON)],
            "jobs": {"discover sea": job("discover sea", ok=True)},
        },
        {},
        "no question is open at sea; the last one closed at 2026-03-03 12:00 UTC; if a season ended",
    ),
    "drift:sea v0/markets": (
        {},
        {"shape_changes": [ShapeChange(venue="sea", address="v0/markets", new=("a",), vanished=("b", "c"))]},
        "answers of sea at v0/markets have changed (2 fields vanished: b, c; 1 fields are new: a)",
    ),
}


@pytest.mark.parametrize("key", CASES)
def test_a_condition_is_found_with_what_to_do(key: str) -> None:
    facts, changes, text = CASES[key]
    conditions = found(facts, **changes)
    assert [*conditions] == [key]
    assert text in conditions[key]


def test_the_cases_cover_the_table() -> None:
    others = {"crash", "disk", "budget_100", "event"}
    assert {rule.name for rule in RULES} == {key.partition(":")[0] for key in CASES} | others
    assert len({rule.name for rule in RULES}) == len(RULES)
    events = {"crash", "missed_window", "approval", "event", "annulled"}
    assert {rule.name for rule in RULES if rule.is_event} == events


def test_a_spent_budget_and_a_full_disk_are_the_worse_of_two_conditions() -> None:
    assert [*found({"budgets": [DayBudget(name="all", limit_usd=9, spent_usd=9)]})] == [
        "budget_80:all",
        "budget_100:all",
    ]
    assert [*found(free_bytes=MIN_FREE_BYTES - 1)] == ["disk:", "disk_low:"]
    assert found({"crashes": [event("killed")]}) == {
        "crash:2026-03-03T11:00:00+00:00": "the daemon was restarted: killed"
    }


def test_an_event_that_is_no_condition_is_reported_with_a_key_of_its_own() -> None:
    others = [
        "sea: sea was stopped at noon",
        "sea resumes: renewed",
        "sea: intent a is in doubt and counts",
        "Model m does badly: x",
    ]
    assert found({"alert_events": [event(text) for text in others]}) == {}
    gone = "sea: the order a was accepted, but the venue lists neither it nor a fill"
    first, second = found({"alert_events": [event(gone), event("Provider p refuses the credentials")]}).items()
    assert (first[1], second[1]) == (gone, "Provider p refuses the credentials")
    assert first[0] != second[0]
    assert [*found({"alert_events": [event(gone)]})] == [first[0]]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (daemon(DaemonCondition.RUNNING), None),
        (daemon(DaemonCondition.STOPPED, ended="asked to stop"), None),
        (daemon(DaemonCondition.FAILED, ended="disk full"), "the daemon gave up: disk full; "),
        (daemon(DaemonCondition.SILENT), "the daemon (process 7) hangs or was paused; "),
    ],
)
def test_a_daemon_that_ended_badly_or_hangs_is_found(state: DaemonState, text: str | None) -> None:
    conditions = found(daemon=state, last_backup=NOON)
    assert conditions.get("daemon:", "").startswith(text) if text else conditions == {}
    assert found(daemon=state, last_backup=NOON, watches_itself=True) == {}


def test_a_venue_that_a_running_daemon_has_not_read_for_hours_is_down() -> None:
    def at_sea(success: datetime, state: DaemonState) -> dict[str, str]:
        read = job("discover sea", ok=True, success=success, at=success)
        return found({"jobs": {"discover sea": read}}, daemon=state, last_backup=NOON)

    assert at_sea(NOON - 2 * HOUR, RUNNING) == {}
    assert at_sea(NOON - 3 * HOUR, RUNNING)["venue:sea"].startswith(
        "sea was not read since 2026-03-03 09:00 UTC, although"
    )
    # Without a daemon nobody was to read it; a daemon that began just now had no time.
    assert at_sea(NOON - 3 * HOUR, STOPPED) == {}
    assert at_sea(NOON - 30 * HOUR, replace(RUNNING, holder=replace(HOLDER, started_at=NOON - HOUR))) == {}


def test_a_venue_that_is_not_used_any_more_and_a_job_of_long_ago_are_left_out() -> None:
    assert found({"jobs": {"discover lake": job("discover lake", ok=False)}}) == {}
    assert found({"jobs": {"score": job("score", ok=False, at=NOON - 25 * HOUR)}}) == {}


def test_a_running_daemon_makes_backups() -> None:
    assert found(daemon=RUNNING)["backup:"] == "the last backup was made never; make one: foxcast db backup"
    assert [*found(daemon=RUNNING, last_backup=NOON - 25 * HOUR)] == ["backup:"]
    assert found(daemon=replace(RUNNING, holder=replace(HOLDER, started_at=NOON - HOUR))) == {}


def test_small_losses_answered_approvals_and_few_trials_are_no_condition() -> None:
    assert found({"losses": [AccountLoss(venue="sea", lost=9.0, worth_before=100.0, currency="USD")]}) == {}
    assert found({"approvals": [approval(NOON)]}) == {}
    assert found({"trials": [trials(2, 2)]}) == {}
    assert found({"trials": [trials(9, 10)]}) == {}


def test_only_some_conditions_degrade_the_bot() -> None:
    facts = LedgerFacts(approvals=[approval(NOON + HOUR)], in_doubt={"sea": 1}, crashes=[event()])
    snapshot = HealthSnapshot(now=NOON, config=CONFIG, daemon=STOPPED, free_bytes=10 * MIN_FREE_BYTES, ledger=facts)
    assert [one.key for one in find_degradations(snapshot)] == ["in_doubt:sea"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("venue:sea", "sea can be read again"),
        ("clock:", "the clock is right again"),
        ("model:a:b {x}", "a:b {x} is no longer replaced"),
        ("of_a_newer_program:x", "no longer: x"),
    ],
)
def test_what_healed_is_named(key: str, text: str) -> None:
    assert healed_text(key) == text


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[tuple[Config, Ledger]]:
    config = CONFIG.model_copy(update={"state": tmp_path})
    async with open_blank_ledger(state_folder(config) / LEDGER_FILE, now=NOON) as opened:
        yield config, opened


def test_an_approval_of_a_long_forecast_keeps_its_command() -> None:
    long = replace(approval(NOON + HOUR), shown={"forecast": "0.005, " * 1_000, "cost": "3.00 USD"})
    text = plain_message_text(found({"approvals": [long]})["approval:abc"])
    assert "foxcast approve abc" in text
    assert "cost: 3.00 USD" in text


async def test_facts_of_a_ledger_become_conditions(ledger: tuple[Config, Ledger]) -> None:
    config, opened = ledger

    async def run_job(name: str, minutes: int, *, ok: bool) -> None:
        at = NOON + timedelta(minutes=minutes)
        await opened.events.job_run(name, started_at=at, ended_at=at, ok=ok, detail="status 503")

    for minutes, ok in ((0, True), (15, False), (30, False)):
        await run_job("discover sea", minutes, ok=ok)
    await run_job("score", 0, ok=True)
    await opened.events.halt("disk full", at=NOON)
    (config.state / "STOP").write_text("holiday\n")
    snapshot = await read_own_health(config, opened, NOON + HOUR, clock_skew_s=-7.0)
    assert snapshot.ledger.jobs["discover sea"].failing_since == NOON + timedelta(minutes=15)
    assert snapshot.ledger.jobs["discover sea"].failures == 2
    keys = [one.key for one in find_conditions(snapshot)]
    assert keys == ["disk_halt:", "halt_by_person:all venues", "venue:sea", "clock:"]
    seen_from_outside = await read_health(config, NOON + HOUR)
    assert [one.key for one in find_conditions(seen_from_outside)] == keys[:-1]


async def test_without_a_ledger_nothing_is_wrong_yet(tmp_path: Path) -> None:
    snapshot = await read_health(CONFIG.model_copy(update={"state": tmp_path / "none"}), NOON)
    assert not snapshot.has_ledger
    assert find_conditions(snapshot) == []
