"""``foxcast arm`` and ``disarm``: a person's leave to submit to one venue, for a time and up to amounts."""

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import typer

from bot.cli.leaving import TokenFile, submit_request
from bot.cli.options import spread
from bot.cli.output.console import stdout
from bot.cli.session import equipped
from bot.config.model import Config
from bot.config.nearest import instead
from bot.domain.request import ArmVenue, DisarmVenue
from bot.errors import ConfigError, NotFound
from bot.gate.lanes import lane_in

arming, disarming = (typer.Typer(add_completion=False) for _ in range(2))

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_SPAN = re.compile(r"(\d{1,5})([mhd])")

VENUE_HELP = "A venue of config.toml."


def span(text: str) -> timedelta:
    """Read a length of time of an option; raises a usage error that shows the form."""
    match = _SPAN.fullmatch(text)
    if match is None or not int(match[1]):
        message = f"{text!r} is no length of time like 30m, 24h or 7d"
        raise typer.BadParameter(message)
    return int(match[1]) * _UNITS[match[2]]


def _amount(meaning: str) -> object:
    return typer.Option(metavar="AMOUNT", min=0.0, help=f"The most that {meaning} may cost, in its currency.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is armed, for how long and up to what."""

    venue: Annotated[str, typer.Argument(metavar="VENUE", help=VENUE_HELP)]
    lasting: Annotated[
        timedelta, typer.Option("--for", parser=span, metavar="TIME", help="30m, 24h or 7d; at most 120d.")
    ]
    per_order: Annotated[float | None, _amount("one order")] = None
    per_day: Annotated[float | None, _amount("the orders of one day (UTC)")] = None
    total: Annotated[float | None, _amount("everything under this record")] = None
    token_file: TokenFile = None


@arming.command()
@spread(Options)
def arm(ctx: typer.Context, options: Options) -> None:
    """Give leave to submit to a venue, for a time and up to amounts; a change of what leaves ends it."""
    config, registry = equipped(ctx)
    require_venue(config, options.venue)
    _require_above_nothing(options)
    lane = lane_in(config, options.venue, registry.configurable)

    def make(by: str, at: datetime) -> ArmVenue:
        return ArmVenue(
            by=by,
            asked_at=at,
            venue=lane.venue,
            account=lane.account,
            config=lane.digest,
            until=at + options.lasting,
            per_order=options.per_order,
            per_day=options.per_day,
            total=options.total,
        )

    stdout().print(submit_request(config, registry, make, token_file=options.token_file))


def _require_above_nothing(options: Options) -> None:
    amounts = {"--per-order": options.per_order, "--per-day": options.per_day, "--total": options.total}
    for name, amount in amounts.items():
        if amount is not None and not (math.isfinite(amount) and amount > 0.0):
            message = f"{name} must be above 0; to let nothing leave: foxcast disarm {options.venue}"
            raise ConfigError(message)


@disarming.command()
def disarm(
    ctx: typer.Context,
    venue: Annotated[str, typer.Argument(metavar="VENUE", help=VENUE_HELP)],
    *,
    token_file: TokenFile = None,
) -> None:
    """Take back leave to submit to a venue."""
    config, registry = equipped(ctx)
    require_venue(config, venue)

    def make(by: str, at: datetime) -> DisarmVenue:
        return DisarmVenue(by=by, asked_at=at, venue=venue)

    stdout().print(submit_request(config, registry, make, token_file=token_file))


def require_venue(config: Config, venue: str) -> None:
    """Raise NotFound for a venue that config does not have, naming the nearest."""
    if venue not in config.venues:
        message = f"config.toml has no venue {venue}; {instead(venue, config.venues)}"
        raise NotFound(message)
