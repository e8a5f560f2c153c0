"""Kills ``foxcast run`` while models are being asked, and checks that nothing is paid for twice: ``make crash``."""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any

from bot.core.clock import SystemClock
from bot.core.values import Json
from bot.store.evidence_checks import check_evidence
from bot.store.integrity_checks import INVARIANTS, run_full_check
from bot.testing.model_server import CompletionRequest, ScriptedModelServer, ScriptedReply, delay_reply, make_move
from tests import campaign_log
from tests.crash.kill_scenario import InvariantViolation, KillScenario, require_unchanged

MODULE = "tests.crash.paid_calls_campaign"
CONFIG = """
state = "state"
plugins = ["open_question_plugin", "blf", "openai_compatible"]
plugin_files = ["open_question_plugin.py"]

[log]
level = "warning"

[daemon]
concurrency = {places}
discover_every_s = 2
forecast_every_s = 1
submit_every_s = 1
backup_every_s = 5

[venues.reef]
forecasters = ["blf"]

[venues.reef.settings]
questions = {questions}

[forecasters.blf]
trials = {trials}

[models.openai_compatible.settings.endpoints.local]
base_url = "{base_url}"

[llm.roles.main]
model = "openai_compatible:local/scripted"
max_tokens = 500

[llm.models."openai_compatible:local/scripted"]
dialect = "{dialect}"
price_in = 0.01
price_out = 0.01
"""
# A life begins with some tenths of a second of start-up.
SHORTEST_S, LONGEST_S = 0.3, 3.0
STEPS, PLACES, TRIALS = 4, 4, 3
MOST_LIVES = 200

UNFINISHED = """
select (select count(*) from schedule where due_at <= :now or owner is not null)
     + (select count(*) = 0 from schedule) + (select count(*) from forecast where state = 'running')
"""
ANSWERS = """
select f.ref || ' ' || p.target, coalesce(p.raw_probability, p.raw_body)
from prediction p join forecast f on f.id = p.forecast where f.revision = 1 order by 1
"""
PAID_TWICE = "select request, count(*) from model_call where state = 'done' group by request having count(*) > 1"
CALLS = "select count(*), sum(state = 'lost'), sum(state = 'done') from model_call"


_FISH = re.compile(r"How will fish (\d+) fare")


@dataclass(slots=True, kw_only=True)
class PaidCallCounts:
    """What the campaign did."""

    kills: int = 0
    scenarios: int = 0
    forecasts: int = 0
    calls: int = 0
    sent: int = 0
    again: int = 0
    lost: int = 0
    took_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills amid trials, {self.scenarios} scenarios, {self.forecasts} forecasts identical to "
            f"those of runs that nobody killed; {self.calls} calls answered and paid once, {self.sent} requests seen, "
            f"{self.again} of them again after a kill had lost their answer ({self.lost} on record as lost), "
            f"{self.took_s:.0f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidCallsPlan:
    """How many kills, how many questions a story has, and where chance begins."""

    kills: int
    questions: int
    seed: int
    longest_s: float = LONGEST_S


def play(asked: CompletionRequest) -> ScriptedReply:
    """Search three times for something of this very trial, believe something of this very request, then submit."""
    seed = int(asked.body.get("seed") or 0)
    name = "web_search" if asked.assistant_turns < STEPS - 1 else "submit"
    percent = seed % 89 + 6
    arguments: dict[str, Json] = {"query": f"{seed} {asked.assistant_turns}"} if name == "web_search" else {}
    fish = _FISH.search(asked.outside_text())
    if name == "submit" and fish is not None and int(fish[1]) % 3 == 0:  # every third question is a yes-or-no one
        arguments = {"probability": percent / 100} if asked.tools else {"percent": percent}
    reply = make_move(asked, name, arguments if asked.tools else {"arguments": arguments} if arguments else {})
    if reply is None:
        message = f"neither {name} nor submit is offered"
        raise ValueError(message)
    return delay_reply(reply, 0.02 + seed % 7 * 0.03)


def campaign(plan: PaidCallsPlan, folder: Path) -> PaidCallCounts:
    """Kill and check until the number of kills is reached and the last story is finished; raises Violation."""
    return asyncio.run(_campaign(plan, folder))


async def _campaign(plan: PaidCallsPlan, folder: Path) -> PaidCallCounts:
    chance, tally, began = random.Random(plan.seed), PaidCallCounts(), time.monotonic()
    while tally.kills < plan.kills:
        dialect = ("tools", "json")[tally.scenarios % 2]
        async with ScriptedModelServer(play, clock=SystemClock()) as server:
            scenario = _begin_scenario(folder / f"story {tally.scenarios}", server.base_url, dialect, plan.questions)
            lives = await _run_killed(scenario, plan, chance)
            tally.kills += lives
            _judge_money(scenario, server, tally, lives)
            calm = _begin_scenario(folder / f"calm {tally.scenarios}", server.base_url, dialect, plan.questions)
            await _run_calm(calm)
        answers = _rows(scenario, ANSWERS)
        if answers != _rows(calm, ANSWERS):
            message = f"other forecasts than without kills: {scenario.folder} and {calm.folder}"
            raise InvariantViolation(message)
        tally.scenarios += 1
        tally.forecasts += len(answers)
        shutil.rmtree(scenario.folder)
        shutil.rmtree(calm.folder)
    tally.took_s = time.monotonic() - began
    return tally


