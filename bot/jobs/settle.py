"""Tell paper books what time and outcomes brought, and write down what every account has, paper and live."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from bot.domain.resolution import Resolution
from bot.errors import FoxcastError, StoreError
from bot.ports import Clock, PaperTrader, Submitter, Trader
from bot.store import orders
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Whose books are told and read: the open submitters by venue, the name of each account, and which are paper."""

    ledger: Ledger
    submitters: Mapping[str, Submitter]
    names: Mapping[str, str]
    clock: Clock
    paper: Collection[str] = ()


async def settle_accounts(parts: Accounts) -> str:
    """Settle, advance and read one account after the other; one that fails holds up no other."""
    settled = advanced = read = 0
    for venue, submitter in parts.submitters.items():
        if isinstance(submitter, PaperTrader):
            settled += await _tried(venue, "settled", partial(_settle, parts, venue, submitter))
            advanced += await _tried(venue, "advanced", submitter.advance)
        if isinstance(submitter, Trader):
            read += await _tried(venue, "read", partial(_read, parts, venue, submitter))
    return f"{settled} positions settled, {advanced} orders advanced, {read} accounts read"


async def _settle(parts: Accounts, venue: str, book: PaperTrader) -> int:
    known: Sequence[Resolution] = await parts.ledger.submissions.readers.run(
        lambda database: orders.outcomes(database, venue)
    )
    return await book.settle(known) if known else 0


async def _read(parts: Accounts, venue: str, trader: Trader) -> int:
    account = await trader.account()
    await parts.ledger.readings.add(venue, parts.names[venue], account, paper=venue in parts.paper)
    return 1


async def _tried(venue: str, what: str, work: Callable[[], Awaitable[int]]) -> int:
    """Return what the work counted, 0 where the venue or its plugin failed."""
    try:
        return await work()
    except StoreError:
        raise
    except FoxcastError as error:
        log.warning("an account has trouble", venue=venue, not_done=what, error=str(error))
    except Exception:
        log.exception("an account has trouble", venue=venue, not_done=what)
    return 0
