import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.llm import budget as purses
from bot.llm.budget import BudgetReservation, BudgetShortage, SpendingBudget, SpendingRequest
from bot.store.model_calls import ScopeSpending
from bot.testing.clock import FakeClock
from tests.unit.llm.gateway_fixture import NOON, section

T = TypeVar("T")

LIMITS = {
    "budget": {"question_usd": 1.0, "run_usd": 3.0, "day_usd": 2.5},
    "providers": {"prime": {"day_usd": 2.0}, "other": {}},
}


def purse(clock: FakeClock | None = None, **changes: Any) -> SpendingBudget:
    return SpendingBudget(section(**(LIMITS | changes)), clock=clock or FakeClock(NOON))


async def held(
    purse: SpendingBudget, usd: float, *, scope: str = "a", provider: str = "prime"
) -> BudgetReservation | BudgetShortage:
    purse.load_scope(scope, 0.0)
    return await soon(purse.reserve(SpendingRequest(scope=scope, provider=provider, worst_usd=usd)))


async def soon(work: Awaitable[T]) -> T:
    """Return the result of what need not wait, and raise TimeoutError for what does."""
    async with asyncio.timeout(0.05):
        return await work


async def hold(purse: SpendingBudget, usd: float, **given: str) -> BudgetReservation:
    got = await held(purse, usd, **given)
    assert isinstance(got, BudgetReservation)
    return got


async def shortage(purse: SpendingBudget, usd: float, **given: str) -> str:
    got = await held(purse, usd, **given)
    assert isinstance(got, BudgetShortage)
    return got.limit.setting


async def test_a_call_is_held_at_its_worst_case_and_settled_at_its_cost() -> None:
    bag = purse()
    first = await hold(bag, 0.5)
    assert (bag.run_account.spent_usd, bag.run_account.reserved_usd, bag.day_account.committed_usd) == (0, 0.5, 0.5)
    bag.settle(first, 0.125)
    bag.settle(first, 0.125)
    assert (bag.run_account.spent_usd, bag.run_account.reserved_usd, bag.day_account.committed_usd) == (0.125, 0, 0.125)


async def test_each_limit_refuses_by_itself() -> None:
    assert await shortage(purse(), 1.01) == "[llm.budget] question_usd"
    bag = purse()
    for scope in "ab":
        bag.settle(await hold(bag, 1.0, scope=scope), 1.0)
    assert await shortage(bag, 0.1, scope="c") == "[llm.providers.prime] day_usd"
    assert await shortage(bag, 0.6, scope="c", provider="other") == "[llm.budget] day_usd"
    bag.settle(await hold(bag, 0.5, scope="c", provider="other"), 0.5)
    assert await shortage(bag, 0.5, scope="d", provider="other") == "[llm.budget] day_usd"
    await hold(bag, 0.0, scope="d")


async def test_a_new_day_begins_with_nothing_spent_but_the_run_goes_on() -> None:
    clock = FakeClock(NOON)
    bag = purse(clock)
    late = await hold(bag, 1.0, scope="a")
    for scope in "bc":
        bag.settle(await hold(bag, 0.5, scope=scope), 0.5)
    clock.set_wall_clock(timedelta(hours=12).total_seconds())
    assert bag.day_account.committed_usd == 0
    # A call belongs to the day on which it was begun.
    bag.settle(late, 1.0)
    assert (bag.day_account.committed_usd, bag.run_account.spent_usd) == (0, 2.0)
    assert await shortage(bag, 1.01, scope="e") == "[llm.budget] question_usd"
    bag.settle(await hold(bag, 1.0, scope="e"), 1.0)
    assert await shortage(bag, 0.1, scope="f") == "[llm.budget] run_usd"


async def test_what_was_spent_today_before_this_run_counts() -> None:
    bag = purse()
    bag.load_day(
        [
            ScopeSpending(scope="x", provider="prime", cost_usd=1.5),
            ScopeSpending(scope="y", provider="other", cost_usd=0.5),
            ScopeSpending(scope="z", provider="prime", cost_usd=0.25),
        ]
    )
    assert await shortage(bag, 0.26) == "[llm.providers.prime] day_usd"
    assert await shortage(bag, 0.26, provider="other") == "[llm.budget] day_usd"
    assert bag.run_account.committed_usd == 0


