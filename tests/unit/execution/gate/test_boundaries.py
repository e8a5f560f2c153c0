"""Where rules begin to hold: at the bound itself, one step beyond it, and where something that they read is missing.

Found by `make mutate`: each of these failed to notice a change of the code before.
"""

import math
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.config.venue_schema import BankrollSection, ChooseTable
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.permissions import ApprovalState, CapUsage, SubmissionApproval
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape, CurvePrediction
from bot.core.questions import CrowdForecast
from bot.core.submissions import ExecutionMode, SendDecision
from bot.execution.gate.approval import build_approval_request, market_divergence, missing_approval_reason
from bot.execution.gate.caps import CapHeadroom, list_headrooms, size_stakes_jointly
from bot.execution.gate.decision_context import DecisionContext, build_intent
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import (
    KillSwitch,
    engage_kill_switch,
    halts_besides_file,
    read_halt_reason,
    release_kill_switch,
    was_engaged_between,
)
from bot.execution.gate.readiness import MAX_CLOCK_SKEW_S, MAX_UNSETTLED_WRITES, clock_fault, unsettled_fault
from bot.execution.gate.rules import (
    MAX_PLAN_AGE,
    check_edge,
    check_forecaster,
    check_open_approval,
    check_order_planned,
    check_order_terms,
    check_plan_age,
    check_recorded_only,
    check_reentry_pause,
    check_window_opened,
    closed_window_reason,
)
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
from tests.unit.execution.gate.test_joint_sizing import stake

LIVE, APPROVE = ExecutionMode.LIVE, ExecutionMode.APPROVE
GATE = Gate(kill_switch=KillSwitch(stop_file=Path("nowhere/STOP"), ledger_file=Path("nowhere/ledger.sqlite")))


def approved(first: DecisionContext) -> SubmissionApproval:
    return replace(build_approval_request(first, "why not"), state=ApprovalState.APPROVED, by="ann")


def asked(now: Order, before: Order) -> str | None:
    """Return why the approval of one order does not cover another."""
    return missing_approval_reason(trade(APPROVE, bought=now, approval=approved(trade(APPROVE, bought=before))))


@pytest.mark.parametrize(
    ("side", "limit", "covered"),
    [
        (OrderSide.BUY, 0.53, True),
        (OrderSide.BUY, 0.5301, False),
        (OrderSide.BUY, 0.40, True),
        (OrderSide.SELL, 0.51, True),
        (OrderSide.SELL, 0.5099, False),
        (OrderSide.SELL, 0.60, True),
    ],
)
def test_an_approval_covers_a_price_that_is_a_hundredth_worse_and_any_better_one(
    side: OrderSide, limit: float, *, covered: bool
) -> None:
    """The approved limit is 0.52."""
    assert (asked(order(side=side, limit=limit), order(side=side)) is None) == covered


def test_an_approval_covers_no_other_kind_of_submission() -> None:
    of_order = approved(trade(APPROVE))
    assert "what was approved was an order" in (missing_approval_reason(case(APPROVE, approval=of_order)) or "")
    of_forecast = approved(case(APPROVE))
    assert missing_approval_reason(case(APPROVE, approval=of_forecast)) is None
    assert "what was approved was no order" in (missing_approval_reason(trade(APPROVE, approval=of_forecast)) or "")
    unpriced = replace(of_order, shown={name: text for name, text in of_order.shown.items() if name != "limit"})
    assert "from the approved ?" in (missing_approval_reason(trade(APPROVE, approval=unpriced)) or "")


def test_an_approval_request_shows_the_market_and_the_cost_where_there_are_any() -> None:
    plain = build_approval_request(case(APPROVE), "why not")
    assert (plain.cost, "market" in plain.shown, len(plain.id)) == (0.0, False, 12)
    priced = build_approval_request(trade(APPROVE, question=question(crowd=crowd(0.5))), "why not")
    assert (priced.cost, priced.shown["market"]) == (10.0, "0.41 away in log-odds")


def test_a_curve_is_as_far_from_the_market_as_its_order_pays_with_fees_and_edge() -> None:
    bought = order(expected=0.5, fees=1.0, shares=20.0, edge=0.1)
    context = trade(bought=bought, forecast=forecast(CurvePrediction((0.0, 1.0))))
    # Worth .50 + 1/20 + .10 = .65: ln(.65/.35) from one half.
    assert market_divergence(context) == pytest.approx(math.log(0.65 / 0.35))
    # A probability speaks for itself, whatever the edge.
    assert market_divergence(trade(bought=replace(bought, edge=0.3))) == pytest.approx(math.log(0.6 / 0.4))


