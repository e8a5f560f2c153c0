"""What the doctor makes of what the last run found and left at live venues."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.cli.doctor import run_checks
from bot.cli.doctor_checks import LastRunState, check_readiness
from bot.cli.health_report import CheckFinding, CheckVerdict
from bot.config.loader import load_config
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import ExecutionMode, IntentState
from bot.plugin_system.registry import load_registry
from bot.store.intents import IntentRow
from bot.store.submission_queries import OrderRow
from tests.blank_ledger import open_blank_ledger
from tests.unit.execution.paper.paper_book_fixture import intent, order

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
THEN = NOW - timedelta(minutes=5)
LIVE = """
plugins = ["manifold", "baseline"]

[venues.manifold]
mode = "live"
forecasters = ["baseline"]
"""


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FOXCAST_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(LIVE)
    return file


def _findings(config: Path) -> dict[str, CheckFinding]:
    return {finding.check: finding for finding in run_checks(config, NOW)}


async def _looked(config: Path, detail: str, *, ok: bool = True) -> dict[str, CheckFinding]:
    """Return what is found after the job that looks at live venues said that."""
    path = config.parent / "state" / "live" / "ledger.sqlite"
    async with open_blank_ledger(path, now=THEN) as ledger:
        await ledger.events.job_run("ready", started_at=THEN, ended_at=THEN, ok=ok, detail=detail)
    os.utime(path, (THEN.timestamp(), THEN.timestamp()))
    # The checks bring a loop of their own.
    return await asyncio.to_thread(_findings, config)


def test_a_live_venue_that_was_never_looked_at_is_a_warning_with_the_command(config: Path) -> None:
    found = _findings(config)["credentials"]
    assert (found.verdict, found.remedy) == (CheckVerdict.WARN, "to verify: foxcast preflight manifold")


def test_a_venue_on_paper_needs_no_credentials(config: Path) -> None:
    config.write_text(LIVE.replace('"live"', '"paper"'))
    assert "credentials" not in _findings(config)


async def test_a_venue_that_was_ready_is_good(config: Path) -> None:
    found = await _looked(config, "manifold: ready")
    assert found["credentials"] == CheckFinding(CheckVerdict.OK, "credentials", "manifold: verified 5 min ago")
    assert found["clock"].verdict is CheckVerdict.OK


async def test_what_the_last_look_missed_is_named(config: Path) -> None:
    why = "no key, as [venues.manifold.settings] has none; make one, then: it goes"
    found = await _looked(config, f"manifold: credentials: {why}, clock: is off by +600.0 s")
    assert found["credentials"].verdict is CheckVerdict.WARN
    assert found["credentials"].found == f"manifold: {why} (found 5 min ago)"
    assert found["clock"].verdict is CheckVerdict.WARN
    assert "is off by +600.0 s" in found["clock"].found


async def test_a_look_that_failed_is_told_as_it_ended(config: Path) -> None:
    found = await _looked(config, "StoreError: the disk is full", ok=False)
    assert found["ready"].verdict is CheckVerdict.WARN
    assert "the disk is full" in found["ready"].found


@pytest.mark.parametrize(("mode", "is_told"), [("live", True), ("paper", True), ("off", False)])
def test_a_venue_that_no_plugin_brings_is_a_warning_unless_it_is_off(config: Path, mode: str, *, is_told: bool) -> None:
    config.write_text(LIVE.replace('"manifold", ', "").replace('"live"', f'"{mode}"'))
    found = _findings(config).get("venues")
    assert (found is not None) is is_told
    assert found is None or ("manifold" in found.found and found.verdict is CheckVerdict.WARN)


@pytest.mark.parametrize(("state", "is_told"), [(IntentState.REFUSED, True), (IntentState.ACKED, False)])
def test_a_venue_that_refused_what_was_sent_last_is_told_with_its_words(
    config: Path, state: IntentState, *, is_told: bool
) -> None:
    row = IntentRow(
        intent=intent("one", order()),
        state=state,
        mode=ExecutionMode.LIVE,
        detail="this region is blocked",
        planned_at=THEN,
        changed_at=THEN,
    )
    last = OrderRow(row=row, title="", decision_reason="", attempts=(), fills=())
    settings = load_config(config)
    found = {
        one.check: one
        for one in check_readiness(settings, load_registry(settings), LastRunState(last={"manifold": last}), NOW)
    }
    assert ("refused" in found) is is_told
    assert not is_told or "5 min ago: this region is blocked" in found["refused"].found


@pytest.mark.parametrize(("creator", "is_reported"), [("", True), ("ann", False)])
def test_a_cap_that_no_open_question_names_a_group_for_is_a_warning(
    config: Path, creator: str, *, is_reported: bool
) -> None:
    caps = "[venues.manifold.caps]\nper_event = 50\nper_creator = 100\n"
    config.write_text(LIVE.replace('"live"', '"paper"') + caps)
    asked = [
        Question(
            ref=QuestionRef("manifold", str(number)),
            title="Will it rain?",
            shape=BinaryShape(),
            targets=(Target(),),
            closes_at=NOW + number * timedelta(days=1),
            event=str(number),
            # The last one is closed.
            creator="bob" if number < 0 else creator,
        )
        for number in (-1, 1, 2)
    ]

    async def record() -> None:
        async with open_blank_ledger(config.parent / "state" / "paper" / "ledger.sqlite", now=THEN) as ledger:
            await ledger.questions.record(asked, seen_at=THEN)

    asyncio.run(record())
    found = [one.found for one in run_checks(config, NOW) if one.check == "caps"]
    text = "manifold: caps.per_creator bounds nothing: none of its 2 open questions names its creator"
    assert found == ([text] if is_reported else [])
