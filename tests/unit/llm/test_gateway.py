import asyncio
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.clock import SeededRandom
from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
)
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelCompletion,
    ModelDialect,
    Prompt,
    TokenPrice,
    ToolCall,
    ToolDefinition,
)
from bot.llm.call_records import CALL_RECORD_SERIALIZER, load_prompt
from bot.llm.gateway import open_gateway
from bot.store.compression import decompress_bytes
from bot.store.evidence import evidence_path
from bot.store.evidence_packing import remove_evidence
from bot.store.ledger import open_ledger
from bot.testing.clock import FakeClock
from bot.testing.models import HangingAnswer, ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import (
    MAIN,
    NOON,
    PRICE,
    SPARE,
    GatewayFixture,
    LedgerWriteTracker,
    charge,
    inquiry,
    rows,
    section,
    two,
    with_fallback,
)


async def test_usage_finish_cost_and_latency_of_an_answer_arrive_in_the_ledger(open_rig: OpenRig) -> None:
    answer = ModelCompletion(
        text="No.",
        finish=FinishReason.LENGTH,
        usage=ModelUsage(calls=1, tokens_in=1000, tokens_cached=600, tokens_out=200),
        model="big-2026",
    )
    async with open_rig(llms=two(answer, default_price=PRICE)) as rig:
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


async def test_what_was_asked_can_be_read_word_for_word_with_plain_tools(rig: GatewayFixture) -> None:
    call = ToolCall(id="c1", name="look", arguments='{"at": "the sky"}')
    prompt = Prompt(
        messages=(
            Message(speaker=MessageRole.SYSTEM, text="Be brief."),
            Message(speaker=MessageRole.ASSISTANT, calls=(call,)),
            Message(speaker=MessageRole.TOOL, text="Clouds.", answers="c1"),
        ),
        tools=(ToolDefinition(name="look", description="Look.", parameters={"type": "object"}),),
        allowed=("look",),
        stable=1,
    )
    answer = await rig.gateway.ask(inquiry(prompt), deadline_s=9)
    record = await rig.call_record(answer.document)
    restored = await load_prompt(record.asked, rig.ledger.documents, scope=record.scope)
    assert restored == Prompt(messages=prompt.messages, tools=prompt.tools, allowed=("look",))
    stored = "select json_extract(documents, '$[0][0]'), packed from bundle"
    packed = {digest: decompress_bytes(blob) for digest, blob in rows(evidence_path(rig.path), stored)}
    assert [json.loads(packed[part]).get("text") for part in record.asked.messages] == ["Be brief.", None, "Clouds."]
    assert {hashlib.sha256(content).hexdigest() for content in packed.values()} == set(packed)


@pytest.mark.parametrize("removed_before", [1, 2, 3])
async def test_a_prompt_that_forecasts_share_outlives_the_evidence_of_the_first(
    tmp_path: Path, removed_before: int
) -> None:
    async def alert(_subject: str, _text: str) -> None:
        raise AssertionError

    scopes, llms = ("forecast-1", "forecast-2", "forecast-3"), two(text_completion("yes"))
    async with (
        open_ledger(tmp_path / "ledger.sqlite", now=NOON) as ledger,
        open_gateway(
            section(), llms, ledger=ledger, clock=FakeClock(NOON), random=SeededRandom(7), alert=alert
        ) as gateway,
    ):
        documents = ledger.documents
        for number, scope in enumerate(scopes):
            if number == removed_before:
                await remove_evidence(documents.writer, documents.readers, scopes[:1], at=NOON)
            said = {MessageRole.SYSTEM: "Be brief.", MessageRole.USER: f"Will it rain in {scope}?"}
            prompt = Prompt(messages=tuple(Message(speaker=speaker, text=text) for speaker, text in said.items()))
            answer = await gateway.ask(inquiry(prompt, to=charge(scope)), deadline_s=9)
        again = await gateway.ask(inquiry(prompt, to=charge("forecast-4")), deadline_s=9)
        await remove_evidence(documents.writer, documents.readers, scopes[:2], at=NOON)
        record = CALL_RECORD_SERIALIZER.decode((await documents.get(answer.document, scope=scopes[2])).content.decode())
        assert (await load_prompt(record.asked, documents, scope=scopes[2])).messages == prompt.messages
        await remove_evidence(documents.writer, documents.readers, scopes[2:], at=NOON)
        # The answer to an equal request is on record where it was used.
        assert again.stored
        assert (await documents.get(again.document, scope="forecast-4")).content


