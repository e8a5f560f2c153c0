"""``foxcast show``: everything on record of one question, or of one of its forecasts."""

import re
from typing import Annotated, Any

import typer

from bot.app import Records
from bot.cli.dossier import Dossier, dossier_of
from bot.cli.output.console import emit, stdout
from bot.cli.output.dossier import as_plain, print_dossier
from bot.cli.records import question_named, read
from bot.cli.session import configured
from bot.errors import NotFound

app = typer.Typer(add_completion=False)

# The beginning of a forecast's id; fewer characters would be words of a title.
FORECAST_ID = re.compile(r"[0-9a-f]{6,24}")


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="A question (venue:key, a key, a unique part of it) or a forecast's id.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one question: forecasts, every change of mind, decision, outcome, score."""
    found = read(configured(ctx), lambda records: _found(records, name))
    if as_json:
        emit(as_plain(found))
    else:
        print_dossier(stdout(), found)


async def _found(records: Records, name: str) -> Dossier:
    forecasts: list[Any] = await records.ledger.forecasts.find(name) if FORECAST_ID.fullmatch(name) else []
    match forecasts:
        case []:
            return await dossier_of(records, await question_named(records, name))
        case [forecast]:
            return await dossier_of(records, forecast.ref, forecast=forecast)
        case several:
            listed = [f"  {forecast.id}  {forecast.ref}" for forecast in several]
            message = "\n".join([f"{name} begins several forecasts; name one of", *listed])
            raise NotFound(message)
