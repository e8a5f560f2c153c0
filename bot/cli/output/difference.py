"""Two forecasts of one question beside each other: tables of what moved and changed, lists of what is new and gone."""

import json
import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.output.beliefs import QUANTILES, in_order, value
from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.figures import NOTHING, moment, percent
from bot.domain.prediction import Curve, CurveShape, Prediction, Shape
from bot.domain.step import Json
from bot.lab.difference import Difference, Listing, Move, Side, spread
from bot.store.codec import PREDICTIONS, stamp
from bot.store.codec import moment as moment_of

SHOWN = 120
DIGEST_CHARS = 64
DIGEST_SHOWN = 12
MOVES = (
    Column("probability"),
    *(Column(name, Kind.NUMBER) for name in ("before", "after", "points", "log-odds")),
)
CURVES = (Column("quantile"), Column("before", Kind.NUMBER), Column("after", Kind.NUMBER))
# As the ledger writes moments.
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
CHANGES = (Column("what"), Column("before", Kind.TEXT), Column("after", Kind.TEXT))


def print_difference(console: Console, found: Difference) -> None:
    """Print it for a person."""
    console.print(Text(found.after.question.title, style="bold"))
    console.print(str(found.after.question.ref))
    for name, side in (("before", found.before), ("after", found.after)):
        forecast = side.forecast
        console.print(
            f"{name}: forecast {forecast.id} by {forecast.forecaster} (revision {forecast.revision}, {forecast.why}), "
            f"made {moment(forecast.made_at)} UTC"
        )
    heading(console, "Answer and crowd")
    moves = [*found.moves, *found.crowd]
    curves = list(_curves(found))
    if moves:
        console.print(table(MOVES, [_move(move) for move in moves]))
    if curves:
        console.print(table(CURVES, curves))
    if not moves and not curves:
        console.print("the two have no answer in common")
    heading(console, "What changed")
    # What is told above with its unit is not told again.
    above = {f"{level:.0%} quantile: {target}" for level in QUANTILES for target in found.after.forecast.predictions}
    changes = [change for change in found.changes if not (curves and change.what in above)]
    if changes:
        rows = [(change.what, _shown(change.before), _shown(change.after)) for change in changes]
        console.print(table(CHANGES, rows))
    else:
        console.print("nothing")
    for listing in found.listings:
        _print_listing(console, listing)


def _curves(found: Difference) -> Iterator[tuple[str, ...]]:
    """Yield how the quantiles of each number or date moved, and those of its crowd."""
    before, after = found.before.question, found.after.question
    then, now = dict(found.before.forecast.predictions), dict(found.after.forecast.predictions)
    if before.crowd is not None and after.crowd is not None:
        then["crowd"], now["crowd"] = before.crowd.prediction, after.crowd.prediction
    for target in [target for target in then if target in now]:
        for level in QUANTILES:
            told = _quantile(then[target], before.shape, level), _quantile(now[target], after.shape, level)
            if all(told):
                yield (f"{target}: {level:.0%}", *told)


def _quantile(prediction: Prediction, shape: Shape, level: float) -> str:
    return value(prediction, shape, level) if isinstance(prediction, Curve) and isinstance(shape, CurveShape) else ""


def _print_listing(console: Console, listing: Listing) -> None:
    if not listing.new and not listing.gone:
        return
    heading(console, f"{listing.what.capitalize()} ({listing.kept} in both)")
    for sign, style, texts in (("+", "green", listing.new), ("-", "red", listing.gone)):
        for text in texts:
            indented(console, f"{sign} {' '.join(text.split())}", by=1, style=style)


def as_plain(found: Difference) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "question": str(found.after.question.ref),
        "before": _side(found.before),
        "after": _side(found.after),
        "moves": [_plain_move(move) for move in found.moves],
        "crowd": [_plain_move(move) for move in found.crowd],
        "changes": [{"what": one.what, "before": one.before, "after": one.after} for one in found.changes],
        "lists": {
            one.what: {"new": list(one.new), "gone": list(one.gone), "in_both": one.kept} for one in found.listings
        },
    }


def _move(move: Move) -> tuple[str, ...]:
    name = f"{move.target}: {move.option}" if move.option else move.target
    points = f"{100 * (move.after - move.before):+.1f}"
    return (name, percent(move.before), percent(move.after), points, _signed(move.log_odds))


def _signed(log_odds: float | None) -> str:
    return NOTHING if log_odds is None else f"{log_odds:+.2f}"


def _shown(said: Json) -> str:
    match said:
        case None | "" | []:
            return NOTHING
        case float():
            return f"{said:.6g}"
        case str() if _STAMP.fullmatch(said):
            return f"{moment_of(said):%Y-%m-%d %H:%M:%S} UTC"
        case str():
            text = " ".join(said.split())
            return text[:DIGEST_SHOWN] if _is_digest(text) else _cut(text)
        case list() if all(isinstance(item, str) and _is_digest(item) for item in said):
            return ", ".join(str(item)[:DIGEST_SHOWN] for item in said)
        case _:
            return _cut(json.dumps(said, ensure_ascii=False))


def _is_digest(text: str) -> bool:
    return len(text) == DIGEST_CHARS and set(text) <= set("0123456789abcdef")


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rstrip()} ..."


def _plain_move(move: Move) -> dict[str, Any]:
    return {
        "target": move.target,
        "option": move.option or None,
        "before": move.before,
        "after": move.after,
        "log_odds": move.log_odds,
    }


def _side(side: Side) -> dict[str, Any]:
    forecast = side.forecast
    return {
        "forecast": forecast.id,
        "forecaster": forecast.forecaster,
        "revision": forecast.revision,
        "made_at": stamp(forecast.made_at),
        "predictions": in_order(PREDICTIONS.plain(forecast.predictions), side.question.shape),
        "trials_spread": dict(spread(side)),
    }