async def test_a_call_waits_for_those_under_way_that_may_turn_out_cheaper() -> None:
    bag = purse()
    first = await hold(bag, 0.75)
    waiting = [
        asyncio.create_task(bag.reserve(SpendingRequest(scope="a", provider="prime", worst_usd=0.5))) for _ in range(2)
    ]
    done, _ = await asyncio.wait(waiting, timeout=0.01)
    assert done == set()
    bag.settle(first, 0.25)
    second = await soon(waiting[0])
    assert isinstance(second, BudgetReservation)
    assert not waiting[1].done()
    bag.settle(second, 0.5)
    # Now it fits under no settlement any more.
    assert isinstance(await soon(waiting[1]), BudgetShortage)


async def test_those_who_wait_are_served_in_the_order_of_arrival_and_nobody_overtakes_them() -> None:
    bag = purse()
    first = await hold(bag, 0.75)
    served: list[str] = []

    async def wait(name: str, usd: float) -> BudgetReservation | BudgetShortage:
        got = await bag.reserve(SpendingRequest(scope="a", provider="prime", worst_usd=usd))
        served.append(name)
        return got

    big = asyncio.create_task(wait("big", 0.75))
    await asyncio.sleep(0)
    # It would fit now, but the big one came first.
    small = asyncio.create_task(wait("small", 0.125))
    await asyncio.sleep(0)
    # What costs nothing, and who is not charged to the same limit, need not wait.
    await hold(bag, 0.0)
    other = await hold(bag, 0.5, scope="b")
    assert (big.done(), small.done()) == (False, False)
    bag.settle(first, 0.125)
    held = [await soon(big), await soon(small)]
    assert served == ["big", "small"]
    for one in (*held, other):
        assert isinstance(one, BudgetReservation)
        bag.settle(one, 0.0)
    assert bag.run_account.committed_usd == pytest.approx(0.125)


async def test_who_stops_waiting_lets_those_behind_pass() -> None:
    bag = purse()
    first = await hold(bag, 0.75)
    big = asyncio.create_task(bag.reserve(SpendingRequest(scope="a", provider="prime", worst_usd=0.75)))
    await asyncio.sleep(0)
    small = asyncio.create_task(bag.reserve(SpendingRequest(scope="a", provider="prime", worst_usd=0.125)))
    await asyncio.sleep(0)
    big.cancel()
    assert isinstance(await soon(small), BudgetReservation)
    assert bag.run_account.reserved_usd == pytest.approx(0.875)
    bag.settle(first, 0.0)


async def test_who_is_cancelled_at_the_moment_of_being_served_holds_nothing() -> None:
    bag = purse()
    first = await hold(bag, 0.75)
    tasks = [
        asyncio.create_task(bag.reserve(SpendingRequest(scope="a", provider="prime", worst_usd=0.75))) for _ in range(2)
    ]
    await asyncio.sleep(0)
    bag.settle(first, 0.0)
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert isinstance(await soon(tasks[1]), BudgetReservation)
    assert bag.run_account.reserved_usd == 0.75


async def test_who_stops_waiting_holds_nothing() -> None:
    bag = purse()
    first = await hold(bag, 0.75)
    with pytest.raises(TimeoutError):
        await held(bag, 0.5)
    bag.settle(first, 0.0)
    assert bag.run_account.committed_usd == 0
    await hold(bag, 1.0)


async def test_scopes_are_forgotten_when_idle_and_never_while_in_use() -> None:
    bag = purse()
    kept = await hold(bag, 0.5, scope="kept")
    for number in range(purses.MAX_SCOPES + 10):
        bag.load_scope(f"scope {number}", 0.0)
    assert bag.knows_scope("kept")
    assert not bag.knows_scope("scope 0")
    bag.settle(kept, 0.5)


