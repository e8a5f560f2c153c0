"""How patient a provider client is: how often it asks again, after how long, and when it lets another model answer.

All times are virtual seconds of one call; the bounds are those of the settings' descriptions and of docs/models.md.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bot.core.errors import FoxcastError, ServerUnreachableError, ServiceUnavailableError
from bot.llm.adaptive_limit import FIRST_LIMIT, LimitReason
from bot.net.rate_headers import report_response_headers
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.models import ProviderTurn, ScriptedModelProvider, SlowAnswer, text_completion
from tests.unit.llm import gateway_fixture as rigs
from tests.unit.llm.gateway_fixture import GatewayFixture, LedgerWriteTracker, inquiry, section, with_fallback

T = TypeVar("T")
DOWN = ServiceUnavailableError("500")
YES = text_completion("yes")


class TimedProvider(ScriptedModelProvider):
    """Notes when each request arrived, in seconds since the start."""

    def __init__(self, turns: Sequence[ProviderTurn]) -> None:
        super().__init__(turns=[*turns])
        self.arrived: list[float] = []

    async def complete(self, *arguments: Any) -> Any:
        assert self.clock is not None
        self.arrived.append(self.clock.monotonic())
        return await ScriptedModelProvider.complete(self, *arguments)


def play(
    path: Path, provider: TimedProvider, ask: Callable[[GatewayFixture], Coroutine[Any, Any, T]], **config: Any
) -> T:
    """Run this on a gateway in virtual time; requests are timed from its start."""
    tracker = LedgerWriteTracker()

    async def main(clock: VirtualClock) -> T:
        provider.clock = clock
        llms = {"prime": provider, "other": ScriptedModelProvider(turns=[text_completion("spare")])}
        async with rigs.open_rig(path, clock, section=section(**config), llms=llms, busy=tracker) as rig:
            began = clock.monotonic()
            try:
                return await ask(rig)
            finally:
                provider.arrived = [at - began for at in provider.arrived]

    return run_in_virtual_time(main, busy=tracker)


async def answer_of(rig: GatewayFixture, deadline_s: float = 600.0) -> str:
    """Return the answer, or the error."""
    try:
        answer = await rig.gateway.ask(inquiry(), deadline_s=deadline_s)
    except FoxcastError as error:
        return f"{type(error).__name__}: {error}"
    return f"{answer.model}: {answer.completion.text}"


def waits(provider: TimedProvider) -> list[float]:
    return [later - earlier for earlier, later in zip(provider.arrived, provider.arrived[1:], strict=False)]


@pytest.mark.parametrize("attempts", [1, 2, 3, 4])
def test_a_request_that_fails_is_sent_as_often_as_configured(path: Path, attempts: int) -> None:
    provider = TimedProvider([DOWN])
    said = play(path, provider, answer_of, providers={"prime": {"attempts": attempts}})
    assert (said, len(provider.requests)) == ("ServiceUnavailableError: 500", attempts)


def test_the_last_attempt_may_succeed(path: Path) -> None:
    provider = TimedProvider([DOWN, DOWN, YES])
    assert play(path, provider, answer_of) == "prime:big: yes"
    assert len(provider.requests) == 3


def test_waits_are_drawn_from_zero_to_a_second_doubled_each_time_and_at_most_a_minute(path: Path) -> None:
    """Ten attempts: the bounds are 1, 2, 4, 8, 16, 32 and then 60 s."""
    provider = TimedProvider([DOWN])
    play(path, provider, answer_of, providers={"prime": {"attempts": 10, "break_after": 100}})
    bounds = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    found = waits(provider)
    assert len(found) == len(bounds)
    assert all(0.0 <= wait <= bound for wait, bound in zip(found, bounds, strict=True))
    # Uniform from zero: the first is below a second, and at least one of the last three above the sixth bound's half.
    assert found[0] < 1.0
    assert max(found[-3:]) > 16.0
    # Uniform up to each bound: all of them in the lower half has a chance of one in 512, and so has the upper half.
    shares = [wait / bound for wait, bound in zip(found, bounds, strict=True)]
    assert min(shares) < 0.5 < max(shares)
    assert len({round(share, 6) for share in shares}) > 5


def test_a_pause_that_the_server_asks_for_is_kept_and_is_no_failure(path: Path) -> None:
    busy = ServiceUnavailableError("429", retry_after_s=7.0)
    provider = TimedProvider([busy, busy, busy, busy, busy, YES])
    said = play(path, provider, answer_of, providers={"prime": {"attempts": 2}})
    assert said == "prime:big: yes"
    assert len(provider.requests) == 6
    assert all(wait >= 7.0 for wait in waits(provider))


def test_a_pause_counts_no_attempt_and_a_failure_after_it_does(path: Path) -> None:
    busy = ServiceUnavailableError("429", retry_after_s=1.0)
    provider = TimedProvider([busy, DOWN, busy, DOWN, YES])
    said = play(path, provider, answer_of, providers={"prime": {"attempts": 2}})
    assert (said, len(provider.requests)) == ("ServiceUnavailableError: 500", 4)


def test_where_another_model_waits_a_busy_one_is_asked_as_often_as_configured_and_no_more(path: Path) -> None:
    busy = ServiceUnavailableError("429", retry_after_s=1.0)
    provider = TimedProvider([busy])
    said = play(path, provider, answer_of, providers={"prime": {"attempts": 2}}, roles=with_fallback())
    assert (said, len(provider.requests)) == ("other:small: spare", 2)


def test_a_pause_beyond_the_deadline_is_not_waited_for(path: Path) -> None:
    async def ask(rig: GatewayFixture) -> tuple[str, float]:
        began = rig.clock.monotonic()
        return await answer_of(rig, deadline_s=20.0), rig.clock.monotonic() - began

    provider = TimedProvider([ServiceUnavailableError("429", retry_after_s=21.0)])
    said, took_s = play(path, provider, ask)
    assert (said, took_s, len(provider.requests)) == ("ServiceUnavailableError: 429", 0.0, 1)
    provider = TimedProvider([ServiceUnavailableError("429", retry_after_s=5.0), YES])
    said, took_s = play(path, provider, ask)
    assert said == "prime:big: yes"
    assert 5.0 <= took_s < 20.0


@pytest.mark.parametrize(("attempts", "at"), [(1, [0.0]), (2, [0.0, 1.0]), (3, [0.0, 1.0, 3.0]), (9, [0.0, 1.0, 3.0])])
def test_an_unreachable_server_is_tried_for_three_seconds(path: Path, attempts: int, at: list[float]) -> None:
    provider = TimedProvider([ServerUnreachableError("nobody there")])

    async def ask(rig: GatewayFixture) -> list[str]:
        return [await answer_of(rig), await answer_of(rig)]

    said = play(path, provider, ask, providers={"prime": {"attempts": attempts}})
    assert provider.arrived == pytest.approx(at)
    # The second call fails at once: nothing is sent to a server that nobody reached.
    assert all(text.startswith("ServerUnreachableError: nobody there") for text in said)


def test_a_server_that_comes_back_within_three_seconds_answers(path: Path) -> None:
    gone = ServerUnreachableError("nobody there")
    provider = TimedProvider([gone, gone, YES])
    assert play(path, provider, answer_of) == "prime:big: yes"
    assert provider.arrived == pytest.approx([0.0, 1.0, 3.0])


def test_an_unreachable_server_counts_as_failed_only_after_the_last_attempt(path: Path) -> None:
    gone = ServerUnreachableError("nobody there")
    provider = TimedProvider([gone, gone, YES])
    # One failure would be enough to stop.
    assert play(path, provider, answer_of, providers={"prime": {"break_after": 1}}) == "prime:big: yes"


def test_a_server_that_is_still_unreachable_when_it_is_tried_again_is_left_alone_as_long_again(path: Path) -> None:
    provider = TimedProvider([ServerUnreachableError("nobody there")])

    async def ask(rig: GatewayFixture) -> None:
        for pause_s in (0.0, 31.0, 1.0, 30.0):
            await rig.clock.sleep(pause_s)
            assert (await answer_of(rig)).startswith("ServerUnreachableError: nobody there")

    play(path, provider, ask, providers={"prime": {"attempts": 3, "break_s": 30.0}})
    # The first time within three seconds, later once each.
    assert provider.arrived == pytest.approx([0.0, 1.0, 3.0, 34.0, 65.0])


def test_models_of_one_server_are_left_alone_together_and_others_are_not(path: Path) -> None:
    """The server is what a model has before its first slash; the name of the model may have more of them."""
    names = ("house/maker/small", "house/other/large", "attic/maker/small")
    roles = {f"role{number}": {"model": f"prime:{name}"} for number, name in enumerate(names)}

    async def ask(rig: GatewayFixture) -> None:
        for role in roles:
            with suppress(ServerUnreachableError):
                await rig.gateway.ask(inquiry(role=role), deadline_s=60.0)

    provider = TimedProvider([ServerUnreachableError("nobody there")])
    play(path, provider, ask, roles=roles, providers={"prime": {"attempts": 1}})
    assert [asked.model for asked in provider.requests] == ["house/maker/small", "attic/maker/small"]


def test_nothing_is_permitted_while_a_server_is_left_alone(path: Path) -> None:
    async def ask(rig: GatewayFixture) -> list[int]:
        client = rig.gateway.clients["prime"]
        before = client.permitted_requests(rigs.MAIN)
        await answer_of(rig)
        return [before, client.permitted_requests(rigs.MAIN)]

    assert play(path, TimedProvider([ServerUnreachableError("nobody there")]), ask) == [FIRST_LIMIT, 0]


def caused_by(cause: Exception) -> ServiceUnavailableError:
    error = ServiceUnavailableError("no answer")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason", "permitted"),
    [
        # Of those that were in flight with one that got no answer in time, four fifths are permitted.
        (caused_by(TimeoutError()), LimitReason.LATENCY, 8),
        (caused_by(ConnectionResetError()), LimitReason.NOTHING, FIRST_LIMIT),
        (DOWN, LimitReason.NOTHING, FIRST_LIMIT),
    ],
)
def test_fewer_requests_are_permitted_after_one_without_an_answer_in_time_and_after_no_other_failure(
    path: Path, error: ServiceUnavailableError, reason: LimitReason, permitted: int
) -> None:
    async def ask(rig: GatewayFixture) -> tuple[LimitReason, int]:
        others = [asyncio.create_task(rig.gateway.ask(inquiry(f"{n}"), deadline_s=60.0)) for n in range(9)]
        await rig.clock.sleep(1.0)
        await answer_of(rig)
        limit = rig.gateway.clients["prime"].queue.models[rigs.MAIN].limit
        found = limit.reason, limit.limit
        await asyncio.gather(*others)
        return found

    provider = TimedProvider([SlowAnswer(10.0, YES)] * 9 + [error, YES])
    given = {"attempts": 1, "lost_retries": 0}
    assert play(path, provider, ask, providers={"prime": given}) == (reason, permitted)


def test_answers_that_are_as_long_as_they_are_slow_are_no_sign_of_too_many_requests(path: Path) -> None:
    """The first token is the work of a hundred: 4,000 more take 41 times as long at the same pace."""

    async def ask(rig: GatewayFixture) -> LimitReason:
        for number in range(40):
            await rig.gateway.ask(inquiry(f"{number}"), deadline_s=60.0)
        return rig.gateway.clients["prime"].queue.models[rigs.MAIN].limit.reason

    short, long = (text_completion("yes", tokens_in=0, tokens_out=tokens) for tokens in (0, 4000))
    assert play(path, TimedProvider([*[SlowAnswer(1.0, short)] * 20, SlowAnswer(41.0, long)]), ask) == "nothing so far"


@pytest.mark.parametrize(("error", "requests"), [(DOWN, 3), (ServiceUnavailableError("429", retry_after_s=1.0), 5)])
def test_a_server_that_fails_is_left_alone_and_a_busy_one_is_not(
    path: Path, error: ServiceUnavailableError, requests: int
) -> None:
    async def ask(rig: GatewayFixture) -> None:
        for _ in range(5):
            await answer_of(rig, deadline_s=0.5)
            await rig.clock.sleep(10.0)

    provider = TimedProvider([error])
    play(path, provider, ask, providers={"prime": {"attempts": 1, "break_after": 3, "break_s": 500.0}})
    assert len(provider.requests) == requests


def test_a_provider_that_says_that_nothing_is_left_is_asked_again_after_its_reset(path: Path) -> None:
    class ProviderWithHeaders(TimedProvider):
        async def complete(self, *arguments: Any) -> Any:
            answer = await TimedProvider.complete(self, *arguments)
            report_response_headers({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "20"})
            return answer

    async def ask(rig: GatewayFixture) -> None:
        for number in range(2):
            await rig.gateway.ask(inquiry(f"{number}"), deadline_s=60.0)

    provider = ProviderWithHeaders([YES])
    play(path, provider, ask)
    assert provider.arrived == pytest.approx([0.0, 20.0], abs=0.01)


def test_the_latency_of_an_answer_is_that_of_its_last_request(path: Path) -> None:
    async def ask(rig: GatewayFixture) -> list[Any]:
        await rig.clock.sleep(1000.0)
        await answer_of(rig)
        return rig.rows("attempts, latency_s")

    provider = TimedProvider([SlowAnswer(3.0, DOWN), SlowAnswer(4.0, YES)])
    assert play(path, provider, ask) == [(2, pytest.approx(4.0))]


def test_a_caller_whose_time_runs_out_while_it_waits_for_the_budget_learns_how_long_it_waited(path: Path) -> None:
    # One call may cost at most 0.004 dollars and a little for the prompt.
    budget = {"question_usd": 0.006, "day_usd": None}

    async def ask(rig: GatewayFixture) -> tuple[str, float, BaseException | str]:
        await rig.clock.sleep(1000.0)
        first = asyncio.create_task(rig.gateway.ask(inquiry("first"), deadline_s=500.0))
        await rig.clock.sleep(1.0)
        late = await answer_of(rig, deadline_s=20.0)
        reserved_usd = rig.purse_usd
        # One that is cancelled by its caller has no time-out to report.
        stopped = asyncio.create_task(answer_of(rig, deadline_s=20.0))
        await rig.clock.sleep(1.0)
        stopped.cancel()
        (ended,) = await asyncio.gather(stopped, return_exceptions=True)
        await first
        return late, reserved_usd, ended

    provider = TimedProvider([SlowAnswer(100.0, YES)])
    late, reserved_usd, ended = play(path, provider, ask, budget=budget)
    assert late.startswith("BudgetExhaustedError: prime:big, for lantern:rain: the budget of the question")
    assert "it waited 20 s for calls under way to cost less than their maximum" in late
    # Neither of them reserved anything.
    assert (isinstance(ended, asyncio.CancelledError), len(provider.requests)) == (True, 1)
    assert 0.004 < reserved_usd < 0.006


def lost(text: str = "gone") -> ServiceUnavailableError:
    error = ServiceUnavailableError(text)
    error.__cause__ = ConnectionResetError()
    return error


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_lost_reply_is_paid_for_and_asked_for_again_as_often_as_allowed(path: Path, retries: int) -> None:
    async def ask(rig: GatewayFixture) -> tuple[str, list[Any], float]:
        return await answer_of(rig), rig.rows("state, calls, cost_usd = worst_usd"), rig.purse_usd

    provider = TimedProvider([lost()])
    given = {"attempts": 5, "lost_retries": retries, "break_after": 100}
    said, records, spent_usd = play(path, provider, ask, providers={"prime": given})
    assert said == "ServiceUnavailableError: gone"
    assert len(provider.requests) == 1 + retries
    # Each request is a call of its own, at its maximum cost.
    assert records == [("failed", 1, 1)] * (1 + retries)
    assert spent_usd == pytest.approx(sum(cost for (cost,) in rigs.rows(path, "select cost_usd from model_call")))


def test_a_lost_reply_is_not_asked_for_again_without_room_in_the_budget(path: Path) -> None:
    async def ask(rig: GatewayFixture) -> tuple[str, float]:
        began = rig.clock.monotonic()
        return await answer_of(rig), rig.clock.monotonic() - began

    provider = TimedProvider([lost(), YES])
    # One call may cost at most 0.004 dollars and a little for the prompt.
    budget = {"question_usd": 0.006, "day_usd": None}
    said, took_s = play(path, provider, ask, budget=budget, providers={"prime": {"lost_retries": 3, "attempts": 9}})
    assert "the reply was lost, and the budget does not allow another request" in said
    # It is not tried again either, after the one wait.
    assert (len(provider.requests), took_s < 1.0) == (1, True)


def test_a_model_with_a_fallback_gets_half_of_the_time_and_the_fallback_the_rest(path: Path) -> None:
    async def ask(rig: GatewayFixture) -> tuple[str, float]:
        began = rig.clock.monotonic()
        return await answer_of(rig, deadline_s=100.0), rig.clock.monotonic() - began

    provider = TimedProvider([SlowAnswer(1000.0, YES)])
    said, took_s = play(path, provider, ask, roles=with_fallback())
    assert said == "other:small: spare"
    assert took_s == pytest.approx(50.0)


@pytest.mark.parametrize(("deadline_s", "counts"), [(100.0, True), (51.0, True), (49.0, False)])
def test_only_a_server_that_had_half_of_its_usual_time_is_blamed_for_a_missed_deadline(
    path: Path, deadline_s: float, *, counts: bool
) -> None:
    """The role allows 100 s; a caller who allows less than half of it says nothing about the server."""

    async def ask(rig: GatewayFixture) -> list[str]:
        return [await answer_of(rig, deadline_s=deadline_s) for _ in range(2)]

    provider = TimedProvider([SlowAnswer(1000.0, YES)])
    roles = {"main": {"model": rigs.MAIN, "max_tokens": 1000, "timeout_s": 100.0}}
    play(path, provider, ask, roles=roles, providers={"prime": {"break_after": 1, "break_s": 500.0}})
    assert len(provider.requests) == (1 if counts else 2)