async def test_growing_prompts_keep_each_message_once(rig: GatewayFixture) -> None:
    messages: tuple[Message, ...] = ()
    for number in range(10):
        messages += (Message(speaker=MessageRole.USER, text=f"{number} " * 2000),)
        await rig.gateway.ask(inquiry(Prompt(messages=messages)), deadline_s=9)
    stored = [decompress_bytes(packed) for (packed,) in rows(evidence_path(rig.path), "select packed from bundle")]
    assert len([content for content in stored if len(content) > 3000]) == 10


async def test_the_very_same_request_is_answered_from_the_record(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(text_completion("first"), text_completion("second"))) as rig:
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


class FakeRelocatableProvider(ScriptedModelProvider):
    """A provider whose models are served at an address that may change."""

    address: object = ""

    def place(self, model: str) -> object:
        if isinstance(self.address, Exception):
            raise self.address
        return f"{self.address}/{model}" if isinstance(self.address, str) else self.address


def placed(address: object) -> dict[str, ScriptedModelProvider]:
    llm = FakeRelocatableProvider(turns=[text_completion(f"from {address}")])
    llm.address = address
    return {"prime": llm, "other": ScriptedModelProvider()}


async def test_the_same_model_served_elsewhere_is_asked_again(open_rig: OpenRig) -> None:
    texts = []
    for address in ("one", "two", "one"):
        async with open_rig(llms=placed(address)) as rig:
            texts.append((await rig.gateway.ask(inquiry(), deadline_s=60)).completion.text)
            asked = rig.rows("count(*)")
    assert texts == ["from one", "from two", "from one"]
    assert asked == [(2,)]


async def test_a_provider_without_a_place_finds_what_was_recorded_before_there_were_places(rig: GatewayFixture) -> None:
    await rig.gateway.ask(inquiry(), deadline_s=60)
    ((request,),) = rig.rows("request")
    parts = rig.gateway.prompt_documents.prompt_documents(inquiry().prompt)
    sampling = {"max_tokens": 1000}
    asked = {
        "messages": [part.digest for part in parts.messages],
        "model": MAIN,
        "offer": parts.options.digest,
        "sampling": sampling,
    }
    assert request == hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize(
    ("address", "words"), [(LookupError("sk-secret"), r"LookupError \(test_gateway"), (7, "gives its location as int")]
)
async def test_a_provider_that_cannot_say_where_it_serves_breaks_its_contract(
    open_rig: OpenRig, address: object, words: str
) -> None:
    async with open_rig(llms=placed(address)) as rig:
        with pytest.raises(MalformedDataError, match=words):
            await rig.gateway.ask(inquiry(), deadline_s=60)
    async with open_rig(llms=placed(ConfigError("no such endpoint"))) as rig:
        with pytest.raises(ConfigError, match="no such endpoint"):
            await rig.gateway.ask(inquiry(), deadline_s=60)


async def test_an_answer_paid_for_before_a_crash_is_used_with_its_cost_and_asks_nobody(open_rig: OpenRig) -> None:
    async with open_rig() as rig:
        paid = await rig.gateway.ask(inquiry(), deadline_s=60)
    silent = two(NotFoundError("nobody may be asked"), default_price=None)
    async with open_rig(llms=silent) as rig:
        again = await rig.gateway.ask(inquiry(), deadline_s=60)
    assert (again.completion, again.usage, again.document) == (paid.completion, paid.usage, paid.document)
    assert (again.stored, silent["prime"].requests, silent["prime"].priced_models) == (True, [], [])


async def test_what_the_fallback_was_paid_for_is_used_though_the_first_model_is_back(open_rig: OpenRig) -> None:
    roles = section(roles=with_fallback())
    async with open_rig(roles, llms=two(RequestRejectedError("too long"))) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).model == SPARE
    back = two(text_completion("back"))
    async with open_rig(roles, llms=back) as rig:
        again = await rig.gateway.ask(inquiry(), deadline_s=60)
        other = await rig.gateway.ask(inquiry(to=charge("forecast-2")), deadline_s=60)
    assert (again.model, again.stored, again.usage.calls) == (SPARE, True, 1)
    assert (other.model, other.completion.text) == (MAIN, "back")


async def test_a_call_that_failed_is_made_again_by_a_process_that_starts_at_the_same_moment(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(RequestRejectedError("not now"))) as rig:
        with pytest.raises(RequestRejectedError, match="not now"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
    async with open_rig(llms=two(text_completion("now"))) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).completion.text == "now"
        assert rig.rows("state") == [("failed",), ("done",)]


async def ask_in_vain(rig: GatewayFixture) -> None:
    with pytest.raises(RequestRejectedError, match="not now"):
        await rig.gateway.ask(inquiry(), deadline_s=60)


