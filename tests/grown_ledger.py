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
from bot.execution.paper.book_database import PAPER_BOOK_MIGRATIONS
from bot.execution.paper.paper_book import paper_book_path
from bot.store.accounts import AccountKey
from bot.store.documents import compress_document
from bot.store.evidence import evidence_path
from bot.store.ledger import open_ledger
from bot.store.migrations import apply_migrations
from bot.store.score_totals import fill_score_rounds, fill_score_totals, fill_submitted_totals
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
# Of each three forecasts one is refused, one is bought for, and one is held back; of open questions fewer are bought.
_IS_FILLED = "(i % 3 = 1 and (i < :closed or i % 60 = 1))"
ACCOUNT, CAPITAL = "us", 10_000_000
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
      iif({_IS_VOID}, '{{"reason":"annulled","kind":"void"}}', printf('{{"value":%d.0,"kind":"happened"}}', i % 2)),
      {_LATER}, {_LATER} from n where i < :closed""",
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
    {_NUMBERS} select i + 1, printf('intent %d', i), {_ID}, {_REF}, 'lantern', '{ACCOUNT}', printf('intent %d', i),
      'order', 'paper', '{{}}', case when i % 3 then 'acked' else 'refused' end, {_LATER}, {_LATER},
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
    {_NUMBERS} select printf('intent %d', i), 'fill', {_LATER}, 10.0, 0.5, 0.0, -5.0 from n where {_IS_FILLED}""",
    f"""insert into model_call (id, at, scope, ref, venue, forecaster, trial, role, provider, model, request, state,
      worst_usd, cost_usd, attempts, calls, tokens_in, tokens_out, latency_s, answer)
    {_NUMBERS} select printf('call %d %d', i, k), {_AT}, {_ID}, {_REF}, 'lantern', 'plain', 1, 'main', 'house',
      'house:small', printf('request %d %d', i, k), 'done', 0.01, 0.001, 1, 1, 1000, 100, 2.0, :document
      from n, (select 1 as k union all select 2)""",
    f"""insert into job_run (job, started_at, ended_at, outcome, detail)
    {_NUMBERS} select printf('job %d', i % 12), {_AT}, {_AT}, 'ok', 'done' from n where i >= :count - 12000""",
    f"""insert into payout (venue, account, paper, contract, leg, price, at, resolution)
    {_NUMBERS} select 'lantern', '{ACCOUNT}', 1, printf('m%d', i), 'yes', iif({_IS_VOID}, null, i % 2), {_LATER}, i + 1
      from n where i < :closed and {_IS_FILLED}""",
    # One reading of each day, as they are thinned out.
    f"""insert into account_reading (venue, account, paper, at, until, currency, cash, equity, body)
    {_NUMBERS} select 'lantern', '{ACCOUNT}', 1, {_AT}, {_AT}, 'COIN', {CAPITAL}, {CAPITAL}, ''
      from n where i % max(1, :count / 3650) = 0""",
    f"insert into event (at, kind, text) {_NUMBERS} select {_AT}, 'request', 'lock' from n where i % 10 = 0",
)
_EVIDENCE = (
    """insert into bundle (scope, codec, documents, packed)
    values ('', 'zlib', json_array(json_array(:document, 'application/json')), :packed)""",
    "insert into shared_document (digest, bundle) values (:document, 1)",
    f"""insert into step (forecast, trial, number, at, action, cost_usd, body)
    {_NUMBERS} select {_ID}, 1, k, {_AT}, 'web_search', 0.0, :document
      from n, (with recursive s(k) as (select 1 union all select k + 1 from s where k < {STEPS}) select k from s)""",
)
# Each purchase of 10 shares for 5, and its payout.
_BOUGHT, _PAID_OUT = "(2 + i / 3 * 2)", "(3 + i / 3 * 2)"
_PAYOUT = f"iif({_IS_VOID}, 5000000, i % 2 * 10000000)"
# What the job that reads accounts closed over the years; it closes the rest itself.
_CLOSED_MARKETS = (
    f"""insert into closed_market (venue, account, paper, ref, contract, forecaster, option, closed_at, contracts,
      bought, sold, paid_out, fees, realised)
    {_NUMBERS} select 'lantern', '{ACCOUNT}', 1, {_REF}, printf('m%d', i), 'plain', '', {_LATER}, 1, 5000000, 0,
      {_PAYOUT}, 0, {_PAYOUT} - 5000000 from n where i < :closed * 9 / 10 and {_IS_FILLED}""",
    "delete from open_market where cast(substr(ref, length('lantern:q') + 1) as integer) < :closed * 9 / 10",
)
_BOOK = (
    f"""insert into book (id, currency, cash, begun_at)
    {_NUMBERS} select 1, 'COIN', {CAPITAL} * 1000000 + total(iif(i < :closed, {_PAYOUT}, 0) - 5000000),
      (select {_AT} from n limit 1) from n where {_IS_FILLED}""",
    "insert into movement (id, at, kind) select 1, begun_at, 'begin' from book",
    f"""insert into posting (movement, place, amount)
    values (1, 'cash', {CAPITAL} * 1000000), (1, 'capital', -{CAPITAL} * 1000000)""",
    f"""insert into ticket (seq, intent, tag, account, ref, target, event, contract, body, state, sealed_at, looked_at,
      ended_at, market)
    {_NUMBERS} select i + 1, printf('intent %d', i), printf('tag %d', i), '{ACCOUNT}', {_REF}, 'outcome', '',
      printf('m%d', i), json_object('contract', printf('m%d', i), 'leg', 'yes', 'side', 'buy', 'shares', 10.0, 'limit',
        0.5, 'cost', 5.0, 'expected', 0.4, 'currency', 'COIN', 'fees', 0.0, 'edge', 0.05), 'filled', {_LATER}, {_LATER},
      {_LATER}, '{{"price":0.5}}' from n where {_IS_FILLED}""",
    f"""insert into fill (ticket, number, at, shares, price, fee, cash)
    {_NUMBERS} select i + 1, 1, {_LATER}, 10000000, 0.5, 0, -5000000 from n where {_IS_FILLED}""",
    f"""insert into position (contract, leg, ref, target, option, event, shares, paid, mark, marked_at)
    {_NUMBERS} select printf('m%d', i), 'yes', {_REF}, 'outcome', '', '', iif({_IS_OPEN}, 10000000, 0),
      iif({_IS_OPEN}, 5000000, 0), 0.5, {_LATER} from n where {_IS_FILLED}""",
    f"""insert into settlement (id, ref, target, outcome, at)
    {_NUMBERS} select i + 1, {_REF}, 'outcome',
      iif({_IS_VOID}, '{{"reason":"annulled","kind":"void"}}', printf('{{"value":%d.0,"kind":"happened"}}', i % 2)),
      {_LATER} from n where i < :closed and {_IS_FILLED}""",
    f"""insert into movement (id, at, kind, ticket)
    {_NUMBERS} select {_BOUGHT}, {_LATER}, 'fill', i + 1 from n where {_IS_FILLED}""",
    f"""insert into movement (id, at, kind, settlement)
    {_NUMBERS} select {_PAID_OUT}, {_LATER}, iif({_IS_VOID}, 'refund', 'payout'), i + 1
      from n where i < :closed and {_IS_FILLED}""",
    f"""insert into posting (movement, place, contract, leg, amount, shares)
    {_NUMBERS} select {_BOUGHT}, place, printf('m%d', i), leg, amount, shares from n, (
      select 'cash' as place, '' as leg, -5000000 as amount, 0 as shares union all
      select 'stock', 'yes', 5000000, 10000000) where {_IS_FILLED}""",
    f"""insert into posting (movement, place, contract, leg, amount, shares)
    {_NUMBERS} select {_PAID_OUT}, place, printf('m%d', i), leg,
      case place when 'cash' then {_PAYOUT} when 'stock' then -5000000 else 5000000 - {_PAYOUT} end, shares from n, (
      select 'cash' as place, '' as leg, 0 as shares union all select 'stock', 'yes', -10000000 union all
      select 'gain', '', 0) where i < :closed and {_IS_FILLED}""",
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
    book = paper_book_path(path.parent, "lantern")
    book.parent.mkdir(mode=0o700)
    apply_migrations(book, PAPER_BOOK_MIGRATIONS, backups=None, at=NOW)
    for file, statements in ((path, (*_LEDGER, *_CLOSED_MARKETS)), (evidence_path(path), _EVIDENCE), (book, _BOOK)):
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
                fill_submitted_totals(filled)
            database.execute("pragma wal_checkpoint(truncate)")
    asyncio.run(_sum_up(path))
    return grown


async def _make_empty(path: Path) -> None:
    async with open_ledger(path, now=NOW):
        pass


async def _sum_up(path: Path) -> None:
    """Do what the daemon's jobs did over the years."""
    async with open_ledger(path, now=NOW) as ledger:
        await ledger.calls.sum_finished_days(now=NOW)
        key = AccountKey(venue="lantern", account=ACCOUNT, paper=True)
        await ledger.profits.close_markets(key, now=NOW, redeems=False)


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
    }
