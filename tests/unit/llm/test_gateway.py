import asyncio
import hashlib
import json
import subprocess
import sys
import zlib

import pytest

from bot.domain.prompt import Completion, Dialect, Finish, Message, Price, Prompt, Speaker, Tool, ToolCall
from bot.domain.step import Usage
from bot.errors import (
    ConfigError,
    ContractError,
    FoxcastError,
    NotFound,
    Rejected,
    StoreError,
    Unauthorized,
    Unavailable,
)
from bot.llm.record import RECORD, prompt_of
from bot.testing.clock import FakeClock
from bot.testing.llm import Hang, ScriptedLlm, said
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.rig import MAIN, SPARE, Rig, charge, inquiry, revive, rows, section, with_fallback

PRICE = Price(tokens_in=2.0, tokens_cached=0.5, tokens_out=10.0)


def two(*turns: object, **given: object) -> dict[str, ScriptedLlm]:
    return {"prime": ScriptedLlm(turns=[*turns], **given), "other": ScriptedLlm(turns=[said("spare")])}  # type: ignore[arg-type, list-item]


async def test_usage_finish_cost_and_latency_of_an_answer_arrive_in_the_ledger(open_rig: OpenRig) -> None:
    answer = Completion(
        text="No.",
        finish=Finish.LENGTH,
        usage=Usage(calls=1, tokens_in=1000, tokens_cached=600, tokens_out=200),
        model="big-2026",
    )
    async with open_rig(llms=two(answer, price_of_all=PRICE)) as rig:
        got = await rig.gateway.ask(inquiry(seed=3), deadline_s=60)
        # 400 fresh tokens at 2, 600 cached ones at 0.5 and 200 written ones at 10 dollars per million.
        assert got.usage.cost_usd == pytest.approx((400 * 2 + 600 * 0.5 + 200 * 10) / 1e6)
        assert (got.completion, got.model, got.stored) == (answer, MAIN, False)
        (asked,) = rig.prime.requests
        assert (asked.model, asked.sampling.seed, asked.sampling.max_tokens) == ("big", 3, 1000)
        columns = (
            "state, cost_usd, tokens_in, tokens_cached, tokens_out, calls, attempts, finish, provider, role, latency_s"
        )
        assert rig.rows(columns) == [
            ("done", pytest.approx(0.0031), 1000, 600, 200, 1, 1, "length", "prime", "main", 0.0)
        ]
        assert rig.purse_usd == pytest.approx(0.0031)


async def test_what_was_asked_can_be_read_word_for_word_with_plain_tools(rig: Rig) -> None:
    call = ToolCall(id="c1", name="look", arguments='{"at": "the sky"}')
    prompt = Prompt(
        messages=(
            Message(speaker=Speaker.SYSTEM, text="Be brief."),
            Message(speaker=Speaker.ASSISTANT, calls=(call,)),
            Message(speaker=Speaker.TOOL, text="Clouds.", answers="c1"),
        ),
        tools=(Tool(name="look", description="Look.", parameters={"type": "object"}),),
        only="look",
        stable=1,
    )
    answer = await rig.gateway.ask(inquiry(prompt), deadline_s=9)
    record = RECORD.decode((await rig.ledger.documents.get(answer.document)).content.decode())
    restored = await prompt_of(record.asked, rig.ledger.documents)
    assert restored == Prompt(messages=prompt.messages, tools=prompt.tools, only="look")
    packed = {digest: zlib.decompress(blob) for digest, blob in rows(rig.path, "select digest, packed from document")}
    assert [json.loads(packed[part]).get("text") for part in record.asked.messages] == ["Be brief.", None, "Clouds."]
    assert {hashlib.sha256(content).hexdigest() for content in packed.values()} == set(packed)


async def test_growing_prompts_keep_each_message_once(rig: Rig) -> None:
    messages: tuple[Message, ...] = ()
    for number in range(10):
        messages += (Message(speaker=Speaker.USER, text=f"{number} " * 2000),)
        await rig.gateway.ask(inquiry(Prompt(messages=messages)), deadline_s=9)
    sizes = [size for (size,) in rows(rig.path, "select size from document where size > 3000")]
    assert len(sizes) == 10