async def test_no_call_of_several_processes_at_one_moment_takes_the_place_of_another(open_rig: OpenRig) -> None:
    """Processes that make one, one and two calls of the same request: each is on record, with its own id."""
    for count in (1, 1, 2):
        async with open_rig(llms=two(RequestRejectedError("not now"))) as rig:
            for _ in range(count):
                await ask_in_vain(rig)
    assert rows(rig.path, "select count(distinct id), count(*) from model_call where state = 'failed'") == [(4, 4)]


async def test_the_record_of_a_cancelled_call_says_whether_it_was_sent(open_rig: OpenRig) -> None:
    tracker = LedgerWriteTracker()
    async with open_rig(llms=two(HangingAnswer(), default_price=PRICE), busy=tracker) as rig:
        sent = asyncio.create_task(rig.gateway.ask(inquiry("sent"), deadline_s=60))
        await rig.prime.first_request.wait()
        waiting = asyncio.create_task(rig.gateway.ask(inquiry("waiting"), deadline_s=60))
        # The first thing that a call writes is that it is about to be sent.
        while not tracker.count:  # noqa: ASYNC110 - it is written by a thread
            await asyncio.sleep(0)
        for task in (sent, waiting):
            task.cancel()
        await asyncio.wait([sent, waiting])
        await rig.settled()
        # What was sent may be billed; what was not, is not.
        assert rig.rows("state, detail, attempts, calls, cost_usd = worst_usd, cost_usd") == [
            ("failed", "cancelled", 1, 1, 1, rig.purse_usd),
            ("failed", "cancelled before it was sent", 0, 0, 0, 0.0),
        ]
        assert len(rig.prime.requests) == 1


async def test_who_gives_up_before_a_lost_request_is_repeated_pays_for_the_lost_one_alone(
    open_rig: OpenRig, clock: FakeClock
) -> None:
    tracker = LedgerWriteTracker()
    lost = ServiceUnavailableError("no reply")
    lost.__cause__ = ConnectionResetError()
    async with open_rig(llms=two(lost, default_price=PRICE), busy=tracker) as rig:
        asking = asyncio.create_task(rig.gateway.ask(inquiry(), deadline_s=60))
        await rig.prime.first_request.wait()
        # The next thing that is written, after a wait, is that the reply was lost.
        tracker.begun.clear()
        passing = asyncio.create_task(clock.advance(60.0))
        await tracker.begun.wait()
        asking.cancel()
        passing.cancel()
        await asyncio.wait([asking, passing])
        await rig.settled()
        ((state, cost_usd, worst_usd),) = rig.rows("state, cost_usd, worst_usd")
        assert (state, cost_usd, rig.purse_usd, len(rig.prime.requests)) == ("failed", worst_usd, worst_usd, 1)


async def test_equal_requests_at_once_share_one_call(rig: GatewayFixture) -> None:
    asked = [inquiry(to=charge(trial=trial)) for trial in range(1, 21)]
    answers = await asyncio.gather(*(rig.gateway.ask(each, deadline_s=60) for each in asked))
    assert (len(rig.prime.requests), len(rig.rows("id"))) == (1, 1)
    assert sorted(answer.stored for answer in answers) == [False, *[True] * 19]
    assert sum(answer.usage.calls for answer in answers) == 1


async def test_who_waited_for_the_same_request_asks_itself_when_the_first_one_failed(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(RequestRejectedError("not now"), text_completion("now"))) as rig:
        both = (rig.gateway.ask(inquiry(to=charge(trial=trial)), deadline_s=60) for trial in (1, 2))
        first, second = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(first, RequestRejectedError)
    assert not isinstance(second, BaseException)
    assert second.completion.text == "now"


@pytest.mark.parametrize(
    ("error", "cost"),
    [
        (AuthenticationError("the key is old"), 0),
        (RequestRejectedError("too long"), 0),
        (NotFoundError("no such model"), 0),
        (MalformedDataError("two answers"), 1),
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
        with pytest.raises(MalformedDataError, match=MAIN):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.rows("state, cost_usd = worst_usd") == [("failed", 1)]


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("old key"),
        RequestRejectedError("too long"),
        MalformedDataError("bad"),
        NotFoundError("gone"),
    ],
)
async def test_the_fallback_answers_where_the_model_fails(open_rig: OpenRig, error: FoxcastError) -> None:
    async with open_rig(section(roles=with_fallback()), llms=two(error)) as rig:
        answer = await rig.gateway.ask(inquiry(), deadline_s=60)
        assert (answer.model, answer.completion.text) == (SPARE, "spare")
        assert rig.rows("model, state") == [(MAIN, "failed"), (SPARE, "done")]


