from bot.llm.breaker import Breaker, Passage, Turn, Verdict
from bot.testing.clock import FakeClock


def made() -> tuple[Breaker, FakeClock]:
    clock = FakeClock()
    return Breaker(after=3, rest_s=30.0, clock=clock), clock


def send(breaker: Breaker, verdict: Verdict) -> Turn:
    passage = breaker.enter()
    assert passage is not None
    return breaker.leave(passage, verdict)


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker, _ = made()
    turns = [send(breaker, verdict) for verdict in [Verdict.FAILED, Verdict.FAILED, Verdict.ALIVE, Verdict.FAILED]]
    assert turns == [Turn.SAME] * 4
    assert send(breaker, Verdict.FAILED) is Turn.SAME
    assert send(breaker, Verdict.FAILED) is Turn.OPENED
    assert (breaker.enter(), breaker.wait_s) == (None, 30.0)


def test_who_gives_up_tells_nothing_about_the_provider() -> None:
    breaker, _ = made()
    for _ in range(10):
        assert send(breaker, Verdict.NONE) is Turn.SAME
    assert breaker.wait_s == 0.0


def opened() -> tuple[Breaker, FakeClock]:
    breaker, clock = made()
    for _ in range(3):
        send(breaker, Verdict.FAILED)
    return breaker, clock


def test_after_its_rest_one_request_at_a_time_tries_whether_the_provider_is_back() -> None:
    breaker, clock = opened()
    clock.pass_unnoticed(29.0)
    assert (breaker.enter(), breaker.wait_s) == (None, 1.0)
    clock.pass_unnoticed(1.0)
    probe = breaker.enter()
    assert probe == Passage(probe=True)
    assert breaker.enter() is None
    assert breaker.leave(probe, Verdict.ALIVE) is Turn.CLOSED
    assert breaker.enter() == Passage()


def test_a_failed_try_begins_another_rest_and_is_no_news() -> None:
    breaker, clock = opened()
    clock.pass_unnoticed(30.0)
    assert send(breaker, Verdict.FAILED) is Turn.SAME
    assert breaker.wait_s == 30.0


def test_a_try_that_was_given_up_leaves_room_for_the_next() -> None:
    breaker, clock = opened()
    clock.pass_unnoticed(30.0)
    assert send(breaker, Verdict.NONE) is Turn.SAME
    assert breaker.enter() == Passage(probe=True)


def test_stragglers_that_fail_while_it_is_open_do_not_lengthen_the_rest() -> None:
    breaker, clock = made()
    passages = [breaker.enter() for _ in range(6)]
    for number, passage in enumerate(passages):
        assert passage is not None
        assert breaker.leave(passage, Verdict.FAILED) is (Turn.OPENED if number == 2 else Turn.SAME)
        clock.pass_unnoticed(5.0)
    # Opened with the third, at 10 s; it is 30 s now.
    assert breaker.wait_s == 10.0


def test_a_straggler_that_succeeds_closes_it() -> None:
    breaker, _ = made()
    late = breaker.enter()
    assert late is not None
    for _ in range(3):
        send(breaker, Verdict.FAILED)
    assert breaker.leave(late, Verdict.ALIVE) is Turn.CLOSED
    assert breaker.wait_s == 0.0
