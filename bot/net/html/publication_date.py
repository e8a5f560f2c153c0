"""The publication date that a page declares in its head or markup.

Nothing is guessed from its prose, as a wrong date would let a page from after a cutoff through.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selectolax.lexbor import LexborHTMLParser

_JSON_LD = re.compile(r'"(?:datePublished|uploadDate|dateCreated)"\s*:\s*"([^"\\]{4,40})"')
_DATE_METAS = (
    "article:published_time",
    "og:published_time",
    "article:published",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.issued",
    "dcterms.created",
    "dc.date.created",
    "citation_publication_date",
    "citation_date",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publishdate",
    "publish-date",
    "publish_date",
    "publication_date",
    "originalpublicationdate",
)
_MOMENT = re.compile(
    r"(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})"
    r"(?:[T ]+(\d{2}):?(\d{2})(?::?(\d{2})(?:[.,]\d{1,9})?)?\s*(Z|UTC|GMT|[+-]\d{2}:?(?:\d{2})?)?)?",
    re.IGNORECASE,
)


def publication_date(tree: LexborHTMLParser) -> datetime | None:
    """Return when the page says that it was published, in UTC, or None; a date without a time is its first moment."""
    for said in _declared_dates(tree):
        if (found := parse_moment(said)) is not None:
            return found
    return None


def parse_moment(text: str) -> datetime | None:
    """Return a date or time of ISO 8601 or RFC 5322 in UTC, taken for UTC where no zone is given, or None."""
    text = text.strip()
    if found := _MOMENT.fullmatch(text):
        day, zone = "-".join(found.group(1, 2, 3)), (found[7] or "Z").upper()
        time = ":".join(part or "00" for part in found.group(4, 5, 6))
        zone = "+00:00" if zone in {"Z", "UTC", "GMT"} else zone
        return _parse_iso(f"{day}T{time}{zone if len(zone) != 3 else zone + ':00'}")
    try:
        parsed = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return _to_utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _declared_dates(tree: LexborHTMLParser) -> Iterator[str]:
    """Yield what the page says of its date, the most trusted way first."""
    metas: dict[str, str] = {}
    for meta in tree.css("meta"):
        name = meta.attributes.get("property") or meta.attributes.get("name") or meta.attributes.get("itemprop") or ""
        metas.setdefault(name.lower(), meta.attributes.get("content") or "")
    yield from (metas[name] for name in _DATE_METAS[:4] if name in metas)
    for script in tree.css('script[type="application/ld+json"]'):
        yield from _JSON_LD.findall(script.text() or "")
    for node in tree.css('[itemprop="datePublished"]'):
        yield node.attributes.get("datetime") or node.attributes.get("content") or node.text()
    yield from (metas[name] for name in _DATE_METAS[4:] if name in metas)
    for node in tree.css("time[pubdate], article time[datetime], header time[datetime]"):
        yield node.attributes.get("datetime") or ""


def _parse_iso(text: str) -> datetime | None:
    try:
        return _to_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def _to_utc(found: datetime) -> datetime | None:
    try:
        inside = found.astimezone(UTC)
    except OverflowError:
        return None
    return inside if inside.year >= 1990 else None
