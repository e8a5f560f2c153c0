"""What a trial begins with, on record: it is the same when the trial is taken up under another configuration."""

from dataclasses import dataclass, field
from datetime import datetime

from bot.desk.notebook import Notebook
from bot.desk.tools import lookup, search, summary
from bot.domain.prompt import Tool
from bot.domain.research import SourcePolicy
from bot.errors import LeakError
from bot.store.codec import Form

REMEDY = "undo the change, or begin anew (a backtest under another --run)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The policy, all tools that it lets be used, the addresses that may be read from the beginning, and the guards.

    ``bound`` is the moment before which data is asked for, ``content`` whether a model judges texts by what they tell,
    ``guarded`` whether anything is kept from it at all. ``configuration`` is the digest of what the desk was put
    together from.
    """

    policy: SourcePolicy = field(default_factory=SourcePolicy)
    tools: tuple[Tool, ...] = ()
    addresses: tuple[str, ...] = ()
    bound: datetime
    backdated: bool = False
    content: bool = False
    guarded: bool = True
    configuration: str = ""

    def require(self, *, guarded: bool, cutoff: datetime, whose: str) -> None:
        """Raise LeakError where the trial may have seen more than it may see now, or is to see what it did not."""
        if self.guarded != guarded:
            began = "under guard against knowing the future" if self.guarded else "free to know the future"
            message = f"{whose} began {began} and cannot go on otherwise: {REMEDY}"
            raise LeakError(message)
        if guarded and self.bound > cutoff:
            message = (
                f"{whose} began with what was known before {self.bound.isoformat()}, and its cutoff is "
                f"{cutoff.isoformat()} now: {REMEDY}"
            )
            raise LeakError(message)

    def offered(self, notebook: Notebook) -> tuple[Tool, ...]:
        """Return the tools that may be used now."""
        return tuple(tool for tool in self.tools if self.obstacle(tool.name, notebook) is None)

    def obstacle(self, name: str, notebook: Notebook) -> str | None:
        """Say in words for the model why one of the tools cannot be used now; None where it can."""
        first = self.policy.first
        if first not in {None, name, *notebook.used} and any(tool.name == first for tool in self.tools):
            return f"{first} has to be used first"
        if name == search.NAME:
            return self._no_search(notebook)
        if name == summary.NAME and not notebook.found_anything:
            return "no search has found anything that could be read"
        if name == lookup.NAME and self.backdated and not notebook.knows_addresses:
            return "no address is known yet; those of search results and of pages can be read"
        return None

    def _no_search(self, notebook: Notebook) -> str | None:
        most = self.policy.searches
        if most is None or notebook.search_count < most:
            return None
        if most == 0:
            return "questions of this source are answered without web searches"
        return f"all {most} web searches of this question are used up" if most > 1 else "the one web search is used up"


OPENING: Form[Opening] = Form("beginning of a trial", Opening)
