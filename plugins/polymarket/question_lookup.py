"""Finds a question by name: a condition, an event's number, the last part of an address, or an address."""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from bot.api import MalformedDataError, NotFoundError, RequestRejectedError
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.event_groups import EventGroup, PolymarketParsedEvents, event_id_of_key
from plugins.polymarket.market_parser import CONDITION_PATTERN, PolymarketMarket

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketLookup:
    """What to look for: exactly one of these, or ``slug`` if it may name a market or an event."""

    name: str
    condition: str = ""
    event: str = ""
    market_slug: str = ""
    event_slug: str = ""
    slug: str = ""


def parse_lookup(name: str, site_url: str) -> PolymarketLookup:
    """Parse a name; raises NotFoundError if it is not of this venue."""
    name = name.strip()
    if CONDITION_PATTERN.fullmatch(name.lower()):
        return PolymarketLookup(name=name, condition=name.lower())
    if (event := event_id_of_key(name)) is not None and event.isascii() and event.isdigit():
        return PolymarketLookup(name=name, event=event)
    if "/" in name:
        return _parse_url(name, site_url)
    if _SLUG.fullmatch(name):
        return PolymarketLookup(name=name, slug=name)
    message = f"{name!r} is not a condition (0x...), event:NUMBER, name or address of a market"
    raise NotFoundError(message)


def _parse_url(name: str, site_url: str) -> PolymarketLookup:
    try:
        url = urlsplit(name if "://" in name else f"https://{name}")
    except ValueError:  # an open bracket
        url = urlsplit("")
    host = (url.netloc or "").lower().removeprefix("www.")
    if host in {"polymarket.com", urlsplit(site_url).netloc}:
        parts = [unquote(part) for part in url.path.split("/") if part]
        # A part before them is a language.
        match parts[-3:], parts[-2:]:
            case [*_, "event", slug, market], _ if _SLUG.fullmatch(slug) and _SLUG.fullmatch(market):
                return PolymarketLookup(name=name, market_slug=market)
            case _, ["event", slug] if _SLUG.fullmatch(slug):
                return PolymarketLookup(name=name, event_slug=slug)
            case _, ["market", slug] if _SLUG.fullmatch(slug):
                return PolymarketLookup(name=name, market_slug=slug)
    message = f"{name} is not the address of a market"
    raise NotFoundError(message)


async def find_question_item(client: PolymarketClient, lookup: PolymarketLookup) -> EventGroup | PolymarketMarket:
    """Read the market or event of a lookup.

    Raises NotFoundError if there is none, RequestRejectedError for an event of several questions, with their names,
    MalformedDataError for an invalid record.
    """
    unpacked = PolymarketParsedEvents()
    if lookup.condition:
        for closed in (False, True):
            for record in await client.markets_by_condition([lookup.condition], closed=closed):
                unpacked.add_market(record)
    elif lookup.market_slug:
        unpacked.add_market(await client.market(lookup.market_slug))
    elif lookup.event or lookup.event_slug:
        await _add_event(client, lookup, unpacked)
    else:
        try:
            unpacked.add_market(await client.market(lookup.slug))
        except NotFoundError:
            unpacked.add_event(await client.event_by_slug(lookup.slug))
    return _single_item(unpacked, lookup)


async def market_as_listed(client: PolymarketClient, market: PolymarketMarket) -> PolymarketMarket:
    """Return a market as the list of events has it, if it is a single market there.

    Read alone it has less of its event, and would be another version of the same question.
    """
    if not market.event.id:
        return market
    try:
        unpacked = PolymarketParsedEvents()
        unpacked.add_event(await client.event(market.event.id))
    except NotFoundError:
        return market
    return next(
        (item for item in unpacked.items if isinstance(item, PolymarketMarket) and item.key == market.key), market
    )


async def _add_event(client: PolymarketClient, lookup: PolymarketLookup, unpacked: PolymarketParsedEvents) -> None:
    if lookup.event:
        unpacked.add_event(await client.event(lookup.event))
    else:
        unpacked.add_event(await client.event_by_slug(lookup.event_slug))


def _single_item(unpacked: PolymarketParsedEvents, lookup: PolymarketLookup) -> EventGroup | PolymarketMarket:
    groups = [item for item in unpacked.items if isinstance(item, EventGroup)]
    if groups:
        return groups[0]
    singles = list({item.condition: item for item in unpacked.items if isinstance(item, PolymarketMarket)}.values())
    if len(singles) == 1:
        return singles[0]
    if singles:
        choices = ", ".join(f"{market.condition} ({market.title})" for market in singles[:20])
        message = f"{lookup.name} has {len(singles)} questions, name one of them: {choices}"
        raise RequestRejectedError(message)
    if unpacked.complaints:
        raise MalformedDataError(unpacked.complaints[0])
    message = f"there is no market {lookup.name}"
    raise NotFoundError(message)
