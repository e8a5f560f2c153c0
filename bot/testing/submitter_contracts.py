"""Contract kits for submitters: writers and paper books, those that seal their requests, and those that trade."""

# ruff: noqa: S101 - pytest is made of assert
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Literal

import pytest

from bot.core.errors import RequestRejectedError
from bot.core.interfaces import SealingSubmitter, TradingSubmitter, VenueSubmitter, WriteListingSubmitter
from bot.core.orders import Account, ContractSide, Fill, OpenOrder, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, Outcome, VoidOutcome
from bot.core.plugin_specs import VenueSpec
from bot.core.predictions import BinaryPrediction
from bot.core.questions import describe_changes
from bot.core.submissions import Intent, IntentState, SealedRequest, SubmissionBatch, WriteReceipt

RECEIPT_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT})


# Venues keep money to the cent, some to a thousandth; a larger difference is missing money.
CENT = 0.01


ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitterSetup:
    """The parts that a kit needs: a submitter, batches for it, and the other side seen by other means.

    ``batch`` is accepted as it is, every intent of ``refused_batch`` is refused. ``count_effects`` counts what took
    effect at the other side, ever. ``reopen`` returns another submitter for the same account, as after a restart.
    ``advance_time`` lets so many seconds pass for both sides, ``now`` is their time. ``lose_request`` and
    ``lose_reply`` lose the next write, without effect or with it. ``edit_questions`` changes the text of every question
    of ``batch`` at the other side; a paper book reads no venue and needs none. ``resting_batch`` is an order that
    nobody fills.
    """

    sealer: SealingSubmitter
    batch: SubmissionBatch
    refused_batch: SubmissionBatch
    count_effects: Callable[[], int]
    reopen: Callable[[], Awaitable[SealingSubmitter]]
    advance_time: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime]
    lose_request: Callable[[], None]
    lose_reply: Callable[[], None]
    edit_questions: Callable[[], None] | None = None
    resting_batch: SubmissionBatch | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)


