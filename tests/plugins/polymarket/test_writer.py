"""The writer on the fake venue: what is signed, what is posted, what each answer means."""

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog
from pydantic import SecretStr

from bot.api import (
    AuthenticationError,
    ContractSide,
    IntentAction,
    IntentState,
    OrderSide,
    Question,
    ServiceUnavailableError,
    SubmissionBatch,
    VenueWriterContext,
)
from bot.core.errors import RequestRejectedError
from bot.core.questions import describe_changes
from bot.core.redaction import redact_known_secrets, temporary_secrets
from bot.simulator.faults import FaultDetails, RequestFault
from bot.testing.http import FakeWriteClient
from plugins.polymarket.order_terms import PolymarketOrderType
from plugins.polymarket.writer import PolymarketWriter, open_writer
from tests.order_intents import make_batch, make_intent, seal_and_submit, seal_batch
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, KEY, WriterFixture, open_writer_fixture, order_of

GTD = PolymarketOrderType.GTD


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


async def rain(polymarket: WriterFixture, **fields: Any) -> Question:
    return await polymarket.question(polymarket.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


async def refusal(polymarket: WriterFixture, question: Question, **order: Any) -> str:
    with pytest.raises(RequestRejectedError) as caught:
        await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question, **order)))
    assert not polymarket.asked("/order")
    return str(caught.value)


async def changes(polymarket: WriterFixture, question: Question, **order: Any) -> tuple[str, ...]:
    """What the writer shows to have changed, without a request and without a signature."""
    [made] = (
        await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question, **order)))
    ).sealed
    assert (made.tag, made.body) == ("", "")
    assert made.question is not None
    assert not [one for line in polymarket.lines for one in line.asked if one["do"] == "order"]
    return describe_changes(question, made.question)


# Signed and posted


@pytest.mark.parametrize("fields", [{}, {"version": "v2"}])
async def test_an_order_is_posted_as_it_was_stored_and_the_venue_finds_its_signature_right(
    polymarket: WriterFixture, fields: dict[str, Any]
) -> None:
    question = await rain(polymarket, **fields)
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert (receipt.state, receipt.reference) == (IntentState.ACKED, batch.sealed[0].tag)
    assert polymarket.effects() == [batch.sealed[0].tag]
    (post,) = polymarket.asked("/order")
    assert json.loads(post.body) == {**json.loads(batch.sealed[0].body), "owner": polymarket.user.key}


async def test_an_order_on_one_of_several_outcomes_is_signed_for_the_other_contract(polymarket: WriterFixture) -> None:
    event, markets = polymarket.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    assert markets[0].neg_risk
    question = await polymarket.named(f"event:{event.id}")
    batch, receipt = await seal_and_submit(
        polymarket.writer(), question, order_of(question, option="Ann", price="0.61", size="100")
    )
    assert receipt.state is IntentState.ACKED
    assert polymarket.effects() == [batch.sealed[0].tag]


@pytest.mark.parametrize("kind", ["eoa", "safe", "proxy"])
async def test_wallets_of_all_types_are_signed_for(kind: str, tmp_path: Path) -> None:
    async with open_writer_fixture(tmp_path, wallet_type=kind) as polymarket:
        question = await rain(polymarket)
        _, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
        assert receipt.state is IntentState.ACKED