async def test_a_person_is_told_once_a_day_that_nobody_answers_in_a_role(open_rig: OpenRig, clock: FakeClock) -> None:
    llms = two(AuthenticationError("old key")) | {"other": ScriptedModelProvider(turns=[AuthenticationError("no key")])}
    async with open_rig(section(roles=with_fallback()), llms=llms) as rig:
        for number in range(3):
            clock.set_wall_clock(12 * 3600 * (number == 2))
            with pytest.raises(AuthenticationError, match="no key") as caught:
                await rig.gateway.ask(inquiry(str(number)), deadline_s=60)
            assert "old key" in str(caught.value.__notes__)
            await rig.settled()
            expected = ["No model answers as main", "Provider other refuses the credentials"]
            told = sorted(subject for subject, _ in rig.alerts)
            assert set(expected) < set(told)
            assert len(told) == (6 if number == 2 else 3)


async def test_a_fallback_is_not_given_tools_that_it_does_not_master(open_rig: OpenRig) -> None:
    models = {SPARE: {"dialect": "json"}}
    tools = (ToolDefinition(name="look", description="Look.", parameters={"type": "object"}),)
    asked = inquiry(Prompt(messages=inquiry().prompt.messages, tools=tools))
    async with open_rig(
        section(roles=with_fallback(), models=models), llms=two(RequestRejectedError("no tools"))
    ) as rig:
        assert rig.gateway.dialect("main") is ModelDialect.TOOLS
        with pytest.raises(RequestRejectedError, match="no tools"):
            await rig.gateway.ask(asked, deadline_s=60)
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).model == SPARE


async def test_a_role_without_a_model_is_the_operators_concern(rig: GatewayFixture) -> None:
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
        (
            {"providers": {"prmie": {"day_usd": 1.0}}},
            r"\[llm\.providers\.prmie\]: no enabled plugin offers a provider 'prmie' \(did you mean prime\?\)",
        ),
    ],
)
async def test_a_provider_that_is_not_there_is_named_at_the_start(
    open_rig: OpenRig, changes: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        async with open_rig(section(**changes)):
            pytest.fail("the gateway opened")


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (KeyError("x"), MalformedDataError, rf"{MAIN}.*KeyError.*price"),
        (ServiceUnavailableError("later"), ServiceUnavailableError, "later"),
    ],
)
async def test_a_provider_that_fails_when_asked_for_a_price_is_treated_as_one_that_does_not_answer(
    open_rig: OpenRig, fault: Exception, error: type[FoxcastError], words: str
) -> None:
    class Odd(ScriptedModelProvider):
        async def price(self, model: str) -> TokenPrice | None:
            raise fault

    async with open_rig(section(roles=with_fallback()), llms={"prime": Odd(), "other": ScriptedModelProvider()}) as rig:
        assert (await rig.gateway.ask(inquiry(), deadline_s=60)).model == SPARE
    async with open_rig(llms={"prime": Odd(), "other": ScriptedModelProvider()}) as rig:
        with pytest.raises(error, match=words):
            await rig.gateway.ask(inquiry("another"), deadline_s=60)


async def test_nothing_leaves_that_is_not_written_down_first(rig: GatewayFixture) -> None:
    rig.busy.full = True
    with pytest.raises(StoreError, match="full"):
        await rig.gateway.ask(inquiry(), deadline_s=60)
    assert (rig.prime.requests, rig.purse_usd) == ([], 0)
    rig.busy.full = False
    assert (await rig.gateway.ask(inquiry(), deadline_s=60)).completion.text == "yes"


async def test_an_answer_that_cannot_be_written_down_is_not_used_but_counts(open_rig: OpenRig) -> None:
    async with open_rig(llms=two(lambda _: text_completion("yes"))) as rig:

        def fill(_: Prompt) -> ModelCompletion:
            rig.busy.full = True
            return text_completion("yes", cost_usd=0.25)

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


async def test_without_time_left_nobody_is_asked(rig: GatewayFixture) -> None:
    with pytest.raises(ServiceUnavailableError, match="no answer within"):
        await rig.gateway.ask(inquiry(), deadline_s=0.0)
    await rig.settled()
    assert rig.prime.requests == []


def test_the_gateway_imports_no_provider_and_no_http() -> None:
    heavy = "{'litellm', 'httpx', 'plugins'}"
    program = f"import sys, bot.llm.gateway; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_call_without_a_key_counts_as_no_request(open_rig: OpenRig) -> None:
    llms = {
        "prime": ScriptedModelProvider(turns=[AuthenticationError("no key; set KEY", sent=False)]),
        "other": ScriptedModelProvider(),
    }
    async with open_rig(section(), llms=llms) as rig:
        with pytest.raises(AuthenticationError, match="set KEY"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.rows("state, attempts, calls, cost_usd") == [("failed", 0, 0, 0.0)]
