"""What the engine calls of a plugin, and in which order, is what `bot.api` documents: recorded in real passes."""

import importlib
import inspect
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from bot.app.app import open_app
from bot.cli.new import PluginKind, render_package, write_package
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.daemon.runner import ExitReason, HealthEvent
from bot.daemon.service import run_jobs_once
from bot.plugin_system.registry import Registry, load_registry
from tests.unit.api.test_groups import GROUPS, ORDERED, documented_order

RECORDER = Path(__file__).with_name("recording_plugin.py")
CONFIG = """
plugins = ["recording_plugin"]
plugin_files = ["{recorder}"]

[venues.kelp]
forecasters = ["reef"]

[venues.kelp.trading]
edge = 0.005

[venues.kelp.paper]
delay_s = 0

[venues.kelp.settings]
base_url = "{address}"

[llm.roles.main]
model = "reef:small"
"""
# A pass on paper opens no writer and no feed, has nothing to report, and calls no command; series of a question are
# only asked for where its source is that of a data source.
NOT_IN_A_PASS = {
    "venue_submitter": {"writer"},
    "venue_prices": {"prices", "quotes"},
    "notifier": {"open", "notify"},
    "command": {"run"},
    "data": {"series_names"},
}

pytestmark = pytest.mark.xdist_group("new packages")


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The venue of a generated package, which can be imported, and the address where it answers."""
    write_package(render_package(PluginKind.VENUE, "kelp"), tmp_path / "kelp")
    for part in ("src", "tests"):
        monkeypatch.syspath_prepend(str(tmp_path / "kelp" / part))
    module = importlib.import_module("mock_venue")
    venue = module.MockVenue(lambda: datetime.now(UTC))
    with module.serve(venue, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        venue.address = f"http://127.0.0.1:{server.server_port}"
        yield venue
        server.shutdown()
        thread.join()
    for name in [name for name in sys.modules if name.startswith("foxcast_kelp") or name == "mock_venue"]:
        del sys.modules[name]


def recorded_calls(registry: Registry) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = inspect.unwrap(registry.venues["kelp"].reader).__globals__["CALLS"]
    return found


async def run_passes(folder: Path, mock: Any) -> list[list[tuple[str, str]]]:
    """Return what is called in a pass that buys, and in one after the outcome."""
    file = folder / "config.toml"
    file.write_text(CONFIG.format(recorder=RECORDER, address=mock.address))
    config = load_config(file, {})
    registry = load_registry(config)
    assert registry.broken == ()
    calls, passes = recorded_calls(registry), []

    async def ignore(event: HealthEvent, /) -> None:
        del event

    async with open_app(config, registry, clock=SystemClock()) as app:
        for _ in range(2):
            end = await run_jobs_once(app.jobs(), clock=app.clock, record=ignore, stop=app.stopping)
            assert end.reason is ExitReason.DONE, end.detail
            passes.append([*calls])
            calls.clear()
            for market in [one["id"] for one in mock.markets if one["status"] == "open"]:
                mock.end_market(market, "resolved", "yes")
    return passes


async def test_what_is_called_in_two_passes_is_documented_and_comes_in_that_order(tmp_path: Path, mock: Any) -> None:
    passes = await run_passes(tmp_path, mock)
    for group in ORDERED:
        # A paper book is called as a writer is.
        source = "venue_paper" if group == "venue_submitter" else group
        order, text = documented_order(group), GROUPS[group].__doc__ or ""
        called = {name for calls in passes for kind, name in calls if kind == source}
        assert {name for name in order if name not in called} == NOT_IN_A_PASS.get(group, set()), group
        if source == group:
            assert [name for name in sorted(called) if f"``{name}``" not in text and f".{name}``" not in text] == []
        for calls in passes:
            names = [name for kind, name in calls if kind == source]
            for first, second in combinations([name for name in order if name in names], 2):
                assert names.index(first) < names.index(second), f"{group}: {first} comes after {second}"
