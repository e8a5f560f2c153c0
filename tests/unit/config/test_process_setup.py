import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot.config.process_setup import BLAS_THREADS_VARIABLE, GC_THRESHOLD

SETTLED = """
import gc, os
from bot.config.process_setup import configure_process
configure_process()
print(os.environ["OPENBLAS_NUM_THREADS"], gc.get_threshold()[0])
"""


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({BLAS_THREADS_VARIABLE: "3"}, "3")], ids=["unset", "set"])
def test_one_blas_thread_and_rare_collections_unless_the_operator_says_otherwise(
    given: Mapping[str, str], threads: str
) -> None:
    plain = {name: value for name, value in os.environ.items() if name != BLAS_THREADS_VARIABLE}
    told = subprocess.check_output([sys.executable, "-c", SETTLED], env=plain | dict(given), text=True)
    assert told.split() == [threads, str(GC_THRESHOLD)]


COLLECTED = """
import gc, sys
from bot.cli import costs
costs.app = costs.typer.Typer()
costs.app.command()(lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000))
import foxcast
sys.argv = ["foxcast", "costs"]
foxcast.main()
"""


def test_a_command_runs_with_the_garbage_collector_which_never_searches_what_was_imported() -> None:
    assert subprocess.check_output([sys.executable, "-c", COLLECTED], text=True) == "True True\n"


# The library lists its arenas in XML: malloc_info(3).
ARENAS = """
import ctypes, threading
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
threads = [threading.Thread(target=library.malloc, args=(5000,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.fopen.restype = ctypes.c_void_p
library.malloc_info(0, ctypes.c_void_p(library.fopen(b"/dev/stdout", b"w")))
library.fflush(None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not the GNU C library")
@pytest.mark.parametrize(
    "before", ["", "from bot.config.process_setup import configure_process; configure_process()\n"]
)
def test_threads_share_one_arena(before: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    told = subprocess.check_output([sys.executable, "-c", before + ARENAS], text=True, env=env)
    assert (told.count("<heap nr=") == 1) is bool(before)


# Blocks that the library takes from its heap, below one that is kept.
FREED = """
import resource
from pathlib import Path
from bot.config.process_setup import configure_process, return_free_memory
def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
configure_process()
blocks = [bytes(10_000) for _ in range(3_000)]
kept = bytes(10_000)
blocks.clear()
before = resident_mb()
return_free_memory()
print(before - resident_mb())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not the GNU C library")
def test_memory_that_was_freed_goes_back_to_the_system() -> None:
    assert float(subprocess.check_output([sys.executable, "-c", FREED], text=True)) > 20


DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
CRASHES = {
    "configure_process": "from bot.config.process_setup import configure_process; configure_process()",
    "signer": "import io, sys; sys.stdin = io.StringIO(); from plugins.polymarket import signer; signer.main()",
}


def crash_dumps_core(before: str, folder: Path) -> bool:
    """Return whether a process that did this and then crashes leaves its memory, as far as the system allows."""
    start = "import os, resource as r; r.setrlimit(r.RLIMIT_CORE, (r.getrlimit(r.RLIMIT_CORE)[1],) * 2)"
    code = f"{start}; {before}; os.chdir({str(folder)!r}); os.abort()"
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    return os.WCOREDUMP(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("before", ["configure_process", "signer"])
def test_a_process_that_holds_keys_leaves_no_core_dump_and_is_closed_to_debuggers(before: str, tmp_path: Path) -> None:
    assert not crash_dumps_core(CRASHES[before], tmp_path)
    assert [*tmp_path.iterdir()] == []
    if sys.platform == "linux":
        told = subprocess.check_output([sys.executable, "-c", f"{CRASHES[before]}; {DUMPABLE}"], text=True)
        assert told == "0\n"
        assert subprocess.check_output([sys.executable, "-c", DUMPABLE], text=True) == "1\n"
