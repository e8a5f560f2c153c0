"""Accounts and positions of the fake Manifold, and requests at the edges of its rules."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.simulator.venues.manifold_world import ManifoldResolver
from tests.unit.simulator.venues.manifold_client import RawManifoldClient

CHOICES: dict[str, Any] = {"type": "MULTIPLE_CHOICE", "answers": [("Red", 0.5), ("Green", 0.3), ("Blue", 0.2)]}


async def test_an_account_is_found_by_name_and_id_with_its_balance(manifold: RawManifoldClient) -> None:
    manifold.ada.balance = 12.5
    for path in ("/v0/user/ada", f"/v0/user/by-id/{manifold.ada.id}"):
        assert (await manifold.read(path))["balance"] == 12.5


async def test_a_portfolio_is_balance_and_what_positions_are_worth(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 50)
    portfolio = await manifold.read("/v0/get-user-portfolio", userId=manifold.ada.id)
    assert portfolio["balance"] == pytest.approx(950)
    assert portfolio["investmentValue"] == pytest.approx(placed["shares"] * placed["probAfter"])


async def test_all_positions_of_an_account_are_listed_by_market(manifold: RawManifoldClient) -> None:
    binary, choice = manifold.world.add_market(), manifold.world.add_market(**CHOICES)
    red = choice.answers[0].id
    await manifold.placed(binary, 10)
    await manifold.placed(choice, 10, answerId=red, outcome="NO")
    found = await manifold.read("/v0/get-user-contract-metrics-with-contracts", userId=manifold.ada.id, limit=10)
    metrics = found["metricsByContract"]
    assert set(metrics) == {binary.id, choice.id} == {contract["id"] for contract in found["contracts"]}
    assert [row["answerId"] for row in metrics[choice.id]] == [red, None]
    assert metrics[choice.id][0]["maxSharesOutcome"] == "NO"
    only = await manifold.read(f"/v0/market/{choice.id}/positions", userId=manifold.ada.id, answerId=red)
    assert [row["invested"] for row in only] == [pytest.approx(10)]


async def test_the_database_knows_what_the_interface_hides(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(sums_to_one=True, **CHOICES)
    manifold.world.resolve(market, "CHOOSE_MULTIPLE", weights={market.answers[0].id: 0.25, market.answers[1].id: 0.75})
    raw = await manifold.read("/get-contract", contractId=market.id)
    assert list(raw["resolutions"].values()) == [25, 75]
    scale = await manifold.read("/get-contract", contractId=manifold.world.add_numeric("How many?", 3, 8).id)
    assert (scale["min"], scale["max"]) == (3, 8)


async def test_topics_are_listed_and_found_by_slug(manifold: RawManifoldClient) -> None:
    manifold.world.add_market(groups=("weather", "oslo"))
    assert [group["slug"] for group in await manifold.read("/v0/groups")] == ["oslo", "weather"]
    assert (await manifold.read("/v0/group/weather"))["name"] == "Weather"
    assert (await manifold.get("/v0/group/nothing")).status_code == 404


async def test_bets_are_found_by_who_when_and_what(manifold: RawManifoldClient) -> None:
    market, other = manifold.world.add_market(), manifold.world.add_market()
    first = await manifold.placed(market, 10)
    await manifold.clock.advance(10.0)
    second = await manifold.placed(other, 20)
    moment = manifold.venue.now_ms()

    async def found(**asked: Any) -> list[str]:
        return [row["id"] for row in await manifold.read("/v0/bets", **asked)]

    assert await found(userId=manifold.ada.id, order="asc") == [first["betId"], second["betId"]]
    assert await found(contractId=[market.id, other.id]) == [second["betId"], first["betId"]]
    assert await found(contractSlug=other.slug) == [second["betId"]]
    assert await found(afterTime=moment - 5_000) == [second["betId"]]
    assert await found(beforeTime=moment) == [first["betId"]]
    assert await found(before=second["betId"]) == [first["betId"]]
    assert await found(after=first["betId"]) == [second["betId"]]
    assert await found(minAmount=15) == [second["betId"]]
    assert await found(limit=1) == [second["betId"]]
    assert await found(username="nobody") == []
    assert await manifold.read("/v0/bets", count="true") == {"count": 2}


async def test_a_trade_that_would_drain_the_pool_is_refused(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(liquidity=0.05, prob=0.5)
    reply = await manifold.bet(market, 100)
    assert (reply.status_code, "pool" in reply.json()["message"]) == (403, True)


async def test_several_answers_can_be_bought_only_where_one_wins(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(**CHOICES)
    body = {"contractId": market.id, "answerIds": [market.answers[0].id], "amount": 10}
    assert (await manifold.post("/v0/multi-bet", body)).status_code == 400


async def test_a_cancelled_choice_returns_what_was_spent(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(sums_to_one=True, **CHOICES)
    await manifold.placed(market, 30, answerId=market.answers[1].id)
    manifold.world.resolve(market, "CANCEL")
    assert manifold.ada.balance == pytest.approx(1000)
    manifold.world.unresolve(market)
    assert manifold.ada.balance == pytest.approx(970)


async def test_selling_one_of_several_answers_returns_what_it_cost(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(sums_to_one=True, **CHOICES)
    red = market.answers[0].id
    await manifold.placed(market, 30, answerId=red)
    sold = await manifold.post(f"/v0/market/{market.id}/sell", {"outcome": "YES", "answerId": red})
    assert sold.json()["amount"] == pytest.approx(-30)
    assert [answer.pool.prob for answer in market.answers] == pytest.approx([0.5, 0.3, 0.2])
    assert manifold.ada.balance == pytest.approx(1000)


async def test_mana_is_conserved_through_bets_sales_orders_and_resolution(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    bob = manifold.world.add_user("bob")
    pool = market.pool
    manifold.world.trade(bob, market, WantedTrade(outcome="NO", amount=60, limit=0.55))
    await manifold.placed(market, 80)
    await manifold.placed(market, 40, outcome="NO", limitProb=0.45)
    await manifold.post(f"/v0/market/{market.id}/sell", {"outcome": "YES", "shares": 10})
    manifold.world.trade(bob, market, WantedTrade(outcome="YES", amount=25))
    manifold.world.resolve(market, "YES")
    # What users won or lost in all, the market maker lost or won: its YES pay one mana each.
    assert manifold.ada.balance + bob.balance - 2000 == pytest.approx(pool.yes - market.pool.yes)


async def test_the_last_answer_to_be_cancelled_cancels_a_market_of_cancelled_answers(
    manifold: RawManifoldClient,
) -> None:
    market = manifold.world.add_market(**CHOICES)
    resolving = ManifoldResolver(manifold.venue.state)
    for answer in market.answers:
        resolving.resolve_answer(market, answer, "CANCEL", None, manifold.venue.now_ms())
    assert market.resolution == "CANCEL"


async def test_there_is_no_socket_elsewhere(manifold: RawManifoldClient) -> None:
    with pytest.raises(InvalidStatus):
        async with connect(f"{manifold.served.ws_url}/elsewhere", proxy=None):
            pass


@pytest.mark.parametrize("skew_s", [-300.0, 300.0])
async def test_a_skewed_venue_judges_expiry_by_its_own_clock(manifold: RawManifoldClient, skew_s: float) -> None:
    market = manifold.world.add_market()
    expires = manifold.venue.now_ms() + 30_000
    manifold.venue.faults.skew_s = skew_s
    reply = await manifold.bet(market, 10, limitProb=0.4, expiresAt=expires)
    assert reply.status_code == (400 if skew_s > 0 else 200)


async def test_a_hung_up_bet_is_on_the_books(manifold: RawManifoldClient) -> None:
    market, expires = manifold.world.add_market(), manifold.venue.now_ms() + 45_123
    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_AFTER, status=500), path="/v0/bet")
    assert (await manifold.bet(market, 10, limitProb=0.6, expiresAt=expires)).status_code == 500
    [row] = await manifold.read("/v0/bets", userId=manifold.ada.id, afterTime=manifold.venue.now_ms() - 5_000)
    assert row["expiresAt"] == expires
    doubles = manifold.venue.ledger.doubled_effects("bet", lambda effect: effect.detail["expires"])
    assert doubles == {}


async def test_a_position_costs_its_average_and_gains_what_its_bets_come_to(manifold: RawManifoldClient) -> None:
    """As ``calculateTotalSpentAndShares`` and ``calculateUserMetricsWithNewBetsOnly`` of the venue's public code."""
    market = manifold.world.add_market()
    first, second = [await manifold.placed(market, amount) for amount in (50, 30)]
    shares = first["shares"] + second["shares"]
    sold = (await manifold.post(f"/v0/market/{market.id}/sell", {"outcome": "YES", "shares": shares / 4})).json()
    (row,) = await manifold.read(f"/v0/market/{market.id}/positions", userId=manifold.ada.id)
    assert row["invested"] == pytest.approx(80.0 * 3 / 4)
    brought = row["totalAmountSold"] - row["totalAmountInvested"]
    assert brought == pytest.approx(-80.0 - sold["amount"])
    assert row["profit"] == pytest.approx(row["payout"] + brought)
    manifold.world.resolve(market, "YES")
    (over,) = await manifold.read(f"/v0/market/{market.id}/positions", userId=manifold.ada.id)
    assert over["payout"] == pytest.approx(shares * 3 / 4)
    assert over["profit"] == pytest.approx(manifold.ada.balance - 1000.0)
    manifold.world.unresolve(market)
    manifold.world.resolve(market, "CANCEL")
    (off,) = await manifold.read(f"/v0/market/{market.id}/positions", userId=manifold.ada.id)
    assert (off["payout"], off["profit"]) == (pytest.approx(row["invested"]), 0.0)
    assert manifold.ada.balance == pytest.approx(1000.0)


