"""The ledger on disk: one SQLite file, one writing thread, a pool of readers.

``ledger`` opens it; each other module holds one family of tables or keeps the file safe.
"""

import importlib
import sys
from types import ModuleType


def _import_sqlite_utils() -> ModuleType:
    """Import sqlite-utils without pandas and numpy.

    It imports both where they are installed, for types of columns that nothing here has; that would double what
    ``foxcast status`` takes. A name that is None in ``sys.modules`` cannot be imported: docs.python.org, "The import
    system", "The module cache".
    """
    hidden = dict.fromkeys({"numpy", "pandas"} - sys.modules.keys())
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        return importlib.import_module("sqlite_utils")
    finally:
        for name in hidden:
            del sys.modules[name]


SQLITE_UTILS = _import_sqlite_utils()
