"""The ForecastBench venue: question sets in, forecast sets out, resolution sets read back.

Facts of a question (all texts): ``id``, ``due_date``; where published also ``freeze_value``, ``freeze_explanation``,
``freeze_at``, ``market_opens_at``, ``market_closes_at`` (moments in ISO 8601, UTC); where questions of the round could
not be read also how many, ``left_out_market`` and ``left_out_dataset``.
"""

from bot.api import Can, VenueSpec, hookimpl
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.rounds import folder_from
from plugins.forecastbench.settings import ForecastBenchSettings
from plugins.forecastbench.terms import VENUE
from plugins.forecastbench.venue import open_reader
from plugins.forecastbench.writer import open_paper_book, open_writer


@hookimpl
def foxcast_venues() -> list[VenueSpec[ForecastBenchSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Fortnightly rounds of market and data-series questions, answered by one file per round",
            abilities=frozenset({Can.SUBMIT, Can.PAPER, Can.ARCHIVE}),
            settings=ForecastBenchSettings,
            reader=open_reader,
            paper=open_paper_book,
            writer=open_writer,
            archive=ForecastBenchArchive,
            archive_folder=folder_from,
        )
    ]
