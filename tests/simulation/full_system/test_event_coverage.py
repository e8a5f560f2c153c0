"""What a programme of simulations never met is counted, and fails a long one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.execution.gate.rules import RULES
from bot.store.intents import NEXT_INTENT_STATES
from tests.simulation.full_system.event_coverage import (
    KINDS,
    LARGE_FACTOR,
    MORE_DAYS,
    NORMAL_DAYS,
    UNREACHED,
    build_report,
    count_events,
    describe_report,
    kind_events,
    known_events,
)
from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.unit.execution.gate.decision_contexts import case

LAST = "outbox absent -> planned"


def test_each_rule_and_each_move_of_the_outbox_can_come_up() -> None:
    known = known_events()
    assert all(any(name.startswith(f"rule {rule.name}, ") for name in known) for rule in RULES)
    moves = {f"outbox {before} -> {after}" for before, nexts in NEXT_INTENT_STATES.items() for after in nexts}
    assert moves <= {*known}


def test_an_objection_counts_once_for_its_rule_and_once_for_the_place_that_words_it() -> None:
    context = case()
    [rule] = [one for one in RULES if one.name == "check_lock"]
    with count_events() as found:
        assert rule.objection(context) is None
        assert not found
        assert rule.objection(replace(context, lock_reason="ada thinks")) is not None
    assert found == {"rule check_lock, deciding": 1, "hold check_lock": 1}
    with count_events() as found:
        pass
    assert rule.objection(replace(context, lock_reason="ada thinks")) is not None
    assert not found


def test_one_that_never_came_up_fails_a_programme_of_normal_size_alone() -> None:
    expected = [name for name in known_events() if name not in {*UNREACHED, *MORE_DAYS}]
    all_but_one = {name: 1 for name in expected if name != LAST}
    long, short = (build_report(days, [all_but_one]) for days in (NORMAL_DAYS, NORMAL_DAYS - 1.0))
    assert (long.missing, long.fails) == ((LAST,), True)
    assert (short.missing, short.fails) == ((LAST,), False)
    assert [*describe_report(long)][-1] == f"NOT COVERED: 1 never came up: {LAST}"
    whole = build_report(NORMAL_DAYS, [all_but_one, {LAST: 2}])
    assert (whole.missing, whole.fails, whole.counts[LAST]) == ((), False, 2)


def test_what_needs_more_days_is_expected_of_a_large_programme() -> None:
    expected = {name: 1 for name in known_events() if name not in {*UNREACHED, *MORE_DAYS}}
    assert set(build_report(LARGE_FACTOR * NORMAL_DAYS, [expected]).missing) == set(MORE_DAYS)


# The columns that are read, of the tables that are read.
TABLES = """
create table approval (shown);
create table trial (ending, steps);
create table intent (id, venue, mode, action, state, order_body);
create table forecast (ref, state, cutoff);
create table resolution (ref, kind, resolved_at);
create table notification (at, due_at);
create table alert (key);
create table fill (intent);
create table audit (kind, actor);
create table model_call (id, at, latency_s, worst_usd);
"""


def bought(name: str, kind: str, **body: float) -> tuple[str, dict[str, object]]:
    order = {"side": "buy", "expected": 0.4, "limit": 0.4, "terms": {"type": kind}, **body}
    return "intent", {"id": name, "venue": "polymarket", "mode": "paper", "order_body": json.dumps(order)}


def called(name: str, at: str, latency_s: float | None) -> tuple[str, dict[str, object]]:
    return "model_call", {"id": name, "at": f"2026-03-01T12:00:{at}Z", "latency_s": latency_s, "worst_usd": 0.1}


def made(hour: str) -> tuple[str, dict[str, object]]:
    return "forecast", {"ref": "sea:1", "state": "done", "cutoff": f"2026-03-01T{hour}:00:00Z"}


def kept(hour: str) -> tuple[str, dict[str, object]]:
    return "notification", {"at": "2026-03-01T12:00:00Z", "due_at": f"2026-03-01T{hour}:00:00Z"}


ENDED = ("resolution", {"ref": "sea:1", "kind": "happened", "resolved_at": "2026-03-01T12:00:00Z"})


@pytest.mark.parametrize(
    ("name", "rows", "other"),
    [
        (
            "kind belief too far from the market",
            [("approval", {"shown": "3.10 from the market in log-odds, more than trading.divergence = 1"})],
            [("approval", {"shown": "metaculus is in mode approve"})],
        ),
        (
            "kind trial cut short after a belief",
            [("trial", {"ending": "time limit", "steps": 1})],
            [("trial", {"ending": "time limit", "steps": 0}), ("trial", {"ending": "finished", "steps": 3})],
        ),
        ("kind purchase from several levels", [bought("a", "FAK", limit=0.42)], [bought("a", "FAK")]),
        ("kind Polymarket on paper, taken at once", [bought("a", "FAK"), ("fill", {"intent": "a"})], []),
        ("kind Polymarket on paper, rested", [bought("a", "GTD"), ("fill", {"intent": "a"})], [bought("a", "GTD")]),
        (
            "kind stale forecast withdrawn",
            [("intent", {"action": "withdraw", "state": "acked"})],
            [("intent", {"action": "withdraw", "state": "superseded"})],
        ),
        ("kind forecast after its outcome", [made("13"), ENDED], [made("11"), ENDED]),
        ("kind message kept for the morning", [kept("19")], [kept("12")]),
        ("kind venue reported as down", [("alert", {"key": "venue:sea"})], [("alert", {"key": "job:score"})]),
        ("kind crash reported", [("alert", {"key": "crash:1"})], []),
        (
            "kind venue resumed by itself",
            [("audit", {"kind": "resume", "actor": ""})],
            [("audit", {"kind": "resume", "actor": "ada"})],
        ),
        (
            "kind call reserved beside another",
            [called("a", "10", 5.0), called("b", "12", 1.0)],
            [called("a", "10", 5.0), called("b", "20", 1.0), called("c", "30", None)],
        ),
    ],
)
def test_kinds_of_events_are_counted_in_the_ledger(tmp_path: Path, name: str, rows: Any, other: Any) -> None:
    for folder, written, count in (("met", rows, 1), ("not met", other, 0)):
        (tmp_path / folder).mkdir()
        found = kind_events(write_ledger(tmp_path / folder, TABLES, written))
        assert found[name] == count
        assert set(found) == {*KINDS} <= {*known_events()}
        assert found.total() == count


@pytest.mark.parametrize("names", [MORE_DAYS, UNREACHED])
def test_what_is_excused_exists_and_has_a_reason(names: dict[str, str]) -> None:
    assert {*names} <= {*known_events()}
    assert all(len(why) > 10 for why in names.values())
