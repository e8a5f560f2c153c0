"""Profit of a live account, from the first order to the payout, seen as a person sees it: whole commands, one venue."""

import asyncio
import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_state import FakeManifoldMarket, FakeManifoldUser
from tests.acceptance.biased_forecaster import DIFFERENT
from tests.acceptance.live_installation import LiveInstallation

KEY = "key-of-a-fake-account-1"
ARM = ("arm", "manifold", "--for", "24h", "--per-order", "50", "--per-day", "160", "--total", "400")
HOUR_MS = 3_600_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]


def create_installation(folder: Path, url: str) -> LiveInstallation:
    settings = [
        f'base_url = "{url}"',
        'key_file = "secret"',
        'username = "foxbot"',
        "min_bettors = 0",
        "comments = true",
    ]
    return LiveInstallation(folder, "manifold", secret=KEY, settings=settings, more="[policy]\nmin_gap_h = 0.0\n")


def resolve(venue: FakeManifold, market: FakeManifoldMarket, outcome: str) -> None:
    """Resolve it, some hours ago: what has just been resolved is not believed."""
    venue.world.resolve(market, outcome)
    market.resolution_time = (market.resolution_time or 0) - 3 * HOUR_MS


def own_gain(venue: FakeManifold, user: FakeManifoldUser, market: FakeManifoldMarket) -> float:
    """Return what a market brought by the venue's own list of bets and payouts."""
    return market.paid.get(user.id, 0.0) - sum(
        bet.amount for bet in venue.state.bets_on(market.id) if bet.user == user.id
    )


@dataclass(kw_only=True)
class TradedInstallation:
    """What a live account went through: a market that pays, one that does not, one that is open; and what was said."""

    venue: FakeManifold
    user: FakeManifoldUser
    pays: FakeManifoldMarket
    pays_nothing: FakeManifoldMarket
    is_open: FakeManifoldMarket
    account: dict[str, Any]
    shown: str
    history: list[dict[str, Any]]
    history_shown: str
    folder: Path

    @property
    def gain(self) -> float:
        """What all orders gained, by the venue's own bets and payouts, and by the price of what is held."""
        closed = sum(own_gain(self.venue, self.user, market) for market in (self.pays, self.pays_nothing))
        return closed + float(self.market(self.is_open)["gain"]) - self.comments

    @property
    def comments(self) -> int:
        return len(self.venue.ledger.effects("comment"))

    def market(self, market: FakeManifoldMarket) -> dict[str, Any]:
        (found,) = [one for one in self.account["markets"] if one["contract"] == market.id]
        return dict(found)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> TradedInstallation:
    return asyncio.run(live(tmp_path_factory.mktemp("profit")))


async def live(folder: Path) -> TradedInstallation:
    venue = FakeManifold(SystemClock())
    user = venue.world.add_user("foxbot", key=KEY, is_bot=True)
    lamp = venue.world.add_market("Will the lamp be lit?", prob=0.3)
    fire = venue.world.add_market("Will the fire be lit?", prob=0.4)
    oven = venue.world.add_market("Will the oven be lit?", prob=0.35)
    async with serve_service(venue) as served:
        foxcast = create_installation(folder, served.url)
        assert (await foxcast(*ARM)).code == 0
        assert "3 planned" in (await foxcast.once())["submit"]
        # The position is sold, and with the next forecast the other side is bought.
        for word in ("as", "for"):
            venue.world.edit(lamp, question=f"Will the lamp be lit, {word} {DIFFERENT}?")
            await foxcast.once()
        venue.world.deposit(user, 500.0)
        venue.world.lend(user, oven, 7.0)
        resolve(venue, lamp, "NO")
        resolve(venue, fire, "NO")
        await foxcast.once()
        await foxcast.once()
        [account] = (await foxcast("portfolio", "--json")).json
        [reported] = (await foxcast("portfolio", "--history", "--json")).json
        markets = folder / "markets.csv"
        assert (await foxcast("portfolio", "--csv", markets)).out == f"3 rows written to {markets}\n"
        assert (await foxcast("portfolio", "--history", "--csv", folder / "equity.csv")).code == 0
        assert (await foxcast("portfolio", "--csv", folder / "none" / "x.csv")).is_refusal(2, "cannot be written")
        shown, history = (await foxcast("portfolio")).out, (await foxcast("portfolio", "--history")).out
    return TradedInstallation(
        venue=venue,
        user=user,
        pays=lamp,
        pays_nothing=fire,
        is_open=oven,
        account=account,
        shown=shown,
        history=reported["history"],
        history_shown=history,
        folder=folder,
    )