def test_options_that_only_one_side_has_are_not_compared() -> None:
    shape = ChoiceShape(options=("a", "b", "c"))
    theirs = CrowdForecast(prediction=ChoicePrediction({"a": 0.5, "b": 0.25, "c": 0.25}), at=NOW)
    ours = forecast(ChoicePrediction({"a": 0.5, "c": 0.5}))
    # One half is ln(1) and a quarter ln(1/3) in log-odds.
    distance = market_divergence(case(forecast=ours, question=question(shape=shape, crowd=theirs)))
    assert distance == pytest.approx(math.log(3.0))


def test_a_forecast_exactly_as_far_from_the_market_as_allowed_needs_nobody() -> None:
    context = case(LIVE, question=question(crowd=crowd(0.5)))
    bound = market_divergence(context)
    assert missing_approval_reason(replace(context, policy=make_policy(LIVE, divergence=bound))) is None
    stricter = make_policy(LIVE, divergence=math.nextafter(bound, 0.0))
    assert missing_approval_reason(replace(context, policy=stricter)) is not None


def test_what_bounds_one_order_alone_is_shared_with_no_other() -> None:
    caps = {"per_order": 10.0, "per_question": 20.0, "per_day": 30.0}
    groups = {room.name: room.group for room in list_headrooms(trade(policy=make_policy(caps=caps)))}
    assert groups == {"caps.per_order": "", "caps.per_question": "", "caps.per_day": "caps.per_day all"}
    own = CapHeadroom("caps.per_order", 3.0, 0.0)
    proposed = [stake("a", 10.0, headrooms=(own,)), stake("b", 10.0, headrooms=(own,))]
    assert size_stakes_jointly(proposed, cash=1e6, correlation=0.0, min_stake=1.0) == {"a": 3.0, "b": 3.0}
    shared = CapHeadroom("caps.total", 3.0, 0.0, "caps.total all")
    assert size_stakes_jointly([stake("a", 2.0, headrooms=(shared,))], cash=9.0, correlation=0.0, min_stake=1.0) == {
        "a": 2.0
    }


def test_small_stakes_of_one_event_are_correlated_too_and_the_least_stake_is_made() -> None:
    legs = [stake(name, 0.6, event="vote") for name in "ab"]
    assert size_stakes_jointly(legs, cash=1e6, correlation=1.0, min_stake=0.1) == pytest.approx({"a": 0.3, "b": 0.3})
    assert size_stakes_jointly([stake("a", 1.0)], cash=1e6, correlation=0.0, min_stake=1.0) == {"a": 1.0}
    assert size_stakes_jointly([stake("a", 0.999)], cash=1e6, correlation=0.0, min_stake=1.0) == {"a": 0.0}


def test_a_cap_says_what_is_left_of_it() -> None:
    assert str(CapHeadroom("caps.total", 10.0, 0.0)) == "caps.total = 10"
    assert str(CapHeadroom("caps.total", 10.0, 1.0)) == "caps.total = 10 leaves 9.00, 1.00 is at stake"
    assert str(CapHeadroom("bankroll.total = 0.5 of 20.00, that is", 10.0, 0.0)).endswith("that is 10.00")


@pytest.mark.parametrize(
    ("used", "why"), [(10.0, "nothing may be bought: caps.total = 10"), (9.5, "no order was planned")]
)
def test_without_a_plan_it_is_said_whether_a_cap_is_why(used: float, why: str) -> None:
    context = trade(policy=make_policy(caps={"total": 10.0}), cap_usage=CapUsage(total=used), plan=None)
    hold = check_order_planned(context)
    assert hold is not None
    assert hold.why.startswith(why)


def test_times_bind_up_to_the_moment_itself() -> None:
    assert check_plan_age(trade(planned_at=NOW - MAX_PLAN_AGE)) is None
    assert check_plan_age(trade(planned_at=NOW - MAX_PLAN_AGE - timedelta(milliseconds=1))) is not None
    assert check_plan_age(trade(planned_at=NOW)) is None
    closed_at = NOW - timedelta(hours=6)
    assert check_reentry_pause(trade(policy=make_policy(cooldown_h=6.0), closed_at=closed_at)) is None
    assert check_reentry_pause(trade(policy=make_policy(cooldown_h=6.01), closed_at=closed_at)) is not None


@pytest.mark.parametrize(("expected", "limit"), [(0.03, 0.5), (0.5, 0.97)])
def test_the_ends_of_the_price_band_belong_to_it(expected: float, limit: float) -> None:
    sure = forecast(BinaryPrediction(1.0))
    assert isinstance(GATE.decide(trade(bought=order(expected=expected, limit=limit), forecast=sure)), SendDecision)


