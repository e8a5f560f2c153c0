"""What each running program has used of a rate, in files beside the ledger: a daemon and the commands next to it.

A program reads what the others have used, and writes down what it is about to use, while it holds the lock of the rate;
so together they keep the rate as one does. The ledger's own note serves restarts, these files those who run now.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from bot.errors import StoreError
from bot.net.rate_limit import RateUsage
from bot.store.database import translated
from bot.store.rates import spent_in, spent_text

RATE_FOLDER = "rates"
# Who holds the state folder; its file goes over to whoever holds it next.
HOLDER = "holder"
# What was noted longer ago says nothing about any rate.
FORGOTTEN = timedelta(hours=1)
# No number of a process comes again within a window of a rate.
_NUMBERS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRates:
    """Implements ``bot.net.rate_limit.SharedRateUsage``; ``name`` is that of this program among the others."""

    folder: Path
    name: str = field(default_factory=lambda: f"{os.getpid()}-{next(_NUMBERS)}")

    @contextmanager
    def try_lock(self, rate: str) -> Iterator[bool]:
        """Hold the lock of a rate, where nobody else does at this moment; raises StoreError."""
        place = self._place(rate)
        with translated(place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(place / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    def other_usage(self, rate: str, *, now: datetime) -> Sequence[RateUsage]:
        """Return what the others have used, as they noted it last; files of long ago are taken away."""
        found = []
        for file in self._place(rate).glob("*.json"):
            if file.stem == self.name:
                continue
            with suppress(OSError, StoreError):
                spent = spent_in(rate, file.read_text(encoding="utf-8"))
                if now - spent.at <= FORGOTTEN:
                    found.append(spent)
                elif file.stem != HOLDER:
                    file.unlink()
        return found

    def save(self, rate: str, spent: RateUsage) -> None:
        """Note what this program has used; raises StoreError."""
        file = self._place(rate) / f"{self.name}.json"
        with translated(file):
            beside = file.with_suffix(".new")
            beside.write_text(spent_text(spent), encoding="utf-8")
            beside.replace(file)

    def knows_holder(self, rate: str) -> bool:
        """Say whether whoever holds the state folder has noted anything here."""
        return (self._place(rate) / f"{HOLDER}.json").exists()

    def _place(self, rate: str) -> Path:
        return self.folder / re.sub(r"[^A-Za-z0-9]+", "-", rate)