async def test_a_scope_is_in_use_until_the_last_of_its_calls_is_settled() -> None:
    bag = purse()
    calls = [await hold(bag, usd) for usd in (0.1, 0.2, 0.3)]

    def is_known_after_many_others() -> bool:
        for number in range(purses.MAX_SCOPES + 1):
            bag.load_scope(f"{len(calls)} {number}", 0.0)
        return bag.knows_scope("a")

    while calls:
        assert is_known_after_many_others()
        bag.settle(calls.pop(), 0.0)
    # Nothing is reserved, not even a rounding error.
    assert (bag.run_account.reserved_usd, bag.run_account.is_idle) == (0.0, True)
    assert not is_known_after_many_others()


async def test_a_scope_is_in_use_while_one_of_its_calls_waits_and_not_after_that() -> None:
    bag = purse()
    # Both take all that the provider may cost in a day.
    first, second = [await hold(bag, 1.0, scope=scope) for scope in "bc"]
    bag.load_scope("a", 0.0)
    waiting, gives_up = [
        asyncio.create_task(bag.reserve(SpendingRequest(scope="a", provider="prime", worst_usd=0.5))) for _ in range(2)
    ]
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.wait([gives_up])

    def is_known_after_many_others(name: str) -> bool:
        for number in range(purses.MAX_SCOPES + 1):
            bag.load_scope(f"{name} {number}", 0.0)
        return bag.knows_scope("a")

    assert is_known_after_many_others("waiting")
    bag.settle(first, 0.0)
    served = await soon(waiting)
    assert isinstance(served, BudgetReservation)
    bag.settle(served, 0.0)
    assert not is_known_after_many_others("settled")
    bag.settle(second, 0.0)


Move = tuple[str, int, float]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["hold a prime", "hold b prime", "hold c other", "hold d other", "settle", "midnight"]),
        st.integers(0, 100),
        st.floats(0, 1.2, allow_nan=False),
    ),
    max_size=60,
)


@given(MOVES)
def test_no_order_of_calls_takes_the_purse_over_a_limit(moves: list[Move]) -> None:
    asyncio.run(_play(moves))


async def _play(moves: list[Move]) -> None:
    clock = FakeClock(NOON)
    bag = purse(clock)
    open_holds: list[BudgetReservation] = []
    # The books of the test, exact and by its own rules: (scope, provider, day) of each hold and what stands for it.
    books: dict[BudgetReservation, tuple[str, str, int, Decimal]] = {}
    day = 0
    for move, pick, usd in moves:
        match move.split():
            case ["hold", scope, provider]:
                bag.load_scope(scope, 0.0)
                task = asyncio.create_task(bag.reserve(SpendingRequest(scope=scope, provider=provider, worst_usd=usd)))
                await asyncio.sleep(0)
                if task.done() and isinstance(got := task.result(), BudgetReservation):
                    open_holds.append(got)
                    books[got] = (scope, provider, day, Decimal(usd))
                task.cancel()
            case ["settle"] if open_holds:
                done = open_holds.pop(pick % len(open_holds))
                cost = done.request.worst_usd * min(1.0, usd)
                bag.settle(done, cost)
                books[done] = (*books[done][:3], Decimal(cost))
            case ["midnight"]:
                clock.set_wall_clock(86_400)
                day += 1
        _check(list(books.values()), day)
    run = sum((amount for *_, amount in books.values()), Decimal(0))
    assert bag.run_account.committed_usd == pytest.approx(float(run), abs=1e-9)


def _check(books: list[tuple[str, str, int, Decimal]], day: int) -> None:
    slack = Decimal("1e-6")
    today = [entry for entry in books if entry[2] == day]
    for scope in "abcd":
        assert sum(amount for name, _, _, amount in books if name == scope) <= 1 + slack
    assert sum(amount for _, provider, _, amount in today if provider == "prime") <= 2 + slack
    assert sum(amount for *_, amount in today) <= Decimal("2.5") + slack
    assert sum(amount for *_, amount in books) <= 3 + slack
