"""Kills the outbox at each pair of failpoints: one life at the first, the next at the second, then it may finish.

Failpoints are the moments around each commit and each write, counted from the start of a life; a story that nobody
kills has some sixty. The stories go around the venues, live and on paper.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.crash.kill_scenario import InvariantViolation
from tests.crash.outbox_campaign import SIDE_BY_SIDE, VENUES, OutboxCampaignPlan, campaign

FAILPOINTS = 60
# Each pair is played at each venue, and on paper: story numbers go around these.
FORMS = 2 * len(VENUES)


def pair_of(number: int) -> tuple[int, int]:
    """Return the failpoints of a story; the later forms of a pair follow each other."""
    pair = number // FORMS % FAILPOINTS**2
    return pair // FAILPOINTS, pair % FAILPOINTS


def main() -> int:
    """Play the stories that the command line asks for; 1 after a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first story")
    parser.add_argument("--pairs", type=int, default=16, help="how many stories")
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE, help="stories at a time")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="foxcast-pairs-"))
    plan = OutboxCampaignPlan(
        stories=asked.pairs, seed=1, first=asked.first, kill_points=pair_of, side_by_side=asked.side_by_side
    )
    try:
        tally = campaign(plan, folder)
    except InvariantViolation as violation:
        sys.stdout.write(f"VIOLATED {violation}\n0 pairs\n")
        return 1
    shutil.rmtree(folder)
    sys.stdout.write(f"{tally.scenarios.total()} pairs, {tally.kills} kills, {tally.effects} effects\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
