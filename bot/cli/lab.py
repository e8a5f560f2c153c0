"""``foxcast lab``: experiments that need no network and no key."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.cli.exits import ExitCode
from bot.cli.interrupt import run_until_told
from bot.cli.options import spread
from bot.cli.output.console import stdout
from bot.cli.output.deliver import STDOUT, deliver, require_writable
from bot.cli.output.lab import print_lab
from bot.errors import ConfigError, FoxcastError

app = typer.Typer(add_completion=False)
# A module by name: the engine imports none of its doubles.
LABORATORY = "bot.testing.lab"
OUT = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is tried out, on what."""

    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The world; the same seed gives the same figures.")] = 1
    questions: Annotated[
        int | None,
        typer.Option(
            min=20, max=2000, metavar="N", help="How many questions: 40 for a look; else 100, or 60 to compare."
        ),
    ] = None
    only: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Only these parts: belief, trials, aggregate, gate, crowd, filter, leaks, overconfidence.",
        ),
    ] = ""
    forecasters: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Compare these forecasters instead, by cost too: baseline, blf (always there, the reference), court, "
            "team, solo, orchestra, ensemble.",
        ),
    ] = ""
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes at once; else one a core.")] = None
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the ledgers here, in an empty folder; else they go.")
    ] = None
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None


@app.callback()
def lab() -> None:
    """Experiments that need no network and no key."""


@app.command()
@spread(Options)
def sandbox(_ctx: typer.Context, options: Options) -> None:
    """Measure what each part is worth on questions of a simulated world, where the truth is known."""
    if options.only.strip() and options.forecasters.strip():
        message = "it names parts, and --forecasters compares whole forecasters: leave one of the two out"
        raise typer.BadParameter(message, param_hint="--only")
    require_writable(options.json, "--json")
    hand_over(run_until_told(_report(options)), options.json)


def hand_over(report: Mapping[str, Any], place: Path | None) -> None:
    """Write a report as JSON where it is wanted, and print it for a person unless that is stdout."""
    if place is not None:
        deliver(report, place)
    if place != STDOUT:
        print_lab(stdout(), report)


async def _report(options: Options) -> dict[str, Any]:
    """Run the laboratory in a process of its own, which tells on stderr how far it is, and return what it wrote."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / OUT
        child = await asyncio.create_subprocess_exec(sys.executable, "-m", LABORATORY, *_arguments(options, out))
        try:
            code = await child.wait()
        finally:
            # Where somebody ended this command, what it started ends too.
            with suppress(ProcessLookupError):
                child.terminate()
            await child.wait()
        if code == ExitCode.USAGE:
            message = "the laboratory cannot do that; why stands above"
            raise ConfigError(message)
        if code:
            message = f"the laboratory ended with code {code}; what it said stands above"
            raise FoxcastError(message)
        report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return report


def _arguments(options: Options, out: Path) -> list[str]:
    given = {
        "--seed": options.seed,
        "--questions": options.questions,
        "--only": options.only,
        "--forecasters": options.forecasters,
        "--jobs": options.jobs,
        "--folder": None if options.folder is None else options.folder.absolute(),
        "--out": out,
    }
    return [part for name, value in given.items() if value not in {None, ""} for part in (name, str(value))]
