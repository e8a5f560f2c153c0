"""Kalshi on paper as a person runs it: the real command against the strict double, from books to payouts."""

import asyncio
from pathlib import Path

import pytest

from bot.testing.loopback_server import LoopbackServer
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, installed
from tests.plugins.kalshi.fake_exchange import PREFIX, FakeKalshiExchange
from tests.plugins.kalshi.records import WALK_BOOK, event, quoted, series, settled

PLUGIN = Path(__file__).with_name("fixed_probability_forecaster.py")
CONFIG = """
plugins = ["kalshi", "fixed_probability_forecaster"]
plugin_files = ["PLUGIN"]

[venues.kalshi]
forecasters = ["taker"]

[venues.kalshi.paper]
cash = 500.0
delay_s = 0.1

[venues.kalshi.settings]
api_url = "ADDRESS"
ends_within_d = 36500
"""
A, B = "KXDEMO-26DEC31-A", "KXDEMO-26DEC31-B"


@pytest.mark.timeout(120)
async def test_orders_are_planned_filled_and_paid(tmp_path: Path) -> None:
    venue = FakeKalshiExchange(series={"KXDEMO": series()}, books={A: WALK_BOOK, B: WALK_BOOK})
    times = {"close_time": "2099-06-30T15:00:00Z", "latest_expiration_time": "2099-07-14T15:00:00Z"}
    lit, wide = quoted("A", "0.5500", "0.5700", **times), quoted("B", "0.2000", "0.5000", **times)
    venue.add(event(lit, wide))
    async with LoopbackServer(venue.answer) as server:
        config = CONFIG.replace("PLUGIN", str(PLUGIN)).replace("ADDRESS", f"{server.address}{PREFIX}")
        foxcast = installed(tmp_path, config)
        output = (await run(foxcast, "run", "--once")).out
        assert "1 planned, 1 held, 1 acknowledged" in output, output
        [account] = (await run(foxcast, "portfolio", "--json")).json
        [position] = account["positions"]
        assert (position["question"], position["leg"]) == (f"kalshi:{A}", "yes")
        shares, spent = position["shares"], 500.0 - account["cash"]
        # See docs/facts/kalshi.md#fee-figures and #books: 12 at .57, then at .58, each with the fee of its level.
        fee = 0.2059 + 0.07 * (shares - 12) * 0.58 * 0.42
        assert spent == pytest.approx(12 * 0.57 + (shares - 12) * 0.58 + fee, abs=1e-4)
        venue.add(event(settled(lit, "yes", "1.0000"), settled(wide, "no", "0.0000")))
        paid = (await run(foxcast, "run", "--once")).out
        assert "1 positions settled" in paid, paid
        [account] = (await run(foxcast, "portfolio", "--json")).json
        assert account["positions"] == []
        assert account["cash"] == pytest.approx(500.0 - spent + shares)
    assert {request.method for request in venue.requests} == {"GET"}


async def run(foxcast: FoxcastInstallation, *arguments: str) -> CommandResult:
    """Run the command while the venue answers from this process."""
    answer = await asyncio.to_thread(foxcast, *arguments)
    assert answer.code == 0, answer.err
    return answer
