"""Whether this account may trade from here, before anything is: what its owner attests, the region, the clock, the key.

Nothing is written: no API key is made, and no allowance is ever set.
Source: venue document, sections 8 and 11, and PM-S2.
"""

import json
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from bot.api import ContractError, Http, Rejected, Unauthorized, Workplace
from plugins.polymarket.account import Holdings
from plugins.polymarket.account_keys import Session
from plugins.polymarket.client import HEADERS, Client, address
from plugins.polymarket.raw import flag_of, moment_of, record_of, text_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_process import Signer, signer_of
from plugins.polymarket.writer_verdict import BLOCKED

_MOST_BYTES = 65_536
# Requests are signed with the time of this machine.
_CLOCK_S = 30.0


async def check(settings: PolymarketSettings, workplace: Workplace) -> Sequence[str]:
    """Return what a person should know of the account; the signer is started for it, and ended.

    Raises Unauthorized where the owner has not attested, the region is blocked, or key, wallet or secrets are missing
    or wrong; Rejected for a clock that is off and for an account that may only close positions.
    """
    await require_permitted(settings, workplace.http)
    signer = signer_of(settings, workplace.folder)
    async with aclosing(signer):
        return await checked(settings, workplace, signer)


async def checked(settings: PolymarketSettings, workplace: Workplace, signer: Signer) -> list[str]:
    """Return what there is to say of the account of a signer."""
    await _require_clock(settings, workplace)
    owner = await signer.open()
    told = [f"wallet {settings.wallet} ({settings.wallet_type}), signed for by {owner}"]
    if not signer.is_derived:
        told.append("the wallet cannot be derived from the key: make sure that it is the key's")
    session = Session(settings, workplace.clock, http=workplace.http, signer=signer)
    try:
        await session.credentials()
    except Rejected as error:
        return [*told, str(error)]
    said = record_of(await session.get("auth/ban-status/closed-only"))
    if flag_of(said.get("closed_only")) is not False:
        message = "the venue lets this account only close positions; take it off live in config"
        raise Rejected(message)
    client = Client(settings, workplace.http)
    dollars, allowed = await Holdings(settings, workplace.clock, client, session).collateral()
    told.append(f"{dollars:.2f} dollars in the wallet")
    if not dollars:
        told.append("no dollars: where the wallet has some, wallet or wallet_type are wrong")
    if allowed is not None and allowed < dollars:
        told.append(f"an exchange contract may take {allowed:.2f} of them: set the allowance on the venue's site")
    return told


async def require_permitted(settings: PolymarketSettings, http: Http) -> None:
    """Raise Unauthorized where the owner has not attested, or the venue says that the region may not trade."""
    if not settings.attested:
        message = (
            "set attested = true in [venues.polymarket.settings] if its terms let you trade, where you live and where "
            "this runs; nothing is traded without"
        )
        raise Unauthorized(message)
    url = address(settings, settings.site_url, "api/geoblock")
    try:
        said = record_of(json.loads(await http.get(url, max_bytes=_MOST_BYTES, headers=HEADERS)))
    except (ValueError, RecursionError):
        said = {}
    blocked = flag_of(said.get("blocked"))
    if blocked is None:
        message = "geoblock: the answer does not say whether this region is blocked; nothing is traded without"
        raise ContractError(message)
    if blocked:
        place = " ".join(text_of(said.get(name)) for name in ("country", "region")).strip() or "unknown"
        message = f"{BLOCKED} (it says: {place})"
        raise Unauthorized(message)


async def _require_clock(settings: PolymarketSettings, workplace: Workplace) -> None:
    url = address(settings, settings.clob_url, "time")
    answer = await workplace.http.get(url, max_bytes=_MOST_BYTES, headers=HEADERS)
    theirs = moment_of(answer.decode(errors="replace").strip().strip('"'))
    if theirs is None:
        message = "time: the answer is no time"
        raise ContractError(message)
    ours: datetime = workplace.clock.now().astimezone(UTC)
    off_s = (ours - theirs).total_seconds()
    if abs(off_s) > _CLOCK_S:
        message = f"the clock of this machine is {off_s:+.0f} s off the venue's, and signs every request: set it (NTP)"
        raise Rejected(message)
