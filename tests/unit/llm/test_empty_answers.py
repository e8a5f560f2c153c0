"""Answers with nothing in them, refusals, conversations that are too long, and accounts without money."""

import asyncio
from dataclasses import replace

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.errors import (
    AuthenticationError,
    ContextLengthExceededError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.language_models import FinishReason, Message, MessageRole, ModelCompletion, Prompt, ToolCall
from bot.llm.circuit_breaker import QUOTA_RETRY_S
from bot.testing.clock import FakeClock
from bot.testing.models import ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import MAIN, PRICE, SPARE, charge, inquiry, section, two, with_fallback

USED = ModelUsage(calls=1, tokens_in=100, tokens_out=1000)
CUT = ModelCompletion(finish=FinishReason.LENGTH, usage=USED)
REFUSED = ModelCompletion(text="I must not.", finish=FinishReason.REFUSED, usage=USED)
BROKE = QuotaExhaustedError("the account has no money; top it up")


async def test_an_answer_that_thoughts_ate_up_is_asked_for_once_more_with_twice_the_tokens(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(CUT, text_completion("at last"), default_price=PRICE)) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert got.completion.text == "at last"
        assert [request.sampling.max_tokens for request in rig.prime.requests] == [1000, 2000]
        # Two calls with a reservation each, and the trial pays for both.
        (first, second) = rig.rows("request, state, finish, worst_usd, cost_usd")
        assert first[0] != second[0]
        assert [first[1:3], second[1:3]] == [("done", "length"), ("done", "stop")]
        assert second[3] - first[3] == pytest.approx(1000 * 10 / 1e6)
        assert got.usage.calls == 2
        assert got.usage.cost_usd == pytest.approx(first[4] + second[4])
        assert rig.purse_usd == pytest.approx(got.usage.cost_usd)
        record = await rig.call_record(got.document)
        assert record.asked.again == 1
    # A process that comes after a crash finds both.
    silent = two(RequestRejectedError("nobody may be asked"), default_price=None)
    async with open_rig(llms=silent) as rig:
        again = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (again.completion, again.usage, again.document) == (got.completion, got.usage, got.document)
        assert silent["prime"].requests == []


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.OTHER])
async def test_an_answer_with_nothing_in_it_is_asked_for_once_more_as_it_was(
    open_rig: OpenRig, finish: FinishReason
) -> None:
    empty = ModelCompletion(text=" \n", thinking="Hm.", finish=finish, usage=USED)
    async with open_rig(llms=two(empty, text_completion("something"))) as rig:
        assert (await rig.gateway.ask(inquiry(seed=4), deadline_s=60)).completion.text == "something"
        first, second = rig.prime.requests
        assert first == second


async def test_a_second_answer_with_nothing_in_it_is_the_answer(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(CUT)) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (got.completion.finish, got.usage.calls, len(rig.prime.requests)) == (FinishReason.LENGTH, 2, 2)


@pytest.mark.parametrize(
    "whole",
    [
        ModelCompletion(text="half a sent", finish=FinishReason.LENGTH, usage=USED),
        ModelCompletion(calls=(ToolCall(id="1", name="look", arguments="{"),), finish=FinishReason.LENGTH, usage=USED),
    ],
)
async def test_what_was_cut_in_the_middle_is_an_answer(open_rig: OpenRig, whole: ModelCompletion) -> None:
    async with open_rig(llms=two(whole)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).completion == whole
        assert len(rig.prime.requests) == 1


@pytest.mark.parametrize("fault", [RequestRejectedError("max_tokens is too large"), AuthenticationError("old key")])
async def test_where_asking_once_more_fails_the_empty_answer_counts(open_rig: OpenRig, fault: Exception) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(CUT, fault)) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (got.model, got.completion, got.usage.calls) == (MAIN, CUT, 1)
        assert rig.rows("model, state") == [(MAIN, "done"), (MAIN, "failed")]


async def test_a_budget_without_room_for_twice_the_tokens_leaves_the_empty_answer(open_rig: OpenRig) -> None:
    # The first call may cost 0.01 dollars and a little, and does; the second may cost 0.02.
    tight = section(budget={"question_usd": 0.025, "day_usd": None})
    async with open_rig(tight, llms=two(CUT, text_completion("too dear"), default_price=PRICE)) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (got.completion, len(rig.prime.requests)) == (CUT, 1)
        assert rig.purse_usd == pytest.approx(got.usage.cost_usd)


