"""Reading what a life left on disk."""

from tests.ledgers import Row, rows_of

__all__ = ["Row", "rows_of"]
