"""The paper book of this venue: its market for ``bot.execution.paper``; it reads, and sends nothing.

An order meets the book after its delay, level by level, each with a fee; the rest is dropped. What own orders took of a
level is gone until the level changes. Source: docs/facts/kalshi.md#paper.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    ContractSide,
    FillRequest,
    FillResult,
    MalformedDataError,
    NotFoundError,
    Order,
    Outcome,
    PaperBookContext,
    PaperBookTerms,
    Position,
    RemainderState,
    RequestRejectedError,
    UnpaidOutcome,
    VenueSubmitter,
    VoidOutcome,
    fill_from_book,
    open_paper_book,
)
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.planner import CURRENCY, read_contract, read_event_state, read_sale_price
from plugins.kalshi.questions import SCALAR_REASON, winning_ticker
from plugins.kalshi.settings import KalshiSettings

UNREADABLE = (NotFoundError, MalformedDataError, RequestRejectedError)


class KalshiPaperMarket:
    """Implements ``PaperMarket``; a mark needs only the book of its market, so it costs one request."""

    def __init__(self, client: KalshiClient) -> None:
        self._client = client

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        return None

    async def fill_new_order(self, request: FillRequest) -> FillResult:
        order = request.order
        try:
            state = await read_event_state(self._client, str(order.terms.get("event", "")))
            market = await read_contract(self._client, state, order.option, order.contract)
        except UNREADABLE as error:
            return FillResult(remainder=RemainderState.DROPPED, why=f"the market cannot be read: {error}")
        return fill_from_book(request, market, self._client.clock.now())

    async def fill_resting_order(self, request: FillRequest) -> FillResult | None:
        return None

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """See ``PaperMarket``: the average of the bids for the whole position; a market without a price is left out."""
        found: dict[tuple[str, ContractSide], float | None] = {}
        for one in positions:
            with suppress(*UNREADABLE):
                found[one.contract, one.leg] = await read_sale_price(self._client, one.contract, one.leg, one.shares)
        return found

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return share_payout(position, outcome)


def share_payout(position: Position, outcome: Outcome) -> float | UnpaidOutcome:
    """Return what a contract pays; a market that is settled between yes and no pays both legs their part.

    The market counts, because options can be renamed. An outcome that names no market pays only the option of that
    name: another name may be a new one of the same option.
    """
    yes: float
    match outcome:
        case BinaryOutcome(value=value):
            yes = value
        case ChoiceOutcome() if (winner := winning_ticker(outcome)) is not None:
            yes = float(winner == position.contract)
        case ChoiceOutcome(option=option) if option == position.option:
            yes = 1.0
        case VoidOutcome(reason=reason) if outcome.shares or reason.startswith(SCALAR_REASON):
            yes = outcome.shares.get(position.contract, outcome.shares.get("", 0.0))
        case _:
            return UnpaidOutcome.OPEN
    return yes if position.leg is ContractSide.YES else 1.0 - yes


@asynccontextmanager
async def open_paper(settings: KalshiSettings, context: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
    """Open the paper book; it reads without a key. Pairs of YES and NO are paid 1 at once."""
    client = KalshiClient(settings, context.http, context.clock)
    market = KalshiPaperMarket(client)
    async with open_paper_book(context, market, PaperBookTerms(currency=CURRENCY, redeems=True)) as book:
        yield book
