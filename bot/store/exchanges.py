"""What each trial asked and was told, in full: the record from which it is taken up again and replayed.

An exchange is named by trial, kind (``model``, ``search``, ``page``, ``tool``, ...), key (the digest of what was asked)
and ``nth``, from 0, where the same was asked several times. It is written before it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.store.runs import Runs


@dataclass(frozen=True, slots=True, order=True)
class ExchangeKey:
    """The name of an exchange within its trial."""

    kind: str
    key: str
    nth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was told, as text (JSON), with the digest under which it is kept."""

    digest: str
    body: str


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The exchanges of all trials; ``scope`` is a forecast's id, or what stands in for it in a backtest."""

    writer: Runs
    readers: Runs

    async def of(self, scope: str, trial: int) -> Mapping[ExchangeKey, Exchange]:
        """Return all exchanges of a trial."""
        raise NotImplementedError

    async def add(self, scope: str, trial: int, key: ExchangeKey, body: str, *, at: datetime) -> str:
        """Keep an exchange and return its digest; the same again changes nothing, another body raises ContractError."""
        raise NotImplementedError
