"""Whether the key is that of the configured bot, before anything is written."""

from collections.abc import Sequence

from bot.api import Rejected, Workplace
from plugins.manifold.client import Client
from plugins.manifold.raw import RawMe, parsed
from plugins.manifold.settings import ManifoldSettings


async def check(settings: ManifoldSettings, workplace: Workplace) -> Sequence[str]:
    """Return what a person should know of the account. What anybody may read proves no key, so the account is asked.

    Raises Unauthorized for a key that is missing or not taken, Rejected for an account that is another one or no bot.
    """
    me = parsed(RawMe, await Client(settings, workplace.http, workplace.clock).me(), "the account")
    if not settings.username:
        message = f"the key is that of {me.username}: if that is right, set username in [venues.manifold.settings]"
        raise Rejected(message)
    if me.username != settings.username:
        message = f"the key is that of {me.username}, and username in [venues.manifold.settings] is {settings.username}"
        raise Rejected(message)
    if not me.is_bot:
        message = f"{me.username} is not marked as a bot: mark it in its profile on the site, which cannot be undone"
        raise Rejected(message)
    return (f"account {me.username} in {settings.environment}, marked as a bot, {me.balance:.2f} mana",)
