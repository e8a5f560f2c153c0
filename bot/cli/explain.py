"""``foxcast explain``: the whole chain of one forecast, from the question to the score, out of the ledger alone."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bot.app import Records
from bot.cli.dossier import Dossier, dossier_of
from bot.cli.named import FORECAST_HELP, FORECASTER_HELP, trace_named
from bot.cli.options import spread
from bot.cli.output.console import emit, stdout
from bot.cli.output.explain import print_explanation
from bot.cli.output.explanation import Explanation, as_plain
from bot.cli.output.grounds import PAGE, Grounds
from bot.cli.records import read
from bot.cli.session import configured
from bot.desk.combine import Pool
from bot.desk.opening import OPENING
from bot.domain.learning import Fitted
from bot.lab.chain import chain_of
from bot.lab.pooled import pooled
from bot.store.exchanges import Exchanges
from bot.store.forecasts import Trace

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is explained, and how."""

    name: Annotated[str, typer.Argument(metavar="FORECAST", help=FORECAST_HELP)]
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=FORECASTER_HELP)] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
    full: Annotated[bool, typer.Option("--full", help="Cut nothing, and list every call to a model.")] = False
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw how the belief moved, as .svg or .png.")] = (
        None
    )


@app.command()
@spread(Options)
def explain(ctx: typer.Context, options: Options) -> None:
    """Explain one forecast: every step, what it rests on and costs, and the answer."""
    from bot.cli.output.plot import draw, require_drawable

    if options.plot is not None:
        require_drawable(options.plot)
    found = read(configured(ctx), lambda records: explanation_of(records, options.name, options.forecaster))
    if options.plot is not None:
        draw(found.trace, options.plot)
    if options.as_json:
        emit(as_plain(found))
    else:
        print_explanation(stdout(), found, full=options.full)


async def explanation_of(records: Records, name: str, forecaster: str | None = None) -> Explanation:
    """Gather all about the forecast that a name means; raises NotFound as ``trace_named`` does."""
    trace = await trace_named(records, name, forecaster)
    forecast = trace.forecast
    chain = await chain_of(records.ledger, trace)
    exchanges = records.ledger.exchanges
    grounds = {record.number: await grounds_of(exchanges, trace.id, record.number) for record in trace.trials}
    if forecast is None:
        return Explanation(trace=trace, chain=chain, grounds=grounds)
    configured = records.config.forecaster(forecast.forecaster).aggregate
    return Explanation(
        trace=trace,
        chain=chain,
        grounds=grounds,
        dossier=await _dossier(records, trace),
        pooled=pooled(trace, Pool(trace.setup.aggregate if trace.setup else configured)),
        fitted=await _fitted(records, forecast.fitted),
    )


async def grounds_of(exchanges: Exchanges, scope: str, trial: int) -> Grounds:
    """Read what a trial began with, the last time that it began, and which pages it was told of."""
    known = await exchanges.of(scope, trial, {"desk", "tool"})
    bodies = {key: json.loads(exchange.body) for key, exchange in known.items()}
    # Keys come in the order of their names; the count tells which was the last.
    desks = {key.nth: body["told"] for key, body in bodies.items() if key.kind == "desk" and "told" in body}
    told = (str(body["told"]) for key, body in bodies.items() if key.kind == "tool" and "told" in body)
    return Grounds(
        opening=OPENING.value(desks[max(desks)]) if desks else None,
        pages=frozenset(name for text in told for name in PAGE.findall(text)),
    )


async def _dossier(records: Records, trace: Trace) -> Dossier:
    return await dossier_of(records, trace.question.ref, forecast=trace.forecast)


async def _fitted(records: Records, digest: str | None) -> Fitted | None:
    return None if digest is None else await records.ledger.learning.get(digest)
