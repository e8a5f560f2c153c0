"""Starts commands by forking a process that has imported them already, one for each worker of pytest.

Each command is a process of its own, with its own arguments, folder, environment and files, and ends as any program
ends. What it saves is the start of the interpreter and the imports: most of what a short command takes.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("foxcast")
START = "import sys; from tests.acceptance.command_server import serve; serve(sys.argv[1])"
# Further modules that most commands load once they run.
PRELOADED = (
    "_strptime",
    "aiohttp",
    "backports.zstd",
    "bot.api",
    "bot.cli.output.pass_report",
    "bot.cli.pass_summary",
    "bot.cli.single_pass",
    "bot.net.html.page_reader",
    "bot.net.pooled_session",
    "bot.net.web.fetcher",
    "bot.testing.forecaster",
    "bot.testing.venue",
    "certifi",
    "mimetypes",
    "numpy",
    "plugins.baseline",
    "plugins.blf.forecaster",
    "plugins.forecastbench",
    "plugins.manifold",
    "plugins.models.openai_compatible",
    "plugins.polymarket.planner",
    "plugins.polymarket.writer",
    "rich._emoji_codes",
)
# What the interpreter and the C library read when they start, which a forked process no longer does.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OPENBLAS", "MALLOC")


def run_foxcast(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run ``foxcast`` to its end; raises TimeoutExpired as ``subprocess.run`` does, once the process is killed.

    What it writes to ``stdout``, where that is given, is left to whoever opened it. A process whose coverage is
    measured is started as always.
    """
    words = [str(COMMAND), *arguments]
    if not _can_fork(environment) or "coverage" in sys.modules:
        return subprocess.run(
            words,
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout,
            check=False,
        )
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.settimeout(timeout)
        connection.connect(_server_address())
        files = (
            nothing.fileno() if stdin == subprocess.DEVNULL else stdin,
            out.fileno() if stdout is None else stdout,
            err.fileno(),
        )
        socket.send_fds(connection, [b"."], files)
        request = {"words": words, "folder": str(folder), "environment": dict(environment)}
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile("rb", buffering=0)
        pid = int(answers.readline())
        if not select.select([connection], [], [], timeout)[0]:
            os.kill(pid, signal.SIGKILL)
            answers.readline()
            raise subprocess.TimeoutExpired(words, timeout)
        code = int(answers.readline())
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def _can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether the interpreter of the server started with the same variables.

    PYTHONPATH is only for the processes that the command starts: the server has it from its own start.
    """
    read = {name for name in {*environment, *os.environ} if name.startswith(READ_AT_START)} - {"PYTHONPATH"}
    return all(environment.get(name) == os.environ.get(name) for name in read)


@cache
def _server_address() -> str:
    folder = tempfile.mkdtemp(prefix="foxcast")
    address = f"{folder}/commands"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).with_name("as_installed"))}
    server = subprocess.Popen(
        [sys.executable, "-c", START, address],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdout.readline()

    def stop() -> None:
        server.communicate()
        Path(address).unlink()
        Path(folder).rmdir()

    atexit.register(stop)
    return address


def serve(address: str) -> None:
    """Run a command for each connection, until the process that started this one closes the pipe or ends."""
    from bot.cli.main import COMMANDS
    from bot.config.process_setup import configure_process

    configure_process()
    gc.disable()
    for module in (*(entry.module for entry in COMMANDS.values()), *PRELOADED):
        import_module(module)
    # What is loaded is shared with all commands: a search for garbage when one ends would copy it, 0.3 s of CPU each.
    gc.freeze()
    gc.enable()
    # A command finds the path that its script finds.
    sys.path[0] = str(COMMAND.parent)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _watch_command(connection)
            connection.close()


def _watch_command(connection: socket.socket) -> None:
    """Start the command of a connection, and say its process and how it ended; only the command returns from here."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as lines:
        request = json.loads(lines.readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become_command(files, **request)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become_command(
    files: Sequence[int], *, words: Sequence[str], folder: str, environment: Mapping[str, str]
) -> NoReturn:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    sys.argv[:] = words
    from foxcast import main

    sys.exit(main())
