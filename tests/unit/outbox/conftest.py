"""The outbox is tried in the house of the jobs that use it."""

from tests.unit.jobs.conftest import house

__all__ = ["house"]
