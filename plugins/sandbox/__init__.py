"""The sandbox: a search engine and a data source of a simulated world on this machine; nothing in it is real.

Both read a service on a loopback address (``bot.simulator.world.news_server``) and refuse any other address, so that
nobody takes them for real sources. Summaries, titles and results say that they are a simulation.
"""

from bot.api import DataSpec, SearchSpec, SourcePolicy, hookimpl
from plugins.sandbox.news import ENGINE, open_news
from plugins.sandbox.series import QUESTION_SOURCES, SOURCE, open_series
from plugins.sandbox.settings import SandboxSettings


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[SandboxSettings]]:
    """Offer the press of the simulated world."""
    return [
        SearchSpec(
            name=ENGINE,
            summary="Simulation: the invented press of the sandbox, with dates and texts; no key, this machine only",
            bounds_dates=True,
            settings=SandboxSettings,
            open=open_news,
        )
    ]


@hookimpl
def foxcast_data_sources() -> list[DataSpec[SandboxSettings]]:
    """Offer the statistical office of the simulated world."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Simulation: the invented series of the sandbox as they stood at any moment; this machine only",
            settings=SandboxSettings,
            open=open_series,
            question_sources=QUESTION_SOURCES,
            policy=SourcePolicy(),
        )
    ]
