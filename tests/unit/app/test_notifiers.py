"""A notifier of somebody's own: opened where config has its table, and used by the last job of a pass."""

from pathlib import Path

from structlog.testing import capture_logs

from bot.app.app import open_app
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.daemon.recorder import DaemonRecorder, JobRunCollector
from bot.daemon.service import run_jobs_once
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch
from bot.plugin_system.registry import load_registry

BELL = """
from contextlib import asynccontextmanager
from bot.api import NotifierSpec, PluginSettings, hookimpl

class BellSettings(PluginSettings):
    file: str

class Bell:
    def __init__(self, settings):
        self.file = settings.file

    async def notify(self, message):
        with open(self.file, "a") as rung:
            rung.write(f"{message.level}: {message.subject}\\n")

@asynccontextmanager
async def open_bell(settings, context):
    yield Bell(settings)

@hookimpl
def foxcast_notifiers():
    return [NotifierSpec(name="bell", summary="Rings", settings=BellSettings, open=open_bell)]
"""


def configure(folder: Path, text: str) -> Config:
    (folder / "bell.py").write_text(BELL)
    file = folder / "config.toml"
    plugins = 'plugins = ["forecastbench", "baseline", "bell"]\nplugin_files = ["bell.py"]\n'
    file.write_text(plugins + '[venues.forecastbench]\nforecasters = ["baseline"]\n' + text)
    return load_config(file, {})


async def one_pass(config: Config) -> dict[str, str]:
    async with open_app(config, load_registry(config), clock=SystemClock()) as app:
        collector = JobRunCollector(DaemonRecorder(app.ledger, app.folder))
        end = await run_jobs_once(app.jobs(), clock=app.clock, record=collector, stop=app.stopping)
        assert end.is_clean
    return {run.job: run.detail for run in collector.runs}


async def test_a_notifier_of_ones_own_rings_at_the_end_of_a_pass(tmp_path: Path) -> None:
    rung = tmp_path / "rung.txt"
    config = configure(tmp_path, f'[notifiers.bell]\nlevel = "warning"\n[notifiers.bell.settings]\nfile = "{rung}"\n')
    engage_kill_switch(config.state / STOP_FILE, "storm")
    runs = await one_pass(config)
    assert [*runs][-1] == "alerts"
    # Also that no question is open, of level info, which this one does not get.
    assert runs["alerts"] == "2 alerts, 0 healed, 1 messages sent, 0 waiting"
    assert rung.read_text() == "warning: Foxcast: warning: everything is halted: storm\n"


async def test_without_its_table_it_is_not_opened_and_nothing_is_reported(tmp_path: Path) -> None:
    runs = await one_pass(configure(tmp_path, ""))
    assert "alerts" not in runs


async def test_a_broken_notifier_is_skipped_with_a_warning(tmp_path: Path) -> None:
    config = configure(tmp_path, '[notifiers.bell.settings]\nfile = "x"\n')
    (tmp_path / "bell.py").write_text("import nothing_of_this_name")
    with capture_logs() as logs:
        runs = await one_pass(config)
    assert "alerts" not in runs
    assert [entry["notifier"] for entry in logs if entry["event"].startswith("notifier skipped")] == ["bell"]
