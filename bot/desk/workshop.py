"""The workshop: everything that may be used in trials, out of which each trial gets a bench of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.config.model import DeskSection
from bot.desk.desk import Bench
from bot.desk.parts import Engine, Gauge, Models, PageReader, Shelf
from bot.domain.forecast import Limits
from bot.domain.inquiry import Charge
from bot.domain.question import Question
from bot.ports import Clock, Fetcher
from bot.store.ledger import Ledger

__all__ = ["Engine", "Gauge", "Models", "PageReader", "Shelf", "Workshop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What trials work with. ``gauges`` and ``shelves`` are keyed by the name of their spec.

    ``blocked`` are the hosts that give answers away, beside those in ``section``; with ``sealed`` everything comes from
    the record, and nothing is asked, fetched or written.
    """

    section: DeskSection
    fetcher: Fetcher
    reader: PageReader
    ledger: Ledger
    clock: Clock
    engines: Sequence[Engine] = ()
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    blocked: frozenset[str] = frozenset()
    models: Models | None = None
    sealed: bool = False

    async def bench(
        self, question: Question, *, charge: Charge, cutoff: datetime, limits: Limits, guarded: bool = True
    ) -> Bench:
        """Return the bench of one trial, which goes on where its record ends."""
        raise NotImplementedError
