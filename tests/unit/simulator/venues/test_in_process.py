"""Fake venues without a server, in virtual time, as simulations use them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx
import pytest

from bot.core.clock import SeededRandom
from bot.simulator.fake_service import ConnectionDropped
from bot.simulator.faults import FaultDetails, FaultSchedule, RequestFault
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

KEY = "a-key"


def test_a_day_of_bets_passes_at_once() -> None:
    async def day(clock: VirtualClock) -> tuple[int, float]:
        venue = FakeManifold(clock)
        venue.world.add_user("ada", key=KEY)
        market = venue.world.add_market()
        transport = httpx.ASGITransport(venue)
        headers = {"Authorization": f"Key {KEY}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://venue", headers=headers) as client:
            for hour in range(24):
                side = "YES" if hour % 2 else "NO"
                body = {
                    "contractId": market.id,
                    "amount": 5,
                    "outcome": side,
                    "limitProb": 0.5 + (0.1 if hour % 2 else -0.1),
                }
                assert (await client.post("/v0/bet", json=body)).status_code == 200
                await clock.sleep(3600.0)
        return len(venue.ledger.effects("bet")), clock.monotonic()

    assert run_in_virtual_time(day) == (24, 86_400.0)


def test_a_late_effect_comes_in_virtual_time() -> None:
    async def run(clock: VirtualClock) -> list[int]:
        venue = FakeMetaculus(clock)
        user = venue.world.add_user("bot")
        question = venue.world.add_question()
        venue.faults.schedule(FaultDetails(fault=RequestFault.LATE, wait_s=40.0))
        headers = {"Authorization": f"Token {user.token}"}
        counts = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(venue), base_url="http://venue") as client:
            with pytest.raises(ConnectionDropped):
                await client.post(
                    "/api/questions/forecast/",
                    json=[{"question": question.id, "probability_yes": 0.5}],
                    headers=headers,
                )
            for wait in (39.0, 2.0):
                await clock.sleep(wait)
                counts.append(len(question.forecasts))
        return counts

    assert run_in_virtual_time(run) == [0, 1]


def test_whatever_chance_does_the_venue_stays_whole_and_nothing_happens_twice() -> None:
    async def storm(clock: VirtualClock) -> FakeManifold:
        rates = dict.fromkeys(RequestFault, 0.02) | {RequestFault.MEANWHILE: 0.0, RequestFault.ALTERED: 0.0}
        venue = FakeManifold(clock, faults=FaultSchedule(SeededRandom(7).stream("faults"), rates))
        venue.world.add_user("ada", key=KEY, balance=1e6)
        markets = [venue.world.add_market() for _ in range(20)]
        headers = {"Authorization": f"Key {KEY}"}
        transport = httpx.ASGITransport(venue)
        async with httpx.AsyncClient(transport=transport, base_url="http://venue", headers=headers) as client:
            for number in range(600):
                market = markets[number % len(markets)]
                expires = venue.now_ms() + 60_000 + number
                body = {"contractId": market.id, "amount": 5, "limitProb": 0.6, "expiresAt": expires}
                read = "/v0/markets?limit=5" if number % 4 else f"/v0/market/{market.id}"
                ask = client.post("/v0/bet", json=body) if number % 2 else client.get(read)
                with suppress(ConnectionDropped, TimeoutError):
                    await asyncio.wait_for(ask, 30.0)
                await clock.sleep(1.0)
        await clock.sleep(60.0)
        await venue.aclose()
        return venue

    venue = run_in_virtual_time(storm)
    assert venue.crashes == []
    assert set(venue.faults.injected) == set(RequestFault) - {RequestFault.MEANWHILE, RequestFault.ALTERED}
    assert venue.ledger.doubled_effects("bet", lambda effect: effect.detail["expires"]) == {}
    assert {effect.request for effect in venue.ledger.effects()} <= {request.number for request in venue.requests}
    assert len(venue.ledger.effects("bet")) > 100