async def test_the_very_same_request_is_answered_from_the_record(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(said("first"), said("second"))) as rig:
        asked = [
            inquiry(),
            inquiry(to=charge("forecast-2")),
            inquiry(to=charge(trial=2)),
            inquiry(nth=1),
            inquiry(seed=1),
        ]
        answers = [await rig.gateway.ask(each, deadline_s=60) for each in asked]
    assert [answer.completion.text for answer in answers] == ["first", "first", "first", "second", "second"]
    assert [answer.stored for answer in answers] == [False, True, True, False, False]
    assert [answer.usage.calls for answer in answers] == [1, 0, 0, 1, 1]
    assert len({answer.document for answer in answers[:3]}) == 1


async def test_an_answer_paid_for_before_a_crash_is_used_with_its_cost_and_asks_nobody(open_rig: OpenRig) -> None:
    async with open_rig() as rig:
        paid = await rig.gateway.ask(inquiry(), deadline_s=60)
    silent = two(NotFound("nobody may be asked"), price_of_all=None)
    async with open_rig(llms=silent) as rig:
        again = await rig.gateway.ask(inquiry(), deadline_s=60)
    assert (again.completion, again.usage, again.document) == (paid.completion, paid.usage, paid.document)
    assert (again.stored, silent["prime"].requests, silent["prime"].priced) == (True, [], [])


async def test_what_the_fallback_was_paid_for_is_used_though_the_first_model_is_back(open_rig: OpenRig) -> None:
    roles = section(roles=with_fallback())
    async with open_rig(roles, llms=two(Rejected("too long"))) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).model == SPARE
    back = two(said("back"))
    async with open_rig(roles, llms=back) as rig:
        again = await rig.gateway.ask(inquiry(), deadline_s=60)
        other = await rig.gateway.ask(inquiry(to=charge("forecast-2")), deadline_s=60)
    assert (again.model, again.stored, again.usage.calls) == (SPARE, True, 1)
    assert (other.model, other.completion.text) == (MAIN, "back")


async def test_equal_requests_at_once_share_one_call(rig: Rig) -> None:
    asked = [inquiry(to=charge(trial=trial)) for trial in range(1, 21)]
    answers = await asyncio.gather(*(rig.gateway.ask(each, deadline_s=60) for each in asked))
    assert (len(rig.prime.requests), len(rig.rows("id"))) == (1, 1)
    assert sorted(answer.stored for answer in answers) == [False, *[True] * 19]
    assert sum(answer.usage.calls for answer in answers) == 1


async def test_who_waited_for_the_same_request_asks_itself_when_the_first_one_failed(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(Rejected("not now"), said("now"))) as rig:
        both = (rig.gateway.ask(inquiry(to=charge(trial=trial)), deadline_s=60) for trial in (1, 2))
        first, second = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(first, Rejected)
    assert not isinstance(second, BaseException)
    assert second.completion.text == "now"


@pytest.mark.parametrize(
    ("error", "cost"),
    [
        (Unauthorized("the key is old"), 0),
        (Rejected("too long"), 0),
        (NotFound("no such model"), 0),
        (ContractError("two answers"), 1),
    ],
)
async def test_errors_of_a_provider_pass_through_by_type_and_are_on_record(
    open_rig: OpenRig, error: FoxcastError, cost: int
) -> None:
    async with open_rig(llms=two(error)) as rig:
        with pytest.raises(type(error), match=str(error)):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        ((state, attempts, cost_usd, worst_usd, detail),) = rig.rows("state, attempts, cost_usd, worst_usd, detail")
        # What was refused costs nothing; what came back and cannot be read may have been billed.
        assert (state, attempts, cost_usd) == ("failed", 1, cost * worst_usd)
        assert str(error) in detail
        assert rig.purse_usd == pytest.approx(cost_usd)


@pytest.mark.parametrize("fault", [KeyError("choices"), "a text, not a completion", None])
async def test_a_provider_that_fails_as_none_may_breaks_its_contract(open_rig: OpenRig, fault: object) -> None:
    turn = fault if isinstance(fault, Exception) else (lambda _: fault)
    async with open_rig(llms=two(turn)) as rig:
        with pytest.raises(ContractError, match=MAIN):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.rows("state, cost_usd = worst_usd") == [("failed", 1)]


