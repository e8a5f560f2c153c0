"""No command that people or the daemon run often reads a large table from end to end.

Every statement that the commands and one pass of all jobs send to the ledger is recorded by SQLite's own trace, and
explained by SQLite on a ledger with something in each table. What commands read is also counted, on two ledgers: a plan
that finds all acknowledged orders by an index looks like one that finds few.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.cli.main import main
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.execution.paper.paper_book import PAPER_BOOK_FILE, paper_book_path
from bot.store.accounts import AccountKey
from bot.store.cost_totals import forget_cost_totals
from bot.store.database import open_writer
from bot.store.evidence import evidence_path
from bot.store.ledger import LEDGER_FILE, open_ledger, open_read_only
from bot.store.market_totals import fill_open_markets
from bot.store.schema_views import IS_RESOLVED
from bot.store.submission_queries import read_paper_outcomes
from bot.web.app import create_web_app
from bot.web.watched_state import WatchedState
from tests.grown_ledger import ACCOUNT, NOW, GrownLedger, grow_ledger
from tests.ledger_checks import copy_databases

# What grows with every forecast.
LARGE = (
    *("question", "question_version", "target", "price", "schedule", "resolution", "forecast", "prediction", "trial"),
    *("intent", "decision", "attempt", "fill", "score", "model_call", "event"),
    *("payout", "closed_market", "ticket", "position", "movement", "posting", "settlement"),
    *("step", "recording", "bundle", "shared_document"),
)
# Indexes of the few rows that are under way or failed.
SMALL_INDEXES = (
    "schedule_leased",
    "schedule_window",
    "question_unresolved",
    "prediction_unscored",
    "forecast_running",
    "forecast_undecided",
    "forecast_failed",
    "model_call_reserved",
    "bundle_alone",
    "resolution_void",
    "position_held",
    "ticket_open",
    "movement_undone",
)
COMMANDS: Sequence[tuple[str, ...]] = (
    ("status",),
    ("doctor",),
    ("questions",),
    ("questions", "--state", "open"),
    ("questions", "--state", "closed"),
    ("orders",),
    ("orders", "--open"),
    ("orders", "--live"),
    ("portfolio",),
    ("portfolio", "--json"),
    ("locks",),
    ("show", "lantern:q5"),
    ("explain", f"{5:024x}"),
    ("costs",),
    *(("costs", "--by", name) for name in ("day", "venue", "forecaster", "role", "question")),
    ("costs", "--since", "2026-01-01"),
    ("score",),
    ("score", "--json", "-"),
    ("score", "--paper"),
    ("score", "--live"),
    ("score", "--forecaster", "plain", "--source", "almanac", "--venue", "lantern"),
    ("score", "--since", "2026-11-01"),
    ("run", "--once"),
)
# What a backup counts: it reads every page of the ledger anyway. And once an hour, in a thread, the job that copies the
# evidence counts its bundles by a covering index: 34 ms for 1,000,000 of them.
COUNTED = re.compile(
    r"select count\(\*\) from (?:question|forecast|intent|fill|resolution|audit)"
    r"|\s*select count\(\*\) from bundle indexed by bundle_by_scope where .*\s*"
)
REF = "'lantern:q5'"
TRIGGERED = (
    f"update question set resolved = ({IS_RESOLVED.format(ref=REF)}) where ref = {REF}",  # noqa: S608
    f"update intent set question_resolved = 1 where ref = {REF} and action = 'order'",  # noqa: S608
)
READ = re.compile(r"\s*(?:select|with|update|delete|insert)", re.IGNORECASE)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> GrownLedger:
    folder = tmp_path_factory.mktemp("state") / "paper"
    folder.mkdir(mode=0o700)
    return grow_ledger(folder / LEDGER_FILE, 1000)


@pytest.fixture
def traced(grown: GrownLedger, monkeypatch: pytest.MonkeyPatch) -> dict[str, None]:
    """The statements that this process sends to the ledger from now on."""
    seen: dict[str, None] = {}
    connect, own = sqlite3.connect, (LEDGER_FILE, evidence_path(grown.path).name, PAPER_BOOK_FILE)

    def connect_traced(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(database, *arguments, **options)
        if str(database).partition("?")[0].rpartition("/")[2] in own:
            connection.set_trace_callback(seen.setdefault)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_traced)
    monkeypatch.setenv("FOXCAST_STATE", str(grown.path.parent.parent))
    return seen


def use_trading_account(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands know of the account that the grown ledger has."""
    config = folder / "trading.toml"
    config.write_text(f'plugins = []\n[venues.lantern]\naccount = "{ACCOUNT}"\nforecasters = ["plain"]\n')
    monkeypatch.setenv("FOXCAST_CONFIG", str(config))


