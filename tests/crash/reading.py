"""Reading what a life left on disk."""

from tests.ledger_checks import Row, read_rows

__all__ = ["Row", "read_rows"]
