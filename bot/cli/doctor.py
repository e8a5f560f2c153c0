"""``foxcast doctor``: is this installation fit to run, and if not, what is to be done."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from bot.cli.call import Call
from bot.cli.checkup import checkup
from bot.cli.checkup_models import TRIALS
from bot.cli.exits import ExitCode
from bot.cli.finding import Finding, Verdict
from bot.cli.output.console import Column, Kind, emit, stdout, table
from bot.clock import SystemClock

app = typer.Typer(add_completion=False)

COLUMNS = (Column(""), Column("check"), Column("found", Kind.TEXT))
STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


@app.command()
def doctor(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check this installation and say what to do."""
    findings = [*checkup(ctx.ensure_object(Call).config_path, SystemClock().now())]
    if as_json:
        emit([asdict(finding) for finding in findings])
    else:
        stdout().print(table(COLUMNS, [_cells(finding) for finding in findings]))
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
    if any(finding.check == TRIALS for finding in findings):
        raise typer.Exit(ExitCode.TRIALS_FAILED)


def _cells(finding: Finding) -> tuple[Text, str, str]:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return Text(finding.verdict.value, style=STYLES[finding.verdict]), finding.check, f"{finding.found}{remedy}"
