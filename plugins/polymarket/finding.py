"""Which question a name means: a condition, an event's number, the last part of an address, or an address."""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from bot.api import ContractError, NotFound, Rejected
from plugins.polymarket.client import Client
from plugins.polymarket.groups import Group, Unpacked, event_of_key
from plugins.polymarket.parse import CONDITION, Market

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What to look for: exactly one of these, or ``slug`` where it may name a market or an event."""

    name: str
    condition: str = ""
    event: str = ""
    market_slug: str = ""
    event_slug: str = ""
    slug: str = ""


def named(name: str, site_url: str) -> Finding:
    """Read a name; raises NotFound for one that is none of this venue's."""
    name = name.strip()
    if CONDITION.fullmatch(name.lower()):
        return Finding(name=name, condition=name.lower())
    if (event := event_of_key(name)) is not None and event.isascii() and event.isdigit():
        return Finding(name=name, event=event)
    if "/" in name:
        return _address(name, site_url)
    if _SLUG.fullmatch(name):
        return Finding(name=name, slug=name)
    message = f"{name!r} is no condition (0x...), event:NUMBER, name or address of a market"
    raise NotFound(message)


def _address(name: str, site_url: str) -> Finding:
    url = urlsplit(name if "://" in name else f"https://{name}")
    host = (url.netloc or "").lower().removeprefix("www.")
    if host in {"polymarket.com", urlsplit(site_url).netloc}:
        parts = [unquote(part) for part in url.path.split("/") if part]
        # What stands before is a language.
        match parts[-3:], parts[-2:]:
            case [*_, "event", slug, market], _ if _SLUG.fullmatch(slug) and _SLUG.fullmatch(market):
                return Finding(name=name, market_slug=market)
            case _, ["event", slug] if _SLUG.fullmatch(slug):
                return Finding(name=name, event_slug=slug)
            case _, ["market", slug] if _SLUG.fullmatch(slug):
                return Finding(name=name, market_slug=slug)
    message = f"{name} is no address of a market"
    raise NotFound(message)


async def found(client: Client, finding: Finding) -> Group | Market:
    """Read what was named.

    Raises NotFound where there is nothing, Rejected for an event of several questions, with their names, ContractError
    for a record that cannot be read.
    """
    unpacked = Unpacked()
    if finding.condition:
        for closed in (False, True):
            for record in await client.markets_by_condition([finding.condition], closed=closed):
                unpacked.add_market(record)
    elif finding.market_slug:
        unpacked.add_market(await client.market(finding.market_slug))
    elif finding.event or finding.event_slug:
        await _event(client, finding, unpacked)
    else:
        try:
            unpacked.add_market(await client.market(finding.slug))
        except NotFound:
            unpacked.add_event(await client.event_by_slug(finding.slug))
    return _only(unpacked, finding)


async def as_listed(client: Client, market: Market) -> Market:
    """Return a market as the list of events has it, where it stands there by itself.

    By itself it says less of its event, and would be another version of the same question.
    """
    if not market.home.id:
        return market
    try:
        unpacked = Unpacked()
        unpacked.add_event(await client.event(market.home.id))
    except NotFound:
        return market
    return next((item for item in unpacked.items if isinstance(item, Market) and item.key == market.key), market)


async def _event(client: Client, finding: Finding, unpacked: Unpacked) -> None:
    if finding.event:
        unpacked.add_event(await client.event(finding.event))
    else:
        unpacked.add_event(await client.event_by_slug(finding.event_slug))


def _only(unpacked: Unpacked, finding: Finding) -> Group | Market:
    groups = [item for item in unpacked.items if isinstance(item, Group)]
    if groups:
        return groups[0]
    singles = list({item.condition: item for item in unpacked.items if isinstance(item, Market)}.values())
    if len(singles) == 1:
        return singles[0]
    if singles:
        choices = ", ".join(f"{market.condition} ({market.title})" for market in singles[:20])
        message = f"{finding.name} has {len(singles)} questions, name one of them: {choices}"
        raise Rejected(message)
    if unpacked.complaints:
        raise ContractError(unpacked.complaints[0])
    message = f"there is no market {finding.name}"
    raise NotFound(message)
