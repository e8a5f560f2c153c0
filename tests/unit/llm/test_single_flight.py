"""Equal requests wait for each other, whatever becomes of those that wait."""

import asyncio

from bot.llm.gateway import SingleFlight


async def make_request(flight: SingleFlight, name: str, log: list[str], *, until: asyncio.Event) -> None:
    await flight.begin("request")
    log.append(name)
    try:
        await until.wait()
    finally:
        flight.end("request")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_equal_requests_go_one_at_a_time_in_order_and_others_are_not_held_up() -> None:
    flight, log, gates = SingleFlight(), list[str](), [asyncio.Event() for _ in range(3)]
    tasks = [
        asyncio.create_task(make_request(flight, str(number), log, until=gate)) for number, gate in enumerate(gates)
    ]
    await settle()
    assert log == ["0"]
    await flight.begin("another request")
    gates[1].set()
    await settle()
    assert log == ["0"]
    gates[0].set()
    await settle()
    assert log == ["0", "1", "2"]
    gates[2].set()
    await asyncio.gather(*tasks)
    flight.end("another request")
    await asyncio.wait_for(flight.begin("request"), 1)


async def test_who_gives_up_is_passed_over_also_at_the_moment_of_its_turn() -> None:
    flight, log, gates = SingleFlight(), list[str](), [asyncio.Event() for _ in range(4)]
    tasks = [
        asyncio.create_task(make_request(flight, str(number), log, until=gate)) for number, gate in enumerate(gates)
    ]
    await settle()
    tasks[1].cancel()
    await settle()
    # The end of the first one gives the turn to the third, which is cancelled before it learns of that.
    tasks[0].cancel()
    await asyncio.sleep(0)
    tasks[2].cancel()
    await settle()
    assert log == ["0", "3"]
    gates[3].set()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(flight.begin("request"), 1)


async def test_who_is_closed_while_it_waits_is_passed_over_and_hurries_nobody() -> None:
    flight, log, gate = SingleFlight(), list[str](), asyncio.Event()
    await flight.begin("request")
    task = asyncio.create_task(make_request(flight, "first", log, until=gate))
    await settle()
    waiting = flight.begin("request")
    waiting.send(None)
    waiting.close()
    await settle()
    assert log == []
    flight.end("request")
    gate.set()
    await task
    await asyncio.wait_for(flight.begin("request"), 1)
