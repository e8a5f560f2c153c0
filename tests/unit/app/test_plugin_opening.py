"""A part of a plugin that cannot be opened is named, left out and tried again, and stops nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.app.app import FoxcastApp, open_app
from bot.app.plugin_opening import UnopenedProvider, enter_plugin
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import AuthenticationError, ConfigError, PluginError, ServiceUnavailableError
from bot.core.plugin_specs import ConfigurableSpec, PluginSettings
from bot.core.submissions import HoldDecision, SendDecision
from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason, HealthEvent, JobOutcome, JobRun
from bot.daemon.service import run_daemon, run_jobs_once
from bot.plugin_system.registry import load_registry
from bot.testing.clock import FakeClock

HARBOUR = Path(__file__).parents[1] / "fake_reader_venue.py"
# A venue and a forecaster whose factories do what the file `fault` says, as long as it is there.
FAULTY = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from bot.api import *
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from bot.testing.venue import FakeVenueReader

WHEEL = Question(ref=QuestionRef("mill", "wheel"), title="Turns?", shape=BinaryShape(), targets=(Target(),))
FAULT = Path(__file__).with_name("fault")

async def fail(kind):
    text = FAULT.read_text() if FAULT.exists() else ""
    if text == f"{kind} away":
        raise ServiceUnavailableError("the exchange is closed for repairs")
    if text == f"{kind} bug":
        return {}["quotes"]
    if text == f"{kind} refused":
        raise AuthenticationError("the key is not known there")
    if text == f"{kind} settings":
        raise ConfigError("venues.mill.settings.key_file: no such file")

@asynccontextmanager
async def open_mill(settings, context):
    await fail("venue")
    yield FakeVenueReader([WHEEL])

@asynccontextmanager
async def open_miller(settings, context):
    await fail("forecaster")
    yield ScriptedForecaster(believe_yes(0.3))

@hookimpl
def foxcast_venues():
    return [VenueSpec(name="mill", summary="A mill", settings=PluginSettings, reader=open_mill)]

@hookimpl
def foxcast_forecasters():
    return [ForecasterSpec(name="miller", summary="Grinds", settings=PluginSettings, open=open_miller)]
"""


def load_mill(folder: Path, fault: str = "") -> Config:
    (folder / "mill.py").write_text(FAULTY)
    if fault:
        (folder / "fault").write_text(fault)
    (folder / "config.toml").write_text(
        f'plugins = ["mill", "fake_reader_venue"]\nplugin_files = ["mill.py", "{HARBOUR}"]\n'
        '[venues.mill]\nforecasters = ["keeper"]\n'
        '[venues.harbour]\nforecasters = ["miller", "keeper"]\n'
    )
    return load_config(folder / "config.toml", {})


async def run_once(app: FoxcastApp) -> tuple[DaemonExit, dict[str, JobRun]]:
    runs: dict[str, JobRun] = {}

    async def record(event: HealthEvent, /) -> None:
        if isinstance(event, JobRun):
            runs[event.job] = event

    return await run_jobs_once(app.jobs(), clock=app.clock, record=record, stop=app.stopping), runs


@pytest.mark.parametrize(
    ("fault", "outcome", "reason", "detail"),
    [
        (
            "venue away",
            JobOutcome.UNAVAILABLE,
            ExitReason.UNAVAILABLE,
            "the venue mill cannot be opened: the exchange is closed for repairs",
        ),
        ("venue refused", JobOutcome.FAILED, ExitReason.UNAUTHORIZED, "the venue mill cannot be opened: the key"),
        ("venue bug", JobOutcome.FAILED, ExitReason.FAILED, "the venue mill cannot be opened: KeyError: 'quotes' ("),
    ],
)
async def test_a_venue_that_cannot_be_opened_is_named_and_the_others_are_forecast(
    tmp_path: Path, fault: str, outcome: JobOutcome, reason: ExitReason, detail: str
) -> None:
    config = load_mill(tmp_path, fault)
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        end, runs = await run_once(app)
        assert [*app.venues] == ["harbour"]
        assert {forecast.ref.venue for forecast in await app.ledger.forecasts.recent(10)} == {"harbour"}
    assert (end.reason, end.detail) == (reason, "discover mill")
    assert (runs["discover mill"].outcome, runs["discover mill"].detail[: len(detail)]) == (outcome, detail)


async def test_forecasts_of_a_venue_that_cannot_be_opened_wait_for_it(tmp_path: Path) -> None:
    config = load_mill(tmp_path)
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        for job in app.jobs():
            if job.name in {"discover mill", "forecast"}:
                await job.run()
        [forecast] = await app.ledger.forecasts.recent(10)
    config = load_mill(tmp_path, "venue away")
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        await run_once(app)
        [row] = await app.ledger.submissions.decisions(forecast.id)
    assert isinstance(row.decision, HoldDecision)
    assert (row.decision.why, row.decision.until is not None) == ("mill cannot be opened now", True)