async def test_what_one_model_refuses_the_fallback_is_asked_and_both_are_paid_for(open_rig: OpenRig) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(REFUSED)) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (got.model, got.completion.text, got.usage.calls) == (SPARE, "spare", 2)
        assert rig.rows("model, state, finish") == [(MAIN, "done", "refused"), (SPARE, "done", "stop")]
        assert got.usage.cost_usd == pytest.approx(rig.purse_usd)


@pytest.mark.parametrize("refused", [REFUSED, replace(REFUSED, text="")])
async def test_a_refusal_is_the_answer_where_nobody_else_is_there(open_rig: OpenRig, refused: ModelCompletion) -> None:
    async with open_rig(llms=two(refused)) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (got.completion, len(rig.prime.requests)) == (refused, 1)
        await rig.settled()
        assert rig.alerts == []


@pytest.mark.parametrize(
    "other", [REFUSED, ServiceUnavailableError("503", retry_after_s=900.0), RequestRejectedError("no")]
)
async def test_a_refusal_is_the_answer_where_no_other_model_has_one(open_rig: OpenRig, other: object) -> None:
    llms = two(REFUSED) | {"other": ScriptedModelProvider(turns=[other])}  # type: ignore[list-item]  # any turn
    async with open_rig(section(roles=with_fallback()), llms=llms) as rig:
        got = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert got.completion.finish is FinishReason.REFUSED
        assert got.usage.calls == (2 if other is REFUSED else 1)
    # Asked again after a crash, nobody is paid twice for a refusal.
    async with open_rig(section(roles=with_fallback()), llms=two(text_completion("another"))) as rig:
        again = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.prime.requests == []
        assert again.completion.finish is FinishReason.REFUSED or again.model == SPARE


def ongoing(model: str) -> Prompt:
    messages = (Message(speaker=MessageRole.USER, text="Will it rain?"),)
    return Prompt(messages=messages, model=model, handover=(Message(speaker=MessageRole.USER, text="In short?"),))


async def test_a_conversation_that_is_too_long_for_its_model_ends_there(open_rig: OpenRig) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(ContextLengthExceededError("too long"))) as rig:
        with pytest.raises(ContextLengthExceededError, match="too long"):
            await rig.gateway.ask(inquiry(ongoing(MAIN)), deadline_s=60)
        assert (len(rig.prime.requests), rig.other.requests) == (1, [])
        # One that has only begun may be short enough for another model.
        assert (await rig.gateway.ask(inquiry("a whole book"), deadline_s=60)).model == SPARE


async def test_an_account_without_money_stops_all_that_would_be_sent_there(open_rig: OpenRig, clock: FakeClock) -> None:
    roles = {"main": {"model": "prime:here/big"}, "filter": {"model": "prime:there/small"}}
    async with open_rig(section(roles=roles), llms=two(BROKE, text_completion("yes"))) as rig:
        asked = [inquiry(str(trial), to=charge(trial=trial)) for trial in range(5)]
        with pytest.raises(QuotaExhaustedError) as first:
            await rig.gateway.ask(asked[0], deadline_s=60)
        rest = await asyncio.gather(*(rig.gateway.ask(one, deadline_s=60) for one in asked[1:]), return_exceptions=True)
        # The same words for all, so that they are told as one.
        assert {str(error) for error in rest} == {str(first.value)}
        assert all(isinstance(error, QuotaExhaustedError) for error in rest)
        for words in ("the account has no money; top it up", "nothing is sent to prime:here", "15 minutes"):
            assert words in str(first.value)
        assert len(rig.prime.requests) == 1
        await rig.settled()
        assert [subject for subject, _ in rig.alerts] == ["No money or quota at prime:here"]
        # Another server behind the same plugin has another account.
        assert (await rig.gateway.ask(inquiry(role="filter"), deadline_s=60)).completion.text == "yes"
        clock.advance_without_waking(QUOTA_RETRY_S)
        assert (await rig.gateway.ask(asked[0], deadline_s=60)).completion.text == "yes"


async def test_a_fallback_at_another_provider_answers_for_an_empty_account(open_rig: OpenRig) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(BROKE)) as rig:
        for number in range(3):
            assert (await rig.gateway.ask(inquiry(str(number)), deadline_s=60)).model == SPARE
        assert len(rig.prime.requests) == 1
        await rig.settled()
        assert len(rig.alerts) == 1


async def test_a_fallback_with_the_same_account_is_not_asked(open_rig: OpenRig) -> None:
    roles = with_fallback(fallback="prime:small")
    async with open_rig(section(roles=roles), llms=two(BROKE)) as rig:
        with pytest.raises(QuotaExhaustedError):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert len(rig.prime.requests) == 1
        assert rig.purse_usd == 0
