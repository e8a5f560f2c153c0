"""The fate of a call whose reply was lost on its way: paid for once more at most, and never for nothing."""

import asyncio

import pytest

from bot.core.errors import ServiceUnavailableError
from bot.store.cost_totals import CostGrouping
from bot.testing.models import HangingAnswer, SlowAnswer, text_completion
from tests.simulation.virtual_gateway import DOWN, VirtualGateway, failure, waiting
from tests.unit.llm.gateway_fixture import GatewayFixture, inquiry

COLUMNS = "state, attempts, calls, cost_usd = worst_usd"
LOST, DONE = ("failed", 1, 1, 1), ("done", 1, 1, 0)


def gone() -> ServiceUnavailableError:
    error = ServiceUnavailableError("the connection broke")
    error.__cause__ = ConnectionResetError()
    return error


def test_what_was_lost_is_asked_once_more_and_both_are_on_record(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        answer = await fixture.gateway.ask(inquiry(), deadline_s=60)
        await fixture.settled()
        assert (answer.completion.text, len(fixture.prime.requests)) == ("yes", 2)
        assert fixture.rows(COLUMNS) == [LOST, DONE]
        assert "lost" in fixture.rows("detail")[0][0]
        lost, again = fixture.rows("id, request")
        assert (lost[0] != again[0], lost[1] == again[1]) == (True, True)

    virtual_gateway.play(scenario, gone(), text_completion("yes"), section=waiting())


def test_the_purse_knows_of_both(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        answer = await fixture.gateway.ask(inquiry(), deadline_s=60)
        run = fixture.gateway.accounting.budget.run_account
        ((worst_usd,), _) = fixture.rows("worst_usd")
        assert run.reserved_usd == 0
        assert run.spent_usd == pytest.approx(worst_usd + answer.usage.cost_usd)
        (row,) = await fixture.ledger.calls.costs(CostGrouping.MODEL)
        assert (row.calls, row.failed, row.attempts) == (2, 1, 2)
        assert row.usage.cost_usd == pytest.approx(run.spent_usd)

    virtual_gateway.play(scenario, gone(), text_completion("yes"), section=waiting())


def test_the_second_loss_is_the_last(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        error = await failure(fixture, deadline_s=600)
        assert isinstance(error, ServiceUnavailableError)
        assert len(fixture.prime.requests) == 2
        assert fixture.rows(COLUMNS) == [LOST, LOST]

    virtual_gateway.play(scenario, gone(), gone(), text_completion("never asked"), section=waiting(attempts=10))


@pytest.mark.parametrize("again", [0, 3])
def test_how_often_it_is_asked_again_is_a_setting(virtual_gateway: VirtualGateway, again: int) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert isinstance(await failure(fixture, deadline_s=600), ServiceUnavailableError)
        assert fixture.rows(COLUMNS) == [LOST] * (again + 1)

    virtual_gateway.play(scenario, gone(), section=waiting(attempts=10, lost_retries=again))


def test_what_fails_after_a_loss_costs_nothing_more_and_counts_among_the_attempts(
    virtual_gateway: VirtualGateway,
) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert isinstance(await failure(fixture, deadline_s=600), ServiceUnavailableError)
        assert len(fixture.prime.requests) == 3
        assert fixture.rows("state, attempts, cost_usd > 0") == [("failed", 1, 1), ("failed", 2, 0)]

    virtual_gateway.play(scenario, gone(), DOWN, DOWN, text_completion("never asked"), section=waiting(attempts=3))


def test_where_a_request_is_never_repeated_a_lost_one_is_not_either(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        assert isinstance(await failure(fixture, deadline_s=600), ServiceUnavailableError)
        assert fixture.rows(COLUMNS) == [LOST]

    virtual_gateway.play(scenario, gone(), text_completion("never asked"), section=waiting(attempts=1))


def test_without_room_in_the_budget_what_was_lost_is_not_asked_again(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        error = await failure(fixture, deadline_s=600)
        assert isinstance(error, ServiceUnavailableError)
        assert "[llm.budget] question_usd" in str(error)
        assert "the reply was lost" in str(error)
        assert len(fixture.prime.requests) == 1
        assert fixture.rows(COLUMNS) == [LOST]
        run = fixture.gateway.accounting.budget.run_account
        assert (run.reserved_usd, run.spent_usd) == (0, fixture.rows("worst_usd")[0][0])

    # One worst case is a little more than 0.01 dollars.
    budget = {"question_usd": 0.015, "day_usd": None}
    given = waiting().model_dump(exclude_unset=True) | {"budget": budget}
    virtual_gateway.play(
        scenario, gone(), text_completion("never asked"), section=type(waiting()).model_validate(given)
    )


def test_the_second_request_ends_with_the_deadline_of_the_first(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        error = await failure(fixture, deadline_s=30)
        assert isinstance(error, ServiceUnavailableError)
        assert fixture.clock.monotonic() == pytest.approx(30, abs=0.01)
        await fixture.settled()
        assert fixture.rows(COLUMNS) == [LOST, LOST]
        assert fixture.rows("detail")[1] == ("cancelled",)

    virtual_gateway.play(scenario, SlowAnswer(20, gone()), HangingAnswer(), section=waiting())


def test_a_caller_who_leaves_after_a_loss_leaves_nothing_held(virtual_gateway: VirtualGateway) -> None:
    async def scenario(fixture: GatewayFixture) -> None:
        task = asyncio.create_task(fixture.gateway.ask(inquiry(), deadline_s=1000))
        await fixture.clock.sleep(20)
        assert len(fixture.prime.requests) == 2
        task.cancel()
        await asyncio.wait([task])
        await fixture.settled()
        run = fixture.gateway.accounting.budget.run_account
        assert run.reserved_usd == 0
        assert run.spent_usd == pytest.approx(sum(usd for (usd,) in fixture.rows("worst_usd")))
        assert fixture.rows(COLUMNS) == [LOST, LOST]

    virtual_gateway.play(scenario, gone(), HangingAnswer(), section=waiting())
