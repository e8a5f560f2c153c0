"""Ways out as config describes them."""

from collections.abc import Mapping
from datetime import timedelta

from bot.config.schema import Config
from bot.gate.armed import Offered, config_digest
from bot.gate.case import Lane


def lane_in(config: Config, venue: str, offered: Offered) -> Lane:
    """Return the way out of a venue that has a table in config; ``offered`` is what the enabled plugins offer."""
    table = config.venues[venue]
    return Lane(
        venue=venue,
        mode=config.mode_of(venue),
        primary=table.forecasters[0],
        choose=table.choose,
        exclude=table.exclude,
        account=table.account,
        caps=table.caps,
        trading=table.trading,
        bankroll=table.bankroll,
        close_margin=timedelta(seconds=table.close_margin_s),
        approval=timedelta(hours=table.approval_h),
        comment=table.comment,
        template=table.comment_template,
        digest=config_digest(config, venue, offered),
    )


def lanes_in(config: Config, offered: Offered, *, known: Mapping[str, Lane] | None = None) -> Mapping[str, Lane]:
    """Return the ways out of all venues of config, by name; ``known`` are those of them that were made already.

    To make one takes a slow hash of the secrets of its venue.
    """
    made = known or {}
    return {venue: made.get(venue) or lane_in(config, venue, offered) for venue in config.venues}
