"""What cannot be reached ends in seconds with its cause, for all that wait for it; an empty account at once."""

import asyncio
from collections.abc import Sequence

import pytest

from bot.core.errors import FoxcastError, QuotaExhaustedError, ServerUnreachableError, ServiceUnavailableError
from bot.core.language_models import Message, MessageRole, ModelRequest, Prompt, TokenPrice
from bot.testing.models import ProviderTurn, SlowAnswer, text_completion
from tests.simulation.virtual_gateway import DOWN, VirtualGateway, failure, waiting
from tests.unit.llm.gateway_fixture import MAIN, SPARE, GatewayFixture, charge, inquiry, section, with_fallback

GONE = ServerUnreachableError("http://127.0.0.1:1/v1 cannot be reached")
TRIALS = [inquiry(f"hello {trial}", to=charge(trial=trial)) for trial in range(1, 6)]


async def errors(fixture: GatewayFixture, asked: Sequence[ModelRequest]) -> list[FoxcastError]:
    """Ask all at once, each with ten minutes, and return how they failed."""
    results = await asyncio.gather(*(fixture.gateway.ask(one, deadline_s=600) for one in asked), return_exceptions=True)
    assert all(isinstance(one, FoxcastError) for one in results)
    return [one for one in results if isinstance(one, FoxcastError)]


