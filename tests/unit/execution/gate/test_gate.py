from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.venue_schema import ExcludeSection
from bot.core.orders import OrderPlan, OrderSide
from bot.core.permissions import ApprovalState
from bot.core.predictions import CurvePrediction
from bot.core.submissions import ExecutionMode, HoldDecision, IntentAction, SendDecision
from bot.execution.gate.gate import RETRY_HOLD_AFTER, DecisionContext, Gate, build_intent
from bot.execution.gate.kill_switch import KillSwitch, engage_kill_switch, release_kill_switch
from bot.store.permissions import ALL_VENUES, SubmissionHalt
from tests.unit.execution.gate.decision_contexts import (
    NOW,
    arm,
    case,
    crowd,
    forecast,
    make_policy,
    order,
    question,
    trade,
)

LIVE = [ExecutionMode.APPROVE, ExecutionMode.LIVE]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(kill_switch=KillSwitch(stop_file=tmp_path / "STOP", ledger_file=tmp_path / "ledger.sqlite"))


def held(gate: Gate, before: DecisionContext) -> HoldDecision:
    decision = gate.decide(before)
    assert isinstance(decision, HoldDecision)
    return decision


def sent(gate: Gate, before: DecisionContext) -> SendDecision:
    decision = gate.decide(before)
    assert isinstance(decision, SendDecision), decision
    return decision


def test_a_paper_forecast_is_sent_to_the_book(gate: Gate) -> None:
    decision = sent(gate, case(question=question(batch="round 1")))
    assert decision.mode is ExecutionMode.PAPER
    assert (decision.intent.action, decision.intent.batch) == (IntentAction.FORECAST, "round 1")


def test_what_config_leaves_out_is_held_but_what_is_held_of_it_may_be_sold(gate: Gate) -> None:
    out = replace(make_policy(), exclude=ExcludeSection(topics=("war",)))
    before = replace(case(question=question(tags=("war",))), policy=out)
    assert held(gate, before).why == "excluded by topics = 'war' in config"
    sale = OrderPlan(why="out of it", order=order(side=OrderSide.SELL, cost=0.0))
    assert isinstance(gate.decide(replace(before, takes_orders=True, plan=sale)), SendDecision)
    assert isinstance(gate.decide(replace(before, question=question(tags=("peace",)))), SendDecision)


def test_a_forecast_made_with_knowledge_of_the_future_is_held_for_good(gate: Gate) -> None:
    before = case(clairvoyant=True, lock_reason="waiting for the rules")
    assert gate.check_before_plan(before) == held(gate, before)
    assert held(gate, before).until is None


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (case(ExecutionMode.OFF), "lantern is off"),
        (case(forecast=replace(forecast(), forecaster="second")), "first forecasts for lantern, second is only scored"),
        (case(clairvoyant=True), "first was clairvoyant when it made this forecast"),
        (case(forecast=forecast(CurvePrediction((0.0, 1.0)))), "target outcome: curve prediction"),
        (case(lock_reason="waiting for the rules"), "locked: waiting for the rules"),
        (
            case(question=question(opens_at=NOW + timedelta(hours=1))),
            "the window opens at 2026-03-01 13:00 UTC",
        ),
        (
            case(question_at_forecast=question(title="Will it snow?")),
            'the title was "Will it snow?" and is "Will it rain?" now',
        ),
        (case(ExecutionMode.LIVE, arm=None), "not armed for live"),
        (case(ExecutionMode.APPROVE, arm=None), "not armed for approve"),
        (
            case(ExecutionMode.LIVE, missing_requirements=("clock: is off", "database: is damaged")),
            "clock: is off; database: is damaged",
        ),
        (case(halts=[SubmissionHalt(venue="lantern", at=NOW, why="odd")]), "lantern was stopped"),
        (case(halts=[SubmissionHalt(venue=ALL_VENUES, at=NOW, why="odd", by="ann")]), "everything was stopped by ann"),
    ],
)
def test_what_must_not_leave_is_held_with_its_reason(gate: Gate, before: DecisionContext, why: str) -> None:
    assert why in held(gate, before).why


def test_a_stop_of_another_venue_holds_nothing_here(gate: Gate) -> None:
    sent(gate, case(halts=[SubmissionHalt(venue="torch", at=NOW, why="odd")]))


