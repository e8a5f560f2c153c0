from bot.llm.circuit_breaker import BreakerPermit, BreakerTransition, CircuitBreaker, RequestVerdict
from bot.testing.clock import FakeClock


def made() -> tuple[CircuitBreaker, FakeClock]:
    clock = FakeClock()
    return CircuitBreaker(failure_limit=3, open_s=30.0, clock=clock), clock


def send(breaker: CircuitBreaker, verdict: RequestVerdict) -> BreakerTransition:
    passage = breaker.acquire_permit()
    assert passage is not None
    return breaker.record_verdict(passage, verdict)


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker, _ = made()
    turns = [
        send(breaker, verdict)
        for verdict in [RequestVerdict.FAILED, RequestVerdict.FAILED, RequestVerdict.ALIVE, RequestVerdict.FAILED]
    ]
    assert turns == [BreakerTransition.UNCHANGED] * 4
    assert send(breaker, RequestVerdict.FAILED) is BreakerTransition.UNCHANGED
    assert send(breaker, RequestVerdict.FAILED) is BreakerTransition.OPENED
    assert (breaker.acquire_permit(), breaker.wait_s) == (None, 30.0)


def test_who_gives_up_tells_nothing_about_the_provider() -> None:
    breaker, _ = made()
    for _ in range(10):
        assert send(breaker, RequestVerdict.NONE) is BreakerTransition.UNCHANGED
    assert breaker.wait_s == 0.0


def opened() -> tuple[CircuitBreaker, FakeClock]:
    breaker, clock = made()
    for _ in range(3):
        send(breaker, RequestVerdict.FAILED)
    return breaker, clock


def test_after_its_rest_one_request_at_a_time_tries_whether_the_provider_is_back() -> None:
    breaker, clock = opened()
    clock.advance_without_waking(29.0)
    assert (breaker.acquire_permit(), breaker.wait_s) == (None, 1.0)
    clock.advance_without_waking(1.0)
    probe = breaker.acquire_permit()
    assert probe == BreakerPermit(probe=True)
    assert breaker.acquire_permit() is None
    assert breaker.record_verdict(probe, RequestVerdict.ALIVE) is BreakerTransition.CLOSED
    assert breaker.acquire_permit() == BreakerPermit()


def test_a_failed_try_begins_another_rest_and_is_no_news() -> None:
    breaker, clock = opened()
    clock.advance_without_waking(30.0)
    assert send(breaker, RequestVerdict.FAILED) is BreakerTransition.UNCHANGED
    assert breaker.wait_s == 30.0


def test_a_try_that_was_given_up_leaves_room_for_the_next() -> None:
    breaker, clock = opened()
    clock.advance_without_waking(30.0)
    assert send(breaker, RequestVerdict.NONE) is BreakerTransition.UNCHANGED
    assert breaker.acquire_permit() == BreakerPermit(probe=True)


def test_stragglers_that_fail_while_it_is_open_do_not_lengthen_the_rest() -> None:
    breaker, clock = made()
    passages = [breaker.acquire_permit() for _ in range(6)]
    for number, passage in enumerate(passages):
        assert passage is not None
        assert breaker.record_verdict(passage, RequestVerdict.FAILED) is (
            BreakerTransition.OPENED if number == 2 else BreakerTransition.UNCHANGED
        )
        clock.advance_without_waking(5.0)
    # Opened with the third, at 10 s; it is 30 s now.
    assert breaker.wait_s == 10.0


def test_a_straggler_that_succeeds_closes_it() -> None:
    breaker, _ = made()
    late = breaker.acquire_permit()
    assert late is not None
    for _ in range(3):
        send(breaker, RequestVerdict.FAILED)
    assert breaker.record_verdict(late, RequestVerdict.ALIVE) is BreakerTransition.CLOSED
    assert breaker.wait_s == 0.0
