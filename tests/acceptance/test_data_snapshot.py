"""`foxcast data snapshot`: series of past rounds in files, from which they are read while their source is down."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.read_only_plugins import open_read_only_plugins
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.core.errors import ServiceUnavailableError
from bot.core.research import TimeSeries
from bot.plugin_system.registry import load_registry
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed

PLUGIN = Path(__file__).with_name("fake_series_source.py")
CONFIG = f"""
plugins = ["forecastbench", "baseline", "fake_series_source"]
plugin_files = ["{PLUGIN}"]

[venues.forecastbench]
forecasters = ["baseline"]

[research]
series = "kept"
"""
QUESTIONS = """title,asked_at,resolved_at,outcome
Will the lamp be lit?,2026-01-10,2026-02-01,yes
Will the mill turn?,2026-01-10,2026-02-01,no
"""


@pytest.fixture
def office(tmp_path: Path, run_command: InProcessCommand) -> FoxcastInstallation:
    foxcast = installed(tmp_path, CONFIG)
    (tmp_path / "own.csv").write_text(QUESTIONS)
    assert run_command(foxcast, "lab", "questions", "import", "own.csv", "--out", "own").code == 0
    return foxcast


def read_series(foxcast: FoxcastInstallation, before: datetime) -> TimeSeries:
    async def read() -> TimeSeries:
        config = load_config(foxcast.config)
        async with AsyncExitStack() as stack:
            factory, _ = await open_read_only_plugins(
                config, load_registry(config), (), clock=SystemClock(), stack=stack
            )
            return await (await factory.open_data_sources())["office"].source.series("LAMPS", before=before)

    return asyncio.run(read())


def test_what_was_kept_is_read_while_the_source_is_down(
    office: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    down = office.folder / "down"
    down.touch()
    failed = run_command(office, "data", "snapshot", "--rounds", "own")
    assert (failed.code, "the office is closed" in failed.out, "1 series failed" in failed.out) == (1, True, True)
    down.unlink()
    assert run_command(office, "data", "snapshot", "--rounds", "own").out.startswith("1 series kept in ")
    down.touch()
    assert run_command(office, "data", "snapshot", "--rounds", "own").out.startswith("0 series kept in ")
    assert read_series(office, datetime(2026, 1, 10, tzinfo=UTC)).values == (7.0,)
    with pytest.raises(ServiceUnavailableError):
        read_series(office, datetime(2026, 1, 11, tzinfo=UTC))


def test_without_a_folder_or_a_source_one_line_says_what_to_do(
    office: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    text = office.config.read_text()
    office.config.write_text(text.replace('series = "kept"', ""))
    assert run_command(office, "data", "snapshot", "--rounds", "own").is_refusal(2, "--out DIR")
    office.config.write_text(text.replace(', "fake_series_source"]', "]"))
    assert run_command(office, "data", "snapshot", "--rounds", "own").is_refusal(2, "no data source is enabled")