@pytest.mark.parametrize(
    "error", [Unauthorized("old key"), Rejected("too long"), ContractError("bad"), NotFound("gone")]
)
async def test_the_fallback_answers_where_the_model_fails(open_rig: OpenRig, error: FoxcastError) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(error)) as rig:
        answer = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (answer.model, answer.completion.text) == (SPARE, "spare")
        assert rig.rows("model, state") == [(MAIN, "failed"), (SPARE, "done")]


async def test_a_person_is_told_once_a_day_that_nobody_answers_in_a_role(open_rig: OpenRig, clock: FakeClock) -> None:
    llms = two(Unauthorized("old key")) | {"other": ScriptedLlm(turns=[Unauthorized("no key")])}
    async with open_rig(section(roles=with_fallback()), llms=llms) as rig:
        for number in range(3):
            clock.step(12 * 3600 * (number == 2))
            with pytest.raises(Unauthorized, match="no key") as caught:
                await rig.gateway.ask(inquiry(str(number)), deadline_s=60)
            assert "old key" in str(caught.value.__notes__)
            await rig.settled()
            expected = ["No model answers as main", "Provider other refuses the credentials"]
            told = sorted(subject for subject, _ in rig.alerts)
            assert set(expected) < set(told)
            assert len(told) == (6 if number == 2 else 3)


async def test_a_fallback_is_not_given_tools_that_it_does_not_master(open_rig: OpenRig) -> None:
    models = {SPARE: {"dialect": "json"}}
    tools = (Tool(name="look", description="Look.", parameters={"type": "object"}),)
    asked = inquiry(Prompt(messages=inquiry().prompt.messages, tools=tools))
    async with open_rig(section(roles=with_fallback(), models=models), llms=two(Rejected("no tools"))) as rig:
        assert rig.gateway.dialect("main") is Dialect.TOOLS
        with pytest.raises(Rejected, match="no tools"):
            await rig.gateway.ask(asked, deadline_s=60)
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).model == SPARE


@pytest.mark.parametrize("price", [None, Price(tokens_in=0, tokens_cached=0, tokens_out=0)])
async def test_a_model_without_a_price_is_not_asked_and_the_error_names_the_table(
    open_rig: OpenRig, price: Price | None
) -> None:
    async with open_rig(llms=two(said("x"), price_of_all=price)) as rig:
        with pytest.raises(ConfigError, match=r'\[llm\.models\."prime:big"\].*free = true'):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (rig.prime.requests, rig.rows("id")) == ([], [])


