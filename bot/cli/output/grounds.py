"""What a trial could rest on, out of its record: whether it could search, and which sources it names that are none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.desk.opening import Opening
from bot.desk.tools.search import NAME as WEB_SEARCH
from bot.lab.chain import RESULT, Chain

# What the desk calls a page that it read, besides what it calls the result of a search.
PAGE = re.compile(r"\bpage_[0-9a-f]{8}\b")
NO_SOURCE = "no such source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What one trial began with, None where it had no desk, and the names of the pages that it read."""

    opening: Opening | None = None
    pages: frozenset[str] = frozenset()

    @property
    def unsearched(self) -> str | None:
        """Why it could not search the web, where that is so."""
        opening = self.opening
        if opening is None or opening.policy.bypass:
            return None
        policy = opening.policy
        allowed = policy.tools is None or WEB_SEARCH in {*policy.tools, policy.first}
        if not allowed or policy.searches == 0:
            return f"{WEB_SEARCH}: left out, questions of this source are worked on without it"
        if any(tool.name == WEB_SEARCH for tool in opening.tools):
            return None
        if opening.backdated:
            return f"{WEB_SEARCH}: left out, no search engine that can bound dates was enabled"
        return f"{WEB_SEARCH}: left out, no search engine was enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the evidence of a forecast comes from; ``grounds`` are those of its trials, by number."""

    chain: Chain
    grounds: Mapping[int, Grounds] = field(default_factory=dict)

    def missing(self, trial: int, source: str) -> tuple[str, ...]:
        """Return the names in a source that look like the desk's and that this trial was never told."""
        pages = self.grounds.get(trial, Grounds()).pages
        results = (name for name in RESULT.findall(source) if self.chain.address(trial, name) is None)
        return (*results, *(name for name in PAGE.findall(source) if name not in pages))

    def remark(self, trial: int, source: str) -> str:
        """Return what is to be said behind a source, "" where nothing is wrong with it."""
        missing = self.missing(trial, source)
        if not missing:
            return ""
        return f" ({NO_SOURCE})" if missing == (source,) else f" ({NO_SOURCE}: {', '.join(missing)})"


def unsearched_in_words(grounds: Mapping[int, Grounds]) -> list[str]:
    """Return why trials could not search, a line for each reason; the trials are named where others could."""
    trials: dict[str, list[int]] = {}
    for number, one in sorted(grounds.items()):
        if (why := one.unsearched) is not None:
            trials.setdefault(why, []).append(number)
    if any(len(numbers) < len(grounds) for numbers in trials.values()):
        return [f"{why} (trial {', '.join(map(str, numbers))})" for why, numbers in trials.items()]
    return [*trials]
