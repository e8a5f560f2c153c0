"""Settings of the whole process, applied before anything else: thread counts, garbage collection, no core dumps."""

import gc
import os
import resource

BLAS_THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"
GC_THRESHOLD = 50_000


def configure_process() -> None:
    """Configure the interpreter and its libraries for many small values; variables that the operator set are kept.

    Call it before numpy is imported. Matrices here have some hundred columns: a second BLAS thread gains nothing, and
    after each product it spins for a tenth of a second, which costs more than the product. Values here form no cycles,
    and collecting after every 700 of them took half the time of a fit.

    Core dumps are disabled, because they would contain the keys.
    """
    os.environ.setdefault(BLAS_THREADS_VARIABLE, "1")
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard_limit))
    gc.set_threshold(GC_THRESHOLD)
