"""The ledger on disk: one SQLite file, one writing thread, a pool of readers.

``ledger`` opens it; each other module holds one family of tables or keeps the file safe.
"""

from bot.core.light_imports import import_without

# It has types of columns of both, which nothing here uses; they would double what ``foxcast status`` takes.
SQLITE_UTILS = import_without("sqlite_utils", "numpy", "pandas")
