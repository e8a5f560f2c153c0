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
    IntentAction,
    IntentState,
    Leg,
    Question,
    Side,
    Unauthorized,
    Unavailable,
    WriterPlace,
    describe_changes,
)
from bot.errors import Rejected
from bot.redact import forgetting, hide
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.wires import MemoryWire
from plugins.polymarket.terms import OrderType
from plugins.polymarket.writer import PolymarketWriter, open_writer
from tests.intents import batch_of, intent_of, placed, sealed
from tests.plugins.polymarket.writer_stand import BOOK, FEES, KEY, Stand, order_of, standing

GTD = OrderType.GTD


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        yield opened


async def rain(stand: Stand, **fields: Any) -> Question:
    return await stand.question(stand.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


async def refusal(stand: Stand, question: Question, **order: Any) -> str:
    with pytest.raises(Rejected) as caught:
        await sealed(stand.writer(), question, intent_of(question, order_of(question, **order)))
    assert not stand.asked("/order")
    return str(caught.value)


async def changes(stand: Stand, question: Question, **order: Any) -> tuple[str, ...]:
    """What the writer shows to have changed, without a request and without a signature."""
    [made] = (await sealed(stand.writer(), question, intent_of(question, order_of(question, **order)))).sealed
    assert (made.tag, made.body) == ("", "")
    assert made.question is not None
    assert not [one for line in stand.lines for one in line.asked if one["do"] == "order"]
    return describe_changes(question, made.question)


# Signed and posted


@pytest.mark.parametrize("fields", [{}, {"version": "v2"}])
async def test_an_order_is_posted_as_it_was_stored_and_the_venue_finds_its_signature_right(
    stand: Stand, fields: dict[str, Any]
) -> None:
    question = await rain(stand, **fields)
    batch, receipt = await placed(stand.writer(), question, order_of(question))
    assert (receipt.state, receipt.reference) == (IntentState.ACKED, batch.sealed[0].tag)
    assert stand.effects() == [batch.sealed[0].tag]
    (post,) = stand.asked("/order")
    assert json.loads(post.body) == {**json.loads(batch.sealed[0].body), "owner": stand.user.key}


async def test_an_order_on_one_of_several_outcomes_is_signed_for_the_other_contract(stand: Stand) -> None:
    event, markets = stand.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    assert markets[0].neg_risk
    question = await stand.named(f"event:{event.id}")
    batch, receipt = await placed(stand.writer(), question, order_of(question, option="Ann", price="0.61", size="100"))
    assert receipt.state is IntentState.ACKED
    assert stand.effects() == [batch.sealed[0].tag]


@pytest.mark.parametrize("kind", ["eoa", "safe", "proxy"])
async def test_wallets_of_all_types_are_signed_for(kind: str, tmp_path: Path) -> None:
    async with standing(tmp_path, wallet_type=kind) as stand:
        question = await rain(stand)
        _, receipt = await placed(stand.writer(), question, order_of(question))
        assert receipt.state is IntentState.ACKED


async def test_no_is_bought_with_its_own_token(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", **BOOK)
    question = await stand.question(market)
    await placed(stand.writer(), question, order_of(question, leg=Leg.NO, price="0.51"))
    (effect,) = stand.venue.ledger.effects("order")
    assert effect.detail["token"] == market.tokens[1]


async def test_shares_that_are_held_are_sold(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 0.0
    question = await rain(stand)
    await placed(stand.writer(), question, order_of(question, size="40"))
    sale = order_of(question, side=Side.SELL, price="0.49", size="30")
    _, receipt = await placed(stand.writer(), question, sale, "i2")
    (fill,) = receipt.fills
    fee = float(Decimal(30) * FEES.rate * Decimal("0.49") * Decimal("0.51"))
    assert fill.cash == pytest.approx(30 * 0.49 - fee, abs=1e-5)
    (position,) = (await stand.writer().account()).positions
    assert position.shares == 10.0


@pytest.mark.parametrize("fields", [{"is_delayed": True}, {"delay_s": Decimal(3)}])
async def test_where_takers_are_held_an_order_is_taken_and_its_fill_comes_later(
    stand: Stand, fields: dict[str, Any]
) -> None:
    stand.world.exchange.confirmed_s = 0.0
    question = await rain(stand, **fields)
    batch, receipt = await placed(stand.writer(), question, order_of(question))
    assert (receipt.state, receipt.detail, receipt.fills) == (IntentState.ACKED, "delayed", ())
    stand.clock.pass_unnoticed(4)
    (found,) = await stand.writer().standing(batch)
    assert [fill.shares for fill in found.fills] == [20.0]


async def test_pm_s2_no_secure_client_is_made_and_nothing_is_signed_before_attestation_and_region(stand: Stand) -> None:
    question = await rain(stand)
    batch = batch_of(question, intent_of(question, order_of(question)))
    with pytest.raises(Unauthorized, match="attested = true"):
        await stand.writer(attested=False).seal(batch)
    stand.venue.is_blocked, stand.venue.country = True, "DE"
    with pytest.raises(Unauthorized, match=r'mode = "paper".*no way round.*it says: DE'):
        await stand.writer().seal(batch)
    # The signer was not even opened, and the venue was asked for nothing but the region.
    assert [line.asked for line in stand.lines] == [[], []]
    assert {one.path for one in stand.venue.requests if one.path.startswith("/auth")} == set()


async def test_the_region_is_asked_for_again_after_a_while(stand: Stand) -> None:
    question = await rain(stand)
    writer, batch = stand.writer(), batch_of(question, intent_of(question, order_of(question)))
    await writer.seal(batch)
    stand.venue.is_blocked = True
    await writer.seal(batch)
    stand.clock.pass_unnoticed(300)
    with pytest.raises(Unauthorized):
        await writer.seal(batch)


async def test_pm_s3_an_allowance_that_is_too_low_is_a_refusal_and_no_approval_follows(stand: Stand) -> None:
    stand.user.allowance = Decimal(1)
    question = await rain(stand)
    _, receipt = await placed(stand.writer(), question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "Foxcast never approves" in receipt.detail
    writes = {(one.method, one.path) for one in stand.venue.requests if one.method != "GET"}
    assert writes - {("POST", "/books")} == {("POST", "/order")}
    asked = {request["do"] for line in stand.lines for request in line.asked}
    assert asked == {"open", "order", "login"}


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"price": "0.505"}, "not on the grid of the book, 0.01"),
        ({"size": "20.001"}, "more than two decimals"),
        ({"size": "4", "type": GTD, "price": "0.40"}, "5 is the least"),
        ({"size": "1.8"}, "1 is the least"),
        ({"type": GTD, "lifetime_s": 179}, "less than three minutes"),
    ],
)
async def test_pm_s4_price_and_size_are_checked_on_the_book_of_now(
    stand: Stand, order: dict[str, Any], words: str
) -> None:
    question = await rain(stand)
    assert words in await refusal(stand, question, **order)