def test_a_closed_market_gained_what_the_bets_and_payouts_of_the_venue_come_to(lived: TradedInstallation) -> None:
    for market in (lived.pays, lived.pays_nothing):
        one = lived.market(market)
        assert one["realised"] == pytest.approx(own_gain(lived.venue, lived.user, market), abs=0.005)
        assert one["venue_says"] == pytest.approx(one["realised"], abs=0.005)
        assert (one["shares"], one["closed_at"] is None) == ({}, False)
    assert lived.market(lived.pays)["paid_out"] > 0.0 > lived.market(lived.pays_nothing)["realised"]
    assert lived.market(lived.is_open)["closed_at"] is None
    assert lived.account["remarks"] == ["the venue reports the same gains for all 2 closed markets that it reports"]


def test_a_deposit_and_a_loan_are_in_the_cash_and_no_gain(lived: TradedInstallation) -> None:
    account = lived.account
    assert account["not_from_orders"] == pytest.approx(500.0, abs=0.005)
    assert account["loan"] == pytest.approx(7.0)
    assert account["comment_fees"] == lived.comments > 0
    assert account["gain_of_orders"] == pytest.approx(lived.gain, abs=0.005)
    assert account["equity"] == pytest.approx(1000.0 + 500.0 + lived.gain, abs=0.005)
    assert account["cash"] == pytest.approx(lived.user.balance, abs=0.005)
    assert sum(one["realised"] for one in account["forecasters"]) == pytest.approx(account["realised"])


def test_the_history_ends_where_the_account_stands(lived: TradedInstallation) -> None:
    last = lived.history[-1]
    assert last["equity"] == pytest.approx(lived.account["equity"])
    assert last["transfers"] == pytest.approx(500.0, abs=0.005)
    assert last["gain"] == pytest.approx(lived.gain, abs=0.005)
    assert [one["at"] for one in lived.history] == sorted(one["at"] for one in lived.history)
    assert "+500.00" in lived.history_shown


def test_a_person_sees_what_is_no_gain(lived: TradedInstallation) -> None:
    for part in ("not from orders: deposits", "+500.00", "loan of the venue", "By forecaster", "Markets (3)"):
        assert part in lived.shown


def test_the_csv_sums_to_the_account_by_a_program_that_knows_nothing_of_this_one(lived: TradedInstallation) -> None:
    sums: dict[str, float] = defaultdict(float)
    with (lived.folder / "markets.csv").open() as file:
        for row in csv.DictReader(file):
            for name in ("bought", "sold", "paid_out", "realised", "gain"):
                sums[name] += float(row[name])
    assert sums["realised"] == pytest.approx(lived.account["realised"], abs=1e-4)
    spent = sum(bet.amount for bet in lived.venue.state.bets_by(lived.user.id))
    paid = sum(one.paid.get(lived.user.id, 0.0) for one in lived.venue.state.markets.values())
    assert sums["bought"] - sums["sold"] - sums["paid_out"] == pytest.approx(spent - paid, abs=1e-4)
    with (lived.folder / "equity.csv").open() as file:
        assert float([*csv.DictReader(file)][-1]["equity"]) == pytest.approx(lived.account["equity"], abs=1e-5)
