"""Settings of the whole process, applied before anything else: thread counts, garbage collection, no core dumps."""

import gc
import os
import resource

BLAS_THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"
GC_THRESHOLD = 50_000


def configure_process() -> None:
    """Suit the interpreter and its libraries to many small values; what the operator set before stays.

    Must be called before numpy is imported. Matrices here have some hundred columns: a second BLAS thread gains nothing
    on them, but after each product it spins for a tenth of a second, which cost more than the work itself. Values here
    are in no cycles, and collecting after every 700 of them took half the time of a fit.

    A process that dies leaves no image of its memory, in which its keys would be.
    """
    os.environ.setdefault(BLAS_THREADS_VARIABLE, "1")
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    gc.set_threshold(GC_THRESHOLD)