class SealingSubmitterContract:
    """What every submitter that seals must do. The subclass gives the fixture ``setup``.

    ``requests_expire`` is False where a request may take effect at any later time (there the fence is the time after
    which a request that was sent at once has arrived), ``has_fences`` False where any reading proves an absence.
    """

    # The venue of this submitter, so that a test can check that every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]
    part: ClassVar[Literal["writer", "paper"]]
    requests_expire: ClassVar[bool] = True
    has_fences: ClassVar[bool] = True

    @property
    def _is_paper(self) -> bool:
        return getattr(self, "part", "writer") == "paper"

    async def test_sealing_sends_nothing(self, setup: SubmitterSetup) -> None:
        await _seal_batch(setup.sealer, setup.batch)
        assert setup.count_effects() == 0
        assert IntentState.ACKED not in _receipt_states(setup.batch, await setup.sealer.read_submissions(setup.batch))

    async def test_each_intent_has_one_complete_request(self, setup: SubmitterSetup) -> None:
        sealed = await _seal_batch(setup.sealer, setup.batch)
        assert sorted(one.intent for one in sealed.sealed) == sorted(intent.id for intent in setup.batch.intents)
        for one in sealed.sealed:
            assert one.tag.strip()
            assert one.body.encode()
            assert (one.fence is not None) is self.has_fences, one
            if one.fence is not None:
                assert one.fence.utcoffset() is not None
                assert one.fence > setup.now()

    async def test_each_request_shows_its_question_as_the_writer_read_it(self, setup: SubmitterSetup) -> None:
        if self._is_paper:
            return
        asked = {question.ref: question for question in setup.batch.questions}
        refs = {intent.id: intent.ref for intent in setup.batch.intents}
        for one in (await _seal_batch(setup.sealer, setup.batch)).sealed:
            assert one.question is not None, (
                f"the request of {one.intent} shows no question: set SealedRequest.question to what the writer has "
                "just read, made by the code that makes the reader's questions"
            )
            assert one.question.ref == refs[one.intent]
            known = asked.get(one.question.ref, one.question)
            changes = describe_changes(known, one.question)
            assert changes == (), f"nobody edited it, but the writer reads it differently from the reader: {changes}"

    async def test_a_question_that_was_edited_is_shown_as_it_is_now(self, setup: SubmitterSetup) -> None:
        if self._is_paper:
            return
        assert setup.edit_questions is not None, (
            "set SubmitterSetup.edit_questions: a function that edits the questions of the batch at the other side"
        )
        before = {one.intent: one.question for one in await setup.sealer.seal_requests(setup.batch)}
        setup.edit_questions()
        now = {one.intent: one.question for one in await setup.sealer.seal_requests(setup.batch)}
        for intent in setup.batch.intents:
            old, new = before.get(intent.id), now.get(intent.id)
            assert old is not None
            assert new is not None, (
                f"{intent.id}: a changed question must be shown, with SealedRequest.without_request, not omitted"
            )
            assert describe_changes(old, new), f"{intent.id}: the request shows its question as it was before the edit"

    async def test_no_two_requests_have_the_same_tag(self, setup: SubmitterSetup) -> None:
        first = await _seal_batch(setup.sealer, setup.batch)
        other = replace(setup.batch, intents=tuple(replace(one, id=f"{one.id}-other") for one in setup.batch.intents))
        second = await _seal_batch(await setup.reopen(), other)
        tags = [one.tag for one in (*first.sealed, *second.sealed)]
        assert len(set(tags)) == len(tags)

    async def test_requests_hold_no_secret(self, setup: SubmitterSetup) -> None:
        sealed = await _seal_batch(setup.sealer, setup.batch)
        text = " ".join(f"{one.tag} {one.body}" for one in sealed.sealed)
        shown = sum(secret in text for secret in setup.secrets)
        assert shown == 0, f"{shown} secrets are in SealedRequest.tag or body, which are stored: add keys in submit"

    async def test_what_was_acknowledged_is_found_by_its_request_after_a_restart(self, setup: SubmitterSetup) -> None:
        sealed = await _seal_batch(setup.sealer, setup.batch)
        assert _receipt_states(sealed, await setup.sealer.submit(sealed)) == {IntentState.ACKED}
        assert setup.count_effects() == len(sealed.intents)
        assert _receipt_states(sealed, await (await setup.reopen()).read_submissions(sealed)) == {IntentState.ACKED}

    async def test_the_list_of_writes_names_what_was_written_as_the_ledger_does(self, setup: SubmitterSetup) -> None:
        if not isinstance(setup.sealer, WriteListingSubmitter):
            return
        since = setup.now()
        sealed = await _seal_batch(setup.sealer, setup.batch)
        receipts = await setup.sealer.submit(sealed)
        await setup.advance_time(1.0)
        reopened = await setup.reopen()
        assert isinstance(reopened, WriteListingSubmitter)
        listed = await reopened.list_writes(since)
        known = {receipt.reference for receipt in receipts} | {one.tag for one in sealed.sealed}
        assert {one.reference for one in listed} <= known
        assert len(listed) == len(sealed.intents)
        contracts = {one.order.contract for one in sealed.intents if one.order is not None}
        assert {one.contract for one in listed} == contracts
        assert all(since <= one.at <= setup.now() for one in listed)

    async def test_it_is_found_among_the_requests_of_earlier_attempts(self, setup: SubmitterSetup) -> None:
        earlier = await _seal_batch(setup.sealer, setup.batch)
        if self.has_fences:
            await _pass_fence(setup, earlier)
        sealed = await _seal_batch(setup.sealer, setup.batch)
        await setup.sealer.submit(sealed)
        both = replace(sealed, sealed=(*sealed.sealed, *earlier.sealed))
        assert _receipt_states(both, await setup.sealer.read_submissions(both)) == {IntentState.ACKED}

    async def test_a_lost_reply_is_a_doubt_that_reading_settles(self, setup: SubmitterSetup) -> None:
        sealed = await _seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.lose_reply()
        states = _receipt_states(sealed, await setup.sealer.submit(sealed))
        count = setup.count_effects()
        assert count == 1, f"the reply was lost, and the order took effect {count} times: submit must not send again"
        assert states == {IntentState.UNKNOWN}, f"the reply was lost, which is UNKNOWN, but submit says {states}"
        await _wait_until_settled(setup, sealed, self.has_fences)
        states = _receipt_states(sealed, await (await setup.reopen()).read_submissions(sealed))
        assert states == {IntentState.ACKED}, (
            f"read_submissions says {states} of a request that took effect: does it read all pages, and look for the "
            "tag of the request?"
        )
        assert setup.count_effects() == 1, "read_submissions wrote: it must only read"

    async def test_a_lost_request_is_a_doubt_and_then_an_absence(self, setup: SubmitterSetup) -> None:
        sealed = await _seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.lose_request()
        states = _receipt_states(sealed, await setup.sealer.submit(sealed))
        count = setup.count_effects()
        assert count == 0, f"the request was lost, and {count} orders took effect: submit must not send it again"
        assert states == {IntentState.UNKNOWN}, f"the request was lost, which is UNKNOWN, but submit says {states}"
        await _wait_until_settled(setup, sealed, self.has_fences)
        assert _receipt_states(sealed, await (await setup.reopen()).read_submissions(sealed)) == {IntentState.ABSENT}

    async def test_reading_writes_nothing(self, setup: SubmitterSetup) -> None:
        sealed = await _seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.lose_request()
        await setup.sealer.submit(sealed)
        for _ in range(2):
            await setup.sealer.read_submissions(sealed)
        assert setup.count_effects() == 0

    async def test_past_its_fence_a_request_has_no_effect(self, setup: SubmitterSetup) -> None:
        if not (self.requests_expire and self.has_fences):
            return
        sealed = await _seal_batch(setup.sealer, _first_intent_only(setup.batch))
        await _pass_fence(setup, sealed)
        assert IntentState.ACKED not in _receipt_states(sealed, await setup.sealer.submit(sealed))
        assert setup.count_effects() == 0

    async def test_a_refusal_has_a_reason_and_no_effect(self, setup: SubmitterSetup) -> None:
        why, sealed = await _try_to_seal(setup.sealer, setup.refused_batch)
        assert why is None or why.strip()
        names = {one.intent for one in sealed}
        rest = tuple(intent for intent in setup.refused_batch.intents if intent.id in names)
        asked = replace(setup.refused_batch, intents=rest, sealed=tuple(sealed))
        receipts = await setup.sealer.submit(asked) if rest else []
        states = _receipt_states(asked, receipts)
        assert states <= {IntentState.REFUSED}, f"the venue refuses this batch, but submit says {states}"
        assert all(receipt.detail.strip() for receipt in receipts), "a refusal needs its reason in WriteReceipt.detail"
        assert setup.count_effects() == 0, "a refused order took effect"

    async def test_an_empty_batch_leaves_no_trace(self, setup: SubmitterSetup) -> None:
        empty = replace(setup.batch, intents=())
        assert list(await setup.sealer.seal_requests(empty)) == []
        assert list(await setup.sealer.submit(empty)) == []
        assert list(await setup.sealer.read_submissions(empty)) == []
        assert setup.count_effects() == 0