async def test_no_is_bought_with_its_own_token(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    question = await polymarket.question(market)
    await seal_and_submit(polymarket.writer(), question, order_of(question, leg=ContractSide.NO, price="0.51"))
    (effect,) = polymarket.venue.ledger.effects("order")
    assert effect.detail["token"] == market.tokens[1]


async def test_shares_that_are_held_are_sold(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    question = await rain(polymarket)
    await seal_and_submit(polymarket.writer(), question, order_of(question, size="40"))
    sale = order_of(question, side=OrderSide.SELL, price="0.49", size="30")
    _, receipt = await seal_and_submit(polymarket.writer(), question, sale, "i2")
    (fill,) = receipt.fills
    fee = float(Decimal(30) * FEES.rate * Decimal("0.49") * Decimal("0.51"))
    assert fill.cash == pytest.approx(30 * 0.49 - fee, abs=1e-5)
    (position,) = (await polymarket.writer().account()).positions
    assert position.shares == 10.0


@pytest.mark.parametrize("fields", [{"is_delayed": True}, {"delay_s": Decimal(3)}])
async def test_where_takers_are_held_an_order_is_taken_and_its_fill_comes_later(
    polymarket: WriterFixture, fields: dict[str, Any]
) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    question = await rain(polymarket, **fields)
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert (receipt.state, receipt.detail, receipt.fills) == (IntentState.ACKED, "delayed", ())
    polymarket.clock.advance_without_waking(4)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert [fill.shares for fill in found.fills] == [20.0]


async def test_pm_s2_no_secure_client_is_made_and_nothing_is_signed_before_attestation_and_region(
    polymarket: WriterFixture,
) -> None:
    question = await rain(polymarket)
    batch = make_batch(question, make_intent(question, order_of(question)))
    with pytest.raises(AuthenticationError, match="attested = true"):
        await polymarket.writer(attested=False).seal_requests(batch)
    polymarket.venue.is_blocked, polymarket.venue.country = True, "DE"
    with pytest.raises(AuthenticationError, match=r'mode = "paper".*does not bypass.*region: DE'):
        await polymarket.writer().seal_requests(batch)
    # The signer was not even opened, and the venue was asked for nothing but the region.
    assert [line.asked for line in polymarket.lines] == [[], []]
    assert {one.path for one in polymarket.venue.requests if one.path.startswith("/auth")} == set()


async def test_the_region_is_asked_for_again_after_a_while(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer, batch = polymarket.writer(), make_batch(question, make_intent(question, order_of(question)))
    await writer.seal_requests(batch)
    polymarket.venue.is_blocked = True
    await writer.seal_requests(batch)
    polymarket.clock.advance_without_waking(300)
    with pytest.raises(AuthenticationError):
        await writer.seal_requests(batch)


async def test_pm_s3_an_allowance_that_is_too_low_is_a_refusal_and_no_approval_follows(
    polymarket: WriterFixture,
) -> None:
    polymarket.user.allowance = Decimal(1)
    question = await rain(polymarket)
    _, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "Foxcast never approves" in receipt.detail
    writes = {(one.method, one.path) for one in polymarket.venue.requests if one.method != "GET"}
    assert writes - {("POST", "/books")} == {("POST", "/order")}
    asked = {request["do"] for line in polymarket.lines for request in line.asked}
    assert asked == {"open", "order", "login"}


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"price": "0.505"}, "not on the grid of the book, 0.01"),
        ({"size": "20.001"}, "more than two decimals"),
        ({"size": "4", "type": GTD, "price": "0.40"}, "5 is the minimum"),
        ({"size": "1.8"}, "1 is the minimum"),
        ({"type": GTD, "lifetime_s": 179}, "less than three minutes"),
    ],
)
async def test_pm_s4_price_and_size_are_checked_on_the_book_of_now(
    polymarket: WriterFixture, order: dict[str, Any], words: str
) -> None:
    question = await rain(polymarket)
    assert words in await refusal(polymarket, question, **order)


async def test_pm_s4_a_price_is_checked_on_the_grid_of_now(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    question = await polymarket.question(market)
    polymarket.world.set_tick(market, "0.1")
    assert "not on the grid of the book, 0.1" in await refusal(polymarket, question, price="0.49", size="100")


async def test_pm_s6_what_is_matched_at_once_is_a_limit_order_at_its_cap_in_whole_cents(
    polymarket: WriterFixture,
) -> None:
    question = await rain(polymarket)
    batch, _ = await seal_and_submit(polymarket.writer(), question, order_of(question, size="40"))
    order = json.loads(batch.sealed[0].body)["order"]
    assert (int(order["makerAmount"]) % 10_000, int(order["takerAmount"]) % 100) == (0, 0)
    assert int(order["makerAmount"]) * 100 == int(order["takerAmount"]) * 50
    assert "not an amount in whole cents" in await _refused_alone(polymarket, question, price="0.51", size="12.34")


async def _refused_alone(polymarket: WriterFixture, question: Question, **order: Any) -> str:
    with pytest.raises(RequestRejectedError) as caught:
        await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question, **order)))
    return str(caught.value)


