"""A ledger of many years, made with plain SQL: each question has one forecast, most are resolved and scored."""

# ruff: noqa: S608 - statements made of the constants below

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Database

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.forecasts import Trial, TrialEnd
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.store.documents import compress_document
from bot.store.evidence import evidence_path
from bot.store.ledger import open_ledger
from bot.store.score_totals import fill_score_rounds, fill_score_totals
from bot.store.serialization import STEP, TRIAL

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
STEPS = 10
TEMPLATE = "TEMPLATE"
# Of each thousand questions so many are open, and of those so many are due.
OPEN, DUE = 20, 5
_NUMBERS = "with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < :count)"
_ID = "printf('%024x', i)"
_REF = "printf('lantern:q%d', i)"
_VERSION = "printf('version %d', i)"
# The newest questions are open; the forecasts of the others were made over the years before.
_IS_OPEN = "i >= :closed"
_IS_VOID = "(i % 50 = 49)"
_PROBABILITY, _PRICE = ("(0.1 + 0.8 * (i * 53 % 100) / 100.0)", "(0.1 + 0.8 * (i * 37 % 100) / 100.0)")
_AT = "strftime('%Y-%m-%dT%H:%M:%S.000000Z', :end - (:count - i) * :apart, 'unixepoch')"
_LATER = "strftime('%Y-%m-%dT%H:%M:%S.000000Z', :end - (:count - i) * :apart + 3600, 'unixepoch')"
_CLOSE = f"""case when {_IS_OPEN} then strftime('%Y-%m-%dT%H:%M:%S.000000Z', :end + (1 + i % 60) * 86400, 'unixepoch')
  else {_LATER} end"""