class TradingSubmitterContract(SealingSubmitterContract):
    """What every account or paper book that trades must do in addition; the intents of ``setup.batch`` are purchases.

    ``orders_name_cost`` is True where an order names what it spends, so that better prices bring more shares than it
    named. ``orders_rest`` is False where every order is matched at once or dropped. ``pays_void`` is True where a share
    of a void question is paid by the rules of the venue, and not refunded.
    """

    orders_name_cost: ClassVar[bool] = False
    orders_rest: ClassVar[bool] = True
    pays_void: ClassVar[bool] = False

    async def test_the_account_is_one_of_its_currency(self, setup: SubmitterSetup) -> None:
        account = await _require_trader(setup).account()
        assert account.at.utcoffset() is not None
        assert math.isfinite(account.cash)
        assert account.cash >= 0.0
        assert {_require_order(intent).currency for intent in setup.batch.intents} == {account.currency}

    async def test_an_order_takes_no_more_than_its_cost(self, setup: SubmitterSetup) -> None:
        before = await _require_trader(setup).account()
        await _seal_and_submit(setup, setup.batch)
        after = await _require_trader(setup).account()
        most = math.fsum(_require_order(intent).cost for intent in setup.batch.intents)
        assert before.cash - after.cash <= most + CENT
        assert after.cash >= 0.0

    async def test_fills_explain_the_cash_and_the_shares(self, setup: SubmitterSetup) -> None:
        before = await _require_trader(setup).account()
        _, receipts = await _seal_and_submit(setup, setup.batch)
        after = await _require_trader(setup).account()
        fills = [fill for receipt in receipts for fill in receipt.fills]
        assert fills
        held = math.fsum(order.reserves for order in after.orders)
        assert abs(before.cash + math.fsum(fill.cash for fill in fills) - held - after.cash) <= CENT
        gained = math.fsum(one.shares for one in after.positions) - math.fsum(one.shares for one in before.positions)
        assert abs(gained - math.fsum(fill.shares for fill in fills)) <= CENT

    async def test_fills_keep_to_the_order(self, setup: SubmitterSetup) -> None:
        sealed, receipts = await _seal_and_submit(setup, setup.batch)
        orders = {intent.id: _require_order(intent) for intent in sealed.intents}
        for receipt in receipts:
            order = orders[receipt.intent]
            _require_within_order(order, receipt.fills)
            if order.side is OrderSide.SELL or not self.orders_name_cost:
                assert math.fsum(fill.shares for fill in receipt.fills) <= order.shares * (1 + ROUNDING)

    async def test_reading_again_gives_the_same_fills(self, setup: SubmitterSetup) -> None:
        sealed, receipts = await _seal_and_submit(setup, setup.batch)
        for trader in (setup.sealer, await setup.reopen()):
            found = {receipt.intent: receipt for receipt in await trader.read_submissions(sealed)}
            for receipt in receipts:
                assert set(receipt.fills) <= set(found[receipt.intent].fills)

    async def test_an_order_that_rests_holds_back_what_it_may_take_until_it_is_cancelled(
        self, setup: SubmitterSetup
    ) -> None:
        resting_batch = self._resting_batch(setup)
        before = await _require_trader(setup).account()
        await _seal_and_submit(setup, resting_batch)
        held = await _require_trader(setup).account()
        orders = _new_orders(before, held)
        reserved = math.fsum(order.reserves for order in orders)
        assert orders
        assert 0.0 < reserved <= math.fsum(_require_order(intent).cost for intent in resting_batch.intents) + CENT
        assert abs(before.cash - reserved - held.cash) <= CENT
        assert set(await _require_trader(setup).cancel([order.id for order in orders])) == {
            order.id for order in orders
        }
        after = await _require_trader(setup).account()
        assert _new_orders(before, after) == []
        assert abs(before.cash - after.cash) <= CENT

    async def test_cancelling_everything_leaves_nothing_to_rest(self, setup: SubmitterSetup) -> None:
        await _seal_and_submit(setup, self._resting_batch(setup))
        ended = await _require_trader(setup).cancel(None)
        assert len(ended) == len(set(ended)) > 0
        assert (await _require_trader(setup).account()).orders == ()

    async def test_both_sides_of_what_is_decided_pay_one_together_and_never_less_than_nothing(
        self, setup: SubmitterSetup
    ) -> None:
        trader = _require_trader(setup)
        for intent in setup.batch.intents:
            order, outcome = _require_order(intent), _winning_outcome(intent)
            sides = [
                Position(contract=order.contract, leg=leg, shares=1.0, paid=0.5, ref=intent.ref) for leg in ContractSide
            ]
            paid = [trader.payout_per_share(replace(one, option=order.option), outcome, "") for one in sides]
            shares = [one for one in paid if not isinstance(one, UnpaidOutcome)]
            assert len(shares) == len(paid)
            assert abs(sum(shares) - 1.0) <= CENT
            assert all(0.0 <= share <= 1.0 for share in shares)

    async def test_shares_are_added_to_the_side_that_was_bought(self, setup: SubmitterSetup) -> None:
        before = _shares_by_side(await _require_trader(setup).account())
        sealed, receipts = await _seal_and_submit(setup, setup.batch)
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
            order, outcome = _require_order(intent), _winning_outcome(intent)
            for leg, wanted in ((ContractSide.YES, 1.0), (ContractSide.NO, 0.0)):
                held = Position(
                    contract=order.contract, leg=leg, shares=1.0, paid=0.5, ref=intent.ref, option=order.option
                )
                paid = trader.payout_per_share(held, outcome, "")
                assert paid == wanted, (
                    f"{order.contract} came true, and payout_per_share pays {paid} for a share of {leg}, expected "
                    f"{wanted:g}: is the wrong side paid?"
                )

    async def test_what_the_venue_cancelled_wins_for_no_side(self, setup: SubmitterSetup) -> None:
        trader = _require_trader(setup)
        if self.pays_void:
            return
        for intent in setup.batch.intents:
            order = _require_order(intent)
            for leg in ContractSide:
                held = Position(
                    contract=order.contract, leg=leg, shares=1.0, paid=0.5, ref=intent.ref, option=order.option
                )
                paid = trader.payout_per_share(held, VoidOutcome("cancelled"), "")
                assert isinstance(paid, UnpaidOutcome), (
                    f"{order.contract} is void, and payout_per_share pays {paid} for a share of {leg}: return "
                    "UnpaidOutcome.REFUND, or OPEN while it is not final"
                )

    async def test_cancelling_what_others_ordered_is_not_claimed(self, setup: SubmitterSetup) -> None:
        await _seal_and_submit(setup, self._resting_batch(setup))
        resting = (await _require_trader(setup).account()).orders
        await _require_trader(setup).cancel([])
        assert (await _require_trader(setup).account()).orders == resting

    def _resting_batch(self, setup: SubmitterSetup) -> SubmissionBatch:
        if not self.orders_rest:
            pytest.skip("no order of this venue rests")
        assert setup.resting_batch is not None
        return setup.resting_batch


