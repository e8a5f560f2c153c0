"""``python -m bot.simulator.laboratory``: the laboratory as a process of its own; the findings go to a JSON file."""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, FoxcastError
from bot.simulator.laboratory.forecaster_variants import chosen_parts

# The numbers of questions, of the parts and of the comparison, that take about three minutes.
DEFAULT_QUESTIONS, DEFAULT_COMPARED = 100, 60
# Exit codes, as of every command.
FAILED, UNUSABLE, TERMINATED = 1, 2, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments request; returns the exit code."""
    # Child processes end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    given = _parse_arguments(arguments)
    with ExitStack() as stack:
        try:
            parts = () if given.forecasters else chosen_parts(given.only)
            folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            _make_empty(folder)
            _run_parts(given, parts, folder)
        except (FoxcastError, OSError) as error:
            _print_progress(str(error))
            return UNUSABLE if isinstance(error, ConfigError) else FAILED
    return 0


def _run_parts(given: argparse.Namespace, parts: Sequence[str], folder: Path) -> None:
    # The world and its servers, which are not needed to report a misspelt argument.
    from bot.simulator.laboratory.experiment import (  # noqa: PLC0415 - see above
        ExperimentPlan,
        make_report,
        run_ablations,
        run_comparison,
        run_staleness,
        write_report,
    )

    watch = SystemClock()
    began = watch.monotonic()
    plan = ExperimentPlan(
        seed=given.seed,
        questions=given.questions or (DEFAULT_COMPARED if given.forecasters else DEFAULT_QUESTIONS),
        parts=parts,
        forecasters=_compared_forecasters(given),
        hides_crowd=given.hide_crowd,
        days=given.days,
        folder=folder,
        processes=given.jobs,
    )
    run = run_staleness if plan.days else run_comparison if plan.forecasters else run_ablations
    found = run(plan, _print_progress)
    write_report(make_report(plan, found, seconds=watch.monotonic() - began), given.out)


def _compared_forecasters(given: argparse.Namespace) -> Sequence[str]:
    """Return the named forecasters; a comparison on one day always has the reference, too."""
    from bot.simulator.laboratory.forecaster_comparison import chosen_forecasters  # noqa: PLC0415 - as above

    named: Sequence[str] = given.forecasters
    return chosen_forecasters(named) if named and not given.days else named


def _make_empty(folder: Path) -> None:
    """Create the folder where it is missing; raises ConfigError where it holds something, OSError where it is none."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        message = f"{folder} is not empty: its ledgers would be taken for those of this experiment"
        raise ConfigError(message)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bot.simulator.laboratory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--questions", type=int, default=None)
    parser.add_argument("--only", type=_split_list, default=[])
    parser.add_argument("--forecasters", type=_split_list, default=[])
    parser.add_argument("--hide-crowd", action="store_true")
    parser.add_argument("--days", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _print_progress(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
