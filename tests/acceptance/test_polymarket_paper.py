"""Polymarket on paper as a person runs it: the real command against the fake venue, from books to payouts."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakeFeeSchedule, FakePolymarketMarket
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, installed

PLUGIN = Path(__file__).with_name("fixed_probability_forecaster.py")
CONFIG = """
plugins = ["polymarket", "fixed_probability_forecaster"]
plugin_files = ["{plugin}"]

[venues.polymarket]
forecasters = ["taker"]

[venues.polymarket.paper]
cash = 500.0
delay_s = 0.1

[venues.polymarket.settings]
paper_settle_s = 0
{addresses}
"""


@dataclass(frozen=True, slots=True)
class PaperInstallation:
    """The venue, and an installation that knows where it is."""

    venue: FakePolymarket
    foxcast: FoxcastInstallation

    async def run(self, *arguments: str) -> CommandResult:
        """Run the command while the venue answers from this process."""
        answer = await asyncio.to_thread(self.foxcast, *arguments)
        assert answer.code == 0, answer.err
        return answer

    async def portfolio(self) -> Any:
        (account,) = (await self.run("portfolio", "--json")).json
        return account

    @property
    def book(self) -> Path:
        return self.foxcast.folder / "state" / "paper" / "polymarket" / "book.sqlite"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[PaperInstallation]:
    venue = FakePolymarket(SystemClock())
    async with serve_service(venue) as served:
        addresses = "\n".join(f'{name} = "{url}"' for name, url in venue.addresses(served).items())
        yield PaperInstallation(
            venue, installed(tmp_path, CONFIG.replace("{plugin}", str(PLUGIN)).replace("{addresses}", addresses))
        )
        assert venue.rate_limit_checker.violations == []
        # See docs/facts/polymarket.md#paper-fills: nothing is ever sent, and nothing is signed.
        assert {one.path for one in venue.requests if one.method != "GET"} <= {"/books"}


@pytest.mark.timeout(180)
async def test_orders_are_planned_filled_shown_and_paid(site: PaperInstallation) -> None:
    lit, wide = markets(site)
    output = (await site.run("run", "--once")).out
    assert "1 planned, 1 held, 1 acknowledged" in output
    assert "the book is too wide: 0.2 is bid, 0.5 asked" in output
    account = await site.portfolio()
    (position,) = account["positions"]
    shares, spent = position["shares"], 500.0 - account["cash"]
    assert (position["question"], position["leg"]) == (f"polymarket:{lit.condition}", "yes")
    assert spent == pytest.approx(costs(shares), abs=2e-5)
    # Marked at the bids, as far down as all of it would reach.
    assert position["value"] == pytest.approx(40 * 0.49 + (shares - 40) * 0.45, abs=1e-4)
    await check_shown_order(site, shares)
    site.venue.world.resolve(lit, "1")
    site.venue.world.resolve(wide, "0.5")
    settled = (await site.run("run", "--once")).out
    assert "polymarket: 2 new outcomes of 2 questions" in settled
    assert "1 positions settled" in settled
    after = await site.portfolio()
    assert after["positions"] == []
    assert after["cash"] == pytest.approx(500.0 - spent + shares)


def markets(site: PaperInstallation) -> tuple[FakePolymarketMarket, FakePolymarketMarket]:
    """One with two levels and fees, and one that nobody should trade on."""
    lit = site.venue.world.add_market(
        "Will the lamp be lit?",
        fees=FakeFeeSchedule(rate=Decimal("0.04")),
        bids=(("0.49", "40"), ("0.45", "500")),
        asks=(("0.51", "30"), ("0.55", "500")),
    )
    return lit, site.venue.world.add_market("Will nobody know?", bids=(("0.20", "100"),), asks=(("0.50", "100"),))


def costs(shares: float) -> float:
    """Two levels, each with its fee: 30 at .51 and the rest at .55."""
    return 30 * (0.51 + 0.04 * 0.51 * 0.49) + (shares - 30) * (0.55 + 0.04 * 0.55 * 0.45)


async def check_shown_order(site: PaperInstallation, shares: float) -> None:
    """See what a person is shown of the order, and that another run orders nothing."""
    orders = (await site.run("orders")).out
    assert f"buy {shares:.2f} yes" in orders
    assert "filled" in orders
    assert "0 planned" in (await site.run("run", "--once")).out
    # See docs/facts/polymarket.md#paper-fills: the book of the arrival and the honest report are on record.
    with closing(sqlite3.connect(site.book)) as database:
        ((market,),) = database.execute("select market from ticket").fetchall()
    assert '"report":{"decision_mid":"0.5"' in market
    assert '"arrival":{"token":' in market
    (order,) = (await site.run("orders", "--json")).json
    report = order["paper"]["report"]
    assert (order["paper"]["state"], report["decision_mid"], report["fill_ratio"]) == ("filled", "0.5", "1")
    shown = (await site.run("orders", "show", order["id"], "--json")).json
    assert shown["paper"]["market"] == json.loads(market)
    assert f"average {report['average']}" in (await site.run("orders", "show", order["id"])).out


@pytest.mark.timeout(120)
async def test_an_event_is_traded_by_its_options(site: PaperInstallation) -> None:
    event, racers = site.venue.world.add_choice("Who will win?", {"Ann": "0.5", "Bob": "0.3", "Cat": "0.2"})
    assert "1 acknowledged" in (await site.run("run", "--once")).out
    account = await site.portfolio()
    (position,) = account["positions"]
    assert position["question"] == f"polymarket:event:{event.id}"
    for racer in racers:
        site.venue.world.resolve(racer, "1" if racer.item == "Ann" else "0")
    assert "1 positions settled" in (await site.run("run", "--once")).out
    after = await site.portfolio()
    assert after["cash"] == pytest.approx(account["cash"] + position["shares"])
