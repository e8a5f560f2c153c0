"""Checks before anything is written whether the account may forecast by API, and whether the tournaments exist."""

from collections.abc import Sequence

from bot.api import NotFoundError, PluginContext, RequestRejectedError
from plugins.metaculus.api_client import MetaculusClient
from plugins.metaculus.api_records import MetaculusAccountRecord, MetaculusTournamentRecord, parse_record
from plugins.metaculus.question_names import SETTINGS_TABLE
from plugins.metaculus.reader import FORECASTING_PERMISSIONS
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.tournaments import describe_successors, unknown_tournament_reason

FORECASTING_ENABLED = "enabled"


async def check_account(settings: MetaculusSettings, context: PluginContext) -> Sequence[str]:
    """Return what a person should know about the account and its tournaments.

    Raises AuthenticationError for an invalid token, RequestRejectedError for an account that is no bot or may not
    forecast, and if none of the tournaments exists.
    """
    client = MetaculusClient(settings, context.http, context.clock)
    me = parse_record(MetaculusAccountRecord, await client.own_account(), "the account")
    if not me.is_bot:
        message = (
            f"{me.username} is no bot: automated forecasts need a separate bot account; create one in the settings of"
            f" the site, and set its token in {SETTINGS_TABLE}"
        )
        raise RequestRejectedError(message)
    if me.api_forecasting_access != FORECASTING_ENABLED:
        message = (
            f"{me.username} may not forecast by API (access is {me.api_forecasting_access or 'unknown'}): its owner"
            " must enable API forecasting access in the account settings of the site"
        )
        raise RequestRejectedError(message)
    known = [f"account {me.username}, access tier {me.api_access_tier or 'unknown'}"]
    if not me.is_primary_bot:
        known.append(f"{me.username} is not the primary bot of its owner: it wins no prize and counts in no peer score")
    return (*known, *await _check_tournaments(settings, client))


async def _check_tournaments(settings: MetaculusSettings, client: MetaculusClient) -> list[str]:
    tournaments, missing = [], []
    for name in settings.tournaments:
        try:
            found = parse_record(MetaculusTournamentRecord, await client.tournament(name), f"tournament {name}")
        except NotFoundError:
            missing.append(await unknown_tournament_reason(client, name))
            continue
        over = found.is_ongoing is False
        successor = await describe_successors(client, found.slug or str(name)) if over else ""
        tournaments.append(", ".join(filter(None, (_describe_tournament(name, found), successor))))
    if missing and not tournaments:
        raise RequestRejectedError("; ".join(missing))
    return [*tournaments, *missing]


def _describe_tournament(name: str | int, found: MetaculusTournamentRecord) -> str:
    parts = [f"tournament {name}: {found.name}"]
    if found.forecasting_end_date is not None:
        parts.append(f"until {found.forecasting_end_date:%Y-%m-%d}")
    if found.is_ongoing is False:
        parts.append("over, or not started")
    if found.user_permission is not None and found.user_permission not in FORECASTING_PERMISSIONS:
        parts.append(f"this account is {found.user_permission} there and may not forecast")
    return ", ".join(parts)
