"""What of a venue is opened in which mode, and what each part is handed."""

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from bot.app.app import open_app
from bot.app.plugin_factory import PluginFactory
from bot.app.venues import (
    OpenVenues,
    discovery_interval_s,
    open_venues,
    usable_venues,
    venue_execution_policy,
    venue_rate_limits,
)
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.interfaces import WriteClient
from bot.core.plugin_specs import PaperBookContext, PriceFeedContext, VenueWriterContext
from bot.core.submissions import ExecutionMode
from bot.core.venue_http import RateLimit
from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason, HealthEvent, JobRun
from bot.daemon.service import run_daemon, run_jobs_once
from bot.net.rate_limit import RateLimiter
from bot.plugin_system.registry import Registry, load_registry
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FakeWriteClient
from bot.testing.loopback_server import LoopbackServer, ScriptedResponse

BOURSE = f"""
plugins = ["fake_exchange"]
plugin_files = ["{Path(__file__).parents[1] / "fake_exchange.py"}"]

[venues.bourse]
forecasters = ["keeper"]
"""


def configured(folder: Path, text: str = "") -> tuple[Config, Registry]:
    file = folder / "config.toml"
    file.write_text(BOURSE + text)
    config = load_config(file, {})
    return config, load_registry(config)


def plugin(registry: Registry) -> ModuleType:
    """Return the module that the registry loaded from the plugin's file."""
    return sys.modules[registry.venues["bourse"].reader.__module__]


class Wires:
    """Makes wires, and remembers with which rates."""

    def __init__(self) -> None:
        self.made: list[RateLimiter] = []

    def __call__(self, *, rates: RateLimiter) -> AbstractAsyncContextManager[WriteClient]:
        self.made.append(rates)
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[WriteClient]:
        yield FakeWriteClient()


@asynccontextmanager
async def opened(folder: Path, mode: ExecutionMode, wires: Wires) -> AsyncIterator[tuple[OpenVenues, PluginFactory]]:
    config, registry = configured(folder, f'mode = "{mode.value}"\n[venues.bourse.paper]\ncash = 250\ndelay_s = 7\n')
    clock, random = FakeClock(), SeededRandom(1)
    async with AsyncExitStack() as stack:
        outfitter = PluginFactory(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=FakeHttpClient({}),
            folder=folder,
            stack=stack,
            rates=RateLimiter(venue_rate_limits(config, registry), clock=clock, random=random),
            open_write_client=wires,
        )
        yield await open_venues(outfitter, ["bourse"]), outfitter
    assert plugin(registry).OPENED.open == []


async def test_in_paper_mode_no_wire_is_made_and_no_writer_opened(tmp_path: Path) -> None:
    wires = Wires()
    async with opened(tmp_path, ExecutionMode.PAPER, wires) as (venues, outfitter):
        places = plugin(outfitter.registry).OPENED.places
        assert set(places) == {"reader", "paper", "planner", "prices"}
        assert places["paper"] == PaperBookContext(
            clock=outfitter.clock, http=outfitter.http, folder=tmp_path / "bourse", cash=250.0, delay_s=7.0
        )
        assert [*venues.submitters] == [*venues.planners] == [*venues.price_feeds] == ["bourse"]
    assert wires.made == []


async def test_an_app_in_paper_mode_opens_no_writer_whatever_it_does(tmp_path: Path) -> None:
    config, registry = configured(tmp_path)

    async def record(vital: HealthEvent, /) -> None:
        assert isinstance(vital, JobRun)

    async with open_app(config, registry, clock=FakeClock()) as app:
        assert (await run_jobs_once(app.jobs(), clock=app.clock, record=record, stop=app.stopping)).is_clean
        assert set(plugin(registry).OPENED.places) == {"reader", "paper", "planner", "prices"}


@pytest.mark.parametrize("mode", [ExecutionMode.APPROVE, ExecutionMode.LIVE])
async def test_in_live_modes_the_writer_is_opened_with_a_wire_and_no_paper_book(
    tmp_path: Path, mode: ExecutionMode
) -> None:
    wires = Wires()
    async with opened(tmp_path, mode, wires) as (venues, outfitter):
        places = plugin(outfitter.registry).OPENED.places
        assert set(places) == {"reader", "writer", "planner", "prices"}
        writer = places["writer"]
        assert isinstance(writer, VenueWriterContext)
        assert isinstance(writer.wire, FakeWriteClient)
        assert [*venues.submitters] == ["bourse"]
        assert wires.made == [outfitter.rates]


