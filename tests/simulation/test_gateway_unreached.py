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


async def errors(rig: GatewayFixture, asked: Sequence[ModelRequest]) -> list[FoxcastError]:
    """Ask all at once, each with ten minutes, and return how they failed."""
    results = await asyncio.gather(*(rig.gateway.ask(one, deadline_s=600) for one in asked), return_exceptions=True)
    assert all(isinstance(one, FoxcastError) for one in results)
    return [one for one in results if isinstance(one, FoxcastError)]


@pytest.mark.parametrize("concurrency", [1, 20])
@pytest.mark.parametrize("count", [1, 5])
def test_a_server_that_is_not_there_is_tried_for_three_seconds_by_all_trials_together(
    stage: VirtualGateway, count: int, concurrency: int
) -> None:
    async def story(rig: GatewayFixture) -> None:
        failed = await errors(rig, TRIALS[:count])
        assert {(type(error), str(error)) for error in failed} == {(ServerUnreachableError, str(GONE))}
        assert rig.clock.monotonic() == pytest.approx(3.0, abs=0.1)
        assert 3 <= len(rig.prime.requests) <= 3 * count
        # Nothing left, so nothing is counted or held.
        assert set(rig.rows("state, attempts, calls, cost_usd")) == {("failed", 0, 0, 0.0)}
        assert rig.purse_usd == 0

    stage.play(story, GONE, section=waiting(concurrency=concurrency))


def test_who_asks_while_it_is_left_alone_is_told_at_once_with_the_cause(stage: VirtualGateway) -> None:
    async def story(rig: GatewayFixture) -> None:
        await failure(rig)
        began, asked = rig.clock.monotonic(), len(rig.prime.requests)
        assert {str(error) for error in await errors(rig, TRIALS)} == {str(GONE)}
        assert (rig.clock.monotonic(), len(rig.prime.requests)) == (began, asked)
        await rig.settled()
        (told,) = [text for subject, text in rig.alerts if subject == "Provider prime does not answer"]
        assert told.startswith(f"{GONE}. Nothing is sent to it for 30 s")

    stage.play(story, GONE, section=waiting())


@pytest.mark.parametrize("failures", [1, 2])
def test_a_server_that_restarts_costs_no_trial(stage: VirtualGateway, failures: int) -> None:
    async def story(rig: GatewayFixture) -> None:
        answers = await asyncio.gather(*(rig.gateway.ask(one, deadline_s=600) for one in TRIALS))
        assert {answer.model for answer in answers} == {MAIN}
        assert rig.clock.monotonic() <= 3.1
        await rig.settled()
        assert rig.alerts == []

    stage.play(story, *[GONE] * 5 * failures, text_completion("back"), section=waiting())


def test_after_the_rest_one_request_tries_it_and_the_others_wait_for_what_comes_of_that(stage: VirtualGateway) -> None:
    async def story(rig: GatewayFixture) -> None:
        await failure(rig)
        await rig.clock.sleep(30)
        began = rig.clock.monotonic()
        # Not there yet: one try, and nobody waits.
        assert len(await errors(rig, TRIALS)) == 5
        assert (rig.clock.monotonic() - began, len(rig.prime.requests)) == (0.0, 4)
        await rig.clock.sleep(30)
        answers = await asyncio.gather(*(rig.gateway.ask(one, deadline_s=600) for one in TRIALS))
        assert {answer.completion.text for answer in answers} == {"back"}

    stage.play(story, *[GONE] * 4, SlowAnswer(2.0, text_completion("back")), section=waiting())


def test_a_server_that_is_back_and_fails_is_waited_for_as_any_that_fails(stage: VirtualGateway) -> None:
    async def story(rig: GatewayFixture) -> None:
        await failure(rig)
        await rig.clock.sleep(30)
        answers = await asyncio.gather(*(rig.gateway.ask(one, deadline_s=600) for one in TRIALS))
        assert {answer.completion.text for answer in answers} == {"back"}
        assert rig.clock.monotonic() == pytest.approx(63, abs=2)

    stage.play(story, *[GONE] * 3, DOWN, text_completion("back"), section=waiting())


