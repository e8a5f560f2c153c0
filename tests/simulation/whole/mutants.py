"""Ways to break the program, one at a time and in a process of its own; the simulation must notice each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from bot import redact
from bot.domain import equity
from bot.domain.order import Instead
from bot.domain.profit import ONE
from bot.domain.question import SINGLE_TARGET, QuestionRef
from bot.domain.resolution import Happened, Resolution
from bot.domain.wire import Reply, Request
from bot.errors import Unavailable
from bot.gate import window
from bot.net.write_client import HttpWriteClient
from bot.outbox import doubts, question_check
from bot.store import profits, resolutions, schedule
from bot.store.questions import Recorded
from plugins.manifold import writer as manifold_writer
from plugins.metaculus import resolve as metaculus_resolve
from plugins.metaculus import venue as metaculus_venue
from plugins.metaculus import writer as metaculus_writer
from plugins.polymarket import orders as polymarket_orders
from plugins.polymarket import signer
from plugins.polymarket import writer as polymarket_writer
from tests.breaks import COMMON, Mutant, Send, amend, named, put


def _resolved_early() -> None:
    known: Callable[..., Resolution | None] = metaculus_resolve.resolution_of

    def guessed(asked: Any, ref: QuestionRef) -> Resolution | None:
        found = known(asked, ref)
        if found is None and asked.status == "closed" and asked.type == "binary":
            return Resolution(
                ref=ref, target=SINGLE_TARGET, outcome=Happened(0.0), resolved_at=asked.scheduled_close_time
            )
        return found

    put(metaculus_venue, "resolution_of", guessed)


def _yes_is_no() -> None:
    record: Callable[..., Any] = resolutions.Resolutions.record

    async def turned(self: Any, found: Sequence[Resolution], *, seen_at: datetime) -> Any:
        said = [
            replace(one, outcome=Happened(1.0 - one.outcome.value)) if isinstance(one.outcome, Happened) else one
            for one in found
        ]
        return await record(self, said, seen_at=seen_at)

    put(resolutions.Resolutions, "record", turned)


def _never_resolved() -> None:
    async def none(*_: object, **__: object) -> Recorded:
        return Recorded()

    put(resolutions.Resolutions, "record", none)


def _leases_for_ever() -> None:
    async def none(*_: object, **__: object) -> int:
        return 0

    put(schedule.Schedule, "free_leases", none)
    amend(schedule, "RETURN_EXPIRED", "leased_until <= :now", "leased_until <= :now and 0")


def _tells_secrets() -> None:
    send: Send = HttpWriteClient.send

    async def telling(self: HttpWriteClient, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        try:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        except Unavailable as error:
            message = f"{error}: {dict(request.headers)}"
            raise Unavailable(message) from error

    put(HttpWriteClient, "send", telling)
    # What is written down hides secrets once more.
    put(redact.Redactor, "hide", lambda _, text: text)


def _signs_anything() -> None:
    put(signer.Spending, "spend", lambda *_, **__: None)


def _any_version() -> None:
    put(question_check, "describe_changes", lambda *_: ())
    put(window, "describe_changes", lambda *_: ())
    for writer in (manifold_writer, metaculus_writer, polymarket_writer):
        put(writer, "describe_changes", lambda *_: ())


def _matched_is_filled() -> None:
    settled: Callable[..., Any] = polymarket_orders.fills_of

    def hopeful(parts: Any, fees: Any) -> Any:
        return settled([replace(part, status=polymarket_orders.CONFIRMED) for part in parts], fees)

    put(polymarket_writer, "fills_of", hopeful)


def _stops_for_ever() -> None:
    async def never(*_: object) -> None:
        """Leave it to a person."""

    put(doubts, "resume_settled", never)


def _pays_the_other_side() -> None:
    pay: Callable[..., None] = profits.pay_share

    def turned(database: Any, lane: Any, share: Any, pays: Any) -> None:
        pay(database, lane, share, pays if isinstance(pays, Instead) else 1.0 - pays)

    put(profits, "pay_share", turned)


def _loan_is_gain() -> None:
    put(equity.EquityReading, "settled", property(lambda one: round((one.cash + one.reserved + one.owed) * ONE)))


MUTANTS: Mapping[str, Mutant] = {
    **COMMON,
    **named(
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
            ("tells-secrets", "an error tells the headers of its request, and nothing hides them", _tells_secrets),
        )
    ),
}


@cache
def broken(name: str) -> Mutant:
    """Break this process in that way, once, and return how."""
    MUTANTS[name].apply()
    return MUTANTS[name]
