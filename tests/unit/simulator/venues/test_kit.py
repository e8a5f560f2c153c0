"""The door of every fake venue: faults, limits, the ledger, the edge cache and sockets, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest

from bot.core.clock import SeededRandom, SystemClock
from bot.simulator.fake_service import ConnectionDropped, ConnectionNotAccepted
from bot.simulator.faults import FaultDetails, FaultSchedule, RequestFault
from bot.simulator.request_log import RequestLimit
from bot.testing.clock import FakeClock
from tests.unit.simulator.venues.counter_service import CounterClient, CounterService, open_counter

LIMIT = RequestLimit(name="all", count=3, per_s=60.0)


@pytest.fixture
async def counter() -> AsyncIterator[CounterClient]:
    async with open_counter(CounterService(SystemClock())) as here:
        yield here


# Effects and the connection


async def test_a_request_has_an_effect_that_the_ledger_knows_by_its_number(counter: CounterClient) -> None:
    assert await counter.total() == 0
    reply = await counter.add(authorization="ada")
    assert (reply.status_code, reply.json()["total"]) == (201, 1)
    [effect] = counter.venue.ledger.effects("add")
    assert (effect.request, effect.account, effect.detail) == (2, "ada", {"note": "x"})
    assert counter.venue.requests[1].body == b"x"


@pytest.mark.parametrize(
    ("fault", "effects"),
    [(RequestFault.DROPPED_BEFORE, 0), (RequestFault.DROPPED_AFTER, 1)],
)
async def test_a_dropped_connection_leaves_the_client_without_an_answer(
    counter: CounterClient, fault: RequestFault, effects: int
) -> None:
    counter.faults.schedule(fault)
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await counter.add()
    assert len(counter.venue.ledger.effects()) == effects
    assert (await counter.add()).status_code == 201
    assert counter.faults.injected == {fault: 1}


async def test_a_late_effect_comes_after_the_connection_ended() -> None:
    clock = FakeClock()
    async with open_counter(CounterService(clock)) as counter:
        counter.faults.schedule(FaultDetails(fault=RequestFault.LATE, wait_s=7.0))
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await counter.add()
        await clock.advance(6.9)
        assert counter.venue.total == 0
        await clock.advance(0.2)
        assert counter.venue.total == 1


@pytest.mark.parametrize(("fault", "effects"), [(RequestFault.HANGING, 0), (RequestFault.HANGING_AFTER, 1)])
async def test_a_hanging_request_ends_when_the_client_gives_up(
    counter: CounterClient, fault: RequestFault, effects: int
) -> None:
    counter.faults.schedule(fault)
    with pytest.raises(httpx.ReadTimeout):
        await counter.client.post("/add", timeout=0.2)
    assert counter.venue.total == effects


async def test_while_a_venue_is_away_connections_are_refused_and_afterwards_taken_again(counter: CounterClient) -> None:
    await counter.add()
    async with counter.served.refuse_connections():
        with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
            await counter.add()
        with pytest.raises(httpx.ConnectError):
            await counter.add()
    assert (await counter.add()).json()["total"] == 2


async def test_in_process_a_dropped_or_refused_request_raises() -> None:
    venue = CounterService(FakeClock())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(venue), base_url="http://venue") as client:
        venue.faults.schedule(RequestFault.DROPPED_AFTER)
        with pytest.raises(ConnectionDropped):
            await client.post("/add")
        venue.faults.refuses_connections = True
        with pytest.raises(ConnectionNotAccepted):
            await client.post("/add")
    assert venue.total == 1


# Answers


@pytest.mark.parametrize(
    ("details", "status", "effects"),
    [
        (FaultDetails(fault=RequestFault.TOO_MANY), 429, 0),
        (FaultDetails(fault=RequestFault.ERROR_BEFORE, status=503), 503, 0),
        (FaultDetails(fault=RequestFault.ERROR_AFTER), 502, 1),
        (FaultDetails(fault=RequestFault.PAGE_BEFORE), 200, 0),
        (FaultDetails(fault=RequestFault.PAGE_AFTER), 200, 1),
        (FaultDetails(fault=RequestFault.PAGE_AFTER, page_status=503), 503, 1),
        (FaultDetails(fault=RequestFault.SLOW, wait_s=0.0), 201, 1),
    ],
    ids=lambda value: value.fault.value if isinstance(value, FaultDetails) else str(value),
)
async def test_an_error_comes_before_or_after_the_effect(
    counter: CounterClient, details: FaultDetails, status: int, effects: int
) -> None:
    counter.faults.schedule(details)
    assert (await counter.add()).status_code == status
    assert counter.venue.total == effects


@pytest.mark.parametrize("retry_after", [None, "7", "Fri, 31 Dec 1999 23:59:59 GMT"])
async def test_retry_after_is_what_was_ordered(counter: CounterClient, retry_after: str | None) -> None:
    counter.faults.schedule(FaultDetails(fault=RequestFault.TOO_MANY, retry_after=retry_after))
    assert (await counter.add()).headers.get("retry-after") == retry_after


async def test_half_of_a_truncated_answer_arrives(counter: CounterClient) -> None:
    counter.faults.schedule(RequestFault.TRUNCATED)
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        await counter.add()
    assert counter.venue.total == 1


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        (RequestFault.DUPLICATED, [{"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}]),
        (RequestFault.REORDERED, [{"n": 2}, {"n": 1}]),
    ],
)
async def test_lists_come_twice_or_backwards(
    counter: CounterClient, fault: RequestFault, rows: list[Mapping[str, int]]
) -> None:
    counter.faults.schedule(fault)
    assert (await counter.add()).json()["rows"] == rows


async def test_an_enlarged_answer_has_fields_that_nobody_knows(counter: CounterClient) -> None:
    counter.faults.schedule(RequestFault.ENLARGED)
    reply = (await counter.add()).json()
    assert set(reply) - {"total", "rows"}
    assert all(set(row) - {"n"} for row in reply["rows"])


async def test_an_altered_answer_is_what_the_test_makes_of_it(counter: CounterClient) -> None:
    counter.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=lambda value: {"was": value}))
    assert (await counter.add()).json()["was"]["total"] == 1


async def test_a_stale_read_shows_what_was_shown_before(counter: CounterClient) -> None:
    assert await counter.total() == 0
    await counter.add()
    counter.faults.schedule(RequestFault.STALE, method="GET")
    assert await counter.total() == 0
    assert await counter.total() == 1


async def test_the_world_moves_while_a_request_is_under_way(counter: CounterClient) -> None:
    counter.faults.schedule(RequestFault.RESOLVED)
    assert (await counter.add()).json()["total"] == 101
    counter.faults.schedule(
        FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: setattr(counter.venue, "total", 7))
    )
    assert (await counter.add()).json()["total"] == 8


async def test_an_ordered_fault_waits_for_its_method_and_path(counter: CounterClient) -> None:
    counter.faults.schedule(RequestFault.TOO_MANY, method="POST", path="/add", times=2)
    assert await counter.total() == 0
    assert [(await counter.add()).status_code for _ in range(3)] == [429, 429, 201]
    assert counter.faults.pending == 0


async def test_chance_serves_faults_at_their_rates_and_the_same_again_for_the_same_seed() -> None:
    def draws(seed: int) -> list[RequestFault | None]:
        faults = FaultSchedule(
            SeededRandom(seed).stream("faults"), {RequestFault.ERROR_AFTER: 0.2, RequestFault.STALE: 0.5}
        )
        picked = [faults.next_fault("POST", "/") for _ in range(2_000)]
        return [details.fault if details else None for details in picked]

    first = draws(1)
    assert 300 < first.count(RequestFault.ERROR_AFTER) < 500
    assert RequestFault.STALE not in first
    assert first == draws(1)
    assert first != draws(2)


async def test_a_skewed_venue_dates_its_answers_so(counter: CounterClient) -> None:
    counter.faults.skew_s = -300.0
    reply = await counter.client.get("/total")
    off = (counter.venue.clock.now() - counter.venue.requests[-1].at).total_seconds()
    assert 299.0 < off < 310.0
    assert reply.headers["date"].endswith("GMT")


async def test_a_mistake_of_the_venue_is_told_to_its_test() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with open_counter(CounterService(SystemClock())) as counter:
            assert (await counter.client.get("/crash")).status_code == 500
    assert caught.group_contains(LookupError, match="a mistake of the venue")


# Limits


async def test_a_request_beyond_the_limit_is_a_violation_and_has_no_effect() -> None:
    clock = FakeClock()
    async with open_counter(CounterService(clock, limits=(LIMIT,))) as counter:
        for second in (0.0, 20.0, 20.0):
            await clock.advance(second)
            assert (await counter.add()).status_code == 201
        await clock.advance(19.0)
        reply = await counter.add()
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "21")
        # What is refused is counted too: three within the minute again, until the one at 20 s leaves it.
        await clock.advance(2.0)
        assert (await counter.add()).status_code == 429
        await clock.advance(40.0)
        assert (await counter.add()).status_code == 201
        assert [violation.request for violation in counter.venue.rate_limit_checker.violations] == [4, 5]
        assert counter.venue.total == 4


async def test_a_limit_counts_by_account_where_told() -> None:
    limit = RequestLimit(
        name="own", count=1, per_s=60.0, methods=frozenset({"POST"}), by=lambda heard: heard.headers["who"]
    )
    async with open_counter(CounterService(FakeClock(), limits=(limit,))) as counter:
        assert [(await counter.add(who=who)).status_code for who in ("ada", "bob", "ada")] == [201, 201, 429]
        assert await counter.total() == 2


async def test_writes_of_one_account_at_the_same_time_are_noticed() -> None:
    clock = FakeClock()
    async with open_counter(CounterService(clock)) as counter:
        counter.faults.schedule(FaultDetails(fault=RequestFault.SLOW, wait_s=5.0), times=2)
        both = asyncio.gather(counter.add(authorization="ada"), counter.add(authorization="ada"))
        await counter.venue.wait_until(lambda: len(counter.venue.requests) == 2)
        await clock.advance(5.0)
        await both
        await counter.add(authorization="bob")
        await counter.add(authorization="bob")
        assert counter.venue.rate_limit_checker.most_at_once == {"ada": 2, "bob": 1}


# The edge cache


async def test_the_edge_serves_what_it_has_for_as_long_as_it_may_and_once_more_while_it_asks() -> None:
    clock = FakeClock()
    async with open_counter(CounterService(clock)) as counter:
        assert await counter.total("/cached") == 0
        await counter.add()
        await clock.advance(4.9)
        assert await counter.total("/cached") == 0
        await clock.advance(5.0)
        assert await counter.total("/cached") == 0
        assert await counter.total("/cached") == 1
        await counter.add()
        assert await counter.total("/cached?fresh=1") == 2
        await clock.advance(15.1)
        assert await counter.total("/cached") == 2
