"""The live writer in front of the strict double: signatures that another library verifies, orders, doubts, checks."""

import re
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from bot.api import (
    AuthenticationError,
    ContractSide,
    HttpResponse,
    IntentAction,
    IntentState,
    MalformedDataError,
    OrderSide,
    RequestRejectedError,
    ResponsibleParty,
    SealedRequest,
    ServiceUnavailableError,
)
from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from plugins.kalshi.account import check_account
from plugins.kalshi.signing import load_key
from plugins.kalshi.writer import MAX_SEND_AGE_S, SETTLEMENT_DELAY_S, WRITE_DEADLINE_S, write_verdict
from tests.order_intents import make_batch, make_intent, seal_and_submit, seal_batch
from tests.plugins.kalshi.fake_account import KEY, key_text
from tests.plugins.kalshi.records import WALK_BOOK, event, quoted
from tests.plugins.kalshi.test_trading import a_purchase
from tests.plugins.kalshi.writer_fixture import A, B, WriterFixture, open_writer_fixture

YES, NO, BUY, SELL = ContractSide.YES, ContractSide.NO, OrderSide.BUY, OrderSide.SELL


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("leg", "side", "book_side", "price", "limit", "held"),
    [
        (YES, BUY, "bid", "0.5700", 0.57, 0),
        (NO, BUY, "ask", "0.5500", 0.45, 0),
        (YES, SELL, "ask", "0.5500", 0.55, 12),
        (NO, SELL, "bid", "0.5700", 0.43, -12),
    ],
)
async def test_each_leg_and_side_is_sent_at_the_price_of_yes_and_moves_the_position(
    live: WriterFixture, leg: ContractSide, side: OrderSide, book_side: str, price: str, limit: float, held: int
) -> None:
    live.account.positions[A] = Decimal(held)
    question = (await live.kalshi.questions())[A]
    terms = {"event": "KXDEMO-26DEC31", "count": "12.00", "price": price, "book_side": book_side}
    order = replace(a_purchase(12.0, limit), leg=leg, side=side, terms=terms, cost=8.0 if side is BUY else 0.0)
    before = (await live.writer().account()).cash
    _, receipt = await seal_and_submit(live.writer(), question, order)
    assert receipt.state is IntentState.ACKED
    [fill] = receipt.fills
    assert fill.shares == 12.0
    assert fill.price == pytest.approx(limit)
    after = await live.writer().account()
    assert after.cash - before == pytest.approx(fill.cash)
    assert live.account.positions[A] == held + (12 if book_side == "bid" else -12)
    assert live.account.bodies[0].get("reduce_only", False) is (side is SELL)


@pytest.mark.parametrize(
    ("changes", "terms"),
    [
        ({}, {"price": "0.5800"}),
        ({}, {"count": "120.00"}),
        ({}, {"count": "twelve"}),
        ({}, {"book_side": "ask"}),
        ({}, {"price": None}),
        ({"limit": 0.56}, {}),
        ({"shares": 11.0}, {}),
        ({"cost": 6.83}, {}),
        ({"leg": NO}, {}),
        ({"side": SELL, "cost": 0.0}, {}),
    ],
    ids=str,
)
async def test_an_order_that_is_not_what_the_gate_checked_is_refused(
    live: WriterFixture, changes: dict[str, Any], terms: dict[str, Any]
) -> None:
    question = (await live.kalshi.questions())[A]
    order = a_purchase(12.0, 0.57)
    changed = replace(order, **changes, terms={**order.terms, **terms})
    with pytest.raises(RequestRejectedError, match="does not agree"):
        await seal_batch(live.writer(), question, make_intent(question, changed))
    assert live.account.bodies == []


@pytest.mark.parametrize(
    "changes", [{"cost": 6.839999}, {"shares": 11.999999}, {"shares": 12.000001}, {"limit": 0.569999}], ids=str
)
async def test_a_difference_of_one_millionth_is_rounding(live: WriterFixture, changes: dict[str, Any]) -> None:
    question = (await live.kalshi.questions())[A]
    _, receipt = await seal_and_submit(live.writer(), question, replace(a_purchase(12.0, 0.57), **changes))
    assert receipt.state is IntentState.ACKED


