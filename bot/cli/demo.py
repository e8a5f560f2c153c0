"""``foxcast demo``: the whole program in a simulated world, in the first minute, without keys and without a network."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import CommandInvocation, options_from_dataclass
from bot.clock import SystemClock

app = typer.Typer(add_completion=False)
# A module by name: the engine imports none of its doubles.
SANDBOX_MODULE = "bot.testing.sandbox"
DEMO_FOLDER = Path("state") / "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What is shown, and where it is kept."""

    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Another world; the same seed has the same questions.")
    ] = None
    days: Annotated[
        int | None, typer.Option(min=1, max=300, metavar="N", help="Days of the world; else what fits in a minute.")
    ] = None
    fast: Annotated[bool, typer.Option("--fast", help="Fewer questions and days.")] = False
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where it keeps everything; made anew each time.")] = (
        DEMO_FOLDER
    )
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a screen, as without a terminal.")] = False
    keep: Annotated[bool, typer.Option("--keep", help="Keep what an earlier demo left, under another name.")] = False
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the last screen as a picture.")] = None


@app.command()
@options_from_dataclass(DemoOptions)
def demo(ctx: typer.Context, options: DemoOptions) -> None:
    """Show everything at work in a simulated world: no keys, no network, nothing real."""
    asked = {
        "folder": str(options.folder),
        "program": ctx.ensure_object(CommandInvocation).program,
        "begun_s": SystemClock().monotonic(),
        "seed": options.seed,
        "days": options.days,
        "fast": options.fast,
        "plain": options.plain,
        "keep": options.keep,
        "svg": None if options.svg is None else str(options.svg),
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    sys.stdout.flush()
    # In this program's place, so that signals, terminal and exit code are its own; -P: the working folder, which may
    # hold anything, is no place for modules.
    os.execv(sys.executable, [sys.executable, "-P", "-m", SANDBOX_MODULE, json.dumps(asked)])  # noqa: S606 - our own module