async def test_pm_s4_a_price_is_checked_on_the_grid_of_now(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", **BOOK)
    question = await stand.question(market)
    stand.world.set_tick(market, "0.1")
    assert "not on the grid of the book, 0.1" in await refusal(stand, question, price="0.49", size="100")


async def test_pm_s6_what_is_matched_at_once_is_a_limit_order_at_its_cap_in_whole_cents(stand: Stand) -> None:
    question = await rain(stand)
    batch, _ = await placed(stand.writer(), question, order_of(question, size="40"))
    order = json.loads(batch.sealed[0].body)["order"]
    assert (int(order["makerAmount"]) % 10_000, int(order["takerAmount"]) % 100) == (0, 0)
    assert int(order["makerAmount"]) * 100 == int(order["takerAmount"]) * 50
    assert "no amount in whole cents" in await _refused_alone(stand, question, price="0.51", size="12.34")


async def _refused_alone(stand: Stand, question: Question, **order: Any) -> str:
    with pytest.raises(Rejected) as caught:
        await sealed(stand.writer(), question, intent_of(question, order_of(question, **order)))
    return str(caught.value)


async def test_a_purchase_never_costs_more_than_its_order_may(stand: Stand) -> None:
    question = await rain(stand)
    assert "may cost more than 5 dollars" in await refusal(stand, question, cost=5.0)


async def test_pm_v6_a_market_that_is_not_what_was_forecast_any_more_is_left_alone(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", **BOOK)
    question = await stand.question(market)
    stand.world.edit(market, description="This market resolves to Yes if it pours.")
    assert await changes(stand, question) == ("the resolution criteria changed",)
    stand.world.edit(market, description="This market resolves to Yes if it happens.", fees=FEES)
    market.new_version = False
    assert "fees or delay of its market have changed" in await refusal(stand, question)
    stand.world.edit(market, fees=None, accepting=False)
    assert "takes no orders" in await refusal(stand, question)
    stand.world.edit(market, accepting=True)
    stand.world.propose(market, "1")
    assert "its outcome is proposed" in await refusal(stand, question)
    stand.world.close(market)
    assert "closed" in await refusal(stand, question)
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=lambda _: {"markets": []}), path="/gamma", times=2)
    assert "not there any more" in await refusal(stand, question)


