"""Checks before trading whether this account may trade: the owner's attestation, the region, the clock, the key.

Nothing is written: no API key is created, and no allowance is ever set. Source: docs/facts/polymarket.md#signing and
#geography.
"""

import json
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from bot.api import AuthenticationError, HttpClient, MalformedDataError, PluginContext, RequestRejectedError
from plugins.polymarket.account import PolymarketAccountReader
from plugins.polymarket.api_client import REQUEST_HEADERS, PolymarketClient, build_url
from plugins.polymarket.exchange_session import ExchangeSession
from plugins.polymarket.json_values import parse_flag, parse_moment, parse_record, parse_text
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_client import SignerClient, create_signer
from plugins.polymarket.write_requests import REGION_BLOCKED

_MAX_RESPONSE_BYTES = 65_536
# Requests are signed with the time of this machine.
_MAX_CLOCK_SKEW_S = 30.0


async def check_account(settings: PolymarketSettings, context: PluginContext) -> Sequence[str]:
    """Return what a person should know about the account; the signer is started for it, and stopped.

    Raises AuthenticationError if the owner has not attested, the region is blocked, or key, wallet or secrets are
    missing or wrong; RequestRejectedError for a wrong clock and for an account that may only close positions.
    """
    await require_trading_allowed(settings, context.http)
    signer = create_signer(settings, context.folder)
    async with aclosing(signer):
        return await describe_account(settings, context, signer)


async def describe_account(settings: PolymarketSettings, context: PluginContext, signer: SignerClient) -> list[str]:
    """Return the findings about the account of a signer."""
    await _require_correct_clock(settings, context)
    owner = await signer.open()
    findings = [f"wallet {settings.wallet} ({settings.wallet_type}), signed for by {owner}"]
    if not signer.is_derived:
        findings.append("the wallet cannot be derived from the key: make sure that it belongs to the key")
    session = ExchangeSession(settings, context.clock, http=context.http, signer=signer)
    try:
        await session.credentials()
    except RequestRejectedError as error:
        return [*findings, str(error)]
    fields = parse_record(await session.get("auth/ban-status/closed-only"))
    if parse_flag(fields.get("closed_only")) is not False:
        message = "the venue lets this account only close positions; take it off live in config"
        raise RequestRejectedError(message)
    client = PolymarketClient(settings, context.http)
    dollars, allowed = await PolymarketAccountReader(settings, context.clock, client, session).collateral()
    findings.append(f"{dollars:.2f} dollars in the wallet")
    if not dollars:
        findings.append("no dollars: if the wallet has some, wallet or wallet_type are wrong")
    if allowed is not None and allowed < dollars:
        findings.append(f"an exchange contract may take {allowed:.2f} of them: set the allowance on the venue's site")
    return findings


async def require_trading_allowed(settings: PolymarketSettings, http: HttpClient) -> None:
    """Raise AuthenticationError if the owner has not attested, or the venue blocks the region."""
    if not settings.attested:
        message = (
            "set attested = true in [venues.polymarket.settings] if its terms let you trade, where you live and where "
            "this runs; otherwise nothing is traded"
        )
        raise AuthenticationError(message)
    url = build_url(settings, settings.site_url, "api/geoblock")
    try:
        fields = parse_record(json.loads(await http.get(url, max_bytes=_MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS)))
    except (ValueError, RecursionError):
        fields = {}
    blocked = parse_flag(fields.get("blocked"))
    if blocked is None:
        message = "geoblock: the response does not say whether this region is blocked; nothing is traded until it does"
        raise MalformedDataError(message)
    if blocked:
        region = " ".join(parse_text(fields.get(name)) for name in ("country", "region")).strip() or "unknown"
        message = f"{REGION_BLOCKED} (region: {region})"
        raise AuthenticationError(message)


async def _require_correct_clock(settings: PolymarketSettings, context: PluginContext) -> None:
    url = build_url(settings, settings.clob_url, "time")
    answer = await context.http.get(url, max_bytes=_MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS)
    venue_time = parse_moment(answer.decode(errors="replace").strip().strip('"'))
    if venue_time is None:
        message = "time: the response is not a time"
        raise MalformedDataError(message)
    local_time: datetime = context.clock.now().astimezone(UTC)
    off_s = (local_time - venue_time).total_seconds()
    if abs(off_s) > _MAX_CLOCK_SKEW_S:
        message = f"the clock of this machine is {off_s:+.0f} s off the venue's, and signs every request: set it (NTP)"
        raise RequestRejectedError(message)
