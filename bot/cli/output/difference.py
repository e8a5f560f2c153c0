"""Two forecasts of one question beside each other: tables of what moved and changed, lists of what is new and gone."""

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.figures import NOTHING, moment, percent
from bot.domain.step import Json
from bot.lab.difference import Difference, Listing, Move, Side, spread
from bot.store.codec import PREDICTIONS, stamp

SHOWN = 120
DIGEST_CHARS = 64
DIGEST_SHOWN = 12
MOVES = (
    Column("probability"),
    *(Column(name, Kind.NUMBER) for name in ("before", "after", "points", "log-odds")),
)
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
    console.print(table(MOVES, [_move(move) for move in moves]) if moves else "no probability is common to both")
    heading(console, "What changed")
    if found.changes:
        rows = [(change.what, _shown(change.before), _shown(change.after)) for change in found.changes]
        console.print(table(CHANGES, rows))
    else:
        console.print("nothing")
    for listing in found.listings:
        _print_listing(console, listing)


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


def _shown(value: Json) -> str:
    match value:
        case None | "" | []:
            return NOTHING
        case float():
            return f"{value:.6g}"
        case str():
            text = " ".join(value.split())
            return text[:DIGEST_SHOWN] if _is_digest(text) else _cut(text)
        case list() if all(isinstance(item, str) and _is_digest(item) for item in value):
            return ", ".join(str(item)[:DIGEST_SHOWN] for item in value)
        case _:
            return _cut(json.dumps(value, ensure_ascii=False))


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
        "predictions": PREDICTIONS.plain(forecast.predictions),
        "trials_spread": dict(spread(side)),
    }
