"""Counts what came up in simulations: gate rules, reasons to hold, moves of the outbox, failpoints, acts of people.

What can come up is read from the program itself: the rules from their list, the reasons from the places in the source
that make a hold, the moves from the table of states. So a new one is missed without anybody thinking of it. ``KINDS``
lists what the draws of a seed bring about besides.
"""

from __future__ import annotations

import ast
import inspect
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bot.core.submissions import HoldDecision, IntentState
from bot.execution import submission_planning
from bot.execution.gate import decision_context, gate, rules
from bot.execution.gate.decision_context import SubmissionPhase
from bot.jobs import position_closing, submission
from bot.store import decisions, intents
from tests.simulation.full_system.fake_venues import RATES, SOCKET_RATES
from tests.simulation.full_system.operators import ACTS, OTHER_ACTS

if TYPE_CHECKING:
    from bot.execution.gate.decision_context import DecisionContext

# Kinds of events that the draws of a seed bring about, each with what counts it in the ledger: what rules look for must
# have been there.
KINDS: Mapping[str, str] = {
    "kind belief too far from the market": (
        "select count(*) from approval where shown like '%from the market in log-odds%'"
    ),
    "kind trial cut short after a belief": "select count(*) from trial where ending = 'time limit' and steps > 0",
    "kind purchase from several levels": """
        select count(*) from intent where venue = 'polymarket' and json_extract(order_body, '$.side') = 'buy'
          and json_extract(order_body, '$.expected') < json_extract(order_body, '$.limit') - 1e-6""",
    "kind Polymarket on paper, taken at once": """
        select count(*) from fill f join intent i on i.id = f.intent where i.mode = 'paper' and i.venue = 'polymarket'
          and json_extract(i.order_body, '$.terms.type') in ('FAK', 'FOK')""",
    "kind Polymarket on paper, rested": """
        select count(*) from fill f join intent i on i.id = f.intent where i.mode = 'paper' and i.venue = 'polymarket'
          and json_extract(i.order_body, '$.terms.type') in ('GTC', 'GTD')""",
    "kind both live and approve at a venue": """
        select count(*) from (select venue from intent where mode <> 'paper' group by venue
          having count(distinct mode) > 1)""",
    "kind stale forecast withdrawn": "select count(*) from intent where action = 'withdraw' and state = 'acked'",
    "kind forecast after its outcome": """
        select count(*) from forecast f join resolution r on r.ref = f.ref
        where f.state = 'done' and r.kind = 'happened' and f.cutoff > r.resolved_at""",
    "kind message kept for the morning": """
        select count(*) from notification where julianday(due_at) - julianday(at) > 1.0 / 24.0""",
    "kind venue reported as down": "select count(*) from alert where key like 'venue:%'",
    "kind crash reported": "select count(*) from alert where key like 'crash:%'",
    "kind venue resumed by itself": "select count(*) from audit where kind = 'resume' and actor = ''",
    "kind call reserved beside another": """
        select count(*) from model_call a where a.worst_usd > 0 and exists (
          select 1 from model_call b where b.worst_usd > 0 and b.id <> a.id and b.at <= a.at
            and julianday(b.at) + coalesce(b.latency_s, 0) / 86400.0 > julianday(a.at))""",
}
# Somebody else left an order in the account.
ORDER_OF_PERSON = "kind order of somebody else rests"
# Modules whose holds are decisions of the daemon.
HOLDING_MODULES: tuple[ModuleType, ...] = (
    rules,
    gate,
    submission_planning,
    submission,
    position_closing,
    decisions,
    decision_context,
)
HOLD_MAKERS = ("HoldDecision", "hold_until_retry")
# States in which an intent may be when its process is killed, and how lives end.
KILLED_WITH = ("planned", "ready", "sending", "unknown", "acked")
ENDS = ("killed", "stopped", "disk full")
# A venue stopped because somebody else had written to its account.
STOPPED_FOR_FOREIGN = "halt foreign writes"
# A programme of this size, in simulated days of all its seeds, must have met all but what ``MORE_DAYS`` names, and one
# of that many times this size those too.
NORMAL_DAYS, LARGE_FACTOR = 190.0, 8.0
_BETWEEN = "only what happens between a decision and its write, which few kills separate"
_SECOND_LOOK = "planner, job or trial keeps it already, and the rule is a second look"
_NOT_CHANGED = "no venue is switched off and no account changed in mid-run: unknown writes could not be read back"
MORE_DAYS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "rule check_question_unchanged, sending",
            "rule check_exclusions, sending",
            "rule check_halts, sending",
            "rule check_lock, sending",
            "rule check_readiness, sending",
            "rule check_kill_switch, sending",
            "hold decisions.store_decision",
        ),
        _BETWEEN,
    ),
    "kind both live and approve at a venue": "a mode changes in a twelfth of the seeds, and orders must leave in both",
    "kind Polymarket on paper, rested": "three of the first 64 seeds place such orders, and a price must meet them",
    "outbox unknown -> in doubt": "an answer must stay lost for an hour after its fence",
}
# What no simulation meets, and why.
UNREACHED: Mapping[str, str] = {
    **dict.fromkeys(
        ("rule check_mode, deciding", "rule check_mode, sending", "hold check_mode (1)", "hold check_mode (2)"),
        _NOT_CHANGED,
    ),
    **dict.fromkeys(("rule check_account, sending", "hold check_account"), _NOT_CHANGED),
    **dict.fromkeys(
        (
            "rule check_prediction_shape, deciding",
            "hold check_prediction_shape",
            "rule check_caps, deciding",
            "hold check_caps",
            "rule check_edge, deciding",
            "hold check_edge (1)",
            "hold check_edge (2)",
            "rule check_order_terms, deciding",
            "hold check_order_terms (1)",
            "hold check_order_terms (2)",
            "hold check_order_terms (3)",
            "rule check_order_fees, deciding",
            "hold check_order_fees (1)",
            "hold check_order_fees (2)",
            "rule check_price_band, deciding",
            "hold check_price_band",
            "rule check_losses, deciding",
            "rule check_losses, sending",
            "hold check_losses",
            "rule check_approval, deciding",
            "hold check_approval",
        ),
        _SECOND_LOOK,
    ),
    **dict.fromkeys(
        ("rule check_clairvoyance, deciding", "rule check_clairvoyance, sending", "hold check_clairvoyance"),
        "the configuration refuses a first forecaster that sees the future",
    ),
    **dict.fromkeys(
        ("rule check_forecaster, sending", "hold check_forecaster (1)"),
        "no forecaster is chosen by the topics of a question",
    ),
    **dict.fromkeys(
        ("rule check_window_opened, deciding", "hold check_window_opened"),
        "the venues open their questions when they publish them",
    ),
    **dict.fromkeys(
        ("rule check_arm_amounts, deciding", "hold check_arm_amounts"),
        "a request to arm without amounts is refused at once",
    ),
    **dict.fromkeys(
        ("outbox ready -> superseded", "killed with ready intents"),
        "the transaction that enters this state leaves it too",
    ),
    "hold check_recorded_only (1)": "every venue of the simulation takes forecasts or orders",
    "hold submission_planning._run_planner (5)": "a planner that fails in another way is a bug",
    "hold decisions.read_decisions": "it is read back for people, and decides nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReport:
    """How often each event came up in so many simulated days; ``missing`` never did, and had to."""

    days: float
    counts: Mapping[str, int]
    missing: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether the programme was long enough to have met what it did not."""
        return bool(self.missing) and self.days >= NORMAL_DAYS


@contextmanager
def count_events() -> Iterator[Counter[str]]:
    """Count what happens in this process until the end, by the names of ``known_events``."""
    found: Counter[str] = Counter()
    object_to, make_hold = rules.SubmissionRule.objection, HoldDecision.__init__
    write_state = intents.write_intent_state

    def counted_objection(self: rules.SubmissionRule, context: DecisionContext) -> HoldDecision | None:
        hold = object_to(self, context)
        if hold is not None:
            found[rule_event(self, context.phase)] += 1
        return hold

    def counted_hold(self: HoldDecision, *values: Any, **named: Any) -> None:
        frame = sys._getframe(1)  # noqa: SLF001 - the place that makes the hold is its reason
        if frame.f_code.co_name == "hold_until_retry" and frame.f_back is not None:
            frame = frame.f_back
        if (site := _sites_by_file().get(frame.f_code.co_filename)) is not None:
            found.update(name for lines, name in site if frame.f_lineno in lines)
        make_hold(self, *values, **named)

    def counted_move(database: Any, intent_id: str, states: tuple[IntentState, IntentState], **named: Any) -> None:
        found[edge_event(*states)] += 1
        write_state(database, intent_id, states, **named)

    with (
        patch.object(rules.SubmissionRule, "objection", counted_objection),
        patch.object(HoldDecision, "__init__", counted_hold),
        patch.object(intents, "write_intent_state", counted_move),
    ):
        yield found


def rule_event(rule: rules.SubmissionRule, phase: SubmissionPhase) -> str:
    """Return the name of an objection of a rule."""
    return f"rule {rule.name}, {'deciding' if phase is SubmissionPhase.DECIDE else 'sending'}"


def edge_event(before: str, after: str) -> str:
    """Return the name of a move of the outbox."""
    return f"outbox {before} -> {after}"


@cache
def known_events() -> tuple[str, ...]:
    """Return the names of all events that a programme should meet."""
    objections = [rule_event(rule, phase) for rule in rules.RULES for phase in SubmissionPhase if phase in rule.phases]
    holds = [name for sites in _sites_by_file().values() for _, name in sites]
    edges = [
        edge_event(before, after)
        for before, following in intents.NEXT_INTENT_STATES.items()
        for after in sorted(following)
    ]
    faults = [f"fault {one}" for one in (*RATES, *SOCKET_RATES)]
    failpoints = [*(f"end {one}" for one in ENDS), *(f"killed with {one} intents" for one in KILLED_WITH)]
    acts = [f"people {act}" for act in (*ACTS, *OTHER_ACTS)]
    kinds = (*KINDS, ORDER_OF_PERSON, STOPPED_FOR_FOREIGN)
    return tuple(dict.fromkeys((*objections, *holds, *edges, *faults, *failpoints, *acts, *kinds)))


def kind_events(ledger: Path) -> Counter[str]:
    """Return how often each of ``KINDS`` came up by a ledger."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        return Counter({name: database.execute(sql).fetchone()[0] for name, sql in KINDS.items()})


def build_report(days: float, counts: Iterable[Mapping[str, int]]) -> CoverageReport:
    """Add up what was counted in simulations of so many days together."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    names = known_events()
    excused = {*UNREACHED, *(MORE_DAYS if days < LARGE_FACTOR * NORMAL_DAYS else ())}
    return CoverageReport(
        days=days,
        counts={name: total[name] for name in names},
        missing=tuple(name for name in names if not total[name] and name not in excused),
    )


def describe_report(report: CoverageReport) -> Iterator[str]:
    """Yield the lines of a report: how often each came up by its kind, and at the end what never did."""
    kinds: dict[str, dict[str, int]] = {}
    for name, count in report.counts.items():
        kind, _, rest = name.partition(" ")
        kinds.setdefault(kind, {})[rest] = count
    for kind, counts in kinds.items():
        met = {name: count for name, count in counts.items() if count}
        yield f"coverage: {kind}: {len(met)} of {len(counts)} came up"
        yield "  " + ", ".join(f"{name} {count}" for name, count in sorted(met.items(), key=lambda one: -one[1]))
    never = sorted(name for name, count in report.counts.items() if not count and name not in report.missing)
    if never:
        yield f"coverage: not expected in {report.days:.0f} days, and never came up: {', '.join(never)}"
    if report.missing:
        weight = "NOT COVERED" if report.fails else f"coverage: fails from {NORMAL_DAYS:.0f} days on"
        yield f"{weight}: {len(report.missing)} never came up: {', '.join(sorted(report.missing))}"


@cache
def _sites_by_file() -> Mapping[str, list[tuple[range, str]]]:
    """Return the places that make a hold, by the file of their module, each with its lines and a name."""
    return {
        str(module.__file__): [*_hold_sites(module)]
        for module in (import_module(one.__name__) for one in HOLDING_MODULES)
    }


def _hold_sites(module: ModuleType) -> Iterator[tuple[range, str]]:
    text = Path(inspect.getfile(module)).read_text(encoding="utf-8")
    where = "" if module is rules else f"{module.__name__.rpartition('.')[2]}."
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name == "hold_until_retry":
            continue
        calls = sorted(
            {
                (node.lineno, node.end_lineno or node.lineno)
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and _makes_hold(node)
            }
        )
        for number, (first, last) in enumerate(calls, 1):
            name = f"hold {where}{function.name}" + (f" ({number})" if len(calls) > 1 else "")
            yield range(first, last + 1), name


def _makes_hold(node: ast.Call) -> bool:
    called = node.func
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in HOLD_MAKERS