def test_readiness_begins_beyond_its_bounds() -> None:
    assert clock_fault(MAX_CLOCK_SKEW_S) == clock_fault(-MAX_CLOCK_SKEW_S) == ""
    assert clock_fault(MAX_CLOCK_SKEW_S + 0.01)
    assert unsettled_fault(0, MAX_UNSETTLED_WRITES) == ""
    assert unsettled_fault(0, MAX_UNSETTLED_WRITES + 1)


def decided(context: DecisionContext) -> str:
    decision = GATE.decide(context)
    assert isinstance(decision, SendDecision)
    return decision.why


def test_a_decision_says_what_let_it_pass() -> None:
    assert decided(case(LIVE)) == "armed"
    assert decided(trade(LIVE, arm=arm())) == "armed; a good price"
    assert decided(trade(APPROVE, approval=approved(trade(APPROVE)))) == "approved by ann; a good price"
    # An answer that nobody needed is not the reason.
    assert decided(trade(LIVE, approval=approved(trade(LIVE)))) == "armed; a good price"
    late = case(question=question(closes_at=NOW - timedelta(seconds=1)))
    assert decided(late).startswith("paper; after ")
    assert not decided(late).startswith("paper; after the ")
    assert decided(late).endswith(": live would hold it")


def test_each_closing_sale_of_a_position_is_an_intent_of_its_own() -> None:
    sale = order(side=OrderSide.SELL, cost=0.0, closing="asked by ann")
    first = GATE.decide_closing(trade(bought=sale))
    assert isinstance(first, SendDecision)
    assert first.why == "closing: asked by ann"
    later = build_intent(trade(bought=sale, now=NOW + timedelta(seconds=1)))
    other_leg = build_intent(trade(bought=replace(sale, leg=ContractSide.NO)))
    assert len({first.intent.id, later.id, other_leg.id}) == 3
    # A purchase is the same intent whenever it is decided.
    assert build_intent(trade()).id == build_intent(trade(now=NOW + timedelta(seconds=1))).id


