"""Whole programs at the same work: Foxcast, its peer, and the floor, each in a process against one model server.

A question takes so many calls of a model. The peer is the template bot of forecasting-tools, if ``make bench-peer`` has
installed it. The floor is the same requests by bare httpx and the same rows by bare sqlite3.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.benchmarks.figures import COMMAND, ROOT, ProcessUsage, program_environment, run_process, say

HERE = Path(__file__).parent
PEER = ROOT / ".venv" / "peer" / "bin" / "python"
CALLS = 5
OWN_CLIENT = "openai_compatible:local/small"
# A vendor that the plugin litellm calls directly, one whose form the library makes, and one that the library calls.
DIRECT_VENDOR = "litellm:openai/gpt-4.1"
TRANSLATED_VENDOR, LIBRARY_VENDOR = "litellm:bedrock/amazon.nova-pro-v1:0", "litellm:litellm_proxy/small"
CONFIG = """
plugins = ["blf", "openai_compatible", "litellm", "workload_plugin"]
plugin_files = ["{plugin}"]
state = "state"
[daemon]
{at_once}
{permitted}
[venues.workload]
forecasters = ["blf"]
[venues.workload.settings]
questions = {questions}
threads_file = "threads.json"
[forecasters.blf]
trials = {trials}
[search.finder.settings]
results = {results}
chars = {chars}
[llm.budget]
question_usd = 100.0
day_usd = 100000.0
[llm.roles.main]
model = "{model}"
timeout_s = 120
[llm.models."{model}"]
price_in = 1.0
price_out = 4.0
[models.openai_compatible.settings.endpoints.local]
base_url = "{base_url}"
api_key_file = "key"
[models.litellm.settings.keys]
openai_file = "key"
bedrock_file = "key"
litellm_proxy_file = "key"
[models.litellm.settings.base_urls]
openai = "{base_url}"
bedrock = "{base_url}"
litellm_proxy = "{base_url}"
[models.litellm.settings.bodies.bedrock]
aws_region_name = "us-east-1"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramWork:
    """What is to be done: questions, each of so many trials of so many calls that take so long.

    A search returns so many results of so many characters. ``at_once`` questions are in work at the same time; None is
    what a program does as it is shipped. The provider takes ``permitted`` requests at the same time, if that is set.
    ``earlier`` questions were answered before, in the same folder.
    """

    questions: int
    earlier: int = 0
    calls: int = CALLS
    trials: int = 1
    results: int = 1
    chars: int = 200
    delay_s: float = 0.0
    at_once: int | None = None
    permitted: int | None = None
    model: str = OWN_CLIENT

    def resized(self, questions: int) -> "ProgramWork":
        """Return the same work on another number of questions."""
        return replace(self, questions=questions)

    @property
    def requests(self) -> int:
        """How many requests it takes."""
        return self.questions * self.trials * self.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """What a program used for some work, and when its requests arrived, in seconds since it was started.

    ``begun_by`` is how many had arrived when the last question was begun, 0 where that is not known.
    """

    used: ProcessUsage
    arrivals: Sequence[float]
    threads: Mapping[str, float]
    begun_by: int = 0


class MockProvider:
    """The model server in its process, which all programs ask."""

    def __init__(self, address: str) -> None:
        self.address = address

    def base_url(self, work: ProgramWork) -> str:
        """Return the address that plays this work."""
        return f"{self.address}/{work.calls}/{round(1000 * work.delay_s)}/v1"

    def get(self, path: str) -> list[object]:
        """Return what the server kept under a path; it forgets that."""
        connection = HTTPConnection(urlsplit(self.address).netloc)
        connection.request("GET", path)
        kept: list[object] = json.loads(connection.getresponse().read())
        connection.close()
        return kept

    @contextmanager
    def noting(self, arrivals: list[float], work: ProgramWork) -> Iterator[None]:
        """Fill the list with the arrivals of requests; raises RuntimeError for another number than the work takes."""
        self.get("/arrivals")
        started = time.time()
        yield
        arrivals += [float(str(at)) - started for at in self.get("/arrivals")]
        if len(arrivals) != work.requests:
            message = f"{len(arrivals)} requests arrived instead of {work.requests}: this is other work"
            raise RuntimeError(message)


@contextmanager
def serve_models() -> Iterator[MockProvider]:
    """Run the model server in a process of its own."""
    process = subprocess.Popen([sys.executable, str(HERE / "mock_provider.py")], stdout=subprocess.PIPE, text=True)
    try:
        yield MockProvider(process.stdout.readline().strip() if process.stdout else "")
    finally:
        process.kill()
        process.communicate()


