"""The kits for sealers and traders are mutated before they are trusted: each break must fail its named check."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.core.orders import Account, ContractSide, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import Outcome
from bot.core.predictions import BinaryPrediction
from bot.core.submissions import (
    Intent,
    IntentAction,
    IntentState,
    ListedWrite,
    SealedRequest,
    SubmissionBatch,
    WriteReceipt,
)
from bot.testing.clock import FakeClock
from bot.testing.exchange import FakeExchange, WriteFailure
from bot.testing.submitter_contracts import SealingSubmitterContract, SubmitterSetup
from bot.testing.trading_contract import TradingSubmitterContract, expected_trade
from tests.unit.testing.correct_venue import Failure, checks_of, question, run_check

KEY = "do-not-show-me"
PRICE = 0.5
S = IntentState


class CorrectExchange(FakeExchange):
    """Sound: refuses what the batch marks as refused, and lets rest what nobody fills; a class for others to break.

    Others trade at ``PRICE`` on both sides.
    """

    shared: dict[str, Any]

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.shared = {}

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [] if batch.key == "closed" else await super().seal_requests(batch)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self.fill_share = 1.0 if batch.key != "resting" and self.meets_price(batch.intents) else 0.0
        return await super().submit(batch)

    def meets_price(self, intents: Sequence[Intent]) -> bool:
        orders = [one.order for one in intents if one.order is not None]
        return all(one.limit >= PRICE if one.side is OrderSide.BUY else one.limit <= PRICE for one in orders)

    async def account(self) -> Account:
        account = await super().account()
        return replace(account, positions=tuple(replace(one, mark=PRICE) for one in account.positions))


class SendingOnSealExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        sealed = await super().seal_requests(batch)
        await super().submit(replace(batch, sealed=tuple(sealed)))
        return sealed


class OneRequestExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return (await super().seal_requests(batch))[:1]


class BlankExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [replace(one, tag=" ") for one in await super().seal_requests(batch)]


class FencelessExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [replace(one, fence=None) for one in await super().seal_requests(batch)]


class PastFenceExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        past = self.clock.now() - timedelta(seconds=1)
        return [replace(one, fence=past) for one in await super().seal_requests(batch)]


class OneTagExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [replace(one, tag="tag") for one in await super().seal_requests(batch)]


class ShowingExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [replace(one, body=f"{one.body} {KEY}") for one in await super().seal_requests(batch)]


class BlindExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [replace(one, question=None) for one in await super().seal_requests(batch)]


class MisreadingExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        made = await super().seal_requests(batch)
        return [replace(one, question=one.question and replace(one.question, background="?")) for one in made]


class TrustfulExchange(CorrectExchange):
    """Shows its questions as they were given to it, without a look at the venue."""

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        self.edited_questions.clear()
        return await super().seal_requests(batch)


class ForgettingExchange(CorrectExchange):
    """Knows only what it has sent itself, so that nothing is found after a restart."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.mine: set[str] = set()

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self.mine |= {one.tag for one in batch.sealed}
        return await super().submit(batch)

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return await super().read_submissions(
            replace(batch, sealed=tuple(one for one in batch.sealed if one.tag in self.mine))
        )


class LastOnlyExchange(CorrectExchange):
    """Looks only for the last request it is given, where the newest comes first."""

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return await super().read_submissions(
            replace(batch, sealed=tuple({one.intent: one for one in batch.sealed}.values()))
        )


class PrivatelyNumberedExchange(CorrectExchange):
    """Lists its orders under ids that neither a receipt nor a request has."""

    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        return [replace(one, reference=f"#{one.reference}") for one in await super().list_writes(since)]


class ForgetfulListExchange(CorrectExchange):
    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        return (await super().list_writes(since))[1:]


class BoastingExchange(CorrectExchange):
    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [WriteReceipt(intent=intent.id, state=S.ACKED) for intent in batch.intents]


class DenyingExchange(CorrectExchange):
    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [WriteReceipt(intent=intent.id, state=S.ABSENT) for intent in batch.intents]


