"""``foxcast diff``: what two forecasts of one question differ in."""

from typing import Annotated

import typer

from bot.app import Records
from bot.cli.named import FORECAST_HELP, by, forecast_named, forecasts_named, preferred
from bot.cli.output.console import emit, stdout
from bot.cli.output.difference import as_plain, print_difference
from bot.cli.records import read
from bot.cli.session import configured
from bot.domain.forecast import Forecast
from bot.errors import ConfigError, NotFound
from bot.lab.chain import chain_of
from bot.lab.difference import Difference, Side, difference

app = typer.Typer(add_completion=False)


@app.command()
def diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="FORECAST", help=FORECAST_HELP)],
    second: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="The other forecast; without it, the last two of the question."),
    ] = None,
    *,
    forecaster: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of the question, the last two by NAME; given twice, the latest of each."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two forecasts of a question: what was known, believed, searched and paid."""
    found = read(configured(ctx), lambda records: _found(records, (first, second), forecaster or []))
    if as_json:
        emit(as_plain(found))
    else:
        print_difference(stdout(), found)


async def _found(records: Records, names: tuple[str, str | None], forecasters: list[str]) -> Difference:
    first, second = names
    if second is None:
        history = await forecasts_named(records, first)
        before, after = chosen(history, forecasters, preferred=await preferred(records, history))
    elif forecasters:
        message = "--forecaster chooses among the forecasts of one question; leave it out, or the second forecast"
        raise ConfigError(message)
    else:
        before, after = [await forecast_named(records, name) for name in (first, second)]
    if before.ref != after.ref:
        message = f"{before.id} is of {before.ref} and {after.id} of {after.ref}; only one question can be compared"
        raise ConfigError(message)
    return difference(await _side(records, before), await _side(records, after))


def chosen(history: list[Forecast], forecasters: list[str], *, preferred: str) -> tuple[Forecast, Forecast]:
    """Return two forecasts of one question's history, the older one first, unless two forecasters are named in order.

    The last two of the named forecaster, or of the preferred one where none is named.
    Raises NotFound where there are no two, ConfigError for more than two names.
    """
    if len(forecasters) > 2:
        message = "two forecasts are compared, so --forecaster can be given twice at most"
        raise ConfigError(message)
    if len(forecasters) == 2:
        before, after = (by(history, name)[-1] for name in forecasters)
        return before, after
    own = by(history, forecasters[0] if forecasters else preferred)
    if len(own) < 2:
        others = dict.fromkeys(one.forecaster for one in history if one.forecaster != own[-1].forecaster)
        two = f"--forecaster {next(reversed(others))} --forecaster {own[-1].forecaster}" if others else ""
        message = f"{own[-1].ref} has one forecast by {own[-1].forecaster} alone, {own[-1].id}; " + (
            f"name two to compare, such as {two}" if two else "there is nothing to compare it with yet"
        )
        raise NotFound(message)
    return own[-2], own[-1]


async def _side(records: Records, forecast: Forecast) -> Side:
    trace = await records.ledger.forecasts.trace(forecast.id)
    return Side(trace=trace, chain=await chain_of(records.ledger, trace), forecast=forecast)
