"""Planted bugs of the kinds that an outsider thought of: in gate, sizing, outbox, jobs and store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from bot.config.venue_schema import ExcludeSection
from bot.core.outcomes import Resolution
from bot.core.questions import QuestionRef
from bot.core.submissions import HoldDecision, IntentState, WriteReceipt
from bot.execution import order_sizing
from bot.execution.gate import approval, config_digest, rules
from bot.execution.outbox import batch_submission
from bot.jobs import halts
from bot.llm.budget import BudgetReservation, SpendingBudget
from bot.store import cap_usage, permissions, questions, submission_attempts
from bot.store.serialization import format_timestamp
from plugins.manifold import write_requests as manifold_requests
from tests.mutations import Row, replace_attribute, replace_text

_WEST = timezone(timedelta(hours=-8))


def _arm_for_ever() -> None:
    objection: Callable[..., str | None] = rules.arm_objection

    def lasting(policy: Any, arm: Any, now: datetime) -> str | None:
        return objection(policy, None if arm is None else replace(arm, until=now + timedelta(days=1)), now)

    replace_attribute(rules, "arm_objection", lasting)


def _digest_forgets_amounts() -> None:
    ignored = config_digest._IGNORED_VENUE_KEYS  # noqa: SLF001 - mutants reach inside
    replace_attribute(config_digest, "_IGNORED_VENUE_KEYS", ignored | {"caps", "trading", "bankroll"})


def _digest_forgets_shared() -> None:
    replace_attribute(config_digest, "_SHARED_SECTIONS", ("seed", "plugin_files", "calibration", "research"))


def _approved_at_any_price() -> None:
    replace_attribute(approval, "_price_deterioration", lambda *_: 0.0)


def _approved_for_ever() -> None:
    missing: Callable[..., str | None] = approval.missing_approval_reason

    def lasting(context: Any) -> str | None:
        given = context.approval
        later = None if given is None else replace(given, expires_at=context.now + timedelta(hours=1))
        return missing(replace(context, approval=later))

    replace_attribute(approval, "missing_approval_reason", lasting)
    replace_attribute(rules, "missing_approval_reason", lasting)
    replace_text(permissions, "_EXPIRE_APPROVALS", "('asked', 'approved')", "('asked')")


def _approves_any_amount() -> None:
    replace_attribute(approval, "_approval_mismatch", lambda *_: None)


def _never_too_much_lost() -> None:
    for place in (rules, halts):
        replace_attribute(place, "loss_limit_breach", lambda *_: None)


def _drawdown_from_lowest() -> None:
    replace_text(cap_usage, "_HIGHEST_EQUITY", "max(equity)", "min(equity)")


def _days_of_the_west() -> None:
    def local(at: datetime) -> str:
        begins = at.astimezone(_WEST).replace(hour=0, minute=0, second=0, microsecond=0)
        return format_timestamp(begins)

    replace_attribute(cap_usage, "_day_start", local)


def _event_of_another() -> None:
    replace_text(cap_usage, "_ORDER_STAKES", "event = :event and :event", "category = :event and :event")


def _question_of_another() -> None:
    replace_text(cap_usage, "_ORDER_STAKES", "filter (where ref = :ref)", "filter (where ref = :creator)")


def _hour_has_one_more() -> None:
    check: Callable[..., HoldDecision | None] = rules.check_hourly_rate

    def lax(context: Any) -> HoldDecision | None:
        limit, used = context.policy.caps.orders_per_hour, context.cap_usage.hour
        return None if limit is not None and used == limit else check(context)

    _replace_rule(check, lax)


def _day_forgets_unknown() -> None:
    replace_text(
        cap_usage,
        "_PLANNED_COSTS",
        "planned_at >= :day and state <> 'refused'",
        "planned_at >= :day and state in ('planned', 'ready', 'sending')",
    )


def _counts_the_other_venue() -> None:
    replace_text(cap_usage, "_PLANNED_COSTS", "where venue = :venue", "where venue <> :venue")


def _budget_released_twice() -> None:
    settle: Callable[..., None] = SpendingBudget.settle

    def twice(self: SpendingBudget, reservation: BudgetReservation, cost_usd: float) -> None:
        fresh = not reservation.settled
        settle(self, reservation, cost_usd)
        for account in reservation.accounts if fresh else ():
            account.spent_usd -= reservation.request.worst_usd

    replace_attribute(SpendingBudget, "settle", twice)


def _outcome_for_all_venues() -> None:
    record: Callable[..., Any] = questions.ResolutionStore.record

    async def spread(self: Any, found: Sequence[Resolution], *, seen_at: datetime) -> Any:
        known = [QuestionRef.parse(ref) for (ref,) in await self.readers.run(_all_refs)]
        others = [replace(one, ref=ref) for one in found[:1] for ref in known if ref.venue != one.ref.venue]
        return await record(self, [*found, *others[:1]], seen_at=seen_at)

    replace_attribute(questions.ResolutionStore, "record", spread)


def _all_refs(database: Any) -> list[tuple[str]]:
    return [*database.execute("select ref from question order by ref")]


def _unknown_is_sent_again() -> None:
    submitted: Callable[..., Any] = batch_submission._submit_once  # noqa: SLF001 - mutants reach inside

    async def hasty(session: Any, batch: Any) -> list[WriteReceipt]:
        receipts = await submitted(session, batch)
        return [replace(one, state=IntentState.ABSENT) if one.state is IntentState.UNKNOWN else one for one in receipts]

    replace_attribute(batch_submission, "_submit_once", hasty)


def _cost_rounded_down() -> None:
    cost_of: Callable[..., Decimal] = order_sizing._max_cost  # noqa: SLF001 - mutants reach inside

    def down(*values: Any) -> Decimal:
        return cost_of(*values).to_integral_value(ROUND_FLOOR)

    replace_attribute(order_sizing, "_max_cost", down)


def _sale_costs() -> None:
    add: Callable[..., None] = submission_attempts.add_fills

    def turned(database: Any, intent_id: str, fills: Any) -> None:
        add(database, intent_id, [replace(one, cash=-abs(one.cash)) for one in fills])

    replace_attribute(submission_attempts, "add_fills", turned)


def _no_at_the_price_of_yes() -> None:
    limit: Callable[..., Decimal] = manifold_requests._limit_probability  # noqa: SLF001 - mutants reach inside

    def confused(order: Any) -> Decimal:
        return 1 - limit(order) if order.leg == "no" else limit(order)

    replace_attribute(manifold_requests, "_limit_probability", confused)


def _no_worth_as_yes() -> None:
    replace_attribute(order_sizing, "share_value", lambda _, belief: belief)


def _bought_again_at_once() -> None:
    _replace_rule(rules.check_reentry_pause, lambda _: None)


def _sent_until_the_close() -> None:
    closed: Callable[..., str | None] = rules.closed_window_reason

    def late(context: Any) -> str | None:
        return closed(replace(context, policy=replace(context.policy, close_margin=timedelta())))

    replace_attribute(rules, "closed_window_reason", late)


def _anybody_submits() -> None:
    _replace_rule(rules.check_forecaster, lambda _: None)


def _excludes_nothing() -> None:
    replace_attribute(ExcludeSection, "exclusion_reason", lambda *_: None)


def _locks_nothing() -> None:
    _replace_rule(rules.check_lock, lambda _: None)


def _replace_rule(check: Callable[..., HoldDecision | None], by: Callable[..., HoldDecision | None]) -> None:
    """Let one rule of the list check something else."""
    found = [replace(rule, check=by) if rule.check is check else rule for rule in rules.RULES]
    if tuple(found) == rules.RULES:
        message = f"{check.__name__} is no rule any more"
        raise AssertionError(message)
    by.__name__ = check.__name__
    replace_attribute(rules, "RULES", tuple(found))


PLANTED_ROWS: Sequence[Row] = (
    ("arm-for-ever", "the end of an arm record is not looked at", _arm_for_ever),
    ("digest-forgets-amounts", "changed caps and trading rules end no arm record", _digest_forgets_amounts),
    ("digest-forgets-shared", "changed limits and policies end no arm record", _digest_forgets_shared),
    ("approved-at-any-price", "an approval covers any worse price", _approved_at_any_price),
    ("approved-for-ever", "an approval never expires", _approved_for_ever),
    ("approves-any-amount", "an approval covers any order of its forecast", _approves_any_amount),
    ("never-too-much-lost", "losses stop nothing", _never_too_much_lost),
    ("drawdown-from-lowest", "a drawdown is counted from the lowest reading", _drawdown_from_lowest),
    ("days-of-the-west", "days begin eight hours late", _days_of_the_west),
    ("event-of-another", "the cap of an event adds up something else", _event_of_another),
    ("question-of-another", "the cap of a question adds up something else", _question_of_another),
    ("hour-has-one-more", "an order more is sent in an hour than may be", _hour_has_one_more),
    ("day-forgets-unknown", "what was sent does not count for the day", _day_forgets_unknown),
    ("counts-the-other-venue", "a day's orders of another venue are counted", _counts_the_other_venue),
    ("budget-released-twice", "a settled call releases its reservation twice", _budget_released_twice),
    ("outcome-for-all-venues", "an outcome is applied to a question of another venue", _outcome_for_all_venues),
    ("unknown-is-sent-again", "a write without a known outcome is sent again later", _unknown_is_sent_again),
    ("cost-rounded-down", "what an order may cost is rounded down to whole dollars", _cost_rounded_down),
    ("sale-costs", "what a sale brings is recorded as paid", _sale_costs),
    ("no-at-the-price-of-yes", "the limit of NO is not complemented", _no_at_the_price_of_yes),
    ("no-worth-as-yes", "NO at Polymarket is taken to be worth what YES is", _no_worth_as_yes),
    ("bought-again-at-once", "there is no pause after a position was closed", _bought_again_at_once),
    ("sent-until-the-close", "the margin before the close is not kept", _sent_until_the_close),
    ("anybody-submits", "forecasts that are only scored are submitted", _anybody_submits),
    ("excludes-nothing", "nothing is excluded", _excludes_nothing),
    ("locks-nothing", "a lock holds no submission", _locks_nothing),
)
