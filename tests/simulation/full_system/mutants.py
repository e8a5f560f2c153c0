"""Ways to break the program, one at a time and in a process of its own; the simulation must notice each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from bot.core import redaction, trading_profit
from bot.core.errors import ServiceUnavailableError
from bot.core.orders import ContractSide, OrderSide, UnpaidOutcome
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.questions import SINGLE_TARGET, QuestionRef
from bot.core.trading_profit import MILLIONTHS
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.execution import order_sizing
from bot.execution.gate import rules
from bot.execution.order_book import OrderBook
from bot.execution.outbox import batch_submission, safety_halts, write_loop
from bot.jobs.foreign_writes import ForeignWriteCheck
from bot.net.write_client import HttpWriteClient
from bot.store import accounts, cap_usage, questions, schedule
from bot.store.questions import UpsertResult
from bot.store.serialization import format_timestamp
from plugins.manifold import planner as manifold_planner
from plugins.metaculus import reader as metaculus_venue
from plugins.metaculus import resolutions as metaculus_resolve
from plugins.polymarket import account as polymarket_account
from plugins.polymarket import planner as polymarket_planner
from plugins.polymarket import signer
from plugins.polymarket import write_requests as polymarket_orders
from plugins.polymarket import writer as polymarket_writer
from tests.mutations import COMMON_MUTANTS, ProgramMutant, Send, mutants_by_name, replace_attribute, replace_text
from tests.simulation.full_system.planted_bugs import PLANTED_ROWS
from tests.source_mutations import read_mutants

# The hours of a night in which a bug lets nothing be sent.
QUIET_UNTIL_H = 6


def _resolved_early() -> None:
    known: Callable[..., Resolution | None] = metaculus_resolve.question_resolution

    def guessed(asked: Any, ref: QuestionRef) -> Resolution | None:
        found = known(asked, ref)
        if found is None and asked.status == "closed" and asked.type == "binary":
            return Resolution(
                ref=ref, target=SINGLE_TARGET, outcome=BinaryOutcome(0.0), resolved_at=asked.scheduled_close_time
            )
        return found

    replace_attribute(metaculus_venue, "question_resolution", guessed)


def _yes_is_no() -> None:
    record: Callable[..., Any] = questions.ResolutionStore.record

    async def turned(self: Any, found: Sequence[Resolution], *, seen_at: datetime) -> Any:
        values = [
            replace(one, outcome=BinaryOutcome(1.0 - one.outcome.value))
            if isinstance(one.outcome, BinaryOutcome)
            else one
            for one in found
        ]
        return await record(self, values, seen_at=seen_at)

    replace_attribute(questions.ResolutionStore, "record", turned)


def _never_resolved() -> None:
    async def none(*_: object, **__: object) -> UpsertResult:
        return UpsertResult()

    replace_attribute(questions.ResolutionStore, "record", none)


def _leases_for_ever() -> None:
    async def none(*_: object, **__: object) -> int:
        return 0

    replace_attribute(schedule.ScheduleStore, "free_leases", none)
    replace_text(schedule, "_RETURN_EXPIRED", "leased_until <= :now", "leased_until <= :now and 0")


def _tells_secrets() -> None:
    send: Send = HttpWriteClient.send

    async def telling(
        self: HttpWriteClient, request: HttpRequest, *, max_bytes: int, deadline_s: float
    ) -> HttpResponse:
        try:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        except ServiceUnavailableError as error:
            message = f"{error}: {dict(request.headers)}"
            raise ServiceUnavailableError(message) from error

    replace_attribute(HttpWriteClient, "send", telling)
    # What is written down hides secrets once more.
    replace_attribute(redaction.SecretRedactor, "redact", lambda _, text: text)


def _signs_anything() -> None:
    replace_attribute(signer.SpendingRecord, "spend", lambda *_, **__: None)


def _any_version() -> None:
    replace_attribute(batch_submission, "describe_changes", lambda *_: ())
    replace_attribute(rules, "describe_changes", lambda *_: ())
    replace_attribute(write_loop, "describe_changes", lambda *_: ())


def _matched_is_filled() -> None:
    settled: Callable[..., Any] = polymarket_orders.confirmed_fills

    def hopeful(parts: Any, fees: Any) -> Any:
        return settled([replace(part, status=polymarket_orders.CONFIRMED) for part in parts], fees)

    replace_attribute(polymarket_writer, "confirmed_fills", hopeful)


def _stops_for_ever() -> None:
    async def never(*_: object) -> None:
        """Leave it to a person."""

    replace_attribute(safety_halts, "resume_if_settled", never)


def _pays_the_other_side() -> None:
    pay: Callable[..., None] = accounts.store_payout

    def turned(database: Any, policy: Any, share: Any, pays: Any) -> None:
        pay(database, policy, share, pays if isinstance(pays, UnpaidOutcome) else 1.0 - pays)

    replace_attribute(accounts, "store_payout", turned)


def _loan_is_gain() -> None:
    replace_attribute(
        trading_profit.EquityReading,
        "settled_cash",
        property(lambda one: round((one.cash + one.reserved + one.owed) * MILLIONTHS)),
    )


def _leases_run_out() -> None:
    claim: Callable[..., Any] = schedule.ScheduleStore.claim

    async def hasty(self: Any, **asked: Any) -> Any:
        return await claim(self, **{**asked, "lease": timedelta(seconds=30), "at_work": False})

    replace_attribute(schedule.ScheduleStore, "claim", hasty)


def _foreign_unseen() -> None:
    async def unseen(*_: object) -> str:
        return ""

    replace_attribute(ForeignWriteCheck, "check_venue", unseen)


class _BidsOfYes(OrderBook):
    """A book that gives the bids of YES to a seller of NO."""

    def levels(self, leg: ContractSide, side: OrderSide) -> Any:
        return self.bids if side is OrderSide.SELL else OrderBook.levels(self, leg, side)


def _no_sold_on_yes_book() -> None:
    """Let the levels for a sale of NO be the bids of YES."""
    sell: Callable[..., Any] = order_sizing.OrderSizer.size_sale
    close: Callable[..., Any] = order_sizing.size_closing_sale

    def confused(market: Any) -> Any:
        return replace(market, book=_BidsOfYes(bids=market.book.bids, asks=market.book.asks))

    replace_attribute(
        order_sizing.OrderSizer,
        "size_sale",
        lambda sizer, chosen: sell(sizer, replace(chosen, market=confused(chosen.market))),
    )
    replace_attribute(
        polymarket_planner, "size_closing_sale", lambda market, position: close(confused(market), position)
    )


def _no_marked_as_yes() -> None:
    parse: Callable[..., Any] = polymarket_account._parse_position  # noqa: SLF001 - mutants reach inside

    def confused(row: Any, bids: Any) -> Any:
        found = parse(row, bids)
        is_no = found.leg is ContractSide.NO and found.mark is not None and not found.decided
        return replace(found, mark=1.0 - found.mark) if is_no else found

    replace_attribute(polymarket_account, "_parse_position", confused)


MUTANTS: Mapping[str, ProgramMutant] = {
    **COMMON_MUTANTS,
    **mutants_by_name(
        (
            ("resolved-early", "a question that closed is taken for resolved", _resolved_early),
            ("yes-is-no", "the outcomes of yes-or-no questions are turned round", _yes_is_no),
            ("never-resolved", "no outcome is ever written down", _never_resolved),
            ("leases-for-ever", "what a dead process had taken on is never taken up again", _leases_for_ever),
            ("signs-anything", "the signer does not count what it signed today", _signs_anything),
            ("any-version", "a forecast goes onto its question however that has changed", _any_version),
            ("matched-is-filled", "a match is a fill before it is settled on chain", _matched_is_filled),
            ("stops-for-ever", "a venue that stopped for its doubts is left to a person", _stops_for_ever),
            ("pays-the-other-side", "a share is taken to pay what the other side pays", _pays_the_other_side),
            ("loan-is-gain", "what a venue lent is no loan in the readings of an account", _loan_is_gain),
            ("leases-run-out", "a lease ends while its forecast still runs, which is paid again", _leases_run_out),
            ("no-marked-as-yes", "held shares of NO are valued at the price of YES", _no_marked_as_yes),
            ("foreign-unseen", "what somebody else wrote to an account stops nothing", _foreign_unseen),
            ("tells-secrets", "an error tells the headers of its request, and nothing hides them", _tells_secrets),
        )
    ),
}


def _first_option_favoured() -> None:
    believe: Callable[..., Mapping[str, float]] = order_sizing.option_beliefs

    def favoured(proposal: Any) -> Mapping[str, float]:
        found, options = believe(proposal), getattr(proposal.question.shape, "options", ())
        return {name: min(0.97, p + 0.1) if name in options[:1] else p for name, p in found.items()}

    replace_attribute(order_sizing, "option_beliefs", favoured)


def _days_of_here() -> None:
    def local(at: datetime) -> str:
        return format_timestamp(at.astimezone().replace(hour=0, minute=0, second=0, microsecond=0))

    replace_attribute(cap_usage, "_day_start", local)


def _quiet_nights() -> None:
    closed: Callable[..., str | None] = rules.closed_window_reason

    def sleepy(context: Any) -> str | None:
        return "it is night" if context.now.hour < QUIET_UNTIL_H else closed(context)

    replace_attribute(rules, "closed_window_reason", sleepy)


def _whole_mana() -> None:
    replace_attribute(manifold_planner, "_CENT", Decimal(2))


SOURCE_BUGS = {
    name: bug for file in sorted(Path(__file__).parent.glob("*_bugs.toml")) for name, bug in read_mutants(file).items()
}
# Bugs of the kinds that an outsider thought of; docs/simulation.md says which of them were found.
OUTSIDE_MUTANTS: Mapping[str, ProgramMutant] = {
    **mutants_by_name(
        (
            ("no-sold-on-yes-book", "a sale of NO is valued on the book of YES", _no_sold_on_yes_book),
            *PLANTED_ROWS,
        )
    ),
    **{name: one.program_mutant for name, one in SOURCE_BUGS.items() if one.seed},
}
# Those that no seed has found, most of them since something else does the same.
UNFOUND_MUTANTS: Mapping[str, ProgramMutant] = {
    name: one.program_mutant for name, one in SOURCE_BUGS.items() if not one.seed
}

# Bugs that have to do with the form of a world: each is for one relation of ``metamorphic``.
FORM_MUTANTS: Mapping[str, ProgramMutant] = mutants_by_name(
    (
        ("first-option-favoured", "the first option counts for more than is believed", _first_option_favoured),
        ("days-of-here", "days begin at midnight of the local time zone", _days_of_here),
        ("quiet-nights", "nothing is sent in the first hours of a day", _quiet_nights),
        ("whole-mana", "amounts at Manifold are whole, whatever a unit is worth", _whole_mana),
    )
)


ALL_MUTANTS = {**MUTANTS, **OUTSIDE_MUTANTS, **UNFOUND_MUTANTS, **FORM_MUTANTS}


@cache
def break_process(names: str) -> None:
    """Break this process in these ways, separated by commas, once."""
    for name in names.split(","):
        ALL_MUTANTS[name].apply()
