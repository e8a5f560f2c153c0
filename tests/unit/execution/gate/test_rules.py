"""Every rule is in the one list, says its phases, and is the only one that refuses its case, in each of them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from bot.config.venue_schema import BankrollSection, ExcludeSection
from bot.core.orders import OrderPlan, OrderSide
from bot.core.permissions import ApprovalState, CapUsage
from bot.core.predictions import BinaryPrediction, CurvePrediction
from bot.core.submissions import ExecutionMode, HoldDecision, Intent, IntentAction
from bot.execution.gate import rules
from bot.execution.gate.approval import build_approval_request
from bot.execution.gate.decision_context import DecisionContext, SubmissionKind, SubmissionPhase, build_intent
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.rules import MAX_PLAN_AGE, RULES, SubmissionRule, find_objection
from bot.execution.order_book import ShareFees
from bot.store.permissions import SubmissionHalt
from tests.unit.execution.gate.decision_contexts import NOW, arm, case, forecast, make_policy, order, question, trade

DECIDE, SEND = SubmissionPhase.DECIDE, SubmissionPhase.SEND
LIVE = ExecutionMode.LIVE


def live(**changes: object) -> DecisionContext:
    """Return a live order that nothing refuses, in either phase, but for what is changed."""
    return replace(trade(LIVE, planned_at=NOW, decided_account="me"), **changes)  # type: ignore[arg-type]  # fields by name


def capped(usage: CapUsage, **caps: float) -> DecisionContext:
    return live(policy=make_policy(LIVE, caps=caps), cap_usage=usage)


ASKED = build_approval_request(live(), "why not")
# What each rule refuses; it is asked in all phases of the rule.
REFUSED: Mapping[str, DecisionContext] = {
    "check_mode": live(policy=make_policy(ExecutionMode.OFF), arm=None),
    "check_account": live(decided_account="another"),
    "check_recorded_only": live(recorded_only=True),
    "check_clairvoyance": live(clairvoyant=True),
    "check_forecaster": live(policy=replace(make_policy(LIVE), primary_forecaster="second")),
    "check_question_unchanged": live(question_at_forecast=question(title="Will it snow?")),
    "check_prediction_shape": live(forecast=forecast(CurvePrediction((0.0, 1.0)))),
    "check_exclusions": live(
        policy=replace(make_policy(LIVE), exclude=ExcludeSection(topics=("war",))), question=question(tags=("war",))
    ),
    "check_kill_switch": live(kill_switch_reason="halted by STOP"),
    "check_halts": live(halts=[SubmissionHalt(venue="lantern", at=NOW, why="odd")]),
    "check_lock": live(lock_reason="waiting for the rules"),
    "check_window_opened": live(question=question(opens_at=NOW + timedelta(hours=1))),
    "check_window_closed": live(question=question(closes_at=NOW - timedelta(seconds=1))),
    "check_arm_record": live(arm=None),
    "check_arm_amounts": live(arm=arm(per_day=None)),
    "check_same_arm_record": live(planned_at=NOW - timedelta(minutes=1), arm=arm(armed_at=NOW)),
    "check_readiness": live(missing_requirements=("clock: is off",)),
    "check_open_approval": live(approval=replace(ASKED, state=ApprovalState.REJECTED)),
    "check_not_sent": live(current_intent=build_intent(live())),
    "check_order_planned": live(plan=OrderPlan(why="the spread is too wide")),
    "check_reentry_pause": live(closed_at=NOW),
    "check_caps": capped(CapUsage(question=45.0), per_question=50.0),
    "check_least_stake": live(policy=replace(make_policy(LIVE), bankroll=BankrollSection(min_stake=1_000.0))),
    "check_hourly_rate": capped(CapUsage(hour=2), orders_per_hour=2),
    "check_losses": capped(CapUsage(lost_today=6.0), daily_loss=5.0),
    "check_edge": live(plan=OrderPlan(why="a price", order=order(edge=0.0))),
    "check_order_fees": live(policy=make_policy(LIVE, fees=ShareFees(formula=lambda _price: Decimal("0.02")))),
    "check_price_band": live(plan=OrderPlan(why="a price", order=order(expected=0.02, limit=0.02))),
    "check_order_terms": live(plan=OrderPlan(why="a price", order=order(cost=1.0, shares=20.0))),
    "check_approval": live(policy=make_policy(ExecutionMode.APPROVE)),
    "check_not_repeated": live(plan=None, takes_orders=False, current_intent=build_intent(case(LIVE))),
    "check_plan_age": live(planned_at=NOW - MAX_PLAN_AGE - timedelta(seconds=1)),
}
# The rules that the gate asks of a context; of the kill switch it asks itself.
DECIDED = {rule.name for rule in RULES if DECIDE in rule.phases} - {"check_kill_switch"}


def refusals(context: DecisionContext) -> list[str]:
    return [rule.name for rule in RULES if rule.objection(context)]


@pytest.mark.parametrize("phase", [DECIDE, SEND])
def test_what_nothing_speaks_against_may_leave(phase: SubmissionPhase) -> None:
    assert refusals(live(phase=phase)) == []


@pytest.mark.parametrize(
    ("rule", "phase"),
    [(rule, phase) for rule in RULES for phase in (DECIDE, SEND) if phase in rule.phases],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_each_rule_alone_refuses_its_case_in_each_of_its_phases(rule: SubmissionRule, phase: SubmissionPhase) -> None:
    assert refusals(replace(REFUSED[rule.name], phase=phase)) == [rule.name]


@pytest.mark.parametrize(
    ("rule", "phase"),
    [(rule, phase) for rule in RULES for phase in (DECIDE, SEND) if phase not in rule.phases],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_a_rule_of_one_phase_is_not_asked_in_the_other_and_says_why(
    rule: SubmissionRule, phase: SubmissionPhase
) -> None:
    assert refusals(replace(REFUSED[rule.name], phase=phase)) == []
    assert rule.why_one_phase


@pytest.mark.parametrize(("probability", "repeats"), [(0.6 + 1e-12, True), (0.6001, False)])
def test_a_forecast_that_differs_by_the_rounding_of_its_trials_is_a_repetition(
    probability: float, *, repeats: bool
) -> None:
    """Its writer could not tell from the earlier one whether a request that got no answer has arrived."""
    standing = build_intent(case(LIVE))
    renewed = live(
        plan=None, takes_orders=False, current_intent=standing, forecast=forecast(BinaryPrediction(probability))
    )
    assert refusals(renewed) == ["check_not_repeated"] * repeats


def test_every_check_is_in_the_list_once_and_has_a_case() -> None:
    names = [rule.name for rule in RULES]
    assert sorted(names) == sorted(name for name in vars(rules) if name.startswith("check_"))
    assert sorted(names) == sorted(REFUSED)


@pytest.mark.parametrize(
    ("phases", "why"), [(DECIDE, ""), (SEND, ""), (DECIDE | SEND, "it need not"), (SubmissionPhase(0), "it need not")]
)
def test_a_rule_cannot_leave_out_a_phase_without_a_reason(phases: SubmissionPhase, why: str) -> None:
    with pytest.raises(ValueError, match="check_mode must have both phases"):
        SubmissionRule(check=rules.check_mode, phases=phases, why_one_phase=why)


def test_the_first_objection_decides() -> None:
    both = live(lock_reason="waiting", kill_switch_reason="halted by STOP")
    assert find_objection(both) == both.hold_until_retry("halted by STOP")


def test_a_person_is_asked_only_where_nothing_else_objects(tmp_path: Path) -> None:
    gate = Gate(kill_switch=KillSwitch(stop_file=tmp_path / "STOP", ledger_file=tmp_path / "ledger.sqlite"))
    asks = live(policy=make_policy(ExecutionMode.APPROVE))
    assert gate.needed_approval(asks) is not None
    for name in DECIDED - {"check_approval"}:
        context = REFUSED[name]
        policy = replace(context.policy, mode=ExecutionMode.APPROVE)
        refused = context if name == "check_mode" else replace(context, policy=policy)
        assert gate.needed_approval(refused) is None, name
    gate.kill_switch.stop_file.touch()
    assert gate.needed_approval(asks) is None


@pytest.mark.parametrize("phase", [DECIDE, SEND])
def test_a_sale_needs_an_open_market_on_paper_too_though_no_planner_is_known(phase: SubmissionPhase) -> None:
    sale = OrderPlan(why="out of it", order=order(side=OrderSide.SELL, cost=0.0))
    closed = question(closes_at=NOW - timedelta(seconds=1))
    context = replace(case(question=closed), plan=sale, phase=phase, planned_at=NOW, decided_account="me")
    assert refusals(context) == []
    assert refusals(replace(context, kind=SubmissionKind.CLOSING)) == ["check_window_closed"]


def test_a_sale_is_decided_whatever_the_belief_and_the_caps(tmp_path: Path) -> None:
    gate = Gate(kill_switch=KillSwitch(stop_file=tmp_path / "STOP", ledger_file=tmp_path / "ledger.sqlite"))
    refused = {name for name in DECIDED if isinstance(gate.decide_closing(REFUSED[name]), HoldDecision)}
    assert refused == {
        "check_mode",
        "check_halts",
        "check_window_closed",
        "check_arm_record",
        "check_arm_amounts",
        "check_readiness",
        "check_order_planned",
        "check_hourly_rate",
        "check_losses",
    }


@pytest.mark.parametrize(
    ("intent", "kind"),
    [
        (build_intent(case()), SubmissionKind.FORECAST),
        (build_intent(trade()), SubmissionKind.FORECAST),
        (
            build_intent(trade(bought=order(side=OrderSide.SELL, closing="ann asked for it", cost=0.0))),
            SubmissionKind.CLOSING,
        ),
        (replace(build_intent(case()), action=IntentAction.COMMENT), SubmissionKind.COMMENT),
        (replace(build_intent(case()), action=IntentAction.WITHDRAW), SubmissionKind.WITHDRAWAL),
    ],
)
def test_what_an_intent_submits_decides_which_rules_are_asked(intent: Intent, kind: SubmissionKind) -> None:
    assert SubmissionKind.of_intent(intent) is kind


def test_what_takes_something_back_needs_neither_an_open_window_nor_the_same_question_nor_the_same_arm_record() -> None:
    names = {
        name
        for name, context in REFUSED.items()
        if refusals(replace(context, phase=SEND, kind=SubmissionKind.WITHDRAWAL))
    }
    assert names == {
        "check_mode",
        "check_account",
        "check_kill_switch",
        "check_halts",
        "check_arm_record",
        "check_readiness",
        "check_losses",
        "check_plan_age",
    }


def test_a_hold_is_lifted_by_time_only_where_time_can_lift_it() -> None:
    assert find_objection(live(recorded_only=True)) == HoldDecision(
        why="recorded only: it was made by hand, without --submit"
    )
    assert (held := find_objection(live(lock_reason="no"))) is not None
    assert held.until is not None