class TrustingExchange(CorrectExchange):
    """Takes a lost connection for success."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts = await super().submit(batch)
        return [replace(one, state=S.ACKED) if one.state is S.UNKNOWN else one for one in receipts]


class DespairingExchange(CorrectExchange):
    """Takes a lost connection for a refusal."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts = await super().submit(batch)
        return [replace(one, state=S.REFUSED) if one.state is S.UNKNOWN else one for one in receipts]


class RetryingExchange(CorrectExchange):
    """Sends again whatever got no answer."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts = await super().submit(batch)
        return await super().submit(batch) if any(one.state is S.UNKNOWN for one in receipts) else receipts


class ResealingExchange(CorrectExchange):
    """Sends something newer than what was sealed."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return await super().submit(replace(batch, sealed=tuple(await super().seal_requests(batch))))


class MendingExchange(CorrectExchange):
    """Writes what it finds missing."""

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        found = await super().read_submissions(batch)
        missing = {one.intent for one in found if one.state is S.ABSENT}
        intents = tuple(intent for intent in batch.intents if intent.id in missing)
        if intents and batch.sealed:
            await super().submit(replace(batch, intents=intents))
        return found


class LosingExchange(CorrectExchange):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return (await super().submit(batch))[1:]


class CurtExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return await FakeExchange.seal_requests(self, batch)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        if batch.key != "closed":
            return await super().submit(batch)
        return [WriteReceipt(intent=intent.id, state=S.REFUSED) for intent in batch.intents]


class CarelessExchange(CorrectExchange):
    """Sends what it should refuse."""

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return await FakeExchange.seal_requests(self, batch)


class ScribblingExchange(CorrectExchange):
    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return (
            []
            if batch.intents == () and self.placed_orders
            else await super().seal_requests(replace(batch, key="open"))
        )

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        if batch.intents:
            return await super().submit(batch)
        other = intent_for(7)
        await super().submit(replace(batch, intents=(other,), sealed=(self._seal(other),)))
        return []


class ForeignExchange(CorrectExchange):
    async def account(self) -> Account:
        return replace(await super().account(), currency="SHELL")


class OverspendingExchange(CorrectExchange):
    async def account(self) -> Account:
        account = await super().account()
        return replace(account, cash=account.cash - 50.0) if self.placed_orders else account


class MiscountingExchange(CorrectExchange):
    async def account(self) -> Account:
        account = await super().account()
        return replace(account, positions=tuple(replace(one, shares=one.shares / 2) for one in account.positions))


class UnderchargingExchange(CorrectExchange):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [
            replace(one, fills=tuple(replace(fill, cash=fill.cash / 2) for fill in one.fills))
            for one in await super().submit(batch)
        ]


class OverfillingExchange(CorrectExchange):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [
            replace(one, fills=tuple(replace(fill, shares=fill.shares * 3, cash=fill.cash * 3) for fill in one.fills))
            for one in await super().submit(batch)
        ]


class OverpayingExchange(CorrectExchange):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [
            replace(one, fills=tuple(replace(fill, price=0.9) for fill in one.fills))
            for one in await super().submit(batch)
        ]