async def test_pm_v6_changed_rules_of_one_outcome_among_several_are_noticed(stand: Stand) -> None:
    event, markets = stand.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    question = await stand.named(f"event:{event.id}")
    stand.world.edit(markets[1], description="Bob wins if he comes second.")
    said = await changes(stand, question, option="Ann", price="0.61", size="100")
    assert said == ("the resolution criteria changed",)


async def test_an_outcome_that_was_added_is_told_and_nothing_is_signed(stand: Stand) -> None:
    event, _ = stand.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    question = await stand.named(f"event:{event.id}")
    stand.world.add_outcome(event, "Dan", "0.05")
    said = await changes(stand, question, option="Ann", price="0.61", size="100")
    assert said == ('option "Dan" was added',)
    assert stand.asked("/order") == []


async def test_an_order_on_another_contract_than_its_question_is_refused(stand: Stand) -> None:
    question, other = await rain(stand), await rain(stand)
    order = order_of(other)
    with pytest.raises(Rejected, match="another contract"):
        await sealed(stand.writer(), question, intent_of(question, order))


async def test_a_book_that_is_missing_is_a_refusal(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", **BOOK)
    question = await stand.question(market)
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=lambda said: said), method="GET", path="/book")
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=404), method="GET", path="/book")
    await sealed(stand.writer(), question, intent_of(question, order_of(question)))
    assert "has no book now" in await refusal(stand, question)


async def test_what_is_no_order_of_this_venue_is_left_out_of_a_batch(stand: Stand) -> None:
    question = await rain(stand)
    comment = intent_of(question, None, "i2", action=IntentAction.COMMENT, text="It will.")
    batch = await sealed(stand.writer(), question, intent_of(question, order_of(question)), comment)
    assert [one.intent for one in batch.sealed] == ["i1"]
    receipts = await stand.writer().submit(batch)
    assert [one.state for one in receipts] == [IntentState.ACKED, IntentState.REFUSED]
    assert [one.state for one in await stand.writer().standing(batch)] == [IntentState.ACKED, IntentState.ABSENT]


async def test_what_the_signer_refuses_is_not_sent(stand: Stand) -> None:
    question = await rain(stand)
    with pytest.raises(Rejected, match="signer_per_order = 5"):
        await sealed(stand.writer(signer_per_order=5), question, intent_of(question, order_of(question)))
    writer = stand.writer(signer_per_day=15)
    await sealed(writer, question, intent_of(question, order_of(question)))
    with pytest.raises(Unavailable, match="signer_per_day = 15"):
        await sealed(writer, question, intent_of(question, order_of(question), "i2"))
    assert not stand.asked("/order")


