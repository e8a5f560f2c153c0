from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.core.clock import SeededRandom
from bot.core.errors import StoreError
from bot.core.venue_http import RateLimit
from bot.net.rate_limit import CLOCK_MARGIN, IN_TRANSIT_S, RateLimiter, RateUsage
from bot.store.ledger import open_ledger, open_ledger_read_only
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from tests.unit.store.conftest import NOON, LedgerFixture

SPENT = RateUsage(
    at=datetime(2026, 11, 22, 12, 30, 0, 250_000, tzinfo=UTC),
    monotonic_s=1234.5,
    in_flight=3,
    responses=((0.0, 2), (1.25, 7)),
    paused_s=30.5,
    spacing_s=0.25,
)


async def test_what_was_used_comes_back_as_it_was_kept(ledger_fixture: LedgerFixture) -> None:
    rates = ledger_fixture.ledger.rates
    assert await rates.load("lantern") is None
    await rates.save("lantern", SPENT, free_at=NOON)
    assert await rates.load("lantern") == SPENT
    assert await rates.free_at() == {"lantern": NOON}


async def test_only_the_last_note_is_kept(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.rates.save("lantern", SPENT, free_at=NOON)
    await ledger_fixture.ledger.rates.save(
        "lantern", RateUsage(at=NOON, monotonic_s=1.0, in_flight=0), free_at=NOON + timedelta(hours=1)
    )
    assert await ledger_fixture.ledger.rates.load("lantern") == RateUsage(at=NOON, monotonic_s=1.0, in_flight=0)
    assert ledger_fixture.rows("select name from rate_usage") == [("lantern",)]


async def test_a_row_that_cannot_be_read_says_what_to_do(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.rates.save("lantern", SPENT, free_at=NOON)
    await ledger_fixture.ledger.rates.writer.run(lambda database: database.execute("update rate_usage set body = '{}'"))
    with pytest.raises(StoreError, match=r"the usage of the rate limit lantern cannot be read .* delete its row"):
        await ledger_fixture.ledger.rates.load("lantern")


async def test_who_may_only_read_the_ledger_sends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=NOON):
        pass

    class Clock:
        def now(self) -> datetime:
            return NOON

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            raise AssertionError(seconds)

    the = RateLimit(name="lantern", prefixes=("https://lantern.test/",), count=1, per_s=1.0)
    async with open_ledger_read_only(path) as ledger:
        rates = RateLimiter([the], clock=Clock(), random=SeededRandom(1), store=ledger.rates)
        with pytest.raises(StoreError, match="reading only"):
            await rates.acquire("GET", "https://lantern.test/", patience_s=1.0).__aenter__()


def test_a_rate_holds_across_two_runs_over_one_ledger(tmp_path: Path) -> None:
    the = RateLimit(name="lantern", prefixes=("https://lantern.test/",), count=1, per_s=3600.0)
    left: list[float] = []

    async def main(clock: VirtualClock) -> None:
        for _ in range(2):
            async with open_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
                rates = RateLimiter([the], clock=clock, random=SeededRandom(1), store=ledger.rates)
                async with rates.acquire("GET", "https://lantern.test/", patience_s=1.0):
                    left.append(clock.monotonic())
            await clock.sleep(600.0)

    run_in_virtual_time(main)
    assert 3600.0 <= left[1] - left[0] <= 600.0 + 3600.0 * CLOCK_MARGIN + IN_TRANSIT_S + 0.01
