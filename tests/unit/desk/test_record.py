"""The record of a trial: told once, told the same again, in any order, and nothing beyond it once it is sealed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bot.desk.record import Record, digest_of
from bot.errors import (
    ConfigError,
    ContractError,
    FoxcastError,
    LeakError,
    NotFound,
    PluginError,
    Rejected,
    StoreError,
    Unauthorized,
    Unavailable,
)
from bot.store.exchanges import ExchangeKey
from tests.unit.desk.workbench import Desk

A, B = digest_of("a"), digest_of("b")


async def record(desk: Desk, *, sealed: bool = False) -> Record:
    made = Record(desk.ledger.exchanges, "f1", 1, desk.clock, sealed)
    await made.load()
    return made


async def say(what: Any) -> Any:
    if isinstance(what, Exception):
        raise what
    return what


def saying(what: Any) -> Callable[[int], Awaitable[Any]]:
    return lambda _: say(what)


async def never(nth: int) -> Any:
    pytest.fail("asked again")


async def test_what_is_on_record_is_told_in_any_order_and_counted_by_question(desk: Desk) -> None:
    first = await record(desk)
    for asked, what in ((A, 1), (B, 2), (A, 3)):
        await first.through("search", asked, saying(what))
    again = await record(desk)
    told = [(await again.through("search", asked, never)).plain for asked in (B, A, A)]
    assert told == [2, 1, 3]
    assert (await again.through("search", A, say)).plain == 2


async def test_it_is_on_record_before_it_is_told(desk: Desk) -> None:
    told = await (await record(desk)).through("page", A, lambda _: say({"x": [1.5, "\u00e9"]}))
    kept = (await desk.ledger.exchanges.of("f1", 1))[ExchangeKey("page", A)]
    assert kept.digest == told.digest
    assert (await desk.ledger.documents.get(told.digest)).content == kept.body.encode()


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("later", retry_after_s=3.5),
        Unavailable("later"),
        Unauthorized("key"),
        Rejected("no"),
        ContractError("odd"),
        NotFound("gone"),
        LeakError("late"),
        ConfigError("table"),
    ],
)
async def test_an_error_is_told_again_as_it_was(desk: Desk, error: FoxcastError) -> None:
    for make in (saying(error), never):
        with pytest.raises(type(error), match=str(error)) as caught:
            await (await record(desk)).through("model", A, make)
        assert getattr(caught.value, "retry_after_s", None) == getattr(error, "retry_after_s", None)


async def test_an_error_of_a_narrower_kind_is_told_as_the_kind_that_a_port_knows(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="plugin"):
        await (await record(desk)).through("model", A, lambda _: say(PluginError("plugin")))


async def test_trouble_with_the_store_is_not_told_again(desk: Desk) -> None:
    with pytest.raises(StoreError):
        await (await record(desk)).through("model", A, lambda _: say(StoreError("full")))
    assert (await (await record(desk)).through("model", A, lambda _: say(1))).plain == 1


async def test_what_json_cannot_say_is_a_broken_contract(desk: Desk) -> None:
    with pytest.raises(ContractError):
        await (await record(desk)).through("series", A, lambda _: say(float("nan")))


async def test_what_was_cancelled_was_not_asked(desk: Desk) -> None:
    here = await record(desk)
    begun = asyncio.Event()

    async def hang(nth: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(here.through("model", A, hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await desk.ledger.exchanges.of("f1", 1) == {}
    assert (await here.through("model", A, say)).plain == 0


async def test_the_same_question_asked_twice_at_once_is_two_exchanges(desk: Desk) -> None:
    here = await record(desk)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(here.through("model", A, say)) for _ in range(3)]
    assert [task.result().plain for task in tasks] == [0, 1, 2]


async def test_a_sealed_record_asks_nobody_and_says_so(desk: Desk) -> None:
    await (await record(desk)).through("model", A, lambda _: say(1))
    sealed = await record(desk, sealed=True)
    assert (await sealed.through("model", A, never)).plain == 1
    for kind, asked in (("model", A), ("search", A), ("model", B)):
        with pytest.raises(NotFound, match="not on record"):
            await sealed.through(kind, asked, never)
    with pytest.raises(NotFound, match="no dialect"):
        sealed.at_once("dialect", A, lambda: 1)


async def test_a_sealed_record_reads_what_the_trial_heard_and_not_what_tools_asked_for_it(desk: Desk) -> None:
    first = await record(desk)
    first.at_once("desk", A, lambda: 1)
    for kind in ("search", "page", "model", "tool"):
        await first.through(kind, A, say)
    assert {key.kind for key in (await record(desk)).known} == {"desk", "search", "page", "model", "tool"}
    sealed = await record(desk, sealed=True)
    assert {key.kind for key in sealed.known} == {"desk", "model", "tool"}
    sealed.count((f"search {A} 0", f"page {A} 0"))
    assert (await sealed.through("tool", A, never)).plain == 0


async def test_what_needs_no_waiting_is_on_record_before_what_follows(desk: Desk) -> None:
    here = await record(desk)
    assert here.at_once("desk", A, lambda: [1]) == [1]
    assert await desk.ledger.exchanges.of("f1", 1) == {}

    async def look() -> list[str]:
        return [key.kind for key in await desk.ledger.exchanges.of("f1", 1)]

    assert (await here.through("model", B, lambda _: look())).plain == ["desk"]
    assert (await record(desk)).at_once("desk", A, lambda: [2]) == [1]


@pytest.mark.parametrize("asked", [{"x": object()}, {"x": {1, 2}}])
def test_a_question_that_cannot_be_written_down_is_refused(asked: object) -> None:
    with pytest.raises(ContractError, match="cannot be written down"):
        digest_of(asked)


def test_the_digest_of_a_question_does_not_depend_on_the_order_of_its_parts() -> None:
    assert digest_of({"a": 1, "b": [2, 3]}) == digest_of({"b": [2, 3], "a": 1})
    assert digest_of({"a": "\ud800"}) != digest_of({"a": "\ufffd"})