async def test_where_nothing_is_sent_nothing_is_signed(stand: Stand) -> None:
    class NoWire(MemoryWire):
        sends = False

    question = await rain(stand)
    stand.wire = NoWire()
    looks = [await sealed(stand.writer(), question, intent_of(question, order_of(question))) for _ in range(3)]
    assert {json.loads(look.sealed[0].body)["order"]["signature"] for look in looks} == {""}
    assert list(stand.folder.rglob("signer.json")) == []


async def test_the_writer_that_is_offered_ends_its_signer(stand: Stand) -> None:
    question = await rain(stand)
    place = WriterPlace(clock=stand.clock, http=stand.http, folder=stand.folder, wire=stand.wire)
    async with open_writer(stand.settings, place) as writer:
        assert isinstance(writer, PolymarketWriter)
        _, receipt = await placed(writer, question, order_of(question))
        assert receipt.state is IntentState.ACKED
        before = {child.pid for child in psutil.Process().children()}
    assert {child.pid for child in psutil.Process().children()} < before


# Around it


async def test_own_orders_that_an_order_names_go_first(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    _, resting = await placed(writer, question, order_of(question, price="0.40", type=GTD))
    _, receipt = await placed(writer, question, order_of(question, cancel=[resting.reference]), "i2")
    assert receipt.state is IntentState.ACKED
    assert [effect.subject for effect in stand.venue.ledger.effects("cancel")] == [resting.reference]


async def test_pm_s11_no_secret_reaches_a_log_an_error_or_a_request_on_record(stand: Stand) -> None:
    question = await rain(stand)
    with structlog.testing.capture_logs() as logs:
        writer = stand.writer()
        batch, receipt = await placed(writer, question, order_of(question))
        stand.venue.faults.next(Fault.DROPPED_AFTER, method="POST", path="/order")
        _, lost = await placed(writer, question, order_of(question, size="10"), "i2")
        stand.user.secret = "A" * 43 + "="
        with pytest.raises(Unauthorized) as caught:
            await writer.account()
    shown = f"{logs} {batch} {receipt} {lost} {caught.value!r} {vars(writer)} {await writer._session.credentials()}"  # noqa: SLF001
    user = stand.user
    assert [word for word in (KEY[2:], user.key, user.passphrase, user.secret) if word in shown] == []
    assert any(line["event"] == "an order is in doubt" for line in logs)


# The API key


async def test_an_api_key_that_is_missing_is_made_once_where_trading_is_permitted(stand: Stand) -> None:
    stand.user.key = ""
    with pytest.raises(Unauthorized, match="attested"):
        await stand.writer(attested=False).account()
    assert not stand.asked("/auth/api-key")
    writer = stand.writer()
    await writer.account()
    await writer.account()
    assert len(stand.asked("/auth/api-key")) == 1
    await stand.writer().account()
    assert len(stand.asked("/auth/api-key")) == 1


async def test_pm_s11_secrets_that_were_found_are_known_as_such(stand: Stand) -> None:
    user = stand.user
    with forgetting():
        await stand.writer().account()
        shown = hide(f"a {user.key} b {user.secret} c {user.passphrase} d")
    assert [secret for secret in (user.key, user.secret, user.passphrase) if secret in shown] == []


async def test_an_api_key_that_is_refused_is_the_owners_matter(stand: Stand) -> None:
    stand.user.key = ""
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=400), method="POST", path="/auth/api-key")
    with pytest.raises(Unauthorized, match="an API key was refused: 400"):
        await stand.writer().account()


async def test_an_api_key_of_the_settings_is_used_and_half_of_one_is_named(stand: Stand) -> None:
    user = stand.user
    given = {"api_key": user.key, "api_secret": user.secret, "api_passphrase": user.passphrase}
    writer = stand.writer(**{name: SecretStr(text) for name, text in given.items()})
    assert (await writer.account()).cash == 1000.0
    assert not stand.asked("/auth/derive-api-key", "GET")
    with pytest.raises(Unauthorized, match="set all of api_key, api_secret and api_passphrase"):
        await stand.writer(api_key=SecretStr(user.key)).account()
