"""``python -m bot.testing.lab``: the laboratory as a process of its own; what it found goes to a file as JSON."""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bot.clock import SystemClock
from bot.errors import ConfigError
from bot.testing.lab.experiment import MANY, Plan, comparison_of, findings_of
from bot.testing.lab.forecasters import chosen_forecasters
from bot.testing.lab.report import report_of, written
from bot.testing.lab.variants import chosen_parts

# How many questions of the parts, and of the comparison of forecasters, take about three minutes.
QUESTIONS, COMPARED = 120, 60
# Exit codes, as of every command.
UNUSABLE, TERMINATED = 2, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; returns the exit code."""
    # What runs in other processes ends with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    given = _parsed(arguments)
    watch = SystemClock()
    began = watch.monotonic()
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            plan = Plan(
                seed=given.seed,
                questions=given.questions or (COMPARED if given.forecasters else QUESTIONS),
                parts=() if given.forecasters else chosen_parts(given.only),
                forecasters=chosen_forecasters(given.forecasters) if given.forecasters else (),
                folder=folder,
                processes=given.jobs,
                many=given.many,
            )
            found = (comparison_of if plan.forecasters else findings_of)(plan, _tell)
        except ConfigError as error:
            _tell(str(error))
            return UNUSABLE
    written(report_of(plan, found, seconds=watch.monotonic() - began), given.out)
    return 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bot.testing.lab")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--questions", type=int, default=None)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--only", type=_listed, default=[])
    parser.add_argument("--forecasters", type=_listed, default=[])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
