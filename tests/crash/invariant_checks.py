"""Invariants of a kill scenario, checked against the venue's own books."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bot.execution.paper.accounting import find_faults
from bot.execution.paper.paper_book import PAPER_BOOK_FILE
from bot.store.database import open_reader
from tests.crash.kill_points import LIFE_HEADER
from tests.crash.kill_scenario import InvariantViolation
from tests.crash.outbox_processes import CAPPED
from tests.crash.venue_clients import KEY, TOKEN, VENUE_CLIENTS
from tests.crash.venue_servers import ScenarioVenue
from tests.ledger_checks import CENT, files_with_secrets, integrity_faults, read_rows, unanswered_writes
from tests.plugins.polymarket.writer_fixture import KEY as DOLLAR_KEY

SECRETS = (TOKEN, KEY, DOLLAR_KEY.removeprefix("0x"))
FINAL = {"acked", "superseded", "refused"}
_INTENTS = "select id, state, ref, forecast, cost from intent order by seq"
_UNDECIDED = "select id from forecast where decided_at is null"
_UNANSWERED = """
select f.ref, (select d.why from decision d where d.forecast = f.id order by d.id desc limit 1) as why from forecast f
where f.state = 'done' and f.revision = (select max(revision) from forecast where ref = f.ref)
  and not exists (select 1 from intent i where i.forecast = f.id and i.state = 'acked')
"""
# What came too late by the venue's clock was refused with reason; a busy machine brings that about.
_REFUSED = """
select count(*) as count, total(detail not like '%expire in the past%') as wrongly from intent where state = 'refused'
"""
_AT_STAKE = """
select coalesce(sum(cost), 0) as cost from intent where action = 'order' and state not in ('refused', 'superseded')
"""
_WRITTEN = "select body from audit where kind = 'write'"
_BOOKED = """
select t.intent, t.state, coalesce(-sum(f.cash), 0) / 1e6 as paid, count(f.ticket) as fills
from ticket t left join fill f on f.ticket = t.seq group by t.seq
"""
_FILLED = """
select i.id, i.state, i.cost, coalesce(-sum(f.cash), 0) as paid, count(f.intent) as fills
from intent i left join fill f on f.intent = i.id where i.action = 'order' group by i.id
"""
_MONEY = """
select b.cash / 1e6 as cash,
       (select sum(amount) from posting p join movement m on m.id = p.movement
        where m.kind = 'begin' and p.place = 'cash') / 1e6 as begun,
       (select coalesce(sum(cash), 0) from fill) / 1e6 as moved,
       (select coalesce(sum(paid), 0) from position) / 1e6 as stock
