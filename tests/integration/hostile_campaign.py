"""All hostile pages at the level of trials: ``python -m tests.integration.hostile_campaign``; takes some minutes."""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import structlog

from tests import campaign_log
from tests.integration.hostile_trials import SECRET, SECRET_NAME, HostileTrialCounts, run_hostile_trials, sample_pages

MODULE = "tests.integration.hostile_campaign"
LIVE, EARLIER = "live", "of an earlier day"
RARER = 10


def main() -> int:
    """Play them and print the counts; 1 where a trial was at fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.hostile_campaign", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth page")
    parser.add_argument("--dialect", choices=("tools", "json"), default="tools")
    parser.add_argument("--keep", action="store_true", help="add what came of it to state/simulations")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    os.environ[SECRET_NAME] = SECRET
    outcomes = {when: _played(options, backdated=when != LIVE) for when in (LIVE, EARLIER)}
    for when, outcome in outcomes.items():
        for line in outcome.lines():
            sys.stdout.write(f"{when}: {line}\n")
        for name, faults in outcome.faults.items():
            sys.stdout.write(f"{when}: {name}: {faults}\n")
    violations = [line for when, outcome in outcomes.items() for line in _violations(when, outcome)]
    if options.keep:
        counts = {
            "hostile pages obeyed by a model": sum(outcome.trials for outcome in outcomes.values()),
            "moves they wanted, refused": sum(outcome.refused.total() for outcome in outcomes.values()),
        }
        campaign_log.record_campaign(MODULE, counts, violations)
    return 1 if violations else 0


def _played(options: argparse.Namespace, *, backdated: bool) -> HostileTrialCounts:
    """Play all pages on live questions; on questions of an earlier day, where none is read, one in ten of them."""
    pages = sample_pages(options.every)[:: RARER if backdated else 1]
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run_hostile_trials(pages, Path(folder), dialect=options.dialect, backdated=backdated))


def _violations(when: str, outcome: HostileTrialCounts) -> Iterator[str]:
    yield from (f"{when}: {name}: {faults}" for name, faults in outcome.faults.items())
    if outcome.forbidden:
        yield f"{when}: {outcome.forbidden} forbidden connections"


if __name__ == "__main__":
    sys.exit(main())
