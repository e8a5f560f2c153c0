"""What a trial begins with, as it is recorded.

It stays the same when the trial is resumed under another configuration.
"""

from dataclasses import dataclass, field
from datetime import datetime

from bot.core.errors import LeakError
from bot.core.language_models import ToolDefinition
from bot.core.research import SourcePolicy
from bot.forecasting.tools.definitions import LOOKUP_URL, SUMMARIZE_RESULTS, WEB_SEARCH
from bot.forecasting.trial_memory import TrialMemory
from bot.store.serialization import JsonSerializer

REMEDY = "undo the change, or begin anew (a backtest under another --run)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOpening:
    """The policy, all tools that it allows, the addresses that may be read from the beginning, and the guards.

    ``bound`` is the moment before which data is requested, ``content`` whether a model judges texts by their content,
    ``guarded`` whether anything is kept from it at all. ``configuration`` is the digest of the configuration of the
    trial context.
    """

    policy: SourcePolicy = field(default_factory=SourcePolicy)
    tools: tuple[ToolDefinition, ...] = ()
    addresses: tuple[str, ...] = ()
    bound: datetime
    backdated: bool = False
    content: bool = False
    guarded: bool = True
    configuration: str = ""

    def require_same_guard(self, *, guarded: bool, cutoff: datetime, whose: str) -> None:
        """Raise LeakError if the trial may have seen more than it may see now, or may now see more than it did."""
        if self.guarded != guarded:
            began = "under guard against knowing the future" if self.guarded else "free to know the future"
            message = f"{whose} began {began} and cannot continue otherwise: {REMEDY}"
            raise LeakError(message)
        if guarded and self.bound > cutoff:
            message = (
                f"{whose} began with what was known before {self.bound.isoformat()}, and its cutoff is "
                f"{cutoff.isoformat()} now: {REMEDY}"
            )
            raise LeakError(message)

    def offered_tools(self, memory: TrialMemory) -> tuple[ToolDefinition, ...]:
        """Return the tools that may be used now."""
        return tuple(tool for tool in self.tools if self.obstacle(tool.name, memory) is None)

    def obstacle(self, name: str, memory: TrialMemory) -> str | None:
        """Say in words for the model why one of the tools cannot be used now; None if it can."""
        first = self.policy.first
        if first not in {None, name, *memory.used_tools} and any(tool.name == first for tool in self.tools):
            return f"{first} has to be used first"
        if name == WEB_SEARCH:
            return self._search_obstacle(memory)
        if name == SUMMARIZE_RESULTS and not memory.found_anything:
            return "no search has found anything that could be read"
        if name == LOOKUP_URL and self.backdated and not memory.knows_addresses:
            return "no address is known yet; those of search results and of pages can be read"
        return None

    def _search_obstacle(self, memory: TrialMemory) -> str | None:
        most = self.policy.searches
        if most is None or memory.search_count < most:
            return None
        if most == 0:
            return "questions of this source are answered without web searches"
        return f"all {most} web searches of this question are used up" if most > 1 else "the one web search is used up"


OPENING_SERIALIZER: JsonSerializer[TrialOpening] = JsonSerializer("beginning of a trial", TrialOpening)