async def test_a_model_declared_free_costs_nothing_whatever_budgets_say(open_rig: OpenRig) -> None:
    free = section(models={MAIN: {"free": True}}, budget={"question_usd": 1e-6, "day_usd": 1e-6})
    async with open_rig(free, llms=two(said("x", cost_usd=3.0), price_of_all=None)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == 0
        assert rig.prime.priced == []


async def test_own_prices_go_before_those_of_the_provider(open_rig: OpenRig) -> None:
    own = section(models={MAIN: {"price_in": 7.0, "price_out": 11.0}})
    told = said("x", tokens_in=1_000_000, tokens_out=1_000_000, cost_usd=0.5)
    async with open_rig(own, llms=two(told)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == pytest.approx(18.0)


async def test_a_provider_that_knows_the_cost_is_believed(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(said("x", cost_usd=0.0007))) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == 0.0007


@pytest.mark.parametrize("cost_usd", [float("nan"), float("inf"), -1.0])
async def test_a_cost_that_is_no_amount_is_reckoned_from_the_price(open_rig: OpenRig, cost_usd: float) -> None:
    told = said("x", tokens_in=500_000, tokens_out=0, cost_usd=cost_usd)
    async with open_rig(llms=two(told, price_of_all=PRICE)) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).usage.cost_usd == pytest.approx(1.0)


async def test_an_answer_whose_tokens_nobody_counted_costs_its_worst_case(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(Completion(text="x"), price_of_all=PRICE)) as rig:
        answer = await rig.gateway.ask(inquiry(), deadline_s=60)
        # A thousand tokens may be written at 10 dollars per million; the prompt adds its share.
        assert answer.usage.cost_usd > 0.01
        assert rig.rows("cost_usd = worst_usd") == [(1,)]


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"budget": {"question_usd": 0.005, "day_usd": None}}, r"\[llm\.budget\] question_usd"),
        ({"budget": {"question_usd": None, "day_usd": None, "run_usd": 0.005}}, r"\[llm\.budget\] run_usd"),
        ({"budget": {"question_usd": None, "day_usd": 0.005}}, r"\[llm\.budget\] day_usd"),
        ({"providers": {"prime": {"day_usd": 0.005}}}, r"\[llm\.providers\.prime\] day_usd"),
    ],
)
async def test_a_call_that_a_limit_does_not_allow_is_refused_before_it_leaves(
    open_rig: OpenRig, changes: dict[str, object], setting: str
) -> None:
    async with open_rig(section(**changes), llms=two(said("x"), price_of_all=PRICE)) as rig:
        with pytest.raises(Rejected, match=rf"lantern:rain.*0\.01.*0\.005.*{setting}"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (rig.prime.requests, rig.rows("id"), rig.purse_usd) == ([], [], 0)
        with pytest.raises(Rejected):
            await rig.gateway.ask(inquiry("Will it snow?"), deadline_s=60)
        await rig.settled()
        assert [subject.startswith("Budget") for subject, _ in rig.alerts] == [True]


async def test_a_limit_of_the_question_counts_what_earlier_processes_spent_on_the_forecast(open_rig: OpenRig) -> None:
    limited = section(budget={"question_usd": 0.015, "day_usd": None})
    dear = said("x", tokens_in=0, tokens_out=900)
    async with open_rig(limited, llms=two(dear, price_of_all=PRICE)) as rig:
        await rig.gateway.ask(inquiry("one"), deadline_s=60)
    async with open_rig(limited, llms=two(dear, price_of_all=PRICE)) as rig:
        with pytest.raises(Rejected, match=r"0\.0060 left"):
            await rig.gateway.ask(inquiry("two"), deadline_s=60)
        await rig.gateway.ask(inquiry("two", to=charge("forecast-2")), deadline_s=60)


async def test_calls_in_flight_when_a_process_died_count_at_their_worst_case(
    open_rig: OpenRig, clock: FakeClock
) -> None:
    limited = section(budget={"question_usd": None, "day_usd": 0.015})
    async with open_rig(limited, llms=two(Hang(), price_of_all=PRICE)) as rig:
        asking = asyncio.create_task(rig.gateway.ask(inquiry("one"), deadline_s=60))
        await rig.prime.asked.wait()
        # The file as a killed process leaves it: what was durable when the request was on its way.
        ((left,),) = rig.rows("state")
        copy = rig.leave_as_killed()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert left == "reserved"
    revive(copy, rig.path)
    async with open_rig(limited, llms=two(said("x"), price_of_all=PRICE)) as rig:
        assert rig.rows("state") == [("lost",)]
        with pytest.raises(Rejected, match=r"day_usd"):
            await rig.gateway.ask(inquiry("two"), deadline_s=60)
        clock.step(12 * 3600)
        await rig.gateway.ask(inquiry("two"), deadline_s=60)


async def test_a_role_without_a_model_is_the_operators_concern(rig: Rig) -> None:
    for role in ("mian", "critic"):
        with pytest.raises(ConfigError, match=rf"'{role}' \(.*main.*\); add .*\[llm\.roles\.{role}\] model = "):
            await rig.gateway.ask(inquiry(role=role), deadline_s=60)
        with pytest.raises(ConfigError, match=rf"\[llm\.roles\.{role}\]"):
            rig.gateway.dialect(role)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"roles": {"main": {"model": "prim:big"}}}, r"\[llm\.roles\.main\] model = 'prim:big'.*did you mean prime"),
        (
            {"roles": with_fallback(fallback="nobody:x")},
            r"\[llm\.roles\.main\] fallback = 'nobody:x'.*valid: other, prime",
        ),
        ({"providers": {"prmie": {"day_usd": 1.0}}}, r"\[llm\.providers\.prmie\].*did you mean prime"),
    ],
)
async def test_a_provider_that_is_not_there_is_named_at_the_start(
    open_rig: OpenRig, changes: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        async with open_rig(section(**changes)):
            pytest.fail("the gateway opened")


async def test_what_a_forecast_will_cost_is_taken_from_those_before_it_or_from_prices(open_rig: OpenRig) -> None:
    dear = said("x", tokens_in=0, tokens_out=1_000)
    async with open_rig(llms=two(dear, price_of_all=PRICE)) as rig:
        # 20,000 tokens read at 2 and 1,000 written at 10 dollars per million, thirty times.
        assert await rig.gateway.estimate("scripted", trials=3, steps=10) == pytest.approx(30 * 0.05)
        for number in range(5):
            await rig.gateway.ask(inquiry(to=charge(f"forecast-{number}"), seed=number), deadline_s=60)
        assert await rig.gateway.estimate("scripted", trials=3, steps=10) == pytest.approx(0.01)
        assert await rig.gateway.estimate("another", trials=1, steps=1) == pytest.approx(0.05)


async def test_the_estimate_tells_free_from_unknown(open_rig: OpenRig) -> None:
    async with open_rig(section(models={MAIN: {"free": True}})) as rig:
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) == 0.0
    async with open_rig(llms=two(said("x"), price_of_all=None)) as rig:
        assert await rig.gateway.estimate("scripted", trials=5, steps=10) is None


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [(KeyError("x"), ContractError, rf"{MAIN}.*KeyError.*price"), (Unavailable("later"), Unavailable, "later")],
)
async def test_a_provider_that_fails_when_asked_for_a_price_is_treated_as_one_that_does_not_answer(
    open_rig: OpenRig, fault: Exception, error: type[FoxcastError], words: str
) -> None:
    class Odd(ScriptedLlm):
        async def price(self, model: str) -> Price | None:
            raise fault

    async with open_rig(section(roles=with_fallback()), llms={"prime": Odd(), "other": ScriptedLlm()}) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).model == SPARE
    async with open_rig(llms={"prime": Odd(), "other": ScriptedLlm()}) as rig:
        with pytest.raises(error, match=words):
            await rig.gateway.ask(inquiry("another"), deadline_s=60)