def _begin_scenario(folder: Path, base_url: str, dialect: str, questions: int) -> KillScenario:
    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("open_question_plugin.py"), folder)
    text = CONFIG.format(base_url=base_url, dialect=dialect, questions=questions, places=PLACES, trials=TRIALS)
    (folder / "config.toml").write_text(text, encoding="utf-8")
    return KillScenario(folder)


async def _run_killed(scenario: KillScenario, plan: PaidCallsPlan, chance: random.Random) -> int:
    lives = 0
    seen: dict[str, str] = {}
    while not _is_done(scenario):
        if lives == MOST_LIVES:
            message = f"not done after {lives} lives: {scenario.folder}"
            raise InvariantViolation(message)
        await asyncio.to_thread(scenario.live, chance.uniform(SHORTEST_S, plan.longest_s))
        lives += 1
        now = dict(_rows(scenario, ANSWERS))
        require_unchanged(seen, now, "forecast")
        seen = now
    return lives


async def _run_calm(scenario: KillScenario) -> None:
    await asyncio.to_thread(scenario.run_once)
    if not _is_done(scenario):
        message = f"not done after a pass that nobody killed: {scenario.folder}"
        raise InvariantViolation(message)


def _is_done(scenario: KillScenario) -> bool:
    if not scenario.ledger.exists() or scenario.is_half_made():
        return False
    for health in (run_full_check(scenario.ledger, INVARIANTS), check_evidence(scenario.ledger)):
        if not health.sound:
            raise InvariantViolation(str(health.problems))
    with closing(sqlite3.connect(scenario.ledger)) as database:
        if not database.execute("select 1 from sqlite_master where name = 'model_call'").fetchone():
            return False
        now = SystemClock().now().isoformat()
        return bool(database.execute(UNFINISHED, {"now": now}).fetchone()[0] == 0)


def _judge_money(scenario: KillScenario, server: ScriptedModelServer, tally: PaidCallCounts, lives: int) -> None:
    if twice := _rows(scenario, PAID_TWICE):
        message = f"paid twice for the same answer: {twice[:3]} in {scenario.folder}"
        raise InvariantViolation(message)
    [(calls, lost, done)] = _rows(scenario, CALLS)
    bodies = Counter(sha256(dumps(asked.body, sort_keys=True).encode()).hexdigest() for asked in server.requests)
    again = sum(bodies.values()) - len(bodies)
    if again > lost or len(server.requests) > calls or len(bodies) != done:
        message = (
            f"{len(server.requests)} requests of {len(bodies)} kinds, {done} answers, {lost} lost: {scenario.folder}"
        )
        raise InvariantViolation(message)
    searched = Counter((scenario.folder / "searches.txt").read_text(encoding="utf-8").splitlines())
    tally.calls += done
    tally.sent += len(server.requests)
    tally.again += again
    tally.lost += lost
    # Of the trials under way a kill may catch each in a search whose answer is not on record yet.
    if sum(searched.values()) - len(searched) > PLACES * TRIALS * lives:
        message = f"searched again: {searched.most_common(3)} in {scenario.folder}"
        raise InvariantViolation(message)


def _rows(scenario: KillScenario, query: str) -> list[Any]:
    if not scenario.ledger.exists():
        return []
    with closing(sqlite3.connect(scenario.ledger)) as database:
        if not database.execute("select 1 from sqlite_master where name = 'model_call'").fetchone():
            return []
        return database.execute(query).fetchall()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign that the command line asks for; 1 after a violation."""
    parser = argparse.ArgumentParser(description="Kill foxcast run while models are asked; nothing is paid for twice.")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add what came of it to state/simulations")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="foxcast-paid-"))
    try:
        tally = campaign(PaidCallsPlan(kills=given.kills, questions=given.questions, seed=given.seed), folder)
    except InvariantViolation as violation:
        if given.keep:
            campaign_log.record_campaign(MODULE, {}, [f"seed {given.seed}: {violation}"])
        sys.stderr.write(f"violation with seed {given.seed}, kept in {folder}: {violation}\n")
        return 1
    shutil.rmtree(folder)
    if given.keep:
        campaign_log.record_campaign(MODULE, {"kills amid paid trials": tally.kills, "calls paid once": tally.calls})
    sys.stdout.write(f"{tally}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
