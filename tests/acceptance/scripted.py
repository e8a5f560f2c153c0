"""An installation whose one model is played by a server of this process, for the tests of ``foxcast forecast``."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bot.domain.step import Json
from bot.testing.model_server import Asked, ModelServer, Play, moves
from tests.acceptance.conftest import COMMAND, Answer, Foxcast, installed

HARBOUR = Path(__file__).parents[1] / "unit" / "harbour.py"
SHELF = """
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from bot.api import Can, Hit, SearchSpec, Settings, hookimpl

class Shelf:
    async def search(self, query, *, before, limit):
        at = datetime(2026, 1, 2, tzinfo=UTC)
        return [Hit(url="https://almanac.example/rain", title="Rain", snippet=f"of {query}", published_at=at)]

@asynccontextmanager
async def open_shelf(settings, workplace):
    yield Shelf()

@hookimpl
def foxcast_search_engines():
    can = frozenset({Can.SEARCH_BEFORE_DATE})
    return [SearchSpec(name="shelf", summary="One page", abilities=can, settings=Settings, open=open_shelf)]
"""
CONFIG = """
plugins = ["blf", "baseline", "openai_compatible", "shelf", "harbour"]
plugin_files = ["shelf.py", "HARBOUR"]

[models.openai_compatible.settings.endpoints.here]
base_url = "SERVER"

[forecasters.blf]
trials = 2

[daemon]
attend_every_s = 0.2
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
class Desk:
    """An installation whose one model is played by a server of this process."""

    foxcast: Foxcast
    server: ModelServer
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def begin(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start the command in a process of its own, while this one goes on serving."""
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

    async def __call__(self, *arguments: str) -> Answer:
        return await told(await self.begin(*arguments))

    async def end(self) -> None:
        """End what still runs."""
        for process in self.running:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    def write(self, name: str, text: str) -> str:
        (self.foxcast.folder / name).write_text(text)
        return name


async def told(process: asyncio.subprocess.Process) -> Answer:
    out, err = await process.communicate()
    assert process.returncode is not None
    return Answer(process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def serving(folder: Path, play: Play, config: str = CONFIG + ROLE + PRICE) -> AsyncIterator[Desk]:
    async with ModelServer(play) as server:
        (folder / "shelf.py").write_text(SHELF)
        foxcast = installed(folder, "")
        foxcast.config.write_text(config.replace("SERVER", server.base_url).replace("HARBOUR", str(HARBOUR)))
        desk = Desk(foxcast, server)
        try:
            yield desk
        finally:
            await desk.end()


def searching(times: int, **answer: Json) -> Play:
    """Search so often, each time for something else, then submit the answer."""
    plan = [("web_search", {"query": f"rain {number}"}) for number in range(times)]
    return moves(*plan, ("submit", answer))


def conversations(requests: Sequence[Asked]) -> list[str]:
    """Return what was asked of the model, by all that decides the answer."""
    return [json.dumps(asked.body, sort_keys=True) for asked in requests]


async def daemon_of(desk: Desk) -> asyncio.subprocess.Process:
    """Start the daemon and wait until it reads what it finds; each look takes a process, so this does not spin."""
    daemon = await desk.begin("run")
    async with asyncio.timeout(20):
        while not (answer := await desk("questions", "--json")).out.strip() or not answer.json:
            assert daemon.returncode is None
    return daemon