_LEDGER = (
    f"""insert into question (ref, venue, key, version, title, source, family, batch, closes_at, first_seen_at,
      changed_at)
    {_NUMBERS} select {_REF}, 'lantern', printf('q%d', i), {_VERSION}, printf('Will number %d come up?', i),
      'almanac', 'market', printf('batch %d', i / 500), {_CLOSE}, {_AT}, {_AT} from n""",
    f"""insert into question_version (version, ref, seen_at, body)
    {_NUMBERS} select {_VERSION}, {_REF}, {_AT}, replace(:question, '{TEMPLATE}', printf('q%d', i)) from n""",
    f"insert into target (version, target, ref) {_NUMBERS} select {_VERSION}, 'outcome', {_REF} from n",
    f"""insert into price (ref, at, seen_at, probability, explanation)
    {_NUMBERS} select {_REF}, {_AT}, {_AT}, {_PRICE}, '' from n""",
    f"""insert into schedule (ref, forecaster, due_at, why, closes_at, answered_at, window)
    {_NUMBERS} select {_REF}, 'plain', case when i >= :due then {_AT} when {_IS_OPEN} then {_CLOSE} end, 'new',
      {_CLOSE}, {_LATER}, case when {_IS_OPEN} then 'open' else 'met' end from n""",
    f"""insert into forecast (id, ref, version, price, forecaster, revision, cutoff, why, state, started_at, made_at,
      ended_at, decided_at)
    {_NUMBERS} select {_ID}, {_REF}, {_VERSION}, i + 1, 'plain', 1, {_AT}, 'new', 'done', {_AT}, {_LATER}, {_LATER},
      {_LATER} from n""",
    # A trigger counts forecasts that become done; these are done from the beginning.
    "insert into tally (name, count) select 'forecasts', count(*) from forecast",
    f"""insert into prediction (forecast, target, ref, probability, raw_probability)
    {_NUMBERS} select {_ID}, 'outcome', {_REF}, {_PROBABILITY}, 0.5 from n""",
    f"""insert into trial (forecast, number, steps, ended_at, ending, body)
    {_NUMBERS} select {_ID}, 1, {STEPS}, {_LATER}, case when i % 50 then 'finished' else 'step limit' end,
      :trial from n""",
    f"""insert into resolution (ref, target, kind, value, body, resolved_at, seen_at)
    {_NUMBERS} select {_REF}, 'outcome', iif({_IS_VOID}, 'void', 'happened'), iif({_IS_VOID}, null, i % 2),
      iif({_IS_VOID}, '{{"reason":"annulled","kind":"void"}}', '{{"value":1.0,"kind":"happened"}}'), {_LATER}, {_LATER}
      from n where i < :closed""",
    """update prediction set scored_against = (
      select r.id from resolution r where r.ref = prediction.ref and r.target = prediction.target)""",
    *(
        f"""insert into score (forecast, target, rule, resolution, value, at)
        {_NUMBERS} select {_ID}, 'outcome', '{rule}', i + 1, {error} * {error}, {_LATER}
          from n where i < :closed and not {_IS_VOID}"""
        for rule, error in (("brier", f"({_PROBABILITY} - i % 2)"), ("crowd brier", f"({_PRICE} - i % 2)"))
    ),
    f"""insert into intent (seq, id, forecast, ref, venue, account, batch, action, mode, predictions, state, planned_at,
      changed_at, order_body, currency, cost)
    {_NUMBERS} select i + 1, printf('intent %d', i), {_ID}, {_REF}, 'lantern', 'us', printf('intent %d', i), 'order',
      'paper', '{{}}', case when i % 3 then 'acked' else 'refused' end, {_LATER}, {_LATER},
      json_object('contract', printf('m%d', i), 'leg', 'yes', 'side', 'buy', 'shares', 10.0, 'limit', 0.5, 'cost', 5.0,
        'expected', 0.4, 'currency', 'COIN', 'fees', 0.0, 'edge', 0.05), 'COIN', 5.0
      from n where i % 3 < 2""",
    f"""insert into decision (forecast, at, verdict, why, mode, intent)
    {_NUMBERS} select {_ID}, {_LATER}, case when i % 3 < 2 then 'send' else 'hold' end, 'as planned',
      case when i % 3 < 2 then 'paper' end, case when i % 3 < 2 then printf('intent %d', i) end from n""",
    f"""insert into attempt (id, intent, number, started_at, settled_at, state)
    {_NUMBERS} select printf('attempt %d', i), printf('intent %d', i), 1, {_LATER}, {_LATER},
      case when i % 3 then 'acked' else 'refused' end from n where i % 3 < 2""",
    f"""insert into fill (intent, reference, at, shares, price, fee, cash)
    {_NUMBERS} select printf('intent %d', i), 'fill', {_LATER}, 10.0, 0.5, 0.0, -5.0 from n where i % 3 = 1""",
    f"""insert into model_call (id, at, scope, ref, venue, forecaster, trial, role, provider, model, request, state,
      worst_usd, cost_usd, attempts, calls, tokens_in, tokens_out, latency_s, answer)
    {_NUMBERS} select printf('call %d %d', i, k), {_AT}, {_ID}, {_REF}, 'lantern', 'plain', 1, 'main', 'house',
      'house:small', printf('request %d %d', i, k), 'done', 0.01, 0.001, 1, 1, 1000, 100, 2.0, :document
      from n, (select 1 as k union all select 2)""",
    f"""insert into job_run (job, started_at, ended_at, outcome, detail)
    {_NUMBERS} select printf('job %d', i % 12), {_AT}, {_AT}, 'ok', 'done' from n where i >= :count - 12000""",
    f"insert into event (at, kind, text) {_NUMBERS} select {_AT}, 'request', 'lock' from n where i % 10 = 0",
)
_EVIDENCE = (
    "insert into bundle (scope, codec, packed) values ('', 'zlib', :packed)",
    """insert into evidence_document (digest, media_type, size, bundle, place)
    values (:document, 'application/json', :size, 1, 0)""",
    f"""insert into step (forecast, trial, number, at, action, cost_usd, body)
    {_NUMBERS} select {_ID}, 1, k, {_AT}, 'web_search', 0.0, :document
      from n, (with recursive s(k) as (select 1 union all select k + 1 from s where k < {STEPS}) select k from s)""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownLedger:
    """A ledger with its evidence."""

    path: Path
    questions: int

    @property
    def open_questions(self) -> int:
        """How many questions are open."""
        return max(1, self.questions * OPEN // 1000)

    @property
    def due_questions(self) -> int:
        """How many of them are due."""
        return max(1, self.questions * DUE // 1000)


def grow_ledger(path: Path, questions: int) -> GrownLedger:
    """Make a ledger of ten years with so many questions, each with a forecast of ten steps."""
    grown = GrownLedger(path=path, questions=questions)
    asyncio.run(_make_empty(path))
    values = {
        "count": questions,
        "closed": questions - grown.open_questions,
        "due": questions - grown.due_questions,
        "end": int(NOW.timestamp()) - 7200,
        "apart": 10 * 365 * 86400 // questions,
        **asyncio.run(_templates(path)),
    }
    for file, statements in ((path, _LEDGER), (evidence_path(path), _EVIDENCE)):
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            for setting in ("synchronous = off", "cache_size = -400000", "temp_store = memory", "foreign_keys = off"):
                database.execute(f"pragma {setting}")
            for statement in statements:
                database.execute("begin")
                database.execute(statement, values)
                database.execute("commit")
            if file == path:
                filled = Database(database, recursive_triggers=False, execute_plugins=False)
                fill_score_totals(filled)
                fill_score_rounds(filled)
            database.execute("pragma wal_checkpoint(truncate)")
    asyncio.run(_sum_costs(path))
    return grown


async def _make_empty(path: Path) -> None:
    async with open_ledger(path, now=NOW):
        pass


async def _sum_costs(path: Path) -> None:
    async with open_ledger(path, now=NOW) as ledger:
        await ledger.calls.sum_finished_days(now=NOW)


async def _templates(path: Path) -> dict[str, object]:
    """Return the question, step and trial that all are copies of, as the ledger stores them."""
    question = Question(
        ref=QuestionRef("lantern", TEMPLATE),
        title=f"Will number {TEMPLATE} come up?",
        shape=BinaryShape(),
        targets=(Target(),),
        source="almanac",
        family="market",
    )
    belief = Belief(predictions={"outcome": BinaryPrediction(0.4)}, reason="It came up in four of ten years.")
    step = Step(action=StepAction(name="web_search"), observation=StepObservation(text="Nothing new."), belief=belief)
    trial = Trial(number=1, end=TrialEnd.FINISHED, belief=belief, steps=STEPS)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        async with open_ledger(Path(folder) / path.name, now=NOW) as ledger:
            await ledger.questions.record([question], seen_at=NOW)
            body = await ledger.documents.readers.run(
                lambda database: database.execute("select body from question_version").fetchone()[0]
            )
    document = compress_document(STEP.encode(step).encode(), "application/json")
    return {
        "question": body,
        "trial": TRIAL.encode(trial),
        "document": document.digest,
        "packed": document.packed,
        "size": document.size,
    }