async def test_only_orders_on_known_questions_are_sealed(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    order = make_intent(question, a_purchase(12.0, 0.57))
    for intent, known in (
        (replace(order, action=IntentAction.COMMENT), (question,)),
        (replace(order, order=None), (question,)),
        (order, ()),
    ):
        batch = replace(make_batch(question, intent), questions=known)
        with pytest.raises(RequestRejectedError, match="accepts orders on known questions"):
            await live.writer().seal_requests(batch)


async def test_nothing_is_sealed_once_a_market_has_closed(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    intent = make_intent(question, a_purchase(12.0, 0.57))
    now = live.kalshi.clock.now()
    for changes in (
        {"status": "inactive"},
        {"status": "active", "close_time": now.isoformat()},
        {"close_time": (now - timedelta(seconds=1)).isoformat()},
    ):
        live.kalshi.venue.change_market(A, **changes)
        with pytest.raises(RequestRejectedError, match=r"open|cannot be forecast: closed"):
            await seal_batch(live.writer(), question, intent)
    live.kalshi.venue.change_market(A, close_time=(now + timedelta(seconds=1)).isoformat())
    assert len((await seal_batch(live.writer(), question, intent)).sealed) == 1


async def test_an_option_whose_market_closes_first_is_no_longer_open(live: WriterFixture) -> None:
    members = quoted("A", "0.5500", "0.5700"), quoted("B", "0.2800", "0.3000")
    live.kalshi.venue.add(event(*members, number=30, mutually_exclusive=True))
    race, first = (await live.kalshi.questions())["event:KXDEMO-26DEC30"], "KXDEMO-26DEC30-A"
    live.kalshi.venue.change_market(first, close_time=live.kalshi.clock.now().isoformat())
    order = replace(a_purchase(12.0, 0.57), contract=first, option="Candidate A")
    with pytest.raises(RequestRejectedError, match="no longer open"):
        await seal_batch(live.writer(), race, make_intent(race, order))


async def test_a_race_that_became_a_question_of_one_market_is_no_longer_open(live: WriterFixture) -> None:
    members = quoted("A", "0.5500", "0.5700"), quoted("B", "0.2800", "0.3000")
    live.kalshi.venue.add(event(*members, number=30, mutually_exclusive=True))
    race, first = (await live.kalshi.questions())["event:KXDEMO-26DEC30"], "KXDEMO-26DEC30-A"
    live.kalshi.venue.archive("KXDEMO-26DEC30-B")
    live.kalshi.venue.events["KXDEMO-26DEC30"]["mutually_exclusive"] = False
    order = replace(a_purchase(12.0, 0.57), contract=first, option="Candidate A")
    with pytest.raises(RequestRejectedError, match="no longer open"):
        await seal_batch(live.writer(), race, make_intent(race, order))


@pytest.mark.parametrize(("age_s", "state"), [(29.999, IntentState.ACKED), (30.0, IntentState.ABSENT)])
async def test_an_order_is_sent_within_half_a_minute_or_not_at_all(
    live: WriterFixture, age_s: float, state: IntentState
) -> None:
    question = (await live.kalshi.questions())[A]
    batch = await seal_batch(live.writer(), question, make_intent(question, a_purchase(12.0, 0.57)))
    live.kalshi.clock.advance_without_waking(age_s)
    (receipt,) = await live.writer().submit(batch)
    assert receipt.state is state
    assert len(live.account.bodies) == (state is IntentState.ACKED)


async def test_an_order_has_a_random_uuid_and_waits_until_every_list_shows_it(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    intents = [make_intent(question, a_purchase(12.0, 0.57), name) for name in ("one", "two")]
    sealed = [(await seal_batch(live.writer(), question, intent)).sealed[0] for intent in intents]
    live.kalshi.clock.advance_without_waking(0.001)
    sealed.append((await seal_batch(live.writer(), question, intents[0])).sealed[0])
    ids = [UUID(one.tag.partition(".")[2]) for one in sealed]
    assert [(one.version, one.variant) for one in ids] == [(4, RFC_4122)] * 3
    assert len(set(ids)) == 3
    latest = timedelta(seconds=MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S)
    assert sealed[2].fence == live.kalshi.clock.now() + latest


async def test_an_intent_that_was_sent_twice_is_in_doubt_and_one_never_sealed_is_absent(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    intent, sealed = make_intent(question, a_purchase(12.0, 0.57)), list[SealedRequest]()
    for _ in range(2):
        batch = await seal_batch(live.writer(), question, intent)
        await live.writer().submit(batch)
        sealed += batch.sealed
        live.kalshi.clock.advance_without_waking(1)
    (both,) = await live.writer().read_submissions(make_batch(question, intent, sealed=sealed))
    assert (both.state, "2 orders match" in both.detail) == (IntentState.UNKNOWN, True)
    (none,) = await live.writer().read_submissions(make_batch(question, intent))
    assert none.state is IntentState.ABSENT


async def test_orders_of_the_account_are_listed_from_a_moment_on(live: WriterFixture) -> None:
    clock = live.kalshi.clock
    clock.advance_without_waking(0.5)
    first, at = live.account.rest_order(A, "5.00", "0.40"), clock.now()
    clock.advance_without_waking(0.25)
    second = live.account.rest_order(B, "5.00", "0.40")
    for since, names in ((at, [first, second]), (at + timedelta(milliseconds=1), [second])):
        assert [one.reference for one in await live.writer().list_writes(since)] == names
    [*_, last] = await live.writer().list_writes(at)
    assert (last.contract, last.at, last.text) == (B, clock.now(), "a bid for 5.00 at 0.4000")


@pytest.mark.parametrize("name", ["", 7, None])
async def test_an_order_of_the_account_without_an_id_is_malformed(live: WriterFixture, name: object) -> None:
    live.account.rest_order(A, "5.00", "0.40")
    live.account.orders[0]["order_id"] = name
    with pytest.raises(MalformedDataError, match="order_id"):
        await live.writer().list_writes(live.kalshi.clock.now())


async def test_an_order_whose_cancellation_has_no_answer_holds_up_no_other(live: WriterFixture) -> None:
    first, second = (live.account.rest_order(A, "5.00", "0.40") for _ in range(2))
    live.losses.append("request")
    assert list(await live.writer().cancel([first, second])) == [second]
    assert [one.id for one in (await live.writer().account()).orders] == [first]


async def test_only_the_named_orders_are_cancelled_and_only_what_is_gone_counts(live: WriterFixture) -> None:
    first, second = (live.account.rest_order(A, "5.00", "0.40") for _ in range(2))
    assert list(await live.writer().cancel([second])) == [second]
    assert [one.id for one in (await live.writer().account()).orders] == [first]
    live.account.is_exchange_paused = True
    assert list(await live.writer().cancel(None)) == []
    for status in ("401", "403"):
        live.losses.append(status)
        with pytest.raises(AuthenticationError, match=status):
            await live.writer().cancel([first])
    live.losses.append("404")
    assert list(await live.writer().cancel([first])) == []


async def test_an_order_on_a_market_of_another_question_or_option_is_refused(live: WriterFixture) -> None:
    members = quoted("A", "0.5500", "0.5700"), quoted("B", "0.2800", "0.3000")
    live.kalshi.venue.add(event(*members, number=30, mutually_exclusive=True))
    questions = await live.kalshi.questions()
    bought = a_purchase(12.0, 0.57)
    race, first = questions["event:KXDEMO-26DEC30"], "KXDEMO-26DEC30-A"
    for question, order, what in (
        (questions[A], replace(bought, contract=B), "kalshi"),
        (questions[A], replace(bought, contract="KXNONE-1-A"), "kalshi"),
        (questions[A], replace(bought, option="Candidate A"), "option 'Candidate A' of kalshi"),
        (race, replace(bought, contract=first, option="Candidate B"), "option 'Candidate B' of kalshi"),
        (race, replace(bought, contract=first), "kalshi"),
    ):
        with pytest.raises(RequestRejectedError, match=f"is not the market of {what}"):
            await seal_batch(live.writer(), question, make_intent(question, order))
    right = replace(bought, contract=first, option="Candidate A")
    live.kalshi.venue.books[first] = WALK_BOOK
    _, receipt = await seal_and_submit(live.writer(), race, right)
    assert (receipt.state, len(live.account.bodies)) == (IntentState.ACKED, 1)


async def test_an_id_is_never_used_twice_and_one_that_was_is_looked_for(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    writer = live.writer()
    batch = await seal_batch(writer, question, make_intent(question, a_purchase(12.0, 0.57)))
    await writer.submit(batch)
    (again,) = await writer.submit(batch)
    assert again.state is IntentState.UNKNOWN
    assert "order_already_exists" in again.detail
    (found,) = await writer.read_submissions(batch)
    assert (found.state, len(live.account.orders)) == (IntentState.ACKED, 1)


async def test_an_order_whose_fills_are_not_listed_yet_is_unknown(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    live.account.lag = 1
    batch, receipt = await seal_and_submit(live.writer(), question, a_purchase(12.0, 0.57))
    assert receipt.state is IntentState.UNKNOWN
    (found,) = await live.writer().read_submissions(batch)
    assert (found.state, found.fills[0].shares) == (IntentState.ACKED, 12.0)


async def test_an_absence_is_final_only_after_five_empty_lists(live: WriterFixture) -> None:
    question, writer = (await live.kalshi.questions())[A], live.writer()
    live.losses = ["reply"]
    batch, receipt = await seal_and_submit(writer, question, a_purchase(12.0, 0.57))
    assert receipt.state is IntentState.UNKNOWN
    clock = live.kalshi.clock
    live.account.lag = 1
    (early,) = await writer.read_submissions(batch)
    assert (early.state, live.account.lag) == (IntentState.ABSENT, 0)  # before the fence an absence decides nothing
    clock.advance_without_waking(121)
    live.account.lag = 4
    (found,) = await writer.read_submissions(batch)
    assert (found.state, found.fills[0].shares, live.account.lag) == (IntentState.ACKED, 12.0, 0)
    began = clock.monotonic()
    live.account.orders.clear()
    (gone,) = await writer.read_submissions(batch)
    assert (gone.state, clock.monotonic() - began) == (IntentState.ABSENT, 10.0)


async def test_an_order_that_would_meet_one_of_a_person_trades_nothing(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    live.account.rest_order(A, "5.00", "0.56", side="ask")
    _, receipt = await seal_and_submit(live.writer(), question, a_purchase(12.0, 0.57))
    assert (receipt.state, receipt.fills, len(live.account.orders)) == (IntentState.ACKED, (), 2)


async def test_a_cancellation_counts_once_the_order_is_not_listed_any_more(live: WriterFixture) -> None:
    writer, clock = live.writer(), live.kalshi.clock
    first, second = (live.account.rest_order(A, "5.00", price) for price in ("0.40", "0.41"))
    live.account.stale_cancels = 2
    assert list(await writer.cancel([first])) == [first]
    assert clock.monotonic() == 5.0
    # The response names another order: only the list counts, and it still has this one.
    live.account.cancels_wrongly = True
    with capture_logs() as logs:
        assert list(await writer.cancel([second])) == []
    assert [one["event"] for one in logs] == ["the response to a cancellation is about another order"]
    assert clock.monotonic() == 5.0


NO_BIDS: dict[str, list[list[str]]] = {"yes_dollars": [], "no_dollars": []}


async def test_shares_of_a_market_that_waits_for_its_outcome_are_not_worthless(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    await seal_and_submit(live.writer(), question, a_purchase(12.0, 0.57))
    live.kalshi.venue.books[A] = NO_BIDS
    (nobody_buys,) = (await live.writer().account()).positions
    assert (nobody_buys.mark, nobody_buys.is_unpriced) == (None, False)
    live.kalshi.venue.change_market(A, status="closed")
    (waiting,) = (await live.writer().account()).positions
    assert waiting.is_unpriced
    assert waiting.mark == pytest.approx(0.57)
    del live.kalshi.venue.books[A]
    assert (await live.writer().account()).positions == (waiting,)


async def test_an_order_that_is_filled_while_the_account_is_read_counts_once(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    await seal_and_submit(live.writer(), question, a_purchase(12.0, 0.57))
    sound, fills = await live.writer().account(), 1
    answer = live.account.answer

    def buy_once(request: ReceivedRequest) -> ScriptedResponse | None:
        nonlocal fills
        reply = answer(request)
        if "/balance" in request.path and fills:
            fills = 0
            # Nine contracts for 5 dollars, right after the balance was read.
            live.account.cash -= 5
            live.account.positions[A] += 9
        return reply

    live.kalshi.venue.override = buy_once
    found = await live.writer().account()
    assert (found.cash, found.positions[0].shares) == (sound.cash - 5.0, 21.0)


async def test_an_account_that_changes_all_the_time_is_not_read(live: WriterFixture) -> None:
    answer = live.account.answer

    def spend(request: ReceivedRequest) -> ScriptedResponse | None:
        live.account.cash -= "/balance" in request.path
        return answer(request)

    live.kalshi.venue.override = spend
    with pytest.raises(ServiceUnavailableError, match="changed each time"):
        await live.writer().account()


async def test_an_account_that_may_send_too_little_is_refused_at_the_start(live: WriterFixture) -> None:
    notes = await check_account(live.kalshi.settings, live.kalshi.place)
    assert "usage tier basic: 200 tokens a second to read, 100 to write" in notes
    live.account.write_tokens.rate = 19
    question = (await live.kalshi.questions())[A]
    with pytest.raises(AuthenticationError, match="ask the venue for a higher tier"):
        await check_account(live.kalshi.settings, live.kalshi.place)
    with pytest.raises(AuthenticationError, match="200 tokens a second to read and 19 to write"):
        await seal_batch(live.writer(), question, make_intent(question, a_purchase(12.0, 0.57)))
    assert live.account.bodies == []


async def test_only_cash_of_the_first_shard_counts_and_markets_elsewhere_are_refused(live: WriterFixture) -> None:
    assert (await live.writer().account()).cash == 1000.0
    question = (await live.kalshi.questions())[A]
    live.kalshi.venue.change_market(A, exchange_index=3)
    with pytest.raises(RequestRejectedError, match="shard 3"):
        await seal_batch(live.writer(), question, make_intent(question, a_purchase(12.0, 0.57)))


async def test_a_pause_takes_nothing_and_resting_orders_of_a_person_can_be_cancelled(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    live.account.is_paused = True
    _, receipt = await seal_and_submit(live.writer(), question, a_purchase(12.0, 0.57))
    assert receipt.state is IntentState.ABSENT
    name = live.account.rest_order(A, "5.00", "0.40")
    [resting] = (await live.writer().account()).orders
    assert (resting.id, resting.leg, resting.reserves) == (name, YES, 2.0)
    assert list(await live.writer().cancel(None)) == [name]


@pytest.mark.parametrize(
    ("status", "body", "state", "who"),
    [
        (400, b'{"error":{"code":"insufficient_balance"}}', IntentState.REFUSED, ResponsibleParty.OPERATOR_IF_ALL),
        (400, b'{"error":{"code":"invalid_price"}}', IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (400, b'{"code":"bad_request"}', IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (401, b'{"error":{"code":"authentication_error"}}', IntentState.REFUSED, ResponsibleParty.OPERATOR),
        (403, b"", IntentState.REFUSED, ResponsibleParty.OPERATOR),
        (409, b'{"error":{"code":"exchange_is_paused"}}', IntentState.ABSENT, ResponsibleParty.NOBODY),
        (409, b'{"error":{"code":"something_new"}}', IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (409, b'{"error":{"code":"invalid_price"}}', IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (400, b'{"error":{"code":"something_new"}}', IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (410, b'{"error":{"code":"deprecated_v1_order_endpoint"}}', IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (429, b'{"error":"too many requests"}', IntentState.ABSENT, ResponsibleParty.NOBODY),
        (500, b"", IntentState.UNKNOWN, ResponsibleParty.NOBODY),
    ],
)
def test_responses_are_judged_by_their_code(
    status: int, body: bytes, state: IntentState, who: ResponsibleParty
) -> None:
    verdict = write_verdict(HttpResponse(status=status, body=body))
    assert (verdict.state, verdict.responsible) == (state, who)
    code = re.search(rb'"code":"(\w+)"', body)
    assert code is None or code[1].decode() in verdict.detail


async def test_the_check_says_what_is_there_or_missing(live: WriterFixture) -> None:
    kalshi = live.kalshi
    assert "1000.00 dollars" in (await check_account(kalshi.settings, kalshi.place))[0]
    for changes, why in (
        ({"attested": False}, "attested"),
        ({"key_file": None}, "key_file"),
        ({"key_id": "x"}, "NOT_FOUND|401"),
    ):
        with pytest.raises(AuthenticationError, match=why):
            await check_account(kalshi.set(**changes).settings, kalshi.place)


async def test_a_clock_that_is_wrong_is_refused(live: WriterFixture) -> None:
    stood = live.kalshi.clock.now()
    live.account.now = lambda: stood
    live.kalshi.clock.advance_without_waking(30)
    with pytest.raises(AuthenticationError):
        await check_account(live.kalshi.settings, live.kalshi.place)


@pytest.mark.parametrize("form", [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL])
def test_both_forms_of_keys_load_and_only_where_nobody_else_can_read_them(
    tmp_path: Path, form: serialization.PrivateFormat
) -> None:
    path = tmp_path / "kalshi.key"
    path.write_bytes(key_text(form))
    path.chmod(stat.S_IRUSR)
    assert load_key(path).private_numbers() == KEY.private_numbers()
    path.chmod(0o644)
    with pytest.raises(AuthenticationError, match="chmod 600"):
        load_key(path)


def elliptic_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    pkcs8 = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, serialization.NoEncryption())


@pytest.mark.parametrize(("content", "why"), [(b"secret", "not a private key"), (elliptic_key(), "not an RSA key")])
def test_other_files_are_refused_without_their_content(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "kalshi.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(AuthenticationError, match=why) as caught:
        load_key(path)
    assert "secret" not in str(caught.value)


async def test_without_declaration_or_key_nothing_is_sealed(live: WriterFixture) -> None:
    question = (await live.kalshi.questions())[A]
    changes: dict[str, Any] = {"attested": False}
    live.kalshi = live.kalshi.set(**changes)
    with pytest.raises(AuthenticationError, match="attested"):
        await seal_batch(live.writer(), question, make_intent(question, a_purchase(12.0, 0.57)))
