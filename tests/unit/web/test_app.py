"""Health and metrics as a watcher gets them; metrics are read by the parser of the library of Prometheus."""

from datetime import timedelta
from functools import partial

import httpx
import pytest

from bot.store import permissions
from bot.store.permissions import SubmissionHalt
from bot.web.app import create_web_app
from bot.web.watched_state import KEPT_S, MAX_REASONS, OTHER_REASONS, WatchedState, limit_reasons
from tests.unit.store.conftest import LedgerFixture
from tests.unit.web.conftest import NOON, TOKEN, WatchedDaemon


async def test_ready_and_live_follow_the_heartbeat(daemon: WatchedDaemon) -> None:
    # It has just started.
    ready, live = await daemon.get("/healthz/ready"), await daemon.get("/healthz/live")
    assert (ready.status_code, ready.json()) == (503, {"status": "starting", "problems": []})
    assert live.status_code == 200
    daemon.beat()
    ready, live = await daemon.get("/healthz"), await daemon.get("/healthz/live")
    assert (ready.status_code, ready.json()) == (200, {"status": "healthy", "problems": []})
    assert (live.status_code, live.json()) == (200, {"status": "live", "heartbeat_age_s": 0.0})
    daemon.clock.advance_without_waking(120.0)
    ready, live = await daemon.get("/healthz"), await daemon.get("/healthz/live")
    assert (ready.status_code, ready.json()["problems"][0]["condition"]) == (503, "daemon")
    assert (live.status_code, live.json()) == (503, {"status": "silent", "heartbeat_age_s": 120.0})
    assert ready.headers["cache-control"] == "no-store"


async def test_what_is_broken_is_named_without_secrets(daemon: WatchedDaemon) -> None:
    daemon.beat()
    halt = SubmissionHalt(venue="lantern", at=NOON, why="api_key=abcdefgh12345678")
    await daemon.ledger.permissions.write(lambda database: permissions.add_halt(database, halt))
    ready = await daemon.get("/healthz")
    [problem] = ready.json()["problems"]
    assert (ready.status_code, problem["condition"], problem["subject"]) == (503, "halt", "lantern")
    assert "abcdefgh12345678" not in ready.text
    assert (await daemon.get("/healthz/live")).status_code == 200


async def test_a_token_is_asked_for_everywhere(daemon: WatchedDaemon) -> None:
    daemon.beat()
    for path in ("/healthz", "/healthz/live", "/metrics", "/nothing"):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
            refused = await daemon.get(path, token=TOKEN, **headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    # With a token it may have any name.
    headers = {"authorization": f"Bearer {TOKEN}", "host": "fox.example"}
    assert (await daemon.get("/healthz", token=TOKEN, **headers)).status_code == 200


@pytest.mark.parametrize(("host", "status"), [("localhost:1", 200), ("127.0.0.1", 200), ("evil.example", 400)])
async def test_without_a_token_only_the_machine_s_own_names_are_answered(
    daemon: WatchedDaemon, host: str, status: int
) -> None:
    daemon.beat()
    assert (await daemon.get("/healthz", host=host)).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_nothing_can_be_changed(daemon: WatchedDaemon, method: str) -> None:
    state = WatchedState(
        config=daemon.config, folder=daemon.folder, ledger=daemon.ledger, clock=daemon.clock, clock_skew=lambda: None
    )
    transport = httpx.ASGITransport(create_web_app(state, token=None))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420") as client:
        assert (await client.request(method, "/healthz")).status_code == 405


async def test_metrics_of_a_ledger(daemon: WatchedDaemon) -> None:
    daemon.beat(timedelta(seconds=7))
    story = LedgerFixture(daemon.ledger, daemon.folder / "ledger.sqlite")
    question = await story.ask(closes_at=NOON + timedelta(days=9))
    await story.forecast(question, 0.3)
    for number, cost in enumerate((0.25, 0.5)):
        await daemon.ledger.calls.reserve(story.reservation(f"call{number}"))
        await daemon.ledger.calls.settle(f"call{number}", story.settlement(cost))
    await daemon.ledger.events.job_run(
        "discover lantern", started_at=NOON, ended_at=NOON + timedelta(seconds=3), ok=True, detail=""
    )
    found = await daemon.samples()
    # In the order of the names of their labels.
    call = ("small", "house", "done")
    assert {
        ("healthy", ()): 1.0,
        ("uptime_seconds", ()): 30.0,
        ("heartbeat_age_seconds", ()): 7.0,
        ("event_loop_lag_seconds", ("p99",)): 0.25,
        ("forecasts", ("done",)): 1.0,
        ("model_calls_day", call): 2.0,
        ("model_cost_usd_day", call): 0.75,
        ("model_latency_seconds_day", call): 2.0,
        # Each call: 1000 in, of which 600 cached, and 50 out.
        ("model_tokens_day", ("in", "small", "house")): 2000.0,
        ("model_tokens_day", ("cached", "small", "house")): 1200.0,
        ("model_tokens_day", ("out", "small", "house")): 100.0,
        ("budget_spent_usd", ("all models",)): 0.75,
        ("venue_read_age_seconds", ("lantern",)): 27.0,
        ("job_seconds", ("discover lantern",)): 3.0,
        ("job_failures", ("discover lantern",)): 0.0,
    }.items() <= found.items()
    assert found["ledger_bytes", ()] > 0
    assert not [name for name, _ in found if name == "condition"]


async def test_a_broken_condition_and_a_hostile_subject_are_metrics_too(daemon: WatchedDaemon) -> None:
    daemon.beat()
    hostile = 'x"} 1\nfoxcast_healthy 1 \\ ' + "y" * 500
    await daemon.ledger.events.job_run(hostile, started_at=NOON, ended_at=NOON, ok=False, detail="no")
    found = await daemon.samples()
    assert found["healthy", ()] == 0.0
    [labels] = [labels for name, labels in found if name == "condition"]
    assert hostile.startswith(labels[2])
    assert found["job_failures", (hostile[:120],)] == 1.0


async def test_two_halts_of_a_venue_are_one_series(daemon: WatchedDaemon) -> None:
    daemon.beat()
    for minutes, why in ((-1, "lost too much"), (0, "the credentials were refused")):
        halt = SubmissionHalt(venue="lantern", at=NOON + timedelta(minutes=minutes), why=why)
        await daemon.ledger.permissions.write(partial(permissions.add_halt, halt=halt))
    lines = (await daemon.get("/metrics")).text.splitlines()
    assert [line for line in lines if line.startswith("foxcast_condition{")] == [
        'foxcast_condition{condition="halt",level="critical",subject="lantern"} 1.0'
    ]
    problems = (await daemon.get("/healthz")).json()["problems"]
    assert [problem["subject"] for problem in problems if problem["condition"] == "halt"] == ["lantern", "lantern"]


async def test_many_watchers_cost_one_reading(daemon: WatchedDaemon) -> None:
    daemon.beat()
    state = WatchedState(
        config=daemon.config, folder=daemon.folder, ledger=daemon.ledger, clock=daemon.clock, clock_skew=lambda: None
    )
    first = await state.health.get()
    assert await state.health.get() is first
    daemon.clock.advance_without_waking(KEPT_S + 1)
    assert await state.health.get() is not first


def test_rare_reasons_are_counted_together() -> None:
    from collections import Counter

    found = Counter({f"reason {number}": 100 - number for number in range(MAX_REASONS + 2)})
    limited = limit_reasons(found)
    # Reasons 20 and 21, with 80 and 79.
    assert limited.pop(OTHER_REASONS) == 159
    assert len(limited) == MAX_REASONS
