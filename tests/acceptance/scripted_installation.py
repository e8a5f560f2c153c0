"""An installation whose one model is played by a server of this process, for tests of ``foxcast forecast``."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bot.core.values import Json
from bot.testing.model_server import CompletionRequest, ReplyFunction, ScriptedModelServer, play_moves
from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, installed

HARBOUR = Path(__file__).parents[1] / "unit" / "fake_reader_venue.py"
SHELF = """
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from bot.api import SearchResult, SearchSpec, PluginSettings, hookimpl

class Shelf:
    async def search(self, query, *, before, limit):
        at = datetime(2026, 1, 2, tzinfo=UTC)
        return [SearchResult(url="https://almanac.example/rain", title="Rain", snippet=f"of {query}", published_at=at)]

@asynccontextmanager
async def open_shelf(settings, workplace):
    yield Shelf()

@hookimpl
def foxcast_search_engines():
    return [SearchSpec(name="shelf", summary="One page", bounds_dates=True, settings=PluginSettings, open=open_shelf)]
"""
CONFIG = """
plugins = ["blf", "baseline", "openai_compatible", "shelf", "fake_reader_venue"]
plugin_files = ["shelf.py", "HARBOUR"]

[models.openai_compatible.settings.endpoints.here]
base_url = "SERVER"

[forecasters.blf]
trials = 2

[daemon]
requests_every_s = 0.2
forecast_every_s = 0.5
"""
ROLE = """
[llm.roles.main]
model = "openai_compatible:here/scripted"
"""
PRICE = """
[llm.models."openai_compatible:here/scripted"]
price_in = 1.0
price_out = 2.0
"""
VENUE = """
[venues.harbour]
forecasters = ["keeper", "blf"]
"""
RAIN = 'title = "Will it rain in Paris?"\nkey = "rain"\n\n[crowd]\nprobability = 0.4\n'


@dataclass(frozen=True)
class ScriptedInstallation:
    """An installation whose one model is played by a server of this process."""

    foxcast: FoxcastInstallation
    server: ScriptedModelServer
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def begin(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start the command in a process of its own, while this one continues to serve."""
        process = await asyncio.create_subprocess_exec(
            COMMAND,
            *arguments,
            cwd=self.foxcast.folder,
            env=self.foxcast.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self.running.append(process)
        return process

    async def __call__(self, *arguments: str) -> CommandResult:
        return await asyncio.to_thread(self.foxcast, *arguments)

    async def end(self) -> None:
        """End what still runs."""
        for process in self.running:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    def write(self, name: str, text: str) -> str:
        (self.foxcast.folder / name).write_text(text)
        return name


async def wait_for_result(process: asyncio.subprocess.Process) -> CommandResult:
    out, err = await process.communicate()
    assert process.returncode is not None
    return CommandResult(process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def serving(
    folder: Path, play: ReplyFunction, config: str = CONFIG + ROLE + PRICE
) -> AsyncIterator[ScriptedInstallation]:
    async with ScriptedModelServer(play) as server:
        (folder / "shelf.py").write_text(SHELF)
        foxcast = installed(folder, "")
        foxcast.config.write_text(config.replace("SERVER", server.base_url).replace("HARBOUR", str(HARBOUR)))
        context = ScriptedInstallation(foxcast, server)
        try:
            yield context
        finally:
            await context.end()


def searching(times: int, **answer: Json) -> ReplyFunction:
    """Search so often, each time for something else, then submit the answer."""
    plan = [("web_search", {"query": f"rain {number}"}) for number in range(times)]
    return play_moves(*plan, ("submit", answer))


def conversations(requests: Sequence[CompletionRequest]) -> list[str]:
    """Return what was asked of the model, by all that decides the answer."""
    return [json.dumps(asked.body, sort_keys=True) for asked in requests]


async def daemon_of(context: ScriptedInstallation) -> asyncio.subprocess.Process:
    """Start the daemon and wait until it reads what it finds; each look takes a process, so this does not spin."""
    daemon = await context.begin("run")
    async with asyncio.timeout(20):
        while not (answer := await context("questions", "--json")).out.strip() or not answer.json:
            assert daemon.returncode is None
    return daemon