async def test_what_is_lent_comes_back_from_sales_and_payouts_with_the_interest_of_margin_loans(
    manifold: RawManifoldClient,
) -> None:
    """As ``getBinaryRedeemableAmountFromContractMetric`` and ``calculateLoanWithInterest`` of its public code."""
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 50)
    manifold.world.lend(manifold.ada, market, 8.0, margin=False)
    manifold.world.lend(manifold.ada, market, 20.0, margin=True)
    portfolio = await manifold.read("/v0/get-user-portfolio", userId=manifold.ada.id)
    assert (portfolio["balance"], portfolio["loanTotal"]) == (pytest.approx(978.0), pytest.approx(28.0))
    answer = await manifold.post(f"/v0/market/{market.id}/sell", {"outcome": "YES", "shares": placed["shares"] / 4})
    assert manifold.ada.balance == pytest.approx(978.0 - answer.json()["amount"] - 7.0)
    (row,) = await manifold.read(f"/v0/market/{market.id}/positions", userId=manifold.ada.id)
    assert (row["loan"], row["marginLoan"]) == (pytest.approx(6.0), pytest.approx(15.0))
    before = manifold.ada.balance
    manifold.clock.advance_without_waking(2 * 86_400)
    manifold.world.resolve(market, "YES")
    # 0.03 % of 15 for each of two days.
    interest = 15.0 * 0.0003 * 2
    assert manifold.ada.balance == pytest.approx(before + placed["shares"] * 3 / 4 - 21.0 - interest, abs=1e-4)
    manifold.world.unresolve(market)
    assert manifold.ada.balance == pytest.approx(before)


async def test_a_deposit_shows_in_the_balance_and_among_deposits(manifold: RawManifoldClient) -> None:
    manifold.world.deposit(manifold.ada, 250.0)
    portfolio = await manifold.read("/v0/get-user-portfolio", userId=manifold.ada.id)
    assert (portfolio["balance"], portfolio["totalDeposits"]) == (1250.0, 1250.0)
