"""Layer four: addresses that give the answer away are not read, not followed, and not shown.

For a question of an earlier day two things are blocked: the hosts of venues, where the answer of the crowd stands, and
the pages that the question names (its own, and those in its title, criteria and background), where the outcome stands.
Source: BLF (arXiv 2604.18576v3), appendix B, stage 4.

For a live question no page can tell the outcome too early, so only the hosts of venues are blocked. The page that
decides the question must be readable even if it is on such a host. So a page that the title or the criteria name is
read live, with all below it; a mirrored market that is to resolve as its original is the usual case. Three things stay
blocked all the same: the question's own page where it is on such a host (it shows the price of this very market), pages
of such hosts that only the background names (they decide nothing), and hosts that the operator listed.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bot.desk.addresses import (
    Address,
    address_of,
    found_in,
    host_of,
    inner_addresses,
    is_excessive,
    links_in,
    names_any,
    trimmed,
)
from bot.domain.question import Question

REDACTED = "[address left out]"
# The family of questions about series; questions of any other family are taken for markets.
DATA_FAMILY = "dataset"


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocked hosts, with all below them, and blocked pages; ``named`` are pages that are read on blocked hosts too."""

    hosts: frozenset[str] = frozenset()
    pages: tuple[Address, ...] = ()
    named: tuple[Address, ...] = ()

    def refusal(self, url: str) -> str | None:
        """Say why an address must not be read, or None. What cannot be read as an address is refused as well."""
        address = address_of(url)
        if address is None:
            return "this is not an address of the web"
        return "this address is not read for this question" if self._may_lead_to(address, url) else None

    def redacted(self, text: str) -> str:
        """Return the text with each blocked address replaced by ``REDACTED``."""
        if not self.hosts and not self.pages:
            return text
        parts, end = [], 0
        for found in found_in(text):
            bare = trimmed(found.group())
            address = address_of(bare)
            # What has no scheme may be anything with a dot in it: no word is left out for what it only looks like.
            leads = self._may_lead_to if "://" in bare else self._leads_to
            if address is not None and leads(address, bare):
                parts += [text[end : found.start()], REDACTED]
                end = found.start() + len(bare)
        return "".join((*parts, text[end:]))

    def _may_lead_to(self, address: Address, url: str) -> bool:
        """Say whether an address could lead to what is blocked: a good one too many is refused rather than missed."""
        if is_excessive(url):
            return True
        # The host of a named page stands in its address, and so says nothing against it.
        names_host = not self._is_named(address) and names_any(url, self.hosts)
        return names_host or self._leads_to(address, url)

    def _leads_to(self, address: Address, url: str) -> bool:
        return self._holds(address) or any(map(self._holds, inner_addresses(url)))

    def _holds(self, address: Address) -> bool:
        page = address.page if self.pages else address
        if any(blocked.page.covers(page) for blocked in self.pages):
            return True
        return any(address.within(host) for host in self.hosts) and not self._is_named(address)

    def _is_named(self, address: Address) -> bool:
        """Say whether it is a named page, or below one that is no mere listing, with the same query.

        Another query might lead elsewhere; a path of one part, such as ``/markets``, lists everything on its host.
        """
        if not self.named:
            return False
        page = address.page
        same = [named.page for named in self.named if named.page.query == page.query]
        return page in same or any(named.path.count("/") > 1 and named.covers(page) for named in same)


def is_data(question: Question) -> bool:
    """Say whether the question is about a series rather than a market."""
    return question.family == DATA_FAMILY and question.crowd is None


def blocks_of(question: Question, hosts: Iterable[str], *, backdated: bool, never: Iterable[str] = ()) -> Blocks:
    """Return what is blocked for a question: ``hosts`` give answers away, those in ``never`` are not read at all."""
    listed = _names(never)
    names = _names(hosts) | listed
    deciding = [*links_in(question.title), *links_in(question.criteria)]
    if backdated:
        own = [question.url] if question.url else []
        return Blocks(names, _addresses((*own, *deciding, *links_in(question.background))))
    own_page = address_of(question.url) if question.url else None
    blocked = () if own_page is None or not _is_on(own_page, names) else (own_page,)
    inner = (address for url in deciding for address in inner_addresses(url))
    named = (address for address in (*_addresses(deciding), *inner) if not _is_on(address, listed))
    return Blocks(names, blocked, tuple(named) if names else ())


def _names(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset(re.sub(r"^www\.", "", name) for name in map(host_of, hosts) if name)


def _addresses(urls: Iterable[str]) -> tuple[Address, ...]:
    return tuple(address for address in map(address_of, urls) if address is not None)


def _is_on(address: Address, hosts: frozenset[str]) -> bool:
    return any(address.within(host) for host in hosts)
