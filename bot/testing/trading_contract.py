"""Contract kit for writers and paper books that trade: fills, cash, positions, open orders and payouts."""

# ruff: noqa: S101 - pytest is made of assert
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from bot.core.interfaces import TradingSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, ContractSide, Fill, OpenOrder, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, Outcome, VoidOutcome
from bot.core.questions import Question
from bot.core.submissions import Intent, SubmissionBatch, WriteReceipt
from bot.testing.mistake_hints import explain_number
from bot.testing.submitter_contracts import (
    ExpectedTrade,
    SealingSubmitterContract,
    SubmitterSetup,
    seal_and_submit,
    seal_batch,
    wait_until_settled,
)
from bot.testing.submitters import order_batch

# Venues keep money to the cent, some to a thousandth; a larger difference is missing money.
CENT = 0.01
ROUNDING = 1e-6
# Prices and fees as the author wrote them down.
PRICE_TOLERANCE = 0.0005
MONEY_TOLERANCE = 0.005
# How much worse than its price the limit of an order is that nobody meets: two ticks of most venues.
UNMET_DISTANCE = 0.02
# A trader may keep the prices of its positions for so long.
CACHE_S = 300.0
FOUR_TRADES = frozenset((side, leg) for side in OrderSide for leg in ContractSide)
Side = tuple[str, ContractSide]


