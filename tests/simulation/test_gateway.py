"""The gateway in virtual time on a real ledger: deadlines, retries, queues, the breaker, and whatever providers do."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.core.errors import FoxcastError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.testing.models import HangingAnswer, ProviderTurn, SlowAnswer, text_completion
from tests.simulation.virtual_gateway import DOWN, VirtualGateway, failure, waiting
from tests.unit.llm.gateway_fixture import MAIN, SPARE, GatewayFixture, charge, inquiry, revive, section, with_fallback


@pytest.mark.parametrize(("role_s", "caller_s", "ends_s"), [(120.0, 600.0, 120.0), (120.0, 7.0, 7.0)])
@pytest.mark.parametrize("turn", [HangingAnswer(), SlowAnswer(500.0, text_completion("too late"))])
def test_a_call_is_cut_off_at_its_deadline_and_counts_at_its_worst_case(
    virtual_gateway: VirtualGateway, turn: ProviderTurn, role_s: float, caller_s: float, ends_s: float
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        error = await failure(fixture, deadline_s=caller_s)
        assert isinstance(error, ServiceUnavailableError)
        assert fixture.clock.monotonic() == pytest.approx(ends_s, abs=0.01)
        assert (fixture.prime.running, fixture.prime.cancelled) == (0, 1)
        held = fixture.gateway.accounting.budget.run_account
        assert (held.reserved_usd, held.spent_usd > 0.01) == (0, True)
        await fixture.settled()
        assert fixture.rows("state, attempts, cost_usd = worst_usd, detail") == [("failed", 1, 1, "cancelled")]

    virtual_gateway.play(scenario, turn, section=waiting(role_s))


def test_a_cancelled_caller_leaves_at_once_and_so_does_what_it_held(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        tasks = [asyncio.create_task(fixture.gateway.ask(inquiry(str(n)), deadline_s=1000)) for n in range(3)]
        await fixture.clock.sleep(5)
        # One is on the wire, two wait for its place.
        assert (fixture.prime.running, len(fixture.prime.requests)) == (1, 1)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert fixture.clock.monotonic() == pytest.approx(5, abs=0.01)
        run = fixture.gateway.accounting.budget.run_account
        ((worst_usd,),) = fixture.rows("worst_usd")
        assert (run.reserved_usd, run.spent_usd, fixture.prime.running) == (0, worst_usd, 0)

    virtual_gateway.play(scenario, HangingAnswer(), section=waiting(concurrency=1))


def test_only_what_may_help_is_tried_again_and_every_request_is_counted(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        answer = await fixture.gateway.ask(inquiry(), deadline_s=1000)
        assert answer.completion.text == "third"
        assert fixture.rows("state, attempts") == [("done", 3)]
        assert len(fixture.prime.requests) == 3
        # Waits are drawn from 0 to 1 s and from 0 to 2 s.
        assert 0 < fixture.clock.monotonic() < 3

    virtual_gateway.play(scenario, DOWN, DOWN, text_completion("third"), section=waiting(attempts=3))


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_attempts_are_bounded_and_refusals_cost_nothing(virtual_gateway: VirtualGateway, attempts: int) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert str(await failure(fixture)) == "500"
        assert len(fixture.prime.requests) == attempts
        assert fixture.rows("state, attempts, cost_usd") == [("failed", attempts, 0)]
        assert fixture.purse_usd == 0

    virtual_gateway.play(scenario, DOWN, section=waiting(attempts=attempts, break_after=100))


def test_the_wait_that_the_provider_asks_for_is_kept(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await fixture.gateway.ask(inquiry(), deadline_s=1000)
        assert fixture.clock.monotonic() == pytest.approx(42.0, abs=0.01)

    virtual_gateway.play(
        scenario, ServiceUnavailableError("429", retry_after_s=42.0), text_completion("now"), section=waiting()
    )


def test_a_wait_beyond_the_deadline_is_not_begun_and_the_fallback_answers(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        answer = await fixture.gateway.ask(inquiry(), deadline_s=60)
        assert (answer.model, len(fixture.prime.requests)) == (SPARE, 1)
        assert fixture.clock.monotonic() < 0.01

    virtual_gateway.play(
        scenario, ServiceUnavailableError("429", retry_after_s=61.0), section=section(roles=with_fallback())
    )


def cut_off() -> ServiceUnavailableError:
    error = ServiceUnavailableError("no complete answer within 30 s")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.parametrize("turn", [cut_off(), TimeoutError()])
def test_a_request_that_may_have_been_billed_is_sent_again_only_once(
    virtual_gateway: VirtualGateway, turn: Exception
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        answer = await fixture.gateway.ask(inquiry(), deadline_s=60)
        assert (answer.model, len(fixture.prime.requests)) == (SPARE, 2)
        lost = ("failed", 1, 1)
        assert fixture.rows("state, attempts, cost_usd = worst_usd") == [lost, lost, ("done", 1, 0)]

    virtual_gateway.play(scenario, turn, section=section(roles=with_fallback()))


def test_a_hundred_at_once_are_all_answered_five_at_a_time(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        asked = (fixture.gateway.ask(inquiry(str(number)), deadline_s=1000) for number in range(100))
        answers = await asyncio.gather(*asked)
        assert {answer.completion.text for answer in answers} == {"yes"}
        assert (fixture.prime.max_running, len(fixture.prime.requests)) == (5, 100)
        assert {request.prompt.messages[0].text for request in fixture.prime.requests} == {*map(str, range(100))}
        assert fixture.clock.monotonic() == pytest.approx(20.0, abs=0.5)

    virtual_gateway.play(scenario, SlowAnswer(1.0, text_completion("yes")), section=waiting(concurrency=5))


def test_waiting_in_the_queue_counts_towards_the_deadline_and_costs_nothing(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await fixture.gateway.ask(inquiry("first"), deadline_s=1000)
        error = await failure(fixture, deadline_s=30, text="second")
        assert isinstance(error, ServiceUnavailableError)
        assert fixture.clock.monotonic() == pytest.approx(30.0, abs=0.01)
        assert (len(fixture.rows("id")), len(fixture.prime.requests)) == (1, 1)

    virtual_gateway.play(scenario, text_completion("yes"), section=waiting(per_minute=1))


def test_a_provider_that_fails_is_left_alone_and_comes_back(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        for number in range(3):
            await failure(fixture, text=str(number))
        asked = len(fixture.prime.requests)
        resting = await failure(fixture, text="while it rests", deadline_s=20)
        assert isinstance(resting, ServiceUnavailableError)
        assert (asked, len(fixture.prime.requests)) == (3, 3)
        assert "not used for" in str(resting)
        assert 0 < (resting.retry_after_s or 0) <= 30
        await fixture.clock.sleep(30)
        await fixture.gateway.ask(inquiry("again"), deadline_s=10)
        await fixture.gateway.ask(inquiry("and again"), deadline_s=10)
        await fixture.settled()
        subjects = [subject for subject, _ in fixture.alerts]
        assert sorted(subjects) == ["No model answers as main", "Provider prime does not answer"]

    virtual_gateway.play(
        scenario, DOWN, DOWN, DOWN, text_completion("back"), section=waiting(attempts=1, break_after=3, break_s=30.0)
    )


def test_one_request_alone_tries_whether_the_provider_is_back_and_the_others_wait_for_it(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await failure(fixture)
        await fixture.clock.sleep(30)
        asked = (fixture.gateway.ask(inquiry(str(number)), deadline_s=60) for number in range(5))
        answering = asyncio.gather(*asked)
        await fixture.clock.sleep(4)
        assert (fixture.prime.running, len(fixture.prime.requests)) == (1, 2)
        assert {answer.completion.text for answer in await answering} == {"back"}
        assert fixture.clock.monotonic() == pytest.approx(40, abs=0.1)
        assert fixture.prime.max_running == 4

    virtual_gateway.play(
        scenario, DOWN, SlowAnswer(5, text_completion("back")), section=waiting(attempts=1, break_after=1, break_s=30.0)
    )


def test_who_waits_in_the_queue_when_the_provider_goes_down_asks_the_fallback(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        asked = (fixture.gateway.ask(inquiry(str(number)), deadline_s=60) for number in range(3))
        answers = await asyncio.gather(*asked)
        assert {answer.model for answer in answers} == {SPARE}
        assert fixture.rows(f"sum(model = '{MAIN}')") == [(1,)]

    provider = {"attempts": 1, "break_after": 1, "concurrency": 1}
    virtual_gateway.play(
        scenario, SlowAnswer(5, DOWN), section=section(roles=with_fallback(), providers={"prime": provider})
    )


def test_a_provider_that_hangs_is_left_alone_too_but_not_for_deadlines_that_were_too_short(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        for number in range(4):
            await failure(fixture, deadline_s=5, text=str(number))
        assert len(fixture.prime.requests) == 4
        for number in range(4):
            await failure(fixture, text=f"{number} in full")
        assert len(fixture.prime.requests) == 6

    virtual_gateway.play(scenario, HangingAnswer(), section=waiting(60.0, break_after=2, break_s=1000.0))


def test_dialect_and_fallback_follow_a_provider_that_is_down(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert fixture.gateway.dialect("main") == "tools"
        assert (await fixture.gateway.ask(inquiry("one"), deadline_s=60)).model == SPARE
        assert fixture.gateway.dialect("main") == "json"
        began = fixture.clock.monotonic()
        assert (await fixture.gateway.ask(inquiry("two"), deadline_s=60)).model == SPARE
        assert (fixture.clock.monotonic(), len(fixture.prime.requests)) == (began, 2)

    changes = {"roles": with_fallback(), "models": {SPARE: {"dialect": "json"}}}
    virtual_gateway.play(scenario, DOWN, section=section(**changes, providers={"prime": {"break_after": 2}}))


def test_trials_at_once_wait_for_the_budget_instead_of_failing_on_worst_cases(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        # Each may cost 0.01 and costs 0.0002: two fit at once, and in the end all of them.
        asked = (
            fixture.gateway.ask(inquiry(str(number), to=charge(trial=number)), deadline_s=100) for number in range(20)
        )
        answers = await asyncio.gather(*asked)
        assert len(answers) == 20
        assert fixture.prime.max_running == 2
        assert fixture.purse_usd == pytest.approx(20 * 0.0002)

    limited = section(budget={"question_usd": 0.025, "day_usd": None})
    virtual_gateway.play(
        scenario, SlowAnswer(1.0, text_completion("yes", tokens_in=100, tokens_out=10)), section=limited
    )


def test_a_cancelled_call_that_was_answered_is_not_paid_for_twice(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        for moment in range(1, 12):
            asking = asyncio.create_task(fixture.gateway.ask(inquiry(str(moment)), deadline_s=100))
            await fixture.prime.first_request.wait()
            fixture.prime.first_request.clear()
            # Leave at each turn of the loop that lies between the answer and its way home.
            for _ in range(moment):
                await fixture.clock.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            before = len(fixture.prime.requests)
            again = await fixture.gateway.ask(inquiry(str(moment)), deadline_s=100)
            assert again.usage.calls == 1
            assert again.stored == (len(fixture.prime.requests) == before)
            fixture.prime.first_request.clear()
        await fixture.settled()
        answered = fixture.rows("request, state")
        assert len({request for request, state in answered if state == "done"}) == 11
        assert sum(state == "done" for _, state in answered) == 11

    virtual_gateway.play(scenario, text_completion("yes"), section=waiting())


TURNS: st.SearchStrategy[ProviderTurn] = st.one_of(
    st.builds(text_completion, st.just("yes"), tokens_in=st.integers(0, 10), tokens_out=st.integers(0, 1000)),
    st.builds(
        SlowAnswer, st.floats(0.1, 50), st.builds(text_completion, st.just("slow"), tokens_out=st.integers(0, 1000))
    ),
    st.builds(SlowAnswer, st.floats(0.1, 50), st.just(DOWN)),
    st.sampled_from(
        [
            DOWN,
            ServiceUnavailableError("429", retry_after_s=5),
            RequestRejectedError("no"),
            MalformedDataError("odd"),
            HangingAnswer(),
        ]
    ),
)
ASKS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),  # the forecast
        st.integers(1, 4),  # the question within it
        st.floats(0, 20),  # when it is asked, in seconds after the one before
        st.sampled_from([None, None, 0.0, 1.0, 10.0]),  # when its caller is cancelled, in seconds after that
    ),
    min_size=1,
    max_size=12,
)
TIGHT = {"question_usd": 0.03, "run_usd": 0.05, "day_usd": 0.045}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(TURNS, min_size=1, max_size=8), ASKS, st.sampled_from([MAIN, SPARE]))
@example([HangingAnswer()], [("a", 1, 0.0, None)] * 4, SPARE)
def test_whatever_a_provider_does_the_purse_stays_within_its_limits_and_equals_the_ledger(
    turns: list[ProviderTurn], asks: list[tuple[str, int, float, float | None]], fallback: str
) -> None:
    roles = with_fallback(fallback=fallback, timeout_s=30.0)

    async def scenario(fixture: GatewayFixture) -> None:
        purse, tasks = fixture.gateway.accounting.budget, []

        async def within() -> None:
            while True:
                assert purse.run_account.committed_usd <= 0.045 + 1e-9
                await fixture.clock.sleep(0.5)

        watch = asyncio.create_task(within())
        for scope, text, gap_s, cancel_s in asks:
            await fixture.clock.sleep(gap_s)
            asking = asyncio.create_task(fixture.gateway.ask(inquiry(str(text), to=charge(scope)), deadline_s=40))
            tasks.append(asking)
            if cancel_s is not None:
                asyncio.get_running_loop().call_later(cancel_s, asking.cancel)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(r) for r in results if isinstance(r, Exception) and not isinstance(r, FoxcastError)] == []
        assert not watch.done()
        watch.cancel()
        await fixture.settled()
        rows = fixture.rows("scope, state, cost_usd, worst_usd, attempts, at")
        assert {state for _, state, *_ in rows} <= {"done", "failed"}
        assert purse.run_account.reserved_usd == 0
        assert purse.run_account.spent_usd == pytest.approx(sum(cost for _, _, cost, *_ in rows))
        for scope in "ab":
            assert sum(cost for name, _, cost, *_ in rows if name == scope) <= 0.03 + 1e-9
        sent = len(fixture.prime.requests) + len(fixture.other.requests)
        assert sum(attempts for *_, attempts, _ in rows) == sent
        assert fixture.prime.running == fixture.other.running == 0

    with TemporaryDirectory() as folder:
        VirtualGateway(Path(folder)).play(scenario, *turns, section=section(roles=roles, budget=TIGHT))


@pytest.mark.parametrize("killed_at_s", [0.5, 1.5, 2.5, 3.5, 7.5])
def test_a_run_that_is_killed_and_started_again_pays_for_no_answer_twice(
    virtual_gateway: VirtualGateway, killed_at_s: float
) -> None:
    texts = [str(number) for number in range(8)]

    async def work(fixture: GatewayFixture) -> list[str]:
        return [(await fixture.gateway.ask(inquiry(text), deadline_s=100)).completion.text for text in texts]

    async def until_killed(fixture: GatewayFixture) -> tuple[Path, int]:
        working = asyncio.create_task(work(fixture))
        await fixture.clock.sleep(killed_at_s)
        copy = fixture.leave_as_killed()
        working.cancel()
        await asyncio.wait([working])
        return copy, len(fixture.prime.requests)

    async def again(fixture: GatewayFixture) -> tuple[list[str], int]:
        assert fixture.rows("state").count(("lost",)) == 1
        return await work(fixture), len(fixture.prime.requests)

    turn = SlowAnswer(1.0, text_completion("yes"))
    copy, sent = virtual_gateway.play(until_killed, turn, section=waiting())
    revive(copy, virtual_gateway.path)
    answers, asked = virtual_gateway.play(again, turn, section=waiting())
    assert answers == ["yes"] * 8
    # Only what was on its way when it died is asked again.
    assert sent + asked == 8 + 1