async def test_forecasts_of_a_venue_that_can_only_be_read_are_recorded_and_never_planned(tmp_path: Path) -> None:
    config = load_mill(tmp_path)
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        await run_once(app)
        rows = [
            row
            for forecast in await app.ledger.forecasts.recent(10)
            for row in await app.ledger.submissions.decisions(forecast.id)
        ]
    whys = {row.decision.why for row in rows if isinstance(row.decision, HoldDecision) and row.decision.until is None}
    assert "recorded only: harbour can only be read, it has no paper book" in whys
    assert not [row for row in rows if isinstance(row.decision, SendDecision)]


async def test_settings_that_a_plugin_refuses_still_end_the_start(tmp_path: Path) -> None:
    config = load_mill(tmp_path, "venue settings")
    with pytest.raises(ConfigError, match=r"^venues\.mill\.settings\.key_file: no such file$"):
        async with open_app(config, load_registry(config), clock=FakeClock()):
            pass


async def test_a_forecaster_that_cannot_be_opened_leaves_the_others_at_work(tmp_path: Path) -> None:
    config = load_mill(tmp_path, "forecaster away")
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        end, _ = await run_once(app)
        assert {forecast.forecaster for forecast in await app.ledger.forecasts.recent(10)} == {"keeper"}
    assert (end.reason, end.detail) == (ExitReason.UNAVAILABLE, "open forecaster miller")


async def test_a_forecaster_that_was_asked_for_by_name_is_not_left_out(tmp_path: Path) -> None:
    config = load_mill(tmp_path, "forecaster away")
    with pytest.raises(ServiceUnavailableError, match="the forecaster miller cannot be opened"):
        async with open_app(config, load_registry(config), clock=FakeClock(), only=("miller",)):
            pass


async def test_the_daemon_tries_again_and_asks_to_be_started_with_the_venue(tmp_path: Path) -> None:
    config = load_mill(tmp_path, "venue away")
    details: list[str] = []

    async def record(event: HealthEvent, /) -> None:
        if isinstance(event, JobRun) and event.job == "discover mill":
            details.append(event.detail)
            if len(details) == 2:
                (tmp_path / "fault").unlink()

    async with open_app(config, load_registry(config), clock=SystemClock()) as app, asyncio.timeout(30):
        jobs = [replace(job, interval=timedelta(seconds=0.05)) for job in app.jobs() if job.name == "discover mill"]
        end = await run_daemon(jobs, clock=app.clock, limits=DaemonLimits(), record=record, stop=app.stopping)
        assert end == DaemonExit(reason=ExitReason.ASKED)
        assert app.reopening.is_set()
    assert details[:2] == ["the venue mill cannot be opened: the exchange is closed for repairs"] * 2
    assert details[-1] == "the venue mill can be opened now, so the daemon starts again with it"
    async with open_app(config, load_registry(config), clock=SystemClock()) as app:
        assert {*app.venues} == {"mill", "harbour"}


SPEC = ConfigurableSpec(name="mill", summary="A mill", settings=PluginSettings)


async def test_a_factory_that_is_no_context_manager_is_explained() -> None:
    class Reader:
        pass

    with pytest.raises(PluginError, match=r"mill cannot be opened: its factory returned Reader, not an async context"):
        async with enter_plugin(SPEC, Reader):  # type: ignore[arg-type]  # the fault under test
            pass


async def test_a_factory_that_never_ends_is_given_up() -> None:
    @asynccontextmanager
    async def hang() -> AsyncIterator[object]:
        await asyncio.Event().wait()
        yield object()

    with pytest.raises(ServiceUnavailableError, match=r"mill cannot be opened: its factory took over 0\.01 s"):
        async with enter_plugin(SPEC, hang, limit_s=0.01):
            pass


async def test_an_error_of_closing_does_not_hide_the_error_of_the_work() -> None:
    @asynccontextmanager
    async def open_part() -> AsyncIterator[object]:
        yield object()
        message = "not closed"
        raise RuntimeError(message)

    async with enter_plugin(SPEC, open_part):
        pass

    async def work() -> None:
        async with enter_plugin(SPEC, open_part):
            message = "work"
            raise AuthenticationError(message)

    with pytest.raises(AuthenticationError, match="work"):
        await work()


async def test_a_provider_that_is_not_open_fails_each_request_with_the_reason() -> None:
    provider = UnopenedProvider(error=PluginError("the model local cannot be opened: no such library"))
    assert await provider.price("small") is None
    with pytest.raises(ServiceUnavailableError, match="no such library"):
        await provider.complete("small", None, None)  # type: ignore[arg-type]  # neither is looked at
