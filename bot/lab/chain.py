"""What a forecast rests on, read from the record of its trials: calls to models, sources, and what each document is."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.domain.prompt import Answer
from bot.domain.step import Step
from bot.errors import ContractError
from bot.llm.record import RECORD, Asked
from bot.store.calls import CallState
from bot.store.codec import Form
from bot.store.documents import Document, Documents
from bot.store.exchanges import Exchange
from bot.store.forecasts import Trace
from bot.store.ledger import Ledger
from bot.store.packing import unpacked
from bot.store.tallies import Tally, tallies

MODEL, TOOL, DIALECT = "model", "tool", "dialect"
# What the tools of the desk call a result, and what evidence names as its source.
RESULT = re.compile(r"\bsearch_\d+_result_\d+\b")
_ANSWER: Form[Answer] = Form("answer", Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An answer of a model to a trial, with the digest of its exchange.

    ``role`` and ``asked`` are there where the record of the call is.
    """

    trial: int
    exchange: str
    answer: Answer
    role: str = ""
    asked: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was asked in a trial and went wrong: the kind of exchange, and what was said."""

    trial: int
    kind: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What is on record beside the steps of a forecast.

    ``kinds`` says of a document by which kind of exchange it came; ``addresses`` where a result was found, by trial and
    name; ``spent_usd`` is what all calls cost in US dollars, also those without an answer; ``tallies`` is that by how
    they ended.
    """

    calls: tuple[Call, ...] = ()
    faults: tuple[Fault, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[tuple[int, str], str] = field(default_factory=dict)
    spent_usd: float = 0.0
    tallies: Mapping[CallState, Tally] = field(default_factory=dict)

    @property
    def unheard_usd(self) -> float:
        """What answers cost that no trial heard: it was over by then, or a fallback had answered."""
        answered = self.tallies.get(CallState.DONE, Tally()).usage.cost_usd
        return max(0.0, answered - sum(call.answer.usage.cost_usd for call in self.calls))

    def calls_of(self, trial: int, step: Step) -> list[Call]:
        """Return the calls to models that a step rests on."""
        cited = {*step.observation.documents}
        return [call for call in self.calls if call.trial == trial and {call.answer.document, call.exchange} & cited]

    def address(self, trial: int, source: str) -> str | None:
        """Return where the result was found that a source names; None where it names none on record."""
        found = RESULT.search(source)
        return None if found is None else self.addresses.get((trial, found.group()))

    def kind(self, document: str) -> str:
        """Say what a document is: an exchange of some kind, the record of a call, or else a text that was kept."""
        if any(call.answer.document == document for call in self.calls):
            return "call"
        return self.kinds.get(document, "text")


async def chain_of(ledger: Ledger, trace: Trace) -> Chain:
    """Read what is on record of all trials of a forecast; raises StoreError for what is damaged."""
    gathered = _Gathered()
    calls: list[Call] = []
    for record in trace.trials:
        for key, exchange in (await ledger.exchanges.of(trace.id, record.number)).items():
            gathered.add(record.number, key.kind, exchange)
        # Trial by trial: the records of all calls of a forecast together may be large.
        calls += await _with_records(ledger.documents, gathered.calls)
        gathered.calls.clear()
    tallied = await tallies(ledger, [trace.id])
    return Chain(
        calls=tuple(_in_order(trace, calls)),
        faults=tuple(gathered.faults),
        kinds=gathered.kinds,
        addresses=gathered.addresses,
        spent_usd=sum(tally.usage.cost_usd for tally in tallied.values()),
        tallies=tallied,
    )


@dataclass(slots=True)
class _Gathered:
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    addresses: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, trial: int, kind: str, exchange: Exchange) -> None:
        self.kinds[exchange.digest] = kind
        body = json.loads(exchange.body)
        if "told" not in body:
            self._fault(trial, kind, str(body.get("says", "")))
        elif kind == MODEL:
            answer = _ANSWER.value(body["told"])
            self.calls.append(Call(trial=trial, exchange=exchange.digest, answer=answer))
        elif kind == TOOL:
            self.addresses.update(_found(trial, body["told"]))

    def _fault(self, trial: int, kind: str, says: str) -> None:
        # That no model plays a role is no failure: a tool may look whether one does.
        if kind != DIALECT:
            self.faults.append(Fault(trial=trial, kind=kind, says=says))


def _in_order(trace: Trace, calls: list[Call]) -> list[Call]:
    """Return the calls in the order in which steps rest on them; those on which none does come last."""
    cited = [
        (record.number, document)
        for record in trace.trials
        for logged in record.steps
        for document in logged.step.observation.documents
    ]
    places = {name: place for place, name in reversed([*enumerate(cited)])}
    last = len(cited)

    def place(call: Call) -> tuple[int, int]:
        names = ((call.trial, call.answer.document), (call.trial, call.exchange))
        return call.trial, min(places.get(name, last) for name in names)

    return sorted(calls, key=place)


async def _with_records(documents: Documents, calls: Sequence[Call]) -> list[Call]:
    """Return the calls with what was asked, where that is on record."""
    found = await unpacked(documents, [call.answer.document for call in calls])
    return [_with_record(call, found.get(call.answer.document)) for call in calls]


def _with_record(call: Call, document: Document | None) -> Call:
    try:
        record = None if document is None else RECORD.decode(document.content.decode())
    except (ContractError, UnicodeDecodeError):
        record = None
    # Models that no gateway stands before keep a record of another form, or none.
    return call if record is None else replace(call, role=record.role, asked=record.asked)


def _found(trial: int, told: Mapping[str, Any]) -> Iterator[tuple[tuple[int, str], str]]:
    note = told.get("note", {})
    for place, found in enumerate(note.get("found", ()), 1):
        yield (trial, f"search_{note.get('search', 0)}_result_{place}"), str(found.get("url", ""))
