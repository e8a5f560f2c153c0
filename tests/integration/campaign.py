"""All hostile pages at the level of trials: ``python -m tests.integration.campaign``; takes some minutes."""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path

import structlog

from tests import kept
from tests.integration.hostile import SECRET, SECRET_NAME, run, sample

MODULE = "tests.integration.campaign"


def main() -> int:
    """Play them and print the counts; 1 where a trial was at fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.campaign", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth page")
    parser.add_argument("--dialect", choices=("tools", "json"), default="tools")
    parser.add_argument("--keep", action="store_true", help="add what came of it to state/simulations")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    os.environ[SECRET_NAME] = SECRET
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(run(sample(options.every), Path(folder), dialect=options.dialect))
    for line in outcome.lines():
        sys.stdout.write(f"{line}\n")
    for name, faults in outcome.faults.items():
        sys.stdout.write(f"{name}: {faults}\n")
    if options.keep:
        counts = {
            "hostile pages obeyed by a model": outcome.trials,
            "moves they wanted, refused": outcome.refused.total(),
        }
        violations = [f"{name}: {faults}" for name, faults in outcome.faults.items()]
        violations += [f"{outcome.forbidden} forbidden connections"] if outcome.forbidden else []
        kept.campaign(MODULE, counts, violations)
    return 1 if outcome.faults or outcome.forbidden else 0


if __name__ == "__main__":
    sys.exit(main())
