"""Layer four: addresses that give the answer away are not read, not followed, and not shown.

Blocked are the hosts of venues, and the pages that a question itself names: its own, and those in its criteria and
background, where the answer will stand. A question about data names the page of its data, which is what it should be
worked on with; that is blocked only where the page as it is now would tell too much.
Source: BLF (arXiv 2604.18576v3), appendix B, stage 4.
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
    """Blocked hosts, with all below them, and blocked pages."""

    hosts: frozenset[str] = frozenset()
    pages: tuple[Address, ...] = ()

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
        return is_excessive(url) or names_any(url, self.hosts) or self._leads_to(address, url)

    def _leads_to(self, address: Address, url: str) -> bool:
        return self._holds(address) or any(map(self._holds, inner_addresses(url)))

    def _holds(self, address: Address) -> bool:
        if any(address.within(host) for host in self.hosts):
            return True
        page = address.page if self.pages else address
        return any(blocked.page.covers(page) for blocked in self.pages)


def is_data(question: Question) -> bool:
    """Say whether the question is about a series rather than a market."""
    return question.family == DATA_FAMILY and question.crowd is None


def blocks_of(question: Question, hosts: Iterable[str], *, backdated: bool) -> Blocks:
    """Return what is blocked for a question, besides the given hosts."""
    names = frozenset(re.sub(r"^www\.", "", name) for name in map(host_of, hosts) if name)
    if is_data(question) and not backdated:
        return Blocks(names)
    own = [question.url] if question.url else []
    named = [address_of(url) for url in (*own, *links_in(question.criteria), *links_in(question.background))]
    return Blocks(names, tuple(address for address in named if address is not None))
