"""Whether the account may forecast by program, and whether the tournaments are there, before anything is written."""

from collections.abc import Sequence

from bot.api import NotFound, Rejected, Workplace
from plugins.metaculus.client import Client
from plugins.metaculus.contests import unknown_tournament
from plugins.metaculus.raw import RawMe, RawTournament, parsed
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import TABLE
from plugins.metaculus.venue import MAY_FORECAST

ENABLED = "enabled"


async def check(settings: MetaculusSettings, workplace: Workplace) -> Sequence[str]:
    """Return what a person should know of the account and its tournaments.

    Raises Unauthorized for a token that is not taken, Rejected for an account that is no bot or may not forecast, and
    for tournaments none of which is there.
    """
    client = Client(settings, workplace.http, workplace.clock)
    me = parsed(RawMe, await client.me(), "the account")
    if not me.is_bot:
        message = (
            f"{me.username} is no bot: automated forecasts need a bot account of its own; make one in the settings of"
            f" the site, and set its token in {TABLE}"
        )
        raise Rejected(message)
    if me.api_forecasting_access != ENABLED:
        message = (
            f"{me.username} may not forecast by program (it is {me.api_forecasting_access or 'not said'}): its owner"
            " confirms that under API forecasting access in the account settings of the site"
        )
        raise Rejected(message)
    known = [f"account {me.username}, access tier {me.api_access_tier or 'not said'}"]
    if not me.is_primary_bot:
        known.append(f"{me.username} is not the primary bot of its owner: it counts for no prize and in no peer score")
    return (*known, *await _tournaments(settings, client))


async def _tournaments(settings: MetaculusSettings, client: Client) -> list[str]:
    told, missing = [], []
    for name in settings.tournaments:
        try:
            found = parsed(RawTournament, await client.tournament(name), f"tournament {name}")
        except NotFound:
            missing.append(await unknown_tournament(client, name))
            continue
        told.append(_described(name, found))
    if missing and not told:
        raise Rejected("; ".join(missing))
    return [*told, *missing]


def _described(name: str | int, found: RawTournament) -> str:
    parts = [f"tournament {name}: {found.name}"]
    if found.forecasting_end_date is not None:
        parts.append(f"until {found.forecasting_end_date:%Y-%m-%d}")
    if found.is_ongoing is False:
        parts.append("over, or not begun")
    if found.user_permission is not None and found.user_permission not in MAY_FORECAST:
        parts.append(f"this account is {found.user_permission} there and may not forecast")
    return ", ".join(parts)
