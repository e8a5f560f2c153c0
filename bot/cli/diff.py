"""`foxcast diff`: what changed between two forecasts of one question: answer, crowd, inputs, evidence and costs."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bot.cli.command_setup import load_command_config
from bot.cli.lookup import FORECAST_HELP
from bot.cli.output.console import (
    ColumnKind,
    TableColumn,
    make_table,
    print_heading,
    print_indented,
    print_json,
    stdout_console,
)
from bot.core.errors import ConfigError, NotFoundError
from bot.core.forecasts import Forecast
from bot.core.predictions import CurvePrediction, CurveShape, Prediction, QuestionShape
from bot.core.values import Json
from bot.evaluation.explanation import read_recorded_calls
from bot.evaluation.forecast_diff import (
    ComparedForecast,
    ForecastDifference,
    ProbabilityMove,
    TextDifference,
    compare_forecasts,
    trial_spread,
)
from bot.evaluation.lookup import find_forecast, find_forecasts, forecasts_by, preferred_forecaster, query_ledger
from bot.evaluation.value_text import (
    NO_VALUE,
    QUANTILES,
    format_minute,
    format_percent,
    order_options,
    quantile_text,
    truncate_text,
)
from bot.store.ledger import ReadOnlyState
from bot.store.serialization import PREDICTIONS, format_timestamp, parse_timestamp

TEXT_CHARS_SHOWN = 120


DIGEST_CHARS = 64


DIGEST_CHARS_SHOWN = 12


MOVE_COLUMNS = (
    TableColumn("probability"),
    *(TableColumn(name, ColumnKind.NUMBER) for name in ("before", "after", "points", "log-odds")),
)


QUANTILE_COLUMNS = (
    TableColumn("quantile"),
    TableColumn("before", ColumnKind.NUMBER),
    TableColumn("after", ColumnKind.NUMBER),
)


# The format of timestamps in the ledger.
_LEDGER_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


CHANGE_COLUMNS = (TableColumn("what"), TableColumn("before", ColumnKind.TEXT), TableColumn("after", ColumnKind.TEXT))


def print_difference(console: Console, found: ForecastDifference) -> None:
    """Print it for a person."""
    console.print(Text(found.after.question.title, style="bold"))
    console.print(str(found.after.question.ref))
    for name, side in (("before", found.before), ("after", found.after)):
        forecast = side.forecast
        console.print(
            f"{name}: forecast {forecast.id} by {forecast.forecaster} (revision {forecast.revision}, {forecast.why}), "
            f"made {format_minute(forecast.made_at)} UTC"
        )
    print_heading(console, "Answer and crowd")
    moves = [*found.moves, *found.crowd_moves]
    curves = list(_quantile_rows(found))
    if moves:
        console.print(make_table(MOVE_COLUMNS, [_move_cells(move) for move in moves]))
    if curves:
        console.print(make_table(QUANTILE_COLUMNS, curves))
    if not moves and not curves:
        console.print("the two have no answer in common")
    print_heading(console, "What changed")
    # Quantiles shown above with their unit are not repeated.
    shown = {f"{level:.0%} quantile: {target}" for level in QUANTILES for target in found.after.forecast.predictions}
    changes = [change for change in found.changes if not (curves and change.name in shown)]
    if changes:
        rows = [
            (change.name, _change_value_text(change.before), _change_value_text(change.after)) for change in changes
        ]
        console.print(make_table(CHANGE_COLUMNS, rows))
    else:
        console.print("nothing")
    for listing in found.texts:
        _print_listing(console, listing)


def _quantile_rows(found: ForecastDifference) -> Iterator[tuple[str, ...]]:
    """Yield how the quantiles of each number or date moved, and those of the crowd."""
    before, after = found.before.question, found.after.question
    then, now = dict(found.before.forecast.predictions), dict(found.after.forecast.predictions)
    if before.crowd is not None and after.crowd is not None:
        then["crowd"], now["crowd"] = before.crowd.prediction, after.crowd.prediction
    for target in [target for target in then if target in now]:
        for level in QUANTILES:
            texts = _quantile_text(then[target], before.shape, level), _quantile_text(now[target], after.shape, level)
            if all(texts):
                yield (f"{target}: {level:.0%}", *texts)


def _quantile_text(prediction: Prediction, shape: QuestionShape, level: float) -> str:
    return (
        quantile_text(prediction, shape, level)
        if isinstance(prediction, CurvePrediction) and isinstance(shape, CurveShape)
        else ""
    )


def _print_listing(console: Console, listing: TextDifference) -> None:
    if not listing.added and not listing.removed:
        return
    print_heading(console, f"{listing.name.capitalize()} ({listing.kept} in both)")
    for sign, style, texts in (("+", "green", listing.added), ("-", "red", listing.removed)):
        for text in texts:
            print_indented(console, f"{sign} {' '.join(text.split())}", by=1, style=style)


def difference_to_json(found: ForecastDifference) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "question": str(found.after.question.ref),
        "before": _side_to_json(found.before),
        "after": _side_to_json(found.after),
        "moves": [_move_to_json(move) for move in found.moves],
        "crowd": [_move_to_json(move) for move in found.crowd_moves],
        "changes": [{"what": one.name, "before": one.before, "after": one.after} for one in found.changes],
        "lists": {
            one.name: {"new": list(one.added), "gone": list(one.removed), "in_both": one.kept} for one in found.texts
        },
    }


def _move_cells(move: ProbabilityMove) -> tuple[str, ...]:
    name = f"{move.target}: {move.option}" if move.option else move.target
    points = f"{100 * (move.after - move.before):+.1f}"
    return (name, format_percent(move.before), format_percent(move.after), points, _log_odds_text(move.log_odds))


def _log_odds_text(log_odds: float | None) -> str:
    return NO_VALUE if log_odds is None else f"{log_odds:+.2f}"


def _change_value_text(value: Json) -> str:
    match value:
        case None | "" | []:
            return NO_VALUE
        case float():
            return f"{value:.6g}"
        case str() if _LEDGER_TIMESTAMP.fullmatch(value):
            return f"{parse_timestamp(value):%Y-%m-%d %H:%M:%S} UTC"
        case str():
            text = " ".join(value.split())
            return text[:DIGEST_CHARS_SHOWN] if _is_sha256(text) else truncate_text(text, TEXT_CHARS_SHOWN)
        case list() if all(isinstance(item, str) and _is_sha256(item) for item in value):
            return ", ".join(str(item)[:DIGEST_CHARS_SHOWN] for item in value)
        case _:
            return truncate_text(json.dumps(value, ensure_ascii=False), TEXT_CHARS_SHOWN)


def _is_sha256(text: str) -> bool:
    return len(text) == DIGEST_CHARS and set(text) <= set("0123456789abcdef")


def _move_to_json(move: ProbabilityMove) -> dict[str, Any]:
    return {
        "target": move.target,
        "option": move.option or None,
        "before": move.before,
        "after": move.after,
        "log_odds": move.log_odds,
    }


def _side_to_json(side: ComparedForecast) -> dict[str, Any]:
    forecast = side.forecast
    return {
        "forecast": forecast.id,
        "forecaster": forecast.forecaster,
        "revision": forecast.revision,
        "made_at": format_timestamp(forecast.made_at),
        "predictions": order_options(PREDICTIONS.plain(forecast.predictions), side.question.shape),
        "trials_spread": dict(trial_spread(side)),
    }


app = typer.Typer(add_completion=False)


@app.command()
def diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="FORECAST", help=FORECAST_HELP)],
    second: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="The other forecast; default: compare the last two of the question."),
    ] = None,
    *,
    forecaster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Compare the last two forecasts by NAME; given twice, the latest of each.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two forecasts of a question: inputs, beliefs, searches and costs."""
    found = query_ledger(
        load_command_config(ctx), lambda records: _load_difference(records, (first, second), forecaster or [])
    )
    if as_json:
        print_json(difference_to_json(found))
    else:
        print_difference(stdout_console(), found)