@pytest.mark.parametrize("mode", [ExecutionMode.PAPER, *LIVE])
def test_the_stop_file_holds_everything_and_says_who_made_it(gate: Gate, mode: ExecutionMode, tmp_path: Path) -> None:
    (tmp_path / "STOP").touch()
    assert held(gate, case(mode)) == HoldDecision(why="halted by STOP", until=NOW + RETRY_HOLD_AFTER)
    engage_kill_switch(tmp_path / "STOP", "prices look\nodd (ann)")
    assert held(gate, case(mode)).why == "halted by STOP: prices look odd (ann)"
    assert release_kill_switch(tmp_path / "STOP")
    assert not release_kill_switch(tmp_path / "STOP")
    assert "halted" not in str(gate.decide(case(mode)).why)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"disarmed_at": NOW}, "was disarmed at"),
        ({"until": NOW}, "the arm record of lantern ended at"),
        ({"armed_at": NOW + timedelta(seconds=1)}, "the clock was set back"),
        ({"config": "another"}, "the configuration of lantern was changed after it was armed"),
    ],
)
@pytest.mark.parametrize("mode", LIVE)
def test_an_arm_record_holds_only_for_its_time_and_configuration(
    gate: Gate, mode: ExecutionMode, changes: dict[str, object], why: str
) -> None:
    assert why in held(gate, case(mode, arm=arm(**changes))).why
    sent(gate, case(ExecutionMode.PAPER, arm=arm(**changes)))


def test_orders_need_an_arm_record_with_amounts(gate: Gate) -> None:
    bare = arm(per_order=None, per_day=None, total=None)
    sent(gate, case(ExecutionMode.LIVE, arm=bare))
    assert "has no amounts" in held(gate, trade(ExecutionMode.LIVE, arm=bare)).why


def test_the_window_binds_live_and_for_orders_and_is_only_named_on_paper(gate: Gate) -> None:
    closed = question(closes_at=NOW - timedelta(seconds=1))
    assert "window closed" in held(gate, case(ExecutionMode.LIVE, question=closed)).why
    assert "window closed" in held(gate, trade(question=closed)).why
    assert "live would hold it" in sent(gate, case(question=closed)).why


def test_nothing_leaves_in_the_last_moments_before_closing(gate: Gate) -> None:
    careful = replace(make_policy(ExecutionMode.LIVE), close_margin=timedelta(seconds=60))
    late, early = question(closes_at=NOW + timedelta(seconds=59)), question(closes_at=NOW + timedelta(seconds=60))
    assert "nothing is sent in its last 60 s" in held(gate, case(ExecutionMode.LIVE, policy=careful, question=late)).why
    assert sent(gate, case(ExecutionMode.LIVE, policy=careful, question=early)).why == "armed"


def test_the_forecast_that_already_stands_is_not_sent_again(gate: Gate) -> None:
    assert "already submitted" in held(gate, case(current_intent=build_intent(case()))).why


def test_an_equal_forecast_renews_one_that_lapses_at_its_venue(gate: Gate) -> None:
    first = case(policy=replace(make_policy(ExecutionMode.PAPER), forecast_lifetime=timedelta(hours=48)))
    standing = build_intent(first)
    assert "already submitted" in held(gate, replace(first, current_intent=standing)).why
    sent(gate, replace(first, current_intent=standing, forecast=replace(first.forecast, id="f2")))


def test_an_order_is_sent_once_for_each_forecast(gate: Gate) -> None:
    first = trade()
    assert "was sent already" in held(gate, replace(first, current_intent=build_intent(first))).why
    later = replace(first, current_intent=build_intent(first), forecast=replace(first.forecast, id="f2"))
    sent(gate, later)


def test_planning_twice_gives_the_same_intent() -> None:
    assert build_intent(case()).id == build_intent(case()).id


def test_an_order_leaves_with_its_market_its_exposure_and_its_own_batch(gate: Gate) -> None:
    groups = {"event": "weather", "creator": "bob", "category": "nature"}
    decision = sent(gate, trade(question=question(batch="round 1", **groups)))
    assert decision.market_state == '{"p":0.5}'
    assert decision.intent.order == order()
    assert (decision.intent.action, decision.intent.batch) == (IntentAction.ORDER, decision.intent.id)
    exposure = decision.intent.exposure
    assert {"event": exposure.event, "creator": exposure.creator, "category": exposure.category} == groups


def test_without_an_order_the_planner_says_why(gate: Gate) -> None:
    assert held(gate, trade(plan=OrderPlan(why="the spread is too wide"))).why == "no order: the spread is too wide"


