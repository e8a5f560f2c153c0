import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.config.schema import ProviderSection
from bot.core.language_models import ModelUrgency
from bot.llm.adaptive_limit import LimitReason
from bot.llm.request_queue import MinuteRateLimiter, ProviderQueue, RequestResult
from bot.net.rate_headers import RequestAllowance
from bot.testing.event_loop import VirtualClock, run_in_virtual_time


def test_all_of_a_hundred_are_served_five_at_a_time_in_the_order_of_arrival() -> None:
    async def main(clock: VirtualClock) -> tuple[list[int], int]:
        queue = ProviderQueue(ProviderSection(concurrency=5), clock=clock)
        served: list[int] = []
        inside, most = 0, 0

        async def ask(number: int) -> None:
            nonlocal inside, most
            async with queue.request_slot("small"):
                served.append(number)
                inside += 1
                most = max(most, inside)
                await clock.sleep(1 + number % 3)
                inside -= 1

        await asyncio.gather(*map(ask, range(100)))
        return served, most

    assert run_in_virtual_time(main) == ([*range(100)], 5)


def test_urgent_requests_go_first_and_then_those_of_the_question_that_was_begun_first() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        queue = ProviderQueue(ProviderSection(concurrency=1), clock=clock)
        served: list[str] = []

        async def ask(scope: str, step: int, urgency: ModelUrgency = ModelUrgency.ORDINARY) -> None:
            async with queue.request_slot("small", scope=scope, urgency=urgency):
                served.append(f"{scope} {step}")
                await clock.sleep(1)

        async def make_steps(scope: str) -> None:
            for step in range(3):
                await ask(scope, step)

        async def ask_later() -> None:
            await clock.sleep(2.5)
            closing = ask("closing", 0, ModelUrgency.CLOSING_SOON)
            await asyncio.gather(closing, ask("person", 0, ModelUrgency.REQUESTED))

        await asyncio.gather(*map(make_steps, ("a", "b", "c")), ask_later())
        return served

    # A question that was begun has its next step before another one is begun, or goes on.
    steps = ["a 0", "b 0", "a 1", "person 0", "closing 0", "a 2", "b 1", "c 0", "b 2", "c 1", "c 2"]
    assert run_in_virtual_time(main) == steps


def test_while_nothing_is_left_requests_wait_and_then_as_many_are_sent_as_the_limit_allows() -> None:
    async def main(clock: VirtualClock) -> tuple[list[float], list[LimitReason]]:
        queue, sent_at = ProviderQueue(ProviderSection(), clock=clock), list[float]()

        async def ask() -> None:
            async with queue.request_slot("small") as model:
                sent_at.append(model.start_request())
                await clock.sleep(0.5)
                model.end_request(sent_at[-1], RequestResult.OTHER)

        async with queue.request_slot("small") as model:
            model.end_request(model.start_request(), RequestResult.OTHER)
        last = RequestAllowance(requests=2, reset_s=10.0, after_reset=3)
        model.record_allowance(last, number=1)
        asking = [asyncio.create_task(ask()) for _ in range(7)]
        await clock.sleep(1.0)
        reasons = [model.reason]
        await asyncio.gather(*asking)
        await clock.sleep(20.0)
        return sent_at, [*reasons, model.reason]

    sent_at, reasons = run_in_virtual_time(main)
    assert sent_at == pytest.approx([0.0] * 2 + [10.0] * 3 + [20.0] * 2, abs=0.01)
    assert reasons == [LimitReason.ALLOWANCE, LimitReason.NOTHING]


def test_a_new_window_is_as_long_as_the_longest_that_was_named_not_as_the_rest_of_the_last() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        queue, sent_at = ProviderQueue(ProviderSection(), clock=clock), list[float]()

        async def ask() -> None:
            async with queue.request_slot("small") as model:
                sent_at.append(model.start_request())
                await clock.sleep(30.0)

        async with queue.request_slot("small") as model:
            for left_s in (20.0, 0.5):
                await clock.sleep(20.0 - left_s)
                model.end_request(model.start_request(), RequestResult.OTHER)
                allowance = RequestAllowance(requests=0, reset_s=left_s, after_reset=3)
                model.record_allowance(allowance, number=model.requests)
        # Answers take longer than the window: nothing says meanwhile what is left.
        await asyncio.gather(*(ask() for _ in range(7)))
        return sent_at

    expected = [20.0] * 3 + [40.0] * 3 + [60.0]
    assert run_in_virtual_time(main) == pytest.approx(expected, abs=0.01)


def count_sent(allowances: list[tuple[RequestAllowance, int]], *, held: int = 0) -> tuple[list[float], list[int]]:
    """Send three requests, receive what the provider has left by responses to them, and let ten more ask.

    ``held`` slots are held meanwhile by requests that are not sent yet. Return when the ten were sent, and how many
    requests the queue permitted after each response.
    """

    async def main(clock: VirtualClock) -> tuple[list[float], list[int]]:
        queue, sent_at, permitted = ProviderQueue(ProviderSection(concurrency=14), clock=clock), list[float](), []

        async def ask() -> None:
            async with queue.request_slot("small") as slot:
                sent_at.append(slot.start_request())
                await clock.sleep(100.0)

        async with AsyncExitStack() as slots:
            models = [await slots.enter_async_context(queue.request_slot("small")) for _ in range(3 + held)]
            for model in models[:3]:
                model.start_request()
            for allowance, number in allowances:
                models[0].record_allowance(allowance, number=number)
                permitted.append(queue.permitted_requests("small"))
            asking = [asyncio.create_task(ask()) for _ in range(10)]
            await clock.sleep(99.0)
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
        return sent_at, permitted

    return run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("requests", "number", "held", "at_once"),
    [
        (4, 3, 0, 4),
        # The provider may not have counted the two that were sent after the first one, nor those about to be sent.
        (4, 1, 0, 2),
        (4, 1, 1, 1),
        (2, 1, 0, 0),
        (0, 3, 0, 0),
        # Where as much is left as may be in flight anyway, all may be sent.
        (14, 1, 0, 10),
    ],
)
def test_what_a_response_leaves_is_shared_with_requests_that_were_sent_after_its_own(
    requests: int, number: int, held: int, at_once: int
) -> None:
    sent_at, _ = count_sent([(RequestAllowance(requests=requests, reset_s=20.0), number)], held=held)
    assert sent_at == pytest.approx([0.0] * at_once + [20.0] * (10 - at_once), abs=0.01)


