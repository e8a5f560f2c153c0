"""Contract kits for submitters that make their requests beforehand, and for those that trade.

Subclass a kit in a test module under a name that begins with ``Test``, give its fixtures, and pytest runs it.
"""
# ruff: noqa: S101 - pytest is made of assert

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Literal

from bot.domain.order import Account, Fill, Instead, Leg, OpenOrder, Order, Position, Side
from bot.domain.question_changes import describe_changes
from bot.domain.resolution import Chosen, Happened, Outcome
from bot.domain.submission import Batch, Intent, IntentState, Receipt, Sealed
from bot.errors import Rejected
from bot.ports import Sealer, Trader
from bot.specs import VenueSpec

HONEST = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT})
# Venues keep money to the cent, some to a thousandth; what differs by more is missing.
CENT = 0.01
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a kit has to work with: a submitter, batches for it, and the other side seen by other means.

    ``batch`` is accepted as it stands, every intent of ``refused`` is refused. ``effects`` counts what took effect at
    the other side, ever. ``reopen`` returns another submitter for the same account, as after a restart. ``later`` lets
    so many seconds pass for both sides, ``now`` is their time. ``lose_request`` and ``lose_reply`` make the next write
    get lost, without effect or with it. ``edit`` has the other side ask something else in every question of ``batch``;
    a paper book reads no venue and needs none. ``resting`` is an order that nobody fills.
    """

    sealer: Sealer
    batch: Batch
    refused: Batch
    effects: Callable[[], int]
    reopen: Callable[[], Awaitable[Sealer]]
    later: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime]
    lose_request: Callable[[], None]
    lose_reply: Callable[[], None]
    edit: Callable[[], None] | None = None
    resting: Batch | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)


class SealerContract:
    """What every submitter that seals must do. The subclass gives the fixture ``bench``.

    ``expires`` is False where a request may take effect whenever it arrives (there the fence is the time after which
    one that was sent at once has arrived), ``fences`` False where any reading proves an absence.
    """

    # Whose half this is, so that a test can tell whether every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]
    part: ClassVar[Literal["writer", "paper"]]
    expires: ClassVar[bool] = True
    fences: ClassVar[bool] = True

    @property
    def _is_paper(self) -> bool:
        return getattr(self, "part", "writer") == "paper"

    async def test_sealing_sends_nothing(self, bench: Bench) -> None:
        await _seal(bench.sealer, bench.batch)
        assert bench.effects() == 0
        assert IntentState.ACKED not in _states(bench.batch, await bench.sealer.standing(bench.batch))

    async def test_each_intent_has_one_complete_request(self, bench: Bench) -> None:
        sealed = await _seal(bench.sealer, bench.batch)
        assert sorted(one.intent for one in sealed.sealed) == sorted(intent.id for intent in bench.batch.intents)
        for one in sealed.sealed:
            assert one.tag.strip()
            assert one.body.encode()
            assert (one.fence is not None) is self.fences, one
            if one.fence is not None:
                assert one.fence.utcoffset() is not None
                assert one.fence > bench.now()

    async def test_each_request_shows_its_question_as_the_writer_read_it(self, bench: Bench) -> None:
        if self._is_paper:
            return
        asked = {question.ref: question for question in bench.batch.questions}
        refs = {intent.id: intent.ref for intent in bench.batch.intents}
        for one in (await _seal(bench.sealer, bench.batch)).sealed:
            assert one.question is not None, (
                f"the request of {one.intent} shows no question: give Sealed(question=...) what the writer has just "
                "read, made by the code that makes the questions of the reader"
            )
            assert one.question.ref == refs[one.intent]
            known = asked.get(one.question.ref, one.question)
            changes = describe_changes(known, one.question)
            assert changes == (), f"nobody edited it, and the writer reads it otherwise than the reader: {changes}"

    async def test_a_question_that_was_edited_is_shown_as_it_is_now(self, bench: Bench) -> None:
        if self._is_paper:
            return
        assert bench.edit is not None, "give Bench(edit=...): what edits the questions of the batch at the other side"
        before = {one.intent: one.question for one in await bench.sealer.seal(bench.batch)}
        bench.edit()
        now = {one.intent: one.question for one in await bench.sealer.seal(bench.batch)}
        for intent in bench.batch.intents:
            old, new = before.get(intent.id), now.get(intent.id)
            assert old is not None
            assert new is not None, (
                f"{intent.id}: a question that changed is shown, with Sealed.unwritten, not left out"
            )
            assert describe_changes(old, new), f"{intent.id}: the request shows its question as it was before the edit"

    async def test_no_two_requests_have_the_same_tag(self, bench: Bench) -> None:
        first = await _seal(bench.sealer, bench.batch)
        other = replace(bench.batch, intents=tuple(replace(one, id=f"{one.id}-other") for one in bench.batch.intents))
        second = await _seal(await bench.reopen(), other)
        tags = [one.tag for one in (*first.sealed, *second.sealed)]
        assert len(set(tags)) == len(tags)

    async def test_requests_hold_no_secret(self, bench: Bench) -> None:
        sealed = await _seal(bench.sealer, bench.batch)
        text = " ".join(f"{one.tag} {one.body}" for one in sealed.sealed)
        assert [secret for secret in bench.secrets if secret in text] == []

    async def test_what_was_acknowledged_is_found_by_its_request_after_a_restart(self, bench: Bench) -> None:
        sealed = await _seal(bench.sealer, bench.batch)
        assert _states(sealed, await bench.sealer.submit(sealed)) == {IntentState.ACKED}
        assert bench.effects() == len(sealed.intents)
        assert _states(sealed, await (await bench.reopen()).standing(sealed)) == {IntentState.ACKED}

    async def test_it_is_found_among_the_requests_of_earlier_attempts(self, bench: Bench) -> None:
        earlier = await _seal(bench.sealer, bench.batch)
        if self.fences:
            await _pass_fence(bench, earlier)
        sealed = await _seal(bench.sealer, bench.batch)
        await bench.sealer.submit(sealed)
        both = replace(sealed, sealed=(*sealed.sealed, *earlier.sealed))
        assert _states(both, await bench.sealer.standing(both)) == {IntentState.ACKED}

    async def test_a_lost_reply_is_a_doubt_that_reading_settles(self, bench: Bench) -> None:
        sealed = await _seal(bench.sealer, _first(bench.batch))
        bench.lose_reply()
        assert _states(sealed, await bench.sealer.submit(sealed)) == {IntentState.UNKNOWN}
        await _settled(bench, sealed, self.fences)
        assert _states(sealed, await (await bench.reopen()).standing(sealed)) == {IntentState.ACKED}
        assert bench.effects() == 1

    async def test_a_lost_request_is_a_doubt_and_then_an_absence(self, bench: Bench) -> None:
        sealed = await _seal(bench.sealer, _first(bench.batch))
        bench.lose_request()
        assert _states(sealed, await bench.sealer.submit(sealed)) == {IntentState.UNKNOWN}
        assert bench.effects() == 0
        await _settled(bench, sealed, self.fences)
        assert _states(sealed, await (await bench.reopen()).standing(sealed)) == {IntentState.ABSENT}

    async def test_reading_writes_nothing(self, bench: Bench) -> None:
        sealed = await _seal(bench.sealer, _first(bench.batch))
        bench.lose_request()
        await bench.sealer.submit(sealed)
        for _ in range(2):
            await bench.sealer.standing(sealed)
        assert bench.effects() == 0

    async def test_past_its_fence_a_request_has_no_effect(self, bench: Bench) -> None:
        if not (self.expires and self.fences):
            return
        sealed = await _seal(bench.sealer, _first(bench.batch))
        await _pass_fence(bench, sealed)
        assert IntentState.ACKED not in _states(sealed, await bench.sealer.submit(sealed))
        assert bench.effects() == 0

    async def test_a_refusal_has_a_reason_and_no_effect(self, bench: Bench) -> None:
        why, sealed = await _seal_or_why(bench.sealer, bench.refused)
        assert why is None or why.strip()
        names = {one.intent for one in sealed}
        rest = tuple(intent for intent in bench.refused.intents if intent.id in names)
        asked = replace(bench.refused, intents=rest, sealed=tuple(sealed))
        receipts = await bench.sealer.submit(asked) if rest else []
        assert _states(asked, receipts) <= {IntentState.REFUSED}
        assert all(receipt.detail.strip() for receipt in receipts)
        assert bench.effects() == 0

    async def test_an_empty_batch_leaves_no_trace(self, bench: Bench) -> None:
        empty = replace(bench.batch, intents=())
        assert list(await bench.sealer.seal(empty)) == []
        assert list(await bench.sealer.submit(empty)) == []
        assert list(await bench.sealer.standing(empty)) == []
        assert bench.effects() == 0


class TraderContract(SealerContract):
    """What every account or paper book that trades must do besides; the intents of ``bench.batch`` are purchases.

    ``by_stake`` is True where an order names what it spends, so that better prices bring more shares than it named.
    """

    by_stake: ClassVar[bool] = False

    async def test_the_account_is_one_of_its_currency(self, bench: Bench) -> None:
        account = await _trader(bench).account()
        assert account.at.utcoffset() is not None
        assert math.isfinite(account.cash)
        assert account.cash >= 0.0
        assert {_order(intent).currency for intent in bench.batch.intents} == {account.currency}

    async def test_an_order_takes_no_more_than_its_cost(self, bench: Bench) -> None:
        before = await _trader(bench).account()
        await _sent(bench, bench.batch)
        after = await _trader(bench).account()
        most = math.fsum(_order(intent).cost for intent in bench.batch.intents)
        assert before.cash - after.cash <= most + CENT
        assert after.cash >= 0.0

    async def test_fills_explain_the_cash_and_the_shares(self, bench: Bench) -> None:
        before = await _trader(bench).account()
        _, receipts = await _sent(bench, bench.batch)
        after = await _trader(bench).account()
        fills = [fill for receipt in receipts for fill in receipt.fills]
        assert fills
        held = math.fsum(order.reserves for order in after.orders)
        assert abs(before.cash + math.fsum(fill.cash for fill in fills) - held - after.cash) <= CENT
        gained = math.fsum(one.shares for one in after.positions) - math.fsum(one.shares for one in before.positions)
        assert abs(gained - math.fsum(fill.shares for fill in fills)) <= CENT

    async def test_fills_keep_to_the_order(self, bench: Bench) -> None:
        sealed, receipts = await _sent(bench, bench.batch)
        orders = {intent.id: _order(intent) for intent in sealed.intents}
        for receipt in receipts:
            order = orders[receipt.intent]
            _require_kept(order, receipt.fills)
            if order.side is Side.SELL or not self.by_stake:
                assert math.fsum(fill.shares for fill in receipt.fills) <= order.shares * (1 + ROUNDING)

    async def test_reading_again_gives_the_same_fills(self, bench: Bench) -> None:
        sealed, receipts = await _sent(bench, bench.batch)
        for trader in (bench.sealer, await bench.reopen()):
            found = {receipt.intent: receipt for receipt in await trader.standing(sealed)}
            for receipt in receipts:
                assert set(receipt.fills) <= set(found[receipt.intent].fills)

    async def test_an_order_that_rests_holds_back_what_it_may_take_until_it_is_cancelled(self, bench: Bench) -> None:
        assert bench.resting is not None
        before = await _trader(bench).account()
        await _sent(bench, bench.resting)
        held = await _trader(bench).account()
        orders = _new_orders(before, held)
        reserved = math.fsum(order.reserves for order in orders)
        assert orders
        assert 0.0 < reserved <= math.fsum(_order(intent).cost for intent in bench.resting.intents) + CENT
        assert abs(before.cash - reserved - held.cash) <= CENT
        assert set(await _trader(bench).cancel([order.id for order in orders])) == {order.id for order in orders}
        after = await _trader(bench).account()
        assert _new_orders(before, after) == []
        assert abs(before.cash - after.cash) <= CENT

    async def test_cancelling_everything_leaves_nothing_to_rest(self, bench: Bench) -> None:
        assert bench.resting is not None
        await _sent(bench, bench.resting)
        ended = await _trader(bench).cancel(None)
        assert len(ended) == len(set(ended)) > 0
        assert (await _trader(bench).account()).orders == ()

    async def test_both_sides_of_what_is_decided_pay_one_together_and_never_less_than_nothing(
        self, bench: Bench
    ) -> None:
        trader = _trader(bench)
        for intent in bench.batch.intents:
            order, outcome = _order(intent), _decided(intent)
            sides = [Position(contract=order.contract, leg=leg, shares=1.0, paid=0.5, ref=intent.ref) for leg in Leg]
            paid = [trader.pays(replace(one, option=order.option), outcome, "") for one in sides]
            shares = [one for one in paid if not isinstance(one, Instead)]
            assert len(shares) == len(paid)
            assert abs(sum(shares) - 1.0) <= CENT
            assert all(0.0 <= share <= 1.0 for share in shares)

    async def test_cancelling_what_others_ordered_is_not_claimed(self, bench: Bench) -> None:
        assert bench.resting is not None
        await _sent(bench, bench.resting)
        resting = (await _trader(bench).account()).orders
        await _trader(bench).cancel([])
        assert (await _trader(bench).account()).orders == resting


async def _seal(sealer: Sealer, batch: Batch) -> Batch:
    sealed = await sealer.seal(batch)
    assert isinstance(sealed, list | tuple)
    assert all(isinstance(one, Sealed) for one in sealed)
    return replace(batch, sealed=tuple(sealed))


async def _seal_or_why(sealer: Sealer, batch: Batch) -> tuple[str | None, Sequence[Sealed]]:
    try:
        return None, await sealer.seal(batch)
    except Rejected as error:
        return str(error), []


async def _sent(bench: Bench, batch: Batch) -> tuple[Batch, Sequence[Receipt]]:
    sealed = await _seal(bench.sealer, batch)
    receipts = await bench.sealer.submit(sealed)
    assert _states(sealed, receipts) == {IntentState.ACKED}
    return sealed, receipts


async def _pass_fence(bench: Bench, sealed: Batch) -> None:
    fences = [one.fence for one in sealed.sealed if one.fence is not None]
    await bench.later((max(fences) - bench.now()).total_seconds() + 0.001)


async def _settled(bench: Bench, sealed: Batch, fences: bool) -> None:  # noqa: FBT001 - of the class
    if fences:
        await _pass_fence(bench, sealed)


def _first(batch: Batch) -> Batch:
    return replace(batch, intents=batch.intents[:1])


def _trader(bench: Bench) -> Trader:
    assert isinstance(bench.sealer, Trader)
    return bench.sealer


def _decided(intent: Intent) -> Outcome:
    """Return an outcome of the question of an intent: that what it bought comes true."""
    option = _order(intent).option
    return Chosen(option) if option else Happened(1.0)


def _order(intent: Intent) -> Order:
    order = intent.order
    assert isinstance(order, Order)
    return order


def _new_orders(before: Account, after: Account) -> list[OpenOrder]:
    known = {order.id for order in before.orders}
    return [order for order in after.orders if order.id not in known]


def _require_kept(order: Order, fills: Sequence[Fill]) -> None:
    references = [fill.reference for fill in fills]
    assert len(set(references)) == len(references)
    assert all(references)
    assert -math.fsum(fill.cash for fill in fills) <= order.cost + CENT
    for fill in fills:
        assert fill.shares > 0.0
        assert fill.fee >= 0.0
        if order.side is Side.BUY:
            assert fill.price <= order.limit + ROUNDING
            assert -fill.cash >= fill.shares * fill.price - CENT
        else:
            assert fill.price >= order.limit - ROUNDING
            assert fill.cash <= fill.shares * fill.price + CENT


def _states(batch: Batch, receipts: object) -> set[IntentState]:
    """Return the states after checking that there is one honest receipt per intent."""
    assert isinstance(receipts, list | tuple)
    assert all(isinstance(receipt, Receipt) for receipt in receipts)
    assert sorted(receipt.intent for receipt in receipts) == sorted(intent.id for intent in batch.intents)
    states = {receipt.state for receipt in receipts}
    assert states <= HONEST
    return states
