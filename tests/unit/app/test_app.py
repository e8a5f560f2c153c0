"""The composition root: what is built from a configuration, what is left out, and what a start puts right."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.app.app import FoxcastApp, open_app
from bot.app.venues import find_archive
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.errors import ConfigError, NotFoundError
from bot.core.submissions import IntentState
from bot.daemon.runner import HealthEvent, JobRun
from bot.daemon.service import run_jobs_once
from bot.forecasting.calibration import PerForecasterCalibrator
from bot.forecasting.gated_calibration import GatedCalibrator
from bot.jobs.forecast import ForecastJobContext
from bot.plugin_system.registry import load_registry
from bot.store.ledger import open_read_only, state_folder
from bot.testing.clock import FakeClock

HARBOUR = f"""
plugins = ["fake_reader_venue"]
plugin_files = ["{Path(__file__).parents[1] / "fake_reader_venue.py"}"]

[venues.harbour]
forecasters = ["keeper"]
"""

Configure = Callable[..., Config]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def write(text: str = HARBOUR) -> Config:
        file = tmp_path / "config.toml"
        file.write_text(text)
        return load_config(file, {})

    return write


async def one_pass(app: FoxcastApp) -> dict[str, str]:
    runs: dict[str, str] = {}

    async def record(vital: HealthEvent, /) -> None:
        assert isinstance(vital, JobRun)
        runs[vital.job] = vital.detail

    end = await run_jobs_once(app.jobs(), clock=app.clock, record=record, stop=app.stopping)
    assert end.is_clean, end
    return runs


async def test_a_venue_that_can_only_be_read_is_forecast_and_nothing_leaves(configure: Configure) -> None:
    config = configure()
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        runs = await one_pass(app)
        assert await app.ledger.submissions.batches(states=[*IntentState]) == []
    assert runs["forecast"] == "1 forecasts made"
    assert runs["submit"] == "0 planned, 1 held, 0 acknowledged"


async def test_the_jobs_of_plugins_run_with_the_others(configure: Configure) -> None:
    config = configure()
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        assert (await one_pass(app))["plugin sweep"] == "swept sweep"


async def test_a_venue_that_is_off_is_left_out_silently_and_one_whose_plugin_is_broken_is_not(
    configure: Configure, tmp_path: Path
) -> None:
    config = configure(HARBOUR + 'mode = "off"\n')
    with capture_logs() as logs:
        async with open_app(config, load_registry(config), clock=FakeClock()) as app:
            assert (app.venues, logs) == ({}, [])
    (tmp_path / "fake_reader_venue.py").write_text("import nothing_of_this_name")
    broken = configure(HARBOUR.replace(str(Path(__file__).parents[1]), str(tmp_path)))
    with capture_logs() as logs:
        async with open_app(broken, load_registry(broken), clock=FakeClock()) as app:
            assert app.venues == {}
    assert [entry["venue"] for entry in logs if "skipped" in entry["event"]] == ["harbour"]


async def test_what_was_forecast_before_a_venue_was_turned_off_is_held(configure: Configure) -> None:
    config, clock = configure(), FakeClock()
    async with open_app(config, load_registry(config), clock=clock) as app:
        jobs = {job.name: job for job in app.jobs()}
        await jobs["discover harbour"].run()
        await jobs["forecast"].run()
    config = configure(HARBOUR + 'mode = "off"\n')
    async with open_app(config, load_registry(config), clock=clock) as app:
        assert (await one_pass(app))["submit"].startswith("0 planned, 1 held, 0 acknowledged")


async def test_live_and_paper_keep_their_ledgers_apart(configure: Configure) -> None:
    live = configure('mode = "live"\n' + HARBOUR)
    assert state_folder(live).name == "live"
    async with open_app(live, load_registry(live), clock=FakeClock()) as app:
        assert (await one_pass(app))["submit"].startswith("0 planned, 1 held, 0 acknowledged")
    paper = configure()
    with pytest.raises(NotFoundError, match=r"there is no ledger at .*paper"):
        async with open_read_only(paper):
            pass
    async with open_read_only(live) as records:
        assert await records.ledger.forecasts.count() == 1


async def test_what_a_killed_run_held_is_free_again_and_that_is_noted(configure: Configure) -> None:
    config, clock = configure(), FakeClock()
    async with open_app(config, load_registry(config), clock=clock) as app:
        [finding] = [job for job in app.jobs() if job.name == "discover harbour"]
        await finding.run()
        lease = timedelta(minutes=15)
        assert len(await app.ledger.schedule.claim(now=clock.now(), owner="dead", lease=lease, limit=9)) == 1
    async with open_app(config, load_registry(config), clock=clock) as app:
        [event] = await app.ledger.events.recent(9, "recovery")
        assert event.text == "1 leases of an earlier run freed, 0 submissions unknown"
        assert (await one_pass(app))["forecast"] == "1 forecasts made"


async def test_a_start_that_can_write_ends_a_halt_and_says_so(configure: Configure) -> None:
    config, clock = configure(), FakeClock()
    async with open_app(config, load_registry(config), clock=clock) as app:
        await app.ledger.events.halt("the disk is full", at=clock.now())
    with capture_logs() as logs:
        async with open_app(config, load_registry(config), clock=clock) as app:
            assert await app.ledger.events.unresolved_halt() is None
    assert [(entry["event"], entry["why"]) for entry in logs] == [("the last run was halted", "the disk is full")]


@pytest.mark.parametrize(("use", "gated"), [("identity", False), ("gated", True)])
async def test_config_says_whether_outcomes_correct_forecasts(configure: Configure, use: str, gated: bool) -> None:  # noqa: FBT001 - a case
    config = configure(HARBOUR + f'[calibration]\nuse = "{use}"\n')
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        [forecasting] = [
            part
            for job in app.jobs()
            if job.name == "forecast"
            for run in getattr(job.run, "args", ())
            for part in getattr(run, "args", ())
            if isinstance(part, ForecastJobContext)
        ]
        calibrator = forecasting.context.calibrator
        assert (
            isinstance(calibrator, PerForecasterCalibrator) and isinstance(calibrator.default, GatedCalibrator)
        ) is gated
        assert (await one_pass(app))["forecast"] == "1 forecasts made"


async def test_the_policy_is_the_configured_one(configure: Configure) -> None:
    config = configure(HARBOUR + "[policy]\nstale_after_h = 5\nnear_close_h = [3]\nprice_move = 0.25\n")
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        policy = app.forecast_context.policy
    assert (policy.stale_after, policy.near_close, policy.price_move, policy.min_gap) == (
        timedelta(hours=5),
        (timedelta(hours=3),),
        0.25,
        timedelta(hours=1),
    )


def test_past_rounds_need_one_venue_that_can_read_them(configure: Configure, tmp_path: Path) -> None:
    config = configure()
    with pytest.raises(ConfigError, match="of the enabled venues, none can read past rounds"):
        find_archive(config, load_registry(config), None, tmp_path)
    (tmp_path / "question_sets").mkdir()
    both = configure(HARBOUR.replace('["fake_reader_venue"]', '["fake_reader_venue", "forecastbench"]', 1))
    name, archive = find_archive(both, load_registry(both), None, tmp_path)
    assert (name, archive.round_keys()) == ("forecastbench", [])
