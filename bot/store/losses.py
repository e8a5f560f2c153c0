"""What was paid, or may have been, for calls to models that brought no answer."""

from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.store.calls import Calls
from bot.store.codec import stamp

# A call that failed cost something only where it may have been worked on; what was refused costs nothing.
LOSSES = """
select count(*), coalesce(sum(coalesce(cost_usd, worst_usd)), 0.0) from model_call
where at >= :since and (state = 'lost' or (state = 'failed' and cost_usd > 0))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Calls without an answer that may have been billed, and their worst case in US dollars."""

    calls: int = 0
    cost_usd: float = 0.0


async def losses(calls: Calls, *, since: datetime | None = None) -> Losses:
    """Return them all: those cut off, lost on their way or with the run, and those whose answer could not be read.

    With a moment, only those begun from then on.
    """
    return await calls.readers.run(lambda database: _losses(database, "" if since is None else stamp(since)))


def _losses(database: Database, since: str) -> Losses:
    count, cost_usd = database.execute(LOSSES, {"since": since}).fetchone()
    return Losses(calls=count, cost_usd=float(cost_usd))
