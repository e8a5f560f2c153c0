"""What the gateway waits for in virtual time, and how long: providers that are full, down or hang, and budgets."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.config.schema import LlmSection, ProviderSection
from bot.core.clock import SeededRandom
from bot.core.errors import RequestRejectedError, ServiceUnavailableError
from bot.core.language_models import ModelRequest, TokenPrice
from bot.llm.background_tasks import BackgroundTasks, DailyAlerts
from bot.llm.circuit_breaker import RequestVerdict, ServerServices, ServerState
from bot.testing.clock import FakeClock
from bot.testing.models import HangingAnswer, ProviderTurn, SlowAnswer, text_completion
from tests.simulation.virtual_gateway import DOWN, VirtualGateway, failure, waiting
from tests.unit.llm.gateway_fixture import MAIN, SPARE, GatewayFixture, charge, inquiry, section, with_fallback

FULL = ServiceUnavailableError("429: too many requests", retry_after_s=1.0)


def numbered(count: int) -> list[ModelRequest]:
    """Return as many inquiries, each of a forecast of its own."""
    return [inquiry(f"hello {number}", to=charge(f"forecast {number}")) for number in range(count)]


async def outcomes(
    fixture: GatewayFixture, asked: Sequence[ModelRequest], *, deadline_s: float = 600.0
) -> Counter[str]:
    """Ask all at once and count the models that answered, and the errors by type."""
    results = await asyncio.gather(
        *(fixture.gateway.ask(one, deadline_s=deadline_s) for one in asked), return_exceptions=True
    )
    return Counter(type(one).__name__ if isinstance(one, BaseException) else one.model for one in results)


@pytest.mark.parametrize("count", [4, 5, 20, 60])
@pytest.mark.parametrize(
    "error",
    [
        FULL,
        ServiceUnavailableError("503", retry_after_s=1.0),
        ServiceUnavailableError("429 without a wait", retry_after_s=0.0),
    ],
)
def test_a_burst_of_requests_that_are_too_many_costs_time_and_no_answer(
    virtual_gateway: VirtualGateway, error: ServiceUnavailableError, count: int
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert await outcomes(fixture, numbered(80)) == {MAIN: 80}
        assert len(fixture.prime.requests) == 80 + count
        assert fixture.clock.monotonic() < 40
        await fixture.settled()
        assert fixture.alerts == []

    virtual_gateway.play(
        scenario, *[SlowAnswer(0.2, error)] * count, SlowAnswer(2.0, text_completion("yes")), section=waiting()
    )


def test_nobody_asks_before_the_wait_that_the_provider_asked_for_is_over(virtual_gateway: VirtualGateway) -> None:
    asked_at: list[float] = []

    async def scenario(fixture: GatewayFixture) -> None:
        async def watch() -> None:
            seen = 0
            while True:
                await fixture.clock.sleep(0.25)
                asked_at.extend([fixture.clock.monotonic()] * (len(fixture.prime.requests) - seen))
                seen = len(fixture.prime.requests)

        watching = asyncio.create_task(watch())
        first = asyncio.create_task(fixture.gateway.ask(inquiry("first"), deadline_s=600))
        await fixture.clock.sleep(5)
        assert await outcomes(fixture, numbered(3)) == {MAIN: 3}
        await first
        await fixture.clock.sleep(1)
        watching.cancel()

    virtual_gateway.play(
        scenario, ServiceUnavailableError("429", retry_after_s=30.0), text_completion("yes"), section=waiting()
    )
    assert len(asked_at) == 5
    assert asked_at[0] < 1
    assert min(asked_at[1:]) >= 30


def test_a_full_provider_does_not_hold_up_another_server_behind_the_same_plugin(
    virtual_gateway: VirtualGateway,
) -> None:
    roles = {
        "main": {"model": "prime:here/big", "max_tokens": 1000},
        "filter": {"model": "prime:there/small", "max_tokens": 1000},
    }

    async def scenario(fixture: GatewayFixture) -> None:
        paused = asyncio.create_task(fixture.gateway.ask(inquiry("one"), deadline_s=600))
        await fixture.clock.sleep(1)
        assert (await fixture.gateway.ask(inquiry("two", role="filter"), deadline_s=600)).model == "prime:there/small"
        assert fixture.clock.monotonic() == pytest.approx(1, abs=0.1)
        await paused
        assert fixture.clock.monotonic() == pytest.approx(60, abs=0.1)

    virtual_gateway.play(
        scenario,
        ServiceUnavailableError("429", retry_after_s=60.0),
        text_completion("yes"),
        section=section(roles=roles),
    )


def test_a_wait_that_is_longer_than_anybody_has_time_is_told_at_once_to_all(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert await outcomes(fixture, numbered(50)) == {"ServiceUnavailableError": 50}
        later = await failure(fixture, text="later")
        assert isinstance(later, ServiceUnavailableError)
        assert "asked for a pause" in str(later)
        assert "come back tomorrow" in str(later)
        assert fixture.clock.monotonic() < 0.1
        assert len(fixture.prime.requests) == 1
        assert fixture.purse_usd == 0

    virtual_gateway.play(
        scenario, ServiceUnavailableError("come back tomorrow", retry_after_s=86_400.0), section=waiting(concurrency=20)
    )


def test_a_full_provider_is_waited_for_as_long_as_its_share_and_then_the_fallback_answers(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert (await fixture.gateway.ask(inquiry("one"), deadline_s=600)).model == SPARE
        # Asked at 0, 25 and 50 s; the share ends at 60 s.
        assert len(fixture.prime.requests) == 3
        assert fixture.clock.monotonic() == pytest.approx(50, abs=0.1)

    changes = {"roles": with_fallback(timeout_s=120.0), "providers": {"prime": {"attempts": 10}}}
    virtual_gateway.play(scenario, ServiceUnavailableError("429", retry_after_s=25.0), section=section(**changes))


def test_who_has_nobody_else_to_ask_waits_until_a_provider_is_back(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        # Five fail and open the breaker for 30 s; all that is asked meanwhile waits, and the five try again.
        assert await outcomes(fixture, numbered(30)) == {MAIN: 30}
        assert fixture.clock.monotonic() == pytest.approx(30, abs=2)
        assert len(fixture.prime.requests) == 35

    virtual_gateway.play(scenario, *[DOWN] * 5, text_completion("yes"), section=waiting(concurrency=5))


def test_a_provider_that_stays_down_is_asked_by_few_and_all_are_told_in_time(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert await outcomes(fixture, numbered(100)) == {"ServiceUnavailableError": 100}
        assert fixture.clock.monotonic() <= 120.1
        # Five open the breaker; in two minutes there are at most four tries more.
        assert len(fixture.prime.requests) <= 9
        assert fixture.purse_usd == 0

    virtual_gateway.play(scenario, DOWN, section=waiting(concurrency=5))


def test_a_model_that_hangs_leaves_half_of_the_time_to_its_fallback(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        for number in range(7):
            began = fixture.clock.monotonic()
            assert (await fixture.gateway.ask(numbered(7)[number], deadline_s=600)).model == SPARE
            # Five that hang open the breaker; from then on the fallback is asked at once.
            assert fixture.clock.monotonic() - began == pytest.approx(60 if number < 5 else 0, abs=0.1)

    virtual_gateway.play(scenario, HangingAnswer(), section=section(roles=with_fallback(timeout_s=120.0)))


@pytest.mark.parametrize(("role_s", "caller_s", "share_s"), [(1.5, 600, 1.0), (120, 1.25, 1.0), (120, 0.5, 0.5)])
def test_a_share_is_a_second_at_least_and_never_more_than_there_is(
    virtual_gateway: VirtualGateway, role_s: float, caller_s: float, share_s: float
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        try:
            assert (await fixture.gateway.ask(inquiry(), deadline_s=caller_s)).model == SPARE
        except ServiceUnavailableError:
            assert caller_s <= share_s
        assert fixture.clock.monotonic() == pytest.approx(share_s, abs=0.01)

    virtual_gateway.play(scenario, HangingAnswer(), section=section(roles=with_fallback(timeout_s=role_s)))


def test_a_person_is_told_of_models_that_hang_but_not_of_callers_without_time(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        hurried = await failure(fixture, deadline_s=7)
        await fixture.settled()
        assert (type(hurried), fixture.alerts) == (ServiceUnavailableError, [])
        await failure(fixture, text="with time")
        await fixture.settled()
        ((subject, text),) = fixture.alerts
        assert subject == "No model answers as main"
        assert "no answer within 120 s" in text

    virtual_gateway.play(scenario, HangingAnswer(), section=waiting())


DEAR = TokenPrice(tokens_in=15.0, tokens_cached=1.5, tokens_out=75.0)


def dear(*, timeout_s: float = 120.0) -> LlmSection:
    """One call may cost 1.20 dollars and a little, and a question 2."""
    roles = {"main": {"model": MAIN, "timeout_s": timeout_s}}
    models = {MAIN: {"price_in": DEAR.tokens_in, "price_out": DEAR.tokens_out}}
    return section(roles=roles, models=models, budget={"question_usd": 2.0, "day_usd": None})


def test_waiting_for_the_budget_is_not_of_the_roles_time(virtual_gateway: VirtualGateway) -> None:
    asked = [inquiry(f"hello {trial}", to=charge(trial=trial)) for trial in range(1, 6)]

    async def scenario(fixture: GatewayFixture) -> None:
        # One after the other at 45 s each, though the role allows 120 s for a call.
        assert await outcomes(fixture, asked) == {MAIN: 5}
        assert fixture.clock.monotonic() == pytest.approx(225, abs=0.5)
        assert (fixture.prime.max_running, fixture.alerts) == (1, [])

    virtual_gateway.play(
        scenario, SlowAnswer(45.0, text_completion("yes", tokens_in=1000, tokens_out=500)), section=dear()
    )


def test_a_call_that_waited_for_the_budget_still_has_the_roles_time_and_no_more(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        first = asyncio.create_task(fixture.gateway.ask(inquiry("first"), deadline_s=600))
        await fixture.clock.sleep(1)
        error = await failure(fixture, text="second")
        assert "no answer within" in str(error)
        # Until 45 s it waited; then it had what was left of its 50 s.
        assert fixture.clock.monotonic() == pytest.approx(95, abs=0.1)
        await first

    turns: tuple[ProviderTurn, ...] = (SlowAnswer(45.0, text_completion("yes", tokens_out=10)), HangingAnswer())
    virtual_gateway.play(scenario, *turns, section=dear(timeout_s=50.0))


def test_who_has_no_time_left_to_wait_for_the_budget_is_told_of_the_budget(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        first = asyncio.create_task(fixture.gateway.ask(inquiry("first"), deadline_s=600))
        await fixture.clock.sleep(1)
        error = await failure(fixture, text="second", deadline_s=30)
        assert fixture.clock.monotonic() == pytest.approx(31, abs=0.1)
        assert isinstance(error, RequestRejectedError)
        for words in ("it may cost 1.20", "of 2 are left", "[llm.budget] question_usd", "waited 30 s"):
            assert words in str(error)
        await fixture.settled()
        assert [subject for subject, _ in fixture.alerts] == ["Budget of the question reached"]
        await first
        assert fixture.gateway.accounting.budget.run_account.reserved_usd == 0

    virtual_gateway.play(scenario, SlowAnswer(45.0, text_completion("yes")), section=dear())


def test_a_cancelled_caller_that_waits_for_the_budget_is_cancelled_and_lets_the_next_one_pass(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        tasks = []
        for number in range(3):
            tasks.append(asyncio.create_task(fixture.gateway.ask(inquiry(str(number)), deadline_s=600)))
            await fixture.clock.sleep(1)
        tasks[1].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        assert fixture.clock.monotonic() == pytest.approx(90, abs=0.1)
        assert fixture.gateway.accounting.budget.run_account.reserved_usd == 0

    virtual_gateway.play(scenario, SlowAnswer(45.0, text_completion("yes")), section=dear())


LIMITS = ProviderSection(break_after=3, break_s=10.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from([*RequestVerdict, "full", "full for long"]), st.floats(0, 30), st.floats(0, 20)),
        max_size=30,
    )
)
async def test_a_lane_lets_no_request_out_before_the_pause_that_was_asked_for_is_over(
    moves: list[tuple[RequestVerdict | str, float, float]],
) -> None:
    clock = FakeClock()

    async def alert(subject: str, text: str) -> None: ...

    alarm = DailyAlerts(alert, tasks=BackgroundTasks(), clock=clock)
    policy = ServerState("prime", LIMITS, services=ServerServices(clock=clock, random=SeededRandom(1), alerts=alarm))
    not_before = 0.0
    for verdict, asked_s, gap_s in moves:
        clock.advance_without_waking(gap_s)
        now = clock.monotonic()
        if now < not_before - 1e-3:
            assert not policy.is_ready
            assert policy.wait_s >= not_before - now - 1e-3
        if not policy.is_ready or (passage := policy.acquire_permit()) is None:
            continue
        if isinstance(verdict, RequestVerdict):
            policy.record_verdict(passage, verdict)
            continue
        error = ServiceUnavailableError("429", retry_after_s=asked_s if verdict == "full" else asked_s * 10)
        policy.pause_requests(error, sent_at=now)
        policy.record_verdict(passage, RequestVerdict.NONE)
        not_before = max(not_before, now + (error.retry_after_s or 0.0))
