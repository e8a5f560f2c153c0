"""`foxcast demo`: the whole program in a simulated world for a minute, without keys or network."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import CommandInvocation, options_from_dataclass
from bot.core.child_process import child_command
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass

app = typer.Typer(add_completion=False)
# Named as text: the engine does not import the simulator.
DEMO_ENTRY_POINT = "bot.simulator.demo.__main__:main"
SVG_SUFFIX = ".svg"
DEMO_FOLDER = Path("state") / "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the demo shows, and where its files are."""

    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Seed of the simulated world; the same seed has the same questions."),
    ] = None
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=300, metavar="N", help="Number of simulated days; default: as many as fit in a minute."
        ),
    ] = None
    fast: Annotated[bool, typer.Option("--fast", help="Fewer questions and days.")] = False
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Folder for its files; replaced in each run.")] = (
        DEMO_FOLDER
    )
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a screen.")] = False
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of an earlier demo under another name.")] = False
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the last screen as a picture.")] = None
    web: Annotated[bool, typer.Option("--web", help="Show the result in a browser at the end.")] = False


@app.command()
@options_from_dataclass(DemoOptions)
def demo(ctx: typer.Context, options: DemoOptions) -> None:
    """Run a demo in a simulated world: no keys, no network, no real orders."""
    if options.svg is not None and options.svg.suffix.lower() != SVG_SUFFIX:
        message = f"--svg {options.svg}: the picture is SVG; name a file that ends in {SVG_SUFFIX}"
        raise ConfigError(message)
    arguments = {
        "folder": str(options.folder),
        "program": ctx.ensure_object(CommandInvocation).program,
        "begun_s": SystemClock().monotonic(),
        "seed": options.seed,
        "days": options.days,
        "fast": options.fast,
        "plain": options.plain,
        "keep": options.keep,
        "web": options.web,
        "svg": None if options.svg is None else str(options.svg),
    }
    arguments = {name: value for name, value in arguments.items() if value is not None}
    sys.stdout.flush()
    # It replaces this process, so that signals, terminal and exit code are its own.
    command = child_command(DEMO_ENTRY_POINT, json.dumps(arguments))
    os.execv(command[0], command)  # noqa: S606 - our own module
