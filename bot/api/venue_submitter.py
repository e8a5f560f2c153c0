"""What the author of a venue's writer uses; a paper book is called in the same order.

Called in this order: ``writer``, ``read_submissions``, ``account``, ``seal_requests``, ``submit``.

``VenueSpec.writer`` is entered once, only where submission is live; then ``check`` proves the credentials and writes
nothing. Each pass begins with ``read_submissions``, which reads back what is open or has no answer. ``account`` is read
before orders are planned, and when a pass ends. For what passed the gate, ``seal_requests`` makes the requests, and
``submit`` writes each of them once. ``list_writes`` finds writes of somebody else, ``cancel`` ends open orders, and
``payout_per_share`` says what a resolved position pays.
"""

from bot.core.interfaces import SealingSubmitter, TradingSubmitter, VenueSubmitter, WriteClient
from bot.core.orders import Fill, UnpaidOutcome, VenueReportedGain
from bot.core.plugin_specs import VenueWriterContext
from bot.core.submissions import (
    ExecutionMode,
    Intent,
    IntentAction,
    IntentState,
    ListedWrite,
    SealedRequest,
    SubmissionBatch,
    WriteReceipt,
)
from bot.core.venue_http import (
    HttpRequest,
    HttpResponse,
    ResponsibleParty,
    WriteVerdict,
    detail_suffix,
    refusal_verdict,
    response_fields,
    response_json,
    verdict_by_status,
)
from bot.execution.outbox.write_loop import (
    AccountRefusal,
    cancel_in_turn,
    find_batch_question,
    read_in_turn,
    report_changed_question,
    seal_in_turn,
    send_once,
    write_in_turn,
    write_receipt,
)

__all__ = [
    "AccountRefusal",
    "ExecutionMode",
    "Fill",
    "HttpRequest",
    "HttpResponse",
    "Intent",
    "IntentAction",
    "IntentState",
    "ListedWrite",
    "ResponsibleParty",
    "SealedRequest",
    "SealingSubmitter",
    "SubmissionBatch",
    "TradingSubmitter",
    "UnpaidOutcome",
    "VenueReportedGain",
    "VenueSubmitter",
    "VenueWriterContext",
    "WriteClient",
    "WriteReceipt",
    "WriteVerdict",
    "cancel_in_turn",
    "detail_suffix",
    "find_batch_question",
    "read_in_turn",
    "refusal_verdict",
    "report_changed_question",
    "response_fields",
    "response_json",
    "seal_in_turn",
    "send_once",
    "verdict_by_status",
    "write_in_turn",
    "write_receipt",
]