# Ledgers of all days of ten years, so that what is kept by day is the same in both.
FEW, MANY = 4_000, 8_000
# Of all questions 2 % are open and 2 % void, which commands count: up to 100 steps of SQLite for each of these.
MOST_STEPS_A_QUESTION = 3
STEPS_COUNTED = 100
VALUES = re.compile(r"'[^']*'|\b\d+\b")


@pytest.fixture(scope="module")
def few_and_many(tmp_path_factory: pytest.TempPathFactory) -> tuple[GrownLedger, GrownLedger]:
    few, many = (tmp_path_factory.mktemp(name) / "paper" for name in ("few", "many"))
    for folder in (few, many):
        folder.mkdir(mode=0o700)
    return grow_ledger(few / LEDGER_FILE, FEW), grow_ledger(many / LEDGER_FILE, MANY)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS[:-1], ids=" ".join)
def test_a_statement_does_the_same_work_on_a_larger_ledger(
    command: tuple[str, ...],
    few_and_many: tuple[GrownLedger, GrownLedger],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few, many = (count_steps(command, grown, monkeypatch) for grown in few_and_many)
    most = MOST_STEPS_A_QUESTION * (MANY - FEW)
    assert [(few[sql], steps, sql) for sql, steps in many.items() if steps - few[sql] > most] == []


def count_steps(command: tuple[str, ...], grown: GrownLedger, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how many steps of SQLite's machine each statement of a command took, without its values."""
    steps, running, connect = Counter[str](), [""], sqlite3.connect

    def count() -> None:
        steps[running[0]] += STEPS_COUNTED

    def begin(sql: str) -> None:
        running[0] = VALUES.sub("?", " ".join(sql.split())) if READ.match(sql) else "other"

    def connect_counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(begin)
        connection.set_progress_handler(count, STEPS_COUNTED)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect_counting)
        patched.setenv("FOXCAST_STATE", str(grown.path.parent.parent))
        if command[0] == "portfolio":
            use_trading_account(grown.path.parent, patched)
        assert main(command) == 0
    # The check of a small ledger reads its pages, and of each job the last 1,000 runs are kept.
    return Counter({sql: count for sql, count in steps.items() if sql != "other" and "job_run" not in sql})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_large_table_is_read_from_end_to_end(
    command: tuple[str, ...],
    grown: GrownLedger,
    traced: dict[str, None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command[0] == "portfolio":
        use_trading_account(grown.path.parent, monkeypatch)
    assert main(command) == 0
    if command[0] == "portfolio":
        assert "realised" in capsys.readouterr().out
    statements = [sql for sql in traced if READ.match(sql) and not COUNTED.fullmatch(sql)]
    assert len(statements) > 3
    assert list(full_scans(grown.path, statements)) == []


async def test_jobs_of_a_trading_account_read_no_large_table_from_end_to_end(
    grown: GrownLedger, traced: dict[str, None]
) -> None:
    key = AccountKey(venue="lantern", account=ACCOUNT, paper=True)
    async with open_ledger(grown.path, now=NOW) as ledger:
        traced.clear()
        await ledger.submissions.readers.run(lambda database: read_paper_outcomes(database, "lantern"))
        assert await ledger.profits.decided(key) == []
        await ledger.profits.close_markets(key, now=NOW, redeems=False)
        await ledger.questions.awaiting_outcome("lantern", since=NOW - timedelta(days=100))
        await ledger.permissions.write(lambda database: forget_cost_totals(database, at="2026-06-01"))
        assert await ledger.calls.sum_finished_days(now=NOW)
    statements = [sql for sql in traced if READ.match(sql)]
    assert len(statements) > 6
    assert list(full_scans(grown.path, statements)) == []


@pytest.mark.timeout(300)
async def test_to_close_a_market_does_not_read_the_others_that_are_open(
    few_and_many: tuple[GrownLedger, GrownLedger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the update that opened the markets of all years, one pass closes them."""
    copies = [open_all_markets(grown, tmp_path / str(grown.questions)) for grown in few_and_many]
    few, many = [await count_steps_to_close(copy, monkeypatch) for copy in copies]
    assert 0 < many < 1.3 * few


def open_all_markets(grown: GrownLedger, folder: Path) -> Path:
    """Return a copy of a ledger in which all markets are open."""
    folder.mkdir(mode=0o700)
    copy_databases(grown.path, copy := folder / LEDGER_FILE)
    with closing(open_writer(copy)) as database:
        for table in ("closed_market", "open_market"):
            database.execute(f"delete from {table}")  # noqa: S608 - names of ours
        fill_open_markets(database)
    return copy


async def count_steps_to_close(ledger_path: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """Close the markets that are over; return the steps of SQLite's machine for each of them."""
    steps, connect = [0], sqlite3.connect

    def count() -> None:
        steps[0] += STEPS_COUNTED

    def connect_counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_progress_handler(count, STEPS_COUNTED)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect_counting)
        async with open_ledger(ledger_path, now=NOW) as ledger:
            key, steps[0] = AccountKey(venue="lantern", account=ACCOUNT, paper=True), 0
            closed = await ledger.profits.close_markets(key, now=NOW, redeems=False)
            return steps[0] / closed


def test_a_trigger_reads_no_large_table_from_end_to_end(grown: GrownLedger) -> None:
    assert list(full_scans(grown.path, TRIGGERED)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from forecast where state = 'done'",
        "select f.id from forecast f join model_call m on m.scope = f.id where m.cost_usd > 0",
        "select count(*) from question",
        "select * from intent order by cost desc limit 5",
        "select s.body from step s",
        "select sum(cost_usd) from model_call indexed by model_call_by_time where at >= ''",
        "select min(at) from model_call where state = 'reserved'",
        "select sum(amount) from posting where place = 'gain'",
    ],
)
def test_a_full_scan_is_found(grown: GrownLedger, sql: str) -> None:
    assert list(full_scans(grown.path, [sql])) != []


def full_scans(ledger: Path, statements: Sequence[str]) -> Iterator[str]:
    """Yield the statements whose plan reads a whole large table, with the line of the plan."""
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("attach ? as attached", [str(evidence_path(ledger))])
        connection.execute("attach ? as book", [str(paper_book_path(ledger.parent, "lantern"))])
        for sql in statements:
            plan = [str(row[3]) for row in connection.execute(f"explain query plan {sql}")]
            # A walk along the order that is asked for ends at the limit.
            is_limited = " limit " in f" {' '.join(sql.split())} ".lower() and not any("TEMP B-TREE" in x for x in plan)
            scanned = [] if is_limited else [(scanned_table(line, sql), line) for line in plan]
            scanned += [(from_first_to_last(line, sql), line) for line in plan]
            scanned += [(walked_table(line, sql), line) for line in plan]
            yield from (f"{table}: {line}: {' '.join(sql.split())[:300]}" for table, line in scanned if table)


def scanned_table(line: str, sql: str) -> str | None:
    """Return the large table that a line of a plan reads from end to end, if it does."""
    found = re.fullmatch(r"SCAN (?P<name>\w+)(?: USING (?:COVERING )?INDEX (?P<index>\w+))?", line)
    if found is None or found["index"] in SMALL_INDEXES:
        return None
    return large_table(found["name"], sql)


def from_first_to_last(line: str, sql: str) -> str | None:
    """Return the large table whose rows of all times a line of a plan finds, if it does: those since '' or '0'."""
    found = re.fullmatch(r"SEARCH (?P<name>\w+) USING (?:COVERING )?INDEX (?P<index>\w+) \((?P<column>\w+)>\?\)", line)
    if found is None or found["index"] in SMALL_INDEXES:
        return None
    is_open = re.search(rf"\b{found['column']} >=? '0?'", sql) is not None
    return large_table(found["name"], sql) if is_open else None


def walked_table(line: str, sql: str) -> str | None:
    """Return the large table along whose index a minimum or maximum looks for a row that fits, if it does."""
    found = re.fullmatch(r"SEARCH (?P<name>\w+) USING INDEX (?P<index>\w+)", line)
    if found is None or found["index"] in SMALL_INDEXES or " where " not in f" {' '.join(sql.split())} ":
        return None
    return large_table(found["name"], sql)


def large_table(name: str, sql: str) -> str | None:
    """Return the large table with that name or alias."""
    if name in LARGE:
        return name
    aliased = re.search(rf"\b({'|'.join(LARGE)})\s+(?:as\s+)?{name}\b", sql)
    return aliased[1] if aliased else None


PAGE_ADDRESSES = (
    *("/", "/jobs", "/audit", "/question?ref=lantern:q5", "/questions?sort=closes", "/questions?sort=closed"),
    *("/questions?state=open&sort=closes", "/questions?state=resolved", "/questions?q=no+such+words", "/questions"),
    *("/costs?days=7", "/forecasters?days=30", "/metrics"),
)


async def test_no_page_of_the_dashboard_reads_a_large_table_from_end_to_end(
    grown: GrownLedger, traced: dict[str, None]
) -> None:
    config = Config.model_validate(
        {"state": grown.path.parent.parent, "venues": {"lantern": {"forecasters": ["plain"]}}}
    )
    async with open_read_only(config) as records:
        state = WatchedState(
            config=config, folder=records.folder, ledger=records.ledger, clock=SystemClock(), clock_skew=lambda: None
        )
        transport = httpx.ASGITransport(create_web_app(state, token=None))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for address in PAGE_ADDRESSES:
                assert (await client.get(address)).status_code == 200
    statements = [sql for sql in traced if READ.match(sql)]
    assert len(statements) > 30
    assert list(full_scans(grown.path, statements)) == []


def test_a_portfolio_lists_the_newest_closed_markets_and_counts_the_others(
    grown: GrownLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOXCAST_STATE", str(grown.path.parent.parent))
    use_trading_account(grown.path.parent, monkeypatch)
    found = []
    for options in (("--limit", "10"), ("--all",)):
        assert main(("portfolio", "--json", *options)) == 0
        found += json.loads(capsys.readouterr().out)
    short, whole = found
    closed = [one for one in short["markets"] if one["closed_at"] is not None]
    assert len(short["markets"]) + short["markets_left_out"] == len(whole["markets"])
    assert closed[0]["closed_at"] == max(one["closed_at"] for one in whole["markets"] if one["closed_at"])
    assert whole["markets_left_out"] == 0
    assert short["realised"] == pytest.approx(whole["realised"])
    assert main(("portfolio", "--limit", "10")) == 0
    assert f"and {len(whole['markets']) - 10 - len(short['positions'])} more: foxcast portfolio --all" in (
        capsys.readouterr().out
    )


def test_costs_by_question_are_those_of_the_last_days(
    grown: GrownLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOXCAST_STATE", str(grown.path.parent.parent))
    counts = []
    for options in (("--limit", "100000"), ("--all",), ("--since", "2020-01-01", "--limit", "100000")):
        assert main(("costs", "--by", "question", "--json", *options)) == 0
        counts.append(len(json.loads(capsys.readouterr().out)["rows"]))
    assert counts[0] < counts[2] < counts[1] == grown.questions