def expected_trade(
    side: OrderSide,
    contract: str,
    leg: ContractSide,
    *,
    shares: float,
    price: float,
    fee: float = 0.0,
    currency: str = "USD",
    option: str = "",
) -> ExpectedTrade:
    """Return an order whose limit is its price; ``price`` is that of a share of that side, ``fee`` of all shares."""
    is_purchase = side is OrderSide.BUY
    order = Order(
        contract=contract,
        leg=leg,
        side=side,
        shares=shares,
        limit=price,
        cost=shares * price + fee if is_purchase else 0.0,
        expected=price,
        currency=currency,
        option=option,
        fees=fee,
    )
    unmet = round(price - UNMET_DISTANCE if is_purchase else price + UNMET_DISTANCE, 9)
    return ExpectedTrade(
        order=order, price=price, fee=fee, shares=shares, unfilled=replace(order, limit=unmet, expected=unmet)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTrade:
    """A trade of the setup with its receipt, and the account before and after it."""

    trade: ExpectedTrade
    receipt: WriteReceipt
    before: Account
    after: Account

    @property
    def name(self) -> str:
        """The order in words."""
        order = self.trade.order
        verb = "buying" if order.side is OrderSide.BUY else "selling"
        return f"{verb} {order.shares:g} shares of {order.leg} of {order.contract}"

    @property
    def cash(self) -> float:
        """The expected change of cash."""
        value = self.trade.shares * self.trade.price
        return (-value if self.trade.order.side is OrderSide.BUY else value) - self.trade.fee


class TradingSubmitterContract(SealingSubmitterContract):
    """What every account or paper book that trades must do in addition; the intents of ``setup.batch`` are purchases.

    ``orders_name_cost`` is True where an order names what it spends, so that better prices bring more shares than it
    named. ``orders_rest`` is False where every order is matched at once or dropped. ``pays_void`` is True where a share
    of a void question is paid by the rules of the venue, and not refunded.
    """

    orders_name_cost: ClassVar[bool] = False
    orders_rest: ClassVar[bool] = True
    pays_void: ClassVar[bool] = False

    async def test_each_trade_is_filled_at_its_price_for_its_fee(self, setup: SubmitterSetup) -> None:
        for one in await _make_trades(setup):
            trade, fills = one.trade, one.receipt.fills
            shares, price = math.fsum(fill.shares for fill in fills), trade.price
            what = f"{one.name}: the number of shares that its fills show"
            causes = {
                "the venue traded nothing: look at the limit in the request, which may be in another unit, or the "
                "price of the other side": 0.0,
                "that is the money, and not the shares": trade.shares * price,
                "that is the money in whole units, and not the shares": float(round(trade.order.cost)),
                "shares are not in hundredths": trade.shares * 100,
                "look at the unit of the shares in request and fill": trade.shares / 100,
            }
            hint = "look at the unit of the shares, and how fills are added up"
            assert _is_close(shares, trade.shares, CENT), explain_number(what, shares, trade.shares, causes, hint)
            found = math.fsum(fill.shares * fill.price for fill in fills) / shares
            causes = {
                "that is the price of the other side": 1.0 - price,
                "it is in cents, and Fill.price is from 0 to 1": price * 100,
                "it was divided by 100 twice": price / 100,
                "the fee is part of it, and belongs in Fill.fee": price + trade.fee / shares,
                "the fee was subtracted from it": price - trade.fee / shares,
            }
            hint = "look at which side the price of a fill is of, and its unit"
            what = f"{one.name}: Fill.price"
            assert _is_close(found, price, PRICE_TOLERANCE), explain_number(what, found, price, causes, hint)
            _require_fee(one, shares)
            _require_cash(f"{one.name}: Fill.cash", one, math.fsum(fill.cash for fill in fills))

    async def test_each_trade_moves_the_cash_and_shares_of_the_account(self, setup: SubmitterSetup) -> None:
        for one in await _make_trades(setup):
            _require_cash(f"{one.name}: the change of cash", one, _all_cash(one.after) - _all_cash(one.before))
            before, after = _shares_by_side(one.before), _shares_by_side(one.after)
            order, sign = one.trade.order, 1.0 if one.trade.order.side is OrderSide.BUY else -1.0
            wanted = {(order.contract, order.leg): sign * one.trade.shares}
            found = {key: after.get(key, 0.0) - before.get(key, 0.0) for key in before.keys() | after.keys()}
            moved = {key: change for key, change in found.items() if abs(change) > CENT}
            differences = [moved.get(key, 0.0) - wanted.get(key, 0.0) for key in moved.keys() | wanted.keys()]
            assert max(map(abs, differences)) <= CENT, (
                f"{one.name}: the account shows {_changes_text(moved)}, expected {_changes_text(wanted)}: look at how "
                "Order.leg and Order.side become a request, and at leg, sign and unit of the positions"
            )

    async def test_positions_show_what_they_cost_and_what_they_would_bring(self, setup: SubmitterSetup) -> None:
        costs, fees = dict[Side, float](), dict[Side, float]()
        completed = await _make_trades(setup)
        sale_prices = {_side_of(one): one.trade.price for one in completed if not _is_purchase(one)}
        for one in completed:
            key, name = _side_of(one), f"after {one.name}"
            held = {(two.contract, two.leg): two for two in one.after.positions}.get(key)
            costs[key] = _cost_after(one, costs.get(key, 0.0))
            if held is None:
                assert costs[key] < MONEY_TOLERANCE, f"{name} shares are left, but the account shows no such position"
                continue
            causes = {"that is what one share cost; paid is of all shares": costs[key] / held.shares}
            if _is_purchase(one):
                causes |= {
                    "the fee is left out": costs[key] - one.trade.fee,
                    "the fee is in it twice": costs[key] + one.trade.fee,
                }
            causes |= {
                "it is in cents": costs[key] * 100,
                "what was bought is not negative": -costs[key],
                "it is that of the shares that were sold too": _cost_before(one, costs[key]),
                "the proceeds of a sale do not count, the cost of what is left does": _cost_before(one, costs[key])
                - one.cash,
            }
            hint = "paid is the cost of the shares that are held, fees included"
            # After a sale, venues differ in which of the fees they still count.
            fees[key] = fees.get(key, 0.0) + one.trade.fee
            tolerance = CENT if _is_purchase(one) else CENT + fees[key]
            assert _is_close(held.paid, costs[key], tolerance), explain_number(
                f"{name}: Position.paid", held.paid, costs[key], causes, hint
            )
            _require_mark(name, held, one, sale_prices[key])

    async def test_a_limit_that_nobody_meets_trades_nothing(self, setup: SubmitterSetup) -> None:
        trader = _require_trader(setup)
        for number, trade in enumerate(_require_four_trades(setup)):
            if trade.unfilled is not None:
                before = await trader.account()
                order = trade.unfilled
                asked = await seal_batch(setup.sealer, _batch_of(setup, f"unfilled-{number}", order))
                receipts = await setup.sealer.submit(asked)
                fills = [fill for receipt in receipts for fill in receipt.fills]
                after = await trader.account()
                if after.orders:
                    await trader.cancel(None)
                is_moved = fills or _shares_by_side(after) != _shares_by_side(before)
                assert not is_moved, (
                    f"an order to {order.side} {order.leg} of {order.contract} at {order.limit:g} was filled, though "
                    f"the price is {trade.price:g}: its request names another limit; look at its unit, and whether it "
                    "is the price of the other side"
                )
            await seal_and_submit(setup, _batch_of(setup, f"trade-{number}", trade.order))

    async def test_a_trade_is_read_back_as_it_was_answered(self, setup: SubmitterSetup) -> None:
        for number, trade in enumerate(_require_four_trades(setup)):
            sealed, (receipt,) = await seal_and_submit(setup, _batch_of(setup, f"trade-{number}", trade.order))
            # Before the fence an absence proves nothing: lists of the venue may be old.
            await wait_until_settled(setup, sealed, self.has_fences)
            (found,) = await (await setup.reopen()).read_submissions(sealed)
            assert [replace(fill, at=setup.now()) for fill in found.fills] == [
                replace(fill, at=setup.now()) for fill in receipt.fills
            ], (
                f"an order to {trade.order.side} {trade.order.leg} has the fills {_fills_text(receipt.fills)} in "
                f"submit, and {_fills_text(found.fills)} in read_submissions: make both by the same code"
            )

    async def test_the_account_is_one_of_its_currency(self, setup: SubmitterSetup) -> None:
        account = await _require_trader(setup).account()
        assert account.at.utcoffset() is not None, "Account.at has no time zone"
        assert 0.0 <= account.cash < math.inf, f"Account.cash is {account.cash}"
        asked = {_require_order(intent).currency for intent in setup.batch.intents}
        assert asked == {account.currency}, (
            f"Account.currency is {account.currency!r}, but the orders are in {', '.join(sorted(asked))}"
        )

    async def test_an_order_takes_no_more_than_its_cost(self, setup: SubmitterSetup) -> None:
        before = await _require_trader(setup).account()
        await seal_and_submit(setup, setup.batch)
        after = await _require_trader(setup).account()
        most = math.fsum(_require_order(intent).cost for intent in setup.batch.intents)
        assert before.cash - after.cash <= most + CENT, (
            f"orders that cost at most {most:g} took {before.cash - after.cash:g} from Account.cash: Order.cost "
            "includes the fees; look at the unit of the cash and of the shares in the request"
        )
        assert after.cash >= 0.0, f"Account.cash is {after.cash:g} after a purchase"

    async def test_fills_explain_the_cash_and_the_shares(self, setup: SubmitterSetup) -> None:
        before = await _require_trader(setup).account()
        _, receipts = await seal_and_submit(setup, setup.batch)
        after = await _require_trader(setup).account()
        fills = [fill for receipt in receipts for fill in receipt.fills]
        assert fills, "the purchases of `batch` have no fills: put what was traded into WriteReceipt.fills"
        moved, filled = _all_cash(after) - _all_cash(before), math.fsum(fill.cash for fill in fills)
        assert abs(moved - filled) <= CENT, (
            f"cash changed by {moved:+g}, but the fills say {filled:+g}: Fill.cash is negative for a purchase, with "
            "its fees; cash that open orders hold back is in OpenOrder.reserves, and not in Account.cash"
        )
        gained = math.fsum(one.shares for one in after.positions) - math.fsum(one.shares for one in before.positions)
        bought = math.fsum(fill.shares for fill in fills)
        assert abs(gained - bought) <= CENT, f"the fills show {bought:g} shares, but the positions {gained:+g}"

    async def test_fills_keep_to_the_order(self, setup: SubmitterSetup) -> None:
        sealed, receipts = await seal_and_submit(setup, setup.batch)
        orders = {intent.id: _require_order(intent) for intent in sealed.intents}
        for receipt in receipts:
            order, filled = orders[receipt.intent], math.fsum(fill.shares for fill in receipt.fills)
            _require_within_order(order, receipt.fills)
            if order.side is OrderSide.SELL or not self.orders_name_cost:
                assert filled <= order.shares * (1 + ROUNDING), (
                    f"{order.contract}: the fills show {filled:g} shares of an order of {order.shares:g}"
                )

    async def test_reading_again_gives_the_same_fills(self, setup: SubmitterSetup) -> None:
        sealed, receipts = await seal_and_submit(setup, setup.batch)
        for trader in (setup.sealer, await setup.reopen()):
            found = {receipt.intent: receipt for receipt in await trader.read_submissions(sealed)}
            for receipt in receipts:
                again = found[receipt.intent].fills
                assert set(receipt.fills) <= set(again), (
                    f"submit showed the fills {receipt.fills}, and read_submissions shows {again}: make both by the "
                    "same code, with the venue's own id in Fill.reference"
                )

    async def test_an_order_that_rests_holds_back_what_it_may_take_until_it_is_cancelled(
        self, setup: SubmitterSetup
    ) -> None:
        resting_batch = self._resting_batch(setup)
        before = await _require_trader(setup).account()
        await seal_and_submit(setup, resting_batch)
        held = await _require_trader(setup).account()
        orders = _new_orders(before, held)
        reserved = math.fsum(order.reserves for order in orders)
        most = math.fsum(_require_order(intent).cost for intent in resting_batch.intents)
        assert orders, "Account.orders does not show an order that rests"
        assert 0.0 < reserved <= most + CENT, (
            f"OpenOrder.reserves is {reserved:g} for a purchase of {most:g}: it is what the order may still spend"
        )
        assert abs(before.cash - reserved - held.cash) <= CENT, (
            f"cash was {before.cash:g} and is {held.cash:g}, though {reserved:g} is reserved: subtract the reserves of "
            "open orders from Account.cash, once"
        )
        ended, asked = (
            set(await _require_trader(setup).cancel([order.id for order in orders])),
            {order.id for order in orders},
        )
        assert ended == asked, f"cancel returns {sorted(ended)}, but ended are {sorted(asked)}"
        after = await _require_trader(setup).account()
        assert _new_orders(before, after) == [], "an order that was cancelled is still in Account.orders"
        assert abs(before.cash - after.cash) <= CENT, (
            f"cash is {after.cash:g} after the order was cancelled, and was {before.cash:g} before it"
        )

    async def test_cancelling_everything_leaves_nothing_to_rest(self, setup: SubmitterSetup) -> None:
        await seal_and_submit(setup, self._resting_batch(setup))
        ended = await _require_trader(setup).cancel(None)
        assert len(ended) == len(set(ended)) > 0, (
            f"cancel(None) returns {ended}: the ids of all that it cancelled, once"
        )
        left = (await _require_trader(setup).account()).orders
        assert left == (), f"open after cancel(None): {[order.id for order in left]}"

    async def test_both_sides_of_what_is_decided_pay_one_together_and_never_less_than_nothing(
        self, setup: SubmitterSetup
    ) -> None:
        trader = _require_trader(setup)
        for intent in setup.batch.intents:
            order, outcome = _require_order(intent), _winning_outcome(intent)
            paid = [trader.payout_per_share(_one_share(intent, leg), outcome, "") for leg in ContractSide]
            shares = [one for one in paid if not isinstance(one, UnpaidOutcome)]
            advice = f"{order.contract}: {outcome} pays {paid} for a share of each side"
            assert len(shares) == len(paid), f"{advice}: an outcome that is known must pay"
            assert abs(sum(shares) - 1.0) <= CENT, f"{advice}: together they must pay 1"
            assert all(0.0 <= share <= 1.0 for share in shares), f"{advice}: a share pays between 0 and 1"

    async def test_shares_are_added_to_the_side_that_was_bought(self, setup: SubmitterSetup) -> None:
        before = _shares_by_side(await _require_trader(setup).account())
        sealed, receipts = await seal_and_submit(setup, setup.batch)
        after = _shares_by_side(await _require_trader(setup).account())
        filled = {one.intent: math.fsum(fill.shares for fill in one.fills) for one in receipts}
        for contract, leg in before.keys() | after.keys():
            orders = [one for one in sealed.intents if _is_order_on(one, contract, leg)]
            bought = math.fsum(filled[one.id] for one in orders)
            gained = after.get((contract, leg), 0.0) - before.get((contract, leg), 0.0)
            assert abs(gained - bought) <= CENT, (
                f"{contract}: {bought:g} shares of {leg} were bought, but the account shows {gained:+g}: look at how "
                "Order.leg and Order.side become a request or a row, and which side positions are read as"
            )

    async def test_the_side_that_came_true_is_paid(self, setup: SubmitterSetup) -> None:
        trader = _require_trader(setup)
        for intent in setup.batch.intents:
            for leg, wanted in ((ContractSide.YES, 1.0), (ContractSide.NO, 0.0)):
                paid = trader.payout_per_share(_one_share(intent, leg), _winning_outcome(intent), "")
                assert paid == wanted, (
                    f"{_require_order(intent).contract} came true, and payout_per_share pays {paid} for a share of "
                    f"{leg}, expected {wanted:g}: is the wrong side paid?"
                )

    async def test_what_the_venue_cancelled_wins_for_no_side(self, setup: SubmitterSetup) -> None:
        trader = _require_trader(setup)
        if self.pays_void:
            return
        for intent in setup.batch.intents:
            for leg in ContractSide:
                paid = trader.payout_per_share(_one_share(intent, leg), VoidOutcome("cancelled"), "")
                assert isinstance(paid, UnpaidOutcome), (
                    f"{_require_order(intent).contract} is void, and payout_per_share pays {paid} for a share of "
                    f"{leg}: return UnpaidOutcome.REFUND, or OPEN while it is not final"
                )

    async def test_cancelling_what_others_ordered_is_not_claimed(self, setup: SubmitterSetup) -> None:
        await seal_and_submit(setup, self._resting_batch(setup))
        resting = (await _require_trader(setup).account()).orders
        await _require_trader(setup).cancel([])
        left = (await _require_trader(setup).account()).orders
        assert left == resting, "cancel([]) changed the open orders: it names none, and only None means all"

    def _resting_batch(self, setup: SubmitterSetup) -> SubmissionBatch:
        if not self.orders_rest:
            pytest.skip("no order of this venue rests")
        assert setup.resting_batch is not None, (
            "set SubmitterSetup.resting_batch: a purchase that nobody fills; or orders_rest = False"
        )
        return setup.resting_batch


def _require_fee(one: CompletedTrade, shares: float) -> None:
    found, fee = math.fsum(fill.fee for fill in one.receipt.fills), one.trade.fee
    causes = {
        "the fee is forgotten": 0.0,
        "that is the fee of one share": fee / shares,
        "it is counted twice": 2 * fee,
        "it is in cents": fee * 100,
        "look at its unit": fee / 100,
    }
    hint = "look at the field of the fee, its unit, and whether each fill has its own"
    assert _is_close(found, fee, min(MONEY_TOLERANCE, fee / 2 or MONEY_TOLERANCE)), explain_number(
        f"{one.name}: Fill.fee", found, fee, causes, hint
    )


def _require_cash(what: str, one: CompletedTrade, found: float) -> None:
    trade, wanted = one.trade, one.cash
    sign = -1.0 if _is_purchase(one) else 1.0
    value, other = sign * trade.shares * trade.price, sign * trade.shares * (1.0 - trade.price)
    causes = {
        "nothing has changed": 0.0,
        "it moved the wrong way: a purchase takes cash, and a sale brings it": -wanted,
        "it moved the wrong way, and the fee with it": -value - trade.fee,
        "the fee is forgotten": value,
        "the fee is counted twice": value - 2 * trade.fee,
        "the fee was added and not subtracted": value + trade.fee,
        "it is in cents": wanted * 100,
        "it was divided by 100 twice": wanted / 100,
        "that is the price of the other side": other - trade.fee,
        "that is the number of shares": sign * trade.shares,
        "that is what one share costs": sign * trade.price,
    }
    hint = (
        "it is shares times price of that side, and the fee is always subtracted; a pair of YES and NO pays 1 at once "
        "only where the venue redeems"
    )
    tolerance = min(MONEY_TOLERANCE, trade.fee / 2 or MONEY_TOLERANCE)
    assert _is_close(found, wanted, tolerance), explain_number(what, found, wanted, causes, hint)


def _require_mark(name: str, held: Position, one: CompletedTrade, wanted: float) -> None:
    if held.decided:
        return
    causes = {
        "that is what a share costs; what it can be sold for counts": one.trade.price,
        "that is the price of the other side": 1.0 - wanted,
        "it is in cents": wanted * 100,
        "it is of one share": wanted * held.shares,
    }
    hint = "mark is the price at which the shares could be sold now, to those who bid for that side"
    found = math.nan if held.mark is None else held.mark
    assert _is_close(found, wanted, CENT), explain_number(f"{name}: Position.mark", held.mark, wanted, causes, hint)


def _cost_after(one: CompletedTrade, before: float) -> float:
    """Return what the shares cost that are held after a trade, at the average cost of a share."""
    if _is_purchase(one):
        return before - one.cash
    held = _shares_by_side(one.before).get(_side_of(one), 0.0)
    return before * (1.0 - one.trade.shares / held) if held else 0.0


def _cost_before(one: CompletedTrade, after: float) -> float:
    if _is_purchase(one):
        return after + one.cash
    left = _shares_by_side(one.after).get(_side_of(one), 0.0)
    return after * (1.0 + one.trade.shares / left) if left else 0.0


def _side_of(one: CompletedTrade) -> Side:
    return one.trade.order.contract, one.trade.order.leg


def _is_purchase(one: CompletedTrade) -> bool:
    return one.trade.order.side is OrderSide.BUY


def _is_close(found: float, wanted: float, tolerance: float) -> bool:
    return math.isclose(found, wanted, rel_tol=0.0, abs_tol=tolerance)


def _changes_text(changes: dict[Side, float]) -> str:
    return ", ".join(f"{change:+g} of {leg} of {name}" for (name, leg), change in changes.items()) or "no change"


def _fills_text(fills: Sequence[Fill]) -> str:
    shown = (
        f"{fill.reference}: {fill.shares:g} at {fill.price:g}, fee {fill.fee:g}, cash {fill.cash:+g}" for fill in fills
    )
    return "; ".join(shown) or "none"


async def _make_trades(setup: SubmitterSetup) -> list[CompletedTrade]:
    trader, completed = _require_trader(setup), []
    for number, trade in enumerate(_require_four_trades(setup)):
        before = await trader.account()
        await setup.advance_time(CACHE_S)
        _, (receipt,) = await seal_and_submit(setup, _batch_of(setup, f"trade-{number}", trade.order))
        completed.append(CompletedTrade(trade=trade, receipt=receipt, before=before, after=await trader.account()))
    return completed


def _require_four_trades(setup: SubmitterSetup) -> Sequence[ExpectedTrade]:
    missing = FOUR_TRADES - {(one.order.side, one.order.leg) for one in setup.trades}
    assert not missing, (
        f"`trades` has no order to {' and to '.join(sorted(f'{side} {leg}' for side, leg in missing))}: give one for "
        "each side and leg, with the price and fee by the venue's documentation; see expected_trade in "
        "bot.testing.trading_contract"
    )
    return setup.trades


def _batch_of(setup: SubmitterSetup, key: str, order: Order) -> SubmissionBatch:
    questions: dict[str, Question] = {}
    for intent in setup.batch.intents:
        by_ref = {question.ref: question for question in setup.batch.questions}
        questions[_require_order(intent).contract] = by_ref[intent.ref]
    assert order.contract in questions, (
        f"a trade is on {order.contract}, but `batch` (or `accepted`) has no order on that contract"
    )
    return order_batch(key, (questions[order.contract], order))


def _require_trader(setup: SubmitterSetup) -> TradingSubmitter:
    assert isinstance(setup.sealer, TradingSubmitter), (
        f"{type(setup.sealer).__name__} does not trade: it needs account, cancel and payout_per_share"
    )
    return setup.sealer


def _all_cash(account: Account) -> float:
    """Return free cash and what open orders hold back."""
    return account.cash + math.fsum(order.reserves for order in account.orders)


def _shares_by_side(account: Account) -> dict[Side, float]:
    return {(one.contract, one.leg): one.shares for one in account.positions}


def _is_order_on(intent: Intent, contract: str, leg: ContractSide) -> bool:
    order = _require_order(intent)
    return (order.contract, order.leg) == (contract, leg)


def _one_share(intent: Intent, leg: ContractSide) -> Position:
    order = _require_order(intent)
    return Position(contract=order.contract, leg=leg, shares=1.0, paid=0.5, ref=intent.ref, option=order.option)


def _winning_outcome(intent: Intent) -> Outcome:
    """Return an outcome of the question of an intent: the bought side comes true."""
    option = _require_order(intent).option
    return ChoiceOutcome(option) if option else BinaryOutcome(1.0)


def _require_order(intent: Intent) -> Order:
    assert isinstance(intent.order, Order), f"the intent {intent.id} of the kit has no order"
    return intent.order


def _new_orders(before: Account, after: Account) -> list[OpenOrder]:
    known = {order.id for order in before.orders}
    return [order for order in after.orders if order.id not in known]


def _require_within_order(order: Order, fills: Sequence[Fill]) -> None:
    references, name = [fill.reference for fill in fills], order.contract
    assert all(references), f"{name}: a fill has no reference: use the venue's own id of the trade"
    assert len(set(references)) == len(references), f"{name}: two fills have the same reference: {references}"
    spent = -math.fsum(fill.cash for fill in fills)
    assert spent <= order.cost + CENT, f"{name}: the fills cost {spent:g}, but Order.cost is {order.cost:g}"
    for fill in fills:
        assert fill.shares > 0.0, f"{name}: a fill has {fill.shares:g} shares: they are never negative, cash is"
        assert fill.fee >= 0.0, f"{name}: Fill.fee is {fill.fee:g}: it is what is taken, so not negative"
        value = fill.shares * fill.price
        if order.side is OrderSide.BUY:
            assert fill.price <= order.limit + ROUNDING, (
                f"{name}: bought at {fill.price:g}, above the limit {order.limit:g}: is Fill.price that of the leg "
                "that was ordered, from 0 to 1?"
            )
            assert -fill.cash >= value - CENT, (
                f"{name}: {fill.shares:g} shares at {fill.price:g} cost {value:g}, but Fill.cash is {fill.cash:+g}"
            )
        else:
            assert fill.price >= order.limit - ROUNDING, f"{name}: sold at {fill.price:g}, below {order.limit:g}"
            assert fill.cash <= value + CENT, f"{name}: a sale for {value:g} shows Fill.cash {fill.cash:+g}"
