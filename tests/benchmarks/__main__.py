"""Runs the measurements: all of them in order, or those named."""

import argparse
import logging
import os
import platform
from importlib import import_module

import structlog

from bot.config.process_setup import configure_process
from tests.benchmarks.figures import MeasureSize, say

NAMES = (
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
    "growth",
)


def main() -> None:
    """Measure what was asked for and print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure speed, memory, start-up.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)}; all unless named")
    parser.add_argument("--quick", action="store_true", help="small sizes: do the measurements still work?")
    parser.add_argument("--huge", action="store_true", help="also sizes that take minutes each")
    options = parser.parse_args()
    if unknown := set(options.names) - {*NAMES}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    configure_process()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    load = os.getloadavg()[0]
    say("machine", f"{os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}")
    size = MeasureSize.QUICK if options.quick else MeasureSize.HUGE if options.huge else MeasureSize.FULL
    for name in options.names or NAMES:
        import_module(f"tests.benchmarks.bench_{name}").main(size)


if __name__ == "__main__":
    main()