async def test_a_purchase_never_costs_more_than_its_order_may(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    for cost in ("5", "9.995"):
        assert f"may cost more than {cost} dollars" in await refusal(polymarket, question, cost=float(cost))


async def test_pm_v6_a_market_that_is_not_what_was_forecast_any_more_is_left_alone(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    question = await polymarket.question(market)
    polymarket.world.edit(market, description="This market resolves to Yes if it pours.")
    assert await changes(polymarket, question) == ("the resolution criteria changed",)
    polymarket.world.edit(market, description="This market resolves to Yes if it happens.", fees=FEES)
    market.new_version = False
    assert "fees or delay of its market have changed" in await refusal(polymarket, question)
    polymarket.world.edit(market, fees=None, accepting=False)
    assert "takes no orders" in await refusal(polymarket, question)
    polymarket.world.edit(market, accepting=True)
    polymarket.world.propose(market, "1")
    assert "its outcome is proposed" in await refusal(polymarket, question)
    polymarket.world.close(market)
    assert "closed" in await refusal(polymarket, question)
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: {"markets": []}), path="/gamma", times=2
    )
    assert "no longer exists" in await refusal(polymarket, question)


async def test_pm_v6_changed_rules_of_one_outcome_among_several_are_noticed(polymarket: WriterFixture) -> None:
    event, markets = polymarket.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    question = await polymarket.named(f"event:{event.id}")
    polymarket.world.edit(markets[1], description="Bob wins if he comes second.")
    reported = await changes(polymarket, question, option="Ann", price="0.61", size="100")
    assert reported == ("the resolution criteria changed",)


async def test_an_outcome_that_was_added_is_told_and_nothing_is_signed(polymarket: WriterFixture) -> None:
    event, _ = polymarket.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    question = await polymarket.named(f"event:{event.id}")
    polymarket.world.add_outcome(event, "Dan", "0.05")
    reported = await changes(polymarket, question, option="Ann", price="0.61", size="100")
    assert reported == ('option "Dan" was added',)
    assert polymarket.asked("/order") == []


async def test_an_order_on_another_contract_than_its_question_is_refused(polymarket: WriterFixture) -> None:
    question, other = await rain(polymarket), await rain(polymarket)
    order = order_of(other)
    with pytest.raises(RequestRejectedError, match="another contract"):
        await seal_batch(polymarket.writer(), question, make_intent(question, order))


async def test_a_book_that_is_missing_is_a_refusal(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    question = await polymarket.question(market)
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=lambda reported: reported), method="GET", path="/book"
    )
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=404), method="GET", path="/book"
    )
    await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question)))
    assert "has no book now" in await refusal(polymarket, question)


async def test_what_is_no_order_of_this_venue_is_left_out_of_a_batch(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    comment = make_intent(question, None, "i2", action=IntentAction.COMMENT, text="It will.")
    batch = await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question)), comment)
    assert [one.intent for one in batch.sealed] == ["i1"]
    receipts = await polymarket.writer().submit(batch)
    assert [one.state for one in receipts] == [IntentState.ACKED, IntentState.REFUSED]
    assert [one.state for one in await polymarket.writer().read_submissions(batch)] == [
        IntentState.ACKED,
        IntentState.ABSENT,
    ]


async def test_an_order_whose_question_is_not_in_the_batch_is_not_signed(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    batch = SubmissionBatch(key="b", intents=(make_intent(question, order_of(question)),), questions=())
    with pytest.raises(RequestRejectedError, match="accepts orders on known questions"):
        await polymarket.writer().seal_requests(batch)


async def test_what_the_signer_refuses_is_not_sent(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    with pytest.raises(RequestRejectedError, match="signer_per_order = 5"):
        await seal_batch(polymarket.writer(signer_per_order=5), question, make_intent(question, order_of(question)))
    writer = polymarket.writer(signer_per_day=15)
    await seal_batch(writer, question, make_intent(question, order_of(question)))
    with pytest.raises(ServiceUnavailableError, match="signer_per_day = 15"):
        await seal_batch(writer, question, make_intent(question, order_of(question), "i2"))
    assert not polymarket.asked("/order")


async def test_where_nothing_is_sent_nothing_is_signed(polymarket: WriterFixture) -> None:
    class NoWire(FakeWriteClient):
        sends = False

    question = await rain(polymarket)
    polymarket.wire = NoWire()
    looks = [
        await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question))) for _ in range(3)
    ]
    assert {json.loads(look.sealed[0].body)["order"]["signature"] for look in looks} == {""}
    assert list(polymarket.folder.rglob("signer.json")) == []