@pytest.mark.parametrize("concurrency", [1, 20])
@pytest.mark.parametrize("count", [1, 5])
def test_a_server_that_is_not_there_is_tried_for_three_seconds_by_all_trials_together(
    virtual_gateway: VirtualGateway, count: int, concurrency: int
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        failed = await errors(fixture, TRIALS[:count])
        assert {(type(error), str(error)) for error in failed} == {(ServerUnreachableError, str(GONE))}
        assert fixture.clock.monotonic() == pytest.approx(3.0, abs=0.1)
        assert 3 <= len(fixture.prime.requests) <= 3 * count
        # Nothing left, so nothing is counted or held.
        assert set(fixture.rows("state, attempts, calls, cost_usd")) == {("failed", 0, 0, 0.0)}
        assert fixture.purse_usd == 0

    virtual_gateway.play(scenario, GONE, section=waiting(concurrency=concurrency))


def test_who_asks_while_it_is_left_alone_is_told_at_once_with_the_cause(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await failure(fixture)
        began, asked = fixture.clock.monotonic(), len(fixture.prime.requests)
        assert {str(error) for error in await errors(fixture, TRIALS)} == {str(GONE)}
        assert (fixture.clock.monotonic(), len(fixture.prime.requests)) == (began, asked)
        await fixture.settled()
        (reported,) = [text for subject, text in fixture.alerts if subject == "Provider prime does not answer"]
        assert reported.startswith(f"{GONE}. Nothing is sent to it for 30 s")

    virtual_gateway.play(scenario, GONE, section=waiting())


@pytest.mark.parametrize("failures", [1, 2])
def test_a_server_that_restarts_costs_no_trial(virtual_gateway: VirtualGateway, failures: int) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        answers = await asyncio.gather(*(fixture.gateway.ask(one, deadline_s=600) for one in TRIALS))
        assert {answer.model for answer in answers} == {MAIN}
        assert fixture.clock.monotonic() <= 3.1
        await fixture.settled()
        assert fixture.alerts == []

    virtual_gateway.play(scenario, *[GONE] * 5 * failures, text_completion("back"), section=waiting())


def test_after_the_rest_one_request_tries_it_and_the_others_wait_for_what_comes_of_that(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await failure(fixture)
        await fixture.clock.sleep(30)
        began = fixture.clock.monotonic()
        # Not there yet: one try, and nobody waits.
        assert len(await errors(fixture, TRIALS)) == 5
        assert (fixture.clock.monotonic() - began, len(fixture.prime.requests)) == (0.0, 4)
        await fixture.clock.sleep(30)
        answers = await asyncio.gather(*(fixture.gateway.ask(one, deadline_s=600) for one in TRIALS))
        assert {answer.completion.text for answer in answers} == {"back"}

    virtual_gateway.play(scenario, *[GONE] * 4, SlowAnswer(2.0, text_completion("back")), section=waiting())


def test_a_server_that_is_back_and_fails_is_waited_for_as_any_that_fails(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await failure(fixture)
        await fixture.clock.sleep(30)
        answers = await asyncio.gather(*(fixture.gateway.ask(one, deadline_s=600) for one in TRIALS))
        assert {answer.completion.text for answer in answers} == {"back"}
        assert fixture.clock.monotonic() == pytest.approx(63, abs=2)

    virtual_gateway.play(scenario, *[GONE] * 3, DOWN, text_completion("back"), section=waiting())


def test_the_fallback_takes_over_where_the_main_model_cannot_be_reached_any_more(
    virtual_gateway: VirtualGateway,
) -> None:
    first = Message(speaker=MessageRole.USER, text="Will it rain?")
    summary = Message(speaker=MessageRole.USER, text="In short?")

    async def scenario(fixture: GatewayFixture) -> None:
        ongoing = Prompt(messages=(first,), model=MAIN, handover=(summary,))
        assert (await fixture.gateway.ask(inquiry(ongoing), deadline_s=600)).model == SPARE
        assert fixture.clock.monotonic() == pytest.approx(3.0, abs=0.1)
        # Another conversation of the main model finds it left alone, and is handed over at once.
        other = Prompt(messages=(first, first), model=MAIN, handover=(summary, summary))
        assert (await fixture.gateway.ask(inquiry(other), deadline_s=600)).model == SPARE
        assert fixture.clock.monotonic() == pytest.approx(3.0, abs=0.1)
        assert [request.prompt.messages for request in fixture.other.requests] == [(summary,), (summary, summary)]

    virtual_gateway.play(scenario, GONE, section=section(roles=with_fallback()))


@pytest.mark.parametrize("attempts", [1, 2, 10])
def test_as_many_tries_as_configured_and_three_at_most(virtual_gateway: VirtualGateway, attempts: int) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        await failure(fixture)
        assert len(fixture.prime.requests) == min(3, attempts)
        assert fixture.clock.monotonic() <= 3.1

    virtual_gateway.play(scenario, GONE, section=waiting(attempts=attempts))


def test_a_caller_without_three_seconds_is_told_the_cause_and_not_that_time_is_up(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert str(await failure(fixture, deadline_s=0.5)) == str(GONE)

    virtual_gateway.play(scenario, GONE, section=waiting())


def test_a_breaker_that_opened_tells_the_last_failure(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        for number in range(3):
            await failure(fixture, text=str(number))
        resting = await failure(fixture, text="while it rests", deadline_s=20)
        assert "failed 3 times in a row and is not used for 30 s: 500" in str(resting)
        await fixture.settled()
        (text,) = [text for subject, text in fixture.alerts if subject == "Provider prime does not answer"]
        assert text.startswith("3 consecutive requests failed: 500. Nothing is sent to it")

    virtual_gateway.play(scenario, DOWN, section=waiting(attempts=1, break_after=3, break_s=30.0))


@pytest.mark.parametrize("wait", [ServiceUnavailableError("429", retry_after_s=300.0), DOWN])
def test_an_empty_account_stops_those_too_that_wait_for_something_else(
    virtual_gateway: VirtualGateway, wait: ServiceUnavailableError
) -> None:
    broke = QuotaExhaustedError("no credit")

    async def scenario(fixture: GatewayFixture) -> None:
        assert {type(error) for error in await errors(fixture, TRIALS)} == {QuotaExhaustedError}
        assert fixture.clock.monotonic() <= 2 * 2.0 + 0.1

    turns: list[ProviderTurn] = [SlowAnswer(0.1, wait), SlowAnswer(0.1, wait), SlowAnswer(2.0, broke)]
    virtual_gateway.play(scenario, *turns, section=waiting(timeout_s=600.0))


def test_five_trials_ask_at_once_for_long_answers_of_a_dear_model_within_the_usual_budgets(
    virtual_gateway: VirtualGateway,
) -> None:
    dear = TokenPrice(tokens_in=4.0, tokens_cached=0.2, tokens_out=20.0)
    models = {MAIN: {"price_in": dear.tokens_in, "price_out": dear.tokens_out}}
    roles = {"main": {"model": MAIN, "max_tokens": 32_000}}
    text = "x" * 4 * 19_000

    async def scenario(fixture: GatewayFixture) -> None:
        assert await fixture.gateway.worst_usd("main") == pytest.approx(0.72)
        # Seven steps of each trial, at what such a step costs where its beginning is in the provider's cache.
        for step in range(7):
            asked = [inquiry(f"{step} {text}", to=charge(trial=trial), seed=trial) for trial in range(1, 6)]
            await asyncio.gather(*(fixture.gateway.ask(one, deadline_s=600) for one in asked))
        assert fixture.prime.max_running == 5
        assert fixture.clock.monotonic() == pytest.approx(7 * 60, abs=1)
        await fixture.settled()
        assert fixture.alerts == []

    answer = SlowAnswer(60.0, text_completion("yes", tokens_in=5_000, tokens_out=1_000))
    virtual_gateway.play(scenario, answer, section=section(roles=roles, models=models, budget={}))
