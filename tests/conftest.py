"""What all tests share: the neighbouring reference folder and the settings of generated examples."""

import gc
import os
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings

from bot.config.process_setup import BLAS_THREADS_VARIABLE
from bot.core import redaction

# Where byte code is not kept, each of the hundreds of processes that tests start would compile the program again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# As the program has it, and before numpy is imported: a second thread spins for longer than it computes.
os.environ.setdefault(BLAS_THREADS_VARIABLE, "1")

# Of a test with a ledger most of the time is waiting for the disk. Memory takes its place where it has room for all
# temporary files and lets programs among them start; TMPDIR names another folder.
MEMORY, ROOM_BYTES = Path("/dev/shm"), 2 * 2**30  # noqa: S108 - pytest makes a folder of its own in it
if "TMPDIR" not in os.environ and MEMORY.is_dir():
    _room = os.statvfs(MEMORY)
    if _room.f_bavail * _room.f_frsize >= ROOM_BYTES and not _room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None

# The same examples on every machine, and no limit on one example: CI shares its cores. Fifty examples of each rule are
# half of the default; tests that need more say so themselves.
settings.register_profile("ci", max_examples=50, derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("dev", max_examples=50, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


# Tests log exceptions by the thousand, and the default shows each with the source and all variables, a quarter of a
# second a time.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    # Options are read from here alone, before the folders that they are for are looked into.
    group = parser.getgroup("foxcast")
    group.addoption("--run-model-campaign", action="store_true", help="forecast 50 questions with the real small model")
    group.addoption("--whole-corpus", action="store_true", help="play all hostile pages, not every third of them")
    group.addoption("--run-slow", action="store_true", help="also what takes minutes: stages, waiting for rates")
    group.addoption("--run-live", action="store_true", help="ask the real services whose keys are set")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it puts into the background deaf to Ctrl-C, and so would be all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "model_campaign: takes many minutes with the small model; --run-model-campaign")
    config.addinivalue_line("markers", "live: asks a real service; --run-live")
    config.addinivalue_line("markers", "slow: takes minutes: stages, waiting for rates; --run-slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    options = {"model_campaign": "--run-model-campaign", "live": "--run-live", "slow": "--run-slow"}
    for marker, option in options.items():
        skip = pytest.mark.skip(reason=f"runs with {option} only")
        marked = [item for item in items if item.get_closest_marker(marker)]
        for item in () if config.getoption(option) else marked:
            item.add_marker(skip)
    # A test of the whole command starts several processes, each of some seconds where others share the cores.
    whole = [item for item in items if "acceptance" in item.path.parts and item.get_closest_marker("timeout") is None]
    for item in whole:
        item.add_marker(pytest.mark.timeout(120))
    if hasattr(config, "workerinput"):
        _put_long_files_first(items)


def _put_long_files_first(items: list[pytest.Item]) -> None:
    """Sort by what a file gives its longest test: a long file that began last would leave the other process idle."""
    longest: dict[Path, float] = defaultdict(float)
    for item in items:
        if limit := item.get_closest_marker("timeout"):
            longest[item.path] = max(longest[item.path], limit.args[0])
    items.sort(key=lambda item: -longest[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one process: what its tests share is made once, and a scheduler with few parts is fast."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class FileScheduling(LoadGroupScheduling):  # type: ignore[misc]  # the library ships no types
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if scope == nodeid else scope

    config.option.loadscopereorder = False
    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: nearly all that is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the collector away from 13,000 collected tests, which stay until the end: a seventh of the time of all."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget the secrets that a test registered: the next one may say the same word."""
    with redaction.temporary_secrets():
        yield


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what a test, or a program that it plays, set up for logs: the next one may listen to them."""
    before = structlog.get_config()
    yield
    if structlog.get_config() != before:
        structlog.configure(**before)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference texts, test vectors and real rounds next to this repository."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder shared/ with the reference data is not beside this repository")
    return folder