async def test_the_writer_that_is_offered_ends_its_signer(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    place = VenueWriterContext(
        clock=polymarket.clock, http=polymarket.http, folder=polymarket.folder, wire=polymarket.wire
    )
    async with open_writer(polymarket.settings, place) as writer:
        assert isinstance(writer, PolymarketWriter)
        _, receipt = await seal_and_submit(writer, question, order_of(question))
        assert receipt.state is IntentState.ACKED
        before = {child.pid for child in psutil.Process().children()}
    assert {child.pid for child in psutil.Process().children()} < before


# Around it


async def test_own_orders_that_an_order_names_go_first(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    _, resting = await seal_and_submit(writer, question, order_of(question, price="0.40", type=GTD))
    _, receipt = await seal_and_submit(writer, question, order_of(question, cancel=[resting.reference]), "i2")
    assert receipt.state is IntentState.ACKED
    assert [effect.subject for effect in polymarket.venue.ledger.effects("cancel")] == [resting.reference]


async def test_pm_s11_no_secret_reaches_a_log_an_error_or_a_request_on_record(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    with structlog.testing.capture_logs() as logs:
        writer = polymarket.writer()
        batch, receipt = await seal_and_submit(writer, question, order_of(question))
        polymarket.venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/order")
        _, lost = await seal_and_submit(writer, question, order_of(question, size="10"), "i2")
        polymarket.user.secret = "A" * 43 + "="
        with pytest.raises(AuthenticationError) as caught:
            await writer.account()
    shown = f"{logs} {batch} {receipt} {lost} {caught.value!r} {vars(writer)} {await writer._session.credentials()}"  # noqa: SLF001
    user = polymarket.user
    assert [word for word in (KEY[2:], user.key, user.passphrase, user.secret) if word in shown] == []
    assert any(line["event"] == "the outcome of an order is unknown" for line in logs)


# The API key


async def test_an_api_key_that_is_missing_is_made_once_where_trading_is_permitted(polymarket: WriterFixture) -> None:
    polymarket.user.key = ""
    with pytest.raises(AuthenticationError, match="attested"):
        await polymarket.writer(attested=False).account()
    assert not polymarket.asked("/auth/api-key")
    writer = polymarket.writer()
    await writer.account()
    await writer.account()
    assert len(polymarket.asked("/auth/api-key")) == 1
    await polymarket.writer().account()
    assert len(polymarket.asked("/auth/api-key")) == 1


async def test_pm_s11_secrets_that_were_found_are_known_as_such(polymarket: WriterFixture) -> None:
    user = polymarket.user
    with temporary_secrets():
        await polymarket.writer().account()
        shown = redact_known_secrets(f"a {user.key} b {user.secret} c {user.passphrase} d")
    assert [secret for secret in (user.key, user.secret, user.passphrase) if secret in shown] == []


async def test_an_api_key_that_is_refused_is_the_owners_matter(polymarket: WriterFixture) -> None:
    polymarket.user.key = ""
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=400), method="POST", path="/auth/api-key"
    )
    with pytest.raises(AuthenticationError, match="an API key was refused: 400"):
        await polymarket.writer().account()


async def test_an_api_key_of_the_settings_is_used_and_half_of_one_is_named(polymarket: WriterFixture) -> None:
    user = polymarket.user
    given = {"api_key": user.key, "api_secret": user.secret, "api_passphrase": user.passphrase}
    writer = polymarket.writer(**{name: SecretStr(text) for name, text in given.items()})
    assert (await writer.account()).cash == 1000.0
    assert not polymarket.asked("/auth/derive-api-key", "GET")
    with pytest.raises(AuthenticationError, match="set all of api_key, api_secret and api_passphrase"):
        await polymarket.writer(api_key=SecretStr(user.key)).account()
