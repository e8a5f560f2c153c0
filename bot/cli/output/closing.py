"""What closing positions would do, and what it did."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, table
from bot.cli.output.figures import number
from bot.domain.order import Order
from bot.domain.request import ClosingTarget
from bot.store.closings import ClosingResult, ClosingState
from bot.store.intents import ORDER

COLUMNS = (
    Column("question", Kind.TEXT),
    Column("title", Kind.TITLE),
    Column("side"),
    Column("held", Kind.NUMBER),
    Column("to sell", Kind.NUMBER),
    Column("price", Kind.NUMBER),
    Column("limit", Kind.NUMBER),
    Column("brings", Kind.NUMBER),
    Column("note", Kind.TEXT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingPreview:
    """The sale of one position as it would be made now; ``why`` says what keeps it from being made."""

    target: ClosingTarget
    question: str
    title: str
    held: float
    currency: str
    order: Order | None = None
    why: str = ""
    stay_out_h: float = 0.0

    def held_back(self, why: str) -> "ClosingPreview":
        """Return it with what keeps the sale from being made."""
        return replace(self, why=why)

    def with_order(self, order: Order | None, *, stay_out_h: float) -> "ClosingPreview":
        """Return it with its order, and how long the question is not bought after that."""
        return replace(self, order=order, stay_out_h=stay_out_h)

    @property
    def brings(self) -> float:
        """What the sale would bring by the market as it was read, after fees."""
        return 0.0 if self.order is None else self.order.shares * self.order.expected - self.order.fees


def print_previews(console: Console, previews: Sequence[ClosingPreview]) -> None:
    """Print one row for each position."""
    rows = []
    for one in previews:
        order = one.order
        figures = [number(order.shares), f"{order.expected:.4f}", f"{order.limit:.4f}"] if order else ["", "", ""]
        brings = f"{number(one.brings)} {one.currency}" if order else ""
        rows.append(
            (
                one.question or one.target.contract,
                one.title,
                str(one.target.leg),
                number(one.held),
                *figures,
                brings,
                one.why,
            )
        )
    console.print(table(COLUMNS, rows))


def print_results(console: Console, results: Sequence[ClosingResult]) -> None:
    """Print one line for each position."""
    for one in results:
        console.print(str(one))


def summed_up(results: Sequence[ClosingResult], previews: Sequence[ClosingPreview]) -> str:
    """Return the last line: how many are closed of those that were meant, for how much, and what follows."""
    closed = sum(one.state is ClosingState.CLOSED for one in results)
    cash: dict[str, float] = {}
    for one in results:
        cash[one.currency] = cash.get(one.currency, 0.0) + one.cash
    brought = ", ".join(f"{amount:.2f} {currency}" for currency, amount in cash.items() if currency)
    told = f"{closed} of {len(previews)} positions closed for {brought or 'nothing'}"
    if pending := sum(one.state is ClosingState.PENDING for one in results):
        told += f"; {pending} not known yet, see foxcast orders"
    if left := sum(one.state is ClosingState.PART for one in results):
        told += f"; {left} closed in part, ask again for the rest"
    hours = max((one.stay_out_h for one in previews), default=0.0)
    return f"{told}; not bought again for {hours:g} h (trading.stay_out_h)" if hours and closed else told


def as_plain(one: ClosingPreview | ClosingResult) -> dict[str, Any]:
    """Return it as JSON has it."""
    plain = asdict(one) if isinstance(one, ClosingResult) else asdict(replace(one, order=None))
    if isinstance(one, ClosingPreview):
        plain["order"] = None if one.order is None else ORDER.plain(one.order)
        plain["brings"] = one.brings
    return plain