async def _seal_batch(sealer: SealingSubmitter, batch: SubmissionBatch) -> SubmissionBatch:
    sealed = await sealer.seal_requests(batch)
    assert isinstance(sealed, list | tuple)
    assert all(isinstance(one, SealedRequest) for one in sealed)
    return replace(batch, sealed=tuple(sealed))


async def _try_to_seal(sealer: SealingSubmitter, batch: SubmissionBatch) -> tuple[str | None, Sequence[SealedRequest]]:
    try:
        return None, await sealer.seal_requests(batch)
    except RequestRejectedError as error:
        return str(error), []


async def _seal_and_submit(
    setup: SubmitterSetup, batch: SubmissionBatch
) -> tuple[SubmissionBatch, Sequence[WriteReceipt]]:
    sealed = await _seal_batch(setup.sealer, batch)
    receipts = await setup.sealer.submit(sealed)
    assert _receipt_states(sealed, receipts) == {IntentState.ACKED}
    return sealed, receipts


async def _pass_fence(setup: SubmitterSetup, sealed: SubmissionBatch) -> None:
    fences = [one.fence for one in sealed.sealed if one.fence is not None]
    await setup.advance_time((max(fences) - setup.now()).total_seconds() + 0.001)


async def _wait_until_settled(setup: SubmitterSetup, sealed: SubmissionBatch, fences: bool) -> None:  # noqa: FBT001 - of the class
    if fences:
        await _pass_fence(setup, sealed)