def test_the_last_response_counts_and_one_to_an_earlier_request_says_nothing_new() -> None:
    none, five = RequestAllowance(requests=0, reset_s=20.0), RequestAllowance(requests=5, reset_s=20.0)
    sent_at, permitted = count_sent([(none, 2), (five, 1)])
    assert sent_at == pytest.approx([20.0] * 10, abs=0.01)
    assert permitted == [0, 0]
    # A request may have two responses, where its library sent it again.
    sent_at, permitted = count_sent([(none, 3), (five, 3)])
    assert sent_at == pytest.approx([0.0] * 5 + [20.0] * 5, abs=0.01)
    assert permitted == [0, 14]


def test_where_as_much_is_left_as_may_be_in_flight_nothing_is_counted_down() -> None:
    async def main(clock: VirtualClock) -> float:
        queue = ProviderQueue(ProviderSection(concurrency=5), clock=clock)

        async def ask() -> None:
            async with queue.request_slot("small") as slot:
                sent_at = slot.start_request()
                await clock.sleep(0.1)
                slot.end_request(sent_at, RequestResult.OTHER)

        await ask()
        queue.models["small"].record_allowance(RequestAllowance(requests=5, reset_s=50.0), number=1)
        await asyncio.gather(*(ask() for _ in range(40)))
        return clock.monotonic()

    # One, and then forty, five at a time.
    assert run_in_virtual_time(main) == pytest.approx(0.1 + 8 * 0.1)


def test_a_provider_that_has_nothing_left_for_long_is_tried_after_a_minute() -> None:
    sent_at, _ = count_sent([(RequestAllowance(requests=0, reset_s=5000.0), 3)])
    assert sent_at == pytest.approx([60.0] * 10, abs=0.01)


def test_who_leaves_the_queue_or_its_place_makes_room_at_once() -> None:
    async def main(clock: VirtualClock) -> float:
        queue = ProviderQueue(ProviderSection(concurrency=1, per_minute=60), clock=clock)

        async def hang() -> None:
            async with queue.request_slot("small"):
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(hang()) for _ in range(3)]
        await clock.sleep(1)
        for task in tasks:
            task.cancel()
        async with queue.request_slot("small"):
            return clock.monotonic()

    assert run_in_virtual_time(main) == 1.0


def test_who_gives_up_at_the_limit_of_a_minute_gives_its_slot_back() -> None:
    async def main(clock: VirtualClock) -> float:
        queue = ProviderQueue(ProviderSection(concurrency=1, per_minute=1), clock=clock)
        async with queue.request_slot("small"):
            pass
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10), queue.request_slot("small"):
                pytest.fail("a second request was sent in the minute")
        async with queue.request_slot("small"):
            return clock.monotonic()

    assert run_in_virtual_time(main) == pytest.approx(60.0)


def test_who_gives_up_waiting_for_a_turn_takes_none() -> None:
    async def main(clock: VirtualClock) -> float:
        pace = MinuteRateLimiter(1, clock=clock)
        await pace.wait_for_turn()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await pace.wait_for_turn()
        await pace.wait_for_turn()
        return clock.monotonic()

    assert run_in_virtual_time(main) == pytest.approx(60.0)


@settings(max_examples=50)
@example(per_minute=1, gaps=[0.0, 59.5])
@given(st.integers(1, 12), st.lists(st.floats(0, 40), min_size=1, max_size=40))
def test_no_minute_has_more_requests_than_allowed_and_none_waits_without_need(
    per_minute: int, gaps: list[float]
) -> None:
    async def main(clock: VirtualClock) -> tuple[list[float], list[float]]:
        pace = MinuteRateLimiter(per_minute, clock=clock)
        came: list[float] = []
        left: list[float] = []

        async def ask() -> None:
            came.append(clock.monotonic())
            await pace.wait_for_turn()
            left.append(clock.monotonic())

        tasks = []
        for gap in gaps:
            await clock.sleep(gap)
            tasks.append(asyncio.create_task(ask()))
            await clock.sleep(0)
        await asyncio.gather(*tasks)
        return came, left

    came, left = run_in_virtual_time(main)
    # The earliest moments that the rule allows, reckoned without the code: each after its own arrival and the one
    # before it, and a minute after the one that is per_minute places ahead.
    earliest: list[float] = []
    for number, arrival in enumerate(came):
        before = earliest[-1] if earliest else 0.0
        minute = earliest[number - per_minute] + 60 if number >= per_minute else 0.0
        earliest.append(max(arrival, before, minute))
    assert left == pytest.approx(earliest, abs=1e-3)