async def test_nothing_leaves_that_is_not_written_down_first(rig: Rig) -> None:
    rig.busy.full = True
    with pytest.raises(StoreError, match="full"):
        await rig.gateway.ask(inquiry(), deadline_s=60)
    assert (rig.prime.requests, rig.purse_usd) == ([], 0)
    rig.busy.full = False
    assert (await rig.gateway.ask(inquiry(), deadline_s=60)).completion.text == "yes"


async def test_an_answer_that_cannot_be_written_down_is_not_used_but_counts(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(lambda _: said("yes"))) as rig:

        def fill(_: Prompt) -> Completion:
            rig.busy.full = True
            return said("yes", cost_usd=0.25)

        rig.prime.turns = [fill]
        with pytest.raises(StoreError, match="full"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.purse_usd == 0.25
    # On record it is still on its way, at its worst case.
    assert rig.rows("state") == [("reserved",)]


async def test_a_provider_that_is_not_configured_is_no_matter_for_a_fallback(open_rig: OpenRig) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(ConfigError("no key is set"))) as rig:
        with pytest.raises(ConfigError, match="no key is set"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.rows("state, cost_usd") == [("failed", 0)]


async def test_without_time_left_nobody_is_asked(rig: Rig) -> None:
    with pytest.raises(Unavailable, match="no answer within"):
        await rig.gateway.ask(inquiry(), deadline_s=0.0)
    await rig.settled()
    assert rig.prime.requests == []


def test_the_gateway_imports_no_provider_and_no_http() -> None:
    heavy = "{'litellm', 'httpx', 'plugins'}"
    program = f"import sys, bot.llm.gateway; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