def _first_intent_only(batch: SubmissionBatch) -> SubmissionBatch:
    return replace(batch, intents=batch.intents[:1])


def _require_trader(setup: SubmitterSetup) -> TradingSubmitter:
    assert isinstance(setup.sealer, TradingSubmitter)
    return setup.sealer


def _shares_by_side(account: Account) -> dict[tuple[str, ContractSide], float]:
    return {(one.contract, one.leg): one.shares for one in account.positions}


def _is_order_on(intent: Intent, contract: str, leg: ContractSide) -> bool:
    order = _require_order(intent)
    return (order.contract, order.leg) == (contract, leg)


def _winning_outcome(intent: Intent) -> Outcome:
    """Return an outcome of the question of an intent: the bought side comes true."""
    option = _require_order(intent).option
    return ChoiceOutcome(option) if option else BinaryOutcome(1.0)


def _require_order(intent: Intent) -> Order:
    order = intent.order
    assert isinstance(order, Order)
    return order


def _new_orders(before: Account, after: Account) -> list[OpenOrder]:
    known = {order.id for order in before.orders}
    return [order for order in after.orders if order.id not in known]


def _require_within_order(order: Order, fills: Sequence[Fill]) -> None:
    references = [fill.reference for fill in fills]
    assert len(set(references)) == len(references)
    assert all(references)
    assert -math.fsum(fill.cash for fill in fills) <= order.cost + CENT
    for fill in fills:
        assert fill.shares > 0.0
        assert fill.fee >= 0.0
        if order.side is OrderSide.BUY:
            assert fill.price <= order.limit + ROUNDING
            assert -fill.cash >= fill.shares * fill.price - CENT
        else:
            assert fill.price >= order.limit - ROUNDING
            assert fill.cash <= fill.shares * fill.price + CENT


def _receipt_states(batch: SubmissionBatch, receipts: object) -> set[IntentState]:
    """Return the states after checking that there is one honest receipt per intent."""
    assert isinstance(receipts, list | tuple)
    assert all(isinstance(receipt, WriteReceipt) for receipt in receipts)
    assert sorted(receipt.intent for receipt in receipts) == sorted(intent.id for intent in batch.intents)
    states = {receipt.state for receipt in receipts}
    assert states <= RECEIPT_STATES
    return states