async def test_what_only_reads_holds_no_wire_and_only_feeds_hold_sockets(tmp_path: Path) -> None:
    async with opened(tmp_path, ExecutionMode.LIVE, Wires()) as (_, outfitter):
        places = plugin(outfitter.registry).OPENED.places
        assert {name for name, place in places.items() if hasattr(place, "wire")} == {"writer"}
        assert {name for name, place in places.items() if hasattr(place, "sockets")} == {"prices"}
        assert isinstance(places["prices"], PriceFeedContext)


async def test_a_venue_that_is_off_submits_nothing(tmp_path: Path) -> None:
    wires = Wires()
    async with opened(tmp_path, ExecutionMode.PAPER, wires) as (_, outfitter):
        config, _ = configured(tmp_path, 'mode = "off"\n')
        assert await outfitter.open_submitter(venue_execution_policy(config, outfitter.registry, "bourse")) is None
    assert wires.made == []


def test_the_rates_are_those_of_the_settings_of_venues_that_are_on(tmp_path: Path) -> None:
    config, registry = configured(tmp_path, "[venues.bourse.settings]\nper_minute = 30\n")
    assert [*venue_rate_limits(config, registry)] == [
        RateLimit(name="bourse", prefixes=("https://bourse.test/",), count=30, per_s=60.0)
    ]
    assert [*venue_rate_limits(*configured(tmp_path, 'mode = "off"\n'))] == []


async def test_reading_keeps_the_rates_and_the_ledger_remembers_them(tmp_path: Path) -> None:
    async with LoopbackServer(lambda _: ScriptedResponse(body=b"here")) as server:
        config, registry = configured(tmp_path, f'[venues.bourse.settings]\nbase = "{server.address}"\n')
        async with open_app(config, registry, clock=SystemClock()) as app:
            assert await app.ledger.rates.free_at() == {}
            http = plugin(registry).OPENED.places["reader"].http
            assert await http.get(f"{server.address}/v0/me", max_bytes=10) == b"here"
            assert [*await app.ledger.rates.free_at()] == ["bourse"]


@pytest.mark.parametrize(("text", "jobs"), [("", ["prices bourse"]), ("[daemon]\nwatch_questions = 0\n", [])])
async def test_prices_are_watched_beside_the_jobs_where_there_is_a_feed(
    tmp_path: Path, text: str, jobs: list[str]
) -> None:
    config, registry = configured(tmp_path, text)
    async with open_app(config, registry, clock=FakeClock()) as app:
        assert [job.name for job in app.price_watches()] == jobs
        assert not {job.name for job in app.jobs()} & {"prices bourse"}


async def test_a_daemon_that_watches_prices_stops_cleanly_when_asked(tmp_path: Path) -> None:
    config, registry = configured(tmp_path)
    async with open_app(config, registry, clock=SystemClock()) as app:
        ran: list[str] = []

        async def record(vital: HealthEvent, /) -> None:
            ran.extend([vital.job] if isinstance(vital, JobRun) else [])
            # The last of the others: what comes after it is the watch.
            if ran and ran[-1] == "backup":
                app.stopping.set()

        jobs = [*app.jobs(), *app.price_watches()]
        end = await run_daemon(jobs, clock=app.clock, limits=DaemonLimits(), record=record, stop=app.stopping)
        assert end == DaemonExit(reason=ExitReason.ASKED)


@pytest.mark.parametrize(
    ("common", "own", "wanted", "expected"),
    [(900, None, None, 900), (900, None, 450, 450), (60, None, 450, 60), (900, 1200, 450, 1200), (900, 30, None, 30)],
)
def test_a_venue_is_read_as_often_as_its_questions_need_unless_its_table_says_otherwise(
    tmp_path: Path, common: int, own: int | None, wanted: int | None, expected: int
) -> None:
    table = "" if own is None else f"discover_every_s = {own}\n"
    config, registry = configured(tmp_path, f"{table}[daemon]\ndiscover_every_s = {common}\n")
    every = None if wanted is None else timedelta(seconds=wanted)
    # A spec is frozen; this one belongs to this test alone.
    object.__setattr__(registry.venues["bourse"], "discover_every", every)
    assert discovery_interval_s(config, registry, "bourse") == expected


def test_a_venue_whose_plugin_is_not_in_use_is_left_out_with_what_to_do(tmp_path: Path) -> None:
    dormant = "\n[venues.manifold]\nforecasters = ['keeper']\n"
    config, registry = configured(tmp_path, dormant)
    with capture_logs() as logs:
        assert list(usable_venues(config, registry)) == ["bourse"]
    [told] = logs
    assert told["venue"] == "manifold"
    assert "its plugin is not in use; add it to plugins" in told["event"]
