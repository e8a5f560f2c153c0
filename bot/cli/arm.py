"""`foxcast arm` and `disarm`.

Allow live submission to one venue for a limited time and up to limited amounts, or revoke it.
"""

import math
import re
from datetime import datetime, timedelta
from typing import Annotated

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request
from bot.cli.lookup import CONFIGURED_VENUE_HELP, require_configured_venue
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import stdout_console
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import ArmVenue, DisarmVenue
from bot.execution.gate.execution_policy import venue_policy

arm_app, disarm_app = (typer.Typer(add_completion=False) for _ in range(2))


_DURATION_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


_DURATION_PATTERN = re.compile(r"(\d{1,5})([mhd])")


def parse_duration(text: str) -> timedelta:
    """Parse the duration given to an option; raises a usage error that shows the format."""
    match = _DURATION_PATTERN.fullmatch(text)
    if match is None or not int(match[1]):
        message = f"{text!r} is not a duration such as 30m, 24h or 7d"
        raise typer.BadParameter(message)
    return int(match[1]) * _DURATION_UNITS[match[2]]


def _amount_option(meaning: str) -> object:
    return typer.Option(metavar="AMOUNT", min=0.0, help=f"Maximum cost of {meaning}, in the venue's currency.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOptions:
    """Which venue is armed, for how long and up to which amounts."""

    venue: Annotated[str, typer.Argument(metavar="VENUE", help=CONFIGURED_VENUE_HELP)]
    lasting: Annotated[
        timedelta, typer.Option("--for", parser=parse_duration, metavar="TIME", help="30m, 24h or 7d; at most 120d.")
    ]
    per_order: Annotated[float | None, _amount_option("one order")] = None
    per_day: Annotated[float | None, _amount_option("the orders of one day (UTC)")] = None
    total: Annotated[float | None, _amount_option("all orders under this permission")] = None
    token_file: TokenFileOption = None


@arm_app.command()
@options_from_dataclass(ArmOptions)
def arm(ctx: typer.Context, options: ArmOptions) -> None:
    """Allow live submission to a venue for a limited time and amount; changed settings end it."""
    config, registry = load_config_and_plugins(ctx)
    require_configured_venue(config, options.venue)
    _require_positive_amounts(options)
    policy = venue_policy(config, options.venue, registry.specs_of_table)

    def make_request(by: str, at: datetime) -> ArmVenue:
        return ArmVenue(
            by=by,
            asked_at=at,
            venue=policy.venue,
            account=policy.account,
            config=policy.config_digest,
            until=at + options.lasting,
            per_order=options.per_order,
            per_day=options.per_day,
            total=options.total,
        )

    stdout_console().print(submit_request(config, registry, make_request, token_file=options.token_file))


def _require_positive_amounts(options: ArmOptions) -> None:
    amounts = {"--per-order": options.per_order, "--per-day": options.per_day, "--total": options.total}
    for name, amount in amounts.items():
        if amount is not None and not (math.isfinite(amount) and amount > 0.0):
            message = f"{name} must be above 0; to stop submissions: foxcast disarm {options.venue}"
            raise ConfigError(message)


@disarm_app.command()
def disarm(
    ctx: typer.Context,
    venue: Annotated[str, typer.Argument(metavar="VENUE", help=CONFIGURED_VENUE_HELP)],
    *,
    token_file: TokenFileOption = None,
) -> None:
    """Revoke live submission for a venue."""
    config, registry = load_config_and_plugins(ctx)
    require_configured_venue(config, venue)

    def make_request(by: str, at: datetime) -> DisarmVenue:
        return DisarmVenue(by=by, asked_at=at, venue=venue)

    stdout_console().print(submit_request(config, registry, make_request, token_file=token_file))