def test_the_fallback_takes_over_where_the_main_model_cannot_be_reached_any_more(stage: VirtualGateway) -> None:
    first = Message(speaker=MessageRole.USER, text="Will it rain?")
    summary = Message(speaker=MessageRole.USER, text="In short?")

    async def story(rig: GatewayFixture) -> None:
        ongoing = Prompt(messages=(first,), model=MAIN, handover=(summary,))
        assert (await rig.gateway.ask(inquiry(ongoing), deadline_s=600)).model == SPARE
        assert rig.clock.monotonic() == pytest.approx(3.0, abs=0.1)
        # Another conversation of the main model finds it left alone, and is handed over at once.
        other = Prompt(messages=(first, first), model=MAIN, handover=(summary, summary))
        assert (await rig.gateway.ask(inquiry(other), deadline_s=600)).model == SPARE
        assert rig.clock.monotonic() == pytest.approx(3.0, abs=0.1)
        assert [request.prompt.messages for request in rig.other.requests] == [(summary,), (summary, summary)]

    stage.play(story, GONE, section=section(roles=with_fallback()))


@pytest.mark.parametrize("attempts", [1, 2, 10])
def test_as_many_tries_as_configured_and_three_at_most(stage: VirtualGateway, attempts: int) -> None:
    async def story(rig: GatewayFixture) -> None:
        await failure(rig)
        assert len(rig.prime.requests) == min(3, attempts)
        assert rig.clock.monotonic() <= 3.1

    stage.play(story, GONE, section=waiting(attempts=attempts))


def test_a_caller_without_three_seconds_is_told_the_cause_and_not_that_time_is_up(stage: VirtualGateway) -> None:
    async def story(rig: GatewayFixture) -> None:
        assert str(await failure(rig, deadline_s=0.5)) == str(GONE)

    stage.play(story, GONE, section=waiting())


def test_a_breaker_that_opened_tells_the_last_failure(stage: VirtualGateway) -> None:
    async def story(rig: GatewayFixture) -> None:
        for number in range(3):
            await failure(rig, text=str(number))
        resting = await failure(rig, text="while it rests", deadline_s=20)
        assert "failed 3 times in a row and is not used for 30 s: 500" in str(resting)
        await rig.settled()
        (text,) = [text for subject, text in rig.alerts if subject == "Provider prime does not answer"]
        assert text.startswith("3 consecutive requests failed: 500. Nothing is sent to it")

    stage.play(story, DOWN, section=waiting(attempts=1, break_after=3, break_s=30.0))


@pytest.mark.parametrize("wait", [ServiceUnavailableError("429", retry_after_s=300.0), DOWN])
def test_an_empty_account_stops_those_too_that_wait_for_something_else(
    stage: VirtualGateway, wait: ServiceUnavailableError
) -> None:
    broke = QuotaExhaustedError("no credit")

    async def story(rig: GatewayFixture) -> None:
        assert {type(error) for error in await errors(rig, TRIALS)} == {QuotaExhaustedError}
        assert rig.clock.monotonic() <= 2 * 2.0 + 0.1

    turns: list[ProviderTurn] = [SlowAnswer(0.1, wait), SlowAnswer(0.1, wait), SlowAnswer(2.0, broke)]
    stage.play(story, *turns, section=waiting(timeout_s=600.0))


def test_five_trials_ask_at_once_for_long_answers_of_a_dear_model_within_the_usual_budgets(
    stage: VirtualGateway,
) -> None:
    dear = TokenPrice(tokens_in=4.0, tokens_cached=0.2, tokens_out=20.0)
    models = {MAIN: {"price_in": dear.tokens_in, "price_out": dear.tokens_out}}
    roles = {"main": {"model": MAIN, "max_tokens": 32_000}}
    text = "x" * 4 * 19_000

    async def story(rig: GatewayFixture) -> None:
        assert await rig.gateway.worst_usd("main") == pytest.approx(0.72)
        # Seven steps of each trial, at what such a step costs where its beginning is in the provider's cache.
        for step in range(7):
            asked = [inquiry(f"{step} {text}", to=charge(trial=trial), seed=trial) for trial in range(1, 6)]
            await asyncio.gather(*(rig.gateway.ask(one, deadline_s=600) for one in asked))
        assert rig.prime.max_running == 5
        assert rig.clock.monotonic() == pytest.approx(7 * 60, abs=1)
        await rig.settled()
        assert rig.alerts == []

    answer = SlowAnswer(60.0, text_completion("yes", tokens_in=5_000, tokens_out=1_000))
    stage.play(story, answer, section=section(roles=roles, models=models, budget={}))
