"""Tell paper books what time and outcomes brought, and write down what every account has, paper and live.

Of what is decided it is written down what a share pays: profit is worked out from that and from the fills.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from bot.domain.order import Account, Instead, Leg
from bot.domain.resolution import Resolution
from bot.errors import FoxcastError, StoreError
from bot.ports import Clock, PaperTrader, Submitter, Trader
from bot.store import orders
from bot.store.ledger import Ledger
from bot.store.profits import AccountLane, DecidedShare

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
    lane = AccountLane(venue=venue, account=parts.names[venue], paper=venue in parts.paper)
    await parts.ledger.readings.add(venue, lane.account, account, paper=lane.paper)
    await _decide(parts, lane, trader, account)
    return 1


async def _decide(parts: Accounts, lane: AccountLane, trader: Trader, account: Account) -> None:
    """Keep what a share pays of all that was decided since; a paper book pays some while after the outcome."""
    waiting = _held(account) if lane.paper else set[tuple[str, Leg]]()
    found: list[tuple[DecidedShare, float | Instead]] = [
        (one, trader.pays(one.position, one.outcome, one.state))
        for one in await parts.ledger.profits.decided(lane)
        if (one.position.contract, one.position.leg) not in waiting
    ]
    if found:
        await parts.ledger.profits.pay(lane, found)


def _held(account: Account) -> set[tuple[str, Leg]]:
    return {(one.contract, one.leg) for one in account.positions}


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
