import os
import subprocess
import sys
from collections.abc import Mapping

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
