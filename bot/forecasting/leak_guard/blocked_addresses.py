"""Layer four: addresses that give the answer away are not read, not followed, and not shown.

For a question of an earlier day two things are blocked: the hosts of venues, which show the crowd's answer, and the
pages that the question names (its own, and those in its title, criteria and background), which show the outcome.
Source: BLF (arXiv 2604.18576v3), appendix B, stage 4.

For a live question no page can show the outcome too early, so only the hosts of venues are blocked. The page that
decides the question must be readable even if it is on such a host. So a page that the title or the criteria name is
read live, with all pages below it; the usual case is a mirrored market that resolves like its original. Three things
remain blocked: the question's own page on such a host (it shows the price of this very market), pages of such hosts
that only the background names (they decide nothing), and hosts that the operator listed.
"""

import re
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache

from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.forecasting.web_addresses import (
    REMEMBERED_CHARS,
    REMEMBERED_TEXTS,
    WebAddress,
    find_addresses,
    find_inner_addresses,
    find_links,
    is_too_complex,
    mentions_host,
    parse_address,
    parse_host,
    trim_punctuation,
)

REDACTED = "[address left out]"
NOT_AN_ADDRESS = "this is not an address of the web"
BLOCKED_ADDRESS = "this address is not read for this question"
# Why an address is not read: no other error of a fetch has these words.
REFUSALS = frozenset({NOT_AN_ADDRESS, BLOCKED_ADDRESS})
# The family of questions about series; questions of any other family are treated as markets.
DATA_FAMILY = "dataset"


@dataclass(frozen=True, slots=True)
class BlockedAddresses:
    """Blocked hosts, with everything below them, and blocked pages.

    ``allowed_pages`` may be read even on blocked hosts.
    """

    hosts: frozenset[str] = frozenset()
    pages: tuple[WebAddress, ...] = ()
    allowed_pages: tuple[WebAddress, ...] = ()
    # What was found of short addresses: each of a search is examined when it comes, and again when it is shown.
    _verdicts: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def refusal(self, url: str) -> str | None:
        """Say why an address must not be read, or None. A text that is not an address is refused too."""
        address = parse_address(url)
        if address is None:
            return NOT_AN_ADDRESS
        return BLOCKED_ADDRESS if self._may_lead_to(address, url) else None

    def redact(self, text: str) -> str:
        """Return the text with each blocked address replaced by ``REDACTED``."""
        may_hold_address = "." in text or ":/" in text
        if not may_hold_address or not (self.hosts or self.pages):
            return text
        parts: list[str] = []
        end = 0
        for found in find_addresses(text):
            bare = trim_punctuation(found.group())
            address = parse_address(bare)
            # Text without a scheme may be anything with a dot in it: looking like an address is not enough.
            leads = self._may_lead_to if "://" in bare else self._leads_to
            if address is not None and leads(address, bare):
                parts += [text[end : found.start()], REDACTED]
                end = found.start() + len(bare)
        return "".join((*parts, text[end:])) if parts else text

    def _may_lead_to(self, address: WebAddress, url: str) -> bool:
        """Say whether an address could lead to a blocked page: refusing a good address is better than missing one."""
        known = self._verdicts.get(url)
        if known is None:
            known = self._examine(address, url)
            if len(url) <= REMEMBERED_CHARS and len(self._verdicts) < REMEMBERED_TEXTS:
                self._verdicts[url] = known
        return known

    def _examine(self, address: WebAddress, url: str) -> bool:
        if is_too_complex(url):
            return True
        # The address of a named page contains its host, so that says nothing against it.
        names_host = not self._is_named(address) and mentions_host(url, self.hosts)
        return names_host or self._leads_to(address, url)

    def _leads_to(self, address: WebAddress, url: str) -> bool:
        if self._is_blocked(address):
            return True
        inner = find_inner_addresses(url)
        return bool(inner) and any(map(self._is_blocked, inner))

    def _is_blocked(self, address: WebAddress) -> bool:
        if self.pages:
            page = address.page
            if any(blocked.page.covers(page) for blocked in self.pages):
                return True
        return address.is_on_hosts(self.hosts) and not self._is_named(address)

    def _is_named(self, address: WebAddress) -> bool:
        """Say whether it is a named page, or below one that is not just a listing, with the same query.

        Another query might lead elsewhere; a path of one part, such as ``/markets``, lists everything on its host.
        """
        if not self.allowed_pages:
            return False
        page = address.page
        same = [named.page for named in self.allowed_pages if named.page.query == page.query]
        return page in same or any(named.path.count("/") > 1 and named.covers(page) for named in same)


def is_series_question(question: Question) -> bool:
    """Say whether the question is about a series rather than a market."""
    return question.family == DATA_FAMILY and question.crowd is None


def find_blocked_addresses(
    question: Question, hosts: Iterable[str], *, backdated: bool, never: Iterable[str] = ()
) -> BlockedAddresses:
    """Return what is blocked for a question: ``hosts`` reveal answers, those in ``never`` are not read at all."""
    listed = _normalize_hosts(frozenset(never))
    names = _normalize_hosts(frozenset(hosts)) | listed
    deciding = [*find_links(question.title), *find_links(question.criteria)]
    if backdated:
        own = [question.url] if question.url else []
        return BlockedAddresses(names, _parse_addresses((*own, *deciding, *find_links(question.background))))
    own_page = parse_address(question.url) if question.url else None
    blocked = () if own_page is None or not own_page.is_on_hosts(names) else (own_page,)
    inner = (address for url in deciding for address in find_inner_addresses(url))
    named = (address for address in (*_parse_addresses(deciding), *inner) if not address.is_on_hosts(listed))
    return BlockedAddresses(names, blocked, tuple(named) if names else ())


# They are those of config and plugins, the same for every trial.
@lru_cache(maxsize=16)
def _normalize_hosts(hosts: frozenset[str]) -> frozenset[str]:
    return frozenset(re.sub(r"^www\.", "", name) for name in map(parse_host, hosts) if name)


def _parse_addresses(urls: Iterable[str]) -> tuple[WebAddress, ...]:
    return tuple(address for address in map(parse_address, urls) if address is not None)