async def _load_difference(
    records: ReadOnlyState, names: tuple[str, str | None], forecasters: list[str]
) -> ForecastDifference:
    first, second = names
    if second is None:
        history = await find_forecasts(records, first)
        before, after = choose_two_forecasts(
            history, forecasters, preferred=await preferred_forecaster(records, history)
        )
    elif forecasters:
        message = "--forecaster selects forecasts of one question; leave it out, or leave out the second forecast"
        raise ConfigError(message)
    else:
        before, after = [await find_forecast(records, name) for name in (first, second)]
    if before.ref != after.ref:
        message = f"{before.id} is of {before.ref} and {after.id} of {after.ref}; compare forecasts of one question"
        raise ConfigError(message)
    return compare_forecasts(await _load_side(records, before), await _load_side(records, after))


def choose_two_forecasts(
    history: list[Forecast], forecasters: list[str], *, preferred: str
) -> tuple[Forecast, Forecast]:
    """Return the last two forecasts of a forecaster, the named or else the preferred one, or the last of each of two.

    Raises NotFoundError if there are not two forecasts, ConfigError for more than two names.
    """
    if len(forecasters) > 2:
        message = "two forecasts are compared, so --forecaster can be given at most twice"
        raise ConfigError(message)
    if len(forecasters) == 2:
        before, after = (forecasts_by(history, name)[-1] for name in forecasters)
        return before, after
    own = forecasts_by(history, forecasters[0] if forecasters else preferred)
    if len(own) < 2:
        others = dict.fromkeys(one.forecaster for one in history if one.forecaster != own[-1].forecaster)
        two = f"--forecaster {next(reversed(others))} --forecaster {own[-1].forecaster}" if others else ""
        message = f"{own[-1].ref} has only one forecast by {own[-1].forecaster}, {own[-1].id}; " + (
            f"name two to compare, such as {two}" if two else "there is nothing to compare it with yet"
        )
        raise NotFoundError(message)
    return own[-2], own[-1]


async def _load_side(records: ReadOnlyState, forecast: Forecast) -> ComparedForecast:
    trace = await records.ledger.forecasts.trace(forecast.id)
    return ComparedForecast(
        trace=trace, recorded_calls=await read_recorded_calls(records.ledger, trace), forecast=forecast
    )
