"""The loops of a writer: each request once, comments last, and nothing is begun after a write without an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bot.core.errors import AuthenticationError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.questions import Question
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.core.venue_http import (
    HttpRequest,
    HttpResponse,
    ResponsibleParty,
    WriteVerdict,
    refusal_verdict,
    verdict_by_status,
)
from bot.execution.gate.decision_context import build_intent
from bot.execution.outbox.write_loop import (
    AccountRefusal,
    cancel_in_turn,
    read_in_turn,
    report_changed_question,
    seal_in_turn,
    send_once,
    write_in_turn,
    write_receipt,
)
from tests.unit.execution.gate.decision_contexts import case, question

S = IntentState
DOWN, NO_LIST, NOT_OURS = ServiceUnavailableError("503"), MalformedDataError("no list"), AuthenticationError("401")


def intent(name: str, action: IntentAction = IntentAction.FORECAST) -> Intent:
    return replace(build_intent(case()), id=name, action=action)


def sealed(name: str) -> SealedRequest:
    return SealedRequest(intent=name, tag=f"tag of {name}", body="{}")


def batch(*intents: Intent, without: str = "") -> SubmissionBatch:
    requests = tuple(sealed(one.id) for one in intents if one.id != without)
    return SubmissionBatch(key="b", intents=intents, questions=(question(),), sealed=requests)


class FakeWriter:
    """Answers as it is told, and notes what it wrote."""

    def __init__(self, **states: IntentState) -> None:
        self.states = states
        self.written: list[str] = []

    async def write(self, wanted: Intent, request: SealedRequest) -> WriteReceipt:
        assert request.intent == wanted.id
        self.written.append(wanted.id)
        return write_receipt(wanted, self.states.get(wanted.id, S.ACKED), f"{wanted.id} was written")


def states(receipts: Sequence[WriteReceipt]) -> list[tuple[str, IntentState]]:
    return [(one.intent, one.state) for one in receipts]


async def test_each_request_is_written_once_and_comments_come_last() -> None:
    writer = FakeWriter(b=S.REFUSED, c=S.ABSENT)
    mixed = batch(intent("a", IntentAction.COMMENT), intent("b"), intent("c"), intent("d"))
    receipts = await write_in_turn(mixed, writer.write)
    assert writer.written == ["b", "c", "d", "a"]
    assert states(receipts) == [("a", S.ACKED), ("b", S.REFUSED), ("c", S.ABSENT), ("d", S.ACKED)]


@pytest.mark.parametrize("detail", ["no answer", ""])
async def test_after_a_write_without_an_answer_the_rest_is_not_begun(detail: str) -> None:
    written = []

    async def write(wanted: Intent, _: SealedRequest) -> WriteReceipt:
        written.append(wanted.id)
        return write_receipt(wanted, S.UNKNOWN if wanted.id == "b" else S.ACKED, detail)

    receipts = await write_in_turn(batch(intent("a"), intent("b"), intent("c"), intent("d"), without="d"), write)
    assert written == ["a", "b"]
    assert states(receipts) == [("a", S.ACKED), ("b", S.UNKNOWN), ("c", S.ABSENT), ("d", S.REFUSED)]
    assert receipts[2].detail == f"not begun after {detail or 'a write without an answer'}"


async def test_what_is_objected_to_is_absent_and_ends_nothing() -> None:
    writer = FakeWriter()

    def only_after_b(wanted: Intent, _: SealedRequest, receipts: Mapping[str, WriteReceipt]) -> str:
        return "" if wanted.id == "b" or "b" in receipts else "b comes first"

    receipts = await write_in_turn(batch(intent("a"), intent("b"), intent("c")), writer.write, objection=only_after_b)
    assert writer.written == ["b", "c"]
    assert (receipts[0].state, receipts[0].detail) == (S.ABSENT, "b comes first")


async def seal_some(wanted: Intent, asked: Question | None) -> SealedRequest:
    assert asked == question()
    if wanted.id.startswith("odd"):
        message = f"{wanted.id} cannot be written"
        raise RequestRejectedError(message)
    if wanted.id == "down":
        raise DOWN
    return sealed(wanted.id)


async def test_what_is_rejected_is_left_out_and_if_all_is_the_reasons_are_told() -> None:
    made = await seal_in_turn(batch(intent("odd 1"), intent("a")), seal_some)
    assert made == (sealed("a"),)
    with pytest.raises(RequestRejectedError, match=r"^odd 1 cannot be written; odd 2 cannot be written$"):
        await seal_in_turn(batch(intent("odd 1"), intent("odd 2")), seal_some)
    with pytest.raises(ServiceUnavailableError):
        await seal_in_turn(batch(intent("a"), intent("down")), seal_some)
    assert await seal_in_turn(batch(), seal_some) == ()


async def test_what_cannot_be_read_is_unknown_but_for_a_refused_account() -> None:
    async def read(wanted: Intent, requests: Sequence[SealedRequest]) -> WriteReceipt:
        if wanted.id == "a":
            raise NO_LIST
        if wanted.id == "c":
            raise NOT_OURS
        return write_receipt(wanted, S.ACKED, reference=requests[0].tag)

    first, second = await read_in_turn(batch(intent("a"), intent("b")), read)
    assert (first.state, first.detail) == (S.UNKNOWN, "cannot be read: no list")
    assert (second.state, second.reference) == (S.ACKED, "tag of b")
    with pytest.raises(AuthenticationError):
        await read_in_turn(batch(intent("c"), intent("b")), read)


async def test_a_cancellation_without_an_answer_holds_up_no_other_until_two_in_a_row() -> None:
    asked = []

    async def cancel(order_id: str) -> bool:
        asked.append(order_id)
        if order_id.startswith("lost"):
            raise DOWN
        return order_id.startswith("gone")

    orders = ["gone 1", "lost 1", "stays", "lost 2", "gone 2"]
    assert await cancel_in_turn(orders, cancel) == {"gone 1", "gone 2"}
    assert asked == orders
    asked.clear()
    with pytest.raises(ServiceUnavailableError):
        await cancel_in_turn(["lost 1", "lost 2", "gone 1"], cancel)
    assert asked == ["lost 1", "lost 2"]


class FakeWire:
    def __init__(self, answer: HttpResponse | Exception) -> None:
        self.answer = answer
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        assert (max_bytes, deadline_s) == (10, 3.0)
        self.sent.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (HttpResponse(status=200), S.ACKED),
        (HttpResponse(status=400), S.REFUSED),
        (HttpResponse(status=500), S.UNKNOWN),
        (RequestRejectedError("halted"), S.ABSENT),
        (ServiceUnavailableError("no answer"), S.UNKNOWN),
        (MalformedDataError("too large"), S.UNKNOWN),
    ],
)
async def test_a_request_is_sent_once_whatever_comes_of_it(answer: HttpResponse | Exception, state: S) -> None:
    def judge(reply: HttpResponse) -> WriteVerdict:
        return verdict_by_status(reply, taken=200) or refusal_verdict("no")

    wire, request = FakeWire(answer), HttpRequest(method="POST", url="https://venue.example")
    verdict, reply = await send_once(wire, request, judge, max_bytes=10, deadline_s=3.0)
    assert wire.sent == [request]
    assert (verdict.state, reply) == (state, None if isinstance(answer, Exception) else answer)
    assert verdict.responsible is ResponsibleParty.NOBODY


def test_once_the_account_was_refused_nothing_more_is_sealed() -> None:
    refusal = AccountRefusal(venue="lantern", remedy="mend the key, then start again")
    for party in (ResponsibleParty.NOBODY, ResponsibleParty.DEVELOPER, ResponsibleParty.OPERATOR_IF_ALL):
        refusal.note_verdict(refusal_verdict("no", party), sealed("a"))
    wall = WriteVerdict(state=S.ABSENT, detail="a wall", responsible=ResponsibleParty.OPERATOR)
    with capture_logs() as logs:
        refusal.note_verdict(wall, sealed("a"))
        refusal.note_verdict(refusal_verdict("no", ResponsibleParty.NOBODY), sealed("a"))
    assert [(entry["event"], entry["detail"]) for entry in logs] == [("operator must act", "a wall")]
    refusal.require_accepted()
    refusal.note_verdict(refusal_verdict("401", ResponsibleParty.OPERATOR), sealed("a"))
    with pytest.raises(AuthenticationError, match=r"^the account was refused \(401\); mend the key, then start again$"):
        refusal.require_accepted()


def test_a_changed_question_gets_no_request_unless_something_is_taken_back() -> None:
    asked, now = question(), question(title="Will it snow?")
    assert report_changed_question(intent("a"), asked, now) == SealedRequest.without_request(intent("a"), now)
    assert report_changed_question(intent("a"), asked, asked) is None
    assert report_changed_question(intent("a"), None, now) is None
    assert report_changed_question(intent("a", IntentAction.WITHDRAW), asked, now) is None