@contextmanager
def run_foxcast(server: MockProvider, work: ProgramWork) -> Iterator[tuple[ProgramRun, Path]]:
    """Do the work with ``foxcast run --once`` in a folder of its own; yield what it used, and the folder."""
    with TemporaryDirectory() as place:
        yield run_foxcast_in(Path(place), server, work), Path(place)


def run_foxcast_in(folder: Path, server: MockProvider, work: ProgramWork) -> ProgramRun:
    """Return what ``foxcast run --once`` uses for the work in a folder, which holds its ledger afterwards."""
    _start_foxcast(server, work.model)
    return _run_foxcast(folder, server, work)


@cache
def _start_foxcast(server: MockProvider, model: str) -> None:
    """Start the program once before it is measured: the first start writes the byte code of what it imports."""
    with TemporaryDirectory() as place:
        _run_foxcast(Path(place), server, ProgramWork(questions=1, model=model))


def _run_foxcast(folder: Path, server: MockProvider, work: ProgramWork) -> ProgramRun:
    (folder / "config.toml").write_text(
        CONFIG.format(
            plugin=HERE / "workload_plugin.py",
            base_url=server.base_url(work),
            questions=work.earlier + work.questions,
            trials=work.trials,
            results=work.results,
            chars=work.chars,
            model=work.model,
            at_once="" if work.at_once is None else f"concurrency = {work.at_once}",
            permitted=""
            if work.permitted is None
            else f"[llm.providers.openai_compatible]\nconcurrency = {work.permitted}",
        )
    )
    key = folder / "key"
    key.touch(mode=0o600)
    # As long as a real one: what redaction costs depends on it.
    key.write_text("sk-of-no-vendor-" + 2 * "0123456789abcdef")
    env = {**program_environment(), "FOXCAST_CONFIG": str(folder / "config.toml"), "FOXCAST_LOG__LEVEL": "error"}
    arrivals: list[float] = []
    with server.noting(arrivals, work):
        used = run_process([COMMAND, "run", "--once", "--yes"], env=env)
        begun_by = int(str(server.get("/begun")[0]))
    threads = json.loads((folder / "threads.json").read_text())
    return ProgramRun(used=used, arrivals=arrivals, threads=threads, begun_by=begun_by)


def measure_foxcast(server: MockProvider, work: ProgramWork) -> ProgramRun:
    """Return what ``foxcast run --once`` uses for the work."""
    with run_foxcast(server, work) as (done, _):
        return done


def measure_peer(server: MockProvider, work: ProgramWork) -> ProgramRun:
    """Return what the template bot uses for the work, whatever that says of calls, trials and results."""
    _start_peer(server)
    return _run_peer(server, work)


@cache
def _start_peer(server: MockProvider) -> None:
    """Start the peer once before it is measured, as Foxcast is."""
    _run_peer(server, ProgramWork(questions=1))


def _run_peer(server: MockProvider, work: ProgramWork) -> ProgramRun:
    arrivals: list[float] = []
    with server.noting(arrivals, replace(work, calls=CALLS, trials=1)):
        used = run_process(
            [
                PEER,
                HERE / "peer_bot.py",
                str(work.questions),
                server.base_url(work),
                str(work.at_once or work.permitted or 0),
            ],
            # Neither of the two programs fetches a list of prices.
            env={**program_environment(), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
    return ProgramRun(used=used, arrivals=arrivals, threads={})


def machine_load() -> str:
    """Return the load of the machine before a measurement."""
    return f"load {os.getloadavg()[0]:.1f}"


def show_values(values: Sequence[float], unit: str, digits: int = 1) -> str:
    """Return the least and the median of values; a dash where there are none."""
    if not values:
        return "-"
    least, middle = f"{min(values):.{digits}f}", f"{median(values):.{digits}f}"
    return f"{least} {unit}" if len(values) == 1 else f"{least} (median {middle}) {unit}"


def say_columns() -> None:
    """Write the heading of the table."""
    peer = "the peer" if PEER.exists() else "no peer: make bench-peer"
    heading = f"{'Foxcast':<34}| {peer:<34}| {'floor, and times it':<24}| {'wanted':<19}| before"
    say(f"{'least and median of pairs that take turns':<62}", heading)


def say_row(what: str, *, foxcast: str, peer: str = "-", floor: str = "-", wanted: str = "-", load: str) -> None:
    """Write one row of the table."""
    say(f"{what:<62}", f"{foxcast:<34}| {peer:<34}| {floor:<24}| wanted {wanted:<12}| {load}")