def test_a_file_that_was_changed_between_two_moments_was_engaged_then(tmp_path: Path) -> None:
    stop = tmp_path / "STOP"
    assert not was_engaged_between(stop, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    stop.write_text("halt\n")
    changed_at = datetime.fromtimestamp(stop.stat().st_mtime, UTC)
    step = timedelta(seconds=1)
    assert was_engaged_between(stop, changed_at - step, changed_at)
    assert not was_engaged_between(stop, changed_at, changed_at + step)
    assert not was_engaged_between(stop, changed_at - 2 * step, changed_at - step)


def test_only_the_halt_that_the_file_itself_records_is_left_out(tmp_path: Path) -> None:
    stop = tmp_path / "STOP"
    stop.write_text("too fast (ann)\n")
    recorded, other, of_venue = (
        SubmissionHalt(venue=venue, at=NOW, why=why, by="ann")
        for venue, why in ((ALL_VENUES, "too fast"), (ALL_VENUES, "too slow"), ("lantern", "too fast"))
    )
    assert halts_besides_file(stop, [recorded, other, of_venue]) == [other, of_venue]


def test_a_share_of_the_bankroll_of_one_bounds_nothing() -> None:
    policy = replace(
        make_policy(), bankroll=BankrollSection(per_pass=1.0, per_question=1.0, per_event=1.0, per_day=1.0, total=1.0)
    )
    assert [*list_headrooms(trade(policy=policy, account_value=1.0))] == []
    assert isinstance(GATE.decide(trade(policy=policy, account_value=1.0)), SendDecision)


def test_a_window_is_open_at_both_of_its_ends() -> None:
    opens = question(opens_at=NOW)
    assert check_window_opened(case(LIVE, question=opens)) is None
    assert check_window_opened(case(LIVE, question=question(opens_at=NOW + timedelta(microseconds=1)))) is not None
    at_close = case(LIVE, question=question(closes_at=NOW), policy=replace(make_policy(LIVE), close_margin=timedelta()))
    assert closed_window_reason(at_close) is None
    assert "closed at" in (closed_window_reason(replace(at_close, now=NOW + timedelta(microseconds=1))) or "")
    margin = timedelta(seconds=60)
    soon = case(LIVE, question=question(closes_at=NOW + margin), policy=replace(make_policy(LIVE), close_margin=margin))
    assert closed_window_reason(soon) is None
    later = closed_window_reason(replace(soon, now=NOW + timedelta(seconds=1)))
    assert later is not None
    assert later.endswith("nothing is sent in its last 60 s")
    assert "closes at" in (closed_window_reason(replace(soon, now=NOW + margin)) or "")


def test_a_request_for_approval_is_open_until_the_moment_it_expires() -> None:
    asked_for = build_approval_request(trade(APPROVE), "why not")
    waiting = trade(APPROVE, approval=asked_for)
    assert check_open_approval(replace(waiting, now=asked_for.expires_at - timedelta(microseconds=1))) is not None
    assert check_open_approval(replace(waiting, now=asked_for.expires_at)) is None


CHOICE = (ChooseTable(tag=("war",), forecasters=("second", "third")),)


@pytest.mark.parametrize(
    ("forecaster", "closes_at", "waits"),
    [
        ("second", None, True),
        ("second", NOW + timedelta(microseconds=1), True),
        ("second", NOW, False),
        # The third is listed for the topic and never submits.
        ("third", None, False),
    ],
)
def test_a_forecaster_that_may_be_chosen_later_waits_while_the_question_is_open(
    forecaster: str, closes_at: datetime | None, *, waits: bool
) -> None:
    policy = replace(make_policy(), choose=CHOICE)
    made = replace(forecast(), forecaster=forecaster)
    hold = check_forecaster(case(policy=policy, forecast=made, question=question(closes_at=closes_at)))
    assert hold is not None
    assert (hold.until is not None) == waits


def test_a_topic_has_its_own_forecaster() -> None:
    policy = replace(make_policy(), choose=CHOICE)
    assert policy.submitting_forecaster(question(tags=("war",))) == "second"
    assert policy.submitting_forecaster(question(tags=("rain",))) == "first"
    assert policy.eligible_forecasters == {"first", "second"}


def test_the_kill_switch_makes_its_folder_and_tells_the_first_reason(tmp_path: Path) -> None:
    stop = tmp_path / "new" / "state" / "STOP"
    engage_kill_switch(stop, "too  fast\n(ann)")
    engage_kill_switch(stop, "too slow (bob)")
    assert stat.S_IMODE(stop.parent.stat().st_mode) == 0o700
    assert stop.read_text() == "too fast (ann)\ntoo slow (bob)\n"
    assert read_halt_reason(stop) == "too fast (ann)"
    assert release_kill_switch(stop)
    assert not release_kill_switch(stop)
    assert read_halt_reason(stop) == ""


def test_a_share_of_the_bankroll_is_a_millionth_exact_and_nothing_of_a_debt_and_an_event_must_be_known() -> None:
    policy = replace(make_policy(), bankroll=BankrollSection(per_question=0.1, per_event=0.08, correlation=1))

    def limits(value: float) -> dict[str, float]:
        rooms = list_headrooms(trade(policy=policy, account_value=value, cap_usage=CapUsage(event=7.0)))
        return {room.name.partition(" ")[0]: room.cap for room in rooms}

    assert limits(1 / 3)["bankroll.per_question"] == 0.033333
    assert limits(-5.0)["bankroll.per_question"] == 0.0
    assert "bankroll.per_event" not in limits(100.0)


def test_the_limit_of_a_purchase_may_be_the_belief_itself_and_no_more() -> None:
    at_belief = trade(bought=order(limit=0.6))
    assert check_order_terms(at_belief) is None
    assert check_order_terms(trade(bought=order(limit=0.6 + 9e-7))) is None
    above = check_order_terms(trade(bought=order(limit=0.601)))
    assert above is not None
    assert "above the belief 0.600" in above.why
    assert check_order_terms(case()) is None
    assert check_order_terms(trade(bought=order(side=OrderSide.SELL, cost=0.0, limit=0.9))) is None


def test_too_small_an_edge_says_whose_figure_it_is() -> None:
    # The belief is 0.6 and the price 0.5.
    of_planner = check_edge(trade(bought=order(edge=0.01), policy=make_policy(edge=0.05)))
    assert of_planner is not None
    assert "the edge is 0.0100 a share" in of_planner.why
    of_both = check_edge(trade(bought=order(edge=0.6 - 0.5), policy=make_policy(edge=0.2)))
    of_forecast = check_edge(trade(bought=order(edge=0.3), policy=make_policy(edge=0.2)))
    assert of_both is not None
    assert "by the planner" not in of_both.why
    assert of_forecast is not None
    assert "the edge is 0.1000 by the forecast (0.3000 by the planner) a share" in of_forecast.why


@pytest.mark.parametrize(("mode", "what"), [(LIVE, "no writer"), (ExecutionMode.PAPER, "no paper book")])
def test_what_is_only_recorded_says_what_is_missing(mode: ExecutionMode, what: str) -> None:
    held = check_recorded_only(case(mode, is_read_only=True))
    assert held is not None
    assert held.why.endswith(what)