from book b
"""


@dataclass(slots=True, kw_only=True)
class CheckedScenario:
    """A story that is to be judged; ``quiet`` are the lives that must not write."""

    folder: Path
    ground: ScenarioVenue
    paper: bool
    quiet: set[int] = field(default_factory=set)

    @property
    def ledger(self) -> Path:
        """The ledger of the story."""
        return self.folder / "ledger.sqlite"


def require(fine: bool, message: str, case: CheckedScenario) -> None:  # noqa: FBT001 - an assertion with a message
    """Raise Violation with the place."""
    if not fine:
        text = f"{message}: {case.folder}"
        raise InvariantViolation(text)


def refuse(wrong: Iterable[str], case: CheckedScenario) -> None:
    """Raise Violation for the first thing that is wrong, if there is one."""
    for one in wrong:
        require(fine=False, message=one, case=case)


def sound(case: CheckedScenario) -> None:
    """After each life: the file is whole, its rules hold, and no more is at stake than may be."""
    refuse(integrity_faults(case.ledger), case)
    if case.ground.trades:
        [row] = read_rows(case.ledger, _AT_STAKE)
        cap = VENUE_CLIENTS[case.ground.name].cap
        require(row["cost"] <= cap + CENT, f"I3: {row['cost']} is at stake by the ledger, and {cap} may be", case)


def quiet(case: CheckedScenario) -> None:
    """Nothing was written by a life that must not, or by one that does not say which it is."""
    for heard in case.ground.writes():
        life = heard.headers.get(LIFE_HEADER, "")
        require(life.isdecimal() and int(life) not in case.quiet, f"I4: life {life or '?'} wrote {heard.path}", case)


def done(case: CheckedScenario) -> Counter[str]:
    """At the end of a story: return how often each intent took effect."""
    quiet(case)
    sound(case)
    _all_ended(case)
    refuse(files_with_secrets(case.folder, SECRETS), case)
    effects = Counter[str]() if case.paper else case.ground.effects(case.ledger)
    _once(case, effects)
    _answered(case)
    if case.paper:
        _paper(case)
    else:
        _audited(case)
        case.ground.judge(case.ledger)
    return effects


def _all_ended(case: CheckedScenario) -> None:
    states = Counter(row["state"] for row in read_rows(case.ledger, _INTENTS))
    undecided = read_rows(case.ledger, _UNDECIDED)
    require(not undecided and set(states) <= FINAL, f"I2, I9: left undone: {undecided} {states}", case)


def _once(case: CheckedScenario, effects: Mapping[str, int]) -> None:
    """Each intent took effect once at most, and it did if and only if it is acknowledged."""
    doubled = {name: count for name, count in effects.items() if count > 1}
    require(not doubled, f"I1: doubled: {doubled}", case)
    acked = set() if case.paper else {row["id"] for row in read_rows(case.ledger, _INTENTS) if row["state"] == "acked"}
    require(acked == set(effects), f"I2: acknowledged or there, not both: {acked ^ set(effects)}", case)
    if case.ground.trades and not case.paper:
        orders = Counter(row["forecast"] for row in read_rows(case.ledger, _INTENTS) if row["id"] in effects)
        require(all(count == 1 for count in orders.values()), f"I1: more than one order a forecast: {orders}", case)


def _answered(case: CheckedScenario) -> None:
    """No question is without an answer but for the cap; on paper, or for one that the venue refused."""
    unanswered = read_rows(case.ledger, _UNANSWERED)
    [refused] = read_rows(case.ledger, _REFUSED)
    capped = [row for row in unanswered if row["why"] == CAPPED]
    lost = [row["ref"] for row in unanswered if row["why"] != CAPPED]
    require(len(lost) <= refused["count"], f"I2: nothing left for {lost}", case)
    require(case.paper or not refused["wrongly"], "I2: something was refused without a reason", case)
    if capped:
        clients, [row] = VENUE_CLIENTS[case.ground.name], read_rows(case.ledger, _AT_STAKE)
        require(row["cost"] + clients.cost > clients.cap, f"I9: held by the cap, of which {row['cost']} is used", case)


def _audited(case: CheckedScenario) -> None:
    bodies = [json.loads(row["body"]) for row in read_rows(case.ledger, _WRITTEN)]
    known = {body.get(name) for body in bodies for name in ("request", "tag")}
    strange = case.ground.heard() - known
    require(not strange, f"I7: heard at the venue and not in the audit: {strange}", case)
    refuse(unanswered_writes(case.ledger), case)


def _paper(case: CheckedScenario) -> None:
    """The paper book agrees with itself and with the ledger, and its money is where it says."""
    book = case.folder / PAPER_BOOK_FILE
    if not book.exists():
        return
    with closing(open_reader(book)) as database:
        refuse((f"the paper book: {wrong}" for wrong in find_faults(database)), case)
    [money] = read_rows(book, _MONEY)
    _same(case, "cash", money["cash"], money["begun"] + money["moved"])
    _same(case, "stock", money["stock"], -money["moved"])
    tickets = {row["intent"]: row for row in read_rows(book, _BOOKED)}
    for row in read_rows(case.ledger, _FILLED):
        ticket = tickets.get(row["id"], {"paid": 0.0, "fills": 0})
        _same(case, f"fills of {row['id']}", row["fills"], ticket["fills"])
        _same(case, f"payments of {row['id']}", row["paid"], ticket["paid"])
        if row["state"] == "acked":
            _same(case, f"cost of {row['id']}", row["cost"], ticket["paid"])


def _same(case: CheckedScenario, what: str, one: float, other: float) -> None:
    require(abs(one - other) <= CENT, f"paper {what}: {one} and {other}", case)