class WrongWayCashExchange(CorrectExchange):
    """Takes cash for a sale, and gives it for a purchase."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [
            replace(one, fills=tuple(replace(fill, cash=-fill.cash) for fill in one.fills))
            for one in await super().submit(batch)
        ]


class CountingHundredthsExchange(CorrectExchange):
    async def account(self) -> Account:
        account = await super().account()
        return replace(account, positions=tuple(replace(one, shares=one.shares * 100) for one in account.positions))


class CentsExchange(CorrectExchange):
    async def account(self) -> Account:
        account = await super().account()
        return replace(account, cash=account.cash * 100)


class ForgettingProceedsExchange(CorrectExchange):
    """Shows the cost of all shares that were ever bought."""

    async def account(self) -> Account:
        account = await super().account()
        return replace(account, positions=tuple(replace(one, paid=10.0) for one in account.positions))


class UnmarkedExchange(CorrectExchange):
    async def account(self) -> Account:
        account = await super().account()
        return replace(account, positions=tuple(replace(one, mark=None) for one in account.positions))


class LimitlessExchange(CorrectExchange):
    """Sends every order at the market."""

    def meets_price(self, intents: Sequence[Intent]) -> bool:
        return True


class RenamingExchange(CorrectExchange):
    """Gives a fill another name each time it is read."""

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self.shared["readings"] = self.shared.get("readings", 0) + 1
        return [
            replace(one, fills=tuple(replace(fill, reference=f"{self.shared['readings']}") for fill in one.fills))
            for one in await super().read_submissions(batch)
        ]


class UnreservedExchange(CorrectExchange):
    async def account(self) -> Account:
        account = await super().account()
        free = sum(order.reserves for order in account.orders)
        return replace(account, cash=account.cash + free)


class UncancellingExchange(CorrectExchange):
    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        return list(order_ids) if order_ids is not None else [order.id for order in (await self.account()).orders]


class SweepingExchange(CorrectExchange):
    """Cancels everything when it is asked to cancel nothing."""

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        return await super().cancel(order_ids or None)


class DoublingExchange(CorrectExchange):
    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return 1.0


class OtherSideExchange(CorrectExchange):
    """Shows what was bought as shares of the other side, as one that takes a purchase for a sale."""

    async def account(self) -> Account:
        account = await super().account()
        return replace(account, positions=tuple(replace(one, leg=ContractSide.NO) for one in account.positions))


class PayingLosersExchange(CorrectExchange):
    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        paid = super().payout_per_share(position, outcome, state)
        return paid if isinstance(paid, UnpaidOutcome) else 1.0 - paid


class VoidPayingExchange(CorrectExchange):
    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        paid = super().payout_per_share(position, outcome, state)
        return float(position.leg is ContractSide.NO) if isinstance(paid, UnpaidOutcome) else paid


SEALER_MUTANTS: list[tuple[str, type[CorrectExchange]]] = [
    ("sealing_sends_nothing", SendingOnSealExchange),
    ("sealing_sends_nothing", BoastingExchange),
    ("each_intent_has_one_complete_request", OneRequestExchange),
    ("each_intent_has_one_complete_request", BlankExchange),
    ("each_intent_has_one_complete_request", FencelessExchange),
    ("each_intent_has_one_complete_request", PastFenceExchange),
    ("each_request_shows_its_question_as_the_writer_read_it", BlindExchange),
    ("each_request_shows_its_question_as_the_writer_read_it", MisreadingExchange),
    ("a_question_that_was_edited_is_shown_as_it_is_now", TrustfulExchange),
    ("a_question_that_was_edited_is_shown_as_it_is_now", OneRequestExchange),
    ("no_two_requests_have_the_same_tag", OneTagExchange),
    ("requests_hold_no_secret", ShowingExchange),
    ("what_was_acknowledged_is_found_by_its_request_after_a_restart", ForgettingExchange),
    ("what_was_acknowledged_is_found_by_its_request_after_a_restart", DenyingExchange),
    ("what_was_acknowledged_is_found_by_its_request_after_a_restart", LosingExchange),
    ("what_was_acknowledged_is_found_by_its_request_after_a_restart", ResealingExchange),
    ("the_list_of_writes_names_what_was_written_as_the_ledger_does", PrivatelyNumberedExchange),
    ("the_list_of_writes_names_what_was_written_as_the_ledger_does", ForgetfulListExchange),
    ("it_is_found_among_the_requests_of_earlier_attempts", LastOnlyExchange),
    ("a_lost_reply_is_a_doubt_that_reading_settles", TrustingExchange),
    ("a_lost_reply_is_a_doubt_that_reading_settles", DespairingExchange),
    ("a_lost_reply_is_a_doubt_that_reading_settles", RetryingExchange),
    ("a_lost_reply_is_a_doubt_that_reading_settles", DenyingExchange),
    ("an_error_of_a_server_in_between_is_a_doubt", DespairingExchange),
    ("an_error_of_a_server_in_between_is_a_doubt", TrustingExchange),
    ("a_lost_request_is_a_doubt_and_then_an_absence", TrustingExchange),
    ("a_lost_request_is_a_doubt_and_then_an_absence", RetryingExchange),
    ("a_lost_request_is_a_doubt_and_then_an_absence", BoastingExchange),
    ("reading_writes_nothing", MendingExchange),
    ("past_its_fence_a_request_has_no_effect", ResealingExchange),
    ("a_refusal_has_a_reason_and_no_effect", CurtExchange),
    ("a_refusal_has_a_reason_and_no_effect", CarelessExchange),
    ("an_empty_batch_leaves_no_trace", ScribblingExchange),
]
TRADER_MUTANTS: list[tuple[str, type[CorrectExchange]]] = [
    ("the_account_is_one_of_its_currency", ForeignExchange),
    ("an_order_takes_no_more_than_its_cost", OverspendingExchange),
    ("fills_explain_the_cash_and_the_shares", UnderchargingExchange),
    ("fills_explain_the_cash_and_the_shares", MiscountingExchange),
    ("fills_keep_to_the_order", OverfillingExchange),
    ("fills_keep_to_the_order", OverpayingExchange),
    ("reading_again_gives_the_same_fills", RenamingExchange),
    ("reading_again_gives_the_same_fills", DenyingExchange),
    ("an_order_that_rests_holds_back_what_it_may_take_until_it_is_cancelled", UnreservedExchange),
    ("an_order_that_rests_holds_back_what_it_may_take_until_it_is_cancelled", UncancellingExchange),
    ("cancelling_everything_leaves_nothing_to_rest", UncancellingExchange),
    ("cancelling_what_others_ordered_is_not_claimed", SweepingExchange),
    ("both_sides_of_what_is_decided_pay_one_together_and_never_less_than_nothing", DoublingExchange),
    ("shares_are_added_to_the_side_that_was_bought", OtherSideExchange),
    ("the_side_that_came_true_is_paid", PayingLosersExchange),
    ("what_the_venue_cancelled_wins_for_no_side", VoidPayingExchange),
    ("each_trade_is_filled_at_its_price_for_its_fee", WrongWayCashExchange),
    ("each_trade_is_filled_at_its_price_for_its_fee", OverpayingExchange),
    ("each_trade_moves_the_cash_and_shares_of_the_account", CountingHundredthsExchange),
    ("each_trade_moves_the_cash_and_shares_of_the_account", CentsExchange),
    ("each_trade_moves_the_cash_and_shares_of_the_account", OtherSideExchange),
    ("positions_show_what_they_cost_and_what_they_would_bring", ForgettingProceedsExchange),
    ("positions_show_what_they_cost_and_what_they_would_bring", UnmarkedExchange),
    ("a_limit_that_nobody_meets_trades_nothing", LimitlessExchange),
    ("a_trade_is_read_back_as_it_was_answered", RenamingExchange),
]
# The usual mistakes, and words of the message that name them.
NAMED_MISTAKES: list[tuple[str, type[CorrectExchange], str]] = [
    ("a_lost_reply_is_a_doubt_that_reading_settles", TrustingExchange, "which is UNKNOWN"),
    ("a_lost_reply_is_a_doubt_that_reading_settles", DenyingExchange, "does it read all pages"),
    ("a_lost_request_is_a_doubt_and_then_an_absence", RetryingExchange, "must not send it again"),
    ("requests_hold_no_secret", ShowingExchange, "1 secrets are in"),
    ("a_refusal_has_a_reason_and_no_effect", CurtExchange, "a refusal needs its reason"),
    ("a_refusal_has_a_reason_and_no_effect", CarelessExchange, "the venue refuses this batch"),
    ("shares_are_added_to_the_side_that_was_bought", OtherSideExchange, "shares of yes were bought|shows .* look at"),
    ("the_side_that_came_true_is_paid", PayingLosersExchange, "is the wrong side paid"),
    ("what_the_venue_cancelled_wins_for_no_side", VoidPayingExchange, "is void, and payout_per_share pays"),
    ("each_trade_is_filled_at_its_price_for_its_fee", WrongWayCashExchange, "it moved the wrong way"),
    ("each_trade_moves_the_cash_and_shares_of_the_account", CentsExchange, "the change of cash .* it is in cents"),
    ("each_trade_moves_the_cash_and_shares_of_the_account", OtherSideExchange, r"the account shows \+20 of no"),
    (
        "positions_show_what_they_cost_and_what_they_would_bring",
        ForgettingProceedsExchange,
        "of the shares that were sold too",
    ),
    ("a_limit_that_nobody_meets_trades_nothing", LimitlessExchange, "its request names another limit"),
]


def intent_for(number: int) -> Intent:
    order = Order(
        contract=f"market {number}",
        leg=ContractSide.YES,
        side=OrderSide.BUY,
        shares=20.0,
        limit=0.5,
        cost=10.0,
        expected=0.5,
        currency="COIN",
    )
    return Intent(
        id=f"intent {number}",
        account="team",
        ref=question(number).ref,
        forecast="f",
        action=IntentAction.ORDER,
        predictions={"outcome": BinaryPrediction(0.7)},
        batch=f"intent {number}",
        order=order,
    )


def create_setup(kind: type[CorrectExchange]) -> SubmitterSetup:
    clock = FakeClock()
    exchange = kind(clock)

    async def reopen() -> CorrectExchange:
        other = kind(clock)
        # The other side is the same.
        other.placed_orders, other.next_failures, other.shared = (
            exchange.placed_orders,
            exchange.next_failures,
            exchange.shared,
        )
        other._last_ms = exchange._last_ms  # noqa: SLF001 - time passes for both
        return other

    batch = SubmissionBatch(key="open", intents=(intent_for(0), intent_for(1)), questions=(question(0), question(1)))

    def edit() -> None:
        exchange.edited_questions = {one.ref: replace(one, criteria="By another source.") for one in batch.questions}

    later: Callable[[float], Awaitable[None]] = clock.advance
    return SubmitterSetup(
        sealer=exchange,
        batch=batch,
        refused_batch=replace(batch, key="closed"),
        count_effects=lambda: len(exchange.placed_orders),
        reopen=reopen,
        advance_time=later,
        now=clock.now,
        lose_request=lambda: exchange.next_failures.append(WriteFailure.REQUEST_LOST),
        lose_reply=lambda: exchange.next_failures.append(WriteFailure.REPLY_LOST),
        replace_reply=lambda: exchange.next_failures.append(WriteFailure.REPLY_LOST),
        edit_questions=edit,
        resting_batch=SubmissionBatch(key="resting", intents=(intent_for(2),), questions=(question(2),)),
        trades=[
            expected_trade(side, "market 0", leg, shares=shares, price=PRICE, currency="COIN")
            for leg in ContractSide
            for side, shares in ((OrderSide.BUY, 20.0), (OrderSide.SELL, 10.0))
        ],
        secrets=(KEY,),
    )


@pytest.mark.parametrize("name", [*checks_of(SealingSubmitterContract), *checks_of(TradingSubmitterContract)])
async def test_a_sound_trader_passes(name: str) -> None:
    await run_check(TradingSubmitterContract(), name, setup=create_setup(CorrectExchange))


@pytest.mark.parametrize(("name", "mutant"), [*SEALER_MUTANTS, *TRADER_MUTANTS])
async def test_a_broken_trader_is_found(name: str, mutant: type[CorrectExchange]) -> None:
    with pytest.raises(Failure):
        await run_check(TradingSubmitterContract(), name, setup=create_setup(mutant))


@pytest.mark.parametrize(("name", "mutant", "words"), NAMED_MISTAKES)
async def test_the_usual_mistakes_of_a_writer_are_named(name: str, mutant: type[CorrectExchange], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        await run_check(TradingSubmitterContract(), name, setup=create_setup(mutant))


async def test_what_never_expires_needs_no_fence_to_be_late_for() -> None:
    class Lasting(SealingSubmitterContract):
        requests_expire = False

    await run_check(Lasting(), "past_its_fence_a_request_has_no_effect", setup=create_setup(ResealingExchange))


@pytest.mark.parametrize(
    ("kit", "mutants"), [(SealingSubmitterContract, SEALER_MUTANTS), (TradingSubmitterContract, TRADER_MUTANTS)]
)
def test_every_check_has_a_mutant(kit: type, mutants: list[tuple[str, type[CorrectExchange]]]) -> None:
    assert {name for name, _ in mutants} == set(checks_of(kit))
