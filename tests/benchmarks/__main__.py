"""Runs the measurements: those of the table of speed, those named, or all of them in order."""

import argparse
import logging
import os
import platform
from importlib import import_module

import structlog

from bot.config.process_setup import configure_process
from tests.benchmarks.figures import MeasureSize, say

TABLE = ("comparison", "flight", "installed", "growth")
NAMES = (
    *TABLE,
    "startup",
    "science",
    "store",
    "gateway",
    "http",
    "models",
    "redact",
    "trials",
    "prompts",
    "court",
    "baseline",
    "backfill",
    "replay",
    "idle",
    "web",
    "cluster",
)


def main() -> None:
    """Measure what was asked for and print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure speed, memory, start-up.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)}, all; without a name {', '.join(TABLE)}"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: do the measurements still work?")
    parser.add_argument("--huge", action="store_true", help="also sizes that take minutes each")
    options = parser.parse_args()
    if unknown := set(options.names) - {*NAMES, "all"}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}, all")
    configure_process()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    load = os.getloadavg()[0]
    say("machine", f"{os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}")
    size = MeasureSize.QUICK if options.quick else MeasureSize.HUGE if options.huge else MeasureSize.FULL
    for name in NAMES if "all" in options.names else options.names or TABLE:
        import_module(f"tests.benchmarks.bench_{name}").main(size)


if __name__ == "__main__":
    main()
