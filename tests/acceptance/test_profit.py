"""Profit of a live account, from the first order to the payout, seen as a person sees it: whole commands, one venue."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.testing.loopback import serve
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.manifold_state import Market, User
from tests.acceptance.leaning import DIFFERENT
from tests.acceptance.living import Living

KEY = "key-of-a-fake-account-1"
ARM = ("arm", "manifold", "--for", "24h", "--per-order", "50", "--per-day", "160", "--total", "400")
HOUR_MS = 3_600_000

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def venue() -> Iterator[FakeManifold]:
    yield FakeManifold(SystemClock())


def living(folder: Path, url: str) -> Living:
    settings = [
        f'base_url = "{url}"',
        'key_file = "secret"',
        'username = "foxbot"',
        "min_bettors = 0",
        "comments = true",
    ]
    return Living(folder, "manifold", secret=KEY, settings=settings, more="[policy]\nmin_gap_h = 0.0\n")


def resolve(venue: FakeManifold, market: Market, outcome: str) -> None:
    """Resolve it, some hours ago: what has just been resolved is not believed."""
    venue.world.resolve(market, outcome)
    market.resolution_time = (market.resolution_time or 0) - 3 * HOUR_MS


def own_gain(venue: FakeManifold, user: User, market: Market) -> float:
    """Return what a market brought by the venue's own list of bets and payouts."""
    return market.paid.get(user.id, 0.0) - sum(
        bet.amount for bet in venue.state.bets_on(market.id) if bet.user == user.id
    )


@pytest.mark.slow
async def test_profit_of_a_live_account_is_accounted_to_the_cent(venue: FakeManifold, tmp_path: Path) -> None:
    ada = venue.world.add_user("foxbot", key=KEY, is_bot=True)
    lamp = venue.world.add_market("Will the lamp be lit?", prob=0.3)
    fire = venue.world.add_market("Will the fire be lit?", prob=0.4)
    oven = venue.world.add_market("Will the oven be lit?", prob=0.35)
    async with serve(venue) as served:
        foxcast = living(tmp_path, served.url)
        assert (await foxcast(*ARM)).code == 0
        assert "3 planned" in (await foxcast.once())["submit"]
        # A part goes: the other side is bought, and pairs are paid out.
        venue.world.edit(lamp, question=f"Will the lamp be lit, as {DIFFERENT}?")
        await foxcast.once()
        venue.world.deposit(ada, 500.0)
        venue.world.lend(ada, oven, 7.0)
        resolve(venue, lamp, "YES")
        resolve(venue, fire, "NO")
        await foxcast.once()
        await foxcast.once()
        [account] = (await foxcast("portfolio", "--json")).json
        shown = (await foxcast("portfolio")).out
        [told] = (await foxcast("portfolio", "--history", "--json")).json
        history = (await foxcast("portfolio", "--history")).out
        markets, equity = tmp_path / "markets.csv", tmp_path / "equity.csv"
        assert (await foxcast("portfolio", "--csv", markets)).out == f"3 rows written to {markets}\n"
        assert (await foxcast("portfolio", "--history", "--csv", equity)).code == 0
        nowhere = await foxcast("portfolio", "--csv", tmp_path / "none" / "x.csv")
    by_market = {one["contract"]: one for one in account["markets"]}
    # Both closed markets gained what the venue's own bets and payouts come to, and it says so itself.
    for market in (lamp, fire):
        one = by_market[market.id]
        assert one["realised"] == pytest.approx(own_gain(venue, ada, market), abs=0.005)
        assert one["venue_says"] == pytest.approx(one["realised"], abs=0.005)
        assert (one["shares"], one["closed_at"] is None) == ({}, False)
    assert by_market[lamp.id]["paid_out"] > 0.0 > by_market[fire.id]["realised"]
    assert by_market[oven.id]["closed_at"] is None
    # A deposit and a loan are in the cash, and no gain.
    assert account["not_from_orders"] == pytest.approx(500.0, abs=0.005)
    assert account["loan"] == pytest.approx(7.0)
    comments = len(venue.ledger.effects("comment"))
    assert account["comment_fees"] == comments > 0
    gain = own_gain(venue, ada, lamp) + own_gain(venue, ada, fire) + by_market[oven.id]["gain"] - comments
    assert account["gain_of_orders"] == pytest.approx(gain, abs=0.005)
    assert account["equity"] == pytest.approx(1000.0 + 500.0 + gain, abs=0.005)
    assert account["cash"] == pytest.approx(ada.balance, abs=0.005)
    assert account["remarks"] == ["the venue says the same of all 2 closed markets that it tells of"]
    assert sum(one["realised"] for one in account["forecasters"]) == pytest.approx(account["realised"])
    # The history ends where the account stands.
    last = told["history"][-1]
    assert (last["equity"], last["moved"]) == (pytest.approx(account["equity"]), pytest.approx(500.0, abs=0.005))
    assert last["gain"] == pytest.approx(gain, abs=0.005)
    for part in ("not from orders: deposits", "+500.00", "lent by the venue", "By forecaster", "Markets (3)"):
        assert part in shown
    assert "+500.00" in history
    assert nowhere.refuses(2, "cannot be written")
    # The same by a program that knows nothing of this one.
    sums: dict[str, float] = defaultdict(float)
    with markets.open() as file:
        for row in csv.DictReader(file):
            for name in ("bought", "sold", "paid_out", "realised", "gain"):
                sums[name] += float(row[name])
    assert sums["realised"] == pytest.approx(account["realised"], abs=1e-4)
    spent = sum(bet.amount for bet in venue.state.bets_by(ada.id)) - sum(
        one.paid.get(ada.id, 0) for one in (lamp, fire)
    )
    assert sums["bought"] - sums["sold"] - sums["paid_out"] == pytest.approx(spent, abs=1e-4)
    with equity.open() as file:
        assert float([*csv.DictReader(file)][-1]["equity"]) == pytest.approx(account["equity"], abs=1e-5)