def approved(before: DecisionContext, gate: Gate) -> DecisionContext:
    asked = gate.needed_approval(before)
    assert asked is not None
    return replace(before, approval=replace(asked, state=ApprovalState.APPROVED, by="ann"))


@pytest.mark.parametrize("build", [case, trade])
def test_in_mode_approve_a_person_is_asked_and_then_it_leaves(
    gate: Gate, build: Callable[..., DecisionContext]
) -> None:
    before = build(ExecutionMode.APPROVE)
    assert "needs a person's approval" in held(gate, before).why
    decision = sent(gate, approved(before, gate))
    assert decision.why.startswith("approved by ann")


def test_what_waits_for_an_answer_is_held_and_nobody_is_asked_twice(gate: Gate) -> None:
    asked = gate.needed_approval(case(ExecutionMode.APPROVE))
    assert asked is not None
    waits = case(ExecutionMode.APPROVE, approval=asked)
    assert f"foxcast approve {asked.id}" in held(gate, waits).why
    assert gate.needed_approval(waits) is None


def test_a_no_holds_for_good(gate: Gate) -> None:
    answered = approved(case(ExecutionMode.APPROVE), gate)
    assert answered.approval
    hold = held(gate, replace(answered, approval=replace(answered.approval, state=ApprovalState.REJECTED)))
    assert "rejected by ann" in hold.why
    assert hold.until is None


@pytest.mark.parametrize("state", [ApprovalState.EXPIRED, ApprovalState.USED])
def test_what_was_not_answered_in_time_or_did_not_arrive_is_asked_again(gate: Gate, state: ApprovalState) -> None:
    answered = approved(case(ExecutionMode.APPROVE), gate)
    assert answered.approval
    over = replace(answered, approval=replace(answered.approval, state=state))
    assert "needs a person's approval" in held(gate, over).why
    assert gate.needed_approval(over) is not None


def test_an_approval_ends_with_its_time(gate: Gate) -> None:
    late = replace(approved(case(ExecutionMode.APPROVE), gate), now=NOW + timedelta(hours=12))
    late = replace(late, arm=arm(until=NOW + timedelta(days=2)))
    assert "needs a person's approval" in held(gate, late).why


@pytest.mark.parametrize(
    ("now_it_is", "why"),
    [
        (order(cost=10.5), "the order costs 10.50 now, and 10.00 was approved"),
        (order(limit=0.54), "the price moved to 0.540 from the approved 0.5200"),
        (order(contract="snow"), "what was approved was buy yes rain"),
    ],
)
def test_an_approval_covers_no_more_than_was_shown(gate: Gate, now_it_is: object, why: str) -> None:
    before = approved(trade(ExecutionMode.APPROVE), gate)
    changed = replace(before, plan=OrderPlan(why="a price", order=now_it_is))  # type: ignore[arg-type]  # an order by the table
    assert why in held(gate, changed).why
    again = gate.needed_approval(changed)
    assert again is not None
    assert again.state is ApprovalState.ASKED


@pytest.mark.parametrize("as_good", [order(cost=9.0), order(limit=0.53), order(limit=0.4, expected=0.4)])
def test_an_approval_covers_what_is_as_good_or_better(gate: Gate, as_good: object) -> None:
    before = approved(trade(ExecutionMode.APPROVE), gate)
    sent(gate, replace(before, plan=OrderPlan(why="a price", order=as_good)))  # type: ignore[arg-type]  # as above


def test_far_from_the_market_a_person_looks_first_and_paper_only_says_so(gate: Gate) -> None:
    # Log-odds of 0.6 and of 0.2 are 0.405 and -1.386.
    far: dict[str, Any] = {"question": question(crowd=crowd(0.2))}
    bound = 1.5
    assert (
        "1.79 from the market"
        in held(gate, case(ExecutionMode.LIVE, policy=make_policy(ExecutionMode.LIVE, divergence=bound), **far)).why
    )
    assert (
        sent(gate, case(ExecutionMode.LIVE, policy=make_policy(ExecutionMode.LIVE, divergence=2.0), **far)).why
        == "armed"
    )
    assert "live would ask a person" in sent(gate, case(policy=make_policy(divergence=bound), **far)).why


def test_nobody_is_asked_about_what_would_be_held_anyway(gate: Gate) -> None:
    assert gate.needed_approval(case(ExecutionMode.APPROVE, lock_reason="no")) is None
    assert gate.needed_approval(trade(ExecutionMode.APPROVE, bought=order(edge=0.0))) is None
    assert gate.needed_approval(case(ExecutionMode.PAPER)) is None
