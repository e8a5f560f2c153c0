"""Kalshi, live: an armed run signs and writes one order, and books its fills; the key is shown nowhere."""

from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.testing.loopback_server import LoopbackServer
from tests.acceptance.live_installation import LiveInstallation
from tests.plugins.kalshi.fake_account import KEY_ID, FakeKalshiAccount, key_text
from tests.plugins.kalshi.fake_exchange import PREFIX, FakeKalshiExchange
from tests.plugins.kalshi.records import WALK_BOOK, event, quoted, series

A = "KXDEMO-26DEC31-A"
ARM = ("arm", "kalshi", "--for", "24h", "--per-order", "8", "--per-day", "20", "--total", "50")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_an_armed_run_writes_one_order_and_books_its_fills(tmp_path: Path) -> None:
    venue = FakeKalshiExchange(series={"KXDEMO": series()}, books={A: WALK_BOOK})
    account = FakeKalshiAccount(venue, SystemClock().now)
    venue.override = account.answer
    times = {"close_time": "2099-06-30T15:00:00Z", "latest_expiration_time": "2099-07-14T15:00:00Z"}
    venue.add(event(quoted("A", "0.5500", "0.5700", **times)))
    async with LoopbackServer(venue.answer) as server:
        settings = [
            f'api_url = "{server.address}{PREFIX}"',
            "ends_within_d = 36500",
            f'key_id = "{KEY_ID}"',
            'key_file = "secret"',
            "attested = true",
        ]
        foxcast = LiveInstallation(tmp_path, "kalshi", secret=key_text().decode().strip(), settings=settings)
        assert "not armed" in (await foxcast.once())["submit"]
        assert account.orders == []
        assert (await foxcast(*ARM)).code == 0
        assert "1 acknowledged" in (said := (await foxcast.once())["submit"]), said
        [order] = account.orders
        [row] = await foxcast.orders()
        assert row["state"] == "acked"
        assert 0 < float(order["fill_count_fp"]) <= 14
        await foxcast.once()
        assert len(account.orders) == 1
