"""A gateway over a real ledger, with scripted providers."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlite_utils import Database

from bot.config.schema import LlmSection
from bot.core.clock import SeededRandom
from bot.core.errors import StoreError
from bot.core.interfaces import Clock
from bot.core.language_models import CostAttribution, Message, MessageRole, ModelRequest, Prompt, TokenPrice
from bot.llm.call_records import CALL_RECORD_SERIALIZER, CallRecord
from bot.llm.gateway import LlmGateway, open_gateway
from bot.store.connections import TransactionRunner
from bot.store.evidence import DocumentStore, evidence_path
from bot.store.evidence_checks import check_evidence
from bot.store.integrity_checks import INVARIANTS
from bot.store.ledger import Ledger
from bot.store.model_calls import ModelCallStore, ModelPerformanceStore
from bot.store.model_concurrency import ModelConcurrencyStore
from bot.testing.models import ScriptedModelProvider, text_completion
from tests.blank_ledger import open_blank_ledger
from tests.ledger_checks import copy_databases

T = TypeVar("T")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MAIN, SPARE = "prime:big", "other:small"
PRICE = TokenPrice(tokens_in=2.0, tokens_cached=0.5, tokens_out=10.0)


def section(**changes: Any) -> LlmSection:
    """Return a configuration with one role, ``main``, without limits on what may be spent unless given."""
    given: dict[str, Any] = {
        "roles": {"main": {"model": MAIN, "max_tokens": 1000}},
        "budget": {"question_usd": None, "day_usd": None},
    }
    return LlmSection.model_validate(given | changes)


def two(*turns: Any, **given: Any) -> dict[str, ScriptedModelProvider]:
    return {
        "prime": ScriptedModelProvider(turns=[*turns], **given),
        "other": ScriptedModelProvider(turns=[text_completion("spare")]),
    }


def with_fallback(**role: Any) -> dict[str, Any]:
    return {"main": {"model": MAIN, "fallback": SPARE, "max_tokens": 1000} | role}


def charge(scope: str = "forecast-1", trial: int = 1) -> CostAttribution:
    return CostAttribution(scope=scope, ref="lantern:rain", venue="lantern", forecaster="scripted", trial=trial)


def inquiry(
    asked: str | Prompt = "Will it rain?", *, role: str = "main", to: CostAttribution | None = None, **changes: Any
) -> ModelRequest:
    prompt = asked if isinstance(asked, Prompt) else Prompt(messages=(Message(speaker=MessageRole.USER, text=asked),))
    return ModelRequest(role=role, prompt=prompt, charge=to or charge(), **changes)


class LedgerWriteTracker:
    """Writes of a ledger on their way: a virtual clock stands still while there are any.

    ``begun`` is set when one begins. While ``full``, the disk takes none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.begun = asyncio.Event()
        self.full = False

    def __call__(self) -> bool:
        return self.count > 0

    def watch(self, ledger: Ledger) -> Ledger:
        return replace(
            ledger,
            calls=ModelCallStore(_TrackedRuns(ledger.calls.writer, self), ledger.calls.readers),
            documents=DocumentStore(_TrackedRuns(ledger.documents.writer, self), ledger.documents.readers),
            model_performance=ModelPerformanceStore(
                _TrackedRuns(ledger.model_performance.writer, self), ledger.model_performance.readers
            ),
            model_concurrency=ModelConcurrencyStore(
                _TrackedRuns(ledger.model_concurrency.writer, self), ledger.model_concurrency.readers
            ),
        )


@dataclass
class _TrackedRuns:
    inner: TransactionRunner
    busy: LedgerWriteTracker

    async def run(self, work: Callable[[Database], T]) -> T:
        if self.busy.full:
            message = "the disk is full"
            raise StoreError(message)
        self.busy.count += 1
        self.busy.begun.set()
        writing = asyncio.ensure_future(self.inner.run(work))
        writing.add_done_callback(self._ended)
        return await asyncio.shield(writing)

    def _ended(self, writing: asyncio.Future[Any]) -> None:
        self.busy.count -= 1
        writing.exception()


@dataclass
class GatewayFixture:
    clock: Clock
    ledger: Ledger
    gateway: LlmGateway
    llms: Mapping[str, ScriptedModelProvider]
    path: Path
    busy: LedgerWriteTracker
    alerts: list[tuple[str, str]] = field(default_factory=list)

    async def call_record(self, digest: str, scope: str = "forecast-1") -> CallRecord:
        """Return what is on record of a call of a forecast."""
        return CALL_RECORD_SERIALIZER.decode((await self.ledger.documents.get(digest, scope=scope)).content.decode())

    @property
    def prime(self) -> ScriptedModelProvider:
        return self.llms["prime"]

    @property
    def other(self) -> ScriptedModelProvider:
        return self.llms["other"]

    @property
    def purse_usd(self) -> float:
        return self.gateway.accounting.budget.run_account.committed_usd

    async def settled(self) -> None:
        """Wait until what goes on behind the callers is done."""
        await self.gateway.accounting.tasks.wait_for_all()

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        """Read the call log as anyone with plain sqlite3 would."""
        return rows(self.path, f"select {columns} from model_call order by rowid")  # noqa: S608 - columns of a test

    def leave_as_killed(self) -> Path:
        """Copy what is durable now; ``revive`` puts it where the ledger was."""
        copy = self.path.with_name("killed.sqlite")
        copy_databases(self.path, copy)
        return copy


def revive(copy: Path, path: Path) -> None:
    """Put the files that a kill left in the place of the ledger and its evidence."""
    for left, place in ((copy, path), (evidence_path(copy), evidence_path(path))):
        left.replace(place)
        for suffix in ("-wal", "-shm"):
            place.with_name(f"{place.name}{suffix}").unlink(missing_ok=True)


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@asynccontextmanager
async def open_rig(
    path: Path,
    clock: Clock,
    *,
    section: LlmSection,
    llms: Mapping[str, ScriptedModelProvider] | None = None,
    busy: LedgerWriteTracker | None = None,
) -> AsyncIterator[GatewayFixture]:
    alerts: list[tuple[str, str]] = []

    async def alert(subject: str, text: str) -> None:
        alerts.append((subject, text))

    llms = llms or {"prime": ScriptedModelProvider(), "other": ScriptedModelProvider()}
    async with open_blank_ledger(path, now=clock.now()) as opened:
        busy = busy or LedgerWriteTracker()
        ledger = busy.watch(opened)
        seams: dict[str, Any] = {"ledger": ledger, "clock": clock, "random": SeededRandom(7), "alert": alert}
        async with open_gateway(section, llms, **seams) as gateway:
            yield GatewayFixture(clock, ledger, gateway, llms, path, busy, alerts)
    # Whatever a test did through the gateway, the rules of the ledger hold.
    # Each connection reads the schema anew, which takes far longer than the rules.
    with closing(sqlite3.connect(path)) as connection:
        assert {rule.name: found for rule in INVARIANTS if (found := connection.execute(rule.sql).fetchall())} == {}
    assert check_evidence(path).problems == ()
