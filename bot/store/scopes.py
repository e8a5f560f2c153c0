"""Scopes on record: the names under which trials asked, be they of a forecast or of a backtest that has none."""

from collections.abc import Sequence
from datetime import datetime

from bot.store.codec import stamp
from bot.store.ledger import Ledger

SCOPES = "select distinct scope from exchange where kind = :kind and at >= :since order by scope"
TRIALS = "select distinct trial from exchange where scope = ? order by trial"
REF = "select min(ref) from model_call where scope = ?"


async def scopes_with(ledger: Ledger, kind: str, *, since: datetime | None = None) -> Sequence[str]:
    """Return the scopes that have exchanges of a kind on record; with a moment, those that have one from then on."""
    wanted = {"kind": kind, "since": "" if since is None else stamp(since)}
    return await ledger.exchanges.readers.run(
        lambda database: [scope for (scope,) in database.execute(SCOPES, dict(wanted))]
    )


async def trials_in(ledger: Ledger, scope: str) -> Sequence[int]:
    """Return the numbers of the trials of a scope that asked anything, in order."""
    return await ledger.exchanges.readers.run(
        lambda database: [trial for (trial,) in database.execute(TRIALS, [scope])]
    )


async def ref_of(ledger: Ledger, scope: str) -> str | None:
    """Return the question that the calls to models of a scope were charged to; None where none was made."""
    rows = await ledger.calls.readers.run(lambda database: database.execute(REF, [scope]).fetchall())
    return next((ref for (ref,) in rows), None)
