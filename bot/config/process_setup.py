"""Settings of the whole process, applied before anything else: thread counts, garbage collection, no memory dumps."""

import ctypes
import gc
import os
import resource
import sys

BLAS_THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"
GC_THRESHOLD = 50_000
# Source: linux/prctl.h.
_PR_SET_DUMPABLE = 4
# Source: malloc.h of the GNU C library, mallopt(3).
_M_ARENA_MAX = -8


def configure_process() -> None:
    """Configure the interpreter and its libraries for many small values; variables that the operator set are kept.

    Call it before numpy is imported. Matrices here have some hundred columns: a second BLAS thread gains nothing, and
    after each product it spins for a tenth of a second, which costs more than the product. Values here form no cycles,
    and collecting after every 700 of them took half the time of a fit.
    """
    os.environ.setdefault(BLAS_THREADS_VARIABLE, "1")
    forbid_memory_dumps()
    share_memory_between_threads()
    gc.set_threshold(GC_THRESHOLD)


def share_memory_between_threads() -> None:
    """Let all threads take memory from one arena of the GNU C library, so that each uses what others gave back.

    The library otherwise makes up to eight arenas a processor, and each keeps what its threads freed. MALLOC_ARENA_MAX,
    if it is set, decides.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, 1)


def return_free_memory() -> None:
    """Give the system back what the GNU C library keeps of freed memory, before other work takes more."""
    if (malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        malloc_trim(0)


def resume_garbage_collection() -> None:
    """Start the collector that ``foxcast.py`` stopped; it never searches what was imported until now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def forbid_memory_dumps() -> None:
    """Let neither a crash nor another program of the same user read the memory of this process: it contains the keys.

    On Linux the limit does not apply to a program that takes core dumps, such as systemd-coredump; there the process is
    also marked as not dumpable. Child processes keep the limit and lose the mark.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
