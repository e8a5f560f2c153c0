"""``foxcast diff``: what two forecasts of one question differ in."""

from typing import Annotated

import typer

from bot.app import Records
from bot.cli.named import FORECAST_HELP, forecasts_named
from bot.cli.output.console import emit, stdout
from bot.cli.output.difference import as_plain, print_difference
from bot.cli.records import read
from bot.cli.session import configured
from bot.config.nearest import instead
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
        before, after = chosen(await forecasts_named(records, first), forecasters)
    elif forecasters:
        message = "--forecaster chooses among the forecasts of one question; leave it out, or the second forecast"
        raise ConfigError(message)
    else:
        before, after = [(await forecasts_named(records, name))[-1] for name in (first, second)]
    if before.ref != after.ref:
        message = f"{before.id} is of {before.ref} and {after.id} of {after.ref}; only one question can be compared"
        raise ConfigError(message)
    return difference(await _side(records, before), await _side(records, after))


def chosen(history: list[Forecast], forecasters: list[str]) -> tuple[Forecast, Forecast]:
    """Return two forecasts of one question's history, the older one first, unless two forecasters are named in order.

    The last two of the named forecaster, or of the one that forecast last; where it forecast once, the latest of two
    forecasters. Raises NotFound where there are no two, ConfigError for more than two names.
    """
    if len(forecasters) > 2:
        message = "two forecasts are compared, so --forecaster can be given twice at most"
        raise ConfigError(message)
    by_name = {name: [one for one in history if one.forecaster == name] for name in {o.forecaster for o in history}}
    for name in forecasters:
        if name not in by_name:
            message = f"{name} has not forecast {history[-1].ref}; {instead(name, by_name)}"
            raise NotFound(message)
    if len(forecasters) == 2:
        before, after = (by_name[name][-1] for name in forecasters)
        return before, after
    own = by_name[forecasters[0] if forecasters else history[-1].forecaster]
    others = [] if forecasters else [one for one in history if one.forecaster != own[-1].forecaster]
    pair = own[-2:] if len(own) > 1 else [*others[-1:], *own]
    if len(pair) < 2:
        message = f"{history[-1].ref} has one forecast by {own[-1].forecaster} alone, {own[-1].id}; name two to compare"
        raise NotFound(message)
    return pair[0], pair[1]


async def _side(records: Records, forecast: Forecast) -> Side:
    trace = await records.ledger.forecasts.trace(forecast.id)
    return Side(trace=trace, chain=await chain_of(records.ledger, trace), forecast=forecast)
