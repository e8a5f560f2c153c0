"""Installations in mode live: whole commands against fake venues, served by the test itself."""

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bot.simulator.fake_service import FakeService
from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, installed, run_in_thread

PLUGIN = Path(__file__).with_name("biased_forecaster.py")
# A pass over a venue that takes a request every few seconds takes so long.
PATIENCE_S = 120
CONFIG = """
plugins = ["{venue}", "biased_forecaster"]
plugin_files = ["{leaning}"]

[venues.{venue}]
mode = "live"
forecasters = ["leaning"]
comment = true

[venues.{venue}.settings]
{settings}
"""


class LiveInstallation:
    """One installation in mode live, for one venue; ``secret`` stands in a file of its own."""

    def __init__(self, folder: Path, venue: str, *, secret: str, settings: Sequence[str], more: str = "") -> None:
        written = CONFIG.replace("{venue}", venue).replace("{leaning}", str(PLUGIN))
        self.foxcast: FoxcastInstallation = installed(folder, "")
        self.foxcast.config.write_text(written.replace("{settings}", "\n".join(settings)) + more)
        self.venue, self.secret = venue, secret
        file = folder / "secret"
        file.write_text(f"{secret}\n")
        file.chmod(0o600)

    async def __call__(self, *arguments: object) -> CommandResult:
        """Run a command while the venue is served in this very loop; a pass has a process of its own."""
        if arguments[0] == "run":
            answer = await asyncio.to_thread(self._wide, *arguments, timeout=PATIENCE_S)
        else:
            answer = await asyncio.to_thread(run_in_thread, self._wide, *arguments)
        assert self.secret not in answer.out + answer.err
        assert "Traceback" not in answer.err, answer.err
        return answer

    async def once(self, *, code: int = 0) -> dict[str, str]:
        """Make one pass that ends with this exit code; return what each job reported."""
        done = await self("run", "--once")
        assert done.code == code, done
        runs = (await self("status", "--json")).json["runs"]
        return {run["job"]: run["detail"] for run in runs}

    async def orders(self, *options: str) -> Any:
        """Return what was to leave, the newest first."""
        return (await self("orders", "--json", *options)).json

    async def daemon(self, until: Callable[[], bool], *, then: Sequence[str] = ()) -> CommandResult:
        """Run the daemon until something is so, run another command at the same time, and end it with SIGTERM."""
        process = await self.start_command("run")
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not until():
                    assert process.returncode is None
                    await asyncio.sleep(0.1)
                answer = await self(*then) if then else CommandResult(0, "", "")
                await asyncio.sleep(1.5)
        finally:
            process.send_signal(signal.SIGTERM)
            _, output = await process.communicate()
        assert process.returncode == 0, output
        assert b"Traceback" not in output
        assert self.secret.encode() not in output
        return answer

    @property
    def _wide(self) -> FoxcastInstallation:
        return self.foxcast.with_environment(COLUMNS="200")

    async def start_command(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command in a process that a test can signal."""
        wide, pipe = self._wide, asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            COMMAND, *arguments, cwd=wide.folder, env=wide.environment, stdout=pipe, stderr=pipe
        )

    def leaks(self) -> list[Path]:
        """Return the files of the state folder that hold the secret."""
        files = [path for path in (self.foxcast.folder / "state").rglob("*") if path.is_file()]
        return [path for path in files if path.stat().st_size < 10**8 and self.secret.encode() in path.read_bytes()]


def writes(venue: FakeService) -> list[tuple[str, Any]]:
    """Return the path and the body of everything that was written to a venue."""
    return [(one.path, json.loads(one.body)) for one in venue.requests if one.method == "POST"]
