"""Kills ``foxcast run`` at random moments and checks the ledger after each: ``make crash``."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import campaign_log
from tests.crash.kill_scenario import InvariantViolation, KillScenario

MODULE = "tests.crash.daemon_campaign"
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "forecastbench"
# A life begins with about a second of start-up; the work of one round takes a few more. Stories with long lives reach
# submitting, resolving and backing up before they are killed, those with short lives die while they open the ledger.
SHORTEST_S, LONGEST_S = 0.3, 4.0
PACES = (0.6, 1.0, 2.0, 3.0)
# A story of short lives takes some tens of them; one that takes so many is stuck.
MOST_LIVES = 400


@dataclass(slots=True)
class CampaignCounts:
    """What the campaign did."""

    kills: int = 0
    scenarios: int = 0
    forecasts: int = 0
    rows: int = 0
    took_s: float = 0.0
    lives_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.scenarios} stories finished, {self.forecasts} forecasts and {self.rows} rows "
            f"checked, 0 lost, 0 doubled, 0 damaged, {self.took_s:.0f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """How many kills, on which rounds, and where chance begins."""

    kills: int
    source: str
    rounds: str
    seed: int
    longest_s: float = LONGEST_S
    most_lives: int = MOST_LIVES


def campaign(plan: CampaignPlan, folder: Path) -> CampaignCounts:
    """Kill and check until the number of kills is reached and the last story is finished; raises Violation."""
    chance = random.Random(plan.seed)
    tally = CampaignCounts()
    began = time.monotonic()
    while tally.kills < plan.kills:
        place = folder / f"story {tally.scenarios}"
        scenario = KillScenario.begin(place, source=plan.source, rounds=plan.rounds)
        longest_s = plan.longest_s * chance.choice(PACES)
        lives = 0
        while not scenario.judge():
            if lives == plan.most_lives:
                message = f"not done after {lives} lives: {place}"
                raise InvariantViolation(message)
            lives += 1
            life_s = chance.uniform(SHORTEST_S, longest_s)
            scenario.live(life_s)
            tally.kills += 1
            tally.lives_s.append(life_s)
        tally.scenarios += 1
        tally.forecasts += len(scenario.seen)
        tally.rows += scenario.judge_files()
        shutil.rmtree(place)
    tally.took_s = time.monotonic() - began
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign that the command line asks for; 1 after a violation."""
    parser = argparse.ArgumentParser(description="Kill foxcast run at random moments and check its ledger.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--source", default=str(SHARED) if SHARED.is_dir() else "sample")
    parser.add_argument("--rounds", default='"latest"', help='TOML: "latest", "all" or a list of due dates')
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add what came of it to state/simulations")
    given = parser.parse_args(arguments)
    plan = CampaignPlan(
        kills=given.kills,
        source=str(Path(given.source).resolve()) if given.source != "sample" else given.source,
        rounds=given.rounds,
        seed=given.seed,
    )
    folder = Path(tempfile.mkdtemp(prefix="foxcast-crash-"))
    try:
        tally = campaign(plan, folder)
    except InvariantViolation as violation:
        if given.keep:
            campaign_log.record_campaign(MODULE, {}, [f"seed {plan.seed}: {violation}"])
        sys.stderr.write(f"violation with seed {plan.seed}, kept in {folder}: {violation}\n")
        return 1
    shutil.rmtree(folder)
    if given.keep:
        counts = {"kills of foxcast run": tally.kills, "forecasts found whole after them": tally.forecasts}
        campaign_log.record_campaign(MODULE, counts)
    sys.stdout.write(f"{tally}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
