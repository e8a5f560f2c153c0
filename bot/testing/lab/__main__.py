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
from bot.errors import ConfigError, FoxcastError
from bot.testing.lab.variants import chosen_parts

# How many questions of the parts, and of the comparison of forecasters, take about three minutes.
QUESTIONS, COMPARED = 100, 60
# Exit codes, as of every command.
FAILED, UNUSABLE, TERMINATED = 1, 2, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; returns the exit code."""
    # What runs in other processes ends with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    given = _parsed(arguments)
    with ExitStack() as stack:
        try:
            parts = () if given.forecasters else chosen_parts(given.only)
            folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            _make_empty(folder)
            _run(given, parts, folder)
        except (FoxcastError, OSError) as error:
            _tell(str(error))
            return UNUSABLE if isinstance(error, ConfigError) else FAILED
    return 0


def _run(given: argparse.Namespace, parts: Sequence[str], folder: Path) -> None:
    # The world and all that serves it, which a misspelt argument need not wait for.
    from bot.testing.lab.experiment import Plan, comparison_of, findings_of  # noqa: PLC0415 - as said
    from bot.testing.lab.forecasters import chosen_forecasters  # noqa: PLC0415 - as said
    from bot.testing.lab.report import report_of, written  # noqa: PLC0415 - as said

    watch = SystemClock()
    began = watch.monotonic()
    plan = Plan(
        seed=given.seed,
        questions=given.questions or (COMPARED if given.forecasters else QUESTIONS),
        parts=parts,
        forecasters=chosen_forecasters(given.forecasters) if given.forecasters else (),
        folder=folder,
        processes=given.jobs,
    )
    found = (comparison_of if plan.forecasters else findings_of)(plan, _tell)
    written(report_of(plan, found, seconds=watch.monotonic() - began), given.out)


def _make_empty(folder: Path) -> None:
    """Make the folder where it is not; raises ConfigError where it holds something, OSError where it is none."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        message = f"{folder} is not empty: ledgers of another experiment would be taken for this one's"
        raise ConfigError(message)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bot.testing.lab")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--questions", type=int, default=None)
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