class SubmitterContract:
    """What every writer and paper book must do where the last answer to a question counts; orders have their own kit.

    Those that make their requests beforehand must make them first, and refuse in ``submit`` what they refuse here. The
    subclass gives the fixtures ``submitter`` (open, without answers), ``batch`` (accepted as it is, with binary
    predictions), ``refused_batch`` (every intent of it is refused) and ``answers`` (a function that counts the answers
    at the other side, by other means than the submitter).
    """

    # The venue of this submitter, so that a test can check that every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]
    part: ClassVar[Literal["writer", "paper"]]

    async def test_nothing_stands_before_it_is_submitted(
        self, submitter: VenueSubmitter, batch: SubmissionBatch
    ) -> None:
        assert _submission_states(batch, await submitter.read_submissions(batch)) == {IntentState.ABSENT}

    async def test_what_was_acknowledged_stands(self, submitter: VenueSubmitter, batch: SubmissionBatch) -> None:
        batch = await _sealed_if_needed(submitter, batch)
        assert _submission_states(batch, await submitter.submit(batch)) == {IntentState.ACKED}
        assert _submission_states(batch, await submitter.read_submissions(batch)) == {IntentState.ACKED}

    async def test_submitting_twice_is_standing_once(
        self, submitter: VenueSubmitter, batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        batch = await _sealed_if_needed(submitter, batch)
        await submitter.submit(batch)
        once = answers()
        batch = await _sealed_if_needed(submitter, batch)
        await submitter.submit(batch)
        assert answers() == once > 0
        assert _submission_states(batch, await submitter.read_submissions(batch)) == {IntentState.ACKED}

    async def test_the_later_answer_stands(self, submitter: VenueSubmitter, batch: SubmissionBatch) -> None:
        batch = await _sealed_if_needed(submitter, batch)
        changed = replace(batch, intents=tuple(_changed_intent(intent) for intent in batch.intents), sealed=())
        await submitter.submit(batch)
        assert _submission_states(changed, await submitter.read_submissions(changed)) == {IntentState.ABSENT}
        changed = await _sealed_if_needed(submitter, changed)
        await submitter.submit(changed)
        assert _submission_states(changed, await submitter.read_submissions(changed)) == {IntentState.ACKED}
        assert _submission_states(batch, await submitter.read_submissions(batch)) == {IntentState.ABSENT}

    async def test_a_refusal_is_a_receipt_with_a_reason(
        self, submitter: VenueSubmitter, refused_batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        refused_batch = await _sealed_if_needed(submitter, refused_batch)
        receipts = await submitter.submit(refused_batch)
        assert _submission_states(refused_batch, receipts) == {IntentState.REFUSED}
        assert all(receipt.detail for receipt in receipts)
        assert answers() == 0
        assert IntentState.ACKED not in _submission_states(
            refused_batch, await submitter.read_submissions(refused_batch)
        )

    async def test_an_empty_batch_leaves_no_trace(
        self, submitter: VenueSubmitter, batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        assert list(await submitter.submit(replace(batch, intents=()))) == []
        assert answers() == 0


POSSIBLE_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN})


def _submission_states(batch: SubmissionBatch, receipts: object) -> set[IntentState]:
    """Return the states after checking that there is one honest receipt per intent."""
    assert isinstance(receipts, list | tuple)
    assert all(isinstance(receipt, WriteReceipt) for receipt in receipts)
    assert sorted(receipt.intent for receipt in receipts) == sorted(intent.id for intent in batch.intents)
    states = {receipt.state for receipt in receipts}
    assert states <= POSSIBLE_STATES | {IntentState.ABSENT}
    return states


async def _sealed_if_needed(submitter: VenueSubmitter, batch: SubmissionBatch) -> SubmissionBatch:
    """Return the batch as it is written: with its requests, where the submitter makes them beforehand."""
    if not isinstance(submitter, SealingSubmitter):
        return batch
    return replace(batch, sealed=tuple(await submitter.seal_requests(batch)))


def _changed_intent(intent: Intent) -> Intent:
    moved = {
        key: BinaryPrediction(prediction.probability / 2 or 0.5)
        if isinstance(prediction, BinaryPrediction)
        else prediction
        for key, prediction in intent.predictions.items()
    }
    return replace(intent, id=f"{intent.id}-changed", predictions=moved)
