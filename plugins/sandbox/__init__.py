"""The sandbox: a search engine and a data source of a simulated world on this machine; nothing of it is real.

Both read a service on a loopback address (``bot.testing.world.web``) and refuse to be pointed anywhere else, so that
nobody takes them for sources. Summaries, titles and results say that they are a simulation.
"""

from bot.api import Can, DataSpec, SearchSpec, SourcePolicy, hookimpl
from plugins.sandbox.news import ENGINE, open_news
from plugins.sandbox.place import SandboxPlace
from plugins.sandbox.series import SERVES, SOURCE, open_series


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[SandboxPlace]]:
    """Offer the press of the simulated world."""
    return [
        SearchSpec(
            name=ENGINE,
            summary="Simulation: the invented press of the sandbox, with dates and texts; no key, this machine only",
            abilities=frozenset({Can.SEARCH_BEFORE_DATE, Can.SEARCH_TEXT}),
            settings=SandboxPlace,
            open=open_news,
        )
    ]


@hookimpl
def foxcast_data_sources() -> list[DataSpec[SandboxPlace]]:
    """Offer the statistical office of the simulated world."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Simulation: the invented series of the sandbox as they stood at any moment; this machine only",
            abilities=frozenset({Can.SERIES, Can.VINTAGES}),
            settings=SandboxPlace,
            open=open_series,
            serves=SERVES,
            policy=SourcePolicy(),
        )
    ]
